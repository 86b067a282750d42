"""Channels of int8 kernels: the ends of their sums, and those that are the same for every input."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from linear_layers import random_layer

from hilc import lowering
from hilc.ir import Quant
from hilc.lowering import KernelCall, candidates
from hilc.lowering.channels import channels_of, sum_ends
from hilc.lowering.parameters import HilOutputRange, HilRequantization
from hilc.numerics.requantize import requantize
from hilc.target import get_cpu

#: Two products a sum, so that all pairs of inputs can be tried.
WEIGHTS = np.array([[3, -5], [1, 1], [0, 0], [-128, 127], [2, 1]], np.int8)
#: The second channel's bias exceeds all that its weights add; the fourth's leaves nothing of it.
BIAS = np.array([7, 90_000, 12, -40_000_000, 0], np.int32)
INPUTS = np.array(list(product(range(-128, 128, 5), repeat=2)) + [(-128, 127), (127, -128)])


def outputs_of(bias: np.ndarray, multipliers: np.ndarray, shifts: np.ndarray) -> HilRequantization:
    return HilRequantization(
        output_range=HilOutputRange(out_zero_point=-3, out_min=-128, out_max=127),
        per_channel=1,
        narrow=1,
        bias=bias,
        multipliers=multipliers,
        shifts=shifts,
    )


def test_a_channel_whose_sums_wrap_keeps_weights() -> None:
    """Shifted to the left it gives the least output again; sums between the ends give others."""
    matrix = np.full((1, 519), 127, np.int8)
    bias = np.array([128 * 127 * 519 - 2000], np.int32)
    multipliers, shifts = np.array([67 << 24]), np.array([7], np.int8)
    found = channels_of(matrix, outputs_of(bias, multipliers, shifts))
    assert not found.emptied.any()
    assert (found.weights == matrix).all()


@pytest.mark.parametrize("raised", [0, 128])
def test_a_constant_channel_loses_weights_not_output(raised: int) -> None:
    multipliers = np.full(5, 1_500_000_000, np.int32)
    shifts = np.full(5, -4, np.int8)
    found = channels_of(WEIGHTS, outputs_of(BIAS, multipliers, shifts), raised=raised)
    sums = WEIGHTS.astype(np.int64) @ INPUTS.T + BIAS[:, np.newaxis]
    reference = np.clip(requantize(sums, multipliers[:, np.newaxis], -4) - 3, -128, 127)
    assert found.emptied.tolist() == [False, True, True, True, False]
    assert not found.weights[found.emptied].any()
    own = found.weights.astype(np.int64) @ (INPUTS.T + raised) + found.bias[:, np.newaxis]
    factors, right = found.multipliers[:, np.newaxis], found.right[:, np.newaxis]
    assert (np.clip(requantize(own, factors, -right) - 3, -128, 127) == reference).all()
    assert (found.lowest <= own.min(axis=1)).all()
    assert (found.highest >= own.max(axis=1)).all()


@pytest.mark.parametrize("raised", [0, 128])
def test_ends_of_sums_are_reached(raised: int) -> None:
    ends = [-128, 127]
    sums = WEIGHTS.astype(np.int64) @ (np.array(list(product(ends, ends))).T + raised)
    lowest, highest = sum_ends(WEIGHTS, raised)
    assert (lowest == sums.min(axis=1)).all()
    assert (highest == sums.max(axis=1)).all()


def test_one_scale_for_all_empties_no_channel() -> None:
    one = outputs_of(BIAS, np.array([1 << 30], np.int32), np.array([-4], np.int8))
    assert not channels_of(WEIGHTS, one, empty=False).emptied.any()


@pytest.mark.parametrize("cpu", ["cortex-m3", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_left_shifts_are_rounded_twice(cpu: str, op: str) -> None:
    """Kernels that round once differ from the specification there."""
    layer = random_layer(np.random.default_rng(5), op, "int8", explicit_padding=True)
    out = replace(layer.out, quant=Quant((1e-7,), (0,)))
    found = candidates(layer.node, layer.ins, (out,), get_cpu(cpu))
    kernels = [call.kernel for call in found if isinstance(call, KernelCall)]
    own = [kernel.name for kernel in kernels if kernel.requires]
    assert len(kernels) - len(own) == 2
    twice = {f"hil_dsp_depthwise_conv2d_s8_{n}_rounded" for n in ("pairs", "channels")}
    assert set(own) == (twice if (cpu, op) == ("cortex-m4", "DEPTHWISE_CONV_2D") else set())


def test_no_module_of_a_family_is_long() -> None:
    """An operator group a module."""
    folder = Path(lowering.__file__).parent
    families = [path for path in folder.rglob("*.py") if "@lowers(" in path.read_text()]
    assert len(families) > 20
    lines = {str(path.relative_to(folder)): len(path.read_text().splitlines()) for path in families}
    assert {name: count for name, count in lines.items() if count > 420} == {}


def test_the_first_sum_of_each_level_is_reachable() -> None:
    """Also of levels that the lowest sum exceeds, while other channels are still searched."""
    shifts = np.array([-9, -9, -9, -9, -12], np.int8)
    multipliers = np.full(5, 2**30 + 12345, np.int32)
    found = channels_of(WEIGHTS, outputs_of(BIAS, multipliers, shifts), empty=False)
    levels = np.arange(-128, 128)
    lowest, highest = found.ends
    first = found.first_sums(levels)
    for channel, (low, high) in enumerate(zip(lowest.tolist(), highest.tolist(), strict=True)):
        sums = np.broadcast_to(np.arange(low, high + 1), (len(WEIGHTS), high - low + 1))
        outputs = found.outputs(sums)[channel]
        expected = [
            low + int(np.argmax(outputs >= level)) if (outputs >= level).any() else high
            for level in levels
        ]
        assert first[channel].tolist() == expected
