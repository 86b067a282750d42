"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.generic.pooling import any_windows, pool_windows, scaled_average
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilDspAveragePoolS8,
    HilDspAveragePoolS8Scaled,
    HilDspMaxPoolS8,
    HilDspMaxPoolS16,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.pooling import pooling_clamp, pooling_window

_MAXIMA = {"int8": HilDspMaxPoolS8, "int16": HilDspMaxPoolS16}
#: Values whose sum has 16 bits (``HIL_DSP_POOL_TAPS``).
_POOL_TAPS = 255


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"dsp"}, lacks={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of averages over windows inside the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    if window.padded or window.h.filter_size * window.w.filter_size > _POOL_TAPS:
        return
    low, high = pooling_clamp(layer.node, layer.out)
    parameters = HilDspAveragePoolS8(
        pool_windows=pool_windows(x, window),
        low=int(low),
        high=int(high),
    )
    yield KernelCall(parameters)


@lowers(
    *("AVERAGE_POOL_2D", "MEAN"),
    dtypes={"int8"},
    requires={"dsp"},
    lacks={"mve"},
    roundings={Rounding.NEAREST_EVEN},
)
def scaled_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages that are rounded once, over windows inside the image or all of it."""
    found = scaled_average(layer, _POOL_TAPS)
    if found is not None:
        yield KernelCall(
            HilDspAveragePoolS8Scaled(
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


@lowers(
    "MAX_POOL_2D",
    dtypes=_MAXIMA.keys(),
    requires={"dsp"},
    lacks={"mve"},
    roundings=TWICE_OR_EVEN,
)
def max_pool(layer: Layer) -> KernelCall:
    """Maxima over windows, which may reach beyond the image."""
    low, high = pooling_clamp(layer.node, layer.out)
    pool = any_windows(layer)
    return KernelCall(_MAXIMA[layer.dtype](pool=pool, low=int(low), high=int(high)))
