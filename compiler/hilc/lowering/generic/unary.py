"""Elementwise operators of one operand: tables of all bytes, or functions of floats."""

from __future__ import annotations

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilGenericClampF32Each,
    HilGenericClampS16,
    HilGenericHardSwishF32,
    HilGenericLeakyReluF32,
    HilGenericLeakyReluS16,
    HilGenericLogisticF32,
    HilGenericLogisticS16,
    HilGenericLutS8,
    HilGenericTanhF32,
    HilGenericTanhS16,
    HilSigmoidS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.interpolate import SIGMOID
from hilc.ops.operands import ACTIVATION_RANGES, ARITHMETIC, float_range
from hilc.ops.unary import LeakyReluAttributes, Sigmoid, integer_function, table

#: Operators of one operand that have attributes at most, and a table of int8.
OPERATORS = (
    *("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1"),
    *("LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU"),
)

_FLOATS = {
    "LOGISTIC": HilGenericLogisticF32,
    "TANH": HilGenericTanhF32,
    "HARD_SWISH": HilGenericHardSwishF32,
}


def _integers(layer: Layer) -> Parameters:
    """Return the kernel's function of int16."""
    size = layer.operand(0).size
    function = integer_function(layer.node, layer.operand(0), layer.out)
    if isinstance(function, Sigmoid):
        of_scale = HilGenericLogisticS16 if layer.node.op == "LOGISTIC" else HilGenericTanhS16
        multiplier, right = function.scale
        return of_scale(
            sigmoid_s16=HilSigmoidS16(size=size, multiplier=multiplier, shift=right, table=SIGMOID)
        )
    if function.is_clamp:
        return HilGenericClampS16(size=size, low=function.low, high=function.high)
    return HilGenericLeakyReluS16(
        size=size,
        multiplier=function.positive.multiplier,
        shift=function.positive.shift,
        negative_multiplier=function.negative.multiplier,
        negative_shift=function.negative.shift,
        low=function.low,
        high=function.high,
    )


def table_call(values: Array, size: int) -> KernelCall:
    """Return the kernel that maps ``size`` bytes through a table."""
    return KernelCall(HilGenericLutS8(size=size, table=values))


@lowers(*OPERATORS, dtypes=ARITHMETIC)
def portable(layer: Layer) -> KernelCall:
    """Return a table of all bytes, or the function of a float."""
    node = layer.node
    x = layer.operand(0)
    if x.element.tabled:
        return table_call(table(node, x, layer.out), x.size)
    if x.element.quantized:
        return KernelCall(_integers(layer))
    if node.op in ACTIVATION_RANGES:
        low, high = float_range(node, node.op)
        return KernelCall(HilGenericClampF32Each(size=x.size, low=low, high=high))
    if node.op == "LEAKY_RELU":
        alpha = float(np.float32(LeakyReluAttributes.of(node).alpha))
        return KernelCall(HilGenericLeakyReluF32(size=x.size, alpha=alpha))
    return KernelCall(_FLOATS[node.op](size=x.size))
