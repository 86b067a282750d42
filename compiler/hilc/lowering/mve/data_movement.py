"""TRANSPOSE of bytes and CONCATENATION of few, by scatters and gathers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.lowering.generic.concat_split import joined
from hilc.lowering.generic.data_movement import swapped_axes
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilMveJoin, HilMveSwapAxes
from hilc.lowering.registry import Layer, lowers

#: HIL_MVE_NEAR of ``mve/move.h``: the longest of a matrix's shorter sides.
_NEAR = 17
#: HIL_MVE_PARTS of the same file, bytes of a vector, and the farthest offset of a byte.
_PARTS, _VECTOR, _REACHED = 3, 16, 255


@lowers("TRANSPOSE", requires={"mve"})
def transpose(layer: Layer) -> Iterator[KernelCall]:
    """Yield the call for matrices of which one side is short."""
    matrices = swapped_axes(layer)
    if matrices is not None and min(matrices[1:]) <= _NEAR:
        blocks, rows, columns = matrices
        yield KernelCall(HilMveSwapAxes(blocks=blocks, rows=rows, columns=columns))


@lowers("CONCATENATION", requires={"mve"})
def concatenation(layer: Layer) -> Iterator[KernelCall]:
    """Yield the call for parts of which a row has a few bytes."""
    join = joined(layer)
    blocks = join.blocks.tolist()
    together = _VECTOR // max(blocks)
    together = min(together, (_REACHED + 1) // join.length)
    if together < 2 or min(blocks) == 0 or not 2 <= join.parts <= _PARTS:
        return
    begins = np.cumsum([0, *blocks[:-1]])
    lanes = np.arange(_VECTOR)
    places = [
        begin + lanes // block * join.length + lanes % block
        for begin, block in zip(begins, blocks, strict=True)
    ]
    call = HilMveJoin(
        rows=join.rows,
        parts=join.parts,
        length=join.length,
        turn_rows=together,
        blocks=join.blocks,
        # Of lanes behind the last row, which are not stored, only the lower byte.
        places=np.concatenate(places).astype(np.uint8),
    )
    yield KernelCall(call, tuple(range(join.parts)))
