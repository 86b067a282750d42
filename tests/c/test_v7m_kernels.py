"""The kernels for Armv7-M, by their portable twins on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from kernel_checks import Operator, check, checks_of, count
from kernel_layers import V7M, candidates, case_layers, extreme_layers, limit_layers, usual_layer
from linear_layers import random_layer
from single_op import random_op

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


def test_random_layers():
    rng = np.random.default_rng(31)
    layers = [random_layer(rng, op, "int8", True) for op in OPERATORS for _ in range(300)]
    counts = check_family(layers + [usual_layer(rng) for _ in range(400)])
    assert sum(counts.values()) > 1000
    assert min(counts.values()) > 30, counts
    assert len(counts) == 4


def test_cases_are_exact_and_served():
    layers = case_layers(np.random.default_rng(32), V7M, 2)
    for layer, kernel in layers:
        assert {call.kernel.name for call in candidates(layer, V7M)} == {f"{kernel}_s8"}
    counts = check_family([layer for layer, _ in layers])
    assert counts.keys() == {f"{kernel}_s8" for _, kernel in layers}


def test_layers_compiled_on_their_own():
    layers = case_layers(np.random.default_rng(33), V7M, 1)
    first = {kernel: layer for layer, kernel in reversed(layers)}
    check_family(list(first.values()), specialise=True)


def test_channels_that_no_input_changes():
    counts = check_family(extreme_layers(np.random.default_rng(34), 20))
    assert counts.keys() == {f"{V7M.prefix}matmul_s8"}


def test_sums_at_their_limits():
    layers = limit_layers(np.random.default_rng(35))
    assert len(check_family(layers)) == 4
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
    assert check_family(layers, in_place=0)


def test_sums_of_tensors():
    rng = np.random.default_rng(37)
    singles = [random_op(rng, op, "int8") for op in ("ADD", "SUB") for _ in range(300)]
    assert check_family(singles, "hil_dsp_sum_s8")["hil_dsp_sum_s8"] > 80
