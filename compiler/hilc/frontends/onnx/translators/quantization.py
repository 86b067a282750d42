"""Quantization: QuantizeLinear and DequantizeLinear, and the operators on integers that ONNX
defines by them.

A constant scale and zero point belong to the integer tensor, so that the operators around it may
become one on integers (:mod:`hilc.transforms.fuse_quantized`). Where integers have several
meanings, or a scale for each channel or one that is computed when the model runs, the conversion is
computed step by step in floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hilc.frontends.onnx.builder import dtype_name
from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.storage import STORED, StoredFloat
from hilc.ir import ELEMENT_TYPES, Array, Dequantized, Quant, Rounding, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.quantize import QuantizeAttributes

_NONE = ActivationAttributes()
#: The types that a tensor of floats is quantized to as a whole.
_QUANTIZED = ("int8", "uint8", "int16", "uint16")


def _along(n: Operation, value: Array, x: Tensor, default_axis: int = 1) -> Array:
    """Return scales or zero points in a shape that is broadcast to that of ``x``."""
    if value.size == 1:
        return value.reshape((1,) * len(x.shape))
    axis = n.axis(n.integer("axis", default_axis), len(x.shape))
    if n.has_attribute("block_size") and n.integer("block_size"):
        repeated = np.repeat(value, n.integer("block_size"), axis)
        return repeated[(slice(None),) * axis + (slice(0, x.shape[axis]),)]
    if value.shape != (x.shape[axis],):
        n.invalid(f"has scales of shape {list(value.shape)} along an axis of {x.shape[axis]}")
    return value.reshape([-1 if i == axis else 1 for i in range(len(x.shape))])


def _zero_points(n: Operation, scale: Array, dtype: str) -> Array:
    if n.has(2):
        return n.known(2, "the zero point")
    return np.zeros(scale.shape, dtype)


def _scale(n: Operation) -> Array:
    scale = n.known(1, "the scale")
    if not np.all((scale > 0) & np.isfinite(scale)):
        n.invalid(
            f"has the scale {scale.ravel()[:8].tolist()}", "finite numbers above 0 are accepted"
        )
    return scale


def _is_computed(n: Operation) -> bool:
    """Return whether the scale or the zero point is known only when the model runs."""
    return any(tensor is not None and tensor.data is None for tensor in map(n.optional, (1, 2)))


def _factors(n: Operation, index: int, x: Tensor) -> Tensor:
    """Return scales or zero points, a constant or not, as floats that are broadcast to ``x``."""
    given = n.optional(index)
    if given is None:
        return n.constant(0, "float32")
    if given.data is not None:
        return n.constant(_along(n, given.data.astype(np.float32), x), "float32")
    if n.has_attribute("block_size") and n.integer("block_size"):
        n.known(index, "the scale of blocks" if index == 1 else "the zero point of blocks")
    shape = _along(n, np.empty(given.shape), x).shape
    return n.reshape(n.cast(given, "float32"), shape)


@translates("QuantizeLinear")
def quantize(n: Operation) -> Tensor:
    """Translate QuantizeLinear, per tensor, per axis or blocked, with ties to even.

    Raises :class:`~hilc.errors.UnsupportedError` for an explicit ``precision`` or an input that is
    not a float computed here.
    """
    x = n.input(0)
    dtype = n.input(2).dtype if n.has(2) else "uint8"
    kind = n.builder.kind(n.optional(2))
    if n.has_attribute("output_dtype") and n.integer("output_dtype"):
        code = n.integer("output_dtype")
        kind = STORED.get(code)
        dtype = dtype_name(code) if kind is None else kind.dtype
    if n.has_attribute("precision") and n.integer("precision"):
        n.refuse("divides in another precision than that of its input", "leave out 'precision'")
    if not x.element.is_computed_real:
        n.refuse(f"quantizes {x.dtype}", "cast it to float32 before")
    if not _is_computed(n):
        scale = _scale(n)
        zero_point = _zero_points(n, scale, dtype)
        if kind is None and _is_whole(scale, zero_point, dtype):
            return n.emit(
                "QUANTIZE",
                x,
                attrs=QuantizeAttributes(dtype=dtype),
                quant=_quant(scale, zero_point),
                rounding=Rounding.NEAREST_EVEN,
            )
    steps = n.emit("DIV", x, _factors(n, 1, x), attrs=_NONE)
    if isinstance(kind, StoredFloat):
        return n.narrowed(steps, kind, saturate=bool(n.integer("saturate", 1)))
    low, high = ELEMENT_TYPES[dtype].bounds if kind is None else kind.bounds
    placed = n.emit("ADD", n.emit("ROUND", steps), _factors(n, 2, x), attrs=_NONE)
    for op, end in (("MAXIMUM", low), ("MINIMUM", high)):
        placed = n.emit(op, placed, n.constant(end, "float32"))
    return n.builder.named(n.cast(placed, dtype), kind)


def _is_whole(scale: Array, zero_point: Array, dtype: str) -> bool:
    """Return whether a tensor has one scale, and one that operators on integers have."""
    if scale.size != 1 or dtype not in _QUANTIZED:
        return False
    return 2.0**-100 < float(scale.reshape(())) < 2.0**100


def _quant(scale: Array, zero_point: Array) -> Quant:
    return Quant((float(np.float32(scale.reshape(()))),), (int(zero_point.reshape(())),))


@translates("DequantizeLinear")
def dequantize(n: Operation) -> Tensor:
    """Translate DequantizeLinear, per tensor, per axis or blocked; constants are computed here.

    Raises :class:`~hilc.errors.UnsupportedError` if the scale is not float32.
    """
    x, kind = n.input(0), n.builder.kind(n.input(0))
    if not n.input(1).element.is_computed_real:
        n.refuse(f"dequantizes to {n.input(1).dtype}", "give it a scale of float32")
    if _is_computed(n):
        steps = n.emit("SUB", n.as_float(x), _factors(n, 2, x), attrs=_NONE)
        return n.emit("MUL", steps, _factors(n, 1, x), attrs=_NONE)
    scale = _scale(n)
    if isinstance(kind, StoredFloat):
        # Its zero point is 0.
        factors = n.constant(_along(n, scale, x), "float32")
        return n.emit("MUL", n.as_float(x), factors, attrs=_NONE)
    zero_point = _zero_points(n, scale, x.dtype)
    scales, zero_points = (_along(n, value, x) for value in (scale, zero_point))
    if x.data is not None:
        integers = x.data
        real = (integers.astype(np.float32) - zero_points.astype(np.float32)) * scales
        shown = (np.broadcast_to(value, x.shape) for value in (scales, zero_points))
        origin = Dequantized(integers, *shown)
        return n.builder.dequantized(n.output_names[0], real.astype(np.float32), origin)
    if kind is None and _is_whole(scale, zero_point, x.dtype):
        meant = n.builder.quantized(x, _quant(scale, zero_point))
        if meant is not None:
            return n.emit("DEQUANTIZE", meant, rounding=Rounding.NEAREST_EVEN)
    offset = n.constant(zero_points.astype(np.float32), "float32")
    steps = n.emit("SUB", n.cast(x, "float32"), offset, attrs=_NONE)
    return n.emit("MUL", steps, n.constant(scales, "float32"), attrs=_NONE)


def _run(n: Operation, kind: str, *operands: Tensor | None, **attributes: Any) -> Tensor:
    """Return the only output of another operator of ONNX."""
    return n.run(kind, operands, **attributes)[0]


def _dequantized(n: Operation, first: int, **attributes: Any) -> Tensor:
    """Return the floats that the integers ``first`` stand for, by the two operands behind them."""
    operands = (n.optional(first + i) for i in range(3))
    return _run(n, "DequantizeLinear", *operands, **attributes)


def _quantized(n: Operation, x: Tensor, first: int) -> Tensor:
    """Return floats as integers by the scale ``first`` and the zero point behind it."""
    return _run(n, "QuantizeLinear", x, n.optional(first), n.optional(first + 1))


@translates("QLinearConv")
def qlinear_conv(n: Operation) -> Tensor:
    """Translate QLinearConv to Conv of dequantized operands; the bias has the accumulator scale."""
    operands = [_dequantized(n, 0), _dequantized(n, 3, axis=0)]
    if n.has(8):
        scales = [n.known(i, "the scale").astype(np.float64) for i in (1, 4)]
        real = n.known(8, "the bias") * (scales[0] * scales[1]).reshape(-1)
        operands.append(n.constant(real, "float32"))
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return _quantized(n, _run(n, "Conv", *operands, **n.stated(*names)), 6)


@translates("QLinearMatMul")
def qlinear_matmul(n: Operation) -> Tensor:
    """Translate QLinearMatMul to MatMul of dequantized operands, then QuantizeLinear."""
    return _quantized(n, _run(n, "MatMul", _dequantized(n, 0), _dequantized(n, 3)), 6)
