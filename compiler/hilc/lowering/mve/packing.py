"""Weights as the kernels of products read them: chunks of sixteen, pairs and fours of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.linear import LinearWeights, packed_once
from hilc.lowering.parameters import (
    HilMveColumns,
    HilMvePixels,
    HilRequantization,
)
from hilc.lowering.rounds import rounding_of
from hilc.numerics.requantize import FixedPoint

#: Bytes of a vector register: depths are padded to this many weights.
CHUNK = 16
#: Rows that the blocks of ``blocks_s8.h`` take at a time, columns that they take of a vector.
_ROWS, VECTOR_COLUMNS = 4, 8
#: Columns of a group in the order of the sums in ``hil_mve_vector_s8``.
_VECTOR_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
#: The outputs of a block are stored at 16-bit distances.
FARTHEST = (1 << 16) - 1
#: Bytes of scratch that rows of windows may take.
LINES_BYTES = (8192, 4096, 2048)
#: Largest right shift at which the largest 16-bit product gives 255 or more.
_NEAR_SHIFT = 8
#: Limits of ``matmul_s8_8x2.h``: the bytes that a store of eight rows reaches, and the farthest
#: shift of a zero point.
_REACHED, _FARTHEST_MOVED = 255, -23
#: The bounds of an output.
_LEAST, _MOST = ELEMENT_TYPES["int8"].bounds
#: ``matmul_s8_2x16.h``: largest number of chunks of depth, and order of groups of four columns
#: after narrowing.
DEEPEST = 8
NARROWED = (0, 2, 1, 3)


def below_zero_point(outputs: HilRequantization) -> int:
    """1 where values below the zero point remain after the clamp."""
    return int(outputs.output_range.out_min < outputs.output_range.out_zero_point)


#: Values of ``linear``, and a bit of ``any``, where sums are rounded once (``blocks_s8.h``).
_LINEAR_ONCE = _ANY_ONCE = 2
_LINEAR_TIES = 3


def linear_of(outputs: HilRequantization) -> int:
    """Return which blocks requantize: those that correct signs, or round once, half up or with ties
    to even, or neither.
    """
    match rounding_of(outputs):
        case Rounding.SINGLE:
            return _LINEAR_ONCE
        case Rounding.NEAREST_EVEN:
            return _LINEAR_TIES
    return below_zero_point(outputs)


def ties(outputs: HilRequantization) -> bool:
    """Return whether sums of the layer tie, which few kernels round to even outputs."""
    return rounding_of(outputs) is Rounding.NEAREST_EVEN


def ties_of(outputs: HilRequantization) -> list[npt.NDArray[np.int64]]:
    """Return the offset of each channel's sums, and the offset sums that are half-way below an odd
    output.

    With a factor ``odd * 2**zeros / 2**right`` sums tie that are ``n * 2**lowest`` for an odd n,
    ``lowest = right - 1 - zeros``. Half-way up lies ``(n * odd + 1) / 2``, which is odd where n and
    ``odd`` leave the same by 4. So the lowest ``lowest + 2`` bits of such a sum decide.
    """
    count = len(outputs.bias)
    factors, shifts = (
        np.broadcast_to(each.astype(np.int64), (count,))
        for each in (outputs.multipliers, outputs.shifts)
    )
    unit = np.maximum(factors & -factors, 1)
    lowest = 30 - shifts - np.round(np.log2(unit)).astype(np.int64)
    reached = (factors > 0) & (lowest <= 30)
    # By 4 an odd number leaves 1 or 3, which is 1 or -1 as the two upper bits of a word.
    tie = np.where(factors // unit % 4 == 1, 1 << 30, -(1 << 30))
    # No sum is the least word.
    return [np.where(reached, 30 - lowest, 0), np.where(reached, tie, -(1 << 31))]


def any_of(outputs: HilRequantization) -> int:
    """Return whether outputs are anything but rectified ones over the whole range of int8, with a
    bit more where sums are rounded once.
    """
    limited = bool(below_zero_point(outputs)) or not is_full(outputs)
    return limited | (_ANY_ONCE if rounding_of(outputs) is Rounding.SINGLE else 0)


def channel_values(layer: LinearWeights) -> list[npt.NDArray[Any]]:
    """Return bias, multiplier and shift of each channel, in columns."""
    outputs = layer.requantization
    return [
        np.broadcast_to(each, (layer.channels,)).reshape(-1, 1)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]


def is_full(outputs: HilRequantization) -> bool:
    """Return whether outputs have the whole range of int8."""
    return (outputs.output_range.out_min, outputs.output_range.out_max) == (_LEAST, _MOST)


def whole_chunks(matrix: Array, count: int) -> npt.NDArray[np.int8]:
    """``matrix`` with weights of 0 up to whole chunks, and ``count`` of them."""
    depth = -(-matrix.shape[1] // CHUNK) * CHUNK
    filled = np.zeros((count, depth), np.int8)
    filled[: matrix.shape[0], : matrix.shape[1]] = matrix
    return filled


def in_vectors(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values of columns in groups of eight, in the order of a vector's sums."""
    whole = padded(values, VECTOR_COLUMNS)
    return whole.reshape(-1, VECTOR_COLUMNS, *whole.shape[1:])[:, _VECTOR_ORDER]


def vector_weights(matrix: Array) -> npt.NDArray[np.int8]:
    """Return the weights of each eight columns as ``blocks_s8.h`` draws them, a row for each."""
    weights = in_vectors(whole_chunks(matrix, len(matrix)))
    chunks = weights.reshape(*weights.shape[:2], -1, CHUNK).transpose(0, 2, 1, 3)
    return chunks.reshape(len(weights), -1)


def wide_groups(
    matrix: Array,
    bias: npt.NDArray[np.int64],
    factors: Sequence[FixedPoint],
    bound: int,
) -> npt.NDArray[np.int8] | None:
    """Return groups of eight columns whose sums, below ``bound``, are brought to 16 bits, as
    ``wide_s8.h`` draws them; None where sums leave 32 bits. Each factor is for as many groups.
    """
    if any(bound << max(factor.shift, 0) >= 2**31 for factor in factors):
        return None
    words = [
        [factor.multiplier, min(factor.shift, 0), -int(factor.shift < 0), max(factor.shift, 0)]
        for factor in factors
    ]
    biases = in_vectors(bias)
    scales = np.repeat(np.array(words, np.int64), len(biases) // len(words), axis=0)
    parts = [bytes_of(biases), vector_weights(matrix), bytes_of(scales)]
    return np.hstack(parts).reshape(-1)


def bytes_of(values: npt.NDArray[Any], dtype: str = "<i4") -> npt.NDArray[np.int8]:
    """Values, rows of them, as the bytes of a little-endian core; int32 by default."""
    return np.ascontiguousarray(values.astype(dtype)).view(np.int8)


def narrow_first(matrix: Array, outputs: HilRequantization) -> bool:
    """Return whether products may be saturated to uint16 before they are shifted.

    Negative ones clamp then to the zero point, which is the least output. The others either never
    saturate, whatever the input, or still give the largest output: they do with shifts that are
    not too far.
    """
    if not is_full(outputs) or outputs.output_range.out_zero_point != _LEAST:
        return False
    weights = matrix.reshape(matrix.shape[0], -1).astype(np.int64)
    largest = outputs.bias + np.maximum(_MOST * weights, _LEAST * weights).sum(axis=1)
    products = (largest * outputs.multipliers.astype(np.int64) + (1 << 30)) >> 31
    near = outputs.shifts >= -_NEAR_SHIFT
    return bool(np.all(near | (products < 1 << 16)))


def columns_of(
    matrix: Array, outputs: HilRequantization, step: int, distances: tuple[int, int]
) -> HilMveColumns | None:
    """Return the weights in pairs of columns. ``distances`` are those of the outputs of two rows
    and of a pair's columns, ``step`` is that of two pairs'. None where the outputs lie too far
    apart.
    """
    row_step, column_step = distances
    if (_ROWS - 1) * row_step + column_step > FARTHEST:
        return None
    count = matrix.shape[0]
    order = np.arange(count)
    if count % 2:
        order = np.append(order, count - 1)
    weights = whole_chunks(matrix, count)[order]
    chunks = weights.shape[1] // CHUNK
    pairs = (
        weights.reshape(-1, 2, chunks, CHUNK).transpose(0, 2, 1, 3).reshape(-1, 2 * CHUNK * chunks)
    )
    values = [
        np.broadcast_to(each, (count,))[order].reshape(-1, 2)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]
    values.append(np.full((pairs.shape[0], 1), step))
    if ties(outputs):
        values.append(np.stack(ties_of(outputs), axis=1)[order].reshape(-1, 4))
    stream = np.hstack([pairs, bytes_of(np.hstack(values))])
    return HilMveColumns(
        chunks=chunks,
        pairs=count // 2,
        odd=count % 2,
        row_step=row_step,
        column_step=column_step,
        linear=linear_of(outputs),
        output_range=outputs.output_range,
        stream=stream.reshape(-1),
    )


def _scales(
    multipliers: npt.NDArray[Any], shifts: npt.NDArray[Any], first: bool
) -> npt.NDArray[np.int8]:
    """Return those of each sixteen columns, four by four, as ``matmul_s8_2x16.h`` draws them."""
    groups = len(multipliers)
    if first:
        # FewerChannels products of two fours alternate.
        alternate = shifts.reshape(groups, 2, 2, 4).transpose(0, 1, 3, 2).reshape(-1, 2, 8)
        parts = [bytes_of(multipliers.reshape(groups, 2, 8)), bytes_of(alternate, "<i2")]
        return np.concatenate(parts, axis=2).reshape(groups, -1)
    return bytes_of(np.stack([multipliers, shifts], axis=2).reshape(groups, -1))


def quads_of(matrix: Array, outputs: HilRequantization, six: bool = False) -> HilMvePixels:
    """Return the weights chunk by chunk, of each all fours of columns, as ``matmul_s8_4x4.h`` draws
    them, or ``matmul_s8_6x4.h``.
    """
    channels = matrix.shape[0]
    groups = -(-channels // CHUNK)
    order = np.arange(groups * CHUNK).reshape(groups, 4, 4).transpose(0, 2, 1)[:, NARROWED]

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return padded(np.broadcast_to(of_channels, (channels,)), CHUNK)[order]

    weights = whole_chunks(matrix, groups * CHUNK)[order.reshape(-1, 4)]
    chunks = weights.shape[2] // CHUNK
    weights = weights.reshape(len(weights), 4, chunks, CHUNK).transpose(2, 0, 1, 3)
    bias = each(outputs.bias).reshape(-1, 4)
    begin = weights[0].reshape(len(bias), 4, CHUNK)
    if six:
        # Two pixels' of two columns, for two pixels more, and of the two others.
        left, right = np.hsplit(np.repeat(bias, 2, axis=1), 2)
        biases = np.hstack([left, left, right, right])
        begin = begin[:, (1, 0, 2, 3)]
    else:
        biases = np.hstack([bias, bias])
    start = np.hstack([begin.reshape(len(bias), -1), bytes_of(biases)])
    first = narrow_first(matrix, outputs)
    scales = _scales(each(outputs.multipliers), each(outputs.shifts), first)
    return HilMvePixels(
        chunks=chunks,
        columns=channels,
        any=any_of(outputs),
        first=int(first),
        output_range=outputs.output_range,
        stream=np.concatenate([part.reshape(-1) for part in (start, weights[1:], scales)]),
    )


def pixels_of(
    matrix: Array, outputs: HilRequantization, pixels: int = 1, *, turned: bool = False
) -> HilMvePixels:
    """Return the weights in groups of sixteen columns, which ``pixels`` side by side share: 2 of
    eight. Every other four columns have the last two chunks first where they are ``turned``.
    """
    channels = matrix.shape[0]
    count = channels * pixels
    groups = -(-count // CHUNK)
    filled = groups * CHUNK
    order = np.arange(filled).reshape(groups, 4, 4).transpose(0, 2, 1)[:, NARROWED]
    # The columns of a second pixel are the first's, whose weights are there already.
    weights = whole_chunks(matrix, filled)[order[..., : 4 // pixels]]
    chunks = weights.shape[3] // CHUNK

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.tile(np.broadcast_to(of_channels, (channels,)), pixels)
        return np.append(values, np.zeros(filled - count, values.dtype))[order]

    bias, multipliers = each(outputs.bias), each(outputs.multipliers)
    shifts = each(outputs.shifts)
    if pixels == 1:
        fours = weights.reshape(groups, 4, 4, chunks, CHUNK).transpose(0, 1, 3, 2, 4)
        if turned:
            # Twos of chunks, of which an odd number has one by itself behind them.
            back = [n for two in range(0, chunks, 2)[::-1] for n in (two, two + 1) if n < chunks]
            fours = np.stack([fours, fours[:, :, back]])[[0, 1, 0, 1], :, range(4)]
            fours = fours.transpose(1, 0, 2, 3, 4)
        sums = [bytes_of(np.concatenate([bias, bias], axis=2)), fours.reshape(groups, 4, -1)]
    else:
        # Two fours are taken as one, whose columns are each pixel's.
        fours = weights.reshape(groups, 2, 4, chunks, CHUNK).transpose(0, 1, 3, 2, 4)
        sums = [bytes_of(bias.reshape(groups, 2, 8)), fours.reshape(groups, 2, -1)]
    first = narrow_first(matrix, outputs)
    scales = _scales(multipliers, shifts, first)
    stream = np.hstack([np.concatenate(sums, axis=2).reshape(groups, -1), scales])
    return HilMvePixels(
        chunks=chunks,
        columns=channels,
        any=any_of(outputs),
        first=int(first),
        output_range=outputs.output_range,
        stream=stream.reshape(-1),
    )


@packed_once
def packed_pixels(weights: LinearWeights, pixels: int = 1, *, turned: bool = False) -> HilMvePixels:
    """Return the weights in groups of sixteen columns (:func:`pixels_of`)."""
    return pixels_of(weights.matrix, weights.requantization, pixels, turned=turned)


@packed_once
def packed_quads(weights: LinearWeights, six: bool = False) -> HilMvePixels:
    """Return the weights chunk by chunk (:func:`quads_of`)."""
    return quads_of(weights.matrix, weights.requantization, six)


@packed_once
def packed_pairs(weights: LinearWeights) -> HilMveColumns | None:
    """Return the weights in pairs of columns of rows one after the other (:func:`columns_of`)."""
    distances = weights.channels, 1
    return columns_of(weights.matrix, weights.requantization, step=2, distances=distances)


def pairs_of(count: int) -> npt.NDArray[np.int64]:
    """Return the columns of each pair: an odd last one makes a pair with the one before it, a
    single one with itself.
    """
    first = np.minimum(np.arange(0, count, 2), max(count - 2, 0))
    return np.stack([first, np.minimum(first + 1, count - 1)], axis=1)


def line_pairs(filters: Array, outputs: HilRequantization, rows: int = 1) -> npt.NDArray[np.int8]:
    """Return pairs of ``filters [channels, height, width, depth]`` as ``conv2d_s8_rows.h`` draws
    them, ``rows`` of a filter in a chunk.
    """
    count, height, width, depth = filters.shape
    pairs = pairs_of(count)
    lanes = CHUNK // rows
    passes, chunks = -(-height // rows), -(-depth // lanes)
    weights = np.zeros((len(pairs), 2, passes * rows, width, chunks * lanes), np.int8)
    weights[:, :, :height, :, :depth] = filters[pairs]
    weights = weights.reshape(-1, 2, passes, rows, width, chunks, lanes)
    weights = weights.transpose(0, 2, 5, 1, 4, 3, 6)
    return window_pairs(weights, outputs, count).reshape(-1)


def few_columns(count: int, outputs: HilRequantization) -> bool:
    """Return whether ``matmul_s8_8x2.h`` supports the number of columns and the outputs."""
    return (
        7 * count < _REACHED
        and any_of(outputs) % 2 == 0
        and bool(outputs.shifts.min() >= _FARTHEST_MOVED)
    )


def shallow_stream(weights: npt.NDArray[np.int8], outputs: HilRequantization, count: int) -> Array:
    """Return the packed form of each pair of ``count`` columns, ``weights [pairs, 4, CHUNK]``."""
    shifts = np.broadcast_to(outputs.shifts, (count,)).astype(np.int64)[pairs_of(count)]
    moved = (outputs.output_range.out_zero_point << -shifts) + (1 << (-shifts - 1))
    return np.hstack([window_pairs(weights, outputs, count), bytes_of(moved)]).reshape(-1)


def window_pairs(
    weights: npt.NDArray[np.int8], outputs: HilRequantization, count: int
) -> npt.NDArray[np.int8]:
    """Return biases, ``weights [pairs, 4, CHUNK]`` and scales of each pair of ``count`` columns, a
    row for each.
    """
    bias, multipliers, shifts = (
        np.broadcast_to(each, (count,))[pairs_of(count)]
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    )
    parts = [
        bytes_of(np.repeat(bias, 4, axis=1)),
        weights.reshape(len(weights), -1),
        bytes_of(np.hstack([multipliers, shifts])),
    ]
    return np.hstack(parts)
