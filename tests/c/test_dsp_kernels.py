"""The kernels for cores that multiply pairs of half-words, by their portable twins on the host."""

from __future__ import annotations

from typing import Any

import kernel_runner
import numpy as np
import pytest
from linear_layers import Layer, random_layer

CPU = "cortex-m4"
OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check(layers: list[Layer], **options: Any) -> list[str]:
    """Compare every layer with its reference; the names of the kernels that computed them."""
    cases = []
    for layer in layers:
        call = kernel_runner.kernel_call(layer.node, layer.ins, (layer.out,), CPU)
        shape = (layer.out.shape, layer.out.dtype)
        cases.append(kernel_runner.Case(call, [layer.x], [shape], **options))
    for layer, case, (result,) in zip(layers, cases, kernel_runner.run(cases), strict=True):
        np.testing.assert_array_equal(
            result,
            layer.reference(),
            err_msg=f"{case.call.kernel.name}: {layer.ins} {dict(layer.node.attrs)}",
        )
    return [case.call.kernel.name for case in cases]


@pytest.mark.parametrize("op", OPERATORS)
def test_random_layers(op):
    rng = np.random.default_rng([13, OPERATORS.index(op)])
    names = check([random_layer(rng, op, "int8", explicit_padding=True) for _ in range(150)])
    assert sum(name.startswith("hil_dsp_") for name in names) > (20 if op[0] == "D" else 50), names
