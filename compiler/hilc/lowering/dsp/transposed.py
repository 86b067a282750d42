"""Transposed convolutions of int8, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.lowering.dsp.packing import PAIR, UNIT, packed_columns, pair_words
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilDspTransposeConv2dS8
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.transposed import phase_outputs, phases_form
from hilc.ops import linear, transpose_conv


@lowers("TRANSPOSE_CONV", requires={"dsp"}, lacks={"mve"})
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel by pairs of half-words."""
    form = phases_form(layer)
    if form is None or layer.out.dtype != "int8":
        return
    outputs = phase_outputs(layer, form)
    packed = [
        packed_columns(phase.weights, own, PAIR)
        for phase, own in zip(form.phases, outputs, strict=True)
    ]
    whole = [each for each in packed if each is not None]
    if len(whole) < len(packed):
        return
    weights = [each[1] for each in whole]
    pairs = [pair_words(*each) for each in whole]
    kernel = HilDspTransposeConv2dS8(
        phases=form.shape(weights, pairs[0].size),
        units=-(-form.depth // UNIT),
        in_zero_point=linear.pad_value(layer.node, form.ops),
        output_range=outputs[0].output_range,
        weights=np.concatenate(weights),
        pairs=np.concatenate(pairs),
    )
    yield KernelCall(kernel, (transpose_conv.IMAGE,), form.macs)
