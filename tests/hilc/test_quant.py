"""Quantized arithmetic in Python against the shared vectors; tests/c/test_quant.py is its twin."""

from __future__ import annotations

import json
import runpy

import numpy as np
import pytest
from vector_files import vector_file

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


def test_requantize_takes_one_multiplier_for_all_values():
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
