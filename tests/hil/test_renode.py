"""The runner for Renode: its files, its monitor, and what goes wrong.

Renode is not here; ``renode_stand_in.py`` answers as it does, with a real machine behind it.
``HIL_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import answers
import numpy as np
import psutil
import pytest
from descriptions import description_text
from processes import children
from waiting import PATIENCE_S

import hil
import hilc
from hil.access import Resettable, renode, renode_monitor
from hil.access.renode_monitor import Monitor, Telnet
from hil.board import Board, Renode, board_names, load_board
from hil.build import Firmware, build
from hil.cli import main
from hil.errors import BoardError, DeviceError, InputError
from hil.link.client import Client
from hil.link.line import Link

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "renode"
STAND_IN = Path(__file__).parent / "renode_stand_in.py"
BOARD = "mps2-an386"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in as ``renode`` on PATH; nothing of it may be left."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "renode"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    temporary = tmp_path / "with a space"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = children()
    yield
    left = [psutil.Process(pid) for pid in children() - before]
    _, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
    assert not alive
    assert not list(temporary.iterdir())


def digits(board: Board) -> Firmware:
    library = hilc.compile(DIGITS / "digits.tflite", cpu=board.cpu.name)
    return build([library], board)


# -- the files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in board_names() if "renode" in load_board(name).runners]
)
def test_platform_and_script(name: str) -> None:
    board = load_board(name)
    for suffix, text in ((".repl", renode.platform(board)), (".resc", renode.script(board))):
        path = GOLDEN / f"{name}{suffix}"
        if os.environ.get("HIL_UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text


def description(tmp_path: Path, board: str, table: str) -> Path:
    text = description_text(board)
    head, _, _ = text.partition('\n[[runner]]\nname = "renode"')
    path = tmp_path / "board.toml"
    head = head.partition("\n[[flasher]]")[0]
    path.write_text(f'{head}\n[[runner]]\nname = "renode"\n{table}\n')
    return path


@pytest.mark.parametrize(
    ("board", "table", "message"),
    [
        (BOARD, "mips = 13", r"runner\[1\].mips: 13 million .* counts would not be exact"),
        (BOARD, "misp = 1", r"runner\[1\].misp: unknown key .*mips"),
        (BOARD, 'platform = "platforms/cpus/x.repl"', r"runner\[1\].uart: the key is missing"),
        (BOARD, "changes = 1", r"runner\[1\].changes: 1 is not a string"),
        (
            "lm3s6965evb",
            "",
            "no platform can be generated for the port 'lm3s'",
        ),
    ],
)
def test_mistakes(board: str, table: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=message):
        load_board(description(tmp_path, board, table))


def test_half_the_clock_is_the_default_rate(tmp_path: Path) -> None:
    board = load_board(description(tmp_path, BOARD, ""))
    assert board.renode == Renode("", "uart", 12)


def test_a_core_that_renode_has_no_name_for() -> None:
    board = load_board("mps3-an547")
    with pytest.raises(InputError, match="cannot generate a Renode platform with a cortex-m55"):
        renode.platform(replace(board, renode=Renode("", "uart", 16)))


# -- the monitor -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"plain", b"plain"),
        (bytes.fromhex("fffd00 fffb01") + b"(monitor) ", b"(monitor) "),
        (b"a\xff\xffb", b"a\xffb"),
        (b"a\xff\xfa\x1f\x00P\xff\xffP\xff\xf0b", b"ab"),
        (b"a\xff\xf1b", b"ab"),
    ],
)
def test_telnet_cut_anywhere(stream: bytes, data: bytes) -> None:
    for cut in range(len(stream) + 1):
        telnet = Telnet()
        assert telnet.feed(stream[:cut]) + telnet.feed(stream[cut:]) == data
    telnet = Telnet()
    assert b"".join(telnet.feed(bytes([byte])) for byte in stream) == data


@contextmanager
def replaying(received: bytes) -> Iterator[Monitor]:
    """A monitor that has shown ``received`` already."""
    ours, theirs = socket.socketpair()
    with theirs, closing(Monitor(ours, lambda: None)) as monitor:
        theirs.sendall(received)
        yield monitor


@pytest.mark.parametrize(
    ("received", "answer"),
    [
        (b"version\r\nRenode 1\r\n\r\x1b[K(monitor) ", "Renode 1"),
        (b"version\r\n\r\n(mach-0) ", ""),
        (b"ver\r\nsion\r\none\r\n\r\n(a) two\r\n(b) ", "one\n(a) two"),  # wrapped; no prompt inside
        (b"(monitor) version\r\n\x1b[31mred\x1b[0m\r\n(monitor) ", "red"),
    ],
)
def test_the_output_of_a_command(received: bytes, answer: str) -> None:
    with replaying(received) as monitor:
        assert monitor.ask("version") == answer


def test_a_prompt_from_before_is_no_answer() -> None:
    with (
        replaying(b"(monitor) version\r\n") as monitor,
        pytest.raises(DeviceError, match=r"does not answer; its last .*'\(monitor\) version'"),
    ):
        monitor.ask("version", timeout_s=0.1)


# -- end to end ------------------------------------------------------------------------------------


def test_verify_and_bench(stand_in: None, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DIGITS / "digits.tflite")
    arguments = [model, "--board", BOARD, "--runner", "renode", "--json"]
    assert main(["verify", *arguments, "--samples", "3"]) == 0
    assert answers.entry(capsys.readouterr().out)["match"] is True
    assert main(["bench", *arguments]) == 0
    report = answers.entry(capsys.readouterr().out)
    assert report["counter"] == "instructions"
    assert report["per_inference"] > 10_000


def test_counts_are_those_of_the_virtual_time(stand_in: None) -> None:
    """At 125 MIPS the machine behind the stand-in needs 8 ns for an instruction, as it says."""
    board = replace(load_board(BOARD), renode=Renode("", "uart", 125))
    image = np.load(DIGITS / "digits_test.npz")["image"][:1]
    counts: dict[str, list[int]] = {}
    for runner in ("qemu", "renode"):
        with hil.open(board, DIGITS / "digits.tflite", runner=runner) as device:
            model = device["digits"]
            counts[runner] = []
            for _ in range(3):
                model.set_input(0, image)
                counts[runner].append(device.count(model.run().ticks))
            assert device.counter == "instructions"
    assert len(set(counts["renode"])) == 1
    # A tick is five instructions at this rate.
    assert counts["renode"][0] == pytest.approx(counts["qemu"][0], abs=5)


def test_two_sessions_and_two_boards_at_once(stand_in: None) -> None:
    board = load_board(BOARD)
    firmware = digits(board)
    with renode.start(board, firmware) as one, renode.start(board, firmware) as other:
        assert one.url != other.url
        for running in (one, other, one):
            with closing(Link(running.url, alive=running.alive)) as link:
                assert Client(link).echo(b"\xff\x00" * 50) == b"\xff\x00" * 50
        before = one.executed()
        with closing(Link(one.url, alive=one.alive)) as link:
            Client(link).echo(b"x")
        assert 0 < before < one.executed()


def test_reset(stand_in: None) -> None:
    board = load_board(BOARD)
    with renode.start(board, digits(board)) as running:
        assert isinstance(running, Resettable)
        used = []
        for _ in range(2):
            with closing(Link(running.url, alive=running.alive)) as link:
                client = Client(link)
                fresh = client.memory().stack_peak_bytes
                client.run(0)
                used.append(client.memory().stack_peak_bytes)
            assert fresh < min(used)
            assert running.executed() > 0
            running.reset()


# -- what goes wrong -------------------------------------------------------------------------------


def fails(monkeypatch: pytest.MonkeyPatch, message: str, fault: str = "") -> DeviceError:
    """The error of a start; nothing may be left of it."""
    monkeypatch.setenv("HIL_STAND_IN", fault)
    # Of the others none ends by the limit.
    is_silent = fault in ("deaf", "silent")
    monkeypatch.setattr(renode, "_START_TIMEOUT_S", 3.0 if is_silent else PATIENCE_S)
    board = load_board(BOARD)
    with (
        pytest.raises(DeviceError, match=message) as caught,
        renode.start(board, digits(board)),
    ):
        pass
    return caught.value


def test_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    firmware = SimpleNamespace(elf=tmp_path / "x.elf")
    with (
        pytest.raises(DeviceError, match="renode is not installed") as caught,
        renode.start(load_board(BOARD), firmware),
    ):
        pass
    assert "github.com/renode" in caught.value.hint


def test_board_without_renode(tmp_path: Path) -> None:
    firmware = SimpleNamespace(elf=tmp_path / "x.elf")
    with (
        pytest.raises(InputError, match="has no runner 'renode'"),
        renode.start(load_board("microbit"), firmware),
    ):
        pass


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("dies", "Renode ended: exit code 1, saying 'Fatal error: libMonoPosixHelper"),
        ("deaf", r"monitor does not listen at port \d+ \(waited 3 s\)"),
        ("silent", r"monitor does not answer \(waited 3 s\)"),
    ],
)
def test_renode_does_not_start(
    fault: str, message: str, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, message, fault)


def test_an_error_in_the_script_is_told(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    good = renode.platform
    monkeypatch.setattr(
        renode, "platform", lambda board: good(board).replace("CMSDK_APB_UART", "CMSDK_UART")
    )
    fails(
        monkeypatch,
        r"stopped in the board's script: There was an error executing command "
        r"'machine LoadPlatformDescription .*Could not resolve type: 'UART.CMSDK_UART'",
    )


def test_a_platform_that_this_renode_lacks(stand_in: None) -> None:
    own = Renode("platforms/cpus/stm32f4.repl", "usart2", 12)
    board = replace(load_board(BOARD), renode=own)
    with (
        pytest.raises(DeviceError, match=r"Using 'platforms/cpus/stm32f4.repl' does not exist"),
        renode.start(board, digits(load_board(BOARD))),
    ):
        pass


@pytest.mark.parametrize("which", [0, 1], ids=["monitor", "serial line"])
def test_a_port_that_another_takes_first(
    which: int, stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another port is tried; when none is free in the end, that is the error."""
    free = renode._free_port
    board = load_board(BOARD)
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [free(), free(), free()]
        ports.insert(which, other.getsockname()[1])
        monkeypatch.setattr(renode, "_free_port", lambda: ports.pop(0))
        with (
            renode.start(board, digits(board)) as running,
            closing(Link(running.url, alive=running.alive)) as link,
        ):
            assert Client(link).echo(b"hello") == b"hello"
        assert len(ports) == 1
        taken = other.getsockname()[1]
        ports = [*([] if which == 0 else [free()]), *[taken] * 3]
        fails(monkeypatch, "(?i)address already in use")
        assert not ports


def test_renode_ends_amid_a_run(stand_in: None) -> None:
    board = load_board(BOARD)
    before = children()
    with hil.open(board, DIGITS / "digits.tflite", runner="renode") as device:
        started = [psutil.Process(pid) for pid in children() - before]
        (main_process,) = [p for p in started if STAND_IN.name in " ".join(p.cmdline())]
        threading.Timer(0.5, main_process.send_signal, [signal.SIGKILL]).start()
        with pytest.raises(DeviceError, match=r"Renode ended: signal 9 \(SIGKILL\)"):
            device["digits"].run(repeat=10_000_000)


def test_renode_that_does_not_quit_is_ended(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_STAND_IN", "stays")
    monkeypatch.setattr(renode, "_QUIT_TIMEOUT_S", 0.3)
    board = load_board(BOARD)
    with renode.start(board, digits(board)):
        pass


# -- counting --------------------------------------------------------------------------------------


def counting(answer: str, mips: int = 12) -> Any:
    monitor = SimpleNamespace(ask=lambda command: answer)
    process = SimpleNamespace(alive=lambda: None)
    return renode.RenodeBoard(process, monitor, "", mips)  # type: ignore[arg-type]


@pytest.mark.parametrize("instructions", [0, 1, 2, 1000, 6_606_884, 10**12 + 7])
def test_instructions_from_ticks_are_exact(instructions: int) -> None:
    """The timer shows whole ticks of the time that the instructions took."""
    ticks = instructions * 25_000_000 // 12_000_000
    assert counting(f"0x{10**13:X}").count(ticks, 25_000_000) == instructions


@pytest.mark.parametrize(("answer", "number"), [("0x00000000000004D2", 1234), ("1234", 1234)])
def test_executed_instructions_in_either_notation(answer: str, number: int) -> None:
    assert counting(answer).executed() == number


def test_a_time_base_of_another_rate_is_noticed() -> None:
    with pytest.raises(DeviceError, match="shows 2400 instructions, but Renode has executed 1000"):
        counting("0x3E8").count(5000, 25_000_000)


def test_an_answer_without_a_number() -> None:
    with pytest.raises(DeviceError, match="answered 'No such command or device: sysbus.cpu'"):
        counting("No such command or device: sysbus.cpu").executed()


def test_the_monitor_closes_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with closing(Monitor(ours, lambda: None)) as monitor:
        theirs.close()
        with pytest.raises(DeviceError, match="Renode's monitor failed"):
            monitor.ask("version")
    assert renode_monitor._LOOK_S < 0.1
