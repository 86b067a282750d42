"""Row allocation in a group's arena: offsets for new rows of a buffer, and moves that free them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate

from hilc.fusion.call import Move
from hilc.ir import Tensor
from hilc.lowering.access import Access, apart, forbidden_interval


class Overlap:
    """Permitted offsets of a call's output relative to one of its inputs, both in a group's
    arena.
    """

    def __init__(
        self, access: Access | None, position: int, inputs: Sequence[Tensor], out_bytes: int
    ) -> None:
        self._access = access
        self._position = position
        nbytes = inputs[position].nbytes
        self.differences = (
            apart(nbytes, out_bytes) if access is None else forbidden_interval(access, position, 0)
        )
        self._known: dict[int, bool] = {}

    @property
    def key(self) -> object:
        """Equal for overlaps that allow the same differences."""
        if not self._is_ordered:
            return self.differences, None
        assert self._access is not None
        steps = self._access.last_read[self._position], self._access.first_write[0]
        return self.differences, tuple([blake2b(own.tobytes()).digest() for own in steps])

    @property
    def _is_ordered(self) -> bool:
        """Whether differences are permitted by the order of reads and writes too."""
        access = self._access
        return access is not None and access.input_types[self._position] == access.output_types[0]

    def allows(self, difference: int) -> bool:
        """Return whether ``offset(output) - offset(input)`` is permitted: exact, gaps included."""
        if difference in self._known:
            return self._known[difference]
        allowed = self.differences.allow(difference)
        # The forbidden interval also covers C types that must not alias, whatever the order.
        if not allowed and self._access is not None and self._is_ordered:
            last = self._access.last_read[self._position][max(0, difference) :]
            first = self._access.first_write[0][max(0, -difference) :]
            both = min(last.size, first.size)
            allowed = bool((first[:both] >= last[:both]).all())
        self._known[difference] = allowed
        return allowed


@dataclass(frozen=True)
class Operand:
    """Rows of a buffer that a call reads, from byte ``begin`` of the buffer on.

    The output may lie at relative offsets up to ``low`` or from ``high`` on; :attr:`overlap` is
    exact.
    """

    buffer: int
    begin: int
    low: int
    high: int
    overlap: Overlap


NO_MOVES: Sequence[Move] = ()

#: Moves, offsets of the buffers after them, and offset of the new rows.
_Made = tuple[Sequence[Move], tuple[int, ...], int]
#: Buffers by ascending offset.
_Lying = Sequence[int]


@dataclass(frozen=True)
class RowAllocation:
    """Allocation of new rows for a buffer, in an arena of any size.

    Buffers are identified by their positions in ``sizes``, which has those with live rows; a list
    of offsets describes a layout. Equal problems recur from one entry to the next and between
    groups, so results are cached.
    """

    sizes: tuple[int, ...]
    #: By buffer, the offset in it from which on its bytes are needed afterwards.
    kept: tuple[int, ...]
    #: Buffer that is appended to; None for one without rows.
    grown: int | None
    added: int
    operands: tuple[Operand, ...]
    #: Buffers that persist are kept in an order, so that the first rows of a buffer free bytes
    #: behind the one that is written next: whether this buffer persists, and those behind it.
    stays: bool
    behind: tuple[int, ...]
    _known: dict[tuple[int, tuple[int, ...], bool], _Made | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def make(self, starts: tuple[int, ...], limit: int, adapts: bool) -> _Made | None:
        """Return moves, offsets and the offset of the new rows, all below ``limit``; None if there
        is none.

        With ``adapts`` buffers move no farther than necessary, also where they start outside: in a
        space that changes from one entry to the next. Where it stays, a few arrangements recur.
        """
        key = limit, starts, adapts
        # Called for every entry of every layout: the exception is the rare case.
        try:
            return self._known[key]
        except KeyError:
            made = self._make(starts, limit, in_order=True, adapts=adapts)
            # Breaking the order causes moves later, so it is the last resort.
            if made is None and self.stays and self.grown is None:
                made = self._make(starts, limit, in_order=False, adapts=adapts)
            self._known[key] = made
            return made

    def _make(
        self, starts: tuple[int, ...], limit: int, *, in_order: bool, adapts: bool
    ) -> _Made | None:
        if sum(self.sizes) > limit:
            return None
        place = self._place(starts, limit, in_order)
        if place is not None:
            return NO_MOVES, starts, place
        order = sorted(range(len(starts)), key=starts.__getitem__)
        ranked: dict[tuple[int, ...], int] = {}
        for found in self._arrangements(order, starts, limit, adapts):
            moved = [b for b, to in zip(order, found, strict=True) if to != starts[b]]
            ranked[tuple(found)] = sum([self.sizes[buffer] for buffer in moved])
        for targets in sorted(ranked, key=ranked.__getitem__):
            tried = list(starts)
            for buffer, target in zip(order, targets, strict=True):
                tried[buffer] = target
            if (place := self._place(tried, limit, in_order)) is not None:
                return self._moves(order, starts, tried), tuple(tried), place
        return None

    def _arrangements(
        self, order: _Lying, starts: Sequence[int], limit: int, adapts: bool
    ) -> Iterator[list[int]]:
        """Yield other offsets of the buffers in the same order."""
        now = [starts[buffer] for buffer in order]
        sizes = [self.sizes[buffer] for buffer in order]
        packed = [0, *accumulate(sizes)]
        positions = range(len(order) + 1)
        if self.grown is not None:
            own = order.index(self.grown)
            for operand in self.operands:
                # Just before what is read, to be able to grow over it.
                for touch in {0, min(0, operand.low)}:
                    targets = list(now)
                    targets[own] = starts[operand.buffer] + operand.begin + touch - sizes[own]
                    if _in_order(sizes, targets, limit):
                        yield targets
            positions = range(own + 1, own + 2)
        for split in positions:
            low, high = range(split), range(split, len(order))
            # Buffers behind the split go to the end, or no farther than necessary.
            yield packed[:split] + [limit - packed[-1] + start for start in packed[split:-1]]
            yield packed[:split] + _upward(now, sizes, high, packed[split] + self.added)
            if not adapts:
                continue
            # Those before it do not go to the beginning.
            below = _upward(now, sizes, low, 0)
            end = below[-1] + sizes[split - 1] if split else 0
            yield below + _upward(now, sizes, high, end + self.added)
            above = _downward(now, sizes, high, limit)
            end = above[0] if split < len(order) else limit
            yield _downward(now, sizes, low, end - self.added) + above

    def _place(self, starts: Sequence[int], limit: int, in_order: bool) -> int | None:
        """Return an offset for the new rows without moves; None if there is none, or the others
        are not below ``limit``.
        """
        for start, nbytes in zip(starts, self.sizes, strict=True):
            if start < 0 or start + nbytes > limit:
                return None
        if self.grown is not None:
            place = starts[self.grown] + self.sizes[self.grown]
            return place if self._is_free(place, starts, limit) else None
        for place in self._places(starts, limit, in_order):
            if self._is_free(place, starts, limit):
                return place
        return None

    def _is_free(self, place: int, starts: Sequence[int], limit: int) -> bool:
        """Return whether the new rows may be at ``place``."""
        end = place + self.added
        if place < 0 or end > limit:
            return False
        for start, kept, nbytes in zip(starts, self.kept, self.sizes, strict=True):
            if kept < nbytes and place < start + nbytes and start + kept < end:
                return False
        return all([o.overlap.allows(place - starts[o.buffer] - o.begin) for o in self.operands])

    def _places(self, starts: Sequence[int], limit: int, in_order: bool) -> Iterator[int]:
        """Yield offsets for the rows of an empty buffer, the better ones first."""
        behind = [starts[b] + self.kept[b] for b in self.behind if self.kept[b] < self.sizes[b]]
        end = min(behind, default=limit)
        # Over operands, if permitted.
        over = list[int]()
        for operand in self.operands:
            start = starts[operand.buffer] + operand.begin
            over += start, start + operand.low, start + operand.high
        yield from (place for place in over if place + self.added <= end)
        if self.stays:
            # At the highest offset, to leave free bytes for buffers that precede it.
            yield end - self.added
            if in_order:
                return
        yield from over
        taken = sorted(
            (start + kept, start + nbytes)
            for start, kept, nbytes in zip(starts, self.kept, self.sizes, strict=True)
            if kept < nbytes
        )
        ends = [0, *(end for _, end in taken)]
        begins = [*(begin for begin, _ in taken), limit]
        # Best fit.
        gaps = sorted((begin - end, end) for end, begin in zip(ends, begins, strict=True))
        yield from (end for _, end in gaps)

    def _moves(self, order: _Lying, starts: Sequence[int], targets: Sequence[int]) -> list[Move]:
        """Return the moves from ``starts`` to ``targets``, which keep the order."""
        moves = [
            Move(targets[b], starts[b], self.sizes[b]) for b in order if targets[b] != starts[b]
        ]
        # First the moves to lower offsets, in ascending order, then those to higher ones, in
        # descending order.
        down = [move for move in moves if move.target < move.source]
        up = [move for move in reversed(moves) if move.target > move.source]
        return _joined_moves(down) + _joined_moves(up)


def _upward(
    starts: Sequence[int], sizes: Sequence[int], buffers: Sequence[int], end: int
) -> list[int]:
    """Return the starts of buffers that lie from ``end`` on, no farther than necessary."""
    found = list[int]()
    for buffer in buffers:
        found.append(max(starts[buffer], end))
        end = found[-1] + sizes[buffer]
    return found


def _downward(
    starts: Sequence[int], sizes: Sequence[int], buffers: Sequence[int], start: int
) -> list[int]:
    """Return the starts of buffers that end at ``start`` at most, no farther than necessary."""
    found = list[int]()
    for buffer in reversed(buffers):
        start = min(starts[buffer], start - sizes[buffer])
        found.insert(0, start)
    return found


def _in_order(sizes: Sequence[int], starts: Sequence[int], limit: int) -> bool:
    ends = [0, *(start + nbytes for start, nbytes in zip(starts, sizes, strict=True))]
    return all(end <= start for end, start in zip(ends, [*starts, limit], strict=True))


def _joined_moves(moves: Sequence[Move]) -> list[Move]:
    """Return the moves with adjacent ranges merged."""
    joined: list[Move] = []
    for move in moves:
        last = joined[-1] if joined else None
        if last is not None and last.target - last.source == move.target - move.source:
            low, high = sorted((last, move), key=lambda m: m.target)
            if low.target + low.nbytes == high.target:
                joined[-1] = Move(low.target, low.source, low.nbytes + high.nbytes)
                continue
        joined.append(move)
    return joined
