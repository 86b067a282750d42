"""Offsets of tensors between consecutive segments, against all offsets that there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from hilc.lowering.access import ForbiddenInterval, apart
from hilc.memory.allocate import ALIGNMENT
from hilc.schedule.estimate import Segment
from hilc.schedule.offsets import Offsets, Passage, covers
from hilc.schedule.partition import _cheapest_together, _fit_together

_Forbidden = ForbiddenInterval | None
Case = tuple[int, int, int, _Forbidden, _Forbidden, _Forbidden]


def some_case(dice: random.Random) -> Case:
    """Return sizes of operand, output and scratch, and their forbidden intervals."""
    sizes = [dice.randrange(1, 90), dice.randrange(1, 90), dice.choice([0, dice.randrange(1, 60)])]
    forbidden: list[ForbiddenInterval | None] = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        low, high = -dice.randrange(0, sizes[second] + 1), dice.randrange(0, sizes[first] + 1)
        gaps = ((0, 0),) if low < 0 < high and dice.random() < 0.3 else ()
        forbidden.append(dice.choice([None, ForbiddenInterval(low, high, gaps)]))
    return sizes[0], sizes[1], sizes[2], forbidden[0], forbidden[1], forbidden[2]


def places(nbytes: int, limit: int) -> range:
    return range(0, limit - nbytes + 1, ALIGNMENT)


def every_output(case: Case, operands: set[int], limit: int) -> set[int]:
    """Return the offsets of the output for which there are one of the operand and the scratch."""
    operand, output, scratch, over, under, beside = case
    over = over or apart(operand, output)
    under = under or apart(operand, scratch)
    beside = beside or apart(output, scratch)
    return {
        p
        for o, p in product(operands & set(places(operand, limit)), places(output, limit))
        if over.allow(p - o)
        and (
            not scratch
            or any(under.allow(s - o) and beside.allow(s - p) for s in places(scratch, limit))
        )
    }


def listed(offsets: Offsets) -> set[int]:
    return {ALIGNMENT * unit for first, last in offsets for unit in range(first, last + 1)}


@pytest.mark.parametrize("seed", range(60))
def test_offsets_of_outputs_are_all_that_there_are(seed: int) -> None:
    dice = random.Random(seed)
    case = some_case(dice)
    passage = Passage(*case)
    for _ in range(6):
        limit = ALIGNMENT * dice.randrange(1, 16)
        operands = set(places(case[0], limit))
        assert listed(passage.after(None, limit)) == every_output(case, operands, limit)
        low, high = sorted((dice.randrange(16), dice.randrange(16)))
        some = {ALIGNMENT * unit for unit in range(low, high + 1)}
        expected = every_output(case, some, limit)
        assert listed(passage.after(((low, high),), limit)) == expected


def test_offsets_contain_others() -> None:
    assert covers(None, ((1, 2),))
    assert not covers(((1, 2),), None)
    assert covers(((0, 3), (6, 9)), ((1, 2), (6, 6)))
    assert not covers(((0, 3), (6, 9)), ((1, 6),))


def a_segment(step: int, kernel: int, cost: int, memory: int, passage: Passage) -> Segment:
    call: Any = SimpleNamespace(kernel=None, scratch_bytes=0)
    return Segment(
        memory_bound=memory,
        calls=(call,),
        first=step,
        last=step,
        cost=cost,
        parts={},
        flash=0,
        kernel=str(kernel),
        group=None,
        names=(f"n{step}",),
        in_place=False,
        passages={step: passage},
        output=step + 1,
    )


def some_chain(seed: int) -> tuple[list[list[Segment]], list[list[Case]]]:
    """Return segments of three layers, one after the other, and what they were made of."""
    dice = random.Random(seed)
    sizes = [dice.randrange(1, 90) for _ in range(4)]
    cases = [
        [(sizes[step], sizes[step + 1], *some_case(dice)[2:]) for _ in range(3)]
        for step in range(3)
    ]
    options = [
        [
            a_segment(step, kernel, dice.randrange(1, 50), 0, Passage(*case))
            for kernel, case in enumerate(own)
        ]
        for step, own in enumerate(cases)
    ]
    return options, cases


def fitting(
    options: list[list[Segment]], cases: list[list[Case]], limit: int
) -> Iterator[tuple[Segment, ...]]:
    """Yield the paths for which all tensors and scratch have offsets."""
    for path in product(*options):
        offsets = set(places(cases[0][0][0], limit))
        for segment in path:
            offsets = every_output(cases[segment.first][int(segment.kernel)], offsets, limit)
        if offsets:
            yield path


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_path_fits_together(seed: int) -> None:
    options, cases = some_chain(seed)
    for units in range(2, 14, 2):
        limit = ALIGNMENT * units
        paths = list(fitting(options, cases, limit))
        for path in product(*options):
            assert _fit_together(path, limit) == (path in paths)
        found = _cheapest_together(options, 0.0, limit)
        if not paths:
            assert found is None
        else:
            assert found is not None
            least = min(sum(segment.cost for segment in path) for path in paths)
            assert sum(segment.cost for segment in found) == least


def test_where_nothing_is_known_of_offsets_any_will_do() -> None:
    free = a_segment(0, 0, 1, 100, Passage(16, 16, 0, None, None, None))
    free = Segment(**{**free.__dict__, "passages": {}, "output": None})
    assert free.after(None, None, 16) is None
    assert _fit_together([free], 16)
