"""ADD, SUB and MUL."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilAddF32,
    HilAddS8,
    HilAddS16,
    HilBinary,
    HilBinaryF32,
    HilMulF32,
    HilMulS8,
    HilMulS16,
    HilSubF32,
    HilSubS8,
    HilSubS16,
    HilSumS8,
    HilSumS16,
)
from hilc.lowering.registry import Layer, lowers, once
from hilc.lowering.strides import broadcast_strides, nest, walk
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.elementwise import product_scale, sum_scales
from hilc.ops.operands import (
    ARITHMETIC,
    float_range,
    output_clamp,
    quantization,
)

_FLOATS = {"ADD": HilAddF32, "SUB": HilSubF32, "MUL": HilMulF32}
_SUMS = {"ADD": HilAddS8, "SUB": HilSubS8}


@lowers("ADD", "SUB", "MUL", dtypes=ARITHMETIC)
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any two tensors on any core, broadcast by its steps."""
    node = layer.node
    if not layer.out.element.quantized:
        range_ = float_range(node, ActivationAttributes.of(node).activation)
        bounded = HilBinaryF32(binary=binary_walk(layer), low=range_[0], high=range_[1])
        yield KernelCall(_FLOATS[node.op](binary_f32=bounded), (0, 1))
        return
    if layer.out.element.symmetric:
        yield KernelCall(_symmetric(layer), (0, 1))
        return
    if node.op != "MUL":
        yield KernelCall(_SUMS[node.op](sum_s8=sum_parameters(layer)), (0, 1))
        return
    a, b, out = layer.operand(0), layer.operand(1), layer.out
    multiplier, shift = product_scale(node, a, b, out)
    low, high = output_clamp(node, out)
    parameters = HilMulS8(
        binary=binary_walk(layer),
        a_zero_point=quantization(node, a)[1],
        b_zero_point=quantization(node, b)[1],
        out_zero_point=quantization(node, out)[1],
        multiplier=multiplier,
        shift=shift,
        low=low,
        high=high,
    )
    yield KernelCall(parameters, (0, 1))


def _symmetric(layer: Layer) -> Parameters:
    """Of two tensors without zero points."""
    node, out = layer.node, layer.out
    a, b = layer.operand(0), layer.operand(1)
    low, high = output_clamp(node, out)
    if node.op == "MUL":
        multiplier, shift = product_scale(node, a, b, out)
        return HilMulS16(
            binary=binary_walk(layer), multiplier=multiplier, shift=shift, low=low, high=high
        )
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
    return (HilAddS16 if node.op == "ADD" else HilSubS16)(sum_s16=parameters)


@once
def sum_parameters(layer: Layer) -> HilSumS8:
    """Return the parameters of ``hil_add_s8`` and ``hil_sub_s8``."""
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
    """Return how two operands are walked, in the order of these inputs, either of which may be
    repeated.
    """
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
