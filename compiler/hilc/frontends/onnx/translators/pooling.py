"""Poolings.

Windows without dilation over images of two axes or one become the NHWC poolings. Others are
computed one axis after the other: a maximum or a sum over a window is one of maxima or sums over
its sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np

from hilc.frontends.onnx.operation import Operation, is_real, translates
from hilc.frontends.onnx.translators.convolution import (
    channels_first,
    channels_last,
    pads_of,
    same_padding,
)
from hilc.frontends.onnx.translators.elementwise import combined
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import ELEMENT_TYPES, Array, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.pooling import PoolingAttributes


@dataclass(frozen=True)
class Side:
    """A window along one axis."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    #: Padding after the axis as stated, and as covered by windows, which ceil_mode may extend.
    after: int
    reached: int

    @property
    def count(self) -> int:
        """Positions of the window."""
        span = (self.taps - 1) * self.dilation + 1
        return (self.size + self.before + self.reached - span) // self.stride + 1

    def covered(self, *, padding: bool) -> Array:
        """Return the number of taps inside the image, or its padding too, at each position."""
        low, high = (-self.before, self.size + self.after) if padding else (0, self.size)
        first = np.arange(self.count) * self.stride - self.before
        # The taps from the first that does not lie before, to the first that lies behind.
        begin, end = (
            np.clip(-((first - bound) // self.dilation), 0, self.taps) for bound in (low, high)
        )
        return end - begin


def sides_of(n: Operation) -> list[Side]:
    """Return the window along each axis of the image.

    Raises :class:`~hilc.errors.UnsupportedError` where ``auto_pad`` would remove two positions or
    more.
    """
    sizes, kernel = n.input(0).shape[2:], n.integers("kernel_shape")
    rank = len(kernel)
    if len(sizes) != rank:
        n.invalid(f"has a window of {rank} axes over images of {len(sizes)}")
    kernel = n.counts("kernel_shape", rank)
    strides, dilations = n.counts("strides", rank, 1), n.counts("dilations", rank, 1)
    pads = pads_of(n, sizes, kernel, strides, dilations)
    sides = []
    for size, taps, stride, dilation, (before, after) in zip(
        sizes, kernel, strides, dilations, pads, strict=True
    ):
        reached, span = after, (taps - 1) * dilation + 1
        is_same = n.text("auto_pad", "NOTSET").startswith("SAME")
        if is_same and (added := same_padding(size, span, stride)) < -1:
            # One position less is one behind the last window, whichever way it is halved.
            n.refuse(
                f"has auto_pad over {size} positions with a window of {span} and strides of "
                f"{stride}: a padding of {added}, by which the standard, onnxruntime and "
                "TensorFlow begin the windows at different positions",
                "state pads of 0 or more in place of auto_pad",
            )
        if n.integer("ceil_mode", 0):
            count = -(-(size + before + after - span) // stride) + 1
            # A window that would begin behind the image and its first padding is left out.
            count -= (count - 1) * stride >= size + before
            reached = (count - 1) * stride + span - size - before
        side = Side(size, taps, stride, dilation, before, after, reached)
        if side.count < 1:
            n.invalid(f"has a window of {taps} for {size} positions with {before} + {after} added")
        sides.append(side)
    return sides


@translates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Operation) -> Tensor:
    """Translate GlobalAveragePool and GlobalMaxPool to MEAN and REDUCE_MAX of the spatial axes."""
    x = n.input(0)
    op = "MEAN" if n.type == "GlobalAveragePool" else "REDUCE_MAX"
    axes = n.constant(range(2, len(x.shape)), "int32")
    return n.emit(op, x, axes, attrs=ReductionAttributes(keep_dims=True))


@translates("GlobalLpPool")
def global_lp_pool(n: Operation) -> Tensor:
    """Translate GlobalLpPool to the p-th root of the sum of |x|^p over the spatial axes."""
    p = n.integer("p", 2) if n.version >= 2 else int(n.number("p", 2.0))
    axes = n.constant(range(2, len(n.input(0).shape)), "int32")
    attrs = ReductionAttributes(keep_dims=True)
    return root(n, n.emit("SUM", power(n, n.input(0), p), axes, attrs=attrs), p)


@translates("MaxPool")
def max_pool(n: Operation) -> list[Tensor | None]:
    """Translate MaxPool to MAX_POOL_2D, or axis by axis; return the indices if they are read."""
    x, sides = n.input(0), sides_of(n)
    if any(name for name in n.output_names[1:]):
        return list(_with_places(n, x, sides))
    if _is_plain(n, x, sides):
        return [_pooled(n, "MAX_POOL_2D", x, sides)]
    return [along_sides(n, x, sides, "MAXIMUM", _least(x))]


def _least(x: Tensor) -> float:
    row = ELEMENT_TYPES[x.dtype]
    return -np.inf if row.is_real else row.low


@translates("AveragePool")
def average_pool(n: Operation) -> Tensor:
    """Translate AveragePool to AVERAGE_POOL_2D, or to sums axis by axis and a division.

    Raises :class:`~hilc.errors.UnsupportedError` if a window covers no element.
    """
    x, sides = n.input(0), sides_of(n)
    with_padding = bool(n.integer("count_include_pad", 0))
    if _is_plain(n, x, sides) and not (with_padding and any(s.before or s.after for s in sides)):
        return _pooled(n, "AVERAGE_POOL_2D", x, sides)
    if with_padding and _is_plain(n, x, sides) and all(s.reached <= s.after for s in sides):
        # Every window has all of its taps within the padding: that of an image with zeros around.
        added = {axis: (s.before, max(0, s.reached)) for axis, s in enumerate(sides, 2)}
        whole = [
            replace(s, size=s.size + before + after, before=0, after=0, reached=0)
            for s, (before, after) in zip(sides, added.values(), strict=True)
        ]
        return _pooled(n, "AVERAGE_POOL_2D", surrounded(n, x, added, 0), whole)
    total = along_sides(n, x, sides, "ADD", 0)
    counts: Array = np.ones((), np.int64)
    for side in sides:
        counts = np.multiply.outer(counts, side.covered(padding=with_padding))
    if counts.min() < 1:
        n.refuse("averages a window without a position", "use less padding")
    divisor = n.constant(counts.astype(x.dtype))
    return n.emit("DIV", total, divisor, attrs=ActivationAttributes())


@translates("LpPool")
def lp_pool(n: Operation) -> Tensor:
    """Translate LpPool to the p-th root of the sum of |x|^p over each window."""
    p = n.integer("p", 2) if n.version >= 2 else int(n.number("p", 2.0))
    x = power(n, n.input(0), p)
    return root(n, along_sides(n, x, sides_of(n), "ADD", 0), p)


def power(n: Operation, x: Tensor, p: int) -> Tensor:
    """Return the magnitude of each element to the power of p."""
    if p == 2:
        return n.emit("MUL", x, x, attrs=ActivationAttributes())
    magnitude = n.emit("ABS", x)
    return magnitude if p == 1 else n.emit("POW", magnitude, n.constant(p, x.dtype))


def root(n: Operation, x: Tensor, p: int) -> Tensor:
    """Return the p-th root of each element."""
    if p == 1:
        return x
    return n.emit("SQRT", x) if p == 2 else n.emit("POW", x, n.constant(1 / p, x.dtype))


def _is_plain(n: Operation, x: Tensor, sides: Sequence[Side]) -> bool:
    """Return whether the poolings of the intermediate representation compute it."""
    return (
        len(sides) in (1, 2)
        and is_real(x)
        and all(s.dilation == 1 and max(s.before, s.reached) < s.taps for s in sides)
    )


def _pooled(n: Operation, op: str, x: Tensor, sides: Sequence[Side]) -> Tensor:
    image = channels_last(n, x)
    if len(sides) == 1:
        image = n.reshape(image, (image.shape[0], 1, *image.shape[1:]))
        sides = (Side(1, 1, 1, 1, 0, 0, 0), *sides)
    h, w = sides
    attrs = PoolingAttributes(
        filter_h=h.taps,
        filter_w=w.taps,
        stride_h=h.stride,
        stride_w=w.stride,
        # A negative reach is of positions that no window takes.
        padding=(h.before, max(0, h.reached), w.before, max(0, w.reached)),
    )
    made = n.emit(op, image, attrs=attrs)
    if len(x.shape) == 3:
        made = n.reshape(made, (made.shape[0], *made.shape[2:]))
    return channels_first(n, made)


def along_sides(n: Operation, x: Tensor, sides: Sequence[Side], op: str, neutral: float) -> Tensor:
    """Return a maximum or sum over windows, one axis after the other."""
    attrs = ActivationAttributes() if op == "ADD" else None
    for axis, side in enumerate(sides, 2):
        if (side.taps, side.stride, side.before, side.reached) == (1, 1, 0, 0):
            continue
        around = surrounded(n, x, {axis: (side.before, max(0, side.reached))}, neutral)
        parts = [_tap(n, around, axis, side, tap) for tap in range(side.taps)]
        x = reduce(lambda a, b: n.emit(op, a, b, attrs=attrs), parts)
    return x


def _tap(n: Operation, x: Tensor, axis: int, side: Side, tap: int) -> Tensor:
    """Return the elements under one tap of a window along an axis of a padded image."""
    begin, end, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    begin[axis], steps[axis] = tap * side.dilation, side.stride
    end[axis] = begin[axis] + (side.count - 1) * side.stride + 1
    return sliced(n, x, begin, end, steps)


def surrounded(
    n: Operation, x: Tensor, amounts: Mapping[int, tuple[int, int]], value: float
) -> Tensor:
    """Return a tensor padded with a value; ``amounts`` are elements before and after each axis."""
    added = np.zeros((len(x.shape), 2), np.int32)
    for axis, before_and_after in amounts.items():
        added[axis] = before_and_after
    if not added.any():
        return x
    if len(x.shape) == 4 and not added[:2].any():
        # As images lie for convolutions, which may take the zeros as their own padding.
        image = _surrounded(n, channels_last(n, x), added[[0, 2, 3, 1]], value)
        return channels_first(n, image)
    return _surrounded(n, x, added, value)


def _surrounded(n: Operation, x: Tensor, added: Array, value: float) -> Tensor:
    if x.quant is None and value == 0:
        return n.emit("PAD", x, n.constant(added))
    return n.emit("PADV2", x, n.constant(added), n.constant(value, x.dtype))


def _with_places(n: Operation, x: Tensor, sides: Sequence[Side]) -> tuple[Tensor, Tensor]:
    """Return the maxima, and the first place of each, counted over the whole tensor."""
    around = x
    for axis, side in enumerate(sides, 2):
        around = surrounded(n, around, {axis: (side.before, max(0, side.reached))}, _least(x))
    # Columns first where storage_order says so: then the last axis is the slowest of an image.
    shape = x.shape[2:]
    order = range(len(shape))
    by_column = bool(n.integer("storage_order", 0))
    steps = [prod(shape[:axis]) if by_column else prod(shape[axis + 1 :]) for axis in order]
    images = np.arange(prod(x.shape[:2])).reshape(x.shape[:2]) * prod(shape)
    best: Tensor | None = None
    places: Tensor | None = None
    for taps in np.ndindex(*(side.taps for side in sides)):
        part, place = around, images
        for axis, (side, tap) in enumerate(zip(sides, taps, strict=True)):
            part = _tap(n, part, axis + 2, side, tap)
            found = np.arange(side.count) * side.stride - side.before + tap * side.dilation
            place = place[..., np.newaxis] + found * steps[axis]
        where = n.constant(place.astype(np.int64))
        if best is None or places is None:
            best, places = part, where
            continue
        better = combined(n, "Less", best, part)
        best = n.emit("SELECT_V2", better, part, best)
        places = n.emit("SELECT_V2", better, where, places)
    assert best is not None
    assert places is not None
    return best, places
