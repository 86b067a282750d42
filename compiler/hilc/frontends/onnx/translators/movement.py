"""Operators that move elements, or give them another shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import prod

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import Tensor
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.data_movement import SLICED_AXES, StridedSliceAttributes


@translates("Identity", "Dropout")
def identity(n: Operation) -> list[Tensor | None]:
    """Pass all elements on: Dropout drops some in training only."""
    x = n.input(0)
    if n.type == "Identity":
        return [x]
    drops = n.known_float(1, "the ratio") != 0 if n.has(1) else True
    if drops and n.has(2) and bool(n.known(2, "training_mode")):
        n.refuse("drops elements at random (training_mode)", "export the model for inference")
    return [x, n.constant(np.ones(x.shape, np.bool_))]


@translates("Reshape")
def reshape(n: Operation) -> Tensor:
    """Translate Reshape; the shape must be known at compile time.

    Raises :class:`~hilc.errors.ModelError` if the new shape has another number of elements.
    """
    x = n.input(0)
    wanted = list(n.known_ints(1, "the shape") if n.version >= 5 else n.integers("shape"))
    if not n.integer("allowzero", 0) and 0 in wanted[len(x.shape) :]:
        n.invalid(f"makes the shape {wanted} of {list(x.shape)}, where 0 keeps a size")
    if not n.integer("allowzero", 0):
        wanted = [x.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 in wanted:
        known = prod(size for size in wanted if size != -1)
        if known == 0 or x.size % known or wanted.count(-1) > 1:
            n.invalid(f"makes the shape {wanted} of {list(x.shape)}")
        wanted[wanted.index(-1)] = x.size // known
    if prod(wanted) != x.size:
        n.invalid(f"makes the shape {wanted} of {list(x.shape)}")
    return n.reshape(x, wanted)


@translates("Flatten")
def flatten(n: Operation) -> Tensor:
    """Translate Flatten to a reshape to a matrix, split at ``axis``.

    Raises :class:`~hilc.errors.ModelError` if the axis is out of range.
    """
    x = n.input(0)
    axis, rank = n.integer("axis", 1), len(x.shape)
    if not -rank <= axis <= rank:
        n.invalid(f"has the axis {axis} of {rank} dimensions")
    axis = axis + rank if axis < 0 else axis
    return n.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _axes(n: Operation) -> tuple[int, ...] | None:
    """Return the axes that are an attribute before opset 13, then an operand."""
    if n.version < 13:
        return n.integers("axes") if n.has_attribute("axes") else None
    return n.known_ints(1, "the axes") if n.has(1) else None


@translates("Squeeze")
def squeeze(n: Operation) -> Tensor:
    """Translate Squeeze to a reshape without the axes, or without all axes of size 1.

    Raises :class:`~hilc.errors.ModelError` if a stated axis is not of size 1.
    """
    x, axes = n.input(0), _axes(n)
    rank = len(x.shape)
    given = range(rank) if axes is None else {n.axis(axis, rank) for axis in axes}
    gone = {axis for axis in given if x.shape[axis] == 1}
    if axes is not None and gone != set(given):
        n.invalid(f"squeezes the axes {list(axes)} of {list(x.shape)}")
    return n.reshape(x, [size for axis, size in enumerate(x.shape) if axis not in gone])


@translates("Unsqueeze")
def unsqueeze(n: Operation) -> Tensor:
    """Translate Unsqueeze to a reshape with axes of size 1 added.

    Raises :class:`~hilc.errors.ModelError` if an axis is stated twice.
    """
    x, axes = n.input(0), _axes(n) or ()
    rank = len(x.shape) + len(axes)
    added = {n.axis(axis, rank) for axis in axes}
    if len(added) != len(axes):
        n.invalid(f"adds the axes {list(axes)}", "each once is accepted")
    sizes = iter(x.shape)
    return n.reshape(x, [1 if axis in added else next(sizes) for axis in range(rank)])


@translates("Transpose")
def transpose(n: Operation) -> Tensor:
    """Translate Transpose; without ``perm`` the axes are reversed.

    Raises :class:`~hilc.errors.ModelError` if ``perm`` is not a permutation of the axes.
    """
    x = n.input(0)
    order = n.integers("perm", tuple(reversed(range(len(x.shape)))))
    if sorted(order) != list(range(len(x.shape))):
        n.invalid(f"has perm {list(order)}", f"the axes 0 to {len(x.shape) - 1} once are accepted")
    return n.transpose(x, order)


@translates("Concat")
def concat(n: Operation) -> Tensor:
    """Translate Concat to CONCATENATION of the parts that have elements."""
    parts = [n.input(i) for i in range(n.count)]
    axis = n.axis(n.integer("axis", 1), len(parts[0].shape))
    filled = [part for part in parts if part.size]
    if len(filled) < 2:
        return (
            filled[0]
            if filled
            else n.constant(
                np.concatenate([np.zeros(part.shape, part.dtype) for part in parts], axis)
            )
        )
    return n.emit("CONCATENATION", *filled, attrs=ConcatenationAttributes(axis=axis))


@translates("Split")
def split(n: Operation) -> Sequence[Tensor]:
    """Translate Split into parts of the given sizes, or into equal parts with a smaller last one.

    Raises :class:`~hilc.errors.ModelError` if the sizes do not add up to the axis.
    """
    x = n.input(0)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    count = n.integer("num_outputs", len(n.output_names))
    if n.version < 13:
        sizes = n.integers("split", ())
    else:
        sizes = n.known_ints(1, "the sizes") if n.has(1) else ()
    if not sizes:
        size = -(-x.shape[axis] // count)
        sizes = (*(size,) * (count - 1), x.shape[axis] - size * (count - 1))
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        n.invalid(f"splits {x.shape[axis]} elements into {list(sizes)}")
    starts = np.cumsum((0, *sizes))
    parts = []
    for start, size in zip(starts.tolist(), sizes, strict=False):
        parts.append(along(n, x, axis, start, start + size))
    return parts


@translates("Slice")
def slice_(n: Operation) -> Tensor:
    """Translate Slice; its limits are attributes before opset 10, then operands."""
    x = n.input(0)
    rank = len(x.shape)
    if n.version < 10:
        starts, ends = n.integers("starts"), n.integers("ends")
        axes, steps = n.integers("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = n.known_ints(1, "the starts"), n.known_ints(2, "the ends")
        axes = n.known_ints(3, "the axes") if n.has(3) else tuple(range(len(starts)))
        steps = n.known_ints(4, "the steps") if n.has(4) else (1,) * len(starts)
    begin, end, stride = [0] * rank, list(x.shape), [1] * rank
    if not len(starts) == len(ends) == len(axes) == len(steps):
        n.invalid(
            f"has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps",
            "as many of each are accepted",
        )
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = n.axis(axis, rank)
        if not step:
            n.invalid(f"slices axis {axis} in steps of 0")
        begin[place], end[place], stride[place] = slice(first, last, step).indices(x.shape[place])
    return sliced(n, x, begin, end, stride)


def sliced(
    n: Operation, x: Tensor, begin: Sequence[int], end: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """Return elements of a tensor along each axis, as :func:`range` counts them."""
    counts = [len(range(*bounds)) for bounds in zip(begin, end, stride, strict=True)]
    if 0 in counts:
        return n.constant(np.zeros(counts, x.dtype))
    if tuple(counts) == x.shape and all(step == 1 for step in stride):
        return x
    if len(counts) > SLICED_AXES:
        joined = _by_fewer_axes(n, x, begin, end, stride)
        if joined is not None:
            return n.reshape(joined, counts)
    # An end before the first element cannot be stated: -1 counts from the end.
    mask = sum(1 << axis for axis, last in enumerate(end) if last < 0)
    operands = [n.constant(values, "int32") for values in (begin, np.maximum(end, 0), stride)]
    attrs = StridedSliceAttributes(end_mask=mask)
    return n.emit("STRIDED_SLICE", x, *operands, attrs=attrs, quant=x.quant)


def along(n: Operation, x: Tensor, axis: int, start: int, end: int) -> Tensor:
    """Return the slice from ``start`` to ``end`` along an axis."""
    begin, stop = [0] * len(x.shape), list(x.shape)
    begin[axis], stop[axis] = start, end
    return sliced(n, x, begin, stop, [1] * len(x.shape))


def _by_fewer_axes(
    n: Operation, x: Tensor, begin: Sequence[int], end: Sequence[int], stride: Sequence[int]
) -> Tensor | None:
    """Return elements as :func:`sliced` does, axes that are taken whole beside each other as one;
    None where there are none.
    """
    rank = len(x.shape)
    bounds = list(zip(begin, end, stride, strict=True))
    whole = [
        (begin[a], len(range(*bounds[a]))) == (0, x.shape[a])
        and (stride[a] == 1 or x.shape[a] == 1)
        for a in range(rank)
    ]
    runs = [list(run) for _, run in groupby(range(rank), lambda a: None if whole[a] else a)]
    if len(runs) == rank:
        return None
    sizes = [prod(x.shape[a] for a in run) for run in runs]
    joined = [
        (0, size, 1) if whole[run[0]] else bounds[run[0]]
        for size, run in zip(sizes, runs, strict=True)
    ]
    return sliced(n, n.reshape(x, sizes), *zip(*joined, strict=True))


@translates("Expand")
def expand(n: Operation) -> Tensor:
    """Translate Expand to a broadcast; the shape must be known at compile time."""
    x = n.input(0)
    wanted = n.known_ints(1, "the shape")
    n.check_size(wanted, x.dtype)
    shape = np.broadcast_shapes(x.shape, wanted)
    return broadcast(n, x, shape)


def broadcast(n: Operation, x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a tensor repeated along axes of one element."""
    if tuple(shape) == x.shape:
        return x
    return n.emit("BROADCAST_TO", x, n.constant(shape, "int32"), quant=x.quant)


@translates("Tile")
def tile(n: Operation) -> Tensor:
    """Translate Tile to TILE; the repeats must be known at compile time."""
    x = n.input(0)
    return n.emit("TILE", x, n.constant(n.known_ints(1, "the repeats"), "int32"))


@translates("DepthToSpace", "SpaceToDepth")
def blocks(n: Operation) -> Tensor:
    """Move square blocks between the channels and the two axes of an image."""
    x, size = n.input(0), n.integer("blocksize")
    if len(x.shape) != 4:
        n.invalid(f"has an input of {len(x.shape)} dimensions, not 4")
    batch, channels, height, width = x.shape
    if n.type == "SpaceToDepth":
        if size < 1 or height % size or width % size:
            n.invalid(f"takes blocks of {size} from images of {height} x {width}")
        parts = (batch, channels, height // size, size, width // size, size)
        order = (0, 3, 5, 1, 2, 4) if n.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
        split_up = n.transpose(n.reshape(x, parts), order)
        shape = (batch, channels * size * size, height // size, width // size)
        return n.reshape(split_up, shape)
    if size < 1 or channels % (size * size):
        n.invalid(f"makes blocks of {size} from {channels} channels")
    kept = channels // (size * size)
    if n.text("mode", "DCR") == "DCR":
        # The block is the outer part of the channels here, the inner one with CRD.
        parts, order = (batch, size, size, kept, height, width), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (batch, kept, size, size, height, width), (0, 1, 4, 2, 5, 3)
    joined = n.transpose(n.reshape(x, parts), order)
    return n.reshape(joined, (batch, kept, height * size, width * size))
