"""LAYER_NORMALIZATION of int8, four elements at a time."""

from __future__ import annotations

from hilc.ir import Rounding
from hilc.lowering.generic.layer_norm import layer_norm
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilMveLayerNormS8
from hilc.lowering.registry import Layer, lowers


@lowers(
    "LAYER_NORMALIZATION",
    dtypes={"int8"},
    requires={"mve", "fpu"},
    roundings={Rounding.NEAREST_EVEN},
)
def rows(layer: Layer) -> KernelCall:
    """Return the call over rows."""
    return layer_norm(layer, HilMveLayerNormS8)
