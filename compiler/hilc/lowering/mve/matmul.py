"""Fully connected layers and matrix products; convolutions are in the other modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    linear_form,
    packed_once,
)
from hilc.lowering.mve.convolution import conv2d
from hilc.lowering.mve.depthwise import depthwise
from hilc.lowering.mve.packing import (
    CHUNK,
    DEEPEST,
    NARROWED,
    VECTOR_COLUMNS,
    any_of,
    bytes_of,
    few_columns,
    in_vectors,
    linear_of,
    packed_pairs,
    packed_pixels,
    packed_quads,
    pairs_of,
    shallow_stream,
    ties,
    ties_of,
    vector_weights,
    whole_chunks,
)
from hilc.lowering.mve.windows import short_rows
from hilc.lowering.parameters import (
    HilMveMatmulS8,
    HilMveMatmulS82x4,
    HilMveMatmulS82x16,
    HilMveMatmulS84x4,
    HilMveMatmulS86x4,
    HilMveMatmulS88x2,
    HilMveMatvecS8,
    HilMveMatvecS8TwoPasses,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.v7m.conv2d import with_int32_multiplies

#: With fewer rows a vector at a time is quicker than four of which some are repeated.
_FEW_ROWS = 2
#: Columns of a row whose sums are requantized together.
_MOST_SUMS = 128
#: Rows that are copied at a time.
_COPIED = 32
#: Rows of few elements: how many at a time.
_BLOCKS = (512, 256, 64)


@lowers(*LINEAR, dtypes={"int8"}, requires={"mve"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    # The blocks requantize as the specification does where all shifts are to the right.
    outputs = linear_form(layer).requantization
    if outputs.shifts.max() < 0:
        yield from linear_calls(layer, rows=_rows, convolution=conv2d, depthwise=depthwise)
    if ties(outputs):
        yield from with_int32_multiplies(layer)


def _rows(form: MatrixProduct) -> Iterable[Parameters]:
    return _vector(form) if form.rows <= _FEW_ROWS else _matmul(form)


def _matmul(form: MatrixProduct) -> list[Parameters]:
    """Rows that follow each other."""
    depth, rows, outputs = form.depth, form.rows, form.requantization
    ways: list[Parameters] = []
    chunks = -(-depth // CHUNK)
    if chunks <= DEEPEST and not ties(outputs):
        # Chunks of the last rows reach behind the input: these are copied, and an even number goes
        # before them.
        copied = min(rows, -(-(chunks * CHUNK - depth) // depth))
        if copied > 0 and (rows - copied) % 2:
            copied += 1
        pixels = packed_pixels(form.packing)
        ways += [
            HilMveMatmulS82x16(
                rows=rows, depth=depth, copied=count, staged=staged, mve_pixels=pixels
            ).as_form("staged" if staged else "")
            for count, staged in ((copied, 0), (0, 1))
        ]
    if not ties(outputs):
        ways.append(_many_rows(form, HilMveMatmulS84x4, 4))
        ways = [*_shallow(form), *short_rows(form), *ways]
    columns = packed_pairs(form.packing)
    if columns is not None:
        ways.append(HilMveMatmulS8(rows=rows, depth=depth, mve_columns=columns))
    # Behind the others, which take less scratch for bands of few rows.
    if not ties(outputs) and chunks > 1:
        ways.append(_many_rows(form, HilMveMatmulS86x4, 6))
    if not ties(outputs) and chunks <= DEEPEST:
        block = min(_COPIED, rows + rows % 2)
        pixels = packed_pixels(form.packing, turned=True)
        ways.append(HilMveMatmulS82x4(rows=rows, depth=depth, block=block, mve_pixels=pixels))
    return ways


def _many_rows(
    form: MatrixProduct, kernel: type[HilMveMatmulS84x4 | HilMveMatmulS86x4], count: int
) -> HilMveMatmulS84x4 | HilMveMatmulS86x4:
    """Return ``count`` rows at a time."""
    # Rows that may be read where they lie, chunks and all.
    last = form.rows * form.depth - -(-form.depth // CHUNK) * CHUNK
    direct = min(form.rows, max(0, last // form.depth + 1)) // count * count
    return kernel(
        rows=form.rows,
        depth=form.depth,
        direct=direct,
        copied=int(direct < form.rows),
        mve_pixels=packed_quads(form.packing, count == 6),
    )


def _shallow(form: MatrixProduct) -> Iterator[HilMveMatmulS88x2]:
    """Yield kernels for rows of 8 or 16 elements and few columns; fewer rows at a time take less
    scratch.
    """
    depth, count, outputs = form.depth, form.channels, form.requantization
    if depth not in (8, CHUNK) or form.rows < CHUNK or not few_columns(count, outputs):
        return
    stream = _shallow_stream(form.packing)
    for most, block in limited(_BLOCKS, -(-form.rows // CHUNK) * CHUNK):
        yield form.parameters(
            HilMveMatmulS88x2,
            block=block,
            once=int(any_of(outputs) > 0),
            stream=stream,
        ).as_form(most)


@packed_once
def _shallow_stream(layer: LinearWeights) -> Array:
    """Return pairs of columns of 8 or 16 elements as ``shallow_s8.h`` takes them."""
    depth = layer.depth
    pairs = layer.matrix[pairs_of(layer.channels)]
    weights = np.zeros((len(pairs), 4, CHUNK), np.int8)
    if depth == CHUNK:
        weights[:, :2] = pairs
    else:
        weights[:, 0::2, :depth] = pairs
        weights[:, 1::2, depth:] = pairs
    return shallow_stream(weights, layer.requantization, layer.channels)


def _sums_of_vector(form: MatrixProduct) -> HilMveMatvecS8TwoPasses:
    """Return a row at a time whose sums are requantized together."""
    return replace(_one_row_of_sums(form.packing), rows=form.rows)


@packed_once
def _one_row_of_sums(form: LinearWeights) -> HilMveMatvecS8TwoPasses:
    count, depth, outputs = form.channels, form.depth, form.requantization
    filled = -(-count // CHUNK) * CHUNK
    order = np.arange(filled).reshape(-1, 4, 4).transpose(0, 2, 1)[:, NARROWED].reshape(-1)
    eights = order.reshape(-1, VECTOR_COLUMNS)

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return padded(np.broadcast_to(of_channels, (count,)), CHUNK)

    chunks = -(-depth // CHUNK)
    weights = whole_chunks(form.matrix, filled)[eights]
    weights = weights.reshape(len(eights), VECTOR_COLUMNS, chunks, CHUNK).transpose(0, 2, 1, 3)
    biases = bytes_of(each(outputs.bias)[eights])
    uniform = not outputs.per_channel
    if uniform:
        scale = np.array([outputs.multipliers[0], outputs.shifts[0]], np.int32)
    else:
        fours = order.reshape(-1, 4)
        scale = np.stack([each(outputs.multipliers)[fours], each(outputs.shifts)[fours]], axis=1)
    return HilMveMatvecS8TwoPasses(
        rows=1,
        depth=depth,
        columns=count,
        chunks=chunks,
        copied=int(depth % CHUNK != 0),
        group=min(filled, _MOST_SUMS),
        uniform=int(uniform),
        any=any_of(outputs),
        output_range=outputs.output_range,
        stream=np.hstack([biases, weights.reshape(len(eights), -1)]).reshape(-1),
        scale=np.ascontiguousarray(scale.reshape(-1).astype(np.int32)),
    )


def _vector(form: MatrixProduct) -> list[Parameters]:
    """Return a row at a time."""
    parameters = replace(_one_row(form.packing), rows=form.rows)
    return [parameters] if ties(form.requantization) else [_sums_of_vector(form), parameters]


@packed_once
def _one_row(form: LinearWeights) -> HilMveMatvecS8:
    count, depth, outputs = form.channels, form.depth, form.requantization
    groups = -(-count // VECTOR_COLUMNS)
    uniform = not outputs.per_channel and not ties(outputs)

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return in_vectors(np.broadcast_to(of_channels, (count,)))

    scale = [
        np.full((groups, 1), values[0]) if uniform else each(values)
        for values in (outputs.multipliers, outputs.shifts)
    ]
    if ties(outputs):
        places, patterns = map(each, ties_of(outputs))
        fours = [part[:, at : at + 4] for at in (0, 4) for part in (places, patterns)]
        scale = [*fours, *scale]
    words = bytes_of(np.hstack([each(outputs.bias), *scale]))
    return HilMveMatvecS8(
        rows=1,
        depth=depth,
        columns=count,
        chunks=-(-depth // CHUNK),
        copied=int(depth % CHUNK != 0),
        uniform=int(uniform),
        linear=linear_of(outputs),
        output_range=outputs.output_range,
        stream=np.hstack([vector_weights(form.matrix), words]).reshape(-1),
    )
