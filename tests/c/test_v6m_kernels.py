"""The kernels for Armv6-M, by their portable twins on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_checks import Operator, check, checks_of, count, overlapping_checks
from kernel_layers import (
    MULTIPLIED,
    V6M,
    case_layers,
    conv,
    depthwise,
    extreme_layers,
    family_calls,
    limit_layers,
    rectified,
    tamed,
    to_even,
    usual_layer,
    with_ties,
)
from linear_layers import Layer, make_layer, random_layer

import hilc
from hilc.ir import Rounding
from hilc.lowering.channels import Channels
from hilc.lowering.parameters import HilOutputRange
from hilc.lowering.v6m.conv2d import piecewise_scales
from hilc.target import get_cpu

STREAMS = {"hil_v6m_matmul_s8_packed", "hil_v6m_conv2d_s8_packed"}
TRIPLES = "hil_v6m_depthwise_conv2d_s8_triples"
KERNELS = {
    "hil_v6m_matmul_s8",
    "hil_v6m_conv2d_s8",
    "hil_v6m_depthwise_conv2d_s8_3x3",
    TRIPLES,
    *STREAMS,
}


def check_family(operators: Sequence[Operator], **options: Any) -> dict[str, int]:
    """Compares every kernel of the family for every operator with the reference; how many calls
    each kernel has.
    """
    checks = [
        one
        for operator in operators
        for one in checks_of(operator, get_cpu(V6M.cpu), **options)
        if one.kernel.startswith(V6M.prefix)
    ]
    check(checks)
    return count(checks)


@pytest.mark.full
def test_random_layers():
    rng = np.random.default_rng(61)
    operators = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    layers = [random_layer(rng, op, "int8", True) for op in operators for _ in range(100)]
    usual = [usual_layer(rng) for _ in range(240)]
    usual = [(layer, to_even(layer), with_ties(layer))[i % 3] for i, layer in enumerate(usual)]
    counts = check_family(layers + usual)
    assert counts.keys() == KERNELS
    # Few have outputs of every value.
    assert counts.pop(TRIPLES) > 5
    assert min(counts.values()) > 30, counts


def test_most_layers_of_usual_scales_are_served():
    """All but those whose sums are too large, or where two channels in a hundred are not exact."""
    rng = np.random.default_rng(66)
    layers = [layer for layer in (usual_layer(rng) for _ in range(150))]
    assert sum(bool(family_calls(one, V6M)) for one in layers) > 0.9 * len(layers)


def test_cases_are_exact_and_served():
    layers = [layer for layer, _ in case_layers(np.random.default_rng(62), V6M, 1)]
    assert all(family_calls(layer, V6M) for layer in layers)
    assert check_family(layers).keys() == KERNELS


@pytest.mark.full  # It changes rarely, and takes long.
def test_layers_compiled_on_their_own():
    rng = np.random.default_rng(63)
    layers = {
        kernel.replace("matvec", "matmul"): layer for layer, kernel in case_layers(rng, V6M, 1)
    }
    assert check_family(list(layers.values()), specialise=True).keys() == KERNELS


@pytest.mark.full
def test_constant_channels_and_sums_at_limits():
    rng = np.random.default_rng(64)
    assert check_family(extreme_layers(rng, 20) + limit_layers(rng))


def _rectified(rng: np.random.Generator, op: str, x: Any, w: Any, attrs: Any) -> Layer:
    """A layer of usual scales whose outputs have every value, as the fastest way has it."""
    return rectified(tamed(make_layer(rng, op, "int8", x, w, attrs)))


def test_streams_of_each_depth_and_rest():
    """Rows of up to 64 elements, one more, which have none; columns in nines and others; windows
    in and beyond the image.
    """
    rng = np.random.default_rng(68)
    sizes = [(depth, 1 + depth % 20) for depth in (1, 2, 3, 4, 5, 7, 16, 31, 40, 63, 64, 65)]
    sizes += [(8, count) for count in range(1, 21)]
    pixels = [
        _rectified(rng, "CONV_2D", (1, 1, 3, depth), (count, 1, 1, depth), conv("VALID"))
        for depth, count in sizes
    ]
    windows = [
        _rectified(rng, "CONV_2D", (2, *image), (11, *filters, image[2]), attrs)
        for image, filters in (((11, 10, 1), (10, 4)), ((5, 4, 3), (3, 3)), ((1, 1, 4), (3, 3)))
        for attrs in (
            conv("SAME"),
            conv("SAME", 2),
            conv((2, 3, 1, 4)),
            conv("SAME", dilation_h=2, dilation_w=3),
        )
    ]
    served = [
        bool({call.kernel.name for call in family_calls(layer, V6M)} & STREAMS)
        for layer in pixels + windows
    ]
    assert not served[11], "65 elements"
    # Of a few the multipliers are not exact in two pieces.
    assert sum(served) > 0.9 * len(served)
    counts = check_family(pixels + windows)
    assert sum(counts[kernel] for kernel in STREAMS) == sum(served)
    assert set(counts) >= STREAMS


def test_streams_are_for_speed():
    """They take 2.7 bytes a weight, which a goal of flash does not pay."""
    layer = _rectified(
        np.random.default_rng(69), "CONV_2D", (1, 5, 5, 24), (36, 1, 1, 24), conv("VALID")
    )
    used = {
        goal: any("matmul_s8_packed" in path for path in compiled.files)
        for goal in ("speed", "size")
        for compiled in [hilc.compile(layer.tflite(), cpu="cortex-m0", optimize=goal)]
    }
    assert used == {"speed": True, "size": False}


def test_depthwise_of_each_number_of_rows():
    """Thirds of the rows that the last ones lack, in one band and in several."""
    rng = np.random.default_rng(70)
    layers = [
        _rectified(
            rng,
            "DEPTHWISE_CONV_2D",
            (batch, rows, width, 2),
            (1, 3, 3, 2),
            depthwise(stride) | {"padding": padding},
        )
        for batch, rows, width, padding, stride in (
            *((1, n, 1 + n % 5, "SAME", 1) for n in (*range(1, 16), 24, 25, 26)),
            *((1, n, 3 + n % 5, "VALID", 1) for n in range(3, 9)),
            *((1, n, 1 + n % 5, (1, 2, 0, 3), 2) for n in (*range(1, 9), 25, 31)),
            (2, 14, 9, "SAME", 1),
        )
    ]
    assert check_family(layers)[TRIPLES] > len(layers)


def test_several_filters_of_a_channel():
    """And of fewer taps than 3x3; also in place."""
    rng = np.random.default_rng(71)
    layers = [_rectified(rng, *shapes) for shapes in MULTIPLIED]
    found = check_family(layers)
    assert found[TRIPLES] > len(layers) * 2 // 3
    assert found["hil_v6m_depthwise_conv2d_s8_3x3"] > len(layers) * 2 // 3
    over = [
        over
        for layer in layers
        for one in checks_of(layer, get_cpu(V6M.cpu))
        if one.kernel.startswith(V6M.prefix)
        for over in overlapping_checks(one, layer)
    ]
    check(over)


def test_depthwise_in_place():
    """The output may lie over the input as far as the kernel's order says."""
    layers = [
        layer
        for layer, kernel in case_layers(np.random.default_rng(67), V6M, 1)
        if "depthwise" in kernel
    ]
    overlapping = [
        over
        for layer in layers
        for one in checks_of(layer, get_cpu(V6M.cpu))
        if one.kernel.startswith(V6M.prefix)
        for over in overlapping_checks(one, layer)
    ]
    assert overlapping
    check(overlapping)


def channels(multiplier: int, right: int, bias: int, largest: int, rounding: Rounding) -> Channels:
    """One channel whose sums are from -largest to largest, bias not included."""
    one = np.array([0], np.int64)
    return Channels(
        weights=np.ones((1, 1), np.int8),
        bias=one + bias,
        multipliers=np.array([multiplier], np.int32),
        right=one + right,
        lowest=one + bias - largest,
        highest=one + bias + largest,
        emptied=np.array([False]),
        rounding=rounding,
        range=HilOutputRange(out_zero_point=5, out_min=-128, out_max=127),
    )


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(("pieces", "bits", "largest"), [(2, 12, 2**19), (3, 10, 2**21)])
def test_scales_give_the_output_of_every_sum(rounding, pieces, bits, largest, turns):
    """What hil_v6m_output computes, word by word, for each sum near an output's first, the ends
    and others; a sum more is refused.
    """
    rng = np.random.default_rng(65)
    served = 0
    for _ in range(8):
        multiplier = int(rng.integers(2**30, 2**31))
        right = int(np.log2(largest)) - int(rng.integers(4, 9))
        one = channels(multiplier, right, int(rng.integers(-5000, 5000)), largest - 1, rounding)
        scales = piecewise_scales(one, pieces, bits, turns)
        if scales is None:
            continue
        served += 1
        low, middle, high, bias, addend, turn, shift = (int(word) for word in scales[0])
        assert pieces == 3 or low == 0
        assert turns or addend == turn == 0
        near = one.first_sums(np.arange(-128, 128))[0, :, np.newaxis] + np.arange(-3, 4)
        others = rng.integers(1 - largest, largest, 20_000)
        sums = np.concatenate([near.reshape(-1), others, [1 - largest, -1, 0, 1, largest - 1]])
        sums = np.clip(sums, 1 - largest, largest - 1)
        words = [sums * low, sums * middle + (sums * low >> bits), sums * high]
        words.append((words[1] >> bits) + words[2])
        words.append(words[-1] + bias)
        words.append(words[-1] + addend + (words[-1] >> 31 & turn))
        assert all(word.min() >= -(2**31) and word.max() < 2**31 for word in words)
        found = np.clip((words[-1] >> shift) - 128, -128, 127)
        assert (found == one.outputs(sums[np.newaxis])[0]).all()
    rarely = bits == 12 or (rounding is Rounding.DOUBLE and not turns)
    assert rarely or served >= 4
    wider = replace(one, highest=one.highest + 1)
    assert piecewise_scales(wider, pieces, bits, turns) is None
