"""Distances between vectors, and places in sorted lists."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from hilc.frontends.pt2.model import Operation, translates


@translates("aten.cdist", "aten._cdist_forward")
def cdist(c: Operation) -> str:
    """Translate aten.cdist to the norm of each difference of a row of ``x1`` and one of ``x2``."""
    first, second = c.shape("x1"), c.shape("x2")
    x = c.reshape(c.tensor("x1"), (*first[:-1], 1, first[-1]))
    y = c.reshape(c.tensor("x2"), (*second[:-2], 1, *second[-2:]))
    return _norm(c, c.emit("Sub", x, y))


@translates("aten._pdist_forward", "aten.pdist")
def pdist(c: Operation) -> str:
    """Translate aten.pdist to the norm of the difference of each pair of rows."""
    rows = np.triu_indices(c.shape("self")[0], 1)
    x, y = (c.emit("Gather", c.tensor("self"), c.integers(place), axis=0) for place in rows)
    return _norm(c, c.emit("Sub", x, y))


@translates("aten.pairwise_distance")
def pairwise_distance(c: Operation) -> str:
    """Translate aten.pairwise_distance to the norm of ``x1 - x2 + eps`` over the last axis."""
    difference = c.emit("Sub", c.tensor("x1"), c.tensor("x2"))
    shifted = c.emit("Add", difference, c.constant(c.get("eps", 1e-6), c.result.dtype))
    return _norm(c, shifted, keep=bool(c.get("keepdim", False)))


def _norm(c: Operation, x: str, *, keep: bool = False) -> str:
    """Return the norm of the order ``p`` over the last axis."""
    order, last = float(c.get("p", 2)), c.integers([-1])
    if order == inf:
        return c.emit("ReduceMax", c.emit("Abs", x), last, keepdims=int(keep))
    if order in (1, 2):
        return c.emit(f"ReduceL{int(order)}", x, last, keepdims=int(keep))
    dtype = c.result.dtype
    if order == 0:
        unequal = c.emit("Not", c.emit("Equal", x, c.constant(0, dtype)))
        return c.emit("ReduceSum", c.cast(unequal, "bool", dtype), last, keepdims=int(keep))
    powers = c.emit("Pow", c.emit("Abs", x), c.constant(order, dtype))
    total = c.emit("ReduceSum", powers, last, keepdims=int(keep))
    return c.emit("Pow", total, c.constant(1 / order, dtype))


@translates("aten.bucketize", "aten.searchsorted")
def bucketize(c: Operation) -> str:
    """Translate aten.bucketize and searchsorted: count the boundaries before each value.

    A NaN is behind all of them. Raises :class:`~hilc.errors.UnsupportedError` for ``sorter``.
    """
    if c.has("sorter"):
        c.refuse("takes a sorter", "sort the sequence before")
    is_sequence = c.has("sorted_sequence")
    name = "sorted_sequence" if is_sequence else "boundaries"
    bounds, own = c.shape(name), c.signature(name).dtype
    shape = c.shape("self")
    common = str(np.result_type(own, c.signature("self").dtype))
    x = c.reshape(c.cast(c.tensor("self"), c.signature("self").dtype, common), (*shape, 1))
    y = c.cast(c.tensor(name), own, common)
    if len(bounds) > 1:
        y = c.reshape(y, (*bounds[:-1], 1, bounds[-1]))
    right = c.get("right", False) or c.get("side") == "right"
    before = c.emit("Not", c.emit("Greater" if right else "GreaterOrEqual", y, x))
    counts = c.emit("ReduceSum", c.cast(before, "bool", "int32"), c.integers([-1]), keepdims=0)
    return c.cast(counts, "int32", c.result.dtype)


@translates("aten.one_hot")
def one_hot(c: Operation) -> str:
    """Translate aten.one_hot to OneHot with the values 0 and 1 along a new last axis."""
    depth = c.result_shape[-1]
    return c.emit(
        "OneHot", c.tensor("self"), c.constant(depth, "int64"), c.constant((0, 1), "int64")
    )


# Bags of embeddings -------------------------------------------------------------------------------

_SUM, _MEAN, _MAX = range(3)


@translates("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(c: Operation) -> list[str]:
    """Translate a bag of embeddings to Gather and a reduction of the rows of each bag.

    Raises :class:`~hilc.errors.UnsupportedError` for offsets that are known at run time only, for
    a padding index, and where another output than the bags is read.
    """
    if (c.get("padding_idx", -1)) not in (-1, None):
        c.refuse("has a padding_idx", "set the row of the weights to zeros, and sum the bags")
    if any(map(c.is_read, c.output_refs[1:])):
        c.refuse("gives more than its bags", "read the first output only")
    count = prod(c.shape("indices"))
    starts = [int(start) for start in c.value("offsets")]
    ends = [*starts[1:], count]
    if c.get("include_last_offset", False):
        starts, ends = starts[:-1], starts[1:]
    rows = c.emit("Gather", c.tensor("weight"), c.tensor("indices"), axis=0)
    if c.has("per_sample_weights"):
        weights = c.reshape(c.tensor("per_sample_weights"), (count, 1))
        rows = c.emit("Mul", rows, weights)
    sizes = {end - start for start, end in zip(starts, ends, strict=True)}
    width = c.result_shape[-1]
    if len(sizes) == 1 and starts[0] == 0 and min(sizes) > 0:
        bags = c.reshape(rows, (len(starts), sizes.pop(), width))
        return [_bag(c, bags, 1), *[""] * (len(c.output_refs) - 1)]
    parts = []
    for start, end in zip(starts, ends, strict=True):
        if start == end:
            parts.append(c.constant(np.zeros((1, width), c.result.dtype)))
            continue
        part = c.emit("Slice", rows, *map(c.integers, ([start], [end], [0])))
        parts.append(c.reshape(_bag(c, part, 0), (1, width)))
    bags = parts[0] if len(parts) == 1 else c.emit("Concat", *parts, axis=0)
    return [bags, *[""] * (len(c.output_refs) - 1)]


def _bag(c: Operation, rows: str, axis: int) -> str:
    """Return the sum, mean or maximum of rows along an axis."""
    kind = {_SUM: "ReduceSum", _MEAN: "ReduceMean", _MAX: "ReduceMax"}[c.get("mode", _SUM)]
    return c.emit(kind, rows, c.integers([axis]), keepdims=0)
