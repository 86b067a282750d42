"""Activations of single elements: RELU and its kind, LOGISTIC, TANH, HARD_SWISH and LEAKY_RELU.

An int8 operator is a table of its 256 values, made here and exact by construction. Where TFLM and
TFLite disagree, the node says which is meant (:class:`hilc.ir.Numerics`):

- LOGISTIC and TANH: TFLM computes in fixed point, and TANH for an output of scale 1/128 and zero
  point 0 whatever the output's are; TFLite's reference kernels make a table from single-precision
  functions of the C library (:mod:`hilc.numerics.libm`). TFLM refuses a LOGISTIC whose output has
  a zero point above the least number, and is not followed there.
- RELU6: TFLM clamps the input's numbers and hands them on, whatever the output's quantization is.
- RELU and LEAKY_RELU: TFLM divides scales in double, TFLite in single precision.

int16 has no zero points, and follows TFLM (:class:`Rescaling`, :mod:`hilc.ops.interpolated`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Numerics, Rounding, Tensor
from hilc.numerics import fixed_point, interpolate
from hilc.numerics.floats import (
    clamp_on_vectors,
    clamped,
    hard_swish_on_vectors,
    leaky_relu_on_vectors,
    logistic_on_vectors,
    tanh_on_vectors,
)
from hilc.numerics.libm import Float32Array, Function, expf, host_function, tanhf
from hilc.numerics.requantize import FixedPoint, requantize, rounding_divide_by_pot
from hilc.ops import permuting
from hilc.ops.interpolated import check_fraction, sigmoid_scale
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    ARITHMETIC,
    activation_clamp,
    float_range,
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    require_symmetric,
    undefined,
    unsupported,
)
from hilc.ops.traits import SameRows, channelwise, mapped

Int64Array = npt.NDArray[np.int64]

#: The types of operators that no reference computes in all.
_ASYMMETRIC = tuple(name for name in ARITHMETIC if not ELEMENT_TYPES[name].symmetric)
_DTYPES = dict.fromkeys(("HARD_SWISH", "RELU_0_TO_1", "RELU_N1_TO_1"), _ASYMMETRIC)

#: Bounds of the formula in the reference's logistic: above, it is 1; below, exp(x).
_LOGISTIC_ONE_ABOVE = np.float32(16.619047164916992)
_LOGISTIC_EXP_BELOW = np.float32(-9.0)


@dataclass(frozen=True, kw_only=True)
class LeakyReluAttributes(Attributes):
    """Attributes of LEAKY_RELU."""

    #: Slope of negative inputs.
    alpha: float


def table(node: Node, source: Tensor, target: Tensor) -> npt.NDArray[np.int8]:
    """Return the operator's value for each number of the source, by its byte."""
    make = _FIXED_POINT if node.op in _FIXED_POINT and _in_fixed_point(node, target) else _TABLES
    if node.op == "LOGISTIC":
        _require_probabilities(node, target)
    values = make[node.op](node, source, target)
    in_range = np.clip(values, *target.element.bounds).astype(target.dtype)
    return np.roll(in_range, source.element.bounds[0])


def host_function_matters(node: Node, source: Tensor, target: Tensor) -> str | None:
    """Return the C function by which this host's TFLite makes another table than :func:`table`, if
    any.
    """
    if node.op not in _OF_LIBM or not source.element.tabled or _in_fixed_point(node, target):
        return None
    name, formula = _OF_LIBM[node.op]
    ours, hosts = (
        rounded_table(formula(function))(node, source, target)
        for function in (_LIBM[name], host_function(name) or _LIBM[name])
    )
    return None if np.array_equal(ours, hosts) else name


def look_up(values: Array, x: Array) -> Array:
    """Map every byte of ``x`` through a table."""
    return values[x.view(np.uint8)]


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, _DTYPES.get(node.op, ARITHMETIC))
    if x.element.quantized:
        require_symmetric(node, x)
    if node.op == "LEAKY_RELU":
        alpha = LeakyReluAttributes.of(node).alpha
        if not np.isfinite(alpha):
            invalid(node, f"has the slope {alpha}")
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, y = operand(node, ins, 0), outs[0]
    if y.element.quantized:
        require_symmetric(node, y)
        (table if y.element.tabled else integer_function)(node, x, y)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if source.element.tabled:
        return [look_up(table(node, source, outs[0]), x)]
    if source.element.quantized:
        result = integer_function(node, source, outs[0]).of(x.astype(np.int64))
        return [result.astype(outs[0].dtype)]
    if node.rounding is Rounding.SINGLE:
        return [_ON_VECTORS[node.op](node, x)]
    return [_FLOAT32[node.op](node, x)]


# Tables: the unclamped values for every number of the source ------------------------------------


def _steps(node: Node, source: Tensor) -> Int64Array:
    """Return the difference of every value of the source's type and its zero point."""
    return np.array(source.element.values, np.int64) - quantization(node, source)[1]


def _scales(node: Node, source: Tensor, target: Tensor) -> tuple[np.float32, np.float32]:
    return np.float32(quantization(node, source)[0]), np.float32(quantization(node, target)[0])


def _real_scales(
    node: Node, source: Tensor, target: Tensor
) -> tuple[np.float64, np.float64] | tuple[np.float32, np.float32]:
    """Return the scales in the precision in which the node's definition divides them."""
    in_scale, out_scale = _scales(node, source, target)
    if node.numerics is not Numerics.LITERT:
        return np.float64(in_scale), np.float64(out_scale)
    return in_scale, out_scale


def _ratio(node: Node, source: Tensor, real: float | np.float32 | np.float64) -> FixedPoint:
    result = multiplier(node, float(real))
    # Of int8 256 steps times 2^22 and the rounding stay within 31 bits.
    if result.shift > 30 - source.element.distance_bits:
        undefined(
            node,
            f"has an input scale {real} times its output scale",
        )
    return result


def _clamped_int8(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    if node.op == "RELU6" and node.numerics is Numerics.TFLM:
        return np.clip(source.element.values, *activation_clamp(node, node.op, source))
    in_scale, out_scale = _real_scales(node, source, target)
    with np.errstate(all="ignore"):
        ratio = _ratio(node, source, in_scale / out_scale)
    zero_point = quantization(node, target)[1]
    low, high = activation_clamp(node, node.op, target)
    scaled = requantize(_steps(node, source), *ratio)
    return np.clip(scaled + zero_point, low, high)


def _slope(
    node: Node, in_scale: np.float32 | np.float64, out_scale: np.float32 | np.float64
) -> np.float32 | np.float64:
    """Return the factor of negative values, from input scale to output scale."""
    alpha = LeakyReluAttributes.of(node).alpha
    return in_scale * type(in_scale)(np.float32(alpha)) / out_scale


def _leaky_relu_int8(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    scales = _real_scales(node, source, target)
    with np.errstate(all="ignore"):
        identity = _ratio(node, source, scales[0] / scales[1])
        slope = _slope(node, *scales)
    offset = _steps(node, source)
    scaled = np.where(
        offset >= 0, requantize(offset, *identity), requantize(offset, *_ratio(node, source, slope))
    )
    return scaled + quantization(node, target)[1]


def _require_probabilities(node: Node, target: Tensor) -> None:
    scale = np.float32(quantization(node, target)[0])
    if scale != np.float32(1 / 256):
        unsupported(
            node,
            f"has output scale {scale}, not 1/256",
            f"{target.dtype} probabilities have scale 1/256 and zero point "
            f"{target.element.bounds[0]}",
        )


def _in_fixed_point(node: Node, target: Tensor) -> bool:
    """Whether a LOGISTIC or TANH is the one that TFLM computes in fixed point."""
    if node.numerics is not Numerics.TFLM:
        return False
    return node.op == "TANH" or quantization(node, target)[1] == target.element.bounds[0]


def _fixed_point_function(
    function: Callable[[Int64Array], Int64Array], fraction_bits: int, from_low: bool
) -> Callable[[Node, Tensor, Tensor], Int64Array]:
    """Return a table made in fixed point, input in Q4.27; beyond that, the ends of the output's
    type.
    """

    def values(node: Node, source: Tensor, target: Tensor) -> Int64Array:
        steps, (low, high) = _steps(node, source), target.element.bounds
        fraction, shift = np.frexp(float(quantization(node, source)[0]) * 2.0**27)
        with np.errstate(over="ignore"):
            radius = int(min(np.floor(np.ldexp(15 * 2.0**27, -int(shift))), 256))
        within = np.clip(steps, 1 - radius, max(radius - 1, 0))
        # What is shifted by more than 31 bits is 0, as it is by 31.
        raised = requantize(within, int(fraction * 2**31), max(int(shift), -31))
        scaled = rounding_divide_by_pot(function(raised), 31 - fraction_bits)
        scaled += low if from_low else 0
        return np.where(steps <= -radius, low, np.where(steps >= radius, high, scaled))

    return values


def rounded_table(
    function: Function,
) -> Callable[[Node, Tensor, Tensor], Int64Array]:
    """Return a table made in single precision, rounded half away from zero."""

    def values(node: Node, source: Tensor, target: Tensor) -> Int64Array:
        in_scale, out_scale = _scales(node, source, target)
        with np.errstate(all="ignore"):
            x = in_scale * (_steps(node, source)).astype(np.float32)
            y = function(x) * (np.float32(1) / out_scale)
        if np.abs(y).max() >= 2**31:
            undefined(
                node,
                f"has output scale {out_scale}",
            )
        rounded = np.copysign(np.floor(np.abs(y.astype(np.float64)) + 0.5), y)
        shifted: Int64Array = np.clip(
            rounded + quantization(node, target)[1], *target.element.bounds
        ).astype(np.int64)
        return shifted

    return values


def _sigmoid_by(exponential: Function) -> Function:
    def sigmoid(x: Float32Array) -> Float32Array:
        return np.float32(1) / (np.float32(1) + exponential(-x))

    return sigmoid


_sigmoid = _sigmoid_by(expf)

_LIBM: Mapping[str, Function] = {"expf": expf, "tanhf": tanhf}
#: The function of the C library that an operator's table is made by, and the formula around it.
_OF_LIBM: Mapping[str, tuple[str, Callable[[Function], Function]]] = {
    "LOGISTIC": ("expf", _sigmoid_by),
    "TANH": ("tanhf", lambda tanh: tanh),
}


def _int16(x: Int64Array) -> Int64Array:
    return x.astype(np.int16).astype(np.int64)


def _saturated_int16(x: Int64Array) -> Int64Array:
    return np.clip(x, -32768, 32767)


def _high_mul_int16(a: Int64Array, b: int) -> Int64Array:
    """Return the rounding doubling high product of 16-bit numbers, as its 32-bit sibling rounds."""
    product = a * b
    total = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _saturated_int16(np.where(total >= 0, total >> 15, -((-total) >> 15)))


def _divide_by_pot_int16(x: Int64Array, exponent: int) -> Int64Array:
    """Return x shifted to the right and rounded; beyond 16 bits the mask is cut to them."""
    mask = int(np.int64((1 << exponent) - 1).astype(np.int16))
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def _hard_swish_int8(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    """Return x * relu6(x + 3) / 6 in 16-bit fixed point, input raised by 7 bits."""
    in_scale, out_scale = _scales(node, source, target)
    raised_scale = np.float32(1 / 128) * in_scale
    with np.errstate(all="ignore"):
        out_ratio = multiplier(node, float(raised_scale / out_scale))
        # The ramp from -3 to 3 fills the range of 16 bits. The reference shifts by one bit less
        # before it multiplies, and by the last one after.
        ramp_factor = float(raised_scale / np.float32(3 / 32768))
        ramp_ratio = multiplier(node, ramp_factor, most_shift=31)
    if out_ratio.shift > 0:
        undefined(
            node,
            f"has output scale {out_scale}, more than 128 times finer than its input's",
        )
    raised = (_steps(node, source)) << 7
    on_out_scale = _high_mul_int16(raised, _narrow(out_ratio.multiplier))
    ramp = raised
    if ramp_ratio.shift > 0:
        ramp = _saturated_int16(ramp << (ramp_ratio.shift - 1))
    ramp = _high_mul_int16(ramp, _narrow(ramp_ratio.multiplier))
    if ramp_ratio.shift > 0:
        ramp = _saturated_int16(ramp << 1)
    elif ramp_ratio.shift < 0:
        ramp = _divide_by_pot_int16(ramp, -ramp_ratio.shift)
    ramp = (ramp + (1 << 15)) >> 1
    product = ramp * on_out_scale
    # This one high multiply truncates, which cancels the bias of the others.
    product = np.where(product >= 0, product >> 15, -((-product) >> 15))
    return _int16(_divide_by_pot_int16(product, -out_ratio.shift) + quantization(node, target)[1])


def _narrow(wide: int) -> int:
    """Return a 31-bit multiplier as one of 15 bits."""
    return min((wide + (1 << 15)) >> 16, 32767)


_TABLES: Mapping[str, Callable[[Node, Tensor, Tensor], Int64Array]] = {
    "RELU": _clamped_int8,
    "RELU6": _clamped_int8,
    "RELU_0_TO_1": _clamped_int8,
    "RELU_N1_TO_1": _clamped_int8,
    "LEAKY_RELU": _leaky_relu_int8,
    "LOGISTIC": rounded_table(_sigmoid),
    "TANH": rounded_table(tanhf),
    "HARD_SWISH": _hard_swish_int8,
}
_FIXED_POINT: Mapping[str, Callable[[Node, Tensor, Tensor], Int64Array]] = {
    "LOGISTIC": _fixed_point_function(fixed_point.logistic, fraction_bits=8, from_low=True),
    "TANH": _fixed_point_function(fixed_point.tanh, fraction_bits=7, from_low=False),
}

# Integers of which there are too many for a table ------------------------------------------------


#: A factor of one.
_ONE = FixedPoint(1 << 30, 1)


@dataclass(frozen=True)
class Rescaling:
    """Requantization, with a factor of its own for negative values, and clamping."""

    positive: FixedPoint
    negative: FixedPoint
    low: int
    high: int

    @property
    def is_clamp(self) -> bool:
        """Whether the factors are 1."""
        return self.positive == self.negative == _ONE

    def of(self, x: Int64Array) -> Int64Array:
        """Return ``x`` requantized by the factor of its sign, and clamped."""
        scaled = np.where(x < 0, requantize(x, *self.negative), requantize(x, *self.positive))
        return np.clip(scaled, self.low, self.high)


@dataclass(frozen=True)
class Sigmoid:
    """The logistic function or the hyperbolic tangent, interpolated."""

    function: Callable[[Int64Array, FixedPoint], Int64Array]
    scale: FixedPoint

    def of(self, x: Int64Array) -> Int64Array:
        """Return the function of each element, interpolated from a table."""
        return self.function(x, self.scale)


def integer_function(node: Node, source: Tensor, target: Tensor) -> Rescaling | Sigmoid:
    """Return the function that a node computes on integers without zero points."""
    if node.op in ("LOGISTIC", "TANH"):
        check_fraction(node, target)
        function = interpolate.logistic if node.op == "LOGISTIC" else interpolate.tanh
        return Sigmoid(function, sigmoid_scale(node, source))
    if node.op == "RELU6":
        if node.numerics is not Numerics.TFLM:
            require_same_quantization(node, source, target)
        # TFLite Micro clamps the number as it is, whatever scale the output has.
        return Rescaling(_ONE, _ONE, *activation_clamp(node, node.op, source))
    in_scale, out_scale = _real_scales(node, source, target)
    factor = _ratio(node, source, in_scale / out_scale)
    if node.op == "RELU":
        return Rescaling(factor, factor, *activation_clamp(node, node.op, target))
    slope = _ratio(node, source, _slope(node, in_scale, out_scale))
    return Rescaling(factor, slope, *target.element.bounds)


# float32 ----------------------------------------------------------------------------------------


def _clamped_float32(node: Node, x: Array) -> Array:
    return clamped(x, *float_range(node, node.op))


def _clamped_on_vectors(node: Node, x: Array) -> Array:
    return clamp_on_vectors(x, *float_range(node, node.op))


def _logistic_float32(node: Node, x: Array) -> Array:
    return logistic_float32(x)


def logistic_float32(x: Array) -> Float32Array:
    """Return the logistic function in single precision, with the borders of the reference's."""
    y = np.where(x < _LOGISTIC_EXP_BELOW, expf(x), _sigmoid(x))
    return np.where(x > _LOGISTIC_ONE_ABOVE, np.float32(1), y)


def _tanh_float32(node: Node, x: Array) -> Array:
    return tanhf(x)


def _hard_swish_float32(node: Node, x: Array) -> Array:
    ramp = np.minimum(np.float32(6), np.maximum(np.float32(0), x + np.float32(3)))
    return x * ramp / np.float32(6)


def _leaky_relu_float32(node: Node, x: Array) -> Array:
    return np.where(x > 0, x, x * np.float32(LeakyReluAttributes.of(node).alpha))


_FLOAT32: Mapping[str, Callable[[Node, Array], Array]] = {
    "RELU": _clamped_float32,
    "RELU6": _clamped_float32,
    "RELU_0_TO_1": _clamped_float32,
    "RELU_N1_TO_1": _clamped_float32,
    "LEAKY_RELU": _leaky_relu_float32,
    "LOGISTIC": _logistic_float32,
    "TANH": _tanh_float32,
    "HARD_SWISH": _hard_swish_float32,
}
#: Functions that vectors of floats compute without the C library.
_ON_VECTORS: Mapping[str, Callable[[Node, Array], Array]] = {
    "RELU": _clamped_on_vectors,
    "RELU6": _clamped_on_vectors,
    "RELU_0_TO_1": _clamped_on_vectors,
    "RELU_N1_TO_1": _clamped_on_vectors,
    "LEAKY_RELU": lambda node, x: leaky_relu_on_vectors(x, LeakyReluAttributes.of(node).alpha),
    "LOGISTIC": lambda node, x: logistic_on_vectors(x),
    "TANH": lambda node, x: tanh_on_vectors(x),
    "HARD_SWISH": lambda node, x: hard_swish_on_vectors(x),
}


def _by_numerics(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> bytes | Rescaling | Sigmoid | None:
    source = operand(node, ins, 0)
    if source.element.tabled:
        return table(node, source, outs[0]).tobytes()
    return integer_function(node, source, outs[0]) if source.element.quantized else None


UNARY = OpDef(
    _infer,
    _reference,
    _check,
    vector_floats=lambda node, ins: node.op in _ON_VECTORS,
    by_numerics=_by_numerics,
    bounds=mapped,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)
RELU = replace(UNARY, as_activation="RELU")
RELU6 = replace(UNARY, as_activation="RELU6")
RELU_N1_TO_1 = replace(UNARY, as_activation="RELU_N1_TO_1")
LEAKY_RELU = replace(UNARY, attributes=LeakyReluAttributes)
# 1 / 2 + tanh(x / 2) / 2 of x far below zero.
LOGISTIC = replace(UNARY, inner_terms=lambda x: np.full_like(x, 0.5))

OPERATORS: Mapping[str, OpDef] = {
    "RELU": RELU,
    "RELU6": RELU6,
    "RELU_0_TO_1": UNARY,
    "RELU_N1_TO_1": RELU_N1_TO_1,
    "LOGISTIC": LOGISTIC,
    "TANH": UNARY,
    "HARD_SWISH": UNARY,
    "LEAKY_RELU": LEAKY_RELU,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "RELU_0_TO_1": {"int8", "float32"},
    "RELU_N1_TO_1": {"int8", "float32"},
}
