"""Transposed convolutions as ordinary ones, one for each phase of the strides.

An output is covered by the windows of pixels whose distance from it is a tap's. With a stride of
``s`` these are every ``s``-th of the taps, the same for every ``s``-th output: a convolution of the
input with a filter of these taps, in reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hilc.ir import Array
from hilc.lowering.channels import sum_ends
from hilc.lowering.linear import LinearWeights, MatrixProduct, WideRequantization
from hilc.lowering.parameters import (
    HilImages,
    HilOutputRange,
    HilPhases,
    HilRequantization,
)
from hilc.lowering.registry import Layer, cached_per_layer
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import has_ties
from hilc.ops import linear, transpose_conv
from hilc.ops.geometry import Axis
from hilc.ops.linear import Operands, accumulator_bound


@dataclass(frozen=True)
class _Run:
    """The outputs of a phase along an axis."""

    first: int
    count: int
    #: The first input under the first window; may be outside.
    start: int
    #: Taps of the filter, in the order of the inputs.
    taps: Sequence[int]


@dataclass(frozen=True)
class Phase:
    """The outputs that are one convolution."""

    rows: _Run
    columns: _Run
    #: ``[output channels, products of a sum]``.
    weights: Array


@dataclass(frozen=True, eq=False)
class PhasesForm:
    """A transposed convolution, phase by phase."""

    ops: Operands
    images: HilImages
    channels: int
    filters: tuple[int, int]
    strides: tuple[int, int]
    #: Rows and columns of the output with all of its padding before those of this one.
    pads: tuple[int, int]
    phases: Sequence[Phase]
    macs: int

    @property
    def depth(self) -> int:
        """Products of a sum of the deepest phase."""
        return max(int(phase.weights.shape[1]) for phase in self.phases)

    def shape(self, packed: Sequence[Array], scales: int = 0) -> HilPhases:
        """Return the parameters common to all kernels: the position of a phase, of its weights
        among the ``packed`` ones, and ``scales`` words per phase.
        """
        places = np.cumsum([0, *(array.size for array in packed)])
        words = [
            (
                *(phase.rows.first, phase.rows.count, phase.rows.start, len(phase.rows.taps)),
                *(phase.columns.first, phase.columns.count),
                *(phase.columns.start, len(phase.columns.taps)),
                *(places[i], i * scales),
            )
            for i, phase in enumerate(self.phases)
            if phase.rows.count
        ]
        return HilPhases(
            images=self.images,
            out_c=self.channels,
            filter_h=self.filters[0],
            filter_w=self.filters[1],
            stride_h=self.strides[0],
            stride_w=self.strides[1],
            count=len(words),
            phases=np.array(words, np.int32).reshape(-1),
        )


def phases_form(layer: Layer, dtype: str) -> PhasesForm | None:
    """Return the form of a layer of type ``dtype``; None for other types, and where some outputs
    have no taps.
    """
    return _form(layer) if layer.out.dtype == dtype else None


@cached_per_layer
def _form(layer: Layer) -> PhasesForm | None:
    """Return the form of a layer; None where some outputs have no taps."""
    node, out = layer.node, layer.out
    ops, window = transpose_conv.layer_operands(node, layer.ins)
    h, w = window.h, window.w
    if h.stride > h.filter_size or w.stride > w.filter_size:
        return None
    # All parts of an image have the same weights, those of phases without rows among them.
    part = transpose_conv.TransposeConvAttributes.of(node).part is not None
    phases = [
        Phase(rows, columns, _weights(ops.weight_data, rows, columns))
        for rows in _runs(h, out.shape[1])
        if part or rows.count
        for columns in _runs(w, out.shape[2])
        if columns.count
    ]
    images = HilImages(
        batch=out.shape[0],
        in_h=h.out_size,
        in_w=w.out_size,
        in_c=ops.x.shape[3],
        out_h=out.shape[1],
        out_w=out.shape[2],
    )
    return PhasesForm(
        ops,
        images,
        out.shape[3],
        (h.filter_size, w.filter_size),
        (h.stride, w.stride),
        (h.pad_before, w.pad_before),
        phases,
        ops.x.size * out.shape[3] * h.filter_size * w.filter_size,
    )


def phase_outputs(layer: Layer, form: PhasesForm) -> list[HilRequantization]:
    """Return the requantization of each phase of an int8 layer."""
    requant = linear.channel_requantization(layer.node, form.ops, layer.out)
    zero_point = linear.pad_value(layer.node, form.ops)
    biases = [
        form.ops.bias_data - zero_point * phase.weights.astype(np.int64).sum(axis=1)
        for phase in form.phases
    ]
    # All phases have one policy.
    shifts = requant.shifts.astype(np.int32)
    ties = any(
        has_ties(
            requant.multipliers, shifts, *(bias + end for end in sum_ends(phase.weights))
        ).any()
        for bias, phase in zip(biases, form.phases, strict=True)
    )
    rounding = rounds(requant.rounding, ties, narrow=False)
    found = []
    for folded in biases:
        found.append(
            HilRequantization(
                output_range=HilOutputRange(
                    out_zero_point=requant.zero_point, out_min=requant.low, out_max=requant.high
                ),
                per_channel=int(requant.multipliers.size > 1),
                narrow=int(rounding),
                bias=folded.astype(np.int32),
                multipliers=requant.multipliers,
                shifts=requant.shifts,
            )
        )
    return found


def wide_phases(layer: Layer, form: PhasesForm) -> list[MatrixProduct]:
    """Return the phases of an int16 layer as products of rows with weights."""
    requant = linear.channel_requantization(layer.node, form.ops, layer.out)
    zero_point = linear.pad_value(layer.node, form.ops)
    most = -form.ops.x.element.bounds[0]
    found = []
    for phase in form.phases:
        bias = linear.fold_zero_point(phase.weights, form.ops.bias_data, zero_point, 0)
        bound = accumulator_bound(phase.weights, bias, most, 0)
        outputs = WideRequantization(requant, bias, bound)
        weights = LinearWeights(phase.weights, outputs, bias, zero_point)
        found.append(MatrixProduct(weights, form.macs, 1))
    return found


def _runs(axis: Axis, size: int) -> list[_Run]:
    """Return the phases of an axis of the output."""
    found = []
    for phase in range(axis.stride):
        taps = range(phase, axis.filter_size, axis.stride)
        # The first output whose place, counted from the first window, is of the phase.
        first = (phase - axis.pad_before) % axis.stride
        last_input = (first + axis.pad_before - phase) // axis.stride
        start = last_input - (len(taps) - 1)
        count = -(-max(0, size - first) // axis.stride)
        found.append(_Run(first, count, start, taps[::-1]))
    return found


def _weights(filters: Array, rows: _Run, columns: _Run) -> Array:
    chosen = filters[:, list(rows.taps)][:, :, list(columns.taps)]
    return np.ascontiguousarray(chosen.reshape(len(filters), -1))
