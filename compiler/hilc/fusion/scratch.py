"""Allocation of a step's scratch for items that are live, entirely or in parts, during some
entries.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hilc.support.intervals import joined

#: Alignment in bytes of buffers and scratch.
ALIGNMENT = 4

# Number of orders that are tried.
_PLACINGS = 60

#: Half-open ranges of bytes.
Ranges = tuple[tuple[int, int], ...]


#: A moment with constant offsets: a part of the schedule, and its entry.
Moment = tuple[int, int]

#: The moments at which an item has the same live ranges, by these: a bit for each.
_Spans = Mapping[Ranges, int]


@dataclass
class Item:
    """An item of the step's scratch; ``live`` are its live byte ranges by moment, and ``duration``
    the number of entries with any.
    """

    nbytes: int
    live: dict[Moment, Ranges]
    duration: int
    offset: int = 0


def place_items(items: Sequence[Item], most: int | None = None) -> int | None:
    """Assign an offset to each item; return the total size in bytes, None where it certainly
    exceeds ``most``.

    Two items may share bytes that are never live in both.
    """
    bound = max([_most_at_once(items), *(item.nbytes for item in items)], default=0)
    if most is not None and aligned(bound) > most:
        return None
    apart = _forbidden(_moments_by_ranges(items))
    orders = [
        sorted(range(len(items)), key=lambda i: (-items[i].nbytes, i)),
        sorted(range(len(items)), key=lambda i: (-items[i].duration, -items[i].nbytes, i)),
        sorted(range(len(items)), key=lambda i: (-items[i].duration * items[i].nbytes, i)),
    ]
    # Fixed seed: the result is part of the output, which must be deterministic.
    chance = random.Random(0)
    best: tuple[int, list[int]] | None = None
    known: set[tuple[int, ...]] = set()
    for attempt in range(_PLACINGS):
        if attempt < len(orders):
            order = orders[attempt]
        else:
            order = list(orders[attempt % len(orders)])
            for _ in range(1 + attempt % 3):
                a, b = chance.randrange(len(order)), chance.randrange(len(order))
                order[a], order[b] = order[b], order[a]
        if tuple(order) in known:
            # Few items have few permutations.
            continue
        known.add(tuple(order))
        found = _first_fit(items, order, apart, None if best is None else best[0])
        if found is not None:
            best = found
            if best[0] <= bound or len(items) < 2:
                break
    assert best is not None
    for item, offset in zip(items, best[1], strict=True):
        item.offset = offset
    return aligned(best[0])


def aligned(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to a multiple of :data:`ALIGNMENT`."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _moments_by_ranges(items: Sequence[Item]) -> list[_Spans]:
    """Return, for each item, the moments at which it has the same live ranges, together."""
    bits: dict[Moment, int] = {}
    found: list[_Spans] = []
    for item in items:
        spans: dict[Ranges, int] = {}
        for moment, ranges in item.live.items():
            bit = bits.setdefault(moment, 1 << len(bits))
            spans[ranges] = spans.get(ranges, 0) | bit
        found.append(spans)
    return found


def _most_at_once(items: Sequence[Item]) -> int:
    used: dict[Moment, int] = {}
    for item in items:
        sizes: dict[Ranges, int] = {}
        for moment, ranges in item.live.items():
            if ranges not in sizes:
                # Ranges within an item may overlap.
                begins, ends = joined(ranges)
                sizes[ranges] = sum(ends) - sum(begins)
            used[moment] = used.get(moment, 0) + sizes[ranges]
    return max(used.values(), default=0)


def _forbidden(items: Sequence[_Spans]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return, for items ``a`` and ``b``, the open intervals in which ``offset(b) - offset(a)`` must
    not lie.
    """
    found = {}
    for a, first in enumerate(items):
        for b in range(a + 1, len(items)):
            ranges = {
                (begin - other_end, end - other_begin)
                for own, moments in first.items()
                for others, other_moments in items[b].items()
                if moments & other_moments
                for begin, end in own
                for other_begin, other_end in others
            }
            lows, highs = joined(ranges)
            found[a, b] = list(zip(lows, highs, strict=True))
            found[b, a] = [(-high, -low) for low, high in found[a, b]]
    return found


def _first_fit(
    items: Sequence[Item],
    order: Sequence[int],
    apart: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
    most: int | None,
) -> tuple[int, list[int]] | None:
    """Return the end and the offsets of the items, each at the lowest one that is free in this
    order; None where the end is not below ``most``.
    """
    offsets = [-1] * len(items)
    placed: list[int] = []
    total = 0
    for index in order:
        taken = [
            (offsets[other] + low, offsets[other] + high)
            for other in placed
            for low, high in apart[other, index]
        ]
        taken.sort()
        offset = 0
        for low, high in taken:
            if low < offset < high:
                offset = aligned(high)
        offsets[index] = offset
        placed.append(index)
        total = max(total, offset + items[index].nbytes)
        if most is not None and total >= most:
            return None
    return total, offsets
