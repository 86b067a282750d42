"""The reference whose operator definitions a graph computes (:class:`hilc.ir.Numerics`)."""

from __future__ import annotations

from dataclasses import replace

from hilc.errors import ModelError
from hilc.ir import Graph, Node, Numerics
from hilc.ops import OPS
from hilc.transforms.called_graphs import with_called


def with_numerics(graph: Graph, numerics: Numerics) -> Graph:
    """Return the graph with all of its nodes by one definition, and those of graphs it calls."""
    nodes = (_by(node, numerics) for node in graph.nodes)
    return graph.with_(nodes=tuple(nodes))


def _by(node: Node, numerics: Numerics) -> Node:
    changed = with_called(node, lambda graph: with_numerics(graph, numerics))
    return replace(changed, numerics=numerics)


def numerics_of(graph: Graph) -> Numerics | None:
    """Return the definition that all nodes are by; None for several."""
    found = {node.numerics for node in graph.nodes}
    return found.pop() if len(found) == 1 else None


def computed_otherwise(graph: Graph, numerics: Numerics) -> list[Node]:
    """Return the nodes that would compute something else for some input, were they by
    ``numerics``.
    """
    found = []
    for node in graph.nodes:
        for called in OPS[node.op].called_graphs(node):
            found += computed_otherwise(called, numerics)
        if node.numerics is not numerics and _differs(graph, node, numerics):
            found.append(node)
    return found


def _differs(graph: Graph, node: Node, numerics: Numerics) -> bool:
    by_numerics = OPS[node.op].by_numerics
    if by_numerics is None:
        return False
    own, other = node, replace(node, numerics=numerics)
    try:
        return by_numerics(own, graph.ins(node), graph.outs(node)) != by_numerics(
            other, graph.ins(node), graph.outs(node)
        )
    except ModelError:
        return True  # one of them does not define it
