"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.linear import Fields
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import (
    rounding_divide_by_pot,
)
from hilc.ops.softmax import SUM_BITS, exponentials


@lowers("SOFTMAX", dtypes={"int8", "float32"})
def portable(layer: Layer) -> KernelCall:
    """Rows of a table of exponentials, or of floats."""
    node = layer.node
    x = layer.operand(0)
    depth = x.shape[-1]
    fields: Fields = {"rows": x.size // depth, "depth": depth}
    if x.dtype == "float32":
        beta = float(np.float32(node.attrs["beta"]))
        return KernelCall(kernels()["hil_softmax_f32"], {**fields, "beta": beta})
    powers = exponentials(node, x)
    # What adds nothing to the sum is also too little for a share.
    summands = rounding_divide_by_pot(powers.astype(np.int64), SUM_BITS)
    near = 1 + int(np.flatnonzero(summands)[-1])
    fields |= {"near": near, "exponentials": powers[:near]}
    return KernelCall(kernels()["hil_softmax_s8"], fields)
