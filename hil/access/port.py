"""A serial port that is locked for this process while it is open."""

from __future__ import annotations

from contextlib import ExitStack, closing

import serial

from hil.access.board_lock import board_lock
from hil.access.probes import lock_names
from hil.board.line import LineSettings
from hil.errors import LinkError, ProbeError
from hil.link import line as link_line
from hil.link.line import Line, await_port
from hil.link.ports import lasting_name


class Port:
    """A serial port that no other process uses meanwhile; closing it releases it."""

    def __init__(self, url: str, settings: LineSettings, wait_s: float = 0.0) -> None:
        """Open the port; one that is missing or in use is awaited for ``wait_s``."""
        #: A name that stays the same when the port returns under another number.
        self.name = lasting_name(url)
        self._settings = settings
        self._held = ExitStack()
        self._open(wait_s)

    def read(self) -> bytes:
        """Return the available bytes, or the first to arrive within a few milliseconds."""
        return self._line.read()

    def write(self, data: bytes) -> None:
        """Send ``data``; raise OSError if it cannot be sent in time."""
        self._line.write(data)

    def reopen(self) -> bool:
        """Open the port again; return whether that was possible.

        A port that has just appeared may belong to root for a moment, or another process has it.
        """
        self.close()
        try:
            self._open(0.0)
        except (LinkError, ProbeError):
            return False
        return True

    def close(self) -> None:
        """Close the port, and let other processes use it."""
        self._held.close()

    def _open(self, wait_s: float) -> None:
        await_port(self.name, wait_s)
        with ExitStack() as stack:
            names = lock_names(None, self.name)
            stack.enter_context(board_lock(f"the board at {self.name}", *names, wait_s=wait_s))
            self._line = stack.enter_context(closing(_opened(self.name, self._settings)))
            self._held = stack.pop_all()


def _opened(url: str, settings: LineSettings) -> Line:
    try:
        return link_line.open_line(url, settings)
    except (serial.SerialException, OSError, ValueError) as error:
        raise link_line.open_error(url, error) from None
