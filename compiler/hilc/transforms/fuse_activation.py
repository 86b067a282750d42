"""Fusion of clamping activations into the operator before them."""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node
from hilc.ops import OPS
from hilc.ops.attributes import ActivationAttributes


def fuse_activation(graph: Graph) -> Graph:
    """Fuse activations such as RELU into the operator that computes their input.

    Exact if no other node reads the unclamped value and both tensors have the same quantization:
    then a standalone activation only clamps, with the same limits as the fused one. The producer
    then writes the activation's output, at the activation's position in the order.
    """
    readers, results = graph.consumers(), frozenset(graph.results)
    producers = {node.outputs[0]: node for node in graph.nodes if OPS[node.op].takes_activation}
    fused: dict[str, Node] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        activation = OPS[node.op].as_activation
        if activation is None:
            continue
        value = node.inputs[0]
        producer = producers.get(value)
        if (
            producer is None
            or ActivationAttributes.of(producer).activation != "NONE"
            or len(readers[value]) != 1
            or value in results
            or graph.tensors[value].quant != graph.tensors[node.outputs[0]].quant
        ):
            continue
        fused[node.outputs[0]] = replace(
            producer,
            outputs=node.outputs,
            attrs=replace(ActivationAttributes.of(producer), activation=activation),
        )
        absorbed.add(value)
    nodes = [
        fused.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in absorbed
    ]
    return graph.with_(nodes=tuple(nodes))
