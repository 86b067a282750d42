"""Calls of a graph's fused groups: the best variant of each."""

from __future__ import annotations

from dataclasses import replace

from hilc.fusion.bands import Geometry, NotFusible
from hilc.fusion.call import FusedCall
from hilc.fusion.layout import Layout, Outline
from hilc.fusion.schedule import Schedule
from hilc.fusion.stages import Stages
from hilc.ir import Graph, Node
from hilc.lowering.access import ForbiddenInterval, forbidden_interval
from hilc.lowering.choice import Group
from hilc.target import Cpu


def fuse(graph: Graph, group: Group, cpu: Cpu) -> FusedCall:
    """Return the call that computes the nodes of ``group``; raise :class:`NotFusible` if there
    is none.
    """
    return GroupCalls(graph, cpu).call(group)


class GroupCalls:
    """Fused groups of one graph, with a cache of their common parts."""

    def __init__(self, graph: Graph, cpu: Cpu) -> None:
        self._graph = graph
        self._positions = {node.name: i for i, node in enumerate(graph.nodes)}
        self._consumers = graph.consumers()
        self._stages = Stages(cpu)
        #: By group without kernels its schedules, or the reason why there are none.
        self._schedules: dict[Group, list[Schedule] | str] = {}
        self._latest: tuple[Group, list[Layout]] | None = None

    def call(self, group: Group) -> FusedCall:
        """Return the call for ``group``; see :func:`fuse`."""
        layouts = self._layouts(group)
        if len(layouts) == 1:
            only = layouts[0].call(None)
            assert only is not None, "without an alias there is always a way"
            return only
        best: tuple[tuple[int, int, int], FusedCall] | None = None
        for layout in sorted(layouts, key=Layout.least_memory):
            call = layout.call(None if best is None else best[0][0])
            if call is None:
                continue
            rank = _rank(call)
            if best is None or rank < best[0]:
                best = rank, call
        assert best is not None, "without an alias there is always a way"
        return best[1]

    def outlines(self, group: Group) -> list[Outline]:
        """Return outlines, one of which describes the call of ``group``.

        Raise :class:`NotFusible` if there is no such call.
        """
        return [layout.outline() for layout in self._layouts(group)]

    def least_outlines(self, group: Group) -> list[Outline]:
        """Return the same with the kernels of the least scratch."""
        return [layout.least_outline() for layout in self._layouts(group)]

    def kernels_within(
        self, group: Group, scratch_bytes: int, live_bytes: int
    ) -> tuple[int, ...] | None:
        """Return the cheapest kernels with which the group's outline has at most these figures
        (:meth:`Layout.kernels_within`); None if there are none.
        """
        for layout in sorted(self._layouts(group), key=Layout.least_memory):
            if (kernels := layout.kernels_within(scratch_bytes, live_bytes)) is not None:
                return kernels
        return None

    def _layouts(self, group: Group) -> list[Layout]:
        """Return the layouts of the group's variants, cached until another group follows."""
        if self._latest is None or self._latest[0] != group:
            if group.kernels and len(group.kernels) != len(group.nodes):
                fact = f"{len(group.kernels)} kernels for {len(group.nodes)} nodes"
                raise NotFusible(fact)
            schedules = self._schedules_of(replace(group, kernels=()))
            layouts = [Layout(self._stages, schedule, group) for schedule in schedules]
            self._latest = group, layouts
        return self._latest[1]

    def _schedules_of(self, group: Group) -> list[Schedule]:
        """Return the schedules of a group, which do not depend on its kernels."""
        if group not in self._schedules:
            try:
                geometry = Geometry(self._graph, group, self._nodes(group), self._consumers)
                schedules: dict[object, Schedule] = {}
                for variant in geometry.variants():
                    schedule = Schedule(geometry, variant)
                    # Variants may be equivalent.
                    schedules.setdefault(schedule.key, schedule)
                self._schedules[group] = list(schedules.values())
            except NotFusible as error:
                self._schedules[group] = str(error)
        found = self._schedules[group]
        if isinstance(found, str):
            raise NotFusible(found)
        return found

    def _nodes(self, group: Group) -> tuple[Node, ...]:
        """Return the nodes that ``group`` names."""
        for name in group.nodes:
            if name not in self._positions:
                raise NotFusible(f"the graph has no node {name!r} to compute")
        positions = [self._positions[name] for name in group.nodes]
        if not positions or positions != list(range(positions[0], positions[0] + len(positions))):
            raise NotFusible(f"{', '.join(map(repr, group.nodes))} are not consecutive nodes")
        return tuple(self._graph.nodes[position] for position in positions)


def _rank(call: FusedCall) -> tuple[int, int, int]:
    """Return the sort key of a call: memory, then calls, then moved bytes; less is better.

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
