"""A board's serial line is proven to be its own: swapped, numbered anew, late, one of several."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import answers
import numpy as np
import pyocd.probe.aggregator
import pytest
from campaigns import cases
from fake_bench import Bench, FakeBoard
from small_models import convolutions

import hil
import hilc
from hil import virtual_probe
from hil.access import Connection, proof
from hil.access.pyocd.flash import connected
from hil.board import Board, load_board
from hil.board.config import config_path, remembered
from hil.build import build
from hil.cli import main
from hil.device import Device
from hil.errors import DeviceError, LinkError, ProbeError, Remedy
from hil.firmware.mlperf import BENCHMARKS, Mlperf
from hil.lab.board_server import BoardServer
from hil.link.client import Client
from hil.link.line import Link
from hil.link.ports import is_lasting, lasting_name, resolve
from hil.mlperf import open_dut
from hil.virtual_probe.probe import VirtualProbe

pytest_plugins = ["pytester"]

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"

Hil = Callable[..., Any]


@pytest.fixture
def hil_json(capsys: pytest.CaptureFixture[str]) -> Hil:
    """Runs a command; its JSON. ``code`` is the exit code that it must have."""

    def run(*words: str, code: int = 0) -> Any:
        ended = main([*words, "--json"])
        out, err = capsys.readouterr()
        assert ended == code, out + err
        return answers.result(out)

    return run


def on(command: str, *options: str) -> tuple[str, ...]:
    samples = ("--samples", "2") if command == "verify" else ()
    return (command, str(DIGITS), "--board", BOARD, *samples, *options)


def error_of(answer: Any) -> str:
    return f"{answer['message']}\n{answer['hint']}"


@pytest.fixture
def pair(rig: Bench) -> tuple[FakeBoard, FakeBoard]:
    """Two boards of one type."""
    return rig.add(serial="0240AAAA0001"), rig.add(serial="0240BBBB0002")


@cases("command", ["verify", "flash", "bench"], first=1)
def test_another_boards_port_is_refused(
    command: str, pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    hil_json(*on("flash", "--probe", a.serial))
    crossed = on(command, "--probe", b.serial, "--port", a.ports[0].path)
    error = error_of(hil_json(*crossed, code=4))
    assert b.serial in error
    assert a.ports[0].path in error
    assert "another board" in error
    assert f"usb:{b.serial}" in error, "the right one is among the candidates"


def test_a_stored_port_is_the_probes_own(
    pair: tuple[FakeBoard, FakeBoard], hil_json: Hil, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    hil_json(*on("verify", "--probe", a.serial, "--port", a.ports[0].path))
    a_bytes = len(a.ports[0].written)
    assert hil_json(*on("verify", "--probe", b.serial))["match"]
    assert len(a.ports[0].written) == a_bytes, "nothing was sent to the other board"
    assert "ttyACM" not in (config_path().read_text() if config_path().exists() else "")


def test_a_port_of_another_board_is_passed_by(
    pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    old = f'[boards.{BOARD}]\nport = "{a.ports[0].path}"\n'
    config_path().write_text(old)
    sent = len(b.ports[0].written)
    assert hil_json(*on("verify", "--probe", b.serial))["match"]
    assert len(b.ports[0].written) > sent, "the board behind the probe computed it"
    assert config_path().read_text() == old


def test_two_boards_of_one_type_are_a_choice(
    rig: Bench, hil_json: Hil, pair: tuple[FakeBoard, FakeBoard]
) -> None:
    a, b = pair
    hil_json(*on("flash", "--probe", a.serial))
    error = error_of(hil_json(*on("flash"), code=4))
    assert "ambiguous" in error
    assert a.serial in error
    assert b.serial in error


@cases("line", [(), ("--transport", "rtt")], first=1)
def test_two_boards_behind_generic_probes_are_a_choice(
    line: tuple[str, ...], rig: Bench, hil_json: Hil
) -> None:
    a = rig.add(serial="0240AAAA0001", reports=False)
    assert hil_json(*on("flash", *line, "--probe", a.serial))["programmed"]
    assert remembered(a.serial) == {"board": BOARD}
    rig.add(serial="0240DDDD0004", board="microbit")
    hil_json(*on("flash"))
    b = rig.add(serial="0240BBBB0002", reports=False)
    error = error_of(hil_json(*on("flash"), code=4))
    assert a.serial in error
    assert b.serial in error


def test_a_choice_that_cannot_be_stored_is_no_failure(
    rig: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = rig.add(interfaces=(0, 2), line=2)
    monkeypatch.setenv("HIL_CONFIG", "/proc/no/config.toml")
    assert main(list(on("flash", "--probe", kit.serial))) == 0
    assert "not remembered: cannot write /proc/no/config.toml" in capsys.readouterr().err


@cases("line", [0, 2, 4], first=1)
def test_a_kit_with_three_ports_needs_no_choice(line: int, rig: Bench, hil_json: Hil) -> None:
    kit = rig.add(serial="000683123456", interfaces=(0, 2, 4), line=line)
    assert hil_json(*on("verify", "--probe", kit.serial))["match"]
    assert remembered(kit.serial) == {"port": f"usb:{kit.serial}:{line}"}
    sent = [len(port.written) for port in kit.ports]
    kit.unplug()
    other = rig.add(serial="0240CCCC0003")
    kit.plug()
    assert kit.ports[0].name == "ttyACM1", "the other one has its name now"
    assert hil_json(*on("verify", "--probe", kit.serial))["match"]
    more = [len(port.written) > before for port, before in zip(kit.ports, sent, strict=True)]
    assert more == [port.interface == line for port in kit.ports], "the stored one is tried first"
    assert not other.ports[0].written


def test_a_board_without_its_line_cannot_be_proven(rig: Bench, hil_json: Hil) -> None:
    kit = rig.add(serial="000683123456", interfaces=(0, 2), line=7)
    error = error_of(hil_json(*on("flash", "--probe", kit.serial), code=4))
    assert all(f"usb:{kit.serial}:{number}" in error for number in (0, 2))
    assert "no answer" in error


@pytest.mark.full
def test_a_line_that_two_boards_share_is_refused(
    rig: Bench, pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    hil_json(*on("flash", "--probe", a.serial))
    hil_json(*on("flash", "--probe", b.serial))
    a.ports[0].also_to = b  # b hears what is sent to a, and a answers
    error = error_of(
        hil_json(*on("verify", "--probe", b.serial, "--port", a.ports[0].path), code=4)
    )
    assert "another board" in error


def test_a_stored_port_of_another_board_is_passed_by(
    pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    hil_json(*on("flash", "--probe", a.serial))
    config_path().write_text(f'[probes.{b.serial}]\nport = "usb:{a.serial}"\n')
    answer = hil_json(*on("verify", "--probe", b.serial))
    assert answer["provenance"]["line"] == {"port": f"usb:{b.serial}", "proven": True}


@contextmanager
def another_program(board: FakeBoard, request: Callable[[], bytes]) -> Iterator[None]:
    """Sends requests on the board's own line."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02):
            board.uart.sendall(request())

    other = threading.Thread(target=ask)
    other.start()
    try:
        yield
    finally:
        over.set()
        other.join()


@pytest.mark.full
@cases("name", [BOARD, "mps2-an500", "mps3-an547"], first=1)
def test_a_request_of_another_program_proves_nothing(name: str, rig: Bench, hil_json: Hil) -> None:
    """It stops b, and a answers when b runs on. Two of the cores have a data cache."""
    a, b = rig.add(name, serial="0240AAAA0001"), rig.add(name, serial="0240BBBB0002")
    words = ("flash", str(DIGITS), "--board", name, "--probe")
    for board in (a, b):
        assert hil_json(*words, board.serial)["programmed"]
    a.ports[0].delay_s = 0.3
    with another_program(b, lambda: proof._Hello().request):
        error = error_of(hil_json(*words, b.serial, "--port", a.ports[0].path, code=4))
    assert "another program sends requests to the board behind the probe" in error


# -- names of ports ------------------------------------------------------------------------------


def test_ports_are_named_by_serial_and_interface(rig: Bench) -> None:
    one, kit = rig.add(serial="0240AAAA0001"), rig.add(serial="00:1A:2B", interfaces=(0, 2))
    twin = [rig.add(serial="TWIN") for _ in range(2)]
    paths = [port.path for board in (one, kit, *twin) for port in board.ports]
    names = ["usb:0240AAAA0001", "usb:00:1A:2B:0", "usb:00:1A:2B:2"]
    names += [f"usb-path:{board.usb_path}" for board in twin]
    assert [lasting_name(path) for path in paths] == names
    assert [is_lasting(name) for name in names] == [True] * 5
    assert [resolve(name) for name in names] == paths
    assert lasting_name(one.by_id()) == "usb:0240AAAA0001"
    assert lasting_name("socket://h:1") == "socket://h:1"
    for word in ("usb:0240AAAA0001:1", "usb:0240aaaa0001"):
        assert resolve(word) == paths[0]


@cases(
    ("word", "facts"),
    [
        ("usb:none", ["no serial port usb:none", "  usb:KIT0KIT0:2 ("]),
        ("usb:KIT0KIT0:7", ["no serial port usb:KIT0KIT0:7"]),
        ("usb:KIT0KIT0", ["names 2 serial ports", "usb:KIT0KIT0:0 (", "usb:KIT0KIT0:INTERFACE"]),
        ("usb:TWIN0TWIN0", ["names 2 serial ports", "usb-path:PATH", "  usb-path:1-2 ("]),
    ],
    first=1,
)
def test_names_of_no_or_of_several_ports(
    word: str, facts: list[str], rig: Bench, hil_json: Hil
) -> None:
    rig.add(serial="KIT0KIT0", interfaces=(0, 2))
    for _ in range(2):
        rig.add(serial="TWIN0TWIN0")
    for line in (on("verify", "--port", word), ("monitor", "--seconds", "0.1", "--port", word)):
        error = error_of(hil_json(*line, code=4))
        assert [fact for fact in facts if fact not in error] == []


@pytest.mark.full
def test_a_port_alone_is_named_in_the_result(
    pair: tuple[FakeBoard, FakeBoard], hil_json: Hil, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    proven = hil_json(*on("verify", "--probe", a.serial))["provenance"]["line"]
    assert proven == {"port": f"usb:{a.serial}", "proven": True}
    for word in (a.ports[0].path, f"usb:{a.serial}", a.by_id()):
        attached = hil_json(*on("verify", "--port", word))["provenance"]["line"]
        assert attached == {"port": f"usb:{a.serial}", "proven": False}
    assert main(list(on("verify", "--port", a.by_id()))) == 0
    assert f"attached to the firmware at usb:{a.serial}" in capsys.readouterr().err
    emulated = hil_json("verify", str(DIGITS), "--board", BOARD, "--samples", "1")
    assert emulated["provenance"]["line"] is None


# -- probes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [(), ("--probe", "TWIN0TWIN0")])
def test_probes_with_one_serial_number_are_refused(
    choice: tuple[str, ...], rig: Bench, hil_json: Hil
) -> None:
    for _ in range(2):
        rig.add(serial="TWIN0TWIN0")
    rig.add(serial="0240AAAA0001", board="microbit")
    for line in (on("flash", *choice), ("reset", "--board", BOARD, *choice)):
        error = error_of(hil_json(*line, code=4))
        assert "2 connected probes have the serial number TWIN0TWIN0" in error
        assert "USB path 1-1" in error
        assert "USB path 1-2" in error


def test_a_probe_is_not_taken_for_a_longer_one(rig: Bench) -> None:
    longer = rig.add(serial="AB12")
    with pytest.raises(ProbeError, match="no probe 'AB1'"), connected(load_board(BOARD), "AB1"):
        pass
    with connected(load_board(BOARD), longer.serial):
        pass


def test_a_running_virtual_board_takes_no_port(rig: Bench, hil_json: Hil, tmp_path: Path) -> None:
    other = rig.add()
    with virtual_probe.start(load_board(BOARD)) as (virtual, _):
        (rig.folder / "virtual").mkdir(exist_ok=True)
        probe = type("Probe", (VirtualProbe,), {})
        with mock.patch.dict(pyocd.probe.aggregator.PROBE_CLASSES, {"hil": probe}):
            line = on("flash", "--probe", virtual.uid, "--port", other.ports[0].path)
            assert "has its own serial line" in error_of(hil_json(*line, code=2))


def test_an_image_without_symbols_cannot_be_proven(
    rig: Bench, hil_json: Hil, tmp_path: Path
) -> None:
    board = rig.add()
    built = Path(hil_json(*on("build"))["elf"])
    stripped = tmp_path / "stripped.elf"
    symbols = ["-K", "hil_frame_encode"]
    command = ["arm-none-eabi-strip", *symbols, str(built), "-o", str(stripped)]
    subprocess.run(command, check=True, timeout=60)
    flash = ("flash", str(stripped), "--board", BOARD, "--probe", board.serial)
    assert "with its symbols" in error_of(hil_json(*flash, code=2))


def test_the_probe_of_another_type_is_not_taken(rig: Bench, hil_json: Hil) -> None:
    probe = rig.add(reports=False)
    config_path().write_text(f'[probes.{probe.serial}]\nboard = "nucleo-f446re"\n')
    error = error_of(hil_json(*on("flash"), code=4))
    assert "is not connected" in error
    assert f"{probe.serial} (Arm Fake DAPLink CMSIS-DAP, last used on nucleo-f446re)" in error
    assert hil_json(*on("flash", "--probe", probe.serial))["programmed"]


# -- one board has one lock, whatever its names --------------------------------------------------


def names_of(board: FakeBoard) -> list[tuple[str, ...]]:
    ports = [f"usb:{board.serial}", board.ports[0].path, board.by_id()]
    ports.append(f"spy://{board.ports[0].path}?file=/dev/null")
    return [
        ("--probe", board.serial),
        ("--probe", board.serial[4:]),
        *(("--port", p) for p in ports),
    ]


def refused(rig: Bench, names: list[tuple[str, ...]]) -> list[bool]:
    """Return for each name whether another process learns that the board is in use."""
    found = []
    for name in names:
        words = [*rig.hil, *on("verify", *name)]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
        found.append(ended.returncode == 4 and "is in use by process" in ended.stderr)
    return found


@pytest.mark.full
@cases("number", [0, 2, 5], first=1)
def test_a_board_is_locked_by_all_its_names(
    number: int, pair: tuple[FakeBoard, FakeBoard], rig: Bench, hil_json: Hil
) -> None:
    a, b = pair
    for board in pair:
        hil_json(*on("flash", "--probe", board.serial))
    option, word = names_of(a)[number]
    with hil.open(BOARD, DIGITS, **{option.strip("-"): word}):  # type: ignore[arg-type]
        assert refused(rig, names_of(a)) == [True] * 6
        assert refused(rig, names_of(b)[:1]) == [False]


@pytest.mark.full
@cases("way", ["probe", "port"], first=1)
def test_a_port_that_returns_is_locked(
    way: str, pair: tuple[FakeBoard, FakeBoard], rig: Bench, hil_json: Hil
) -> None:
    a, b = pair
    for board in pair:
        hil_json(*on("flash", "--probe", board.serial))
    probe, port = (a.serial, None) if way == "probe" else (None, a.ports[0].path)
    with hil.open(BOARD, DIGITS, probe=probe, port=port) as device:
        renumbered(a, b)
        device.repeated(lambda: run_once(device))
        assert refused(rig, [("--port", a.ports[0].path)]) == [True]


# -- boards that come back -------------------------------------------------------------------------


def run_once(device: Device) -> None:
    model = device["digits"]
    model.set_input(0, np.zeros((1, 8, 8, 1), np.int8))
    model.run()


def renumbered(a: FakeBoard, b: FakeBoard) -> None:
    """Plugs two boards in again, so that each has the name of the other's port."""
    a.unplug()
    b.unplug()
    b.plug()
    a.plug()


@cases("way", ["probe", "port"], first=1)
def test_a_board_that_returns_under_another_name(
    way: str, pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    for board in pair:
        hil_json(*on("flash", "--probe", board.serial))
    probe, port = (a.serial, None) if way == "probe" else (None, a.ports[0].path)
    with hil.open(BOARD, DIGITS, probe=probe, port=port) as device:
        device.repeated(lambda: run_once(device))
        renumbered(a, b)
        assert (a.ports[0].name, b.ports[0].name) == ("ttyACM1", "ttyACM0")
        sent = len(b.ports[0].written)
        device.repeated(lambda: run_once(device))
        assert device.port == f"usb:{a.serial}"
    assert len(b.ports[0].written) == sent, "nothing was sent to the other board"


@pytest.mark.full
@cases("way", ["probe", "port"], first=1)
def test_a_board_that_returns_late_is_awaited(
    way: str, pair: tuple[FakeBoard, FakeBoard], rig: Bench, hil_json: Hil
) -> None:
    a, b = pair
    hil_json(*on("flash", "--probe", a.serial))
    command = rig.power_command(a, after_s=2.0)
    config_path().write_text(f'[boards.{BOARD}.power]\ncycle = "{command}"\nreturn_s = 60.0\n')
    probe, port = (a.serial, None) if way == "probe" else (None, a.ports[0].path)
    failures = [DeviceError("out of order", remedy=Remedy.POWER)]

    def job() -> None:
        if failures:
            raise failures.pop()
        run_once(device)

    with hil.open(BOARD, DIGITS, probe=probe, port=port) as device:
        device.repeated(job)
        assert device.recovery is not None
        assert [attempt.step for attempt in device.recovery.attempts] == ["a power cycle"]
        assert device.port == f"usb:{a.serial}"
    assert not b.ports[0].written


@pytest.mark.full
def test_a_board_that_does_not_return_is_an_error(
    pair: tuple[FakeBoard, FakeBoard], rig: Bench, hil_json: Hil
) -> None:
    a, _ = pair
    hil_json(*on("flash", "--probe", a.serial))
    command = rig.power_command(a, after_s=300.0)
    config_path().write_text(f'[boards.{BOARD}.power]\ncycle = "{command}"\nreturn_s = 0.5\n')
    with (
        hil.open(BOARD, DIGITS, probe=a.serial) as device,
        pytest.raises(DeviceError, match=f"'{a.serial}' is not connected"),
    ):
        device.repeated(lambda: fail(DeviceError("out of order", remedy=Remedy.POWER)))
    a.plug()


@pytest.mark.full
def test_recovery_takes_no_other_board(rig: Bench, hil_json: Hil) -> None:
    """Another one is there while the board is away, and the only one that a choice could find."""
    a, b = rig.add(serial="0240AAAA0001"), rig.add(serial="0240BBBB0002", reports=False)
    command = rig.power_command(a, after_s=300.0)
    config_path().write_text(f'[boards.{BOARD}.power]\ncycle = "{command}"\nreturn_s = 0.5\n')
    with (
        hil.open(BOARD, DIGITS, runner="pyocd") as device,
        pytest.raises(DeviceError, match=f"'{a.serial}' is not connected") as caught,
    ):
        device.repeated(lambda: fail(DeviceError("out of order", remedy=Remedy.POWER)))
    assert [attempt.unit for attempt in caught.value.recoveries] == [a.serial]
    assert not b.ports[0].written
    a.plug()


def test_a_longer_id_is_not_the_chosen_probe(rig: Bench, hil_json: Hil) -> None:
    a = rig.add(serial="0240AAAA0001")
    longer = rig.add(serial="0240AAAA00012")
    with hil.open(BOARD, DIGITS, probe=a.serial) as device:
        a.unplug()
        with pytest.raises(DeviceError):
            device.repeated(lambda: fail(DeviceError("out of order", remedy=Remedy.FLASH)))
    assert not longer.ports[0].written
    a.plug()


@pytest.mark.full
def test_programming_again_takes_no_other_board(rig: Bench, hil_json: Hil) -> None:
    a, b = rig.add(serial="0240AAAA0001"), rig.add(serial="0240BBBB0002", reports=False)
    command = rig.power_command(a, after_s=300.0)
    config_path().write_text(f'[boards.{BOARD}.power]\ncycle = "{command}"\nreturn_s = 0.5\n')
    a.ports[0].wired_to = None
    answer = hil_json(*on("flash"), code=4)
    assert {step["unit"] for step in answer["recoveries"]} == {a.serial}
    assert not b.ports[0].written
    a.plug()


def test_a_board_server_keeps_its_board(rig: Bench, hil_json: Hil) -> None:
    a, b = rig.add(serial="0240AAAA0001"), rig.add(serial="0240BBBB0002", reports=False)
    elf = Path(hil_json(*on("build"))["elf"]).read_bytes()
    with closing(BoardServer(load_board(BOARD), runner="pyocd")) as server:
        server.flash(elf, "me")
        a.unplug()
        for again in (server.reset, lambda: server.flash(elf, "me")):
            with pytest.raises(ProbeError, match=f"'{a.serial}' is not connected"):
                again()
        a.plug()
        server.flash(elf, "me")
    assert not b.ports[0].written


def test_consent_to_erase_is_for_one_attempt(
    rig: Bench, hil_json: Hil, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = rig.add()
    a.ports[0].wired_to = None
    consents = []

    def recorded(board: Board, uid: str, **options: Any) -> Any:
        consents.append(options.get("erase_to_unlock", False))
        return connected(board, uid, **options)

    monkeypatch.setattr("hil.access.pyocd.flash.connected", recorded)
    hil_json(*on("flash", "--erase-to-unlock"), code=4)
    assert consents == [True, False]


def fail(error: Exception) -> None:
    raise error


# -- other ways to a board -----------------------------------------------------------------------


def test_a_board_server_refuses_another_boards_port(
    pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    a, b = pair
    elf = Path(hil_json(*on("flash", "--probe", a.serial))["elf"]).read_bytes()
    wrong = BoardServer(load_board(BOARD), probe=b.serial, serial=a.ports[0].path)
    with closing(wrong) as server, pytest.raises(LinkError, match="another board"):
        server.flash(elf, "me")
    with closing(BoardServer(load_board(BOARD), probe=b.serial)) as server:
        server.flash(elf, "me")
        for _ in range(2):
            server.reset()
        with closing(Link(f"board://127.0.0.1:{server.line_port}")) as link:
            Client(link)
    assert b.ports[0].written


@pytest.mark.full
def test_a_firmware_of_mlperf_is_proven(pair: tuple[FakeBoard, FakeBoard], tmp_path: Path) -> None:
    a, b = pair
    library = hilc.compile(convolutions(), cpu="cortex-m4", name="net", pools="external")
    mlperf = Mlperf(BENCHMARKS["kws01"], name="dut")
    firmware = build([library], load_board(BOARD), mlperf=mlperf)
    for board in pair:
        with open_dut(firmware, connection=Connection(board.serial)) as dut:
            assert dut.name == "dut"
            dut.load(bytes(192))
    crossed = Connection(b.serial, a.ports[0].path)
    with pytest.raises(LinkError, match="another board"), open_dut(firmware, connection=crossed):
        pass
    a.ports[0].delay_s = 0.3
    with (
        another_program(b, lambda: b"name%"),
        pytest.raises(LinkError, match="is not proven"),
        open_dut(firmware, connection=crossed),
    ):
        pass


@pytest.mark.full
def test_pytest_refuses_crossed_pairs(
    pytester: pytest.Pytester, rig: Bench, pair: tuple[FakeBoard, FakeBoard], hil_json: Hil
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.hil(model={str(DIGITS)!r})
        def test_model(hil_device):
            assert hil_device["digits"]
        """
    )
    a, b = pair
    for board in pair:
        hil_json(*on("flash", "--probe", board.serial))
    options = [f"--hil-board={BOARD}", f"--hil-probe={a.serial}", "-p", "no:cacheprovider"]
    python = [*rig.python, "-m", "pytest", *options]
    crossed = pytester.run(*python, f"--hil-port={b.ports[0].path}", timeout=120)
    crossed.assert_outcomes(errors=1)
    assert "another board" in crossed.stdout.str()
    pytester.run(*python, f"--hil-port=usb:{a.serial}", timeout=120).assert_outcomes(passed=1)


def test_a_console_shows_the_probed_board(pair: tuple[FakeBoard, FakeBoard], hil_json: Hil) -> None:
    a, b = pair
    monitor = ("monitor", "--board", BOARD, "--seconds", "0.2", "--probe")
    hil_json(*monitor, a.serial)
    hil_json(*monitor, b.serial)
    crossed = (*monitor, b.serial, "--port", a.ports[0].path)
    assert "another board" in error_of(hil_json(*crossed, code=4))


@pytest.mark.full
def test_a_debugger_does_not_claim_the_line(pair: tuple[FakeBoard, FakeBoard], rig: Bench) -> None:
    a, _ = pair
    command = [*rig.hil, "debug", str(DIGITS), "--board", BOARD, "--probe", a.serial, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "}\n")
            answer = answers.entry("".join(lines) + "}")
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert answer["serial"] == f"usb:{a.serial}"
    assert answer["serial_proven"] is False
