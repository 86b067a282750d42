"""CAST."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilCast
from hilc.lowering.registry import Layer, lowers

#: ``enum hil_cast_type`` of ``hil/kernels/generic/cast.h``.
TYPES = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")


@lowers("CAST")
def portable(layer: Layer) -> KernelCall:
    """Return the call from one type to another."""
    x, out = layer.operand(0), layer.out
    parameters = HilCast(size=x.size, source=TYPES.index(x.dtype), target=TYPES.index(out.dtype))
    return KernelCall(parameters)
