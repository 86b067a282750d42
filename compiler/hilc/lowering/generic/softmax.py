"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilSoftmaxEvenS8, HilSoftmaxF32, HilSoftmaxS8, HilSoftmaxS16
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.interpolate import EXPONENTIALS, reciprocals
from hilc.numerics.requantize import (
    rounding_divide_by_pot,
)
from hilc.ops.interpolated import softmax_scale
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import ARITHMETIC, quantization
from hilc.ops.softmax import (
    SUM_BITS,
    SoftmaxAttributes,
    even_exponentials,
    exponentials,
    share_scale,
)


@lowers("SOFTMAX", dtypes=ARITHMETIC, roundings=TWICE_OR_EVEN)
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
                reciprocals=reciprocals(node.numerics),
            )
        )
    if node.rounding is Rounding.NEAREST_EVEN:
        powers = even_exponentials(node, x, SoftmaxAttributes.of(node).beta)
        near = 1 + int(np.flatnonzero(powers)[-1])
        factor, left = share_scale(node, layer.out)
        return KernelCall(
            HilSoftmaxEvenS8(
                rows=rows,
                depth=depth,
                near=near,
                multiplier=factor,
                left=left,
                out_zero_point=quantization(node, layer.out)[1],
                exponentials=powers[:near],
            )
        )
    powers = exponentials(node, x, SoftmaxAttributes.of(node).beta)
    # What adds nothing to the sum is also too little for a share.
    summands = rounding_divide_by_pot(powers.astype(np.int64), SUM_BITS)
    near = 1 + int(np.flatnonzero(summands)[-1])
    parameters = HilSoftmaxS8(rows=rows, depth=depth, near=near, exponentials=powers[:near])
    return KernelCall(parameters)
