"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.mean import block_of_bytes, scale_of_bytes
from hilc.lowering.generic.pooling import inner_pool_call, pool_call, scaled_average_calls
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilMveAveragePoolS8,
    HilMveAveragePoolS8Scaled,
    HilMveMaxPoolS8,
    HilMveMaxPoolS16,
    HilMveMeanS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.pooling import pooling_window

_MAXIMA: Mapping[str, type[Parameters]] = {"int8": HilMveMaxPoolS8, "int16": HilMveMaxPoolS16}
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
    yield inner_pool_call(layer, HilMveAveragePoolS8, reciprocal=reciprocal)


@lowers(
    *("AVERAGE_POOL_2D", "MEAN"),
    dtypes={"int8"},
    requires={"mve"},
    roundings={Rounding.NEAREST_EVEN},
)
def scaled_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages that are rounded once, over windows inside the image or all of it."""
    return scaled_average_calls(layer, HilMveAveragePoolS8Scaled, _LARGEST_POOL)


@lowers("MAX_POOL_2D", dtypes=_MAXIMA.keys(), requires={"mve"}, roundings=TWICE_OR_EVEN)
def max_pool(layer: Layer) -> KernelCall:
    """Maxima over windows, which may reach beyond the image."""
    return pool_call(layer, _MAXIMA[layer.dtype])


@lowers("MEAN", "SUM", dtypes={"int8"}, requires={"mve"}, roundings=TWICE_OR_EVEN)
def means(layer: Layer) -> Iterator[KernelCall]:
    """Yield the means or sums over adjacent axes, by eight channels or sixteen values."""
    blocks = block_of_bytes(layer)
    if blocks is not None:
        yield KernelCall(HilMveMeanS8(mean_block=blocks, mean_scale=scale_of_bytes(layer)))
