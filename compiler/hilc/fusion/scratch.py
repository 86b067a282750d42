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


@dataclass
class Item:
    """An item of the step's scratch; ``live`` are its live byte ranges by moment, and ``duration``
    the number of entries with any.
    """

    nbytes: int
    live: dict[Moment, Ranges]
    duration: int
    offset: int = 0


def place_items(items: Sequence[Item]) -> int:
    """Assign an offset to each item; return the total size in bytes.

    Two items may share bytes that are never live in both.
    """
    apart = _forbidden(items)
    bound = _most_at_once(items)
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
        offsets = _first_fit(items, order, apart)
        end = max((o + i.nbytes for o, i in zip(offsets, items, strict=True)), default=0)
        if best is None or end < best[0]:
            best = end, offsets
        if end <= bound or len(items) < 2:
            break
    assert best is not None
    for item, offset in zip(items, best[1], strict=True):
        item.offset = offset
    return aligned(best[0])


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _most_at_once(items: Sequence[Item]) -> int:
    used: dict[Moment, int] = {}
    for item in items:
        for moment, ranges in item.live.items():
            # Ranges within an item may overlap.
            begins, ends = joined(ranges)
            used[moment] = used.get(moment, 0) + sum(ends) - sum(begins)
    return max([*used.values(), *(item.nbytes for item in items)], default=0)


def _forbidden(items: Sequence[Item]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return, for items ``a`` and ``b``, the open intervals in which ``offset(b) - offset(a)`` must
    not lie.
    """
    found = {}
    for a, first in enumerate(items):
        for b in range(a + 1, len(items)):
            second = items[b]
            met = {(first.live[e], second.live[e]) for e in first.live.keys() & second.live.keys()}
            ranges = {(*one, *other) for pair in met for one in pair[0] for other in pair[1]}
            lows, highs = joined(
                (begin - other_end, end - other_begin)
                for begin, end, other_begin, other_end in ranges
            )
            found[a, b] = list(zip(lows, highs, strict=True))
            found[b, a] = [(-high, -low) for low, high in found[a, b]]
    return found


def _first_fit(
    items: Sequence[Item],
    order: Sequence[int],
    apart: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
) -> list[int]:
    offsets = [-1] * len(items)
    placed: list[int] = []
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
    return offsets
