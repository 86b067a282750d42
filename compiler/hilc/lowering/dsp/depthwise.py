"""Filters of one channel of the image each: of at most 3x3, and others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.channel_rows import channel_rows
from hilc.lowering.channels import padded
from hilc.lowering.dsp.affine import BITS, Affine, RightShiftedChannels, range_of
from hilc.lowering.dsp.packing import affine_of_layer, channels_of
from hilc.lowering.forms import row_bands
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    DepthwiseConvolution,
    LinearWeights,
    in_three_by_three,
    packed_once,
)
from hilc.lowering.parameters import (
    HilDspDepthwiseConv2dS8Channels,
    HilDspDepthwiseConv2dS8ChannelsRounded,
    HilDspDepthwiseConv2dS8Pairs,
    HilDspDepthwiseConv2dS8PairsRounded,
    HilDspDepthwiseConv2dS8Plane,
    HilDspDepthwiseConv2dS83x3,
    HilDspTapPairs,
)

#: Rows of outputs at a time where a whole plane takes much scratch.
_BANDS = (8, 2)
#: Channels that are widened together.
_PLANES = 4
#: Channels that are computed together where they lie in the image, and the order of their weights
#: in half-words.
_FOUR_CHANNELS, _BYTES_ORDER = 4, (0, 2, 1, 3)
#: Largest excess of a channel's addend over the common addend.
_ADDEND_LIMIT = 256
#: Pixels of a line of the depthwise kernel's scratch, 32 bytes each.
_MAX_LINE = 128


def depthwise(form: DepthwiseConvolution) -> list[Parameters]:
    """Lower filters of one channel of the image each."""
    return [*_three_by_three(form), *_pairs(form)]


def _pairs(form: DepthwiseConvolution) -> Iterator[Parameters]:
    """Yield the kernels of filters of any size."""
    scales = _pair_scales(form.packing)
    if scales is None:
        for rows, taps in tap_pairs(form):
            rounded = form.parameters(HilDspDepthwiseConv2dS8PairsRounded, dsp_tap_pairs=taps)
            yield rounded.as_form(rows)
        if (channels := channel_rows(form)) is not None:
            weights = channel_words(form.packing)
            yield form.parameters(
                HilDspDepthwiseConv2dS8ChannelsRounded, channel_rows=channels, weights=weights
            )
        return
    limits = form.requantization.output_range
    outputs: dict[str, Any] = {
        "out_min": limits.out_min,
        "out_max": limits.out_max,
        "scales": scales,
    }
    for rows, taps in tap_pairs(form, 2**BITS):
        yield HilDspDepthwiseConv2dS8Pairs(dsp_tap_pairs=taps, **outputs).as_form(rows)
    if (channels := channel_rows(form)) is not None:
        weights = channel_words(form.packing, 2**BITS)
        yield HilDspDepthwiseConv2dS8Channels(channel_rows=channels, weights=weights, **outputs)


@packed_once
def _pair_scales(weights: LinearWeights) -> npt.NDArray[np.int32] | None:
    """Return the affine requantization of each channel; None where there is none."""
    affine = affine_of_layer(weights, False)
    if affine is None:
        return None
    words = [affine.starts, affine.multipliers, affine.addends, affine.shifts]
    return np.stack(words, axis=1).reshape(-1).astype(np.int32)


def tap_pairs(form: DepthwiseConvolution, factor: int = 1) -> Iterator[tuple[str, HilDspTapPairs]]:
    """Yield a form and the fields of filters of any size, with weights times ``factor``: of the
    whole of a channel's plane, or of some rows.
    """
    window = form.window
    columns, line, beyond = plane_lines(form)
    # With a dilation every phase of a row is a row without.
    phases, part, dilation = 1, line, window.dilation_w
    if window.stride_w == 1 and dilation > 1 and window.filter_w > 1:
        phases, dilation = dilation, 1
        part = (form.images.out_w - 1) // phases + window.filter_w
        part += part % 2
        # The word of an odd column ends behind the last part.
        line, beyond = phases * part, 2
    words, pairs, step = _pair_words(form.packing, window.filter_h, dilation, factor)
    for band, rows in row_bands(_BANDS, form.images.out_h):
        yield (
            band,
            form.parameters(
                HilDspTapPairs,
                columns=columns,
                line=line,
                phases=phases,
                part=part,
                beyond=beyond,
                rows=rows,
                pairs=pairs,
                step=step,
                weights=words,
            ),
        )


@packed_once
def _pair_words(
    weights: LinearWeights, filter_h: int, dilation: int, factor: int
) -> tuple[npt.NDArray[np.int32], int, int]:
    """Return words of two taps ``[channels, filter_h, pairs]``, flat, the pairs, and by how many
    pixels they are apart.
    """
    taps = factor * weights.matrix.reshape(weights.channels, filter_h, -1).astype(np.int16)
    columns = taps.shape[-1]
    if dilation == 1 or columns == 1:
        halves, step = np.pad(taps, ((0, 0), (0, 0), (0, columns % 2))), 2
    else:
        halves, step = np.stack([taps, np.zeros_like(taps)], axis=-1), dilation
    words = np.ascontiguousarray(halves).reshape(-1).view(np.int32)
    return words, words.size // (weights.channels * filter_h), step


@packed_once
def channel_words(
    weights: LinearWeights, factor: int = 1, order: tuple[int, ...] = _BYTES_ORDER
) -> npt.NDArray[np.int32]:
    """Return words of half-words ``[fours of channels, taps, 2]``, flat: weights times ``factor``
    in this order.
    """
    taps = factor * padded(weights.matrix, _FOUR_CHANNELS).astype(np.int16)
    fours = taps.reshape(-1, _FOUR_CHANNELS, weights.depth)[:, order]
    return np.ascontiguousarray(fours.transpose(0, 2, 1)).reshape(-1).view(np.int32)


def _three_by_three(form: DepthwiseConvolution) -> list[Parameters]:
    """Return the kernels of filters of at most 3x3."""
    widened = in_three_by_three(form)
    if widened is None:
        return []
    form = widened
    channels = channels_of(form.packing)
    if channels is None:
        return []
    planes = _depthwise_planes(form)
    fours = [
        replace(each, channels=_PLANES).as_form(each.form, f"{_PLANES}_channels")
        for each in planes
        if form.images.in_c >= _PLANES
    ]
    return [*planes, *_depthwise_lines(form, channels), *fours]


def _depthwise_planes(form: DepthwiseConvolution) -> list[HilDspDepthwiseConv2dS8Plane]:
    """Return a channel's plane at a time: the whole of it, or some rows where that takes much
    scratch.
    """
    packed = _plane_words(form.packing)
    if packed is None:
        return []
    affine, weights, scales = packed
    images, stride, left = form.images, form.window.stride_w, form.window.pad_left
    columns, line, beyond = plane_lines(form)
    planes: list[HilDspDepthwiseConv2dS8Plane] = []
    least = 0
    for count in (images.out_h, *_BANDS):
        rows = "all_rows" if count == images.out_h else f"{count}_rows"
        parameters = form.parameters(
            HilDspDepthwiseConv2dS8Plane,
            stride=stride,
            pad_left=left,
            columns=columns,
            line=line,
            beyond=beyond,
            rows=min(count, images.out_h),
            channels=1,
            shift=affine.shift,
            packed=0,
            addend=0,
            weights=weights,
            scales=scales,
            dsp_range=range_of(form.requantization),
        )
        scratch = KernelCall(parameters).scratch_bytes
        if not planes or scratch < least:
            planes.append(parameters.as_form(rows))
            least = scratch
    # Of the whole plane, where each channel is unpacked once.
    return [*planes, *_packed_planes(planes[0], form)]


@packed_once
def _plane_words(weights: LinearWeights) -> tuple[Affine, Array, Array] | None:
    """Return the requantization, and filters and scales as the kernel of planes takes them; None
    where there is no such requantization.
    """
    channels, affine = channels_of(weights), affine_of_layer(weights, False)
    if channels is None or affine is None:
        return None
    # Of each row of the filter, its columns 0, 1, 1, 2: two pairs.
    filters = channels.weights.reshape(-1, 3, 3)[..., (0, 1, 1, 2)]
    scales = np.stack([affine.starts, *affine.scales], axis=1).reshape(-1).astype(np.int32)
    return affine, np.ascontiguousarray(filters).reshape(-1), scales


def _packed_planes(
    plane: HilDspDepthwiseConv2dS8Plane, form: DepthwiseConvolution
) -> Iterator[HilDspDepthwiseConv2dS8Plane]:
    """Yield the same with fewer bytes of weights and scales; nothing if addends differ much."""
    if (packed := _packed_plane_words(form.packing)) is not None:
        addend, weights, scales = packed
        found = replace(plane, packed=1, addend=addend, weights=weights, scales=scales)
        yield found.as_form("packed")


@packed_once
def _packed_plane_words(weights: LinearWeights) -> tuple[int, Array, Array] | None:
    """Return the addend of all channels, filters and scales of fewer bytes; None where addends
    differ much.
    """
    channels, affine = channels_of(weights), affine_of_layer(weights, False)
    if channels is None or affine is None:
        return None
    # Half a unit rounds, and a zero point is added. What an addend has more is half a unit of the
    # first rounding, or about that: it fits below 256 times a bias.
    zero_point = weights.requantization.output_range.out_zero_point
    addend = (2 * zero_point + 1) << affine.shift >> 1
    more = affine.addends - addend
    if not affine.shares_one_shift or more.min() < 0 or more.max() >= _ADDEND_LIMIT:
        return None
    scales = np.stack([256 * affine.bias + more, affine.multipliers], axis=1)
    return addend, channels.weights.reshape(-1), scales.reshape(-1).astype(np.int32)


def plane_lines(form: DepthwiseConvolution) -> tuple[int, int, int]:
    """Return the columns of the image that windows reach, and the half-words from row to row of a
    channel's plane and behind its last row.
    """
    images, window = form.images, form.window
    left = window.pad_left
    span = (window.filter_w - 1) * window.dilation_w + 1
    extent = (images.out_w - 1) * window.stride_w + span
    columns = max(0, min(images.in_w, extent - left))
    line = columns + max(left, extent - left - columns)
    line += line % 2
    # Windows of the last row reach into the next, which is not there, and so does a word's end.
    beyond = max(0, extent + 1 - line)
    beyond += beyond % 2
    return columns, line, beyond


def _depthwise_lines(
    form: DepthwiseConvolution, channels: RightShiftedChannels
) -> list[Parameters]:
    """Return kernels that compute four channels at a time, for any range of the outputs."""
    line = (form.images.out_w - 1) * form.window.stride_w + 3
    if form.multiplier > 1 or line > _MAX_LINE or not channels.rounds_twice:
        return []
    weights, bias, multipliers, shifts = _line_words(form.packing)
    parameters = form.parameters(
        HilDspDepthwiseConv2dS83x3,
        stride=form.window.stride_w,
        line=line,
        weights=weights,
        bias=bias,
        multipliers=multipliers,
        shifts=shifts,
    )
    return [parameters]


@packed_once
def _line_words(weights: LinearWeights) -> tuple[Array, Array, Array, Array]:
    """Return filters, biases, multipliers and shifts as the kernel of lines takes them."""
    channels = channels_of(weights)
    assert channels is not None, "the caller has found them"
    # By column of the filter, its rows 0, 1, 1, 2: two pairs.
    filters = channels.weights.reshape(-1, 3, 3).transpose(0, 2, 1)[..., (0, 1, 1, 2)]
    bias = (2 * channels.bias).astype(np.int32)
    packed = np.ascontiguousarray(filters).reshape(-1)
    return packed, bias, channels.multipliers, channels.shifts
