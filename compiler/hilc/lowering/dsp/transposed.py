"""Transposed convolutions, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.dsp.conv_s16 import Sums, form_words, wide_stream
from hilc.lowering.dsp.packing import PAIR, UNIT, packed_columns
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDspColumnsS16,
    HilDspTransposeConv2dS8,
    HilDspTransposeConv2dS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.sums32 import long_sums_of, narrow_sums_of
from hilc.lowering.transposed import phase_outputs, phases_form, wide_phases
from hilc.ops import linear, transpose_conv

#: Windows of int16 at a time.
_GROUP = 8


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
