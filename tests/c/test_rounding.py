"""Kernels of layers whose sums are rounded once, ties to even: the arithmetic `qdq`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaigns import sampled
from kernel_checks import check, checks_of, count
from kernel_layers import (
    CASES,
    CORNERS,
    PIXELS,
    PLANES,
    STRIPS,
    rectified,
    tamed,
    to_even,
    with_ties,
)
from linear_layers import Layer, grouped_layer, make_layer, random_layer

from hilc.ir import Rounding
from hilc.lowering.linear import linear_form
from hilc.lowering.registry import Layer as Lowered
from hilc.lowering.rounds import Rounds
from hilc.target import get_cpu

#: Kernels that round sums twice, where those of lines that are proven take their place;
#: and those of Armv6-M, whose multipliers in pieces cannot give every tie of round scales.
ROUND_TWICE = {
    "hil_v6m_conv2d_s8",
    "hil_v6m_conv2d_s8_packed",
    "hil_v6m_depthwise_conv2d_s8_3x3",
    "hil_v6m_depthwise_conv2d_s8_triples",
    "hil_v6m_matmul_s8",
    "hil_v6m_matmul_s8_packed",
    "hil_dsp_conv2d_s8",
    "hil_dsp_depthwise_conv2d_s8_3x3",
    "hil_dsp_depthwise_conv2d_s8_channels_rounded",
    "hil_dsp_depthwise_conv2d_s8_pairs_rounded",
    "hil_dsp_matmul_s8",
    "hil_dsp_matvec_s8",
}
SHAPES = [*CORNERS, *PIXELS, *PLANES, *STRIPS, *(case[:4] for case in CASES.values())]


def layers(seed: int, every: int = 1) -> list[Layer]:
    rng = np.random.default_rng(seed)
    made = [tamed(make_layer(rng, op, "int8", x, w, attrs)) for op, x, w, attrs in SHAPES[::every]]
    return [rectified(layer) if i % 2 else layer for i, layer in enumerate(made)]


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize(
    "cpu",
    sampled(["cortex-m0", "cortex-m3", "cortex-m4", "host"], keep=["cortex-m0"]),
)
def test_every_family_rounds_once(cpu):
    """Where assembly is not for this machine, the same loops in C."""
    rng = np.random.default_rng(61)
    cases = [to_even(layer) for layer in layers(60, 3)]
    cases += [with_ties(layer) for layer in layers(62, 9)]
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        cases += [to_even(random_layer(rng, op, "int8", explicit_padding=True)) for _ in range(20)]
    cases += [to_even(grouped_layer(rng, "int8")) for _ in range(5)]
    check([one for case in cases for one in checks_of(case, get_cpu(cpu))])


@pytest.mark.full
@pytest.mark.parametrize(
    "cpu", sampled(["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"], keep=["cortex-m4"])
)
def test_a_layer_has_the_same_kernels_by_both_policies(cpu):
    for layer in layers(63):
        twice, once = (count(checks_of(one, get_cpu(cpu))) for one in (layer, to_even(layer)))
        assert once.keys() >= twice.keys() - ROUND_TWICE


def rounds(layer: Layer) -> Rounds:
    form = linear_form(Lowered(layer.node, layer.ins, layer.outs, get_cpu("host")))
    return Rounds(form.requantization.narrow)


def test_ties_to_even_cost_only_sums_that_tie():
    rng = np.random.default_rng(64)
    op, x, w, attrs = "CONV_2D", (1, 4, 4, 8), (8, 1, 1, 8), SHAPES[0][3]
    layer = tamed(make_layer(rng, op, "int8", x, w, {**attrs, "stride_h": 1, "stride_w": 1}))
    assert rounds(layer) is Rounds.TWICE_NARROW
    assert rounds(to_even(layer)) is Rounds.HALF_UP_NARROW
    assert rounds(with_ties(layer)) is Rounds.EVEN
    up = replace(layer, node=replace(layer.node, rounding=Rounding.SINGLE))
    assert rounds(up) is Rounds.HALF_UP_NARROW
