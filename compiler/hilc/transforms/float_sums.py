"""Rounding of float32 sums, which depends on the core: fused multiply-add, or two roundings.

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
    """Return the graph as ``cpu`` computes it: for one that fuses, by its vectors."""
    if not cpu.features >= _FUSING:
        return graph
    return graph.with_(
        nodes=tuple(
            replace(node, rounding=Rounding.SINGLE) if _on_vectors(graph, node) else node
            for node in graph.nodes
        )
    )


def _on_vectors(graph: Graph, node: Node) -> bool:
    operator = OPS.get(node.op)
    return operator is not None and operator.on_vectors(node, graph.ins(node))
