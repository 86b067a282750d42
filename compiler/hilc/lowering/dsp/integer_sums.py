"""Exact sums of int8 with weights in pairs of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Array
from hilc.lowering.dsp.packing import UNIT, VECTOR_BLOCK, paired_weights
from hilc.lowering.integer_sums import OPERATORS, sums_form
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilDspIntegerSumsS8
from hilc.lowering.registry import Layer, lowers

#: Magnitude below which 256 times a sum comes out of 32 bits, and the largest of an int8.
_SUM_LIMIT, _MOST_INPUT = 2**23, 128
#: Units that a turn of the kernel's loop takes.
_UNROLLED = 8


@lowers(*OPERATORS, requires={"dsp"}, lacks={"mve"})
def sums(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel for a row by four columns, where the weights fit its pairs."""
    form = sums_form(layer)
    if not form.is_narrow:
        return
    weights = paired_weights(form.matrix, VECTOR_BLOCK)
    if weights is None:
        return
    yield form.call(
        HilDspIntegerSumsS8(
            integer_sums=form.sums,
            window=form.window,
            units=-(-form.depth // UNIT),
            part=part_of(form.matrix),
            weights=weights,
            totals=form.totals,
        )
    )


def part_of(matrix: Array) -> int:
    """Return the most units of depth, from the first on, whose sums stay below the limit in each
    part of as many.
    """
    units: int = -(-matrix.shape[1] // UNIT)
    sizes = _MOST_INPUT * np.abs(matrix.astype(np.int64))
    whole = np.pad(sizes, ((0, 0), (0, -matrix.shape[1] % UNIT))).reshape(len(matrix), units, UNIT)
    of_units = whole.sum(2)
    for parts in range(1, units + 1):
        part = -(-units // parts)
        if parts > 1 and part > _UNROLLED:
            part = -(-part // _UNROLLED) * _UNROLLED
        found = np.add.reduceat(of_units, np.arange(0, units, part), axis=1)
        if found.max() < _SUM_LIMIT:
            return part
    return 1
