"""LSTMs: the gates are columns of a vector's product, of integers each gate in whole eights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.fpu.lstm import float_lstm
from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, GateSums, LstmForm, lstm_form
from hilc.lowering.mve.conv_s16 import vector_stream
from hilc.lowering.mve.packing import (
    CHUNK,
    VECTOR_COLUMNS,
    wide_groups,
)
from hilc.lowering.parameters import HilMveLstm, HilMveLstmF32, HilMveLstmS8, HilMveLstmS16
from hilc.lowering.registry import Layer, lowers

#: Columns of floats next to each other for one row.
_SIXTEEN = 16


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8"}, requires={"mve"})
def narrow(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of int8."""
    form = lstm_form(layer)
    inputs, hidden = (_groups(sums) for sums in (form.inputs, form.hidden))
    if _shifts_all(form) and inputs is not None and hidden is not None:
        factors = (*form.inputs.factors, *form.hidden.factors)
        parameters = HilMveLstmS8(
            mve_lstm=_parameters(form, inputs, hidden),
            raised=int(any(factor.shift > 0 for factor in factors)),
        )
        yield KernelCall(parameters, TENSORS, form.macs)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int16"}, requires={"mve"})
def wide(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of int16."""
    form = lstm_form(layer)
    inputs, hidden = (_fours(sums) for sums in (form.inputs, form.hidden))
    if _shifts_all(form) and inputs is not None and hidden is not None:
        yield KernelCall(
            HilMveLstmS16(mve_lstm=_parameters(form, inputs, hidden)), TENSORS, form.macs
        )


@lowers(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    dtypes={"float32"},
    requires={"mve", "fpu"},
    roundings={Rounding.SINGLE},
)
def floats(layer: Layer) -> KernelCall:
    """Return the kernel of float32."""
    return float_lstm(layer, HilMveLstmF32, _SIXTEEN)


def _shifts_all(form: LstmForm) -> bool:
    """Return whether all products of gates are shifted to the right."""
    factors = (form.factors.forget, form.factors.update, form.factors.output)
    return form.has_right_shifts and all(factor.shift < 0 for factor in factors)


def _parameters(
    form: LstmForm, inputs: npt.NDArray[np.int8], hidden: npt.NDArray[np.int8]
) -> HilMveLstm:
    return HilMveLstm(
        lstm=form.shape,
        lstm_cell=form.cell,
        eights=-(-form.shape.units // VECTOR_COLUMNS),
        in_chunks=-(-form.inputs.depth // CHUNK),
        hidden_chunks=-(-form.hidden.depth // CHUNK),
        in_stream=inputs,
        hidden_stream=hidden,
    )


def _eights(of_gates: Array) -> Array:
    """Return ``[gates, units, ...]`` gate after gate, units padded to a multiple of eight."""
    whole = padded(of_gates.swapaxes(0, 1), VECTOR_COLUMNS).swapaxes(0, 1)
    return np.ascontiguousarray(whole).reshape(-1, *whole.shape[2:])


def _groups(sums: GateSums) -> npt.NDArray[np.int8] | None:
    return wide_groups(_eights(sums.weights), _eights(sums.bias), sums.factors, sums.bound)


def _fours(sums: GateSums) -> npt.NDArray[np.int8] | None:
    """Return fours of columns, as ``mve/blocks_s16.h`` draws them; None where they do not fit."""
    multipliers = sums.scaled_multipliers()
    if multipliers is None or any(multiplier % 2 for multiplier in multipliers):
        return None
    weights, bias = _eights(sums.weights), _eights(sums.bias)
    halves = np.repeat(np.array(multipliers, np.int64) // 2, len(bias) // len(multipliers))
    return vector_stream(weights, bias, halves)
