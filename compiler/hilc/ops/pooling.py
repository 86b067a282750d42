"""AVERAGE_POOL_2D, MAX_POOL_2D and, of floats, L2_POOL_2D over NHWC images.

The window never counts what lies outside the image. int8 keeps its quantization: the average of the
stored values, rounded half away from zero, is the stored average. By the policy of ties to even an
average goes to the quantization of the output, and is rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.numerics import floats
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops import geometry
from hilc.ops.attributes import ActivationAttributes, WindowAttributes
from hilc.ops.geometry import Window, patches
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    ARITHMETIC,
    float_range,
    invalid,
    multiplier,
    operand,
    output_clamp,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import IntegerOperands, WindowRows, ascending, channelwise


@dataclass(frozen=True, kw_only=True)
class PoolingAttributes(WindowAttributes, ActivationAttributes):
    """Attributes of AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

    #: Height of the window.
    filter_h: int
    #: Width of the window.
    filter_w: int


def pooling_window(node: Node, x: Tensor) -> Window:
    """Return the window of a pooling over an input [batch, height, width, channels];
    :class:`~hilc.errors.ModelError` where it does not fit.
    """
    attributes = PoolingAttributes.of(node)
    return geometry.window(node, x.shape, attributes.filter_h, attributes.filter_w)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, ("float32",) if node.op == "L2_POOL_2D" else ARITHMETIC)
    if len(x.shape) != 4:
        invalid(
            node,
            f"has an input of shape {list(x.shape)}, not of 4 dimensions (NHWC)",
            "reshape it in the model to [batch, height, width, channels]",
        )
    window = pooling_window(node, x)
    padding = PoolingAttributes.of(node).padding
    for axis in (window.h, window.w):
        if max(axis.pad_before, axis.pad_after) >= axis.filter_size:
            invalid(node, f"has a window of {axis.filter_size} that padding {padding} fills alone")
    return [((x.shape[0], window.h.out_size, window.w.out_size, x.shape[3]), x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if not outs[0].element.quantized:
        return
    x = operand(node, ins, 0)
    output_clamp(node, outs[0])
    if is_scaled(node):
        average_scales(node, x, outs[0])
    else:
        require_same_quantization(node, x, outs[0])


def is_scaled(node: Node) -> bool:
    """Return whether averages of integers go to a quantization of their own."""
    return node.op == "AVERAGE_POOL_2D" and node.rounding is Rounding.NEAREST_EVEN


def average_scales(node: Node, x: Tensor, out: Tensor) -> list[FixedPoint]:
    """Return the factor of a sum of each number of pixels that a window may cover, from one on."""
    real = quantization(node, x)[0] / quantization(node, out)[0]
    window = pooling_window(node, x)
    size = window.h.filter_size * window.w.filter_size
    if size > 1 << (31 - x.element.dl_bits):
        unsupported(
            node,
            f"averages windows of {size} pixels, more than the {1 << (31 - x.element.dl_bits)} "
            f"of {x.dtype} whose sum has 32 bits",
            "average in two steps",
        )
    return [multiplier(node, real / count) for count in range(1, size + 1)]


def pooling_clamp(node: Node, out: Tensor) -> tuple[float, float]:
    """Return the least and the largest output of a pooling with its activation, in the output's
    numbers.
    """
    if out.element.quantized:
        return output_clamp(node, out)
    return float_range(node, PoolingAttributes.of(node).activation)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    window = pooling_window(node, source)
    out = outs[0]
    dtype = np.dtype(out.dtype)
    if node.op == "MAX_POOL_2D":
        lowest = out.element.low if out.element.quantized else -np.inf
        taps = patches(x, window, lowest).transpose(3, 4, 0, 1, 2, 5)
        pooled = np.full(taps.shape[2:], lowest, x.dtype)
        for tap in taps.reshape(-1, *pooled.shape):
            # What is no number is not larger than anything, nor is 0.0 than -0.0.
            pooled = np.where(tap > pooled, tap, pooled)
    else:
        inside = patches(np.ones((1, *x.shape[1:3], 1), np.int64), window, 0).sum((3, 4))
        if is_scaled(node) and out.element.quantized:
            zero_point, scales = quantization(node, source)[1], average_scales(node, source, out)
            offset = patches(x.astype(np.int64) - zero_point, window, 0).sum((3, 4))
            factors, shifts = np.array(scales, np.int64).T[:, inside - 1]
            pooled = requantize(offset, factors, shifts, node.rounding)
            pooled += quantization(node, out)[1]
        elif out.element.quantized:
            total = patches(x.astype(np.int64), window, 0).sum((3, 4))
            # Half away from zero.
            pooled = np.sign(total) * ((np.abs(total) + inside // 2) // inside)
        else:
            # One value after another, as the reference adds.
            squares = node.op == "L2_POOL_2D"
            taps = patches(x * x if squares else x, window, 0).transpose(3, 4, 0, 1, 2, 5)
            total = floats.sum_in_order(taps.reshape(-1, *taps.shape[2:]), node.rounding)
            pooled = floats.divide(total, inside.astype(np.float32), node.rounding)
            pooled = np.sqrt(pooled) if squares else pooled
    low, high = pooling_clamp(node, out)
    if out.element.quantized:
        return [np.clip(pooled, low, high).astype(dtype)]
    return [floats.clamped(pooled, low, high)]


def whole_height(node: Node, ins: Sequence[Tensor | None]) -> int | None:
    """Return the height of one image if each window covers all of it; otherwise None."""
    x = operand(node, ins, 0)
    h = pooling_window(node, x).h
    # With padding there are windows that begin below the first row, or above it.
    alone = h.out_size == 1 and h.pad_before == 0
    whole = x.shape[0] == 1 and alone and h.filter_size == x.shape[1]
    return x.shape[1] if whole and not is_scaled(node) else None


def _rows_window(node: Node, ins: Sequence[Tensor | None]) -> Window:
    return pooling_window(node, operand(node, ins, 0))


MAX_POOL_2D = OpDef(
    _infer,
    _reference,
    _check,
    attributes=PoolingAttributes,
    bounds=ascending,
    rows=WindowRows(_rows_window),
    channel_groups=channelwise,
    copies_elements=True,
)
L2_POOL_2D = replace(MAX_POOL_2D, bounds=None, copies_elements=False)
AVERAGE_POOL_2D = replace(
    MAX_POOL_2D,
    copies_elements=False,
    roundings=TWICE_OR_EVEN,
    vector_floats=lambda node, ins: True,
    integer_form=IntegerOperands(),
    whole_height=whole_height,
)

OPERATORS: Mapping[str, OpDef] = {
    "AVERAGE_POOL_2D": AVERAGE_POOL_2D,
    "MAX_POOL_2D": MAX_POOL_2D,
    "L2_POOL_2D": L2_POOL_2D,
}
