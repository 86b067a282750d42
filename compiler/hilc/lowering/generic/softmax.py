"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilSoftmaxF32, HilSoftmaxS8, HilSoftmaxS16
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.interpolate import EXPONENTIALS, RECIPROCALS
from hilc.numerics.requantize import (
    rounding_divide_by_pot,
)
from hilc.ops.interpolated import softmax_scale
from hilc.ops.operands import ARITHMETIC
from hilc.ops.softmax import SUM_BITS, SoftmaxAttributes, exponentials


@lowers("SOFTMAX", dtypes=ARITHMETIC)
def portable(layer: Layer) -> KernelCall:
    """Return the call over rows, by a table of exponentials or of floats."""
    node = layer.node
    x = layer.operand(0)
    depth = x.shape[-1]
    rows = x.size // depth
    if not x.element.quantized:
        beta = float(np.float32(SoftmaxAttributes.of(node).beta))
        return KernelCall(HilSoftmaxF32(rows=rows, depth=depth, beta=beta))
    if not x.element.tabled:
        multiplier, shift = softmax_scale(node, x, SoftmaxAttributes.of(node).beta)
        return KernelCall(
            HilSoftmaxS16(
                rows=rows,
                depth=depth,
                multiplier=multiplier,
                shift=shift,
                exponentials=EXPONENTIALS,
                reciprocals=RECIPROCALS,
            )
        )
    powers = exponentials(node, x, SoftmaxAttributes.of(node).beta)
    # What adds nothing to the sum is also too little for a share.
    summands = rounding_divide_by_pot(powers.astype(np.int64), SUM_BITS)
    near = 1 + int(np.flatnonzero(summands)[-1])
    parameters = HilSoftmaxS8(rows=rows, depth=depth, near=near, exponentials=powers[:near])
    return KernelCall(parameters)
