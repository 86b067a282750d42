"""Arithmetic, comparisons and selections of tensors that are broadcast to one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hilc.ir import Array, Rounding
from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilDivEven,
    HilGenericCombineF32,
    HilGenericCombineS8,
    HilGenericCombineS16,
    HilGenericCombineS32,
    HilGenericCombineS64,
    HilGenericCombineU8,
    HilGenericCompareF32,
    HilGenericCompareS8Scaled,
    HilGenericCompareS16,
    HilGenericCompareS32,
    HilGenericCompareS64,
    HilGenericCompareU8,
    HilGenericDivF32,
    HilGenericDivideS8,
    HilGenericDivideS16,
    HilGenericDivideS32,
    HilGenericDivideS64,
    HilGenericDivS8,
    HilGenericDivS8Even,
    HilGenericDivS16Even,
    HilGenericFloorDivF32,
    HilGenericFloorModF32,
    HilGenericPowF32,
    HilGenericPowS32,
    HilGenericSelect,
    HilGenericSquaredDifferenceS8,
    HilGenericSquaredDifferenceS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.strides import broadcast_strides, nest, walk
from hilc.numerics.requantize import requantize
from hilc.ops import arithmetic, comparison
from hilc.ops.arithmetic import (
    SQUARE_HEADROOM_BITS,
    even_quotient_scale,
    quotient_scale,
    square_scales,
)
from hilc.ops.comparison import comparison_scale
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import output_clamp, plain_clamp, quantization
from hilc.ops.selection import condition_shape

#: ``enum hil_operation`` of ``hil/kernels/generic/arithmetic.h``, by the operators' names.
_OPERATIONS = (
    *("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"),
    *("DIV", "FLOOR_DIV", "FLOOR_MOD"),
    *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL"),
)
_DIVISIONS = ("DIV", "FLOOR_DIV", "FLOOR_MOD")
#: Comparisons that are others with their operands exchanged.
_EXCHANGED = {"GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL"}
#: The operation on bytes, of which bools are two, that computes an operator on bools.
_OF_BOOLS = {"LOGICAL_AND": "MINIMUM", "LOGICAL_OR": "MAXIMUM"}

_Kernels = Mapping[str, Callable[..., Parameters]]
_COMBINE: _Kernels = {
    "int8": HilGenericCombineS8,
    "uint8": HilGenericCombineU8,
    "int16": HilGenericCombineS16,
    "int32": HilGenericCombineS32,
    "int64": HilGenericCombineS64,
    "float32": HilGenericCombineF32,
    "bool": HilGenericCombineU8,
}
_DIVIDE: _Kernels = {
    "int8": HilGenericDivideS8,
    "int16": HilGenericDivideS16,
    "int32": HilGenericDivideS32,
    "int64": HilGenericDivideS64,
}
_COMPARE: _Kernels = {
    "int16": HilGenericCompareS16,
    "int32": HilGenericCompareS32,
    "int64": HilGenericCompareS64,
    "float32": HilGenericCompareF32,
    "bool": HilGenericCompareU8,
}
_FLOATS: _Kernels = {
    "FLOOR_DIV": HilGenericFloorDivF32,
    "FLOOR_MOD": HilGenericFloorModF32,
    "POW": HilGenericPowF32,
}


@lowers(*arithmetic.DTYPES)
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any two tensors on any core, broadcast by its steps."""
    node, a = layer.node, layer.operand(0)
    if arithmetic.has_scale(node, a):
        return KernelCall((_quotient if node.op == "DIV" else _square)(layer), (0, 1))
    if node.op in _FLOATS and arithmetic.holds_floats(a):
        return KernelCall(_FLOATS[node.op](binary=binary_walk(layer)), (0, 1))
    if node.op == "POW":
        return KernelCall(HilGenericPowS32(binary=binary_walk(layer)), (0, 1))
    low, high = plain_clamp(node, layer.out)
    if node.op == "DIV" and arithmetic.holds_floats(a):
        return KernelCall(HilGenericDivF32(binary=binary_walk(layer), low=low, high=high), (0, 1))
    return _plain(layer)


@lowers("DIV", dtypes={"int8", "int16"}, roundings=(Rounding.NEAREST_EVEN,))
def quotient_to_even(layer: Layer) -> KernelCall:
    """Return the quotient that is rounded once, ties to even."""
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    multiplier, right = even_quotient_scale(node, a, b, out)
    low, high = output_clamp(node, out)
    kernel = HilGenericDivS16Even if out.element.symmetric else HilGenericDivS8Even
    parameters = kernel(
        div_even=HilDivEven(
            binary=binary_walk(layer),
            a_zero_point=quantization(node, a)[1],
            b_zero_point=quantization(node, b)[1],
            out_zero_point=quantization(node, out)[1],
            multiplier=multiplier,
            right=right,
            low=low,
            high=high,
        )
    )
    return KernelCall(parameters, (0, 1))


@lowers("ADD", "SUB", "MUL", dtypes={"int32", "int64"})
def integers(layer: Layer) -> KernelCall:
    """Return the kernel of two integer tensors without quantization."""
    return _plain(layer)


def _plain(layer: Layer) -> KernelCall:
    node, dtype = layer.node, layer.dtype
    kernel = (_DIVIDE if node.op in _DIVISIONS else _COMBINE)[dtype]
    operation = _OPERATIONS.index(_OF_BOOLS.get(node.op, node.op))
    clamp = {}
    if dtype == "int32":
        low, high = plain_clamp(node, layer.out)
        clamp = {"low": int(low), "high": int(high)}
    return KernelCall(kernel(binary=binary_walk(layer), operation=operation, **clamp), (0, 1))


def _quotient(layer: Layer) -> Parameters:
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    multiplier, shift = quotient_scale(node, a, b, out)
    low, high = output_clamp(node, out)
    return HilGenericDivS8(
        binary=binary_walk(layer),
        a_zero_point=quantization(node, a)[1],
        b_zero_point=quantization(node, b)[1],
        out_zero_point=quantization(node, out)[1],
        multiplier=multiplier,
        shift=shift,
        low=low,
        high=high,
    )


def _square(layer: Layer) -> Parameters:
    node, a, b, out = layer.node, layer.operand(0), layer.operand(1), layer.out
    scales = square_scales(node, a, b, out)
    kernel = (
        HilGenericSquaredDifferenceS16 if out.element.symmetric else HilGenericSquaredDifferenceS8
    )
    return kernel(
        binary=binary_walk(layer),
        a_zero_point=quantization(node, a)[1],
        b_zero_point=quantization(node, b)[1],
        a_multiplier=scales.a.multiplier,
        a_shift=scales.a.shift,
        b_multiplier=scales.b.multiplier,
        b_shift=scales.b.shift,
        out_zero_point=quantization(node, out)[1],
        out_multiplier=scales.out.multiplier,
        out_shift=scales.out.shift,
    )


def square_tables(layer: Layer) -> tuple[Array, Array]:
    """Return both operands of an int8 squared difference, less their zero points and brought to one
    scale, for the values from the least on.
    """
    node, out, operands = layer.node, layer.out, (layer.operand(0), layer.operand(1))
    scales = square_scales(node, *operands, out)
    values, headroom = np.array(out.element.values), SQUARE_HEADROOM_BITS[out.dtype]
    a_table, b_table = (
        requantize(values - quantization(node, x)[1] << headroom, *scale).astype(np.int16)
        for x, scale in zip(operands, (scales.a, scales.b), strict=True)
    )
    return a_table, b_table


@lowers(*comparison.DTYPES, roundings=TWICE_OR_EVEN)
def compare(layer: Layer) -> KernelCall:
    """Return the comparison of any two tensors."""
    node = layer.node
    order = (1, 0) if node.op in _EXCHANGED else (0, 1)
    operation = _OPERATIONS.index(_EXCHANGED.get(node.op, node.op))
    walked = binary_walk(layer, order)
    a, b = (layer.operand(index) for index in order)
    if not a.element.tabled:
        return KernelCall(_COMPARE[a.dtype](binary=walked, operation=operation), order)
    a_scale, b_scale = comparison_scale(node, a), comparison_scale(node, b)
    parameters = HilGenericCompareS8Scaled(
        binary=walked,
        operation=operation,
        a_zero_point=quantization(node, a)[1],
        a_multiplier=a_scale.multiplier,
        a_shift=a_scale.shift,
        b_zero_point=quantization(node, b)[1],
        b_multiplier=b_scale.multiplier,
        b_shift=b_scale.shift,
    )
    return KernelCall(parameters, order)


@lowers("SELECT", "SELECT_V2")
def select(layer: Layer) -> KernelCall:
    """Return the selection by a condition, of elements of any type."""
    out, nbytes = layer.out, layer.out.element.itemsize
    shapes = [
        condition_shape(layer.node, layer.ins),
        layer.operand(1).shape,
        layer.operand(2).shape,
    ]
    sizes = (1, nbytes, nbytes)
    strides = [
        [stride * size for stride in broadcast_strides(shape, out.shape)]
        for shape, size in zip(shapes, sizes, strict=True)
    ]
    *outer, inner = nest(out.shape, *strides)
    walked = walk(layer.node, outer, 3)
    parameters = HilGenericSelect(
        rows=walked.rows,
        counts=walked.counts,
        c_jumps=walked.jumps[0],
        a_jumps=walked.jumps[1],
        b_jumps=walked.jumps[2],
        length=inner.count,
        c_step=inner.steps[0],
        a_step=inner.steps[1],
        b_step=inner.steps[2],
        bytes=nbytes,
    )
    return KernelCall(parameters, (0, 1, 2))
