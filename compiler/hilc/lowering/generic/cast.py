"""CAST."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilCast, HilNarrowF16, HilWidenF16
from hilc.lowering.registry import Layer, lowers
from hilc.ops.cast import TYPES


@lowers("CAST")
def portable(layer: Layer) -> KernelCall:
    """Return the call from one type to another."""
    # In the order of enum hil_cast_type of hil/kernels/generic/cast.h.
    x, out = layer.operand(0), layer.out
    if "float16" in (x.dtype, out.dtype):
        kernel = HilWidenF16 if x.dtype == "float16" else HilNarrowF16
        return KernelCall(kernel(size=x.size))
    parameters = HilCast(size=x.size, source=TYPES.index(x.dtype), target=TYPES.index(out.dtype))
    return KernelCall(parameters)
