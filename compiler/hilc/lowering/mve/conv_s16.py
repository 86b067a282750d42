"""Linear layers of 16-bit activations.

Where sums fit 32 bits (:mod:`hilc.lowering.sums32`), the multiplication that requantizes doubles
its product: every shift is 16 to 31. Sums of rows that are split into bytes have 40 bits, in two
words: one counts 256.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.forms import row_bands
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearForm,
    LinearWeights,
    MatrixProduct,
    in_three_by_three,
    linear_calls,
    packed_once,
)
from hilc.lowering.mve.taps import taps
from hilc.lowering.parameters import (
    HilMveColumnsS16,
    HilMveConv2dS16,
    HilMveConv2dS16Split,
    HilMveDepthwiseConv2dS16Taps,
    HilMveDepthwiseConv2dS163x3,
    HilMveMatmulS16,
    HilMveMatvecS16,
    HilMveSplitS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.sums32 import NarrowSums, long_sums_of, narrow_sums_of
from hilc.numerics.requantize import INT32_MAX

#: Columns of a step, and weights of a chunk: of two rows, and of a vector split into bytes.
_FOUR = 4
_ROWS_CHUNK, _VECTOR_CHUNK = 8, 16
#: Largest offset of outputs, and largest number of elements between positions.
_MOST_OFFSET = 65535
#: Outputs of a vector.
_LANES = 4
#: Addend of a vector's low bytes that makes them signed.
_FLIPPED = 128
#: Scaling of sums beyond 32 bits, and the least shift of their products.
_LONG, _LEAST_LONG_SHIFT = 2, 25
#: Exclusive bound of the magnitude of such a sum: 256 times a word.
_MOST_LONG = 2**39


@lowers(
    *LINEAR,
    dtypes={"int16"},
    requires={"mve"},
    roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN},
)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer of 16-bit activations."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


@packed_once
def _sums(form: LinearWeights) -> NarrowSums | None:
    """Return the requantization by a doubled product; None if it is not possible."""
    sums = narrow_sums_of(form)
    if sums is None or sums.rights is not None:
        return sums
    if (sums.multipliers % 2).any():
        return None
    return replace(sums, multipliers=sums.multipliers // 2)


def _scales(form: LinearWeights, sums: NarrowSums) -> list[npt.NDArray[np.int64]]:
    """Return the words after each channel's bias: the multiplier and, if outputs are shifted, the
    shift of a doubled upper word, below 0, and the zero point.
    """
    if sums.rights is None:
        return [sums.multipliers]
    zero_points = np.full_like(sums.bias, form.wide.requant.zero_point)
    return [sums.multipliers, -1 - sums.rights, zero_points]


def _rows(form: MatrixProduct) -> Iterator[Parameters]:
    if form.rows > 1 and (columns := rows_of_s16(form)):
        yield form.parameters(HilMveMatmulS16, mve_columns_s16=columns)
    if split := _split_s16(form.packing):
        yield HilMveMatvecS16(rows=form.rows, depth=form.depth, mve_split_s16=split)


def rows_of_s16(form: LinearForm) -> HilMveColumnsS16 | None:
    """Return the columns for pairs of rows; None where the kernels do not serve the layer."""
    return None if _sums(form.packing) is None else _columns_s16(form.packing)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    columns = rows_of_s16(form)
    if columns is not None:
        yield form.parameters(HilMveConv2dS16, mve_columns_s16=columns)
    if split := _split_s16(form.packing):
        yield form.parameters(HilMveConv2dS16Split, mve_split_s16=split)


@packed_once
def _columns_s16(form: LinearWeights) -> HilMveColumnsS16 | None:
    """Return the columns in fours, as ``mve/blocks_s16.h`` draws them; None where the outputs of
    two rows lie too far apart.
    """
    sums = _sums(form)
    assert sums is not None, "the caller has found them"
    if form.channels + _FOUR > _MOST_OFFSET:
        return None
    chunks = -(-form.depth // _ROWS_CHUNK)
    return HilMveColumnsS16(
        chunks=chunks,
        columns=form.channels,
        shifted=sums.shifted,
        out_min=sums.low,
        out_max=sums.high,
        stream=_stream(form.matrix, sums.bias, _scales(form, sums), chunks, _ROWS_CHUNK),
    )


@packed_once
def _split_s16(form: LinearWeights) -> HilMveSplitS16 | None:
    """Return the columns in fours for rows that are split into bytes; None where no kernel serves
    the layer.
    """
    sums = _sums(form)
    stream: npt.NDArray[np.int8] | None
    if sums is None:
        scaling, stream = _LONG, _long_stream(form)
    else:
        scaling = sums.shifted
        stream = vector_stream(form.matrix, sums.bias, *_scales(form, sums))
    if stream is None:
        return None
    requant = form.wide.requant
    return HilMveSplitS16(
        chunks=-(-form.depth // _VECTOR_CHUNK),
        columns=form.channels,
        scaling=scaling,
        out_min=requant.low,
        out_max=requant.high,
        stream=stream,
    )


def _long_stream(form: LinearWeights) -> npt.NDArray[np.int8] | None:
    """Return columns whose sums leave 32 bits, or are rounded by other shifts than those of 32, as
    ``mve/blocks_s16.h`` draws them; None if their bounds are exceeded.
    """
    sums, matrix = long_sums_of(form), form.matrix.astype(np.int64)
    if sums is None or form.wide.bound >= _MOST_LONG:
        return None
    # A word of low bytes and the lowest byte of a bias.
    if _FLIPPED * np.abs(matrix).sum(axis=1).max() + 0x100 > INT32_MAX:
        return None
    # Products with 0 are 0 by any shift.
    shifts = np.where(sums.reduced == 0, _LEAST_LONG_SHIFT, sums.shifts)
    if shifts.min() < _LEAST_LONG_SHIFT:
        return None
    bias = sums.bias + _FLIPPED * matrix.sum(axis=1)
    scales = [bias >> 8, sums.reduced, _LEAST_LONG_SHIFT - 1 - shifts]
    chunks = -(-form.depth // _VECTOR_CHUNK)
    return _stream(form.matrix, bias & 0xFF, scales, chunks, _VECTOR_CHUNK)


def vector_stream(
    matrix: Array, bias: npt.NDArray[np.int64], *scales: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Return columns for single rows, as ``mve/blocks_s16.h`` draws them."""
    chunks = -(-matrix.shape[1] // _VECTOR_CHUNK)
    # Modulo 2^32, as they are added.
    flipped = bias + _FLIPPED * matrix.astype(np.int64).sum(axis=1)
    return _stream(matrix, flipped, scales, chunks, _VECTOR_CHUNK)


def _stream(
    matrix: Array,
    bias: npt.NDArray[np.int64],
    scales: Sequence[npt.NDArray[np.int64]],
    chunks: int,
    chunk: int,
) -> npt.NDArray[np.int8]:
    """Return, for each four columns, weights chunk by chunk, biases, and scales."""
    whole = np.pad(padded(matrix, _FOUR), ((0, 0), (0, chunks * chunk - matrix.shape[1])))
    weights = whole.reshape(-1, _FOUR, chunks, chunk).transpose(0, 2, 1, 3)
    words = [
        np.ascontiguousarray(padded(values, _FOUR).reshape(-1, _FOUR).astype(np.int32)).view(
            np.int8
        )
        for values in (bias, *scales)
    ]
    parts = [weights.reshape(len(weights), -1).astype(np.int8), *words]
    return np.concatenate(parts, axis=1).reshape(-1)


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    """Return the kernels of filters of at most 3x3, and of any: of the whole of a channel's plane,
    or of some rows.
    """
    sums = _sums(form.packing)
    if sums is None:
        return
    yield from _three_by_three(form, sums)
    outputs = {"shifted": sums.shifted, "out_min": sums.low, "out_max": sums.high}
    for band, fields in taps(form, _channel_words(form.packing)):
        yield HilMveDepthwiseConv2dS16Taps(mve_taps=fields, **outputs).as_form(band)


def _three_by_three(form: DepthwiseConvolution, sums: NarrowSums) -> Iterator[Parameters]:
    widened = in_three_by_three(form)
    if widened is None:
        return
    form, images, stride = widened, widened.images, widened.window.stride_w
    row = max(images.in_w * images.in_c, images.out_w * form.channels)
    if 8 * row > _MOST_OFFSET:
        return
    for band, rows in row_bands((8, 2), images.out_h):
        upright = _vectors(rows, images.out_w) < _vectors(images.out_w, rows)
        extents = [(count - 1) * stride + 3 for count in (images.out_w, rows)]
        # What the last vector of a line reads beyond it is in the next, or behind the last one.
        line, lines = reversed(extents) if upright else extents
        # Lines of outputs are made in pairs.
        lines += stride * ((images.out_w if upright else rows) % 2)
        yield form.parameters(
            HilMveDepthwiseConv2dS163x3,
            stride=stride,
            rows=rows,
            upright=int(upright),
            line=line,
            lines=lines,
            shifted=sums.shifted,
            out_min=sums.low,
            out_max=sums.high,
            weights=_filters(form.packing, upright),
            scales=_channel_words(form.packing),
        ).as_form(band)


@packed_once
def _filters(form: LinearWeights, upright: bool) -> Array:
    """Return the filters, column by column where vectors are ``upright``."""
    filters = form.matrix.reshape(-1, 3, 3)
    return np.ascontiguousarray(filters.transpose(0, 2, 1) if upright else filters).reshape(-1)


@packed_once
def _channel_words(form: LinearWeights) -> npt.NDArray[np.int32]:
    """Return bias, multiplier, shift and zero point of each channel; zeros where there are none."""
    sums = _sums(form)
    assert sums is not None, "the caller has found them"
    words = np.zeros((form.channels, 4), np.int64)
    for place, values in enumerate((sums.bias, *_scales(form, sums))):
        words[:, place] = values
    return words.reshape(-1).astype(np.int32)


def _vectors(outputs: int, lines: int) -> int:
    """Return the number of pairs of vectors in ``lines`` rows of ``outputs`` outputs."""
    return -(-outputs // _LANES) * -(-lines // 2)
