"""Energy of inferences: what a recording tells, traces, and the meters' real packages.

No meter is here. Nordic's package talks to a program on a pseudo-terminal that answers as its kit
does; Joulescope's device class gets its samples from a driver made here.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import struct
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from descriptions import description_text

import hil
from hil.board import load_board
from hil.cli import main
from hil.energy import Energy, Meter, Recording, check_spec, energy_of, opened_meter, register_meter
from hil.energy.trace import read_trace
from hil.errors import BoardError, DeviceError, InputError
from hil.results.codec import encode

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
DT = 1e-5


def recording(trigger: Any, current: Any = 0.01, voltage: Any = 3.0) -> Recording:
    high = np.asarray(trigger, dtype=bool)
    each = np.ones(len(high))
    return Recording(np.arange(len(high)) * DT, current * each, voltage * each, high, "a trace")


def pulses(*widths: int, gap: int = 50) -> np.ndarray[Any, Any]:
    parts = [np.zeros(gap)]
    for width in widths:
        parts += [np.ones(width), np.zeros(gap)]
    return np.concatenate(parts) > 0


def test_energy_is_the_integral_between_the_edges() -> None:
    """Of a power that varies over each inference; exact to one sample at each end."""
    high = pulses(100, 100, 200)
    time_s = np.arange(len(high)) * DT
    current = 0.001 + 0.02 * np.abs(np.sin(40_000 * time_s)) * high
    voltage = 3.0 + 0.1 * np.cos(900 * time_s)
    found = energy_of(Recording(time_s, current, voltage, high, "a trace"))
    starts = np.flatnonzero(np.diff(high.astype(int)) == 1) + 1
    for (joules, seconds), start, width in zip(found.windows, starts, (100, 100, 200), strict=True):
        assert seconds == pytest.approx(width * DT)
        # A sum of rectangles, which is another rule.
        power = (current * voltage)[start : start + width]
        assert joules == pytest.approx(power.sum() * DT, abs=0.021 * 3.1 * DT)
    assert found.per_inference_j == sorted(joules for joules, _ in found.windows)[1]
    assert found.idle_w == pytest.approx(0.003, rel=0.04)


def test_energy_of_a_constant_power_is_exact() -> None:
    data = encode(energy_of(recording(pulses(100, 300, 200))).entry())
    assert data == {
        "source": "a trace",
        "inferences": 3,
        "per_inference_uj": pytest.approx(60),
        "min_uj": pytest.approx(30),
        "max_uj": pytest.approx(90),
        "duration_us": pytest.approx(2000),
        "mean_power_mw": pytest.approx(30),
        "idle_power_mw": pytest.approx(30),
    }


def test_windows_that_are_cut_off_do_not_count() -> None:
    high = pulses(100, 200, 300)
    cut = recording(high[80:-80])  # within the first and the last
    assert [round(s / DT) for _, s in energy_of(cut).windows] == [200]
    whole = Energy("x", ((1.0, 1.0),), None)
    assert encode(whole.entry())["idle_power_mw"] is None


@pytest.mark.parametrize(
    ("high", "message"),
    [
        (np.zeros(100), "the trigger is never high"),
        (np.ones(100), "the trigger is always high"),
        (np.arange(100) > 50, "not high from a rising to a falling edge"),
        (np.arange(100) < 50, "not high from a rising to a falling edge"),
        (pulses(100, 9), "an inference has 9 samples only"),
        (np.zeros(0), "in 0 samples the trigger is"),
    ],
)
def test_recordings_without_inferences(high: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        energy_of(recording(high))


def test_samples_that_are_none() -> None:
    with pytest.raises(InputError, match="sample 3 has no current"):
        recording(pulses(5), current=np.where(np.arange(105) == 3, np.nan, 1.0))
    with pytest.raises(InputError, match="the time of sample 1 is not after"):
        Recording(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2, bool), "t")
    with pytest.raises(InputError, match="are no samples"):
        Recording(np.arange(2.0), np.zeros(3), np.zeros(2), np.zeros(2, bool), "t")


# -- traces ----------------------------------------------------------------------------------------


def lines(head: str, *columns: Any) -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in zip(*columns, strict=True))])


HIGH = pulses(20, 40, gap=10).astype(int)
INDEX = np.arange(len(HIGH))
MARKS = ["start" if i in (10, 40) else "stop" if i in (30, 80) else "" for i in INDEX]
SAME = (np.full(len(HIGH), 0.01), np.full(len(HIGH), 3))

TRACES = {
    "plain": lines("time,current,voltage,trigger", INDEX * 1e-4, *SAME, HIGH),
    "units": lines("Time (us);".replace(";", ",") + "current [mA],Voltage(mV),trigger (V)",
                   INDEX * 100, SAME[0] * 1e3, SAME[1] * 1e3, HIGH * 3.3),
    "Nordic's": lines("Timestamp(ms),Current(uA),D0,D1,Voltage(V)",
                      INDEX / 10, SAME[0] * 1e6, HIGH, 1 - HIGH, SAME[1]),
    "markers": lines("voltage,marker,time,current", SAME[1], MARKS, INDEX * 1e-4, SAME[0]),
    "remarks": "\ufeff" + lines("time,current,voltage,trigger", INDEX * 1e-4, *SAME, HIGH)
    .replace("\n", "\r\n\r\n# a remark, with a comma\r\n", 3),
}  # fmt: skip


@pytest.mark.parametrize("case", TRACES)
def test_forms_of_traces(case: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACES[case], encoding="utf-8")
    data = encode(energy_of(read_trace(tmp_path / "t.csv")).entry())
    assert data["inferences"] == 2
    assert data["min_uj"] == pytest.approx(60)
    assert data["max_uj"] == pytest.approx(120)


BAD_TRACES = {
    "": "has no column 'time'",
    "time,current,voltage\n1,2,3": "has no column 'trigger'",
    "time,current,trigger\n1,2,3": "has no column 'voltage'",
    "time,time,current,voltage,trigger\n1,1,2,3,0": "two columns 'time'",
    "time (h),current,voltage,trigger\n1,2,3,0": "the unit 'h' of the column 'time'",
    "time,current,voltage,trigger\n1,2,3,0\n2,x,3,0": "line 3: current is 'x', not a number",
    "time,current,voltage,trigger\n1,1_0,3,0": "line 2: current is '1_0', not a number",
    "time,current,voltage,trigger\n1,2,nan,0": "line 2: voltage is 'nan', not a number",
    "time,current,voltage,trigger\n1,2,3": "line 2: 3 cells of 4",
    "time,current,voltage,marker\n1,2,3,go": "line 2: the marker 'go' is not known",
    "time,current,voltage,trigger\n2,2,3,0\n1,2,3,0": "the time of sample 1 is not after",
}


@pytest.mark.parametrize("text", BAD_TRACES)
def test_what_is_no_trace(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        energy_of(read_trace(path))
    assert BAD_TRACES[text] in caught.value.fact
    assert str(path) in caught.value.fact


def test_bytes_are_no_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"time\xff\xfe")
    with pytest.raises(InputError, match="it is not text"):
        read_trace(tmp_path / "t.csv")


def test_bench_with_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TRACES["plain"])
    words = ["bench", str(DIGITS), "--board", "mps2-an386", "--no-history"]
    assert main([*words, "--energy", f"trace:{path}", "--json"]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["energy"]["per_inference_uj"] == pytest.approx(90)
    assert report["energy"]["source"] == str(path)
    (tmp_path / "base.json").write_text(json.dumps(report))
    more = {**report, "energy": {**report["energy"], "per_inference_uj": 92.0}}
    more["provenance"] = {**report["provenance"], "run": "another"}
    (tmp_path / "now.json").write_text(json.dumps(more))
    gate = ["gate", str(tmp_path / "now.json"), "--baseline", str(tmp_path / "base.json")]
    assert main([*gate, "--max-energy", "3%"]) == 0
    assert main([*gate, "--max-energy", "2%"]) == 1
    assert "energy 92.0 uJ: 2 more than 90 (+2.22 %)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tracer:x", "unknown meter 'tracer'"),
        ("trace", "has no file"),
        ("trace:none.csv", "there is no trace none.csv"),
        ("ppk2:source_mv=3300", "measures real boards, and this one is emulated"),
        ("joulescope", "measures real boards, and this one is emulated"),
    ],
)
def test_meters_that_cannot_be_used(
    spec: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(DIGITS), "--board", "mps2-an386", "--energy", spec]) == 2
    assert message in capsys.readouterr().err


def test_a_meter_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.energy.registry._METERS", {})

    class Recorder:
        def start(self) -> None: ...

        def stop(self) -> Recording:
            return recording(pulses(100))

    @contextmanager
    def opened(argument: str) -> Iterator[Recorder]:
        if argument == "broken":
            raise ValueError("no current here")
        yield Recorder()

    register_meter(Meter("own", opened, lambda argument: None, is_live=False))
    check_spec("own:7", is_emulated=True)
    with opened_meter("own:7") as recorder:
        recorder.start()
        assert energy_of(recorder.stop()).per_inference_j == pytest.approx(30e-6)
    with pytest.raises(InputError, match="already"):
        register_meter(Meter("own", opened, lambda argument: None))


# -- the trigger -----------------------------------------------------------------------------------

#: The LEDs of the MPS2 boards, at the address of their register; QEMU tells each write of it.
_LEDS = 0x4002_8000
_WRITE = re.compile(r"mps2_fpgaio_write .*offset 0x0 data (0x[0-9a-f]+)")


def _traced_qemu(folder: Path, log: Path) -> Path:
    """Make a folder with a QEMU that writes each access to the LEDs to ``log``."""
    program = folder / "bin" / "qemu-system-arm"
    program.parent.mkdir()
    real = shutil.which(program.name)
    traced = f"-trace mps2_fpgaio_write -D {shlex.quote(str(log))}"
    program.write_text(f'#!/bin/sh\nexec {real} "$@" {traced}\n')
    program.chmod(0o755)
    return program.parent


def test_the_firmware_drives_the_trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """High during each inference and at no other time, for the same count."""
    text = description_text("mps2-an386")
    log = tmp_path / "trace.txt"
    trigger = (
        f"[trigger]\nsetup = [{_LEDS:#x}, 0x3, 0x2]\n"
        f"high = [{_LEDS:#x}, 3]\nlow = [{_LEDS:#x}, 0]\n"
    )
    place = tmp_path / "lit.toml"
    place.write_text(text.replace("[[runner]]\n", f"{trigger}\n[[runner]]\n", 1))
    library = hil.compile(DIGITS, board="mps2-an386")
    counts = {}
    path = os.environ["PATH"]
    for board, folders in (
        (str(place), f"{_traced_qemu(tmp_path, log)}{os.pathsep}{path}"),
        ("mps2-an386", path),
    ):
        monkeypatch.setenv("PATH", folders)
        with hil.open(board, library) as device:
            model = device["digits"]
            counts[board] = [model.run().count for _ in range(3)]
    assert len(set(map(tuple, counts.values()))) == 1
    written = [int(value, 16) for value in _WRITE.findall(log.read_text())]
    assert written == [2, 0, *[3, 0] * 3]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("high = [4, 1]\nlow = [4, 0]", "trigger.setup"),
        ("high = [4]\nlow = [4, 0]\nsetup = [4, 1, 1]", "1 numbers are not [ADDRESS, VALUE]"),
        ("high = [4, 1, 4, 1]\nlow = [4, 0]\nsetup = [4, 1, 1]", "4 numbers are not"),
        ("high = [4, 1]\nlow = [4, 0]\nsetup = [4, 1]", "not [ADDRESS, MASK, VALUE, ...]"),
        ("high = [5, 1]\nlow = [4, 0]\nsetup = [4, 1, 1]", "a multiple of 4"),
        ("high = [4, 0x100000000]\nlow = [4, 0]\nsetup = [4, 1, 1]", "values of 32 bits"),
        ("pin = 3\nhigh = [4, 1]\nlow = [4, 0]\nsetup = [4, 1, 1]", "trigger.pin"),
    ],
)
def test_what_is_no_trigger(lines: str, message: str, tmp_path: Path) -> None:
    place = tmp_path / "lit.toml"
    place.write_text(f"{description_text('mps2-an386')}\n[trigger]\n{lines}\n")
    with pytest.raises(BoardError) as caught:
        load_board(place)
    assert message in str(caught.value)
    assert str(place) in str(caught.value)


# -- Nordic's PPK2 ---------------------------------------------------------------------------------

_METADATA = "Calibrated: 1\n" + "".join(
    f"R{i}: {100.0 / 10**i}\nGS{i}: 0\nGI{i}: 1\nO{i}: 0\nS{i}: 0\nI{i}: 0\nUG{i}: 1\n"
    for i in range(5)
)


class Kit:
    """A program on a pseudo-terminal that answers as a PPK2: calibration, then samples."""

    def __init__(self, words: bytes, *, answers: bool = True) -> None:
        self.commands: list[int] = []
        self._words, self._answers = words, answers
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            while data := os.read(self._master, 64):
                self.commands += data
                if 0x19 in data and self._answers:
                    os.write(self._master, (_METADATA + "END\n").encode())
                if 0x06 in data:
                    # In pieces that are no whole samples.
                    for at in range(0, len(self._words), 333):
                        os.write(self._master, self._words[at : at + 333])
        except OSError:
            pass

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


def words_of(high: Any, code: int, scale: int = 2, channel: int = 3) -> bytes:
    """Samples as the kit sends them: 14 bits of the converter, 3 of the range, 8 of logic."""
    values = [code | scale << 14 | (int(bit) << channel) << 24 for bit in high]
    return struct.pack(f"<{len(values)}I", *values)


@pytest.fixture
def kit() -> Iterator[Callable[..., Kit]]:
    pytest.importorskip("ppk2_api")
    made: list[Kit] = []

    def make(*args: Any, **options: Any) -> Kit:
        made.append(Kit(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_ppk2_by_nordics_package(kit: Callable[..., Kit]) -> None:
    sent = kit(words_of(pulses(100, 200), code=1000))
    spec = f"ppk2:port={sent.port},source_mv=3000,trigger=3"
    check_spec(spec, is_emulated=False)
    with opened_meter(spec) as recorder:
        for _ in range(2):  # a second recording has none of the first
            recorder.start()
            found = recorder.stop()
            assert len(found.time_s) == 450
            # The converter's value times four, 1.8 V / 163840 a step, over 1 ohm.
            assert found.current_a == pytest.approx(1000 * 4 * 1.8 / 163840 / 1.0)
            data = encode(energy_of(found).entry())
            power_w = 3.0 * found.current_a[0]
            assert data["min_uj"] == pytest.approx(1e6 * power_w * 100e-5)
            assert data["max_uj"] == pytest.approx(1e6 * power_w * 200e-5)
    # Supplies the board: source mode, regulator to 3000 mV, output on.
    text = bytes(sent.commands)
    assert text.startswith(b"\x19\x11\x02\x0d")
    assert b"\x0c\x01" in text
    assert text.count(b"\x06") >= 2


def test_a_ppk2_that_only_watches(kit: Callable[..., Kit]) -> None:
    sent = kit(words_of(pulses(50), code=10, channel=0))
    with opened_meter(f"ppk2:port={sent.port},supply_mv=1800") as recorder:
        recorder.start()
        assert set(recorder.stop().voltage_v) == {1.8}
    text = bytes(sent.commands)
    assert text.startswith(b"\x19\x11\x01\x0d")
    assert b"\x0c\x01" not in text


def test_what_is_no_ppk2(kit: Callable[..., Kit]) -> None:
    silent = kit(b"", answers=False)
    spec = f"ppk2:port={silent.port},supply_mv=3300"
    with pytest.raises(DeviceError, match="does not answer like a PPK2"), opened_meter(spec):
        pass
    empty = kit(b"")
    with opened_meter(f"ppk2:port={empty.port},supply_mv=3300") as recorder:
        recorder.start()
        with pytest.raises(DeviceError, match="sent no samples"):
            recorder.stop()
    with (
        pytest.raises(DeviceError, match="cannot be opened"),
        opened_meter("ppk2:port=/dev/none,supply_mv=3300"),
    ):
        pass
    with (
        pytest.raises(DeviceError, match="no PPK2 is connected"),
        opened_meter("ppk2:supply_mv=3300"),
    ):
        pass


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ppk2", "needs either source_mv or supply_mv"),
        ("ppk2:source_mv=3300,supply_mv=3300", "needs either"),
        ("ppk2:source_mv=9000", "source_mv of the meter 'ppk2' is '9000'"),
        ("ppk2:source_mv=3300,trigger=8", "trigger of the meter 'ppk2' is '8'"),
        ("ppk2:source_mv=3300,source_mv=3300", "is given source_mv twice"),
        ("ppk2:volts=3", "does not know 'volts=3'"),
        ("joulescope:trigger=2", "trigger of the meter 'joulescope' is '2'"),
        ("joulescope:rate=1234", "does not sample at 1234 a second"),
        ("joulescope:12", "does not know '12'"),
    ],
)
def test_settings_of_meters(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_spec(spec, is_emulated=False)


# -- Joulescope ------------------------------------------------------------------------------------


class Driver:
    """In place of the package's driver: it has one device, whose samples are given."""

    def __init__(self, high: Any, current_a: Any) -> None:
        self._high, self._current = np.asarray(high, bool), np.asarray(current_a, np.float32)
        self.published: list[tuple[str, Any]] = []
        self._listeners: dict[str, Any] = {}

    def open(self, path: str, mode: Any, timeout: Any) -> int:
        return 0

    def close(self, path: str, timeout: Any = None) -> int:
        self.published.append(("closed", path))
        return 0

    def publish(self, topic: str, value: Any, timeout: Any = None) -> None:
        self.published.append((topic.partition("000123/")[2], value))
        if topic.endswith("gpi/1/ctrl") and value:  # the last one of all
            self._send()

    def subscribe(self, topic: str, flags: Any, fn: Any, timeout: Any = None) -> None:
        self._listeners[topic.partition("000123/")[2]] = fn

    def unsubscribe(self, topic: str, fn: Any = None, timeout: Any = None) -> None: ...

    def _send(self) -> None:
        """Send pieces of all signals, at a tenth of two million samples a second."""
        bits = np.packbits(self._high, bitorder="little")
        streams = {
            "s/i/!data": (1, 0, self._current),
            "s/v/!data": (2, 0, np.full(len(self._current), 3.0, np.float32)),
            "s/p/!data": (3, 0, 3 * self._current),
            "s/i/range/!data": (4, 0, np.zeros(len(self._current), np.uint8)),
            "s/gpi/0/!data": (5, 0, bits),
            "s/gpi/1/!data": (5, 1, np.zeros_like(bits)),
        }
        for topic, (field, index, data) in streams.items():
            self._listeners[topic](
                topic,
                {
                    "field_id": field,
                    "index": index,
                    "sample_id": 1000,
                    "sample_rate": 2_000_000,
                    "decimate_factor": 10,
                    "data": data,
                },
            )


@pytest.fixture
def joulescope(monkeypatch: pytest.MonkeyPatch) -> Callable[[Driver], Driver]:
    package = pytest.importorskip("joulescope")
    from joulescope.v1.js220 import DeviceJs220

    def install(driver: Driver) -> Driver:
        devices = [DeviceJs220(driver, "u/js220/000123")]
        monkeypatch.setattr(package, "scan", lambda config=None: devices)
        return driver

    return install


def test_a_joulescope_by_its_package(joulescope: Callable[[Driver], Driver]) -> None:
    high = pulses(80, 160, gap=40)
    current = np.where(high, 0.02, 0.005)
    current[:5] = np.nan  # the package's mark of samples that are missing
    driver = joulescope(Driver(high, current))
    check_spec("joulescope:serial=000123", is_emulated=False)
    with opened_meter("joulescope:rate=200000,seconds=1") as recorder:
        recorder.start()
        found = recorder.stop()
    assert len(found.time_s) == len(high) - 5
    assert found.time_s[1] == pytest.approx(5e-6)
    data = encode(energy_of(found).entry())
    assert data["inferences"] == 2
    assert data["min_uj"] == pytest.approx(0.06 * 80 * 5, rel=0.01)
    assert data["max_uj"] == pytest.approx(0.06 * 160 * 5, rel=0.01)
    assert data["idle_power_mw"] == pytest.approx(15)
    assert ("h/fs", 200_000) in driver.published
    assert ("s/i/range/mode", "auto") in driver.published
    assert driver.published[-1][0] == "closed"


def test_joulescopes_that_are_not_there(
    joulescope: Callable[[Driver], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    joulescope(Driver([], []))
    with (
        pytest.raises(DeviceError, match="no Joulescope with the serial number '9'"),
        opened_meter("joulescope:serial=9"),
    ):
        pass
    with opened_meter("joulescope:seconds=1") as recorder:
        recorder.start()
        with pytest.raises(DeviceError, match="sent no samples"):
            recorder.stop()


def test_the_joulescopes_of_this_machine() -> None:
    """The package's own driver: no device is here, and it says so."""
    pytest.importorskip("joulescope")
    with pytest.raises(DeviceError, match="no Joulescope is connected"), opened_meter("joulescope"):
        pass
