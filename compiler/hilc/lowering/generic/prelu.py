"""PRELU."""

from __future__ import annotations

from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericPreluF32, HilGenericPreluS8, HilGenericPreluS8F32
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounds
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import quantization
from hilc.ops.prelu import float_ratio, has_float_slopes, prelu_scales


@lowers("PRELU", roundings=TWICE_OR_EVEN)
def portable(layer: Layer) -> KernelCall:
    """Return the call with slopes that are broadcast to the input."""
    node, x, slopes, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    if not out.element.quantized:
        return KernelCall(HilGenericPreluF32(binary=binary_walk(layer)), (0, 1))
    if has_float_slopes(node, layer.ins):
        of_floats = HilGenericPreluS8F32(
            binary=binary_walk(layer),
            in_zero_point=quantization(node, x)[1],
            out_zero_point=quantization(node, out)[1],
            ratio=float(float_ratio(node, x, out)),
        )
        return KernelCall(of_floats, (0, 1))
    scales = prelu_scales(node, x, slopes, out)
    parameters = HilGenericPreluS8(
        binary=binary_walk(layer),
        in_zero_point=quantization(node, x)[1],
        slope_zero_point=quantization(node, slopes)[1],
        out_zero_point=quantization(node, out)[1],
        positive_multiplier=scales.positive.multiplier,
        positive_shift=scales.positive.shift,
        product_multiplier=scales.product.multiplier,
        product_shift=scales.product.shift,
        rounding=int(rounds(node.rounding, ties=True, narrow=False)),
    )
    return KernelCall(parameters, (0, 1))
