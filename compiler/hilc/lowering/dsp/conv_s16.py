"""Linear layers of 16-bit activations.

Where no input makes a sum leave 32 bits, and every shift is 16 to 32, requantization is one
multiplication: :mod:`hilc.lowering.sums32`. Other sums have 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Rounding
from hilc.lowering.channel_rows import channel_rows
from hilc.lowering.channels import padded
from hilc.lowering.dsp.depthwise import channel_words, plane_lines, tap_pairs
from hilc.lowering.dsp.packing import PAIR, UNIT, UNIT_ORDER, VECTOR_BLOCK
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
from hilc.lowering.parameters import (
    HilDspColumnsS16,
    HilDspConv2dS16,
    HilDspDepthwiseConv2dS16Channels,
    HilDspDepthwiseConv2dS16Pairs,
    HilDspDepthwiseConv2dS16Plane,
    HilDspMatmulS16,
    HilDspMatvecS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.sums32 import LongSums, NarrowSums, narrow_sums, narrow_sums_of, sums_of

Sums: TypeAlias = NarrowSums | LongSums

#: Whether weights have 16 bits, and the rows at a time: more take more scratch, fewer widen weights
#: of 8 bits more often.
_GROUPS = ((1, 24), (0, 24), (1, 8), (0, 8), (0, 2))
_ROUNDINGS = (Rounding.SINGLE, Rounding.NEAREST_EVEN)
#: Least depth, in words of four, from which padding to four words is worth its zeros.
_WHOLE_FOURS = 8


@lowers(*LINEAR, dtypes={"int16"}, requires={"dsp"}, lacks={"mve"}, roundings=_ROUNDINGS)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer of 16-bit activations."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=wide_depthwise)


def _units(form: LinearForm) -> int:
    return -(-form.depth // UNIT)


def _rows(form: MatrixProduct) -> Iterator[Parameters]:
    sums = sums_of(form.packing)
    if sums is None:
        return
    if form.rows == 1:
        yield from _matvec(form, sums)
        return
    for words, columns in _columns(form, sums, form.rows):
        matmul = form.parameters(HilDspMatmulS16, dsp_columns_s16=columns)
        yield matmul.as_form(*words)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    sums = sums_of(form.packing)
    if sums is None:
        return
    pixels = form.images.out_h * form.images.out_w
    for words, columns in _columns(form, sums, pixels):
        yield form.parameters(HilDspConv2dS16, dsp_columns_s16=columns).as_form(*words)


def _columns(
    form: LinearForm, sums: Sums, rows: int
) -> Iterator[tuple[tuple[str, ...], HilDspColumnsS16]]:
    """Yield the ways to pack the columns of a layer of so many rows, each after the words of its
    form.
    """
    seen: set[tuple[int, int]] = set()
    for wide, most in _GROUPS:
        group = min(most, rows + rows % 2)
        if (wide, group) not in seen:
            seen.add((wide, group))
            columns = HilDspColumnsS16(
                units=_units(form),
                columns=form.channels,
                group=group,
                wide=wide,
                shifted=sums.shifted,
                long_sums=sums.long_sums,
                out_min=sums.low,
                out_max=sums.high,
                stream=_wide_stream(form.packing, wide),
            )
            yield (f"up_to_{most}_rows", *form_words(wide, sums)), columns


def form_words(wide: int, sums: Sums) -> tuple[str, str]:
    """Return the words of a variant's form: of its weights and of its sums."""
    return "wide" if wide else "", "long" if sums.long_sums else ""


@packed_once
def _wide_stream(weights: LinearWeights, wide: int) -> npt.NDArray[np.int32]:
    sums = sums_of(weights)
    assert sums is not None, "the caller has found them"
    return wide_stream(weights.matrix, sums, wide)


def wide_stream(matrix: Array, sums: Sums, wide: int) -> npt.NDArray[np.int32]:
    """Return the pairs of columns one after the other, as ``dsp/columns_s16.h`` draws them."""
    units = _filled(matrix, PAIR, -(-matrix.shape[1] // UNIT))
    if wide:
        halves = units.reshape(*units.shape[:3], 2, 2).transpose(0, 2, 3, 1, 4).astype(np.int16)
        words = np.ascontiguousarray(halves).view(np.int32)
    else:
        narrow = units[..., UNIT_ORDER].transpose(0, 2, 1, 3).astype(np.int8)
        words = np.ascontiguousarray(narrow).view(np.int32)
    return _stream(words, sums, PAIR)


def _filled(matrix: Array, block: int, units: int) -> Array:
    """Return weights ``[blocks, block, units, 4]``, filled up with zeros."""
    whole = np.pad(padded(matrix, block), ((0, 0), (0, units * UNIT - matrix.shape[1])))
    return whole.reshape(-1, block, units, UNIT)


def _stream(words: Array, sums: Sums, block: int) -> npt.NDArray[np.int32]:
    """Return, for each block of columns, biases, multipliers and weights. Columns that fill up the
    last block have the head of the last column: a shift by 0 does not round.
    """
    columns = np.minimum(np.arange(len(words) * block), len(sums.bias) - 1)
    heads = [values[columns].reshape(len(words), -1) for values in sums.heads]
    parts = [*heads, words.reshape(len(words), -1)]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.int32)


def _matvec(form: MatrixProduct, sums: Sums) -> Iterator[Parameters]:
    """Return the kernel of single rows: with weights of 16 bits, or two of 8 in each half-word."""
    units = whole_units(form.depth)
    for wide in (1, 0):
        stream = _vector_stream(form.packing, units, wide)
        if stream is not None:
            yield form.parameters(
                HilDspMatvecS16,
                units=units,
                wide=wide,
                shifted=sums.shifted,
                long_sums=sums.long_sums,
                out_min=sums.low,
                out_max=sums.high,
                stream=stream,
            ).as_form(*form_words(wide, sums))


@packed_once
def _vector_stream(weights: LinearWeights, units: int, wide: int) -> npt.NDArray[np.int32] | None:
    """Return the columns for single rows; None where two weights need 17 bits."""
    sums, packed = sums_of(weights), vector_weights(weights.matrix, units, wide)
    return None if packed is None or sums is None else _stream(packed, sums, VECTOR_BLOCK)


def whole_units(depth: int) -> int:
    """Return the units of a row that is taken by itself: in fours, if that adds little."""
    units = -(-depth // UNIT)
    return units + -units % 4 if units > _WHOLE_FOURS else units


def vector_weights(matrix: Array, units: int, wide: int) -> npt.NDArray[np.int32] | None:
    """Return the weights of four columns after four, ``[blocks, words]``, as ``dsp/matvec_s16.h``
    draws them; None where two need 17 bits.
    """
    whole = _filled(matrix.astype(np.int32), VECTOR_BLOCK, units)
    if not wide:
        whole = 256 * whole[:, 1::2] + whole[:, ::2]
        if whole.min() < ELEMENT_TYPES["int16"].low:
            return None
    halves = whole.reshape(*whole.shape[:3], 2, 2).transpose(0, 2, 3, 1, 4).astype(np.int16)
    return np.ascontiguousarray(halves).view(np.int32).reshape(len(whole), -1)


def plane_scales(sums: NarrowSums) -> npt.NDArray[np.int32]:
    """Return bias, multiplier, addend and shift of each channel."""
    none = np.zeros_like(sums.bias)
    addends, rights = (none if each is None else each for each in (sums.addends, sums.rights))
    rows = np.stack([sums.bias, sums.multipliers, addends, rights], axis=1)
    return rows.reshape(-1).astype(np.int32)


@packed_once
def _plane_filters(weights: LinearWeights) -> Array:
    """Return, of each row of a filter, its columns 0, 1, 1, 2: two pairs."""
    filters = weights.matrix.reshape(-1, 3, 3)
    return np.ascontiguousarray(filters[..., (0, 1, 1, 2)]).reshape(-1)


@packed_once
def _plane_scales(weights: LinearWeights) -> npt.NDArray[np.int32]:
    sums = narrow_sums_of(weights)
    assert sums is not None, "the caller has found them"
    return plane_scales(sums)


def wide_depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    """Return the kernels of filters of at most 3x3, and of others: of the whole of a channel's
    plane, or of some rows.
    """
    sums = narrow_sums(form)
    if sums is None:
        return
    outputs: dict[str, Any] = {
        "shifted": sums.shifted,
        "out_min": sums.low,
        "out_max": sums.high,
        "scales": _plane_scales(form.packing),
    }
    yield from _three_by_three(form, outputs)
    for band, taps in tap_pairs(form):
        pairs = form.parameters(HilDspDepthwiseConv2dS16Pairs, dsp_tap_pairs=taps, **outputs)
        yield pairs.as_form(band)
    if (channels := channel_rows(form)) is not None:
        weights = channel_words(form.packing, order=(0, 1, 2, 3))
        yield HilDspDepthwiseConv2dS16Channels(channel_rows=channels, weights=weights, **outputs)


def _three_by_three(form: DepthwiseConvolution, outputs: Mapping[str, Any]) -> Iterator[Parameters]:
    widened = in_three_by_three(form)
    if widened is None:
        return
    form, images = widened, widened.images
    columns, line, beyond = plane_lines(form)
    for band, rows in row_bands((8, 2), images.out_h):
        yield form.parameters(
            HilDspDepthwiseConv2dS16Plane,
            stride=form.window.stride_w,
            columns=columns,
            line=line,
            beyond=beyond,
            rows=rows,
            weights=_plane_filters(form.packing),
            **outputs,
        ).as_form(band)
