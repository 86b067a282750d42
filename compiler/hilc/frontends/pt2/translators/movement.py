"""Operators that move elements, or give them another shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilc.frontends.pt2.model import Operation, Outputs, translates
from hilc.frontends.pt2.program import Ref
from hilc.ir import Array

_TO_THE_END = (1 << 63) - 1


@translates(
    "aten.view", "aten.reshape", "aten._unsafe_view", "aten.flatten", "aten.unflatten",
    "aten.unsqueeze", "aten.squeeze", "aten.view_as", "aten.reshape_as", "aten.ravel",
)  # fmt: skip
def reshape(c: Operation) -> str:
    """Translate an operator that changes the shape alone to Reshape to the result's shape.

    Raises :class:`~hilc.errors.UnsupportedError` if it reinterprets the bytes as another type.
    """
    if c.result.dtype != c.signature("self").dtype:
        c.refuse("reads the bytes as another type", "use to() instead of view(dtype)")
    return c.reshape(c.tensor("self"), c.result_shape)


# Orders of axes -----------------------------------------------------------------------------------


@translates("aten.permute")
def permute(c: Operation) -> str:
    """Translate aten.permute to Transpose."""
    return c.emit("Transpose", c.tensor("self"), perm=c.axes("dims"))


@translates("aten.transpose", "aten.swapaxes", "aten.swapdims")
def transpose(c: Operation) -> str:
    """Translate aten.transpose, swapaxes and swapdims to Transpose of two axes."""
    first, second = ("dim0", "dim1") if c.has("dim0") else ("axis0", "axis1")
    return _exchanged(c, c.axis(first), c.axis(second))


@translates("aten.t", "aten.mT", "aten.numpy_T")
def t(c: Operation) -> str:
    """Translate aten.t, mT and numpy_T to Transpose of the last two axes; identity below rank 2."""
    rank = c.rank("self")
    return c.tensor("self") if rank < 2 else _exchanged(c, rank - 2, rank - 1)


def _exchanged(c: Operation, first: int, second: int) -> str:
    axes = list(range(c.rank("self")))
    if not axes:
        return c.tensor("self")
    axes[first], axes[second] = axes[second], axes[first]
    return c.emit("Transpose", c.tensor("self"), perm=axes)


@translates("aten.movedim", "aten.moveaxis")
def movedim(c: Operation) -> str:
    """Translate aten.movedim and moveaxis to Transpose."""
    source, target = c.axes("source"), c.axes("destination")
    rest = [axis for axis in range(c.rank("self")) if axis not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        rest.insert(place, axis)
    return c.emit("Transpose", c.tensor("self"), perm=rest)


# Repetition ---------------------------------------------------------------------------------------


@translates("aten.expand", "aten.expand_as", "aten.broadcast_to")
def expand(c: Operation) -> str:
    """Translate aten.expand, expand_as and broadcast_to to Expand to the result's shape."""
    return c.emit("Expand", c.tensor("self"), c.integers(c.result_shape))


@translates("aten.repeat", "aten.tile")
def repeat(c: Operation) -> str:
    """Translate aten.repeat and tile to Tile, with leading axes of size 1 added where needed."""
    counts = c.ints("repeats" if c.has("repeats") else "dims", ())
    shape = c.shape("self")
    rank = max(len(counts), len(shape))
    x = c.tensor("self")
    if len(shape) < rank:
        x = c.reshape(x, (1,) * (rank - len(shape)) + shape)
    return c.emit("Tile", x, c.integers((1,) * (rank - len(counts)) + counts))


@translates("aten.repeat_interleave")
def repeat_interleave(c: Operation) -> str:
    """Translate aten.repeat_interleave to Tile along a new axis behind ``dim``, then Reshape.

    Raises :class:`~hilc.errors.UnsupportedError` if ``repeats`` is a tensor.
    """
    if isinstance(c.get("repeats"), Ref):
        c.refuse("takes its counts from a tensor", "give one number")
    count, shape = c.get("repeats"), c.shape("self")
    axis = c.axis("dim") if c.has("dim") else 0
    x = c.tensor("self")
    if not c.has("dim"):
        shape = (int(np.prod(shape)),)
    x = c.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    counts = [1] * (len(shape) + 1)
    counts[axis + 1] = count
    return c.reshape(c.emit("Tile", x, c.integers(counts)), c.result_shape)


# Joining and cutting ------------------------------------------------------------------------------


@translates("aten.cat", "aten.concat", "aten.concatenate")
def cat(c: Operation) -> str:
    """Translate aten.cat, concat and concatenate to Concat of operands cast to one type."""
    refs = c.get("tensors")
    # An empty list of no axes is what PyTorch ignores here.
    kept = [ref for ref in refs if c.signature_of(ref).shape != (0,)]
    dtype = c.result.dtype
    parts = [c.cast(c.named(ref), c.signature_of(ref).dtype, dtype) for ref in kept]
    rank = len(c.result_shape)
    return c.emit("Concat", *parts, axis=c.ints("dim", (0,))[0] % rank)


@translates("aten.stack")
def stack(c: Operation) -> str:
    """Translate aten.stack to Concat along a new axis of size 1."""
    shape, rank = c.result_shape, len(c.result_shape)
    axis = c.ints("dim", (0,))[0] % rank
    single = (*shape[:axis], 1, *shape[axis + 1 :])
    return c.emit("Concat", *(c.reshape(x, single) for x in c.tensors("tensors")), axis=axis)


@translates("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.tensor_split")
def split(c: Operation) -> Outputs:
    """Translate aten.split, split_with_sizes, chunk and tensor_split to Split."""
    axis = c.axis("dim", default=0)
    sizes = [int(signature.shape[axis]) for signature in c.results]
    return c.emit_many("Split", [c.tensor("self"), c.integers(sizes)], len(sizes), axis=axis)


@translates("aten.unbind")
def unbind(c: Operation) -> Outputs:
    """Translate aten.unbind to Split into slices of size 1, without the axis."""
    axis = c.axis("dim", default=0)
    count = len(c.results)
    parts = c.emit_many("Split", [c.tensor("self"), c.integers([1] * count)], count, axis=axis)
    return [c.reshape(part, c.result_shape) for part in parts]


@translates("aten.slice")
def slice_(c: Operation) -> str:
    """Translate aten.slice to Slice; return the input if the slice is the whole axis."""
    axis = c.axis("dim", default=0)
    start, end, step = c.get("start", 0), c.get("end", _TO_THE_END), c.get("step", 1)
    if start == 0 and end >= c.shape("self")[axis] and step == 1:
        return c.tensor("self")
    return _sliced(c, axis, start, end, step)


def _sliced(c: Operation, axis: int, start: int, end: int, step: int = 1) -> str:
    limits = (c.integers([value]) for value in (start, end, axis, step))
    return c.emit("Slice", c.tensor("self"), *limits)


@translates("aten.narrow")
def narrow(c: Operation) -> str:
    """Translate aten.narrow to Slice of ``length`` elements from ``start``."""
    axis, start = c.axis("dim"), c.get("start")
    start %= max(1, c.shape("self")[axis])
    return _sliced(c, axis, start, start + c.get("length"))


@translates("aten.select")
def select(c: Operation) -> str:
    """Translate aten.select to Gather of one index, without the axis."""
    axis = c.axis("dim")
    index = c.get("index") % c.shape("self")[axis]
    return c.emit("Gather", c.tensor("self"), c.constant(index, "int64"), axis=axis)


# Grids and orders ---------------------------------------------------------------------------------


@translates("aten.meshgrid")
def meshgrid(c: Operation) -> Outputs:
    """Repeat each list along the axes of the others."""
    refs = c.get("tensors")
    order = list(range(len(refs)))
    if c.get("indexing", "ij") == "xy":
        order[:2] = reversed(order[:2])
    grids = []
    for place, ref in zip(order, refs, strict=True):
        shape = [1] * len(refs)
        shape[place] = -1
        grids.append(c.emit("Expand", c.reshape(c.named(ref), shape), c.integers(c.result_shape)))
    return grids


@translates("aten.diagonal", "aten.diagonal_copy")
def diagonal(c: Operation) -> str:
    """Translate aten.diagonal: the elements along two axes at once, as the last axis."""
    shape, rank = c.shape("self"), c.rank("self")
    first, second = c.axes_of("self", (c.get("dim1", 0), c.get("dim2", 1)))
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    offset, count = c.get("offset", 0), c.result_shape[-1]
    places = np.arange(count)
    flat = (places + max(0, -offset)) * shape[second] + places + max(0, offset)
    x = c.emit("Transpose", c.tensor("self"), perm=[*rest, first, second])
    x = c.reshape(x, (*(shape[axis] for axis in rest), shape[first] * shape[second]))
    return c.emit("Gather", x, c.constant(flat), axis=len(rest))


@translates("aten.as_strided", "aten.as_strided_copy")
def as_strided(c: Operation) -> str:
    """Translate aten.as_strided of a contiguous tensor to Gather from its elements in order."""
    sizes, strides = c.ints("size"), c.ints("stride")
    places: Array = np.full((), c.get("storage_offset", 0), np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        places = np.add.outer(places, np.arange(size) * stride)
    count = int(np.prod(c.shape("self")))
    if places.size and not 0 <= places.max() < count:
        c.refuse("reads memory outside of its tensor", "index the tensor instead")
    return c.emit("Gather", c.reshape(c.tensor("self"), (count,)), c.constant(places), axis=0)


@translates("aten.flip")
def flip(c: Operation) -> str:
    """Translate aten.flip to Slice with a step of -1 along each axis."""
    axes = c.axes("dims")
    limits = ([-1] * len(axes), [-_TO_THE_END] * len(axes), axes, [-1] * len(axes))
    return c.emit("Slice", c.tensor("self"), *map(c.integers, limits))


@translates("aten.roll")
def roll(c: Operation) -> str:
    """Translate aten.roll to a rotation along each axis, or of the flattened tensor."""
    shifts, axes = c.ints("shifts"), c.ints("dims", ())
    x, shape = c.tensor("self"), c.shape("self")
    if not axes:
        flat = int(np.prod(shape))
        return c.reshape(_rolled(c, c.reshape(x, (flat,)), 0, flat, shifts[0]), shape)
    for axis, shift in zip(c.axes_of("self", axes), shifts, strict=True):
        x = _rolled(c, x, axis, shape[axis], shift)
    return x


def _rolled(c: Operation, x: str, axis: int, size: int, shift: int) -> str:
    shift %= max(1, size)
    if not shift:
        return x
    parts = c.emit_many("Split", [x, c.integers((size - shift, shift))], 2, axis=axis)
    return c.emit("Concat", *reversed(parts), axis=axis)


@translates("aten.tril", "aten.triu")
def trilu(c: Operation) -> str:
    """Translate aten.tril and triu to Trilu."""
    diagonal = c.constant(c.get("diagonal", 0), "int64")
    return c.emit("Trilu", c.tensor("self"), diagonal, upper=int("triu" in c.call.target))


@translates("aten.slice_scatter")
def slice_scatter(c: Operation) -> str:
    """Translate aten.slice_scatter to Concat: the slice along one axis is replaced.

    With a step, entries are taken from both tensors side by side.
    """
    axis = c.axis("dim", default=0)
    size = c.shape("self")[axis]
    start, end, step = slice(c.get("start"), c.get("end"), c.get("step", 1)).indices(size)
    if step != 1:
        places = np.arange(size)
        replaced = places[start:end:step]
        places[start:end:step] = size + np.arange(len(replaced))
        both = c.emit("Concat", c.tensor("self"), c.tensor("src"), axis=axis)
        return c.emit("Gather", both, c.integers(places.tolist()), axis=axis)
    end = max(start, end)
    parts = [c.tensor("src")]
    if start:
        parts.insert(0, _sliced(c, axis, 0, start))
    if end < size:
        parts.append(_sliced(c, axis, end, size))
    return parts[0] if len(parts) == 1 else c.emit("Concat", *parts, axis=axis)


@translates("aten.select_scatter")
def select_scatter(c: Operation) -> str:
    """Translate aten.select_scatter to Concat: one slice along ``dim`` replaced by ``src``."""
    axis, shape = c.axis("dim"), c.shape("self")
    index = c.get("index") % shape[axis]
    parts = [c.reshape(c.tensor("src"), (*shape[:axis], 1, *shape[axis + 1 :]))]
    if index:
        parts.insert(0, _sliced(c, axis, 0, index))
    if index + 1 < shape[axis]:
        parts.append(_sliced(c, axis, index + 1, shape[axis]))
    return parts[0] if len(parts) == 1 else c.emit("Concat", *parts, axis=axis)


@translates("aten.copy")
def copy(c: Operation) -> str:
    """Translate aten.copy to ``src``, cast and broadcast to the result."""
    source = c.cast(c.tensor("src"), c.signature("src").dtype, c.result.dtype)
    if c.shape("src") == c.result_shape:
        return source
    return c.emit("Expand", source, c.integers(c.result_shape))


# Padding ------------------------------------------------------------------------------------------

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@translates("aten.pad", "aten.constant_pad_nd")
def pad(c: Operation) -> str:
    """Translate aten.pad and constant_pad_nd to Pad."""
    return _padded(c, c.ints("pad"), _MODES[c.get("mode", "constant")])


@translates(*(f"aten.reflection_pad{n}d" for n in (1, 2, 3)))
def reflection_pad(c: Operation) -> str:
    """Translate aten.reflection_pad1d, 2d and 3d to Pad in reflect mode."""
    return _padded(c, c.ints("padding"), "reflect")


@translates(*(f"aten.replication_pad{n}d" for n in (1, 2, 3)))
def replication_pad(c: Operation) -> str:
    """Translate aten.replication_pad1d, 2d and 3d to Pad in edge mode."""
    return _padded(c, c.ints("padding"), "edge")


def _padded(c: Operation, pads: Sequence[int], mode: str) -> str:
    """PyTorch lists pads by pairs from the last axis on, and cuts off where they are negative."""
    rank = c.rank("self")
    before, behind = [0] * rank, [0] * rank
    for place, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        before[rank - 1 - place], behind[rank - 1 - place] = low, high
    x, shape = c.tensor("self"), c.shape("self")
    if min(before + behind, default=0) < 0:
        first = [max(0, -pad) for pad in before]
        last = [size + min(0, pad) for size, pad in zip(shape, behind, strict=True)]
        x = c.emit("Slice", x, *map(c.integers, (first, last, range(rank))))
    amounts = c.integers(max(0, pad) for pad in (*before, *behind))
    if mode != "constant":
        return c.emit("Pad", x, amounts, mode=mode)
    return c.emit("Pad", x, amounts, c.scalar("value", c.result.dtype, 0))
