"""Linear int8 layers in as little flash as possible (``kernels/compact``), whatever the core.

The kernels read the model's weights as they are; of each output channel there are three half-words
for bias, shift and multiplier, or four in layers where a channel exceeds these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.channels import channels_of
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    packed_once,
)
from hilc.lowering.parameters import (
    HilCompact,
    HilCompactConv2dS8,
    HilCompactDepthwiseConv2dS8,
    HilCompactMatmulS8,
)
from hilc.lowering.registry import Layer, Rank, lowers

#: Magnitude of a bias below which it leaves six bits of its word to the shift.
_BIAS_LIMIT = 2**25
_SHIFT_BITS, _SHIFT_BIAS = 6, 32
#: A channel that takes three half-words: the least multiplier, the number of shifts, and the bias
#: that exceeds it.
_NARROW_MULTIPLIER, _NARROW_SHIFTS, _NARROW_BIAS = 2**30, 4, 2**15


@lowers(*LINEAR, dtypes={"int8"}, rank=Rank.SMALL, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the smallest kernel of a linear layer."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise)


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    for compact in _compact(form.packing):
        yield form.parameters(HilCompactMatmulS8, compact=compact)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    for compact in _compact(form.packing):
        yield form.parameters(HilCompactConv2dS8, compact=compact)


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    for compact in _compact(form.packing):
        yield form.parameters(HilCompactDepthwiseConv2dS8, compact=compact)


@packed_once
def _compact(form: LinearWeights) -> list[HilCompact]:
    """Return the parameters that the three kernels share; none if a bias exceeds its word."""
    outputs, weights = form.requantization, form.matrix
    bias, shifts, multipliers = (
        np.array(part, dtype=np.int64)
        for part in np.broadcast_arrays(form.bias, outputs.shifts, outputs.multipliers)
    )
    large = np.abs(bias) >= _BIAS_LIMIT
    if large.any():
        channels = channels_of(weights, outputs)
        if not channels.emptied[large].all():
            return []
        bias[large] = channels.bias[large]
        shifts[large] = -channels.right[large]
        multipliers[large] = channels.multipliers[large]
        weights = np.where(large[:, np.newaxis], channels.weights, weights)
    least = int(shifts.min())
    wide = not (
        (multipliers >= _NARROW_MULTIPLIER).all()
        and (shifts < least + _NARROW_SHIFTS).all()
        and (np.abs(bias) < _NARROW_BIAS).all()
    )
    if wide:
        first, second = multipliers, (bias << _SHIFT_BITS) + shifts + _SHIFT_BIAS
        halves = np.stack([first, first >> 16, second, second >> 16], axis=1).reshape(-1)
    else:
        first = _NARROW_SHIFTS * (multipliers - _NARROW_MULTIPLIER) + shifts - least
        halves = np.append(least, np.stack([first, first >> 16, bias], axis=1))
    compact = HilCompact(
        in_zero_point=form.pad_value,
        output_range=outputs.output_range,
        narrow=outputs.narrow,
        wide=int(wide),
        weights=weights.reshape(-1),
        scales=halves.astype(np.int16),
    )
    return [compact]
