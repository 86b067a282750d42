"""What values each element of a graph's integer tensors can have, for every input there is.

Interval arithmetic on the operators' own arithmetic: a sum is least where each positive weight
meets the least input and each negative one the largest, and everything after the sum rounds without
changing the order of two values. So the ends of an interval are what :mod:`hilc.interpreter` itself
computes, rounding, clamps and borders included. What the analysis does not see is that two elements
may never be at their ends together, which makes intervals too wide and never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Graph, Node, Tensor
from hilc.numerics.requantize import INT32_MAX, INT32_MIN
from hilc.ops import OPS, conv2d, depthwise_conv2d, fully_connected, geometry, linear
from hilc.ops.operands import quantization

#: The types that have intervals.
_BOUNDED = ("int8", "uint8")

_Int64Array = npt.NDArray[np.int64]


class Interval(NamedTuple):
    """The least and the largest value of each element of a tensor, both of its shape and type."""

    low: Array
    high: Array


def intervals(graph: Graph) -> dict[str, Interval]:
    """The interval of each int8 and uint8 tensor that the graph reads or computes, by name.

    Inputs, and whatever no rule is known for, may have every value of their type.
    """
    found: dict[str, Interval] = {}
    for name, tensor in graph.tensors.items():
        if tensor.data is not None and tensor.dtype in _BOUNDED:
            found[name] = Interval(tensor.data, tensor.data)
    for name in graph.inputs:
        if graph.tensors[name].dtype in _BOUNDED:
            found[name] = _any(graph.tensors[name])
    for node in graph.nodes:
        if any(out.dtype in _BOUNDED for out in graph.outs(node)):
            found |= zip(node.outputs, _of_outputs(graph, node, found), strict=True)
    return found


def _of_outputs(graph: Graph, node: Node, known: Mapping[str, Interval]) -> Sequence[Interval]:
    ins, outs = graph.ins(node), graph.outs(node)
    rule = _RULES.get(node.op)
    # An operand of a type without intervals is an index, which is constant, or unknown.
    variable = [t for t in ins if t is not None and t.dtype not in _BOUNDED and t.data is None]
    if rule is None or variable:
        return [_any(out) for out in outs]
    values: list[Interval | None] = []
    for tensor in ins:
        if tensor is None:
            values.append(None)
        elif tensor.dtype in _BOUNDED:
            values.append(known[tensor.name])
        else:
            assert tensor.data is not None
            values.append(Interval(tensor.data, tensor.data))
    return rule(node, ins, outs, values)


def _any(tensor: Tensor) -> Interval:
    info = np.iinfo(tensor.dtype)
    return Interval(
        *(
            np.broadcast_to(np.array(end, tensor.dtype), tensor.shape)
            for end in (info.min, info.max)
        )
    )


_Rule = Callable[
    [Node, Sequence[Tensor | None], Sequence[Tensor], Sequence[Interval | None]],
    Sequence[Interval],
]


def _ascending(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Of operators whose outputs never fall where an input rises: what they make of the ends."""
    lows, highs = (
        OPS[node.op].reference(node, ins, outs, [value and value[end] for value in values])
        for end in (0, 1)
    )
    return [Interval(low, high) for low, high in zip(lows, highs, strict=True)]


def _corners(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Of operators that each input moves in one direction, given the others: among the corners."""
    a, b = values
    assert a is not None
    assert b is not None
    results = [OPS[node.op].reference(node, ins, outs, ends)[0] for ends in product(a, b)]
    return [Interval(np.minimum.reduce(results), np.maximum.reduce(results))]


def _mapped(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Of operators on single elements: the ends of what their interval is mapped to."""
    source, out, interval = ins[0], outs[0], values[0]
    assert source is not None
    assert interval is not None
    if source.dtype not in _BOUNDED:
        return [_any(out)]
    info = np.iinfo(source.dtype)
    every = np.arange(info.min, info.max + 1, dtype=source.dtype)
    line = Tensor("every value", every.shape, source.dtype, source.quant)
    mapped = Tensor("its result", every.shape, out.dtype, out.quant)
    table = OPS[node.op].reference(node, [line], [mapped], [every])[0]
    # Row i: the least and the largest from element i on.
    least, largest = (np.tile(table, (every.size, 1)) for _ in range(2))
    below = np.tri(every.size, k=-1, dtype=bool)
    least[below], largest[below] = np.iinfo(out.dtype).max, np.iinfo(out.dtype).min
    ends = interval.low.astype(np.int64) - info.min, interval.high.astype(np.int64) - info.min
    return [
        Interval(
            np.minimum.accumulate(least, axis=1)[ends], np.maximum.accumulate(largest, axis=1)[ends]
        )
    ]


# Weights ----------------------------------------------------------------------------------------


def _conv2d(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    ops, window = conv2d.layer_operands(node, ins)
    zero_point = quantization(node, ops.x)[1]
    weights = ops.weight_data.reshape(ops.weights.shape[0], -1)
    assert values[0] is not None
    low, high = (
        geometry.patches(end, window, zero_point).reshape(-1, weights.shape[1]) for end in values[0]
    )
    requant = linear.requantization(node, linear.channel_factors(node, ops), outs[0])
    return _products(low, high, zero_point, weights, ops.bias_data, requant, outs[0])


def _fully_connected(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    ops = fully_connected.layer_operands(node, ins)
    zero_point = quantization(node, ops.x)[1]
    assert values[0] is not None
    low, high = (end.reshape(-1, ops.weights.shape[1]) for end in values[0])
    requant = fully_connected.requantization(node, ops, outs[0])
    return _products(low, high, zero_point, ops.weight_data, ops.bias_data, requant, outs[0])


def _products(
    low: Array,
    high: Array,
    zero_point: int,
    weights: Array,
    bias: Array,
    requant: linear.Requantization,
    out: Tensor,
) -> list[Interval]:
    """Of rows of inputs between ``low`` and ``high`` times ``weights`` [channels, depth]."""
    positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
    none = np.zeros_like(bias)

    def sums(for_positive: Array, for_negative: Array) -> _Int64Array:
        return linear.int8_products(
            for_positive, zero_point, positive, bias
        ) + linear.int8_products(for_negative, zero_point, negative, none)

    return _requantized(sums(low, high), sums(high, low), requant, out)


def _depthwise_conv2d(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    ops, window, multiplier = depthwise_conv2d.layer_operands(node, ins)
    zero_point = quantization(node, ops.x)[1]
    assert values[0] is not None
    low, high = (geometry.patches(end, window, zero_point) for end in values[0])
    _, filter_h, filter_w, channels = ops.weights.shape
    weights = ops.weight_data.reshape(filter_h, filter_w, channels).astype(np.int64)
    least = np.zeros((*low.shape[:3], channels), np.int64) + ops.bias_data
    most = least.copy()
    for tap in np.ndindex(filter_h, filter_w):
        ends = (
            np.repeat(end[:, :, :, tap[0], tap[1]].astype(np.int64) - zero_point, multiplier, -1)
            for end in (low, high)
        )
        products = [end * weights[tap] for end in ends]
        least += np.minimum(*products)
        most += np.maximum(*products)
    requant = linear.requantization(node, linear.channel_factors(node, ops), outs[0])
    return _requantized(least, most, requant, outs[0])


def _requantized(
    least: _Int64Array, most: _Int64Array, requant: linear.Requantization, out: Tensor
) -> list[Interval]:
    """Of sums between ``least`` and ``most``, channels last.

    A multiplier that first shifts to the left wraps around what that takes beyond 32 bits; where
    that may happen the output can be anything within its clamp.
    """
    low, high = requant.apply(least), requant.apply(most)
    shift = np.maximum(requant.shifts.astype(np.int64), 0)
    wraps = ((least << shift) < INT32_MIN) | ((most << shift) > INT32_MAX)
    low[wraps], high[wraps] = requant.low, requant.high
    return [Interval(low.reshape(out.shape), high.reshape(out.shape))]


_RULES: Mapping[str, _Rule] = {
    "CONV_2D": _conv2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d,
    "FULLY_CONNECTED": _fully_connected,
    "SUB": _corners,
    "MUL": _corners,
    **dict.fromkeys(("LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU"), _mapped),
    **dict.fromkeys(("RELU", "RELU6", "QUANTIZE"), _mapped),
    **dict.fromkeys(("ADD", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN"), _ascending),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE"), _ascending),
    **dict.fromkeys(("PAD", "STRIDED_SLICE", "CONCATENATION", "PACK", "SPLIT"), _ascending),
}
