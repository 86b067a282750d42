"""Offsets in a pool: never overlapping, close to the best, always the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hilc.allocate import ALIGNMENT, Block, align, allocate, lower_bound, pool_bytes


def _random_blocks(seed: int, count: int) -> list[Block]:
    rng = np.random.default_rng(seed)
    starts = rng.integers(-1, 10, count)
    return [
        Block(int(rng.integers(1, 200)), int(first), int(first + rng.integers(0, 5)))
        for first in starts
    ]


def _optimum(blocks: list[Block]) -> int:
    """The smallest pool: first fit reaches it in the order of the offsets of any best plan."""
    best = 1 << 30
    for order in itertools.permutations(range(len(blocks))):
        offsets: dict[int, int] = {}
        for index in order:
            taken = sorted(
                (offset, offset + blocks[other].nbytes)
                for other, offset in offsets.items()
                if blocks[other].meets(blocks[index])
            )
            place = 0
            for start, end in taken:
                if place + blocks[index].nbytes > start:
                    place = max(place, align(end))
            offsets[index] = place
        best = min(best, pool_bytes(blocks, [offsets[i] for i in range(len(blocks))]))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_blocks_that_live_at_one_time_share_no_byte(seed: int) -> None:
    blocks = _random_blocks(seed, 3 + seed)
    offsets = allocate(blocks)
    assert all(offset >= 0 and offset % ALIGNMENT == 0 for offset in offsets)
    for (a, at_a), (b, at_b) in itertools.combinations(zip(blocks, offsets, strict=True), 2):
        apart = at_a + a.nbytes <= at_b or at_b + b.nbytes <= at_a
        assert apart or not a.meets(b)
    assert lower_bound(blocks) <= pool_bytes(blocks, offsets)


@pytest.mark.parametrize("seed", range(25))
def test_small_pools_are_optimal(seed: int) -> None:
    blocks = _random_blocks(seed, 6)
    assert pool_bytes(blocks, allocate(blocks)) == _optimum(blocks)


def test_the_same_blocks_get_the_same_offsets() -> None:
    blocks = _random_blocks(7, 60)
    assert allocate(blocks) == allocate(list(blocks))


def test_no_blocks() -> None:
    assert allocate([]) == ()
    assert lower_bound([]) == 0


def test_only_the_top_block_may_end_unaligned() -> None:
    blocks = [Block(17, 0, 0), Block(5, 0, 0)]
    assert lower_bound(blocks) == pool_bytes(blocks, allocate(blocks)) == 32 + 1 == 33
