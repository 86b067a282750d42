"""The C kernels of 16-bit activations against their reference, under sanitizers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kernel_checks import Check, check, checks_of, count
from linear_layers import Layer, random_layer
from sixteen_by_eight import BIASES, operator
from wide_layers import DEEP_SHAPES, SHAPES, even_layer, long_layer, wide_layer

from hilc.ir import Quant
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.ops.operands import output_clamp
from hilc.target import get_cpu

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

HOST = get_cpu("host")
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def layers(seed: int, many: int) -> list[Layer]:
    rng = np.random.default_rng([5, seed])
    return [operator(rng, bias) for bias in BIASES for _ in range(many)]


def test_random_layers() -> None:
    """A third of them have inputs and weights all at the ends of their types."""
    checks = [one for layer in layers(1, 60) for one in checks_of(layer, HOST)]
    check(checks)
    counts = count(checks)
    assert counts.pop("hil_generic_matmul_s16_4_columns") >= 20
    assert counts == {"hil_generic_matmul_s16": 120, "hil_generic_matmul_s16_sums32": 60}


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
def test_every_core_has_the_portable_kernel_for_them(cpu: str) -> None:
    for bias in BIASES:
        layer = operator(np.random.default_rng(4), bias)
        *_, call = candidates(layer.node, layer.ins, layer.outs, get_cpu(cpu))
        assert isinstance(call, KernelCall)
        assert not call.kernel.requires
        assert call.macs == layer.x.size * layer.out.shape[-1]


M4 = get_cpu("cortex-m4")


def dsp_checks(made: list[Layer], **options: Any) -> list[Check]:
    found = [one for layer in made for one in checks_of(layer, M4, **options)]
    return [one for one in found if "hil_dsp" in one.kernel]


def test_the_twins_of_kernels_for_dsp_cores() -> None:
    """Sums at the ends of 32 bits among them."""
    rng = np.random.default_rng(8)
    made = [wide_layer(rng, shapes, extreme) for shapes in SHAPES for extreme in (False, True)]
    made += [random_layer(rng, op, "int16", True) for op in LINEAR for _ in range(60)]
    checks = dsp_checks(made)
    check(checks)
    counts = count(checks)
    assert counts.keys() == {
        "hil_dsp_matmul_s16",
        "hil_dsp_conv2d_s16",
        "hil_dsp_matvec_s16",
        "hil_dsp_depthwise_conv2d_s16_channels",
        "hil_dsp_depthwise_conv2d_s16_pairs",
        "hil_dsp_depthwise_conv2d_s16_plane",
    }
    assert min(counts.values()) >= 50


def test_kernels_of_cores_that_multiply_words() -> None:
    """Sums at the ends of 32 bits among them."""
    rng = np.random.default_rng(8)
    made = [wide_layer(rng, shapes, extreme) for shapes in SHAPES for extreme in (False, True)]
    found = [one for layer in made for one in checks_of(layer, get_cpu("cortex-m3"))]
    suffixes = "_s16_4_columns", "depthwise_conv2d_s16_sums32"
    checks = [one for one in found if one.kernel.endswith(suffixes)]
    check(checks)
    counts = count(checks)
    assert counts.keys() == {
        "hil_generic_matmul_s16_4_columns",
        "hil_generic_conv2d_s16_4_columns",
        "hil_generic_depthwise_conv2d_s16_sums32",
    }
    assert min(counts.values()) >= 10


def even_layers(seed: int, many: int) -> list[Layer]:
    """Layers that round once, ties to even, some with zero points, or weights of 16 bits."""
    rng = np.random.default_rng([9, seed])
    made = [wide_layer(rng, shapes, extreme) for shapes in SHAPES for extreme in (False, True)]
    made += [random_layer(rng, op, "int16", True) for op in LINEAR for _ in range(many)]
    return [
        even_layer(rng, layer, zero_points=i % 3 == 1, wide_weights=i % 7 == 3)
        for i, layer in enumerate(made)
    ]


def test_layers_that_round_once() -> None:
    layers = even_layers(1, 40)
    checks = [
        one
        for layer in layers
        for cpu in ("cortex-m3", "cortex-m4")
        for one in checks_of(layer, get_cpu(cpu))
    ]
    check([one for one in checks if not one.case.call.kernel.requires & {"mve"}])
    counts = count(checks)
    served = (
        *(f"hil_generic_{kind}_s16_4_columns" for kind in ("matmul", "conv2d")),
        "hil_generic_depthwise_conv2d_s16_sums32",
        *(f"hil_dsp_{kind}_s16" for kind in ("matmul", "conv2d", "matvec")),
        "hil_dsp_depthwise_conv2d_s16_channels",
        "hil_dsp_depthwise_conv2d_s16_pairs",
        "hil_dsp_depthwise_conv2d_s16_plane",
    )
    assert min(counts[name] for name in served) >= 8
    for name in ("matmul_s16_sums32", "conv2d_s16_sums32", "matmul_s16_even", "conv2d_s16_even"):
        assert counts[f"hil_generic_{name}"] >= 10


def test_layers_that_round_once_are_exact() -> None:
    """But for the last of the multiplier's 31 bits: one output in thousands lies beside a tie."""
    off = total = 0
    for layer in even_layers(2, 20):
        if layer.node.op != "FULLY_CONNECTED":
            continue
        x, weights, *_ = layer.ins
        assert x is not None
        assert x.quant is not None
        assert weights is not None
        assert weights.quant is not None
        assert weights.data is not None
        assert layer.out.quant is not None
        low, high = output_clamp(layer.node, layer.out)
        rows = layer.x.reshape(-1, weights.shape[1]).astype(object) - x.quant.zero_point[0]
        bias = layer.ins[2].data if len(layer.ins) > 2 and layer.ins[2] is not None else None
        sums = rows @ weights.data.T.astype(object) + (0 if bias is None else bias.astype(object))
        scales = np.broadcast_to(np.array(weights.quant.scale), sums.shape[1:])
        unit = Fraction(x.quant.scale[0]) / Fraction(layer.out.quant.scale[0])
        for got, row in zip(layer.reference().reshape(sums.shape), sums, strict=True):
            for value, total_, scale in zip(got, row, scales, strict=True):
                real = round(int(total_) * unit * Fraction(float(scale)))
                wanted = min(max(real + layer.out.quant.zero_point[0], low), high)
                assert abs(int(value) - wanted) <= 1
                off, total = off + (int(value) != wanted), total + 1
    assert total > 300
    assert off * 1000 < total


def test_sums_beyond_32_bits() -> None:
    """By the bias, the depth, or the ends of weights and inputs."""
    rng = np.random.default_rng(9)
    shapes = [each for each in SHAPES if each[0] != "DEPTHWISE_CONV_2D"]
    made = [long_layer(rng, each, extreme) for each in shapes for extreme in (False, True)]
    made += [wide_layer(rng, each, True) for each in DEEP_SHAPES]
    checks = dsp_checks(made)
    found = [one for layer in made for one in checks_of(layer, get_cpu("cortex-m3"))]
    checks += [one for one in found if one.kernel.endswith("_s16_4_columns")]
    assert all(is_long(one) for one in checks)
    check(checks)
    counts = count(checks)
    assert counts.keys() == {
        "hil_dsp_matmul_s16",
        "hil_dsp_conv2d_s16",
        "hil_dsp_matvec_s16",
        "hil_generic_matmul_s16_4_columns",
        "hil_generic_conv2d_s16_4_columns",
    }
    assert min(counts.values()) >= 10


def is_long(one: Check) -> bool:
    """Whether sums have 64 bits."""
    return bool(one.case.call.fields["long_sums"])


def test_shifts_without_a_multiplier_have_long_sums() -> None:
    """Of channels that are nearly dead no output differs from 0, so that their shift is free."""
    layer = wide_layer(np.random.default_rng(10), SHAPES[0])
    x, weights, bias = layer.ins
    assert x is not None
    assert weights is not None
    assert weights.data is not None
    assert layer.out.quant is not None
    finer = replace(layer.out, quant=Quant((layer.out.quant.scale[0] * 2.0**-13,), (0,)))
    coarser = replace(layer.out, quant=Quant((layer.out.quant.scale[0] * 2.0**14,), (0,)))
    coarsest = replace(layer.out, quant=Quant((layer.out.quant.scale[0] * 2.0**26,), (0,)))
    none = replace(bias, data=np.zeros_like(bias.data)) if bias is not None else None
    small = replace(layer, ins=(x, weights, none))
    beyond = dsp_checks([replace(small, out=finer), replace(small, out=coarser)])
    assert all(is_long(one) for one in beyond)
    check(beyond)
    dead = dsp_checks([replace(small, out=coarsest)])
    assert dead
    assert not any(is_long(one) for one in dead)
    assert not any(np.any(value) for one in dead for value in one.expected)
    check(dead)
