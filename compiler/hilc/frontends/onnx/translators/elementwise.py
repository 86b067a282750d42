"""Operators on single elements, broadcast where they have several operands."""

from __future__ import annotations

from functools import reduce

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import ELEMENT_TYPES, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.functions import GeluAttributes
from hilc.ops.unary import LeakyReluAttributes

#: ONNX's operators that are an operator of the intermediate representation under another name.
_SAME = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Equal": "EQUAL",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
    "Log": "LOG",
    "And": "LOGICAL_AND",
    "Or": "LOGICAL_OR",
    "Neg": "NEG",
    "Not": "LOGICAL_NOT",
    "Relu": "RELU",
    "Round": "ROUND",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
#: Those into which an activation may be fused.
_FUSING = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL", "Div": "DIV"}


@translates(*_SAME)
def same(n: Operation) -> Tensor:
    return n.emit(_SAME[n.type], *n.inputs)


@translates(*_FUSING)
def arithmetic(n: Operation) -> Tensor:
    return n.emit(_FUSING[n.type], n.input(0), n.input(1), attrs=ActivationAttributes())


@translates("Xor")
def xor(n: Operation) -> Tensor:
    return n.emit("NOT_EQUAL", n.input(0), n.input(1))


@translates("Max", "Min")
def extremum(n: Operation) -> Tensor:
    op = "MAXIMUM" if n.type == "Max" else "MINIMUM"
    operands = [n.input(i) for i in range(n.count)]
    return reduce(lambda a, b: n.emit(op, a, b), operands)


@translates("Sum", "Mean")
def total(n: Operation) -> Tensor:
    operands = [n.input(i) for i in range(n.count)]
    found = reduce(lambda a, b: n.emit("ADD", a, b, attrs=ActivationAttributes()), operands)
    if n.type == "Sum" or n.count == 1:
        return found
    count = n.constant(n.count, found.dtype)
    return n.emit("DIV", found, count, attrs=ActivationAttributes())


@translates("Clip")
def clip(n: Operation) -> Tensor:
    """Clamp to bounds, which are attributes before opset 11, then operands."""
    x = n.input(0)
    if n.version < 11:
        bounds: list[Tensor | None] = [
            n.constant(n.number(name), x.dtype) if n.has_attribute(name) else None
            for name in ("min", "max")
        ]
    else:
        bounds = [n.optional(1), n.optional(2)]
    for op, bound in zip(("MAXIMUM", "MINIMUM"), bounds, strict=True):
        if bound is not None:
            x = n.emit(op, x, bound)
    return x


@translates("LeakyRelu")
def leaky_relu(n: Operation) -> Tensor:
    attrs = LeakyReluAttributes(alpha=n.number("alpha", 0.01))
    return n.emit("LEAKY_RELU", n.input(0), attrs=attrs)


@translates("Gelu")
def gelu(n: Operation) -> Tensor:
    attrs = GeluAttributes(approximate=n.text("approximate", "none") == "tanh")
    return n.emit("GELU", n.input(0), attrs=attrs)


@translates("Reciprocal")
def reciprocal(n: Operation) -> Tensor:
    x = n.input(0)
    return n.emit("DIV", n.constant(1, x.dtype), x, attrs=ActivationAttributes())


@translates("Pow")
def power(n: Operation) -> Tensor:
    """Return a power, whose exponent may be of another type."""
    x, exponent = n.input(0), n.input(1)
    if exponent.dtype == x.dtype:
        return n.emit("POW", x, exponent)
    if ELEMENT_TYPES[x.dtype].dl_kind == "kDLFloat" or x.dtype == "int32":
        return n.emit("POW", x, n.cast(exponent, x.dtype))
    n.refuse(f"raises {x.dtype} to {exponent.dtype}", "cast both to float32 before it")


@translates("Mod")
def modulo(n: Operation) -> Tensor:
    if n.integer("fmod", 0):
        n.refuse("takes the remainder of the sign of the dividend (fmod=1)", "use fmod=0")
    return n.emit("FLOOR_MOD", n.input(0), n.input(1))


@translates("Where")
def where(n: Operation) -> Tensor:
    return n.emit("SELECT_V2", n.input(0), n.input(1), n.input(2))


@translates("Cast")
def cast(n: Operation) -> Tensor:
    return n.cast(n.input(0), n.dtype("to"))


@translates("CastLike")
def cast_like(n: Operation) -> Tensor:
    return n.cast(n.input(0), n.input(1).dtype)


@translates("PRelu")
def prelu(n: Operation) -> Tensor:
    """Return what is above zero as it is, and the rest times a slope, which is broadcast."""
    x, slope = n.input(0), n.input(1)
    zero = n.constant(np.zeros((), x.dtype))
    product = n.emit("MUL", x, slope, attrs=ActivationAttributes())
    return n.emit("SELECT_V2", n.emit("LESS", x, zero), product, x)
