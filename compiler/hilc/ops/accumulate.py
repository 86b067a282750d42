"""ADD_N, the sum of several tensors, and CUMSUM, the sums of all elements so far along an axis.

int8 values, all of one scale, are raised by 19 bits and added; a sum is requantized once. As those
of TFLM, the sums start at the number 0, not at the zero point, and what exceeds 32 bits, that is
more than 16 values at one end, wraps around. By the policy of ties to even, CUMSUM of int8 or int16
adds steps from the zero point exactly, and rounds each sum once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array, Attributes, Node, Rounding, Tensor
from hilc.numerics.requantize import SUMS, FixedPoint, Int64Array, requantize
from hilc.ops import permuting
from hilc.ops.broadcast import broadcast_channel_groups
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    constant_int,
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    resolve_axis,
    undefined,
    unsupported,
)
from hilc.ops.traits import BroadcastRows, IntegerInput

#: The types that an operator takes.
ADD_N_DTYPES = ("int8", "int32", "float32")
CUMSUM_DTYPES = ("int8", "int16", "float32")
#: Bits by which int8 values are raised.
HEADROOM_BITS = 19


@dataclass(frozen=True, kw_only=True)
class CumsumAttributes(Attributes):
    """Attributes of CUMSUM."""

    #: Whether each sum excludes the element at its own position.
    exclusive: bool = False
    #: Whether to sum from the end.
    reverse: bool = False


def sum_scale(node: Node, x: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor of a sum of raised int8 values."""
    in_scale, out_scale = (quantization(node, tensor)[0] for tensor in (x, out))
    scale = multiplier(node, 2 * in_scale / ((1 << (HEADROOM_BITS + 1)) * out_scale))
    if scale.shift > 0:
        undefined(
            node, f"has output scale {out_scale}, more than 2^19 times finer than its inputs'"
        )
    return scale


def _requantized(node: Node, total: Int64Array, x: Tensor, out: Tensor) -> Array:
    start = -quantization(node, x)[1]
    raised = ((total + start) << HEADROOM_BITS).astype(np.int32).astype(np.int64)
    scaled = requantize(raised, *sum_scale(node, x, out)) + quantization(node, out)[1]
    return np.clip(scaled, *out.element.bounds).astype(out.dtype)


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x = operand(node, ins, 0)
    if x.element.quantized:
        sum_scale(node, x, outs[0])


# ADD_N ------------------------------------------------------------------------------------------


def _infer_add_n(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=(2, max(len(ins), 2)))
    tensors = [operand(node, ins, index) for index in range(len(ins))]
    first = tensors[0]
    require_dtype(node, first, ADD_N_DTYPES)
    for other in tensors[1:]:
        if (other.shape, other.dtype) != (first.shape, first.dtype):
            invalid(
                node,
                f"adds {other.dtype}{list(other.shape)} to {first.dtype}{list(first.shape)}",
            )
        if first.element.quantized and quantization(node, other) != quantization(node, first):
            unsupported(
                node,
                f"adds {other.name!r} to {first.name!r}, whose quantizations differ",
                "give all of them the same scale and zero point, or use ADD",
            )
    return [(first.shape, first.dtype)]


def _add_n(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = operand(node, ins, 0)
    present = [value for value in values if value is not None]
    if not x.element.quantized:
        total = present[0]
        for value in present[1:]:
            total = total + value
        return [total]
    zero_point = quantization(node, x)[1]
    steps = sum(value.astype(np.int64) - zero_point for value in present)
    return [_requantized(node, np.asarray(steps), x, outs[0])]


# CUMSUM -----------------------------------------------------------------------------------------


def cumsum_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis along which the elements are added, counted from the front."""
    axis = constant_int(node, operand(node, ins, 1))
    return resolve_axis(node, axis, len(operand(node, ins, 0).shape))


def even_scale(node: Node, x: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor of a sum that is rounded once."""
    return multiplier(node, quantization(node, x)[0] / quantization(node, out)[0])


def _check_cumsum(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x = operand(node, ins, 0)
    if not x.element.quantized:
        return
    if node.rounding is Rounding.NEAREST_EVEN:
        even_scale(node, x, outs[0])
        low, high = x.element.bounds
        length = x.shape[cumsum_axis(node, ins)]
        if length * (high - low) >= SUMS["int32"].limit:
            unsupported(node, f"adds {length} elements of {x.dtype}", "add shorter parts")
    elif not x.element.tabled:
        unsupported(node, f"adds {x.dtype} as TensorFlow Lite Micro", "int8 is supported")
    else:
        sum_scale(node, x, outs[0])


def _infer_cumsum(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, CUMSUM_DTYPES)
    cumsum_axis(node, ins)
    if x.element.quantized:
        quantization(node, x)
    return [(x.shape, x.dtype)]


def _cumsum(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    stated, axis = CumsumAttributes.of(node), cumsum_axis(node, ins)
    if source.element.quantized:
        x = x.astype(np.int64) - quantization(node, source)[1]
    if stated.reverse:
        x = np.flip(x, axis)
    total = np.cumsum(x, axis, dtype=x.dtype)
    if stated.exclusive:
        total = np.roll(total, 1, axis)
        total[(slice(None),) * axis + (0,)] = 0
    if stated.reverse:
        total = np.flip(total, axis)
    if source.element.quantized and node.rounding is Rounding.NEAREST_EVEN:
        scaled = requantize(total, *even_scale(node, source, outs[0]), node.rounding)
        scaled = scaled + quantization(node, outs[0])[1]
        total = np.clip(scaled, *outs[0].element.bounds).astype(outs[0].dtype)
    elif source.element.quantized:
        total = _requantized(node, total, source, outs[0])
    return [np.ascontiguousarray(total)]


ADD_N = OpDef(
    _infer_add_n,
    _add_n,
    _check,
    rows=BroadcastRows(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)
CUMSUM = OpDef(
    _infer_cumsum,
    _cumsum,
    _check_cumsum,
    attributes=CumsumAttributes,
    roundings=TWICE_OR_EVEN,
    integer_form=IntegerInput(),
)

OPERATORS: Mapping[str, OpDef] = {
    "ADD_N": ADD_N,
    "CUMSUM": CUMSUM,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "ADD_N": {"int32"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "ADD_N": {"int8"},
    "CUMSUM": {"int8", "float32"},
}
