"""Calls of a graph's fused groups: the best variant of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from operator import lt

from hilc.fusion.bands import Geometry, NotFusible, RowNodes, Variant, row_shares
from hilc.fusion.bounds import Bounds, Estimate, KnownWays, LeastCost, Prices, least_of
from hilc.fusion.call import FusedCall
from hilc.fusion.layout import Frame, KnownArenas, Layout, Rank
from hilc.fusion.schedule import Schedule
from hilc.fusion.slices import expansions, sliced, whole
from hilc.fusion.stages import Stages
from hilc.ir import Graph, Node
from hilc.lowering.access import ForbiddenInterval, forbidden_interval
from hilc.lowering.choice import Group
from hilc.lowering.registry import LoweredLayers
from hilc.target import Cpu

#: A group without its kernels.
_Key = tuple[tuple[str, ...], int, str, int]


class GroupCalls:
    """Fused groups of one graph, with a cache of their common parts.

    ``layers`` are its layers as far as they are lowered.
    """

    def __init__(self, graph: Graph, cpu: Cpu, layers: LoweredLayers | None = None) -> None:
        self._graph = graph
        self._positions = {node.name: i for i, node in enumerate(graph.nodes)}
        self._consumers = graph.consumers()
        self._row_nodes = RowNodes()
        self._stages = Stages(layers or LoweredLayers(cpu))
        self._ways: KnownWays = {}
        self._arenas: KnownArenas = {}
        #: By the shape of a group and its variant; they are kept, so that their identities are too.
        self._schedules: dict[tuple[object, Variant], Schedule] = {}
        #: By group without kernels its schedules, or the reason why there are none.
        self._frames: dict[_Key, list[Frame] | str] = {}
        self._latest: tuple[Group, list[Layout]] | None = None

    def call(self, group: Group) -> FusedCall:
        """Return the call that computes the nodes of ``group``; raise :class:`NotFusible` if there
        is none.
        """
        layouts = self._layouts(group)
        if len(layouts) == 1:
            only = layouts[0].call(None)
            assert only is not None, "without an alias there is always a way"
            return only
        best: tuple[Rank, FusedCall] | None = None
        for layout in sorted(layouts, key=Layout.least_memory):
            call = layout.call(None if best is None else best[0])
            if call is None:
                continue
            rank = _rank(call)
            if best is None or rank < best[0]:
                best = rank, call
        assert best is not None, "without an alias there is always a way"
        return best[1]

    def outlines(self, group: Group) -> list[Estimate]:
        """Return outlines, one of which describes the call of ``group``.

        Raise :class:`NotFusible` if there is no such call.
        """
        return [layout.outline() for layout in self._layouts(group)]

    def least_outlines(self, group: Group) -> list[Estimate]:
        """Return outlines with the kernels of the least scratch."""
        return [frame.least_outline() for frame in self._frames_of(group)]

    def kernels_within(
        self, group: Group, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> tuple[str, ...] | None:
        """Return the cheapest kernels with which the group's outline has at most these figures
        (:meth:`Bounds.kernels_within`); None if there are none.
        """
        for frame in sorted(self._frames_of(group), key=_arena_bytes):
            if (kernels := frame.kernels_within(scratch_bytes, live_bytes, prices)) is not None:
                return kernels
        return None

    def least_cost(self, group: Group, prices: Prices) -> LeastCost | None:
        """Return lower bounds of the cost of the group's call; None if it has no kernels."""
        return _least(frame.cost(group.kernels, prices) for frame in self._frames_of(group))

    def least_cost_within(
        self, group: Group, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> LeastCost | None:
        """Return the least cost over all kernels with which the group's outline has at most these
        figures; None if there are none.
        """
        return _least(
            frame.least_cost_within(scratch_bytes, live_bytes, prices)
            for frame in self._frames_of(group)
        )

    def _layouts(self, group: Group) -> list[Layout]:
        """Return the layouts of the group's variants, cached until another group follows."""
        if self._latest is None or self._latest[0] != group:
            layouts = [Layout(frame, group) for frame in self._frames_of(group)]
            self._latest = group, layouts
        return self._latest[1]

    def _frames_of(self, group: Group) -> list[Frame]:
        """Return the group's schedules, which do not depend on its kernels."""
        if group.kernels and len(group.kernels) != len(group.nodes):
            fact = f"{len(group.kernels)} kernels for {len(group.nodes)} nodes"
            raise NotFusible(fact)
        key = group.nodes, group.rows, group.direction, group.sliced
        if key not in self._frames:
            group = replace(group, kernels=())
            try:
                nodes = self._nodes(group)
                graph, stages = self._graph, whole(nodes)
                if group.sliced > 0:
                    graph, stages = sliced(graph, nodes, self._consumers, group.sliced)
                geometry = Geometry(graph, group, nodes, stages, self._consumers, self._row_nodes)
                schedules: dict[object, Schedule] = {}
                known: dict[Variant, tuple[int, int]] = {}
                for variant in geometry.variants():
                    if variant in known:
                        continue
                    schedule = self._schedule(geometry, variant)
                    known[variant] = schedule.memory_bounds
                    if not schedule.has_starts:
                        known[replace(variant, long_start=False)] = schedule.memory_bounds
                    forwards = known[replace(variant, backwards=False)]
                    # The order of demand hardly matters where it leaves the bounds as they are.
                    if not variant.backwards or any(map(lt, known[variant], forwards)):
                        # Variants may be equivalent.
                        schedules.setdefault(schedule.key, schedule)
                self._frames[key] = [
                    Frame(self._stages, own, self._ways, self._arenas) for own in schedules.values()
                ]
            except NotFusible as error:
                self._frames[key] = str(error)
        found = self._frames[key]
        if isinstance(found, str):
            raise NotFusible(found)
        return found

    def _schedule(self, geometry: Geometry, variant: Variant) -> Schedule:
        """Return the schedule of a group; groups of the same shape share what it consists of."""
        key = geometry.key, variant
        if key not in self._schedules:
            self._schedules[key] = Schedule(geometry, variant)
            return self._schedules[key]
        return self._schedules[key].of(geometry)

    @cached_property
    def row_shares(self) -> Mapping[str, float]:
        """The part of its rows that the results depend on (:func:`~hilc.fusion.bands.row_shares`),
        by layer.
        """
        return row_shares(self._graph, self._row_nodes)

    def has_expansions(self, group: Group) -> bool:
        """Return whether some of the group's layers can be computed by slices of channels."""
        try:
            nodes = self._nodes(group)
        except NotFusible:
            return False
        return bool(expansions(self._graph, nodes, self._consumers, group.sliced))

    def _nodes(self, group: Group) -> tuple[Node, ...]:
        """Return the nodes that ``group`` names."""
        for name in group.nodes:
            if name not in self._positions:
                raise NotFusible(f"the graph has no node {name!r} to compute")
        positions = [self._positions[name] for name in group.nodes]
        if not positions or positions != list(range(positions[0], positions[0] + len(positions))):
            raise NotFusible(f"{', '.join(map(repr, group.nodes))} are not consecutive nodes")
        return tuple(self._graph.nodes[position] for position in positions)


def _arena_bytes(frame: Bounds) -> int:
    """Return a lower bound of the rows between a group's layers."""
    return frame.schedule.arena_bounds[0]


def _least(costs: Iterable[LeastCost | None]) -> LeastCost | None:
    """Return lower bounds of all that there are."""
    found = [cost for cost in costs if cost is not None]
    return least_of(found) if found else None


def _rank(call: FusedCall) -> Rank:
    """Return the sort key of a call.

    The memory is the group's scratch, inputs and output, with the output placed over the first
    input.
    """
    access = call.access((), ())
    assert access is not None
    sizes = [steps.size for steps in access.last_read]
    output = access.first_write[0].size
    if not sizes:
        # The rows of its only input are fed.
        return call.scratch_bytes + output, call.count, call.move_bytes
    differences: ForbiddenInterval = forbidden_interval(access, 0, 0)
    allowed = [differences.low, differences.high, *([0] if differences.allow(0) else [])]
    overlapped = min(max(sizes[0], d + output) - min(0, d) for d in allowed)
    memory = call.scratch_bytes + overlapped + sum(sizes[1:])
    return memory, call.count, call.move_bytes
