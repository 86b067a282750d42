"""MLPerf Tiny: firmware of all kinds, a host that meets any device, the figures of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import sampled
from small_models import convolutions, moves
from tflite_builder import ModelBuilder
from tiny_library import tiny_library

import hilc
from hil.access import start
from hil.board import board_names, load_board
from hil.build import build
from hil.cli import main
from hil.cli.actions.mlperf import _text
from hil.errors import BuildError, InputError, LinkError
from hil.firmware.mlperf import BENCHMARKS, Mlperf, benchmark_named, wire_bytes
from hil.firmware.project import project_files
from hil.link.line import open_line
from hil.mlperf import Accuracy, Dut, Inference, Item, Performance, accuracy, performance
from hil.mlperf.dut import DutError
from hil.mlperf.runs import threshold_accuracy
from hil.mlperf.submission import claimed_submission, write_submission
from hil.results.run import MlperfDevice, MlperfEntry
from hilc.artifact.library import Module

EMULATED = tuple(name for name in board_names() if "qemu" in load_board(name).runners)
KWS = BENCHMARKS["kws01"]


def module_of(model: bytes) -> Module:
    return hilc.compile(model, cpu="host", name="net").modules[0]


@pytest.fixture(scope="module")
def net() -> Module:
    """192 int8 values in, 5 out."""
    return module_of(convolutions())


# -- firmware --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(EMULATED, keep=["microbit"]))
def test_builds_without_warning(name: str) -> None:
    board = load_board(name)
    library = hilc.compile(convolutions(), cpu=board.cpu.name, name="net", pools="external")
    mlperf = Mlperf(BENCHMARKS["sww01"])
    build([library], board, mlperf=mlperf, warnings_as_errors=True)


def test_a_project_has_one_server() -> None:
    library = hilc.compile(convolutions(), name="net", pools="external")
    board = load_board("native")

    def servers(mlperf: Mlperf | None) -> set[str]:
        files = project_files([library], board, None, mlperf=mlperf)
        return {path.partition("/")[0] for path in files} & {"rpc", "mlperf"}

    assert servers(None) == {"rpc"}
    assert servers(Mlperf(KWS)) == {"mlperf"}


def test_benchmarks_of_models(net: Module) -> None:
    with pytest.raises(InputError, match="does not have the sizes of any of MLPerf Tiny's"):
        benchmark_named("auto", net)
    assert benchmark_named("ic02", net).wire == "uint8"
    with pytest.raises(InputError, match="no model 'kws02'"):
        benchmark_named("kws02", net)
    assert wire_bytes(net, KWS) == wire_bytes(net, BENCHMARKS["ic01"]) == 192
    with pytest.raises(InputError, match="compares input and output"):
        wire_bytes(net, BENCHMARKS["ad01"])
    with pytest.raises(InputError, match="has 2 inputs"):
        wire_bytes(module_of(moves()), KWS)
    with pytest.raises(InputError, match="int32, which the firmware"):
        wire_bytes(tiny_library("y[0] = x[0];").modules[0], KWS)


def test_the_streaming_wake_word_by_its_sizes() -> None:
    b = ModelBuilder()
    b.input("x", (1, 30, 1, 40), "int8", 0.1, 3)
    b.const("axes", np.array([1, 2], np.int32))
    b.const("w", np.ones((3, 40), np.int8), 0.01, 0)
    b.tensor("mean", (1, 40), "int8", 0.1, 3)
    b.output("y", (1, 3), "int8", 0.1, 3)
    b.op("MEAN", ("x", "axes"), ("mean",), keep_dims=False)
    b.op("FULLY_CONNECTED", ("mean", "w", ""), ("y",), activation="NONE")
    found = benchmark_named("auto", module_of(b.build()))
    assert (found.model, found.is_streaming) == ("sww01", True)


def test_what_cannot_be_said() -> None:
    for name in ("a]b", "", "a" * 65, "é", "a\nb"):
        with pytest.raises(InputError, match="cannot be said"):
            Mlperf(KWS, name=name)


@pytest.mark.parametrize(
    ("changes", "baud"),
    [({}, 115200), ({"energy": True}, 9600), ({"energy": True, "baud": 19200}, 19200)],
)
def test_baud_rates(changes: dict[str, Any], baud: int) -> None:
    board = load_board("mps2-an386")
    assert replace(Mlperf(KWS), **changes).board_of(board).macros["HIL_UART_BAUD"] == baud
    over_rtt = board.over_rtt()
    assert Mlperf(KWS).board_of(over_rtt) == over_rtt


def test_an_image_has_one_model() -> None:
    libraries = [tiny_library("y[0] = x[0];", name=name) for name in ("one", "two")]
    with pytest.raises(InputError, match="has one model, and 2 are given"):
        build(libraries, load_board("native"), mlperf=Mlperf(KWS))


PIN = """\
#include <stdint.h>
extern uint32_t pulses;
uint32_t pulses = 0;
void hil_mlperf_pulse(void);
void hil_mlperf_pulse(void) { ++pulses; }
"""


def test_the_command_builds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with a pin of the user's, which takes the place of what does nothing."""
    model, pin = tmp_path / "net.tflite", tmp_path / "pin.c"
    model.write_bytes(convolutions())
    pin.write_text(PIN)
    words = ["build", str(model), "--board", "mps2-an386", "-o", str(tmp_path / "firmware")]
    more = ["--mlperf", "kws01", "--energy-mode", "--device-name", "my board", "--source", str(pin)]
    assert main([*words, *more]) == 0
    header = (tmp_path / "firmware" / "generated" / "hil_config.h").read_text()
    assert "#define HIL_UART_BAUD 9600\n" in header
    table = (tmp_path / "firmware" / "generated" / "mlperf.c").read_text()
    assert '.name = "my board"' in table
    link = (tmp_path / "firmware" / "build" / "firmware.map").read_text()
    assert re.search(r"^ +0x\w+ +pulses$", link, re.M)
    assert "pulse.c" not in link
    assert main([*words, "--force", "--energy-mode"]) == 2
    assert "--energy-mode is of a firmware for MLPerf Tiny" in capsys.readouterr().err


@pytest.fixture(scope="module")
def native() -> Iterator[Dut]:
    library = hilc.compile(convolutions(), cpu="host", name="net", pools="external")
    board = load_board("native")
    mlperf = Mlperf(KWS, name="this machine")
    firmware = build([library], board, mlperf=mlperf, warnings_as_errors=True)
    with start(firmware.board, firmware) as running:
        line = running.line or open_line(running.url)
        yield Dut(line, running.url, alive=running.alive)
        line.close()


def test_a_device(native: Dut) -> None:
    assert (native.name, native.model) == ("this machine", "kws01")
    native.load(bytes(192))
    inference = native.infer(3, 1)
    assert inference.iterations == 3
    assert len(inference.results) == 5
    assert inference.seconds > 0
    assert native.timestamp() > inference.end_us
    with pytest.raises(DutError, match="exceeds maximum of 192"):
        native.load(bytes(193))


def test_garbage_is_refused_and_answered(native: Dut) -> None:
    """Each command that ends is answered once, whatever its bytes and its length; the device still
    does what it is asked for afterwards, and none of the garbage became a byte of the input.
    """
    data = bytes(range(192))
    native.load(data)
    rng = np.random.default_rng(3)
    words = (b"db", b"load", b"print", b"infer", b"name", b"results", b"ff", b"-1", b"99999999999")
    sent = []
    for number in range(400):
        kind = number % 4
        if kind == 0:
            text = rng.bytes(int(rng.integers(0, 400)))
        elif kind == 1:
            text = b" ".join(rng.choice(words, int(rng.integers(0, 7)))) + b" " * number
        elif kind == 2:
            text = b"db " + b"00" * int(rng.integers(36, 90))
        else:
            text = b"x" * int(rng.integers(78, 83))
        # None that loads, and no inference that never ends.
        text = text.replace(b"%", b"").replace(b"load", b"print").replace(b"infer", b"infe")
        sent.append(text)
    refused = 0
    for text in sent:
        native._line.write(text + b"%")
        lines = native._answer("garbage", 10.0)
        assert all(line.isprintable() and line.isascii() for line in lines), text
        refused += any(line.startswith("e-[") for line in lines)
    assert refused > len(sent) // 2
    (shown,) = native.command("db print")
    assert bytes.fromhex(shown.removeprefix("m-buffer").replace("-", "")) == data
    assert len(native.infer(1, 0).results) == 5


def items(count: int) -> list[Item]:
    rng = np.random.default_rng(0)
    return [Item(f"{i}.bin", i % 5, 5, rng.bytes(192)) for i in range(count)]


def test_runs_on_a_device(native: Dut) -> None:
    run = performance(native, items(2), windows=3, window_s=0.01)
    assert [item.file for item, _ in run.windows] == ["0.bin", "1.bin", "0.bin"]
    assert all(inference.seconds > 0 for _, inference in run.windows)
    assert not run.is_valid
    assert performance(native, items(1), iterations=7, windows=1).windows[0][1].iterations == 7
    right = accuracy(native, items(10))
    assert right.files == 10
    assert right.auc is not None
    with pytest.raises(InputError, match="a file is of class 9"):
        accuracy(native, [replace(items(1)[0], label=9)])
    with pytest.raises(InputError, match="there is no input"):
        performance(native, [])


# -- devices that are none -------------------------------------------------------------------------


class Script:
    """A line whose other end answers a command by a function."""

    def __init__(self, answer: Callable[[str], bytes], begin: bytes = b"m-ready\r\n") -> None:
        self._answer = answer
        self._waiting = begin

    def read(self) -> bytes:
        data, self._waiting = self._waiting, b""
        return data

    def write(self, data: bytes) -> None:
        self._waiting += self._answer(data.decode("ascii").removesuffix("%"))

    def close(self) -> None:
        """Nothing is open."""


GOOD = {
    "name": b"m-name-dut-[x]\r\nm-ready\r\n",
    "profile": b"m-profile-[p]\r\nm-model-[kws01]\r\nm-ready\r\n",
}


def dut(answers: dict[str, bytes], begin: bytes = b"m-ready\r\n") -> Dut:
    def answer(command: str) -> bytes:
        return next((a for c, a in answers.items() if command.startswith(c)), b"m-ready\r\n")

    return Dut(Script(answer, begin), "test://")


def test_a_device_that_was_started_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing by itself; noise, colours and half of an answer of before are left out."""
    monkeypatch.setattr("hil.mlperf.dut._QUIET_S", 0.01)
    assert dut({**GOOD, "": b"m-ready\r\n"}, begin=b"").model == "kws01"
    assert dut(GOOD, begin=b"\xff\0e-[x]\r\nm-ready\r\nm-init-done\r\nm-ready\r\n").name == "x"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "answered 'name' with"),
        ({"name": b"e-[Unknown command: name]\r\nm-ready\r\n"}, "refused 'name'"),
        ({**GOOD, "profile": b"m-profile-[p]\r\nm-ready\r\n"}, "answered 'profile' with"),
        ({"name": b"m-ready?" * 200_000}, "more than"),
        ({"name": b"x\n" * 11_000}, "with more than 10000 lines"),
    ],
)
def test_no_device_under_test(answers: dict[str, bytes], message: str) -> None:
    with pytest.raises(DutError, match=message):
        dut(answers)


def test_no_terminal_obeys_a_device() -> None:
    named = {**GOOD, "name": b"m-name-dut-[\x1b]0;x\x07\x1b[8my]\r\nm-ready\r\n"}
    assert dut({**named, "name": named["name"].replace(b"]0", b"0")}).name == "\\x1b0;x\\x07y"


def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.mlperf.dut._START_S", 0.05)
    with pytest.raises(LinkError, match="did not answer 'its start' in time"):
        dut({"": b""}, begin=b"")
    silent = dut({**GOOD, "infer": b"m-warmup-start-1\r\n"})
    silent._run_timeout_s = 0.05
    with pytest.raises(LinkError, match="did not answer 'infer 1 1' in time"):
        silent.infer(1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"m-lap-us-1\r\nm-results-[1]\r\nm-ready\r\n",
        b"m-lap-us-1\r\nm-lap-us-" + b"2" * 5000 + b"\r\nm-results-[1]\r\nm-ready\r\n",
        b"m-lap-us-1\r\nm-lap-us-2\r\nm-ready\r\n",
        b"m-lap-us-1\r\nm-lap-us-2\r\nm-results-[1,x]\r\nm-ready\r\n",
        b"m-lap-us-1\r\nm-lap-us-2\r\nm-results-[1]\r\nm-results-[1]\r\nm-ready\r\n",
    ],
)
def test_half_an_inference(answer: bytes) -> None:
    with pytest.raises(DutError, match="did not answer an inference with"):
        dut({**GOOD, "infer": answer}).infer(1, 0)


def test_a_load_that_the_line_damaged_is_sent_again() -> None:
    refused = [b"e-[Invalid hex digit '?']\r\nm-ready\r\n"]

    def answer(command: str) -> bytes:
        if command in GOOD:
            return GOOD[command]
        if command.startswith("db load"):
            return b"m-[Expecting 4 bytes]\r\nm-ready\r\n"
        return refused.pop() if refused else b"m-load-done\r\nm-ready\r\n"

    Dut(Script(answer), "test://").load(b"abcd")
    assert not refused
    with pytest.raises(DutError, match="did not take 4 bytes"):
        dut(GOOD).load(b"abcd")


# -- figures ---------------------------------------------------------------------------------------


def inference(results: Sequence[float], seconds: float = 1.0, iterations: int = 1) -> Inference:
    return Inference(5, 5 + round(1e6 * seconds), tuple(results), iterations, 0)


class Given(Dut):
    """Gives results in their order."""

    def __init__(self, results: Sequence[Sequence[float]]) -> None:
        self._results = list(results)

    def load(self, data: bytes) -> None:
        """Nothing is sent."""

    def infer(self, iterations: int, warmups: int) -> Inference:
        return inference(self._results.pop(0))


def test_accuracy_of_files() -> None:
    """Inputs of a file are averaged, each by its own sum."""
    given = [(1, 3), (6, 2), (0, 1), (9, 1)]
    files = [("a", 0), ("a", 0), ("b", 1), ("c", 1)]
    found = accuracy(Given(given), [Item(file, label, 2, b"") for file, label in files])
    # a: (0.25 + 0.75) / 2 of both classes, so the first one.
    assert found.files == 3
    assert found.top1.value == pytest.approx(2 / 3)
    assert found.auc is not None
    assert found.auc.value == pytest.approx(0.5)
    same = accuracy(Given([(1, 3)]), [Item("a", 1, 2, b"")])
    assert same.auc is None


def test_accuracy_of_scores() -> None:
    scores = [(1.0,), (2.0,), (3.0,), (10.0,)]
    labels = [0, 0, 1, 1]
    files = [Item(f"{i}", label, 2, b"") for i, label in enumerate(labels)]
    found = accuracy(Given(scores), files)
    assert found.top1.value == 1.0
    assert found.auc is not None
    assert found.auc.value == 1.0
    # Above a threshold from 2 on: one of the two anomalies, and nothing else.
    assert threshold_accuracy(np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0])) == 0.75


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_results_that_are_not_finite_are_wrong(bad: float) -> None:
    files = [Item(f"{i}", label, 2, b"") for i, label in enumerate([0, 1, 0, 1])]
    found = accuracy(Given([(bad, bad), (0, 1), (1, 0), (0, 1)]), files)
    assert found.top1.value == 0.75
    assert found.auc is not None
    assert found.auc.value == 0.5
    assert found.entry().nonfinite_inferences == 1
    labels = np.array([0, 0, 1, 1])
    assert threshold_accuracy(labels, np.array([1.0, 2.0, 3.0, 10.0])) == 1
    assert threshold_accuracy(labels, np.array([1.0, 2.0, bad, 10.0])) == 0.75
    assert threshold_accuracy(labels, np.array([bad, 2.0, 3.0, 10.0])) == pytest.approx(5 / 6)
    assert threshold_accuracy(labels, np.full(4, bad)) == 0


def test_files_of_a_submission(tmp_path: Path) -> None:
    board = load_board("nucleo-l4r5zi")
    device = dut(GOOD)
    item = Item("a.bin", 3, 12, b"")
    windows = tuple((item, inference([0.1, float("nan")], 10 + i / 10, 50)) for i in range(5))
    run = Performance(windows, 10.0)
    assert run.is_valid
    assert run.throughput == pytest.approx(50 / 10.2)
    scored = accuracy(Given([(0.9, 0.1), (0.2, 0.8)]), [Item("a", 0, 2, b""), Item("b", 1, 2, b"")])
    paths = write_submission(tmp_path, board, KWS, device, [run, scored])
    names = sorted(path.relative_to(tmp_path).as_posix() for path in paths)
    at = "results/nucleo-l4r5zi/kws"
    assert names == sorted(
        [
            *(f"{at}/{m}/{f}" for m in ("accuracy", "performance")
              for f in ("log.txt", "results.json", "results.txt")),
            "systems/nucleo-l4r5zi.json",
        ]
    )  # fmt: skip
    entry = MlperfEntry(
        model="kws",
        board=board.name,
        benchmark="kws01",
        device=MlperfDevice("n", "p", "m"),
        emulator=None,
        checked=None,
        files=tuple(map(str, paths)),
    )
    shown = _text(entry, [run])
    assert shown.endswith("\n\n" + "\n".join(map(str, paths)))
    text = (tmp_path / at / "performance" / "results.txt").read_text()
    assert "ERROR" not in text
    assert "mulated" not in text
    assert re.search(r"Median throughput is +4\.902 inf\./sec\.", text)
    entries = json.loads((tmp_path / at / "performance" / "results.json").read_text())
    assert entries[0]["infer"]["results"] == [0.1, None]
    assert isinstance(scored, Accuracy)
    # What the submitter has completed stays.
    system = tmp_path / "systems" / "nucleo-l4r5zi.json"
    system.write_text("{}")
    with (
        pytest.raises(InputError, match="exists"),
        claimed_submission(tmp_path, board, KWS, ["accuracy"]),
    ):
        raise AssertionError("results that are there were claimed")
    with claimed_submission(tmp_path, board, BENCHMARKS["ad01"], ["accuracy"]):
        pass
    short = Performance(windows[:2], 10.0)
    write_submission(tmp_path, board, KWS, device, [short], emulator="qemu")
    assert system.read_text() == "{}"
    text = (tmp_path / at / "performance" / "results.txt").read_text()
    assert text.startswith("Emulated by qemu")
    assert "not valid for submission: 5 windows of at least 10 seconds" in text


def test_a_place_is_one_commands_until_written(tmp_path: Path) -> None:
    """Two at once would mix their files, or the later one replace the earlier one's unasked."""
    board = load_board("nucleo-l4r5zi")
    (tmp_path / "link").symlink_to(tmp_path)
    with claimed_submission(tmp_path, board, KWS, ["accuracy"]):
        for other in (tmp_path, tmp_path / "link"):
            with (
                pytest.raises(InputError, match="another process is measuring kws") as caught,
                claimed_submission(other, board, KWS, ["performance"], force=True),
            ):
                raise AssertionError("one place was claimed twice")
        assert "another folder" in caught.value.hint
        with claimed_submission(tmp_path, board, BENCHMARKS["ad01"], ["accuracy"]):
            pass
    with claimed_submission(tmp_path, board, KWS, ["accuracy"]):
        pass


def test_results_that_are_half_written_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, device = load_board("nucleo-l4r5zi"), dut(GOOD)
    run = Performance(((Item("a.bin", 3, 12, b""), inference([0.1])),), 10.0)
    write_submission(tmp_path, board, KWS, device, [run])
    place = tmp_path / "results/nucleo-l4r5zi/kws/performance"
    assert (place / "results.txt").exists()

    def killed(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("hil.mlperf.submission.write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            write_submission(tmp_path, board, KWS, device, [run])
    assert not (place / "results.txt").exists()
    with claimed_submission(tmp_path, board, KWS, ["performance"]):
        write_submission(tmp_path, board, KWS, device, [run])
    assert (place / "results.txt").exists()


@pytest.mark.full
def test_a_rate_that_the_uart_cannot_have() -> None:
    library = hilc.compile(convolutions(), cpu="cortex-m4", name="net", pools="external")
    with pytest.raises(BuildError, match=r"lower uart\.baud"):
        build([library], load_board("mps2-an386"), mlperf=Mlperf(KWS, baud=3_000_000))
