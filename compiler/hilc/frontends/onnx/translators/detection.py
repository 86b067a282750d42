"""Operators on images, boxes and matrices that few models have."""

from __future__ import annotations

from math import prod

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.arithmetic import add, multiply, subtract, summed
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Array, Tensor
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.gather import GatherAttributes


@translates("Col2Im")
def col2im(n: Operation) -> Tensor:
    """Translate Col2Im: add the elements of blocks at their positions in an image.

    Each place of the image gathers the elements that lie there, and a zero for each one that it
    has less than others.
    """
    x, image, block = n.input(0), n.known_ints(1, "the image"), n.known_ints(2, "the block")
    rank = len(image)
    size = prod(block)
    if len(block) != rank or len(x.shape) != 3 or x.shape[1] % size:
        n.invalid(f"lays blocks {list(block)} of {list(x.shape)} into an image {list(image)}")
    if not x.element.is_computed_real:
        n.refuse(f"adds up {x.dtype}", "cast it to float32 before it")
    dilations, strides = n.counts("dilations", rank, 1), n.counts("strides", rank, 1)
    pads = n.integers("pads", (0,) * 2 * rank)
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    if min(counts) < 1 or prod(counts) != x.shape[2]:
        n.invalid(f"has {x.shape[2]} blocks, where {counts} lie in an image {list(image)}")
    channels, elements = x.shape[1] // size, size * x.shape[2]
    places = _places(image, block, counts, dilations, strides, pads[:rank])
    gathered: list[list[int]] = [[] for _ in range(prod(image))]
    for element, place in enumerate(places.tolist()):
        if place >= 0:
            gathered[place].append(element)
    most = max(map(len, gathered))
    if not most:
        return n.constant(np.zeros((x.shape[0], channels, *image), np.float32))
    indices = [found + [elements] * (most - len(found)) for found in gathered]
    flat = n.reshape(x, (x.shape[0], channels, elements))
    if any(len(found) < most for found in gathered):
        zero = n.constant(np.zeros((x.shape[0], channels, 1), np.float32))
        flat = n.emit("CONCATENATION", flat, zero, attrs=ConcatenationAttributes(axis=2))
    taken = n.emit("GATHER", flat, n.constant(indices, "int32"), attrs=GatherAttributes(axis=2))
    return n.reshape(summed(n, taken, 3), (x.shape[0], channels, *image))


def _places(
    image: tuple[int, ...],
    block: tuple[int, ...],
    counts: list[int],
    dilations: tuple[int, ...],
    strides: tuple[int, ...],
    before: tuple[int, ...],
) -> Array:
    """Return the index in the image of each element of each block, -1 for those outside."""
    rank = len(image)
    found: Array = np.zeros((*block, *counts), np.int64)
    outside = np.zeros(found.shape, bool)
    for i in range(rank):
        along = np.arange(block[i])[:, None] * dilations[i] + np.arange(counts[i]) * strides[i]
        along = along - before[i]
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = along.shape
        spread = along.reshape(shape)
        outside = outside | (spread < 0) | (spread >= image[i])
        found = found * image[i] + spread
    return np.where(outside, -1, found).reshape(-1)


@translates("Det")
def determinant(n: Operation) -> Tensor:
    """Return the determinants of matrices of up to 3 rows, by their minors."""
    x = n.input(0)
    rows = x.shape[-1] if x.shape else 0
    if len(x.shape) < 2 or x.shape[-2] != rows:
        n.invalid(f"takes the determinant of {list(x.shape)}")
    if rows > 3 or not x.element.is_computed_real:
        n.refuse(
            f"takes the determinant of {x.dtype}{list(x.shape)}",
            "float32 matrices of up to 3 rows are supported",
        )
    outer = x.shape[:-2]

    def element(row: int, column: int) -> Tensor:
        begin = [*(0 for _ in outer), row, column]
        end = [*outer, row + 1, column + 1]
        return n.reshape(sliced(n, x, begin, end, [1] * len(x.shape)), outer)

    def minor(top: int, columns: list[int]) -> Tensor:
        if len(columns) == 1:
            return element(top, columns[0])
        total: Tensor | None = None
        for place, column in enumerate(columns):
            rest = minor(top + 1, columns[:place] + columns[place + 1 :])
            term = multiply(n, element(top, column), rest)
            total = term if total is None else (subtract if place % 2 else add)(n, total, term)
        assert total is not None
        return total

    return minor(0, list(range(rows)))


@translates("NonMaxSuppression")
def non_max_suppression(n: Operation) -> Tensor:
    """Raise UnsupportedError: the number of boxes, and so the output's shape, depends on data."""
    n.refuse(
        "gives as many rows as boxes remain, which is only known at run time",
        "end the model before it, and choose among boxes in the application",
    )


@translates("MelWeightMatrix")
def mel_weight_matrix(n: Operation) -> Tensor:
    """Return the triangles that take the bins of a spectrum to those of the mel scale."""
    whats = ("the number of mel bins", "the length of the transform", "the sample rate")
    mels, length, rate = (n.known_int(i, what) for i, what in enumerate(whats))
    low, high = (n.known_float(i, "a frequency") for i in (3, 4))
    bins = length // 2 + 1
    ends = [2595 * np.log1p(hertz / 700) / np.log(10) for hertz in (low, high)]
    steps = np.arange(mels + 2) * ((ends[1] - ends[0]) / (mels + 2)) + ends[0]
    hertz = 700 * np.expm1(steps / 2595 * np.log(10))
    edges = (((length + 1) * hertz) // rate).astype(int)
    if edges.min() < 0 or edges[:-1].max(initial=0) >= bins or edges[-1] > bins:
        n.invalid(f"has frequencies from {low} to {high} Hz, beyond half the sample rate {rate}")
    matrix = np.zeros((bins, mels))
    for i in range(mels):
        start, centre, end = edges[i : i + 3].tolist()
        matrix[start : centre + 1, i] = (
            np.arange(centre + 1 - start) / (centre - start) if centre > start else 1
        )
        if end > centre:
            matrix[centre:end, i] = (end - np.arange(centre, end)) / (end - centre)
    dtype = n.dtype("output_datatype") if n.has_attribute("output_datatype") else "float32"
    return n.constant(matrix.astype(dtype))
