"""Linear layers: matrix products here, windows in the modules beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.channels import padded
from hilc.lowering.dsp.affine import affine_of, range_of, require_right_shifts
from hilc.lowering.dsp.convolution import conv2d
from hilc.lowering.dsp.depthwise import depthwise
from hilc.lowering.dsp.packing import (
    PAIR,
    SMALL_WEIGHTS,
    UNIT,
    VECTOR_BLOCK,
    column_stream,
    form_of,
    packed_columns,
    pair_words,
    paired_weights,
    streams_of,
    units_of,
    wide_weights,
)
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    MatrixProduct,
    linear_calls,
    linear_form,
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

#: Depth from which a single row's weights may take twice the room. They are most of such a model,
#: and the shallower the layer, the less of its time the products take.
_DEEP = 256
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
    outputs = form.requantization
    packed = packed_columns(form.weights, outputs, VECTOR_BLOCK)
    if packed is None:
        return
    channels, weights, bias = packed
    multipliers, shifts = channels.multipliers, channels.shifts
    # Without scratch it costs two instructions in sixteen.
    for widened in (1, 0):
        yield HilDspMatvecS8(
            rows=form.rows,
            depth=form.depth,
            units=units_of(form),
            columns=form.channels,
            widened=widened,
            output_range=outputs.output_range,
            per_channel=outputs.per_channel,
            weights=weights,
            bias=bias.reshape(-1).astype(np.int32),
            multipliers=padded(multipliers, VECTOR_BLOCK)
            if outputs.per_channel
            else multipliers[:1],
            shifts=padded(shifts, VECTOR_BLOCK) if outputs.per_channel else shifts[:1],
        ).as_form("widened" if widened else "")


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    """Three rows at a time, or two."""
    for pairs in streams_of(form.weights, form.requantization):
        yield HilDspMatmulS8ColumnPairs(
            rows=form.rows,
            depth=form.depth,
            units=units_of(form),
            columns=form.channels,
            dsp_pairs=pairs,
            dsp_range=range_of(form.requantization),
        ).as_form(*form_of(pairs))
    if form.depth == _EIGHT and form.channels <= _MOST_COLUMNS:
        yield from _eight(form)
    outputs = form.requantization
    packed = packed_columns(form.weights, outputs, PAIR)
    if packed is not None:
        yield HilDspMatmulS8(
            rows=form.rows,
            depth=form.depth,
            units=units_of(form),
            columns=form.channels,
            output_range=outputs.output_range,
            weights=packed[1],
            pairs=pair_words(*packed),
        )


def _eight(form: MatrixProduct) -> Iterator[Parameters]:
    """Yield the kernel of rows of eight, of which there are many."""
    channels = require_right_shifts(form.weights, form.requantization)
    affine = None if channels is None else affine_of(channels, form.requantization)
    if channels is None or affine is None or not affine.shared:
        return
    # A column's units are all that it has: eight elements are two.
    weights = wide_weights(channels.weights, 1).reshape(form.channels, -1)
    lines = np.stack([affine.starts, affine.multipliers, affine.addends], axis=1)
    for rows, group in limited(_EIGHT_GROUPS, form.rows):
        yield HilDspMatmulS88Columns(
            rows=form.rows,
            columns=form.channels,
            group=group,
            shift=affine.shift,
            stream=np.concatenate([weights, lines], axis=1).reshape(-1).astype(np.int32),
            dsp_range=range_of(form.requantization),
        ).as_form(rows)


def _matvec_pairs(form: MatrixProduct) -> Iterator[Parameters]:
    """Yield the kernel of few rows that requantizes by a line, where it serves."""
    outputs = form.requantization
    channels = require_right_shifts(form.weights, outputs)
    affine = None if channels is None else affine_of(channels, outputs, signs=True)
    if channels is None or affine is None or not affine.shares_one_shift:
        return
    packed = paired_weights(channels.weights, VECTOR_BLOCK)
    # Wide weights take twice the room and save an instruction in five.
    small = form.weights.size <= SMALL_WEIGHTS
    kinds = [False] if packed is not None and not small else []
    kinds += [True] if packed is None or small or form.depth >= _DEEP else []
    for wide in kinds:
        weights = wide_weights(channels.weights, VECTOR_BLOCK) if wide else packed
        assert weights is not None
        stream = column_stream(affine, weights.view(np.int32), wide, VECTOR_BLOCK)
        # Without scratch it costs five instructions in 32.
        for widened in (1, 0) if form.depth % UNIT == 0 else (1,):
            yield HilDspMatvecS8ColumnPairs(
                rows=form.rows,
                depth=form.depth,
                units=units_of(form),
                columns=form.channels,
                widened=widened,
                wide=int(wide),
                signs=int(affine.corrections is not None),
                shift=affine.shift,
                stream=stream,
                dsp_range=range_of(outputs),
            ).as_form("wide" if wide else "", "widened" if widened else "")
