"""Linear int8 layers in as little flash as possible (``kernels/compact``), whatever the core.

The kernels read the model's weights as they are; of each output channel there are two words: bias
and shift share one, the multiplier is the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearForm,
    MatrixProduct,
    linear_form,
)
from hilc.lowering.parameters import (
    HilCompact,
    HilCompactConv2dS8,
    HilCompactDepthwiseConv2dS8,
    HilCompactMatmulS8,
)
from hilc.lowering.registry import Layer, Rank, lowers
from hilc.numerics.requantize import requantize

#: Magnitude of a bias below which it leaves six bits of its word to the shift.
_BIAS_LIMIT = 2**25
_SHIFT_BITS, _SHIFT_BIAS = 6, 32
#: Stands for the output of a channel that is not the same for every input.
_VARIES = 1 << 20


@lowers(*LINEAR, dtypes={"int8"}, rank=Rank.SMALL)
def linear(layer: Layer) -> list[KernelCall]:
    """The smallest kernel of a linear layer."""
    form = linear_form(layer)
    compact = _compact(form)
    return [] if compact is None else [KernelCall(_parameters(form, compact), macs=form.macs)]


def _parameters(form: LinearForm, compact: HilCompact) -> Parameters:
    if isinstance(form, MatrixProduct):
        return HilCompactMatmulS8(
            rows=form.rows, depth=form.depth, columns=form.channels, compact=compact
        )
    if isinstance(form, Convolution):
        return HilCompactConv2dS8(
            images=form.images, out_c=form.channels, window=form.window, compact=compact
        )
    assert isinstance(form, DepthwiseConvolution)
    return HilCompactDepthwiseConv2dS8(
        images=form.images,
        depth_multiplier=form.multiplier,
        window=form.window,
        compact=compact,
    )


def _compact(form: LinearForm) -> HilCompact | None:
    """What all three have; None where a bias is too large for its word."""
    outputs, weights = form.requantization, form.weights
    wide = form.bias.astype(np.int64)
    parts = np.broadcast_arrays(wide, outputs.shifts, outputs.multipliers)
    words = np.stack(parts, axis=1).astype(np.int64)
    large = np.abs(wide) >= _BIAS_LIMIT
    if large.any():
        values = _constant_outputs(form, words)
        if (values[large] == _VARIES).any():
            return None
        # Computed from no weights: a quarter of four times the value.
        words[large] = [(4 * value, -1, 1 << 30) for value in values[large]]
        weights = weights.copy()
        weights[large] = 0
    first = (words[:, 0] << _SHIFT_BITS) + words[:, 1] + _SHIFT_BIAS
    return HilCompact(
        in_zero_point=form.pad_value,
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        narrow=outputs.narrow,
        weights=weights.reshape(-1),
        scales=np.stack([first, words[:, 2]], axis=1).reshape(-1).astype(np.int32),
    )


def _constant_outputs(form: LinearForm, words: npt.NDArray[np.int64]) -> Array:
    """What each channel gives above the zero point for every input, or that it varies.

    Nearly dead channels, whose bias exceeds all else, are such.
    """
    outputs, (bias, shifts, multipliers) = form.requantization, words.T
    wide, least_input, most_input = form.weights.astype(np.int64), -128, 127
    ends = np.stack([wide * (end - form.pad_value) for end in (least_input, most_input)])
    sums = bias + np.stack([ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)])
    values = requantize(sums, multipliers, shifts) + outputs.out_zero_point
    least, most = np.clip(values, outputs.out_min, outputs.out_max)
    return np.where(least == most, least - outputs.out_zero_point, _VARIES)
