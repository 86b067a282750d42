"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.pooling import any_windows, pool_windows, scaled_average
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilMveAveragePoolS8,
    HilMveAveragePoolS8Scaled,
    HilMveMaxPoolS8,
    HilMveMaxPoolS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.pooling import pooling_clamp, pooling_window

_MAXIMA = {"int8": HilMveMaxPoolS8, "int16": HilMveMaxPoolS16}
#: The average pooling kernel's: sums fit their shift to the left, the reciprocal's point.
_LARGEST_POOL, _RECIPROCAL_BITS = 4096, 24


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages over windows that lie inside the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    size = window.h.filter_size * window.w.filter_size
    if window.padded or size > _LARGEST_POOL:
        return
    reciprocal = -(-(1 << _RECIPROCAL_BITS) // size)
    # The kernel divides by a product: proven for every sum that there is, a half added.
    sums = np.arange(128 * size + size // 2 + 1, dtype=np.int64)
    if not np.array_equal((sums * reciprocal) >> _RECIPROCAL_BITS, sums // size):
        return
    low, high = pooling_clamp(layer.node, layer.out)
    parameters = HilMveAveragePoolS8(
        pool_windows=pool_windows(x, window),
        reciprocal=reciprocal,
        low=int(low),
        high=int(high),
    )
    yield KernelCall(parameters)


@lowers(
    *("AVERAGE_POOL_2D", "MEAN"),
    dtypes={"int8"},
    requires={"mve"},
    roundings={Rounding.NEAREST_EVEN},
)
def scaled_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages that are rounded once, over windows inside the image or all of it."""
    found = scaled_average(layer, _LARGEST_POOL)
    if found is not None:
        yield KernelCall(
            HilMveAveragePoolS8Scaled(
                pool_windows=found.windows,
                offset=found.offset,
                multiplier=found.multiplier,
                shift=found.shift,
                rounding=found.rounding,
                out_zero_point=found.out_zero_point,
                low=found.low,
                high=found.high,
            )
        )


@lowers("MAX_POOL_2D", dtypes=_MAXIMA.keys(), requires={"mve"}, roundings=TWICE_OR_EVEN)
def max_pool(layer: Layer) -> KernelCall:
    """Maxima over windows, which may reach beyond the image."""
    low, high = pooling_clamp(layer.node, layer.out)
    pool = any_windows(layer)
    return KernelCall(_MAXIMA[layer.dtype](pool=pool, low=int(low), high=int(high)))
