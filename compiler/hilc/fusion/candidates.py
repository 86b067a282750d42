"""Calls that can compute a graph's layers on a core, alone or fused.

Lowering a layer packs its weights and proves its requantization, so it is done once per graph: the
search and all programs that it plans share the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hilc.external import ExternalCall
from hilc.fusion.bands import NotFusible
from hilc.fusion.bounds import Estimate, LeastCost, Prices
from hilc.fusion.call import FusedCall
from hilc.fusion.fused import GroupCalls
from hilc.ir import Graph, Node
from hilc.lowering.access import Access, ForbiddenInterval, access_of, apart, forbidden_interval
from hilc.lowering.choice import Group
from hilc.lowering.compressed import compressed_calls
from hilc.lowering.kernels import KernelCall
from hilc.lowering.registry import LoweredLayers
from hilc.target import Cpu

Call = KernelCall | ExternalCall | FusedCall


class Lowering:
    """Layers of one graph on one core, lowered on first use."""

    def __init__(self, graph: Graph, cpu: Cpu) -> None:
        self.graph = graph
        self.cpu = cpu
        self._layers = LoweredLayers(cpu)
        self._group_calls = GroupCalls(graph, cpu, self._layers)
        self._calls: dict[str, tuple[KernelCall | ExternalCall, ...]] = {}
        #: Call of a group, or the reason why there is none.
        self._groups: dict[Group, FusedCall | str] = {}
        self._outlines: dict[Group, list[Estimate] | str] = {}
        #: Access of each call, by its identity; the call is stored too, to keep it alive.
        self._accesses: dict[int, tuple[Call, Access | None]] = {}
        self._differences: dict[tuple[int, int, int], ForbiddenInterval] = {}
        self._scratch_differences: dict[tuple[int, int], ForbiddenInterval] = {}
        self._output_differences: dict[int, ForbiddenInterval | None] = {}

    def calls(self, node: Node) -> tuple[KernelCall | ExternalCall, ...]:
        """Return the calls that can compute ``node``, the fastest first; behind
        them those whose arrays are stored compressed.
        """
        if node.name not in self._calls:
            ins, outs = self.graph.ins(node), self.graph.outs(node)
            layer = self._layers.of(node, ins, outs)
            # A state's new value has the buffer of the old one, which tiles would read too late.
            tiled = not self.graph.states
            found = compressed_calls(layer, tiled=tiled)
            self._calls[node.name] = (*layer.calls, *found)
        return self._calls[node.name]

    def group(self, group: Group) -> FusedCall:
        """Return the call that computes the nodes of ``group``; raise :class:`NotFusible` if
        there is none.
        """
        if group not in self._groups:
            try:
                self._groups[group] = self._group_calls.call(group)
            except NotFusible as error:
                self._groups[group] = str(error)
        found = self._groups[group]
        if isinstance(found, str):
            raise NotFusible(found)
        return found

    def outlines(self, group: Group) -> list[Estimate]:
        """Return outlines, one of which describes the result of :meth:`group`, at a fraction of its
        compile time.

        Raise NotFusible if the nodes cannot be fused.
        """
        if group not in self._outlines:
            try:
                self._outlines[group] = self._group_calls.outlines(group)
            except NotFusible as error:
                self._outlines[group] = str(error)
        found = self._outlines[group]
        if isinstance(found, str):
            raise NotFusible(found)
        return found

    def runs_by_rows(self, node: str) -> bool:
        """Return whether kernels compute all row bands of a layer."""
        try:
            return all(outline.calls is not None for outline in self.outlines(Group((node,))))
        except NotFusible:
            return False

    @property
    def row_shares(self) -> Mapping[str, float]:
        """By layer the part of its rows that the results depend on, where that is not all: only a
        group leaves the others out.
        """
        return self._group_calls.row_shares

    def has_expansions(self, group: Group) -> bool:
        """Return whether some layers of ``group`` can be computed by slices of channels."""
        return self._group_calls.has_expansions(group)

    def least_outlines(self, group: Group) -> list[Estimate]:
        """Return outlines of ``group`` with the kernels of the least scratch; raise
        :class:`NotFusible` if there is no call of it.
        """
        found = self._group_calls.least_outlines(group)
        usual = [outline for outline in found if outline.calls is not None]
        if not usual:
            raise NotFusible("no kernels compute all of its row bands")
        return usual

    def kernels_within(
        self, group: Group, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> tuple[str, ...] | None:
        """Return the kernels, cheapest with the price of their flash, with which an outline of
        ``group``, which can be fused, has at most these figures, ``live_bytes`` without its
        ``outside_bytes``; None if there are none.
        """
        return self._group_calls.kernels_within(group, scratch_bytes, live_bytes, prices)

    def least_cost(self, group: Group, prices: Prices) -> LeastCost | None:
        """Return lower bounds of the cost of ``group``, which can be fused; None if it has no
        kernels.
        """
        return self._group_calls.least_cost(group, prices)

    def least_cost_within(
        self, group: Group, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> LeastCost | None:
        """Return the least cost over all kernels with which an outline of ``group`` has at most
        these figures; None if there are none.
        """
        return self._group_calls.least_cost_within(group, scratch_bytes, live_bytes, prices)

    def differences(
        self, call: Call, reads: Sequence[str], writes: Sequence[str], input: int, output: int
    ) -> ForbiddenInterval | None:
        """Return the forbidden offset interval of an output and an input of ``call``.

        ``reads`` are its tensors in its own order; ``input`` and ``output`` are positions in them
        and in ``writes``. None where it promises nothing.
        """
        if id(call) not in self._accesses:
            tensors = self.graph.tensors
            access = access_of(call, [tensors[n] for n in reads], [tensors[n] for n in writes])
            self._accesses[id(call)] = call, access
        access = self._accesses[id(call)][1]
        if access is None:
            return None
        key = id(call), input, output
        if key not in self._differences:
            self._differences[key] = forbidden_interval(access, input, output)
        return self._differences[key]

    def scratch_differences(self, call: Call, input: int) -> ForbiddenInterval | None:
        """Return the forbidden offset interval of the scratch and an input of ``call``, which is
        not needed afterwards; None where its scratch is apart from it.
        """
        if not isinstance(call, FusedCall) or not call.scratch_bytes:
            return None
        key = id(call), input
        if key not in self._scratch_differences:
            # Calls of groups are kept, and so is the key.
            self._scratch_differences[key] = call.scratch_differences(input)
        return self._scratch_differences[key]

    def output_differences(self, call: Call) -> ForbiddenInterval | None:
        """Return the forbidden offset interval of the scratch and the output of ``call``; None
        where these are apart.
        """
        if not isinstance(call, FusedCall) or not call.scratch_bytes:
            return None
        key = id(call)
        if key not in self._output_differences:
            found = call.output_differences()
            is_apart = found == apart(call.output_bytes, call.scratch_bytes)
            self._output_differences[key] = None if is_apart else found
        return self._output_differences[key]
