"""Remove operators that return their input unchanged, operands without effect, and all but the last
of shapes that follow each other.
"""

from __future__ import annotations

from dataclasses import replace

from hilc.errors import HilError
from hilc.ir import Graph, Node, Tensor
from hilc.ops import OPS


def drop_identities(graph: Graph) -> Graph:
    """Let the readers of an identity node read its input.

    A node that computes an output of the graph stays, since the output's name and buffer belong to
    the caller.
    """
    alias: dict[str, str] = {}
    views: dict[str, str] = {}
    kept: list[Node] = []
    outputs = frozenset(graph.outputs)
    for node in graph.nodes:
        inputs = tuple(alias.get(name, name) for name in node.inputs)
        if OPS[node.op].ignores_empty:
            inputs = tuple(name for name in inputs if graph.tensors[name].size)
        node = replace(node, inputs=inputs)
        if OPS[node.op].view:
            node = _of_source(graph, node, views)
            views[node.outputs[0]] = node.inputs[0]
        if _is_identity(graph, node) and node.outputs[0] not in outputs:
            alias[node.outputs[0]] = node.inputs[0]
        else:
            kept.append(node)
    states = tuple(replace(s, after=alias.get(s.after, s.after)) for s in graph.states)
    return graph.with_(nodes=tuple(kept), states=states)


def _of_source(graph: Graph, node: Node, views: dict[str, str]) -> Node:
    """Return a reshape of a view as a reshape of the view's source, if the node's output stays
    equal.
    """
    source = views.get(node.inputs[0])
    if source is None:
        return node
    moved = replace(node, inputs=(source, *node.inputs[1:]))
    out = graph.tensors[node.outputs[0]]
    try:
        signatures = OPS[node.op].infer(moved, graph.ins(moved))
    except HilError:
        return node
    return moved if signatures == [(out.shape, out.dtype)] else node


def _is_identity(graph: Graph, node: Node) -> bool:
    is_identity = OPS[node.op].is_identity
    if is_identity is None:
        return False
    source, result = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    return _same_meaning(source, result) and is_identity(node, graph.ins(node))


def _same_meaning(a: Tensor, b: Tensor) -> bool:
    return (a.shape, a.dtype, a.quant) == (b.shape, b.dtype, b.quant)
