"""RESIZE_NEAREST_NEIGHBOR, which moves elements of any type, and RESIZE_BILINEAR.

Inputs: images and, constant, rows and columns of the output.

RESIZE_BILINEAR of integers has positions in 1/1024 of a pixel and sums in 2^-20, rounded half away
from zero; floats follow the reference's single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.index_maps import Axis, IndexMap, moving, whole
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    ARITHMETIC,
    constant_ints,
    invalid,
    operand,
    require_counts,
    require_dtype,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import Link, RowRange, SampledRows, ascending, in_step

#: Rows or columns; positions in 1/1024 of more leave 32 bits in the references.
_MOST = 1 << 15

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ResizeAttributes(Attributes):
    #: The corners of input and output lie on each other.
    align_corners: bool = False
    #: Pixels are areas, whose centers lie on halves.
    half_pixel_centers: bool = False
    #: Of some rows of an image: the rows of the whole input and of the whole output, and those
    #: before these rows in each. No file says it.
    part: tuple[int, int, int, int] | None = None


def resized_shape(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, int, int, int]:
    """Return the shape of the output."""
    require_counts(node, inputs=2)
    x, size = operand(node, ins, 0), constant_ints(node, operand(node, ins, 1))
    if len(x.shape) != 4 or len(size) != 2:
        invalid(node, f"resizes shape {list(x.shape)} to {list(size)}")
    if not all(0 < n <= _MOST for n in (*size, *x.shape[1:3])):
        unsupported(
            node,
            f"resizes {list(x.shape[1:3])} pixels to {list(size)} (supported: up to {_MOST})",
            "resize to fewer pixels",
        )
    stated = ResizeAttributes.of(node)
    if stated.align_corners and stated.half_pixel_centers:
        unsupported(
            node,
            "has align_corners and half_pixel_centers, which exclude each other",
            "set one of them",
        )
    return (x.shape[0], size[0], size[1], x.shape[3])


# RESIZE_NEAREST_NEIGHBOR ------------------------------------------------------------------------


def nearest(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    return nearest_rows(node, ins, resized_shape(node, ins)[1])


def nearest_rows(node: Node, ins: Sequence[Tensor | None], count: int) -> IndexMap:
    """Return the places of so many rows of the output: all, or those of the node's part."""
    x, shape = operand(node, ins, 0), resized_shape(node, ins)
    part = ResizeAttributes.of(node).part
    size, rows, before, first = part or (x.shape[1], count, 0, 0)
    axes = list(whole(x.shape))
    found = _nearest_places(node, size, rows)[first : first + count] - before
    axes[1] = Axis.of(found * axes[1].step)
    axes[2] = Axis.of(_nearest_places(node, x.shape[2], shape[2]) * axes[2].step)
    return IndexMap((shape[0], count, *shape[2:]), tuple(axes), partial=part is not None)


def _nearest_places(node: Node, size: int, count: int) -> npt.NDArray[np.int64]:
    """Return which of ``size`` rows or columns each of ``count`` is."""
    stated = ResizeAttributes.of(node)
    scale = np.float32(size) / np.float32(count)
    if stated.align_corners and count > 1:
        scale = np.float32(size - 1) / np.float32(count - 1)
    offset = np.float32(0.5 if stated.half_pixel_centers else 0)
    positions = (np.arange(count).astype(np.float32) + offset) * scale
    # Half away from zero.
    positions = np.floor(positions + np.float32(0.5) if stated.align_corners else positions)
    found: npt.NDArray[np.int64] = np.minimum(positions.astype(np.int64), size - 1)
    return found


# RESIZE_BILINEAR --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Between:
    """For each row or column of the output the two of the input that it lies between."""

    first: Array
    second: Array
    #: How far from the first it is: a float32, or in 1/1024.
    fraction: Array


def between(node: Node, size: int, count: int, *, real: bool) -> Between:
    """Return where ``count`` rows or columns lie between ``size`` of them."""
    found = (_between_reals if real else _between_integers)(node, size, count)
    if found.first.max() >= size:
        # Steps are rounded, and add up over many rows.
        unsupported(
            node,
            f"resizes {size} rows or columns to {count}, where the references read beyond the last",
            "resize in two steps",
        )
    return found


def rows_between(node: Node, x: Tensor, out: Tensor) -> Between:
    """Return where the rows of ``out`` lie between those of ``x``, which may be parts of images."""
    count = out.shape[1]
    size, rows, before, first = ResizeAttributes.of(node).part or (x.shape[1], count, 0, 0)
    found = between(node, size, rows, real=not out.element.quantized)
    own = slice(first, first + count)
    return Between(found.first[own] - before, found.second[own] - before, found.fraction[own])


def _part(node: Node, ins: Sequence[Tensor | None], rows: RowRange) -> Node:
    """Return the node of some rows."""
    sizes = operand(node, ins, 0).shape[1], resized_shape(node, ins)[1]
    part = (*sizes, rows.before, rows.first)
    return replace(node, attrs=replace(ResizeAttributes.of(node), part=part))


def _nearest_row_places(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    rows = _nearest_places(node, operand(node, ins, 0).shape[1], resized_shape(node, ins)[1])
    return [(row, row) for row in rows.tolist()]


def _bilinear_row_places(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    x, count = operand(node, ins, 0), resized_shape(node, ins)[1]
    found = between(node, x.shape[1], count, real=not x.element.quantized)
    return [*zip(found.first.tolist(), found.second.tolist(), strict=True)]


def _between_reals(node: Node, size: int, count: int) -> Between:
    stated = ResizeAttributes.of(node)
    aligned = stated.align_corners and count > 1
    positions = np.arange(count)
    scale = np.float32(size) / np.float32(count)
    if aligned:
        scale = np.float32(size - 1) / np.float32(count - 1)
    at: Float32Array = positions.astype(np.float32) * scale
    if stated.half_pixel_centers:
        at = (positions.astype(np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    first = np.maximum(np.floor(at).astype(np.int64), 0)
    second = np.minimum(np.ceil(at).astype(np.int64), size - 1)
    return Between(first, second, at - first.astype(np.float32))


def _between_integers(node: Node, size: int, count: int) -> Between:
    stated = ResizeAttributes.of(node)
    aligned = stated.align_corners and count > 1
    positions = np.arange(count)
    step = (1024 * size + count // 2) // count
    if aligned:
        step = (1024 * (size - 1) + (count - 1) // 2) // (count - 1)
    fixed = positions * step
    if stated.half_pixel_centers:
        fixed += step // 2 - 512
    first = np.maximum(fixed >> 10, 0)
    second = np.clip((fixed + 1023) >> 10, 0, size - 1)
    return Between(first, second, fixed - 1024 * first)


def _infer_bilinear(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    x = operand(node, ins, 0)
    require_dtype(node, x, ARITHMETIC)
    return [(resized_shape(node, ins), x.dtype)]


def _check_bilinear(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, out = operand(node, ins, 0), outs[0]
    require_same_quantization(node, x, out)
    for axis in (1, 2):
        between(node, x.shape[axis], out.shape[axis], real=not out.element.quantized)


def _bilinear(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, out = values[0], outs[0]
    assert x is not None
    real = not out.element.quantized
    rows = rows_between(node, operand(node, ins, 0), out)
    columns = between(node, x.shape[2], out.shape[2], real=real)
    one = np.float32(1) if real else 1024
    down, right = rows.fraction.reshape(-1, 1, 1), columns.fraction.reshape(-1, 1)
    up, left = one - down, one - right
    source = x if real else x.astype(np.int64)
    above, below = source[:, rows.first], source[:, rows.second]
    total = above[:, :, columns.first] * up * left
    total = total + below[:, :, columns.first] * down * left
    total = total + above[:, :, columns.second] * up * right
    total = total + below[:, :, columns.second] * down * right
    if not real:
        half = np.where(total > 0, 1 << 19, -(1 << 19))
        total = np.sign(total + half) * (np.abs(total + half) >> 20)
    return [total.astype(x.dtype)]


def _links(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[Link]:
    return [in_step(operand(node, ins, 0), out)]


RESIZE_NEAREST_NEIGHBOR = replace(
    moving(nearest, ResizeAttributes), rows=SampledRows(_nearest_row_places, _part)
)
RESIZE_BILINEAR = OpDef(
    _infer_bilinear,
    _bilinear,
    _check_bilinear,
    attributes=ResizeAttributes,
    bounds=ascending,
    rows=SampledRows(_bilinear_row_places, _part),
    links=_links,
)
