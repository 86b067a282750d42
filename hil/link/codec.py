"""The frame codec: bytes in, frames out; no I/O. The C side is ``firmware_template/rpc/frame.c``.

On the line a frame is ``00 cobs(header payload crc32) 00``. The leading delimiter separates the
frame from preceding noise; between frames, several delimiters are the same as one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Final

from hil.link import protocol

#: protocol.HEADER and protocol.CRC for the struct module, which is 20 times faster than construct.
_HEADER: Final = Struct("<HHBB")
_CRC: Final = Struct("<I")
HEADER_BYTES: Final = _HEADER.size
_BODY_MIN: Final = _HEADER.size + _CRC.size
#: Bytes of the longest block of COBS, beside its code.
_BLOCK: Final = 254


class Bad(Enum):
    """Reason why bytes between two delimiters are not a frame."""

    TOO_LONG = "longer than the receiver's frame limit"
    COBS = "not COBS: a block reaches past the end"
    SHORT = "shorter than header and checksum"
    CRC = "checksum differs"


@dataclass(frozen=True)
class Frame:
    """A frame with a valid checksum."""

    session: int
    seq: int
    kind: int
    code: int
    payload: bytes


@dataclass(frozen=True)
class BadFrame:
    """Bytes that are not a frame: noise, another program's text, a damaged frame."""

    reason: Bad
    #: The received bytes; of a longer sequence only the first ``frame_max - 2``.
    data: bytes
    #: Number of bytes received.
    size: int


def cobs_encode(data: bytes) -> bytes:
    """Return ``data`` without zero bytes, longer by one byte per 254 begun (at least one)."""
    out = bytearray()
    *zero_ended, last = data.split(b"\0")
    # A tensor of many zeros has as many blocks.
    for run in zero_ended:
        tail = _append_full_blocks(out, run) if len(run) >= _BLOCK else 0
        out.append(len(run) - tail + 1)
        out += run[tail:]
    tail = _append_full_blocks(out, last)
    if tail < len(last) or not last:
        out.append(len(last) - tail + 1)
        out += last[tail:]
    return bytes(out)


def _append_full_blocks(out: bytearray, run: bytes) -> int:
    """Append the full blocks, which need no zero; return the position of the rest."""
    tail = len(run) - len(run) % _BLOCK
    for start in range(0, tail, _BLOCK):
        out.append(0xFF)
        out += run[start : start + _BLOCK]
    return tail


def cobs_decode(data: bytes) -> bytes | None:
    """Return the decoded ``data`` (which contains no zero), or None if it is not COBS."""
    out = bytearray()
    position, end = 0, len(data)
    while position < end:
        code = data[position]
        block_end = position + code
        if block_end > end:
            return None
        out += data[position + 1 : block_end]
        if code < 0xFF and block_end < end:
            out.append(0)
        position = block_end
    return bytes(out)


def encode(frame: Frame) -> bytes:
    """Return the bytes of ``frame`` on the line, including both delimiters."""
    body = _HEADER.pack(frame.session, frame.seq, frame.kind, frame.code) + frame.payload
    return b"\0" + cobs_encode(body + _CRC.pack(zlib.crc32(body))) + b"\0"


def decode(data: bytes) -> Frame | BadFrame:
    """Return the frame in ``data``, the bytes between two delimiters."""
    body = cobs_decode(data)
    if body is None:
        return BadFrame(Bad.COBS, data, len(data))
    if len(body) < _BODY_MIN:
        return BadFrame(Bad.SHORT, data, len(data))
    content = memoryview(body)[: -_CRC.size]
    if zlib.crc32(content) != _CRC.unpack_from(body, len(content))[0]:
        return BadFrame(Bad.CRC, data, len(data))
    session, seq, kind, code = _HEADER.unpack_from(body)
    return Frame(session, seq, kind, code, bytes(content[_HEADER.size :]))


class Decoder:
    """Splits a stream into frames; holds at most ``frame_max`` bytes."""

    def __init__(self, frame_max: int = protocol.FRAME_LIMIT) -> None:
        self._limit = frame_max - 2
        self._buffer = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[Frame | BadFrame]:
        """Return the frames that ``data`` completes, in the order of arrival."""
        found: list[Frame | BadFrame] = []
        *ended, rest = data.split(b"\0")
        for part in ended:
            self._take(part)
            if self._size > self._limit:
                found.append(BadFrame(Bad.TOO_LONG, bytes(self._buffer), self._size))
            elif self._size:
                found.append(decode(bytes(self._buffer)))
            self._buffer.clear()
            self._size = 0
        self._take(rest)
        return found

    @property
    def pending(self) -> int:
        """Bytes received since the last delimiter."""
        return self._size

    def _take(self, part: bytes) -> None:
        self._buffer += part[: max(0, self._limit - len(self._buffer))]
        self._size += len(part)
