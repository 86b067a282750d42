"""Arithmetic in float32, by the rounding policy of a node.

``DOUBLE`` is IEEE's: sums of products round each product, and the sum again. ``SINGLE`` is that of
a unit of vectors for which subnormal numbers, given or computed, are 0: Helium's. It rounds a
product and its sum once, and has neither divisions nor exponentials, which are sequences of these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding

Floats = npt.NDArray[np.float32]

_LEAST_NORMAL = np.finfo(np.float32).tiny


def multiply_add(sums: Array, x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``sums + x * y``, which broadcast; all are float32."""
    if rounding is Rounding.SINGLE:
        return _fused(sums, x, y)
    result: Floats = sums + x * y
    return result


def add(x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``x + y``, which broadcast; both are float32."""
    if rounding is Rounding.SINGLE:
        return _flushed(_flushed(x) + _flushed(y))
    result: Floats = x + y
    return result


def multiply(x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``x * y``, which broadcast; both are float32."""
    if rounding is Rounding.SINGLE:
        with np.errstate(all="ignore"):
            product = _flushed(x).astype(np.float64) * _flushed(y).astype(np.float64)
            return _narrowed(product)
    result: Floats = x * y
    return result


def divide(x: Array, y: Array, rounding: Rounding) -> Floats:
    """Return ``x / y``, which broadcast; both are float32.

    A unit without divisions multiplies by the reciprocal, rounded, and corrects the quotient by
    what it leaves over, which is no number where it is infinite. For integers below 2^22 and
    numbers that leave over nothing subnormal that is the nearest float.
    """
    if rounding is not Rounding.SINGLE:
        result: Floats = np.divide(x, y, dtype=np.float32)
        return result
    with np.errstate(all="ignore"):
        reciprocal = np.float32(1) / y
        quotient = multiply(x, reciprocal, rounding)
        rest = multiply_add(x, quotient, -y, rounding)
        corrected = multiply_add(quotient, rest, reciprocal, rounding)
    return np.where(np.isnan(rest), quotient, corrected)


def sum_in_order(values: Array, rounding: Rounding) -> Floats:
    """Return the sum of float32 along the first axis, from 0, one after the other."""
    with np.errstate(all="ignore"):
        sums = np.cumsum(values, axis=0, dtype=np.float32)
    if rounding is not Rounding.SINGLE or not (_subnormal(values).any() or _subnormal(sums).any()):
        # From 0 on, a sum of -0.0 alone is 0.0.
        result: Floats = sums[-1] + np.float32(0)
        return result
    total = np.zeros(values.shape[1:], np.float32)
    for value in values:
        total = add(total, value, rounding)
    return total


#: 1.5 * 2^23: a sum with it has the nearest integer in its lowest bits.
_INTEGER = np.array(1.5 * 2**23, np.float32)
_PER_LN2 = np.array(float.fromhex("0x1.715476p+0"), np.float32)
#: ln(2) in two parts, the first short enough that its multiples are exact.
_LN2 = tuple(
    np.array(float.fromhex(part), np.float32) for part in ("0x1.62e4p-1", "0x1.7f7d1cp-20")
)
#: Polynomial of exp(r) for |r| up to ln(2)/2, the highest power first.
_POWERS = tuple(
    np.array(float.fromhex(c), np.float32)
    for c in (
        *("0x1.6a23c6p-10", "0x1.123a2p-7", "0x1.5558f4p-5", "0x1.555492p-3", "0x1.fffffcp-2"),
        *("0x1p0", "0x1p0"),
    )
)
#: The coefficients of exp(-2 r).
_POWERS_OF_MINUS_TWO = tuple(
    c * np.float32(-2) ** (len(_POWERS) - 1 - i) for i, c in enumerate(_POWERS)
)
_ONE, _TWO = np.array(1, np.float32), np.array(2, np.float32)
_THREE, _SIX = np.array(3, np.float32), np.array(6, np.float32)
_HALF, _MINUS_HALF = np.array(0.5, np.float32), np.array(-0.5, np.float32)
#: Parabola near 1 / x for x of 1 to 2, the highest power first: its relative error is 1/99.
_RECIPROCAL = tuple(
    np.array(float.fromhex(c), np.float32)
    for c in ("0x1.4afd6ap-2", "-0x1.745d18p+0", "0x1.0f83e0p+1")
)
#: From here on tanh(x) is 1.
_TANH_ONE_FROM = np.float32(10)
#: Below the reference takes exp(x) for the logistic function.
_LOGISTIC_EXP_BELOW = np.float32(-9)
#: Below nothing is left of the exponential, which would nearly be subnormal; above it is infinite.
_LEAST_EXPONENT = -87
_MOST_EXPONENT = np.float32(float.fromhex("0x1.62e42ep+6"))
_QUARTER = np.array(0.25, np.float32)
#: Polynomial of the normal distribution's share beyond x, times exp(x^2 / 2), in 1 / (1 + x / 4),
#: for x of 0 to 13.3, the highest power first: its relative error is 1.2e-8.
_NORMAL_TAIL = tuple(
    np.array(float.fromhex(c), np.float32)
    for c in (
        *("0x1.1c3218p-5", "-0x1.9a05d2p-3", "0x1.9e274ap-2", "-0x1.625ab2p-2", "0x1.428520p-2"),
        *("-0x1.aa7844p-6", "0x1.fa0048p-4", "0x1.82a26ep-4", "0x1.9ac0a0p-4", "-0x1.98b8e6p-16"),
    )
)
#: From here on the share is 0.
_NO_TAIL_FROM = np.float32(14)
#: Twice the root of 2 / pi, and that times 0.044715.
_GELU = tuple(np.array(float.fromhex(c), np.float32) for c in ("0x1.988454p+0", "0x1.2444f2p-4"))
#: Polynomial of (log(1 + f) - f + f^2 / 2) / f^3, the highest power first: the logarithm is off by
#: 6e-9 of itself.
_LOGARITHM = tuple(
    np.array(float.fromhex(c), np.float32)
    for c in (
        *("-0x1.38b58cp-4", "0x1.055b70p-3", "-0x1.0d8542p-3", "0x1.22da1cp-3", "-0x1.547244p-3"),
        *("0x1.99a008p-3", "-0x1.000226p-2", "0x1.555554p-2"),
    )
)
#: Bits of the root of a half; of a first reciprocal, of which those of a number are taken.
_ROOT_HALF_BITS = np.int32(0x3F3504F3)
_RECIPROCAL_BITS = np.int32(0x7EF311C7)


def exp_of_negative(x: Array) -> Floats:
    """Return exp(x) of float32 numbers of at most 0 by the steps of ``SINGLE``: within 2 units of
    the last place.
    """
    result = np.where(x < _LEAST_EXPONENT, np.float32(0), _exp_steps(x))
    return np.where(np.isnan(x), np.float32(np.nan), result)


def exp_on_vectors(x: Array) -> Floats:
    """Return exp(x) of float32 numbers by the steps of ``SINGLE``: within 2 units of the last
    place; 0 below -87.
    """
    return np.where(x > _MOST_EXPONENT, np.float32(np.inf), exp_of_negative(x))


def _exp_steps(x: Array) -> Floats:
    """Return exp(x) where that is neither subnormal nor infinite."""
    fused = Rounding.SINGLE
    moved = multiply_add(_INTEGER, x, _PER_LN2, fused)
    n = add(moved, -_INTEGER, fused)
    rest = x
    for part in _LN2:
        rest = multiply_add(rest, n, -part, fused)
    power = np.broadcast_to(_POWERS[0], x.shape)
    for coefficient in _POWERS[1:]:
        power = multiply_add(coefficient, power, rest, fused)
    bits = power.view(np.int32) + (moved.view(np.int32) << 23)
    result: Floats = bits.view(np.float32)
    return result


def _reciprocal(x: Array) -> Floats:
    """Return 1 / x for x of 1 to 2, within 2^-25 before its last rounding: a parabola, then two
    steps of Newton's method.
    """
    fused = Rounding.SINGLE
    guess: Array = np.broadcast_to(_RECIPROCAL[0], x.shape)
    for coefficient in _RECIPROCAL[1:]:
        guess = multiply_add(coefficient, guess, x, fused)
    for _ in range(2):
        guess = multiply_add(guess, guess, multiply_add(_ONE, guess, -x, fused), fused)
    return guess


def _quotient(x: Array, y: Array) -> Floats:
    """Return x / y for y of 1 to 2, corrected by the remainder of the first quotient."""
    fused = Rounding.SINGLE
    reciprocal = _reciprocal(y)
    quotient = multiply(x, reciprocal, fused)
    return multiply_add(quotient, multiply_add(x, quotient, -y, fused), reciprocal, fused)


def logistic_on_vectors(x: Array) -> Floats:
    """Return the logistic function of float32 numbers by the steps of ``SINGLE``: within 2 units
    of the last place of the exact function; below -9 within 2 of exp(x), as the reference has it.
    """
    power = exp_of_negative(-np.abs(x))
    added = np.where(x < _LOGISTIC_EXP_BELOW, np.float32(0), power)
    return _quotient(np.where(x < 0, power, _ONE), add(_ONE, added, Rounding.SINGLE))


def tanh_on_vectors(x: Array) -> Floats:
    """Return the hyperbolic tangent of float32 numbers by the steps of ``SINGLE``, within 2 units
    of the last place: -e / (e + 2), where e = exp(-2 |x|) - 1 without cancellation.
    """
    size = np.abs(x)
    e = _exp_less_one(np.where(size > _TANH_ONE_FROM, _TANH_ONE_FROM, size))
    return np.copysign(_quotient(-e, add(e, _TWO, Rounding.SINGLE)), x)


def _exp_less_one(size: Array) -> Floats:
    """Return exp(-2 size) - 1 without cancellation, for sizes of 0 to 10."""
    fused = Rounding.SINGLE
    moved = multiply_add(_INTEGER, size, np.float32(-2) * _PER_LN2, fused)
    n = add(moved, -_INTEGER, fused)
    rest = size
    for part in _LN2:
        rest = multiply_add(rest, n, np.float32(0.5) * part, fused)
    # exp(-2 rest) - 1, a multiple of rest.
    less_one = np.broadcast_to(_POWERS_OF_MINUS_TWO[0], size.shape)
    for coefficient in _POWERS_OF_MINUS_TWO[1:-1]:
        less_one = multiply_add(coefficient, less_one, rest, fused)
    less_one = multiply(less_one, rest, fused)
    scale = ((moved.view(np.int32) << 23) + _ONE.view(np.int32)).view(np.float32)
    return multiply_add(add(scale, -_ONE, fused), less_one, scale, fused)


def elu_on_vectors(x: Array) -> Floats:
    """Return exp(x) - 1 of float32 numbers below 0 by the steps of ``SINGLE``, within 3 units of
    the last place, and the others as they are.
    """
    half = multiply(np.abs(x), _HALF, Rounding.SINGLE)
    e = _exp_less_one(np.where(half > _TANH_ONE_FROM, _TANH_ONE_FROM, half))
    return np.where(_flushed(x) < 0, e, x)


def gelu_on_vectors(x: Array) -> Floats:
    """Return x times the normal distribution's share below x of float32 numbers by the steps of
    ``SINGLE``: within 6 units of the last place, and x^2 / 2 more, since the square is rounded.

    The share beyond a size is exp(-size^2 / 2) times a polynomial in 1 / (1 + size / 4).
    """
    fused = Rounding.SINGLE
    size = np.abs(x)
    size = np.where(size > _NO_TAIL_FROM, _NO_TAIL_FROM, size)
    power = exp_of_negative(multiply(multiply(size, size, fused), _MINUS_HALF, fused))
    inverse = _wide_reciprocal(multiply_add(_ONE, size, _QUARTER, fused))
    tail: Array = np.broadcast_to(_NORMAL_TAIL[0], x.shape)
    for coefficient in _NORMAL_TAIL[1:]:
        tail = multiply_add(coefficient, tail, inverse, fused)
    share = multiply(tail, power, fused)
    return multiply(x, np.where(_flushed(x) < 0, share, add(_ONE, -share, fused)), fused)


def gelu_tanh_on_vectors(x: Array) -> Floats:
    """Return GELU by tanh of float32 numbers by the steps of ``SINGLE``: x times the logistic
    function of x (a + b x^2).
    """
    fused = Rounding.SINGLE
    factor = multiply_add(_GELU[0], multiply(x, x, fused), _GELU[1], fused)
    inner = multiply(factor, x, fused)
    power = exp_of_negative(-np.abs(inner))
    top = np.where(inner < 0, power, _ONE)
    return multiply(x, _quotient(top, add(_ONE, power, fused)), fused)


def log_on_vectors(x: Array) -> Floats:
    """Return the natural logarithm of float32 numbers by the steps of ``SINGLE``, within 2 units of
    the last place: x is m 2^e, m from the root of a half to that of two, and the logarithm of m =
    1 + f is f - f^2 / 2 and a polynomial times f^3.
    """
    fused = Rounding.SINGLE
    with np.errstate(over="ignore"):
        place = x.view(np.int32) - _ROOT_HALF_BITS
    n = (place >> 23).astype(np.float32)
    significand = ((place & 0x7FFFFF) + _ROOT_HALF_BITS).view(np.float32)
    f = add(significand, -_ONE, fused)
    square = multiply(f, f, fused)
    rest: Array = np.broadcast_to(_LOGARITHM[0], x.shape)
    for coefficient in _LOGARITHM[1:]:
        rest = multiply_add(coefficient, rest, f, fused)
    rest = multiply(rest, multiply(square, f, fused), fused)
    rest = multiply_add(rest, n, _LN2[1], fused)
    rest = multiply_add(rest, square, _MINUS_HALF, fused)
    y = multiply_add(add(rest, f, fused), n, _LN2[0], fused)
    y = np.where(np.isinf(x), x, y)
    y = np.where(np.isnan(x) | (x < 0), np.float32(np.nan), y)
    return np.where(_flushed(x) == 0, np.float32(-np.inf), y)


def hard_swish_on_vectors(x: Array) -> Floats:
    """Return x * min(max(x + 3, 0), 6) / 6 of float32 numbers by the steps of ``SINGLE``."""
    fused = Rounding.SINGLE
    ramp = clamp_on_vectors(add(x, _THREE, fused), 0, 6)
    return divide(multiply(x, ramp, fused), _SIX, fused)


def leaky_relu_on_vectors(x: Array, alpha: float) -> Floats:
    """Return float32 numbers, those not above 0 times ``alpha``, by the steps of ``SINGLE``."""
    return np.where(_flushed(x) > 0, x, multiply(x, np.array(alpha, np.float32), Rounding.SINGLE))


def clamped(x: Array, low: Array | float, high: Array | float) -> Array:
    """Return numbers within bounds by comparisons, as the C does: -0.0 stays where a bound is 0,
    which no maximum promises, and what is no number stays none.
    """
    low, high = (np.asarray(bound, x.dtype) for bound in (low, high))
    return np.where(x < low, low, np.where(x > high, high, x))


def clamp_on_vectors(x: Array, low: float, high: float) -> Floats:
    """Return float32 numbers within bounds, by comparisons that take subnormal ones for 0."""
    raised = np.where(np.float32(low) > _flushed(x), np.float32(low), x)
    return np.where(_flushed(raised) > np.float32(high), np.float32(high), raised)


def _wide_reciprocal(x: Array) -> Floats:
    """Return 1 / x, within 2 units of the last place: the negated bits are those of a reciprocal
    that is off by an eighth, then three steps of Newton's method.
    """
    fused = Rounding.SINGLE
    with np.errstate(over="ignore"):
        guess = (_RECIPROCAL_BITS - x.view(np.int32)).view(np.float32)
    for _ in range(3):
        guess = multiply_add(guess, guess, multiply_add(_ONE, guess, -x, fused), fused)
    return guess


def _fused(sums: Array, x: Array, y: Array) -> Floats:
    """Products are exact in double. What their sum lacks there makes its last bit odd, so that it
    rounds to float32 as the exact sum does.
    """
    with np.errstate(all="ignore"):
        product = _flushed(x).astype(np.float64) * _flushed(y).astype(np.float64)
        addend = _flushed(sums).astype(np.float64)
        total = product + addend
        other = total - product
        error = (product - (total - other)) + (addend - other)
        direction = np.where(error > 0, np.inf, -np.inf)
        even = (total.view(np.int64) & 1) == 0
        inexact = np.isfinite(total) & (error != 0) & even
        return _narrowed(np.where(inexact, np.nextafter(total, direction), total))


def _narrowed(exact: Array) -> Floats:
    """Return float64 numbers as float32, 0 for those that are subnormal before they are rounded."""
    result = exact.astype(np.float32)
    return np.where(np.abs(exact) < _LEAST_NORMAL, np.copysign(np.float32(0), result), result)


def _flushed(values: Array) -> Floats:
    """Return the values with 0 for those that are subnormal."""
    small = np.abs(values) < _LEAST_NORMAL
    result: Floats = np.where(small, np.copysign(np.float32(0), values), values)
    return result


def _subnormal(values: Array) -> Array:
    small: Array = (np.abs(values) < _LEAST_NORMAL) & (values != 0)
    return small
