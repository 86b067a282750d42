"""Quantization with ranges that are found when the model runs, and exact sums of its integers.

DYNAMIC_QUANTIZE gives int8, and a scale and a zero point for each row of its input. MATMUL_INTEGER
and CONV_INTEGER multiply int8 with constant weights and give the int32 sums of
``weight * (x - zero point)``; the zero points are an operand, one for all or one for each row or
image. What lies outside an image adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Tensor
from hilc.numerics.requantize import INT32_MAX
from hilc.ops import geometry, permuting
from hilc.ops.attributes import WindowAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_counts, unsupported

#: The type of the integers, and those of weights.
_INTEGERS, WEIGHTS = "int8", ("int8", "int16")
_LOW, _HIGH = ELEMENT_TYPES[_INTEGERS].bounds
#: The largest distance of an integer from a zero point.
_REACH = _HIGH - _LOW


@dataclass(frozen=True, kw_only=True)
class DynamicQuantizeAttributes(Attributes):
    """Attributes of DYNAMIC_QUANTIZE."""

    #: The definition: ONNX's DynamicQuantizeLinear, whose uint8 are 128 more, or one of TFLite's.
    form: Literal["onnx", "asymmetric", "symmetric"]
    #: The leading axes of the rows that have a range of their own, a negative number for all but
    #: as many; 0: all elements have one range.
    leading: int = 0

    def rows_of(self, x: Tensor) -> int:
        """Return the number of rows."""
        return prod(x.shape[: self.leading])


def _infer_quantize(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1, outputs=3)
    x, attributes = operand(node, ins, 0), DynamicQuantizeAttributes.of(node)
    if not x.element.is_computed_real:
        unsupported(node, f"quantizes {x.dtype}", "cast it to float32 before")
    if not -len(x.shape) <= attributes.leading < max(1, len(x.shape)):
        invalid(node, f"has rows along {attributes.leading} of {len(x.shape)} axes")
    rows = (attributes.rows_of(x),)
    return [(x.shape, _INTEGERS), (rows, "float32"), (rows, "int32")]


def _clamped(x: Array, low: int, high: int) -> npt.NDArray[np.float32]:
    """Return whole numbers from ``low`` to ``high``; NaN becomes ``low``."""
    least, most = np.float32(low), np.float32(high)
    return np.where(x > least, np.where(x < most, x, most), least).astype(np.float32)


def _away_from_zero(x: Array) -> Array:
    """Return numbers rounded, ties away from zero; half a unit is added in double, exactly."""
    whole: Array = np.trunc(x.astype(np.float64) + np.copysign(0.5, x))
    return whole


def _asymmetric(low: float, high: float) -> tuple[np.float32, int]:
    """Return scale and zero point as TFLite's AsymmetricQuantizeFloats does: the difference in
    float32, the others in doubles.
    """
    if low == high:
        return np.float32(1), 0
    least, most = np.float64(low), np.float64(high)
    scale = np.float64(np.float32(most - least)) / _REACH
    from_low, from_high = _LOW - least / scale, _HIGH - most / scale
    nearer = abs(least / scale) - _LOW < abs(most / scale) + _HIGH
    zero_point = from_low if nearer else from_high
    if zero_point >= _HIGH:
        return np.float32(scale), _HIGH
    nudged = _away_from_zero(np.asarray(zero_point)) if zero_point > _LOW else _LOW
    return np.float32(scale), int(nudged)


def _quantize_row(form: str, x: Array) -> tuple[Array, np.float32, int]:
    """Return a row as int8, its scale and its zero point."""
    none = np.float32(0)
    low = np.fmin(none, np.fmin.reduce(x)).astype(np.float32)
    high = np.fmax(none, np.fmax.reduce(x)).astype(np.float32)
    if form == "onnx":
        reach = np.float32(high - low)
        scale = np.float32(1) if reach == 0 else np.float32(reach / np.float32(_REACH))
        zero_point = _clamped(np.rint(none - low / scale), 0, _REACH)
        steps = _clamped(np.rint(x / scale) + zero_point, 0, _REACH)
        return (steps + _LOW).astype(np.int8), scale, int(zero_point) + _LOW
    if form == "symmetric":
        reach = np.fmax(-low, high).astype(np.float32)
        if reach == 0:
            return np.zeros(x.shape, np.int8), np.float32(1), 0
        inverse = np.float32(np.float32(_HIGH) / reach)
        steps = _clamped(_away_from_zero(none + x * inverse), -_HIGH, _HIGH)
        return steps.astype(np.int8), np.float32(reach / np.float32(_HIGH)), 0
    scale, offset = _asymmetric(float(low), float(high))
    inverse = np.float32(np.float32(1) / scale)
    steps = _clamped(_away_from_zero(np.float32(offset) + x * inverse), _LOW, _HIGH)
    return steps.astype(np.int8), scale, offset


def _quantize(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, attributes = values[0], DynamicQuantizeAttributes.of(node)
    assert x is not None
    rows = attributes.rows_of(operand(node, ins, 0))
    with np.errstate(all="ignore"):
        made = [_quantize_row(attributes.form, row) for row in x.reshape(rows, -1)]
    integers = np.stack([row for row, _, _ in made]).reshape(outs[0].shape)
    scales = np.array([scale for _, scale, _ in made], np.float32)
    return [integers, scales, np.array([zero for _, _, zero in made], np.int32)]


@dataclass(frozen=True, kw_only=True)
class ConvIntegerAttributes(WindowAttributes):
    """Attributes of CONV_INTEGER."""

    #: Rows from one tap of the filter to the next, at least 1.
    dilation_h: int = 1
    #: Columns from one tap of the filter to the next, at least 1.
    dilation_w: int = 1

    @property
    def dilations(self) -> tuple[int, int]:
        """Dilation along height and width, in elements."""
        return self.dilation_h, self.dilation_w


@dataclass(frozen=True)
class Sums:
    """Operands of a sum of integers, as images NHWC and filters ``[O, h, w, I / groups]``."""

    x_shape: tuple[int, ...]
    weights: Array
    window: geometry.Window
    groups: int
    #: Zero points: 1, or one an image.
    zero_points: int


def _operands(node: Node, ins: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Array]:
    require_counts(node, inputs=3)
    x, zero_point, weights = (operand(node, ins, i) for i in range(3))
    if x.dtype != _INTEGERS or zero_point.dtype != "int32" or len(zero_point.shape) != 1:
        invalid(
            node,
            f"takes {x.dtype} with zero points {zero_point.dtype}{list(zero_point.shape)}; int8 "
            "with a list of int32 is accepted",
        )
    if weights.data is None or weights.dtype not in WEIGHTS:
        invalid(
            node, f"has weights {weights.name!r} that are no constant of {' or '.join(WEIGHTS)}"
        )
    largest = int(np.abs(weights.data.reshape(weights.shape[0], -1).astype(np.int64)).sum(1).max())
    if _REACH * largest > INT32_MAX:
        unsupported(
            node, f"has sums that reach {_REACH * largest}, beyond 32 bits", "divide its depth"
        )
    return x, zero_point, weights.data


_ONE_TAP = ConvIntegerAttributes(stride_h=1, stride_w=1, padding="VALID")


def matmul_sums(node: Node, ins: Sequence[Tensor | None]) -> Sums:
    """Return the operands of MATMUL_INTEGER, checked: the rows of a zero point are an image."""
    x, zero_point, weights = _operands(node, ins)
    if weights.ndim != 2 or not x.shape or x.shape[-1] != weights.shape[1]:
        invalid(node, f"multiplies {list(x.shape)} with weights {list(weights.shape)}")
    rows, images = x.size // x.shape[-1], zero_point.size
    if rows % images:
        invalid(node, f"has {images} zero points for {rows} rows")
    shape = (images, 1, rows // images, x.shape[-1])
    one_tap = Node(node.op, node.inputs, node.outputs, _ONE_TAP)
    window = geometry.window(one_tap, shape, 1, 1)
    return Sums(shape, weights.reshape(len(weights), 1, 1, -1), window, 1, images)


def conv_sums(node: Node, ins: Sequence[Tensor | None]) -> Sums:
    """Return the operands of CONV_INTEGER, checked."""
    x, zero_point, weights = _operands(node, ins)
    if weights.ndim != 4 or len(x.shape) != 4:
        invalid(node, f"has images {list(x.shape)} and weights {list(weights.shape)}")
    groups, rest = divmod(x.shape[3], weights.shape[3])
    if rest or not groups or len(weights) % groups:
        invalid(
            node,
            f"has {x.shape[3]} input channels for filters of {weights.shape[3]} and "
            f"{len(weights)} output channels",
        )
    if zero_point.size not in (1, x.shape[0]):
        invalid(node, f"has {zero_point.size} zero points for {x.shape[0]} images")
    window = geometry.window(node, x.shape, *weights.shape[1:3])
    return Sums(x.shape, weights, window, groups, zero_point.size)


#: The operands of an operator, by its name.
SUMS = {"MATMUL_INTEGER": matmul_sums, "CONV_INTEGER": conv_sums}


def _infer_matmul(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    channels = len(matmul_sums(node, ins).weights)
    return [((*operand(node, ins, 0).shape[:-1], channels), "int32")]


def _infer_conv(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    sums = conv_sums(node, ins)
    window = sums.window
    shape = (sums.x_shape[0], window.h.out_size, window.w.out_size, len(sums.weights))
    return [(shape, "int32")]


def _sum(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    sums, (x, zero_points, _) = SUMS[node.op](node, ins), values
    assert x is not None
    assert zero_points is not None
    # Sums of all that are accepted are exact in double.
    steps = x.reshape(sums.x_shape).astype(np.float64) - zero_points.reshape(-1, 1, 1, 1)
    parts = []
    for part, weights in zip(
        np.split(steps, sums.groups, axis=3), np.split(sums.weights, sums.groups), strict=True
    ):
        rows = geometry.patches(part, sums.window, 0)
        rows = rows.reshape(-1, weights[0].size)
        parts.append(rows @ weights.reshape(len(weights), -1).T.astype(np.float64))
    return [np.concatenate(parts, axis=1).reshape(outs[0].shape).astype(np.int32)]


def _depth(node: Node, ins: Sequence[Tensor | None]) -> int:
    weights = operand(node, ins, 2)
    return weights.size // weights.shape[0]


def _permuted(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], order: permuting.Order
) -> permuting.Permuted | None:
    """Permute elements that have one range."""
    if DynamicQuantizeAttributes.of(node).leading:
        return None
    return permuting.Permuted((0,), order, node.attrs, outputs=1)


OPERATORS: Mapping[str, OpDef] = {
    "DYNAMIC_QUANTIZE": OpDef(
        _infer_quantize,
        _quantize,
        attributes=DynamicQuantizeAttributes,
        permuted=_permuted,
        quantizes_by_range=True,
    ),
    "MATMUL_INTEGER": OpDef(_infer_matmul, _sum, sum_depth=_depth),
    "CONV_INTEGER": OpDef(_infer_conv, _sum, attributes=ConvIntegerAttributes, sum_depth=_depth),
}
