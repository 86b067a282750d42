"""QUANTIZE and DEQUANTIZE: between float32 and integers, and from one quantization to another.

A float32 number beyond int32, in steps of the output's scale, becomes the end of the output's type
on its side, as does infinity, and NaN the type's smallest value. The reference converts it to
int32 unchecked, which C leaves undefined: on x86 all of these become the same end of the type.

From one quantization of bytes to another every byte has one answer: a table, as in
:mod:`hilc.ops.unary`. Wider integers are requantized one by one.

By the policy of ties to even QUANTIZE is QuantizeLinear of ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Rounding, Tensor
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops import permuting
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    has_no_zero_point,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    undefined,
    unsupported,
)
from hilc.ops.traits import SameRows, always, channelwise, mapped
from hilc.ops.unary import look_up

#: Types for which every number has an entry in a table.
BYTES = tuple(name for name, row in ELEMENT_TYPES.items() if row.tabled)
#: Types that the reference quantizes each type to.
_TARGETS: Mapping[str, tuple[str, ...]] = {
    "float32": ("int8", "uint8", "int16", "uint16"),
    "int8": (*BYTES, "int16", "int32"),
    "uint8": BYTES,
    "int16": ("int8", "int16", "uint16", "int32"),
    "uint16": ("int16",),
    "int32": ("int8", "int16"),
}
#: A zero point that is added to a requantized integer of at most 2^30.
_MAX_ADDED = 1 << 30
_DEQUANTIZED = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True, kw_only=True)
class QuantizeAttributes(Attributes):
    """Attributes of QUANTIZE."""

    #: The type of the output.
    dtype: str = "int8"


def _infer_quantize(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, tuple(_TARGETS))
    dtype = QuantizeAttributes.of(node).dtype
    if x.element.may_have_scale:
        quantization(node, x)
    if dtype not in _TARGETS[x.dtype]:
        unsupported(
            node, f"quantizes {x.dtype} to {dtype}", f"quantize to {' or '.join(_TARGETS[x.dtype])}"
        )
    return [(x.shape, dtype)]


def is_table(source: Tensor, target: Tensor) -> bool:
    """Whether every number has an answer of a byte."""
    return source.dtype in BYTES and target.dtype in BYTES


def byte_table(node: Node, source: Tensor, target: Tensor) -> Array:
    """Return the new quantization's byte for each byte of the old one."""
    (in_scale, in_zero), (out_scale, out_zero) = (quantization(node, t) for t in (source, target))
    ratio = multiplier(node, in_scale / out_scale)
    # 256 steps times 2^22 and the rounding stay within 31 bits.
    if ratio.shift > 22:
        undefined(
            node,
            f"has input scale {in_scale} and output scale {out_scale}",
        )
    every_byte = np.arange(256, dtype=np.uint8).view(source.dtype)
    scaled = requantize(every_byte.astype(np.int64) - in_zero, *ratio, node.rounding)
    return np.clip(scaled + out_zero, *target.element.bounds).astype(target.dtype)


def wide_ratio(node: Node, source: Tensor, target: Tensor) -> FixedPoint:
    """Return the factor from one quantization to the other, where either has more than a byte."""
    (in_scale, in_zero), (out_scale, out_zero) = (quantization(node, t) for t in (source, target))
    if has_no_zero_point(node, target) and (out_zero or (in_zero and source.element.symmetric)):
        unsupported(
            node,
            f"quantizes {source.dtype} with zero point {in_zero} to {target.dtype} with {out_zero}",
            f"quantize {target.dtype} symmetrically, as the TFLite quantization scheme asks",
        )
    ratio = multiplier(node, in_scale / out_scale)
    # What is scaled, and the zero point that is added, stay within 32 bits: 2^15 steps of either
    # sign times 2^16, less where there are more steps, or something to add.
    most = 16 if not (in_zero or out_zero) else 14
    if ratio.shift > (most if source.element.itemsize <= 2 else 0) or abs(out_zero) > _MAX_ADDED:
        undefined(
            node,
            f"requantizes {source.dtype} from scale {in_scale} and zero point {in_zero} to "
            f"scale {out_scale} and zero point {out_zero}",
        )
    return ratio


def _check_quantize(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, y = operand(node, ins, 0), outs[0]
    quantization(node, y)
    if is_table(x, y):
        byte_table(node, x, y)
    elif x.element.may_have_scale:
        wide_ratio(node, x, y)


def _quantize(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if is_table(source, outs[0]):
        return [look_up(byte_table(node, source, outs[0]), x)]
    scale, zero_point = quantization(node, outs[0])
    low, high = outs[0].element.bounds
    if source.element.may_have_scale:
        # Wraps around at the ends of 32 bits, as the reference does.
        steps = (x.astype(np.int64) - quantization(node, source)[1]).astype(np.int32)
        ratio = wide_ratio(node, source, outs[0])
        y = requantize(steps, *ratio, node.rounding) + zero_point
        return [np.clip(y, low, high).astype(outs[0].dtype)]
    with np.errstate(all="ignore"):
        scaled = (x / np.float32(scale)).astype(np.float64)
    if node.rounding is Rounding.NEAREST_EVEN:
        rounded = np.rint(scaled) + zero_point
    else:
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) + zero_point
    # NaN becomes the smallest, as in the kernel; the reference's conversion of it, and of what is
    # beyond int32, is undefined in C.
    numbers = np.nan_to_num(rounded, nan=float(low))
    return [np.clip(numbers, low, high).astype(outs[0].dtype)]


def _infer_dequantize(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, _DEQUANTIZED)
    quantization(node, x)
    return [(x.shape, "float32")]


def _dequantize(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    scale, zero_point = quantization(node, operand(node, ins, 0))
    x = values[0]
    assert x is not None
    return [np.float32(scale) * (x.astype(np.int32) - zero_point).astype(np.float32)]


QUANTIZE = OpDef(
    _infer_quantize,
    _quantize,
    _check_quantize,
    attributes=QuantizeAttributes,
    roundings=TWICE_OR_EVEN,
    is_identity=always,
    conversion="quantize",
    bounds=mapped,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)
DEQUANTIZE = OpDef(
    _infer_dequantize,
    _dequantize,
    roundings=TWICE_OR_EVEN,
    conversion="dequantize",
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)

OPERATORS: Mapping[str, OpDef] = {
    "QUANTIZE": QUANTIZE,
    "DEQUANTIZE": DEQUANTIZE,
}
