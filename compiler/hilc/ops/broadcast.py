"""Shape rules and reference of operators with broadcast operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.ir import Node, Tensor
from hilc.ops.operands import invalid, operand, require_dtype, unsupported
from hilc.ops.traits import ChannelGroup, in_step

#: Largest rank that the reference broadcasts.
_MAX_RANK = 6


def broadcast_shape(node: Node, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the shape that all are broadcast to."""
    shapes = [tensor.shape for tensor in tensors]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        invalid(node, f"has operands of shapes {' and '.join(str(list(s)) for s in shapes)}")
    if len(shape) > _MAX_RANK and len(set(shapes)) > 1:
        unsupported(node, f"broadcasts to {len(shape)} dimensions", f"{_MAX_RANK} are supported")
    return shape


def operands_of_one_type(
    node: Node, ins: Sequence[Tensor | None], dtypes: Sequence[str], first: int = 0
) -> tuple[Tensor, Tensor]:
    """Return the two inputs from ``first`` on, which have one of the types ``dtypes``."""
    a, b = operand(node, ins, first), operand(node, ins, first + 1)
    require_dtype(node, a, dtypes)
    if a.dtype != b.dtype:
        invalid(
            node,
            f"has operands of types {a.dtype} and {b.dtype}; they must be of one type",
            "quantize the whole model, or convert one operand by QUANTIZE or DEQUANTIZE",
        )
    return a, b


def broadcast_channel_groups(
    node: Node, ins: Sequence[Tensor | None], out: Tensor
) -> list[ChannelGroup]:
    """Return the groups of channels of operands that are broadcast to the output's shape."""
    # An operand with one value for all channels is part of no group.
    return [in_step(t, out) for t in ins if t and t.shape[-1:] == out.shape[-1:]]
