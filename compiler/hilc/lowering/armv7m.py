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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import (
    Channels,
    channels_of,
    once_for_channels,
    padded,
    sum_ends,
)
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
    HilRequantization,
    HilV7mColumns,
    HilV7mConv2dS8,
    HilV7mDepthwise3x3S8,
    HilV7mMatmulS8,
    HilV7mMatvecS8,
)
from hilc.lowering.registry import Layer, lowers

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
#: In the place of a shift of all channels: HIL_V7M_OWN_SHIFTS, _ONCE and _TIES.
_OWN_SHIFTS = {Rounding.DOUBLE: -1, Rounding.SINGLE: -2, Rounding.NEAREST_EVEN: -3}
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


@lowers(*LINEAR, dtypes={"int8"}, requires={"mul32"}, lacks={"dsp"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    return by_words(layer)


def by_words(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels on any core: they round ties to even, which others do not."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


def _rows(form: MatrixProduct) -> Iterable[Parameters]:
    return _matvec(form) if form.rows < _FEW_ROWS else _matmul(form)


def _matvec(form: MatrixProduct) -> list[Parameters]:
    """Return the kernel for few rows, where its columns fill its blocks well enough and sums 24
    bits.
    """
    outputs = form.requantization
    channels = _channels(form.weights, outputs)
    if channels is None:
        return []
    weights = padded(channels.weights, _VECTOR_BLOCK)
    largest = 128 * np.abs(weights.astype(np.int64)).sum(axis=1).max()
    if len(weights) > _VECTOR_PADDING * form.channels or largest >= _VECTOR_LIMIT:
        return []
    even_shift, scales = _scales(channels)
    parameters = HilV7mMatvecS8(
        rows=form.rows,
        depth=form.depth,
        columns=form.channels,
        output_range=outputs.output_range,
        even_shift=even_shift,
        weights=(_interleaved(weights, _VECTOR_BLOCK).astype(np.int16) + 128).astype(np.uint8),
        scales=scales,
    )
    return [parameters]


def _matmul(form: MatrixProduct) -> list[Parameters]:
    """Return the kernel for three rows at a time."""
    return [
        HilV7mMatmulS8(rows=form.rows, depth=form.depth, columns=form.channels, v7m_columns=columns)
        for columns in _columns(form)
    ]


def _conv2d(form: Convolution) -> list[Parameters]:
    """Return the kernel for three windows at a time."""
    return [
        HilV7mConv2dS8(
            images=form.images,
            out_c=form.channels,
            window=form.window,
            in_zero_point=form.pad_value,
            v7m_columns=columns,
        )
        for columns in _columns(form)
    ]


def _depthwise(form: DepthwiseConvolution) -> list[Parameters]:
    """Lower filters of 3x3, one per channel."""
    window, images, outputs = form.window, form.images, form.requantization
    size = [window.filter_h, window.filter_w, window.dilation_h, window.dilation_w]
    stride = window.stride_w
    if form.multiplier > 1 or size != [3, 3, 1, 1] or stride != window.stride_h or stride > 2:
        return []
    channels = _channels(form.weights, outputs)
    if channels is None:
        return []
    line = (images.out_w - 1) * stride + 3
    even_shift, scales = _scales(channels)

    def parameters(band: int) -> HilV7mDepthwise3x3S8:
        return HilV7mDepthwise3x3S8(
            images=images,
            stride=stride,
            pad_top=window.pad_top,
            pad_left=window.pad_left,
            band=band,
            line=line,
            block=_block(images.out_w),
            in_zero_point=form.pad_value,
            output_range=outputs.output_range,
            even_shift=even_shift,
            weights=channels.weights.reshape(-1),
            scales=scales,
        )

    bands = {_band(line, stride, images.out_h, room): None for room in _BAND_BYTES}
    return [parameters(band) for band in bands]


@once_for_channels
def _scales(channels: _Channels) -> tuple[int, Array]:
    """Return the shift of all channels, or that each has its own, and how the sums of each become
    outputs: with one shift for all where that is exact.
    """
    own = channels.scales(), _OWN_SHIFTS[channels.rounding]
    scales, shift = channels.even_scales() or own
    return shift, padded(scales, _BLOCK).reshape(-1)


def _block(out_w: int) -> int:
    """Return the number of outputs of a row to compute at a time, to compute little twice."""

    def instructions(block: int) -> int:
        # A block costs what the weights cost, and so much an output.
        return -(-out_w // block) * (15 + 24 * block)

    return min(range(1, min(_MAX_BLOCK, out_w) + 1), key=instructions)


def _band(line: int, stride: int, out_h: int, room: int) -> int:
    """Return the rows of outputs whose lines fit so many bytes, in bands of one size; at least
    one.
    """
    most: int = max(1, (room // line - 3) // stride + 1)
    bands = -(-out_h // most)
    return -(-out_h // bands)


def _columns(form: LinearForm) -> list[HilV7mColumns]:
    """Return the weights with two words of scratch an element of depth, which is faster, and with
    one.
    """
    outputs = form.requantization
    found = []
    for wide, raised in ((2, 0), (1, _RAISED)):
        channels = _channels(form.weights, outputs, raised)
        if channels is not None:
            weights = padded(channels.weights, _BLOCK)
            even_shift, scales = _scales(channels)
            columns = HilV7mColumns(
                part=longest_part(weights, raised),
                wide=wide,
                output_range=outputs.output_range,
                even_shift=even_shift,
                weights=_interleaved(weights),
                scales=scales,
            )
            found.append(columns)
    return found


@dataclass(frozen=True)
class _Channels(Channels):
    """Channels whose sums stay below the limit, with shifts to the right."""

    @property
    def rectified(self) -> bool:
        """Whether no output is below the zero point."""
        return self.range.out_min >= self.range.out_zero_point

    def scales(self) -> npt.NDArray[np.int32]:
        """``[channels, 4]`` as ``hil_v7m_output`` and the others for own shifts take them."""
        bias, shifts = self.bias, self.right
        units = 2 * self.range.out_zero_point + 1
        if self.rounding is not Rounding.DOUBLE:
            added = bias * self.multipliers + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        elif self.rectified:
            added = bias * self.multipliers + (1 << 30) + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        else:
            first, second, moves = 2 * bias, units << (shifts - 1), shifts
        # The lower 32 bits of each.
        return np.stack([first, second, self.multipliers, moves], axis=1).astype(np.int32)

    def even_scales(self) -> tuple[npt.NDArray[np.int32], int] | None:
        """``[channels, 4]`` as ``hil_v7m_even_output`` takes them, and the shift of all channels;
        None where that is not exact for every sum of every channel.

        Both ways are monotone, so it is enough that they reach each output at the same sum.
        """
        lowest, highest = self.ends
        alive = lowest < highest
        # The multipliers of all but the smallest shift lose bits.
        shift = int(self.right[alive].min(initial=_MAX_SHIFT)) - 1
        if shift > _MAX_EVEN_SHIFT:
            return None
        exponents = 1 + shift - self.right
        multipliers = np.rint(np.ldexp(np.where(alive, self.multipliers, 0.0), exponents))
        factors = multipliers.astype(np.int64)
        levels = np.arange(self.range.out_min, self.range.out_max + 1)
        least, most = self.outputs(np.stack([lowest, highest], axis=1)).T
        reached = (levels > least[:, np.newaxis]) & (levels <= most[:, np.newaxis])
        begins = self.first_sums(levels)
        # What is added must bring each sum at which an output begins to it, and none before; at
        # the ends of the range what is beyond it is clamped.
        unit = 1 << (32 + shift)
        products = begins * factors[:, np.newaxis]
        enough = np.where(reached, levels * unit - products, -_ANY).max(axis=1)
        enough = np.maximum(
            enough, np.where(least > self.range.out_min, least * unit - lowest * factors, -_ANY)
        )
        before = products - factors[:, np.newaxis]
        limit = np.where(reached, levels * unit - before, _ANY).min(axis=1)
        limit = np.minimum(
            limit, np.where(most < self.range.out_max, (most + 1) * unit - highest * factors, _ANY)
        )
        if (enough >= limit).any():
            return None
        exact = self.bias * factors + (1 << 30) + (2 * self.range.out_zero_point + 1) * (unit >> 1)
        added = np.clip(exact, enough, limit - 1)
        zeros = np.zeros_like(added)
        return np.stack([added, added >> 32, factors, zeros], axis=1).astype(np.int32), shift


def _channels(matrix: Array, outputs: HilRequantization, raised: int = 0) -> _Channels | None:
    """Return the channels as the kernels take them, inputs so much raised; None where they
    cannot.
    """
    found = channels_of(matrix, outputs, raised=raised)
    weights = found.weights.astype(np.int64)
    reach = np.abs(found.bias) + (128 + raised) * np.abs(weights).sum(axis=1)
    if reach.max() >= _SUM_LIMIT or found.right.min() < 1 or found.right.max() > _MAX_SHIFT:
        return None
    return _Channels(**vars(found))


def longest_part(weights: Array, raised: int) -> int:
    """Return the depth of the longest equal parts of columns whose sums have their bits, for all
    inputs; a multiple of what the kernel's loop takes at a time, or all.
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
            for least, most in (sum_ends(cut, raised) for cut in cuts)
        ):
            return int(min(part, depth))


def _interleaved(weights: Array, block: int = _BLOCK) -> Array:
    """``[blocks][depth][block]``, flat."""
    blocks = weights.reshape(-1, block, weights.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).reshape(-1)
