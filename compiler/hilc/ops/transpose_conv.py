"""TRANSPOSE_CONV: a convolution run backwards, over NHWC images with weights ``[O, h, w, I]``.

Inputs: the shape of the output, the weights, the image, a bias or none. A window of the weights'
size slides over the output as that of CONV_2D slides over its input; each pixel of the image adds
to all that lies under its window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.ops import geometry, linear
from hilc.ops.attributes import ActivationAttributes, WindowAttributes
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import constant_ints, invalid, operand, require_counts
from hilc.ops.traits import RowRange, SampledRows, WeightedSums

#: Positions of the inputs.
SHAPE, WEIGHTS, IMAGE, BIAS = range(4)


@dataclass(frozen=True, kw_only=True)
class TransposeConvAttributes(WindowAttributes, ActivationAttributes):
    """Attributes of TRANSPOSE_CONV: the window slides over the output."""

    #: For a band of output rows: their number, and rows of the first window above them. Internal.
    part: tuple[int, int] | None = None


def layer_operands(
    node: Node, ins: Sequence[Tensor | None]
) -> tuple[linear.Operands, geometry.Window]:
    """Return the operands, checked, and the window that slides over the output."""
    require_counts(node, inputs=(3, 4))
    bias = ins[BIAS] if len(ins) > BIAS else None
    ops = linear.checked(
        node,
        operand(node, ins, IMAGE),
        operand(node, ins, WEIGHTS),
        bias,
        rank=4,
        channel_axis=0,
        # Of a bias of 32 bits with 16-bit activations no two references agree what it means.
        bias_types=1,
    )
    image = ops.x.shape
    if len(image) != 4:
        invalid(node, f"has an input of shape {list(image)}, not of 4 dimensions")
    channels, filter_h, filter_w, depth = ops.weights.shape
    if image[3] != depth:
        invalid(node, f"has {image[3]} input channels for filters of {depth}")
    shape = constant_ints(node, operand(node, ins, SHAPE))
    if len(shape) != 4 or min(shape) < 1 or (shape[0], shape[3]) != (image[0], channels):
        invalid(
            node,
            f"states the output's shape {list(shape)}, not [{image[0]}, height, width, {channels}]",
        )
    window = geometry.window(node, shape, filter_h, filter_w)
    if (part := TransposeConvAttributes.of(node).part) is not None:
        rows = replace(window.h, in_size=part[0], out_size=image[1], pad_before=part[1])
        return ops, geometry.Window(rows, window.w)
    if (window.h.out_size, window.w.out_size) != image[1:3]:
        invalid(
            node,
            f"states an output of {shape[1]} x {shape[2]}, whose windows take an image of "
            f"{window.h.out_size} x {window.w.out_size}, not {image[1]} x {image[2]}",
            "state the output's shape that its stride and padding lead to",
        )
    return ops, window


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    ops, window = layer_operands(node, ins)
    batch, _, width, channels = constant_ints(node, operand(node, ins, SHAPE))
    return [((batch, window.h.in_size, width, channels), ops.x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    ops, _ = layer_operands(node, ins)
    linear.check_output(node, ops, outs[0])


def _add_up(x: Array, weights: Array, window: geometry.Window, out: Tensor) -> Array:
    """Return the sums of the output, adding the contributions of each pixel by channel."""
    h, w = window.h, window.w
    rows = max((h.out_size - 1) * h.stride + h.filter_size, h.pad_before + out.shape[1])
    columns = max((w.out_size - 1) * w.stride + w.filter_size, w.pad_before + out.shape[2])
    sums = np.zeros((out.shape[0], rows, columns, out.shape[3]), x.dtype)
    for row in range(h.out_size):
        for column in range(w.out_size):
            under = sums[
                :,
                row * h.stride : row * h.stride + h.filter_size,
                column * w.stride : column * w.stride + w.filter_size,
            ]
            for channel in range(x.shape[3]):
                values = x[:, row, column, channel].reshape(-1, 1, 1, 1)
                under += values * weights[..., channel].transpose(1, 2, 0)
    inside: Array = sums[
        :,
        h.pad_before : h.pad_before + out.shape[1],
        w.pad_before : w.pad_before + out.shape[2],
    ]
    return inside


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    ops, window = layer_operands(node, ins)
    x, out = values[IMAGE], outs[0]
    assert x is not None
    if not ops.x.element.quantized:
        sums = _add_up(x, ops.weight_data, window, out) + ops.bias_data
        return [linear.clamp_float(node, sums)]
    exact = x.astype(np.int64) - linear.pad_value(node, ops)
    sums = _add_up(exact, ops.weight_data.astype(np.int64), window, out) + ops.bias_data
    return [linear.channel_requantization(node, ops, out).apply(sums)]


def _row_places(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    """Return the first and the last row of the image whose windows cover each row of the output;
    behind the last window, the last row.
    """
    h = layer_operands(node, ins)[1].h
    if h.stride > h.filter_size:
        # No window covers the rows between two.
        return []
    places = np.arange(h.in_size) + h.pad_before
    first = np.maximum(0, (places - h.filter_size) // h.stride + 1)
    both = (np.minimum(end, h.out_size - 1).tolist() for end in (first, places // h.stride))
    return [*zip(*both, strict=True)]


def _part(node: Node, ins: Sequence[Tensor | None], rows: RowRange) -> Node:
    """Return the node of some rows."""
    attributes, h = TransposeConvAttributes.of(node), layer_operands(node, ins)[1].h
    part = (rows.count, h.pad_before + rows.first - rows.before * h.stride)
    return replace(node, attrs=replace(attributes, part=part))


TRANSPOSE_CONV = OpDef(
    _infer,
    _reference,
    _check,
    attributes=TransposeConvAttributes,
    states_shape=SHAPE,
    integer_form=WeightedSums(channel_axis=0, image=IMAGE, weights=WEIGHTS, bias=BIAS),
    roundings=frozenset(Rounding),
    rows=SampledRows(
        _row_places, _part, lambda node: (WindowAttributes.of(node).stride_h, 1), IMAGE
    ),
)

OPERATORS: Mapping[str, OpDef] = {
    "TRANSPOSE_CONV": TRANSPOSE_CONV,
}
