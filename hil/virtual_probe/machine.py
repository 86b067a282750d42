"""A board's QEMU machine for a debug probe: without image, stopped, with control sockets.

``python -m hil.virtual_probe BOARD`` runs one until interrupted, for pyOCD and programs that use
pyOCD. Running machines are announced by files in a folder, where the probe finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hil.board.machine import counted_words, uart_words
from hil.errors import DeviceError, InputError
from hil.support import unix_socket
from hil.support.cache import REMEDY, cache_folder, writable_folder
from hil.support.process import ChildProcess
from hil.support.qemu import install_hint
from hilc.support.locks import lock
from hilc.support.outputs import OutputError, write_file

if TYPE_CHECKING:
    from hil.board import Board

# Poll interval and time limit for QEMU to create its sockets.
_POLL_S, _START_LIMIT_S = 0.01, 10.0


@dataclass(frozen=True)
class VirtualBoard:
    """A running machine, as announced to others."""

    uid: str
    board: str
    cpu: str
    target: str
    #: Folder of the control sockets ``qtest``, ``gdb`` and ``qmp``, and of the serial line's.
    sockets: str
    pid: int

    @property
    def url(self) -> str:
        """The serial line, for :func:`hil.link.line.open_line`."""
        return unix_socket.url(Path(self.sockets) / "uart")

    def claim(self) -> IO[bytes]:
        """Return a lock on the control sockets, which serve one client, until it is closed.

        Raise :class:`BlockingIOError` if another client holds it.
        """
        file = (Path(self.sockets) / "claim").open("ab")
        try:
            lock(file, wait=False)
        except OSError:
            file.close()
            raise
        return file


def running_boards() -> list[VirtualBoard]:
    """Return this user's running virtual boards."""
    boards = []
    for path in sorted(_folder().glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            board = VirtualBoard(**json.loads(path.read_text(encoding="utf-8")))
            if _is_running(board):
                boards.append(board)
            else:  # it was killed
                path.unlink()
    return boards


@contextlib.contextmanager
def start(board: Board) -> Iterator[tuple[VirtualBoard, ChildProcess]]:
    """Start ``board``'s machine without an image, stopped; leaving the context ends it.

    Raise :class:`InputError` if the board has no QEMU machine, or its core cannot be debugged.
    """
    if board.qemu is None:
        raise InputError(
            f"board {board.name!r} has no runner 'qemu', so it has no virtual probe",
            "choose a board with the runner qemu (hil boards)",
        )
    if not board.cpu.debug.part_numbers:
        raise InputError(
            f"board {board.name!r} has the core {board.cpu.name}, which the virtual probe does not "
            "support: it debugs Arm cores",
            "use the runner qemu, which needs no probe",
        )
    with contextlib.ExitStack() as stack:
        sockets = Path(stack.enter_context(unix_socket.folder()))
        listener = stack.enter_context(unix_socket.listen(sockets / "uart"))
        control = "server=on,wait=off"
        command = [
            *(*counted_words(board), "-S"),
            *("-chardev", f"socket,id=uart,fd={listener.fileno()},{control}"),
            *uart_words(board, "chardev:uart"),
            *("-qtest", f"unix:{sockets}/qtest,{control}", "-qtest-log", "none"),
            *("-gdb", f"unix:{sockets}/gdb,{control}"),
            *("-qmp", f"unix:{sockets}/qmp,{control}"),
        ]
        process = ChildProcess(
            "QEMU", command, install_hint=install_hint(board.cpu), pass_fds=(listener.fileno(),)
        )
        stack.callback(process.stop)
        _wait_for(sockets, process)
        virtual = VirtualBoard(
            uid=f"hil-{board.name}-{secrets.token_hex(4)}",
            board=board.name,
            cpu=board.cpu.word,
            target=str(board.settings.get("pyocd", {}).get("target", "cortex_m")),
            sockets=str(sockets),
            pid=process.process.pid,
        )
        listener.close()
        stack.enter_context(_announced(virtual))
        yield virtual, process


@contextlib.contextmanager
def _announced(board: VirtualBoard) -> Iterator[None]:
    path = _folder() / f"{board.uid}.json"
    try:
        with contextlib.suppress(OSError):  # the next line tells it
            writable_folder("probes")
        write_file(path, json.dumps(asdict(board)) + "\n")
    except OutputError as error:
        raise OutputError(error.fact, REMEDY) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _folder() -> Path:
    return cache_folder() / "probes"


def _is_running(board: VirtualBoard) -> bool:
    """Return whether the process is still the machine; another may have got its number since."""
    try:
        command = Path(f"/proc/{board.pid}/cmdline").read_bytes()
    except OSError:
        return False
    # The name of the folder is random, and only its machine is started with it.
    return os.fsencode(f"unix:{board.sockets}/qmp,") in command


def _wait_for(sockets: Path, process: ChildProcess) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while not all((sockets / name).exists() for name in ("qtest", "gdb", "qmp")):
        process.alive()
        if time.monotonic() > deadline:
            raise DeviceError(
                f"QEMU made no control sockets within {_START_LIMIT_S:g} s", "run it again"
            )
        time.sleep(_POLL_S)
