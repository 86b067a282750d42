"""SCATTER."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericScatter
from hilc.lowering.registry import Layer, lowers
from hilc.ops.data_movement import itemsize
from hilc.ops.scatter import COMBINED, WAYS, ScatterAttributes


@lowers("SCATTER")
def portable(layer: Layer) -> KernelCall:
    """Return the call that puts blocks by their indices."""
    x = layer.operand(0)
    parameters = HilGenericScatter(
        size=x.shape[0],
        block=x.shape[1],
        bytes=itemsize(x),
        count=layer.operand(1).size,
        way=WAYS.index(ScatterAttributes.of(layer.node).reduction),
        # Irrelevant where nothing is combined.
        type=COMBINED.index(x.dtype) if x.dtype in COMBINED else 0,
    )
    return KernelCall(parameters, (0, 1, 2))
