"""LSTMs as their kernels see them: a matrix of gates times the input, and one times the hidden
state.

The gates of a unit follow each other where a family of kernels takes them together; the portable
kernels take gate after gate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.channels import sum_ends
from hilc.lowering.linear import FloatParameters, LinearWeights
from hilc.lowering.parameters import HilLstm, HilLstmCell
from hilc.lowering.registry import Layer, cached_per_layer
from hilc.lowering.sums32 import shifted_multiplier
from hilc.numerics.interpolate import SIGNED_SIGMOID
from hilc.numerics.requantize import FixedPoint
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
TENSORS = (X, HIDDEN, CELL)
#: Largest right shift of products in kernels of some cores, in bits.
_MOST_RIGHT = 29


@dataclass(frozen=True, eq=False)
class GateSums:
    """Weights and factors of the gates, for the input or for the hidden state."""

    #: ``[gates, units, elements]``.
    weights: Array
    #: ``[gates, units]``, with the contribution of the values' zero point.
    bias: npt.NDArray[np.int64]
    #: From sums to the gates' arguments, Q3.12.
    factors: tuple[FixedPoint, ...]
    #: The largest magnitude of a sum.
    bound: int

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return int(self.weights.shape[2])

    @property
    def columns(self) -> Array:
        """The weights with the gates of a unit one after the other, a row for each."""
        return np.ascontiguousarray(self.weights.swapaxes(0, 1)).reshape(-1, self.depth)

    @property
    def column_bias(self) -> npt.NDArray[np.int64]:
        """The biases in the order of :attr:`columns`."""
        return np.ascontiguousarray(self.bias.T).reshape(-1)

    @property
    def multipliers(self) -> tuple[int, ...]:
        """Fixed-point multipliers of the gates' factors."""
        return tuple(factor.multiplier for factor in self.factors)

    @property
    def shifts(self) -> tuple[int, ...]:
        """To the left; below 0 to the right."""
        return tuple(factor.shift for factor in self.factors)

    def scaled_multipliers(self) -> tuple[int, ...] | None:
        """Return the multipliers of which a product's upper word, rounded, is what a sum of
        products with int16 gives; None where there are none.
        """
        if self.bound >= 2**31:
            return None
        found = [shifted_multiplier(factor) for factor in self.factors]
        return tuple(each for each in found if each is not None) if None not in found else None


@dataclass(frozen=True, eq=False)
class LstmForm:
    """An LSTM of int8 or int16."""

    shape: HilLstm
    cell: HilLstmCell
    inputs: GateSums
    hidden: GateSums
    factors: Scaling
    macs: int

    @property
    def has_right_shifts(self) -> bool:
        """Whether products of gates are shifted to the right, by less than 30."""
        factors = (self.factors.forget, self.factors.update, self.factors.output)
        return all(-_MOST_RIGHT <= factor.shift <= 0 for factor in factors)


def lstm_shape(layer: Layer) -> tuple[HilLstm, int]:
    """Return the sizes of a layer, and its multiply-accumulates."""
    n = sizes(layer.node, layer.ins)
    shape = HilLstm(
        batch=n.batch,
        steps=n.steps,
        time_major=int(LstmAttributes.of(layer.node).time_major),
        depth=n.depth,
        units=n.units,
    )
    return shape, n.batch * n.steps * len(GATES) * n.units * (n.depth + n.units)


def gates(layer: Layer, first: int) -> Array:
    """Return the constants of all gates, ``[gates, ...]``."""
    data = [layer.operand(first + gate).data for gate in range(len(GATES))]
    return np.stack([array for array in data if array is not None])


def float_clip(layer: Layer) -> float:
    """Return the largest magnitude of a cell state of floats; infinite if there is no limit."""
    return float(np.float32(LstmAttributes.of(layer.node).cell_clip or math.inf))


def float_columns(layer: Layer) -> tuple[LinearWeights, LinearWeights]:
    """Return the gates of all units as the columns of a matrix for the input, with the biases, and
    of one for the hidden state, with biases of 0.
    """
    bias = gates(layer, BIASES).reshape(-1)
    found = []
    for first, biases in ((IN_WEIGHTS, bias), (HIDDEN_WEIGHTS, np.zeros_like(bias))):
        matrix = gates(layer, first)
        matrix = matrix.reshape(-1, matrix.shape[2])
        outputs = FloatParameters(-math.inf, math.inf, biases)
        found.append(LinearWeights(matrix, outputs, biases, 0))
    return found[0], found[1]


@cached_per_layer
def lstm_form(layer: Layer) -> LstmForm:
    """Return the form of a layer of integers."""
    node, (shape, macs) = layer.node, lstm_shape(layer)
    factors = scaling(node, layer.ins)
    cell = HilLstmCell(
        forget_multiplier=factors.forget.multiplier,
        forget_shift=factors.forget.shift,
        update_multiplier=factors.update.multiplier,
        update_shift=factors.update.shift,
        out_multiplier=factors.output.multiplier,
        out_shift=factors.output.shift,
        out_zero_point=quantization(node, layer.operand(HIDDEN))[1],
        clip=factors.clip,
        tanh_multiplier=factors.tanh.multiplier,
        tanh_shift=factors.tanh.shift,
        table=SIGNED_SIGMOID,
    )
    bias = gates(layer, BIASES).astype(np.int64)
    inputs = _sums(layer, X, gates(layer, IN_WEIGHTS), bias, factors.inputs)
    hidden = _sums(layer, HIDDEN, gates(layer, HIDDEN_WEIGHTS), np.zeros_like(bias), factors.hidden)
    return LstmForm(shape, cell, inputs, hidden, factors, macs)


def _sums(
    layer: Layer,
    index: int,
    weights: Array,
    bias: npt.NDArray[np.int64],
    factors: tuple[FixedPoint, ...],
) -> GateSums:
    element = layer.operand(index).element
    bias = bias - quantization(layer.node, layer.operand(index))[1] * weights.sum(
        axis=2, dtype=np.int64
    )
    ends = sum_ends(weights.reshape(-1, weights.shape[2]), bounds=element.bounds)
    bound = max(int(np.abs(bias.reshape(-1) + end).max()) for end in ends)
    return GateSums(weights, bias, factors, max(bound, int(np.abs(bias).max())))
