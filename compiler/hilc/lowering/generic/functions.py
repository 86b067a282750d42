"""Functions of single numbers: tables of all bytes, or a kernel each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hilc.lowering.generic.unary import table_call
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilGenericAbsF32,
    HilGenericAbsS16,
    HilGenericAbsS32,
    HilGenericCeilF32,
    HilGenericCosF32,
    HilGenericEluF32,
    HilGenericExpF32,
    HilGenericFloorF32,
    HilGenericGeluF32,
    HilGenericGeluTanhF32,
    HilGenericLogF32,
    HilGenericLutS16,
    HilGenericNegF32,
    HilGenericNegS32,
    HilGenericNegS64,
    HilGenericNotBool,
    HilGenericRoundF32,
    HilGenericRsqrtF32,
    HilGenericRsqrtS16,
    HilGenericSignF32,
    HilGenericSignS32,
    HilGenericSinF32,
    HilGenericSqrtF32,
    HilGenericSquareF32,
    HilGenericZeros,
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
    ("ABS", "float32"): HilGenericAbsF32,
    ("ABS", "int32"): HilGenericAbsS32,
    ("CEIL", "float32"): HilGenericCeilF32,
    ("COS", "float32"): HilGenericCosF32,
    ("ELU", "float32"): HilGenericEluF32,
    ("EXP", "float32"): HilGenericExpF32,
    ("FLOOR", "float32"): HilGenericFloorF32,
    ("GELU", "float32"): HilGenericGeluF32,
    ("LOG", "float32"): HilGenericLogF32,
    ("LOGICAL_NOT", "bool"): HilGenericNotBool,
    ("NEG", "float32"): HilGenericNegF32,
    ("NEG", "int32"): HilGenericNegS32,
    ("NEG", "int64"): HilGenericNegS64,
    ("ROUND", "float32"): HilGenericRoundF32,
    ("RSQRT", "float32"): HilGenericRsqrtF32,
    ("SIGN", "float32"): HilGenericSignF32,
    ("SIGN", "int32"): HilGenericSignS32,
    ("SIN", "float32"): HilGenericSinF32,
    ("SQRT", "float32"): HilGenericSqrtF32,
    ("SQUARE", "float32"): HilGenericSquareF32,
}


#: Operators whose result depends on their operand's values.
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
            kernel = HilGenericGeluTanhF32
        return KernelCall(kernel(size=x.size))
    if node.op in INTERPOLATED:
        values = interpolated_table(node, x, layer.out)
        return KernelCall(HilGenericLutS16(size=x.size, table=values))
    multiplier, shift = wide_scale(node, x, layer.out)
    of_int16 = HilGenericRsqrtS16 if node.op == "RSQRT" else HilGenericAbsS16
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
    return KernelCall(HilGenericZeros(bytes=layer.out.nbytes), ())
