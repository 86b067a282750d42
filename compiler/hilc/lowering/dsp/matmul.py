"""Fully connected layers and matrix products; convolutions are in the other modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.dsp.affine import BITS, range_of
from hilc.lowering.dsp.convolution import conv2d
from hilc.lowering.dsp.depthwise import depthwise
from hilc.lowering.dsp.packing import (
    PAIR,
    SMALL_WEIGHTS,
    UNIT,
    VECTOR_BLOCK,
    PackedColumns,
    affine_of_layer,
    affine_of_wide,
    channels_of,
    column_stream,
    form_of,
    packed_columns_of_layer,
    packed_streams,
    pair_words_of_layer,
    paired_weights,
    units_of,
    wide_weights,
)
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    linear_form,
    packed_once,
)
from hilc.lowering.parameters import (
    HilDspMatmulS8,
    HilDspMatmulS8ColumnPairs,
    HilDspMatmulS88Columns,
    HilDspMatvecS8,
    HilDspMatvecS8ColumnPairs,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounding_of
from hilc.lowering.v7m.conv2d import with_int32_multiplies

#: A single row's weights may take twice the room from this depth on, or up to so many: others are
#: most of the model, and the shallower a layer, the less of its time the products take.
_DEEP, _FEW_WEIGHTS = 256, 4096
#: Depth for which a column's weights stay in registers, columns up to which outputs of a column are
#: a step of an instruction apart, and rows at a time.
_EIGHT, _MOST_COLUMNS, _EIGHT_GROUPS = 8, 255, (128, 32)
#: Rows below which a kernel for single rows is better than one for three at a time.
_FEW_ROWS = 3


@lowers(*LINEAR, dtypes={"int8"}, requires={"dsp"}, lacks={"mve"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    yield from linear_calls(layer, rows=_rows, convolution=conv2d, depthwise=depthwise)
    if rounding_of(linear_form(layer).requantization) is Rounding.NEAREST_EVEN:
        # No line rounds ties to even.
        yield from with_int32_multiplies(layer)


def _rows(form: MatrixProduct) -> Iterable[Parameters]:
    return _matvec(form) if form.rows < _FEW_ROWS else _matmul(form)


def _matvec(form: MatrixProduct) -> Iterator[Parameters]:
    """Few rows."""
    yield from _matvec_pairs(form)
    packed = _vector(form.packing)
    if packed is None:
        return
    columns, bias, multipliers, shifts = packed
    # Without scratch it costs two instructions in sixteen.
    for widened in (1, 0):
        yield form.parameters(
            HilDspMatvecS8,
            units=units_of(form),
            part=columns.part,
            widened=widened,
            weights=columns.weights,
            bias=bias,
            multipliers=multipliers,
            shifts=shifts,
        ).as_form(columns.form, "widened" if widened else "")


@packed_once
def _vector(weights: LinearWeights) -> tuple[PackedColumns, Array, Array, Array] | None:
    """Return columns, biases, multipliers and shifts for single rows; None where they do not
    fit.
    """
    packed = packed_columns_of_layer(weights, VECTOR_BLOCK)
    if packed is None:
        return None
    channels = packed.channels
    if weights.requantization.per_channel:
        scales = [padded(each, VECTOR_BLOCK) for each in (channels.multipliers, channels.shifts)]
    else:
        scales = [channels.multipliers[:1], channels.shifts[:1]]
    return packed, packed.starts().reshape(-1).astype(np.int32), scales[0], scales[1]


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    """Three rows at a time, or two."""
    for pairs in packed_streams(form.packing):
        yield form.parameters(
            HilDspMatmulS8ColumnPairs,
            units=units_of(form),
            dsp_pairs=pairs,
            dsp_range=range_of(form.requantization),
        ).as_form(*form_of(pairs))
    if form.depth == _EIGHT and form.channels <= _MOST_COLUMNS:
        yield from _eight(form)
    packed = packed_columns_of_layer(form.packing, PAIR)
    words = pair_words_of_layer(form.packing, PAIR)
    if packed is not None and words is not None:
        yield form.parameters(
            HilDspMatmulS8,
            units=units_of(form),
            part=packed.part,
            weights=packed.weights,
            pairs=words,
        ).as_form(packed.form)


def _eight(form: MatrixProduct) -> Iterator[Parameters]:
    """Yield the kernel of rows of eight, of which there are many."""
    affine, stream = affine_of_layer(form.packing, False), _eight_stream(form.packing)
    if affine is None or stream is None:
        return
    for rows, group in limited(_EIGHT_GROUPS, form.rows):
        yield form.parameters(
            HilDspMatmulS88Columns,
            group=group,
            shift=affine.shift,
            stream=stream,
            dsp_range=range_of(form.requantization),
        ).as_form(rows)


@packed_once
def _eight_stream(weights: LinearWeights) -> Array | None:
    """Return weights and requantization column by column, as ``matmul_eight_s8.h`` draws them; None
    where channels have different shifts.
    """
    channels, affine = channels_of(weights), affine_of_layer(weights, False)
    if channels is None or affine is None or not affine.shared:
        return None
    # A column's units are all that it has: eight elements are two.
    matrix = wide_weights(channels.weights, 1).reshape(weights.channels, -1)
    lines = np.stack([affine.starts, affine.multipliers, affine.addends], axis=1)
    return np.concatenate([matrix, lines], axis=1).reshape(-1).astype(np.int32)


def _matvec_pairs(form: MatrixProduct) -> Iterator[Parameters]:
    """Yield the kernel for few rows with affine requantization, if it applies."""
    outputs = form.requantization
    affine = affine_of_wide(form.packing, True)
    if affine is None or not affine.shares_one_shift:
        return
    # Wide weights take twice the room and save an instruction in five.
    wide_too = form.depth >= _DEEP or form.weights.size <= _FEW_WEIGHTS
    narrow_exists = _vector_stream(form.packing, False) is not None
    for wide in (False, True) if wide_too or not narrow_exists else (False,):
        packed = _vector_stream(form.packing, wide)
        if packed is None or (not wide and form.weights.size <= SMALL_WEIGHTS):
            continue
        stream, lines = packed
        # Without scratch it costs five instructions in 32.
        for widened in (1, 0) if form.depth % UNIT == 0 else (1,):
            yield form.parameters(
                HilDspMatvecS8ColumnPairs,
                units=units_of(form),
                widened=widened,
                wide=int(wide),
                signs=int(affine.corrections is not None),
                shift=affine.shift,
                stream=stream,
                lines=lines,
                dsp_range=range_of(outputs),
            ).as_form("wide" if wide else "", "widened" if widened else "")


@packed_once
def _vector_stream(weights: LinearWeights, wide: bool) -> tuple[Array, Array] | None:
    """Return the packed columns for single rows and their lines; None where a pair of columns needs
    17 bits, or has sums that do not fit.
    """
    channels, affine = channels_of(weights), affine_of_wide(weights, True)
    assert channels is not None, "a layer that has an affine requantization has channels"
    assert affine is not None, "the caller has found it"
    packed: Array | None
    if wide:
        packed = wide_weights(channels.weights, VECTOR_BLOCK, affine.bits)
    else:
        packed = paired_weights(channels.weights, VECTOR_BLOCK) if affine.bits == BITS else None
    if packed is None:
        return None
    lines = column_stream(affine, np.zeros(0, np.int32), wide, VECTOR_BLOCK)
    # The kernel reads the starts of four columns more than there are.
    return packed.view(np.int32), np.concatenate([lines, np.zeros(VECTOR_BLOCK, np.int32)])
