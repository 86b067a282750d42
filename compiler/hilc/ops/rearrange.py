"""SLICE, REVERSE_V2, TILE, MIRROR_PAD, SPACE_TO_DEPTH, DEPTH_TO_SPACE, BATCH_TO_SPACE_ND and
SPACE_TO_BATCH_ND: elements of any type at other places.

Inputs: the tensor and, constant, begin and size; the axes; how often it is repeated along each
axis; the padding; or the block, and what is cropped or padded.
SPACE_TO_BATCH_ND alone adds elements of its own: the real value zero. With a zero point other than
0 TensorFlow Lite Micro takes memory for it that it never wrote; TFLite's arithmetic holds then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from hilc.ir import Array, Attributes, Node, Tensor
from hilc.ops.data_movement import pad_value, paddings
from hilc.ops.index_maps import Axis, IndexMap, Rearrange, moving, strides, whole
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    constant_ints,
    constant_pairs,
    invalid,
    operand,
    require_counts,
    require_same_quantization,
    resolve_axis,
)
from hilc.ops.traits import RowRange, SampledRows, ascending


def _values(
    node: Node, ins: Sequence[Tensor | None], index: int, count: int, what: str
) -> tuple[int, ...]:
    """Return a constant list with a number for each of ``count`` axes."""
    found = constant_ints(node, operand(node, ins, index))
    if len(found) != count:
        invalid(node, f"has {len(found)} {what} for {count} axes")
    return found


# Parts and repetitions --------------------------------------------------------------------------


def _slice(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    require_counts(node, inputs=3)
    shape = operand(node, ins, 0).shape
    begins = _values(node, ins, 1, len(shape), "begins")
    sizes = _values(node, ins, 2, len(shape), "sizes")
    counts = []
    for axis, (own, begin, size) in enumerate(zip(shape, begins, sizes, strict=True)):
        count = own - begin if size == -1 else size
        if begin < 0 or count < 1 or begin + count > own:
            invalid(node, f"takes {size} elements from {begin} on of axis {axis}, of {own}")
        counts.append(count)
    steps = strides(shape)
    axes = tuple(Axis(n, step) for n, step in zip(counts, steps, strict=True))
    start = sum(begin * step for begin, step in zip(begins, steps, strict=True))
    return IndexMap(tuple(counts), axes, start)


def _reverse(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    require_counts(node, inputs=2)
    shape = operand(node, ins, 0).shape
    given = constant_ints(node, operand(node, ins, 1))
    reversed_axes = {resolve_axis(node, axis, len(shape)) for axis in given}
    if len(reversed_axes) != len(given):
        invalid(node, f"reverses the axes {list(given)}, one of them twice")
    axes, start = list(whole(shape)), 0
    for i in reversed_axes:
        start += (axes[i].count - 1) * axes[i].step
        axes[i] = Axis(axes[i].count, -axes[i].step)
    return IndexMap(shape, tuple(axes), start)


def _tile(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    require_counts(node, inputs=2)
    shape = operand(node, ins, 0).shape
    times = _values(node, ins, 1, len(shape), "repetitions")
    if min(times, default=1) < 1:
        invalid(node, f"repeats its axes {list(times)} times; each must be at least 1")
    axes: list[Axis] = []
    for own, count in zip(whole(shape), times, strict=True):
        axes += [Axis(count, 0), own]
    return IndexMap(tuple(n * m for n, m in zip(shape, times, strict=True)), tuple(axes))


@dataclass(frozen=True, kw_only=True)
class MirrorPadAttributes(Attributes):
    """Attributes of MIRROR_PAD."""

    #: Whether the mirror includes the elements at the borders (SYMMETRIC) or not (REFLECT).
    mode: Literal["REFLECT", "SYMMETRIC"]


def _mirror_pad(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    require_counts(node, inputs=2)
    shape = operand(node, ins, 0).shape
    added = paddings(node, ins)
    inner = MirrorPadAttributes.of(node).mode == "REFLECT"
    axes = []
    for axis, (own, (before, after)) in enumerate(zip(whole(shape), added.tolist(), strict=True)):
        most = own.count - inner
        if max(before, after) > most:
            invalid(
                node,
                f"mirrors {before} and {after} elements of axis {axis}, of {own.count} "
                f"(at most {most})",
            )
        positions = np.arange(-before, own.count + after)
        positions = np.where(positions < 0, -positions - (not inner), positions)
        beyond = positions >= own.count
        positions = np.where(beyond, 2 * own.count - 1 - inner - positions, positions)
        axes.append(Axis.of(positions * own.step))
    return IndexMap(tuple(axis.count for axis in axes), tuple(axes))


# Blocks of an image's pixels, and depth ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BlockAttributes(Attributes):
    """Attributes of SPACE_TO_DEPTH."""

    #: Rows and columns of a block, at least 1.
    block_size: int


@dataclass(frozen=True, kw_only=True)
class DepthToSpaceAttributes(BlockAttributes):
    """Attributes of DEPTH_TO_SPACE."""

    #: For a band of rows: position of the first row in its block, and number of rows. Internal.
    part: tuple[int, int] | None = None


def _image_and_block(node: Node, ins: Sequence[Tensor | None]) -> tuple[tuple[int, ...], int]:
    require_counts(node, inputs=1)
    x, block = operand(node, ins, 0), BlockAttributes.of(node).block_size
    if len(x.shape) != 4:
        invalid(node, f"takes {x.name!r} with shape {list(x.shape)}, not of 4 dimensions")
    if block < 1:
        invalid(node, f"has blocks of {block} rows and columns")
    return x.shape, block


def _space_to_depth(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    (n, h, w, c), block = _image_and_block(node, ins)
    if h % block or w % block:
        invalid(node, f"cuts images of {h} x {w} pixels into blocks of {block} x {block}")
    split = (n, h // block, block, w // block, block, c)
    batch, row, inner_row, column, inner_column, depth = whole(split)
    shape = (n, h // block, w // block, c * block * block)
    return IndexMap(shape, (batch, row, column, inner_row, inner_column, depth))


def _depth_to_space(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    (n, h, w, c), block = _image_and_block(node, ins)
    if c % (block * block):
        invalid(node, f"makes blocks of {block} x {block} pixels of {c} channels")
    split = (n, h, w, block, block, c // (block * block))
    batch, row, column, inner_row, inner_column, depth = whole(split)
    part = DepthToSpaceAttributes.of(node).part
    if part is None:
        shape = (n, h * block, w * block, split[-1])
        return IndexMap(shape, (batch, row, inner_row, column, inner_column, depth))
    at = part[0] + np.arange(part[1])
    rows = Axis.of(at // block * row.step + at % block * inner_row.step)
    shape = (n, part[1], w * block, split[-1])
    return IndexMap(shape, (batch, rows, column, inner_column, depth), partial=True)


def _block_size(node: Node) -> int:
    return BlockAttributes.of(node).block_size


def _rows_of_blocks(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    """Return the rows that each row of blocks is made of."""
    (_, h, _, _), block = _image_and_block(node, ins)
    return [(row, row + block - 1) for row in range(0, h, block)]


#: Rows of blocks.
_WHOLE_BLOCKS = SampledRows(
    _rows_of_blocks, lambda node, ins, rows: node, lambda node: (1, _block_size(node))
)


def _blocks_of_rows(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    """Return the row of blocks that each row comes from."""
    (_, h, _, _), block = _image_and_block(node, ins)
    return [(row // block, row // block) for row in range(h * block)]


def _some_rows(node: Node, ins: Sequence[Tensor | None], rows: RowRange) -> Node:
    """Return DEPTH_TO_SPACE of some rows."""
    attributes = DepthToSpaceAttributes.of(node)
    part = (rows.first - rows.before * attributes.block_size, rows.count)
    return replace(node, attrs=replace(attributes, part=part))


#: Rows that blocks are taken apart into.
_SPLIT_BLOCKS = SampledRows(_blocks_of_rows, _some_rows, lambda node: (_block_size(node), 1))


# Blocks of pixels, and images -------------------------------------------------------------------


class Blocks(NamedTuple):
    """Images of blocks' pixels: one image has the first pixel of each block, and so on.

    What stands for rows and columns is 1, 0 and 0 where there are no columns.
    """

    #: Images that blocks are made of, or that are made of blocks.
    images: int
    #: Rows and columns of a block.
    block: tuple[int, int]
    #: Rows above and below, columns left and right.
    around: tuple[tuple[int, int], tuple[int, int]]
    #: Rows and columns of the images in whole blocks, without padding.
    size: tuple[int, int]
    #: Rows and columns of the images of single pixels.
    small: tuple[int, int]
    #: Elements that lie together.
    depth: int
    #: Shape of the output.
    shape: tuple[int, ...]


def blocks(node: Node, ins: Sequence[Tensor | None]) -> Blocks:
    """Return the blocks that SPACE_TO_BATCH_ND splits or BATCH_TO_SPACE_ND joins."""
    require_counts(node, inputs=3)
    shape = operand(node, ins, 0).shape
    if len(shape) not in (3, 4):
        invalid(node, f"takes {len(shape)} axes, not 3 or 4")
    # A batch, rows and perhaps columns, and depth.
    count = len(shape) - 2
    block = _values(node, ins, 1, count, "sizes of blocks")
    around = constant_pairs(node, operand(node, ins, 2), count, "crops or pads").tolist()
    if min(block) < 1:
        invalid(node, f"has blocks of {list(block)} pixels")
    per_image, sizes, smalls = prod(block), [], []
    apart = node.op == "SPACE_TO_BATCH_ND"
    for own, size, (before, after) in zip(shape[1:-1], block, around, strict=True):
        whole_size = own + before + after if apart else own * size
        sizes.append(own if apart else whole_size - before - after)
        smalls.append(whole_size // size)
        if whole_size % size:
            invalid(node, f"cuts {whole_size} rows or columns into blocks of {size}")
        if sizes[-1] < 1:
            invalid(node, f"crops {before} and {after} of {whole_size} rows or columns")
    if not apart and shape[0] % per_image:
        invalid(node, f"makes blocks of {per_image} pixels of {shape[0]} images")
    images = shape[0] if apart else shape[0] // per_image
    result = (images * per_image, *smalls) if apart else (images, *sizes)
    if count == 1:
        block, around = (*block, 1), [*around, [0, 0]]
        sizes, smalls = [*sizes, 1], [*smalls, 1]
    return Blocks(
        images,
        (block[0], block[1]),
        ((around[0][0], around[0][1]), (around[1][0], around[1][1])),
        (sizes[0], sizes[1]),
        (smalls[0], smalls[1]),
        shape[-1],
        (*result, shape[-1]),
    )


def _batch_to_space(node: Node, ins: Sequence[Tensor | None]) -> IndexMap:
    b = blocks(node, ins)
    split = (*b.block, b.images, *b.small, b.depth)
    inner_row, inner_column, image, row, column, depth = whole(split)
    axes = [image]
    for axis, (outer, inner) in enumerate(((row, inner_row), (column, inner_column))):
        at = np.arange(b.size[axis]) + b.around[axis][0]
        size = b.block[axis]
        axes.append(Axis.of(at // size * outer.step + at % size * inner.step))
    return IndexMap(b.shape, (*axes, depth))


def _infer_space_to_batch(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    return [(blocks(node, ins).shape, operand(node, ins, 0).dtype)]


def _check_space_to_batch(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    require_same_quantization(node, operand(node, ins, 0), outs[0])
    fill_between(node, ins, outs)


def fill_between(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> int:
    """Return the element that SPACE_TO_BATCH_ND adds."""
    return pad_value(node, outs[0]) if np.any(blocks(node, ins).around) else 0


def _undefined_in_tflm(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> str | None:
    value = fill_between(node, ins, outs)
    return (
        f"pads with memory that it never wrote, not with the zero point {value}" if value else None
    )


def _space_to_batch(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, b = values[0], blocks(node, ins)
    assert x is not None
    images = x.reshape(b.images, *b.size, b.depth)
    around = ((0, 0), *b.around, (0, 0))
    padded = np.pad(images, around, constant_values=x.dtype.type(fill_between(node, ins, outs)))
    (small_h, small_w), (block_h, block_w) = b.small, b.block
    split = padded.reshape(b.images, small_h, block_h, small_w, block_w, b.depth)
    return [split.transpose(2, 4, 0, 1, 3, 5).reshape(b.shape)]


#: Operators that only move elements, with the functions that return their index maps.
REARRANGED: Mapping[str, Rearrange] = {
    "SLICE": _slice,
    "REVERSE_V2": _reverse,
    "TILE": _tile,
    "MIRROR_PAD": _mirror_pad,
    "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "BATCH_TO_SPACE_ND": _batch_to_space,
}

SLICE = moving(_slice)
# Converters state other scales before and behind it; the references do not look at them.
REVERSE_V2 = moving(_reverse, any_quantization=True)
TILE = moving(_tile)
MIRROR_PAD = moving(_mirror_pad, MirrorPadAttributes)
SPACE_TO_DEPTH = replace(moving(_space_to_depth, BlockAttributes), rows=_WHOLE_BLOCKS)
DEPTH_TO_SPACE = replace(moving(_depth_to_space, DepthToSpaceAttributes), rows=_SPLIT_BLOCKS)
BATCH_TO_SPACE_ND = moving(_batch_to_space)
SPACE_TO_BATCH_ND = OpDef(
    _infer_space_to_batch,
    _space_to_batch,
    _check_space_to_batch,
    bounds=ascending,
    undefined_in_tflm=_undefined_in_tflm,
)

OPERATORS: Mapping[str, OpDef] = {
    "MIRROR_PAD": MIRROR_PAD,
    "SLICE": SLICE,
    "REVERSE_V2": REVERSE_V2,
    "TILE": TILE,
    "SPACE_TO_DEPTH": SPACE_TO_DEPTH,
    "DEPTH_TO_SPACE": DEPTH_TO_SPACE,
    "SPACE_TO_BATCH_ND": SPACE_TO_BATCH_ND,
    "BATCH_TO_SPACE_ND": BATCH_TO_SPACE_ND,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "MIRROR_PAD": {"uint8", "int16", "int32", "int64", "bool"},
    "SLICE": {"uint8", "int64"},
    "TILE": {"int8", "uint8", "int16", "int32", "int64", "float32", "bool"},
    "SPACE_TO_DEPTH": {"uint8", "int16", "int32", "int64", "bool"},
    "DEPTH_TO_SPACE": {"uint8", "int16", "int32", "int64", "bool"},
    "SPACE_TO_BATCH_ND": {"uint8", "int16", "int32", "int64", "bool"},
    "BATCH_TO_SPACE_ND": {"uint8", "int16", "int32", "int64", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "MIRROR_PAD": {"bool"},
    "TILE": {"int16"},
    "SPACE_TO_DEPTH": {"int16", "bool"},
    "DEPTH_TO_SPACE": {"int16", "bool"},
    "SPACE_TO_BATCH_ND": {"bool"},
    "BATCH_TO_SPACE_ND": {"bool"},
}
