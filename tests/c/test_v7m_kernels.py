"""The kernels for Armv7-M, by their portable twins on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns import cases, sampled
from kernel_checks import Operator, check, checks_of, count
from kernel_layers import (
    V7M,
    case_layers,
    conv,
    extreme_layers,
    family_calls,
    limit_layers,
    tamed,
    usual_layer,
)
from linear_layers import Layer, make_layer, random_layer
from single_op import random_op

from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.target import get_cpu

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check_family(
    operators: Sequence[Operator], prefix: str = V7M.prefix, **options: Any
) -> dict[str, int]:
    """Compares every kernel of the family for every operator with the reference; how many calls
    each kernel has.
    """
    checks = [
        one
        for operator in operators
        for one in checks_of(operator, get_cpu(V7M.cpu), **options)
        if one.kernel.startswith(prefix)
    ]
    check(checks)
    return count(checks)


@pytest.mark.full
def test_random_layers():
    rng = np.random.default_rng(31)
    layers = [random_layer(rng, op, "int8", True) for op in OPERATORS for _ in range(300)]
    counts = check_family(layers + [usual_layer(rng) for _ in range(400)])
    assert sum(counts.values()) > 1000
    assert min(counts.values()) > 20, counts
    assert len(counts) == 8


def test_cases_are_exact_and_served():
    layers = case_layers(np.random.default_rng(32), V7M, 2)
    for layer, kernel in layers:
        found = {call.kernel.name for call in family_calls(layer, V7M)}
        # Of a few channels no word is exact.
        assert found | {f"{V7M.prefix}depthwise_conv2d_s8_words"} >= of_case(kernel) >= found
    counts = check_family([layer for layer, _ in layers])
    assert counts.keys() == {name for _, kernel in layers for name in of_case(kernel)}


def of_case(kernel: str) -> set[str]:
    """The kernels that serve a case, those whose weights are words too."""
    forms = ("_3x3", "_words") if "depthwise" in kernel else ("", "_packed")
    return {f"{kernel.removesuffix('_s8_3x3')}_s8{form}" for form in forms}


@pytest.mark.full  # It changes rarely, and takes long.
def test_layers_compiled_on_their_own():
    layers = case_layers(np.random.default_rng(33), V7M, 1)
    first = {kernel: layer for layer, kernel in reversed(layers)}
    check_family(list(first.values()), specialise=True)


def test_channels_that_no_input_changes():
    counts = check_family(extreme_layers(np.random.default_rng(34), 20))
    assert counts.keys() == {f"{V7M.prefix}matmul_s8", f"{V7M.prefix}matmul_s8_packed"}


@pytest.mark.full
def test_sums_at_their_limits():
    layers = limit_layers(np.random.default_rng(35))
    assert len(check_family(layers)) == 8
    parts = [
        int(str(call.fields.get("part", 500)))
        for layer in layers
        for call in family_calls(layer, V7M)
    ]
    assert min(parts) < 200


def with_weights(op: str, x: tuple[int, ...], column: list[int], value: int) -> Layer:
    """A linear layer whose columns are all alike, without bias, of an input of one value."""
    depth = len(column)
    w = (8, 1, 1, depth) if op == "CONV_2D" else (8, depth)
    attrs = conv("VALID", activation="NONE") if op == "CONV_2D" else {"activation": "NONE"}
    layer = tamed(make_layer(np.random.default_rng(38), op, "int8", x, w, attrs))
    x_tensor, weights, bias = layer.ins
    assert x_tensor is not None
    assert x_tensor.quant is not None
    assert weights is not None
    assert bias is not None
    data = np.broadcast_to(np.array(column, np.int8), (8, depth)).reshape(w)
    ins = (
        replace(x_tensor, quant=replace(x_tensor.quant, zero_point=(0,))),
        replace(weights, data=data),
        replace(bias, data=np.zeros(8, np.int32)),
    )
    return replace(layer, ins=ins, x=np.full(x, value, np.int8))


@cases("value", [-128, 127], first=1)
@cases(("sign", "part"), [(1, 72), (-1, 40)], first=1)
def test_parts_are_cut_where_sums_leave_their_bits(sign: int, part: int, value: int):
    """-128 times weights that add up to 8192 is -2**20, the least sum of 21 bits; 2**20 is none."""
    column = [127 * sign] * 64 + [8 * sign] * 8
    layer = with_weights("CONV_2D", (1, 1, 3, 72), column, value)
    assert [
        call.fields["part"] for call in family_calls(layer, V7M) if call.fields.get("wide") == 2
    ] == [part]
    assert check_family([layer])


@pytest.mark.parametrize("value", sampled([-128, 127], keep=[-128]))
@pytest.mark.parametrize("sign", sampled([1, -1], keep=[1]))
@cases(("op", "x"), [("CONV_2D", (1, 1, 3, 72)), ("FULLY_CONNECTED", (1, 72))], first=1)
@cases(("rest", "part"), [(12, 72), (13, 48)], first=1)
def test_packed_parts_end_where_sums_overflow(
    rest: int, part: int, op: str, x: tuple[int, ...], sign: int, value: int
):
    """255 times weights that add up to 8224 is less than 2**21; with one more it is not."""
    column = [127 * sign] * 64 + [12 * sign] * 7 + [rest * sign]
    layer = with_weights(op, x, column, value)
    assert [
        call.fields["part"] for call in family_calls(layer, V7M) if "packed" in call.kernel.name
    ] == [part]
    assert check_family([layer])


@cases("value", [-128, 127], first=1)
@cases("sign", [1, -1], first=1)
def test_a_row_whose_sums_have_24_bits(sign: int, value: int):
    """128 times weights that add up to 2**16 - 1 is less than 2**23; one more is not."""
    column = [127 * sign] * 516
    assert check_family([with_weights("FULLY_CONNECTED", (1, 517), [*column, 3 * sign], value)])
    layer = with_weights("FULLY_CONNECTED", (1, 517), [*column, 4 * sign], value)
    assert "hil_v7m_matvec_s8" not in check_family([layer])


@cases("stride", [1, 2], first=1)
def test_depthwise_in_place(stride):
    """The output may take the input's place, as the kernel's order says."""
    layers = [
        layer
        for layer, kernel in case_layers(np.random.default_rng(36), V7M, 1)
        if "depthwise" in kernel
        and DepthwiseConv2DAttributes.of(layer.node).stride_h == stride
        and layer.out.nbytes <= layer.x.nbytes
    ]
    assert check_family(layers, in_place=0)


def test_sums_of_tensors():
    rng = np.random.default_rng(37)
    singles = [random_op(rng, op, "int8") for op in ("ADD", "SUB") for _ in range(300)]
    assert check_family(singles, "hil_dsp_sum_s8")["hil_dsp_sum_s8"] > 80
