"""gemmlowp's functions of fixed-point numbers, beside its header in integers of any size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hilc.numerics import fixed_point, interpolate

LOW, HIGH = -(1 << 31), (1 << 31) - 1


def product(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul."""
    if a == b == LOW:
        return HIGH
    whole = a * b + (1 << 30 if a * b >= 0 else 1 - (1 << 30))
    return whole >> 31 if whole >= 0 else -(-whole >> 31)


def shifted(x: int, bits: int) -> int:
    """SaturatingRoundingMultiplyByPOT to the left."""
    return max(LOW, min(HIGH, x << bits))


def twice_reciprocal(x: int) -> int:
    """one_over_one_plus_x_for_x_in_0_1, before the last change of its format."""
    half = (x + HIGH + 1) // 2  # RoundingHalfSum with 1
    y = 1515870810 + product(half, -1010580540)
    for _ in range(3):
        y += shifted(product(y, (1 << 29) - product(half, y)), 2)
    return y


NUMBERS = sorted({*range(0, HIGH, (1 << 21) + 1), 0, 1, HIGH - 1, HIGH})


def test_reciprocals() -> None:
    expected = [shifted(twice_reciprocal(x), 1) for x in NUMBERS]
    got = fixed_point.reciprocal(np.array(NUMBERS, np.int64))
    np.testing.assert_array_equal(got, expected)


def test_tanh_from_exponential_and_reciprocal() -> None:
    a = np.array([*NUMBERS, *(-x for x in NUMBERS if x)], np.int64)
    powers = fixed_point.exp_of_negative(-np.abs(a), 5)  # of Q4.27: twice the number
    halves = [shifted(twice_reciprocal(int(x)) - (1 << 29), 2) for x in powers]
    np.testing.assert_array_equal(fixed_point.tanh(a), np.sign(a) * halves)


def test_the_last_digits_of_an_exponential() -> None:
    """Below -16 each factor has its part; the exact value is less than a step away."""
    a = -np.arange(16 << 26, 32 << 26, (1 << 18) + 1, dtype=np.int64)
    exact = np.exp(a / 2**26) * 2**31
    assert np.abs(fixed_point.exp_of_negative(a, 5) - exact).max() < 1


@pytest.mark.parametrize(
    ("function", "last"), [(interpolate.logistic, 255 << 9), (interpolate.tanh, 255 << 8)]
)
def test_beyond_the_table_is_its_end(function: Callable[..., np.ndarray], last: int) -> None:
    beyond = np.arange(last, 3 * last, 7, dtype=np.int64)
    assert (function(beyond, (1, 0)) == 0x7FFF).all()
