"""LAYER_NORMALIZATION."""

from __future__ import annotations

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericLayerNormF32,
    HilGenericLayerNormS8,
    HilGenericLayerNormS16,
    HilLayerNorm,
    HilMveLayerNormS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.layer_norm import LayerNormAttributes, scaling
from hilc.ops.operands import quantization

_ROUNDINGS = (Rounding.DOUBLE, Rounding.NEAREST_EVEN)


@lowers("LAYER_NORMALIZATION", roundings=_ROUNDINGS)
def portable(layer: Layer) -> KernelCall:
    """Return the call over rows."""
    x, attributes = layer.operand(0), LayerNormAttributes.of(layer.node)
    if x.element.quantized:
        return layer_norm(
            layer, HilGenericLayerNormS16 if x.element.symmetric else HilGenericLayerNormS8
        )
    shifted = len(layer.ins) > 2 and layer.ins[2] is not None
    parameters = HilGenericLayerNormF32(
        rows=x.size // x.shape[-1],
        depth=x.shape[-1],
        epsilon=attributes.epsilon,
        centered=int(attributes.centered),
        shifted=int(shifted),
    )
    # Where there are no addends the factors stand for them, and are not read.
    return KernelCall(parameters, (0, 1, 2 if shifted else 1))


def layer_norm(
    layer: Layer,
    kind: type[HilGenericLayerNormS8] | type[HilGenericLayerNormS16] | type[HilMveLayerNormS8],
) -> KernelCall:
    """Return the call of a kernel on integers."""
    node, x, made = layer.node, layer.operand(0), scaling(layer.node, layer.ins, layer.out)
    parameters = kind(
        layer_norm=HilLayerNorm(
            rows=x.size // x.shape[-1],
            depth=x.shape[-1],
            epsilon=float(made.epsilon),
            centered=int(LayerNormAttributes.of(node).centered),
            zero_point=quantization(node, x)[1],
            out_zero_point=quantization(node, layer.out)[1],
            factors=made.factors,
            addends=made.addends,
        )
    )
    return KernelCall(parameters)
