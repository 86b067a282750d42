"""CAST."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericCast, HilGenericCastF16F32, HilGenericCastF32F16
from hilc.lowering.registry import Layer, lowers
from hilc.ops.cast import TYPES


@lowers("CAST")
def portable(layer: Layer) -> KernelCall:
    """Return the call from one type to another."""
    # In the order of enum hil_cast_type of hil/kernels/generic/cast.h.
    x, out = layer.operand(0), layer.out
    if "float16" in (x.dtype, out.dtype):
        kernel = HilGenericCastF16F32 if x.dtype == "float16" else HilGenericCastF32F16
        return KernelCall(kernel(size=x.size))
    parameters = HilGenericCast(
        size=x.size, source=TYPES.index(x.dtype), target=TYPES.index(out.dtype)
    )
    return KernelCall(parameters)
