"""RESIZE_BILINEAR of int8, with weights of as few bits as they need."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
import numpy.typing as npt

from hilc.lowering.generic.resize import geometry
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilMveResizeS8,
    HilMveResizeS8Fine,
    HilResizeParts,
    HilV7mResizeS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.resize import Between, between, rows_between

#: Parts of the way from one row or column to the next in the reference.
_PARTS = 1024
#: Bits of all weights together: the sums of bytes fit 16 bits with a sign, and without one.
_SIGNED_BITS, _UNSIGNED_BITS = 7, 8


def _least_parts(places: Between) -> tuple[npt.NDArray[np.int32], int] | None:
    """Return the fractions in 2**bits parts, and the bits, one at least; None where a place between
    two different rows or columns lies outside of them.
    """
    # Both are the same pixel at a border, whatever the fraction.
    fractions = np.where(places.first == places.second, 0, places.fraction).astype(np.int64)
    if fractions.min() < 0 or fractions.max() > _PARTS:
        return None
    unit = gcd(_PARTS // 2, *fractions.tolist())
    return (fractions // unit).astype(np.int32), (_PARTS // unit).bit_length() - 1


def _parts(layer: Layer) -> HilResizeParts | None:
    """Return the fields of the kernels; None where they cannot compute the layer."""
    x, out = layer.operand(0), layer.out
    rows = _least_parts(rows_between(layer.node, x, out))
    columns = _least_parts(between(layer.node, x.shape[2], out.shape[2], out.element))
    if rows is None or columns is None:
        return None
    return HilResizeParts(
        resize=geometry(layer),
        rows=rows[0],
        columns=columns[0],
        row_bits=rows[1],
        column_bits=columns[1],
    )


@lowers("RESIZE_BILINEAR", dtypes={"int8"}, requires={"mve"})
def vectors(layer: Layer) -> Iterator[KernelCall]:
    """Yield the calls that add up eight channels at a time, or four."""
    if (parts := _parts(layer)) is None:
        return
    if parts.row_bits + parts.column_bits <= _SIGNED_BITS:
        yield KernelCall(HilMveResizeS8(resize_parts=parts))
    yield KernelCall(HilMveResizeS8Fine(resize_parts=parts))


@lowers("RESIZE_BILINEAR", dtypes={"int8"}, requires={"mul32", "thumb2"})
def words(layer: Layer) -> Iterator[KernelCall]:
    """Yield the call that adds up four channels in two words."""
    parts = _parts(layer)
    if parts is None or layer.out.shape[3] % 4:
        return
    if parts.row_bits + parts.column_bits <= _UNSIGNED_BITS:
        yield KernelCall(HilV7mResizeS8(resize_parts=parts))
