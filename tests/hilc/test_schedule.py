"""The parts of the search by themselves, on layers that are only numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hilc.errors import InputError, LimitError
from hilc.fusion.bands import NotFusible
from hilc.fusion.bounds import LeastCost, least_of
from hilc.fusion.call import FusedCall
from hilc.fusion.candidates import Lowering
from hilc.lowering.choice import CostEstimate, Group, KernelSelection
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.kernels import KernelCall
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.explanation import Saving
from hilc.schedule import bound, pareto
from hilc.schedule import groups as groups_module
from hilc.schedule import partition as partition_module
from hilc.schedule import search as search_module
from hilc.schedule.estimate import UNLIMITED, Estimator, Segment, Sketch, _Costs, as_called
from hilc.schedule.goals import Goals
from hilc.schedule.groups import FusedGroups, GroupsOfLayers, Objective, _is_covered
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram
from hilc.schedule.partition import (
    Partition,
    Partitioner,
    _cheapest,
    _cost_of,
    _decoded_in_little,
    _flash_of,
    _laid_out,
    _least_of_each_sum,
)
from hilc.schedule.policy import GOALS, POLICY, SearchPolicy
from hilc.schedule.search import SearchResult, choose
from hilc.target import get_cpu

Options = Sequence[Sequence[Segment]]


def segment(
    first: int,
    last: int,
    cost: int,
    memory: int = 100,
    *,
    flash: float = 0,
    kernel: int = 0,
    group: Group | None = None,
    in_place: bool = True,
) -> Segment:
    call: Any = SimpleNamespace(scratch_bytes=0)
    names = tuple(f"n{step}" for step in range(first, last + 1))
    return Segment(
        memory_bound=memory,
        calls=(call,),
        first=first,
        last=last,
        cost=cost,
        parts={(first, last, kernel): round(flash)},
        flash=flash,
        kernel=f"v{kernel}",
        group=group,
        names=names,
        in_place=in_place,
    )


def some_options(seed: int, layers: int = 5) -> list[list[Segment]]:
    """Return segments of layers and of groups, by their last layer."""
    dice = random.Random(seed)
    options: list[list[Segment]] = []
    for last in range(layers):
        found = [
            segment(
                *(last, last, dice.randrange(1, 50), dice.randrange(1, 9) * 16),
                flash=dice.randrange(30),
                kernel=kernel,
                in_place=dice.random() < 0.5,
            )
            for kernel in range(dice.randrange(1, 4))
        ]
        for first in range(last):
            if dice.random() < 0.4:
                size = dice.randrange(10 * (last - first), 60 * (last - first))
                found.append(segment(first, last, size, dice.randrange(1, 6) * 16, flash=9))
        options.append(found)
    return options


def alternatives(
    groups: Sequence[Segment], bounds: Sequence[tuple[float, float]] = ()
) -> GroupsOfLayers:
    """Return groups of the same layers; before each that has bounds of its cost and of its cost
    with flash these and the next are not laid out.
    """

    def tried() -> Iterator[Segment | LeastCost]:
        for number, one in enumerate(groups):
            if number < len(bounds):
                yield least_of([LeastCost(*each) for each in bounds[number:]])
            yield one

    return GroupsOfLayers(groups[0].first, groups[0].last, 0, tried())


def all_paths(options: Options, start: int = 0) -> Iterator[list[Segment]]:
    if start == len(options):
        yield []
    for found in options:
        for one in found:
            if one.first == start:
                yield from ([one, *rest] for rest in all_paths(options, one.last + 1))


def cost_of(path: Sequence[Segment], worth: float = 0.0) -> float:
    return sum(one.cost + worth * one.flash for one in path)


def memory_of(path: Sequence[Segment]) -> int:
    return max(one.memory_bound for one in path)


# -- partitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("worth", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_path_is_the_least_of_all(seed: int, worth: float) -> None:
    options = some_options(seed)
    found = _cheapest(options, worth)
    assert found is not None
    assert [one.first for one in found] == [0, *(one.last + 1 for one in found[:-1])]
    least = min((cost_of(path, worth), memory_of(path)) for path in all_paths(options))
    path = [one for one in found if isinstance(one, Segment)]
    assert path == found
    assert (cost_of(path, worth), memory_of(path)) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(60))
def test_groups_of_the_cheapest_path_are_planned(seed: int) -> None:
    """The path is the one of all groups, of equals the same, and the rest is left alone."""
    dice = random.Random(seed)
    options = some_options(seed, layers=7)
    worth = dice.choice([0.0, 1.5])
    # Many cost the same.
    options = [[replace(s, cost=round(s.cost, -1)) for s in found] for found in options]
    singles = [[s for s in found if s.first == s.last] for found in options]
    groups, every = [], [*map(list, singles)]
    for one in (s for found in options for s in found if s.first != s.last):
        same = [replace(one, cost=one.cost + 10 * dice.randrange(-3, 4)) for _ in range(3)]
        low = [dice.randrange(20) for _ in same]
        bounds = [
            (s.cost - less, s.cost_at(worth) - less) for s, less in zip(same, low, strict=True)
        ]
        groups.append(alternatives(same, bounds))
        every[one.last] += same
    found = _laid_out(singles, groups, lambda options: _cheapest(options, worth))
    expected = _cheapest(every, worth)
    assert found is not None
    assert expected is not None
    assert [id(one) for one in found] == [id(one) for one in expected]
    assert any(own.rest is not None for own in groups)


def test_groups_are_laid_out_until_one_costs_little() -> None:
    costs = [(50, 40), (30, 30), (20, 10), (9, 5)]
    for most, laid_out in ((4, 0), (5, 4), (20, 3), (29, 3), (30, 2), (60, 1)):
        groups = alternatives([segment(0, 1, c) for c, _ in costs], [(b, b) for _, b in costs])
        assert groups.has_cost(most, 0.0) == (most >= 9), most
        assert len(groups.found) == laid_out, most
    groups.lay_out_all()
    assert (len(groups.found), groups.rest) == (4, None)
    assert [groups.rest for groups in (alternatives([segment(0, 1, 1)]),)] == [None]


def test_where_no_path_leads_through_there_is_none() -> None:
    assert _cheapest([[segment(0, 0, 1)], []], 0.0) is None
    assert _cheapest([[], [segment(0, 1, 9)]], 0.0) == [segment(0, 1, 9)]
    assert _cheapest([], 0.0) == []


@pytest.mark.parametrize("seed", range(8))
def test_the_cheapest_of_each_size_are_undominated(seed: int) -> None:
    options = some_options(seed)
    flash = 40
    policy = SearchPolicy(sum_parts=64, sum_parts_beyond=16)  # parts of one byte, to 55
    found = list(_least_of_each_sum(options, _cost_of, _flash_of, flash, policy))
    least: dict[int, float] = {}
    for path in all_paths(options):
        size = sum(round(one.flash) for one in path)
        least[size] = min(least.get(size, 1e9), cost_of(path))
    expected = [
        (size, cost)
        for size, cost in least.items()
        if size < 56 and all(cost < other for s, other in least.items() if s < size)
    ]
    shown = [(sum(round(one.flash) for one in path), cost_of(path)) for path in found]
    assert shown == sorted(expected, reverse=True)
    for path in found:
        assert [one.first for one in path] == [0, *(one.last + 1 for one in path[:-1])]


def test_sizes_are_rounded_to_parts_of_the_limit() -> None:
    policy = SearchPolicy(sum_parts=4, sum_parts_beyond=2)  # parts of ten bytes, to 59
    sizes = enumerate([(30, 14), (20, 44), (10, 54), (5, 56)])
    options = [[segment(0, 0, cost, flash=size, kernel=at) for at, (cost, size) in sizes]]
    found = [
        path[0].kernel for path in _least_of_each_sum(options, _cost_of, _flash_of, 40, policy)
    ]
    assert found == ["v2", "v1", "v0"]
    short = [[segment(0, 0, 1, flash=9)]]
    assert list(_least_of_each_sum(short, _cost_of, _flash_of, -5, policy)) == []


def a_partitioner(options: Options, **policy: Any) -> Partitioner:
    """Return the partitioner of these segments of layers and groups."""
    made = object.__new__(Partitioner)
    made._policy = replace(POLICY, **policy)
    made._groups_within = {}
    made._impossible = {}
    made._least_priced = []
    # Nothing was measured as a whole.
    made._whole, made._beyond, made.measured = {}, 1.0, []
    made.singles = [[s for s in found if s.first == s.last] for found in options]
    groups = [s for found in options for s in found if s.first != s.last]

    def within(limit: int, *rest: object, sliced: bool = False) -> list[GroupsOfLayers]:
        if max(s.memory_bound for own in made.singles for s in own) <= limit == UNLIMITED - 1:
            # No layer needs a group.
            return []
        return [
            alternatives([one])
            for one in groups
            if one.memory_bound <= limit and (sliced or not (one.group and one.group.sliced))
        ]

    expansions = any(one.group and one.group.sliced for one in groups)
    made._groups = SimpleNamespace(  # type: ignore[assignment]
        within=within, has_expansions=expansions
    )
    made.estimator = SimpleNamespace(  # type: ignore[assignment]
        flash_bytes=lambda segments: 7 + sum(round(one.flash) for one in segments)
    )
    return made


@pytest.mark.parametrize("seed", range(6))
def test_a_partition_keeps_both_limits_cheaply(seed: int) -> None:
    options = some_options(seed)
    partitioner = a_partitioner(options, sum_parts=1 << 20)
    paths = list(all_paths(options))
    for limit, flash in itertools.product((None, 32, 64, 96), (None, 30, 60, 90)):
        found = partitioner.cheapest(limit, replace(FASTEST, flash_limit=flash))
        least = min(
            (
                cost_of(path)
                for path in paths
                if (limit is None and all(s.first == s.last for s in path))
                or (limit is not None and memory_of(path) <= limit)
                if flash is None or 7 + sum(round(s.flash) for s in path) <= flash
            ),
            default=None,
        )
        assert (found and found.cost) == least
        if found is not None:
            assert found.memory_bound == memory_of(found.segments)
            assert found.flash == 7 + sum(round(one.flash) for one in found.segments)


def test_in_place_kernels_are_preferred() -> None:
    layers = [
        [segment(0, 0, 1, in_place=False, kernel=0), segment(0, 0, 2, kernel=1)],
        [segment(1, 1, 5, in_place=False, kernel=0)],
    ]
    partitioner = a_partitioner(layers)
    kernels = {}
    for in_place in (False, True):
        found = partitioner.cheapest(100, FASTEST, in_place=in_place)
        assert found is not None
        kernels[in_place] = [one.kernel for one in found.segments]
    assert kernels == {False: ["v0", "v0"], True: ["v1", "v0"]}
    assert partitioner.cheapest(99, FASTEST) is None


def test_slices_are_tried_as_the_last_means() -> None:
    group = Group(("n0", "n1"), sliced=8)
    layers = [[segment(0, 0, 5, 90)], [segment(1, 1, 5, 90), segment(0, 1, 9, 60, group=group)]]
    partitioner = a_partitioner(layers)
    above, below = (partitioner.cheapest(limit, FASTEST) for limit in (90, 89))
    assert above is not None
    assert below is not None
    # They would be cheaper.
    assert (above.cost, below.cost) == (10, 9)
    assert partitioner.cheapest(59, FASTEST) is None


def test_a_fed_input_always_has_a_limit() -> None:
    """Its rows are taken in by a group, and groups are tried for a limit only."""
    layers = [[segment(0, 0, 1, UNLIMITED)], [segment(1, 1, 1), segment(0, 1, 9, 64)]]
    partitioner = a_partitioner(layers)
    found = partitioner.cheapest(None, FASTEST)
    assert found is not None
    assert found.cost == 9


def test_a_choice_names_each_layers_variant() -> None:
    group = Group(("n2", "n3"), 2)
    segments = (
        segment(0, 0, 1),
        segment(1, 1, 1, kernel=2),
        segment(2, 3, 1, group=group),
    )
    assert Partition(segments, 3, 100, 0).choice == KernelSelection(
        {"n0": "v0", "n1": "v2"}, (group,)
    )


def test_weights_are_decoded_in_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Segment, "decodes", property(lambda self: self.calls == ()))
    coded = [replace(segment(0, 0, 1, bytes_), calls=()) for bytes_ in (90, 100, 101, 400, 401)]
    others = [[segment(0, 0, 9, 30), *coded], [segment(1, 1, 5, 100), segment(1, 1, 4, 300)]]
    kept = [s.memory_bound for s in _decoded_in_little(others, 50)[0]]
    assert kept == [30, 90, 100]  # the other layer can do with 100
    assert [s.memory_bound for s in _decoded_in_little(others, 400)[0]] == [30, 90, 100, 101, 400]
    assert _decoded_in_little(others, 0)[1] == others[1]
    assert _decoded_in_little([], 9) == []


# -- groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_range_is_covered_by_segments(seed: int) -> None:
    dice = random.Random(seed)
    ends = [[end for end in range(at, 6) if dice.random() < 0.25] for at in range(6)]

    def leads(at: int, last: int) -> bool:
        return at == last + 1 or any(end <= last and leads(end + 1, last) for end in ends[at])

    for first, last in itertools.combinations_with_replacement(range(6), 2):
        assert _is_covered(ends, first, last) == leads(first, last)


@dataclass
class Tried:
    """Groups of some layers, of which each takes what ``memory`` and ``cost`` say."""

    layers: int
    memory: Callable[[int, int], int] = lambda first, last: 100
    cost: Callable[[int, int], int] = lambda first, last: 0
    bound: Callable[[int, int], int] = lambda first, last: 0
    may_fuse: Callable[[int, int], bool] = lambda first, last: True
    fed: str = ""
    policy: SearchPolicy = POLICY
    #: Bytes that are live after each layer.
    live: Callable[[int], int] = lambda step: 100
    #: What another way to fuse the same layers costs; 0 where there is none.
    dearer: int = 0
    #: Parts of the layers' rows that are read.
    shares: Mapping[str, float] = field(default_factory=dict)
    tried: list[tuple[int, int]] = field(default_factory=list)

    def within(self, limit: int, singles: Options) -> list[tuple[int, int]]:
        """Return the groups that are found; ``tried`` has those that were looked at."""
        made: Any = object.__new__(FusedGroups)
        made._policy = self.policy
        made._nodes = [SimpleNamespace(name=f"n{step}", op="ADD") for step in range(self.layers)]
        made._estimator = SimpleNamespace(
            least_memory_bound=self.bound, bounds_groups=True, bytes_after=self.live
        )
        made._known_spans = {}
        made._lowering = SimpleNamespace(row_shares=self.shares)
        made._images = np.arange(self.layers, 0, -1)  # all of them give images
        made._is_fed = lambda name: name == self.fed
        made._may_fuse = self.may_fuse

        def segments(
            first: int, last: int, most: int, objective: Objective, *, sliced: bool
        ) -> Iterator[Segment]:
            self.tried.append((first, last))
            if self.memory(first, last) <= most:
                for cost in filter(None, (self.dearer, self.cost(first, last) or 1)):
                    yield segment(first, last, cost, self.memory(first, last))

        made._group_segments = segments
        made._singles = singles
        found = made.within(limit, Objective())
        return [(s.first, s.last) for own in found for s in own.found]


def singles(*memory: int) -> list[list[Segment]]:
    """Return layers of 100 instructions and so much memory; another kernel takes more of both."""
    return [
        [segment(at, at, 150, 5 * bytes_, kernel=1), segment(at, at, 100, bytes_)]
        for at, bytes_ in enumerate(memory)
    ]


def test_without_a_limit_nothing_is_fused() -> None:
    one = Tried(2)
    assert one.within(UNLIMITED - 1, singles(900, 900)) == []
    assert one.tried == []


def test_groups_are_tried_where_rows_are_left_out() -> None:
    """A layer of which half is read is not cheap alone."""
    one = Tried(3, cost=lambda first, last: 50 if first == last else 90, shares={"n1": 0.5})
    assert one.within(UNLIMITED - 1, singles(900, 900, 900)) == [(1, 1)]
    one = Tried(3, cost=lambda first, last: 100 * (last - first) + 52, shares={"n1": 0.5})
    found = one.within(UNLIMITED - 1, singles(900, 900, 900))
    assert found == one.tried == [(1, 1), (0, 1), (1, 2)]


def test_groups_are_tried_where_kernels_take_too_much() -> None:
    one = Tried(4, cost=lambda first, last: 1000)
    found = one.within(300, singles(300, 301, 100, 100))
    assert found == one.tried == [(1, 1), (0, 1), (1, 2), (0, 2), (1, 3), (0, 3)]


def test_cheap_short_groups_prevent_long_ones() -> None:
    one = Tried(4, cost=lambda first, last: 103 * (last - first + 1))
    assert one.within(300, singles(100, 400, 400, 100)) == [(1, 1), (2, 2)]
    dear = Tried(4, cost=lambda first, last: 104 if first == last == 1 else 103)
    assert dear.within(300, singles(100, 400, 400, 100)) == [(1, 1), (2, 2), (0, 1), (1, 2)]


def test_the_cheapest_way_to_fuse_layers_covers_them() -> None:
    one = Tried(4, cost=lambda first, last: 103 * (last - first + 1))
    one.dearer = 999
    assert one.within(300, singles(100, 400, 400, 100)) == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_groups_beyond_the_limit_are_not_tried() -> None:
    one = Tried(3, bound=lambda first, last: 301 if first == last else 300, cost=lambda f, t: 999)
    assert one.within(300, singles(100, 400, 100)) == [(0, 1), (1, 2), (0, 2)]
    none = Tried(3, may_fuse=lambda first, last: first != last, cost=lambda f, t: 999)
    assert none.within(300, singles(100, 400, 100)) == [(0, 1), (1, 2), (0, 2)]
    large = Tried(2, memory=lambda first, last: 301 if first == last else 300)
    assert large.within(300, singles(400, 400)) == [(0, 1)]


def test_a_layer_fed_by_rows_is_no_group_alone() -> None:
    one = Tried(2, fed="n0", cost=lambda first, last: 999)
    assert one.within(300, singles(UNLIMITED, 100)) == [(0, 1)]


def test_groups_have_a_longest() -> None:
    policy = replace(POLICY, longest_group=2)
    one = Tried(3, policy=policy, cost=lambda first, last: 999)
    assert one.within(300, singles(100, 400, 100)) == [(1, 1), (0, 1), (1, 2)]


@pytest.mark.parametrize("layers", [40, 100, 200, 400])
def test_the_search_grows_with_the_layers(layers: int) -> None:
    """All layers take too much, and no group is cheap enough to prevent longer ones."""
    one = Tried(layers, cost=lambda first, last: 10_000)
    one.within(300, singles(*[400] * layers))
    lengths = [last - first + 1 for first, last in one.tried]
    assert sum(lengths) <= max(POLICY.tried_layers, POLICY.tried_layers_each * layers)
    assert max(lengths) == {40: 5, 100: 4, 200: 4, 400: 4}[layers]


def test_few_large_layers_are_in_long_groups() -> None:
    one = Tried(200, cost=lambda first, last: 10_000)
    one.within(300, singles(*[400 if step == 5 else 100 for step in range(200)]))
    assert max(last - first + 1 for first, last in one.tried) == POLICY.longest_group


def test_long_groups_end_where_little_is_live() -> None:
    """Here between blocks of three layers, of which the first two expand their input."""
    policy = replace(POLICY, free_group=2)
    one = Tried(
        9, policy=policy, cost=lambda f, t: 10_000, live=lambda step: 10 if step % 3 == 2 else 60
    )
    one.within(300, singles(*[400] * 9))
    ends = {(f, t) for f, t in one.tried if f != 1 and t - f >= 2}
    assert ends == {(f, t) for f in (0, 3, 6) for t in (2, 5, 8) if f < t}


def test_a_kernel_at_little_more_cost_prevents_groups() -> None:
    for more, is_tried in ((3, False), (5, True)):
        layers = singles(100, 400)
        layers[1].append(segment(1, 1, 100 + more, 200, kernel=2))
        one = Tried(2, cost=lambda first, last: 999)
        one.within(300, layers)
        assert bool(one.tried) == is_tried


def test_the_cheapest_rows_are_laid_out_first() -> None:
    """More rows at a time need fewer calls; of those that exceed the limit no more are tried."""
    laid_out: list[int] = []

    def tried(group: Group) -> Segment:
        laid_out.append(group.rows)
        return made(group, 50 * group.rows)

    groups = some_groups(tried, height=8)
    groups._foreseen = lambda group, limit, prices: LeastCost(*[100 / group.rows] * 2)
    groups._smaller = lambda group, limit, prices: iter(())
    found = groups._group_segments(0, 1, 150, Objective())
    costs = [one.priced if isinstance(one, LeastCost) else one.group.rows for one in found]
    assert laid_out == [4, 2, 1]
    assert costs == [25, 50, 2, 100, 1]


def some_groups(
    tried: Callable[[Group], Segment | Sketch | None], height: int = 6, layers: int = 2
) -> Any:
    """Return groups of layers of so many rows, the last with one, that are tried so."""
    made: Any = object.__new__(FusedGroups)
    made._policy = POLICY
    # There is a layer after them.
    made._nodes = [SimpleNamespace(name=f"n{step}", op="ADD") for step in range(layers + 1)]
    shapes = [(1, height, 9, 4)] * (layers - 1) + [
        (1, 1, 1, 4) if layers > 1 else (1, height, 2, 2)
    ]
    made._graph = SimpleNamespace(
        tensors={f"n{step}": SimpleNamespace(shape=shape) for step, shape in enumerate(shapes)}
    )
    made._tried = made._segment = lambda group, limit=0: tried(group)
    made._foreseen = lambda group, limit, prices: tried(group)
    made._segments, made._priced, made._fastest = {}, {}, {}
    made._estimator = SimpleNamespace(prices=lambda worth: worth)
    made._lowering = SimpleNamespace(kernels_within=lambda group, scratch, live, prices: None)
    return made


def made(group: Group, memory: int) -> Segment:
    return segment(0, len(group.nodes) - 1, 1, memory, group=group)


def test_rows_at_a_time_grow_to_the_height() -> None:
    """All rows of an image take as many at a time as it has, if not more than are tried."""
    for height, tried in ((1, (1,)), (2, (1, 2)), (3, (1, 2, 4)), (6, (1, 2, 4))):
        groups = some_groups(lambda group: made(group, 100), height=height)
        found = groups._group_segments(0, 1, 100, Objective())
        assert [(one.group.nodes, one.group.rows) for one in found] == [
            (("n0", "n1"), rows) for rows in tried
        ]
    low = some_groups(lambda group: made(group, 100), height=2)
    assert [s.group.rows for s in low._group_segments(0, 1, 100, Objective())] == [1, 2]


def test_rows_at_a_time_grow_within_the_limit() -> None:
    groups = some_groups(lambda group: made(group, 50 * group.rows), height=99)
    groups._smaller = lambda group, limit, prices: iter(())
    assert [s.group.rows for s in groups._group_segments(0, 1, 200, Objective())] == [1, 2, 4]
    assert list(groups._group_segments(0, 1, 49, Objective())) == []


def test_a_layer_alone_may_go_backward() -> None:
    groups = some_groups(lambda group: made(group, 100), height=2, layers=1)
    found = [
        (s.group.rows, s.group.direction) for s in groups._group_segments(0, 0, 100, Objective())
    ]
    forward = "forward"
    assert found == [(1, forward), (1, "backward"), (2, forward), (2, "backward")]


def test_a_group_takes_the_cheapest_kernels_that_fit() -> None:
    """Each further kernel of a layer takes 30 bytes less; a layout loses 20 between its rows."""
    asked = []

    def tried(group: Group) -> Segment:
        return made(group, 220 - 30 * sum(map(int, group.kernels)))

    def kernels_within(
        group: Group, scratch: int, live: int, prices: Any
    ) -> tuple[str, ...] | None:
        asked.append((scratch, live))
        choices = itertools.product(range(3), repeat=2)
        within = (kernels for kernels in choices if 200 - 30 * sum(kernels) <= scratch)
        found = min(within, key=sum, default=None)
        return None if found is None else tuple(map(str, found))

    groups = some_groups(tried)
    groups._steps = {f"n{step}": step for step in range(2)}
    groups._estimator = SimpleNamespace(group_rooms=lambda first, last, limit: (limit, last))
    least = LeastCost(1, 2)
    groups._lowering = SimpleNamespace(
        kernels_within=kernels_within, least_cost_within=lambda group, *rooms: least
    )
    for limit, kernels in (
        (220, ("0", "0")),
        (199, ("0", "1")),
        (190, ("0", "1")),
        (205, ("0", "1")),
    ):
        *before, found = groups._smaller(Group(("n0", "n1"), 1), limit, None)
        assert set(before) == {least}
        assert (found.group.kernels, found.memory_bound <= limit) == (kernels, True), limit
    # What exceeds the limit is taken from the room of the next kernels.
    assert asked[-2:] == [(205, 1), (190, -14)]
    # More where these would be the same, and no more than has to be.
    *before, found = groups._smaller(Group(("n0", "n1"), 1), 218, None)
    assert (before, found.group.kernels) == ([least, least], ("0", "1"))
    assert asked[-1] == (199, -18)
    assert set(groups._smaller(Group(("n0", "n1"), 1), 99, None)) <= {least}
    groups._policy = replace(POLICY, kernel_exchanges=1)
    assert list(groups._smaller(Group(("n0", "n1"), 1), 205, None)) == [least]


def outlined(outlines: Callable[[Group], Any], names: Sequence[str], nodes: Sequence[str]) -> Any:
    """Return groups of the computed layers ``names`` of a graph of ``nodes``."""
    groups: Any = object.__new__(FusedGroups)
    groups._nodes = [SimpleNamespace(name=name, op="ADD") for name in names]
    groups._positions = {name: at for at, name in enumerate(nodes)}
    groups._steps = {name: at for at, name in enumerate(names)}
    groups._lowering = SimpleNamespace(outlines=outlines, group=outlines)
    groups._lowering.runs_by_rows = partial(Lowering.runs_by_rows, groups._lowering)
    groups._is_fed = lambda name: name == "fed"
    groups._segments, groups._sketches = {}, {}
    groups._estimator = SimpleNamespace(
        group_memory_bound=lambda first, last, outlines: (
            100 * (1 + last) + min(o.scratch_bytes for o in outlines)
        )
    )
    return groups


def test_layers_that_run_by_rows_may_be_fused() -> None:
    def outlines(group: Group) -> list[Any]:
        (name,) = group.nodes
        if name == "never":
            raise NotFusible("never")
        calls = [() if name != "half" or one else None for one in range(2)]
        return [SimpleNamespace(calls=one) for one in calls]

    names = ["fed", "rows", "half", "rows2", "never"]
    groups = outlined(outlines, names, names)
    assert [groups._runs_by_rows(name) for name in names] == [True, True, False, True, False]
    may = {(a, b) for a in range(5) for b in range(a, 5) if groups._may_fuse(a, b)}
    # The last layer of several need not: it may be an average of all rows.
    assert may == {(0, 0), (1, 1), (3, 3), (0, 1), (0, 2), (1, 2), (3, 4)}
    apart = outlined(outlines, ["fed", "rows", "rows2"], ["fed", "view", "rows", "rows2"])
    assert [apart._may_fuse(0, 1), apart._may_fuse(1, 2)] == [False, True]


def test_an_outline_tells_what_a_group_takes_at_least() -> None:
    calls = {n: SimpleNamespace(scratch_bytes=n) for n in (40, 64)}

    def outlines(group: Group) -> list[Any]:
        if group.rows == 3:
            raise NotFusible("no")
        mixed = group.rows == 2
        return [
            SimpleNamespace(scratch_bytes=48, calls=(calls[40],)),
            SimpleNamespace(scratch_bytes=80, calls=(calls[64 if mixed else 40],)),
        ]

    groups = outlined(outlines, ["a", "b"], ["a", "b"])
    groups._segment = lambda group: "laid out"
    bound = 200 + 48
    one = Group(("a", "b"), 1)
    assert groups._tried(one, bound - 1) == Sketch(bound)
    assert groups._tried(one, bound) == "laid out"
    # Calls that depend on the layout are not known before.
    assert groups._tried(replace(one, rows=2), 0) == Sketch(bound)
    assert groups._tried(replace(one, rows=3), 0) is None
    groups._segments[one] = None
    assert groups._tried(one, 0) == "laid out"


# -- the frontier ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Point:
    """A partition by its figures alone."""

    memory_bound: int
    cost: int
    flash: int = 0
    #: What its plan takes; None where the planner refuses it.
    workspace: int | None = -1
    measured: bool = False
    in_place: bool = True
    #: Whether its segments keep the bound together.
    fits: bool = True

    #: Of its choice.
    groups: tuple[Group, ...] = ()

    @property
    def choice(self) -> Point:
        return self

    @property
    def segments(self) -> tuple[Point]:
        return (self,)


class Points:
    """A partitioner that chooses among points."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        self.graph = SimpleNamespace(name="points")
        self.limits: list[int | None] = []
        self.in_place_limits: list[int | None] = []
        self.measured: list[Point] = []

    def cheapest(
        self, limit: int | None, objective: Objective, *, in_place: bool = False
    ) -> Point | None:
        (self.in_place_limits if in_place else self.limits).append(limit)
        return min(
            (
                p
                for p in self.points
                if (limit is None or p.memory_bound <= limit)
                and (p.in_place or not in_place)
                and (objective.flash_limit is None or p.flash <= objective.flash_limit)
            ),
            key=lambda p: (p.cost + objective.flash_worth * p.flash, p.memory_bound),
            default=None,
        )

    def least_flash(
        self, limit: int | None, objective: Objective, most: float
    ) -> Sequence[Point] | None:
        found = self.cheapest(limit, objective)
        return None if found is None else [found] if found.cost <= most else []

    def flash_bound(self, limit: int | None, most: float) -> float:
        """Return the least flash: the largest lower bound."""
        within = [p for p in self.points if limit is None or p.memory_bound <= limit]
        return min((p.flash for p in within if p.cost <= most), default=float("inf"))

    def least_known_flash(self, *arguments: object) -> None:
        """None: no point is a mixture of others."""

    def cheapest_together(self, point: Point, objective: Objective) -> Point | None:
        within = [p for p in self.points if p.fits and p.memory_bound <= point.memory_bound]
        return None if point.fits else min(within, key=lambda p: p.cost, default=None)


def point_of(program: PlannedProgram) -> Any:
    return program.choice


def frontier_of(
    monkeypatch: pytest.MonkeyPatch, points: Sequence[Point], **policy: Any
) -> tuple[ParetoFrontier, list[Point]]:
    """Return the frontier of these, and what is planned of it as it goes."""
    planned: list[Point] = []

    def plan(point: Point) -> Any:
        planned.append(point)
        if point.workspace is None:
            raise InputError("the pools are too small")
        bytes_ = point.memory_bound if point.workspace == -1 else point.workspace
        return SimpleNamespace(workspace_bytes=bytes_)

    monkeypatch.setattr(pareto, "Partitioner", lambda *rest: Points(points))
    planner: Any = SimpleNamespace(plan_unchecked=plan, io_in_pool=False)
    return ParetoFrontier(planner, policy=replace(POLICY, **policy)), planned


def test_a_frontier_goes_down_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(1600, 10), Point(1580, 12), Point(1000, 20), Point(990, 25), Point(984, 40)]
    frontier, _ = frontier_of(monkeypatch, points)
    assert [p.memory_bound for p in frontier.partitions()] == [1600, 1000, 984]
    limits = frontier.partitioner.limits  # type: ignore[attr-defined]
    # 98.5 % and a byte less; where nothing is that small, an alignment less.
    assert limits == [None, 1575, 984, 968, 968]
    assert [p.memory_bound for p in frontier.partitions()] == [1600, 1000, 984]  # known now


def test_partitions_are_found_on_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frontier, _ = frontier_of(monkeypatch, [Point(100, 1), Point(60, 5)])
    points: Any = frontier.partitioner
    first = next(frontier.partitions())
    assert (first.memory_bound, points.limits, points.in_place_limits) == (100, [None], [])
    assert next(frontier.partitions()) is first
    assert points.limits == [None]
    assert [p.memory_bound for p in frontier.partitions()] == [100, 60]
    assert points.in_place_limits == [100, 60]


def test_a_small_step_follows_the_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frontier, _ = frontier_of(monkeypatch, [Point(4000, 1), Point(3984, 2), Point(3983, 9)])
    assert [p.memory_bound for p in frontier.partitions()] == [4000, 3984]


def test_other_kernels_may_allow_in_place_outputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000, 1, in_place=False), Point(1000, 2), Point(500, 9, in_place=False)]
    frontier, _ = frontier_of(monkeypatch, points)
    found: list[Any] = list(frontier.partitions())
    assert found == points


def test_other_segments_may_keep_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        Point(1000, 1, fits=False),
        Point(1000, 2),
        Point(500, 3, fits=False, in_place=False),
        Point(500, 4, fits=False),
    ]
    frontier, _ = frontier_of(monkeypatch, points)
    found: list[Any] = list(frontier.partitions())
    assert found == points


def test_a_frontier_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(10_000 - 1000 * at, 1 + at) for at in range(9)]
    frontier, _ = frontier_of(monkeypatch, points, frontier_programs=4)
    assert len(list(frontier.partitions())) == 4


def test_programs_take_ever_less_and_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        Point(1000, 1),
        Point(900, 2, workspace=1000),
        Point(800, 3, workspace=None),
        Point(700, 4, workspace=999),
    ]
    frontier, planned = frontier_of(monkeypatch, points)
    for _ in range(2):
        found = list(frontier.programs())
        assert [p.cost for p in found] == [CostEstimate(1000, 1, 0), CostEstimate(999, 4, 0)]
    assert planned == points


# -- goals -----------------------------------------------------------------------------------------


def some_points(seed: int) -> list[Point]:
    dice = random.Random(seed)
    return [
        Point(
            *(dice.randrange(20, 120) * 16, dice.randrange(1000, 2500), dice.randrange(900, 1400)),
            workspace=None if dice.random() < 0.1 else -1,
        )
        for _ in range(25)
    ] + [Point(2000, 2600, 900)]


def goal_point(goals: Goals, name: str, ram: int | None = None) -> Any:
    found = goals.program(name, ram)
    return None if found is None else point_of(found)


@pytest.mark.parametrize("goal", [name for name in GOALS if name != "speed"])
@pytest.mark.parametrize("seed", range(8))
def test_goal_has_the_least_sum(monkeypatch: pytest.MonkeyPatch, seed: int, goal: str) -> None:
    """Compared with all points; there is one of each amount of memory."""
    points = list({p.memory_bound: p for p in some_points(seed)}.values())
    frontier, _ = frontier_of(monkeypatch, points, equal_sums=0.0)
    goals, row = Goals(frontier), GOALS[goal]
    most = row.most / POLICY.error * goals.fastest.instructions
    affordable = [p for p in points if p.workspace is not None and p.cost <= most]
    fastest = point_of(goals.fastest)
    listed = [p for p in (fastest, *frontier.affordable(row, most)) if p in affordable]
    # The frontier has all that no other point is better than in memory, flash and instructions.
    least = min(row.sum(p.memory_bound, p.flash) for p in listed)
    found = goal_point(goals, goal)
    assert found in affordable
    assert row.sum(found.memory_bound, found.flash) == least


def test_goal_is_bounded_by_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    for goal, most in (("balanced", 1.3), ("ram", 1.8), ("size", 2.0)):
        at = int(1000 * most / POLICY.error)
        for cost, is_taken in ((at, True), (at + 1, False)):
            points = [Point(1000, 1000, 1000), Point(100, cost, 100)]
            goals = Goals(frontier_of(monkeypatch, points)[0])
            assert goal_point(goals, goal) is points[is_taken], (goal, cost)
            assert goal_point(goals, "speed") is points[0]


def test_goal_weighs_workspace_and_flash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of workspace is worth 8 bytes of flash, or 64, or an eighth."""
    first = Point(1000, 1000, 100_000)
    for goal, flash in (("balanced", 100_800), ("ram", 106_400), ("size", 100_012)):
        for more, is_taken in ((-8, True), (8, False)):
            points = [first, Point(900, 1100, flash + more)]
            goals = Goals(frontier_of(monkeypatch, points, equal_sums=0.0)[0])
            assert (goal_point(goals, goal) is points[1]) == is_taken, (goal, more)


def test_of_equal_sums_the_fastest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for equal, expected in ((0.0, 2), (0.02, 1), (0.2, 0)):
        points = [Point(11_000, 1000), Point(10_100, 1100), Point(10_000, 1200)]
        goals = Goals(frontier_of(monkeypatch, points, equal_sums=equal)[0])
        assert goal_point(goals, "balanced") is points[expected], equal


def test_goal_keeps_a_limit_of_memory_if_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        Point(1000, 1000, 5000),
        Point(800, 1700, 7000),
        Point(700, 1800, 6000, workspace=801),
        Point(600, 1850, 6500, workspace=None),
    ]
    for ram, expected in ((None, 0), (1000, 0), (999, 2), (801, 2), (800, None)):
        goals = Goals(frontier_of(monkeypatch, points)[0])
        found = goal_point(goals, "size", ram)
        assert found is (None if expected is None else points[expected]), ram


def test_affordable_partitions_at_the_highest_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten instructions a byte make the slow one and the fast one alike."""
    fastest, slow, fast, small = (
        *(Point(1000, 90, 50), Point(900, 300, 10)),
        *(Point(850, 100, 30), Point(500, 120, 90)),
    )
    for most, expected in (
        (400, [slow, fast, small]),
        (299, [fast, small]),
        (119, [fast]),
        (99, [fastest]),
        (89, []),
    ):
        frontier, _ = frontier_of(monkeypatch, [fastest, slow, fast, small])
        found: list[Any] = list(frontier.affordable(GOALS["balanced"], most))
        assert found == expected, most


def test_an_impossible_limit_is_tried_once() -> None:
    partitioner: Any = a_partitioner([[segment(0, 0, 10, flash=100)]])
    least = partitioner.cheapest(None, FASTEST)
    assert least is not None
    assert partitioner.cheapest(least.memory_bound - 1, Objective(200)) is None
    tried: list[object] = []

    def options(*args: object, **_: object) -> tuple[list[list[Segment]], list[GroupsOfLayers]]:
        tried.append(args)
        return [[]], []

    partitioner._options = options
    assert partitioner.cheapest(least.memory_bound - 2, Objective(200)) is None
    assert not tried
    # Another price lets other groups be tried.
    assert partitioner.cheapest(least.memory_bound - 2, FASTEST) is None
    assert tried


def test_least_flash_within_instructions_is_exact() -> None:
    """Not only what some price of flash gives: that takes all layers alike from a kernel on."""
    kernels = [
        [segment(at, at, 10, flash=100), segment(at, at, 30, flash=50, kernel=1)] for at in range(4)
    ]
    partitioner = a_partitioner(kernels)
    for most, flash in ((39, None), (40, 400), (59, 400), (60, 350), (81, 300), (120, 200)):
        found = partitioner.least_flash(None, FASTEST, most)
        own = partitioner.estimator.flash_bytes
        assert found is not None
        least = min((own(p.segments) - own(()) for p in found), default=None)
        assert least == flash, most
    assert partitioner.least_flash(99, FASTEST, 40) is None
    # Where the cheapest with a price takes more instructions, too.
    assert partitioner.least_flash(None, Objective(1e6), 80) == ()
    between = partitioner.least_known_flash(None, Objective(1e6), 80)
    assert between is not None
    assert between.cost == 80


def test_the_frontier_ends_where_nothing_is_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000 - 100 * at, 100 + 6 * at) for at in range(8)]
    frontier, planned = frontier_of(monkeypatch, points)
    assert point_of(Goals(frontier).within(900, None)) is points[1]
    assert planned == [points[1]]
    # From 106 on to the first above 1.1 times that.
    assert len(frontier._partitions[FASTEST]) == 4
    assert point_of(Goals(frontier).within(None, None)) is points[0]
    assert planned == [points[1], points[0]]


def _first(points: Sequence[Any]) -> Any:
    return next(p for p in points if p.workspace is not None)


@pytest.mark.parametrize("seed", range(12))
def test_within_limits_is_the_fastest_that_is_planned(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    points = [replace(p, workspace=-1) for p in some_points(seed)]
    frontier, _ = frontier_of(monkeypatch, points, frontier_step=1.0, uneven_cost=9.0)
    goals = Goals(frontier)
    for ram, flash in itertools.product((None, 500, 1000), (None, 950, 1200)):
        fit = [
            p
            for p in points
            if (ram is None or p.memory_bound <= ram) and (flash is None or p.flash <= flash)
        ]
        if fit:
            found = goals.within(ram, flash)
            # A step of the frontier is an alignment: what is between two of them is not seen.
            assert found.instructions >= min(p.cost for p in fit)
            assert ram is None or found.workspace_bytes <= ram
            assert flash is None or found.flash_bytes <= flash
            if ram is None:
                assert found.instructions == min(p.cost for p in fit)
        else:
            with pytest.raises(LimitError, match="no program of 'points' fits"):
                goals.within(ram, flash)


def test_measured_programs_count_where_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000, 100, 50), Point(500, 200, 50)]
    slow, refused, large, fast, small = (
        Point(1000, 99, 50, measured=True),
        Point(900, 80, 50, measured=True, workspace=None),
        Point(900, 85, 900, measured=True),
        Point(900, 90, 60, measured=True),
        Point(500, 190, 50, measured=True),
    )

    def goals(*measured: Point) -> Goals:
        frontier, _ = frontier_of(monkeypatch, points)
        partitioner: Any = frontier.partitioner
        partitioner.measured = list(measured)
        return Goals(frontier)

    assert point_of(goals().fastest) is points[0]
    everything = goals(slow, fast, refused, small)
    assert [p.cost for p in everything._frontier.measured(FASTEST)] == [80, 90, 99, 190]
    # The fastest of them that can be planned, if it is faster than what was not measured.
    assert point_of(everything.fastest) is fast
    assert everything.fastest.measured
    assert point_of(goals(Point(9, 100, measured=True), small).fastest) is points[0]
    assert point_of(goals(large).fastest) is large
    # Balanced among them: up to 28 % above the fastest, 85.
    for cost, is_taken in ((90, True), (99, True), (109, False)):
        one = Point(900, cost, 50, measured=True)
        assert (goal_point(goals(large, one), "balanced") is one) == is_taken
    # Within limits too: of memory, and of flash.
    assert point_of(everything.within(None, None)) is fast
    assert point_of(everything.within(950, None)) is fast
    assert point_of(everything.within(899, None)) is small
    assert point_of(goals(slow, fast, refused).within(899, None)) is points[1]
    assert point_of(everything.within(None, 60)) is fast
    assert point_of(everything.within(None, 59)) is slow
    assert point_of(goals(Point(500, 200, 50, measured=True)).within(899, None)) is points[1]
    # A measured one alone keeps the limit.
    assert point_of(goals(Point(300, 900, 50, measured=True)).within(300, None)).cost == 900


def found_by(monkeypatch: pytest.MonkeyPatch, points: list[Point], **limits: int) -> Any:
    """Return the fastest program within limits."""
    goals = Goals(frontier_of(monkeypatch, points)[0])
    planned, report = choose(goals, optimize="speed", **limits)
    flash = limits.get("flash")
    return SearchResult(planned.program, planned.choice, report, "speed", goals, "speed", flash)


def test_the_next_saving_is_the_goals_next_program(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(1000, 100, 500), Point(700, 130, 400), Point(400, 190, 600)]
    first = found_by(monkeypatch, points)
    assert first.choice is points[0]
    assert first.next_saving() == Saving(300, 30, 100, -100)
    second = found_by(monkeypatch, points, ram=999)
    assert second.choice is points[1]
    assert second.next_saving() == Saving(300, 60, 130, 200)
    assert found_by(monkeypatch, points, ram=400).next_saving() is None
    # A byte less is enough.
    close = [Point(1000, 100), Point(984, 130, workspace=999), Point(500, 150)]
    assert found_by(monkeypatch, close).next_saving() == Saving(1, 30, 100)
    # The limit of flash holds for it too.
    assert found_by(monkeypatch, points, ram=999, flash=599).next_saving() is None


def test_a_refusal_has_the_least_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(1000, 10, 500), Point(600, 20, 700), Point(400, 30, 900)]
    goals = Goals(frontier_of(monkeypatch, points)[0])
    with pytest.raises(LimitError) as both:
        goals.within(399, 450)
    assert "a workspace of 399 B (the smallest is 400 B) and 450 B of flash" in both.value.fact
    assert "(the least is about 500 B)" in both.value.fact
    assert both.value.least_flash == 500
    beside_it = "; inputs and outputs are beside this workspace"
    assert both.value.hint == "raise one of the limits, or both" + beside_it
    with pytest.raises(LimitError) as ram:
        goals.within(399, None)
    assert ram.value.fact.endswith("fits a workspace of 399 B (the smallest is 400 B)")
    assert ram.value.hint == "raise the limit" + beside_it
    with pytest.raises(LimitError) as beside:
        goals.within(599, 750)
    assert "(the smallest is 600 B)" in beside.value.fact


def test_an_impossible_plan_has_the_planners_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goals = Goals(frontier_of(monkeypatch, [Point(100, 1, workspace=None)])[0])
    with pytest.raises(InputError, match="the pools are too small"):
        _ = goals.fastest


# -- the bound of all plans ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_is_the_least_largest_segment(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    dice = random.Random(seed)
    count = dice.randrange(1, 6)
    ranges = list(itertools.combinations_with_replacement(range(count), 2))
    least = {one: dice.randrange(50) for one in ranges}
    bounds = {one: [dice.randrange(200) for _ in range(dice.randrange(3))] for one in ranges}
    for step in range(count):
        bounds[step, step].append(dice.randrange(100, 300))
    made = SimpleNamespace(
        nodes=[SimpleNamespace(name=f"n{step}") for step in range(count)],
        least_memory_bound=lambda first, last: least[first, last],
    )
    monkeypatch.setattr(bound, "Estimator", lambda *given: made)
    monkeypatch.setattr(bound, "_bounds", lambda p, e, policy, first, last: bounds[first, last])
    planner: Any = None

    def best(last: int) -> float:
        if last < 0:
            return 0
        return min(
            (
                max(best(first - 1), least[first, last], one)
                for first in range(last + 1)
                for one in bounds[first, last]
            ),
            default=float("inf"),
        )

    assert bound.least_workspace(planner, 10_000) == best(count - 1)
    # A plan that is known is a bound from above.
    known = dice.randrange(20, 200)
    assert bound.least_workspace(planner, known) == min(known, best(count - 1))


def test_each_way_to_run_layers_has_its_bound() -> None:
    tried: list[Group] = []

    def outlines(group: Group) -> Any:
        tried.append(group)
        if group.direction == "backward" and group.rows > 2:
            raise NotFusible("no")
        return group.rows

    singles = [SimpleNamespace(memory_bound=1000), SimpleNamespace(memory_bound=900)]
    estimator: Any = SimpleNamespace(
        nodes=[SimpleNamespace(name=f"n{step}") for step in range(3)],
        singles=lambda step: singles,
        group_memory_bound=lambda first, last, rows: 100 * first + 10 * last + rows,
    )
    lowering = SimpleNamespace(least_outlines=outlines, has_expansions=lambda group: False)
    planner: Any = SimpleNamespace(lowering=lowering)
    assert list(bound._bounds(planner, estimator, POLICY, 1, 2)) == [121, 121, 122, 122, 124]
    assert {group.nodes for group in tried} == {("n1", "n2")}
    assert [group.direction for group in tried] == ["forward", "backward"] * 3
    assert list(bound._bounds(planner, estimator, POLICY, 1, 1))[:3] == [1000, 900, 111]
    # Expansions by slices are another way.
    lowering.has_expansions = lambda group: group.nodes == ("n1", "n2")
    tried.clear()
    assert list(bound._bounds(planner, estimator, POLICY, 1, 2)) == [
        *(121, 121, 121, 122, 122, 122, 124, 124),
    ]
    assert [bool(group.sliced) for group in tried] == [False, False, True] * 3


def test_the_bound_of_a_group_is_its_fullest_moment() -> None:
    """Around it, and of it: inputs that end, its output, its scratch, or its live rows."""
    estimator = object.__new__(Estimator)
    sizes = [0, 0, 0]
    made: Any = estimator
    made._sizes = lambda first, last: tuple(sizes)

    def outline(scratch: int, live: int, outside: int) -> Any:
        return SimpleNamespace(scratch_bytes=scratch, live_bytes=live, outside_bytes=outside)

    # Bytes around, ending, starting; scratch may lose its padding of up to 15 bytes.
    for given, outlines, expected in (
        ([100, 50, 20], [outline(64, 130, 70)], 100 + 130),
        ([100, 500, 20], [outline(64, 400, 520)], 100 + 500),
        ([100, 50, 20], [outline(264, 130, 70)], 100 + 264 - 15),
        ([100, 50, 20], [outline(264, 130, 70), outline(90, 900, 70)], 100 + 130),
        # Of what is outside of the group, only what ends or starts with it is there.
        ([0, 50, 20], [outline(16, 300, 100)], 300 - 30),
    ):
        sizes[:] = given
        assert estimator.group_memory_bound(0, 1, outlines) == expected
        assert estimator.least_memory_bound(0, 1) == given[0] + max(given[1:])
        scratch, live = estimator.group_rooms(0, 1, 1000)
        assert (scratch, live) == (1000 - given[0] + 15, 1000 - sum(given))


# -- estimates and the policy ----------------------------------------------------------------------


def test_a_called_program_has_no_layer_descriptions() -> None:
    group = object.__new__(FusedCall)
    object.__setattr__(group, "nodes", (1, 2, 3))
    program: Any = SimpleNamespace(
        steps=[SimpleNamespace(call=call) for call in (None, group, None)]
    )
    policy = SearchPolicy(layer_bytes=100, called_layer_bytes=30)
    cost = CostEstimate(5, 7, 1000)
    assert as_called(cost, program, policy) == CostEstimate(5, 7, 1000 - 5 * 70)
    assert as_called(cost, program) == CostEstimate(5, 7, 1000 - 5 * 80)


def test_the_flash_of_a_program_counts_shared_once() -> None:
    estimator = object.__new__(Estimator)
    estimator._policy = SearchPolicy(model_bytes=1000, layer_bytes=100)
    segments = [
        replace(segment(0, 0, 1), parts={"code": 7, "weights 0": 20}),
        replace(segment(1, 3, 1), parts={"code": 7, "weights 1": 30}),
    ]
    assert estimator.flash_bytes(segments) == 1000 + 4 * 100 + 7 + 20 + 30


def test_segment_that_decodes_weights_is_known() -> None:
    coded: Any = object.__new__(CompressedCall)
    plain = segment(0, 0, 1)
    assert not plain.decodes
    assert replace(plain, calls=(*plain.calls, coded)).decodes


def test_code_for_bands_is_stated_or_half_more() -> None:
    estimator = object.__new__(Estimator)
    estimator._policy = POLICY
    kernels: list[Any] = [
        SimpleNamespace(band_code=band_code, code=100, shared_code=shared)
        for band_code, shared in ((70, 0), (0, 0), (None, 0), (70, 30))
    ]
    assert [estimator._band_bytes(kernel) for kernel in kernels] == [70, 0, 150, 40]


def test_measured_counts_are_those_of_the_same_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelCall, "instructions", lambda self, cpu, shared: 1000)
    monkeypatch.setattr(KernelCall, "variant", "dsp.add.s8")
    call: Any = object.__new__(KernelCall)
    tuning: Any = SimpleNamespace(
        counts={"n0": {"generic.add.s8": 8, "dsp.add.s8": 7}, "n1": {"generic.add.s8": 8}},
        groups={},
        counter="instructions",
    )
    nodes: list[Any] = [SimpleNamespace(name=f"n{number}") for number in range(3)]
    costs = _Costs(get_cpu("cortex-m4"), tuning)
    assert [costs.of(node, call) for node in nodes] == [7, 1000, 1000]
    assert _Costs(get_cpu("cortex-m4"), None).of(nodes[0], call) == 1000


def test_the_cost_of_a_segment_has_priced_flash() -> None:
    assert segment(0, 0, 10, flash=3).cost_at(2.5) == 17.5


def test_the_policy_is_what_the_documents_promise() -> None:
    rows = {name: (g.workspace, g.flash, g.most) for name, g in POLICY.goals.items()}
    assert rows == {
        "speed": (0, 0, 1),
        "balanced": (1, 1 / 8, 1.3),
        "ram": (1, 1 / 64, 1.8),
        "size": (1 / 8, 1, 2),
    }
    assert POLICY.frontier_step**POLICY.frontier_programs == pytest.approx(0.4, abs=0.005)
    assert POLICY.small_step_bytes == ALIGNMENT
    assert POLICY.fused_rows == tuple(1 << power for power in range(3))
    worths = POLICY.flash_worths
    assert list(worths) == sorted(worths, reverse=True)
    assert worths[-1] == 0.0
    assert POLICY.sharings == ("speed", "balanced", "size")


def test_a_change_of_the_policy_is_meant() -> None:
    """It changes the programs of every model, and with them the figures of the documents."""
    numbers = {
        "sharings": ("speed", "balanced", "size"),
        "goals": GOALS,
        "error": 1.015,
        "equal_sums": 0.02,
        "sum_steps": (1, 0.5, 0.25),
        "instructions_error": 0.25,
        "flash_error": 0.25,
        "flash_worths": (1e6, 200, 50, 15, 4, 0),
        "decoding_bytes": 8192,
        "frontier_programs": 60,
        "frontier_step": 0.985,
        "small_step_bytes": 16,
        "uneven_cost": 1.1,
        "fused_rows": (1, 2, 4),
        "slice_channels": 32,
        "longest_group": 20,
        "free_group": 6,
        "tried_layers": 700,
        "tried_layers_each": 10,
        "cheap_group": 1.03,
        "cheap_groups": 0.004,
        "kernel_exchanges": 6,
        "model_bytes": 150,
        "layer_bytes": 120,
        "called_layer_bytes": 40,
        "group_entry_bytes": 8,
        "band_code": 1.5,
        "sum_parts": 4096,
        "sum_parts_beyond": 1024,
    }
    assert {name: getattr(POLICY, name) for name in vars(POLICY)} == numbers


# -- what is left of flash, groups and kernels -----------------------------------------------------


def test_a_flash_limit_between_two_sizes() -> None:
    """Sizes are rounded to a part of the limit, here to all of it."""
    kernels = [segment(0, 0, 10, flash=19), segment(0, 0, 30, flash=14, kernel=1)]
    partitioner = a_partitioner([kernels], sum_parts=1, sum_parts_beyond=0)
    for limit, cost in ((26, 10), (25, 30), (21, 30), (20, None)):
        found = partitioner.cheapest(None, replace(FASTEST, flash_limit=limit))
        assert (found and found.cost) == cost, limit


def test_why_rows_cannot_be_fed_by_the_shortest_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [SimpleNamespace(name=f"n{at}", inputs=("x",)) for at in range(5)]
    monkeypatch.setattr(groups_module, "fed_node", lambda graph: nodes[1])
    tried: list[tuple[str, ...]] = []
    most = 99

    def outlines(group: Group) -> None:
        tried.append(group.nodes)
        if len(group.nodes) <= most:
            raise NotFusible(f"{len(group.nodes)} are too few")

    graph = SimpleNamespace(nodes=nodes, name="net")
    planner: Any = SimpleNamespace(lowering=SimpleNamespace(graph=graph, outlines=outlines))
    with pytest.raises(InputError, match="rows of 'x' cannot be fed to 'net': 2 are too few"):
        groups_module.require_fed_group(planner)
    assert tried == [("n1", "n2"), ("n1", "n2", "n3"), ("n1", "n2", "n3", "n4")]
    most = 2
    tried.clear()
    groups_module.require_fed_group(planner)
    assert [len(names) for names in tried] == [2, 3]
    most = 3
    with pytest.raises(InputError):
        groups_module.require_fed_group(planner, replace(POLICY, longest_group=3))


# -- what a goal pays, and where a search ends -----------------------------------------------------


def test_a_model_without_layers_has_its_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program costs nothing and takes no memory."""
    nothing = Point(0, 0)
    goals = Goals(frontier_of(monkeypatch, [nothing])[0])
    for name in POLICY.goals:
        program = goals.program(name)
        assert program is not None
        assert point_of(program) is nothing


def test_a_frontier_states_costs_and_planning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pareto, "Partitioner", lambda *rest: Points([Point(100, 1), Point(50, 9)]))
    planner: Any = SimpleNamespace(
        plan_unchecked=lambda point: SimpleNamespace(workspace_bytes=point.memory_bound),
        io_in_pool=False,
    )
    tuning: Any = SimpleNamespace(counter="cycles")
    estimated, measured = ParetoFrontier(planner), ParetoFrontier(planner, tuning=tuning)
    assert [(f.tuned, f.counter) for f in (estimated, measured)] == [
        (False, "instructions"),
        (True, "cycles"),
    ]
    calls: list[int] = []
    told = ParetoFrontier(planner, progress=lambda: calls.append(len(calls)))
    for _ in range(2):
        assert len(list(told.programs())) == 2
    # Once for each program that is planned.
    assert calls == [0, 1]


def test_what_may_be_within_a_limit() -> None:
    may = groups_module._may_be_within
    whole = segment(0, 0, 1, 100)
    assert [may(whole, limit) for limit in (99, 100, 101)] == [False, True, True]
    assert may(LeastCost(1.0, 1.0), 0)
    assert not may(Sketch(1), 100)
    assert not may(None, 100)


def test_a_group_is_a_segment_of_all_its_layers() -> None:
    groups = outlined(lambda group: "call", ["a", "b", "c"], ["a", "v", "b", "c"])
    groups._estimator.fused = lambda group, call, first, last: (call, first, last)
    assert groups.segment(Group(("a", "b"))) == ("call", 0, 1)
    # All layers of the graph at once, too.
    assert groups.segment(Group(("a", "b", "c"))) == ("call", 0, 2)
    assert groups.segment(Group(("a", "v"))) is None
    assert groups.segment(Group(("d",))) is None

    def refused(group: Group) -> None:
        raise NotFusible("no")

    never = outlined(refused, ["a", "b"], ["a", "b"])
    assert never.segment(Group(("a", "b"))) is None
    assert never._segments == {Group(("a", "b")): None}


def test_what_is_foreseen_takes_no_layout() -> None:
    groups = outlined(lambda group: (), ["a", "b"], ["a", "b"])
    asked: list[tuple[Group, float]] = []

    def least_cost(group: Group, prices: Any) -> LeastCost:
        asked.append((group, prices.entry))
        return LeastCost(1.0, prices.entry)

    groups._lowering.least_cost = least_cost
    groups._least_costs = {}
    fine, large, known = (Group(("a", "b"), rows) for rows in (1, 2, 3))
    groups._segments = {known: segment(0, 1, 5)}
    groups._sketches = {fine: Sketch(100), large: Sketch(101)}
    prices = [SimpleNamespace(entry=entry) for entry in (0.0, 8.0)]
    assert groups._foreseen(known, 1, prices[0]) == segment(0, 1, 5)
    assert groups._foreseen(large, 100, prices[0]) == Sketch(101)
    for _ in range(2):
        assert [groups._foreseen(fine, 100, p).priced for p in prices] == [0.0, 8.0]
    assert asked == [(fine, 0.0), (fine, 8.0)]

    def refused(group: Group, limit: int) -> None:
        raise NotFusible("no")

    groups._sketch = refused
    assert groups._foreseen(fine, 100, prices[0]) is None


def steps_of(memory: Callable[[Group], Segment | Sketch | LeastCost | None]) -> Any:
    groups = some_groups(lambda group: None, height=4)
    groups._foreseen = lambda group, limit, prices: memory(group)
    return groups


def test_bounds_of_steps_end_at_the_limit() -> None:
    """Of each step its groups, or smaller ones."""
    groups = steps_of(lambda group: made(group, 100 * group.rows))
    smaller: list[Any] = []
    groups._smaller = lambda group, limit, prices: iter(smaller)
    steps = [[Group(("n0", "n1"), rows)] for rows in (1, 2, 4)]
    objective = Objective(2.0)

    def step(number: int, limit: int) -> list[LeastCost]:
        found: list[LeastCost] = groups._least_of_step(steps[number], limit, objective, None)
        return found

    assert step(0, 100) == [LeastCost(1, 1.0)]
    # Too large, with smaller kernels or without them.
    assert step(1, 199) == []
    smaller.append(LeastCost(40.0, 44.0))
    assert step(1, 199) == [LeastCost(40.0, 44.0)]
    smaller[0] = segment(0, 1, 30, flash=5)
    assert step(1, 199) == [LeastCost(30, 40.0)]
    smaller.clear()


def test_unfusable_groups_are_not_made_smaller() -> None:
    groups = steps_of(lambda group: None)
    assert groups._least_of_step([Group(("n0", "n1"), 1)], 100, Objective(), None) == []
    assert list(groups._group_segments(0, 1, 100, Objective())) == []


def test_smaller_groups_where_usual_ones_are_too_large() -> None:
    groups = some_groups(lambda group: made(group, 100 * group.rows), height=4)
    asked: list[int] = []

    def smaller(group: Group, limit: int, prices: Any) -> Iterator[Segment | LeastCost]:
        asked.append(group.rows)
        yield LeastCost(3.0, 3.0)
        if group.rows == 2:
            yield segment(0, 1, 9)

    groups._smaller = smaller
    found = list(groups._group_segments(0, 1, 100, Objective()))
    # One row at a time; two with other kernels; of four there are none in the end.
    assert [type(one).__name__ for one in found] == ["Segment", "LeastCost", "Segment", "LeastCost"]
    assert [one.cost for one in found if isinstance(one, Segment)] == [1, 9]
    assert asked == [2, 4]


def test_bounds_come_before_a_group_that_is_laid_out() -> None:
    groups = some_groups(lambda group: made(group, 100), height=1)
    groups._foreseen = lambda group, limit, prices: LeastCost(5.0, 6.0)
    groups._smaller = lambda group, limit, prices: iter(())
    found = list(groups._group_segments(0, 1, 100, Objective()))
    assert found[0] == LeastCost(5.0, 6.0)
    assert isinstance(found[1], Segment)
    assert len(found) == 2


def test_kernels_of_a_group_by_the_price_of_flash() -> None:
    groups = some_groups(lambda group: made(group, 100), height=1)
    asked: list[float] = []

    def kernels_within(group: Group, scratch: int, live: int, prices: Any) -> tuple[str, ...]:
        asked.append(prices)
        return ("b", "a") if prices < 10 else ("b", "c")

    groups._lowering = SimpleNamespace(kernels_within=kernels_within)
    for worth, kernels in ((0.0, ()), (9.0, ()), (10.0, ("b", "c"))):
        found = list(groups._group_segments(0, 1, 100, Objective(worth)))
        assert [one.group.kernels for one in found] == [kernels], worth
    count = len(asked)
    list(groups._group_segments(0, 1, 100, Objective(10.0)))
    assert len(asked) == count


def test_sharing_goes_from_the_goal_to_more() -> None:
    sharings = search_module._sharings
    assert sharings("speed", None, POLICY) == ("speed",)
    assert sharings("ram", None, POLICY) == ("ram",)
    # Where shared code is too slow for the goal, less is shared.
    assert sharings("size", None, POLICY) == ("size", "balanced")
    assert sharings("speed", 1000, POLICY) == ("speed", "balanced", "size")
    assert sharings("balanced", 1000, POLICY) == ("balanced", "size")
    assert sharings("ram", 0, POLICY) == ("balanced", "size")
    assert sharings("size", 1000, POLICY) == ("size",)


def searched(
    monkeypatch: pytest.MonkeyPatch, points: dict[str, list[Point]], **limits: Any
) -> tuple[SearchResult, list[str]]:
    """Return what is found where sharing code gives these points, and the ways that were tried:
    in the order of their first use.
    """
    tried: list[str] = []

    def partitioner(planner: Any, tuning: Any, optimize: str, policy: Any) -> Points:
        tried.append(optimize)
        return Points(points[optimize])

    def plan(point: Point) -> Any:
        return SimpleNamespace(workspace_bytes=point.memory_bound)

    monkeypatch.setattr(pareto, "Partitioner", partitioner)
    checked: list[Any] = []
    monkeypatch.setattr(search_module, "check_plan", checked.append)
    planner: Any = SimpleNamespace(plan_unchecked=plan, io_in_pool=False)
    found = search_module.search(planner, **limits)
    assert checked == [found.program]
    return found, tried


def test_the_fastest_degree_of_sharing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(cost: int) -> list[Point]:
        """Return points of which the fastest does not keep the limit of flash."""
        return [Point(100, 10, 900), Point(90, cost, 400)]

    every = ["speed", "balanced", "size"]
    for costs, expected in (
        ((1000, 1000, 1000), "speed"),
        ((1000, 999, 1000), "balanced"),
        ((1000, 1000, 999), "size"),
    ):
        points = dict(zip(every, map(small, costs), strict=True))
        found, tried = searched(monkeypatch, points, optimize="speed", flash=500)
        assert (found.sharing, tried) == (expected, every), costs
        assert found.report.goal == "limits"
    # Where the fastest keeps the limit, sharing more is not tried.
    points = {"speed": small(1000), "balanced": [Point(100, 10, 500)], "size": small(1)}
    found, tried = searched(monkeypatch, points, optimize="speed", flash=500)
    assert (found.sharing, tried) == ("balanced", ["speed", "balanced"])
    # What does not fit with little sharing may with more.
    points = {"speed": [Point(9, 9, 900)], "balanced": [Point(9, 9, 900)], "size": small(30)}
    found, tried = searched(monkeypatch, points, optimize="speed", flash=400)
    assert (found.sharing, found.report.chosen.instructions, tried) == ("size", 30, every)
    with pytest.raises(LimitError, match="399 B of flash"):
        searched(monkeypatch, points, optimize="speed", flash=399)


def test_size_is_bounded_without_shared_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shared code makes the fastest program slower, too: that is not what the goal promises."""
    points = {
        "speed": [Point(100, 1000, 900)],
        "balanced": [Point(100, 1500, 500)],
        "size": [Point(100, 1400, 800), Point(100, 2600, 100)],
    }
    found, tried = searched(monkeypatch, points, optimize="size")
    assert (found.sharing, found.report.chosen.instructions) == ("size", 1400)
    assert found.report.fastest.instructions == 1000
    assert tried == ["size", "speed"]
    # Where all of it is too slow, layers share less.
    points["size"] = [Point(100, 1980, 300)]
    found, tried = searched(monkeypatch, points, optimize="size")
    assert (found.sharing, found.report.chosen.instructions) == ("balanced", 1500)
    assert tried == ["size", "speed", "balanced"]


def test_limits_are_kept_by_goal_else_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000, 100, 500), Point(900, 120, 400), Point(500, 128, 550)]

    def chosen(goal: str, **limits: int) -> tuple[Any, str]:
        goals = Goals(frontier_of(monkeypatch, points)[0])
        program, report = choose(goals, optimize=goal, **limits)
        assert report.chosen == program.cost
        assert report.fastest == goals.fastest.cost
        assert not report.measured
        return points.index(point_of(program)), report.goal

    assert chosen("speed") == (0, "speed")
    assert chosen("balanced") == (2, "balanced")
    assert chosen("ram") == (2, "ram")
    assert chosen("size") == (1, "size")
    # A limit asks for the fastest, whichever program the goal has.
    assert chosen("balanced", ram=1000) == (0, "limits")
    assert chosen("balanced", flash=500) == (0, "limits")
    assert chosen("speed", ram=999) == (1, "limits")
    assert chosen("speed", flash=499) == (1, "limits")
    assert chosen("ram", ram=500) == (2, "ram")
    assert chosen("ram", flash=549) == (0, "limits")
    assert chosen("size", flash=400) == (1, "size")


def test_of_equal_paths_that_fit_together_few_are_kept() -> None:
    """A path may be missed beyond the dearest that is kept."""
    tensor = ALIGNMENT

    class Somewhere(Segment):
        """Its output lies at one place."""

        def after(self, value: Any, offsets: Any, limit: int) -> Any:
            return ((self.kernel, self.kernel),)

    class Needs(Segment):
        """Its input has to lie at the place of this kernel."""

        def after(self, value: Any, offsets: Any, limit: int) -> Any:
            return ((0, 0),) if offsets == ((self.kernel, self.kernel),) else ()

    def made_as(kind: type[Segment], step: int, kernel: int) -> Segment:
        plain = segment(step, step, 10 + kernel, tensor, kernel=kernel)
        return kind(**{**plain.__dict__, "output": step + 1})

    first = [made_as(Somewhere, 0, kernel) for kernel in range(14)]
    for wanted, is_found in ((0, True), (11, True), (12, False)):
        found = partition_module._cheapest_together(
            [first, [made_as(Needs, 1, wanted)]], 0.0, limit=64
        )
        assert (found is not None) == is_found, wanted
        if found is not None:
            assert [one.kernel for one in found if isinstance(one, Segment)] == [f"v{wanted}"] * 2
