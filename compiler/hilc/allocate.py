"""Offsets in one pool for blocks that live for an interval of steps.

Two blocks whose intervals meet must not share a byte. Finding the smallest pool is hard in general;
first fit in a good order is optimal for nearly every network, so several orders are tried, the best
is improved by a bounded search that repeats exactly, and :func:`lower_bound` says when to stop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Every block starts at a multiple of this many bytes.
ALIGNMENT = 16

_SEARCH_TRIES = 400


@dataclass(frozen=True)
class Block:
    """``nbytes`` needed from step ``first`` to step ``last``, both included."""

    nbytes: int
    first: int
    last: int

    def meets(self, other: Block) -> bool:
        return self.first <= other.last and other.first <= self.last


def align(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment of blocks."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lower_bound(blocks: Sequence[Block]) -> int:
    """Bytes that no placement can do without: the most that live at one step."""
    # Only the topmost block of a step may end at an address that is not aligned.
    starts = {block.first for block in blocks}
    live_sets = ([b for b in blocks if b.first <= step <= b.last] for step in starts)
    return max(
        (
            sum(align(b.nbytes) for b in live) - max(align(b.nbytes) - b.nbytes for b in live)
            for live in live_sets
        ),
        default=0,
    )


def allocate(blocks: Sequence[Block]) -> tuple[int, ...]:
    """An offset for each block, the same for the same blocks every time."""
    return _Search(blocks).best()


def pool_bytes(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Size of the pool that holds ``blocks`` at ``offsets``."""
    return max((o + b.nbytes for b, o in zip(blocks, offsets, strict=True)), default=0)


class _Search:
    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.neighbours = [
            [i for i, other in enumerate(blocks) if other is not block and other.meets(block)]
            for block in blocks
        ]

    def best(self) -> tuple[int, ...]:
        bound = lower_bound(self.blocks)
        order, offsets = self._best_order()
        peak = pool_bytes(self.blocks, offsets)
        # Fixed seed: the plan is part of the output, which must not change from run to run.
        chance = random.Random(0)
        for _ in range(_SEARCH_TRIES if len(order) > 1 else 0):
            if peak == bound:
                break
            # Only placing something else before a block that sets the peak can lower it.
            tops = [p for p, i in enumerate(order) if offsets[i] + self.blocks[i].nbytes == peak]
            a, b = chance.choice(tops), chance.randrange(len(order))
            candidate = list(order)
            candidate[a], candidate[b] = candidate[b], candidate[a]
            moved = self._first_fit(candidate)
            if (height := pool_bytes(self.blocks, moved)) <= peak:
                order, offsets, peak = candidate, moved, height
        return tuple(offsets)

    def _best_order(self) -> tuple[list[int], list[int]]:
        keys: tuple[Callable[[Block], tuple[int, ...]], ...] = (
            lambda b: (-b.nbytes, b.first),
            lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
            lambda b: (b.first - b.last, -b.nbytes),
            lambda b: (b.first, -b.nbytes),
            lambda b: (-b.last, -b.nbytes),
        )
        best: tuple[int, list[int], list[int]] | None = None
        for key in keys:
            order = sorted(range(len(self.blocks)), key=lambda i: (*key(self.blocks[i]), i))
            offsets = self._first_fit(order)
            peak = pool_bytes(self.blocks, offsets)
            if best is None or peak < best[0]:
                best = (peak, order, offsets)
        assert best is not None
        return best[1], best[2]

    def _first_fit(self, order: Sequence[int]) -> list[int]:
        offsets = [-1] * len(self.blocks)
        for index in order:
            size = self.blocks[index].nbytes
            taken = sorted(
                (offsets[i], offsets[i] + self.blocks[i].nbytes)
                for i in self.neighbours[index]
                if offsets[i] >= 0
            )
            offset = 0
            for start, end in taken:
                if offset + size <= start:
                    break
                offset = max(offset, align(end))
            offsets[index] = offset
        return offsets
