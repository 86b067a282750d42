"""Fused groups that the search tries: their layers, rows at a time and kernels.

There are too many chains of layers to lay out each. Groups are tried only where single kernels
exceed a memory limit, the shortest first, and outlines exclude groups that certainly exceed it.
What a group costs at least is known without its layout too, so those are laid out that may be in
the cheapest partition, or cheap enough that no longer groups are tried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from hilc.errors import InputError
from hilc.fusion.bands import NotFusible, is_image
from hilc.fusion.bounds import LeastCost, Prices, least_of
from hilc.lowering.choice import Group
from hilc.memory.plan import Planner
from hilc.ops import OPS
from hilc.schedule.estimate import UNLIMITED, Estimator, Segment, Sketch
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.transforms.feed import fed_node


@dataclass(frozen=True)
class Objective:
    """Objective of the search, apart from memory."""

    #: Price of a byte of flash in instructions.
    flash_worth: float = 0.0
    #: Limit of the program's flash in bytes.
    flash_limit: int | None = None


@dataclass(frozen=True, eq=False)
class Rest:
    """Lower bounds of the groups of some layers that are not laid out yet."""

    groups: GroupsOfLayers
    cost: float
    memory_bound: int
    #: Cost with the price of flash.
    priced: float

    @property
    def first(self) -> int:
        """Index of the first layer."""
        return self.groups.first

    @property
    def last(self) -> int:
        """Index of the last layer."""
        return self.groups.last

    def cost_at(self, flash_worth: float) -> float:
        """Return :attr:`priced`, which is for the price of the objective."""
        return self.priced


class GroupsOfLayers:
    """Fused groups of the layers ``first`` to ``last``, which are laid out one after the other, as
    far as they may matter.

    ``tried`` yields them, and a lower bound of all that follow before one is laid out.
    """

    def __init__(
        self, first: int, last: int, memory_bound: int, tried: Iterator[Segment | LeastCost]
    ) -> None:
        self.first = first
        self.last = last
        self._memory_bound = memory_bound
        self._tried = tried
        #: Groups that are laid out.
        self.found: list[Segment] = []
        #: Lower bounds of the groups not laid out; None if there are none.
        self.rest: Rest | None = None
        self.lay_out()

    @property
    def options(self) -> list[Segment | Rest]:
        """The groups, and the bounds of those not laid out."""
        return [*self.found, *([] if self.rest is None else [self.rest])]

    def lay_out(self) -> None:
        """Lay out one more group, and find those that are laid out already."""
        self.rest = None
        for tried in self._tried:
            if isinstance(tried, LeastCost):
                self.rest = Rest(self, tried.instructions, self._memory_bound, tried.priced)
                return
            self.found.append(tried)

    def lay_out_all(self) -> None:
        """Lay out every group."""
        while self.rest is not None:
            self.lay_out()

    def has_cost(self, most: float, flash_worth: float) -> bool:
        """Return whether one of the groups costs at most ``most``, with the price of its flash."""
        while not any(segment.cost_at(flash_worth) <= most for segment in self.found):
            if self.rest is None or self.rest.priced > most:
                return False
            self.lay_out()
        return True


class _Spans(NamedTuple):
    """Layers in a row, as many in each: the first ones, and lower bounds of the memory of groups
    of them.
    """

    firsts: npt.NDArray[np.int64]
    memory_bounds: npt.NDArray[np.int64]


class FusedGroups:
    """Fused groups of a graph's layers, each estimated once.

    ``singles`` are the segments of the single layers.
    """

    def __init__(
        self,
        planner: Planner,
        estimator: Estimator,
        singles: Sequence[Sequence[Segment]],
        policy: SearchPolicy,
    ) -> None:
        self._lowering = planner.lowering
        self._graph = planner.lowering.graph
        self._estimator = estimator
        self._singles = singles
        self._policy = policy
        self._nodes = estimator.nodes
        self._segments: dict[Group, Segment | None] = {}
        self._sketches: dict[Group, Sketch] = {}
        #: The fastest kernels of groups.
        self._fastest: dict[Group, tuple[str, ...] | None] = {}
        #: Groups by those with the fastest kernels, and the price of flash.
        self._priced: dict[tuple[Group, float], Group] = {}
        #: Least cost by group and price of an entry's flash.
        self._least_costs: dict[tuple[Group, float], LeastCost | None] = {}
        #: Spans by their number of layers.
        self._known_spans: dict[int, _Spans] = {}
        #: Position of a layer, by name, among all nodes, and among those that are computed.
        self._positions = {node.name: i for i, node in enumerate(self._graph.nodes)}
        self._steps = {node.name: i for i, node in enumerate(self._nodes)}

    @cached_property
    def has_expansions(self) -> bool:
        """Whether some layers can be computed by slices of channels."""
        names = tuple(node.name for node in self._graph.nodes)
        return self._lowering.has_expansions(Group(names, sliced=self._policy.slice_channels))

    def within(
        self,
        limit: int,
        objective: Objective,
        *,
        sliced: bool = False,
    ) -> list[GroupsOfLayers]:
        """Return fused groups that take at most ``limit`` bytes, for layers with no kernel that
        takes as little at about the cost of the best one, or that compute rows which nothing reads:
        a group leaves these out.

        With ``sliced`` expansions are computed by slices of channels where nothing else keeps the
        limit.

        Shorter groups are preferred: layers that shorter segments cover at about the cost of the
        best kernels are not tried as one group.
        """
        count = len(self._nodes)
        worth = objective.flash_worth
        best = [min(found, key=lambda s: s.cost_at(worth)) for found in self._singles]
        # What a group would take for the rows that are read.
        shares = self._lowering.row_shares
        costs = [s.cost_at(worth) * shares.get(s.names[0], 1.0) for s in best]
        exceeding = sum(segment.memory_bound > limit for segment in best)
        excess = self._policy.cheap_groups * sum(costs) / max(1, exceeding)

        def most(first: int, last: int, blocked: int) -> float:
            """Return what segments of these layers may cost for longer groups not to be tried."""
            own = sum(costs[first : last + 1])
            return max(self._policy.cheap_group * own, own + blocked * excess)

        blocked = [
            not any(s.memory_bound <= limit and s.cost_at(worth) <= most(i, i, 1) for s in found)
            for i, found in enumerate(self._singles)
        ]
        if not any(blocked):
            return []
        before = np.concatenate([[0], np.cumsum(blocked)])
        found: list[GroupsOfLayers] = []
        #: For each layer, the ends of segments that start with it.
        ends: list[list[int]] = [[] if blocked[i] else [i] for i in range(count)]
        #: Ends of the segments that are kept whatever their cost.
        kept = [list(own) for own in ends]
        left = max(self._policy.tried_layers, self._policy.tried_layers_each * count)
        for length in range(1, min(self._policy.longest_group, count) + 1):
            spans = self._spans(length)
            is_tried = (before[spans.firsts + length] > before[spans.firsts]) & (
                spans.memory_bounds <= limit
            )
            places = np.flatnonzero(is_tried).tolist()
            if length > 1 and length * len(places) > left:
                break
            for place in places:
                first, bound = int(spans.firsts[place]), int(spans.memory_bounds[place])
                last = first + length - 1
                if (
                    # Alone it would collect the rows.
                    not (length == 1 and self._is_fed(self._nodes[first].name))
                    and not _is_covered(ends, first, last)
                    and self._may_fuse(first, last)
                ):
                    left -= length
                    slices = sliced and not _is_covered(kept, first, last)
                    tried = self._group_segments(first, last, limit, objective, sliced=slices)
                    groups = GroupsOfLayers(first, last, bound, tried)
                    if not self._estimator.bounds_groups:
                        groups.lay_out_all()
                    found.append(groups)
                    if groups.options:
                        kept[first].append(last)
                    if groups.has_cost(
                        most(first, last, int(before[last + 1] - before[first])), worth
                    ):
                        ends[first].append(last)
        return found

    def _spans(self, length: int) -> _Spans:
        """Return the spans of ``length`` layers that may be fused as far as shapes show."""
        if length not in self._known_spans:
            needed = max(1, length - 1)
            begins = self._images[: len(self._nodes) - length + 1] >= needed
            if length > self._policy.free_group:
                begins = begins & self._narrow[: len(begins)] & self._narrow[length:]
            firsts = np.flatnonzero(begins)
            bound = self._estimator.least_memory_bound
            bounds = [bound(first, first + length - 1) for first in firsts.tolist()]
            self._known_spans[length] = _Spans(firsts, np.array(bounds, np.int64))
        return self._known_spans[length]

    @cached_property
    def _narrow(self) -> npt.NDArray[np.bool_]:
        """For each layer and the end, whether a long group may begin or end there: fewer bytes are
        live than a layer earlier, or as many and no more than a layer later.
        """
        sizes = [self._estimator.bytes_after(step) for step in range(len(self._nodes))]
        found = [True, True]
        for before, own, after in zip(sizes, sizes[1:], sizes[2:], strict=False):
            found.append(own < before or own == before <= after)
        return np.array([*found, True][: len(sizes) + 1])

    @cached_property
    def _images(self) -> npt.NDArray[np.int64]:
        """Number of layers from each one on that output an image or read fed rows.

        No other layer runs by rows.
        """
        found = np.zeros(len(self._nodes) + 1, np.int64)
        for step in reversed(range(len(self._nodes))):
            node = self._nodes[step]
            if OPS[node.op].fed or is_image(self._graph.tensors[node.name]):
                found[step] = found[step + 1] + 1
        return found[:-1]

    def _group_segments(
        self, first: int, last: int, limit: int, objective: Objective, *, sliced: bool = False
    ) -> Iterator[Segment | LeastCost]:
        """Yield groups of these layers that take at most ``limit`` bytes, those first that are laid
        out already; before another is laid out, a lower bound of the costs of all that follow.
        """
        names = tuple(node.name for node in self._nodes[first : last + 1])
        worth = objective.flash_worth
        prices = self._estimator.prices(worth)
        slices = 0
        if sliced:
            unsliced = next(self._steps_of(names, worth), None)
            if unsliced is None:
                return
            if not self._least_of_step(unsliced, limit, objective, prices):
                slices = self._policy.slice_channels
                if not self._lowering.has_expansions(Group(names, sliced=slices)):
                    return
        waiting: list[Iterator[Segment | LeastCost]] = []
        bounds: dict[int, LeastCost] = {}
        for step in self._steps_of(names, worth, slices):
            own = self._step_segments(step, limit, objective, prices)
            number, is_empty = len(waiting), True
            waiting.append(own)
            for found in own:
                is_empty = False
                if isinstance(found, LeastCost):
                    bounds[number] = found
                    break
                yield found
            if is_empty:
                break
        while bounds:
            yield least_of(list(bounds.values()))
            # The cheapest first: fewer rows at a time hardly matter where more of them fit.
            number = min(bounds, key=lambda number: (bounds[number].priced, number))
            del bounds[number]
            is_empty = True
            for found in waiting[number]:
                if isinstance(found, LeastCost):
                    bounds[number] = found
                    break
                is_empty = False
                yield found
            if is_empty and number not in bounds:
                # More rows at a time take more memory.
                bounds = {n: bound for n, bound in bounds.items() if n < number}

    def _step_segments(
        self, step: Sequence[Group], limit: int, objective: Objective, prices: Prices
    ) -> Iterator[Segment | LeastCost]:
        """Yield the groups of one number of rows at a time that take at most ``limit`` bytes;
        before one is laid out, a lower bound of the costs of all that follow.
        """
        tried: list[Segment | Sketch | None] = []
        for group in step:
            if isinstance(self._foreseen(group, limit, prices), LeastCost):
                yield least_of(self._least_of_step(step, limit, objective, prices))
            tried.append(self._tried(group, limit))
        within = [s for s in tried if isinstance(s, Segment) and s.memory_bound <= limit]
        yield from within
        if not within and tried[0] is not None:
            yield from self._smaller(step[0], limit, prices)

    def _steps_of(
        self, names: tuple[str, ...], worth: float, slices: int = 0
    ) -> Iterator[Sequence[Group]]:
        """Yield the groups of some layers for each number of rows at a time; for a single layer
        also the backward one. Each is scheduled only when it is reached: many groups exceed the
        limit with one row already.
        """
        # The last layer may have one row: an average over the image.
        shapes = [self._graph.tensors[name].shape for name in names]
        height = max((shape[1] for shape in shapes if len(shape) == 4), default=1)
        for rows in self._policy.fused_rows:
            try:
                group = self._with_cheapest_kernels(Group(names, rows), worth)
            except NotFusible:
                return
            if slices:
                yield [replace(group, sliced=slices)]
            elif len(names) == 1:
                yield [group, replace(group, direction="backward")]
            else:
                yield [group]
            if rows >= height:
                return

    def _least_of_step(
        self, step: Sequence[Group], limit: int, objective: Objective, prices: Prices
    ) -> list[LeastCost]:
        """Return lower bounds of the cost of a step's groups within the limit; without any the next
        step is not tried.
        """
        worth = objective.flash_worth
        foreseen = [self._foreseen(group, limit, prices) for group in step]
        found = [one for one in foreseen if _may_be_within(one, limit)]
        if not any(isinstance(one, Segment) for one in found) and foreseen[0] is not None:
            smaller = next(self._smaller(step[0], limit, prices), None)
            found += [] if smaller is None else [smaller]
        return [
            LeastCost(one.cost, one.cost_at(worth)) if isinstance(one, Segment) else one
            for one in found
        ]

    def _with_cheapest_kernels(self, group: Group, worth: float) -> Group:
        """Return a group with the kernel of each layer that is cheapest with the price of its
        flash, among those that compute all of its bands.
        """
        if (group, worth) not in self._priced:
            prices = self._estimator.prices(worth)
            by_price = self._lowering.kernels_within(group, UNLIMITED, UNLIMITED, prices)
            if group not in self._fastest:
                free = self._estimator.prices(0.0)
                self._fastest[group] = self._lowering.kernels_within(
                    group, UNLIMITED, UNLIMITED, free
                )
            chosen = group if by_price is None else replace(group, kernels=by_price)
            self._priced[group, worth] = group if by_price == self._fastest[group] else chosen
        return self._priced[group, worth]

    def _smaller(self, group: Group, limit: int, prices: Prices) -> Iterator[Segment | LeastCost]:
        """Yield the group with the cheapest kernels that leave it within the limit; before a group
        is laid out, lower bounds of its cost with these and the next kernels.
        """
        first, last = self._steps[group.nodes[0]], self._steps[group.nodes[-1]]
        scratch, live = self._estimator.group_rooms(first, last, limit)
        tried: tuple[str, ...] | None = None
        excess = limit
        for _ in range(self._policy.kernel_exchanges):
            kernels = self._lowering.kernels_within(group, scratch, live, prices)
            if kernels is not None and kernels == tried:
                less = self._least_exchange(group, kernels, (scratch, live), prices)
                scratch, live = scratch - less, live - less
                kernels = self._lowering.kernels_within(group, scratch, live, prices)
            if kernels is None:
                return
            chosen = replace(group, kernels=kernels)
            if chosen not in self._segments:
                least = self._lowering.least_cost_within(group, scratch, live, prices)
                assert least is not None, "there are kernels"
                yield least
            found = self._segment(chosen)
            if found is None:
                return
            if found.memory_bound <= limit:
                yield found
                return
            # Its rows and scratch do not lie as close as they could, or the output not as far over
            # the scratch, which it may with the next kernels.
            excess, tried = min(excess, found.memory_bound - limit), kernels
            scratch, live = scratch - excess, live - excess

    def _least_exchange(
        self, group: Group, kernels: tuple[str, ...], rooms: tuple[int, int], prices: Prices
    ) -> int:
        """Return by how many bytes less of both rooms the group has other kernels, or none."""
        scratch, live = rooms

        def are_others(less: int) -> bool:
            within = self._lowering.kernels_within(group, scratch - less, live - less, prices)
            return within != kernels

        most = 1
        while not are_others(most):
            most *= 2
        return bisect_left(range(most), True, key=are_others)

    def _foreseen(
        self, group: Group, limit: int, prices: Prices
    ) -> Segment | Sketch | LeastCost | None:
        """Return the result of :meth:`_tried` if it needs no layout, otherwise lower bounds of its
        cost.
        """
        if group in self._segments:
            return self._segments[group]
        try:
            sketch = self._sketch(group, limit)
        except NotFusible:
            return None
        if sketch is not None:
            return sketch
        if (group, prices.entry) not in self._least_costs:
            self._least_costs[group, prices.entry] = self._lowering.least_cost(group, prices)
        return self._least_costs[group, prices.entry]

    def _tried(self, group: Group, limit: int) -> Segment | Sketch | None:
        """Return the segment of a group, or a sketch if it certainly takes more than ``limit``
        bytes; None if it cannot be fused.
        """
        if group not in self._segments:
            try:
                sketch = self._sketch(group, limit)
            except NotFusible:
                return None
            if sketch is not None:
                return sketch
        return self._segment(group)

    def _sketch(self, group: Group, limit: int) -> Sketch | None:
        """Return the sketch of a group that certainly takes more than ``limit`` bytes; None for
        another. Raise :class:`NotFusible` if it cannot be fused.
        """
        if group not in self._sketches:
            outlines = self._lowering.outlines(group)
            first, last = self._steps[group.nodes[0]], self._steps[group.nodes[-1]]
            bound = self._estimator.group_memory_bound(first, last, outlines)
            if any(outline.calls is None for outline in outlines):
                # Its layouts say whether it has kernels.
                bound = 0
            self._sketches[group] = Sketch(bound)
        sketch = self._sketches[group]
        return sketch if sketch.memory_bound > limit else None

    def _segment(self, group: Group) -> Segment | None:
        """Return the segment of a group; None if it cannot be fused."""
        if group not in self._segments:
            try:
                call = self._lowering.group(group)
            except NotFusible:
                self._segments[group] = None
            else:
                first, last = self._steps[group.nodes[0]], self._steps[group.nodes[-1]]
                self._segments[group] = self._estimator.fused(group, call, first, last)
        return self._segments[group]

    def segment(self, group: Group) -> Segment | None:
        """Return the segment of a group; None if these layers cannot be fused."""
        return self._segment(group) if self._steps.keys() >= set(group.nodes) else None

    def _may_fuse(self, first: int, last: int) -> bool:
        """Return whether the layers may be fused, judged one by one."""
        names = [node.name for node in self._nodes[first : last + 1]]
        positions = [self._positions[name] for name in names]
        together = positions == list(range(positions[0], positions[0] + len(names)))
        # The last layer may be an average over the whole height, which runs by rows in a group
        # only.
        return together and all(map(self._runs_by_rows, names[: max(1, len(names) - 1)]))

    def _is_fed(self, name: str) -> bool:
        return OPS[self._graph.nodes[self._positions[name]].op].fed

    def _runs_by_rows(self, name: str) -> bool:
        return self._is_fed(name) or self._lowering.runs_by_rows(name)


def _may_be_within(
    foreseen: Segment | Sketch | LeastCost | None, limit: int
) -> TypeGuard[Segment | LeastCost]:
    """Return whether a group may take at most ``limit`` bytes."""
    if isinstance(foreseen, Segment):
        return foreseen.memory_bound <= limit
    return isinstance(foreseen, LeastCost)


def _is_covered(ends: Sequence[Sequence[int]], first: int, last: int) -> bool:
    """Return whether segments with these ``ends`` form a path from ``first`` to ``last``."""
    reached = {first}
    for step in range(first, last + 1):
        if step in reached:
            reached.update(end + 1 for end in ends[step] if end <= last)
    return last + 1 in reached


def require_fed_group(planner: Planner, policy: SearchPolicy = POLICY) -> None:
    """Raise :class:`~hilc.errors.InputError` unless a group of first layers reads fed rows."""
    graph = planner.lowering.graph
    node = fed_node(graph)
    assert node is not None, "a graph that is fed has the node"
    names = [n.name for n in graph.nodes[graph.nodes.index(node) :]]
    reason = ""
    for count in range(2, min(len(names), policy.longest_group) + 1):
        try:
            planner.lowering.outlines(Group(tuple(names[:count])))
        except NotFusible as error:
            reason = reason or str(error)
        else:
            return
    raise InputError(
        f"the rows of {node.inputs[0]!r} cannot be fed to {graph.name!r}: {reason}",
        "give the input as a whole: feed=whole",
    )
