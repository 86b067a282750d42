"""Operators that take or put elements by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.elementwise import combined
from hilc.frontends.onnx.translators.movement import sliced
from hilc.frontends.onnx.translators.pooling import surrounded
from hilc.ir import Array, Tensor
from hilc.ops.accumulate import CumsumAttributes
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.gather import GatherAttributes
from hilc.ops.scatter import WAYS, Reduction, ScatterAttributes


@translates("Gather")
def gather(n: Operation) -> Tensor:
    """Translate Gather along an axis; negative indices count from the end."""
    x, indices = n.input(0), n.input(1)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    return taken(n, x, from_front(n, indices, x.shape[axis]), axis)


def taken(n: Operation, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the entries of an axis that indices from the front say."""
    if not indices.size or not x.size:
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        n.check_size(shape, x.dtype)
        return n.constant(np.zeros(shape, x.dtype))
    return n.emit("GATHER", x, indices, attrs=GatherAttributes(axis=axis), quant=x.quant)


def from_front(n: Operation, indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the front, of an axis of this size."""
    if indices.data is not None:
        places = np.where(indices.data < 0, indices.data + size, indices.data)
        return n.constant(places.astype(np.int32))
    zero = n.constant(0, indices.dtype)
    raised = combined(n, "Add", indices, n.constant(size, indices.dtype))
    found = n.emit("SELECT_V2", combined(n, "Less", indices, zero), raised, indices)
    return n.cast(found, "int32")


def _flat(n: Operation, shape: Sequence[int], indices: Tensor, axis: int) -> Tensor:
    """Return the places, in a tensor of ``shape``, of elements with these indices along an axis and
    the indices' own along the others.
    """
    found = from_front(n, n.reshape(indices, (indices.size,)), shape[axis])
    own: Array = np.zeros((), np.int32)
    for other, count in enumerate(indices.shape):
        step = 0 if other == axis else prod(shape[other + 1 :])
        own = np.add.outer(own, np.arange(count, dtype=np.int32) * step).astype(np.int32)
    step_along = n.constant(prod(shape[axis + 1 :]), "int32")
    flat = n.constant(own.reshape(-1))
    places = combined(n, "Add", combined(n, "Mul", found, step_along), flat)
    return n.reshape(places, indices.shape)


@translates("GatherElements")
def gather_elements(n: Operation) -> Tensor:
    """Translate GatherElements to a gather of single elements from the flattened tensor."""
    x, indices = n.input(0), n.input(1)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    return taken(n, n.reshape(x, (x.size,)), _flat(n, x.shape, indices, axis), 0)


@translates("GatherND")
def gather_nd(n: Operation) -> Tensor:
    """Translate GatherND to a gather of blocks, ``batch_dims`` included."""
    x, indices = n.input(0), n.input(1)
    batches = n.integer("batch_dims", 0)
    depth = _depth(n, x, indices, batches)
    starts = _starts(n, x.shape, indices, batches)
    block = prod(x.shape[batches + depth :])
    made = taken(n, n.reshape(x, (x.size // block, block)), starts, 0)
    return n.reshape(made, (*indices.shape[:-1], *x.shape[batches + depth :]))


def _depth(n: Operation, x: Tensor, indices: Tensor, batches: int) -> int:
    """Return the number of axes after the first ``batches`` that each list of indices names."""
    depth = indices.shape[-1] if indices.shape else 0
    if batches < 0 or not 1 <= depth <= len(x.shape) - batches:
        n.invalid(
            f"has indices of shape {list(indices.shape)} for {list(x.shape)} behind {batches} "
            "batch dimensions",
            "the last size is the number of axes that they index, at least 1",
        )
    return depth


def _starts(n: Operation, shape: Sequence[int], indices: Tensor, batches: int) -> Tensor:
    """Return which blocks of a tensor of ``shape`` lists of indices name."""
    depth = indices.shape[-1]
    lead, sides = shape[:batches], shape[batches : batches + depth]
    total: Tensor | None = None
    for place, side in enumerate(sides):
        begin, end = [0] * len(indices.shape), list(indices.shape)
        begin[-1], end[-1] = place, place + 1
        part = sliced(n, indices, begin, end, [1] * len(begin))
        part = from_front(n, n.reshape(part, indices.shape[:-1]), side)
        step = prod(sides[place + 1 :])
        part = combined(n, "Mul", part, n.constant(step, "int32")) if step != 1 else part
        total = part if total is None else combined(n, "Add", total, part)
    assert total is not None
    if not batches:
        return total
    offsets = np.arange(prod(lead), dtype=np.int32).reshape(lead) * prod(sides)
    around = (*lead, *(1,) * (len(indices.shape) - 1 - batches))
    return combined(n, "Add", total, n.constant(offsets.reshape(around).astype(np.int32)))


# Putting ------------------------------------------------------------------------------------------


def scattered(
    n: Operation, x: Tensor, places: Tensor, updates: Tensor, block: int, reduction: str
) -> Tensor:
    """Return a tensor with blocks of elements replaced, or combined with the present ones."""
    if reduction not in WAYS:
        n.refuse(f"has the reduction {reduction!r}", f"supported: {', '.join(WAYS)}")
    if not updates.size:
        return x
    flat = n.emit(
        "SCATTER",
        n.reshape(x, (x.size // block, block)),
        n.reshape(places, (places.size,)),
        n.reshape(updates, (places.size, block)),
        attrs=ScatterAttributes(reduction=cast(Reduction, reduction)),
    )
    return n.reshape(flat, x.shape)


@translates("ScatterElements", "Scatter")
def scatter_elements(n: Operation) -> Tensor:
    """Translate ScatterElements and Scatter to a scatter of single elements."""
    x, indices, updates = n.input(0), n.input(1), n.input(2)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    places = _flat(n, x.shape, indices, axis)
    return scattered(n, x, places, updates, 1, n.text("reduction", "none"))


@translates("ScatterND")
def scatter_nd(n: Operation) -> Tensor:
    """Translate ScatterND to a scatter of blocks."""
    x, indices, updates = n.input(0), n.input(1), n.input(2)
    block = prod(x.shape[_depth(n, x, indices, 0) :])
    places = _starts(n, x.shape, indices, 0)
    return scattered(n, x, places, updates, block, n.text("reduction", "none"))


@translates("TensorScatter")
def tensor_scatter(n: Operation) -> Tensor:
    """Put a slice into each batch, from where its index says; round where the mode says so."""
    x, update = n.input(0), n.input(1)
    rank = len(x.shape)
    axis = n.axis(n.integer("axis", -2), rank)
    size, count, batch = x.shape[axis], update.shape[axis], x.shape[0]
    given = n.optional(2) or n.constant(np.zeros(batch, np.int32))
    start = from_front(n, given, size)
    along = combined(
        n, "Add", n.reshape(start, (batch, 1)), n.constant(np.arange(count)[None], "int32")
    )
    if n.text("mode", "linear") == "circular":
        along = n.emit("INTEGER_MOD", along, n.constant(size, "int32"))
    # All axes before the one that is written are of one kind: blocks behind it stay together.
    block, between = prod(x.shape[axis + 1 :]), prod(x.shape[1:axis])
    rows = np.arange(batch * between, dtype=np.int32).reshape(batch, between, 1) * size
    places = combined(
        n, "Add", n.reshape(along, (batch, 1, count)), n.constant(rows.astype(np.int32))
    )
    return scattered(n, x, places, update, block, "none")


@translates("MaxUnpool")
def max_unpool(n: Operation) -> Tensor:
    """Translate MaxUnpool to a scatter into zeros, padded to the output shape if one is given.

    Raises :class:`~hilc.errors.ModelError` if ``pads`` has not two entries for each spatial axis.
    """
    x, indices = n.input(0), n.input(1)
    rank = len(x.shape) - 2
    kernel, strides = n.counts("kernel_shape", rank), n.counts("strides", rank, 1)
    pads = n.integers("pads", (0,) * 2 * rank)
    if len(pads) != 2 * rank:
        n.invalid(f"has the pads {list(pads)} for {rank} spatial axes")
    inferred = [
        (size - 1) * stride + taps - pads[i] - pads[rank + i]
        for i, (size, stride, taps) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    shape = (*x.shape[:2], *inferred)
    n.check_size(shape, x.dtype)
    empty = n.constant(np.zeros(shape, x.dtype))
    made = scattered(n, empty, n.cast(indices, "int32"), x, 1, "none")
    if not n.has(2):
        return made
    # The stated shape has more behind.
    wanted = n.known_ints(2, "the shape")
    for axis, (have, want) in enumerate(zip(shape, wanted, strict=True)):
        made = surrounded(n, made, {axis: (0, want - have)}, 0)
    return made


# Known indices ------------------------------------------------------------------------------------


@translates("Compress")
def compress(n: Operation) -> Tensor:
    """Translate Compress to a gather; the condition must be known at compile time."""
    x = n.input(0)
    chosen = np.flatnonzero(n.known(1, "the condition").ravel()).astype(np.int32)
    if not n.has_attribute("axis"):
        return taken(n, n.reshape(x, (x.size,)), n.constant(chosen), 0)
    return taken(n, x, n.constant(chosen), n.axis(n.integer("axis"), len(x.shape)))


@translates("ReverseSequence")
def reverse_sequence(n: Operation) -> Tensor:
    """Reverse the first elements of each batch; how many must be known."""
    x, lengths = n.input(0), n.known_ints(1, "the lengths")
    batch, time = n.integer("batch_axis", 1), n.integer("time_axis", 0)
    order = np.tile(np.arange(x.shape[time]), (x.shape[batch], 1))
    for row, length in zip(order, lengths, strict=True):
        row[:length] = row[:length][::-1]
    shape = [1] * len(x.shape)
    shape[batch], shape[time] = x.shape[batch], x.shape[time]
    along = (order if batch < time else order.T).reshape(shape)
    indices = n.constant(np.broadcast_to(along, x.shape), "int32")
    return taken(n, n.reshape(x, (x.size,)), _flat(n, x.shape, indices, time), 0)


@translates("Trilu")
def trilu(n: Operation) -> Tensor:
    """Translate Trilu to SELECT_V2 with a constant mask; ``k`` must be known at compile time."""
    x = n.input(0)
    k = n.known_int(1, "k") if n.has(1) else 0
    if not x.size:
        return x
    rows, columns = x.shape[-2:]
    kept = np.tri(rows, columns, k - 1 if n.integer("upper", 1) else k, dtype=np.bool_)
    mask = n.constant(~kept if n.integer("upper", 1) else kept)
    return n.emit("SELECT_V2", mask, x, n.constant(0, x.dtype))


@translates("OneHot")
def one_hot(n: Operation) -> Tensor:
    """Translate OneHot to comparisons with 0 to depth - 1; the depth must be a constant."""
    indices, depth, values = n.input(0), n.known_int(1, "the depth"), n.input(2)
    rank = len(indices.shape) + 1
    axis = n.axis(n.integer("axis", -1), rank)
    behind = (1,) * (rank - axis - 1)
    n.check_size((depth, *indices.shape), values.dtype)
    if indices.dtype not in ("int32", "int64"):
        indices = n.cast(indices, "int64")
    places = n.constant(np.arange(depth).reshape(-1, *behind), indices.dtype)
    size = n.constant(depth, indices.dtype)
    below = combined(n, "Less", indices, n.constant(0, indices.dtype))
    found = n.emit("SELECT_V2", below, combined(n, "Add", indices, size), indices)
    shape = indices.shape
    hit = combined(n, "Equal", n.reshape(found, (*shape[:axis], 1, *shape[axis:])), places)
    off, on = (sliced(n, values, [i], [i + 1], [1]) for i in (0, 1))
    return n.emit("SELECT_V2", hit, n.reshape(on, ()), n.reshape(off, ()))


# Around -------------------------------------------------------------------------------------------


@translates("Pad")
def pad(n: Operation) -> Tensor:
    """Pad by amounts that are an attribute before opset 11, then an operand; negative ones cut."""
    x = n.input(0)
    rank = len(x.shape)
    mode = n.text("mode", "constant")
    if n.version < 11:
        amounts = n.integers("pads" if n.version >= 2 else "paddings")
        value = n.number("value", 0.0)
        axes: Sequence[int] = range(rank)
    else:
        amounts = n.known_ints(1, "the pads")
        value = n.known(2, "the value").reshape(-1)[0] if n.has(2) else 0
        axes = n.known_ints(3, "the axes") if n.has(3) else range(rank)
    count = len(axes)
    if len(amounts) != 2 * count:
        n.invalid(f"has {len(amounts)} amounts for {count} axes", "two for each are accepted")
    constant: dict[int, tuple[int, int]] = {}
    for i, stated in enumerate(axes):
        axis = n.axis(stated, rank)
        before, after = amounts[i], amounts[count + i]
        size = x.shape[axis]
        if before < 0 or after < 0:
            begin, end = [0] * rank, list(x.shape)
            begin[axis], end[axis] = max(0, -before), size - max(0, -after)
            x = sliced(n, x, begin, end, [1] * rank)
            before, after, size = max(0, before), max(0, after), x.shape[axis]
        if not before and not after:
            continue
        if mode == "constant":
            constant[axis] = before, after
            continue
        n.check_size((*x.shape[:axis], before + size + after, *x.shape[axis + 1 :]), x.dtype)
        x = taken(n, x, n.constant(_around(n, mode, before, size, after), "int32"), axis)
    n.check_size([sum(constant.get(i, ())) + side for i, side in enumerate(x.shape)], x.dtype)
    return surrounded(n, x, constant, value)


def _around(n: Operation, mode: str, before: int, size: int, after: int) -> Array:
    """Return which entries of an axis lie around it and in it."""
    places = np.arange(-before, size + after)
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    if mode != "reflect":
        n.refuse(f"has the mode {mode!r}", "constant, edge, reflect and wrap are supported")
    if size == 1:
        return np.zeros_like(places)
    turned = places % (2 * size - 2)
    return np.where(turned < size, turned, 2 * size - 2 - turned)


@translates("CenterCropPad")
def center_crop_pad(n: Operation) -> Tensor:
    """Translate CenterCropPad to slices and zero padding; the shape must be a constant."""
    x, wanted = n.input(0), n.known_ints(1, "the shape")
    rank = len(x.shape)
    for stated, target in zip(n.integers("axes", range(rank)), wanted, strict=True):
        axis = n.axis(stated, rank)
        size = x.shape[axis]
        if target < size:
            begin, end = [0] * rank, list(x.shape)
            begin[axis] = (size - target) // 2
            end[axis] = begin[axis] + target
            x = sliced(n, x, begin, end, [1] * rank)
        elif target > size:
            before = (target - size) // 2
            x = surrounded(n, x, {axis: (before, target - size - before)}, 0)
    return x


# In order -----------------------------------------------------------------------------------------


@translates("CumSum", "CumProd")
def cumulated(n: Operation) -> Tensor:
    """Combine all entries of an axis so far, one after the other."""
    x = n.input(0)
    rank = len(x.shape)
    axis = n.axis(n.known_int(1, "the axis"), rank)
    if n.type == "CumSum" and x.element.is_computed_real and x.data is None:
        attrs = CumsumAttributes(
            exclusive=bool(n.integer("exclusive", 0)), reverse=bool(n.integer("reverse", 0))
        )
        return n.emit("CUMSUM", x, n.constant(axis, "int32"), attrs=attrs)
    kind, neutral = ("Add", 0) if n.type == "CumSum" else ("Mul", 1)
    order = list(range(x.shape[axis]))
    if n.integer("reverse", 0):
        order.reverse()
    exclusive, parts = bool(n.integer("exclusive", 0)), dict[int, Tensor]()
    single = [1 if i == axis else size for i, size in enumerate(x.shape)]
    total: Tensor | None = None
    for place in order:
        begin, end = [0] * rank, list(x.shape)
        begin[axis], end[axis] = place, place + 1
        before = total
        own = sliced(n, x, begin, end, [1] * rank)
        total = own if before is None else combined(n, kind, before, own)
        if exclusive:
            parts[place] = before or n.constant(np.full(single, neutral, x.dtype))
        else:
            parts[place] = total
    rows = [parts[place] for place in range(x.shape[axis])]
    if len(rows) == 1:
        return rows[0]
    return n.emit("CONCATENATION", *rows, attrs=ConcatenationAttributes(axis=axis))


#: Entries of an axis that are sorted at most: each is compared with each.
_MOST_SORTED = 256


@translates("TopK")
def top_k(n: Operation) -> list[Tensor | None]:
    """Return the largest or the least entries of an axis in order; of equal ones the first."""
    x = n.input(0)
    rank = len(x.shape)
    k = n.integer("k") if n.version < 10 else n.known_int(1, "k")
    axis = n.axis(n.integer("axis", -1), rank)
    size = x.shape[axis]
    if size > _MOST_SORTED:
        n.refuse(f"sorts {size} entries", f"up to {_MOST_SORTED} are supported")
    order = [i for i in range(rank) if i != axis] + [axis]
    rows = n.transpose(x, order)
    lead = rows.shape[:-1]
    own, other = n.reshape(rows, (*lead, size, 1)), n.reshape(rows, (*lead, 1, size))
    if n.integer("largest", 1):
        ahead = combined(n, "Less", own, other)
    else:
        ahead = combined(n, "Less", other, own)
    earlier = n.constant(np.tri(size, size, -1, dtype=np.bool_))
    equal = n.emit("LOGICAL_AND", combined(n, "Equal", own, other), earlier)
    before = n.cast(n.emit("LOGICAL_OR", ahead, equal), "int32")
    attrs = ReductionAttributes()
    place = n.emit("SUM", before, n.constant([len(lead) + 1], "int32"), attrs=attrs)
    wanted = n.constant(np.arange(k, dtype=np.int32).reshape(k, 1))
    hit = combined(n, "Equal", n.reshape(place, (*lead, 1, size)), wanted)
    index = combined(n, "Mul", n.cast(hit, "int32"), n.constant(np.arange(size), "int32"))
    found = n.emit("SUM", index, n.constant([len(lead) + 1], "int32"), attrs=attrs)
    values = taken(n, n.reshape(rows, (rows.size,)), _flat(n, rows.shape, found, len(lead)), 0)
    back = [int(i) for i in np.argsort(order)]
    return [n.transpose(values, back), n.transpose(n.cast(found, "int64"), back)]
