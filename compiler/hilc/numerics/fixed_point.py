"""gemmlowp's functions of fixed-point numbers (``fixedpoint.h``), bit for bit.

A number with ``n`` integer bits is an int32 in steps of 2**(n - 31): Q0.31 has none, Q4.27 four.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.numerics.requantize import (
    INT32_MAX,
    INT32_MIN,
    doubling_high_mul,
    rounding_divide_by_pot,
)

Int64Array = npt.NDArray[np.int64]

#: exp(-2^e) in Q0.31, for e from -2 on: the factors of a number's binary digits.
_EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_EXP_OF_MINUS_EIGHTH = 1895147668
_ONE_THIRD = 715827883
#: 48/17 and 32/17 in Q2.29: the line that starts the Newton iteration for a reciprocal.
_RECIPROCAL_OFFSET = 1515870810
_RECIPROCAL_SLOPE = -1010580540
#: 1 in Q2.29.
_ONE = 1 << 29
#: sqrt(1/2) in Q0.31, and 3/2 in Q3.28.
_SQRT_HALF = 1518500250
_THREE_HALVES = (1 << 28) + (1 << 27)


def exp_of_negative(a: Int64Array, integer_bits: int) -> Int64Array:
    """exp(a) in Q0.31 for a <= 0 with ``integer_bits``, at most 5."""
    quarter = 1 << (29 - integer_bits)
    last = (a & (quarter - 1)) - quarter
    result = _exp_of_last_quarter(_saturating_left(last, integer_bits))
    digits = last - a
    for digit, factor in enumerate(_EXP_OF_POWERS[: integer_bits + 2]):
        taken = digits & (quarter << digit) != 0
        result = np.where(taken, doubling_high_mul(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def reciprocal(x: Int64Array) -> Int64Array:
    """1 / (1 + x) in Q0.31, x from 0 to 1 in Q0.31."""
    return _saturating_left(_twice_reciprocal(x), 1)


def logistic(a: Int64Array) -> Int64Array:
    """1 / (1 + exp(-a)) in Q0.31 for Q4.27."""
    positive = reciprocal(exp_of_negative(-np.abs(a), 4))
    result = np.where(a > 0, positive, INT32_MAX - positive)
    return np.where(a == 0, 1 << 30, result)


def tanh(a: Int64Array) -> Int64Array:
    """tanh(a) in Q0.31 for Q4.27: (1 - x) / (1 + x) of x = exp(-2 |a|)."""
    # The same bits with five integer bits are twice the number.
    halves = _twice_reciprocal(exp_of_negative(-np.abs(a), 5))
    return np.sign(a) * _saturating_left(halves - _ONE, 2)


def _twice_reciprocal(x: Int64Array) -> Int64Array:
    """2 / (1 + x) in Q2.29, x from 0 to 1 in Q0.31."""
    half_denominator = (x + INT32_MAX + 1) >> 1
    y = _RECIPROCAL_OFFSET + doubling_high_mul(half_denominator, _RECIPROCAL_SLOPE)
    for _ in range(3):
        error = _ONE - doubling_high_mul(half_denominator, y)
        y = y + _saturating_left(doubling_high_mul(y, error), 2)
    return y


def _saturating_left(x: Int64Array, bits: Int64Array | int) -> Int64Array:
    raised: Int64Array = np.clip(x << bits, INT32_MIN, INT32_MAX)
    return raised


def _exp_of_last_quarter(a: Int64Array) -> Int64Array:
    """exp(a) for -1/4 <= a < 0, in Q0.31: four terms of the series around -1/8."""
    x = a + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3 = doubling_high_mul(x2, x)
    x4 = doubling_high_mul(x2, x2)
    cubic = doubling_high_mul(rounding_divide_by_pot(x4, 2) + x3, _ONE_THIRD)
    series = x + rounding_divide_by_pot(cubic + x2, 1)
    return _EXP_OF_MINUS_EIGHTH + doubling_high_mul(series, _EXP_OF_MINUS_EIGHTH)


def inverse_sqrt(x: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return multipliers in Q0.31 and left shifts of 1 / sqrt(x), for 32-bit numbers from 0 on.

    Below 2 it is the largest multiplier.
    """
    small = x <= 1
    x = np.where(small, 2, x)
    right = np.full(x.shape, 11, np.int64)
    while (large := x >= 1 << 29).any():
        x, right = np.where(large, x // 4, x), right + large
    while (few := x < 1 << 27).any():
        x, right = np.where(few, x * 4, x), right - few
    # Five Newton steps in Q3.28, from 1.
    half = rounding_divide_by_pot(x >> 1, 1)
    y = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = _saturating_left(doubling_high_mul(doubling_high_mul(y, y), y), 6)
        y = _saturating_left(doubling_high_mul(y, _THREE_HALVES) - doubling_high_mul(half, cube), 3)
    root = doubling_high_mul(y, _SQRT_HALF) << np.maximum(-right, 0)
    return np.where(small, INT32_MAX, root), np.where(small, 0, -np.maximum(right, 0))


#: Constants of :func:`log_of_sum` in Q0.31: ln(2), sqrt(sqrt(1/2)), and the coefficients of a
#: rational approximation around 1.
_LOG_2 = 1488522236
_FOURTH_ROOT_HALF = 1805811301
_LOG_NUMERATOR = 117049297
_LOG_DENOMINATOR = (127690142, 1057819769, 638450708)
#: Integer bits of a sum of exponentials, of its logarithm, and of the terms of that.
_SUM_BITS = 12
_LOG_BITS = 5
_TERM_BITS = _LOG_BITS + 1


def log_of_sum(x: Int64Array) -> Int64Array:
    """Return log(x) in Q5.26, for x from 1 on in Q12.19."""
    zeros = leading_zeros(x)
    quarter = rounding_divide_by_pot(np.int64(1 << 29) + np.zeros_like(x), _TERM_BITS)
    a = _saturating_left(doubling_high_mul(x << (zeros - 1), _SQRT_HALF), 1)
    a_power = _saturating_left(_SUM_BITS - zeros, 31 - _TERM_BITS) + quarter
    halved = leading_zeros(doubling_high_mul(x, _SQRT_HALF)) - 1
    b = _saturating_left(x, halved)
    b_power = _saturating_left(_SUM_BITS - halved, 31 - _TERM_BITS) - quarter
    r, power = np.minimum(a, b), np.maximum(a_power, b_power)

    p = (r + _FOURTH_ROOT_HALF + 1) >> 1
    q = 2 * (r - _FOURTH_ROOT_HALF)
    square = doubling_high_mul(q, q)
    numerator = doubling_high_mul(q, r)
    numerator += doubling_high_mul(doubling_high_mul(q, square), _LOG_NUMERATOR)
    quadratic, one, linear = _LOG_DENOMINATOR
    inner = one + q + doubling_high_mul(square, quadratic)
    denominator = doubling_high_mul(p, inner) + doubling_high_mul(q, linear)
    term = rounding_divide_by_pot(numerator, _TERM_BITS)
    log = doubling_high_mul(power, _LOG_2) + doubling_high_mul(term, reciprocal(denominator))
    return _saturating_left(log, _TERM_BITS - _LOG_BITS)


def leading_zeros(x: Int64Array) -> Int64Array:
    """Return the leading zeros of 32-bit numbers above 0."""
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)
