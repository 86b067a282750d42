"""Elementwise operators of one operand: tables of all bytes, or functions of floats."""

from __future__ import annotations

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilClampF32Each,
    HilHardSwishF32,
    HilLeakyReluF32,
    HilLogisticF32,
    HilLutS8,
    HilTanhF32,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.operands import ACTIVATION_RANGES
from hilc.ops.unary import LeakyReluAttributes, table

_FLOATS = {"LOGISTIC": HilLogisticF32, "TANH": HilTanhF32, "HARD_SWISH": HilHardSwishF32}


def table_call(values: Array, size: int) -> KernelCall:
    """Return the kernel that maps ``size`` bytes through a table."""
    return KernelCall(HilLutS8(size=size, table=values))


@lowers("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", dtypes={"int8", "float32"})
def portable(layer: Layer) -> KernelCall:
    """Return a table of all bytes, or the function of a float."""
    node = layer.node
    x = layer.operand(0)
    if x.element.tabled:
        return table_call(table(node, x, layer.out), x.size)
    if node.op in ACTIVATION_RANGES:
        low, high = ACTIVATION_RANGES[node.op]
        return KernelCall(HilClampF32Each(size=x.size, low=low, high=high))
    if node.op == "LEAKY_RELU":
        alpha = float(np.float32(LeakyReluAttributes.of(node).alpha))
        return KernelCall(HilLeakyReluF32(size=x.size, alpha=alpha))
    return KernelCall(_FLOATS[node.op](size=x.size))
