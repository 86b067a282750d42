"""Quantized arithmetic in Python against the shared vectors; tests/c/test_quant.py is its twin."""

from __future__ import annotations

import json
import runpy
from fractions import Fraction

import numpy as np
import pytest
from vector_files import vector_file

from hilc.ir import Rounding
from hilc.numerics import requantize as quant

VECTORS = json.loads(vector_file("quant.json").read_text(encoding="utf-8"))


def columns(name: str) -> list[np.ndarray]:
    return [np.array(column, np.int64) for column in zip(*VECTORS[name], strict=True)]


def test_the_vectors_are_what_their_script_writes():
    script = runpy.run_path(str(vector_file("make_quant.py")))
    assert vector_file("quant.json").read_text(encoding="utf-8") == script["text"]()


@pytest.mark.parametrize(("real", "multiplier", "shift"), VECTORS["quantize_multiplier"])
def test_quantize_multiplier(real, multiplier, shift):
    assert quant.quantize_multiplier(float.fromhex(real)) == (multiplier, shift)


def test_doubling_high_mul():
    a, b, expected = columns("doubling_high_mul")
    np.testing.assert_array_equal(quant.doubling_high_mul(a, b), expected)


def test_rounding_divide_by_pot():
    x, exponent, expected = columns("rounding_divide_by_pot")
    np.testing.assert_array_equal(quant.rounding_divide_by_pot(x, exponent), expected)


def test_requantize():
    x, multiplier, shift, expected = columns("requantize")
    np.testing.assert_array_equal(quant.requantize(x, multiplier, shift), expected)


def test_requantize_once():
    for name, rounding in (("half_up", Rounding.SINGLE), ("even", Rounding.NEAREST_EVEN)):
        x, multiplier, shift, expected = columns(f"requantize_{name}")
        np.testing.assert_array_equal(quant.requantize(x, multiplier, shift, rounding), expected)


def test_requantize_sums_of_64_bits_to_even():
    upper, lower, multiplier, shift, expected = columns("requantize_wide_even")
    sums = (upper << 32) + (lower & 0xFFFFFFFF)
    got = quant.requantize(sums, multiplier, shift, Rounding.NEAREST_EVEN, "int64")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("real", [0.5, 2.0**-7, 0.75 * 2.0**-5, 0.3, 1.5, 4.0, 1e-9])
def test_ties_are_what_tells_ties_to_even_from_half_up(real):
    multiplier, shift = quant.quantize_multiplier(real)
    for lowest, highest in ((-300, 300), (-63, 63), (5, 7), (-16, -16), (64, 64), (3, 3)):
        sums = np.arange(lowest, highest + 1)
        even, up = (
            quant.requantize(sums, multiplier, shift, rounding)
            for rounding in (Rounding.NEAREST_EVEN, Rounding.SINGLE)
        )
        exact = [Fraction(int(s) * multiplier) * Fraction(2) ** (shift - 31) for s in sums]
        ties = np.array([value.denominator == 2 for value in exact])
        assert quant.has_ties(multiplier, shift, lowest, highest) == ties.any()
        assert not (even != up)[~ties].any()
        assert (even[ties] % 2 == 0).all()


def test_requantize_with_one_multiplier():
    x = np.array([-100, 0, 99], np.int32)
    assert quant.requantize(x, 2**30, 0).tolist() == [-50, 0, 50]


@pytest.mark.parametrize(
    ("activation", "scale", "zero_point", "expected"),
    [
        ("NONE", 0.1, 5, (-128, 127)),
        ("RELU", 0.1, 5, (5, 127)),
        ("RELU", 0.1, -128, (-128, 127)),
        ("RELU6", 0.1, -100, (-100, -40)),
        ("RELU6", 0.01, -128, (-128, 127)),
        # 6 / 0.16 = 37.5, which rounds away from zero.
        ("RELU6", 0.16, 0, (0, 38)),
        ("RELU_N1_TO_1", 0.1, 3, (-7, 13)),
        ("RELU_N1_TO_1", 0.001, 3, (-128, 127)),
    ],
)
def test_activation_range(activation, scale, zero_point, expected):
    assert quant.activation_range(activation, scale, zero_point, "int8") == expected
