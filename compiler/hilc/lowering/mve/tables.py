"""Tables of bytes by gathers, of the layers whose portable kernel is a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hilc.ir import Rounding
from hilc.lowering.generic import functions, quantize, unary
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import HilGenericLutS8, HilMveLutS8
from hilc.lowering.registry import Call, Layer, lowers
from hilc.ops.opdef import TWICE_OR_EVEN


def _by_gathers(portable: Call | Iterable[Call]) -> Iterator[KernelCall]:
    """Yield the call with the same table; none where the portable kernel computes."""
    if isinstance(portable, KernelCall) and isinstance(
        found := portable.parameters, HilGenericLutS8
    ):
        yield KernelCall(HilMveLutS8(size=found.size, table=found.table))


@lowers(*unary.OPERATORS, dtypes={"int8"}, requires={"mve"})
def of_activations(layer: Layer) -> Iterator[KernelCall]:
    """Return the table of an activation."""
    return _by_gathers(unary.portable(layer))


@lowers(*functions.OPERATORS, dtypes={"int8"}, requires={"mve"})
def of_functions(layer: Layer) -> Iterator[KernelCall]:
    """Return the table of a function."""
    return _by_gathers(functions.portable(layer))


@lowers("LOOKUP", requires={"mve"}, roundings=Rounding)
def of_lookups(layer: Layer) -> Iterator[KernelCall]:
    """Return the table that a model holds."""
    return _by_gathers(quantize.lookup(layer))


@lowers("QUANTIZE", requires={"mve"}, roundings=TWICE_OR_EVEN)
def of_scales(layer: Layer) -> Iterator[KernelCall]:
    """Return the table from one scale of bytes to another."""
    return _by_gathers(quantize.quantize(layer))
