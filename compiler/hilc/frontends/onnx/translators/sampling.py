"""GridSample: images read at computed places, by weighted sums of the pixels around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.convolution import channels_last
from hilc.frontends.onnx.translators.elementwise import combined
from hilc.frontends.onnx.translators.indexing import taken
from hilc.frontends.onnx.translators.matmul import by_rows
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Array, Tensor

#: The slope of the cubic filter.
_CUBIC = -0.75
_MODES = {"linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}


class _Arithmetic:
    """Sums and products of tensors and numbers."""

    def __init__(self, n: Operation) -> None:
        self.n = n

    def of(self, kind: str, a: Tensor | float, b: Tensor | float) -> Tensor:
        operands = [self.n.constant(x, "float32") if isinstance(x, float) else x for x in (a, b)]
        return combined(self.n, kind, *operands)

    def clamped(self, x: Tensor, low: float, high: float) -> Tensor:
        return self.of("Min", self.of("Max", x, low), high)

    def reflected(self, x: Tensor, low: float, high: float) -> Tensor:
        """Return positions reflected at both ends until they are between them."""
        span = high - low
        if not span:
            return self.of("Mul", x, 0.0)
        period = self.n.constant(2 * span, "float32")
        turned = self.n.emit("FLOOR_MOD", self.of("Sub", x, low), period)
        away = self.n.emit("ABS", self.of("Sub", turned, span))
        return self.of("Sub", high, away)


@dataclass(frozen=True)
class _Tap:
    """Entries of an axis that are read, one for each point."""

    #: Their numbers, as floats within the axis.
    place: Tensor
    #: Their shares in the sum; None for all of it.
    share: Tensor | None
    #: Whether the image has them; None where it has all.
    exists: Tensor | None


@translates("AffineGrid")
def affine_grid(n: Operation) -> Tensor:
    """Translate AffineGrid to a product of the constant places with the matrices.

    Raises :class:`~hilc.errors.UnsupportedError` for corners over an axis of one pixel, whose place
    the standard leaves open: its function divides by zero.
    """
    theta, sizes = n.input(0), n.known_ints(1, "the size")[2:]
    rank = len(sizes)
    if rank not in (2, 3) or len(theta.shape) != 3 or theta.shape[1:] != (rank, rank + 1):
        n.invalid(f"moves a grid {list(sizes)} by matrices {list(theta.shape)}",
                  "N x 2 x 3 for two axes and N x 3 x 4 for three are accepted")  # fmt: skip
    n.check_size((*sizes, rank + 1), theta.dtype)
    align = bool(n.integer("align_corners", 0))
    if align and 1 in sizes:
        n.refuse(
            f"has align_corners over a grid {list(sizes)}: an axis of size 1 has one corner, which "
            "onnxruntime places at -1, PyTorch at 0 and the standard nowhere",
            "set align_corners to 0, which places it at 0, or compute the grid of other operators",
        )
    places = n.constant(affine_places(sizes, align=align)[np.newaxis], theta.dtype)
    return n.reshape(by_rows(n, places, theta), (theta.shape[0], *sizes, rank))


def affine_places(sizes: Sequence[int], *, align: bool) -> Array:
    """Return the places of a grid's points from -1 to 1, of shape (points, axes + 1): the
    coordinates of each, that of the last axis first, and a 1.

    With ``align`` the ends are the centers of the outer pixels, else their edges; the only pixel of
    an axis is at 0, as in PyTorch.
    """
    lines = [
        np.linspace(-1, 1, size) if align and size > 1 else (2 * np.arange(size) + 1) / size - 1
        for size in sizes
    ]
    grid = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(tuple(sizes))], -1)
    return grid.reshape(-1, len(sizes) + 1)


@translates("GridSample")
def grid_sample(n: Operation) -> Tensor:
    """Translate GridSample to gathers weighted by the grid's fractions, over any spatial axes.

    Raises :class:`~hilc.errors.ModelError` if the grid has not one coordinate for each spatial
    axis.
    """
    x, grid = n.input(0), n.input(1)
    sizes, batch, channels = x.shape[2:], x.shape[0], x.shape[1]
    rank, points = len(sizes), prod(grid.shape[1:-1])
    mode = _MODES.get(n.text("mode", "linear"), "nearest")
    padding, align = n.text("padding_mode", "zeros"), bool(n.integer("align_corners", 0))
    if grid.shape[-1] != rank:
        n.invalid(f"reads images of {rank} axes at places of {grid.shape[-1]} numbers")
    m = _Arithmetic(n)
    places = n.reshape(grid, (batch, points, rank))
    axes = []
    for axis, size in enumerate(sizes):
        # The last axis comes first.
        number = rank - 1 - axis
        part = sliced(n, places, (0, 0, number), (batch, points, number + 1), (1, 1, 1))
        axes.append(_taps(m, n.reshape(part, (batch, points)), size, mode, padding, align=align))
    pixels = n.reshape(channels_last(n, x), (batch * prod(sizes), channels))
    starts = (np.arange(batch, dtype=np.int32) * prod(sizes)).reshape(batch, 1)
    total: Tensor | None = None
    for taps in product(*axes):
        index: Tensor = n.constant(starts.astype(np.int32))
        weight: Tensor | None = None
        exists: Tensor | None = None
        for axis, tap in enumerate(taps):
            step = n.constant(prod(sizes[axis + 1 :]), "int32")
            index = combined(n, "Add", index, combined(n, "Mul", n.cast(tap.place, "int32"), step))
            if tap.share is not None:
                weight = tap.share if weight is None else m.of("Mul", weight, tap.share)
            if tap.exists is not None:
                inside = tap.exists
                exists = inside if exists is None else n.emit("LOGICAL_AND", exists, inside)
        read = taken(n, pixels, index, 0)
        if exists is not None:
            # Not a product with 0, which is NaN of an infinite pixel.
            shown = n.reshape(exists, (batch, points, 1))
            read = n.emit("SELECT_V2", shown, read, n.constant(0, x.dtype))
        if weight is not None:
            read = m.of("Mul", read, n.reshape(weight, (batch, points, 1)))
        total = read if total is None else m.of("Add", total, read)
    assert total is not None
    return n.reshape(n.transpose(total, (0, 2, 1)), (batch, channels, *grid.shape[1:-1]))


def _taps(
    m: _Arithmetic, p: Tensor, size: int, mode: str, padding: str, *, align: bool
) -> Sequence[_Tap]:
    """Return the entries of an axis that are read."""
    n, last = m.n, float(size - 1)
    if align:
        p, ends = m.of("Mul", m.of("Add", p, 1.0), last / 2), (0.0, last)
    else:
        scaled = m.of("Mul", m.of("Add", p, 1.0), float(size))
        p, ends = m.of("Mul", m.of("Sub", scaled, 1.0), 0.5), (-0.5, size - 0.5)
    if mode == "nearest":
        p = n.emit("ROUND", p)
    if padding == "border" and mode != "cubic":
        # The cubic filter has other shares outside: there only the pixels are the border's.
        p = m.clamped(p, 0.0, last)
    elif padding == "reflection":
        p = m.reflected(p, *ends)
    if mode == "nearest":
        p = n.emit("ROUND", p)
        return [_inside(m, p, None, last, padding, ends)]
    first = n.emit("FLOOR", p)
    rest = m.of("Sub", p, first)
    if mode == "linear":
        offsets = {0.0: m.of("Sub", 1.0, rest), 1.0: rest}
    else:
        offsets = {float(o): _cubic(m, rest, float(o)) for o in (-1, 0, 1, 2)}
    return [
        _inside(m, m.of("Add", first, offset), share, last, padding, ends)
        for offset, share in offsets.items()
    ]


def _cubic(m: _Arithmetic, rest: Tensor, offset: float) -> Tensor:
    """Return the cubic filter's value for a pixel ``offset`` from the one before the place."""
    a = _CUBIC
    t = m.n.emit("ABS", m.of("Sub", rest, offset))
    if offset in (0.0, 1.0):
        inner = m.of("Sub", m.of("Mul", t, a + 2), a + 3)
        return m.of("Add", m.of("Mul", m.of("Mul", inner, t), t), 1.0)
    outer = m.of("Add", m.of("Mul", m.of("Sub", m.of("Mul", t, a), 5 * a), t), 8 * a)
    return m.of("Sub", m.of("Mul", outer, t), 4 * a)


def _inside(
    m: _Arithmetic,
    place: Tensor,
    share: Tensor | None,
    last: float,
    padding: str,
    ends: tuple[float, float],
) -> _Tap:
    """Return an entry that exists, and whether it is the one that was asked for."""
    if padding == "reflection":
        place = m.n.emit("ROUND", m.reflected(place, *ends))
    held = m.clamped(place, 0.0, last)
    return _Tap(held, share, m.n.emit("EQUAL", held, place) if padding == "zeros" else None)
