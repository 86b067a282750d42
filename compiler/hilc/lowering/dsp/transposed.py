"""Transposed convolutions, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hilc.ir import Array, Rounding
from hilc.lowering.dsp.affine import affine_of, range_of, require_right_shifts
from hilc.lowering.dsp.conv_s16 import Sums, form_words, wide_stream
from hilc.lowering.dsp.packing import PAIR, UNIT, column_stream, packed_columns, wide_weights
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDspColumnsS16,
    HilDspPairs,
    HilDspTransposeConv2dS8,
    HilDspTransposeConv2dS8ColumnPairs,
    HilDspTransposeConv2dS16,
    HilRequantization,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.sums32 import long_sums_of, narrow_sums_of
from hilc.lowering.transposed import Phase, PhasesForm, phase_outputs, phases_form, wide_phases
from hilc.ops import linear, transpose_conv

#: Windows of int16 at a time.
_GROUP = 8


@lowers("TRANSPOSE_CONV", requires={"dsp"}, lacks={"mve"}, roundings=Rounding)
def in_column_pairs(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel by pairs of columns, whose phases share the widened pixels."""
    form = phases_form(layer, "int8")
    if form is None or min(form.pads) < 0:
        return
    filters, strides = np.array(form.filters), np.array(form.strides)
    if len(form.phases) < strides.prod():
        return
    outputs = phase_outputs(layer, form)
    pairs = _column_pairs(form, outputs)
    if pairs is None:
        return
    pixels = int((-(-filters // strides)).prod())
    kernel = HilDspTransposeConv2dS8ColumnPairs(
        images=form.images,
        out_c=form.channels,
        filter_h=form.filters[0],
        filter_w=form.filters[1],
        stride_h=form.strides[0],
        stride_w=form.strides[1],
        pad_top=form.pads[0],
        pad_left=form.pads[1],
        units=pixels * -(-form.images.in_c // UNIT),
        dsp_pairs=pairs,
        border=np.full(form.images.in_c, linear.pad_value(layer.node, form.ops), np.int8),
        dsp_range=range_of(outputs[0]),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)


def _column_pairs(form: PhasesForm, outputs: Sequence[HilRequantization]) -> HilDspPairs | None:
    """Return the columns of all phases, one phase after the other; None where they have no
    requantization by one kind of line.
    """
    depth = form.depth
    matrix = np.concatenate(
        [np.pad(each.weights, ((0, 0), (0, depth - each.weights.shape[1]))) for each in form.phases]
    )
    times = len(outputs) if outputs[0].per_channel else 1
    joined = replace(
        outputs[0],
        bias=np.concatenate([each.bias for each in outputs]),
        multipliers=np.tile(outputs[0].multipliers, times),
        shifts=np.tile(outputs[0].shifts, times),
    )
    channels = require_right_shifts(matrix, joined)
    affine = None if channels is None else affine_of(channels, joined, signs=True, least_bits=0)
    if channels is None or affine is None:
        return None
    streams = []
    for i, phase in enumerate(form.phases):
        own = slice(i * form.channels, (i + 1) * form.channels)
        taps = channels.weights[own, : phase.weights.shape[1]]
        weights = wide_weights(_in_order(taps, form, phase), PAIR, affine.bits)
        streams.append(column_stream(affine.of(own), weights, wide=True, within=True))
    return HilDspPairs(
        group=2,
        wide=1,
        signs=int(affine.corrections is not None),
        shift=affine.shift,
        stream=np.concatenate(streams),
    )


def _in_order(weights: Array, form: PhasesForm, phase: Phase) -> Array:
    """Return the weights of a phase in the order in which
    ``dsp/transpose_conv2d_s8_column_pairs.h`` has the pixels, which end with whole units.
    """
    rows, columns = len(phase.rows.taps), len(phase.columns.taps)
    common_h, common_w = (f // s for f, s in zip(form.filters, form.strides, strict=True))
    blocks = [
        (range(common_h, rows), range(common_w)),
        (range(common_h), range(common_w)),
        (range(common_h), range(common_w, columns)),
        (range(common_h, rows), range(common_w, columns)),
    ]
    # Pixels lie in scratch as in the image, taps in the order of the pixels.
    order = [
        (rows - 1 - y) * columns + (columns - 1 - x)
        for ys, xs in blocks
        for y in reversed(ys)
        for x in reversed(xs)
    ]
    taps = weights.reshape(len(weights), rows * columns, -1)[:, order]
    filled = np.pad(taps, ((0, 0), (0, 0), (0, -taps.shape[2] % UNIT)))
    return filled.reshape(len(weights), -1)


@lowers("TRANSPOSE_CONV", requires={"dsp"}, lacks={"mve"})
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel by pairs of half-words."""
    form = phases_form(layer, "int8")
    if form is None:
        return
    outputs = phase_outputs(layer, form)
    packed = [
        packed_columns(phase.weights, own, PAIR)
        for phase, own in zip(form.phases, outputs, strict=True)
    ]
    whole = [each for each in packed if each is not None]
    if len(whole) < len(packed):
        return
    # One part for all phases; those of no more depth have a single one.
    part = max(each.units for each in whole)
    if divided := [each.part for each in whole if each.part < each.units]:
        part = min(divided)
        others = (each.channels for each in whole if each.units > part)
        if not all(channels.holds_parts(part, UNIT) for channels in others):
            return
    weights = [each.weights for each in whole]
    pairs = [replace(each, part=part).pair_words() for each in whole]
    kernel = HilDspTransposeConv2dS8(
        phases=form.shape(weights, pairs[0].size),
        units=-(-form.depth // UNIT),
        part=part,
        in_zero_point=linear.pad_value(layer.node, form.ops),
        output_range=outputs[0].output_range,
        weights=np.concatenate(weights),
        pairs=np.concatenate(pairs),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)


@lowers(
    "TRANSPOSE_CONV",
    requires={"dsp"},
    lacks={"mve"},
    roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN},
)
def wide_transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of 16-bit activations, with weights of 16 bits and of 8."""
    form = phases_form(layer, "int16")
    if form is None:
        return
    phases = wide_phases(layer, form)
    sums: list[Sums | None] = [narrow_sums_of(phase.packing) for phase in phases]
    if None in sums:
        sums = [long_sums_of(phase.packing) for phase in phases]
    for wide in (1, 0):
        streams = [
            wide_stream(phase.weights, own, wide)
            for phase, own in zip(phases, sums, strict=True)
            if own is not None
        ]
        forms = {own.shifted for own in sums if own is not None}
        if len(streams) < len(phases) or sums[0] is None or len(forms) > 1:
            return
        columns = HilDspColumnsS16(
            units=-(-form.depth // UNIT),
            columns=form.channels,
            group=_GROUP,
            wide=wide,
            shifted=sums[0].shifted,
            long_sums=sums[0].long_sums,
            out_min=sums[0].low,
            out_max=sums[0].high,
            stream=np.concatenate(streams),
        )
        kernel = HilDspTransposeConv2dS16(
            phases=form.shape(streams),
            in_zero_point=phases[0].pad_value,
            dsp_columns_s16=columns,
        ).as_form(*form_words(wide, sums[0]))
        yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)
