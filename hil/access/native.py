"""Run the native firmware: a process of this machine with its line on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from hil.access.protocols import Runner
from hil.errors import DeviceError
from hil.support.poll import is_readable
from hil.support.process import ChildProcess

if TYPE_CHECKING:
    from hil.access.connection import Connection, Image
    from hil.board import Board

_START_TIMEOUT_S = 10.0


class NativeRunner(Runner):
    """Starts the firmware as a process of this machine."""

    name = "native"

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> AbstractContextManager[NativeBoard]:
        """Start the process; it ends with the context."""
        return start(image)


class NativeBoard:
    """A running native firmware."""

    counter: Final = "nanoseconds"
    line: Final = None
    memory: Final = None
    is_emulated: Final = False

    def __init__(self, process: ChildProcess, url: str) -> None:
        self.url = url
        self._process = process

    def alive(self) -> None:
        """Raise if the process has ended."""
        self._process.alive()

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return nanoseconds: not every machine lets a process count cycles."""
        return ticks * 1_000_000_000 // ticks_hz


@contextlib.contextmanager
def start(firmware: Image) -> Iterator[NativeBoard]:
    """Start the firmware; it prints its terminal's path and ends when its input is closed."""
    with contextlib.ExitStack() as stack:
        process = ChildProcess(
            "the native firmware",
            [str(firmware.elf)],
            install_hint="build it again",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(process.stop)
        yield NativeBoard(process, _terminal_path(process))


def _terminal_path(process: ChildProcess) -> str:
    """Return the first line of the firmware's output."""
    stdout = process.process.stdout
    assert stdout is not None
    deadline = time.monotonic() + _START_TIMEOUT_S
    line = b""
    while not line.endswith(b"\n"):
        if not is_readable(stdout, max(0.0, deadline - time.monotonic())):
            raise DeviceError(
                f"the native firmware did not print its terminal within {_START_TIMEOUT_S:g} s"
            )
        received = stdout.read(256)  # returns available bytes: the pipe is unbuffered
        if not received:
            raise process.end()
        line += received
    return line.decode().strip()
