"""Transposed convolutions, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.mve.conv_s16 import rows_of_s16
from hilc.lowering.mve.packing import CHUNK, columns_of
from hilc.lowering.parameters import HilMveTransposeConv2dS8, HilMveTransposeConv2dS16
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounding_of
from hilc.lowering.transposed import phase_outputs, phases_form, wide_phases
from hilc.ops import linear, transpose_conv


@lowers("TRANSPOSE_CONV", requires={"mve"}, roundings=Rounding)
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel by rows of int8."""
    form = phases_form(layer, "int8")
    if form is None:
        return
    outputs = phase_outputs(layer, form)
    if outputs[0].shifts.max() >= 0 or rounding_of(outputs[0]) is Rounding.NEAREST_EVEN:
        return
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
