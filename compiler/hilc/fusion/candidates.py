"""The calls that can compute a graph's layers on a core, alone or together.

Working out a layer's calls packs its weights and proves how they are requantised, so it is done
once a graph: the search, and every program that it plans, take them from here.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilc.external import ExternalCall
from hilc.fusion.bands import NotStreamable
from hilc.fusion.call import StreamCall
from hilc.fusion.layout import Outline
from hilc.fusion.streams import Streams
from hilc.ir import Graph, Node
from hilc.lowering import candidates
from hilc.lowering.access import Access, Differences, access_of, safe_differences
from hilc.lowering.choice import Group
from hilc.lowering.kernels import KernelCall
from hilc.target import Cpu

Call = KernelCall | ExternalCall | StreamCall


class Lowering:
    """The layers of one graph on one core; each is lowered when it is first asked for."""

    def __init__(self, graph: Graph, cpu: Cpu) -> None:
        self.graph = graph
        self.cpu = cpu
        self.streams = Streams(graph, cpu)
        self._calls: dict[str, tuple[KernelCall | ExternalCall, ...]] = {}
        #: The call of a group, or why there is none.
        self._groups: dict[Group, StreamCall | str] = {}
        self._outlines: dict[Group, list[Outline] | str] = {}
        #: By a call's identity, with the call, which keeps that its own.
        self._accesses: dict[int, tuple[Call, Access | None]] = {}
        self._differences: dict[tuple[int, int, int], Differences] = {}

    def calls(self, node: Node) -> tuple[KernelCall | ExternalCall, ...]:
        """The calls that can compute ``node``, the fastest first."""
        if node.name not in self._calls:
            ins, outs = self.graph.ins(node), self.graph.outs(node)
            self._calls[node.name] = candidates(node, ins, outs, self.cpu)
        return self._calls[node.name]

    def group(self, group: Group) -> StreamCall:
        """The call that computes the nodes of ``group``; :class:`NotStreamable` where none can."""
        if group not in self._groups:
            try:
                self._groups[group] = self.streams.call(group)
            except NotStreamable as error:
                self._groups[group] = str(error)
        found = self._groups[group]
        if isinstance(found, str):
            raise NotStreamable(found)
        return found

    def outlines(self, group: Group) -> list[Outline]:
        """What :meth:`group` is known to be one of before it is made, for a part of the work."""
        if group not in self._outlines:
            try:
                self._outlines[group] = self.streams.outlines(group)
            except NotStreamable as error:
                self._outlines[group] = str(error)
        found = self._outlines[group]
        if isinstance(found, str):
            raise NotStreamable(found)
        return found

    def differences(
        self, call: Call, reads: Sequence[str], writes: Sequence[str], input: int, output: int
    ) -> Differences | None:
        """How one of the tensors that ``call`` writes must not lie to one that it reads.

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
            self._differences[key] = safe_differences(access, input, output)
        return self._differences[key]
