"""Functions of single numbers: ABS, NEG, ROUND, SQRT, EXP, SIN, ELU and their kind.

float32 is computed in double precision and rounded once, which is within two last bits of any C
library. int8 is a table of all values, made in single precision and rounded half away from zero
(SQRT: cut off), or in fixed point where the reference does so (ABS, RSQRT). int16 is computed
element by element (ABS, RSQRT), or by a table of 512 steps between whose values lines are drawn.
Where TensorFlow Lite Micro has none of these it is TFLite's (of GELU's int16 and SQRT's int8 that
of releases from 2.17 on). Integers without a scale wrap around, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import erfc

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Attributes, Node, Numerics, Rounding, Tensor
from hilc.numerics import interpolate
from hilc.numerics.fixed_point import inverse_sqrt
from hilc.numerics.floats import (
    elu_on_vectors,
    exp_on_vectors,
    gelu_on_vectors,
    gelu_tanh_on_vectors,
    log_on_vectors,
)
from hilc.numerics.libm import Float32Array, expf
from hilc.numerics.requantize import FixedPoint, Int64Array, requantize
from hilc.ops import permuting
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import (
    multiplier,
    operand,
    quantization,
    require_counts,
    require_dtype,
    require_symmetric,
    undefined,
)
from hilc.ops.traits import SameRows, channelwise, mapped
from hilc.ops.unary import look_up, rounded_table

Float64Array = npt.NDArray[np.float64]

#: Bits by which an inverse square root is raised before it is brought to the output's scale.
ROOT_HEADROOM_BITS = 20


@dataclass(frozen=True, kw_only=True)
class GeluAttributes(Attributes):
    """Attributes of GELU."""

    #: Whether to approximate by tanh instead of the error function.
    approximate: bool = False


#: The types that an operator takes.
DTYPES: Mapping[str, tuple[str, ...]] = {
    "ABS": ("int8", "int16", "int32", "float32"),
    "NEG": ("int32", "int64", "float32"),
    "SIGN": ("int32", "float32"),
    "CEIL": ("float32",),
    "FLOOR": ("float32",),
    "ROUND": ("float32",),
    "SQRT": ("int8", "float32"),
    "RSQRT": ("int8", "int16", "float32"),
    "SQUARE": ("float32",),
    "EXP": ("int8", "int16", "float32"),
    "LOG": ("int8", "int16", "float32"),
    "SIN": ("float32",),
    "COS": ("float32",),
    "ELU": ("int8", "float32"),
    "GELU": ("int8", "int16", "float32"),
    "LOGICAL_NOT": ("bool",),
    "ZEROS_LIKE": ("int8", "uint8", "int16", "int32", "int64", "float32", "bool"),
}
#: Operators that ignore the quantization of their tensors.
_OF_BITS = ("ZEROS_LIKE",)


def has_scale(node: Node, x: Tensor) -> bool:
    """Return whether the operator computes on real numbers that integers stand for."""
    return x.element.quantized and node.op not in _OF_BITS


def function_table(node: Node, source: Tensor, target: Tensor) -> npt.NDArray[np.int8]:
    """Return the operator's value for each number of the source, by its byte."""
    values = _TABLES[node.op](node, source, target)
    in_range = np.clip(values, *target.element.bounds).astype(target.dtype)
    return np.roll(in_range, source.element.bounds[0])


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, DTYPES[node.op])
    if has_scale(node, x):
        quantization(node, x)
    return [(x.shape, x.dtype)]


def _check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    x, y = operand(node, ins, 0), outs[0]
    if not has_scale(node, x):
        return
    quantization(node, y)
    if x.element.tabled:
        function_table(node, x, y)
    elif node.op in INTERPOLATED:
        interpolated_table(node, x, y)
    else:
        wide_scale(node, x, y)


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    source, x = operand(node, ins, 0), values[0]
    assert x is not None
    if not has_scale(node, source):
        functions = _ON_VECTORS if node.rounding is Rounding.SINGLE else _PLAIN
        with np.errstate(all="ignore"):
            return [np.asarray(functions[node.op](node, x)).astype(x.dtype)]
    if source.element.tabled:
        return [look_up(function_table(node, source, outs[0]), x)]
    if node.op in INTERPOLATED:
        wide = interpolate.look_up(interpolated_table(node, source, outs[0]), x.astype(np.int64))
        return [wide.astype(outs[0].dtype)]
    y = _WIDE[node.op](node, x.astype(np.int64) - quantization(node, source)[1], source, outs[0])
    return [np.clip(y, *outs[0].element.bounds).astype(outs[0].dtype)]


# Quantized -------------------------------------------------------------------------------------


def wide_scale(node: Node, source: Tensor, target: Tensor) -> FixedPoint:
    """Return the factor from the result of ABS or RSQRT to the output's scale."""
    in_scale, out_scale = (quantization(node, tensor)[0] for tensor in (source, target))
    if node.op == "RSQRT":
        with np.errstate(all="ignore"):
            root = np.sqrt(np.float32(in_scale)) * np.float32(out_scale)
            factor = multiplier(node, float(1 / np.float64(root)))
        # An inverse root of at most 1, raised by 20 bits, stays within 31 where it is raised by
        # ten more.
        fits = factor.shift <= ROOT_HEADROOM_BITS + 10
    else:
        factor = multiplier(node, _quotient(node, in_scale, out_scale))
        # A magnitude of the type's bits and one more stays within 31 bits.
        fits = factor.shift <= 30 - 8 * source.element.itemsize
    if not fits:
        undefined(node, f"has scale {in_scale} in and {out_scale} out")
    return factor


def _quotient(node: Node, numerator: float, denominator: float) -> float:
    """Return the quotient of scales: TFLM divides in double, TFLite in single precision."""
    if node.numerics is not Numerics.LITERT:
        return numerator / denominator
    with np.errstate(all="ignore"):
        return float(np.float32(numerator) / np.float32(denominator))


def _steps(node: Node, source: Tensor) -> Int64Array:
    return np.array(source.element.values, np.int64) - quantization(node, source)[1]


def _abs(node: Node, steps: Int64Array, source: Tensor, target: Tensor) -> Int64Array:
    factor = wide_scale(node, source, target)
    return requantize(np.abs(steps), *factor) + quantization(node, target)[1]


def _rsqrt(node: Node, steps: Int64Array, source: Tensor, target: Tensor) -> Int64Array:
    """Return 1 / sqrt in fixed point. The reference stops at numbers below zero; they have the
    result of zero, the largest.
    """
    factor = wide_scale(node, source, target)
    root, shift = inverse_sqrt(np.maximum(steps, 0))
    raised = requantize(np.ones_like(steps), root, shift + ROOT_HEADROOM_BITS)
    scaled = requantize(raised, factor.multiplier, factor.shift - ROOT_HEADROOM_BITS)
    in_range = scaled + quantization(node, target)[1]
    return np.where(steps > 0, in_range, target.element.bounds[1])


def _table_of(
    wide: Callable[[Node, Int64Array, Tensor, Tensor], Int64Array],
) -> Callable[[Node, Tensor, Tensor], Int64Array]:
    return lambda node, source, target: wide(node, _steps(node, source), source, target)


def _elu_of_expf(x: Float32Array) -> Float32Array:
    return np.where(x < 0, expf(x) - np.float32(1), x)


def _log_above_zero(node: Node, target: Tensor) -> Callable[[Float32Array], Float32Array]:
    """Return the logarithm; the least output for arguments not above 0."""
    scale, zero_point = quantization(node, target)
    least = np.float32(target.element.bounds[0] - zero_point) * np.float32(scale)

    def log(x: Float32Array) -> Float32Array:
        with np.errstate(all="ignore"):
            return np.where(x > 0, np.log(x.astype(np.float64)).astype(np.float32), least)

    return log


def _log_table(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    return rounded_table(_log_above_zero(node, target))(node, source, target)


def _gelu_table(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    return rounded_table(lambda x: _gelu(node, x))(node, source, target)


def _sqrt_table(node: Node, source: Tensor, target: Tensor) -> Int64Array:
    """Return the table of the square root. The reference stops at numbers below zero; they have the
    result of zero.
    """
    (in_scale, _), (out_scale, zero_point) = (quantization(node, t) for t in (source, target))
    x = np.float32(in_scale) * np.maximum(_steps(node, source), 0).astype(np.float32)
    with np.errstate(all="ignore"):
        y = np.sqrt(x) / np.float32(out_scale)
    if y.max() >= 2**31 - 256:
        undefined(node, f"has output scale {out_scale}")
    values: Int64Array = y.astype(np.int64) + zero_point
    return values


def interpolated_table(node: Node, source: Tensor, target: Tensor) -> npt.NDArray[np.int16]:
    """Return the operator's values of int16 at the ends of the steps between which lines are
    drawn.
    """
    require_symmetric(node, source)
    require_symmetric(node, target)
    in_scale, out_scale = (np.float32(quantization(node, t)[0]) for t in (source, target))
    low, high = (np.float32(end) for end in source.element.bounds)
    with np.errstate(all="ignore"):
        try:
            return interpolate.table(
                INTERPOLATED[node.op](node, target),
                in_scale * low,
                in_scale * high,
                out_scale * high - out_scale * low,
            )
        except ArithmeticError:
            undefined(node, f"has scale {in_scale} in and {out_scale} out")


_TABLES: Mapping[str, Callable[[Node, Tensor, Tensor], Int64Array]] = {
    "ABS": _table_of(_abs),
    "RSQRT": _table_of(_rsqrt),
    "EXP": rounded_table(expf),
    "LOG": _log_table,
    "ELU": rounded_table(_elu_of_expf),
    "GELU": _gelu_table,
    "SQRT": _sqrt_table,
}
#: Interpolated functions of int16: constructors from a node and its output.
INTERPOLATED: Mapping[str, Callable[[Node, Tensor], Callable[[Float32Array], Float32Array]]] = {
    "EXP": lambda node, target: expf,
    "LOG": _log_above_zero,
    "GELU": lambda node, target: lambda x: _gelu(node, x),
}
_WIDE = {"ABS": _abs, "RSQRT": _rsqrt}

# Numbers that stand for themselves -------------------------------------------------------------


_SQRT_HALF = np.float32(np.sqrt(0.5))
_SQRT_2_BY_PI = np.float32(np.sqrt(2 / np.pi))
_GELU_CUBIC = np.float32(0.044715)


def _gelu(node: Node, x: Array) -> Array:
    """Return x times the normal distribution's share below x, or its approximation by tanh."""
    weighted: Array
    if GeluAttributes.of(node).approximate:
        inner = _SQRT_2_BY_PI * (x + _GELU_CUBIC * x * x * x)
        # x (1 + tanh(inner)) / 2, without its cancellation below zero.
        weighted = x / (np.float32(1) + expf(np.float32(-2) * inner))
    else:
        share = [erfc(value) for value in (x * -_SQRT_HALF).ravel().tolist()]
        weighted = np.float32(0.5) * x * np.array(share, np.float32).reshape(x.shape)
    return weighted


def _gelu_on_vectors(node: Node, x: Array) -> Array:
    is_approximate = GeluAttributes.of(node).approximate
    return gelu_tanh_on_vectors(x) if is_approximate else gelu_on_vectors(x)


def _of_double(function: Callable[[Float64Array], Float64Array]) -> Callable[[Node, Array], Array]:
    return lambda node, x: function(x.astype(np.float64))


_PLAIN: Mapping[str, Callable[[Node, Array], Array]] = {
    "ABS": lambda node, x: np.abs(x),
    "NEG": lambda node, x: -x,
    "SIGN": lambda node, x: np.sign(x),
    "CEIL": lambda node, x: np.ceil(x),
    "FLOOR": lambda node, x: np.floor(x),
    "ROUND": lambda node, x: np.rint(x),
    "SQRT": lambda node, x: np.sqrt(x),
    "RSQRT": lambda node, x: np.float32(1) / np.sqrt(x),
    "SQUARE": lambda node, x: x * x,
    "EXP": lambda node, x: expf(x),
    "LOG": _of_double(np.log),
    "SIN": _of_double(np.sin),
    "COS": _of_double(np.cos),
    "ELU": _of_double(lambda x: np.where(x < 0, np.expm1(x), x)),
    "GELU": _gelu,
    "LOGICAL_NOT": lambda node, x: np.logical_not(x),
    "ZEROS_LIKE": lambda node, x: np.zeros_like(x),
}

#: Functions that vectors of floats compute without the C library.
_ON_VECTORS: Mapping[str, Callable[[Node, Array], Array]] = {
    "EXP": lambda node, x: exp_on_vectors(x),
    "LOG": lambda node, x: log_on_vectors(x),
    "ELU": lambda node, x: elu_on_vectors(x),
    "GELU": _gelu_on_vectors,
}


def _by_numerics(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]
) -> FixedPoint | None:
    x = operand(node, ins, 0)
    return wide_scale(node, x, outs[0]) if node.op == "ABS" and has_scale(node, x) else None


FUNCTION = OpDef(
    _infer,
    _reference,
    _check,
    vector_floats=lambda node, ins: node.op in _ON_VECTORS,
    by_numerics=_by_numerics,
    bounds=mapped,
    rows=SameRows(),
    permuted=permuting.first_operand,
    channel_groups=channelwise,
)
# exp(x) - 1 of small x.
ELU = replace(FUNCTION, inner_terms=lambda x: (x < 0).astype(x.dtype))
# x / 2 + x / 2 * erf(x / sqrt(2)) of x far below zero.
GELU = replace(FUNCTION, attributes=GeluAttributes, inner_terms=lambda x: np.abs(x) / 2)

OPERATORS: Mapping[str, OpDef] = {
    "ABS": FUNCTION,
    "CEIL": FUNCTION,
    "COS": FUNCTION,
    "ELU": ELU,
    "EXP": FUNCTION,
    "FLOOR": FUNCTION,
    "GELU": GELU,
    "LOG": FUNCTION,
    "LOGICAL_NOT": FUNCTION,
    "NEG": FUNCTION,
    "ROUND": FUNCTION,
    "RSQRT": FUNCTION,
    "SIGN": FUNCTION,
    "SIN": FUNCTION,
    "SQRT": FUNCTION,
    "SQUARE": FUNCTION,
    "ZEROS_LIKE": FUNCTION,
}

#: Element types that the kernels of TensorFlow Lite Micro do not take.
TFLM_LACKS = {
    "ABS": {"int32"},
    "EXP": {"int8", "int16"},
    "GELU": {"int8", "int16", "float32"},
    "LOG": {"int8", "int16"},
    "NEG": {"int32", "int64"},
    "SIGN": {"int32", "float32"},
    "SQRT": {"int8"},
    "ZEROS_LIKE": {"uint8", "int16", "bool"},
}

#: Element types that the kernels of LiteRT do not take.
LITERT_LACKS = {
    "CEIL": {"float32"},
    "ELU": {"int8", "float32"},
    # Later releases have it: test_functions.
    "GELU": {"int16"},
    "ROUND": {"float32"},
    # It interpolates inverse roots.
    "RSQRT": {"int16"},
    # Later releases have it: test_functions.
    "SQRT": {"int8"},
    "ZEROS_LIKE": {"int8", "uint8", "int16", "bool"},
}
