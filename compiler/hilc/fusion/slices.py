"""Expansions computed by slices of channels, again for each row of the depthwise layer behind them.

A layer of 1x1 with many more channels than its input, and a depthwise layer behind it, are replaced
by pairs of such layers for some channels each, and a layer that puts the outputs together. Of a
slice only the rows exist that a band of its depthwise layer reads; they are computed again for the
next band, from the few channels in front of the expansion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hilc.ir import Graph, Node, Tensor
from hilc.ops import OPS
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.traits import Weights, WindowRows

#: Least ratio of an expansion's channels to those of its input.
_EXPANSION = 3
_CHANNELS = ConcatenationAttributes(axis=3)


@dataclass(frozen=True)
class StageNode:
    """A node that a stage of a group computes."""

    node: Node
    #: Position among the group's layers of the one that it computes, or a slice of it.
    layer: int
    #: Whether rows are computed again for each band that reads them.
    again: bool = False
    #: Whether it puts slices together.
    joins: bool = False


def whole(nodes: Sequence[Node]) -> tuple[StageNode, ...]:
    """Return the nodes as they are."""
    return tuple([StageNode(node, layer) for layer, node in enumerate(nodes)])


def sliced(
    graph: Graph, nodes: Sequence[Node], consumers: Mapping[str, Sequence[Node]], channels: int
) -> tuple[Graph, tuple[StageNode, ...]]:
    """Return the nodes with the expansions among them by slices of ``channels``, and the graph with
    the tensors of these.
    """
    tensors = dict(graph.tensors)
    stages = list(whole(nodes))
    for layer in expansions(graph, nodes, consumers, channels):
        pair = nodes[layer : layer + 2]
        parts: list[StageNode] = []
        joined: list[str] = []
        count = graph.tensors[pair[0].name].shape[3]
        for first in range(0, count, channels):
            own = slice(first, min(first + channels, count))
            expansion = _slice(graph, tensors, pair[0], pair[0].inputs[0], own)
            depthwise = _slice(graph, tensors, pair[1], expansion.name, own)
            parts.append(StageNode(expansion, layer, again=True))
            parts.append(StageNode(depthwise, layer + 1))
            joined.append(depthwise.name)
        join = Node("CONCATENATION", tuple(joined), pair[1].outputs, _CHANNELS, pair[1].index)
        parts.append(StageNode(join, layer + 1, joins=True))
        place = next(i for i, stage in enumerate(stages) if stage.node is pair[0])
        stages[place : place + 2] = parts
    return graph.with_(tensors=tensors), tuple(stages)


def expansions(
    graph: Graph, nodes: Sequence[Node], consumers: Mapping[str, Sequence[Node]], channels: int
) -> list[int]:
    """Return the positions of the expansions that can be computed by slices of ``channels``."""
    pairs = enumerate(zip(nodes, nodes[1:], strict=False))
    return [i for i, pair in pairs if _may_slice(graph, *pair, consumers, channels)]


def _may_slice(
    graph: Graph,
    expansion: Node,
    depthwise: Node,
    consumers: Mapping[str, Sequence[Node]],
    channels: int,
) -> bool:
    """Return whether a depthwise layer, one filter a channel, is all that reads an expansion."""
    own, rows = OPS[expansion.op].weights, OPS[expansion.op].rows
    behind = OPS[depthwise.op].weights
    if own is None or not own.sums or behind is None or behind.sums:
        return False
    if not isinstance(rows, WindowRows) or not isinstance(OPS[depthwise.op].rows, WindowRows):
        return False
    if depthwise.inputs[0] != expansion.name:
        return False
    operands = [name for node in (expansion, depthwise) for name in node.inputs[1:] if name]
    if not all(graph.tensors[name].is_constant for name in operands):
        return False
    window = rows.window(expansion, graph.ins(expansion))
    x, weights = (graph.tensors[name] for name in expansion.inputs[:2])
    out, result = graph.tensors[expansion.name], graph.tensors[depthwise.name]
    return (
        [node.name for node in consumers[expansion.name]] == [depthwise.name]
        and expansion.name not in graph.results
        and window.h.filter_size == window.w.filter_size == 1
        and weights.size == weights.shape[own.channel_axis] * x.shape[3]
        and not window.padded
        and window.h.stride == window.w.stride == 1
        and out.shape[3] == result.shape[3] > channels
        and out.shape[3] >= _EXPANSION * x.shape[3]
    )


def _weights(node: Node) -> Weights:
    weights = OPS[node.op].weights
    assert weights is not None, "only layers with weights are sliced"
    return weights


def _slice(graph: Graph, tensors: dict[str, Tensor], node: Node, x: str, own: slice) -> Node:
    """Return the node that computes some of a node's channels; its tensors join ``tensors``."""
    inputs = [x]
    for position, name in enumerate(node.inputs[1:]):
        if not name:
            inputs.append("")
            continue
        whole = graph.tensors[name]
        axis = 0 if position else _weights(node).channel_axis
        inputs.append(_channels(graph, tensors, whole, axis, own))
    out = _channels(graph, tensors, graph.tensors[node.name], 3, own)
    return replace(node, inputs=tuple(inputs), outputs=(out,))


def _channels(
    graph: Graph, tensors: dict[str, Tensor], whole: Tensor, axis: int, own: slice
) -> str:
    """Add the tensor of some channels of another one; return its name."""
    name = f"{whole.name}[{own.start}:{own.stop}]"
    while name in graph.tensors:
        name += "_"
    shape = list(whole.shape)
    shape[axis] = own.stop - own.start
    quant, data = whole.quant, whole.data
    if quant is not None and not quant.per_tensor:
        quant = replace(quant, scale=quant.scale[own], zero_point=quant.zero_point[own])
    if data is not None:
        data = data.take(range(own.start, own.stop), axis)
    tensors[name] = replace(whole, name=name, shape=tuple(shape), quant=quant, data=data)
    return name
