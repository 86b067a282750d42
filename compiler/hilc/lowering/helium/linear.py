"""Linear layers: matrix products here, windows in the modules beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.lowering.helium.convolution import conv2d
from hilc.lowering.helium.depthwise import depthwise
from hilc.lowering.helium.packing import (
    CHUNK,
    DEEPEST,
    VECTOR_COLUMNS,
    below_zero_point,
    bytes_of,
    columns_of,
    pixels_of,
    whole_chunks,
)
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    MatrixProduct,
    linear_calls,
    linear_form,
)
from hilc.lowering.parameters import (
    HilMatmulS8Mve,
    HilPixelsS8Mve,
    HilVectorS8Mve,
)
from hilc.lowering.registry import Layer, lowers

#: With fewer rows a vector at a time is quicker than four of which some are repeated.
_FEW_ROWS = 2
#: Columns of a group in the order of the sums in ``hil_mve_vector_s8``.
_VECTOR_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@lowers(*LINEAR, dtypes={"int8"}, requires={"mve"})
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    # The blocks requantize as the specification does where all shifts are to the right.
    if linear_form(layer).requantization.shifts.max() < 0:
        yield from linear_calls(layer, rows=_rows, convolution=conv2d, depthwise=depthwise)


def _rows(form: MatrixProduct) -> Iterable[Parameters]:
    return _vector(form) if form.rows <= _FEW_ROWS else _matmul(form)


def _matmul(form: MatrixProduct) -> list[Parameters]:
    """Rows that follow each other."""
    depth, rows, outputs = form.depth, form.rows, form.requantization
    ways: list[Parameters] = []
    chunks = -(-depth // CHUNK)
    if chunks <= DEEPEST:
        # Chunks of the last rows reach behind the input: these are copied, and an even number goes
        # before them.
        copied = min(rows, -(-(chunks * CHUNK - depth) // depth))
        if copied > 0 and (rows - copied) % 2:
            copied += 1
        pixels = pixels_of(form.weights, outputs)
        ways += [
            HilPixelsS8Mve(rows=rows, depth=depth, copied=count, staged=staged, mve_pixels=pixels)
            for count, staged in ((copied, 0), (0, 1))
        ]
    columns = columns_of(form.weights, outputs, step=2, distances=(form.channels, 1))
    if columns is not None:
        ways.append(HilMatmulS8Mve(rows=rows, depth=depth, mve_columns=columns))
    return ways


def _vector(form: MatrixProduct) -> list[Parameters]:
    """Return a row at a time."""
    count, depth, outputs = form.channels, form.depth, form.requantization
    groups = -(-count // VECTOR_COLUMNS)
    filled = groups * VECTOR_COLUMNS
    order = np.arange(filled).reshape(groups, VECTOR_COLUMNS)[:, _VECTOR_ORDER]
    weights = whole_chunks(form.weights, filled)[order]
    chunks = weights.shape[2] // CHUNK
    uniform = not outputs.per_channel
    blocks = weights.reshape(groups, VECTOR_COLUMNS, chunks, CHUNK).transpose(0, 2, 1, 3)

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.broadcast_to(of_channels, (count,))
        return np.append(values, np.zeros(filled - count, values.dtype))[order]

    scale = [
        np.full((groups, 1), values[0]) if uniform else each(values)
        for values in (outputs.multipliers, outputs.shifts)
    ]
    words = bytes_of(np.hstack([each(outputs.bias), *scale]))
    parameters = HilVectorS8Mve(
        rows=form.rows,
        depth=depth,
        columns=count,
        chunks=chunks,
        copied=int(depth % CHUNK != 0),
        uniform=int(uniform),
        linear=below_zero_point(outputs),
        output_range=outputs.output_range,
        stream=np.hstack([blocks.reshape(groups, -1), words]).reshape(-1),
    )
    return [parameters]
