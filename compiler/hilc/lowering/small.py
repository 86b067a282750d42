"""Linear int8 layers in as little flash as possible (``kernels/compact``), whatever the core.

The kernels read the model's weights as they are; of each output channel there are two words: bias
and shift share one, the multiplier is the other.
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
    LinearForm,
    MatrixProduct,
    linear_calls,
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


@lowers(*LINEAR, dtypes={"int8"}, rank=Rank.SMALL, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the smallest kernel of a linear layer."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise)


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    for compact in _compact(form):
        yield HilCompactMatmulS8(
            rows=form.rows, depth=form.depth, columns=form.channels, compact=compact
        )


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    for compact in _compact(form):
        yield HilCompactConv2dS8(
            images=form.images, out_c=form.channels, window=form.window, compact=compact
        )


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    for compact in _compact(form):
        yield HilCompactDepthwiseConv2dS8(
            images=form.images,
            depth_multiplier=form.multiplier,
            window=form.window,
            compact=compact,
        )


def _compact(form: LinearForm) -> Iterator[HilCompact]:
    """Yield the parameters that the three kernels share; nothing if a bias exceeds its word."""
    outputs, weights = form.requantization, form.weights
    wide = form.bias.astype(np.int64)
    parts = np.broadcast_arrays(wide, outputs.shifts, outputs.multipliers)
    words = np.stack(parts, axis=1).astype(np.int64)
    large = np.abs(wide) >= _BIAS_LIMIT
    if large.any():
        channels = channels_of(weights, outputs)
        if not channels.emptied[large].all():
            return
        emptied = np.stack([channels.bias, -channels.right, channels.multipliers], axis=1)
        words[large] = emptied[large]
        weights = np.where(large[:, np.newaxis], channels.weights, weights)
    first = (words[:, 0] << _SHIFT_BITS) + words[:, 1] + _SHIFT_BIAS
    yield HilCompact(
        in_zero_point=form.pad_value,
        output_range=outputs.output_range,
        narrow=outputs.narrow,
        weights=weights.reshape(-1),
        scales=np.stack([first, words[:, 2]], axis=1).reshape(-1).astype(np.int32),
    )
