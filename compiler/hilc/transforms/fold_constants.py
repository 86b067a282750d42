"""Evaluation at compile time of nodes that depend on constants only."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from hilc.interpreter import run_node
from hilc.ir import Graph, Node, Tensor, of_node
from hilc.ops import OPS
from hilc.ops.verify import check_node


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constants by constants, computed by the operator's
    reference.

    An output of the graph stays computed: the caller expects an inference to write it.
    """
    tensors = dict(graph.tensors)
    kept: list[Node] = []
    outputs = frozenset(graph.outputs)
    for node in graph.nodes:
        folded = fold_node(node, tensors, outputs)
        if folded is None:
            kept.append(node)
        else:
            tensors.update({tensor.name: tensor for tensor in folded})
    return graph.with_(tensors=tensors, nodes=tuple(kept))


def fold_node(node: Node, tensors: Mapping[str, Tensor], outputs: Set[str]) -> list[Tensor] | None:
    """Return the outputs of a node as constants; None if an input is not constant, or if it
    computes one of ``outputs``.
    """
    # A loop may have no end.
    if OPS[node.op].control is not None:
        return None
    ins = [tensors[name] if name else None for name in node.inputs]
    foldable = all(t is None or t.is_constant for t in ins) and any(ins)
    if not foldable or not outputs.isdisjoint(node.outputs):
        return None
    graph = of_node(node, tensors)
    check_node(graph, node)
    results = run_node(graph, node, [t.data if t else None for t in ins])
    folded = []
    for tensor, data in zip(graph.outs(node), results, strict=True):
        data.flags.writeable = False
        folded.append(replace(tensor, data=data))
    return folded
