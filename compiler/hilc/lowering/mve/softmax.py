"""SOFTMAX of int8, by a table of all distances to a row's maximum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.lowering.generic.softmax import portable
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericSoftmaxS8, HilMveSoftmaxS8
from hilc.lowering.registry import Layer, lowers

#: Distances of two bytes.
_DISTANCES = 256


@lowers("SOFTMAX", dtypes={"int8"}, requires={"mve"})
def softmax(layer: Layer) -> Iterator[KernelCall]:
    """Yield the kernel of rows whose shares are rounded twice."""
    call = portable(layer)
    if not isinstance(call, KernelCall) or not isinstance(call.parameters, HilGenericSoftmaxS8):
        return
    found = call.parameters
    powers = np.zeros(_DISTANCES, np.int32)
    powers[: found.near] = found.exponentials
    exponentials = np.ascontiguousarray(powers[::-1])
    yield KernelCall(HilMveSoftmaxS8(rows=found.rows, depth=found.depth, exponentials=exponentials))
