"""Linear int8 layers in as little flash as possible (``kernels/compact``), whatever the core.

The kernels read the model's weights as they are; of each output channel there are two words: bias
and shift share one, the mantissa is the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import FieldValue, KernelCall, kernels
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    linear_form,
)
from hilc.lowering.registry import Layer, Rank, lowers
from hilc.numerics.requantize import requantize

#: Magnitude of a bias below which it leaves six bits of its word to the shift.
_BIAS_LIMIT = 2**25
_SHIFT_BITS, _SHIFT_BIAS = 6, 32
#: Stands for the output of a channel that is not the same for every input.
_VARIES = 1 << 20
_KEPT_FIELDS = ("out_zero_point", "out_min", "out_max", "narrow")

Fields = dict[str, FieldValue]


@lowers(*LINEAR, dtypes={"int8"}, rank=Rank.SMALL)
def linear(layer: Layer) -> list[KernelCall]:
    """The smallest kernel of a linear layer."""
    form = linear_form(layer)
    common = form.bias, form.fill, form.channels, form.macs
    if isinstance(form, MatrixProduct):
        return matmul(form.rows, form.columns, *common)
    if isinstance(form, Convolution):
        return conv2d(form.window, form.columns, *common)
    assert isinstance(form, DepthwiseConvolution)
    return depthwise(form.window, form.multiplier, form.filters, *common)


def matmul(
    rows: int, columns: Array, bias: Array, fill: int, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """``rows`` rows times ``columns [count, depth]``; ``bias`` is the model's own."""
    fields: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    return _call("hil_compact_matmul_s8", fields, columns, bias, fill, channel_fields, macs)


def conv2d(
    place: Mapping[str, FieldValue],
    columns: Array,
    bias: Array,
    fill: int,
    channel_fields: Fields,
    macs: int,
) -> list[KernelCall]:
    """A convolution of an int8 image with a filter for each of ``columns [count, depth]``.

    ``place`` lays the window over the image, ``fill`` is the input's zero point, ``bias`` the
    model's own.
    """
    fields = {**place, "out_c": columns.shape[0]}
    return _call("hil_compact_conv2d_s8", fields, columns, bias, fill, channel_fields, macs)


def depthwise(
    place: Mapping[str, FieldValue],
    multiplier: int,
    filters: Array,
    bias: Array,
    fill: int,
    channel_fields: Fields,
    macs: int,
) -> list[KernelCall]:
    """A depthwise convolution with ``filters [channels * multiplier, filter_h, filter_w]``."""
    name = "hil_compact_depthwise_conv2d_s8"
    fields = {**place, "depth_multiplier": multiplier}
    return _call(name, fields, filters, bias, fill, channel_fields, macs)


def _call(
    kernel: str,
    place: Mapping[str, FieldValue],
    weights: Array,
    bias: Array,
    fill: int,
    channel_fields: Fields,
    macs: int,
) -> list[KernelCall]:
    """The call; none where a bias is too large for its word."""
    shifts, mantissas = channel_fields["shifts"], channel_fields["multipliers"]
    assert isinstance(shifts, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    wide = bias.astype(np.int64)
    words = np.stack(np.broadcast_arrays(wide, shifts, mantissas), axis=1).astype(np.int64)
    large = np.abs(wide) >= _BIAS_LIMIT
    if large.any():
        values = _constant_outputs(weights.reshape(len(weights), -1), words, fill, channel_fields)
        if (values[large] == _VARIES).any():
            return []
        # Computed from no weights: a quarter of four times the value.
        words[large] = [(4 * value, -1, 1 << 30) for value in values[large]]
        weights = weights.copy()
        weights[large] = 0
    first = (words[:, 0] << _SHIFT_BITS) + words[:, 1] + _SHIFT_BIAS
    fields: Fields = {
        **place,
        "in_zero_point": fill,
        **{name: channel_fields[name] for name in _KEPT_FIELDS},
        "weights": weights.reshape(-1),
        "scales": np.stack([first, words[:, 2]], axis=1).reshape(-1).astype(np.int32),
    }
    return [KernelCall(kernels()[kernel], fields, macs=macs)]


def _constant_outputs(
    columns: Array, words: npt.NDArray[np.int64], fill: int, channel_fields: Fields
) -> npt.NDArray[np.int64]:
    """What each channel gives above the zero point for every input, or that it varies.

    Nearly dead channels, whose bias exceeds all else, are such.
    """
    wide, (bias, shifts, mantissas) = columns.astype(np.int64), words.T
    ends = np.stack([wide * (-128 - fill), wide * (127 - fill)])
    sums = bias + np.stack([ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1)])
    zero_point, low, high = (channel_fields[f"out_{k}"] for k in ("zero_point", "min", "max"))
    assert isinstance(zero_point, int)
    least, most = np.clip(requantize(sums, mantissas, shifts) + zero_point, low, high)
    return np.where(least == most, least - zero_point, _VARIES)
