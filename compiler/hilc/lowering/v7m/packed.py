"""Linear layers on Armv7-M whose weights are words in flash (``kernels/v7m``), for programs that
are to be fast whatever flash they take. Besides what :mod:`hilc.lowering.v7m.conv2d` requires, each
layer is checked for:

* the sums of each part of a packed column, with what they begin with, have their bits and are not
  below 0, whatever the inputs: parts are cut so;
* depthwise sums that are scaled fit a word, and each output of each channel is the same, whatever
  the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Rounding
from hilc.lowering.channels import once_for_channels, padded, sum_ends
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
    HilV7mConv2dS8Packed,
    HilV7mDepthwiseConv2dS8Words,
    HilV7mMatmulS8Packed,
    HilV7mMatvecS8Packed,
    HilV7mPacked,
)
from hilc.lowering.registry import Layer, Rank, lowers
from hilc.lowering.v7m.channels import (
    SUM_LIMIT,
    RightShiftedChannels,
    require_right_shifts,
    scales_of,
)
from hilc.lowering.v7m.conv2d import (
    FEW_ROWS,
    PART_BITS,
    bands_of,
    is_3x3,
    outputs_at_a_time,
)

#: Columns whose packed weights share two words; where the third's begin in them; the elements that
#: their kernels take at a time.
_TRIPLE, _PACKED_FIRST, _PACKED_SECOND, _PACKED_TURN = 3, 11, 22, 16
#: Scratch of the depthwise kernel's rows, in pixels: more rows at a time, or fewer.
_WORD_BAND_PIXELS = (4096, 448)
#: Largest scale of sums with word weights, in bits; largest shift then; and a bound of the
#: rounding error of a sum.
_MAX_WORD_SCALE, _MAX_WORD_SHIFT, _NEAR = 22, 24, 4

_Words = npt.NDArray[np.int64]


@lowers(
    *LINEAR,
    dtypes={"int8"},
    requires={"mul32", "thumb2"},
    lacks={"dsp"},
    rank=Rank.SPEED,
    roundings=Rounding,
)
def words(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels whose weights are words: packed ones, and those of 3x3 filters."""
    return linear_calls(
        layer, rows=_packed_rows, convolution=_packed_conv2d, depthwise=_depthwise_words
    )


def _packed_rows(form: MatrixProduct) -> list[Parameters]:
    """Return the kernel for one row, or two at a time."""
    if form.rows < FEW_ROWS:
        return [
            form.parameters(HilV7mMatvecS8Packed, v7m_packed=packed)
            for packed in _packed(form.packing, 2)
        ]
    return [
        form.parameters(HilV7mMatmulS8Packed, v7m_packed=packed)
        for packed in _packed(form.packing, 1)
    ]


def _packed_conv2d(form: Convolution) -> list[Parameters]:
    """Return the kernel for two windows at a time."""
    return [
        form.parameters(HilV7mConv2dS8Packed, v7m_packed=packed)
        for packed in _packed(form.packing, 1)
    ]


def _depthwise_words(form: DepthwiseConvolution) -> list[Parameters]:
    """Lower filters of 3x3, one per channel, to words."""
    window, images = form.window, form.images
    packed = _channel_words(form.packing) if is_3x3(form) else None
    if packed is None:
        return []
    words, shift = packed
    line = (images.out_w - 1) * window.stride_w + 3
    return [
        form.parameters(
            HilV7mDepthwiseConv2dS8Words,
            stride=window.stride_w,
            band=band,
            line=line,
            block=outputs_at_a_time(images.out_w, 22, 16),
            shift=shift,
            channels=words,
        ).as_form(room)
        for room, band in bands_of(form, line, _WORD_BAND_PIXELS)
    ]


@packed_once
def _channel_words(layer: LinearWeights) -> tuple[npt.NDArray[np.int32], int] | None:
    """Return the words of each channel, and the shift of all; None where that is not exact."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None or (word_scales := _word_scales(channels)) is None:
        return None
    begins, scale, multipliers, shift = word_scales
    scaled = channels.weights.astype(np.int64) << scale[:, np.newaxis]
    words = np.column_stack([begins, scaled, multipliers]).astype(np.int32).reshape(-1)
    return words, shift


@once_for_channels
def _word_scales(channels: RightShiftedChannels) -> tuple[_Words, _Words, _Words, int] | None:
    """Return the initial sums of each channel, their scale in bits, the multipliers, and the common
    shift; None where that is not exact for every sum of every channel, or not every value of int8
    is an output.

    Both ways are monotone, so it is enough that they reach each output at the same sum.
    """
    every = (channels.range.out_min, channels.range.out_max) == ELEMENT_TYPES["int8"].bounds
    if not every or channels.multipliers.min() < 1:
        return None
    real = np.ldexp(channels.multipliers.astype(np.float64), -31 - channels.right)
    # The zero point and half a unit of the result, as they stand in sums.
    half = (channels.range.out_zero_point + 0.5) / real
    reach = np.maximum(np.abs(channels.lowest), np.abs(channels.highest)) + np.abs(half) + _NEAR
    scale = np.minimum(31 - np.frexp(reach)[1], _MAX_WORD_SCALE).astype(np.int64)
    shift = int((scale - 1 - np.frexp(real)[1]).min())
    if scale.min() < 0 or not 0 < shift <= _MAX_WORD_SHIFT:
        return None
    unit = 1 << (32 + shift)
    multipliers = np.rint(np.ldexp(real, 32 + shift - scale)).astype(np.int64)
    if multipliers.min() < 1 or multipliers.max() >= 1 << 31:
        return None

    def first(levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the least integer whose output is the level."""
        wholes: npt.NDArray[np.int64] = -(-levels * unit // multipliers[:, np.newaxis])
        return wholes

    exact = np.rint(np.ldexp(channels.bias + half, scale)).astype(np.int64)
    found = channels.changes().addend(first, np.left_shift(1, scale), exact)
    if found is None:
        return None
    lowest, highest = (found + (end << scale) for end in channels.ends)
    if lowest.min() < -(1 << 31) or highest.max() >= 1 << 31:
        return None
    return found, scale, multipliers, shift


@packed_once
def _packed(layer: LinearWeights, triples: int) -> list[HilV7mPacked]:
    """Return the weights of blocks of triples of columns, each packed into two words."""
    outputs = layer.requantization
    channels = require_right_shifts(layer.matrix, outputs)
    if channels is None:
        return []
    weights = padded(channels.weights, _TRIPLE * triples)
    part = _packed_part(weights)
    cuts = [weights[:, at : at + part] for at in range(0, layer.depth, part)]
    # What each sum of a part begins with, so that it never goes below 0.
    begins = [-sum_ends(cut)[0] for cut in cuts]
    raised = np.sum(begins, axis=0)[: layer.channels]
    if (np.abs(channels.bias) + raised).max() >= SUM_LIMIT // 2:
        return []
    even_shift, scales = scales_of(replace(channels, bias=channels.bias - raised))
    parts = [
        _packed_words(np.column_stack([begin, cut]), triples)
        for begin, cut in zip(begins, cuts, strict=True)
    ]
    packed = HilV7mPacked(
        part=part,
        output_range=outputs.output_range,
        even_shift=even_shift,
        scales=scales,
        weights=np.concatenate(parts, axis=1).reshape(-1),
    )
    return [packed]


def _packed_part(weights: Array) -> int:
    """Return the depth of the longest equal parts of columns whose sums fit a field; a multiple of
    the depth of the kernel's loop, or all.
    """
    depth = weights.shape[1]
    parts = 0
    while True:
        parts += 1
        part = -(-depth // (_PACKED_TURN * parts)) * _PACKED_TURN
        cuts = [weights[:, at : at + part] for at in range(0, depth, part)]
        ends = [sum_ends(cut) for cut in cuts]
        if all((most - least).max() < 1 << PART_BITS for least, most in ends):
            return int(min(part, depth))


def _packed_words(columns: Array, triples: int) -> npt.NDArray[np.uint32]:
    """``[blocks, depth * triples * 2]``: columns ``[columns, depth]`` as ``packed_s8.h`` draws
    them.
    """
    depth = columns.shape[1]
    u, v, w = columns.reshape(-1, triples, _TRIPLE, depth).transpose(2, 0, 3, 1).astype(np.int64)
    words = np.stack([u + (w << _PACKED_FIRST), v + (w << _PACKED_SECOND)], axis=-1)
    return words.reshape(len(words), -1).astype(np.uint32)
