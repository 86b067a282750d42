"""Linear layers on cores with Thumb code of 16 bits alone, as Cortex-M0 (``kernels/v6m``): nine
rows share what is loaded of a column of weights, or nine columns what is loaded of a row.

What the kernels ask for, and what is checked here for each layer:

* of no part of a column does the sum leave its bits, whatever the inputs: parts are cut so;
* multipliers in pieces whose products stay in 32 bits, each output of each channel being the same,
  whatever the sum: TensorFlow Lite's second rounding, away from zero, takes a little from negative
  products, which have an addend of their own where one for all is not exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import Channels, channels_of, once_for_channels
from hilc.lowering.forms import row_bands
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    packed_once,
    with_zero_taps,
)
from hilc.lowering.parameters import (
    HilV6mColumns,
    HilV6mConv2dS8,
    HilV6mConv2dS8Packed,
    HilV6mDepthwiseConv2dS8Triples,
    HilV6mDepthwiseConv2dS83x3,
    HilV6mMatmulS8,
    HilV6mMatmulS8Packed,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.v7m.conv2d import longest_part

#: Pieces of a multiplier, bits of each, and whether negative products have an addend of their own:
#: the fastest first.
_WAYS = tuple((*pieces, turns) for pieces in ((2, 12), (3, 10), (3, 8)) for turns in (False, True))
#: Rows at a time: many, which is faster, or few, with a third of the scratch.
_TILES = (9, 3)
#: Elements of a row that a stream's code has at most.
_STREAM_DEPTH = 64
#: Columns at a time, and where the fields of three columns begin in two words.
_NINE, _FIELD_C, _FIELD_B, _FIELD_TWO = 9, 11, 21, 22
#: Offset of outputs in kernels, and of inputs in the depthwise kernel's rows.
_RAISED = 128
#: Rows of outputs that it computes at a time where memory is short.
_BAND = 4
#: Rows of outputs at a time if three rows share words.
_TRIPLE_BAND = 12
#: Exclusive bound of products and sums.
_WORD = 2**31
#: The largest shift of which the range of outputs leaves room in a word.
_MAX_SHIFT = 23
#: Number of shifts that are tried for each channel.
_SHIFTS = 4
#: A bound that is none.
_ANY = 2**62
#: Offsets that are tried for a multiplier that is not exact.
_NUDGES = (0, 1, -1, 2, -2, 3, -3)


@lowers(*LINEAR, dtypes={"int8"}, requires={"thumb1"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    return linear_calls(layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise)


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    for columns in _columns(form.packing):
        yield form.parameters(HilV6mMatmulS8, v6m_columns=columns).as_form(f"{columns.tile}_rows")
    stream = _stream(form.packing)
    if stream is not None:
        yield form.parameters(HilV6mMatmulS8Packed, stream=stream)


def _conv2d(form: Convolution) -> Iterator[Parameters]:
    for columns in _columns(form.packing):
        yield form.parameters(HilV6mConv2dS8, v6m_columns=columns).as_form(f"{columns.tile}_rows")
    stream = _stream(form.packing)
    if stream is not None:
        yield form.parameters(HilV6mConv2dS8Packed, stream=stream)


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    """Yield kernels for filters of at most 3x3: of all rows at a time, and of few."""
    widened = with_zero_taps(form)
    if widened is None:
        return
    form, images = widened, widened.images
    line = (images.out_w - 1) * form.window.stride_w + 3
    triples = _triples(form.packing)
    if triples is not None:
        weights, scales = triples
        for rows, band in row_bands((_TRIPLE_BAND,), images.out_h):
            yield form.parameters(
                HilV6mDepthwiseConv2dS8Triples,
                band=band,
                line=line,
                weights=weights,
                scales=scales,
            ).as_form(rows)
    raised = _raised_filters(form.packing)
    if raised is None:
        return
    weights, outputs = raised
    for rows, band in row_bands((_BAND,), images.out_h):
        yield form.parameters(
            HilV6mDepthwiseConv2dS83x3,
            band=band,
            line=line,
            weights=weights,
            **outputs,
        ).as_form(rows)


@packed_once
def _triples(layer: LinearWeights) -> tuple[Array, Array] | None:
    """Return filters and scales for three rows in a word; None where that is not exact."""
    channels = channels_of(layer.matrix, layer.requantization)
    scales = _fast_scales(channels)
    return None if scales is None else (channels.weights.reshape(-1), scales.reshape(-1))


@packed_once
def _raised_filters(layer: LinearWeights) -> tuple[Array, _Outputs] | None:
    """Return filters and how sums of raised inputs become outputs; None where that is not exact."""
    channels = channels_of(layer.matrix, layer.requantization, raised=_RAISED)
    outputs = _outputs(channels)
    return None if outputs is None else (channels.weights.reshape(-1), outputs)


@packed_once
def _columns(layer: LinearWeights) -> list[HilV6mColumns]:
    """Return the weights and scales of each number of rows at a time, if there are exact ones."""
    channels = channels_of(layer.matrix, layer.requantization)
    outputs = _outputs(channels)
    if outputs is None:
        return []
    part, weights = longest_part(channels.weights, 0), channels.weights.reshape(-1)
    return [HilV6mColumns(tile=tile, part=part, weights=weights, **outputs) for tile in _TILES]


@packed_once
def _stream(layer: LinearWeights) -> npt.NDArray[np.int32] | None:
    """Return weights and scales in the layout of ``stream_s8.h``; None for unsupported layers."""
    channels = channels_of(layer.matrix, layer.requantization)
    count, depth = channels.weights.shape
    if depth > _STREAM_DEPTH or longest_part(channels.weights, 0) < depth:
        return None
    scales = _fast_scales(channels)
    if scales is None:
        return None
    triples = -(-count // 3)
    weights = np.zeros((3 * triples, depth), np.int64)
    weights[:count] = channels.weights
    a, b, c = weights.reshape(triples, 3, depth).transpose(1, 0, 2)
    words = np.stack([a + (c << _FIELD_C) + (b << _FIELD_B), b + (c << _FIELD_TWO)], axis=-1)
    # Of a channel the middle and the high piece, the bias, the shift.
    kept = scales[:, [1, 2, 3, 6]]
    parts = []
    for column in range(0, count, 3):
        if column % _NINE == 0 and count - column >= _NINE:
            nine = words[column // 3 : column // 3 + 3].transpose(1, 0, 2)
            parts += [nine.reshape(-1), kept[column : column + _NINE].reshape(-1)]
        elif column >= count - count % _NINE:
            parts += [words[column // 3].reshape(-1), kept[column : column + 3].reshape(-1)]
    return np.concatenate(parts).astype(np.uint32).view(np.int32)


def _fast_scales(channels: Channels) -> npt.NDArray[np.int32] | None:
    """Return the scales of the fastest way, if it is exact and every value of int8 is an output:
    the only one that kernels with their outputs in assembly have.
    """
    if (channels.range.out_min, channels.range.out_max) != (-_RAISED, _RAISED - 1):
        return None
    return piecewise_scales(channels, *_WAYS[0])


class _Outputs(TypedDict):
    """Fields of each kernel that say how sums become outputs."""

    pieces: int
    bits: int
    turns: int
    out_min: int
    out_max: int
    scales: npt.NDArray[np.int32]


def _outputs(channels: Channels) -> _Outputs | None:
    """Return the fastest way that is exact; None if there is none."""
    for pieces, bits, turns in _WAYS:
        scales = piecewise_scales(channels, pieces, bits, turns)
        if scales is not None:
            return {
                "pieces": pieces,
                "bits": bits,
                "turns": int(turns),
                "out_min": channels.range.out_min,
                "out_max": channels.range.out_max,
                "scales": scales.reshape(-1),
            }
    return None


@once_for_channels
def piecewise_scales(
    channels: Channels, pieces: int, bits: int, turns: bool
) -> npt.NDArray[np.int32] | None:
    """``[channels, 7]`` as ``hil_v6m_output`` takes them; None where that is not exact for every
    sum of every channel.

    Both ways are monotone, so it is enough that they reach each output at the same sum.
    """
    lowest, highest = (end[:, np.newaxis] for end in channels.ends)
    if max(-lowest.min(), highest.max()) >= _WORD >> bits:
        return None
    # The sums before and at which outputs change, and the raised outputs that these must have.
    levels = np.arange(channels.range.out_min, channels.range.out_max + 1)
    least, most = channels.outputs(np.hstack([lowest, highest])).T[..., np.newaxis]
    changes = (levels > least) & (levels <= most)
    begins = channels.first_sums(levels)
    at_least = _Bound(
        np.hstack([begins, lowest]),
        np.hstack([np.broadcast_to(levels, begins.shape), least]) + _RAISED,
        np.hstack([changes, least > channels.range.out_min]),
    )
    below = _Bound(
        np.hstack([begins - 1, highest]),
        np.hstack([np.broadcast_to(levels, begins.shape), most + 1]) + _RAISED,
        np.hstack([changes, most < channels.range.out_max]),
    )
    real = np.ldexp(channels.multipliers.astype(np.float64), -31 - channels.right)
    lower_bits = bits * (pieces - 1)
    largest_shift = np.minimum(bits - np.frexp(real)[1], _MAX_SHIFT)
    found = np.zeros((len(real), 5), np.int64)
    is_open = np.ones(len(real), bool)
    # A shift less where an addend or the multiplier does not fit.
    for shift in (largest_shift - less for less in range(_SHIFTS)):
        nominal = np.rint(np.ldexp(real, shift + lower_bits)).astype(np.int64)
        unit = np.left_shift(1, np.maximum(shift, 0))
        for factor in (nominal + nudge for nudge in _NUDGES):
            multiply = _Multiply(factor, lower_bits, channels.bias * factor >> lower_bits)
            exact = (2 * (channels.range.out_zero_point + _RAISED) + 1) * unit >> 1
            positive, fits = _addend(multiply, at_least, below, unit, exact, turns, False)
            negative = positive
            if turns:
                negative, fits_too = _addend(multiply, at_least, below, unit, exact, True, True)
                fits &= fits_too & (negative <= positive)
            largest = np.maximum(np.abs(positive), np.abs(negative)) + np.abs(multiply.bias)
            reach = np.maximum(np.abs(multiply(lowest)), np.abs(multiply(highest)))[:, 0]
            fits &= is_open & (shift >= 0) & (factor >= 0) & (factor < 1 << bits * pieces)
            fits &= (largest < _WORD) & (largest + reach < _WORD)
            row = np.stack([factor, multiply.bias, positive, negative - positive, shift], axis=1)
            found[fits] = row[fits]
            is_open &= ~fits
    if is_open.any():
        return None
    factor, bias, positive, turn, shift = found.T
    if not turns:
        bias, positive = bias + positive, turn
    mask = (1 << bits) - 1
    low = factor & mask if pieces == 3 else np.zeros_like(factor)
    middle, high = factor >> (lower_bits - bits) & mask, factor >> lower_bits
    words = [low, middle, high, bias, positive, turn, shift]
    return np.stack(words, axis=1).astype(np.int32)


@dataclass(frozen=True)
class _Bound:
    """Sums ``[channels, n]``, outputs that they must reach or stay below, and which of them
    count.
    """

    sums: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]
    holds: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Multiply:
    """The products of sums as the kernel computes them, channel by channel."""

    factor: npt.NDArray[np.int64]
    bits: int
    #: Addend that includes the bias in a product, up to truncation.
    bias: npt.NDArray[np.int64]

    def __call__(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return sums * self.factor[:, np.newaxis] >> self.bits

    def with_bias(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return self(sums) + self.bias[:, np.newaxis]


def _addend(
    multiply: _Multiply,
    at_least: _Bound,
    below: _Bound,
    unit: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    turns: bool,
    negative: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return what is added to products with bias, as near to ``exact`` as it may be, and of which
    channels it gives each output; with ``turns`` for the negative products or the others alone.
    """

    def limits(bound: _Bound, none: int) -> npt.NDArray[np.int64]:
        products = multiply.with_bias(bound.sums)
        counts = bound.holds & ((products < 0) == negative) if turns else bound.holds
        return np.where(counts, bound.outputs * unit[:, np.newaxis] - products, none)

    enough, limit = limits(at_least, -_ANY).max(axis=1), limits(below, _ANY).min(axis=1)
    return np.clip(exact, enough, limit - 1), enough < limit
