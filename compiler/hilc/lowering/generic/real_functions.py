"""Functions of single floats that ONNX has."""

from __future__ import annotations

from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericRealClass, HilGenericRealFunction
from hilc.lowering.registry import Layer, lowers
from hilc.ops.real_functions import CLASSES, FUNCTIONS


@lowers(*FUNCTIONS)
def function(layer: Layer) -> KernelCall:
    """Return the function of each element."""
    number = FUNCTIONS.index(layer.node.op)
    return KernelCall(HilGenericRealFunction(size=layer.out.size, function=number))


@lowers(*CLASSES)
def classification(layer: Layer) -> KernelCall:
    """Return whether each element is of a class."""
    return KernelCall(HilGenericRealClass(size=layer.out.size, kind=CLASSES.index(layer.node.op)))
