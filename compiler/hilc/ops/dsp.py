"""Linear layers on cores that multiply pairs of half-words (``kernels/dsp``): when, and how packed.

Each function here gives the kernel call of a layer, or None where the family does not serve it and
the portable kernel must. What the kernels ask for, and what is checked here for each layer:

* two columns of weights share half-words, ``256 * w1 + w0``, which must fit 16 bits;
* sums stay below 2**23, so that 256 times a sum comes out of 32 bits;
* every shift is to the right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall, kernels
from hilc.quant import requantize

#: Elements of depth that a kernel takes at a time, in the order in which they are widened.
_UNIT = 4
_UNIT_ORDER = (0, 2, 1, 3)
#: Rows below which a kernel for single rows is better than one for three at a time.
_FEW_ROWS = 3
#: Columns whose weights lie next to each other, for three rows and for a single one.
_PAIR = 2
_VECTOR_BLOCK = 4
_SUM_LIMIT = 2**23
#: The largest shift to the right: a channel beyond it has an output that does not change.
MAX_SHIFT = 23
#: Pixels of a line of the depthwise kernel's scratch, 32 bytes each.
_MAX_LINE = 128

Fields = dict[str, FieldValue]


def serves(cpu: Cpu) -> bool:
    """Whether the family is the best for the core."""
    return "dsp" in cpu.features and "mve" not in cpu.features


def matmul(
    rows: int, columns: Array, channel_fields: Fields, macs: int
) -> tuple[KernelCall, ...] | None:
    """``rows`` rows times ``columns [channels, depth]``."""
    few = rows < _FEW_ROWS
    packed = _packed(columns, channel_fields, _VECTOR_BLOCK if few else _PAIR)
    if packed is None:
        return None
    fields: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    if few:
        vector = kernels()["hil_dsp_matvec_s8"]
        # Without scratch it costs two instructions in sixteen.
        return tuple(
            KernelCall(vector, {**fields, "widened": widened, **packed}, macs=macs)
            for widened in (1, 0)
        )
    return (KernelCall(kernels()["hil_dsp_matmul_s8"], {**fields, **packed}, macs=macs),)


def conv2d(window: Fields, columns: Array, channel_fields: Fields, macs: int) -> KernelCall | None:
    """A convolution of which each filter is one of ``columns [channels, depth]``."""
    packed = _packed(columns, channel_fields, _PAIR)
    if packed is None:
        return None
    fields: Fields = {**window, "out_c": columns.shape[0], **packed}
    return KernelCall(kernels()["hil_dsp_conv2d_s8"], fields, macs=macs)


def depthwise(
    window: Fields, fill: int, weights: Array, channel_fields: Fields, macs: int
) -> KernelCall | None:
    """A depthwise convolution with ``weights [channels, filter_h, filter_w]``, one a channel.

    ``window`` are the fields that place it, ``fill`` is what positions outside the image hold.
    """
    size = [window[f"{name}_{axis}"] for name in ("filter", "dilation") for axis in "hw"]
    stride, out_w = window["stride_w"], window["out_w"]
    assert isinstance(stride, int)
    assert isinstance(out_w, int)
    line = (out_w - 1) * stride + 3
    if size != [3, 3, 1, 1] or stride != window["stride_h"] or stride > 2 or line > _MAX_LINE:
        return None
    channels = _channels(weights.reshape(-1, 9), channel_fields)
    if channels is None:
        return None
    rows = channels.columns.reshape(-1, 3, 3)
    # By column of the filter, its rows 0, 1, 1, 2: two pairs.
    packed = np.ascontiguousarray(rows.transpose(0, 2, 1)[..., (0, 1, 1, 2)]).reshape(-1)
    names = ("batch", "in_h", "in_w", "in_c", "out_h", "out_w", "pad_top", "pad_left")
    fields: Fields = {
        **{name: window[name] for name in names},
        "stride": stride,
        "line": line,
        "in_zero_point": fill,
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "bias": (2 * channels.bias).astype(np.int32),
        "multipliers": channels.mantissas,
        "shifts": channels.shifts,
        "weights": packed,
    }
    return KernelCall(kernels()["hil_dsp_depthwise_3x3_s8"], fields, macs=macs)


def _packed(columns: Array, channel_fields: Fields, block: int) -> Fields | None:
    """The fields that describe the columns, in blocks of ``block``; None where they do not fit."""
    channels = _channels(columns, channel_fields)
    weights = None if channels is None else _pairs(channels.columns, block)
    if channels is None or weights is None:
        return None
    fields: Fields = {
        "units": -(-columns.shape[1] // _UNIT),
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "weights": weights,
    }
    first, second = _padded(channels.bias, block).reshape(-1, 2).T
    bias = np.stack([first, first + 256 * second], axis=1)
    if block == _VECTOR_BLOCK:
        per_channel = channel_fields["per_channel"]
        mantissas, shifts = channels.mantissas, channels.shifts
        return {
            **fields,
            "per_channel": per_channel,
            "bias": bias.reshape(-1).astype(np.int32),
            "multipliers": _padded(mantissas, block) if per_channel else mantissas[:1],
            "shifts": _padded(shifts, block) if per_channel else shifts[:1],
        }
    factors = _padded(channels.mantissas.astype(np.int64), block).reshape(-1, 2)
    moves = _padded(channels.shifts.astype(np.int64), block).reshape(-1, 2) @ (1, 256)
    pairs = np.concatenate([bias, factors, moves[:, np.newaxis]], axis=1)
    return {**fields, "pairs": pairs.reshape(-1).astype(np.int32)}


_KEPT_FIELDS = ("out_zero_point", "out_min", "out_max")


@dataclass(frozen=True)
class _Channels:
    """Channels whose sums stay below the limit, with shifts to the right."""

    columns: Array
    bias: npt.NDArray[np.int64]
    mantissas: npt.NDArray[np.int32]
    #: Shifts to the right, less one.
    shifts: npt.NDArray[np.int8]


def _channels(columns: Array, channel_fields: Fields) -> _Channels | None:
    """The channels as the kernels take them; None where they cannot.

    A channel whose output is the same for every input, as nearly dead ones are whose bias exceeds
    all else, becomes one without weights.
    """
    bias, mantissas, shifts = (channel_fields[k] for k in ("bias", "multipliers", "shifts"))
    assert isinstance(bias, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    assert isinstance(shifts, np.ndarray)
    if shifts.max() >= 0:
        return None
    weights = columns.astype(np.int64)
    sums = bias.astype(np.int64)
    above, below = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    lowest = sums + 127 * below - 128 * above
    highest = sums + 127 * above - 128 * below
    right = np.broadcast_to(-shifts.astype(np.int64), sums.shape)
    factors = np.broadcast_to(mantissas.astype(np.int64), sums.shape)
    low, high = channel_fields["out_min"], channel_fields["out_max"]
    zero_point = channel_fields["out_zero_point"]
    assert isinstance(zero_point, int)
    least, most = (
        np.clip(requantize(end, factors, -right) + zero_point, low, high)
        for end in (lowest, highest)
    )
    # One scale for all leaves none of its own to such a channel.
    settled = (least == most) & bool(channel_fields["per_channel"])
    # A quarter of four times the value.
    sums = np.where(settled, 4 * (least - zero_point), sums)
    weights = np.where(settled[:, np.newaxis], 0, weights)
    factors = np.where(settled, 1 << 30, factors)
    right = np.where(settled, 1, right)
    lowest, highest = (np.where(settled, sums, end) for end in (lowest, highest))
    if max(highest.max(), -lowest.min()) >= _SUM_LIMIT or right.max() > MAX_SHIFT:
        return None
    return _Channels(
        weights.astype(np.int8), sums, factors.astype(np.int32), (right - 1).astype(np.int8)
    )


def _padded(values: Array, block: int) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % block)] + [(0, 0)] * (values.ndim - 1))


def _pairs(columns: Array, block: int) -> npt.NDArray[np.int16] | None:
    """Weights as ``kernels/dsp/columns_s8.h`` lays them out; None where a pair needs 17 bits."""
    depth = columns.shape[1]
    whole = np.pad(_padded(columns.astype(np.int32), block), ((0, 0), (0, -depth % _UNIT)))
    pairs = 256 * whole[1::2] + whole[::2]
    if pairs.min() < np.iinfo(np.int16).min:
        return None
    units = pairs.reshape(-1, block // 2, whole.shape[1] // _UNIT, _UNIT)[..., _UNIT_ORDER]
    return np.ascontiguousarray(units.transpose(0, 2, 1, 3)).reshape(-1).astype(np.int16)
