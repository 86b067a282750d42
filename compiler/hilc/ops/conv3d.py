"""CONV_3D over volumes `[N, depth, height, width, I]` with weights
`[filter depth, filter height, filter width, I, O]`, of float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.ops import linear
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.geometry import MAX_ADDED_POSITIONS, Axis, output_size, pad_before
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import invalid, operand, require_dtype

#: Weights, and the output's channels along their last axis.
_RANK, _CHANNEL_AXIS = 5, 4


@dataclass(frozen=True, kw_only=True)
class Conv3DAttributes(ActivationAttributes):
    """Attributes of CONV_3D."""

    #: Slices from one position of the filter to the next, at least 1.
    stride_d: int
    #: Rows from one position of the filter to the next, at least 1.
    stride_h: int
    #: Columns from one position of the filter to the next, at least 1.
    stride_w: int
    #: Slices from one tap of the filter to the next, at least 1.
    dilation_d: int = 1
    #: Rows from one tap of the filter to the next, at least 1.
    dilation_h: int = 1
    #: Columns from one tap of the filter to the next, at least 1.
    dilation_w: int = 1
    #: Padding of the volume.
    padding: Literal["SAME", "VALID"]


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, tuple[Axis, Axis, Axis]]:
    """Return the operands, checked, and how the filter slides along each axis."""
    require_dtype(node, operand(node, ins, 0), ("float32",))
    ops = linear.operands(node, ins, _RANK, _CHANNEL_AXIS)
    shape, filters, a = ops.x.shape, ops.weights.shape, Conv3DAttributes.of(node)
    if len(shape) != _RANK:
        invalid(node, f"has an input of shape {list(shape)}, not of {_RANK} dimensions")
    if shape[4] != filters[3]:
        invalid(node, f"has {shape[4]} input channels for filters of {filters[3]}")
    axes = []
    for name, in_size, filter_size, stride, dilation in (
        ("d", shape[1], filters[0], a.stride_d, a.dilation_d),
        ("h", shape[2], filters[1], a.stride_h, a.dilation_h),
        ("w", shape[3], filters[2], a.stride_w, a.dilation_w),
    ):
        if min(stride, dilation, filter_size) < 1:
            invalid(
                node,
                f"has filter {filter_size}, stride {stride} and dilation {dilation} along {name}; "
                "each must be at least 1",
            )
        size = output_size(in_size, filter_size, stride, dilation, a.padding)
        before = pad_before(in_size, filter_size, stride, dilation, a.padding)
        axis = Axis(in_size, filter_size, stride, dilation, size, before)
        if size < 1 or before + axis.span > MAX_ADDED_POSITIONS:
            invalid(node, f"has a filter of {axis.span} along {name} for {in_size}")
        axes.append(axis)
    depth, height, width = axes
    return ops, (depth, height, width)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, axes = layer_operands(node, ins)
    sizes = (axis.out_size for axis in axes)
    return [((ops.x.shape[0], *sizes, ops.weights.shape[_CHANNEL_AXIS]), ops.x.dtype)]


def _reference(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x = values[0]
    assert x is not None
    ops, axes = layer_operands(node, ins)
    around = [(axis.pad_before, axis.pad_after) for axis in axes]
    padded = np.pad(x, [(0, 0), *around, (0, 0)])
    sums = np.zeros(outs[0].shape, np.float32)
    # One product after another, as the reference adds.
    for taps in product(*(range(axis.filter_size) for axis in axes)):
        begins = [tap * axis.dilation for tap, axis in zip(taps, axes, strict=True)]
        taken = tuple(
            slice(begin, begin + (axis.out_size - 1) * axis.stride + 1, axis.stride)
            for begin, axis in zip(begins, axes, strict=True)
        )
        under = padded[(slice(None), *taken)]
        for channel in range(x.shape[-1]):
            sums += under[..., channel, np.newaxis] * ops.weight_data[(*taps, channel)]
    return [linear.clamp_float(node, sums + ops.bias_data)]


CONV_3D = OpDef(_infer, _reference, attributes=Conv3DAttributes)

OPERATORS: Mapping[str, OpDef] = {
    "CONV_3D": CONV_3D,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "CONV_3D": {"float32"},
}
