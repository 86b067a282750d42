"""DIV, FLOOR_DIV, FLOOR_MOD, MAXIMUM, MINIMUM, POW, SQUARED_DIFFERENCE and the logic of bools, of
two tensors that are broadcast to one shape.

int8 DIV multiplies with a reciprocal in fixed point. With ties to even it is a division that is
rounded once, of int16 too; by 0 it gives the end of the type on the side of the numerator, and the
least number for 0 / 0, as QUANTIZE does of infinity and NaN. int8 and int16 SQUARED_DIFFERENCE
bring both operands to twice the larger input scale (int8 with 7 extra bits), and requantize the
square. Other integers stand for themselves, whatever scale their tensors carry, and wrap around; a
quotient by zero, at which the reference stops, is 0; one beyond the type is its largest number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Node, Rounding, Tensor
from hilc.numerics.fixed_point import reciprocal
from hilc.numerics.floats import clamped
from hilc.numerics.requantize import (
    FixedPoint,
    Int64Array,
    doubling_high_mul,
    quantize_multiplier,
    requantize,
    rounding_divide_by_pot,
)
from hilc.ops import permuting
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    invalid,
    multiplier,
    operand,
    output_clamp,
    plain_clamp,
    quantization,
    require_counts,
    require_same_quantization,
    require_symmetric,
    undefined,
)
from hilc.ops.traits import BroadcastRows, IntegerOperands, ascending

#: The types that an operator takes.
DTYPES: Mapping[str, tuple[str, ...]] = {
    "DIV": ("int8", "int32", "float32"),
    "FLOOR_DIV": ("int8", "int16", "int32", "float32"),
    "FLOOR_MOD": ("int8", "int16", "int32", "int64", "float32"),
    "MAXIMUM": ("int8", "uint8", "int16", "int32", "int64", "float32"),
    "MINIMUM": ("int8", "uint8", "int16", "int32", "int64", "float32"),
    "POW": ("int32", "float32"),
    "SQUARED_DIFFERENCE": ("int8", "int16", "int32", "float32"),
    "LOGICAL_AND": ("bool",),
    "LOGICAL_OR": ("bool",),
}
#: Operators that compute on dequantized values.
_OF_SCALES = ("DIV", "SQUARED_DIFFERENCE")
#: Operators whose outputs are elements of their inputs.
_CHOICES = ("MAXIMUM", "MINIMUM")
_DIVISIONS = ("DIV", "FLOOR_DIV", "FLOOR_MOD")

#: The types of a quotient that is rounded once.
_EVEN_QUOTIENTS = ("int8", "int16")
#: Places by which its divisor of 17 bits is raised.
_QUOTIENT_RIGHT = (1, 44)
#: Beyond every number of steps of a type.
_BEYOND = 1 << 30
#: The shift of an int8 quotient: the numerators are raised by 30 bits at most, and the reciprocals
#: of 8 bits; below, a quotient would be shifted by less than no bits.
_MOST_QUOTIENT_SHIFT = 22
#: Bits by which the operands of a squared difference are raised before they are brought to one
#: scale.
SQUARE_HEADROOM_BITS: Mapping[str, int] = {"int8": 7, "int16": 0}


class SquareScales(NamedTuple):
    """Factors of a squared difference."""

    a: FixedPoint
    b: FixedPoint
    out: FixedPoint


def holds_floats(x: Tensor) -> bool:
    """Return whether the elements are floats."""
    return x.element.is_real


def has_scale(node: Node, x: Tensor) -> bool:
    """Return whether the operator computes on real numbers that integers stand for."""
    return x.element.quantized and node.op in _OF_SCALES


def _is_even(node: Node) -> bool:
    """Return whether the operator is rounded once, ties to even."""
    return node.rounding is Rounding.NEAREST_EVEN


def quotient_scale(node: Node, a: Tensor, b: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor of an int8 quotient."""
    a_scale, b_scale, out_scale = (quantization(node, t)[0] for t in (a, b, out))
    scale = multiplier(node, a_scale / (b_scale * out_scale))
    if scale.shift > _MOST_QUOTIENT_SHIFT:
        undefined(
            node, f"has output scale {out_scale}, more than 2^22 times finer than its quotient's"
        )
    return scale


def even_quotient_scale(node: Node, a: Tensor, b: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor of a quotient that is rounded once; its shift is to the right."""
    a_scale, b_scale, out_scale = (quantization(node, t)[0] for t in (a, b, out))
    real = a_scale / (b_scale * out_scale)
    low, high = _QUOTIENT_RIGHT
    if not 2.0 ** (31 - high) <= real < 2.0 ** (30 - low):
        undefined(node, f"has a factor of {real:g} from its quotient to its output's scale")
    found = quantize_multiplier(real)
    return FixedPoint(found.multiplier, 31 - found.shift)


def square_scales(node: Node, a: Tensor, b: Tensor, out: Tensor) -> SquareScales:
    """Return the factors of a squared difference of integers."""
    a_scale, b_scale, out_scale = (quantization(node, t)[0] for t in (a, b, out))
    common = 2 * max(a_scale, b_scale)
    raised = 1 << 2 * SQUARE_HEADROOM_BITS[out.dtype]
    scales = SquareScales(
        multiplier(node, a_scale / common),
        multiplier(node, b_scale / common),
        multiplier(node, common * common / (raised * out_scale)),
    )
    # A square has 30 bits.
    if scales.out.shift > 0:
        undefined(node, f"has output scale {out_scale}, too fine for the square of its inputs'")
    return scales


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    is_even = _is_even(node)
    a, b = operands_of_one_type(node, ins, _EVEN_QUOTIENTS if is_even else DTYPES[node.op])
    if has_scale(node, a):
        require_symmetric(node, a)
        require_symmetric(node, b)
    return [(broadcast_shape(node, (a, b)), a.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    if has_scale(node, a):
        require_symmetric(node, out)
        if node.op == "DIV":
            output_clamp(node, out)
            scale_of = even_quotient_scale if _is_even(node) else quotient_scale
            scale_of(node, a, b, out)
        else:
            square_scales(node, a, b, out)
    elif node.op in _CHOICES:
        require_same_quantization(node, a, out)
        require_same_quantization(node, b, out)
    if node.op in _DIVISIONS and b.data is not None and not holds_floats(b):
        zero = quantization(node, b)[1] if has_scale(node, b) else 0
        if (b.data == zero).any():
            invalid(node, f"divides by the constant {b.name!r}, which holds a zero")


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    a, b, out = operand(node, ins, 0), operand(node, ins, 1), outs[0]
    x, y = values
    assert x is not None
    assert y is not None
    if not has_scale(node, a):
        with np.errstate(all="ignore"):
            result = np.asarray(_PLAIN[node.op](x, y)).astype(out.dtype)
            if issubclass(type(node.attrs), ActivationAttributes):
                result = clamped(result, *plain_clamp(node, out))
        return [result]
    steps_x = x.astype(np.int64) - quantization(node, a)[1]
    steps_y = y.astype(np.int64) - quantization(node, b)[1]
    low, high = out.element.bounds
    if node.op == "DIV":
        low, high = output_clamp(node, out)
        if _is_even(node):
            scaled = _even_quotient(steps_x, steps_y, even_quotient_scale(node, a, b, out))
        else:
            scaled = _quotient(steps_x, steps_y, quotient_scale(node, a, b, out))
    else:
        scales, raised = square_scales(node, a, b, out), SQUARE_HEADROOM_BITS[out.dtype]
        scaled_x = requantize(steps_x << raised, *scales.a)
        scaled_y = requantize(steps_y << raised, *scales.b)
        scaled = requantize((scaled_x - scaled_y) ** 2, *scales.out)
    return [np.clip(scaled + quantization(node, out)[1], low, high).astype(out.dtype)]


def _bits(x: Int64Array) -> Int64Array:
    """Return the number of significant bits of a non-negative number."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _quotient(x: Int64Array, y: Int64Array, scale: FixedPoint) -> Int64Array:
    """Return x / y in steps of the output; 0 where y is 0.

    Where the quotient is less than 2^-31 of a step, the reference shifts by more than C defines;
    here it is 0.
    """
    x, y = np.broadcast_arrays(np.where(y < 0, -x, x), np.abs(y))
    divisor = np.maximum(y, 1)
    bits = _bits(divisor)
    inverse = reciprocal((divisor << (32 - bits)) - (1 << 31))
    headroom = 31 - np.where(x < 0, _bits(2 * np.abs(x) - 1), _bits(x))
    raised = doubling_high_mul(x << headroom, inverse)
    right = bits - 1 + headroom - scale.shift
    quotient = doubling_high_mul(raised, scale.multiplier)
    result = rounding_divide_by_pot(quotient, np.clip(right, 0, 31))
    return np.where((right > 31) | (y == 0), 0, result)


def _even_quotient(x: Int64Array, y: Int64Array, scale: FixedPoint) -> Int64Array:
    """Return x / y in steps of the output, rounded once, ties to even."""
    x, y = np.broadcast_arrays(np.where(y < 0, -x, x), np.abs(y))
    numerator, divisor = x * scale.multiplier, np.maximum(y, 1) << scale.shift
    floor = numerator // divisor
    twice = 2 * (numerator - floor * divisor)
    rounded = floor + ((twice > divisor) | ((twice == divisor) & (floor % 2 != 0)))
    by_zero = np.where(x > 0, _BEYOND, -_BEYOND)
    return np.where(y == 0, by_zero, np.clip(rounded, -_BEYOND, _BEYOND))


def _divided(x: Array, y: Array) -> Array:
    """Return the quotient, of integers truncated towards zero, and 0 where they divide by 0."""
    if x.dtype == np.float32:
        return x / y
    wide_x, wide_y = x.astype(np.int64), y.astype(np.int64)
    quotient = np.abs(wide_x) // np.maximum(np.abs(wide_y), 1)
    signed = np.where((wide_x < 0) != (wide_y < 0), -quotient, quotient)
    # The least number divided by -1 is one more than the largest.
    return np.where(wide_y == 0, 0, np.minimum(signed, _largest(x)))


def _largest(x: Array) -> int:
    return ELEMENT_TYPES[x.dtype.name].bounds[1]


def _floor_divided(x: Array, y: Array) -> Array:
    if x.dtype == np.float32:
        return np.floor(x / y)
    return np.minimum(x.astype(np.int64) // y, _largest(x))


def _floor_mod(x: Array, y: Array) -> Array:
    if x.dtype != np.float32:
        return np.mod(x, y)
    remainder = np.fmod(x, y)
    other_sign = (remainder != 0) & ((y < 0) != (remainder < 0))
    return np.where(other_sign, remainder + y, remainder)


def _power(x: Array, y: Array) -> Array:
    """Return x to the power of y; of integers 0 where y is below 0, at which the reference
    stops.
    """
    if x.dtype == np.float32:
        return np.power(x.astype(np.float64), y)
    return np.where(y < 0, 0, np.power(x, np.maximum(y, 0)))


_PLAIN: Mapping[str, Callable[[Array, Array], Array]] = {
    "DIV": _divided,
    "FLOOR_DIV": _floor_divided,
    "FLOOR_MOD": _floor_mod,
    "MAXIMUM": lambda x, y: np.where(x > y, x, y),
    "MINIMUM": lambda x, y: np.where(x < y, x, y),
    "POW": _power,
    "SQUARED_DIFFERENCE": lambda x, y: (x - y) * (x - y),
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
}

BINARY = OpDef(
    _infer,
    _reference,
    _check,
    rows=BroadcastRows(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)
MAXIMUM = replace(BINARY, bounds=ascending, copies_elements=True, neutral="lowest")
MINIMUM = replace(MAXIMUM, neutral="highest")
DIV = replace(
    BINARY,
    attributes=ActivationAttributes,
    roundings=TWICE_OR_EVEN,
    integer_form=IntegerOperands(),
)

OPERATORS: Mapping[str, OpDef] = {
    "DIV": DIV,
    "FLOOR_DIV": BINARY,
    "FLOOR_MOD": BINARY,
    "LOGICAL_AND": BINARY,
    "LOGICAL_OR": BINARY,
    "MAXIMUM": MAXIMUM,
    "MINIMUM": MINIMUM,
    "POW": BINARY,
    "SQUARED_DIFFERENCE": BINARY,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "FLOOR_DIV": {"int8", "int16", "int32"},
    "FLOOR_MOD": {"int8", "int16", "int32", "int64"},
    "MAXIMUM": {"uint8"},
    "MINIMUM": {"uint8"},
    "POW": {"int32", "float32"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "DIV": {"int8"},
    "SQUARED_DIFFERENCE": {"int16"},
}
