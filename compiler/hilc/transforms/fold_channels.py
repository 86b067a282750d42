"""Removal of constant channels and of channels that no output depends on.

Training leaves channels whose output is one value for any input: a bias so low, for example, that
the clamp always applies. :mod:`hilc.transforms.intervals` proves it. The contribution of such a
channel to the sums of the next layer is a constant, so it moves into that layer's bias, and the
channel is not computed.

Tensors that operators process channel by channel (pooling, depthwise convolutions, additions) have
to lose the same channels. So channels form groups; a group is removed as a whole, and only where
every layer that sums over its channels permits it:

- if the weights of its own remaining outputs are all zero for the channel, or

- if the channel is constant, and the layer has no padding, or the constant is the zero point, which
is the value of padding.

All groups count as unneeded until a layer needs one, starting from the outputs of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Graph, Node, Quant, Tensor
from hilc.ir.annotations import Folded
from hilc.ops import OPS
from hilc.ops.operands import quantization
from hilc.ops.traits import BOUNDED, ChannelGroup, FewerChannels, Weights
from hilc.ops.traits import Indices as Indices
from hilc.transforms.intervals import intervals
from hilc.transforms.remove_dead import remove_dead

_Mask = npt.NDArray[np.bool_]
#: Value of each channel of a tensor; _VARIES if it is not constant.
_Values = npt.NDArray[np.int64]
_VARIES = 1 << 20
#: Channels of all tensors up to which they are looked at; a model that fits a microcontroller has
#: fewer by far, and each takes memory and time here.
_MOST_CHANNELS = 1 << 20


@dataclass(frozen=True)
class FoldedGraph:
    """A graph after the removal of channels."""

    graph: Graph
    #: For each reduced tensor, the indices of the remaining channels, in order.
    channels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def fold_channels(graph: Graph) -> FoldedGraph:
    """Remove channels (along the last axis) that are constant, or that no output depends on.

    Inputs and outputs of the graph keep their shapes. A graph of more than a million channels stays
    as it is.
    """
    if sum(map(_channel_count, graph.tensors.values())) > _MOST_CHANNELS:
        return FoldedGraph(graph)
    constants = _constants(graph)
    kept = _kept(graph, constants)
    if all(kept[name].all() for node in graph.nodes for name in node.outputs):
        return FoldedGraph(graph)
    folded = _Folding(graph, constants, kept).folded()
    channels = {
        name: tuple(np.flatnonzero(mask).tolist())
        for name, mask in kept.items()
        if name in folded.tensors and not folded.tensors[name].is_constant and not mask.all()
    }
    return FoldedGraph(folded, channels)


def folded_away(before: Graph, after: Graph) -> Folded:
    """Return the difference between ``before`` and the graph after :func:`fold_channels`."""
    (channels, macs), (channels_left, macs_left) = _extent(before), _extent(after)
    return Folded(channels - channels_left, macs - macs_left)


def _extent(graph: Graph) -> tuple[int, int]:
    """Return the output channels of all layers with weights, and the multiply-accumulates of an
    inference.
    """
    channels = macs = 0
    for node in graph.nodes:
        own = OPS[node.op].weights
        if own is not None:
            out = graph.tensors[node.outputs[0]]
            channels += out.shape[-1]
            macs += out.size * OPS[node.op].depth(node, graph.ins(node))
    return channels, macs


# Constant channels ------------------------------------------------------------------------------


def _constants(graph: Graph) -> dict[str, _Values]:
    """Return the constant channels of each computed tensor that has intervals."""
    found = {}
    bounds = intervals(graph)
    for node in graph.nodes:
        for name in node.outputs:
            if name in bounds and graph.tensors[name].shape:
                low, high = (end.reshape(-1, end.shape[-1]) for end in bounds[name])
                least = low.min(0).astype(np.int64)
                found[name] = np.where(least == high.max(0), least, _VARIES)
    return found


# Needed channels --------------------------------------------------------------------------------


class _Groups:
    """Groups of channels that are kept or removed together, and which of them are needed."""

    def __init__(self, graph: Graph) -> None:
        self._channels: dict[str, Indices] = {}
        count = 0
        for name, tensor in graph.tensors.items():
            size = _channel_count(tensor)
            self._channels[name] = np.arange(count, count + size)
            count += size
        self._parents = list(range(count))
        self._needed = np.zeros(count, bool)

    def _root(self, channel: int) -> int:
        parents = self._parents
        while parents[channel] != channel:
            parents[channel] = parents[parents[channel]]
            channel = parents[channel]
        return channel

    def join(self, name: str, channels: Indices, other: str, others: Indices) -> None:
        """Join ``channels`` of tensor ``name`` with ``others`` of tensor ``other``, one to one."""
        pairs = zip(self._channels[name][channels], self._channels[other][others], strict=True)
        for a, b in pairs:
            roots = self._root(int(a)), self._root(int(b))
            self._parents[max(roots)] = min(roots)

    def close(self) -> None:
        """End the joining of groups."""
        roots = np.array([self._root(channel) for channel in range(len(self._parents))], np.intp)
        self._channels = {
            name: roots[own_channels] for name, own_channels in self._channels.items()
        }

    def kept(self, name: str) -> _Mask:
        """Return the mask of a tensor's channels in needed groups."""
        mask: _Mask = self._needed[self._channels[name]]
        return mask

    def require(self, name: str, channels: Indices | _Mask | slice = slice(None)) -> bool:
        """Mark ``channels`` of a tensor as needed; return whether that changes anything."""
        own_channels = self._channels[name][channels]
        changed = not self._needed[own_channels].all()
        self._needed[own_channels] = True
        return changed


def _kept(graph: Graph, constants: Mapping[str, _Values]) -> dict[str, _Mask]:
    """Return the mask of the kept channels of each tensor."""
    groups = _Groups(graph)
    whole: list[str] = [*graph.given, *graph.results]
    summing: list[Node] = []
    for node in graph.nodes:
        # A tensor without a rule (weights, axes, unknown operators) is kept whole.
        reducible: set[str] = set()
        if _is_reducible_sum(graph, node):
            summing.append(node)
            reducible = {node.inputs[0], node.outputs[0]}
        for group in _channel_groups(graph, node):
            groups.join(*group)
            reducible |= {group.name, group.other}
        whole += [name for name in (*node.inputs, *node.outputs) if name and name not in reducible]
    groups.close()
    for name in whole:
        groups.require(name)
    changed = True
    while changed:
        changed = False
        for node in reversed(summing):
            x, out = node.inputs[0], groups.kept(node.outputs[0])
            changed |= groups.require(x, _needed_inputs(graph, node, out, constants.get(x)))
        if not changed:
            missing = [*_too_few(graph, groups), *_unpaired(graph, groups)]
            changed = any([groups.require(name, channels) for name, channels in missing])
    return {name: groups.kept(name) for name in graph.tensors}


def _too_few(graph: Graph, groups: _Groups) -> Iterator[tuple[str, Indices]]:
    """Yield tensors that would keep fewer channels than required, and the channels to keep then."""
    for node in graph.nodes:
        least = 1
        own = OPS[node.op].weights
        if own is not None and own.one_scale_differs:
            quant = graph.tensors[node.inputs[1]].quant
            least = 1 if quant is None else min(2, len(quant.scale))
        for name in node.outputs:
            kept = groups.kept(name)
            missing = min(least, len(kept)) - np.count_nonzero(kept)
            if missing > 0:
                yield name, np.flatnonzero(~kept)[:missing]


def _unpaired(graph: Graph, groups: _Groups) -> Iterator[tuple[str, Indices]]:
    """Yield convolutions that would keep an odd number of channels, with one more channel to keep.

    It is the one with the smallest bias: constants may result from sums so large that no fast
    kernel supports a layer with them.
    """
    for node in graph.nodes:
        own = OPS[node.op].weights
        if own is None or own.block == 1:
            continue
        kept = groups.kept(node.outputs[0])
        removed = np.flatnonzero(~kept)
        if len(removed) and np.count_nonzero(kept) % own.block:
            sizes = np.abs(_biases(graph, node)[removed])
            yield node.outputs[0], removed[[int(np.argmin(sizes))]]


def _biases(graph: Graph, node: Node) -> _Values:
    """Return the bias of each output of a layer with weights; zeros without a bias."""
    if any(node.inputs[2:]):
        return _data(graph.tensors[node.inputs[2]]).reshape(-1).astype(np.int64)
    return np.zeros(_channel_count(graph.tensors[node.outputs[0]]), np.int64)


def _is_reducible_sum(graph: Graph, node: Node) -> bool:
    own = OPS[node.op].weights
    if own is None or not own.sums:
        return False
    x, weights = (graph.tensors[name] for name in node.inputs[:2])
    # The rows of a matrix product may begin at any offset of its input.
    return x.dtype in BOUNDED and bool(x.shape) and weights.shape[-1] % x.shape[-1] == 0


def _needed_inputs(graph: Graph, node: Node, outputs: _Mask, constants: _Values | None) -> _Mask:
    """Return the mask of input channels that a layer that sums over them needs for ``outputs``."""
    needed: _Mask = (_taps(graph, node)[outputs] != 0).any((0, 1))
    if constants is None:
        return needed
    foldable = constants != _VARIES
    own = OPS[node.op].weights
    if own is not None and own.padded(node, graph.ins(node)):
        foldable &= constants == quantization(node, graph.tensors[node.inputs[0]])[1]
    needed &= ~foldable
    return needed


def _taps(graph: Graph, node: Node) -> Array:
    """Return weights as [outputs, positions in the window, input channels]."""
    weights = graph.tensors[node.inputs[1]]
    channels = graph.tensors[node.inputs[0]].shape[-1]
    return _data(weights).reshape(weights.shape[0], -1, channels)


def _channel_groups(graph: Graph, node: Node) -> Sequence[ChannelGroup]:
    """Return the groups of channels of the node's tensors."""
    ins, out = graph.ins(node), graph.tensors[node.outputs[0]]
    groups = OPS[node.op].channel_groups
    if groups is None or not ins or ins[0] is None or not ins[0].shape or not out.shape:
        return []
    return groups(node, ins, out)


def _data(tensor: Tensor | None) -> Array:
    """Return the values of an operand that its operator requires to be constant."""
    assert tensor is not None
    assert tensor.data is not None
    return tensor.data


def _channel_count(tensor: Tensor) -> int:
    return tensor.shape[-1] if tensor.shape else 0


# Reduced graph ----------------------------------------------------------------------------------


class _Folding:
    """Builder of the reduced graph."""

    def __init__(
        self, graph: Graph, constants: Mapping[str, _Values], kept: Mapping[str, _Mask]
    ) -> None:
        self._graph = graph
        self._constants = constants
        self._kept = kept
        self._tensors = {
            name: tensor if kept[name].all() else _with_channels(tensor, kept[name])
            for name, tensor in graph.tensors.items()
        }
        self._readers = Counter(name for node in graph.nodes for name in node.inputs)

    def folded(self) -> Graph:
        """Return the graph without the removed channels."""
        nodes = [self._node(node) for node in self._graph.nodes]
        # Constants that several nodes shared may have no reader left.
        return remove_dead(self._graph.with_(tensors=self._tensors, nodes=tuple(nodes)))

    def _node(self, node: Node) -> Node:
        if all(not name or self._kept[name].all() for name in (*node.inputs, *node.outputs)):
            return node
        op = OPS[node.op]
        if op.weights is not None:
            return self._layer(node, op.weights)
        if op.with_fewer_channels is not None:
            length = int(np.count_nonzero(self._kept[node.outputs[0]]))
            return self._with_fewer_channels(
                node, op.with_fewer_channels(node, self._graph.ins(node), length)
            )
        return node

    def _layer(self, node: Node, own: Weights) -> Node:
        """Return a layer with weights, reduced to the kept input and output channels."""
        weights = self._graph.tensors[node.inputs[1]]
        inputs, outputs = self._kept[node.inputs[0]], self._kept[node.outputs[0]]
        sums = _biases(self._graph, node)
        bias = Tensor(
            f"{node.name}/bias", sums.shape, self._graph.tensors[node.inputs[0]].element.sums(None)
        )
        if any(node.inputs[2:]):
            bias = self._graph.tensors[node.inputs[2]]
        if own.sums:
            taps = _taps(self._graph, node)
            sums += taps[:, :, ~inputs].sum(1, dtype=np.int64) @ self._folded_offsets(node)
            left = taps[outputs][:, :, inputs]
            data = left.reshape(len(left), *weights.shape[1:-1], -1)
        else:
            data = _data(weights)[..., outputs]
        reduced_weights = replace(
            weights, shape=data.shape, data=data, quant=_reduced_quant(weights.quant, outputs)
        )
        reduced_bias = replace(
            bias,
            shape=(int(np.count_nonzero(outputs)),),
            data=sums[outputs].astype(bias.dtype),
            quant=_reduced_quant(bias.quant, outputs),
        )
        operands = [self._own(tensor, node) for tensor in (reduced_weights, reduced_bias)]
        return replace(node, inputs=(node.inputs[0], *operands))

    def _folded_offsets(self, node: Node) -> _Values:
        """Return, for each removed input channel, its constant minus the zero point; 0 where no sum
        depends on it.

        That is where it varies, or where an image with padding has another zero point: such a
        channel is removed only if the weights of the kept outputs are zero.
        """
        x = node.inputs[0]
        removed = ~self._kept[x]
        if x not in self._constants:
            return np.zeros(np.count_nonzero(removed), np.int64)
        values = self._constants[x][removed]
        zero_point = quantization(node, self._graph.tensors[x])[1]
        return np.where(values == _VARIES, 0, values - zero_point)

    def _with_fewer_channels(self, node: Node, fewer: FewerChannels) -> Node:
        inputs = list(node.inputs)
        for position, data in fewer.operands.items():
            given = self._graph.tensors[inputs[position]]
            inputs[position] = self._own(replace(given, data=data), node)
        return replace(node, inputs=tuple(inputs), attrs=fewer.attrs)

    def _own(self, constant: Tensor, node: Node) -> str:
        """Add a constant of ``node``, under another name if other nodes read the old one."""
        name = constant.name
        if self._readers[name] != 1:
            while name in self._tensors:
                name = f"{name}/{node.name}"
        _data(constant).flags.writeable = False
        self._tensors[name] = replace(constant, name=name)
        return name


def _with_channels(tensor: Tensor, kept: _Mask) -> Tensor:
    channels = np.flatnonzero(kept)
    return replace(
        tensor,
        shape=(*tensor.shape[:-1], len(channels)),
        data=None if tensor.data is None else tensor.data[..., channels],
    )


def _reduced_quant(quant: Quant | None, kept: _Mask) -> Quant | None:
    """Return the quantization of the kept channels along the axis of its scales."""
    if quant is None or quant.per_tensor:
        return quant
    left = np.flatnonzero(kept).tolist()
    return replace(
        quant,
        scale=tuple(quant.scale[channel] for channel in left),
        zero_point=tuple(quant.zero_point[channel] for channel in left),
    )
