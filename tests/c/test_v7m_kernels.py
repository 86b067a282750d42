"""The kernels for Armv7-M, by their portable twins on the host."""

from __future__ import annotations

from typing import Any

import kernel_runner
import numpy as np
import pytest
from kernel_layers import V7M, candidates, case_layers, extreme_layers, limit_layers
from linear_layers import Layer, random_layer
from single_op import random_op

from hilc.ops import OPS

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check(layers: list[Layer], **options: Any) -> list[str]:
    """Compare every kernel of every layer with the reference; the names of the kernels."""
    pairs = [(layer, call) for layer in layers for call in candidates(layer, V7M)]
    cases = [
        kernel_runner.Case(call, [layer.x], [(layer.out.shape, layer.out.dtype)], **options)
        for layer, call in pairs
    ]
    for (layer, call), (result,) in zip(pairs, kernel_runner.run(cases), strict=True):
        np.testing.assert_array_equal(
            result,
            layer.reference(),
            err_msg=f"{call.kernel.name}: {layer.ins} {dict(layer.node.attrs)}",
        )
    return [call.kernel.name for _, call in pairs]


@pytest.mark.parametrize("op", OPERATORS)
def test_random_layers(op):
    rng = np.random.default_rng([31, OPERATORS.index(op)])
    names = check([random_layer(rng, op, "int8", explicit_padding=True) for _ in range(100)])
    assert len(names) > (12 if op[0] == "D" else 40), names


def test_cases_are_exact_and_served():
    layers = case_layers(np.random.default_rng(32), V7M, 2)
    for layer, kernel in layers:
        assert {call.kernel.name for call in candidates(layer, V7M)} == {f"{kernel}_s8"}
    names = check([layer for layer, _ in layers])
    assert set(names) == {f"{kernel}_s8" for _, kernel in layers}


def test_layers_compiled_on_their_own():
    layers = case_layers(np.random.default_rng(33), V7M, 1)
    first = {kernel: layer for layer, kernel in reversed(layers)}
    check(list(first.values()), specialise=True)


def test_channels_that_no_input_changes():
    names = check(extreme_layers(np.random.default_rng(34), 20))
    assert set(names) == {f"{V7M.prefix}matmul_s8"}


def test_sums_at_their_limits():
    layers = limit_layers(np.random.default_rng(35))
    names = check(layers)
    assert len(set(names)) == 4
    parts = [
        int(str(call.fields.get("part", 500)))
        for layer in layers
        for call in candidates(layer, V7M)
    ]
    assert min(parts) < 200


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_in_place(stride):
    """The output may take the input's place, as the kernel's order says."""
    layers = [
        layer
        for layer, kernel in case_layers(np.random.default_rng(36), V7M, 1)
        if "depthwise" in kernel
        and layer.node.attrs["stride_h"] == stride
        and layer.out.nbytes <= layer.x.nbytes
    ]
    assert check(layers, in_place=0)


def test_sums_of_tensors():
    rng = np.random.default_rng(37)
    singles = [random_op(rng, op, "int8") for op in ("ADD", "SUB") for _ in range(60)]
    cases = []
    for single in singles:
        call = kernel_runner.kernel_call(single.node, single.ins, single.outs, V7M.cpu)
        outs = [(out.shape, out.dtype) for out in single.outs]
        cases.append(kernel_runner.Case(call, single.values, outs))
    for single, (result,) in zip(singles, kernel_runner.run(cases), strict=True):
        reference = OPS[single.node.op].reference
        (expected,) = reference(single.node, single.ins, single.outs, single.values)
        np.testing.assert_array_equal(result, expected, err_msg=str(single))
    assert "hil_dsp_sum_s8" in {case.call.kernel.name for case in cases}
