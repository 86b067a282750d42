"""Monitor of a board's serial line: logs, faults and any other output.

It only reads, so it needs no session and does not disturb the board. A port that is unplugged can
be opened again when it returns, by the serial number of its USB device.
"""

from __future__ import annotations

import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import serial
from construct import ConstructError

from hil.access.port import Port
from hil.errors import LinkError
from hil.link import codec, protocol
from hil.link.codec import Frame
from hil.link.fault import StackReader, fault_error
from hil.link.line import Line as DeviceLine
from hil.link.protocol import Event, Kind
from hil.link.replies import LogReader

#: Text without a newline is shown after this time without further text.
_IDLE_S = 0.3
#: Pause between two attempts to open a port that was lost.
_REOPEN_S = 0.2
_TEXT = frozenset(string.printable.encode())


@dataclass(frozen=True)
class Line:
    """One piece of the board's output."""

    #: ``boot``, ``log``, ``fault``, ``text`` (not of this protocol), ``noise``, or ``link``: what
    #: happened to the port.
    kind: str
    text: str


class Splitter:
    """Splits received bytes into frames of the protocol and lines of other text.

    With the firmware's ``elf`` a fault includes function, file and line.
    """

    def __init__(self, elf: Path | None = None) -> None:
        self._elf = elf
        self._stack = StackReader()
        self._pending = bytearray()
        self._log = LogReader()

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines and events that ``data`` completes."""
        lines: list[Line] = []
        self._pending += data
        *segments, rest = bytes(self._pending).split(b"\0")
        for segment in segments:
            lines += self._segment(segment)
        # A frame always contains bytes that are not text, so complete lines of text are no frame.
        end = rest.rfind(b"\n") + 1
        if end and _is_text(rest):
            lines += _text_lines(rest[:end])
            rest = rest[end:]
        if len(rest) > protocol.FRAME_LIMIT:
            # No frame is as long: print the text without its newline.
            lines += self._segment(rest)
            rest = b""
        self._pending = bytearray(rest)
        return lines

    def flush(self) -> list[Line]:
        """Return incomplete text, and text with bytes that are none; keep an incomplete frame."""
        if not self._pending or not _is_mostly_text(self._pending):
            return []
        lines = _text_lines(bytes(self._pending))
        self._pending.clear()
        return lines

    def _segment(self, segment: bytes) -> list[Line]:
        if not segment:
            return []
        frame = codec.decode(segment)
        if isinstance(frame, Frame):
            return self._event(frame) if frame.kind == Kind.EVENT else []
        if _is_mostly_text(segment):
            return _text_lines(segment)
        return [Line("noise", f"{len(segment)} bytes that are neither text nor a frame")]

    def _event(self, frame: Frame) -> list[Line]:
        try:
            event = protocol.EVENTS[Event(frame.code)].parse(frame.payload)
        except (ValueError, ConstructError):
            return [Line("noise", f"unknown event {frame.code} (newer firmware?)")]
        match frame.code:
            case Event.LOG:
                text = self._log.add(frame.payload)
                return [Line("log", line) for line in (text or "").splitlines()]
            case Event.BOOT:
                return [Line("boot", f"the firmware started (protocol {event.version})")]
            case Event.STACK:
                self._stack.add(frame.payload)
            case Event.FAULT:
                fact = fault_error(frame.payload, self._stack.take(), self._elf).fact
                fields = ((name, value) for name, value in event.items() if name[0] != "_")
                registers = " ".join(f"{name}={value:#x}" for name, value in fields)
                texts = [*(line.strip() for line in fact.splitlines()), registers]
                return [Line("fault", text) for text in texts]
        return []


def listen(
    line: DeviceLine,
    seconds: float | None,
    alive: Callable[[], None] = lambda: None,
    elf: Path | None = None,
    *,
    reconnects: bool = False,
) -> Iterator[tuple[float, Line]]:
    """Yield the output of ``line`` with the seconds since the start.

    Stop after ``seconds``, or never, and where a program's output ends (EOFError). ``elf`` is the
    firmware's ELF file if known. A lost :class:`Port` is opened again if ``reconnects``.
    """
    start = heard_s = time.monotonic()
    splitter = Splitter(elf)
    while seconds is None or time.monotonic() - start < seconds:
        lines: list[Line] = []
        is_over = is_lost = False
        data = b""
        try:
            data = line.read()
        except EOFError:
            is_over = True
        except (serial.SerialException, OSError, ValueError) as error:
            if not (reconnects and isinstance(line, Port)):
                raise LinkError(
                    f"the link to the board failed: {error}",
                    "check the cable and the address, and close other programs that use the port",
                ) from None
            is_lost = True
        now = time.monotonic()
        if data:
            heard_s = now
        lines += splitter.feed(data)
        if now - heard_s > _IDLE_S or is_over or is_lost:
            lines += splitter.flush()
        yield from ((now - start, one) for one in lines)
        if is_over:
            return
        if is_lost:
            assert isinstance(line, Port)
            yield now - start, Line("link", f"{line.name} is lost; waiting for it")
            splitter = Splitter(elf)
            while not line.reopen():
                if seconds is not None and time.monotonic() - start >= seconds:
                    return
                time.sleep(_REOPEN_S)
            yield time.monotonic() - start, Line("link", f"{line.name} is back")
        elif not data:
            alive()


def _is_text(data: bytes | bytearray) -> bool:
    return all(byte in _TEXT or byte >= 0x80 for byte in data) and _decodes(data)


def _is_mostly_text(data: bytes | bytearray) -> bool:
    """Return whether data is text, perhaps with a few bytes that are none: colours, damage."""
    if _is_text(data):
        return True
    return 4 * sum(byte in _TEXT for byte in data) >= 3 * len(data)


def _decodes(data: bytes | bytearray) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _text_lines(data: bytes) -> list[Line]:
    text = data.decode("utf-8", errors="backslashreplace")
    return [Line("text", line) for line in text.splitlines() if line]
