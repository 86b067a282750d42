"""The debug module of a simulated core, driven by the real OpenOCD over JTAG, and by gdb."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import answers
import psutil
import pytest
from campaigns import cases
from tiny_library import tiny_library

from hil.access import Connection, debug, flashers, proof, start
from hil.access.flashers.openocd import OpenOcdSession, _line
from hil.access.flashers.program import expand
from hil.access.verilator import RtlMachine, cores
from hil.board import Board, load_board
from hil.cli import main
from hil.errors import DeviceError, InputError, LinkError
from hil.firmware.build import build
from hil.firmware.image import read_image
from hil.link.codec import Decoder, Frame, encode
from hil.link.protocol import Command, Kind

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
BOARDS = ("rtl-cv32e40p", "rtl-ibex", "rtl-cv32e40p-xpulp")


@pytest.fixture(scope="module")
def elf() -> Path:
    """An image for each of these cores."""
    return build([tiny_library("y[0] = x[0];", cpu="rv32imc")], load_board("rtl-ibex")).elf


@contextmanager
def jtag(board: Board) -> Iterator[tuple[RtlMachine, OpenOcdSession]]:
    """A simulator without an image, and a session of OpenOCD at its JTAG port."""
    flasher = flashers()["openocd"]
    with flasher.start_virtual(board) as (machine, alive):
        assert isinstance(machine, RtlMachine)
        with flasher.open(board, machine.uid, Connection("virtual")) as session:
            assert isinstance(session, OpenOcdSession)
            yield machine, session
        alive()


def said(session: OpenOcdSession, *commands: str) -> str:
    """What OpenOCD says to commands of its own."""
    return session.run(expand(_line("disabled", "init", *commands, "shutdown"), session.values))


@cases("name", BOARDS, first=1)
def test_openocd_programs_a_simulated_core(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(DIGITS), "--board", name, "--probe", "virtual", "--samples", "2"]
    assert main([*words, "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"]


@cases("name", BOARDS[:2], first=1)
def test_openocd_controls_a_simulated_core(name: str, elf: Path) -> None:
    with jtag(load_board(name)) as (machine, session):
        session.stage(elf)
        # At all alignments: the module writes words, the core the rest.
        writes = [
            *("mww 0x40002000 0x44332211", "mwb 0x40002001 0xaa", "mwh 0x40002002 0xbbcc"),
            *("mww 0x20001000 0", "mwb 0x20001003 0xdd"),
        ]
        reads = ["mdw 0x40002000", "mdb 0x40002001", "mdh 0x40002002", "mdw 0x20001000"]
        nowhere = ["mww 0x90000000 1", "mdw 0x90000000", "mdw 0xf0000008"]
        text = said(session, "halt", *writes, *reads, *nowhere)
        assert re.findall(r"0x\w+: (\w+)", text) == [
            *("bbccaa11", "aa", "bbcc", "dd000000"),
            *("00000000", "00000000"),  # no memory, and a register of the serial line
        ]
        first = read_image(elf)[0].address
        text = said(
            session,
            *("reset halt", "reg pc", "load_image image.elf", "verify_image image.elf"),
            *(f"bp {first:#x} 2 hw", "resume", "wait_halt 5000", "reg pc", f"rbp {first:#x}"),
            *(
                "step",
                "reg pc",
                "reset halt",
                "reg pc",
                "reset run",
                "halt",
                "reset halt",
                "reg pc",
            ),
        )
        pcs = [int(pc, 16) for pc in re.findall(r"pc \(/32\): (0x\w+)", text)]
        start = {"rtl-ibex": 0x80}.get(name, 0)
        assert pcs == [start, first, first + 4, start, start]
        machine.control.write(first, b"\0\0\0\0")
        with pytest.raises(DeviceError, match="(?i)verif|mismatch"):
            session.verify(elf)


@cases("name", BOARDS[:2], first=1)
def test_gdb_debugs_a_simulated_core(name: str, elf: Path) -> None:
    with debug.serve(load_board(name), elf, None, Connection()) as server:
        assert server.is_proven
        for steps in (
            ("break main", "continue", "print $pc == main", "stepi", "print $pc > main", "detach"),
            ("break on_hello", "monitor reset halt", "maintenance flush register-cache", "detach"),
        ):
            words = [word for step in steps for word in ("-ex", step)]
            command = [*shlex.split(server.command), "-batch", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            server.alive()
            if steps[0] == "break main":
                assert "Breakpoint 1, main () at src/main.c" in done.stdout, done.stderr
                assert "$1 = 1" in done.stdout
                assert "$2 = 1" in done.stdout
            else:
                assert "does not pass on" not in done.stdout + done.stderr


@cases("name", BOARDS[:2], first=1)
def test_a_line_is_proven_by_openocd(name: str, elf: Path) -> None:
    """As on a real board: the probe stops the core at the request that arrives."""
    board = load_board(name)
    with jtag(board) as (machine, session), jtag(board) as (other, beside):
        session.program(elf, None)
        session.start(elf)
        for segment in read_image(elf):
            other.control.write(segment.address, segment.data)
        beside.reset()

        def proven(url: str) -> proof.Proven:
            handler = proof.handler_of(elf)
            return proof.prove(session.core, board, machine.uid, handler, lambda: [url])

        with pytest.raises(LinkError, match="runs on another board"):
            proven(other.url)
        found = proven(machine.url)
        session.close()
        # The core runs on, without a breakpoint.
        found.line.write(encode(Frame(1, 1, Kind.REQUEST, Command.ECHO, b"abc")))
        decoder = Decoder()
        frames: list[Frame] = []
        deadline = time.monotonic() + 60
        while not frames and time.monotonic() < deadline:
            frames = [f for f in decoder.feed(found.line.read()) if isinstance(f, Frame)]
        found.line.close()
        assert frames


def _killed(name: str) -> threading.Thread:
    """Kill a child of this process while OpenOCD is loading the image."""

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            children = psutil.Process().children(recursive=True)
            if any(child.name() == "openocd" for child in children):
                time.sleep(0.3)
                for child in children:
                    if child.name() == name and child.is_running():
                        os.kill(child.pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.full
def test_an_openocd_that_is_killed(elf: Path) -> None:
    with jtag(load_board("rtl-cv32e40p")) as (_, session):
        thread = _killed("openocd")
        with pytest.raises(DeviceError, match="OpenOCD failed with -9"):
            session.program(elf, None)
        thread.join()
        session.program(elf, None)


@pytest.mark.full
def test_a_simulator_that_is_killed(elf: Path) -> None:
    thread = _killed("simulator")
    with (
        pytest.raises(DeviceError, match=r"the simulator of CV32E40P (?:ended|was killed)"),
        start(
            load_board("rtl-cv32e40p"), SimpleNamespace(elf=elf), "openocd", Connection("virtual")
        ),
    ):
        pass
    thread.join()


def test_a_target_that_is_not_there(elf: Path) -> None:
    board = load_board("rtl-cv32e40p").with_settings("--flasher", "openocd", {"target": "stm32f4x"})
    with jtag(board) as (_, session), pytest.raises(DeviceError) as caught:
        session.program(elf, None)
    assert "setting target" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("debug {digits} --board rtl-vexriscv", 2, "choose one of rtl-cv32e40p"),
        ("debug {digits} --board rtl-picorv32", 2, "a debug module for PicoRV32"),
        ("verify {digits} --board rtl-vexriscv --probe virtual", 2, "has no flasher, so no probe"),
        ("flash {digits} --board rtl-ibex", 2, "choose --probe virtual"),
        ("erase --board rtl-ibex --probe virtual", 2, "has no flash to erase"),
        (
            "verify {digits} --board longan-nano --runner openocd --probe virtual",
            2,
            "does not have the runner verilator",
        ),
    ],
)
def test_what_has_no_debug_module_is_refused(
    line: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line.format(digits=DIGITS))) == code
    assert message in capsys.readouterr().err


def test_the_missing_rtl_of_the_debug_module_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(cores, "find_spec", lambda name: None if "cv32e40p" in name else find(name))
    words = ["verify", str(DIGITS), "--board", "rtl-ibex", "--probe", "virtual"]
    assert main(words) == 4
    assert "pythondata-cpu-cv32e40p is not installed" in capsys.readouterr().err
    with pytest.raises(InputError, match="has no machine|no simulated JTAG"):
        flashers()["openocd"].check_virtual(load_board("rtl-vexriscv"))
