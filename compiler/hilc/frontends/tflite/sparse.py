"""Sparse constants, expanded: exact, and all the flash that they take when dense.

A file lists the axes of the constant, and behind them those inside of blocks, in the order in which
the values are stored. Of each it has the size (dense), or for each place so far a range of entries
with their positions (sparse: segments and indices). What is not stored is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from hilc.errors import ModelError
from hilc.frontends.tflite.flatbuffer import Table, Vector, check_table
from hilc.frontends.tflite.values import vector
from hilc.ir import Array

Places = npt.NDArray[np.int64]

#: Vectors of segments and indices by their type in the schema.
_VECTORS = {
    tflite.SparseIndexVector.Int32Vector: (tflite.Int32Vector, 4),
    tflite.SparseIndexVector.Uint16Vector: (tflite.Uint16Vector, 2),
    tflite.SparseIndexVector.Uint8Vector: (tflite.Uint8Vector, 1),
}


def expanded(data: bytes, table: Any, values: Array, shape: tuple[int, ...], name: str) -> Array:
    """Return the dense constant of a tensor of the file with these stored values.

    Raise :class:`~hilc.errors.ModelError` for a damaged description.
    """
    sparsity, rank = table.Sparsity(), len(shape)
    order, blocks = vector(sparsity, "TraversalOrder"), vector(sparsity, "BlockMap")
    levels = sparsity.DimMetadataLength()
    if (
        sorted(order) != list(range(rank + len(blocks)))
        or levels != len(order)
        or any(not 0 <= axis < rank for axis in blocks)
    ):
        raise _damaged(name, f"the axes {order} with blocks of {blocks} for {rank} dimensions")
    dense = int(np.prod(shape))
    positions: Places = np.zeros(1, np.int64)
    found: dict[int, Places] = {}
    sizes: dict[int, int] = {}
    for level, axis in enumerate(order):
        entry = sparsity.DimMetadata(level)
        if entry.Format() == tflite.DimensionType.DENSE:
            sizes[axis] = size = int(entry.DenseSize())
            if not 0 < size <= dense or positions.size * size > dense:
                raise _damaged(name, f"{size} entries along its axis {axis}")
            repeats: Places = np.full(positions.size, size)
            here = np.tile(np.arange(size), positions.size)
            positions = np.repeat(positions * size, size) + here
        else:
            segments = _numbers(data, entry, "ArraySegments", name)
            indices = _numbers(data, entry, "ArrayIndices", name)
            if (
                positions.max(initial=-1) + 1 >= segments.size
                or (np.diff(segments, prepend=0) < 0).any()
            ):
                raise _damaged(name, f"{segments.size} segments of its axis {axis}")
            repeats = segments[positions + 1] - segments[positions]
            total = int(repeats.sum())
            if total > min(dense, indices.size):
                raise _damaged(name, f"{indices.size} indices along its axis {axis}")
            starts = np.repeat(segments[positions], repeats)
            before = np.repeat(np.cumsum(repeats) - repeats, repeats)
            positions = starts + np.arange(total) - before
            if positions.max(initial=0) >= max(1, indices.size):
                raise _damaged(name, f"{indices.size} indices along its axis {axis}")
            here = indices[positions]
        found = {known: np.repeat(places, repeats) for known, places in found.items()}
        found[axis] = here
    for block, axis in enumerate(blocks):
        # The block's place along an axis, and the place inside of it.
        if rank + block not in sizes:
            raise _damaged(name, "blocks of which not all elements are stored")
        found[axis] = found[axis] * sizes[rank + block] + found[rank + block]
    if any(((found[axis] < 0) | (found[axis] >= n)).any() for axis, n in enumerate(shape)):
        raise _damaged(name, f"an element outside of its shape {list(shape)}")
    if positions.max(initial=-1) >= values.size:
        raise _damaged(name, f"{values.size} values, and number {positions.max()} is used")
    result: Array = np.zeros(shape, values.dtype)
    result[tuple(found[axis] for axis in range(rank))] = values[positions]
    return result


def _numbers(data: bytes, entry: Any, field: str, name: str) -> Places:
    """Return segments or indices, of whichever type the file states."""
    kind, union = getattr(entry, f"{field}Type")(), getattr(entry, field)()
    if kind not in _VECTORS or union is None:
        raise _damaged(name, f"no {field} of a type that the schema has")
    accessor, width = _VECTORS[kind]
    check_table(data, union.Pos, Table("indices", {0: ("values", Vector(width))}))
    made = accessor()
    made.Init(union.Bytes, union.Pos)
    return np.array(vector(made, "Values"), np.int64)


def _damaged(name: str, what: str) -> ModelError:
    return ModelError(f"the sparse constant {name!r} has {what}", "export the model again")
