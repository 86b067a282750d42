"""How sums of floats are rounded: the interpreter's two policies, and which core has which."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from linear_layers import grouped_layer, make_layer

from hilc.ir import Graph, Rounding
from hilc.numerics.floats import add, multiply_add
from hilc.source import prepare
from hilc.target import get_cpu

LEAST_NORMAL = Fraction(1, 2**126)


def nearest(exact: Fraction) -> np.float32:
    """The float32 nearest to a number, the even one of two; 0 for what is too small."""
    if abs(exact) < LEAST_NORMAL:
        return np.float32(0)
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.int32)) & 1))


def test_products_and_sums_are_rounded_once() -> None:
    """Among them sums halfway between two floats, but for a product's last bits: rounding to double
    and then to float32 would be wrong."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3000)).astype(np.float32)
    sums = rng.standard_normal(3000).astype(np.float32)
    sums[1::3] = -(x * y)[1::3]
    # 2^24 + 1 is halfway; a product of 1 and a little decides.
    sums[2::3] = 2.0**24
    x[2::3] = 1 + rng.integers(-1, 2, 1000) * np.float32(2.0**-20)
    y[2::3] = 1 + rng.integers(-1, 2, 1000) * np.float32(2.0**-22)
    found = multiply_add(sums, x, y, Rounding.SINGLE)
    exact = [
        nearest(Fraction(float(s)) + Fraction(float(a)) * Fraction(float(b)))
        for s, a, b in zip(sums, x, y, strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(exact))
    assert (found != multiply_add(sums, x, y, Rounding.DOUBLE)).any()


def test_subnormal_numbers_are_zero_where_sums_are_rounded_once() -> None:
    tiny = np.array([1e-40, -1e-40, 1e-20, 2e-38, 1e-38], np.float32)
    ones = np.ones(5, np.float32)
    zeros = np.zeros(5, np.float32)
    assert multiply_add(zeros, tiny, ones, Rounding.SINGLE).tolist() == [
        0, 0, tiny[2], tiny[3], 0,
    ]  # fmt: skip
    assert multiply_add(tiny, zeros, ones, Rounding.SINGLE)[0] == 0
    assert add(tiny[3:4], np.array([-1.2e-38], np.float32), Rounding.SINGLE) == 0
    assert multiply_add(zeros, tiny, ones, Rounding.DOUBLE).tolist() == tiny.tolist()


def test_numbers_that_are_infinite_or_none_pass() -> None:
    x = np.array([np.inf, -np.inf, np.nan, np.inf, 3e38], np.float32)
    y = np.array([2, 2, 1, 0, 3e38], np.float32)
    found = multiply_add(np.zeros(5, np.float32), x, y, Rounding.SINGLE)
    np.testing.assert_array_equal(found, np.array([np.inf, -np.inf, np.nan, np.nan, np.inf]))


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m7", "cortex-m55", "host"])
def test_the_core_says_how_sums_are_rounded(cpu: str) -> None:
    """Those of integers, and of layers that Helium has no kernel for, stay as they are."""
    rng = np.random.default_rng(2)
    attrs = {"activation": "RELU"}
    floats = make_layer(rng, "FULLY_CONNECTED", "float32", (1, 6), (3, 6), attrs)
    integers = make_layer(rng, "FULLY_CONNECTED", "int8", (1, 6), (3, 6), attrs)
    for layer, fuses in ((floats, True), (integers, False), (grouped_layer(rng, "float32"), False)):
        tensors = {t.name: t for t in (*layer.ins, layer.out) if t is not None}
        graph = Graph("g", tensors, (layer.node,), ("x",), ("y",))
        (node,) = prepare(graph, None, get_cpu(cpu)).graph.nodes
        expected = Rounding.SINGLE if fuses and cpu == "cortex-m55" else Rounding.DOUBLE
        assert node.rounding is expected
