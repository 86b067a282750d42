"""Runners: what they start ends with them, and its end is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from campaigns import cases
from processes import children
from waiting import PATIENCE_S

import hilc
from hil.access import native, qemu, start
from hil.board import load_board
from hil.build import Firmware, build
from hil.errors import DeviceError, InputError, LinkError
from hil.link import line
from hil.link.client import Client
from hil.link.line import Link
from hil.link.protocol import Tensors
from hil.link.tensors import TensorRef
from hil.support import process
from hil.support.process import ChildProcess

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
RUNNERS = {"native": "native", "qemu": "mps2-an386"}


def firmware_of(board_name: str) -> Firmware:
    board = load_board(board_name)
    library = hilc.compile(
        DIGITS / "digits.tflite", cpu=board.cpu.name, pools="external", io_in_pool=True
    )
    return build([library], board)


@contextmanager
def client_of(firmware: Firmware, **options: Any) -> Iterator[tuple[Client, int]]:
    """A client of the started firmware, and the firmware's process."""
    before = children()
    with start(firmware.board, firmware) as running:
        (pid,) = children() - before
        link = Link(running.url, alive=running.alive)
        with closing(link):
            yield Client(link, build_id=firmware.build_id, **options), pid


def first_input(client: Client) -> bytes:
    image = np.load(DIGITS / "digits_test.npz")["image"][0]
    data: bytes = image.tobytes()
    client.write(TensorRef(0, Tensors.INPUT, 0), data)
    return data


@pytest.mark.parametrize("board", RUNNERS.values(), ids=RUNNERS)
def test_nothing_is_left_behind(board: str) -> None:
    firmware = firmware_of(board)
    with client_of(firmware) as (client, pid):
        assert client.hello.board == board
        assert client.echo(b"hello") == b"hello"
    assert not psutil.pid_exists(pid)
    with pytest.raises(ZeroDivisionError), client_of(firmware) as (_, pid):
        raise ZeroDivisionError
    assert not psutil.pid_exists(pid)


@cases("board", RUNNERS.values(), ids=RUNNERS, first=1)
def test_a_killed_process_is_noticed_amid_a_run(board: str) -> None:
    with client_of(firmware_of(board)) as (client, pid):
        first_input(client)
        threading.Timer(1.0, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(DeviceError, match=r"ended: signal 9 \(SIGKILL\)(?!, saying)"):
            client.run(0, repeat=10_000_000)
    assert not psutil.pid_exists(pid)


@pytest.mark.full
@cases("board", RUNNERS.values(), ids=RUNNERS, first=1)
def test_the_process_ends_with_a_killed_parent(board: str) -> None:
    firmware_of(board)  # built before, so that the child only starts it
    script = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import test_runner as t\n"
        "with t.client_of(t.firmware_of(sys.argv[1])) as (client, pid):\n"
        "    print(pid, flush=True)\n"
        "    client.run(0, repeat=10_000_000)\n"
    )
    command = [sys.executable, "-c", script, board, *sys.path, str(Path(__file__).parent)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    psutil.wait_procs([child], timeout=PATIENCE_S)
    assert not child.is_running()


def test_the_process_survives_its_thread() -> None:
    """The kernel's parent-death signal goes by thread."""
    firmware = firmware_of("native")
    with ExitStack() as stack:
        running = []
        thread = threading.Thread(
            target=lambda: running.append(stack.enter_context(start(firmware.board, firmware)))
        )
        thread.start()
        thread.join()
        link = Link(running[0].url, alive=running[0].alive)
        with closing(link):
            client = Client(link)
            time.sleep(0.2)
            assert client.echo(b"still here") == b"still here"


@pytest.mark.full
def test_ten_boards_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    firmware = firmware_of("mps2-an386")
    outputs: dict[int, bytes] = {}
    counts: dict[int, int] = {}

    def work(number: int) -> None:
        with client_of_shared(firmware) as client:
            first_input(client)
            counts[number] = client.run(0)
            outputs[number] = client.read(TensorRef(0, Tensors.OUTPUT, 0), 10)

    before = children()
    begin = time.monotonic()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with capsys.disabled():
        print(f"[ten boards: {time.monotonic() - begin:.1f} s] ", end="")
    assert len(outputs) == 10
    assert len(set(outputs.values())) == len(set(counts.values())) == 1
    assert children() == before


@contextmanager
def client_of_shared(firmware: Firmware) -> Iterator[Client]:
    with start(firmware.board, firmware) as running:
        link = Link(running.url, alive=running.alive)
        with closing(link):
            yield Client(link, timeout_s=30)


@pytest.mark.parametrize("board", RUNNERS.values(), ids=RUNNERS)
def test_an_idle_board_takes_no_processor_time(board: str) -> None:
    """So that boards may stay open while others work."""
    with client_of(firmware_of(board)) as (client, pid):
        client.echo(b"x")
        begin, before = time.monotonic(), psutil.Process(pid).cpu_times()
        time.sleep(0.5)
        after, seconds = psutil.Process(pid).cpu_times(), time.monotonic() - begin
        assert after.user + after.system - before.user - before.system < seconds / 5
        assert client.echo(b"awake") == b"awake"


def test_a_second_session_on_the_same_emulator() -> None:
    firmware = firmware_of("mps2-an386")
    with start(firmware.board, firmware) as running:
        for _ in range(2):
            link = Link(running.url, alive=running.alive)
            with closing(link):
                assert Client(link).echo(b"x" * 100) == b"x" * 100


def test_reset_of_an_emulated_board() -> None:
    with client_of(firmware_of("mps2-an386")) as (client, _):
        first_input(client)
        client.run(0)
        used = client.memory().stack_peak_bytes
        client.reset()
        assert client.memory().stack_peak_bytes < used


def machine_over(qmp: socket.socket) -> qemu.QemuBoard:
    qmp.setblocking(False)
    return qemu.QemuBoard(lambda: None, "", qmp, 0)


def test_a_reset_returns_when_it_is_done() -> None:
    """QEMU answers the command before or after the event; only the event tells that it is done."""
    ours, qemus = socket.socketpair()
    with ours, qemus:
        board = machine_over(ours)
        # Left over from the firmware's own reset, and from an earlier one.
        qemus.send(b'{"event": "RESET", "data": {"guest": true, "reason": "guest-reset"}}\r\n')
        qemus.send(b'{"event": "RESET", "data": {"reason": "host-qmp-system-reset"}}\r\n')
        thread = threading.Thread(target=board.reset)
        thread.start()
        received = b""
        while b"system_reset" not in received:
            received += qemus.recv(1 << 16)
        qemus.send(b'{"return": {}}\r\n')
        board.alive()  # another thread that must not take the event
        thread.join(0.1)
        assert thread.is_alive()
        qemus.send(b'{"event": "RESET", "data": {"reason": "host-qmp-')
        qemus.send(b'system-reset"}}\r\n')
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_reset_that_is_not_done_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "_RESET_TIMEOUT_S", 0.1)
    monkeypatch.setattr(line, "_END_GRACE_S", 0.1)
    ours, qemus = socket.socketpair()
    with ours:
        board = machine_over(ours)
        with qemus, pytest.raises(LinkError, match=r"did not reset.*: no answer in 0\.1 s"):
            board.reset()
        with pytest.raises(LinkError, match="did not reset the machine"):
            board.reset()


# -- what cannot start -----------------------------------------------------------------------------


def fake_firmware(elf: Path) -> Any:
    return SimpleNamespace(elf=elf)


def test_qemu_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(DeviceError, match="qemu-system-arm is not installed") as caught,
        start(load_board("mps2-an386"), fake_firmware(tmp_path / "x.elf")),
    ):
        pass
    assert "apt install" in caught.value.hint


def test_qemu_refuses_the_firmware(tmp_path: Path) -> None:
    with (
        start(load_board("mps2-an386"), fake_firmware(tmp_path / "x.elf")) as running,
        closing(Link(running.url, alive=running.alive)) as link,
        pytest.raises(DeviceError, match=r"QEMU ended: exit code 1, .*Could not load kernel"),
    ):
        Client(link)


def test_unknown_runner(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no runner 'native'") as caught:
        start(load_board("mps2-an386"), fake_firmware(tmp_path), "native")
    assert "qemu" in caught.value.hint


def test_board_without_qemu(tmp_path: Path) -> None:
    board = replace(load_board("mps2-an386"), qemu=None)
    with (
        pytest.raises(InputError, match="has no runner 'qemu'"),
        qemu.start(board, fake_firmware(tmp_path)),
    ):
        pass


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo no terminal >&2; exit 7", "ended: exit code 7, saying 'no terminal'"),
        ("kill -SEGV $$", r"ended: signal 11 \(SIGSEGV\)"),
        ("sleep 600", "did not print its terminal within 0.5 s"),
    ],
)
def test_native_firmware_that_does_not_start(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The others end by themselves, however long it takes.
    monkeypatch.setattr(native, "_START_TIMEOUT_S", 0.5 if "sleep" in text else PATIENCE_S)
    firmware = fake_firmware(script(tmp_path / "firmware", text))
    before = children()
    with (
        pytest.raises(DeviceError, match=message),
        native.start(firmware),
    ):
        pass
    assert children() == before


def test_a_process_that_ignores_the_polite_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_TERM_TIMEOUT_S", 0.3)
    program = script(tmp_path / "stubborn", "trap '' TERM\necho ready\nsleep 600 & wait\nsleep 600")
    child = ChildProcess("it", [str(program)], install_hint="", stdout=subprocess.PIPE)
    assert child.process.stdout is not None
    assert child.process.stdout.readline() == b"ready\n"
    family = [child.process.pid, *(p.pid for p in psutil.Process(child.process.pid).children())]
    begin = time.monotonic()
    child.stop()
    assert 0.3 <= time.monotonic() - begin < PATIENCE_S
    left = [psutil.Process(pid) for pid in family if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(left, PATIENCE_S)
    assert not alive


@pytest.mark.parametrize(
    ("body", "is_firmware", "kind"),
    [
        ("kill -KILL $$", False, "link"),
        ("kill -KILL $$", True, "link"),
        ("echo 'it: could not load kernel' >&2; exit 1", False, "link"),
        ("echo 'qemu: fatal: Lockup: cannot escalate' >&2; kill -ABRT $$", False, "device"),
        ("exit 0", False, "device"),
        ("kill -SEGV $$", True, "device"),
    ],
)
def test_the_class_of_an_end(tmp_path: Path, body: str, is_firmware: bool, kind: str) -> None:
    """What the firmware did is of the device; the emulator's own end is of the link."""
    program = script(tmp_path / "it", body)
    child = ChildProcess("it", [str(program)], install_hint="", is_firmware=is_firmware)
    try:
        error = child.end()
    finally:
        child.stop()
    assert (error.kind, error.exit_code) == (kind, 4)


def test_a_socket_in_the_place_of_a_standard_stream() -> None:
    with pytest.raises(DeviceError, match="a socket has its place, which QEMU could not inherit"):
        ChildProcess("QEMU", ["true"], install_hint="", pass_fds=(7, 0))


# -- counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mps2-an386", "mps2-an505", "lm3s6965evb", "microbit"])
@pytest.mark.parametrize("instructions", [0, 1, 2, 1000, 6_606_884, 10**12 + 7])
def test_instructions_from_ticks_are_exact(name: str, instructions: int) -> None:
    """The timer shows whole ticks of the time that the instructions took."""
    board = load_board(name)
    assert board.qemu is not None
    ticks = (instructions * board.clock_hz << board.qemu.icount_shift) // 10**9
    count = qemu.QemuBoard.count(
        SimpleNamespace(_icount_shift=board.qemu.icount_shift),  # type: ignore[arg-type]
        ticks,
        board.clock_hz,
    )
    assert count == instructions


def test_qemu_counts_what_the_program_executes() -> None:
    """Two inferences of the same input are twice one, to the instruction."""
    firmware = firmware_of("mps2-an386")
    with client_of(firmware) as (client, _):
        ticks = []
        for _ in range(3):
            first_input(client)
            ticks.append(client.run(0))
        assert len(set(ticks)) == 1
        layers = client.model_info(0).layers
        first_input(client)
        profile = client.run_layers(0, 0, layers)
        first_input(client)
        assert client.run_layers(0, 0, layers) == profile
        assert sum(profile) == pytest.approx(ticks[0], rel=0.02)
