"""Linear layers on cores that multiply words (``kernels/v7m``): when these kernels serve, and how
their data is laid. They were written for Armv7-M, and are as well C for any core with ``mul32``.

Each function here gives the kernel calls of a layer, the fastest first, or none where the family
does not serve it. What the kernels ask for, and what is checked here for each layer:

* sums stay below 2**30, and every shift is to the right;
* of no part of a column does the sum leave its bits, whatever the inputs: parts are cut so;
* where the values of rows are raised, the bias takes off what that adds to each sum;
* one shift for all channels only where each output of each is the same, whatever the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import requantize

#: Columns whose weights lie next to each other, for three rows and for a single one.
_BLOCK = 4
_VECTOR_BLOCK = 8
#: By how much whole blocks of these may be more than the columns that there are.
_VECTOR_PADDING = 1.2
_SUM_LIMIT = 2**30
#: The largest shift of all channels, and no limit.
_MAX_EVEN_SHIFT = 22
_ANY = 2**62
#: The largest shift to the right: a channel beyond it has an output that does not change.
_MAX_SHIFT = 23
#: What sums of a single row stay below.
_VECTOR_LIMIT = 2**23
#: Rows below which a kernel for single rows is better than one for three at a time.
_FEW_ROWS = 2
#: Elements of depth that the kernels' loops take at a time.
_TURN = 8
#: Bits of the sums of a part, sign included.
_PART_BITS = 21
#: By how much the values of three rows are raised where one word holds them.
_RAISED = 128

#: Outputs of a row that the depthwise kernel computes at a time, at most.
_MAX_BLOCK = 6
#: What the depthwise kernel's lines may take: more rows at a time, or fewer.
_BAND_BYTES = (448, 0)

_KEPT_FIELDS = ("out_zero_point", "out_min", "out_max")

Fields = dict[str, FieldValue]


@lowers(*LINEAR, dtypes={"int8"}, requires={"mul32"}, lacks={"dsp"})
def linear(layer: Layer) -> list[KernelCall]:
    """The family's kernels for a linear layer."""
    form = linear_form(layer)
    if isinstance(form, MatrixProduct):
        return matmul(form.rows, form.columns, form.channels, form.macs)
    if isinstance(form, Convolution):
        window = {**form.window, "in_zero_point": form.fill}
        return conv2d(window, form.columns, form.channels, form.macs)
    assert isinstance(form, DepthwiseConvolution)
    if form.multiplier > 1:
        return []
    return depthwise(form.window, form.fill, form.filters, form.channels, form.macs)


def matmul(rows: int, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """``rows`` rows times ``columns [channels, depth]``."""
    shape: Fields = {"rows": rows, "depth": columns.shape[1], "columns": columns.shape[0]}
    if rows < _FEW_ROWS:
        return _matvec(shape, columns, channel_fields, macs)
    return _calls("hil_v7m_matmul_s8", shape, columns, channel_fields, macs)


def _matvec(shape: Fields, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """The kernel for few rows, where its columns fill its blocks well enough and sums 24 bits."""
    channels = _channels(columns, channel_fields)
    if channels is None:
        return []
    padded = _padded(channels.columns, _VECTOR_BLOCK)
    largest = 128 * np.abs(padded.astype(np.int64)).sum(axis=1).max()
    if len(padded) > _VECTOR_PADDING * len(columns) or largest >= _VECTOR_LIMIT:
        return []
    fields: Fields = {
        **shape,
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        **_scales(channels),
        "weights": (_interleaved(padded, _VECTOR_BLOCK).astype(np.int16) + 128).astype(np.uint8),
    }
    return [KernelCall(kernels()["hil_v7m_matvec_s8"], fields, macs=macs)]


def conv2d(window: Fields, columns: Array, channel_fields: Fields, macs: int) -> list[KernelCall]:
    """A convolution of which each filter is one of ``columns [channels, depth]``."""
    fields: Fields = {**window, "out_c": columns.shape[0]}
    return _calls("hil_v7m_conv2d_s8", fields, columns, channel_fields, macs)


def depthwise(
    window: Fields, fill: int, weights: Array, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """A depthwise convolution with ``weights [channels, filter_h, filter_w]``, one a channel.

    ``window`` are the fields that place it, ``fill`` is what positions outside the image hold.
    """
    size = [window[f"{name}_{axis}"] for name in ("filter", "dilation") for axis in "hw"]
    names = ("batch", "in_h", "in_w", "in_c", "out_h", "out_w", "pad_top", "pad_left")
    place = {name: _whole(window[name]) for name in names}
    stride = _whole(window["stride_w"])
    if size != [3, 3, 1, 1] or stride != window["stride_h"] or stride > 2:
        return []
    channels = _channels(weights.reshape(-1, 9), channel_fields)
    if channels is None:
        return []
    line = (place["out_w"] - 1) * stride + 3
    fields: Fields = {
        **place,
        "stride": stride,
        "line": line,
        "block": _block(place["out_w"]),
        "in_zero_point": fill,
        **{k: channel_fields[k] for k in _KEPT_FIELDS},
        "weights": channels.columns.reshape(-1),
        **_scales(channels),
    }
    kernel = kernels()["hil_v7m_depthwise_3x3_s8"]
    bands = {_band(line, stride, place["out_h"], room): None for room in _BAND_BYTES}
    return [KernelCall(kernel, {**fields, "band": band}, macs=macs) for band in bands]


def _scales(channels: _Channels) -> Fields:
    """The fields that say how sums become outputs: with one shift for all where that is exact."""
    even = channels.even_scales()
    scales, shift = (channels.scales(), -1) if even is None else even
    return {"even_shift": shift, "scales": _padded(scales).reshape(-1)}


def _block(out_w: int) -> int:
    """How many outputs of a row to compute at a time, so that little is computed twice."""

    def instructions(block: int) -> int:
        # A block costs what the weights cost, and so much an output.
        return -(-out_w // block) * (15 + 24 * block)

    return min(range(1, min(_MAX_BLOCK, out_w) + 1), key=instructions)


def _band(line: int, stride: int, out_h: int, room: int) -> int:
    """The rows of outputs whose lines fit so many bytes, in bands of one size; at least one."""
    most: int = max(1, (room // line - 3) // stride + 1)
    bands = -(-out_h // most)
    return -(-out_h // bands)


def _whole(value: FieldValue) -> int:
    assert isinstance(value, int)
    return value


def _calls(
    name: str, place: Fields, columns: Array, channel_fields: Fields, macs: int
) -> list[KernelCall]:
    """The kernel with two words of scratch an element of depth, which is faster, and with one."""
    calls = []
    for wide, raised in ((2, 0), (1, _RAISED)):
        channels = _channels(columns, channel_fields, raised)
        if channels is not None:
            weights = _padded(channels.columns)
            fields: Fields = {
                **place,
                "part": _part(weights, raised),
                "wide": wide,
                **{k: channel_fields[k] for k in _KEPT_FIELDS},
                **_scales(channels),
                "weights": _interleaved(weights),
            }
            calls.append(KernelCall(kernels()[name], fields, macs=macs))
    return calls


@dataclass(frozen=True)
class _Channels:
    """Channels whose sums stay below the limit, with shifts to the right."""

    columns: Array
    bias: npt.NDArray[np.int64]
    mantissas: npt.NDArray[np.int64]
    #: Shifts to the right.
    shifts: npt.NDArray[np.int64]
    zero_point: int
    low: int
    high: int
    #: By how much inputs are raised, which the bias takes off again.
    raised: int

    @property
    def ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The least and the largest sum of each channel, bias not included."""
        return _ends(self.columns, self.raised)

    @property
    def rectified(self) -> bool:
        """Whether no output is below the zero point."""
        return self.low >= self.zero_point

    def scales(self) -> npt.NDArray[np.int32]:
        """``[channels, 4]`` as ``hil_v7m_output`` takes them."""
        bias, shifts = self.bias, self.shifts
        units = 2 * self.zero_point + 1
        if self.rectified:
            added = bias * self.mantissas + (1 << 30) + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        else:
            first, second, moves = 2 * bias, units << (shifts - 1), shifts
        # The lower 32 bits of each.
        return np.stack([first, second, self.mantissas, moves], axis=1).astype(np.int32)

    def outputs(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The outputs of ``sums [channels, n]``, bias not included."""
        bias, mantissas, shifts = (
            v[:, np.newaxis] for v in (self.bias, self.mantissas, self.shifts)
        )
        values = requantize(sums + bias, mantissas, -shifts) + self.zero_point
        return np.clip(values, self.low, self.high)

    def even_scales(self) -> tuple[npt.NDArray[np.int32], int] | None:
        """``[channels, 4]`` as ``hil_v7m_even_output`` takes them, and the shift of all channels;
        None where that is not exact for every sum of every channel.

        Both ways are monotone, so it is enough that they reach each output at the same sum.
        """
        lowest, highest = self.ends
        alive = lowest < highest
        # The mantissas of all but the smallest shift lose bits.
        shift = int(self.shifts[alive].min(initial=_MAX_SHIFT)) - 1
        if shift > _MAX_EVEN_SHIFT:
            return None
        exponents = 1 + shift - self.shifts
        mantissas = np.rint(np.ldexp(np.where(alive, self.mantissas, 0.0), exponents))
        factors = mantissas.astype(np.int64)
        levels = np.arange(self.low, self.high + 1)
        least, most = self.outputs(np.stack([lowest, highest], axis=1)).T
        reached = (levels > least[:, np.newaxis]) & (levels <= most[:, np.newaxis])
        begins = self._first_sums(levels, lowest, highest)
        # What is added must bring each sum at which an output begins to it, and none before; at
        # the ends of the range what is beyond it is clamped.
        unit = 1 << (32 + shift)
        products = begins * factors[:, np.newaxis]
        enough = np.where(reached, levels * unit - products, -_ANY).max(axis=1)
        enough = np.maximum(
            enough, np.where(least > self.low, least * unit - lowest * factors, -_ANY)
        )
        before = products - factors[:, np.newaxis]
        limit = np.where(reached, levels * unit - before, _ANY).min(axis=1)
        limit = np.minimum(
            limit, np.where(most < self.high, (most + 1) * unit - highest * factors, _ANY)
        )
        if (enough >= limit).any():
            return None
        exact = self.bias * factors + (1 << 30) + (2 * self.zero_point + 1) * (unit >> 1)
        added = np.clip(exact, enough, limit - 1)
        zeros = np.zeros_like(added)
        return np.stack([added, added >> 32, factors, zeros], axis=1).astype(np.int32), shift

    def _first_sums(
        self,
        levels: npt.NDArray[np.int64],
        lowest: npt.NDArray[np.int64],
        highest: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """``[channels, levels]``: the smallest sum of these whose output reaches the level, the
        largest of all where none does.
        """
        shape = (len(lowest), len(levels))
        under = np.broadcast_to(lowest[:, np.newaxis] - 1, shape).copy()
        reaching = np.broadcast_to(highest[:, np.newaxis], shape).copy()
        while (reaching - under > 1).any():
            middle = (under + reaching) >> 1
            reached = self.outputs(middle) >= levels
            reaching = np.where(reached, middle, reaching)
            under = np.where(reached, under, middle)
        return reaching


def _ends(columns: Array, raised: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The least and the largest sum of each column, for all int8 inputs, so much raised."""
    weights = columns.astype(np.int64)
    above, below = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    least, most = raised - 128, raised + 127
    return most * below + least * above, most * above + least * below


def _channels(columns: Array, channel_fields: Fields, raised: int = 0) -> _Channels | None:
    """The channels as the kernels take them, inputs so much raised; None where they cannot.

    A channel whose output is the same for every input, as nearly dead ones are whose bias exceeds
    all else, becomes one without weights.
    """
    bias, mantissas, shifts = (channel_fields[k] for k in ("bias", "multipliers", "shifts"))
    low, high, zero_point = (channel_fields[k] for k in ("out_min", "out_max", "out_zero_point"))
    assert isinstance(bias, np.ndarray)
    assert isinstance(mantissas, np.ndarray)
    assert isinstance(shifts, np.ndarray)
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert isinstance(zero_point, int)
    weights = columns.astype(np.int64)
    sums = bias.astype(np.int64) - raised * weights.sum(axis=1)
    right = np.broadcast_to(-shifts.astype(np.int64), sums.shape)
    factors = np.broadcast_to(mantissas.astype(np.int64), sums.shape)
    least, most = (
        np.clip(requantize(end, factors, -right) + zero_point, low, high)
        for end in (sums + end for end in _ends(columns, raised))
    )
    settled = least == most
    # A quarter of four times the value.
    sums = np.where(settled, 4 * (least - zero_point), sums)
    weights = np.where(settled[:, np.newaxis], 0, weights)
    factors = np.where(settled, 1 << 30, factors)
    right = np.where(settled, 1, right)
    reach = np.abs(sums) + (128 + raised) * np.abs(weights).sum(axis=1)
    if reach.max() >= _SUM_LIMIT or right.min() < 1 or right.max() > _MAX_SHIFT:
        return None
    return _Channels(weights.astype(np.int8), sums, factors, right, zero_point, low, high, raised)


def _part(weights: Array, raised: int) -> int:
    """The depth of the longest equal parts of columns whose sums have their bits, for all inputs;
    a multiple of what the kernel's loop takes at a time, or all.
    """
    depth = weights.shape[1]
    parts = 0
    while True:
        parts += 1
        part = -(-depth // (_TURN * parts)) * _TURN
        cuts = [weights[:, at : at + part] for at in range(0, depth, part)]
        limit = 1 << (_PART_BITS - 1)
        if all(
            -limit <= least.min() and most.max() < limit
            for least, most in (_ends(cut, raised) for cut in cuts)
        ):
            return int(min(part, depth))


def _padded(values: Array, block: int = _BLOCK) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % block)] + [(0, 0)] * (values.ndim - 1))


def _interleaved(weights: Array, block: int = _BLOCK) -> Array:
    """``[blocks][depth][block]``, flat."""
    blocks = weights.reshape(-1, block, weights.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).reshape(-1)
