"""Lets convolutions pad their own input, so that no padded copy of a tensor lies in RAM."""

from __future__ import annotations

from dataclasses import replace

from hilc.ir import Graph, Node
from hilc.ops.geometry import window

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")

#: Rows and columns added: top, bottom, left, right.
_Amounts = tuple[int, int, int, int]


def fold_pad(graph: Graph) -> Graph:
    """Let a convolution read the input of the PAD before it, with the padding as its own.

    Both pad with the real value zero, so every sum is the same. A PAD is only folded when all its
    readers take it over: otherwise both its input and its output would have to live.
    """
    readers = graph.consumers()
    amounts: dict[str, _Amounts] = {}
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if node.op != "PAD" or node.outputs[0] in graph.outputs:
            continue
        spatial = _spatial(graph, node)
        padded = node.outputs[0]
        if spatial and all(_takes(reader, padded) for reader in readers.get(padded, ())):
            amounts[padded] = spatial
            sources[padded] = node.inputs[0]
    nodes = []
    for node in graph.nodes:
        if node.outputs[0] in sources:
            continue
        if node.inputs and node.inputs[0] in sources:
            node = _folded(graph, node, sources, amounts)
        nodes.append(node)
    return graph.with_(nodes=tuple(nodes))


def _spatial(graph: Graph, pad: Node) -> _Amounts | None:
    """What ``pad`` adds; None when it touches another axis or changes the quantisation."""
    source, paddings = (graph.tensors[name] for name in pad.inputs)
    if paddings.data is None or len(source.shape) != 4:
        return None
    if source.quant != graph.tensors[pad.outputs[0]].quant:
        return None
    batch, rows, columns, channels = paddings.data.tolist()
    if any((*batch, *channels)) or min(*rows, *columns) < 0:
        return None
    return (*rows, *columns)


def _takes(reader: Node, padded: str) -> bool:
    return reader.op in _CONVOLUTIONS and reader.inputs[0] == padded


def _folded(
    graph: Graph, node: Node, sources: dict[str, str], amounts: dict[str, _Amounts]
) -> Node:
    padded = node.inputs[0]
    weights = graph.tensors[node.inputs[1]]
    own = window(node, graph.tensors[padded].shape, weights.shape[1], weights.shape[2])
    top, bottom, left, right = amounts[padded]
    padding = (
        top + own.h.pad_before,
        bottom + own.h.pad_after,
        left + own.w.pad_before,
        right + own.w.pad_after,
    )
    return replace(
        node,
        inputs=(sources[padded], *node.inputs[1:]),
        attrs={**node.attrs, "padding": padding},
    )
