"""Operators on integers that stand for themselves."""

from __future__ import annotations

from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericInteger, HilGenericIntegerCompare
from hilc.lowering.registry import Layer, lowers
from hilc.ops.integers import NAMES, is_comparison

#: In the order of ``enum hil_integer_type`` of ``hil/kernels/generic/integers.h``.
_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@lowers(*NAMES)
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any two tensors of integers."""
    kernel = HilGenericIntegerCompare if is_comparison(layer.node.op) else HilGenericInteger
    parameters = kernel(
        binary=binary_walk(layer),
        type=_TYPES.index(layer.dtype),
        operation=NAMES.index(layer.node.op),
    )
    return KernelCall(parameters, (0, 1))
