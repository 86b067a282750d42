"""Operators that take elements by indices, or put them there.

PyTorch puts elements along any axis, ONNX's ScatterND along the first. So a tensor is seen as
blocks: places before the axis, and along it, name a block of what is behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hilc.frontends.pt2.model import Operation, translates
from hilc.frontends.pt2.program import Ref

# Taking -------------------------------------------------------------------------------------------


@translates("aten.masked_scatter")
def masked_scatter(c: Operation) -> str:
    """Take the source's entries one after the other where the mask is true."""
    shape = c.result_shape
    mask = c.emit("Expand", c.tensor("mask"), c.integers(shape))
    flat = c.reshape(c.cast(mask, "bool", "int64"), (int(np.prod(shape)),))
    before = c.emit("CumSum", flat, c.constant(0, "int64"), exclusive=1)
    size = int(np.prod(c.shape("source")))
    places = c.emit("Min", before, c.constant(size - 1, "int64"))
    taken = c.emit("Gather", c.reshape(c.tensor("source"), (size,)), places)
    x = c.emit("Expand", c.tensor("self"), c.integers(shape))
    return c.emit("Where", mask, c.reshape(taken, shape), x)


@translates("aten.index_select")
def index_select(c: Operation) -> str:
    """Translate aten.index_select to Gather along ``dim``."""
    return c.emit("Gather", c.tensor("self"), c.tensor("index"), axis=c.axis("dim"))


@translates("aten.gather")
def gather(c: Operation) -> str:
    """Translate aten.gather to GatherElements along ``dim``."""
    return c.emit("GatherElements", c.tensor("self"), c.tensor("index"), axis=c.axis("dim"))


@translates("aten.index")
def index(c: Operation) -> str:
    """Advanced indexing by one tensor, or by several: the indexed axes are moved to the front."""
    given = c.get("indices")
    places = [axis for axis, part in enumerate(given) if part is not None]
    if any(_is_mask(c, given[axis]) for axis in places):
        c.refuse("selects by a mask, so its shape depends on data", "use where() instead")
    if len(places) == 1:
        (axis,) = places
        return c.emit("Gather", c.tensor("self"), c.named(given[axis]), axis=axis)
    indices = [given[axis] for axis in places]
    common = _common_shape(c, indices)
    rest = [axis for axis in range(c.rank("self")) if axis not in places]
    x = c.tensor("self")
    if places != list(range(len(places))):
        x = c.emit("Transpose", x, perm=[*places, *rest])
    taken = c.emit("GatherND", x, _tuples(c, indices, common))
    if not places[0] or places[-1] - places[0] >= len(places):
        # Indices apart from each other give the first axes.
        return taken
    count, before = len(common), places[0]
    first = range(count, count + before)
    order = [*first, *range(count), *range(count + before, count + len(rest))]
    return c.emit("Transpose", taken, perm=order)


def _is_mask(c: Operation, ref: Ref) -> bool:
    return c.signature_of(ref).dtype in ("bool", "uint8")


def _common_shape(c: Operation, indices: Sequence[Ref]) -> tuple[int, ...]:
    shapes = [tuple(map(int, c.signature_of(ref).shape)) for ref in indices]
    return np.broadcast_shapes(*shapes)


def _tuples(c: Operation, indices: Sequence[Ref], common: Sequence[int]) -> str:
    """Return the indices of each element, one for each axis, as the last axis of a tensor."""
    parts = [
        c.reshape(c.emit("Expand", c.named(ref), c.integers(common)), (*common, 1))
        for ref in indices
    ]
    return parts[0] if len(parts) == 1 else c.emit("Concat", *parts, axis=len(common))


# Putting along one axis ---------------------------------------------------------------------------


@translates("aten.index_copy")
def index_copy(c: Operation) -> str:
    """Translate aten.index_copy: write the slices of ``source`` at the indices along ``dim``."""
    return _put(c, c.tensor("source"), "none")


@translates("aten.index_add")
def index_add(c: Operation) -> str:
    """Translate aten.index_add: add ``alpha`` * ``source`` at the indices along ``dim``."""
    source = c.tensor("source")
    if c.get("alpha", 1) != 1:
        source = c.emit("Mul", source, c.scalar("alpha", c.result.dtype))
    return _put(c, source, "add")


@translates("aten.index_fill")
def index_fill(c: Operation) -> str:
    """Translate aten.index_fill: write ``value`` at the indices along ``dim``."""
    shape = list(c.shape("self"))
    shape[c.axis("dim")] = prod(c.shape("index"))
    value = c.scalar("value", c.result.dtype)
    return _put(c, c.emit("Expand", value, c.integers(shape)), "none")


def _put(c: Operation, source: str, reduction: str) -> str:
    """Return ``self`` with slices of ``source`` at the places of ``index`` along ``dim``."""
    shape, axis, count = c.shape("self"), c.axis("dim"), prod(c.shape("index"))
    # A scalar is a list of one here.
    shape, index = shape or (1,), c.reshape(c.tensor("index"), (1, count))
    blocks = prod(shape[:axis])
    if blocks > 1:
        # Negative indices, which would name blocks of another slice, PyTorch refuses too.
        starts = np.arange(blocks, dtype=np.int64).reshape(blocks, 1) * shape[axis]
        index = c.emit("Add", c.cast(index, c.signature("index").dtype, "int64"),
                       c.constant(starts))  # fmt: skip
    return _scattered(c, shape[: axis + 1], (blocks, count), index, source, reduction)


def _scattered(
    c: Operation, sides: Sequence[int], counts: Sequence[int], places: str, source: str,
    reduction: str,
) -> str:  # fmt: skip
    """Put blocks behind the axes ``sides`` of ``self``, which ``places`` number through.

    ``counts`` is the shape of ``places``.
    """
    behind = c.shape("self")[len(sides) :]
    made = c.emit(
        "ScatterND",
        c.reshape(c.tensor("self"), (prod(sides), *behind)),
        c.reshape(places, (prod(counts), 1)),
        c.reshape(source, (prod(counts), *behind)),
        reduction=reduction,
    )
    return c.reshape(made, c.result_shape)


# Putting at lists of indices ----------------------------------------------------------------------


@translates("aten.index_put", "aten._unsafe_index_put")
def index_put(c: Operation) -> str:
    """Advanced indexing by tensors for axes next to each other."""
    given = c.get("indices")
    axes = [axis for axis, part in enumerate(given) if part is not None]
    indices = [given[axis] for axis in axes]
    if any(_is_mask(c, ref) for ref in indices):
        return _put_by_mask(c, indices)
    first, last = axes[0], axes[-1]
    if len(axes) != last - first + 1:
        c.refuse(f"puts by the axes {axes} at once", "supported are axes next to each other")
    shape, common = c.shape("self"), _common_shape(c, indices)
    region = (*shape[:first], *common, *shape[last + 1 :])
    source = c.tensor("values")
    if c.shape("values") != region:
        source = c.emit("Expand", source, c.integers(region))
    reduction = "add" if c.get("accumulate", False) else "none"
    if not first:
        listed = _tuples(c, indices, common)
        return c.emit("ScatterND", c.tensor("self"), listed, source, reduction=reduction)
    blocks = prod(shape[:first])
    places = _numbers(c, indices, common, shape[first : last + 1])
    starts = np.arange(blocks, dtype=np.int64).reshape(blocks, 1) * prod(shape[first : last + 1])
    places = c.emit("Add", c.reshape(places, (1, prod(common))), c.constant(starts))
    return _scattered(c, shape[: last + 1], (blocks, prod(common)), places, source, reduction)


def _numbers(
    c: Operation, indices: Sequence[Ref], common: Sequence[int], sides: Sequence[int]
) -> str:
    """Return places along several axes as numbers of a single one; indices may be negative."""
    total = ""
    for place, (ref, side) in enumerate(zip(indices, sides, strict=True)):
        part = c.cast(c.named(ref), c.signature_of(ref).dtype, "int64")
        # The remainder has the sign of the divisor.
        part = c.emit("Mod", part, c.constant(side, "int64"))
        if (step := prod(sides[place + 1 :])) != 1:
            part = c.emit("Mul", part, c.constant(step, "int64"))
        total = c.emit("Add", total, part) if total else part
    return c.emit("Expand", total, c.integers(common)) if len(indices) == 1 else total


def _put_by_mask(c: Operation, masks: Sequence[Ref]) -> str:
    """Put one value wherever a mask of the first axes says so."""
    if len(masks) != 1 or prod(c.shape("values")) != 1:
        c.refuse(
            "puts several values by a mask, so which goes where depends on data",
            "put one value, or use where()",
        )
    shape = tuple(map(int, c.signature_of(masks[0]).shape))
    rest = (1,) * (c.rank("self") - len(shape))
    mask = c.cast(c.named(masks[0]), c.signature_of(masks[0]).dtype, "bool")
    mask = c.reshape(mask, (*shape, *rest)) if rest else mask
    value = c.reshape(c.tensor("values"), ())
    if c.get("accumulate", False):
        value = c.emit("Add", c.tensor("self"), value)
    return c.emit("Where", mask, value, c.tensor("self"))


# Putting element by element -----------------------------------------------------------------------

_REDUCTIONS = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


@translates("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def scatter(c: Operation) -> str:
    """Put each element where its index says along one axis, its own place along the others."""
    reduction = "none"
    if "scatter_add" in c.call.target:
        reduction = "add"
    elif c.has("reduce"):
        stated = c.get("reduce")
        if stated not in _REDUCTIONS or not c.get("include_self", True):
            c.refuse(
                f"combines by {stated!r}, with include_self={c.get('include_self', True)}",
                f"supported: {', '.join(_REDUCTIONS)}, with what was there before",
            )
        reduction = _REDUCTIONS[stated]
    return c.emit(
        "ScatterElements", c.tensor("self"), c.tensor("index"), _updates(c),
        axis=c.axis("dim"), reduction=reduction,
    )  # fmt: skip


def _updates(c: Operation) -> str:
    """Return as many elements as there are indices: a number for all, or the first of a tensor."""
    shape = c.shape("index")
    if not c.has("src"):
        return c.emit("Expand", c.scalar("value", c.result.dtype), c.integers(shape))
    if c.shape("src") == shape:
        return c.tensor("src")
    limits = ([0] * len(shape), shape, range(len(shape)))
    return c.emit("Slice", c.tensor("src"), *map(c.integers, limits))
