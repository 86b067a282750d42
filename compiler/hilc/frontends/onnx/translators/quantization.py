"""Quantization: QuantizeLinear and DequantizeLinear, and the operators on integers that ONNX
defines by them.

A scale and a zero point belong to the integer tensor, so that the operators around it may become
one on integers (:mod:`hilc.transforms.fuse_quantized`). Where integers have several meanings, or a
scale for each channel, the conversion is computed step by step in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hilc.frontends.onnx.builder import dtype_name
from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.storage import STORED, StoredFloat
from hilc.frontends.onnx.translators.convolution import convolved_first
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.movement import along
from hilc.ir import ELEMENT_TYPES, Array, Dequantized, Quant, Rounding, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.dynamic import DynamicQuantizeAttributes
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


@translates("QuantizeLinear")
def quantize(n: Operation) -> Tensor:
    """Translate QuantizeLinear, per tensor, per axis or blocked, with ties to even.

    Raises :class:`~hilc.errors.UnsupportedError` for an explicit ``precision`` or an input that is
    not a float computed here.
    """
    x, scale = n.input(0), _scale(n)
    dtype = n.input(2).dtype if n.has(2) else "uint8"
    kind = n.builder.kind(n.optional(2))
    if n.has_attribute("output_dtype") and n.integer("output_dtype"):
        code = n.integer("output_dtype")
        kind = STORED.get(code)
        dtype = dtype_name(code) if kind is None else kind.dtype
    zero_point = _zero_points(n, scale, dtype)
    if n.has_attribute("precision") and n.integer("precision"):
        n.refuse("divides in another precision than that of its input", "leave out 'precision'")
    if not x.element.is_computed_real:
        n.refuse(f"quantizes {x.dtype}", "cast it to float32 before")
    if kind is None and _is_whole(scale, zero_point, dtype):
        return n.emit(
            "QUANTIZE",
            x,
            attrs=QuantizeAttributes(dtype=dtype),
            quant=_quant(scale, zero_point),
            rounding=Rounding.NEAREST_EVEN,
        )
    steps = n.emit("DIV", x, n.constant(_along(n, scale, x), "float32"), attrs=_NONE)
    if isinstance(kind, StoredFloat):
        return n.narrowed(steps, kind, saturate=bool(n.integer("saturate", 1)))
    low, high = ELEMENT_TYPES[dtype].bounds if kind is None else kind.bounds
    offset = n.constant(_along(n, zero_point.astype(np.float32), x), "float32")
    placed = n.emit("ADD", n.emit("ROUND", steps), offset, attrs=_NONE)
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
    x, scale = n.input(0), _scale(n)
    if scale.dtype != np.float32:
        n.refuse(f"dequantizes to {scale.dtype}", "give it a scale of float32")
    kind = n.builder.kind(x)
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


@translates("DynamicQuantizeLinear")
def dynamic_quantize(n: Operation) -> list[Tensor | None]:
    """Return uint8, their scale and their zero point, which the range of the input decides at run
    time.

    The standard leaves a tensor of zeros undefined; its scale is 1, as in onnxruntime.
    """
    if n.builder.sums_integers:
        return _quantized_by_range(n, n.input(0))
    x, none = n.input(0), n.constant(0, "float32")
    axes = n.constant(range(len(x.shape)), "int32")

    def end(reduce: str, choose: str) -> Tensor:
        found = (
            n.emit(reduce, x, axes, attrs=ReductionAttributes(keep_dims=False)) if x.shape else x
        )
        return n.emit(choose, found, none)

    low, high = end("REDUCE_MIN", "MINIMUM"), end("REDUCE_MAX", "MAXIMUM")
    reach = n.emit("SUB", high, low, attrs=_NONE)
    scale = n.emit("DIV", reach, n.constant(255, "float32"), attrs=_NONE)
    is_empty = n.emit("EQUAL", reach, none)
    scale = n.emit("SELECT_V2", is_empty, n.constant(1, "float32"), scale)

    def placed(value: Tensor, offset: Tensor) -> Tensor:
        moved = n.emit("ADD", n.emit("ROUND", value), offset, attrs=_NONE)
        above = n.emit("MAXIMUM", moved, none)
        return n.emit("MINIMUM", above, n.constant(255, "float32"))

    offset = n.emit("SUB", none, n.emit("DIV", low, scale, attrs=_NONE), attrs=_NONE)
    zero_point = placed(offset, none)
    steps = n.emit("DIV", x, scale, attrs=_NONE)
    return [
        n.cast(placed(steps, zero_point), "uint8"),
        scale,
        n.cast(zero_point, "uint8"),
    ]


def _quantized_by_range(n: Operation, x: Tensor) -> list[Tensor | None]:
    """Return what :func:`dynamic_quantize` does of int8, which sums of integers take."""
    attrs = DynamicQuantizeAttributes(form="onnx")
    signed, scale, zero_point = n.emit_all("DYNAMIC_QUANTIZE", [x], 3, attrs)

    def unsigned(values: Tensor, shape: Sequence[int]) -> Tensor:
        raised = n.emit("ADD", n.cast(values, "int32"), n.constant(_SIGN_BIT, "int32"), attrs=_NONE)
        made = n.reshape(n.cast(raised, "uint8"), shape)
        n.builder.signed[made.name] = values
        return made

    return [unsigned(signed, x.shape), n.reshape(scale, ()), unsigned(zero_point, ())]


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


#: The difference of uint8 and the int8 with the same place among its values.
_SIGN_BIT = 128


def _signed(n: Operation, x: Tensor) -> Tensor:
    """Return int8, or uint8 less 128."""
    if x.dtype == "int8":
        return x
    known = n.builder.signed.get(x.name)
    if known is not None:
        return known
    lower = n.emit("SUB", n.cast(x, "int32"), n.constant(_SIGN_BIT, "int32"), attrs=_NONE)
    return n.cast(lower, "int8")


def _signed_zero_points(n: Operation, x: Tensor, index: int) -> Tensor:
    """Return the zero points of :func:`_signed`, a list of int32."""
    lower = 0 if x.dtype == "int8" else _SIGN_BIT
    if not n.has(index):
        return n.constant([-lower], "int32")
    zero_point = n.input(index)
    found = n.builder.signed.get(zero_point.name)
    if found is None:
        wide = n.cast(zero_point, "int32")
        found = n.emit("SUB", wide, n.constant(lower, "int32"), attrs=_NONE) if lower else wide
    return n.reshape(found, (zero_point.size,))


def _integer_weights(n: Operation, rank: int) -> Array | None:
    """Return constant weights less their zero points; None where they are only known at run time,
    sums of them may exceed 32 bits, or the model is read for sums in floats.
    """
    b, zero_point = n.input(1), n.optional(3)
    if b.data is None or b.data.ndim < rank or (zero_point and zero_point.data is None):
        return None
    n.builder.has_integer_sums = True
    if not n.builder.sums_integers:
        return None
    found = b.data.astype(np.int32)
    if zero_point is not None and zero_point.data is not None:
        zero_points = zero_point.data.astype(np.int32)
        if rank > 2 and zero_points.size > 1:
            zero_points = zero_points.reshape(-1, *(1,) * (rank - 1))
        found = found - zero_points
    largest = np.abs(found.astype(np.int64))
    largest = largest.sum(axis=0) if rank == 2 else largest.reshape(len(found), -1).sum(axis=1)
    if largest.max(initial=0) * 255 > np.iinfo(np.int32).max:
        return None
    is_narrow = found.min(initial=0) >= -_SIGN_BIT and found.max(initial=0) < _SIGN_BIT
    return found.astype(np.int8 if is_narrow else np.int16)


#: Integers up to this one are exact in float32.
_EXACT = 1 << 24


def _less_zero_point(n: Operation, index: int, zero: int, shape: Sequence[int]) -> Tensor:
    """Return integers less their zero point, the operand ``zero``, in floats."""
    x = n.cast(n.input(index), "float32")
    if not n.has(zero):
        return x
    offset = n.cast(n.input(zero), "float32")
    if len(offset.shape) == 1:
        offset = n.reshape(offset, shape)
    return n.emit("SUB", x, offset, attrs=_NONE)


def _exact_sum(n: Operation, length: int, terms: int, part: Callable[[int, int], Tensor]) -> Tensor:
    """Return int32 sums of products of 8 bits, of parts of the axis of ``length`` that are exact
    in floats; each of its elements stands for ``terms`` products.
    """
    if not length * terms:
        n.refuse("adds up no products: its weights have no elements", "give it weights")
    most = max(1, _EXACT // (255 * 255 * terms))
    if terms * 255 * 255 > _EXACT:
        n.refuse(f"adds {terms} products for each channel", "use a smaller window")
    found: Tensor | None = None
    for start in range(0, length, most):
        sums = n.cast(part(start, min(start + most, length)), "int32")
        found = sums if found is None else n.emit("ADD", found, sums, attrs=_NONE)
    assert found is not None
    return found


@translates("MatMulInteger")
def matmul_integer(n: Operation) -> Tensor:
    """Translate MatMulInteger to exact int32 sums: of integers where the weights are constant, and
    in floats elsewhere, split where float32 would round.
    """
    x, weights = n.input(0), _integer_weights(n, 2)
    if weights is not None and weights.ndim == 2 and weights.size and x.shape and x.data is None:
        zero_points = _signed_zero_points(n, x, 2)
        if zero_points.size in (1, x.size // x.shape[-1]):
            return n.emit("MATMUL_INTEGER", _signed(n, x), zero_points, n.constant(weights.T))
    a = _less_zero_point(n, 0, 2, (-1, 1))
    b = _less_zero_point(n, 1, 3, (1, -1))
    inner, axis = a.shape[-1], max(0, len(b.shape) - 2)

    def part(start: int, end: int) -> Tensor:
        return product(n, along(n, a, len(a.shape) - 1, start, end), along(n, b, axis, start, end))

    return _exact_sum(n, inner, 1, part)


@translates("ConvInteger")
def conv_integer(n: Operation) -> Tensor:
    """Translate ConvInteger to exact int32 sums: of integers where the weights are constant, and
    in floats elsewhere, split where float32 would round.

    Raises :class:`~hilc.errors.UnsupportedError` if the sums must be split in a grouped
    convolution.
    """
    weights = _integer_weights(n, len(n.input(1).shape))
    if weights is not None and weights.size and n.input(0).data is None:
        zero_point = _signed_zero_points(n, n.input(0), 2)
        return convolved_first(n, _signed(n, n.input(0)), weights, None, zero_point)
    x = _less_zero_point(n, 0, 2, (-1,))
    w = _less_zero_point(n, 1, 3, (-1, *(1,) * (len(n.input(1).shape) - 1)))
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    channels, taps = w.shape[1], prod(w.shape[2:])

    def part(start: int, end: int) -> Tensor:
        if (start, end) == (0, channels):
            return _run(n, "Conv", x, w, **n.stated(*names))
        if n.integer("group", 1) != 1:
            n.refuse("adds many products in several groups", "use one group, or fewer channels")
        pair = (along(n, x, 1, start, end), along(n, w, 1, start, end))
        return _run(n, "Conv", *pair, **n.stated(*names))

    return _exact_sum(n, channels, taps, part)
