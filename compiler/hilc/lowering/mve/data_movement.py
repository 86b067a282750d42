"""TRANSPOSE of bytes, by scatters and gathers."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.generic.data_movement import swapped_axes
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilMveSwapAxes
from hilc.lowering.registry import Layer, lowers

#: HIL_MVE_NEAR of ``mve/move.h``: the longest of a matrix's shorter sides.
_NEAR = 17


@lowers("TRANSPOSE", requires={"mve"})
def transpose(layer: Layer) -> Iterator[KernelCall]:
    """Yield the call for matrices of which one side is short."""
    matrices = swapped_axes(layer)
    if matrices is not None and min(matrices[1:]) <= _NEAR:
        blocks, rows, columns = matrices
        yield KernelCall(HilMveSwapAxes(blocks=blocks, rows=rows, columns=columns))
