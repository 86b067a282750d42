"""The kernels that are small rather than fast, on the host under sanitizers."""

from __future__ import annotations

from dataclasses import replace

import kernel_runner
import numpy as np
import pytest
from kernel_layers import DSP, case_layers, extreme_layers
from linear_layers import Layer, random_layer

from hilc.cpu import get_cpu
from hilc.ir import Quant
from hilc.kernels import KernelCall
from hilc.ops import OPS

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def compact_call(layer: Layer) -> KernelCall | None:
    """The layer's call of the family, where it has one."""
    calls = OPS[layer.node.op].emit(layer.node, layer.ins, (layer.out,), get_cpu("host"))
    found = [
        call
        for call in calls
        if isinstance(call, KernelCall) and call.kernel.name.startswith("hil_compact_")
    ]
    assert len(found) < 2
    return found[0] if found else None


def check(layers: list[Layer]) -> int:
    """Compares each layer that is served with its reference; returns how many are."""
    served = [(layer, call) for layer in layers if (call := compact_call(layer)) is not None]
    cases = [
        kernel_runner.Case(call, [layer.x], [(layer.out.shape, layer.out.dtype)])
        for layer, call in served
    ]
    for (layer, call), (result,) in zip(served, kernel_runner.run(cases), strict=True):
        assert call.scratch_bytes == 0
        message = f"{call.kernel.name}: {layer.ins} {layer.node.attrs}"
        np.testing.assert_array_equal(result, layer.reference(), err_msg=message)
    return len(served)


@pytest.mark.parametrize("op", OPERATORS)
def test_random_layers(op: str) -> None:
    rng = np.random.default_rng([31, OPERATORS.index(op)])
    layers = [random_layer(rng, op, "int8", explicit_padding=True) for _ in range(500)]
    assert check(layers) > 450


def test_cases_at_the_edges() -> None:
    layers = [layer for layer, _ in case_layers(np.random.default_rng(32), DSP, 6)]
    assert check(layers) == len(layers)


def test_channels_that_no_input_changes() -> None:
    """Whose bias is too large for its word."""
    layers = extreme_layers(np.random.default_rng(33), 20)
    assert check(layers) == len(layers)


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
    assert compact_call(layer) is None
    smaller = replace(bias, data=np.minimum(data, 2**24))
    assert check([replace(layer, ins=(x, changed, smaller))]) == 1
