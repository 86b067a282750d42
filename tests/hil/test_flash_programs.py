"""Flashers that start a program: what each is given, and what its failures become.

The programs are stand-ins (``tool_stand_in.py``): they check each command line against the tool's
documented options, and answer with the tool's texts. Real tools are in test_flash_tools.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import tool_stand_in
from serial.tools.list_ports_common import ListPortInfo
from usb_tree import add_device
from waiting import until

from hil.access import flashers, usb
from hil.access.flashers import FLASHERS
from hil.access.flashers.program import ProgramFlasher, placeholders
from hil.board import load_board
from hil.cli import main
from hil.lab.pool import open_pool

#: Serial numbers of an ST-Link and a J-Link, as USB has them.
STLINK, JLINK = "066BFF505052836687031521", "000683459357"
_DFU = ((0xFE, 0x01, 0x02),)

_BOARD = """
description = "x"
chip = "stm32f446re"
flasher = {{ name = "{name}"{settings} }}
[soc]
hse_hz = 8_000_000
hse_bypass = 1
[uart]
instance = "usart2"
tx = "PA2"
rx = "PA3"
"""


@dataclass
class Bench:
    """A board file, its USB devices, and the log of the stand-in."""

    folder: Path
    devices: Path
    elf: Path
    monkeypatch: pytest.MonkeyPatch

    def board(self, name: str, settings: str = "") -> str:
        path = self.folder / f"b-{name}.toml"
        path.write_text(_BOARD.format(name=name, settings=settings))
        flasher = flashers()[name]
        if isinstance(flasher, ProgramFlasher):
            tool_stand_in.install(self.folder / "bin", flasher.program)
        return str(path)

    def fail(self, failure: str) -> None:
        self.monkeypatch.setenv("STAND_IN_FAILURE", failure)

    @property
    def log(self) -> list[list[str]]:
        path = self.folder / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of nobody's: two segments with a gap, in a file whose name is a trap."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.s").write_text(
        '.section .a, "ax"\n.word 0x20001000, 0x08000009\n.thumb\n1: b 1b\n'
        '.section .b, "ax"\n.word 1, 2, 3\n'
    )
    path = folder / "it's [exec] {x} -rst\n.elf"
    words = ["arm-none-eabi-gcc", "-nostdlib", "-Wl,--section-start=.a=0x08000000"]
    words += ["-Wl,--section-start=.b=0x08004004", "-mcpu=cortex-m4", "a.s", "-o", str(path)]
    subprocess.run(words, cwd=folder, check=True, timeout=60, capture_output=True)
    return path


@pytest.fixture
def bench(tmp_path: Path, elf: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    devices = tmp_path / "usb"
    devices.mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(usb, "DEVICES", devices)
    monkeypatch.setenv("HIL_LOCKS", str(tmp_path))
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("STAND_IN_FAILURE", raising=False)
    return Bench(tmp_path, devices, elf, monkeypatch)


def _stlink(devices: Path) -> None:
    add_device(devices, "1-1", 0x0483, 0x374B, STLINK, name="STM32 STLink")


def _jlink(devices: Path) -> None:
    add_device(devices, "1-2.4", 0x1366, 0x1051, JLINK, name="J-Link")


def _dfu(devices: Path) -> None:
    add_device(devices, "1-3", 0x0483, 0xDF11, "357236543131", _DFU, "STM32 BOOTLOADER")


def _pico(devices: Path) -> None:
    add_device(devices, "1-4", 0x2E8A, 0x0003, "E0C9125B0D9B", name="RP2 Boot")


_NRF = ["nrfutil", "device"]
_NRF_PLACE = ["--serial-number", JLINK]
_NRF_OPTIONS = (
    "chip_erase_mode=ERASE_RANGES_TOUCHED_BY_FIRMWARE,verify=VERIFY_READ,reset=RESET_NONE"
)
_RS = ["--non-interactive", "--chip", "STM32F446RE", "--probe", f"0483:374b:{STLINK}"]
_CUBE = ["STM32_Programmer_CLI", "-q", "-c", "port=SWD", "mode=NORMAL", f"sn={STLINK}"]
_SEGGER = [
    *("JLinkExe", "-NoGui", "1", "-ExitOnError", "1", "-Device", "STM32F446RE", "-If", "SWD"),
    *("-Speed", "4000", "-USB", "683459357", "-AutoConnect", "1", "-CommandFile", "script"),
]
_DFU_PLACE = ["dfu-util", "-p", "1-3", "-a", "0"]
_PICO = ["--bus", "1", "--address", "4"]

#: Each flasher: its settings, its device, and its command lines for flash, reset and erase; None
#: where it has none.
CASES: dict[
    str, tuple[str, Callable[[Path], None], list[list[str]], list[str] | None, list[str] | None]
] = {
    "st-flash": (
        "",
        _stlink,
        [
            ["st-flash", "--serial", STLINK, "--format", "ihex", "write", "image.hex"],
            ["st-flash", "--serial", STLINK, "reset"],
        ],
        ["st-flash", "--serial", STLINK, "reset"],
        ["st-flash", "--serial", STLINK, "erase"],
    ),
    "stm32cubeprogrammer": (
        "",
        _stlink,
        [[*_CUBE, "-w", "image.hex", "-v"], [*_CUBE, "-rst"]],
        [*_CUBE, "-rst"],
        [*_CUBE, "-e", "all"],
    ),
    "probe-rs": (
        ', chip = "STM32F446RE"',
        _stlink,
        [
            ["probe-rs", "download", *_RS, "--binary-format", "elf", "--verify", "image.elf"],
            ["probe-rs", "reset", *_RS],
        ],
        ["probe-rs", "reset", *_RS],
        ["probe-rs", "erase", *_RS],
    ),
    "nrfutil": (
        "",
        _jlink,
        [
            [*_NRF, "program", "--firmware", "image.hex", *_NRF_PLACE, "--options", _NRF_OPTIONS],
            [*_NRF, "reset", *_NRF_PLACE],
        ],
        [*_NRF, "reset", *_NRF_PLACE],
        [*_NRF, "erase", "--all", *_NRF_PLACE],
    ),
    "jlink": (', device = "STM32F446RE"', _jlink, [_SEGGER, _SEGGER], _SEGGER, _SEGGER),
    "dfu-util": (
        "",
        _dfu,
        [[*_DFU_PLACE, "-s", "0x08000000:leave", "-D", "image.bin"]],
        None,
        [*_DFU_PLACE, "-s", ":mass-erase:force"],
    ),
    "picotool": (
        "",
        _pico,
        [["picotool", "load", "--verify", "--execute", "image.elf", *_PICO]],
        None,
        ["picotool", "erase", "--all", *_PICO],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_command_lines(name: str, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    settings, connect, flash, reset, erase = CASES[name]
    connect(bench.devices)
    board = bench.board(name, settings)
    assert main(["flash", str(bench.elf), "--board", board]) == 0, capsys.readouterr().err
    assert bench.log == flash
    for command, expected in (("reset", reset), ("erase", erase)):
        seen = len(bench.log)
        code = main([command, "--board", board])
        said = capsys.readouterr().err
        if expected is None:
            assert code == 2
            assert "cannot reset a board" in said
            assert "press" in said
        else:
            assert code == 0, said
        assert bench.log[seen:] == ([expected] if expected else [])


FAILURES = [
    (name, failure)
    for name in CASES
    for failure in tool_stand_in.TOOLS[
        next(f.program for f in FLASHERS if isinstance(f, ProgramFlasher) and f.name == name)
    ].failures
]


@pytest.mark.parametrize(("name", "failure"), FAILURES)
def test_a_failure_of_the_tool(
    name: str, failure: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the tool's own line and a remedy; nothing is unlocked, and nothing is started."""
    settings, connect, flash, *_ = CASES[name]
    connect(bench.devices)
    board = bench.board(name, settings)
    bench.fail(failure)
    assert main(["flash", str(bench.elf), "--board", board]) == 4
    said = capsys.readouterr().err
    assert "STAND-IN USAGE ERROR" not in said
    assert bench.log == flash[:1], "one attempt, and no later command line"
    fact, _, hint = said.partition("hint: ")
    program = flash[0][0]
    texts = tool_stand_in.TOOLS[program].failures[failure][1].split("\n")
    if failure != "silent":
        assert any(line.strip() and " ".join(line.split()) in fact for line in texts), said
    assert hint.strip(), said
    if failure == "locked":
        assert "locked" in hint
        words = " ".join(word for line in bench.log for word in line)
        assert not any(word in words for word in ("recover", "allow-erase-all", "RDP", "unprotect"))


@pytest.mark.parametrize("name", ["stm32cubeprogrammer", "probe-rs", "nrfutil"])
def test_a_locked_chip_is_opened_on_request(name: str, bench: Bench) -> None:
    settings, connect, flash, _, erase = CASES[name]
    connect(bench.devices)
    board = bench.board(name, settings)
    opening = {
        "stm32cubeprogrammer": [*_CUBE, "-ob", "RDP=0xAA"],
        "probe-rs": ["probe-rs", "erase", *_RS, "--allow-erase-all"],
        "nrfutil": [*_NRF, "recover", *_NRF_PLACE],
    }[name]
    assert main(["erase", "--board", board, "--erase-to-unlock"]) == 0
    assert bench.log == [opening, erase]
    assert main(["flash", str(bench.elf), "--board", board, "--erase-to-unlock"]) == 0
    assert bench.log[2:] == [opening, *flash]


@pytest.mark.parametrize("name", ["st-flash", "jlink", "dfu-util", "picotool"])
def test_a_flasher_that_cannot_unlock(
    name: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, connect, *_ = CASES[name]
    connect(bench.devices)
    assert main(["erase", "--board", bench.board(name, settings), "--erase-to-unlock"]) == 2
    assert "cannot open a locked chip" in capsys.readouterr().err
    assert bench.log == []


def test_a_program_that_hangs_is_ended(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """With all its children; the message has what it printed."""
    _stlink(bench.devices)
    board = bench.board("st-flash", ", timeout_s = 1")
    bench.fail("hang")
    assert main(["flash", str(bench.elf), "--board", board]) == 4
    said = capsys.readouterr().err
    assert "did not end within 1 s" in said
    assert "timeout_s" in said
    marker = str(bench.folder / "bin")

    def is_gone() -> bool:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return marker not in listed.stdout

    until(is_gone)


def test_a_missing_program_is_named_first(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    _jlink(bench.devices)
    board = bench.board("nrfutil")
    (bench.folder / "bin" / "nrfutil").unlink()
    assert main(["flash", str(bench.elf), "--board", board]) == 4
    said = capsys.readouterr().err
    assert "nrfutil is not installed" in said
    assert "nrfutil install device" in said


# -- bossac: the bootloader's port ----------------------------------------------------------------


@pytest.fixture
def nano(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A board that runs a sketch; at 1200 baud its bootloader takes its place, at another port."""
    place = "1-5"
    add_device(bench.devices, place, 0x2341, 0x805A, "4D2B", name="Nano 33 BLE")
    terminals = ExitStack()
    names = [_terminal(terminals) for _ in range(2)]
    ended = threading.Event()

    def comports(include_links: bool = False) -> list[ListPortInfo]:
        product = int((bench.devices / place / "idProduct").read_text(), 16)
        port = ListPortInfo(names[0 if product & 0x8000 else 1][1])
        port.vid, port.pid, port.location = 0x2341, product, f"{place}:1.0"
        return [port]

    def watch() -> None:
        while not ended.wait(0.01):
            if termios.tcgetattr(names[0][0])[4] == termios.B1200:
                add_device(bench.devices, place, 0x2341, 0x005A, "other", name="Nano 33 BLE")
                return

    monkeypatch.setattr("serial.tools.list_ports.comports", comports)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield names[1][1]
    finally:
        ended.set()
        thread.join()
        terminals.close()


def _terminal(stack: ExitStack) -> tuple[int, str]:
    master, slave = os.openpty()
    stack.callback(os.close, master)
    stack.callback(os.close, slave)
    return master, os.ttyname(slave)


def test_bossac_at_the_bootloaders_port(
    nano: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    board = bench.board("bossac", ", offset = 0x2000")
    assert main(["flash", str(bench.elf), "--board", board]) == 0, capsys.readouterr().err
    place = [f"--port={nano}", "-U", "--offset=0x2000"]
    assert bench.log == [["bossac", "-i", *place, "-e", "-w", "-v", "image.bin", "-R"]]
    # Now it is in its bootloader: there is nobody to restart.
    assert main(["erase", "--board", board]) == 0
    assert bench.log[1:] == [["bossac", *place, "-e"]]


def test_a_board_without_its_bootloader(
    nano: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting forbids 1200 baud: bossac is given the port of the sketch, and finds nothing."""
    board = bench.board("bossac", ", touch = 'never'")
    bench.fail("absent")
    assert main(["flash", str(bench.elf), "--board", board]) == 4
    said = capsys.readouterr().err
    assert "No device found on ttyACM0" in said
    assert "press reset twice" in said
    assert nano not in " ".join(bench.log[0])


def test_a_bridge_restarts_the_chip_behind_it(
    nano: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its product id says nothing of the chip, and its port stays."""
    add_device(bench.devices, "1-5", 0x2341, 0x1002, "4D2B", name="UNO R4 WiFi")
    board = bench.board("bossac", ", touch = 'always'")
    assert main(["erase", "--board", board]) == 0
    assert bench.log == [["bossac", f"--port={nano}", "-U", "-e"]]
    speed = termios.tcgetattr(os.open(nano, os.O_RDWR | os.O_NOCTTY))[4]
    assert speed == termios.B1200
    board = bench.board("bossac", ", touch = 'sometimes'")
    assert main(["erase", "--board", board]) == 2
    assert "choose one of sketch, always, never" in capsys.readouterr().err


@pytest.mark.parametrize("failure", tool_stand_in.TOOLS["bossac"].failures)
def test_a_failure_of_bossac(
    failure: str, nano: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.fail(failure)
    assert main(["flash", str(bench.elf), "--board", bench.board("bossac")]) == 4
    fact, _, hint = capsys.readouterr().err.partition("hint: ")
    line = tool_stand_in.TOOLS["bossac"].failures[failure][1].split("\n")[0]
    assert line in fact
    assert hint.strip()


# -- devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "serial", ["-o", "--serial=x", "A B", "A;reset", "A]", "A\nexit", "$(id)", "../x", "a{b"]
)
def test_a_serial_number_that_is_no_word(
    serial: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes from the device, which may be anybody's."""
    add_device(bench.devices, "1-1", 0x0483, 0x374B, serial)
    for name in ("st-flash", "openocd"):
        assert main(["reset", "--board", bench.board(name)]) == 4
        assert "is not started for the serial number" in capsys.readouterr().err
    assert bench.log == []


def test_a_pool_needs_one_flasher_only(bench: Bench) -> None:
    """Of a board that several flashers program: the others may be missing here."""
    _stlink(bench.devices)
    file = bench.board("st-flash")
    board = load_board(file)
    assert len(board.flashers) > 1
    bench.monkeypatch.setenv("PATH", str(bench.folder / "bin"))
    missing = [flashers()[name].needs(board) for name in board.flashers[1:]]
    assert any(need is not None and not need.is_there() for need in missing)
    pool = open_pool(file, [], [])
    assert pool is not None
    assert pool.size == 1
    pool.close()


def test_two_devices_are_a_choice(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    _stlink(bench.devices)
    add_device(bench.devices, "1-9", 0x0483, 0x374B, "0777")
    board = bench.board("st-flash")
    assert main(["reset", "--board", board]) == 4
    said = capsys.readouterr().err
    assert STLINK in said
    assert "--probe UID" in said
    assert main(["reset", "--board", board, "--probe", "0777"]) == 0
    assert bench.log == [["st-flash", "--serial", "0777", "reset"]]


def test_a_device_without_a_serial_number(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone it is used; beside another one, the tool could take that one for it."""
    add_device(bench.devices, "1-1", 0x0483, 0x3748)
    board = bench.board("st-flash")
    assert main(["reset", "--board", board]) == 0
    assert bench.log == [["st-flash", "reset"]]
    add_device(bench.devices, "1-2", 0x0483, 0x374B, STLINK)
    assert main(["reset", "--board", board, "--probe", "1-1"]) == 4
    assert "has no serial number" in capsys.readouterr().err
    assert len(bench.log) == 1


def test_two_boot_roms_of_one_serial_number(bench: Bench) -> None:
    """Every RP2040 has the same one there: the socket tells them apart."""
    _pico(bench.devices)
    add_device(bench.devices, "1-7", 0x2E8A, 0x0003, "E0C9125B0D9B")
    board = bench.board("picotool")
    assert main(["erase", "--board", board, "--probe", "1-7"]) == 0
    assert bench.log == [["picotool", "erase", "--all", "--bus", "1", "--address", "7"]]


# -- the tables -----------------------------------------------------------------------------------

PROGRAMS = [flasher for flasher in FLASHERS if isinstance(flasher, ProgramFlasher)]
_UNLOCKING = ("recover", "allow-erase-all", "RDP", "-rdu", "unprotect", "mass_erase", "--force")


@pytest.mark.parametrize("flasher", PROGRAMS, ids=lambda flasher: flasher.name)
def test_no_line_unlocks_but_that_for_it(flasher: ProgramFlasher) -> None:
    for action, lines in flasher.lines.items():
        words = " ".join(
            " ".join([word] if isinstance(word, str) else word.words)
            for line in lines
            for word in line
        )
        if action != "unlock":
            assert not any(word in words for word in _UNLOCKING), (action, words)


@pytest.mark.parametrize("flasher", PROGRAMS, ids=lambda flasher: flasher.name)
def test_only_names_and_numbers_reach_a_line(flasher: ProgramFlasher) -> None:
    """A setting of the type text could be an option, a line of a script, or Tcl."""
    given = {"file", "origin", "port", "serial", "path", "bus", "address", "vid", "pid", "number"}
    lines = [word for action in flasher.lines.values() for line in action for word in line]
    words = [part for word in lines for part in ([word] if isinstance(word, str) else word.words)]
    words += [line for script in flasher.scripts.values() for line in script]
    for word in words:
        for name in placeholders(word) - given:
            assert flasher.settings[name].type in ("name", "integer", "boolean"), word
