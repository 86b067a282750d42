"""Exact sums of int8 with weights in chunks of sixteen, four columns at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Array
from hilc.lowering.integer_sums import OPERATORS, sums_form
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilMveIntegerSumsS8
from hilc.lowering.registry import Layer, lowers

_CHUNK, _COLUMNS = 16, 4


@lowers(*OPERATORS, requires={"mve"})
def sums(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel for a row by four columns."""
    form = sums_form(layer)
    if not form.is_narrow:
        return
    yield form.call(
        HilMveIntegerSumsS8(
            integer_sums=form.sums,
            window=form.window,
            chunks=-(-form.depth // _CHUNK),
            weights=chunked(form.matrix),
            totals=form.totals,
        )
    )


def chunked(matrix: Array) -> Array:
    """Return weights ``[columns, depth]`` as ``[blocks, chunks, 4, 16]``, zeros behind."""
    columns, depth = matrix.shape
    whole = np.pad(matrix, ((0, -columns % _COLUMNS), (0, -depth % _CHUNK)))
    blocks = whole.reshape(-1, _COLUMNS, whole.shape[1] // _CHUNK, _CHUNK)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)
