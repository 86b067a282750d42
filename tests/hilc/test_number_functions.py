"""Functions of numbers by themselves: near the real ones, and the reference's to the last bit.

The checksums are of values that agree with the references (``test_signal.py``, ``test_tables.py``
and the tests of operators compare them): a change of one bit is seen here without these.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hilc.ir import Numerics, Rounding
from hilc.numerics import fixed_point, floats, interpolate, libm, requantize
from hilc.numerics.fourier import Transform, _radices
from hilc.numerics.requantize import FixedPoint, common_factors

#: Checksums of what is known to agree with the references.
FIXED_POINT = {
    "inverse_sqrt": 3153779905,
    "log_of_sum": 4089747297,
    "exp_of_negative": 2947224064,
    "logistic": 856866979,
    "tanh": 3099850183,
    "reciprocal": 2536453709,
}
TABLES = {
    "logistic": 1064201773,
    "tanh": 4237591060,
    "scaled": 814034510,
    "exponentials": 2893938602,
    "reciprocals": 709728130,
    "sigmoid": 2076484051,
}
LIBM = {"expf": 3524839589, "tanhf": 4914392}
VECTORS = 1499759302
TRANSFORMS = {"int16": 399584582, "int32": 1472840612}


def crc(*arrays: Any) -> int:
    found = 0
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).tobytes(), found)
    return found


# -- fixed point -----------------------------------------------------------------------------------

#: 32-bit numbers of every size, and those beside powers of two.
WIDE = np.array(
    sorted(
        {
            *(int(x) for x in np.random.default_rng(3).integers(2, 2**31, 2000)),
            *((1 << bit) + off for bit in range(2, 31) for off in (-1, 0, 1)),
            *range(2, 70),
            2**31 - 1,
        }
    ),
    np.int64,
)


def test_inverse_square_roots() -> None:
    multipliers, shifts = fixed_point.inverse_sqrt(WIDE)
    real = multipliers * 2.0 ** (shifts - 31)
    np.testing.assert_allclose(real, 1 / np.sqrt(WIDE), rtol=2e-6)
    assert (multipliers > 0).all()
    assert (multipliers < 2**31).all()
    # Of 0 and 1, the largest number.
    multipliers, shifts = fixed_point.inverse_sqrt(np.array([0, 1, 2]))
    assert multipliers[:2].tolist() == [2**31 - 1] * 2
    assert shifts[:2].tolist() == [0, 0]
    assert multipliers[2] * 2.0 ** (shifts[2] - 31) == pytest.approx(2**-0.5, rel=2e-6)


def test_logarithms_of_sums() -> None:
    """Of Q12.19 in Q5.26."""
    x = WIDE[WIDE >= 1 << 19]
    exact = np.log(x / 2**19)
    np.testing.assert_allclose(fixed_point.log_of_sum(x) / 2**26, exact, atol=2e-7)
    assert fixed_point.log_of_sum(np.array([1 << 19])).tolist() == [0]


def test_leading_zeros() -> None:
    expected = [32 - int(x).bit_length() for x in WIDE]
    assert fixed_point.leading_zeros(WIDE).tolist() == expected
    assert fixed_point.leading_zeros(np.array([1])).tolist() == [31]


@pytest.mark.parametrize("bits", range(6))
def test_exponentials_of_numbers_of_each_format(bits: int) -> None:
    a = -np.concatenate([WIDE, [0, 1, 1 << (31 - bits - 3), 1 << 31]])
    exact = np.exp(a / 2.0 ** (31 - bits))
    np.testing.assert_allclose(
        fixed_point.exp_of_negative(a, bits) / 2**31, exact, rtol=0, atol=3e-7
    )
    assert fixed_point.exp_of_negative(np.array([0]), bits).tolist() == [2**31 - 1]


def test_logistic_function_and_hyperbolic_tangent() -> None:
    a = np.concatenate([-WIDE, [0], WIDE])
    x = a / 2.0**27
    np.testing.assert_allclose(fixed_point.logistic(a) / 2**31, 1 / (1 + np.exp(-x)), atol=2e-7)
    np.testing.assert_allclose(fixed_point.tanh(a) / 2**31, np.tanh(x), atol=4e-7)
    assert fixed_point.logistic(np.array([0])).tolist() == [1 << 30]


def test_numbers_in_fixed_point_stay_what_they_are() -> None:
    a = np.concatenate([-WIDE, [0], WIDE])
    sums = WIDE[WIDE >= 1 << 19]
    found = {
        "inverse_sqrt": crc(*fixed_point.inverse_sqrt(np.concatenate([[0, 1], WIDE]))),
        "log_of_sum": crc(fixed_point.log_of_sum(sums)),
        "exp_of_negative": crc(*(fixed_point.exp_of_negative(-WIDE, n) for n in range(6))),
        "logistic": crc(fixed_point.logistic(a)),
        "tanh": crc(fixed_point.tanh(a)),
        "reciprocal": crc(fixed_point.reciprocal(WIDE)),
    }
    assert found == FIXED_POINT


# -- factors ---------------------------------------------------------------------------------------


def test_factors_of_few_bits_are_exact() -> None:
    for reals in ([1.0], [0.5, -0.25], [3.0, 0.0, -1.75], [1e9, 7.0], [2.0**-40, 2.0**-50], [-5.0]):
        factors, right = common_factors(reals)
        assert [Fraction(f, 2**right) for f in factors] == [Fraction(r) for r in reals]
        largest = max(map(abs, factors))
        # Thirty bits, unless the shift is the largest one.
        assert largest.bit_length() == 30 or (right == 62 and largest.bit_length() < 30)


def test_factors_of_nothing_and_of_very_small_numbers() -> None:
    assert common_factors([0.0]) == ((0,), 62)
    assert common_factors([0.0, -0.0]) == ((0, 0), 62)
    assert common_factors([2.0**-62]) == ((1,), 62)
    assert common_factors([2.0**-64]) == ((0,), 62)
    assert common_factors([1.0]) == ((1 << 29,), 29)
    assert common_factors([2.0]) == ((1 << 29,), 28)
    # The largest decides, wherever it stands and whatever its sign.
    for reals in ([1.0, -8.0], [-8.0, 1.0]):
        assert common_factors(reals).right == common_factors([8.0]).right == 26
    # Half to even, the last of thirty bits.
    one = 1 << 29
    ties = [(one + 0.5) / one, (one + 1.5) / one]
    assert [common_factors([real]).factors for real in ties] == [(one,), (one + 2,)]


def test_multipliers_at_the_ends_of_their_range() -> None:
    quantize = requantize.quantize_multiplier
    assert quantize(0.0) == (0, 0)
    assert quantize(1.0) == (1 << 30, 1)
    assert quantize(0.5) == (1 << 30, 0)
    # What rounds up to 1 takes the next shift.
    assert quantize(1 - 2.0**-40) == (1 << 30, 1)
    assert quantize(2.0**-32) == (1 << 30, -31)
    assert quantize(2.0**-33) == (0, 0)
    assert quantize(2.0**-33, requantize.LEAST_WIDE_SHIFT) == (1 << 30, -32)
    assert quantize(2.0**-48, requantize.LEAST_WIDE_SHIFT) == (1 << 30, -47)
    assert quantize(2.0**-49, requantize.LEAST_WIDE_SHIFT) == (0, 0)
    assert quantize(2.0**29) == (1 << 30, 30)
    assert quantize(2.0**30) == (2**31 - 1, 30)
    # Half away from zero.
    assert quantize((2**31 - 1.5) / 2**31) == (2**31 - 1, 0)


def exact(x: int, multiplier: int, shift: int) -> Fraction:
    return Fraction(x * multiplier, 2**31) * Fraction(2) ** shift


def half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def half_even(value: Fraction) -> int:
    return round(value)


@pytest.mark.parametrize("shift", [-31, -17, -5, -1, 0, 1, 7])
@pytest.mark.parametrize("multiplier", [1 << 30, (1 << 30) + (1 << 20), 2**31 - 1, 1395864371])
def test_one_rounding_of_products(multiplier: int, shift: int) -> None:
    """Saturated at 2^30; of sums of 64 bits to even, with the multiplier's fifteen bits half up."""
    most = 2**30
    sums = [0, 1, -1, 2, -2, 3, -3, 5, -7, 1000, -1001, 2**20, -(2**20) - 1, 2**31 - 1, -(2**31)]
    x = np.array(sums, np.int64)
    single = requantize.requantize(x, multiplier, shift, Rounding.SINGLE)
    even = requantize.requantize(x, multiplier, shift, Rounding.NEAREST_EVEN)
    values = [exact(one, multiplier, shift) for one in sums]
    assert single.tolist() == [max(-most, min(most, half_up(v))) for v in values]
    assert even.tolist() == [max(-most, min(most, half_even(v))) for v in values]
    wide = [*sums, 2**46 + 1, -(2**46) - 1, 2**40]
    found = requantize.requantize(
        np.array(wide, np.int64), multiplier, shift, Rounding.NEAREST_EVEN, "int64"
    )
    real = [exact(one, multiplier, shift) for one in wide]
    assert found.tolist() == [max(-most, min(most, half_even(v))) for v in real]
    # Half up, with the multiplier reduced to 15 bits.
    reduced = min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1)
    assert requantize.reduced_multiplier(multiplier) == reduced
    halves = requantize.requantize(x, multiplier, shift, Rounding.SINGLE, "int64")
    wrapped = [half_up(Fraction(one * reduced, 2**15) * Fraction(2) ** shift) for one in sums]
    assert halves.tolist() == [(v + 2**31) % 2**32 - 2**31 for v in wrapped]


def test_limits_of_sums() -> None:
    assert (requantize.SUMS["int32"].limit, requantize.SUMS["int32"].most_shift) == (2**31, 30)
    # What the references assert.
    assert (requantize.SUMS["int64"].limit, requantize.SUMS["int64"].most_shift) == (2**47, 7)
    assert Rounding.DOUBLE not in requantize.SUMS["int64"].roundings
    assert requantize.SUMS["int32"].roundings == set(Rounding)


def test_clamps_of_activations_of_each_type() -> None:
    """Half away from zero, of a quotient in single precision."""
    clamp = requantize.activation_range
    assert clamp("NONE", 0.1, 5, "int8") == (-128, 127)
    assert clamp("RELU", 0.1, 5, "int8") == (5, 127)
    assert clamp("RELU", 0.1, -200, "int8") == (-128, 127)
    assert clamp("RELU6", 0.1, 5, "int8") == (5, 65)
    assert clamp("RELU6", 0.01, 5, "int8") == (5, 127)
    assert clamp("RELU6", 4.0, 0, "int8") == (0, 2)  # 1.5
    assert clamp("RELU_0_TO_1", 0.1, 5, "int8") == (5, 15)
    assert clamp("RELU_N1_TO_1", 0.1, 5, "int8") == (-5, 15)
    assert clamp("RELU_N1_TO_1", 2.0, 0, "int8") == (-1, 1)  # a half, away from zero
    assert clamp("RELU_N1_TO_1", 0.001, 0, "int8") == (-128, 127)
    assert clamp("RELU6", 0.1, 0, "int16") == (0, 60)
    with pytest.raises(ValueError, match="unknown activation 'TANH'"):
        clamp("TANH", 0.1, 0, "int8")


def test_ties_are_found_where_there_are_some() -> None:
    for multiplier, shift in ((1 << 30, -1), (3 << 28, 0), (2**31 - 1, 0), (5 << 20, -3), (0, 0)):
        for low, high in ((-9, 9), (0, 0), (1, 1), (2, 2), (3, 3), (-4, -4), (-2000, 2000)):
            ties = any(
                (2 * exact(x, multiplier, shift)).denominator == 1
                and exact(x, multiplier, shift).denominator == 2
                for x in range(low, high + 1)
            )
            found = requantize.has_ties(multiplier, shift, low, high)
            assert bool(found) == ties, (multiplier, shift, low, high)


# -- tables ----------------------------------------------------------------------------------------


def test_the_sigmoids_table_is_the_references() -> None:
    """TFLite Micro's ``sigmoid_table_uint16``: its first entries and its last, and a checksum."""
    wide = interpolate.SIGMOID.astype(np.int64) + 32768
    assert wide[:6].tolist() == [32768, 33451, 34133, 34813, 35493, 36169]
    assert wide[-1] == 65535
    near = 65536 / (1 + np.exp(-np.arange(256) / 24))
    assert np.abs(wide - near).max() < 1.5
    assert crc(interpolate.SIGMOID) == TABLES["sigmoid"]
    assert interpolate.SIGNED_SIGMOID.tolist() == [
        -wide[-1] + 32768, *(32768 - wide[:0:-1]), *(wide - 32768), wide[-1] - 32768,
    ]  # fmt: skip
    assert len(interpolate.SIGNED_SIGMOID) == 513


def test_interpolated_functions_are_near_the_real_ones() -> None:
    x = np.arange(-(2**15), 2**15, 3, dtype=np.int64)
    # 2^-12 a step of the argument: 24 / 2^12 steps of 2^9 positions.
    scale = FixedPoint(24 * 512, 12)
    real = x / 2.0**12
    logistic = interpolate.logistic(x, scale) / 2**15
    np.testing.assert_allclose(logistic, 1 / (1 + np.exp(-real)), atol=1.5e-4)
    tanh = interpolate.tanh(x, scale) / 2**15
    np.testing.assert_allclose(tanh, np.tanh(real), atol=4e-4)
    found = {
        "logistic": crc(interpolate.logistic(x, scale)),
        "tanh": crc(interpolate.tanh(x, scale)),
        "scaled": crc(interpolate.logistic(x, FixedPoint(5, 1))),
        "exponentials": crc(interpolate.EXPONENTIALS),
        "reciprocals": crc(*(interpolate.reciprocals(numerics) for numerics in Numerics)),
        "sigmoid": crc(interpolate.SIGMOID),
    }
    assert found == TABLES


def test_a_table_has_its_function_at_its_steps() -> None:
    table = interpolate.table(np.sin, -2.0, 2.0)
    assert table.size == 513
    assert table.dtype == np.int16
    places = np.linspace(-2, 2, 513)
    assert np.abs(table / 2**15 - np.sin(places)).max() < 1e-4
    # Linear functions are exact, at the ends too; a span of four gives half of it.
    for span, factor in ((2.0, 2**15), (4.0, 2**14)):
        line = interpolate.table(lambda x: x / 4, -2.0, 2.0, span)
        assert line.tolist() == np.round(places / 4 * factor).astype(int).tolist()
    ends = interpolate.table(lambda x: 2 * x, -2.0, 2.0)
    assert (ends.min(), ends.max()) == (-(2**15), 2**15 - 1)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ArithmeticError, match="beyond all numbers"),
    ):
        interpolate.table(lambda x: np.float32(1) / x, 0.0, 1.0)


def test_looking_up_goes_from_entry_to_entry() -> None:
    entries = (np.arange(513) * 10).astype(np.int16)
    x = np.array([-(2**15), -(2**15) + 64, -1, 0, 64, 128, 2**15 - 1], np.int64)
    assert interpolate.look_up(entries, x).tolist() == [0, 5, 2560, 2560, 2565, 2570, 5120]
    # A rise beyond 16 bits wraps around.
    steep = np.zeros(513, np.int16)
    steep[256], steep[257] = -30000, 30000
    between = interpolate.look_up(steep, np.array([0, 64], np.int64)).tolist()
    assert between == [-30000, -30000 + (60000 - 65536) // 2]


def floats_between(low: int, high: int) -> np.ndarray:
    """Return floats of random bits, so that no function of the host has made them."""
    bits = np.random.default_rng(5).integers(low, high, 4000, dtype=np.int32)
    return bits.view(np.float32)


# -- the C library's -------------------------------------------------------------------------------


def test_exponentials_at_the_ends_of_their_range() -> None:
    ends = np.array(
        [88.72283, 88.72284, -103.97207, -103.97209, 1e30, -1e30, 700, -700], np.float32
    )
    got = libm.expf(ends)
    assert np.isfinite(got[0])
    assert got[0] > 3.4e38
    assert got[1] == np.inf
    assert got[2] > 0
    assert got[3] == 0
    assert got[4:].tolist() == [np.inf, 0, np.inf, 0]


def test_functions_of_the_c_library_stay_what_they_are() -> None:
    sizes = floats_between(67 << 23, 134 << 23)  # 2^-60 to 2^7
    x = np.concatenate([sizes, -sizes])
    assert {"expf": crc(libm.expf(x)), "tanhf": crc(libm.tanhf(x))} == LIBM
    np.testing.assert_allclose(libm.tanhf(x), np.tanh(x.astype(np.float64)), rtol=3e-7)
    inside = x[np.abs(x) < 80]
    np.testing.assert_allclose(libm.expf(inside), np.exp(inside.astype(np.float64)), rtol=1e-7)


# -- floats of vectors -----------------------------------------------------------------------------


def test_exponentials_of_vectors_stay_what_they_are() -> None:
    x = -floats_between(97 << 23, (133 << 23) + (1 << 22))  # 2^-30 to 96
    got = floats.exp_of_negative(x)
    inside = x > -87
    exact_ones = np.exp(x[inside].astype(np.float64))
    np.testing.assert_allclose(got[inside], exact_ones, rtol=2.5e-7)
    assert (got[~inside] == 0).all()
    ends = floats.exp_of_negative(np.array([0, -87, -87.00001, -np.inf, np.nan], np.float32))
    assert ends[0] == 1
    assert ends[1] > 0
    assert ends[2] == ends[3] == 0
    assert np.isnan(ends[4])
    assert crc(got) == VECTORS


# -- Fourier transforms ----------------------------------------------------------------------------

LENGTHS = (4, 8, 16, 32, 64, 128)


def noise(length: int, dtype: str, rows: int = 3) -> np.ndarray:
    rng = np.random.default_rng(length)
    if dtype == "float32":
        return rng.uniform(-1, 1, (rows, length)).astype(np.float32)
    top = np.iinfo(dtype).max
    return rng.integers(-top // 2, top // 2, (rows, length)).astype(dtype)


def complex_of(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide[..., 0::2] + 1j * wide[..., 1::2]


def parts_of(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).reshape(*x.shape[:-1], -1)


@pytest.mark.parametrize("length", LENGTHS)
def test_float_transforms_are_discrete_fourier(length: int) -> None:
    x = noise(length, "float32")
    spectrum = Transform(length, "float32").spectrum(x)
    assert spectrum.shape == (3, length + 2)
    assert spectrum.dtype == np.float32
    np.testing.assert_allclose(complex_of(spectrum), np.fft.rfft(x), atol=2e-5)
    back = Transform(length, "float32", inverse=True).signal(spectrum)
    assert back.shape == x.shape
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, x, atol=2e-6)


@pytest.mark.parametrize("dtype", ["int16", "int32"])
@pytest.mark.parametrize("length", LENGTHS)
def test_integer_transforms_are_divided_by_length(length: int, dtype: str) -> None:
    x = noise(length, dtype)
    spectrum = Transform(length, dtype).spectrum(x)
    assert spectrum.dtype == dtype
    # Each step divides by its radix, and separating by 2; a step loses less than a unit or two.
    off = 16 if dtype == "int16" else 40
    np.testing.assert_allclose(complex_of(spectrum), np.fft.rfft(x) / length, atol=off)
    given = (parts_of(np.fft.rfft(x)) / length / 2).astype(dtype)
    back = Transform(length, dtype, inverse=True).signal(given)
    np.testing.assert_allclose(back, np.fft.irfft(complex_of(given)), atol=off)


def test_transforms_of_integers_stay_what_they_are() -> None:
    """The reference's, with its roundings; sums of the largest numbers wrap around."""
    found = {}
    for dtype in ("int16", "int32"):
        top, low = np.iinfo(dtype).max, np.iinfo(dtype).min
        parts = []
        for length in LENGTHS:
            loud = np.where(noise(length, dtype) > 0, top, low).astype(dtype)
            wide = np.resize(loud, (3, length + 2)).astype(dtype)
            own = Transform(length, dtype)
            other = Transform(length, dtype, inverse=True)
            parts += [own.spectrum(noise(length, dtype)), own.spectrum(loud)]
            parts += [other.signal(wide), other.signal(wide // 3), own.twiddles, other.separating]
            parts.append(own.order)
        found[dtype] = crc(*parts)
    assert found == TRANSFORMS


def test_transform_steps_are_of_four_then_two() -> None:
    assert [_radices(2**power) for power in range(6)] == [
        [], [2], [4], [4, 2], [4, 4], [4, 4, 2]
    ]  # fmt: skip
    assert Transform(16, "int16").order.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert Transform(4, "int16").order.tolist() == [0, 1]
    # The factors of the first step turn by an eighth of a circle at a time.
    eighth = Transform(16, "float32").twiddles
    angles = -2 * np.pi * np.arange(8) / 8
    np.testing.assert_allclose(eighth, np.stack([np.cos(angles), np.sin(angles)], -1), atol=1e-7)
