"""Division of repeatable requests into chunks, and deadlines of answers; no I/O.

A line that damages bytes passes short frames more often than long ones, so the size of a chunk is
chosen when it is sent, by the share of bytes that the line has damaged lately: a shorter chunk
arrives more often, a longer one has less overhead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

from hil.link.protocol import CRC, FRAME_MIN, HEADER, Command

#: Smallest chunk; the overhead of its frame would exceed a smaller one.
CHUNK_MIN = 16
#: Bytes of answers that may be under way at least.
_ANSWERS_BYTES = 2048
#: Largest chunk, if a frame holds that many.
_CHUNK_MAX = 1 << 16
#: Header, checksum, delimiters, COBS's first byte, and a reserve.
_FRAME_EXTRA = 16
#: Header and checksum.
_BODY_REST: int = HEADER.sizeof() + CRC.sizeof()
#: The slowest supported line: 9600 baud.
_SLOWEST_BYTES_PER_S = 960
#: Shortest and longest wait before a request is repeated, without the time of its bytes.
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 0.2
#: The shortest on a line that has lost frames lately.
_LOSSY_RETRY_MIN_S = 0.01
#: By how much an exchange makes earlier ones count less in the share of damaged bytes.
_FADING = 1 / 16
#: Losses, after fading, that count as none.
_FORGOTTEN = 0.05
#: A request or an answer with a payload of up to so many bytes is short.
_SHORT_BYTES = 32
#: The wait for an answer exceeds the usual time by so many times its spread, and the time of the
#: bytes as well; on a line that has lost frames lately by less.
_MARGIN, _LOSSY_MARGIN = 4.0, 2.0
#: By how much the wait grows while no answer arrives, and up to which factor.
_PATIENCE, _LOSSY_PATIENCE, _MOST_PATIENCE = 2.0, 1.25, 8.0
#: Time limit of an operation, in addition to a multiple of its bytes' time on the slowest line.
_OPERATION_S = 60.0
_OPERATION_FACTOR = 4.0


def line_cost(*sizes: int) -> int:
    """Return the bytes on the line of frames with payloads of these sizes."""
    return sum(size + size // 254 + _FRAME_EXTRA for size in sizes)


def frame_bytes(payload: int) -> int:
    """Return the most bytes on the line of one frame, both delimiters included."""
    body = _BODY_REST + payload
    return 2 + body + -(-body // 254)


def two_frames(window: int, frame_max: int) -> int:
    """Return the longest frame of which two are within ``window``, in place of ``frame_max``.

    While the board answers one, the other one is on the line.
    """
    return max(FRAME_MIN, min(frame_max, window // 2))


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

    @cached_property
    def cost(self) -> int:
        """Bytes on the line in both directions."""
        return line_cost(self.payload_bytes, self.reply_bytes)

    @cached_property
    def request_cost(self) -> int:
        """Bytes of the request on the line, at most."""
        return frame_bytes(self.payload_bytes)

    @cached_property
    def answer_cost(self) -> int:
        """Bytes of the answer on the line, at most."""
        return frame_bytes(self.reply_bytes)

    @cached_property
    def is_one_way(self) -> bool:
        """Whether most bytes go in one direction, so that the other one is never filled."""
        return min(self.payload_bytes, self.reply_bytes) <= _SHORT_BYTES


class Window:
    """What a board allows to be under way, and what of that is in use.

    The requests' bytes are within ``window``, the board's receive buffer. Two answers and more may
    be under way whatever its size, so that the line is not idle while the host asks for another.
    Where
    both directions are full (ECHO), neither side may have to wait for the other to listen: both
    together are within the window.
    """

    def __init__(self, window: int, frame_max: int, under_way: Iterable[Part]) -> None:
        self._window = window
        self._most = max(window, 2 * frame_max, _ANSWERS_BYTES)
        self._requests = self._answers = self._both = 0
        for part in under_way:
            self.add(part)

    @property
    def both(self) -> int:
        """Bytes under way in both directions."""
        return self._both

    def add(self, part: Part) -> None:
        """Count a part as under way."""
        self._requests += part.request_cost
        self._answers += part.answer_cost
        self._both += part.cost

    def has_room(self, part: Part) -> bool:
        """Whether ``part`` may be sent; alone it always may."""
        if self._both == 0:
            return True
        requests = self._requests + part.request_cost
        if part.is_one_way:
            answers = self._answers + part.answer_cost
            return requests <= self._window and answers <= self._most
        return self._both + part.cost <= self._window


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
        # Ranges to request, and those whose first answer has not arrived.
        self._missing = deque([(0, size)] if size else [])
        self._awaited = deque(self._missing)

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
        """Record that what no other answer to ``part`` brought is requested again, before all."""
        again = ((max(s, part.start), min(e, part.end)) for s, e in self._awaited)
        self._missing.extendleft(reversed([(s, e) for s, e in again if s < e]))

    def arrived(self, part: Part) -> bool:
        """Record the answer to ``part``, also if it was abandoned; return whether it was the first
        for any of its bytes.
        """
        before = self._awaited
        self._missing = _without(self._missing, part)
        self._awaited = _without(self._awaited, part)
        return self._awaited != before


class InOrder(Transfer):
    """A transfer of one part at a time: none is sent before all earlier ones have been answered."""

    _is_waiting = False

    def next_part(self, chunk: int) -> Part | None:
        """Return the next part; None while one is under way."""
        return None if self._is_waiting else super().next_part(chunk)

    def sent(self, part: Part) -> None:
        """Record that ``part`` is under way."""
        super().sent(part)
        self._is_waiting = True

    def lost(self, part: Part) -> None:
        """Record that ``part`` has to be sent again."""
        super().lost(part)
        self._is_waiting = False

    def arrived(self, part: Part) -> bool:
        """Record the answer to ``part``; return whether it was the first for any of its bytes."""
        self._is_waiting = False
        return super().arrived(part)


def _without(ranges: Iterable[tuple[int, int]], part: Part) -> deque[tuple[int, int]]:
    rest: deque[tuple[int, int]] = deque()
    for start, end in ranges:
        for piece in ((start, min(end, part.start)), (max(start, part.end), end)):
            if piece[0] < piece[1]:
                rest.append(piece)
    return rest


class Pace:
    """Measured properties of the line: response times, damage, and the usable frame size."""

    def __init__(self) -> None:
        # Seconds per byte: a safe assumption until a measurement.
        self._byte_s = 1 / 4000
        # Mean time of an exchange and its deviation, as TCP estimates them.
        self._exchange_s = _RETRY_MAX_S
        self._spread_s = 0.0
        self._patience = 1.0
        # Exchanges that were lost, and the bytes of all, the latest counting most.
        self._losses = 0.0
        self._bytes = 0.0
        #: Exchanges lost since the last one that arrived.
        self._lost_in_a_row = 0
        #: Data bytes in a request or an answer.
        self.chunk = _CHUNK_MAX

    @property
    def is_lossy(self) -> bool:
        """Whether exchanges were lost lately."""
        return self._losses > _FORGOTTEN

    @property
    def exchange_s(self) -> float:
        """Seconds in which an answer usually comes."""
        return min(max(self._exchange_s + self._spread_s, _LOSSY_RETRY_MIN_S / 4), _RETRY_MAX_S)

    def retry_s(self, cost: int) -> float:
        """Return the wait for the answer to a request with ``cost`` bytes in flight."""
        # Where answers are lost, a repetition that was not needed costs less than a long wait.
        least_s = _LOSSY_RETRY_MIN_S if self.is_lossy else _RETRY_MIN_S
        margin = _LOSSY_MARGIN if self.is_lossy else _MARGIN
        fixed_s = min(max(self._exchange_s + margin * self._spread_s, least_s), _RETRY_MAX_S)
        return self._patience * (fixed_s + margin * self._byte_s * cost)

    def answered(self, part: Part, seconds: float, cost: int) -> None:
        """Record an answer after ``seconds``; ``cost`` bytes were in flight at the request."""
        self._byte_s += (seconds / cost - self._byte_s) / 8
        self._spread_s += (abs(seconds - self._exchange_s) - self._spread_s) / 4
        self._exchange_s += (seconds - self._exchange_s) / 8
        self._patience = 1.0
        self._lost_in_a_row = 0
        self._record(part, 0.0)
        self.chunk = min(self._best(part), max(2 * self.chunk, CHUNK_MIN))

    def lost(self, part: Part) -> None:
        """Record that no answer to ``part`` arrived."""
        self._lost_in_a_row += 1
        self._record(part, 1.0)
        size = part.end - part.start
        if size <= CHUNK_MIN:
            return
        self.chunk = min(self.chunk, self._best(part))
        if self._lost_in_a_row > 1:
            # The estimate follows too slowly where nothing comes through.
            self.chunk = max(CHUNK_MIN, min(self.chunk, size // 2))

    def silent(self) -> None:
        """Record that nothing arrived in time."""
        factor = _LOSSY_PATIENCE if self.is_lossy else _PATIENCE
        self._patience = min(factor * self._patience, _MOST_PATIENCE)

    def _record(self, part: Part, loss: float) -> None:
        self._losses += loss - self._losses * _FADING
        self._bytes += part.cost - self._bytes * _FADING

    def _best(self, part: Part) -> int:
        """Return the data bytes of an exchange that move the most.

        With ``p`` damaged bytes of each, ``n`` data bytes and ``h`` others arrive with the
        probability ``exp(-p * (n + h))``: ``n / (n + h)`` of that is greatest where
        ``n * (n + h) = h / p``.
        """
        if not self.is_lossy:
            return _CHUNK_MAX
        rest = max(1, part.cost - (part.end - part.start))
        best = sqrt(rest * rest / 4 + rest * self._bytes / self._losses) - rest / 2
        return min(max(round(best), CHUNK_MIN), _CHUNK_MAX)
