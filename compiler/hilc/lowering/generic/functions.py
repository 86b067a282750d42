"""Functions of single numbers: tables of all bytes, or a kernel each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hilc.lowering.generic.unary import table_call
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilAbsF32,
    HilAbsS16,
    HilAbsS32,
    HilCeilF32,
    HilCosF32,
    HilEluF32,
    HilExpF32,
    HilFloorF32,
    HilGeluF32,
    HilGeluTanhF32,
    HilLogF32,
    HilLutS16,
    HilNegF32,
    HilNegS32,
    HilNegS64,
    HilNotBool,
    HilRoundF32,
    HilRsqrtF32,
    HilRsqrtS16,
    HilSignF32,
    HilSignS32,
    HilSinF32,
    HilSqrtF32,
    HilSquareF32,
    HilZeros,
)
from hilc.lowering.registry import Layer, lowers
from hilc.ops.functions import (
    DTYPES,
    INTERPOLATED,
    ROOT_HEADROOM_BITS,
    GeluAttributes,
    function_table,
    has_scale,
    interpolated_table,
    wide_scale,
)
from hilc.ops.operands import quantization

_KERNELS: Mapping[tuple[str, str], Callable[..., Parameters]] = {
    ("ABS", "float32"): HilAbsF32,
    ("ABS", "int32"): HilAbsS32,
    ("CEIL", "float32"): HilCeilF32,
    ("COS", "float32"): HilCosF32,
    ("ELU", "float32"): HilEluF32,
    ("EXP", "float32"): HilExpF32,
    ("FLOOR", "float32"): HilFloorF32,
    ("GELU", "float32"): HilGeluF32,
    ("LOG", "float32"): HilLogF32,
    ("LOGICAL_NOT", "bool"): HilNotBool,
    ("NEG", "float32"): HilNegF32,
    ("NEG", "int32"): HilNegS32,
    ("NEG", "int64"): HilNegS64,
    ("ROUND", "float32"): HilRoundF32,
    ("RSQRT", "float32"): HilRsqrtF32,
    ("SIGN", "float32"): HilSignF32,
    ("SIGN", "int32"): HilSignS32,
    ("SIN", "float32"): HilSinF32,
    ("SQRT", "float32"): HilSqrtF32,
    ("SQUARE", "float32"): HilSquareF32,
}


#: Operators whose result depends on what their operand holds.
OPERATORS = tuple(op for op in DTYPES if op != "ZEROS_LIKE")


@lowers(*OPERATORS)
def portable(layer: Layer) -> KernelCall:
    """Return a table of all bytes, or the function of an element."""
    node, x = layer.node, layer.operand(0)
    if x.element.tabled and has_scale(node, x):
        return table_call(function_table(node, x, layer.out), x.size)
    if not has_scale(node, x):
        kernel = _KERNELS[node.op, x.dtype]
        if node.op == "GELU" and GeluAttributes.of(node).approximate:
            kernel = HilGeluTanhF32
        return KernelCall(kernel(size=x.size))
    if node.op in INTERPOLATED:
        values = interpolated_table(node, x, layer.out)
        return KernelCall(HilLutS16(size=x.size, table=values))
    multiplier, shift = wide_scale(node, x, layer.out)
    of_int16 = HilRsqrtS16 if node.op == "RSQRT" else HilAbsS16
    parameters = of_int16(
        size=x.size,
        in_zero_point=quantization(node, x)[1],
        multiplier=multiplier,
        shift=shift - (ROOT_HEADROOM_BITS if node.op == "RSQRT" else 0),
        out_zero_point=quantization(node, layer.out)[1],
    )
    return KernelCall(parameters)


@lowers("ZEROS_LIKE")
def zeros(layer: Layer) -> KernelCall:
    """Return the call that writes zeros and reads nothing."""
    return KernelCall(HilZeros(bytes=layer.out.nbytes), ())
