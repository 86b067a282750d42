"""Rounding of float32 sums, which depends on the core: fused multiply-add, or two roundings.

This is not one of the passes, since results change, in their last bits.
"""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node, Rounding
from hilc.ops import OPS
from hilc.target import Cpu
from hilc.transforms.called_graphs import with_called

#: Features of cores whose vectors of floats have no other multiply-add than a fused one.
_FUSING = frozenset({"mve", "fpu"})


def with_float_sums(graph: Graph, cpu: Cpu) -> Graph:
    """Return the graph as ``cpu`` computes it, with the graphs that its nodes call: for a core
    that fuses, by its vectors.
    """
    return _fused(graph) if cpu.features >= _FUSING else graph


def _fused(graph: Graph) -> Graph:
    called = (with_called(node, _fused) for node in graph.nodes)
    return graph.with_(
        nodes=tuple(
            replace(node, rounding=Rounding.SINGLE) if _on_vectors(graph, node) else node
            for node in called
        )
    )


def _on_vectors(graph: Graph, node: Node) -> bool:
    operator = OPS.get(node.op)
    return operator is not None and operator.on_vectors(node, graph.ins(node))
