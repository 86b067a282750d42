"""The C kernels of 16-bit activations against their reference, under sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import Check, check, checks_of, count
from linear_layers import Layer
from sixteen_by_eight import BIASES, operator

from hilc.lowering import candidates
from hilc.target import get_cpu

HOST = get_cpu("host")


def layers(seed: int, many: int) -> list[Layer]:
    rng = np.random.default_rng([5, seed])
    return [operator(rng, bias) for bias in BIASES for _ in range(many)]


def test_random_layers() -> None:
    """A third of them have inputs and weights all at the ends of their types."""
    checks = [one for layer in layers(1, 60) for one in checks_of(layer, HOST)]
    check(checks)
    assert count(checks) == {"hil_matmul_s16": 120, "hil_matmul_s16_sums32": 60}


def test_layers_compiled_on_their_own() -> None:
    check([one for layer in layers(2, 2) for one in checks_of(layer, HOST, specialise=True)])


@pytest.mark.parametrize("bias", BIASES)
def test_the_largest_sums_are_right(bias: str | None) -> None:
    """Runs of products that reach 2^30, and as many of them as the type of the sums allows."""
    rng = np.random.default_rng(3)
    depth = 500 if bias == "int32" else 3000
    checks: list[Check] = []
    while len(checks) < 12:
        layer = operator(rng, bias, rows=2, depth=depth, columns=4)
        weights = layer.ins[1]
        assert weights is not None
        assert weights.data is not None
        products = layer.x.astype(np.int64) @ weights.data.T.astype(np.int64)
        if np.abs(products).max() == depth << 22:
            checks += checks_of(layer, HOST)
    check(checks)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_every_core_has_one_kernel_for_them(cpu: str) -> None:
    for bias in BIASES:
        layer = operator(np.random.default_rng(4), bias)
        (call,) = candidates(layer.node, layer.ins, layer.outs, get_cpu(cpu))
        assert call.macs == layer.x.size * layer.out.shape[-1]
