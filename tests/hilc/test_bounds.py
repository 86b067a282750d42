"""Bounds of a pool against every placement of a few blocks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from hilc.lowering.access import ForbiddenInterval, apart
from hilc.memory import allocate as module
from hilc.memory.allocate import (
    ALIGNMENT,
    Block,
    align,
    allocate,
    forbidden_between,
    live_blocks,
    lower_bound,
    pool_bytes,
    step_bound,
)

Overlaps = Mapping[tuple[int, int], ForbiddenInterval]


def some_interval(dice: random.Random, first: int, second: int) -> ForbiddenInterval:
    """Return an interval within that of blocks of these sizes that share no byte."""
    low, high = -dice.randrange(second + 1), dice.randrange(first + 1)
    cuts = sorted(dice.sample(range(low, high + 1), min(high - low + 1, 2 * dice.randrange(3))))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    gaps = tuple((a, b) for a, b in pairs if low < a and b < high)
    return ForbiddenInterval(low, high, gaps)


def span(placed: Sequence[tuple[int, int]]) -> int:
    """Return the bytes from the first to the last of blocks, each an offset and a size."""
    return max(at + size for at, size in placed) - min(at for at, _ in placed)


def differences(first: int, second: int) -> range:
    return range(-align(second) - ALIGNMENT, align(first) + 2 * ALIGNMENT, ALIGNMENT)


@pytest.mark.parametrize("seed", range(20))
def test_two_blocks_span_the_least_of_all_differences(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(30):
        first, second = dice.randrange(1, 100), dice.randrange(1, 100)
        forbidden = some_interval(dice, first, second)
        blocks = [Block(first, 0, 1), Block(second, 1, 2)]
        least = min(
            span([(0, first), (d, second)])
            for d in differences(first, second)
            if forbidden.allow(d)
        )
        assert module._least_span(blocks, (0, 1), forbidden) == least
        assert step_bound(blocks, 1, {(0, 1): forbidden}) == least
        assert pool_bytes(blocks, allocate(blocks, overlaps={(0, 1): forbidden})) == least


@pytest.mark.parametrize("seed", range(20))
def test_an_operand_with_output_and_scratch(seed: int) -> None:
    """Output and scratch may lie over the operand, not over each other."""
    dice = random.Random(seed)
    for _ in range(10):
        n, a, b = (dice.randrange(1, 70) for _ in range(3))
        one, other = some_interval(dice, n, a), some_interval(dice, n, b)
        blocks = [Block(n, 0, 1), Block(a, 1, 2), Block(b, 1, 1)]
        reach = ALIGNMENT * 11
        grid = range(-reach, reach + 1, ALIGNMENT)
        least = min(
            span([(0, n), (x, a), (y, b)])
            for x in grid
            if one.allow(x)
            for y in grid
            if other.allow(y) and (y >= x + a or y + b <= x)
        )
        overlaps = {(0, 1): one, (0, 2): other}
        assert module._least_span_of_three(blocks, 0, 1, 2, overlaps) == least
        assert step_bound(blocks, 1, overlaps) == least


@pytest.mark.parametrize("seed", range(20))
def test_an_output_over_scratch_counts_for_one_of_both(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(30):
        output, scratch, other = (dice.randrange(1, 100) for _ in range(3))
        forbidden = some_interval(dice, output, scratch)
        blocks = [Block(output, 1, 2), Block(scratch, 1, 1), Block(other, 0, 2)]
        least = min(
            span([(0, output), (d, scratch)])
            for d in differences(output, scratch)
            if forbidden.allow(d)
        )
        overlaps = {(0, 1): forbidden}
        both = ALIGNMENT * -(-min(least, other) // ALIGNMENT) + max(least, other)
        assert both - ALIGNMENT < step_bound(blocks, 1, overlaps) <= both
        size = pool_bytes(blocks, allocate(blocks, overlaps=overlaps))
        assert step_bound(blocks, 1, overlaps) <= size <= align(least) + align(other)


def every_placement(blocks: Sequence[Block], overlaps: Overlaps, most: int) -> Iterator[int]:
    """Yield the size of the pool of each placement that is permitted and takes less than ``most``;
    pinned blocks stay where they are.
    """

    def place(offsets: list[int]) -> Iterator[int]:
        index = len(offsets)
        if index == len(blocks):
            yield pool_bytes(blocks, offsets)
            return
        pinned = blocks[index].offset
        for at in range(0, most, ALIGNMENT) if pinned is None else (pinned,):
            if at + blocks[index].nbytes < most and all(
                not blocks[other].meets(blocks[index])
                or forbidden_between(blocks, overlaps, other, index).allow(at - offsets[other])
                for other in range(index)
            ):
                yield from place([*offsets, at])

    return place([])


def some_blocks(
    seed: int, *, over_scratch: bool
) -> tuple[list[Block], dict[tuple[int, int], ForbiddenInterval]]:
    """Return four blocks of a few steps, and intervals of those that are written over others: with
    ``over_scratch`` also over blocks of the step that writes them.
    """
    dice = random.Random(seed)
    blocks = []
    for _ in range(4):
        first = dice.randrange(3)
        # Of every second instance they fit without padding.
        nbytes = ALIGNMENT * dice.randrange(1, 5) if seed % 2 else dice.randrange(1, 70)
        blocks.append(Block(nbytes, first, first + dice.randrange(3)))
    overlaps = {
        (a, b): some_interval(dice, blocks[a].nbytes, blocks[b].nbytes)
        for a, b in itertools.permutations(range(4), 2)
        if blocks[a].first < blocks[a].last == blocks[b].first and dice.random() < 0.6
    }
    overlaps |= {
        (a, b): some_interval(dice, blocks[a].nbytes, blocks[b].nbytes)
        for a, b in itertools.permutations(range(4), 2)
        if over_scratch and blocks[a].last > blocks[a].first == blocks[b].first == blocks[b].last
    }
    return blocks, overlaps


@pytest.mark.parametrize(("over_scratch", "most"), [(False, 99), (True, 90)])
def test_no_placement_is_below_the_bound(over_scratch: bool, most: int) -> None:
    exact = found = 0
    for seed in range(100):
        blocks, overlaps = some_blocks(seed, over_scratch=over_scratch)
        bound, offsets = lower_bound(blocks, overlaps), allocate(blocks, overlaps=overlaps)
        size = pool_bytes(blocks, offsets)
        least = min(every_placement(blocks, overlaps, size + 1))
        assert bound <= least <= size
        exact += bound == least
        found += size == least
        for a, b in itertools.combinations(range(4), 2):
            if blocks[a].meets(blocks[b]):
                forbidden = forbidden_between(blocks, overlaps, a, b)
                assert forbidden.allow(offsets[b] - offsets[a])
    assert found == 100
    assert exact >= most


def test_independent_blocks_are_stacked_by_padding() -> None:
    dice = random.Random(1)
    for count in (0, 1, 2, 3, 4):
        sizes = [dice.randrange(1, 60) for _ in range(count)]
        least = min(
            sum(map(align, order[:-1])) + sum(order[-1:]) for order in itertools.permutations(sizes)
        )
        assert module._stacked(sizes) == least
        assert lower_bound([Block(n, 0, 0) for n in sizes]) == least


def test_a_pinned_block_ends_a_pool() -> None:
    small = Block(40, 0, 0)
    assert lower_bound([small, Block(10, 2, 2, offset=96)]) == 106
    assert lower_bound([small, Block(10, 2, 2, offset=96, pool=0)]) == 106
    assert lower_bound([small, Block(10, 2, 2, offset=96, pool=1)]) == 40
    assert lower_bound([small, Block(10, 2, 2, offset=0)]) == 40


def test_blocks_meet_where_they_have_a_step_in_common() -> None:
    ranges = [Block(1, a, b) for a, b in itertools.combinations_with_replacement(range(4), 2)]
    for one, other in itertools.product(ranges, ranges):
        steps = set(range(one.first, one.last + 1)) & set(range(other.first, other.last + 1))
        assert one.meets(other) == bool(steps)
    for step in range(-1, 5):
        assert live_blocks(ranges, step) == [b for b in ranges if b.first <= step <= b.last]


def test_an_interval_holds_in_both_directions() -> None:
    blocks = [Block(10, 0, 0), Block(30, 0, 0), Block(5, 0, 0)]
    given = ForbiddenInterval(-20, 7, ((-3, 0),))
    overlaps = {(0, 1): given}
    assert forbidden_between(blocks, overlaps, 0, 1) == given
    assert forbidden_between(blocks, overlaps, 1, 0) == ForbiddenInterval(-7, 20, ((0, 3),))
    assert forbidden_between(blocks, overlaps, 0, 2) == apart(10, 5)
    assert forbidden_between(blocks, overlaps, 2, 0) == apart(5, 10)


@pytest.mark.parametrize(
    ("bound", "peak", "sizes"),
    [
        (33, 200, [33, 48, 64, 96, 160]),
        (48, 200, [48, 64, 96, 160]),
        (33, 160, [33, 48, 64, 96]),
        (33, 34, [33]),
        (32, 32, [32]),
    ],
)
def test_pools_are_tried_from_the_bound_on(bound: int, peak: int, sizes: list[int]) -> None:
    assert list(module._sizes(bound, peak)) == sizes


def test_sizes_are_rounded_to_the_alignment() -> None:
    for nbytes in range(100):
        up = next(n for n in range(nbytes, 200) if n % ALIGNMENT == 0)
        assert align(nbytes) == up
        assert (
            module._down(nbytes)
            == -align(-nbytes)
            == next(n for n in range(nbytes, -1, -1) if n % ALIGNMENT == 0)
        )


def test_simple_orders_take_the_first_free_offset() -> None:
    """Next to a block as well as in a gap between two."""
    found = 0
    for seed in range(60):
        blocks, overlaps = some_blocks(seed, over_scratch=bool(seed % 2))
        offsets = allocate(blocks, 1 << 30, overlaps=overlaps)
        order = sorted(range(4), key=lambda i: (-blocks[i].nbytes, blocks[i].first, i))
        placed: dict[int, int] = {}
        for index in order:
            placed[index] = next(
                at
                for at in itertools.count(0, ALIGNMENT)
                if all(
                    not blocks[other].meets(blocks[index])
                    or forbidden_between(blocks, overlaps, other, index).allow(at - offset)
                    for other, offset in placed.items()
                )
            )
        assert offsets == tuple(placed[index] for index in range(4))
        found += max(offsets) > 0
    assert found > 50
