"""Run the native firmware: a process of this machine with its line on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import errno
import os
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
    from hil.link.line import Line

_START_TIMEOUT_S = 10.0
_LOOK_S, _READ_BYTES = 0.01, 65536


class NativeRunner(Runner):
    """Starts the firmware as a process of this machine."""

    name = "native"

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> AbstractContextManager[NativeBoard]:
        """Start the process; it ends with the context."""
        return start_program(image) if connection.is_foreign else start(image)


class NativeBoard:
    """A running native firmware."""

    counter: Final = "nanoseconds"
    memory: Final = None
    is_emulated: Final = False

    def __init__(self, process: ChildProcess, url: str, line: Line | None = None) -> None:
        self.url = url
        self.line = line
        self._process = process

    def alive(self) -> None:
        """Raise if the process has ended; the end of a program's output says so itself."""
        if self.line is None:
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
            is_firmware=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(process.stop)
        yield NativeBoard(process, _terminal_path(process))


class _Terminal:
    """The terminal of a program, which ends with the program."""

    def __init__(self, process: ChildProcess, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor

    def read(self) -> bytes:
        """Return the available output, after a few milliseconds at most.

        Raise EOFError where the program has ended well, and :class:`DeviceError` otherwise.
        """
        if not is_readable(self._descriptor, _LOOK_S):
            return b""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # as Linux says that nobody has the other end open
        if data:
            return data
        if self._process.process.wait(_START_TIMEOUT_S) == 0:
            raise EOFError
        raise self._process.end()

    def write(self, data: bytes) -> None:
        """Send ``data`` to the program's standard input."""
        os.write(self._descriptor, data)

    def close(self) -> None:
        """Do nothing: the terminal is closed with the program."""


@contextlib.contextmanager
def start_program(image: Image) -> Iterator[NativeBoard]:
    """Start any program of this machine; its terminal is the serial line."""
    import tty  # needs a POSIX system

    with contextlib.ExitStack() as stack:
        ours, terminal = os.openpty()
        stack.callback(os.close, ours)
        try:
            tty.setraw(terminal)
            process = ChildProcess(
                image.elf.name,
                [str(image.elf.resolve())],
                install_hint="give an ELF file for this machine that may be executed",
                is_firmware=True,
                stdin=terminal,
                stdout=terminal,
            )
        finally:
            os.close(terminal)
        stack.callback(process.stop)
        yield NativeBoard(process, f"the terminal of {image.elf.name}", _Terminal(process, ours))


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
