"""FILL and BROADCAST_TO: one tensor's elements repeated over a constant shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hilc.ir import DTYPES, Array, Node, Tensor
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_ints,
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
)

#: The input that is repeated, and the one that says the shape.
OPERANDS = {"FILL": (1, 0), "BROADCAST_TO": (0, 1)}


def repeated(node: Node, ins: Sequence[Tensor | None]) -> Tensor:
    """Return the input whose elements are repeated."""
    return operand(node, ins, OPERANDS[node.op][0])


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = repeated(node, ins)
    require_dtype(node, x, DTYPES)
    shape = constant_ints(node, operand(node, ins, OPERANDS[node.op][1]))
    if any(size < 1 for size in shape):
        invalid(node, f"is to have the shape {list(shape)}; every size must be at least 1")
    fits = len(x.shape) <= len(shape) and all(
        own in (1, size)
        for own, size in zip(x.shape, shape[len(shape) - len(x.shape) :], strict=True)
    )
    if not fits or (node.op == "FILL" and x.shape):
        invalid(node, f"repeats {x.name!r} of shape {list(x.shape)} over {list(shape)}")
    return [(shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, repeated(node, ins), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[OPERANDS[node.op][0]]
    assert x is not None
    return [np.broadcast_to(x, outs[0].shape).copy()]


FILL = OpDef(_infer, _reference, _check)
BROADCAST_TO = replace(FILL, copies_elements=True)

OPERATORS: Mapping[str, OpDef] = {
    "BROADCAST_TO": BROADCAST_TO,
    "FILL": FILL,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "FILL": {"uint8", "int16", "int64", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "BROADCAST_TO": {"int8", "uint8", "int16", "int32", "int64", "float32", "bool"},
    "FILL": {"uint8"},
}
