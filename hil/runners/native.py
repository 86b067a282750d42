"""Runs the native firmware: a process of this machine that serves its line on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hil.errors import DeviceError
from hil.support.process import ChildProcess

if TYPE_CHECKING:
    from hil.board import Board
    from hil.runners.choice import Image

_START_TIMEOUT_S = 10.0


class NativeBoard:
    """A native firmware."""

    counter: Final = "nanoseconds"
    line: Final = None
    memory: Final = None
    is_emulated: Final = False

    def __init__(self, process: ChildProcess, url: str) -> None:
        self.url = url
        self._process = process

    def alive(self) -> None:
        """Raise when the process has ended."""
        self._process.alive()

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Nanoseconds: a process cannot count its cycles on every machine."""
        return ticks * 1_000_000_000 // ticks_hz


@contextlib.contextmanager
def start(board: Board, firmware: Image) -> Iterator[NativeBoard]:
    """Start the firmware, which prints its terminal's path and ends when its input is closed."""
    del board
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
    """Return the first line that the firmware prints."""
    stdout = process.process.stdout
    assert stdout is not None
    deadline = time.monotonic() + _START_TIMEOUT_S
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise DeviceError(
                f"the native firmware did not name its terminal within {_START_TIMEOUT_S:g} s"
            )
        received = stdout.read(256)  # what is there: the pipe is not buffered
        if not received:
            raise process.end()
        line += received
    return line.decode().strip()
