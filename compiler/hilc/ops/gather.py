"""GATHER, GATHER_ND, EMBEDDING_LOOKUP, DYNAMIC_UPDATE_SLICE and ONE_HOT: elements of any type at
places that a tensor of int32 indices says (for ONE_HOT also of int64).

Inputs: the tensor and the indices; for EMBEDDING_LOOKUP the indices first; for DYNAMIC_UPDATE_SLICE
the tensor, the update and where it begins; for ONE_HOT the indices and, constant, their number and
the values for on and off.

A constant index outside of the tensor is refused. One that is computed is an error of the run, in
the interpreter as on a device: nothing outside of the tensor is read. DYNAMIC_UPDATE_SLICE moves
an update that would reach beyond an end to that end, and ONE_HOT has no element on for an index
outside; both are no error, as in the references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.ops.index_maps import strides
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_int,
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
    resolve_axis,
    unsupported,
)
from hilc.ops.traits import ascending

#: An axis of more elements does not fit any memory.
_MOST = 1 << 26


def _indices(node: Node, ins: Sequence[Tensor | None], index: int) -> Tensor:
    found = operand(node, ins, index)
    require_dtype(node, found, ("int32",))
    return found


def _outside(node: Node, what: str) -> NoReturn:
    """Refuse the values of a run."""
    raise InputError(
        f"{node.op} {node.name!r} takes {what}",
        "the model computes an index that its own tensor does not have: check its inputs",
    )


def _check_moved(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, _source(node)), outs[0])


# GATHER and EMBEDDING_LOOKUP --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GatherAttributes(Attributes):
    """Attributes of GATHER."""

    #: The axis along which the indices count; negative from the last.
    axis: int = 0
    #: Leading axes that the tensor and the indices have in common.
    batch_dims: int = 0


@dataclass(frozen=True)
class Gathered:
    """Sizes of a GATHER or EMBEDDING_LOOKUP: for each batch and each of ``rows`` it copies the
    blocks of elements at the indices.
    """

    batches: int
    rows: int
    #: Blocks that there are.
    size: int
    #: Elements that lie together.
    block: int
    #: Indices of a batch.
    count: int
    shape: tuple[int, ...]


def _source(node: Node) -> int:
    """Return the position of the tensor that is taken from."""
    return 1 if node.op == "EMBEDDING_LOOKUP" else 0


def gathered(node: Node, ins: Sequence[Tensor | None]) -> Gathered:
    """Return the sizes of a GATHER or EMBEDDING_LOOKUP.

    Raises :class:`~hilc.errors.ModelError` for attributes or shapes that disagree and for constant
    indices out of range.
    """
    require_counts(node, inputs=2)
    x, indices = operand(node, ins, _source(node)), _indices(node, ins, 1 - _source(node))
    stated = GatherAttributes.of(node) if node.op == "GATHER" else GatherAttributes()
    if not x.shape:
        invalid(node, f"takes {x.name!r}, a single number, apart")
    axis = resolve_axis(node, stated.axis, len(x.shape))
    batch = stated.batch_dims
    batch += len(indices.shape) if batch < 0 else 0
    if not 0 <= batch <= min(axis, len(indices.shape)):
        invalid(
            node,
            f"has batch_dims {stated.batch_dims} with axis {axis} and indices of shape "
            f"{list(indices.shape)}",
        )
    if x.shape[:batch] != indices.shape[:batch]:
        invalid(
            node,
            f"has batch_dims {batch} for shapes {list(x.shape)} and {list(indices.shape)}",
        )
    size = x.shape[axis]
    if indices.data is not None and indices.size:
        low, high = int(indices.data.min()), int(indices.data.max())
        if not 0 <= low <= high < size:
            wrong = low if low < 0 else high
            invalid(node, f"takes element {wrong} of axis {axis}, which has {size}")
    return Gathered(
        batches=prod(x.shape[:batch]),
        rows=prod(x.shape[batch:axis]),
        size=size,
        block=prod(x.shape[axis + 1 :]),
        count=prod(indices.shape[batch:]),
        shape=(*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]),
    )


def _infer_gather(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    return [(gathered(node, ins).shape, operand(node, ins, _source(node)).dtype)]


def _gather(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, indices = values[_source(node)], values[1 - _source(node)]
    assert x is not None
    assert indices is not None
    g = gathered(node, ins)
    wrong = indices[(indices < 0) | (indices >= g.size)]
    if wrong.size:
        _outside(node, f"element {wrong[0]} of an axis that has {g.size}")
    blocks = x.reshape(g.batches, g.rows, g.size, g.block)
    taken = [
        batch[:, own] for batch, own in zip(blocks, indices.reshape(g.batches, -1), strict=True)
    ]
    return [np.array(taken, x.dtype).reshape(g.shape)]


# GATHER_ND --------------------------------------------------------------------------------------


def _infer_gather_nd(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    x, indices = operand(node, ins, 0), _indices(node, ins, 1)
    if not x.shape or not indices.shape:
        invalid(node, f"takes shapes {list(x.shape)} and {list(indices.shape)}")
    depth = indices.shape[-1]
    if not 0 < depth <= len(x.shape):
        invalid(node, f"has indices of {depth} numbers for {len(x.shape)} axes")
    if indices.data is not None and indices.size:
        starts = _starts(x, indices.data)
        if starts.min() < 0 or starts.max() > x.size - prod(x.shape[depth:]):
            invalid(node, f"has an index that is outside of {x.name!r}, {list(x.shape)}")
    return [((*indices.shape[:-1], *x.shape[depth:]), x.dtype)]


def _starts(x: Tensor, indices: Array) -> Array:
    """Return the first element of each part that GATHER_ND takes."""
    steps = np.array(strides(x.shape)[: indices.shape[-1]], np.int64)
    found: Array = (indices.astype(np.int64) * steps).sum(-1)
    return found


def _gather_nd(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, indices = values[0], values[1]
    assert x is not None
    assert indices is not None
    block = prod(x.shape[indices.shape[-1] :])
    starts = _starts(operand(node, ins, 0), indices).reshape(-1, 1)
    # The references check the position in memory, not each index.
    wrong = starts[(starts < 0) | (starts > x.size - block)]
    if wrong.size:
        _outside(node, f"{block} elements from position {wrong[0]} on of {x.size}")
    return [x.reshape(-1)[starts + np.arange(block)].reshape(outs[0].shape)]


# DYNAMIC_UPDATE_SLICE ---------------------------------------------------------------------------


def _infer_update(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=3)
    x, update, begins = operand(node, ins, 0), operand(node, ins, 1), _indices(node, ins, 2)
    if update.dtype != x.dtype or len(update.shape) != len(x.shape):
        invalid(
            node,
            f"puts {update.dtype}{list(update.shape)} into {x.dtype}{list(x.shape)}",
        )
    if any(n > m for n, m in zip(update.shape, x.shape, strict=True)):
        invalid(node, f"puts {list(update.shape)} into {list(x.shape)}, which is smaller")
    if begins.shape != (len(x.shape),):
        invalid(node, f"has begins of shape {list(begins.shape)} for {len(x.shape)} axes")
    return [(x.shape, x.dtype)]


def _check_update(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    for index in (0, 1):
        require_same_quantization(node, operand(node, ins, index), outs[0])


def _update(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, update, begins = values
    assert x is not None
    assert update is not None
    assert begins is not None
    result = x.copy()
    starts = np.clip(begins, 0, np.array(x.shape, np.int64) - update.shape)
    result[tuple(slice(p, p + n) for p, n in zip(starts, update.shape, strict=True))] = update
    return [result]


# ONE_HOT ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OneHotAttributes(Attributes):
    """Attributes of ONE_HOT."""

    #: The new axis, counted in the output; negative from the last.
    axis: int = -1


def one_hot_axis(node: Node, ins: Sequence[Tensor | None]) -> int:
    """Return the new axis of a ONE_HOT, counted from 0; :class:`~hilc.errors.ModelError` for an
    axis that does not exist.
    """
    rank = len(operand(node, ins, 0).shape) + 1
    return resolve_axis(node, OneHotAttributes.of(node).axis, rank)


def switched(node: Node, ins: Sequence[Tensor | None]) -> tuple[Array, Array]:
    """Return the elements for on and for off, without dimensions."""
    found = []
    for index in (2, 3):
        value = operand(node, ins, index)
        if value.size != 1:
            invalid(node, f"takes {value.name!r}, {value.dtype}{list(value.shape)}, for a number")
        if value.data is None:
            unsupported(
                node,
                f"takes {value.name!r}, which is only known at run time",
                "export the model with constants for on and off",
            )
        found.append(value.data.reshape(()))
    on, off = found
    if on.dtype != off.dtype:
        invalid(node, f"has {on.dtype} for on and {off.dtype} for off")
    return on, off


def _infer_one_hot(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=4)
    indices = operand(node, ins, 0)
    require_dtype(node, indices, INDEX_TYPES)
    depth = constant_int(node, operand(node, ins, 1))
    if not 1 <= depth <= _MOST:
        invalid(node, f"has {depth} classes")
    axis = one_hot_axis(node, ins)
    on, _ = switched(node, ins)
    return [((*indices.shape[:axis], depth, *indices.shape[axis:]), on.dtype.name)]


def _one_hot(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    indices, axis = values[0], one_hot_axis(node, ins)
    assert indices is not None
    on, off = switched(node, ins)
    classes = np.arange(outs[0].shape[axis])
    shape = (-1, *(1,) * (len(outs[0].shape) - 1 - axis))
    return [np.where(np.expand_dims(indices, axis) == classes.reshape(shape), on, off)]


GATHER = OpDef(
    _infer_gather,
    _gather,
    _check_moved,
    attributes=GatherAttributes,
    bounds=ascending,
    copies_elements=True,
)
EMBEDDING_LOOKUP = OpDef(_infer_gather, _gather, _check_moved, bounds=ascending)
GATHER_ND = OpDef(
    _infer_gather_nd, _gather_nd, _check_moved, bounds=ascending, copies_elements=True
)
DYNAMIC_UPDATE_SLICE = OpDef(_infer_update, _update, _check_update, bounds=ascending)
# Converters state other scales for its numbers than for its output; the references do not look at
# them.
ONE_HOT = OpDef(_infer_one_hot, _one_hot, attributes=OneHotAttributes)

OPERATORS: Mapping[str, OpDef] = {
    "GATHER": GATHER,
    "GATHER_ND": GATHER_ND,
    "EMBEDDING_LOOKUP": EMBEDDING_LOOKUP,
    "DYNAMIC_UPDATE_SLICE": DYNAMIC_UPDATE_SLICE,
    "ONE_HOT": ONE_HOT,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "GATHER": {"uint8", "int16", "int32", "int64", "bool"},
    "GATHER_ND": {"uint8", "int16", "int32", "int64", "bool"},
    "EMBEDDING_LOOKUP": {"uint8", "int16", "int32", "int64", "bool"},
    "DYNAMIC_UPDATE_SLICE": {"uint8", "int64", "bool"},
    "ONE_HOT": {"int8", "uint8", "int16", "int32", "int64", "float32", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "EMBEDDING_LOOKUP": {"int16", "int32", "int64", "bool"},
    "DYNAMIC_UPDATE_SLICE": {"uint8", "int16"},
    "ONE_HOT": {"int16"},
}
