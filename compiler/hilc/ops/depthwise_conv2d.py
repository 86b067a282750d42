"""DEPTHWISE_CONV_2D over NHWC images with weights ``[1, filter_h, filter_w, C * M]``.

Each input channel gives M output channels, next to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.numerics.floats import add, multiply_add
from hilc.ops import geometry, linear
from hilc.ops.attributes import ConvolutionAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, quantization
from hilc.ops.traits import (
    ChannelGroup,
    Interval,
    Reference,
    WeightedSums,
    Weights,
    WindowRows,
    in_step,
)

CHANNEL_AXIS = 3


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2DAttributes(ConvolutionAttributes):
    """Attributes of DEPTHWISE_CONV_2D."""

    #: Output channels for each of the input: M of the weights' shape.
    depth_multiplier: int


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window, int]:
    """Return the operands, checked, the window that slides over the image, the depth multiplier."""
    # The reference reads a bias of any other type as one of the first.
    ops = linear.operands(node, ins, rank=4, channel_axis=CHANNEL_AXIS, bias_types=1)
    if len(ops.x.shape) != 4:
        invalid(node, f"has an input of shape {list(ops.x.shape)}, not of 4 dimensions")
    one, filter_h, filter_w, channels = ops.weights.shape
    multiplier, rest = divmod(channels, ops.x.shape[3])
    stated = DepthwiseConv2DAttributes.of(node).depth_multiplier
    if one != 1 or rest != 0 or stated != multiplier:
        invalid(
            node,
            f"has weights of shape {list(ops.weights.shape)} for {ops.x.shape[3]} channels and "
            f"the depth multiplier {stated}",
        )
    return ops, geometry.window(node, ops.x.shape, filter_h, filter_w), multiplier


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, window, _ = layer_operands(node, ins)
    shape = (ops.x.shape[0], window.h.out_size, window.w.out_size, ops.weights.shape[3])
    return [(shape, ops.x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops, _, _ = layer_operands(node, ins)
    linear.check_output(node, ops, outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops, window, multiplier = layer_operands(node, ins)
    x = values[0]
    assert x is not None
    zero_point = linear.pad_value(node, ops)
    patches = geometry.patches(x, window, zero_point)
    _, filter_h, filter_w, channels = ops.weights.shape
    weights = ops.weight_data.reshape(filter_h, filter_w, -1, multiplier)
    # Tap by tap, which for floats is the order of the reference.
    dtype = np.dtype(np.int64 if ops.x.element.quantized else np.float32)
    sums = np.zeros((*patches.shape[:3], *weights.shape[2:]), dtype)
    for tap in np.ndindex(filter_h, filter_w):
        pixels = patches[:, :, :, tap[0], tap[1], :, np.newaxis].astype(dtype)
        if ops.x.element.quantized:
            sums += (pixels - zero_point) * weights[tap].astype(dtype)
        else:
            sums = multiply_add(sums, pixels, weights[tap], node.rounding)
    sums = sums.reshape(outs[0].shape)
    if not ops.x.element.quantized:
        return [linear.clamp_float(node, add(sums, ops.bias_data, node.rounding))]
    return [linear.channel_requantization(node, ops, outs[0]).apply(sums + ops.bias_data)]


def _bounds(
    reference: Reference,
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Interval | None],
) -> list[Interval]:
    """Return the bounds: a sum is least where each positive weight meets the least input."""
    ops, window, multiplier = layer_operands(node, ins)
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
    requant = linear.channel_requantization(node, ops, outs[0])
    return [linear.requantized_bounds(least, most, requant)]


def _window(node: Node, ins: Sequence[Tensor | None]) -> geometry.Window:
    return layer_operands(node, ins)[1]


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    x = ins[0]
    assert x is not None
    multiplier = DepthwiseConv2DAttributes.of(node).depth_multiplier
    return [in_step(x, out, multiplier)] if x.element.quantized else []


DEPTHWISE_CONV_2D = OpDef(
    _infer,
    _reference,
    _check,
    attributes=DepthwiseConv2DAttributes,
    roundings=frozenset(Rounding),
    vector_floats=lambda node, ins: True,
    bounds=_bounds,
    rows=WindowRows(_window),
    channel_groups=_channel_groups,
    weights=Weights(CHANNEL_AXIS, sums=False),
    integer_form=WeightedSums(CHANNEL_AXIS),
)

OPERATORS: Mapping[str, OpDef] = {
    "DEPTHWISE_CONV_2D": DEPTHWISE_CONV_2D,
}
