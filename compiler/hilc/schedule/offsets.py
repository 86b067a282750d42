"""Offsets of tensors between consecutive segments: whether these keep a memory limit together.

Each segment of a partition may keep a limit and all of them may not: a layer whose output lies far
below its input needs its input high up, where the layer before it has no room for its own. What a
segment permits are differences of offsets: for each order in which its operand, its output and its
scratch may lie, intervals of the offsets of operand and output and of their difference. So the
offsets at which a tensor can be, within a limit, follow from those of the tensor before it, as
intervals. They are counted in units of the alignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from hilc.lowering.access import ForbiddenInterval, apart
from hilc.memory.allocate import ALIGNMENT

#: Closed intervals of offsets, which ascend and do not touch.
Offsets = tuple[tuple[int, int], ...]

_FAR = 1 << 50


@dataclass(frozen=True)
class _Order:
    """One order of operand, output and scratch; offsets from the pool's end are negative."""

    #: Least and greatest difference of the output's offset and the operand's.
    differences: tuple[int, int]
    #: Least offset of the operand and of the output, because of scratch below them.
    least: tuple[int, int]
    #: Bytes of scratch beyond the offset of the operand and of the output.
    reach: tuple[int, int]


class Passage:
    """Offsets of a segment's output by those of one of its operands, which is not read later.

    The intervals are those of the output and the operand, of the scratch and the operand, and of
    the scratch and the output; None where the two are apart.
    """

    def __init__(
        self,
        operand_bytes: int,
        output_bytes: int,
        scratch_bytes: int,
        output: ForbiddenInterval | None,
        scratch: ForbiddenInterval | None,
        beside: ForbiddenInterval | None,
    ) -> None:
        self._sizes = operand_bytes, output_bytes
        outputs = _allowed(output or apart(operand_bytes, output_bytes))
        if not scratch_bytes:
            unbound = (-_FAR, -_FAR)
            self._orders = {_Order(difference, unbound, unbound) for difference in outputs}
            return
        scratches = _allowed(scratch or apart(operand_bytes, scratch_bytes))
        besides = _allowed(beside or apart(output_bytes, scratch_bytes))
        size = -(-scratch_bytes // ALIGNMENT)
        self._orders = {
            _Order((least, greatest), (-last, -last_too), (first + size, first_too + size))
            for (low, high), (first, last), (first_too, last_too) in product(
                outputs, scratches, besides
            )
            if (least := max(low, first - last_too)) <= (greatest := min(high, last - first_too))
        }

    def after(self, offsets: Offsets | None, limit: int) -> Offsets:
        """Return the offsets of the output in a pool of ``limit`` bytes; none where there is no
        room. ``offsets`` are those of the operand, None for any.
        """
        operand, output = ((limit - nbytes) // ALIGNMENT for nbytes in self._sizes)
        end = -(-limit // ALIGNMENT)
        found: list[tuple[int, int]] = []
        for order in self._orders:
            low, high = order.differences
            first = max(0, order.least[0])
            last = min(operand, end - order.reach[0])
            lowest = max(0, order.least[1])
            highest = min(output, end - order.reach[1])
            for begin, stop in ((first, last),) if offsets is None else offsets:
                begin, stop = max(begin, first, lowest - high), min(stop, last, highest - low)
                if begin <= stop and lowest <= highest:
                    found.append((max(lowest, begin + low), min(highest, stop + high)))
        return _joined(found)


def _allowed(forbidden: ForbiddenInterval) -> list[tuple[int, int]]:
    """Return the differences that are not forbidden, as intervals of units."""
    lows, highs = [-_FAR], list[int]()
    for low, high in forbidden.parts:
        highs.append(low // ALIGNMENT)
        lows.append(-(-high // ALIGNMENT))
    highs.append(_FAR)
    return [(a, b) for a, b in zip(lows, highs, strict=True) if a <= b]


def _joined(intervals: Iterable[tuple[int, int]]) -> Offsets:
    found: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def covers(offsets: Offsets | None, others: Offsets | None) -> bool:
    """Return whether ``offsets`` contain ``others``; None has all."""
    if offsets is None or others is None:
        return offsets is None
    return all(any(a <= c and d <= b for a, b in offsets) for c, d in others)
