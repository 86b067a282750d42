"""UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilLstm, HilLstmCell, HilLstmF32, HilLstmS8, HilLstmS16
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.interpolate import SIGMOID
from hilc.numerics.requantize import FixedPoint, reduced_multiplier, reduced_shift
from hilc.ops.lstm import (
    BIASES,
    CELL,
    GATES,
    HIDDEN,
    HIDDEN_WEIGHTS,
    IN_WEIGHTS,
    LstmAttributes,
    Scaling,
    X,
    scaling,
    sizes,
)
from hilc.ops.operands import quantization

#: The input and the states are tensor arguments; all else is constant.
_TENSORS = (X, HIDDEN, CELL)


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM", dtypes={"int8", "int16", "float32"})
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any core."""
    node, ins = layer.node, layer.ins
    attributes, n = LstmAttributes.of(node), sizes(node, ins)
    shape = HilLstm(
        batch=n.batch,
        steps=n.steps,
        time_major=int(attributes.time_major),
        depth=n.depth,
        units=n.units,
    )
    macs = n.batch * n.steps * len(GATES) * n.units * (n.depth + n.units)
    in_weights, hidden_weights = (_gates(layer, first) for first in (IN_WEIGHTS, HIDDEN_WEIGHTS))
    bias = _gates(layer, BIASES)
    if not layer.operand(X).element.quantized:
        clip = attributes.cell_clip or float(np.finfo(np.float32).max)
        floats = HilLstmF32(
            lstm=shape,
            clip=float(np.float32(clip)),
            in_weights=in_weights,
            hidden_weights=hidden_weights,
            bias=bias,
        )
        return KernelCall(floats, _TENSORS, macs)
    factors = scaling(node, ins)
    cell = _cell(layer, factors)
    if layer.operand(X).element.symmetric:
        wide = HilLstmS16(
            lstm=shape,
            lstm_cell=cell,
            in_multipliers=_reduced(factors.inputs),
            in_shifts=_right(factors.inputs),
            hidden_multipliers=_reduced(factors.hidden),
            hidden_shifts=_right(factors.hidden),
            in_weights=in_weights,
            hidden_weights=hidden_weights,
            in_bias=bias.astype("<i8").view("<i4"),
        )
        return KernelCall(wide, _TENSORS, macs)
    zero_points = [quantization(node, layer.operand(index))[1] for index in (X, HIDDEN)]
    added = [
        -zero_point * weights.reshape(len(GATES) * n.units, -1).sum(axis=1, dtype=np.int64)
        for zero_point, weights in zip(zero_points, (in_weights, hidden_weights), strict=True)
    ]
    narrow = HilLstmS8(
        lstm=shape,
        lstm_cell=cell,
        in_multipliers=tuple(factor.multiplier for factor in factors.inputs),
        in_shifts=tuple(factor.shift for factor in factors.inputs),
        hidden_multipliers=tuple(factor.multiplier for factor in factors.hidden),
        hidden_shifts=tuple(factor.shift for factor in factors.hidden),
        in_weights=in_weights,
        hidden_weights=hidden_weights,
        in_bias=_words(bias + added[0]),
        hidden_bias=_words(added[1]),
    )
    return KernelCall(narrow, _TENSORS, macs)


def _cell(layer: Layer, factors: Scaling) -> HilLstmCell:
    return HilLstmCell(
        forget_multiplier=factors.forget.multiplier,
        forget_shift=factors.forget.shift,
        update_multiplier=factors.update.multiplier,
        update_shift=factors.update.shift,
        out_multiplier=factors.output.multiplier,
        out_shift=factors.output.shift,
        out_zero_point=quantization(layer.node, layer.operand(HIDDEN))[1],
        clip=factors.clip,
        tanh_multiplier=factors.tanh.multiplier,
        tanh_shift=factors.tanh.shift,
        table=SIGMOID,
    )


def _gates(layer: Layer, first: int) -> Array:
    """Return the constants of all gates, one behind the other."""
    data = [layer.operand(first + gate).data for gate in range(len(GATES))]
    return np.concatenate([array.reshape(-1) for array in data if array is not None])


def _reduced(factors: Sequence[FixedPoint]) -> tuple[int, ...]:
    return tuple(int(reduced_multiplier(factor.multiplier)) for factor in factors)


def _right(factors: Sequence[FixedPoint]) -> tuple[int, ...]:
    return tuple(int(reduced_shift(factor.shift)) for factor in factors)


def _words(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return what 32 bits hold of sums; so do the kernels."""
    return sums.astype(np.int32)
