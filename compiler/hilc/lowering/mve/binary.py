"""ADD, SUB, MUL and SQUARED_DIFFERENCE."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Rounding
from hilc.lowering.generic.arithmetic import square_tables
from hilc.lowering.generic.binary import (
    binary_walk,
    product_parameters,
    sum_line,
    sum_parameters,
    wide_sum,
)
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericMulS8,
    HilMveMulS8,
    HilMveMulS16,
    HilMveSquaredDifferenceS8,
    HilMveSumS8,
    HilMveSumS8Scaled,
    HilMveSumS16,
    HilSumS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import ROUNDED_ONCE, Rounds
from hilc.numerics.requantize import requantize
from hilc.ops.arithmetic import square_scales
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import output_clamp, quantization

#: Shifts of scaled sums.
_SHIFTS = range(16, 25)
#: Offsets from the nearest factors that the search for factors of sums tries.
_NEARBY = np.array(
    sorted(
        ((a, b) for a in range(-16, 17) for b in range(-16, 17)),
        key=lambda pair: sum(map(abs, pair)),
    )
)


@lowers("ADD", "SUB", dtypes={"int8"}, requires={"mve"}, roundings=TWICE_OR_EVEN)
def sums(layer: Layer) -> list[KernelCall]:
    """Return the sum or difference of tensors of one shape."""
    if layer.operand(0).shape != layer.operand(1).shape:
        return []
    if layer.node.rounding is Rounding.NEAREST_EVEN:
        return _even_sums(layer)
    scales = sum_parameters(layer)
    if scales.out_shift >= 0:
        return []
    size, subtract = layer.out.size, layer.node.op == "SUB"
    parameters = HilMveSumS8(
        size=size,
        subtract=int(subtract),
        a_zero_point=scales.a_zero_point,
        a_multiplier=scales.a_multiplier,
        a_shift=scales.a_shift,
        b_zero_point=scales.b_zero_point,
        b_multiplier=scales.b_multiplier,
        b_shift=scales.b_shift,
        out_zero_point=scales.out_zero_point,
        out_multiplier=scales.out_multiplier,
        out_shift=scales.out_shift,
        low=scales.low,
        high=scales.high,
    )
    calls = [KernelCall(parameters, (0, 1))]
    found = _scaled_sum(subtract, scales)
    if found is not None:
        a_factor, b_factor, constant, shift = found
        scaled = HilMveSumS8Scaled(
            size=size,
            a_factor=a_factor,
            b_factor=b_factor,
            constant=constant,
            shift=shift,
            low=scales.low,
            high=scales.high,
        )
        calls.insert(0, KernelCall(scaled, (0, 1)))
    return calls


def _even_sums(layer: Layer) -> list[KernelCall]:
    """Return the sum that is rounded once, where a line gives it."""
    node, out, line = layer.node, layer.out, sum_line(layer)
    if line is None or line.shift not in _SHIFTS:
        return []
    low, high = output_clamp(node, out)
    parameters = HilMveSumS8Scaled(
        size=out.size,
        a_factor=line.first,
        b_factor=line.second,
        constant=line.addend,
        shift=line.shift,
        low=low,
        high=high,
    )
    return [KernelCall(parameters, (0, 1))]


def _scaled_sum(subtract: bool, scales: HilSumS8) -> tuple[int, int, int, int] | None:
    """Factors of both values, a constant and a shift that give every sum that there is."""
    values = np.array(ELEMENT_TYPES["int8"].values, np.int64)
    a_zero, b_zero = scales.a_zero_point, scales.b_zero_point
    a = requantize((values - a_zero) << 20, scales.a_multiplier, scales.a_shift)
    b = requantize((values - b_zero) << 20, scales.b_multiplier, scales.b_shift)
    total = a.reshape(-1, 1) + (-b if subtract else b)
    low, high = scales.low, scales.high
    outputs = requantize(total, scales.out_multiplier, scales.out_shift) + scales.out_zero_point
    wanted = np.clip(outputs, low, high).reshape(-1)
    whole = scales.out_multiplier * 2.0 ** (scales.out_shift - 31 + 20)
    a_real = scales.a_multiplier * 2.0 ** (scales.a_shift - 31) * whole
    b_real = scales.b_multiplier * 2.0 ** (scales.b_shift - 31) * whole * (-1 if subtract else 1)
    first, second = (x.reshape(-1) for x in np.meshgrid(values, values, indexing="ij"))
    reach = 128 * (abs(a_real) + abs(b_real)) + abs(a_real * a_zero) + abs(b_real * b_zero) + 256
    # As fine as 32 bits allow; then coarser, as the factors near by are others there.
    finest = 30 - int(np.ceil(np.log2(reach)))
    for bits in range(finest + 2, finest - 4, -1):
        if bits not in _SHIFTS:
            continue
        a_factors, b_factors = (
            round(real * 2**bits) + offset
            for real, offset in ((a_real, _NEARBY[:, 0]), (b_real, _NEARBY[:, 1]))
        )
        # A level's sums and the constant lie from level << bits to the next level. Those that
        # decide, whichever the factors, are near the ends; beyond the bounds the clamp helps.
        sums = first * a_factors[0] + second * b_factors[0]
        least, most = np.full(256, 2**62), np.full(256, -(2**62))
        np.minimum.at(least, wanted + 128, sums)
        np.maximum.at(most, wanted + 128, sums)
        margin = 2 * 128 * int(np.abs(_NEARBY).sum(axis=1).max())
        below = np.flatnonzero((sums <= least[wanted + 128] + margin) & (wanted > low))
        above = np.flatnonzero((sums >= most[wanted + 128] - margin) & (wanted < high))

        def products(pairs: Array, a: Array = a_factors, b: Array = b_factors) -> Array:
            product: Array = np.outer(a, first[pairs]) + np.outer(b, second[pairs])
            return product

        # One pair at the end of each level binds most choices; what else one fails on is then asked
        # of all.
        floor, ceiling = (
            pairs[np.unique(wanted[pairs], return_index=True)[1]]
            for pairs in (
                below[sums[below] == least[wanted[below] + 128]],
                above[sums[above] == most[wanted[above] + 128]],
            )
        )
        while True:
            lowest = ((wanted[floor] << bits) - products(floor)).max(axis=1, initial=-(2**31))
            highest = ((wanted[ceiling] + 1) << bits) - 1 - products(ceiling)
            highest = highest.min(axis=1, initial=2**31)
            constants = (lowest + highest) // 2
            largest = 128 * (np.abs(a_factors) + np.abs(b_factors)) + np.abs(constants)
            right = np.flatnonzero((lowest <= highest) & (largest < 2**31))
            if not right.size:
                break
            i = right[0]
            found = int(a_factors[i]), int(b_factors[i]), int(constants[i])
            result = (first * found[0] + second * found[1] + found[2]) >> bits
            clipped = np.clip(result, low, high)
            if np.array_equal(clipped, wanted):
                return *found, bits
            own = first * found[0] + second * found[1]
            if below.size:
                floor = np.append(floor, below[np.argmax((wanted[below] << bits) - own[below])])
            if above.size:
                ends = ((wanted[above] + 1) << bits) - own[above]
                ceiling = np.append(ceiling, above[np.argmin(ends)])
    return None


@lowers("MUL", dtypes={"int8"}, requires={"mve"}, roundings=TWICE_OR_EVEN)
def products(layer: Layer) -> Iterator[KernelCall]:
    """Yield the product of two tensors, either of which may be broadcast."""
    portable = product_parameters(layer)
    if not isinstance(portable, HilGenericMulS8):
        return
    once = ROUNDED_ONCE.get(Rounds(portable.rounding))
    if once is None or portable.shift > 0:
        return
    parameters = HilMveMulS8(
        binary=portable.binary,
        a_zero_point=portable.a_zero_point,
        b_zero_point=portable.b_zero_point,
        out_zero_point=portable.out_zero_point,
        multiplier=portable.multiplier,
        shift=portable.shift,
        once=once,
        low=portable.low,
        high=portable.high,
    )
    yield KernelCall(parameters, (0, 1))


@lowers("SQUARED_DIFFERENCE", dtypes={"int8"}, requires={"mve"})
def squares(layer: Layer) -> KernelCall:
    """Return the square of the difference of two tensors, each of which a table brings to the
    common scale.
    """
    node, out = layer.node, layer.out
    scale = square_scales(node, layer.operand(0), layer.operand(1), out).out
    a_table, b_table = square_tables(layer)
    parameters = HilMveSquaredDifferenceS8(
        binary=binary_walk(layer),
        a_table=a_table,
        b_table=b_table,
        out_zero_point=quantization(node, out)[1],
        multiplier=scale.multiplier,
        shift=scale.shift,
    )
    return KernelCall(parameters, (0, 1))


@lowers("ADD", "SUB", "MUL", dtypes={"int16"}, requires={"mve"})
def wide(layer: Layer) -> KernelCall:
    """Return the kernel of two int16 tensors, either of which may be broadcast."""
    if layer.node.op == "MUL":
        product = product_parameters(layer)
        parameters = HilMveMulS16(
            binary=product.binary,
            multiplier=product.multiplier,
            shift=product.shift,
            low=product.low,
            high=product.high,
        )
        return KernelCall(parameters, (0, 1))
    subtract = int(layer.node.op == "SUB")
    return KernelCall(HilMveSumS16(sum_s16=wide_sum(layer).sum_s16, subtract=subtract), (0, 1))
