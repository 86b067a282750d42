"""QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

import numpy as np

from hilc.ir import Array, Rounding
from hilc.lowering.generic.unary import table_call
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericCurveS16,
    HilGenericDequantizeS8F32,
    HilGenericDequantizeS16F32,
    HilGenericDequantizeU8F32,
    HilGenericDequantizeU16F32,
    HilGenericQuantizeF32S8,
    HilGenericQuantizeF32S16,
    HilGenericQuantizeF32U8,
    HilGenericQuantizeF32U16,
    HilGenericRequantizeWide,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import INT32_MAX, INT32_MIN
from hilc.ops.lookup import answers, by_byte
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import (
    quantization,
)
from hilc.ops.quantize import byte_table, is_table, wide_ratio

_FROM_FLOATS = {
    "int8": HilGenericQuantizeF32S8,
    "uint8": HilGenericQuantizeF32U8,
    "int16": HilGenericQuantizeF32S16,
    "uint16": HilGenericQuantizeF32U16,
}
_TO_FLOATS = {
    "int8": HilGenericDequantizeS8F32,
    "uint8": HilGenericDequantizeU8F32,
    "int16": HilGenericDequantizeS16F32,
    "uint16": HilGenericDequantizeU16F32,
}


@lowers("LOOKUP", roundings=Rounding)
def lookup(layer: Layer) -> KernelCall:
    """Return the kernel of a table that the model holds."""
    if layer.operand(0).element.tabled:
        return table_call(by_byte(layer.node, layer.ins).view(np.int8), layer.out.size)
    return KernelCall(_curve(answers(layer.node, layer.ins), layer.out.size))


#: Inputs from one height of a curve to the next, as powers of two, and bits of the addend.
_STEPS, _REST_BITS = range(3, 11), (0, 1, 2, 4, 8, 16)


def _curve(table: Array, size: int) -> HilGenericCurveS16:
    """Return the curve that takes the fewest bytes; a flat one serves every table."""
    lines = ((bits, np.append(table[:: 1 << bits], table[-1])) for bits in _STEPS)
    flat = (16, np.zeros(2, np.int16))
    made = (_curve_of(table, size, bits, heights) for bits, heights in (*lines, flat))
    curves = (curve for curve in made if curve is not None)
    return min(curves, key=lambda curve: curve.heights.nbytes + curve.rests.nbytes)


def _curve_of(table: Array, size: int, bits: int, heights: Array) -> HilGenericCurveS16 | None:
    """Return the curve with a height for each 2**bits inputs; None where a rest has 17 bits."""
    place = np.arange(table.size)
    low = heights[place >> bits].astype(np.int64)
    rise = heights[(place >> bits) + 1] - low
    beyond = table - (low + (rise * (place & (1 << bits) - 1) >> bits))
    least = int(beyond.min())
    rest = (beyond - least).astype(np.uint32)
    rest_bits = next((n for n in _REST_BITS if int(rest.max()) < 1 << n), None)
    if rest_bits is None:
        return None
    digits = (rest[:, np.newaxis] >> np.arange(rest_bits, dtype=np.uint32)) & 1
    packed = np.packbits(digits.astype(np.uint8), bitorder="little")
    return HilGenericCurveS16(
        size=size,
        bits=bits,
        rest_bits=rest_bits,
        least=least,
        heights=heights.astype(np.int16),
        # An array of no elements is no array in C.
        rests=packed if rest_bits else np.zeros(1, np.uint8),
    )


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
    parameters = HilGenericRequantizeWide(
        size=x.size,
        in_bytes=x.element.itemsize,
        in_mask=int(x.element.high) if x.element.low == 0 else -1,
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
