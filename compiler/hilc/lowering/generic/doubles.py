"""Arithmetic in double precision."""

from __future__ import annotations

from hilc.lowering.generic.binary import binary_walk
from hilc.lowering.generic.mean import walk_of_values
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericCastF64,
    HilGenericCombineF64,
    HilGenericCompareF64,
    HilGenericFunctionF64,
    HilGenericReduceF64,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.cast import CASTABLE
from hilc.ops.doubles import BINARY, COMPARISONS, FUNCTIONS, PREFIX, REDUCTIONS

#: The types of ``hil_generic_cast_f64``, as ``enum hil_cast_type`` has them, float64 behind them.
_TYPES = (*CASTABLE, "float64")
#: Comparisons that are others with their operands exchanged.
_EXCHANGED = {"GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL"}


def _kind(layer: Layer) -> str:
    return layer.node.op.removeprefix(PREFIX)


@lowers(*(f"{PREFIX}{kind}" for kind in BINARY))
def combined(layer: Layer) -> KernelCall:
    """Return the kernel call of an elementwise float64 operator of two operands."""
    operation = list(BINARY).index(_kind(layer))
    return KernelCall(HilGenericCombineF64(binary=binary_walk(layer), operation=operation), (0, 1))


@lowers(*(f"{PREFIX}{kind}" for kind in COMPARISONS))
def compared(layer: Layer) -> KernelCall:
    """Return the kernel call of a float64 comparison; its output is bool."""
    kind = _kind(layer)
    order = (1, 0) if kind in _EXCHANGED else (0, 1)
    comparison = list(COMPARISONS).index(_EXCHANGED.get(kind, kind))
    parameters = HilGenericCompareF64(binary=binary_walk(layer, order), comparison=comparison)
    return KernelCall(parameters, order)


@lowers(*(f"{PREFIX}{kind}" for kind in FUNCTIONS))
def function(layer: Layer) -> KernelCall:
    """Return the kernel call of an elementwise float64 function."""
    function = list(FUNCTIONS).index(_kind(layer))
    return KernelCall(HilGenericFunctionF64(size=layer.out.size, function=function))


@lowers(*(f"{PREFIX}{kind}" for kind in REDUCTIONS))
def reduced(layer: Layer) -> KernelCall:
    """Return the kernel call of a float64 reduction."""
    parameters = HilGenericReduceF64(
        mean=walk_of_values(layer),
        way=REDUCTIONS.index(_kind(layer)),
        count=layer.operand(0).size // layer.out.size,
    )
    return KernelCall(parameters)


@lowers(f"{PREFIX}CAST")
def cast(layer: Layer) -> KernelCall:
    """Return the kernel call of a cast to or from float64."""
    x, out = layer.operand(0), layer.out
    parameters = HilGenericCastF64(
        size=x.size, source=_TYPES.index(x.dtype), target=_TYPES.index(out.dtype)
    )
    return KernelCall(parameters)
