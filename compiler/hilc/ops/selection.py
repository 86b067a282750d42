"""SELECT and SELECT_V2: elements of one tensor or of another, as a third of bools says.

SELECT takes two tensors of one shape, and a condition of that shape, of one element, or of one for
each entry of their first axis. SELECT_V2 broadcasts all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hilc.ir import DTYPES, Array, Node, Tensor
from hilc.ops import permuting
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
)
from hilc.ops.traits import BroadcastRows


def condition_shape(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, ...]:
    """Return the shape by which the condition is broadcast to the output's."""
    condition, a = operand(node, ins, 0), operand(node, ins, 1)
    if node.op == "SELECT" and condition.shape != a.shape and len(condition.shape) == 1:
        return (*condition.shape, *(1,) * (len(a.shape) - 1))
    return condition.shape


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    condition = operand(node, ins, 0)
    require_dtype(node, condition, ("bool",))
    a, b = operands_of_one_type(node, ins, DTYPES, first=1)
    if node.op == "SELECT_V2":
        return [(broadcast_shape(node, (condition, a, b)), a.dtype)]
    by_entry = len(condition.shape) == 1 and condition.shape == a.shape[:1]
    if a.shape != b.shape or not (condition.shape in (a.shape, ()) or by_entry):
        shapes = [list(t.shape) for t in (condition, a, b)]
        invalid(
            node,
            f"selects by {shapes[0]} from {shapes[1]} and {shapes[2]}; both must be of one shape, "
            "the condition of that, of its first axis, or of none",
            "use SELECT_V2 (tf.where), which broadcasts",
        )
    return [(a.shape, a.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for index in (1, 2):
        require_same_quantization(node, operand(node, ins, index), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    condition, a, b = values
    assert condition is not None
    assert a is not None
    assert b is not None
    return [np.where(condition.reshape(condition_shape(node, ins)), a, b)]


SELECT_V2 = OpDef(
    _infer,
    _reference,
    _check,
    rows=BroadcastRows(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
    copies_elements=True,
)
#: Its condition may be one for each element of the first axis, whose place matters then.
SELECT = replace(SELECT_V2, permuted=None)

OPERATORS: Mapping[str, OpDef] = {
    "SELECT": SELECT,
    "SELECT_V2": SELECT_V2,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "SELECT": {"int8", "uint8", "int16", "int32", "int64", "float32", "bool"},
    "SELECT_V2": {"uint8", "int32", "int64", "bool"},
}
