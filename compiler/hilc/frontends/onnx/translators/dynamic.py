"""Quantization by ranges that are found when the model runs, and exact sums of integers.

DynamicQuantizeLinear, MatMulInteger and ConvInteger, which onnxruntime's dynamic quantization
writes, become operators on integers where weights are constant, else on floats, by parts whose sums
are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hilc.frontends.onnx.operation import MICROSOFT, Operation, translates
from hilc.frontends.onnx.translators.control_flow import entry
from hilc.frontends.onnx.translators.convolution import convolved_first
from hilc.frontends.onnx.translators.matmul import product
from hilc.frontends.onnx.translators.movement import along
from hilc.frontends.onnx.translators.unrolled import unrolled
from hilc.ir import Array, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.dynamic import DynamicQuantizeAttributes

_NONE = ActivationAttributes()


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


#: The difference of uint8 and the int8 with the same place among its values.
_SIGN_BIT = 128


def _signed(n: Operation, x: Tensor) -> Tensor:
    """Return int8, or uint8 less 128."""
    if x.element.low < 0:
        return x
    known = n.builder.signed.get(x.name)
    if known is not None:
        return known
    lower = n.emit("SUB", n.cast(x, "int32"), n.constant(_SIGN_BIT, "int32"), attrs=_NONE)
    return n.cast(lower, "int8")


def _signed_zero_points(n: Operation, x: Tensor, index: int) -> Tensor:
    """Return the zero points of :func:`_signed`, a list of int32."""
    lower = 0 if x.element.low < 0 else _SIGN_BIT
    if not n.has(index):
        return n.constant([-lower], "int32")
    zero_point = n.input(index)
    found = n.builder.signed.get(zero_point.name)
    if found is None:
        wide = n.cast(zero_point, "int32")
        found = n.emit("SUB", wide, n.constant(lower, "int32"), attrs=_NONE) if lower else wide
    return n.reshape(found, (zero_point.size,))


@dataclass(frozen=True)
class _Weights:
    """Constant weights: ``values``, and ``offsets`` that each of an output channel's lacks."""

    values: Array
    #: int32, one for all or one an output channel; None for zeros.
    offsets: Array | None = None


def _integer_weights(n: Operation, rank: int, *, grouped: bool = False) -> _Weights | None:
    """Return constant weights less their zero points; None where they are only known at run time,
    sums of them may exceed 32 bits, or the model is read for sums in floats.
    """
    b, zero_point = n.input(1), n.optional(3)
    if b.data is None or b.data.ndim < rank or (zero_point and zero_point.data is None):
        return None
    n.builder.has_integer_sums = True
    if not n.builder.sums_integers or not b.size:
        return None
    zero_points = np.zeros(1, np.int32)
    if zero_point is not None and zero_point.data is not None:
        zero_points = zero_point.data.astype(np.int32)
    each = zero_points
    if rank > 2 and zero_points.size > 1:
        each = zero_points.reshape(-1, *(1,) * (rank - 1))
    found = b.data.astype(np.int32) - each
    terms = b.shape[-2] if rank == 2 else b.size // b.shape[0]
    if terms * 255 * 255 > np.iinfo(np.int32).max:
        return None
    if found.min() >= -_SIGN_BIT and found.max() < _SIGN_BIT:
        return _Weights(found.astype(np.int8))
    if grouped:
        return _Weights(found.astype(np.int16))
    lower = 0 if b.element.low < 0 else _SIGN_BIT
    shifted = b.data.astype(np.int32) - lower
    lacking = lower - zero_points.reshape(-1)
    return _Weights(shifted.astype(np.int8), lacking.astype(np.int32))


def _with_offsets(
    n: Operation, weights: _Weights, add: Callable[[Array], Tensor], ones: Array, axis: int
) -> Tensor:
    """Return the sums that ``add`` returns for weights, for weights that lack offsets too: these
    times the sum of the inputs, which weights of ``ones`` give. ``axis`` is that of channels.
    """
    sums = add(weights.values)
    if weights.offsets is None:
        return sums
    shape = [1] * len(sums.shape)
    shape[axis] = weights.offsets.size
    factors = n.constant(weights.offsets.reshape(shape), "int32")
    offsets = n.emit("MUL", add(ones), factors, attrs=_NONE)
    return n.emit("ADD", sums, offsets, attrs=_NONE)


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
    if weights is not None and weights.values.ndim == 2 and x.size and x.data is None:
        zero_points = _signed_zero_points(n, x, 2)
        if zero_points.size in (1, x.size // x.shape[-1]):
            signed, depth = _signed(n, x), x.shape[-1]

            def sums(values: Array) -> Tensor:
                return n.emit("MATMUL_INTEGER", signed, zero_points, n.constant(values.T))

            return _with_offsets(n, weights, sums, np.ones((depth, 1), np.int8), -1)
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
    grouped = n.integer("group", 1) != 1
    weights = _integer_weights(n, len(n.input(1).shape), grouped=grouped)
    if weights is not None and n.input(0).data is None:
        zero_point, signed = _signed_zero_points(n, n.input(0), 2), _signed(n, n.input(0))

        def sums(values: Array) -> Tensor:
            return convolved_first(n, signed, values, None, zero_point)

        return _with_offsets(n, weights, sums, np.ones_like(weights.values[:1]), 1)
    x = _less_zero_point(n, 0, 2, (-1,))
    w = _less_zero_point(n, 1, 3, (-1, *(1,) * (len(n.input(1).shape) - 1)))
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    channels, taps = w.shape[1], prod(w.shape[2:])

    def part(start: int, end: int) -> Tensor:
        if (start, end) == (0, channels):
            return n.single("Conv", x, w, **n.stated(*names))
        if n.integer("group", 1) != 1:
            n.refuse("adds many products in several groups", "use one group, or fewer channels")
        pair = (along(n, x, 1, start, end), along(n, w, 1, start, end))
        return n.single("Conv", *pair, **n.stated(*names))

    return _exact_sum(n, channels, taps, part)


# Fused operators of onnxruntime ------------------------------------------------------------------


def scaled_product(
    n: Operation,
    integers: Sequence[Tensor | None],
    scales: Sequence[Tensor],
    bias: Tensor | None = None,
) -> Tensor:
    """Return the float product of two matrices of integers.

    ``integers`` are the operands of MatMulInteger, ``scales`` those of both matrices.
    """
    sums = n.single("MatMulInteger", *integers)
    made = n.single("Mul", n.cast(sums, "float32"), n.single("Mul", *scales))
    return made if bias is None else n.single("Add", made, bias)


def dynamic_product(
    n: Operation,
    x: Tensor,
    weights: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """Return the product of floats that are quantized by their range, with integer weights."""
    q, x_scale, x_zero_point = n.run("DynamicQuantizeLinear", [x])
    return scaled_product(n, [q, weights, x_zero_point, zero_point], [x_scale, scale], bias)


@translates("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(n: Operation) -> Tensor:
    """Translate com.microsoft DynamicQuantizeMatMul to the operators that it fuses."""
    return dynamic_product(n, n.input(0), n.input(1), n.input(2), n.optional(3), n.optional(4))


@translates("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(n: Operation) -> Tensor:
    """Translate com.microsoft MatMulIntegerToFloat to the operators that it fuses."""
    integers = [n.input(0), n.input(1), n.optional(4), n.optional(5)]
    return scaled_product(n, integers, [n.input(2), n.input(3)], n.optional(6))


@translates("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(n: Operation) -> list[Tensor]:
    """Translate com.microsoft DynamicQuantizeLSTM: a step for each entry of the sequence, whose
    input and hidden state are quantized by their range.

    Raises :class:`~hilc.errors.UnsupportedError` for weights that are not known at compile time.
    """
    for place, what in ((1, "the weights"), (2, "the weights of the hidden state")):
        n.known(place, what)

    def of_direction(number: int) -> Callable[[Tensor, Tensor, bool], Tensor]:
        def parameter(place: int) -> Tensor | None:
            given = n.optional(place)
            return None if given is None else entry(n, given, 0, number)

        def multiply(x: Tensor, weights: Tensor, is_recurrence: bool) -> Tensor:
            place = 10 if is_recurrence else 8
            scale = entry(n, n.input(place), 0, number)
            return dynamic_product(n, x, weights, scale, parameter(place + 1))

        return multiply

    return unrolled(n, of_direction)
