"""Linear layers on Armv7-M (``kernels/v7m``): when its kernels serve, and how their data is laid.

Each function here gives the kernel calls of a layer, the fastest first, or none where the family
does not serve it. What the kernels ask for, and what is checked here for each layer:

* sums stay below 2**30, and every shift is to the right;
* of no part of a column does the sum leave its bits, whatever the inputs: parts are cut so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall, kernels
from hilc.quant import requantize

#: Columns whose weights lie next to each other.
_BLOCK = 4
#: The largest shift to the right: a channel beyond it has an output that does not change.
_MAX_SHIFT = 23
#: Rows below which there is nothing to gain from three at a time.
_FEW_ROWS = 2
#: Inputs are this much more than they are where a word holds three.
_RAISED = 128

_KEPT_FIELDS = ("out_zero_point", "out_min", "out_max")

Fields = dict[str, FieldValue]


def serves(cpu: Cpu) -> bool:
    """Whether the family is the best for the core."""
    return "thumb2" in cpu.features and "dsp" not in cpu.features


def matmul(rows: int, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """``rows`` rows times ``columns [channels, depth]``."""
    if rows < _FEW_ROWS:
        return []
    shape: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    return _calls("hil_v7m_matmul_s8", shape, columns, channel_fields, macs)


def conv2d(window: Fields, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """A convolution of which each filter is one of ``columns [channels, depth]``."""
    fields: Fields = {**window, "out_c": columns.shape[0]}
    return _calls("hil_v7m_conv2d_s8", fields, columns, channel_fields, macs)


def _calls(
    name: str, place: Fields, columns: Array, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """The kernel with two words of scratch an element of depth, which is faster, and with one."""
    channels = _channels(columns, channel_fields)
    if channels is None:
        return []
    weights = _padded(channels.columns)
    fields: Fields = {
        **place,
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "weights": _interleaved(weights),
    }
    wide: Fields = {
        "wide": 2,
        "part": _part(weights, lowest=-128, highest=127, bits=21),
        "scales": _padded(channels.scales(raised=0)).reshape(-1),
    }
    narrow: Fields = {
        "wide": 1,
        "part": _part(weights, lowest=0, highest=255, bits=20),
        "scales": _padded(channels.scales(raised=_RAISED)).reshape(-1),
    }
    return [KernelCall(kernels()[name], {**fields, **way}, macs=macs) for way in (wide, narrow)]


@dataclass(frozen=True)
class _Channels:
    """Channels whose sums stay below the limit, with shifts to the right."""

    columns: Array
    bias: npt.NDArray[np.int64]
    mantissas: npt.NDArray[np.int64]
    #: Shifts to the right.
    shifts: npt.NDArray[np.int64]
    zero_point: int
    rectified: bool

    def scales(self, raised: int) -> npt.NDArray[np.int32]:
        """``[channels, 4]`` as ``hil/v7m.h`` describes them, for inputs that are ``raised``."""
        bias = self.bias - raised * self.columns.astype(np.int64).sum(axis=1)
        shifts = self.shifts
        units = 2 * self.zero_point + 1
        if self.rectified:
            added = bias * self.mantissas + (1 << 30) + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        else:
            first, second, moves = 2 * bias, units << (shifts - 1), shifts
        # The lower 32 bits of each.
        return np.stack([first, second, self.mantissas, moves], axis=1).astype(np.int32)


def _channels(columns: Array, channel_fields: Fields) -> _Channels | None:
    """The channels as the kernels take them; None where they cannot.

    A channel whose output is the same for every input, as nearly dead ones are whose bias exceeds
    all else, becomes one without weights.
    """
    bias, mantissas, shifts = (channel_fields[k] for k in ("bias", "multipliers", "shifts"))
    low, high, zero_point = (channel_fields[k] for k in ("out_min", "out_max", "out_zero_point"))
    assert isinstance(bias, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    assert isinstance(shifts, np.ndarray)
    assert isinstance(low, int)
    assert isinstance(zero_point, int)
    # The kernel adds up sums of inputs from 0 to 255, too.
    if not channel_fields["narrow"]:
        return None
    weights = columns.astype(np.int64)
    sums = bias.astype(np.int64)
    above, below = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    right = np.broadcast_to(-shifts.astype(np.int64), sums.shape)
    factors = np.broadcast_to(mantissas.astype(np.int64), sums.shape)
    least, most = (
        np.clip(requantize(end, factors, -right) + zero_point, low, high)
        for end in (sums + 127 * below - 128 * above, sums + 127 * above - 128 * below)
    )
    settled = least == most
    # A quarter of four times the value.
    sums = np.where(settled, 4 * (least - zero_point), sums)
    weights = np.where(settled[:, np.newaxis], 0, weights)
    factors = np.where(settled, 1 << 30, factors)
    right = np.where(settled, 1, right)
    raised = sums - _RAISED * weights.sum(axis=1)
    reach = np.abs(raised) + 255 * np.abs(weights).sum(axis=1)
    if reach.max() >= 2**30 or right.max() > _MAX_SHIFT:
        return None
    return _Channels(
        weights.astype(np.int8), sums, factors, right, zero_point, rectified=low >= zero_point
    )


def _part(weights: Array, lowest: int, highest: int, bits: int) -> int:
    """The depth of the longest equal parts of columns whose sums have so many bits, for all inputs
    between these two; a multiple of what the kernel's loop takes at a time, or all.
    """
    depth = weights.shape[1]
    above = np.maximum(weights.astype(np.int64), 0)
    below = above - weights
    ends = highest * above - lowest * below, highest * below - lowest * above
    parts = 0
    while True:
        parts += 1
        part = -(-depth // (4 * parts)) * 4
        starts = np.arange(0, depth, part)
        # The second is how far below zero sums get.
        most = max(int(np.add.reduceat(end, starts, axis=1).max()) for end in ends)
        if most < 1 << (bits - 1):
            return min(part, depth)


def _padded(values: Array) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % _BLOCK)] + [(0, 0)] * (values.ndim - 1))


def _interleaved(weights: Array) -> Array:
    """``[blocks][depth][4]``, flat."""
    blocks = weights.reshape(-1, _BLOCK, weights.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).reshape(-1)
