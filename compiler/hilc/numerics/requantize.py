"""Quantized arithmetic, stated once; ``runtime/include/hil/quant.h`` is its twin in C.

A real factor is ``multiplier * 2**(shift - 31)``, 31 bits; how the product with a sum is rounded is
a policy of the node (:class:`hilc.ir.Rounding`):

* gemmlowp's double rounding (``fixedpoint.h``), as TensorFlow Lite Micro applies it: the product is
  rounded by a doubling high multiply (half away from zero for products of one sign, half up for the
  others) and once more by a right shift that rounds half away from zero;
* once, half up;
* once, ties to even: the arithmetic ``qdq``, what QuantizeLinear of ONNX does to a real number. It
  saturates.

The last two differ in ties alone, which products with nearly all multipliers never are
(:func:`has_ties`). Both twins are tested on one vector file, ``tests/vectors/quant.json``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding

Int64Array = npt.NDArray[np.int64]
Int32Like = npt.NDArray[np.int32] | npt.NDArray[np.int64]

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


class FixedPoint(NamedTuple):
    """A factor in fixed point: ``multiplier * 2**(shift - 31)``, a positive shift to the left."""

    multiplier: int
    shift: int


#: The least shift of a multiplier, and that of sums of 64 bits that are rounded to even.
LEAST_SHIFT, LEAST_WIDE_SHIFT = -31, -47


def quantize_multiplier(real: float, least_shift: int = LEAST_SHIFT) -> FixedPoint:
    """Return the fixed-point form of a factor; 0 if it is too small to have an effect, with a shift
    below ``least_shift``.

    ``real`` must be the double that the reference computes, product and quotient of the tensors'
    float32 scales taken in double: the multiplier depends on its last bits.
    """
    if real == 0.0:
        return FixedPoint(0, 0)
    fraction, shift = math.frexp(real)
    # Half away from zero; the builtin round() would go to even.
    multiplier = int(math.copysign(math.floor(abs(fraction) * 2**31 + 0.5), fraction))
    if multiplier == 2**31:
        multiplier //= 2
        shift += 1
    if shift < least_shift:
        return FixedPoint(0, 0)
    if shift > 30:
        return FixedPoint(INT32_MAX, 30)
    return FixedPoint(multiplier, shift)


def _wrap_int32(x: Int64Array) -> Int64Array:
    return x.astype(np.int32).astype(np.int64)


def doubling_high_mul(a: Int32Like, b: Int32Like | int) -> Int64Array:
    """Return ``SaturatingRoundingDoublingHighMul``: a * b / 2**31 rounded, the one overflow
    saturated.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    # C adds 1 - 2**30 to negative products and truncates towards zero: that is this floor too.
    quotient: Int64Array = np.minimum((product + (1 << 30)) >> 31, INT32_MAX)
    return quotient


def rounding_divide_by_pot(x: Int32Like, exponent: Int32Like | int) -> Int64Array:
    """Return ``RoundingDivideByPOT``: x / 2**exponent, half away from zero; 0 <= exponent <= 31."""
    value = np.asarray(x, np.int64)
    shift = np.asarray(exponent, np.int64)
    half = (np.int64(1) << shift) >> 1
    # Negative numbers that lie in the middle are rounded down.
    quotient: Int64Array = (value + half - ((value < 0) & (half > 0))) >> shift
    return quotient


@dataclass(frozen=True)
class Sums:
    """Limits of requantization for a type of sums."""

    #: Bound of the magnitude of sums.
    limit: int
    #: Maximum left shift of a multiplier.
    most_shift: int
    #: Rounding policies that are supported.
    roundings: frozenset[Rounding]


#: Limits by the type of sums.
SUMS: Mapping[str, Sums] = {
    "int32": Sums(2**31, 30, frozenset(Rounding)),
    # The references assert these two.
    "int64": Sums(2**47, 7, frozenset({Rounding.SINGLE, Rounding.NEAREST_EVEN})),
}


def requantize(
    x: Int32Like,
    multiplier: Int32Like | int,
    shift: Int32Like | int,
    rounding: Rounding = Rounding.DOUBLE,
    sums: str = "int32",
) -> Int64Array:
    """Return ``MultiplyByQuantizedMultiplier`` of values ``x`` of the type ``sums``, in
    :data:`SUMS`.

    ``multiplier`` and ``shift`` broadcast against ``x`` (one a channel, or one for all).
    """
    return _REQUANTIZERS[sums, rounding](x, multiplier, shift)


def shifts_wrap(
    least: Int64Array, most: Int64Array, shifts: npt.NDArray[np.integer]
) -> npt.NDArray[np.bool_]:
    """Return where a shift to the left (below 0: to the right) takes one of the sums from ``least``
    to ``most`` beyond 32 bits: it wraps around, so the outputs of the ends bound no others.
    """
    left = np.maximum(shifts.astype(np.int64), 0)
    found: npt.NDArray[np.bool_] = ((least << left) < INT32_MIN) | ((most << left) > INT32_MAX)
    return found


def reduced_multiplier(multiplier: Int32Like | int) -> Int64Array:
    """Return the multiplier reduced to 15 bits, by which 64-bit sums are multiplied: half up,
    saturated.
    """
    wide = np.asarray(multiplier, np.int64)
    reduced: Int64Array = np.minimum((wide + (1 << 15)) >> 16, (1 << 15) - 1)
    return reduced


def reduced_shift(shift: Int32Like | int) -> Int64Array:
    """Return the right shift of a product with a :func:`reduced_multiplier`."""
    return 15 - np.asarray(shift, np.int64)


def _once(x: Int32Like, multiplier: Int64Array, right: Int64Array) -> Int64Array:
    """Return ``x * multiplier / 2**right``, half up; results beyond 32 bits wrap around, as in
    C.
    """
    product = np.asarray(x, np.int64) * multiplier
    return _wrap_int32((product + (np.int64(1) << (right - 1))) >> right)


def _single(x: Int32Like, multiplier: Int32Like | int, shift: Int32Like | int) -> Int64Array:
    right = 31 - np.asarray(shift, np.int64)
    product = np.asarray(x, np.int64) * np.asarray(multiplier, np.int64)
    rounded: Int64Array = np.clip(
        (product + (np.int64(1) << (right - 1))) >> right, -SATURATED, SATURATED
    )
    return rounded


def _single_wide(x: Int32Like, multiplier: Int32Like | int, shift: Int32Like | int) -> Int64Array:
    return _once(x, reduced_multiplier(multiplier), reduced_shift(shift))


#: Bound of saturating requantization: adding a zero point to it does not exceed 32 bits.
SATURATED = 2**30


def _nearest_even(x: Int32Like, multiplier: Int32Like | int, shift: Int32Like | int) -> Int64Array:
    product = np.asarray(x, np.int64) * np.asarray(multiplier, np.int64)
    return round_even(product, 31 - np.asarray(shift, np.int64))


def round_even(x: Int64Array, right: Int64Array | int) -> Int64Array:
    """Return x / 2**right, ties to even, saturated; 1 <= right <= 62."""
    bits = np.asarray(right, np.int64)
    floor = x >> bits
    half = np.int64(1) << (bits - 1)
    remainder = x - (floor << bits)
    up = (remainder > half) | ((remainder == half) & (floor % 2 != 0))
    rounded: Int64Array = np.clip(floor + up, -SATURATED, SATURATED)
    return rounded


def _even_wide(x: Int32Like, multiplier: Int32Like | int, shift: Int32Like | int) -> Int64Array:
    """Return the rounded product of up to 78 bits: of the lowest 16 only being zero matters."""
    wide, factor = np.asarray(x, np.int64), np.asarray(multiplier, np.int64)
    lower = (wide & 0xFFFFFFFF) * factor
    upper = (wide >> 32) * factor + (lower >> 32)
    rest = lower & 0xFFFFFFFF
    kept = (upper << 16) + (rest >> 16) | (rest & 0xFFFF != 0)
    return round_even(kept, 15 - np.asarray(shift, np.int64))


class Factors(NamedTuple):
    """Real factors as whole numbers over one power of two, ``factor / 2**right``."""

    factors: tuple[int, ...]
    right: int


#: Bits of the largest of several factors, and the largest shift behind a sum of products.
_FACTOR_BITS, _MOST_RIGHT = 30, 62


def common_factors(reals: Sequence[float]) -> Factors:
    """Return factors with one shift, exact where they have few bits."""
    largest = max(abs(real) for real in reals)
    right = _MOST_RIGHT if largest == 0 else _FACTOR_BITS - math.frexp(largest)[1]
    right = min(right, _MOST_RIGHT)
    # Half to even, as round() does: the last of thirty bits.
    return Factors(tuple(round(math.ldexp(real, right)) for real in reals), right)


def has_ties(
    multiplier: Int32Like | int,
    shift: Int32Like | int,
    lowest: Int32Like | int,
    highest: Int32Like | int,
) -> npt.NDArray[np.bool_]:
    """Return whether a product with a sum from ``lowest`` to ``highest`` is half-way between two
    integers; only there ties to even and half up differ.

    The sums of which it does are the odd multiples of one number.
    """
    factor = np.asarray(multiplier, np.int64)
    # Of 31 - shift bits behind the point, an odd factor's product has the last one set.
    zeros = np.frexp((factor & -factor).astype(np.float64))[1].astype(np.int64) - 1
    first = np.int64(1) << np.clip(30 - np.asarray(shift, np.int64) - zeros, 0, 62)
    whole = 30 - np.asarray(shift, np.int64) < zeros
    # The first odd multiple that is not below the lowest sum.
    steps = -((first - np.asarray(lowest, np.int64)) // (2 * first))
    reached = first + 2 * first * steps <= np.asarray(highest, np.int64)
    ties: npt.NDArray[np.bool_] = (factor != 0) & ~whole & reached
    return ties


def _double(x: Int32Like, multiplier: Int32Like | int, shift: Int32Like | int) -> Int64Array:
    shifts = np.asarray(shift, np.int64)
    left = np.maximum(shifts, 0)
    right = np.maximum(-shifts, 0)
    shifted = _wrap_int32(np.asarray(x, np.int64) << left)
    return rounding_divide_by_pot(doubling_high_mul(shifted, multiplier), right)


_REQUANTIZERS: Mapping[
    tuple[str, Rounding],
    Callable[[Int32Like, Int32Like | int, Int32Like | int], Int64Array],
] = {
    ("int32", Rounding.DOUBLE): _double,
    ("int32", Rounding.SINGLE): _single,
    ("int32", Rounding.NEAREST_EVEN): _nearest_even,
    ("int64", Rounding.SINGLE): _single_wide,
    ("int64", Rounding.NEAREST_EVEN): _even_wide,
}


def activation_range(activation: str, scale: float, zero_point: int, dtype: str) -> tuple[int, int]:
    """Return the clamp of a fused activation in the output's quantized domain, both ends
    included.

    Raise ValueError for an unknown activation.
    """
    low, high = ELEMENT_TYPES[dtype].bounds

    def quantized(real: float) -> int:
        # As the reference: float32 division, half away from zero, in int32.
        q = np.float32(real) / np.float32(scale)
        return zero_point + int(math.copysign(math.floor(abs(float(q)) + 0.5), float(q)))

    match activation:
        case "NONE":
            return low, high
        case "RELU":
            return max(low, quantized(0.0)), high
        case "RELU6":
            return max(low, quantized(0.0)), min(high, quantized(6.0))
        case "RELU_0_TO_1":
            return max(low, quantized(0.0)), min(high, quantized(1.0))
        case "RELU_N1_TO_1":
            return max(low, quantized(-1.0)), min(high, quantized(1.0))
    raise ValueError(f"unknown activation {activation!r}")
