"""REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_ANY and REDUCE_ALL over any axes, ARG_MAX and ARG_MIN
over one.

Inputs: the tensor and the constant axes. Of equal numbers ARG_MAX and ARG_MIN take the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hilc.ir import Array, Attributes, Node, Numerics, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.ops import permuting
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.cast import CASTABLE
from hilc.ops.mean import reduced_axes, reduced_shape
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_int,
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
    resolve_axis,
)
from hilc.ops.traits import ChannelGroup, OrderOfOperands, ascending, in_step

_ORDERED = CASTABLE
_DTYPES: Mapping[str, tuple[str, ...]] = {
    "REDUCE_MAX": _ORDERED,
    "REDUCE_MIN": _ORDERED,
    "REDUCE_PROD": (*INDEX_TYPES, "float32"),
    "REDUCE_ANY": ("bool",),
    "REDUCE_ALL": ("bool",),
    "ARG_MAX": tuple(name for name in _ORDERED if name != "bool"),
    "ARG_MIN": tuple(name for name in _ORDERED if name != "bool"),
}


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, _DTYPES[node.op])
    return [(reduced_shape(node, ins), x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, 0), outs[0])


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x, axes = operand(node, ins, 0), values[0], reduced_axes(node, ins)
    assert x is not None
    low, high = source.element.low, source.element.high
    if node.op in ("REDUCE_MAX", "REDUCE_MIN"):
        largest = node.op == "REDUCE_MAX"
        if x.dtype.kind == "f" and node.numerics is Numerics.ONNX:
            low, high = -np.inf, np.inf
        first = x.dtype.type(low if largest else high)
        # Numbers that are none are passed over.
        function = (np.fmax if largest else np.fmin) if x.dtype.kind == "f" else None
        found = (function or (np.maximum if largest else np.minimum)).reduce(x, axes, initial=first)
        if x.dtype.kind == "f":
            found = _with_first_zeros(x, axes, found)
    elif node.op == "REDUCE_PROD":
        moved = np.moveaxis(x, axes, range(len(axes))).reshape(x.size // outs[0].size, -1)
        # One factor after another in memory order.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            found = np.cumprod(moved, axis=0, dtype=x.dtype)[-1]
    else:
        found = (np.any if node.op == "REDUCE_ANY" else np.all)(x, axes)
    return [np.asarray(found, x.dtype).reshape(outs[0].shape)]


def _with_first_zeros(x: Array, axes: Sequence[int], found: Array) -> Array:
    """Return the largest or least numbers, each 0.0 or -0.0 as the first such one in memory order
    is: neither is larger.
    """
    moved = np.moveaxis(x, axes, range(len(axes))).reshape(-1, np.size(found))
    zeros = moved == 0
    first = moved[zeros.argmax(axis=0), np.arange(moved.shape[1])].reshape(np.shape(found))
    return np.where((found == 0) & zeros.any(axis=0).reshape(np.shape(found)), first, found)


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    x = operand(node, ins, 0)
    return [] if len(x.shape) - 1 in reduced_axes(node, ins) else [in_step(x, out)]


# ARG_MAX and ARG_MIN ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ArgAttributes(Attributes):
    """Attributes of ARG_MAX and ARG_MIN."""

    #: Type of the output.
    dtype: Literal["int32", "int64"] = "int32"


def searched_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the axis that an ARG_MAX or ARG_MIN searches, counted from 0;
    :class:`~hilc.errors.ModelError` for an axis that does not exist.
    """
    rank = len(operand(node, ins, 0).shape)
    return resolve_axis(node, constant_int(node, operand(node, ins, 1)), rank)


def _infer_arg(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x = operand(node, ins, 0)
    require_dtype(node, x, _DTYPES[node.op])
    axis = searched_axis(node, ins)
    return [((*x.shape[:axis], *x.shape[axis + 1 :]), ArgAttributes.of(node).dtype)]


def _check_arg(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    if outs[0].quant is not None:
        invalid(node, f"counts in {outs[0].name!r}, which has a scale")


def _arg(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x = values[0]
    assert x is not None
    parts = np.moveaxis(x, searched_axis(node, ins), 0)
    better = np.less if node.op == "ARG_MIN" else np.greater
    best, found = parts[0], np.zeros(parts.shape[1:], outs[0].dtype)
    for index, part in enumerate(parts[1:], 1):
        # A number that is none is never better, and nothing is better than it.
        changed = better(part, best)
        best, found = np.where(changed, part, best), np.where(changed, index, found)
    return [np.asarray(found, outs[0].dtype)]


REDUCE = OpDef(
    _infer,
    _reference,
    _check,
    attributes=ReductionAttributes,
    bounds=ascending,
    copies_elements=True,
    channel_groups=_channel_groups,
    permuted=permuting.reduced,
)
REDUCE_PROD = OpDef(
    _infer, _reference, _check, attributes=ReductionAttributes, permuted=permuting.reduced
)
REDUCE_BOOLS = replace(REDUCE, copies_elements=False)
ARG = OpDef(_infer_arg, _arg, _check_arg, attributes=ArgAttributes, integer_form=OrderOfOperands())

OPERATORS: Mapping[str, OpDef] = {
    "REDUCE_MAX": REDUCE,
    "REDUCE_MIN": REDUCE,
    "REDUCE_PROD": REDUCE_PROD,
    "REDUCE_ANY": REDUCE_BOOLS,
    "REDUCE_ALL": REDUCE_BOOLS,
    "ARG_MAX": ARG,
    "ARG_MIN": ARG,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "REDUCE_MAX": {"uint8", "int16", "int32", "int64", "bool"},
    "REDUCE_MIN": {"uint8", "int16", "int32", "int64", "bool"},
    "REDUCE_PROD": {"int32", "int64", "float32"},
    "REDUCE_ANY": {"bool"},
    "ARG_MAX": {"uint8", "int16", "int32", "int64"},
    "ARG_MIN": {"uint8", "int16", "int32", "int64"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "ARG_MAX": {"int16", "int64"},
    "ARG_MIN": {"int16", "int64"},
}
