"""Poolings, as the standard defines them: window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hilc.ir import Array


@dataclass(frozen=True)
class Axis:
    """The windows along one spatial axis."""

    size: int
    taps: int
    stride: int
    dilation: int
    #: Padding that is stated, or that follows from ``auto_pad``.
    before: int
    after: int
    #: Number of windows.
    count: int

    def covered(self, window: int) -> tuple[Array, int]:
        """Return the positions inside of the axis that a window covers, and how many it covers
        inside of the padded axis.
        """
        first = window * self.stride - self.before
        taps = first + self.dilation * np.arange(self.taps)
        padded = (taps >= -self.before) & (taps < self.size + self.after)
        return taps[(taps >= 0) & (taps < self.size)], int(padded.sum())


def windows(x: Array, given: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], Array, int]]:
    """Yield the place of each window among the outputs, its elements, of shape (images, channels,
    elements), and how many positions it covers within the padded image.
    """
    axes = axes_of(x, given)
    for place in product(*(range(axis.count) for axis in axes)):
        covered = [axis.covered(window) for axis, window in zip(axes, place, strict=True)]
        inside = np.ix_(*(np.arange(size) for size in x.shape[:2]), *(each for each, _ in covered))
        positions = int(np.prod([count for _, count in covered]))
        yield place, x[inside].reshape(*x.shape[:2], -1), positions


def pooled(x: Array, given: dict[str, Any], value: Callable[[Array, int], Array]) -> Array:
    """Return ``value`` of the elements and positions of each window, of the type of ``x``."""
    made = np.zeros((*(axis.count for axis in axes_of(x, given)), *x.shape[:2]), x.dtype)
    for place, window, positions in windows(x, given):
        made[place] = value(window, positions)
    return np.moveaxis(made, (-2, -1), (0, 1))


def max_pooled(x: Array, given: dict[str, Any]) -> tuple[Array, Array]:
    """Return the maxima, and the first position of each, counted over the whole tensor."""
    size, order = int(np.prod(x.shape[2:])), "F" if given.get("storage_order") else "C"
    image = np.arange(size).reshape(x.shape[2:], order=order)  # type: ignore[call-overload]
    planes = np.arange(x.shape[0] * x.shape[1]) * size
    numbers = planes.reshape(*x.shape[:2], *(1,) * image.ndim) + image
    maxima = pooled(x, given, lambda window, _: np.asarray(window.max(axis=-1)))
    places = np.zeros((*maxima.shape[2:], *x.shape[:2]), np.int64)
    for (place, window, _), (_, found, _) in zip(
        windows(x, given), windows(numbers, given), strict=True
    ):
        first = np.take_along_axis(found, window.argmax(axis=-1, keepdims=True), axis=-1)
        places[place] = first[..., 0]
    return maxima, np.moveaxis(places, (-2, -1), (0, 1))


def axes_of(x: Array, given: dict[str, Any]) -> list[Axis]:
    """Return the windows along each spatial axis of ``x``, by the attributes of the node."""
    kernel = given["kernel_shape"]
    rank = len(kernel)
    strides = given.get("strides") or [1] * rank
    dilations = given.get("dilations") or [1] * rank
    pads = given.get("pads") or [0] * (2 * rank)
    auto_pad = given.get("auto_pad") or "NOTSET"
    axes = []
    for i, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        size, span = x.shape[2 + i], (taps - 1) * dilation + 1
        before, after = (pads[i], pads[rank + i]) if auto_pad == "NOTSET" else (0, 0)
        if auto_pad.startswith("SAME"):
            count = -(-size // stride)
            total = (count - 1) * stride + span - size
            if total < -1:
                # onnxruntime removes positions at the begin, or fails; TensorFlow at the end.
                raise ValueError(f"auto_pad {auto_pad} adds {total} positions to {size}")
            total = max(0, total)
            less, more = total // 2, total - total // 2
            before, after = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        free = size + before + after - span
        count = free // stride + 1
        if given.get("ceil_mode") and free % stride:
            # No window begins in the padding behind the image.
            count += count * stride < size + before
        axes.append(Axis(size, taps, stride, dilation, before, after, count))
    return axes
