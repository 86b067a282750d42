"""Transposed convolutions, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.mve.conv_s16 import rows_of_s16
from hilc.lowering.mve.packing import (
    CHUNK,
    FARTHEST,
    LINES_BYTES,
    columns_of,
    is_full,
    line_pairs,
    linear_of,
)
from hilc.lowering.parameters import (
    HilMveTransposeConv2dS8,
    HilMveTransposeConv2dS8Rows,
    HilMveTransposeConv2dS16,
    HilRequantization,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounding_of
from hilc.lowering.transposed import PhasesForm, phase_outputs, phases_form, wide_phases
from hilc.ops import linear, transpose_conv

#: Columns of a phase's filter.
_TAPS = 3


@lowers("TRANSPOSE_CONV", requires={"mve"}, roundings=Rounding)
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of int8."""
    form = phases_form(layer, "int8")
    if form is None:
        return
    outputs = phase_outputs(layer, form)
    if outputs[0].shifts.max() >= 0 or rounding_of(outputs[0]) is Rounding.NEAREST_EVEN:
        return
    for rows in _rows(form, outputs, linear.pad_value(layer.node, form.ops)):
        yield KernelCall(rows, (transpose_conv.IMAGE,), form.macs)
    step = form.channels * form.strides[1]
    columns = [
        columns_of(phase.weights, own, step=2, distances=(step, 1))
        for phase, own in zip(form.phases, outputs, strict=True)
    ]
    whole = [each for each in columns if each is not None]
    if len(whole) < len(columns):
        return
    streams = [each.stream for each in whole]
    kernel = HilMveTransposeConv2dS8(
        phases=form.shape(streams),
        in_zero_point=linear.pad_value(layer.node, form.ops),
        mve_columns=replace(
            whole[0], chunks=-(-form.depth // CHUNK), stream=np.concatenate(streams)
        ),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)


def _rows(
    form: PhasesForm, outputs: list[HilRequantization], zero_point: int
) -> Iterator[HilMveTransposeConv2dS8Rows]:
    """Yield phases of up to three columns over some rows at a time, fewer in less scratch."""
    phases = [phase for phase in form.phases if phase.rows.count]
    in_c, count = form.images.in_c, form.channels
    widest = max(len(phase.columns.taps) for phase in form.phases)
    if not phases or widest > _TAPS or 3 * form.strides[1] * count + 1 > FARTHEST:
        return
    top = min(phase.rows.start for phase in phases)
    left = min(phase.columns.start for phase in phases)
    over = max(phase.rows.start + len(phase.rows.taps) for phase in phases) - top - 1
    beyond = max(phase.columns.start + len(phase.columns.taps) for phase in phases) - left - 1
    down = max(phase.rows.count for phase in phases)
    fours = -(-max(phase.columns.count for phase in phases) // 4)
    # The first pixel of four windows more is loaded where these have one tap or two.
    width, chunks = 4 * fours + beyond + 1, -(-in_c // CHUNK)
    streams = [
        line_pairs(
            phase.weights.reshape(count, len(phase.rows.taps), len(phase.columns.taps), in_c), own
        )
        for phase, own in zip(form.phases, outputs, strict=True)
    ]
    found: set[int] = set()
    for most in LINES_BYTES:
        fixed, of_line = CHUNK * chunks * width, 32 * fours
        fitting = min(down, (most - fixed * over) // (fixed + of_line))
        if fitting < 1:
            continue
        lines = -(-down // -(-down // fitting))
        if lines in found:
            continue
        found.add(lines)
        yield HilMveTransposeConv2dS8Rows(
            phases=form.shape(streams),
            in_zero_point=zero_point,
            top=top,
            left=left,
            down=down,
            lines=lines,
            planes=lines + over,
            chunks=chunks,
            fours=fours,
            width=width,
            any=int(not is_full(outputs[0])),
            linear=linear_of(outputs[0]),
            output_range=outputs[0].output_range,
            stream=np.concatenate(streams),
        ).as_form(f"{most}_bytes")


@lowers("TRANSPOSE_CONV", requires={"mve"}, roundings={Rounding.SINGLE, Rounding.NEAREST_EVEN})
def wide_transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of 16-bit activations."""
    form = phases_form(layer, "int16")
    if form is None:
        return
    phases = wide_phases(layer, form)
    columns = [rows_of_s16(phase) for phase in phases]
    whole = [each for each in columns if each is not None]
    if len(whole) < len(columns):
        return
    streams = [each.stream for each in whole]
    deepest = max(each.chunks for each in whole)
    kernel = HilMveTransposeConv2dS16(
        phases=form.shape(streams),
        in_zero_point=phases[0].pad_value,
        mve_columns_s16=replace(whole[0], chunks=deepest, stream=np.concatenate(streams)),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)
