"""Frames over a serial line: any pyserial URL, the deadlines, and what was skipped."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable

import serial

from hil.errors import LinkError
from hil.rpc.codec import BadFrame, Decoder, Frame, encode

#: How often a wait looks whether the board's process still lives. QEMU needs the look as well: a
#: character device that was full is sometimes polled again only when the main loop wakes up.
_LOOK_S = 0.01
_READ_BYTES = 65536
#: A process that closes the line ends a moment later; its end explains more than the closed line.
_END_GRACE_S = 1.0


class Link:
    """An open line. ``alive`` raises when the process behind the line has ended."""

    def __init__(
        self,
        url: str,
        *,
        baudrate: int = 115200,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.url = url
        self._alive = alive
        self._decoder = Decoder()
        #: Bytes received, and those of them that were no frame.
        self.received_bytes = 0
        self.skipped_bytes = 0
        self.bad_frames = 0
        try:
            self._serial = serial.serial_for_url(
                url, baudrate=baudrate, timeout=_LOOK_S, write_timeout=5.0, do_not_open=True
            )
            # Two programs on one line would each take half of the other's answers.
            self._serial.exclusive = True
            self._serial.open()
        except (serial.SerialException, OSError, ValueError) as error:
            raise _open_error(url, error) from None
        # A socket cannot say how much is waiting, but unlike the other lines it has a
        # plain file descriptor on every system.
        self._socket_fd = self._serial.fileno() if url.startswith("socket://") else None

    def send(self, frame: Frame) -> int:
        """Writes the frame; returns its bytes on the line."""
        data = encode(frame)
        try:
            self._serial.write(data)
        except (serial.SerialException, OSError) as error:
            raise self._lost(error) from None
        return len(data)

    def receive(self, timeout_s: float) -> list[Frame]:
        """The frames of the first bytes that arrive; empty when none were complete in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                data = self._read()
            except (serial.SerialException, OSError) as error:
                raise self._lost(error) from None
            if data:
                self.received_bytes += len(data)
                return self._good(self._decoder.feed(data))
            self._alive()
            if time.monotonic() >= deadline:
                return []

    def _read(self) -> bytes:
        """What is there, or what comes first within ``_LOOK_S``."""
        if self._socket_fd is not None:
            ready, _, _ = select.select([self._socket_fd], [], [], _LOOK_S)
            if not ready:
                return b""
            data = os.read(self._socket_fd, _READ_BYTES)
            if not data:
                raise OSError(errno.ECONNRESET, "the other side closed the connection")
            return data
        first: bytes = self._serial.read(1)
        waiting = self._serial.in_waiting if first else 0
        return first + (self._serial.read(waiting) if waiting else b"")

    def _good(self, found: list[Frame | BadFrame]) -> list[Frame]:
        frames = []
        for item in found:
            if isinstance(item, Frame):
                frames.append(item)
            else:
                self.bad_frames += 1
                self.skipped_bytes += item.size
        return frames

    def _lost(self, error: Exception) -> LinkError:
        """The error of a line that failed; raises the better one when the process has ended."""
        end = time.monotonic() + _END_GRACE_S
        while time.monotonic() < end:
            self._alive()
            time.sleep(_LOOK_S)
        return LinkError(
            f"the link to {self.url} failed: {error}",
            "check the cable and that no other program uses the port",
        )

    def close(self) -> None:
        self._serial.close()


def _open_error(url: str, error: Exception) -> LinkError:
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EBUSY):
        return LinkError(f"{url} is in use by another program", "close it, or give another port")
    if number in (errno.EACCES, errno.EPERM):
        return LinkError(
            f"no permission to open {url}",
            "join the group that owns it (often: sudo usermod -aG dialout $USER) and log in again",
        )
    if number == errno.ENOENT:
        return LinkError(
            f"there is no port {url}",
            "connect the board; `python -m serial.tools.list_ports` lists the ports",
        )
    return LinkError(f"cannot open {url}: {error}", "check the URL and that the board is connected")
