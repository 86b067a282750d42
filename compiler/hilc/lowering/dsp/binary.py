"""ADD, SUB, MUL and SQUARED_DIFFERENCE."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import ELEMENT_TYPES
from hilc.lowering.dsp.affine import MAX_SHIFT
from hilc.lowering.generic.arithmetic import square_tables
from hilc.lowering.generic.binary import binary_walk, product_parameters, sum_line, wide_sum
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDspAddS8,
    HilDspMulS8,
    HilDspMulS16,
    HilDspSquaredDifferenceS8,
    HilDspSumS8,
    HilDspSumS16,
    HilGenericMulS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import ROUNDED_ONCE, Rounds
from hilc.numerics.requantize import requantize
from hilc.ops.arithmetic import square_scales
from hilc.ops.elementwise import sum_scales
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import output_clamp, quantization

#: Bits by which operands of a sum are raised.
_INT8 = ELEMENT_TYPES["int8"]
_HEADROOM = _INT8.headroom
#: The largest shift to the right of int16 kernels, which add half a unit to 31 bits.
_WIDE_SHIFT = -29


@lowers(
    *("ADD", "SUB"),
    dtypes={"int8"},
    requires={"mul32"},
    lacks={"mve"},
    roundings=TWICE_OR_EVEN,
)
def sums(layer: Layer) -> Iterator[KernelCall]:
    """Yield the sum or difference of tensors of one shape by one formula for both."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    if a.shape != b.shape or output_clamp(node, out) != _INT8.bounds:
        return
    line = sum_line(layer)
    if line is not None:
        yield KernelCall(HilDspSumS8(length=out.size, **vars(line)), (0, 1))


@lowers("ADD", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def add(layer: Layer) -> Iterator[KernelCall]:
    """Yield the sum of tensors of one shape, one operand scaled by a table, the other by a
    shift.
    """
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scales = sum_scales(node, a, b, out)
    right = -scales.out.shift
    # The larger scale's factor is one half; where both have it, either may be in the table.
    swapped = scales.a.shift < 0
    half = (scales.b if swapped else scales.a).shift == 0
    if a.shape != b.shape or not half or not 1 <= right <= MAX_SHIFT:
        return
    plain, scaled, scale = (b, a, scales.a) if swapped else (a, b, scales.b)
    values = np.array(_INT8.values) - quantization(node, scaled)[1]
    parts = requantize(values << _HEADROOM, *scale)
    parts -= quantization(node, plain)[1] << (_HEADROOM - 1)
    low, high = output_clamp(node, out)
    parameters = HilDspAddS8(
        length=out.size,
        swapped=int(swapped),
        multiplier=scales.out.multiplier,
        shift=right - 1,
        out_zero_point=quantization(node, out)[1],
        low=low,
        high=high,
        table=(2 * parts).astype(np.int32),
    )
    yield KernelCall(parameters, (0, 1))


@lowers("MUL", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"}, roundings=TWICE_OR_EVEN)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Yield the product of two tensors, either of which may be broadcast."""
    portable = product_parameters(layer)
    if not isinstance(portable, HilGenericMulS8):
        return
    once, right = ROUNDED_ONCE.get(Rounds(portable.rounding)), -portable.shift
    if once is None or not 1 <= right < MAX_SHIFT:
        return
    parameters = HilDspMulS8(
        binary=portable.binary,
        a_zero_point=portable.a_zero_point,
        b_zero_point=portable.b_zero_point,
        out_zero_point=portable.out_zero_point,
        multiplier=portable.multiplier,
        shift=right - 1,
        once=once,
        low=portable.low,
        high=portable.high,
    )
    yield KernelCall(parameters, (0, 1))


@lowers("SQUARED_DIFFERENCE", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def squares(layer: Layer) -> Iterator[KernelCall]:
    """Yield the square of the difference of two tensors, each of which a table brings to the
    common scale.
    """
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scales = square_scales(node, a, b, out)
    right = -scales.out.shift
    if not 1 <= right < MAX_SHIFT:
        return
    a_table, b_table = square_tables(layer)
    parameters = HilDspSquaredDifferenceS8(
        binary=binary_walk(layer),
        a_table=a_table,
        b_table=b_table,
        out_zero_point=quantization(node, out)[1],
        multiplier=scales.out.multiplier,
        shift=right - 1,
    )
    yield KernelCall(parameters, (0, 1))


@lowers("ADD", "SUB", "MUL", dtypes={"int16"}, requires={"dsp"}, lacks={"mve"})
def wide(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel of two int16 tensors, either of which may be broadcast."""
    if layer.node.op == "MUL":
        product = product_parameters(layer)
        if _WIDE_SHIFT <= product.shift <= 0:
            parameters = HilDspMulS16(
                binary=product.binary,
                multiplier=product.multiplier,
                shift=product.shift,
                low=product.low,
                high=product.high,
            )
            yield KernelCall(parameters, (0, 1))
        return
    sums, subtract = wide_sum(layer).sum_s16, int(layer.node.op == "SUB")
    if all(_WIDE_SHIFT <= shift <= 0 for shift in (sums.a_shift, sums.b_shift, sums.out_shift)):
        yield KernelCall(HilDspSumS16(sum_s16=sums, subtract=subtract), (0, 1))
