"""How sums of float32 are rounded, which is the core's: once with each product, or after it.

This is not one of the passes, since results change, in their last bits.
"""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node, Rounding
from hilc.ops import OPS
from hilc.target import Cpu

#: Features of cores whose vectors of floats have no other multiply-add than a fused one.
_FUSING = frozenset({"mve", "fpu"})


def with_float_sums(graph: Graph, cpu: Cpu) -> Graph:
    """Return the graph as ``cpu`` computes it: for one that fuses, with its sums rounded once."""
    if not cpu.features >= _FUSING:
        return graph
    return graph.with_(
        nodes=tuple(
            replace(node, rounding=Rounding.SINGLE) if _fuses(graph, node) else node
            for node in graph.nodes
        )
    )


def _fuses(graph: Graph, node: Node) -> bool:
    operator = OPS.get(node.op)
    if operator is None or operator.fuses_sums is None:
        return False
    ins = graph.ins(node)
    has_floats = bool(ins and ins[0] and ins[0].element.is_real)
    return has_floats and operator.fuses_sums(node, ins)
