"""GROUP_NORMALIZATION."""

from __future__ import annotations

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericGroupNormF32,
    HilGenericGroupNormS8,
    HilGenericGroupNormS16,
    HilGroupNorm,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.group_norm import GroupNormAttributes, depth, scaling
from hilc.ops.operands import quantization


@lowers("GROUP_NORMALIZATION", roundings=(Rounding.DOUBLE, Rounding.NEAREST_EVEN))
def portable(layer: Layer) -> KernelCall:
    """Return the call over groups of channels."""
    x, attributes = layer.operand(0), GroupNormAttributes.of(layer.node)
    count = depth(layer.node, x)
    each = layer.operand(1).size // attributes.groups
    shape = HilGroupNorm(
        rows=x.size // count, groups=attributes.groups, each=each, run=count // each
    )
    if not x.element.quantized:
        parameters = HilGenericGroupNormF32(group_norm=shape, epsilon=attributes.epsilon)
        return KernelCall(parameters, (0, 1, 2))
    made = scaling(layer.node, layer.ins, layer.out)
    kind = HilGenericGroupNormS16 if x.element.symmetric else HilGenericGroupNormS8
    return KernelCall(
        kind(
            group_norm=shape,
            epsilon=float(made.epsilon),
            out_zero_point=quantization(layer.node, layer.out)[1],
            factors=made.factors,
            addends=made.addends,
        )
    )
