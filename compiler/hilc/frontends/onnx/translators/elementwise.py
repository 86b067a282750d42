"""Operators on single elements, broadcast where they have several operands."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from onnx import helper

from hilc.frontends.onnx.operation import Operation, is_real, translates
from hilc.frontends.onnx.storage import code_of
from hilc.ir import Tensor
from hilc.ir.dtypes import INDEX_TYPES
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.functions import GeluAttributes
from hilc.ops.integers import DTYPES as INTEGERS
from hilc.ops.unary import LeakyReluAttributes

#: ONNX's operators on floats and bools that are an operator of the intermediate representation.
_SAME = {
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "And": "LOGICAL_AND",
    "Or": "LOGICAL_OR",
    "Not": "LOGICAL_NOT",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
#: Operators on two tensors: that of floats and the widest integers, and that of all integers.
_BINARY = {
    "Add": ("ADD", "INTEGER_ADD"),
    "Sub": ("SUB", "INTEGER_SUB"),
    "Mul": ("MUL", "INTEGER_MUL"),
    "Div": ("DIV", "INTEGER_DIV"),
    "Max": ("MAXIMUM", "INTEGER_MAX"),
    "Min": ("MINIMUM", "INTEGER_MIN"),
    "Equal": ("EQUAL", "INTEGER_EQUAL"),
    "Less": ("LESS", "INTEGER_LESS"),
    "LessOrEqual": ("LESS_EQUAL", "INTEGER_LESS_EQUAL"),
}
_FUSING = ("ADD", "SUB", "MUL", "DIV")
_EXCHANGED = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}


@translates(*_SAME)
def same(n: Operation) -> Tensor:
    """Translate an operator that the IR has under another name (:data:`_SAME`)."""
    return n.emit(_SAME[n.type], *n.inputs)


def is_integer(x: Tensor) -> bool:
    """Return whether the elements are integers without a quantization."""
    return x.dtype in INTEGERS and x.quant is None


def combined(n: Operation, kind: str, a: Tensor, b: Tensor) -> Tensor:
    """Return ONNX's operator ``kind`` of :data:`_BINARY` on two tensors."""
    real, integer = _BINARY[kind]
    if is_integer(a) and (a.dtype not in INDEX_TYPES or kind == "Div"):
        return n.emit(integer, a, b)
    return n.emit(real, a, b, attrs=ActivationAttributes() if real in _FUSING else None)


@translates("Add", "Sub", "Mul", "Div", "Equal", "Less", "LessOrEqual")
def binary(n: Operation) -> Tensor:
    """Translate Add, Sub, Mul, Div, Equal, Less and LessOrEqual, with broadcasting."""
    return combined(n, n.type, n.input(0), n.input(1))


@translates(*_EXCHANGED)
def exchanged(n: Operation) -> Tensor:
    """Translate Greater and GreaterOrEqual to Less and LessOrEqual of exchanged operands."""
    return combined(n, _EXCHANGED[n.type], n.input(1), n.input(0))


@translates("Xor")
def xor(n: Operation) -> Tensor:
    """Translate Xor to NOT_EQUAL of bools."""
    return n.emit("NOT_EQUAL", n.input(0), n.input(1))


@translates("Max", "Min")
def extremum(n: Operation) -> Tensor:
    """Return the maximum or minimum; NaN propagates, as in ONNX.

    The operator on two gives the second one where the first is no number, so a constant is first.
    """
    return reduce(partial(_extremum_of_two, n), (n.input(i) for i in range(n.count)))


def _extremum_of_two(n: Operation, a: Tensor, b: Tensor) -> Tensor:
    if is_integer(a):
        return combined(n, n.type, a, b)
    if n.builder.is_a_number(b):
        a, b = b, a
    found = combined(n, n.type, a, b)
    if n.builder.is_a_number(a):
        return found
    return n.single("Where", n.single("IsNaN", a), a, found)


@translates("Abs", "Neg", "Sign", "Relu")
def of_sign(n: Operation) -> Tensor:
    """Translate Abs, Neg, Sign and Relu; those of integers become operators of two operands."""
    x = n.input(0)
    if not is_integer(x):
        return n.emit(n.type.upper(), x)
    zero, one = n.constant(0, x.dtype), n.constant(1, x.dtype)
    if n.type == "Relu":
        return combined(n, "Max", x, zero)
    if n.type == "Sign":
        below = n.constant(np.array(-1).astype(x.dtype)) if x.dtype[0] == "i" else zero
        return combined(n, "Min", combined(n, "Max", x, below), one)
    negative = combined(n, "Sub", zero, x)
    if n.type == "Neg":
        return negative
    # What has no sign is its own magnitude.
    return n.reshape(x, x.shape) if x.dtype[0] == "u" else combined(n, "Max", x, negative)


@translates("Softplus")
def softplus(n: Operation) -> Tensor:
    """Compute ``max(x, 0) + log(1 + exp(-|x|))``, which neither overflows nor loses small values.

    The logarithm is that of the rounded sum ``u``, scaled by what the rounding left out: ``y``
    becomes ``log(u) * y / (u - 1)``.
    """
    x = n.input(0)
    zero, one = n.constant(0, x.dtype), n.constant(1, x.dtype)
    magnitude = n.single("Abs", x)
    negative = n.single("Neg", magnitude)
    small = n.single("Exp", negative)
    rounded = n.single("Add", small, one)
    part = n.single("Sub", rounded, one)
    logarithm = n.single("Log", rounded)
    product = n.single("Mul", logarithm, small)
    scaled = n.single("Div", product, part)
    lost = n.single("Equal", part, zero)
    added = n.single("Where", lost, small, scaled)
    positive = n.single("Max", x, zero)
    return n.single("Add", positive, added)


_BITS = {"BitwiseAnd": "INTEGER_AND", "BitwiseOr": "INTEGER_OR", "BitwiseXor": "INTEGER_XOR"}


@translates(*_BITS)
def bits(n: Operation) -> Tensor:
    """Translate BitwiseAnd, BitwiseOr and BitwiseXor to the IR's integer operators."""
    return n.emit(_BITS[n.type], n.input(0), n.input(1))


@translates("BitwiseNot")
def complement(n: Operation) -> Tensor:
    """Translate BitwiseNot to INTEGER_XOR with all bits set."""
    x = n.input(0)
    ones = np.invert(np.zeros((), x.dtype))
    return n.emit("INTEGER_XOR", x, n.constant(ones))


@translates("BitShift")
def shift(n: Operation) -> Tensor:
    """Translate BitShift to INTEGER_SHIFT_LEFT or INTEGER_SHIFT_RIGHT."""
    return n.emit(f"INTEGER_SHIFT_{n.text('direction')}", n.input(0), n.input(1))


@translates("Sum", "Mean")
def total(n: Operation) -> Tensor:
    """Translate Sum and Mean of any number of operands to additions, then a division for Mean."""
    operands = [n.input(i) for i in range(n.count)]
    found = reduce(lambda a, b: combined(n, "Add", a, b), operands)
    if n.type == "Sum" or n.count == 1:
        return found
    return combined(n, "Div", found, n.constant(n.count, found.dtype))


@translates("Clip")
def clip(n: Operation) -> Tensor:
    """Clamp to bounds, which are attributes before opset 11, then operands; NaN stays NaN."""
    x = n.input(0)
    if n.version < 11:
        bounds: list[Tensor | None] = [
            n.constant(n.number(name), x.dtype) if n.has_attribute(name) else None
            for name in ("min", "max")
        ]
    else:
        bounds = [n.optional(1), n.optional(2)]
    for kind, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is not None:
            # The second operand is the result where either is no number: what is clamped.
            x = combined(n, kind, bound, x)
    return x


@translates("LeakyRelu")
def leaky_relu(n: Operation) -> Tensor:
    """Translate LeakyRelu to LEAKY_RELU."""
    attrs = LeakyReluAttributes(alpha=n.number("alpha", 0.01))
    return n.emit("LEAKY_RELU", n.input(0), attrs=attrs)


@translates("Gelu")
def gelu(n: Operation) -> Tensor:
    """Translate Gelu to GELU, exact (erf) or approximated by tanh."""
    attrs = GeluAttributes(approximate=n.text("approximate", "none") == "tanh")
    return n.emit("GELU", n.input(0), attrs=attrs)


@translates("HardSwish")
def hard_swish(n: Operation) -> Tensor:
    """Compute ``x * max(0, min(1, x / 6 + 1 / 2))``; of float32 that is one operator."""
    x = n.input(0)
    if x.element.is_computed_real:
        return n.emit("HARD_SWISH", x)
    return n.single("Mul", x, n.single("HardSigmoid", x, alpha=1 / 6, beta=0.5))


@translates("Reciprocal")
def reciprocal(n: Operation) -> Tensor:
    """Translate Reciprocal to DIV of 1 by x."""
    x = n.input(0)
    return n.emit("DIV", n.constant(1, x.dtype), x, attrs=ActivationAttributes())


@translates("Pow")
def power(n: Operation) -> Tensor:
    """Translate Pow; the exponent may have another type."""
    x, exponent = n.input(0), n.input(1)
    if is_integer(x):
        if is_integer(exponent):
            return n.emit("INTEGER_POW", x, n.cast(exponent, x.dtype))
        return n.cast(n.emit("POW", n.cast(x, "float32"), exponent), x.dtype)
    return n.emit("POW", x, n.cast(exponent, x.dtype))


@translates("Mod")
def modulo(n: Operation) -> Tensor:
    """Translate Mod; ``fmod=1`` takes the sign of the dividend, otherwise of the divisor."""
    x, y = n.input(0), n.input(1)
    by_dividend = bool(n.integer("fmod", 0))
    if is_integer(x):
        return n.emit("INTEGER_FMOD" if by_dividend else "INTEGER_MOD", x, y)
    if not by_dividend:
        return n.emit("FLOOR_MOD", x, y)
    # The remainder of the magnitudes, with the sign of the dividend.
    rest = n.emit("FLOOR_MOD", n.emit("ABS", x), n.emit("ABS", y))
    below = n.emit("LESS", x, n.constant(0, x.dtype))
    return n.emit("SELECT_V2", below, n.emit("NEG", rest), rest)


@translates("Where")
def where(n: Operation) -> Tensor:
    """Translate Where to SELECT_V2."""
    return n.emit("SELECT_V2", n.input(0), n.input(1), n.input(2))


@translates("Cast")
def cast(n: Operation) -> Tensor:
    """Translate Cast to the type ``to``; ``saturate`` applies to 8-bit floats."""
    return n.cast_to(n.input(0), n.integer("to"), saturate=bool(n.integer("saturate", 1)))


@translates("CastLike")
def cast_like(n: Operation) -> Tensor:
    """Translate CastLike to a cast to the second input's type."""
    kind = n.builder.kind(n.input(1))
    own = helper.np_dtype_to_tensor_dtype(np.dtype(n.input(1).dtype))
    code = own if kind is None else code_of(kind)
    return n.cast_to(n.input(0), code, saturate=bool(n.integer("saturate", 1)))


@translates("BitCast")
def bit_cast(n: Operation) -> Tensor:
    """Translate BitCast: reinterpret the bytes as elements of another type."""
    return n.bit_cast(n.input(0), n.dtype("to"))


@translates("PRelu")
def prelu(n: Operation) -> Tensor:
    """Return x where it is positive, otherwise x times a slope, which is broadcast."""
    x, slope = n.input(0), n.input(1)
    if len(slope.shape) == 1 and len(x.shape) > 2 and slope.size == x.shape[1] != x.shape[-1]:
        # One slope a channel, as before opset 7.
        slope = n.reshape(slope, (slope.size, *(1,) * (len(x.shape) - 2)))
    if x.element.is_real:
        return n.emit("PRELU", x, slope)
    zero = n.constant(0, x.dtype)
    product = combined(n, "Mul", x, slope)
    return n.emit("SELECT_V2", combined(n, "Less", x, zero), product, x)


_REAL = {
    "Acos": "ACOS",
    "Acosh": "ACOSH",
    "Asin": "ASIN",
    "Asinh": "ASINH",
    "Atan": "ATAN",
    "Atanh": "ATANH",
    "Cosh": "COSH",
    "Erf": "ERF",
    "IsNaN": "IS_NAN",
    "Sinh": "SINH",
    "Tan": "TAN",
}


@translates(*_REAL)
def real_function(n: Operation) -> Tensor:
    """Translate a function of floats (:data:`_REAL`) to the IR's operator."""
    return n.emit(_REAL[n.type], n.input(0))


@translates("IsInf")
def is_inf(n: Operation) -> Tensor:
    """Translate IsInf, of both signs, one or none."""
    x = n.input(0)
    both = n.integer("detect_negative", 1), n.integer("detect_positive", 1)
    match tuple(map(bool, both)):
        case (True, True):
            return n.emit("IS_INFINITE", x)
        case (True, False):
            return n.emit("IS_NEGATIVE_INFINITE", x)
        case (False, True):
            return n.emit("IS_POSITIVE_INFINITE", x)
    return n.constant(np.zeros(x.shape, np.bool_))


@translates("Selu")
def selu(n: Operation) -> Tensor:
    """Return ``gamma * x`` above zero, and ``gamma * alpha * (exp(x) - 1)`` below."""
    x = n.input(0)
    alpha, gamma = n.number("alpha", 1.6732632423543772), n.number("gamma", 1.0507009873554805)
    return _exponential_below(n, x, alpha * gamma, gamma)


@translates("Elu")
def elu(n: Operation) -> Tensor:
    """Translate Elu to ELU; with ``alpha`` other than 1 to its definition."""
    x, alpha = n.input(0), n.number("alpha", 1.0)
    return n.emit("ELU", x) if alpha == 1 else _exponential_below(n, x, alpha, 1.0)


@translates("Celu")
def celu(n: Operation) -> Tensor:
    """Translate Celu: ``alpha * (exp(x / alpha) - 1)`` below zero, otherwise x."""
    x, alpha = n.input(0), n.constant(n.number("alpha", 1.0), n.input(0).dtype)
    return combined(n, "Mul", n.emit("ELU", combined(n, "Div", x, alpha)), alpha)


def _exponential_below(n: Operation, x: Tensor, factor: float, slope: float) -> Tensor:
    below = combined(n, "Mul", n.emit("ELU", x), n.constant(factor, x.dtype))
    above = x if slope == 1 else combined(n, "Mul", x, n.constant(slope, x.dtype))
    return n.emit("SELECT_V2", combined(n, "Less", x, n.constant(0, x.dtype)), below, above)


@translates("Shrink")
def shrink(n: Operation) -> Tensor:
    """Translate Shrink: move values beyond ``lambd`` towards zero by ``bias``; zero the others."""
    x, zero = n.input(0), n.constant(0, n.input(0).dtype)
    border, bias = n.number("lambd", 0.5), n.number("bias", 0.0)
    if not is_real(x) and (border != int(border) or bias != int(bias)):
        n.refuse(f"shrinks {x.dtype} by {bias} beyond {border}", "state whole numbers")
    moved = n.constant(np.array(bias).astype(x.dtype))
    low = combined(n, "Less", x, n.constant(np.array(-border).astype(x.dtype)))
    high = combined(n, "Less", n.constant(np.array(border).astype(x.dtype)), x)
    inside = n.emit("SELECT_V2", high, combined(n, "Sub", x, moved), zero)
    return n.emit("SELECT_V2", low, combined(n, "Add", x, moved), inside)
