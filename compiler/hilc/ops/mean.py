"""MEAN and SUM over any axes.

Inputs: the tensor and the constant axes.

int8 divides by the count within the multiplier: it is raised by as many bits as leave it and
its shift in range, divided by the count and truncated; the sum is then rescaled once. SUM is that
without the division. By the policy of ties to even the count divides the real factor, which is
then rounded to 31 bits. LiteRT 1.2 computes another SUM of quantized numbers, which is not
supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.numerics import floats
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops import permuting
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature, one_definition
from hilc.ops.operands import (
    ARITHMETIC,
    constant_ints,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    require_symmetric,
    require_tflm,
    resolve_axis,
    undefined,
    unsupported,
)
from hilc.ops.traits import ChannelGroup, IntegerOperands, ascending, in_step

#: Floats are added up one by one.
_MOST_FLOATS = 1 << 23


def reduced_axes(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the reduced axes, in order and once each."""
    rank = len(operand(node, ins, 0).shape)
    given = constant_ints(node, operand(node, ins, 1))
    return tuple(sorted({resolve_axis(node, axis, rank) for axis in given}))


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, (*ARITHMETIC, *INDEX_TYPES) if node.op == "SUM" else ARITHMETIC)
    if x.element.quantized:
        require_symmetric(node, x)
    axes = reduced_axes(node, ins)
    count = prod(x.shape[axis] for axis in axes)
    # Values whose sum, less their zero points, is sure to fit 31 bits.
    most = 1 << (31 - x.element.dl_bits) if x.element.quantized else _MOST_FLOATS
    if count > most:
        unsupported(
            node,
            f"reduces {count} values, more than {most}",
            "reduce in two steps, along one axis each",
        )
    return [(reduced_shape(node, ins), x.dtype)]


def reduced_shape(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the shape without the reduced axes."""
    shape, axes = operand(node, ins, 0).shape, reduced_axes(node, ins)
    if ReductionAttributes.of(node).keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def divisor(node: Node, count: int) -> float:
    """Return the divisor of the sum of ``count`` real values."""
    return 1.0 if node.op == "SUM" else float(count)


def mean_scale(node: Node, x: Tensor, out: Tensor, count: int) -> FixedPoint:
    """Return the fixed-point factor from the sum of ``count`` elements to the output of a MEAN or
    SUM; :class:`~hilc.errors.ModelError` for scales out of range.
    """
    real = quantization(node, x)[0] / quantization(node, out)[0]
    if node.rounding is Rounding.NEAREST_EVEN:
        return multiplier(node, real if node.op == "SUM" else real / count)
    scale = multiplier(node, real)
    if node.op == "SUM":
        return scale
    raised = min(count.bit_length() - 1, 32, 31 + scale.shift)
    return FixedPoint((scale.multiplier << raised) // count, scale.shift - raised)


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x = operand(node, ins, 0)
    if not x.element.quantized:
        require_same_quantization(node, x, outs[0])
    else:
        if node.op == "SUM" and node.rounding is not Rounding.NEAREST_EVEN:
            require_tflm(node, f"sums up {x.dtype}")
        count = x.size // outs[0].size
        require_symmetric(node, outs[0])
        # Of int8 the sum is below 2^9 times the count, and its mean times 2^22 stays within 31
        # bits.
        most = 30 - x.element.dl_bits - count.bit_length()
        if mean_scale(node, x, outs[0], count).shift > most:
            undefined(
                node,
                f"has scale {quantization(node, x)[0]} in and {quantization(node, outs[0])[0]} out",
            )


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x, out = operand(node, ins, 0), values[0], outs[0]
    assert x is not None
    count = source.size // out.size
    axes = reduced_axes(node, ins)
    if source.dtype in INDEX_TYPES:
        return [x.sum(axes, dtype=x.dtype).reshape(out.shape)]
    if not source.element.quantized:
        # One value after another in memory order, as the reference adds.
        moved = np.moveaxis(x, axes, range(len(axes))).reshape(count, -1)
        total = floats.sum_in_order(moved, node.rounding)
        by = np.full(total.shape, divisor(node, count), np.float32)
        return [floats.divide(total, by, node.rounding).reshape(out.shape)]
    total_q = x.sum(axes, dtype=np.int64) - quantization(node, source)[1] * count
    scale = mean_scale(node, source, out, count)
    mean = requantize(total_q, *scale, node.rounding) + quantization(node, out)[1]
    return [np.clip(mean, *out.element.bounds).astype(out.dtype).reshape(out.shape)]


def whole_height(node: Node, ins: Sequence[Tensor | None]) -> int | None:
    """Return the height of the image if its pixels are averaged; None if other axes are reduced."""
    x = operand(node, ins, 0)
    return (
        x.shape[1]
        if len(x.shape) == 4
        and x.shape[0] == 1
        and reduced_axes(node, ins) == (1, 2)
        and node.rounding is not Rounding.NEAREST_EVEN
        else None
    )


def block_of_values(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, int, int] | None:
    """Return the numbers of blocks, of values for each mean, and of adjacent elements that are
    kept; None if the reduced axes are not adjacent.
    """
    shape, axes = operand(node, ins, 0).shape, reduced_axes(node, ins)
    long = [axis for axis in axes if shape[axis] > 1]
    first, end = (long[0], long[-1] + 1) if long else (len(shape), len(shape))
    if any(shape[axis] > 1 and axis not in axes for axis in range(first, end)):
        return None
    return prod(shape[:first]), prod(shape[first:end]), prod(shape[end:])


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    x = operand(node, ins, 0)
    return [] if len(x.shape) - 1 in reduced_axes(node, ins) else [in_step(x, out)]


MEAN = OpDef(
    _infer,
    _reference,
    _check,
    attributes=ReductionAttributes,
    roundings=TWICE_OR_EVEN,
    vector_floats=lambda node, ins: block_of_values(node, ins) is not None,
    bounds=ascending,
    whole_height=whole_height,
    integer_form=IntegerOperands(),
    permuted=permuting.reduced,
    channel_groups=_channel_groups,
    by_numerics=one_definition(_check),
)

OPERATORS: Mapping[str, OpDef] = {
    "MEAN": MEAN,
    "SUM": MEAN,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "SUM": {"int32", "int64"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    # It sums quantized numbers in another way.
    "SUM": {"int8", "int16"},
}
