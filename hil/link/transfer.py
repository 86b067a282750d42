"""Division of repeatable requests into parts, and deadlines of their answers; no I/O.

On a line that damages bytes a short frame comes through where a long one does not. So what moves in
chunks is cut when it is sent, not before: as long as frames arrive the chunks grow, up to what a
frame holds, and a chunk that is lost is sent again as two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hil.link.protocol import Command

#: No chunk is cut below this: the rest of its frame would be the most of it.
CHUNK_MIN = 16
#: Header, checksum, delimiters, COBS's first byte and a rest.
_FRAME_EXTRA = 16
#: No line that is slower is expected: 9600 baud.
_SLOWEST_BYTES_PER_S = 960
#: Shortest and longest wait before a request is repeated, the time of its bytes left out.
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 0.2
#: The wait doubles while nothing is answered, up to this many times itself.
_MOST_PATIENCE = 8.0
#: How long a board may take for one operation, besides a multiple of the time that its bytes need
#: on the slowest line.
_OPERATION_S = 60.0
_OPERATION_FACTOR = 4.0


def line_cost(*sizes: int) -> int:
    """Bytes on the line of frames with payloads of these sizes."""
    return sum(size + size // 254 + _FRAME_EXTRA for size in sizes)


def slowest_s(cost: int) -> float:
    """Seconds that ``cost`` bytes need on the slowest line."""
    return cost / _SLOWEST_BYTES_PER_S


def operation_limit_s(cost: int) -> float:
    """Return how long an operation of ``cost`` bytes on the line may take, repetitions included."""
    return _OPERATION_S + _OPERATION_FACTOR * slowest_s(cost)


@dataclass(frozen=True)
class Part:
    """A piece of a transfer, ``start`` to ``end``, as a request."""

    start: int
    end: int
    fields: Mapping[str, Any]
    #: Of the request, and of the reply that is expected.
    payload_bytes: int
    reply_bytes: int

    @property
    def cost(self) -> int:
        """Bytes on the line, both ways."""
        return line_cost(self.payload_bytes, self.reply_bytes)


class Transfer:
    """``size`` bytes to move by requests of one command, each with its own range of them.

    ``part`` makes the request of a range, which is at most ``most`` bytes. What cannot be cut is of
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
        """Return the next range that has to be asked for, at most ``chunk`` bytes of it."""
        if not self._missing:
            return None
        start, end = self._missing[0]
        return self._part(start, min(end, start + min(chunk, self._most)))

    def sent(self, part: Part) -> None:
        """``part``, the next one, is under way."""
        start, end = self._missing.popleft()
        assert start == part.start, "parts are sent in the order in which they are given"
        if part.end < end:
            self._missing.appendleft((part.end, end))

    def lost(self, part: Part) -> None:
        """``part`` has to be asked for again, before all others."""
        self._missing.appendleft((part.start, part.end))

    def arrived(self, part: Part) -> None:
        """Record the answer to ``part``, also if it was given up."""
        rest: deque[tuple[int, int]] = deque()
        for start, end in self._missing:
            for piece in ((start, min(end, part.start)), (max(start, part.end), end)):
                if piece[0] < piece[1]:
                    rest.append(piece)
        self._missing = rest


class Pace:
    """Measured properties of the line: response times, and the usable frame size."""

    def __init__(self) -> None:
        # Seconds a byte; a guess on the safe side before anything is measured.
        self._byte_s = 1 / 4000
        # Time of an exchange and its spread, as TCP estimates them.
        self._exchange_s = _RETRY_MAX_S
        self._spread_s = 0.0
        self._patience = 1.0
        #: Bytes of data in a request or an answer.
        self.chunk = 1 << 16

    def retry_s(self, cost: int) -> float:
        """Return how long to wait for the answer to a request with ``cost`` bytes under way."""
        fixed_s = min(max(self._exchange_s + 4 * self._spread_s, _RETRY_MIN_S), _RETRY_MAX_S)
        return self._patience * (fixed_s + 4 * self._byte_s * cost)

    def answered(self, part: Part, seconds: float, cost: int) -> None:
        """Record that an answer took ``seconds``, with ``cost`` bytes in flight when it was
        requested.
        """
        self._byte_s += (seconds / cost - self._byte_s) / 8
        self._spread_s += (abs(seconds - self._exchange_s) - self._spread_s) / 4
        self._exchange_s += (seconds - self._exchange_s) / 8
        self._patience = 1.0
        self.chunk = min(self.chunk + max(1, (part.end - part.start) // 8), 1 << 16)

    def lost(self, part: Part) -> None:
        """No answer to ``part`` came."""
        size = part.end - part.start
        if size > CHUNK_MIN:
            self.chunk = max(CHUNK_MIN, min(self.chunk, size) // 2)

    def silent(self) -> None:
        """Nothing came in time."""
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
