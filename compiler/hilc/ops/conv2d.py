"""CONV_2D over NHWC images with weights ``[O, filter_h, filter_w, I]``.

Where I is a fraction of the image's channels these are in groups, as many as O: each group of
output channels is made of its own group of input channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.ops import geometry, linear
from hilc.ops.attributes import ConvolutionAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, quantization
from hilc.ops.traits import Interval, Reference, WeightedSums, Weights, WindowRows, any_value


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window]:
    """Return the operands, checked, and the window that slides over the image."""
    ops = linear.operands(node, ins, rank=4, channel_axis=0)
    if len(ops.x.shape) != 4:
        invalid(node, f"has an input of shape {list(ops.x.shape)}, not of 4 dimensions")
    channels, filter_h, filter_w, depth = ops.weights.shape
    groups, rest = divmod(ops.x.shape[3], depth)
    if rest:
        invalid(node, f"has {ops.x.shape[3]} input channels for filters of {depth}")
    if groups == 0 or channels % groups:
        invalid(node, f"has {channels} output channels for {groups} groups of input channels")
    return ops, geometry.window(node, ops.x.shape, filter_h, filter_w)


def groups_of(ops: linear.Operands) -> int:
    """Return groups of channels: 1 where each output sums over all channels of the input."""
    return ops.x.shape[3] // ops.weights.shape[3]


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, window = layer_operands(node, ins)
    shape = (ops.x.shape[0], window.h.out_size, window.w.out_size, ops.weights.shape[0])
    return [(shape, ops.x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops, _ = layer_operands(node, ins)
    linear.check_output(node, ops, outs[0])


def _group_rows(
    x: Array, ops: linear.Operands, window: geometry.Window, pad_value: int
) -> list[Array]:
    """For each group, the values under each window as a row."""
    return [
        geometry.patches(part, window, pad_value).reshape(
            -1, ops.weights.size // len(ops.weight_data)
        )
        for part in np.split(x, groups_of(ops), axis=3)
    ]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops, window = layer_operands(node, ins)
    x = values[0]
    assert x is not None
    zero_point = linear.pad_value(node, ops)
    rows = _group_rows(x, ops, window, zero_point)
    matrices = np.split(ops.weight_data.reshape(ops.weights.shape[0], -1), len(rows))
    bias = np.split(ops.bias_data, len(rows))
    if not ops.x.element.quantized:
        products = map(partial(linear.float_products, node), rows, matrices, bias)
        result: Array = np.concatenate(list(products), axis=1)
    else:
        sums = [
            linear.integer_products(row, zero_point, matrix, own)
            for row, matrix, own in zip(rows, matrices, bias, strict=True)
        ]
        requant = linear.channel_requantization(node, ops, outs[0])
        result = requant.apply(np.concatenate(sums, axis=1))
    return [result.reshape(outs[0].shape)]


def _bounds(
    reference: Reference,
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Return the bounds: a sum is least where each positive weight meets the least input."""
    ops, window = layer_operands(node, ins)
    if groups_of(ops) > 1:
        return [any_value(outs[0])]
    zero_point = quantization(node, ops.x)[1]
    weights = ops.weight_data.reshape(ops.weights.shape[0], -1)
    assert values[0] is not None
    ((low,), (high,)) = (_group_rows(end, ops, window, zero_point) for end in values[0])
    requant = linear.channel_requantization(node, ops, outs[0])
    return linear.product_bounds(low, high, zero_point, weights, ops.bias_data, requant, outs[0])


def _window(node: Node, ins: Sequence[Tensor | None]) -> geometry.Window:
    return layer_operands(node, ins)[1]


def _is_padded(node: Node, ins: Sequence[Tensor | None]) -> bool:
    return _window(node, ins).padded


def _vector_floats(node: Node, ins: Sequence[Tensor | None]) -> bool:
    ops, _ = layer_operands(node, ins)
    # In one group, or as a depthwise convolution.
    return groups_of(ops) == 1 or ops.weights.shape[3] == 1


CONV_2D = OpDef(
    _infer,
    _reference,
    _check,
    attributes=ConvolutionAttributes,
    roundings=frozenset(Rounding),
    vector_floats=_vector_floats,
    bounds=_bounds,
    rows=WindowRows(_window),
    # Measured on vww: the kernels take channels in pairs, so that one more is faster than an odd
    # one, and smaller; up to a multiple of 4 is not.
    weights=Weights(channel_axis=0, sums=True, block=2, padded=_is_padded),
    integer_form=WeightedSums(channel_axis=0),
)

OPERATORS: Mapping[str, OpDef] = {
    "CONV_2D": CONV_2D,
}
