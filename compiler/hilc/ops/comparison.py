"""EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER and GREATER_EQUAL of two tensors, of which one may be
broadcast to the other's shape.

int8 operands are brought to one scale first, raised by 8 bits: what differs by less than the
rounding is equal. By the policy of ties to even, int8 compares exactly, for operands of one
quantization, as int16 always does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hilc.ir import Array, Node, Rounding, Tensor
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops import permuting
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    multiplier,
    operand,
    quantization,
    require_counts,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import BroadcastRows, OrderOfOperands

_ORDERED = ("int8", "int16", "int32", "int64", "float32")
#: The types that an operator takes.
DTYPES: Mapping[str, tuple[str, ...]] = {
    "EQUAL": (*_ORDERED, "bool"),
    "NOT_EQUAL": (*_ORDERED, "bool"),
    "LESS": _ORDERED,
    "LESS_EQUAL": _ORDERED,
    "GREATER": _ORDERED,
    "GREATER_EQUAL": _ORDERED,
}
_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}
#: Bits by which int8 operands are raised before they are brought to one scale.
HEADROOM_BITS = 8


def comparison_scale(node: Node, x: Tensor) -> FixedPoint:
    """Return the factor of an int8 operand: its scale, which must be below 1; one without rounding
    where operands of one quantization compare exactly.
    """
    if node.rounding is Rounding.NEAREST_EVEN:
        return multiplier(node, 0.5)
    scale = quantization(node, x)[0]
    if scale >= 1:
        unsupported(
            node,
            f"takes {x.name!r} with scale {scale}; it must be less than 1",
            "TensorFlow Lite Micro stops at such a model: scale its inputs down",
        )
    return multiplier(node, scale)


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    a, b = operands_of_one_type(node, ins, DTYPES[node.op])
    if a.element.quantized and not (a.element.tabled and node.rounding is Rounding.DOUBLE):
        require_same_quantization(node, a, b)
    elif a.element.tabled:
        comparison_scale(node, a)
        comparison_scale(node, b)
    return [(broadcast_shape(node, (a, b)), "bool")]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    def scaled(index: int) -> Array:
        tensor, x = operand(node, ins, index), values[index]
        assert x is not None
        if not tensor.element.tabled:
            return x
        raised = (x.astype(np.int64) - quantization(node, tensor)[1]) << HEADROOM_BITS
        return requantize(raised, *comparison_scale(node, tensor))

    return [_COMPARISONS[node.op](scaled(0), scaled(1))]


def _undefined_in_tflm(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> str | None:
    # Its kernels of the other comparisons refuse the type.
    element = operand(node, ins, 0).element
    if node.op == "GREATER" and element.quantized and not element.tabled:
        return "succeeds with int16, but leaves its output unwritten"
    return None


COMPARISON = OpDef(
    _infer,
    _reference,
    rows=BroadcastRows(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
    roundings=TWICE_OR_EVEN,
    integer_form=OrderOfOperands(),
    undefined_in_tflm=_undefined_in_tflm,
)

OPERATORS: Mapping[str, OpDef] = {
    "EQUAL": COMPARISON,
    "GREATER": COMPARISON,
    "GREATER_EQUAL": COMPARISON,
    "LESS": COMPARISON,
    "LESS_EQUAL": COMPARISON,
    "NOT_EQUAL": COMPARISON,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {name: {"int16"} for name in OPERATORS if name != "GREATER"}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {name: {"int16"} for name in ("GREATER", "LESS_EQUAL", "NOT_EQUAL")}
