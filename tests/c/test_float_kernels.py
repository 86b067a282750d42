"""The C twins of the float kernels for few cores against their reference, under sanitizers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from float_layers import float_layers
from kernel_checks import Check, check, checks_of, count
from linear_layers import Layer, make_layer, random_layer

from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.target import get_cpu

M4 = get_cpu("cortex-m4")
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


def fpu_checks(layers: list[Layer]) -> list[Check]:
    found = [one for layer in layers for one in checks_of(layer, M4)]
    return [one for one in found if "hil_fpu" in one.kernel]


def test_twins_for_the_unit_are_bit_exact() -> None:
    """Infinite sums and those that are no number among them."""
    rng = np.random.default_rng(11)
    layers = float_layers(rng)
    layers += [random_layer(rng, op, "float32", True) for op in LINEAR for _ in range(30)]
    checks = fpu_checks(layers)
    check(checks)
    assert min(count(checks).values()) >= 20


@pytest.mark.parametrize("where", ["weights", "bias"])
def test_weights_not_finite_are_portable(where: str) -> None:
    attrs = {"activation": "NONE"}
    layer = make_layer(
        np.random.default_rng(2), "FULLY_CONNECTED", "float32", (1, 9), (4, 9), attrs
    )
    position = ("x", "weights", "bias").index(where)
    tensor = layer.ins[position]
    assert tensor is not None
    assert tensor.data is not None
    data = tensor.data.copy()
    data[0] = np.inf
    ins = list(layer.ins)
    ins[position] = replace(tensor, data=data)
    calls = candidates(layer.node, ins, layer.outs, M4)
    names = {call.kernel.name for call in calls if isinstance(call, KernelCall)}
    assert names == {"hil_generic_matmul_f32"}
