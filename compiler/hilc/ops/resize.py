"""RESIZE_NEAREST_NEIGHBOR, which moves elements of any type, and RESIZE_BILINEAR.

Inputs: images and, constant, rows and columns of the output.

RESIZE_BILINEAR of integers has positions in 1/1024 of a pixel and sums in 2^-20, rounded half away
from zero; floats follow the reference's single precision. By the policy of ties to even positions
are whole parts of a pixel, exactly, and the sum of four pixels is brought to the output's scale and
rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, ElementType, Node, Rounding, Tensor
from hilc.numerics.requantize import FixedPoint, requantize
from hilc.ops.index_maps import Axis, IndexMap, moving, whole
from hilc.ops.opdef import TWICE_OR_EVEN, OpDef, Signature
from hilc.ops.operands import (
    ARITHMETIC,
    constant_ints,
    invalid,
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_same_quantization,
    unsupported,
)
from hilc.ops.traits import ChannelGroup, IntegerInput, RowRange, SampledRows, ascending, in_step

#: Rows or columns; positions in 1/1024 of more leave 32 bits in the references.
_MOST = 1 << 15

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ResizeAttributes(Attributes):
    """Attributes of RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

    #: Whether the corner pixels of input and output coincide.
    align_corners: bool = False
    #: Whether the center of pixel i is at i + 0.5.
    half_pixel_centers: bool = False
    #: For a band of rows: rows of the whole input and of the whole output, and rows before the
    #: band in each. Internal.
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
    """Return the input indices of the output's rows and columns."""
    return nearest_rows(node, ins, resized_shape(node, ins)[1])


def nearest_rows(node: Node, ins: Sequence[Tensor | None], count: int) -> IndexMap:
    """Return the positions of the output's rows: all, or those of the node's band."""
    x, shape = operand(node, ins, 0), resized_shape(node, ins)
    stated = ResizeAttributes.of(node)
    part = stated.part
    size, rows, before, first = part or (x.shape[1], count, 0, 0)
    axes = list(whole(x.shape))
    found = nearest_places(stated, size, rows)[first : first + count] - before
    axes[1] = Axis.of(found * axes[1].step)
    axes[2] = Axis.of(nearest_places(stated, x.shape[2], shape[2]) * axes[2].step)
    return IndexMap((shape[0], count, *shape[2:]), tuple(axes), partial=part is not None)


def nearest_places(stated: ResizeAttributes, size: int, count: int) -> npt.NDArray[np.int64]:
    """Return which of ``size`` rows or columns each of ``count`` is, as the references round."""
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
    """The two neighbouring rows or columns of the input for each of the output."""

    first: Array
    second: Array
    #: Distance from the first, in units of 1 / ``one``: float32 or integers.
    fraction: Array
    one: int


def between(node: Node, size: int, count: int, element: ElementType) -> Between:
    """Return the positions of ``count`` output rows or columns among ``size`` of the input."""
    if not element.quantized:
        found = _between_reals(node, size, count)
    elif node.rounding is Rounding.NEAREST_EVEN:
        found = _between_exactly(node, size, count)
    else:
        found = _between_integers(node, size, count)
    if found.first.max() >= size:
        # Steps are rounded, and add up over many rows.
        unsupported(
            node,
            f"resizes {size} rows or columns to {count}, where the references read beyond the last",
            "resize in two steps",
        )
    return found


def rows_between(node: Node, x: Tensor, out: Tensor) -> Between:
    """Return the positions of the rows of ``out`` among those of ``x``, which may be bands."""
    size, rows, before, first = _part_of(node, x, out)
    found = between(node, size, rows, out.element)
    own = slice(first, first + out.shape[1])
    ends = found.first[own] - before, found.second[own] - before
    return Between(*ends, found.fraction[own], found.one)


def _part_of(node: Node, x: Tensor, out: Tensor) -> tuple[int, int, int, int]:
    """Return the rows of the whole input and output, and those before these rows in each."""
    return ResizeAttributes.of(node).part or (x.shape[1], out.shape[1], 0, 0)


def _part(node: Node, ins: Sequence[Tensor | None], rows: RowRange) -> Node:
    """Return the node of some rows."""
    sizes = operand(node, ins, 0).shape[1], resized_shape(node, ins)[1]
    part = (*sizes, rows.before, rows.first)
    return replace(node, attrs=replace(ResizeAttributes.of(node), part=part))


def _nearest_row_places(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    sizes = operand(node, ins, 0).shape[1], resized_shape(node, ins)[1]
    rows = nearest_places(ResizeAttributes.of(node), *sizes)
    return [(row, row) for row in rows.tolist()]


def _bilinear_row_places(node: Node, ins: Sequence[Tensor | None]) -> list[tuple[int, int]]:
    x, count = operand(node, ins, 0), resized_shape(node, ins)[1]
    found = between(node, x.shape[1], count, x.element)
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
    return Between(first, second, at - first.astype(np.float32), 1)


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
    return Between(first, second, fixed - 1024 * first, 1024)


def _between_exactly(node: Node, size: int, count: int) -> Between:
    """Return positions as fractions of whole numbers."""
    stated, at = ResizeAttributes.of(node), np.arange(count)
    if stated.align_corners and count > 1:
        steps, one = at * (size - 1), count - 1
    elif stated.half_pixel_centers:
        steps, one = (2 * at + 1) * size - count, 2 * count
    else:
        steps, one = at * size, count
    shared = int(np.gcd.reduce(steps, initial=one))
    steps, one = np.clip(steps // shared, 0, (size - 1) * one // shared), one // shared
    first = steps // one
    return Between(first, np.minimum(first + 1, size - 1), steps - first * one, one)


#: Largest sum of the weights of four pixels: the weighted sum of bytes has 32 bits.
_MOST_PARTS = 1 << 23


def even_scale(node: Node, x: Tensor, out: Tensor) -> FixedPoint:
    """Return the factor from the sum of four pixels to the output, where ties go to even."""
    size, count, _, _ = _part_of(node, x, out)
    parts = between(node, size, count, x.element).one
    parts *= between(node, x.shape[2], out.shape[2], x.element).one
    if parts > _MOST_PARTS:
        unsupported(
            node,
            f"resizes {list(x.shape[1:3])} pixels to {list(out.shape[1:3])}, which lie at "
            f"{parts} places between four (supported: up to {_MOST_PARTS})",
            "resize by a whole factor",
        )
    return multiplier(node, quantization(node, x)[0] / quantization(node, out)[0] / parts)


def _infer_bilinear(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    x = operand(node, ins, 0)
    require_dtype(node, x, ARITHMETIC)
    return [(resized_shape(node, ins), x.dtype)]


def _check_bilinear(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, out = operand(node, ins, 0), outs[0]
    if node.rounding is Rounding.NEAREST_EVEN and out.element.quantized:
        if not out.element.tabled:
            # Sums of 16-bit pixels by these weights leave 32 bits.
            unsupported(
                node,
                f"resizes {out.dtype} images by one rounding",
                "resize them in floats: --allow-float, in Python allow_float=True",
            )
        even_scale(node, x, out)
        return
    require_same_quantization(node, x, out)
    for axis in (1, 2):
        between(node, x.shape[axis], out.shape[axis], out.element)


def _bilinear(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, out = values[0], outs[0]
    assert x is not None
    real = not out.element.quantized
    source_of = operand(node, ins, 0)
    rows = rows_between(node, source_of, out)
    columns = between(node, x.shape[2], out.shape[2], out.element)
    down, right = rows.fraction.reshape(-1, 1, 1), columns.fraction.reshape(-1, 1)
    up, left = (
        (np.float32(side.one) if real else side.one) - part
        for side, part in ((rows, down), (columns, right))
    )
    source = x if real else x.astype(np.int64)
    above, below = source[:, rows.first], source[:, rows.second]
    total = above[:, :, columns.first] * up * left
    total = total + below[:, :, columns.first] * down * left
    total = total + above[:, :, columns.second] * up * right
    total = total + below[:, :, columns.second] * down * right
    if not real and node.rounding is Rounding.NEAREST_EVEN:
        zero_points = [quantization(node, tensor)[1] for tensor in (source_of, out)]
        sums = total - zero_points[0] * rows.one * columns.one
        scale = even_scale(node, source_of, out)
        total = requantize(sums, *scale, node.rounding) + zero_points[1]
        total = np.clip(total, *out.element.bounds)
    elif not real:
        half = np.where(total > 0, 1 << 19, -(1 << 19))
        total = np.sign(total + half) * (np.abs(total + half) >> 20)
    return [total.astype(x.dtype)]


def _channel_groups(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> list[ChannelGroup]:
    return [in_step(operand(node, ins, 0), out)]


RESIZE_NEAREST_NEIGHBOR = replace(
    moving(nearest, ResizeAttributes), rows=SampledRows(_nearest_row_places, _part)
)
RESIZE_BILINEAR = OpDef(
    _infer_bilinear,
    _bilinear,
    _check_bilinear,
    roundings=TWICE_OR_EVEN,
    attributes=ResizeAttributes,
    bounds=ascending,
    rows=SampledRows(_bilinear_row_places, _part),
    integer_form=IntegerInput(),
    channel_groups=_channel_groups,
)

OPERATORS: Mapping[str, OpDef] = {
    "RESIZE_BILINEAR": RESIZE_BILINEAR,
    "RESIZE_NEAREST_NEIGHBOR": RESIZE_NEAREST_NEIGHBOR,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "RESIZE_BILINEAR": {"int16"},
    "RESIZE_NEAREST_NEIGHBOR": {"uint8", "int32", "int64", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "RESIZE_NEAREST_NEIGHBOR": {"int32", "int64", "bool"},
}
