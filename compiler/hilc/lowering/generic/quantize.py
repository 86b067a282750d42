"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.unary import table_call
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDequantizeS8F32,
    HilDequantizeS16F32,
    HilDequantizeU8F32,
    HilQuantizeF32S8,
    HilQuantizeF32S16,
    HilQuantizeF32U8,
    HilRequantizeWide,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import INT32_MAX, INT32_MIN
from hilc.ops.lookup import by_byte
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import (
    quantization,
)
from hilc.ops.quantize import byte_table, is_table, wide_ratio

_FROM_FLOATS = {"int8": HilQuantizeF32S8, "uint8": HilQuantizeF32U8, "int16": HilQuantizeF32S16}
_TO_FLOATS = {
    "int8": HilDequantizeS8F32,
    "uint8": HilDequantizeU8F32,
    "int16": HilDequantizeS16F32,
}


@lowers("LOOKUP", roundings=Rounding)
def lookup(layer: Layer) -> KernelCall:
    """Return the kernel of a table that the model holds."""
    return table_call(by_byte(layer.node, layer.ins).view(np.int8), layer.out.size)


@lowers("QUANTIZE", roundings=TWICE_OR_EVEN)
def quantize(layer: Layer) -> KernelCall:
    """Return the call from floats to integers, or from one scale to another."""
    node = layer.node
    x = layer.operand(0)
    if is_table(x, layer.out):
        return table_call(byte_table(node, x, layer.out).view(np.int8), x.size)
    scale, zero_point = quantization(node, layer.out)
    if not x.element.may_have_scale:
        from_floats = _FROM_FLOATS[layer.out.dtype]
        to_even = int(node.rounding is Rounding.NEAREST_EVEN)
        return KernelCall(
            from_floats(size=x.size, scale=scale, zero_point=zero_point, to_even=to_even)
        )
    multiplier, shift = wide_ratio(node, x, layer.out)
    low, high = layer.out.element.bounds
    parameters = HilRequantizeWide(
        size=x.size,
        in_bytes=x.element.itemsize,
        out_bytes=layer.out.element.itemsize,
        in_zero_point=quantization(node, x)[1],
        multiplier=multiplier,
        shift=shift,
        rounding=int(rounds(node.rounding, ties=True, narrow=False)),
        # What is scaled to int32 needs no clamp.
        low=max(low - zero_point, INT32_MIN),
        high=min(high - zero_point, INT32_MAX),
        out_zero_point=zero_point,
    )
    return KernelCall(parameters)


@lowers("DEQUANTIZE", roundings=Rounding)
def dequantize(layer: Layer) -> KernelCall:
    """Return the call from integers to floats."""
    node = layer.node
    x = layer.operand(0)
    scale, zero_point = quantization(node, x)
    to_floats = _TO_FLOATS[x.dtype]
    return KernelCall(to_floats(size=x.size, scale=scale, zero_point=zero_point))
