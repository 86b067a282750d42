"""How sums of floats are rounded: the interpreter's two policies, and which core has which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import erfc, sqrt

import numpy as np
import pytest
from control_flow import FILES
from float_layers import float_op
from linear_layers import grouped_layer, make_layer
from single_op import random_op

from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array, Graph, Node, Rounding
from hilc.numerics.floats import (
    add,
    divide,
    elu_on_vectors,
    exp_of_negative,
    exp_on_vectors,
    gelu_on_vectors,
    gelu_tanh_on_vectors,
    hard_swish_on_vectors,
    log_on_vectors,
    logistic_on_vectors,
    multiply,
    multiply_add,
    sum_in_order,
    tanh_on_vectors,
)
from hilc.ops import OPS
from hilc.ops.mean import block_of_values
from hilc.ops.verify import verify
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


def test_subnormals_are_zero_where_rounded_once() -> None:
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


def test_quotients_of_vectors_are_the_nearest_floats() -> None:
    """By integers as averages have them; where what is left over is subnormal, they need not be."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(20000) * 10.0 ** rng.integers(-20, 30, 20000)).astype(np.float32)
    y = rng.integers(1, 1 << 22, 20000).astype(np.float32)
    np.testing.assert_array_equal(divide(x, y, Rounding.SINGLE), x / y)
    odd = np.array([np.inf, -np.inf, np.nan, 3e38, 0, -1e-40], np.float32)
    found = divide(odd, np.full(6, 3, np.float32), Rounding.SINGLE)
    np.testing.assert_array_equal(
        found, np.array([np.inf, -np.inf, np.nan, 1e38, 0, 0], np.float32)
    )


def test_sums_in_order_flush_subnormals() -> None:
    """The second sum is subnormal, so the third begins from 0."""
    values = np.array([[2e-38], [-1.5e-38], [3e-38]], np.float32)
    assert sum_in_order(values, Rounding.SINGLE) == values[2]
    assert sum_in_order(values, Rounding.DOUBLE) == (values[0] + values[1]) + values[2]
    usual = np.random.default_rng(4).standard_normal((50, 7)).astype(np.float32)
    np.testing.assert_array_equal(
        sum_in_order(usual, Rounding.SINGLE), sum_in_order(usual, Rounding.DOUBLE)
    )


def test_products_of_vectors_are_flushed_first() -> None:
    """A product just below the least normal number would be rounded up to it."""
    x = np.array([np.nextafter(np.float32(1), np.float32(0)), 1, -1, np.nan], np.float32)
    least = np.full(4, np.finfo(np.float32).tiny)
    assert multiply(x, least, Rounding.SINGLE)[:3].tolist() == [0, least[0], -least[0]]
    assert multiply(x, least, Rounding.DOUBLE)[0] == least[0]
    assert np.isnan(multiply(x, least, Rounding.SINGLE)[3])


def test_exponentials_of_vectors_are_within_two_units() -> None:
    x = -np.random.default_rng(5).uniform(0, 87, 100000).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(exp_of_negative(x) / exact - 1).max() < 2.0**-23
    odd = exp_of_negative(np.array([0, -0.0, -np.inf, np.nan, -87.1, -1e-40], np.float32))
    np.testing.assert_array_equal(odd, np.array([1, 1, 0, np.nan, 0, 1], np.float32))


@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize(
    "op", ["ADD", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SOFTMAX", "TANH"]
)
def test_the_core_decides_how_floats_are_computed(cpu: str, op: str) -> None:
    """A maximum is nothing computed, and a mean over axes that do not lie together is not on
    vectors."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        single = float_op(rng, op, False)
        (node,) = prepare(single.graph(), None, get_cpu(cpu)).graph.nodes
        fast = cpu == "cortex-m55" and op != "MAX_POOL_2D"
        if op == "MEAN":
            fast &= block_of_values(single.node, single.ins) is not None
        assert node.rounding is (Rounding.SINGLE if fast else Rounding.DOUBLE)


def test_integers_are_not_computed_as_float_vectors() -> None:
    single = random_op(np.random.default_rng(7), "ADD", "int8")
    node = replace(single.node, rounding=Rounding.SINGLE)
    with pytest.raises(UnsupportedError, match="does not support rounding 'single'"):
        verify(replace(single, node=node).graph())


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


def test_called_graphs_are_computed_as_the_core_does() -> None:
    """The body of a loop, and the branches of an IF within it."""
    for name, cpu in (("while_float32", "cortex-m55"), ("nested_float32", "cortex-m55"),
                      ("nested_float32", "cortex-m4")):  # fmt: skip
        graph = prepare(load_model(FILES[name]), None, get_cpu(cpu)).graph
        floats = {node.rounding for node, dtype in _called_nodes(graph) if dtype == "float32"}
        integers = {node.rounding for node, dtype in _called_nodes(graph) if dtype == "int32"}
        assert floats == {Rounding.SINGLE if cpu == "cortex-m55" else Rounding.DOUBLE}
        assert integers == {Rounding.DOUBLE}


def _called_nodes(graph: Graph) -> Iterator[tuple[Node, str]]:
    """Sums and products of the graphs that nodes call, with their types."""
    for node in graph.nodes:
        control = OPS[node.op].control
        for called in control.graphs(node) if control is not None else ():
            yield from _called_nodes(called)
            yield from (
                (inner, called.tensors[inner.outputs[0]].dtype)
                for inner in called.nodes
                if inner.op in ("ADD", "MUL")
            )


@pytest.mark.parametrize("border", [2.0**-126, 2.0**-20, 0.1, 1.0, 9.0, 87.0])
def test_functions_of_vectors_are_within_three_units(border: float) -> None:
    """Around each border, of either sign; the exact logistic function is exp(x) below -9."""
    rng = np.random.default_rng(9)
    size = (border * 2.0 ** rng.uniform(-1, 1, 50_000)).astype(np.float32)
    size = size[(size >= 2.0**-126) & (size < 87)]
    for x in (size, -size):
        exact = x.astype(np.float64)
        power = np.exp(exact)
        for found, function in (
            (tanh_on_vectors(x), np.tanh(exact)),
            (logistic_on_vectors(x), np.where(x < -9, power, 1 / (1 + np.exp(-exact)))),
        ):
            units = np.spacing(np.abs(function.astype(np.float32))).astype(np.float64)
            assert (np.abs(found - function) / units).max() < 3


def _far_off(x: Array, found: Array, exact: Array) -> Array:
    """Units of the last place of the exact numbers, less what a rounded square makes of them."""
    units = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    result: Array = np.abs(found - exact) / units - x.astype(np.float64) ** 2 / 2
    return result


def test_exponentials_and_logarithms_are_within_two() -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-87, 88.7, 50_000), -(10.0 ** rng.uniform(-20, 1.4, 50_000))])
    x = x.astype(np.float32)
    exact = x.astype(np.float64)
    units = np.spacing(np.exp(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(exp_on_vectors(x) - np.exp(exact)) / units).max() < 2
    units = np.spacing(np.abs(np.expm1(exact)).astype(np.float32)).astype(np.float64)
    assert (np.abs(elu_on_vectors(x) - np.where(x < 0, np.expm1(exact), exact)) / units).max() < 3
    x = np.concatenate([np.exp(exact), 1 + exact[exact > -0.5]]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    units = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(log_on_vectors(x) - exact) / units).max() < 2


def test_gelu_of_vectors_is_as_far_off_as_a_square() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-12.9, 20, 20_000), rng.normal(0, 1e-3, 2_000)])
    x = x.astype(np.float32)
    exact = x.astype(np.float64)
    share = np.array([erfc(-value / sqrt(2)) / 2 for value in exact.tolist()])
    assert _far_off(x, gelu_on_vectors(x), exact * share).max() < 8
    x = x[x > -5]
    exact = x.astype(np.float64)
    inner = 2 * sqrt(2 / np.pi) * (exact + 0.044715 * exact**3)
    far_off = _far_off(x, gelu_tanh_on_vectors(x), exact / (1 + np.exp(-inner)))
    assert (far_off - 2 * np.abs(inner)).max() < 4


def test_more_functions_of_vectors_take_odd_numbers() -> None:
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38], np.float32)
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    for function, expected in (
        (exp_on_vectors, [1, 1, inf, 0, nan, 1, inf, 0]),
        (elu_on_vectors, [0, 0, inf, -1, nan, odd[5], odd[6], -1]),
        (log_on_vectors, [-inf, -inf, inf, nan, nan, -inf, np.log(odd[6]), nan]),
        (gelu_on_vectors, [0, 0, inf, nan, nan, 0, odd[6], 0]),
        (gelu_tanh_on_vectors, [0, 0, inf, nan, nan, 0, odd[6], 0]),
        (hard_swish_on_vectors, [0, 0, inf, nan, nan, 0, inf, 0]),
    ):
        np.testing.assert_allclose(function(odd), np.array(expected, np.float32), rtol=2e-7)


def test_functions_of_vectors_take_odd_numbers() -> None:
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38, -87.1], np.float32)
    half, one, nan = np.float32(0.5), np.float32(1), np.float32(np.nan)
    np.testing.assert_array_equal(
        logistic_on_vectors(odd), [half, half, one, 0, nan, half, one, 0, 0]
    )
    found = tanh_on_vectors(odd)
    np.testing.assert_array_equal(found, [0, 0, one, -one, nan, 0, one, -one, -one])
    assert np.signbit(found[:2]).tolist() == [False, True]
