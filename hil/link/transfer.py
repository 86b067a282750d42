"""Division of repeatable requests into chunks, and deadlines of answers; no I/O.

A line that damages bytes passes short frames more often than long ones, so the size of a chunk is
chosen when it is sent. Chunks grow up to the frame limit as long as frames arrive; a lost chunk is
sent again as two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hil.link.protocol import Command

#: Smallest chunk; the overhead of its frame would exceed a smaller one.
CHUNK_MIN = 16
#: Header, checksum, delimiters, COBS's first byte, and a reserve.
_FRAME_EXTRA = 16
#: The slowest supported line: 9600 baud.
_SLOWEST_BYTES_PER_S = 960
#: Shortest and longest wait before a request is repeated, without the time of its bytes.
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 0.2
#: The wait doubles while no answer arrives, up to this factor.
_MOST_PATIENCE = 8.0
#: Time limit of an operation, in addition to a multiple of its bytes' time on the slowest line.
_OPERATION_S = 60.0
_OPERATION_FACTOR = 4.0


def line_cost(*sizes: int) -> int:
    """Return the bytes on the line of frames with payloads of these sizes."""
    return sum(size + size // 254 + _FRAME_EXTRA for size in sizes)


def slowest_s(cost: int) -> float:
    """Return the seconds that ``cost`` bytes need on the slowest line."""
    return cost / _SLOWEST_BYTES_PER_S


def operation_limit_s(cost: int) -> float:
    """Return the deadline of an operation of ``cost`` bytes on the line, with repetitions."""
    return _OPERATION_S + _OPERATION_FACTOR * slowest_s(cost)


@dataclass(frozen=True)
class Part:
    """One request of a transfer, for the bytes from ``start`` to ``end``."""

    start: int
    end: int
    fields: Mapping[str, Any]
    #: Payload bytes of the request and of the expected reply.
    payload_bytes: int
    reply_bytes: int

    @property
    def cost(self) -> int:
        """Bytes on the line in both directions."""
        return line_cost(self.payload_bytes, self.reply_bytes)


class Transfer:
    """``size`` bytes to move by requests of one command, each for a range of them.

    ``part`` creates the request of a range of at most ``most`` bytes. An indivisible request has
    size 1.
    """

    def __init__(
        self, command: Command, size: int, most: int, part: Callable[[int, int], Part]
    ) -> None:
        self.command = command
        self._most = most
        self._part = part
        self._missing = deque([(0, size)] if size else [])

    def next_part(self, chunk: int) -> Part | None:
        """Return the next range to request, of at most ``chunk`` bytes."""
        if not self._missing:
            return None
        start, end = self._missing[0]
        return self._part(start, min(end, start + min(chunk, self._most)))

    def sent(self, part: Part) -> None:
        """Record that ``part``, the next one, was sent."""
        start, end = self._missing.popleft()
        assert start == part.start, "parts are sent in the order in which they are given"
        if part.end < end:
            self._missing.appendleft((part.end, end))

    def lost(self, part: Part) -> None:
        """Record that ``part`` has to be requested again, before all others."""
        self._missing.appendleft((part.start, part.end))

    def arrived(self, part: Part) -> None:
        """Record the answer to ``part``, also if it was abandoned."""
        rest: deque[tuple[int, int]] = deque()
        for start, end in self._missing:
            for piece in ((start, min(end, part.start)), (max(start, part.end), end)):
                if piece[0] < piece[1]:
                    rest.append(piece)
        self._missing = rest


class Pace:
    """Measured properties of the line: response times and the usable frame size."""

    def __init__(self) -> None:
        # Seconds per byte: a safe assumption until a measurement.
        self._byte_s = 1 / 4000
        # Mean time of an exchange and its deviation, as TCP estimates them.
        self._exchange_s = _RETRY_MAX_S
        self._spread_s = 0.0
        self._patience = 1.0
        #: Data bytes in a request or an answer.
        self.chunk = 1 << 16

    def retry_s(self, cost: int) -> float:
        """Return the wait for the answer to a request with ``cost`` bytes in flight."""
        fixed_s = min(max(self._exchange_s + 4 * self._spread_s, _RETRY_MIN_S), _RETRY_MAX_S)
        return self._patience * (fixed_s + 4 * self._byte_s * cost)

    def answered(self, part: Part, seconds: float, cost: int) -> None:
        """Record an answer after ``seconds``; ``cost`` bytes were in flight at the request."""
        self._byte_s += (seconds / cost - self._byte_s) / 8
        self._spread_s += (abs(seconds - self._exchange_s) - self._spread_s) / 4
        self._exchange_s += (seconds - self._exchange_s) / 8
        self._patience = 1.0
        self.chunk = min(self.chunk + max(1, (part.end - part.start) // 8), 1 << 16)

    def lost(self, part: Part) -> None:
        """Record that no answer to ``part`` arrived."""
        size = part.end - part.start
        if size > CHUNK_MIN:
            self.chunk = max(CHUNK_MIN, min(self.chunk, size) // 2)

    def silent(self) -> None:
        """Record that nothing arrived in time."""
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
