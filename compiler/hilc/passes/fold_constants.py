"""Computes at compile time what depends on constants only."""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node, Tensor
from hilc.ops import OPS
from hilc.verify import check_node


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constants by their outputs, by the operator's reference.

    An output of the graph stays computed: the caller expects it to be written by a run.
    """
    tensors = dict(graph.tensors)
    kept: list[Node] = []
    for node in graph.nodes:
        ins = [tensors[name] if name else None for name in node.inputs]
        foldable = all(t is None or t.is_constant for t in ins) and any(ins)
        if not foldable or set(node.outputs) & set(graph.outputs):
            kept.append(node)
            continue
        for tensor in _evaluate(graph.with_(tensors=tensors), node):
            tensors[tensor.name] = tensor
    return graph.with_(tensors=tensors, nodes=tuple(kept))


def _evaluate(graph: Graph, node: Node) -> list[Tensor]:
    check_node(graph, node)
    ins, outs = graph.ins(node), graph.outs(node)
    results = OPS[node.op].reference(node, ins, outs, [t.data if t else None for t in ins])
    folded = []
    for tensor, data in zip(outs, results, strict=True):
        data.flags.writeable = False
        folded.append(replace(tensor, data=data))
    return folded
