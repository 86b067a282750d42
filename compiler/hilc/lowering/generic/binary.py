"""ADD, SUB and MUL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilBinary,
    HilBinaryF32,
    HilGenericAddF32,
    HilGenericAddS8,
    HilGenericAddS16,
    HilGenericMulF32,
    HilGenericMulS8,
    HilGenericMulS16,
    HilGenericMulS16Even,
    HilGenericSubF32,
    HilGenericSubS8,
    HilGenericSubS16,
    HilGenericSumS8Affine,
    HilGenericSumS8Even,
    HilGenericSumS16Even,
    HilSumS8,
    HilSumS16,
)
from hilc.lowering.registry import Layer, cached_per_layer, lowers
from hilc.lowering.rounds import rounds
from hilc.lowering.strides import broadcast_strides, nest, walk
from hilc.numerics.requantize import INT32_MAX, LEAST_SHIFT, has_ties
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.elementwise import product_scale, reference, sum_factors, sum_scales
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import (
    ARITHMETIC,
    float_range,
    output_clamp,
    quantization,
)

_FLOATS = {"ADD": HilGenericAddF32, "SUB": HilGenericSubF32, "MUL": HilGenericMulF32}
#: Magnitude of a product below which the short forms of rounding are exact.
_NARROW_LIMIT = 2**30
#: Magnitude that no sum of an int8 line has.
_ANY = 2**62
_SUMS = {"ADD": HilGenericAddS8, "SUB": HilGenericSubS8}


@lowers("ADD", "SUB", "MUL", dtypes=ARITHMETIC, roundings=TWICE_OR_EVEN)
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any two tensors on any core, broadcast by its steps."""
    node = layer.node
    if not layer.out.element.quantized:
        range_ = float_range(node, ActivationAttributes.of(node).activation)
        bounded = HilBinaryF32(binary=binary_walk(layer), low=range_[0], high=range_[1])
        yield KernelCall(_FLOATS[node.op](binary_f32=bounded), (0, 1))
        return
    if node.op == "MUL":
        yield KernelCall(product_parameters(layer), (0, 1))
    elif node.rounding is Rounding.NEAREST_EVEN:
        yield KernelCall(_even_sum(layer), (0, 1))
    elif layer.out.element.symmetric:
        yield KernelCall(wide_sum(layer), (0, 1))
    else:
        yield KernelCall(_SUMS[node.op](sum_s8=sum_parameters(layer)), (0, 1))


@cached_per_layer
def product_parameters(layer: Layer) -> HilGenericMulS8 | HilGenericMulS16 | HilGenericMulS16Even:
    """Return the parameters of a product: of int16 with zero points it may leave 32 bits."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scale = multiplier, shift = product_scale(node, a, b, out)
    low, high = output_clamp(node, out)
    ends = [end - quantization(node, t)[1] for t in (a, b) for end in t.element.bounds]
    products = [first * second for first in ends[:2] for second in ends[2:]]
    fields: dict[str, Any] = {
        "binary": binary_walk(layer),
        "a_zero_point": quantization(node, a)[1],
        "b_zero_point": quantization(node, b)[1],
        "out_zero_point": quantization(node, out)[1],
        "multiplier": multiplier,
        "shift": shift,
        "low": low,
        "high": high,
    }
    if max(map(abs, products)) > INT32_MAX:
        return HilGenericMulS16Even(**fields)
    if shift < LEAST_SHIFT:
        # Of a product of 32 bits less than a half is left.
        fields.update(multiplier=0, shift=-1)
    ties = bool(has_ties(*scale, min(products), max(products)))
    narrow = shift < 0 and max(map(abs, products)) < _NARROW_LIMIT
    kind = HilGenericMulS16 if out.element.symmetric else HilGenericMulS8
    return kind(rounding=int(rounds(node.rounding, ties, narrow)), **fields)


def _even_sum(layer: Layer) -> Parameters:
    """Return the sum or difference that is rounded once: by a line, where one serves."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    low, high = output_clamp(node, out)
    line = sum_line(layer) if out.element.tabled else None
    if line is not None:
        return HilGenericSumS8Affine(binary=binary_walk(layer), **vars(line), low=low, high=high)
    (first, second), right = sum_factors(node, a, b, out)
    kind = HilGenericSumS16Even if out.element.symmetric else HilGenericSumS8Even
    return kind(
        binary=binary_walk(layer),
        a_zero_point=quantization(node, a)[1],
        b_zero_point=quantization(node, b)[1],
        a_factor=first,
        b_factor=second,
        right=right,
        out_zero_point=quantization(node, out)[1],
        low=low,
        high=high,
    )


@dataclass(frozen=True)
class SumLine:
    """A sum of two int8 numbers as ``(a * first + b * second + addend) >> shift``, clamped."""

    first: int
    second: int
    addend: int
    shift: int


@cached_per_layer
def sum_line(layer: Layer) -> SumLine | None:
    """Return the affine form of an int8 sum or difference, exact for every pair; None if none is
    found.
    """
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    numbers = np.array(out.element.values, out.dtype)
    pairs = np.broadcast_arrays(numbers[:, np.newaxis], numbers)
    (wanted,) = reference(node, (a, b), (out,), pairs)
    expected, (low, high) = wanted.astype(np.int64), output_clamp(node, out)
    values = numbers.astype(np.int64)
    first, second = (quantization(node, t)[0] / quantization(node, out)[0] for t in (a, b))
    factors = first, -second if node.op == "SUB" else second
    # Sums of every eighth row refuse most factors.
    parts = [slice(None, None, 8), slice(None)]
    finest = min(22, 23 - int(np.ceil(np.log2(max(2**-16, *map(abs, factors))))))
    for shift in range(finest, max(0, finest - 3), -1):
        nearest = [round(factor * 2**shift) for factor in factors]
        begins = np.where(expected > low, expected << shift, -_ANY)
        ends = np.where(expected < high, (expected + 1 << shift) - 1, _ANY)
        for tried in sorted(product(*map(_around, nearest)), key=_off(nearest)):
            for part in parts:
                sums = tried[0] * values[part, np.newaxis] + tried[1] * values
                least = max((begins[part] - sums).max(), -(2**31))
                most = min((ends[part] - sums).min(), 2**31 - 1)
                if least > most:
                    break
            else:
                addend = int(least + most) // 2
                if abs(addend) + np.abs(sums).max() < 2**31:
                    return SumLine(tried[0], tried[1], addend, shift)
    return None


def _around(value: int) -> range:
    return range(value - 3, value + 4)


def _off(nearest: list[int]) -> Callable[[tuple[int, ...]], int]:
    """Return the largest distance of numbers from these."""
    return lambda tried: sum(abs(t - n) for t, n in zip(tried, nearest, strict=True))


@cached_per_layer
def wide_sum(layer: Layer) -> HilGenericAddS16 | HilGenericSubS16:
    """Return the parameters of a sum of int16 without zero points that is rounded thrice."""
    node, out = layer.node, layer.out
    a, b = layer.operand(0), layer.operand(1)
    low, high = output_clamp(node, out)
    scales = sum_scales(node, a, b, out)
    parameters = HilSumS16(
        binary=binary_walk(layer),
        a_multiplier=scales.a.multiplier,
        a_shift=scales.a.shift,
        b_multiplier=scales.b.multiplier,
        b_shift=scales.b.shift,
        out_multiplier=scales.out.multiplier,
        out_shift=scales.out.shift,
        low=low,
        high=high,
    )
    return (HilGenericAddS16 if node.op == "ADD" else HilGenericSubS16)(sum_s16=parameters)


@cached_per_layer
def sum_parameters(layer: Layer) -> HilSumS8:
    """Return the parameters of ``hil_generic_add_s8`` and ``hil_generic_sub_s8``."""
    node, out = layer.node, layer.out
    scales = sum_scales(node, layer.operand(0), layer.operand(1), out)
    low, high = output_clamp(node, out)
    return HilSumS8(
        binary=binary_walk(layer),
        a_zero_point=quantization(node, layer.operand(0))[1],
        a_multiplier=scales.a.multiplier,
        a_shift=scales.a.shift,
        b_zero_point=quantization(node, layer.operand(1))[1],
        b_multiplier=scales.b.multiplier,
        b_shift=scales.b.shift,
        out_zero_point=quantization(node, out)[1],
        out_multiplier=scales.out.multiplier,
        out_shift=scales.out.shift,
        low=low,
        high=high,
    )


def binary_walk(layer: Layer, order: tuple[int, int] = (0, 1)) -> HilBinary:
    """Return the walk over two operands, in the order of these inputs; either may be broadcast."""
    shape = layer.out.shape
    strides = [broadcast_strides(layer.operand(i).shape, shape) for i in order]
    *outer, inner = nest(shape, *strides)
    walked = walk(layer.node, outer, 2)
    return HilBinary(
        rows=walked.rows,
        counts=walked.counts,
        a_jumps=walked.jumps[0],
        b_jumps=walked.jumps[1],
        length=inner.count,
        a_step=inner.steps[0],
        b_step=inner.steps[1],
    )
