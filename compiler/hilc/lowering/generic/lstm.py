"""UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hilc.lowering.kernels import KernelCall
from hilc.lowering.lstm import TENSORS, float_clip, gates, lstm_form, lstm_shape
from hilc.lowering.parameters import HilGenericLstmF32, HilGenericLstmS8, HilGenericLstmS16
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import FixedPoint, reduced_multiplier, reduced_shift
from hilc.ops.lstm import BIASES, HIDDEN_WEIGHTS, IN_WEIGHTS, X


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8", "int16"})
def integers(layer: Layer) -> KernelCall:
    """Return the kernel of any core for integers."""
    form = lstm_form(layer)
    inputs, hidden = form.inputs, form.hidden
    if layer.operand(X).element.symmetric:
        wide = HilGenericLstmS16(
            lstm=form.shape,
            lstm_cell=form.cell,
            in_multipliers=_reduced(inputs.factors),
            in_shifts=_right(inputs.factors),
            hidden_multipliers=_reduced(hidden.factors),
            hidden_shifts=_right(hidden.factors),
            in_weights=inputs.weights.reshape(-1),
            hidden_weights=hidden.weights.reshape(-1),
            in_bias=inputs.bias.reshape(-1).astype("<i8").view("<i4"),
        )
        return KernelCall(wide, TENSORS, form.macs)
    narrow = HilGenericLstmS8(
        lstm=form.shape,
        lstm_cell=form.cell,
        in_multipliers=inputs.multipliers,
        in_shifts=inputs.shifts,
        hidden_multipliers=hidden.multipliers,
        hidden_shifts=hidden.shifts,
        in_weights=inputs.weights.reshape(-1),
        hidden_weights=hidden.weights.reshape(-1),
        in_bias=_words(inputs.bias),
        hidden_bias=_words(hidden.bias),
    )
    return KernelCall(narrow, TENSORS, form.macs)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"float32"})
def floats(layer: Layer) -> KernelCall:
    """Return the kernel of any core for floats."""
    shape, macs = lstm_shape(layer)
    in_weights, hidden_weights, bias = (
        gates(layer, first).reshape(-1) for first in (IN_WEIGHTS, HIDDEN_WEIGHTS, BIASES)
    )
    parameters = HilGenericLstmF32(
        lstm=shape,
        clip=float_clip(layer),
        in_weights=in_weights,
        hidden_weights=hidden_weights,
        bias=bias,
    )
    return KernelCall(parameters, TENSORS, macs)


def _reduced(factors: Sequence[FixedPoint]) -> tuple[int, ...]:
    return tuple(int(reduced_multiplier(factor.multiplier)) for factor in factors)


def _right(factors: Sequence[FixedPoint]) -> tuple[int, ...]:
    return tuple(int(reduced_shift(factor.shift)) for factor in factors)


def _words(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return sums wrapped to 32 bits, as the kernels compute them."""
    return sums.reshape(-1).astype(np.int32)
