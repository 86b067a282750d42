"""ADD_N and CUMSUM."""

from __future__ import annotations

from math import prod

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilAccumulateS8,
    HilCumsum,
    HilCumsumEven,
    HilGenericAddNF32,
    HilGenericAddNS8,
    HilGenericAddNS32,
    HilGenericCumsumEvenS8,
    HilGenericCumsumEvenS16,
    HilGenericCumsumF32,
    HilGenericCumsumS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.accumulate import CumsumAttributes, cumsum_axis, even_scale, sum_scale
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import quantization

_PLAIN = {"int32": HilGenericAddNS32, "float32": HilGenericAddNF32}


def _scaled(layer: Layer) -> HilAccumulateS8:
    node, x, out = layer.node, layer.operand(0), layer.out
    multiplier, shift = sum_scale(node, x, out)
    return HilAccumulateS8(
        in_zero_point=quantization(node, x)[1],
        out_zero_point=quantization(node, out)[1],
        multiplier=multiplier,
        shift=shift,
    )


@lowers("ADD_N")
def add_n(layer: Layer) -> KernelCall:
    """Return the call that adds all inputs."""
    size, parts = layer.out.size, len(layer.ins)
    order = tuple(range(parts))
    if layer.out.element.quantized:
        return KernelCall(
            HilGenericAddNS8(size=size, parts=parts, accumulate_s8=_scaled(layer)), order
        )
    return KernelCall(_PLAIN[layer.out.dtype](size=size, parts=parts), order)


@lowers("CUMSUM", roundings=TWICE_OR_EVEN)
def cumsum(layer: Layer) -> KernelCall:
    """Return the call that adds along an axis."""
    node, shape = layer.node, layer.out.shape
    stated, axis = CumsumAttributes.of(node), cumsum_axis(node, layer.ins)
    lines = HilCumsum(
        outer=prod(shape[:axis]),
        length=shape[axis],
        inner=prod(shape[axis + 1 :]),
        exclusive=int(stated.exclusive),
        reverse=int(stated.reverse),
    )
    if layer.out.element.quantized and node.rounding is Rounding.NEAREST_EVEN:
        x = layer.operand(0)
        multiplier, shift = even_scale(node, x, layer.out)
        kernel = HilGenericCumsumEvenS8 if x.element.tabled else HilGenericCumsumEvenS16
        return KernelCall(
            kernel(
                cumsum_even=HilCumsumEven(
                    cumsum=lines,
                    in_zero_point=quantization(node, x)[1],
                    out_zero_point=quantization(node, layer.out)[1],
                    multiplier=multiplier,
                    shift=shift,
                )
            )
        )
    if layer.out.element.quantized:
        return KernelCall(HilGenericCumsumS8(cumsum=lines, accumulate_s8=_scaled(layer)))
    return KernelCall(HilGenericCumsumF32(cumsum=lines))
