"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hilc.ir import Rounding
from hilc.lowering.generic.mean import block_of_bytes, scale_of_bytes
from hilc.lowering.generic.pooling import inner_pool_call, pool_call, scaled_average_calls
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilDspAveragePoolS8,
    HilDspAveragePoolS8Scaled,
    HilDspMaxPoolS8,
    HilDspMaxPoolS16,
    HilDspMeanS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.pooling import pooling_window

_MAXIMA: Mapping[str, type[Parameters]] = {"int8": HilDspMaxPoolS8, "int16": HilDspMaxPoolS16}
#: Values whose sum has 16 bits (``HIL_DSP_POOL_TAPS``).
_POOL_TAPS = 255


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of averages over windows inside the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    if window.padded or window.h.filter_size * window.w.filter_size > _POOL_TAPS:
        return
    yield inner_pool_call(layer, HilDspAveragePoolS8)


@lowers(
    *("AVERAGE_POOL_2D", "MEAN"),
    dtypes={"int8"},
    requires={"dsp"},
    lacks={"mve"},
    roundings={Rounding.NEAREST_EVEN},
)
def scaled_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages that are rounded once, over windows inside the image or all of it."""
    return scaled_average_calls(layer, HilDspAveragePoolS8Scaled, _POOL_TAPS)


@lowers(
    "MAX_POOL_2D",
    dtypes=_MAXIMA.keys(),
    requires={"dsp"},
    lacks={"mve"},
    roundings=TWICE_OR_EVEN,
)
def max_pool(layer: Layer) -> KernelCall:
    """Maxima over windows, which may reach beyond the image."""
    return pool_call(layer, _MAXIMA[layer.dtype])


@lowers("MEAN", "SUM", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"}, roundings=TWICE_OR_EVEN)
def means(layer: Layer) -> Iterator[KernelCall]:
    """Yield the means or sums over adjacent axes, four channels at a time."""
    blocks = block_of_bytes(layer)
    if blocks is not None and blocks.channels >= 4:
        yield KernelCall(HilDspMeanS8(mean_block=blocks, mean_scale=scale_of_bytes(layer)))
