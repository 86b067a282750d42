"""The kernels that are small rather than fast, on the host under sanitizers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from campaigns import cases
from kernel_checks import Check, check, checks_of
from kernel_layers import DSP, case_layers, extreme_layers
from linear_layers import Layer, random_layer

from hilc.ir import Quant
from hilc.lowering.kernels import KernelCall
from hilc.target import get_cpu

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def compact_checks(layer: Layer) -> list[Check]:
    """The layer's calls of the family: of one channel also the one of a depthwise layer."""
    checks = checks_of(layer, get_cpu("host"))
    found = [one for one in checks if one.kernel.startswith("hil_compact_")]
    assert len({one.kernel for one in found}) == len(found)
    return found


def check_layers(layers: list[Layer]) -> int:
    """Compares each layer that is served with its reference; returns how many are."""
    checked_calls(layers)
    return sum(bool(compact_checks(layer)) for layer in layers)


def checked_calls(layers: list[Layer]) -> list[KernelCall]:
    """The calls of the layers that are served, compared with their reference."""
    checks = [one for layer in layers for one in compact_checks(layer)]
    assert not any(one.case.call.scratch_bytes for one in checks)
    check(checks)
    return [one.case.call for one in checks]


@cases("op", OPERATORS, first=1)
def test_random_layers(op: str) -> None:
    rng = np.random.default_rng([31, OPERATORS.index(op)])
    layers = [random_layer(rng, op, "int8", explicit_padding=True) for _ in range(500)]
    calls = checked_calls(layers)
    assert len(calls) > 450
    # Channels take six bytes or eight.
    assert {bool(call.fields["wide"]) for call in calls} == {False, True}


def test_cases_at_the_edges() -> None:
    layers = [layer for layer, _ in case_layers(np.random.default_rng(32), DSP, 6)]
    assert check_layers(layers) == len(layers)


def test_channels_that_no_input_changes() -> None:
    """Whose bias is too large for its word."""
    layers = extreme_layers(np.random.default_rng(33), 20)
    assert check_layers(layers) == len(layers)


def test_a_large_bias_that_matters_is_not_served() -> None:
    layer = extreme_layers(np.random.default_rng(34), 1)[0]
    x, weights, bias = layer.ins
    assert x is not None
    assert x.quant is not None
    assert weights is not None
    assert bias is not None
    assert weights.quant is not None
    out = replace(layer.out, quant=Quant((0.04,), (0,)))
    # Between two outputs, 20.5 steps above zero: less or more with the input.
    scale = (20.5 * 0.04 / x.quant.scale[0] / 2**26, *weights.quant.scale[1:])
    data = np.array([2**26, 1, 2, 3, 4, 5], np.int32)
    changed = replace(weights, quant=replace(weights.quant, scale=scale))
    layer = replace(layer, out=out, ins=(x, changed, replace(bias, data=data)))
    assert compact_checks(layer) == []
    smaller = replace(bias, data=np.minimum(data, 2**24))
    assert check_layers([replace(layer, ins=(x, changed, smaller))]) == 1
