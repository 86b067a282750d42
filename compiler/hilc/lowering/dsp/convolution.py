"""Windows that slide over an image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hilc.ir import Array
from hilc.lowering.channels import padded
from hilc.lowering.dsp.affine import Affine, RightShiftedChannels, range_of
from hilc.lowering.dsp.packing import (
    PAIR,
    UNIT,
    UNIT_ORDER,
    affine_of_layer,
    channels_of,
    form_of,
    packed_columns_of_layer,
    packed_streams,
    pair_words_of_layer,
    paired_bias,
    paired_weights,
    streams_of,
    units_of,
)
from hilc.lowering.kernels import Parameters
from hilc.lowering.linear import Convolution, LinearWeights, border_pixel, packed_once
from hilc.lowering.parameters import (
    HilDspConv2dS8,
    HilDspConv2dS8ColumnPairs,
    HilDspConv2dS8Partial,
    HilDspConv2dS8Winograd,
    HilDspConv2dS8WinogradPacked,
    HilDspConv2dS8WinogradRows,
    HilDspPairs,
)


def conv2d(form: Convolution) -> list[Parameters]:
    """Return the parameters of each DSP kernel that computes this int8 convolution, fastest first;
    none if no kernel gives its outputs exactly.
    """
    first, last = _winograd(form)
    last += _winograd_rows(form)
    direct, with_padding = _direct(form)
    partial = _partial(form)
    packed = packed_columns_of_layer(form.packing, PAIR)
    pairs = pair_words_of_layer(form.packing, PAIR)
    if packed is None or pairs is None:
        return [*first, *direct, *last, *with_padding, *partial]
    parameters = form.parameters(
        HilDspConv2dS8,
        units=units_of(form),
        part=packed.part,
        weights=packed.weights,
        pairs=pairs,
    ).as_form(packed.form)
    return [*first, *direct, parameters, *last, *with_padding, *partial]


def _direct(form: Convolution) -> tuple[list[Parameters], list[Parameters]]:
    """Return the convolution from windows that are widened where they lie, in the image and in one
    that was put into scratch with its padding.
    """
    in_c, window = form.images.in_c, form.window
    run = window.filter_w * in_c
    if in_c % UNIT != 0:
        # The kernel reads rows of windows in words.
        if window.filter_w > 1 and window.dilation_w != 1:
            return [], []
        streams = _streams_of_rows(form.packing, window.filter_h, run)
    else:
        streams = packed_streams(form.packing)
    if in_c % UNIT == 0 and window.filter_h * run > in_c:
        # Partial sums of three windows take less scratch than two whole ones, and no more time.
        streams = [pairs for pairs in streams if pairs.wide or pairs.group == 3]
    border = border_pixel(form.packing, in_c)
    direct: list[Parameters] = [
        form.parameters(
            HilDspConv2dS8ColumnPairs,
            units=units_of(form),
            dsp_pairs=pairs,
            border=border,
            padded_h=0,
            padded_w=0,
            dsp_range=range_of(form.requantization),
        ).as_form(*form_of(pairs))
        for pairs in streams
    ]
    with_padding: list[Parameters] = [
        replace(call, padded_h=padded_h, padded_w=padded_w).as_form(call.form, "padded")
        for padded_h, padded_w in _padded_copies(form)
        for call in direct
    ]
    return direct, with_padding


@packed_once
def _streams_of_rows(weights: LinearWeights, filter_h: int, run: int) -> list[HilDspPairs]:
    """Return the ways to pack the weights in pairs: the whole words of each of a filter's rows of
    ``run`` bytes, then what is left of each.
    """
    rows = weights.matrix.reshape(-1, filter_h, run)
    whole = run - run % UNIT
    parts = [rows[:, :, :whole], rows[:, :, whole:]]
    matrix = np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1)
    return streams_of(matrix, weights.requantization)


def _partial(form: Convolution) -> list[Parameters]:
    """Return the convolution in little scratch, from a row of the filter at a time or a pixel of
    it: its sums wait for the next.
    """
    in_c, window = form.images.in_c, form.window
    pixels = window.filter_h * window.filter_w
    if in_c % UNIT != 0 or pixels == 1:
        return []
    row = window.filter_w
    streams = {taps: _partial_stream(form.packing, pixels, taps) for taps in (row, 1)}
    if (plain := _plain_lines(form.packing)) is None:
        return []
    _, affine = plain
    border = border_pixel(form.packing, in_c)
    return [
        form.parameters(
            HilDspConv2dS8Partial,
            group=group,
            taps=taps,
            parts=pixels // taps,
            units=taps * in_c // UNIT,
            signs=int(affine.corrections is not None),
            shift=affine.shift,
            stream=stream,
            border=border,
            dsp_range=range_of(form.requantization),
        ).as_form(f"{group}_windows", "by_row" if taps == row else "by_pixel")
        # Two windows by rows take more of both than three by pixels.
        for taps, group in dict.fromkeys([(row, 3), (1, 3), (1, 2)])
        if (stream := streams[taps]) is not None
    ]


@packed_once
def _partial_stream(weights: LinearWeights, pixels: int, taps: int) -> Array | None:
    """Return the words that ``conv2d_partial_s8.h`` draws, of filters of so many pixels; None where
    a pair needs 17 bits, or channels have no requantization by one shift for all.
    """
    if (plain := _plain_lines(weights)) is None:
        return None
    channels, affine = plain
    pairs = paired_weights(channels.weights, PAIR)
    if pairs is None:
        return None
    starts = paired_bias(padded(affine.bias, PAIR)).reshape(-1)
    scales = np.stack(affine.scales, axis=1).reshape(-1)
    columns = pairs.view(np.int32).reshape(-1, pixels // taps, taps * weights.depth // pixels // 2)
    words = columns.transpose(1, 0, 2).reshape(-1)
    return np.concatenate([starts, words, scales]).astype(np.int32)


def _plain_lines(weights: LinearWeights) -> tuple[RightShiftedChannels, Affine] | None:
    """Return the channels and their requantization by one shift for all; None where it has none."""
    channels, affine = channels_of(weights), affine_of_layer(weights, True)
    if channels is None or affine is None or not affine.shares_one_shift:
        return None
    return channels, affine


def _padded_copies(form: Convolution) -> list[tuple[int, int]]:
    """Return rows and columns of the image with its padding, if windows that reach beyond it are so
    many that its copy is worth it.
    """
    images, window = form.images, form.window
    height = (images.out_h - 1) * window.stride_h + (window.filter_h - 1) * window.dilation_h + 1
    width = (images.out_w - 1) * window.stride_w + (window.filter_w - 1) * window.dilation_w + 1
    small = height * width * images.in_c <= _MOST_PADDED
    # Windows are widened in runs.
    runs = window.dilation_w == 1 or window.filter_w == 1
    beyond = window.pad_left > 0 or width - window.pad_left > images.in_w
    if not small or not runs or not beyond:
        return []
    # Rows and columns that no window reaches are not there.
    return [(max(height, window.pad_top), max(width, window.pad_left))]


#: Bytes of an image with its padding up to which it is put into scratch.
_MOST_PADDED = 4096

#: Filter transform of Winograd F(2, 3), times 2.
_WINOGRAD = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
#: Filter transform of columns, in the order in which the kernel adds rows, with the sign of the
#: last row inverted so that it is added too; times 16, which fits half-words.
_WINOGRAD_ROWS = 16 * np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, -2]])
#: Least number of input channels at which Winograd saves more than its transforms cost.
_FEW_PRODUCTS_CHANNELS = 8


def _winograd(form: Convolution) -> tuple[list[Parameters], list[Parameters]]:
    """Return the parameters of Winograd F(2x2, 3x3), if the layer has its shape: those of one row
    of tiles at a time with weights as they are; and those of two rows, which take twice the
    scratch, and of weights transformed in flash, which take 3.6 times as much of it.

    That is a filter of 3x3 over neighbouring pixels of whole units, one pixel after the other.
    """
    in_c, window = form.images.in_c, form.window
    sizes = [window.filter_h, window.filter_w]
    ones = [window.stride_h, window.stride_w, window.dilation_h, window.dilation_w]
    if sizes != [3, 3] or ones != [1, 1, 1, 1] or in_c % UNIT != 0:
        return [], []
    streams = _winograd_streams(form.packing, in_c)
    if streams is None:
        return [], []
    affine, left, unfolded_stream, packed_stream = streams
    signs = int(affine.corrections is not None)
    border = border_pixel(form.packing, in_c)
    unfolded = form.parameters(
        HilDspConv2dS8Winograd,
        units=in_c // UNIT,
        signs=signs,
        shift=affine.shift,
        left=left,
        stream=unfolded_stream,
        border=border,
        dsp_range=range_of(form.requantization),
    )
    packed = form.parameters(
        HilDspConv2dS8WinogradPacked,
        units=in_c // UNIT,
        signs=signs,
        shift=affine.shift,
        # U is not 16 times what it is made of.
        left=left + 4,
        bands=1,
        stream=packed_stream,
        border=border,
        dsp_range=range_of(form.requantization),
    )
    # Rows of the image take the room of two filters while those are not unfolded.
    if 4 * -(-form.images.out_w // 4) + 2 > 4 * in_c or in_c < _FEW_PRODUCTS_CHANNELS:
        return [], [unfolded]
    # There is one of each for any height: bands of a layer take the same.
    two = replace(packed, bands=min(2, (form.images.out_h + 1) // 2))
    return [packed.as_form("1_row")], [two.as_form("2_rows"), unfolded]


@packed_once
def _winograd_streams(weights: LinearWeights, in_c: int) -> tuple[Affine, int, Array, Array] | None:
    """Return the requantization, by how many bits sums are shifted to the left before it, and the
    streams of unfolded weights and of weights as they are; None where channels have no
    requantization by one shift for all.
    """
    if (plain := _plain_lines(weights)) is None:
        return None
    channels, affine = plain
    filters = padded(channels.weights.astype(np.int64), PAIR).reshape(-1, 3, 3, in_c)
    left = _winograd_left(affine)
    places = np.einsum("iy,jx,oyxc->ojic", _WINOGRAD_ROWS, _WINOGRAD, filters)
    units = places.reshape(-1, PAIR, 16, in_c // UNIT, UNIT)
    taps = filters.reshape(-1, PAIR, 9, in_c // UNIT, UNIT).transpose(0, 3, 1, 2, 4)
    unfolded = _winograd_stream(affine, 64, _words_in_turn(units))
    packed = _winograd_stream(affine, 4, np.ascontiguousarray(taps.astype(np.int8)).view(np.int32))
    return affine, left, unfolded, packed


def _winograd_left(affine: Affine) -> int:
    """Return by how many bits sums are shifted to the left before their requantization."""
    # The kernels have 64 times the sums; lines are for 256 times.
    return 0 if affine.scales[0].max() < 2**29 else 2


def _words_in_turn(units: Array) -> Array:
    """Return the words of both filters of each pair in turn, from ``[pair, filter, place, unit,
    channel]``.
    """
    words = units[..., UNIT_ORDER].reshape(*units.shape[:4], 2, 2).transpose(0, 2, 3, 4, 1, 5)
    return np.ascontiguousarray(words.astype(np.int16)).view(np.int32)


def _winograd_stream(affine: Affine, factor: int, weights: Array) -> Array:
    """Return biases, so many times, scales and weights of each two filters."""
    multipliers, *others = affine.scales
    multipliers = multipliers << (2 - _winograd_left(affine))
    scales = padded(np.stack([multipliers, *others], axis=1), PAIR)
    bias = padded(affine.bias, PAIR).reshape(-1, PAIR)
    parts = [factor * bias, scales.reshape(len(bias), -1), weights.reshape(len(bias), -1)]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.int32)


#: What Winograd F(2, 3), F(2, 2) and a single tap multiply with the pixels that they share: rows
#: of the places A, B, C and D of ``conv2d_s8_winograd_rows.h``, 64 times.
_ROW_PARTS = {
    3: ([[32, 32, 32]], [[32, -32, 32]], [[64, 0, 0]], [[0, 0, -64]]),
    2: ([[64, 64]], [], [[64, 0]], [[0, -64]]),
    1: ([], [], [[64]], [[64]]),
}
#: Most pixels between the outputs of a tile: V of twice as many is made at a time.
_MOST_STEP = 32


def _winograd_rows(form: Convolution) -> list[Parameters]:
    """Return the parameters of Winograd along rows, if filters have taps that can share products:
    with a stride those that are so far apart, with a dilation neighbours.
    """
    in_c, window = form.images.in_c, form.window
    stride, step = window.stride_w, window.dilation_w
    # Of filters of several rows the weights would take more flash than the products are worth: a
    # quarter more of ResNet-8 for 1 % fewer instructions.
    if window.filter_h > 1:
        return []
    parts = _parts_of_row(window.filter_w, stride)
    if in_c % UNIT != 0 or (stride > 1 and step > 1) or len(parts) == window.filter_w:
        return []
    # A block has outputs that are `step` apart, in an even number of tiles.
    if (step > 1 and 2 * step > form.images.out_w) or step > _MOST_STEP:
        return []
    streams = _row_stream(form.packing, window.filter_w, stride)
    if streams is None:
        return []
    affine, left, stream = streams
    sizes = [size for _, size in parts]
    taps = [first for wanted in _ROW_PARTS for first, size in parts if size == wanted]
    return [
        form.parameters(
            HilDspConv2dS8WinogradRows,
            units=in_c // UNIT,
            triples=sizes.count(3),
            pairs=sizes.count(2),
            singles=sizes.count(1),
            step=step,
            apart=2 * step if step % 2 else 1,
            tile_pairs=step if step % 2 else step // 2,
            signs=int(affine.corrections is not None),
            shift=affine.shift,
            left=left,
            taps=np.array(taps, np.int32),
            stream=stream,
            border=border_pixel(form.packing, in_c),
            dsp_range=range_of(form.requantization),
        )
    ]


def _parts_of_row(taps: int, stride: int) -> list[tuple[int, int]]:
    """Return the first tap and the number of taps, ``stride`` apart, of each part of a row."""
    parts = []
    for phase in range(min(stride, taps)):
        own = range(phase, taps, stride)
        parts += [(own[i], len(own[i : i + 3])) for i in range(0, len(own), 3)]
    return parts


@packed_once
def _row_stream(weights: LinearWeights, taps: int, stride: int) -> tuple[Affine, int, Array] | None:
    """Return the requantization, by how many bits sums are shifted to the left before it, and the
    stream that ``conv2d_s8_winograd_rows.h`` draws; None where channels have no requantization by
    one shift for all.
    """
    if (plain := _plain_lines(weights)) is None:
        return None
    channels, affine = plain
    in_c = weights.depth // taps
    filters = padded(channels.weights.astype(np.int64), PAIR).reshape(-1, taps, in_c)
    parts = _parts_of_row(taps, stride)
    places = [
        np.einsum("it,otc->oic", factors, filters[:, first : first + size * stride : stride])
        for place in range(4)
        for wanted, matrices in _ROW_PARTS.items()
        for first, size in parts
        if size == wanted and (factors := matrices[place])
    ]
    u = np.concatenate(places, axis=1).reshape(-1, PAIR, len(places), in_c // UNIT, UNIT)
    return affine, _winograd_left(affine), _winograd_stream(affine, 64, _words_in_turn(u))
