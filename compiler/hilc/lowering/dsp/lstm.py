"""LSTMs of integers: the gates of a unit are a block of four columns, of inputs and of states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hilc.lowering.dsp.conv_s16 import vector_weights, whole_units
from hilc.lowering.dsp.packing import (
    UNIT,
    VECTOR_BLOCK,
    fits_pairs,
    paired_blocks,
    wide_weights,
    with_bias,
)
from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, GateSums, LstmForm, lstm_form
from hilc.lowering.parameters import HilDspLstm, HilDspLstmS8, HilDspLstmS16
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.interpolate import SIGNED_SIGMOID
from hilc.ops.lstm import GATES

#: Weights up to which twice the room for them is less than other libraries take for their code; and
#: steps from which it saves an instruction a byte, a third in each.
_FEW_WEIGHTS, _MANY_STEPS = 2**16, 3
#: Of each step of the logistic function's table its rise, and less the value where it begins.
_STEPS = np.stack([np.diff(SIGNED_SIGMOID), -SIGNED_SIGMOID[:-1]], axis=1).reshape(-1)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def narrow(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of int8: with weights of 16 bits, and with two of 8 in each half-word."""
    form = lstm_form(layer)
    both = form.inputs, form.hidden
    if not form.has_right_shifts or not all(fits_pairs(s.bound, s.shifts) for s in both):
        return
    units = [-(-sums.depth // UNIT) for sums in both]
    few = sum(sums.weights.size for sums in both) <= _FEW_WEIGHTS
    for wide in (1, 0) if few or form.shape.steps >= _MANY_STEPS else (0,):
        blocks = [
            _wide_blocks(sums) if wide else paired_blocks(sums.columns, sums.column_bias)
            for sums in both
        ]
        lstm = _parameters(form, units, (both[0].multipliers, both[1].multipliers), blocks)
        if lstm is not None:
            kernel = HilDspLstmS8(
                dsp_lstm=lstm,
                in_shifts=form.inputs.shifts,
                hidden_shifts=form.hidden.shifts,
                wide=wide,
            ).as_form("wide" if wide else "")
            yield KernelCall(kernel, TENSORS, form.macs)


def _wide_blocks(sums: GateSums) -> npt.NDArray[np.int32]:
    """Return twice the biases and the weights of each unit's gates, a row for each."""
    words = wide_weights(sums.columns, VECTOR_BLOCK, 1).reshape(len(sums.columns) // len(GATES), -1)
    return with_bias(2 * sums.column_bias, words)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int16"}, requires={"dsp"}, lacks={"mve"})
def wide(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernels of int16: with weights of 16 bits, and with two of 8 in each half-word."""
    form = lstm_form(layer)
    both = form.inputs, form.hidden
    inputs, hidden = (sums.scaled_multipliers() for sums in both)
    if not form.has_right_shifts or inputs is None or hidden is None:
        return
    units = [whole_units(sums.depth) for sums in both]
    for wide in (1, 0):
        weights = [
            vector_weights(sums.columns, count, wide)
            for sums, count in zip(both, units, strict=True)
        ]
        blocks = [
            None if words is None else with_bias(sums.column_bias, words)
            for sums, words in zip(both, weights, strict=True)
        ]
        lstm = _parameters(form, units, (inputs, hidden), blocks)
        if lstm is not None:
            kernel = HilDspLstmS16(dsp_lstm=lstm, wide=wide).as_form("wide" if wide else "")
            yield KernelCall(kernel, TENSORS, form.macs)


def _parameters(
    form: LstmForm,
    units: Sequence[int],
    multipliers: tuple[tuple[int, ...], tuple[int, ...]],
    blocks: Sequence[npt.NDArray[np.int32] | None],
) -> HilDspLstm | None:
    """Return the fields that both have; None where weights do not fit."""
    fitting = [block for block in blocks if block is not None]
    if len(fitting) < len(blocks):
        return None
    return HilDspLstm(
        lstm=form.shape,
        lstm_cell=replace(form.cell, table=_STEPS),
        in_units=units[0],
        hidden_units=units[1],
        in_multipliers=multipliers[0],
        hidden_multipliers=multipliers[1],
        stream=np.concatenate(fitting, axis=1).reshape(-1),
    )
