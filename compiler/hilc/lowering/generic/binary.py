"""ADD, SUB and MUL."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.linear import Fields
from hilc.lowering.registry import Layer, lowers, once
from hilc.lowering.strides import broadcast_strides, nest, walk_fields
from hilc.ops.binary import product_scale, sum_scales
from hilc.ops.operands import (
    ACTIVATION_RANGES,
    activation,
    output_clamp,
    quantization,
)


@lowers("ADD", "SUB", "MUL", dtypes={"int8", "float32"})
def portable(layer: Layer) -> Iterator[KernelCall]:
    """The kernel of any two tensors on any core, broadcast by its steps."""
    node = layer.node
    if layer.dtype == "float32":
        low, high = ACTIVATION_RANGES[activation(node)]
        fields: Fields = {**_walk(layer), "low": low, "high": high}
        yield KernelCall(kernels()[f"hil_{node.op.lower()}_f32"], fields, (0, 1))
        return
    if node.op == "MUL":
        a, b, out = layer.operand(0), layer.operand(1), layer.out
        mantissa, shift = product_scale(node, a, b, out)
        fields = {**_int8_fields(layer), "mantissa": mantissa, "shift": shift}
    else:
        fields = sum_fields(layer)
    yield KernelCall(kernels()[f"hil_{node.op.lower()}_s8"], fields, (0, 1))


@once
def sum_fields(layer: Layer) -> Fields:
    """The fields of ``hil_add_s8`` and ``hil_sub_s8``."""
    fields = _int8_fields(layer)
    scales = sum_scales(layer.node, layer.operand(0), layer.operand(1), layer.out)
    for name, scale in zip(("a", "b", "out"), scales, strict=True):
        fields |= {f"{name}_mantissa": scale.mantissa, f"{name}_shift": scale.shift}
    return fields


def _int8_fields(layer: Layer) -> Fields:
    node, out = layer.node, layer.out
    low, high = output_clamp(node, out)
    return {
        **_walk(layer),
        "a_zero_point": quantization(node, layer.operand(0))[1],
        "b_zero_point": quantization(node, layer.operand(1))[1],
        "out_zero_point": quantization(node, out)[1],
        "low": low,
        "high": high,
    }


def _walk(layer: Layer) -> Fields:
    """How both operands are walked, one of which may be repeated."""
    shape = layer.out.shape
    strides = [broadcast_strides(layer.operand(i).shape, shape) for i in (0, 1)]
    *outer, inner = nest(shape, *strides)
    return {
        **walk_fields(layer.node, outer, ("a", "b")),
        "length": inner.count,
        "a_step": inner.steps[0],
        "b_step": inner.steps[1],
    }
