"""LSTMs of integers: the gates of a unit are a block of four columns, of inputs and of states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hilc.lowering.dsp.packing import UNIT, VECTOR_BLOCK, paired_weights
from hilc.lowering.dsp.wide import vector_weights, whole_units
from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, GateSums, LstmForm, lstm_form
from hilc.lowering.parameters import HilDspLstm, HilDspLstmS8, HilDspLstmS16
from hilc.lowering.registry import Layer, lowers

#: What 256 times a sum may be, and what a sum times twice its shift to the left may be.
_PAIR_LIMIT, _LIMIT = 2**23, 2**30
#: To where products are shifted at most, to the right.
_MOST_RIGHT = 29


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def narrow(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of int8, with two weights in each half-word."""
    form = lstm_form(layer)
    both = form.inputs, form.hidden
    if not form.has_right_shifts or not all(_fits(sums) for sums in both):
        return
    units = [-(-sums.depth // UNIT) for sums in both]
    blocks = [_pairs(sums) for sums in both]
    lstm = _parameters(form, units, (both[0].multipliers, both[1].multipliers), blocks)
    if lstm is not None:
        parameters = HilDspLstmS8(
            dsp_lstm=lstm, in_shifts=form.inputs.shifts, hidden_shifts=form.hidden.shifts
        )
        yield KernelCall(parameters, TENSORS, form.macs)


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
            None if words is None else _with_bias(sums.column_bias, words)
            for sums, words in zip(both, weights, strict=True)
        ]
        lstm = _parameters(form, units, (inputs, hidden), blocks)
        if lstm is not None:
            yield KernelCall(HilDspLstmS16(dsp_lstm=lstm, wide=wide), TENSORS, form.macs)


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
        lstm_cell=form.cell,
        in_units=units[0],
        hidden_units=units[1],
        in_multipliers=multipliers[0],
        hidden_multipliers=multipliers[1],
        stream=np.concatenate(fitting, axis=1).reshape(-1),
    )


def _fits(sums: GateSums) -> bool:
    """Return whether sums of int8 become arguments of the gates as the kernels do it."""
    return all(
        shift >= -_MOST_RIGHT and sums.bound << max(shift, 0) < _LIMIT for shift in sums.shifts
    )


def _pairs(sums: GateSums) -> npt.NDArray[np.int32] | None:
    """Return a row for each unit: biases and weights of its gates; None where they do not fit."""
    pairs = paired_weights(sums.columns, VECTOR_BLOCK)
    if pairs is None or sums.bound >= _PAIR_LIMIT:
        return None
    bias = sums.column_bias
    first, second = bias.reshape(-1, 2).T
    words = pairs.view(np.int32).reshape(len(bias) // VECTOR_BLOCK, -1)
    return _with_bias(np.stack([first, first + 256 * second], axis=1), words)


def _with_bias(
    bias: npt.NDArray[np.int64], weights: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    rows = np.concatenate([bias.reshape(-1, VECTOR_BLOCK), weights], axis=1)
    return rows.astype(np.int32)
