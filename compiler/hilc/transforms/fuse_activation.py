"""Lets the operator before a RELU or RELU6 clamp its own output."""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node

_PRODUCERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL")
_ACTIVATIONS = ("RELU", "RELU6")


def fuse_activation(graph: Graph) -> Graph:
    """Fuse RELU and RELU6 into the operator that computes their input.

    Exact when nobody else reads the unclamped value and both tensors have one quantisation: then a
    standalone activation only clamps, with the limits that the fused one has. The producer then
    writes the activation's output, at the activation's place in the order.
    """
    readers = graph.consumers()
    producers = {node.outputs[0]: node for node in graph.nodes if node.op in _PRODUCERS}
    fused: dict[str, Node] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        if node.op not in _ACTIVATIONS:
            continue
        value = node.inputs[0]
        producer = producers.get(value)
        if (
            producer is None
            or producer.attrs["activation"] != "NONE"
            or len(readers[value]) != 1
            or value in graph.outputs
            or graph.tensors[value].quant != graph.tensors[node.outputs[0]].quant
        ):
            continue
        fused[node.outputs[0]] = replace(
            producer,
            outputs=node.outputs,
            attrs={**producer.attrs, "activation": node.op},
        )
        absorbed.add(value)
    nodes = [
        fused.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in absorbed
    ]
    return graph.with_(nodes=tuple(nodes))
