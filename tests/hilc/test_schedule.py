"""The parts of the search by themselves, on layers that are only numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hilc.errors import InputError
from hilc.fusion.bands import NotFusible
from hilc.fusion.call import FusedCall
from hilc.fusion.frame import LeastCost, least_of
from hilc.lowering.choice import Choice, CostEstimate, Group
from hilc.lowering.compressed import CompressedCall
from hilc.lowering.kernels import KernelCall
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.explain import Saving
from hilc.schedule import bound, pareto
from hilc.schedule import groups as groups_module
from hilc.schedule import partition as partition_module
from hilc.schedule import search as search_module
from hilc.schedule.estimate import UNLIMITED, Estimator, Segment, Sketch, _Costs, as_called
from hilc.schedule.goals import Goals, LimitError
from hilc.schedule.groups import FusedGroups, GroupsOfLayers, Objective, _is_covered
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram
from hilc.schedule.partition import (
    Partition,
    Partitioner,
    _cheapest,
    _cheapest_of_each_size,
    _decoded_in_little,
    _laid_out,
)
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.search import Found, choose
from hilc.target import get_cpu

Options = Sequence[Sequence[Segment]]


def segment(
    first: int,
    last: int,
    cost: int,
    memory: int = 100,
    *,
    flash: float = 0,
    heavy: bool = False,
    kernel: int = 0,
    group: Group | None = None,
    in_place: bool = True,
) -> Segment:
    call: Any = SimpleNamespace(
        kernel=SimpleNamespace(flash_heavy=heavy, speed_only=False, unfolds=False),
        scratch_bytes=0,
    )
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
def test_groups_are_laid_out_that_may_be_in_the_cheapest_path(seed: int) -> None:
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
        assert groups.has_cost(most) == (most >= 9), most
        assert len(groups.found) == laid_out, most
    groups.lay_out_all()
    assert (len(groups.found), groups.rest) == (4, None)
    assert [groups.rest for groups in (alternatives([segment(0, 1, 1)]),)] == [None]


def test_where_no_path_leads_through_there_is_none() -> None:
    assert _cheapest([[segment(0, 0, 1)], []], 0.0) is None
    assert _cheapest([[], [segment(0, 1, 9)]], 0.0) == [segment(0, 1, 9)]
    assert _cheapest([], 0.0) == []


@pytest.mark.parametrize("seed", range(8))
def test_the_cheapest_of_each_size_are_all_that_no_smaller_one_beats(seed: int) -> None:
    options = some_options(seed)
    flash = 40
    policy = SearchPolicy(flash_parts=64, flash_parts_beyond=16)  # parts of one byte, to 55
    found = list(_cheapest_of_each_size(options, flash, policy))
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
    policy = SearchPolicy(flash_parts=4, flash_parts_beyond=2)  # parts of ten bytes, to 59
    sizes = enumerate([(30, 14), (20, 44), (10, 54), (5, 56)])
    options = [[segment(0, 0, cost, flash=size, kernel=at) for at, (cost, size) in sizes]]
    found = [path[0].kernel for path in _cheapest_of_each_size(options, 40, policy)]
    assert found == ["v2", "v1", "v0"]
    assert list(_cheapest_of_each_size([[segment(0, 0, 1, flash=9)]], -5, policy)) == []


def a_partitioner(options: Options, **policy: Any) -> Partitioner:
    """Return the partitioner of these segments of layers and groups."""
    made = object.__new__(Partitioner)
    made._policy = replace(POLICY, **policy)
    made.is_fed = False
    # Nothing was measured as a whole.
    made._whole, made._beyond, made.measured = {}, 1.0, []
    made.singles = [[s for s in found if s.first == s.last] for found in options]
    groups = [s for found in options for s in found if s.first != s.last]

    def within(limit: int | None, *rest: object, sliced: bool = False) -> list[GroupsOfLayers]:
        if limit is None:
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
def test_a_partition_keeps_both_limits_at_the_least_cost(seed: int) -> None:
    options = some_options(seed)
    partitioner = a_partitioner(options, flash_parts=1 << 20)
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


def test_kernels_that_cannot_work_in_place_are_left_out_where_there_are_others() -> None:
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


def test_flash_heavy_kernels_are_taken_where_they_are_permitted() -> None:
    partitioner = a_partitioner([[segment(0, 0, 1, heavy=True, kernel=0), segment(0, 0, 9)]])
    costs = [partitioner.cheapest(None, Objective(flash_heavy=may)) for may in (True, False)]
    assert [found and found.cost for found in costs] == [1, 9]


def test_slices_are_tried_where_nothing_else_keeps_a_limit() -> None:
    group = Group(("n0", "n1"), sliced=8)
    layers = [[segment(0, 0, 5, 90)], [segment(1, 1, 5, 90), segment(0, 1, 9, 60, group=group)]]
    partitioner = a_partitioner(layers)
    above, below = (partitioner.cheapest(limit, FASTEST) for limit in (90, 89))
    assert above is not None
    assert below is not None
    # They would be cheaper.
    assert (above.cost, below.cost) == (10, 9)
    assert partitioner.cheapest(89, replace(FASTEST, slices=False)) is None
    assert partitioner.cheapest(59, FASTEST) is None


def test_a_fed_input_always_has_a_limit() -> None:
    """Its rows are taken in by a group, and groups are tried for a limit only."""
    layers = [[segment(0, 0, 1, UNLIMITED)], [segment(1, 1, 1), segment(0, 1, 9, 64)]]
    partitioner = a_partitioner(layers)
    partitioner.is_fed = True
    found = partitioner.cheapest(None, FASTEST)
    assert found is not None
    assert found.cost == 9


def test_a_choice_names_the_variant_of_each_single_layer() -> None:
    group = Group(("n2", "n3"), 2)
    segments = (
        segment(0, 0, 1),
        segment(1, 1, 1, kernel=2),
        segment(2, 3, 1, group=group),
    )
    assert Partition(segments, 3, 100, 0).choice == Choice({"n0": "v0", "n1": "v2"}, (group,))


def test_weights_are_decoded_in_memory_that_others_need_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sketch, "decodes", property(lambda self: self.calls == ()))
    coded = [replace(segment(0, 0, 1, bytes_), calls=()) for bytes_ in (90, 100, 101, 400, 401)]
    others = [[segment(0, 0, 9, 30), *coded], [segment(1, 1, 5, 100), segment(1, 1, 4, 300)]]
    kept = [s.memory_bound for s in _decoded_in_little(others, 50)[0]]
    assert kept == [30, 90, 100]  # the other layer can do with 100
    assert [s.memory_bound for s in _decoded_in_little(others, 400)[0]] == [30, 90, 100, 101, 400]
    assert _decoded_in_little(others, 0)[1] == others[1]
    assert _decoded_in_little([], 9) == []


# -- groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_range_is_covered_where_segments_lead_through_it(seed: int) -> None:
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
    #: What another way to fuse the same layers costs; 0 where there is none.
    dearer: int = 0
    tried: list[tuple[int, int]] = field(default_factory=list)

    def within(self, limit: int | None, singles: Options) -> list[tuple[int, int]]:
        """Return the groups that are found; ``tried`` has those that were looked at."""
        made: Any = object.__new__(FusedGroups)
        made._policy = self.policy
        made._nodes = [SimpleNamespace(name=f"n{step}", op="ADD") for step in range(self.layers)]
        made._estimator = SimpleNamespace(least_memory_bound=self.bound, bounds_groups=True)
        made._known_spans = {}
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
        found = made.within(limit, Objective(), singles)
        return [(s.first, s.last) for own in found for s in own.found]


def singles(*memory: int) -> list[list[Segment]]:
    """Return layers of 100 instructions and so much memory; another kernel takes more of both."""
    return [
        [segment(at, at, 150, 5 * bytes_, kernel=1), segment(at, at, 100, bytes_)]
        for at, bytes_ in enumerate(memory)
    ]


def test_without_a_limit_nothing_is_fused() -> None:
    one = Tried(2)
    assert one.within(None, singles(900, 900)) == []
    assert one.tried == []


def test_groups_are_tried_where_the_best_kernels_take_too_much() -> None:
    one = Tried(4, cost=lambda first, last: 1000)
    found = one.within(300, singles(300, 301, 100, 100))
    assert found == one.tried == [(1, 1), (0, 1), (1, 2), (0, 2), (1, 3), (0, 3)]


def test_what_short_groups_cover_cheaply_is_not_fused_in_long_ones() -> None:
    one = Tried(4, cost=lambda first, last: 103 * (last - first + 1))
    assert one.within(300, singles(100, 400, 400, 100)) == [(1, 1), (2, 2)]
    dear = Tried(4, cost=lambda first, last: 104 if first == last == 1 else 103)
    assert dear.within(300, singles(100, 400, 400, 100)) == [(1, 1), (2, 2), (0, 1), (1, 2)]


def test_the_cheapest_way_to_fuse_layers_covers_them() -> None:
    one = Tried(4, cost=lambda first, last: 103 * (last - first + 1))
    one.dearer = 999
    assert one.within(300, singles(100, 400, 400, 100)) == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_the_first_kernels_of_a_group_are_those_that_are_permitted() -> None:
    made: Any = object.__new__(FusedGroups)

    def kernels(*unfolding: int) -> list[Segment]:
        found = [segment(0, 0, 1, kernel=kernel) for kernel in range(3)]
        for kernel in unfolding:
            found[kernel].calls[0].kernel.unfolds = True  # type: ignore[misc]
        return found

    made._nodes = [SimpleNamespace(op="CONV_2D")]
    lean = Objective(unfolds=False)
    for layers, first in (
        ([kernels(), kernels()], ()),
        ([kernels(0), kernels()], ("v1", "v0")),
        ([kernels(), kernels(0, 1)], ("v0", "v2")),
        ([kernels(1), kernels(2)], ()),
        ([kernels(1)[1:], kernels(0)], ("v2", "v1")),
    ):
        made._singles = layers
        assert made._first_kernels(0, 1, lean) == first
        assert made._first_kernels(0, 1, Objective()) == ()


def test_groups_that_cannot_keep_the_limit_are_not_tried() -> None:
    one = Tried(3, bound=lambda first, last: 301 if first == last else 300, cost=lambda f, t: 999)
    assert one.within(300, singles(100, 400, 100)) == [(0, 1), (1, 2), (0, 2)]
    none = Tried(3, may_fuse=lambda first, last: first != last, cost=lambda f, t: 999)
    assert none.within(300, singles(100, 400, 100)) == [(0, 1), (1, 2), (0, 2)]
    large = Tried(2, memory=lambda first, last: 301 if first == last else 300)
    assert large.within(300, singles(400, 400)) == [(0, 1)]


def test_a_layer_to_which_rows_are_fed_is_no_group_alone() -> None:
    one = Tried(2, fed="n0", cost=lambda first, last: 999)
    assert one.within(300, singles(UNLIMITED, 100)) == [(0, 1)]


def test_groups_have_a_longest() -> None:
    policy = replace(POLICY, longest_group=2)
    one = Tried(3, policy=policy, cost=lambda first, last: 999)
    assert one.within(300, singles(100, 400, 100)) == [(1, 1), (0, 1), (1, 2)]


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
    made._segments = {}
    made._estimator = SimpleNamespace(prices=lambda worth: None)
    return made


def made(group: Group, memory: int) -> Segment:
    return segment(0, len(group.nodes) - 1, 1, memory, group=group)


def test_rows_at_a_time_grow_to_the_height_of_the_image() -> None:
    found = some_groups(lambda group: made(group, 100))._group_segments(0, 1, 100, Objective())
    assert [(one.group.nodes, one.group.rows) for one in found] == [
        (("n0", "n1"), rows) for rows in (1, 2, 4, 8)
    ]
    low = some_groups(lambda group: made(group, 100), height=2)
    assert [s.group.rows for s in low._group_segments(0, 1, 100, Objective())] == [1, 2]


def test_rows_at_a_time_grow_as_long_as_they_keep_the_limit() -> None:
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


def test_flash_heavy_kernels_are_tried_where_they_save_enough() -> None:
    groups = some_groups(lambda group: made(group, 100), height=1)
    layers = [
        [segment(0, 0, 100, flash=10), segment(0, 0, 80, flash=30, heavy=True, kernel=3)],
        [segment(1, 1, 100, flash=10), segment(1, 1, 99, flash=40, heavy=True, kernel=4)],
    ]
    groups._singles = layers
    for worth, kernels in ((0.0, ("v3", "v4")), (0.5, ("v3", "v0")), (1.0, ())):
        assert groups._flash_heavy_kernels(0, 1, Objective(worth, flash_heavy=True)) == kernels
    found = groups._group_segments(0, 1, 100, Objective(0.5, flash_heavy=True))
    assert [s.group.kernels for s in found] == [(), ("v3", "v0")]
    assert [s.group.kernels for s in groups._group_segments(0, 1, 100, Objective(0.5))] == [()]
    assert groups._flash_heavy_kernels(1, 1, Objective(0.5, flash_heavy=True)) == ()


def test_a_group_takes_the_cheapest_kernels_that_leave_it_within_the_limit() -> None:
    """Each further kernel of a layer takes 30 bytes less; a layout loses 20 between its rows."""
    asked = []

    def tried(group: Group) -> Segment:
        return made(group, 220 - 30 * sum(map(int, group.kernels)))

    def kernels_within(group: Group, scratch: int, live: int) -> tuple[str, ...] | None:
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
    assert groups._tried(one, bound - 1) == Sketch(bound, (calls[40],))  # type: ignore[arg-type]
    assert groups._tried(one, bound) == "laid out"
    # Calls that depend on the layout are not known before.
    assert groups._tried(replace(one, rows=2), 0) == Sketch(bound, ())
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
    heavy: bool = False
    #: What its plan takes; None where the planner refuses it.
    workspace: int | None = -1
    compression: int = 0
    measured: bool = False
    in_place: bool = True
    #: Whether its segments keep the bound together.
    fits: bool = True

    #: Of its kernels, as those of a segment.
    speed_only: bool = False
    unfolds: bool = False
    #: Of its choice.
    groups: tuple[Group, ...] = ()

    @property
    def flash_heavy(self) -> bool:
        return self.heavy

    @property
    def choice(self) -> Point:
        return self

    @property
    def segments(self) -> tuple[Point]:
        return (self,)

    @property
    def plain_flash(self) -> int:
        return self.flash + self.compression


class Points:
    """A partitioner that chooses among points."""

    is_fed = has_expansions = False

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        self.graph = SimpleNamespace(name="points")
        self.limits: list[int | None] = []
        self.in_place_limits: list[int | None] = []
        self.measured: list[Point] = []
        self.speeds = False

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
                and objective.permits(p)  # type: ignore[arg-type]
                and (objective.flash_limit is None or p.flash <= objective.flash_limit)
            ),
            key=lambda p: (p.cost + objective.flash_worth * p.flash, p.memory_bound),
            default=None,
        )

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
    planner: Any = SimpleNamespace(plan=plan)
    return ParetoFrontier(planner, policy=replace(POLICY, **policy)), planned


def test_a_frontier_goes_down_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(1600, 10), Point(1580, 12), Point(1000, 20), Point(990, 25), Point(984, 40)]
    frontier, _ = frontier_of(monkeypatch, points)
    assert [p.memory_bound for p in frontier.partitions()] == [1600, 1000, 984]
    limits = frontier.partitioner.limits  # type: ignore[attr-defined]
    # 98.5 % and a byte less; where nothing is that small, an alignment less.
    assert limits == [None, 1575, 984, 968, 968]
    assert [p.memory_bound for p in frontier.partitions()] == [1600, 1000, 984]  # known now


def test_partitions_are_found_as_far_as_they_are_asked_for(
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


def test_a_small_step_is_tried_where_there_is_no_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frontier, _ = frontier_of(monkeypatch, [Point(4000, 1), Point(3984, 2), Point(3983, 9)])
    assert [p.memory_bound for p in frontier.partitions()] == [4000, 3984]


def test_other_kernels_may_let_an_output_be_where_the_input_was(
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


def test_affordable_ones_end_where_those_of_two_memory_bounds_in_a_row_are_too_dear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = [1, 5, 5, 3, 5, 5, 2]
    bounds = [9, 8, 8, 7, 6, 5, 4]
    frontier, _ = frontier_of(monkeypatch, [])
    frontier.partitions = lambda objective=FASTEST: (  # type: ignore[method-assign]
        Point(bound, cost)  # type: ignore[misc]
        for bound, cost in zip(bounds, costs, strict=True)
    )
    assert [p.cost for p in frontier.affordable(FASTEST, 3)] == [1, 3]
    assert [p.cost for p in frontier.affordable(FASTEST, 5)] == costs


def test_between_two_steps_all_that_is_affordable_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000 - 16 * at, 10 + at) for at in range(30)]
    frontier, _ = frontier_of(monkeypatch, points, frontier_step=0.6, frontier_programs=2)
    assert [p.memory_bound for p in frontier.partitions()] == [1000, 584]
    found = frontier.between(FASTEST, 20, 1000)
    bounds = [p.memory_bound for p in found]
    assert bounds == sorted(bounds, reverse=True)
    # The least that twenty instructions pay for, up to a step.
    assert bounds[-1] == 1000 - 16 * 10
    assert all(p.cost <= 20 for p in found)
    assert frontier.between(FASTEST, 9, 1000) == []
    assert frontier.between(FASTEST, 99, 600) == []


# -- goals -----------------------------------------------------------------------------------------


def some_points(seed: int) -> list[Point]:
    dice = random.Random(seed)
    return [
        Point(
            *(dice.randrange(20, 120) * 16, dice.randrange(1000, 2500), dice.randrange(900, 1400)),
            heavy=dice.random() < 0.3,
            workspace=None if dice.random() < 0.1 else -1,
        )
        for _ in range(25)
    ] + [Point(2000, 2600, 900)]


@pytest.mark.parametrize("seed", range(12))
def test_goals_are_what_they_say(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    points = some_points(seed)
    frontier, _ = frontier_of(monkeypatch, points)
    goals = Goals(frontier)
    good = [p for p in points if p.workspace is not None]

    def listed(objective: Objective) -> list[Any]:
        return list(frontier.partitions(objective))

    fastest = goals.fastest
    assert fastest.instructions == next(p.cost for p in listed(FASTEST) if p.workspace is not None)

    def saving(objective: Objective, best: Any, most: float) -> Any:
        over: set[int] = set()
        affordable = []
        for p in listed(objective):
            over = over | {p.memory_bound} if p.cost > most * best.instructions else set()
            if len(over) == 2:
                break
            affordable += [p] if not over else []
        fit = [p for p in affordable if p.flash <= POLICY.balanced_flash * affordable[0].flash]
        return min(
            (p for p in fit if p.workspace is not None),
            key=lambda p: p.cost / best.instructions + 4.25 * p.memory_bound / best.workspace_bytes,
            default=None,
        )

    plain = Objective(POLICY.balanced_flash_worth)
    tried = [plain, *(Objective(w, flash_heavy=True) for w in POLICY.flash_worths)]
    wanted = next((s for o in tried if (s := saving(o, fastest, 1.28)) is not None), None)
    balanced = goals.balanced
    assert balanced.choice is (fastest.choice if wanted is None else wanted)

    lean = saving(plain, frontier.planned(_first(listed(Objective()))), POLICY.lean_instructions)
    assert goals.lean.choice is (lean or _first(listed(Objective())))
    ceiling = POLICY.ram_instructions * goals.lean.instructions
    assert goals.least_memory.instructions <= ceiling or goals.least_memory is goals.lean
    assert goals.least_memory.workspace_bytes <= goals.lean.workspace_bytes

    least = goals.least_flash()
    assert least.flash_bytes == min(p.flash for p in good if not p.heavy)
    for ram in (400, 800, 1600):
        found: Any = goals.least_flash(ram)
        if any(p.memory_bound <= ram for p in good if p in listed(FASTEST)):
            assert found.workspace_bytes <= ram


def test_instructions_are_paid_for_workspace_and_for_a_little_flash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A per cent of the fastest program's workspace is worth 4.25 % of its instructions."""
    fastest = Point(1000, 1000, 100)
    for other, is_better in (
        (Point(980, 1084, 100), True),
        (Point(980, 1086, 100), False),
        (Point(500, 1280, 100), True),
        (Point(500, 1281, 100), False),  # more than is promised
        (Point(500, 1100, 150), True),
        (Point(500, 1100, 151), False),
    ):
        frontier, _ = frontier_of(
            monkeypatch, [fastest, other], balanced_flash=1.5, balanced_flash_worth=0.0
        )
        assert point_of(Goals(frontier).balanced) is (other if is_better else fastest), other
        # Of several with as much, the first on the frontier.
    same = [Point(1000, 1000, 100), Point(500, 1100, 100, workspace=400), Point(400, 1110, 100)]
    goals = Goals(frontier_of(monkeypatch, same, balanced_flash_worth=0.0)[0])
    assert point_of(goals.least_memory) is same[2]


def test_the_frontier_is_followed_as_far_as_it_may_become_cheaper(
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


def test_what_was_measured_as_a_whole_counts_where_it_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000, 100, 50), Point(500, 200, 50)]
    slow, refused, heavy, fast, small = (
        Point(1000, 99, 50, measured=True),
        Point(900, 80, 50, measured=True, workspace=None),
        Point(900, 85, 50, measured=True, heavy=True),
        Point(900, 90, 60, measured=True),
        Point(500, 190, 50, measured=True),
    )

    def goals(*measured: Point) -> Goals:
        frontier, _ = frontier_of(monkeypatch, points, workspace_worth=0.0)
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
    assert point_of(goals(heavy).fastest) is heavy
    # Balanced among them, without flash-heavy kernels: up to 28 % above the fastest, 85.
    for cost, is_taken in ((90, True), (99, True), (108, False)):
        one = Point(900, cost, 50, measured=True)
        assert (point_of(goals(heavy, one).balanced) is one) == is_taken
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


def test_measured_programs_are_permitted_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    frontier, _ = frontier_of(monkeypatch, [])
    plain, heavy = segment(0, 0, 1, flash=5), segment(1, 1, 1, heavy=True)
    both = Partition((plain, heavy), 2, 100, 40, True)
    one = Partition((plain, replace(plain, first=1, last=1)), 3, 100, 50, True)
    partitioner: Any = frontier.partitioner
    partitioner.measured = [one, both]
    assert frontier.measured(FASTEST) == [both, one]
    assert frontier.measured(Objective()) == [one]
    assert frontier.measured(replace(FASTEST, flash_limit=40)) == [both]
    assert frontier.measured(replace(FASTEST, flash_limit=39)) == []


def test_kernels_for_speed_alone_and_that_unfold_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balanced is relative to the fastest without the former, ram to that without the latter."""
    points = [
        Point(1000, 50, 10, speed_only=True),
        Point(1000, 100, 10),
        Point(900, 90, 10, unfolds=True),
        Point(950, 120, 10),
    ]
    for speeds, usual in ((True, points[2]), (False, points[0])):
        frontier, _ = frontier_of(monkeypatch, points, workspace_worth=0.0)
        partitioner: Any = frontier.partitioner
        partitioner.speeds = speeds
        goals = Goals(frontier)
        assert point_of(goals.fastest) is points[0]
        assert point_of(goals.usual) is usual
        # Up to 30 % more than 100, those that unfold none.
        assert point_of(goals.lean) is points[1]
    lean = frontier_of(monkeypatch, points, balanced_flash_worth=0.0)[0]
    # 120 / 100 + 4.25 * 950 / 1000 is less than 5.25.
    assert point_of(Goals(lean).lean) is points[3]


def test_flash_heavy_kernels_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike those for speed alone, which take more flash still."""
    points = [Point(1000, 50, speed_only=True), Point(1000, 80, heavy=True), Point(1000, 100)]
    frontier, _ = frontier_of(monkeypatch, points)
    partitioner: Any = frontier.partitioner
    partitioner.speeds = True
    assert point_of(Goals(frontier).usual) is points[1]


def found_by(monkeypatch: pytest.MonkeyPatch, points: list[Point], **limits: int) -> Any:
    """Return the fastest program within limits."""
    goals = Goals(frontier_of(monkeypatch, points)[0])
    planned, report = choose(goals, optimize="speed", **limits)
    flash = limits.get("flash")
    return Found(planned.program, planned.choice, report, "speed", goals, "speed", flash)


def test_the_next_saving_is_the_next_program_of_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(1000, 100, 500), Point(700, 130, 400), Point(400, 190, 600)]
    first = found_by(monkeypatch, points)
    assert first.choice is points[0]
    assert first.next_saving() == Saving(300, 30, 100)
    second = found_by(monkeypatch, points, ram=999)
    assert second.choice is points[1]
    assert second.next_saving() == Saving(300, 60, 130)
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
    assert both.value.hint == "raise one of the limits, or both"
    with pytest.raises(LimitError) as ram:
        goals.within(399, None)
    assert ram.value.fact.endswith("fits a workspace of 399 B (the smallest is 400 B)")
    assert ram.value.hint == "raise the limit"
    with pytest.raises(LimitError) as beside:
        goals.within(599, 750)
    assert "(the smallest is 600 B)" in beside.value.fact


def test_where_nothing_can_be_planned_the_planner_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goals = Goals(frontier_of(monkeypatch, [Point(100, 1, workspace=None)])[0])
    with pytest.raises(InputError, match="the pools are too small"):
        _ = goals.fastest


# -- the bound of all plans ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_is_the_least_largest_segment_of_all_divisions(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
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
    policy = replace(POLICY, fused_rows=(1, 2, 4))
    assert list(bound._bounds(planner, estimator, policy, 1, 2)) == [121, 121, 122, 122, 124]
    assert {group.nodes for group in tried} == {("n1", "n2")}
    assert [group.direction for group in tried] == ["forward", "backward"] * 3
    assert list(bound._bounds(planner, estimator, policy, 1, 1))[:3] == [1000, 900, 111]
    # Expansions by slices are another way.
    lowering.has_expansions = lambda group: group.nodes == ("n1", "n2")
    tried.clear()
    assert list(bound._bounds(planner, estimator, policy, 1, 2)) == [
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


def test_a_called_program_has_no_description_of_its_layers() -> None:
    group = object.__new__(FusedCall)
    object.__setattr__(group, "nodes", (1, 2, 3))
    program: Any = SimpleNamespace(
        steps=[SimpleNamespace(call=call) for call in (None, group, None)]
    )
    policy = SearchPolicy(layer_bytes=100, called_layer_bytes=30)
    cost = CostEstimate(5, 7, 1000)
    assert as_called(cost, program, policy) == CostEstimate(5, 7, 1000 - 5 * 70)
    assert as_called(cost, program) == CostEstimate(5, 7, 1000 - 5 * 80)


def test_the_flash_of_a_program_has_what_segments_share_once() -> None:
    estimator = object.__new__(Estimator)
    estimator._policy = SearchPolicy(model_bytes=1000, layer_bytes=100)
    segments = [
        replace(segment(0, 0, 1), parts={"code": 7, "weights 0": 20}),
        replace(segment(1, 3, 1), parts={"code": 7, "weights 1": 30}),
    ]
    assert estimator.flash_bytes(segments) == 1000 + 4 * 100 + 7 + 20 + 30


def test_a_segment_knows_what_its_compressed_weights_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CompressedCall, "compressed_bytes", (100, 40))
    coded: Any = object.__new__(CompressedCall)
    sketches = [Sketch(0, (coded,) * count) for count in range(3)]
    assert [sketch.compression for sketch in sketches] == [0, 60, 120]
    assert [sketch.decodes for sketch in sketches] == [False, True, True]


def test_code_for_bands_is_what_the_kernel_says_or_half_more() -> None:
    estimator = object.__new__(Estimator)
    estimator._policy = POLICY
    kernels: list[Any] = [
        SimpleNamespace(band_code=band_code, code=100) for band_code in (70, 0, None)
    ]
    assert [estimator._band_bytes(kernel) for kernel in kernels] == [70, 0, 150]


def test_measured_counts_are_those_of_the_same_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelCall, "instructions", lambda self, cpu: 1000)
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


def test_the_cost_of_a_segment_has_its_flash_at_a_price() -> None:
    assert segment(0, 0, 10, flash=3).cost_at(2.5) == 17.5


def test_the_policy_is_what_the_documents_promise() -> None:
    # At most 30 % more instructions than the fastest, and 50 % for `ram`.
    assert 1.25 < POLICY.balanced_instructions < 1.30
    assert 1.45 < POLICY.lean_instructions * POLICY.ram_instructions <= 1.5
    assert POLICY.lean_instructions == 1.3
    assert POLICY.workspace_worth == 4.25
    assert POLICY.frontier_step**POLICY.frontier_programs == pytest.approx(0.4, abs=0.005)
    assert POLICY.small_step_bytes == ALIGNMENT
    assert POLICY.fused_rows == tuple(1 << power for power in range(4))
    worths = POLICY.flash_worths
    assert list(worths) == sorted(worths, reverse=True)
    assert worths[-1] == 0.0
    assert POLICY.balanced_flash_worth in worths
    assert list(POLICY.shared_code) == ["speed", "balanced", "size"]
    assert sorted(POLICY.shared_code.values()) == list(POLICY.shared_code.values())


def test_a_change_of_the_policy_is_meant() -> None:
    """It changes the programs of every model, and with them the figures of the documents."""
    numbers = {
        "shared_code": {"speed": 1.0, "balanced": 1.01, "size": 1.15},
        "balanced_instructions": 1.28,
        "lean_instructions": 1.3,
        "ram_instructions": 1.14,
        "workspace_worth": 4.25,
        "balanced_flash": 1.15,
        "priced_instructions": 1.15,
        "balanced_flash_worth": 20.0,
        "least_flash_worth": 1e6,
        "least_memory_flash": 8.0,
        "flash_worths": (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.0),
        "decoding_bytes": 8192,
        "frontier_programs": 60,
        "frontier_step": 0.985,
        "small_step_bytes": 16,
        "uneven_cost": 1.1,
        "fused_rows": (1, 2, 4, 8),
        "slice_channels": 32,
        "longest_group": 20,
        "most_spans": 20_000,
        "cheap_group": 1.03,
        "kernel_exchanges": 6,
        "model_bytes": 150,
        "layer_bytes": 120,
        "called_layer_bytes": 40,
        "group_entry_bytes": 8,
        "band_code": 1.5,
        "flash_parts": 4096,
        "flash_parts_beyond": 1024,
    }
    assert {name: getattr(POLICY, name) for name in vars(POLICY)} == numbers


# -- what is left of flash, groups and kernels -----------------------------------------------------


def test_a_limit_of_flash_between_two_rounded_sizes_is_kept_by_the_smallest() -> None:
    """Sizes are rounded to a part of the limit, here to all of it."""
    kernels = [segment(0, 0, 10, flash=19), segment(0, 0, 30, flash=14, kernel=1)]
    partitioner = a_partitioner([kernels], flash_parts=1, flash_parts_beyond=0)
    for limit, cost in ((26, 10), (25, 30), (21, 30), (20, None)):
        found = partitioner.cheapest(None, replace(FASTEST, flash_limit=limit))
        assert (found and found.cost) == cost, limit


def test_kernels_for_speed_alone_are_known() -> None:
    fast = segment(1, 1, 1)
    fast.calls[0].kernel.speed_only = True  # type: ignore[misc]
    plain = [[segment(0, 0, 1)], [segment(1, 1, 2, kernel=1)]]
    assert not a_partitioner(plain).speeds
    assert a_partitioner([plain[0], [*plain[1], fast]]).speeds


def test_flash_as_constants_are_counts_what_compression_spares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sketch, "compression", property(lambda self: self.memory_bound))
    segments = (segment(0, 0, 1, 30), segment(1, 1, 1, 12))
    assert Partition(segments, 2, 30, 100).plain_flash == 142


def test_flash_heavy_kernels_of_other_layers_are_no_part_of_a_group() -> None:
    groups = some_groups(lambda group: made(group, 100), height=1)
    heavy = segment(2, 2, 1, flash=10, heavy=True, kernel=3)
    usual = [[segment(at, at, 100, flash=10)] for at in range(3)]
    groups._singles = [*usual[:2], [*usual[2], heavy]]
    objective = Objective(0.0, flash_heavy=True)
    assert groups._flash_heavy_kernels(0, 1, objective) == ()
    assert groups._flash_heavy_kernels(1, 2, objective) == ("v0", "v3")


def test_why_rows_cannot_be_fed_is_what_the_shortest_group_lacks(
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


def test_the_least_memory_takes_up_to_14_per_cent_more_than_lean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the frontier, and between its last step and the next."""
    for cost, is_taken in ((1140, True), (1141, False)):
        points = [Point(1000, 1000), Point(500, cost)]
        frontier, _ = frontier_of(monkeypatch, points, workspace_worth=0.0)
        least = point_of(Goals(frontier).least_memory)
        assert least is points[is_taken], cost
        # A frontier of large steps passes over what is between.
        points = [Point(1000, 1000), Point(900, cost), Point(800, 1300)]
        frontier, _ = frontier_of(monkeypatch, points, workspace_worth=0.0, frontier_step=0.85)
        assert [p.memory_bound for p in frontier.partitions()] == [1000, 800]
        assert point_of(Goals(frontier).least_memory) is points[is_taken]


def test_no_price_of_flash_hides_the_least_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of little flash that are too slow stand before a faster one of more."""
    for cost, flash, is_taken in (
        (1140, 180, True),
        (1141, 180, False),  # more than the goal may take
        (1140, 900, True),
        (1140, 901, False),  # more than eight bytes of flash for one of memory
    ):
        dear = Point(400, cost, flash)
        slow = [Point(390, 1500, 100), Point(380, 1600, 100)]
        points = [Point(1000, 1000, 100), Point(500, 1100, 100), *slow, dear]
        frontier, _ = frontier_of(monkeypatch, points, workspace_worth=0.0)
        goals = Goals(frontier)
        assert point_of(goals.least_memory) is (dear if is_taken else points[1]), (cost, flash)


def test_below_a_bound_flash_has_the_highest_price_that_leaves_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten instructions a byte make the slow one and the fast one alike."""
    slow, fast, small = Point(900, 300, 10), Point(850, 100, 30), Point(500, 120, 90)
    frontier, _ = frontier_of(monkeypatch, [Point(1000, 90, 50), slow, fast, small])

    def below(ceiling: float, bound: int) -> list[Any]:
        return list(frontier.below(Objective(20.0), ceiling, bound))

    assert below(400, 1000) == [slow, fast, small]
    assert below(299, 1000) == [fast, small]
    assert below(119, 1000) == [fast]
    assert below(99, 1000) == []
    assert below(400, 500) == []


def test_balanced_is_the_least_memory_where_it_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may unfold weights for speed, and take more instructions."""
    points = [
        Point(1000, 800, unfolds=True),
        Point(1000, 1000),
        Point(600, 1020, unfolds=True, workspace=600),
        Point(590, 1010, heavy=True),
        Point(700, 1100),
    ]
    goals = Goals(frontier_of(monkeypatch, points)[0])
    assert goals.balanced.workspace_bytes == 600
    assert goals.least_memory.workspace_bytes == 600
    # Without anything that can be planned of them, lean stays.
    alone = [Point(1000, 1000, workspace=990), Point(500, 1100, workspace=None)]
    goals = Goals(frontier_of(monkeypatch, alone, workspace_worth=0.0)[0])
    assert goals.least_memory.workspace_bytes == 990


def test_of_flash_heavy_kernels_balanced_takes_those_with_the_highest_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where none without them is within 28 %: the first price at which one is."""
    fast = Point(1000, 1000, 100, heavy=True, speed_only=True)
    dear, cheap = Point(1000, 1100, 120, heavy=True), Point(1000, 1200, 110, heavy=True)
    slow = Point(1000, 1500, 150)
    # A price of 10 instructions a byte makes them alike; above it the smaller one is taken.
    for worths, expected in (((11.0, 0.0), cheap), ((9.0, 11.0), dear)):
        frontier, _ = frontier_of(
            monkeypatch, [fast, dear, cheap, slow], flash_worths=worths, workspace_worth=0.0
        )
        goals = Goals(frontier)
        goals.__dict__["usual"] = frontier.planned(cast(Any, fast))
        assert point_of(goals.balanced) is expected
    frontier, _ = frontier_of(monkeypatch, [fast, slow], flash_worths=(1.0,))
    goals = Goals(frontier)
    goals.__dict__["usual"] = frontier.planned(cast(Any, fast))
    # Where no price finds one, the fastest is all that there is.
    assert point_of(goals.balanced) is fast


def test_of_equal_memory_balanced_takes_what_is_cheaper_with_its_flash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A byte costs two instructions; up to 15 % more than the fastest are given for flash."""
    fastest = Point(1000, 1000, 500)
    for small, is_taken in (
        (Point(1000, 1010, 494), True),  # 10 instructions for 6 bytes at 2 each
        (Point(1000, 1010, 495), False),  # as dear
        (Point(1000, 1150, 400), True),
        (Point(1000, 1151, 400), False),
        (Point(1001, 1010, 400), False),  # more memory
        (Point(900, 1010, 400, workspace=1001), False),
    ):
        # Both are affordable in this order.
        goals = Goals(
            frontier_of(monkeypatch, [fastest], workspace_worth=0.0, balanced_flash_worth=2.0)[0]
        )
        frontier: Any = goals._frontier
        frontier.affordable = lambda *given, small=small: iter([fastest, small])
        found = goals._saving(Objective(2.0), goals.fastest, 1.28)
        assert found is not None
        assert point_of(found) is (small if is_taken else fastest), small


def test_no_saving_is_worth_more_than_all_that_may_be_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What costs all that it may and takes as much memory as the fastest saves nothing."""
    fastest = Point(1000, 1000)
    for other, is_found in (
        (Point(999, 1280), True),
        (Point(1000, 1279), True),
        (Point(1000, 1280), False),
        (Point(1001, 1279), False),
    ):
        goals = Goals(frontier_of(monkeypatch, [fastest])[0])
        frontier: Any = goals._frontier
        frontier.affordable = lambda *given, other=other: iter([other])
        found = goals._saving(Objective(), goals.fastest, 1.28)
        assert (found is not None) == is_found, other
    # A plan that takes more than its bound counts as it is.
    for workspace, is_found in ((1064, True), (1066, False)):
        goals = Goals(frontier_of(monkeypatch, [fastest])[0])
        planned = Point(900, 1000, workspace=workspace)
        frontier = goals._frontier
        frontier.affordable = lambda *given, planned=planned: iter([planned])
        assert (goals._saving(Objective(), goals.fastest, 1.28) is not None) == is_found


def test_a_model_without_layers_has_its_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program costs nothing and takes no memory."""
    nothing = Point(0, 0)
    goals = Goals(frontier_of(monkeypatch, [nothing])[0])
    for program in (goals.fastest, goals.balanced, goals.lean, goals.least_memory):
        assert point_of(program) is nothing


def test_the_least_flash_keeps_a_limit_of_memory_if_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [
        Point(1000, 100, 50),
        Point(800, 70, 70),
        Point(700, 80, 60, workspace=801),
        Point(600, 85, 65, workspace=None),
    ]
    for ram, expected in ((1000, 0), (999, 2), (800, 1), (799, 0)):
        goals = Goals(frontier_of(monkeypatch, points)[0])
        assert point_of(goals.least_flash(ram)) is points[expected], ram
    assert point_of(Goals(frontier_of(monkeypatch, points)[0]).least_flash()) is points[0]


def test_the_smallest_is_the_fastest_of_those_that_take_as_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points: list[Any] = [
        Point(500, 30, workspace=600),
        Point(550, 20, workspace=None),
        Point(600, 40),
        Point(600, 30),
        Point(600, 20),
        Point(600, 25),
        Point(601, 1),
    ]
    frontier, planned = frontier_of(monkeypatch, [])
    found = Goals(frontier)._smallest(points)
    assert found is not None
    assert point_of(found) is points[4]
    # Neither those that are no faster, nor those that take more, are planned.
    assert planned == [points[0], points[1], points[4]]
    assert Goals(frontier)._smallest([points[1]]) is None
    # Of equal ones the one with the smallest bound, which comes first.
    same: list[Any] = [Point(550, 20, workspace=600), Point(500, 20, workspace=600)]
    found = Goals(frontier)._smallest(same)
    assert found is not None
    assert point_of(found) is same[1]


def test_partitions_between_two_bounds_are_found_by_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Down to an alignment above the next step of the frontier, or to what is too dear."""
    points = [Point(1000, 10), Point(200, 90)]
    frontier, _ = frontier_of(monkeypatch, points, frontier_step=0.5)
    limits: Any = frontier.partitioner
    assert list(frontier.partitions()) == points  # type: ignore[comparison-overlap]
    limits.limits.clear()
    assert frontier.between(FASTEST, 50, 1000) == []
    # 600 gives the 200 bytes, which are too dear.
    assert limits.limits == [600, 800, 900, 950, 975, 987]
    limits.limits.clear()
    found: list[Any] = frontier.between(FASTEST, 90, 1000)
    assert found == [points[1]]
    assert limits.limits == [600]
    limits.limits.clear()
    # What is not on the frontier is no lower end.
    assert frontier.between(FASTEST, 90, 200) == []
    assert frontier.between(FASTEST, 90, 216) == []
    assert limits.limits == []
    assert frontier.between(FASTEST, 9, 217) == []
    assert limits.limits == [208]
    # The first step below is the lower end, not one that is further down.
    points = [Point(1000, 10), Point(600, 50), Point(200, 90)]
    frontier, _ = frontier_of(monkeypatch, points, frontier_step=0.7)
    limits = frontier.partitioner
    assert [p.memory_bound for p in frontier.partitions()] == [1000, 600, 200]
    limits.limits.clear()
    assert frontier.between(FASTEST, 40, 1000) == []
    assert limits.limits[0] == 800
    assert min(limits.limits) > 600


def test_a_frontier_says_what_its_costs_are_and_when_it_plans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pareto, "Partitioner", lambda *rest: Points([Point(100, 1), Point(50, 9)]))
    planner: Any = SimpleNamespace(
        plan=lambda point: SimpleNamespace(workspace_bytes=point.memory_bound)
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
    assert not may(Sketch(1, ()), 100)
    assert not may(None, 100)


def test_a_group_has_a_segment_where_all_its_layers_are_computed() -> None:
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
    groups._sketches = {fine: Sketch(100, ()), large: Sketch(101, ())}
    prices = [SimpleNamespace(entry=entry) for entry in (0.0, 8.0)]
    assert groups._foreseen(known, 1, prices[0]) == segment(0, 1, 5)
    assert groups._foreseen(large, 100, prices[0]) == Sketch(101, ())
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


def test_bounds_of_steps_end_where_no_group_is_within_the_limit() -> None:
    """Of each step the usual groups, or smaller ones, and those with flash-heavy kernels."""

    def foreseen(group: Group) -> Segment | Sketch | LeastCost | None:
        if group.kernels:
            return LeastCost(70 - group.rows, 7)
        return made(group, 100 * group.rows)

    groups = steps_of(foreseen)
    smaller: list[Any] = []
    groups._smaller = lambda group, limit, prices: iter(smaller)
    steps = [
        groups_module._Step(
            [Group(("n0", "n1"), rows)], Group(("n0", "n1"), rows, kernels=("1", "1"))
        )
        for rows in (1, 2, 4)
    ]
    objective = Objective(2.0)

    def bounds(limit: int) -> tuple[float, float]:
        least = groups._least_of_steps(steps, limit, objective, None)
        return least.instructions, least.priced

    # The first steps' groups of one instruction, and their flash-heavy ones.
    assert bounds(200) == (1, 1)
    now, goes_on = groups._least_of_step(steps[0], 100, objective, None)
    assert ([one.instructions for one in now], goes_on) == ([1, 69], True)
    # Too large, with smaller kernels or without them.
    now, goes_on = groups._least_of_step(steps[1], 199, objective, None)
    assert ([one.instructions for one in now], goes_on) == ([68], False)
    smaller.append(LeastCost(40.0, 44.0))
    now, goes_on = groups._least_of_step(steps[1], 199, objective, None)
    assert ([one.instructions for one in now], goes_on) == ([40, 68], True)
    smaller[0] = segment(0, 1, 30, flash=5)
    now, goes_on = groups._least_of_step(steps[1], 199, objective, None)
    assert now == [LeastCost(30, 40.0), LeastCost(68, 7)]
    assert goes_on
    smaller[0] = segment(0, 1, 30, heavy=True)
    assert groups._least_of_step(steps[1], 199, objective, None)[1] is False
    smaller.clear()
    # The third step is not reached behind one without groups within the limit.
    assert bounds(100) == (1, 1)
    assert groups._least_of_steps(steps[1:], 100, objective, None).instructions == 68
    alone = [groups_module._Step(step.usual, None) for step in steps]
    assert groups._least_of_step(alone[0], 100, objective, None) == ([LeastCost(1, 1.0)], True)


def test_groups_that_cannot_be_fused_are_not_made_smaller() -> None:
    groups = steps_of(lambda group: None)
    step = groups_module._Step([Group(("n0", "n1"), 1)], None)
    assert groups._least_of_step(step, 100, Objective(), None) == ([], False)
    assert list(groups._group_segments(0, 1, 100, Objective())) == []


def test_smaller_groups_are_tried_where_the_usual_ones_are_too_large() -> None:
    groups = some_groups(lambda group: made(group, 100 * group.rows), height=4)
    asked: list[int] = []

    def smaller(group: Group, limit: int, prices: Any) -> Iterator[Segment | LeastCost]:
        asked.append(group.rows)
        yield LeastCost(3.0, 3.0)
        yield segment(0, 1, 9, heavy=group.rows == 4)

    groups._smaller = smaller
    found = list(groups._group_segments(0, 1, 100, Objective()))
    # One row at a time; two with other kernels; of four they are flash-heavy, which ends it.
    assert [type(one).__name__ for one in found] == ["Segment", "LeastCost", "Segment", "LeastCost"]
    assert [one.cost for one in found if isinstance(one, Segment)] == [1, 9]
    assert asked[:2] == [2, 2]
    assert 4 in asked


def test_bounds_come_before_a_group_that_is_laid_out() -> None:
    groups = some_groups(lambda group: made(group, 100), height=1)
    groups._foreseen = lambda group, limit, prices: LeastCost(5.0, 6.0)
    groups._smaller = lambda group, limit, prices: iter(())
    found = list(groups._group_segments(0, 1, 100, Objective()))
    assert found[0] == LeastCost(5.0, 6.0)
    assert isinstance(found[1], Segment)
    assert len(found) == 2
    heavy = [[segment(at, at, 9), segment(at, at, 5, heavy=True, kernel=1)] for at in range(2)]
    groups._singles = heavy
    found = list(groups._group_segments(0, 1, 100, Objective(flash_heavy=True)))
    kinds = [type(one).__name__ for one in found]
    assert kinds == ["LeastCost", "Segment", "LeastCost", "Segment"]
    assert [one.group and one.group.kernels for one in found if isinstance(one, Segment)] == [
        (),
        ("v1", "v1"),
    ]
    large = some_groups(lambda group: made(group, 101 if group.kernels else 100), height=1)
    large._singles = heavy
    found = list(large._group_segments(0, 1, 100, Objective(flash_heavy=True)))
    assert [one.group.kernels for one in found] == [()]


def test_sharing_goes_from_the_goal_to_more() -> None:
    sharings = search_module._sharings
    assert sharings("speed", None, POLICY) == ("speed",)
    assert sharings("ram", None, POLICY) == ("ram",)
    assert sharings("speed", 1000, POLICY) == ("speed", "balanced", "size")
    assert sharings("balanced", 1000, POLICY) == ("balanced", "size")
    assert sharings("ram", 0, POLICY) == ("balanced", "size")
    assert sharings("size", 1000, POLICY) == ("size",)


def test_shared_code_counts_as_slower_unless_it_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = found_by(monkeypatch, [Point(100, 1000)])
    policy = SearchPolicy(shared_code={"speed": 1.0, "size": 1.5})
    assert search_module._instructions(found, policy) == 1000
    shared = replace(found, sharing="size")
    assert search_module._instructions(shared, policy) == 1500
    measured = replace(shared, report=replace(shared.report, measured=True))
    assert search_module._instructions(measured, policy) == 1000


def searched(
    monkeypatch: pytest.MonkeyPatch, points: dict[str, list[Point]], **limits: Any
) -> tuple[Found, list[str]]:
    """Return what is found where sharing code gives these points, and the ways that were tried."""
    tried: list[str] = []

    def partitioner(planner: Any, tuning: Any, optimize: str, policy: Any) -> Points:
        tried.append(optimize)
        return Points(points[optimize])

    def plan(point: Point) -> Any:
        return SimpleNamespace(workspace_bytes=point.memory_bound)

    monkeypatch.setattr(pareto, "Partitioner", partitioner)
    planner: Any = SimpleNamespace(plan=plan)
    return search_module.search(planner, **limits), tried


def test_of_all_degrees_of_sharing_the_fastest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(cost: int) -> list[Point]:
        """Return points of which the fastest does not keep the limit of flash."""
        return [Point(100, 10, 900), Point(90, cost, 400)]

    every = ["speed", "balanced", "size"]
    for costs, expected in (
        ((1000, 1000, 1000), "speed"),
        ((1000, 990, 1000), "balanced"),  # 1 % slower than estimated
        ((1000, 991, 1000), "speed"),
        ((1010, 1000, 1000), "speed"),  # of equal ones the least sharing
        ((1000, 1000, 869), "size"),  # 15 % slower
        ((1000, 1000, 870), "speed"),
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


def test_limits_are_kept_by_the_fastest_unless_the_goal_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [Point(1000, 100, 500), Point(900, 120, 400), Point(500, 128, 550)]

    def chosen(goal: str, **limits: int) -> tuple[Any, str]:
        goals = Goals(frontier_of(monkeypatch, points, balanced_flash_worth=0.0)[0])
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
