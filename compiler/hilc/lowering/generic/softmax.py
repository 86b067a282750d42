"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilGenericSoftmaxF32,
    HilGenericSoftmaxS8,
    HilGenericSoftmaxS8Even,
    HilGenericSoftmaxS8S16,
    HilGenericSoftmaxS16,
    HilGenericSoftmaxS16Even,
)
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
        return KernelCall(HilGenericSoftmaxF32(rows=rows, depth=depth, beta=beta))
    if node.rounding is Rounding.NEAREST_EVEN:
        return KernelCall(_even(layer, rows, depth))
    if not x.element.tabled:
        multiplier, shift = softmax_scale(node, x, SoftmaxAttributes.of(node).beta)
        return KernelCall(
            HilGenericSoftmaxS16(
                rows=rows,
                depth=depth,
                multiplier=multiplier,
                shift=shift,
                exponentials=EXPONENTIALS,
                reciprocals=reciprocals(node.numerics),
            )
        )
    powers = exponentials(node, x, SoftmaxAttributes.of(node).beta)
    # What adds nothing to the sum is also too little for a share.
    summands = rounding_divide_by_pot(powers.astype(np.int64), SUM_BITS)
    near = 1 + int(np.flatnonzero(summands)[-1])
    kernel = HilGenericSoftmaxS8 if layer.out.dtype == x.dtype else HilGenericSoftmaxS8S16
    return KernelCall(kernel(rows=rows, depth=depth, near=near, exponentials=powers[:near]))


def _even(layer: Layer, rows: int, depth: int) -> Parameters:
    """Return shares that are rounded once."""
    node, x = layer.node, layer.operand(0)
    beta, zero_point = SoftmaxAttributes.of(node).beta, quantization(node, layer.out)[1]
    factor, left = share_scale(node, layer.out)
    powers = even_exponentials(node, x, beta, 1 if x.element.tabled else 256)
    near = 1 + int(np.flatnonzero(powers)[-1])
    if x.element.tabled:
        return HilGenericSoftmaxS8Even(
            rows=rows,
            depth=depth,
            near=near,
            multiplier=factor,
            left=left,
            out_zero_point=zero_point,
            exponentials=powers[:near],
        )
    return HilGenericSoftmaxS16Even(
        rows=rows,
        depth=depth,
        near=near,
        multiplier=factor,
        left=left,
        out_zero_point=zero_point,
        coarse=powers[:near],
        fine=even_exponentials(node, x, beta),
    )
