"""Operators on single elements, their operands broadcast."""

from __future__ import annotations

import numpy as np

from hilc.frontends.pt2.model import Operation, translates
from hilc.frontends.pt2.program import Ref
from hilc.ir import ELEMENT_TYPES

_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "bitwise_not": "BitwiseNot", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "isinf": "IsInf",
    "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "mish": "Mish", "neg": "Neg",
    "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip

_COMPARISONS = {
    "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less",
}  # fmt: skip

#: Operators that take floats only: an integer becomes a float first, as PyTorch does.
_FLOAT_ONLY = frozenset(
    ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log",
     "reciprocal", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh")
)  # fmt: skip


@translates(*(f"aten.{name}" for name in _UNARY))
def unary(c: Operation) -> str:
    """Translate an operator of one operand to its ONNX operator (:data:`_UNARY`).

    An integer operand of an operator in :data:`_FLOAT_ONLY` is cast to the result's type first.
    """
    name = c.call.target.split(".")[1]
    x, dtype = c.tensor("self"), c.signature("self").dtype
    if name == "bitwise_not" and dtype == "bool":
        return c.emit("Not", x)
    if name == "logical_not":
        x = c.cast(x, dtype, "bool")
    if name in _FLOAT_ONLY:
        x = c.cast(x, dtype, c.result.dtype)
    return c.emit(_UNARY[name], x)


@translates("aten.round")
def round_(c: Operation) -> str:
    """Translate aten.round to Round (ties to even), of a multiple where ``decimals`` is given."""
    x, decimals = c.tensor("self"), c.get("decimals", 0)
    if not decimals:
        return c.emit("Round", x)
    factor = c.constant(10.0 ** abs(decimals), c.result.dtype)
    before, after = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return c.emit(after, c.emit("Round", c.emit(before, x, factor)), factor)


@translates("aten.frac")
def frac(c: Operation) -> str:
    """Translate aten.frac to x - Sign(x) * Floor(Abs(x))."""
    x = c.tensor("self")
    return c.emit("Sub", x, c.emit("Mul", c.emit("Sign", x), c.emit("Floor", c.emit("Abs", x))))


@translates("aten.rsqrt")
def rsqrt(c: Operation) -> str:
    """Translate aten.rsqrt to Sqrt and Reciprocal."""
    return c.emit("Reciprocal", c.emit("Sqrt", c.tensor("self")))


@translates("aten.expm1")
def expm1(c: Operation) -> str:
    """Translate aten.expm1 to Exp(x) - 1."""
    return c.emit("Sub", c.emit("Exp", c.tensor("self")), c.constant(1, c.result.dtype))


@translates("aten.log1p")
def log1p(c: Operation) -> str:
    """Translate aten.log1p to Log(x + 1)."""
    return c.emit("Log", c.emit("Add", c.tensor("self"), c.constant(1, c.result.dtype)))


@translates("aten.log2")
def log2(c: Operation) -> str:
    """Translate aten.log2 to Log(x) / ln(2)."""
    factor = c.constant(1 / np.log(2), c.result.dtype)
    return c.emit("Mul", c.emit("Log", c.tensor("self")), factor)


@translates("aten.log10")
def log10(c: Operation) -> str:
    """Translate aten.log10 to Log(x) / ln(10)."""
    factor = c.constant(1 / np.log(10), c.result.dtype)
    return c.emit("Mul", c.emit("Log", c.tensor("self")), factor)


@translates("aten.trunc", "aten.fix")
def trunc(c: Operation) -> str:
    """Translate aten.trunc to Sign(x) * Floor(Abs(x)); integers are what they are."""
    x = c.tensor("self")
    if "float" not in c.result.dtype:
        return x
    return c.emit("Mul", c.emit("Sign", x), c.emit("Floor", c.emit("Abs", x)))


@translates("aten.atan2")
def atan2(c: Operation) -> str:
    """Translate aten.atan2 to the angle of the point ``(x, y)``."""
    dtype = c.result.dtype
    return arc_tangent(c, *_operands(c, dtype), dtype)


def arc_tangent(c: Operation, y: str, x: str, dtype: str) -> str:
    """Return Atan(y / x), turned by half a turn where x is negative."""
    zero, half = c.constant(0, dtype), c.constant(np.pi, dtype)
    turned = c.emit("Where", _is_negative(c, y, dtype), c.emit("Neg", half), half)
    angle = c.emit("Atan", c.emit("Div", y, x))
    both = c.emit("And", c.emit("Equal", y, zero), c.emit("Equal", x, zero))
    angle = c.emit("Where", both, c.emit("Mul", y, c.emit("Sign", x)), angle)
    return c.emit("Add", angle, c.emit("Where", _is_negative(c, x, dtype), turned, zero))


def _is_negative(c: Operation, x: str, dtype: str) -> str:
    """Return whether floats are negative; -0.0 is, as its reciprocal shows."""
    zero = c.constant(0, dtype)
    return c.emit("Or", c.emit("Less", x, zero), c.emit("Less", c.emit("Reciprocal", x), zero))


@translates("aten.signbit")
def signbit(c: Operation) -> str:
    """Translate aten.signbit to comparisons with 0."""
    if "float" in c.signature("self").dtype:
        return _is_negative(c, c.tensor("self"), c.signature("self").dtype)
    return c.emit("Less", c.tensor("self"), c.constant(0, c.signature("self").dtype))


@translates("aten.copysign")
def copysign(c: Operation) -> str:
    """Translate aten.copysign to the magnitude of one operand with the sign of the other."""
    x, y = _operands(c)
    magnitude = c.emit("Abs", x)
    return c.emit("Where", _is_negative(c, y, c.result.dtype), c.emit("Neg", magnitude), magnitude)


@translates("aten.erfc")
def erfc(c: Operation) -> str:
    """Translate aten.erfc to 1 - Erf(x)."""
    return c.emit("Sub", c.constant(1, c.result.dtype), c.emit("Erf", c.tensor("self")))


@translates("aten.exp2")
def exp2(c: Operation) -> str:
    """Translate aten.exp2 to Pow(2, x)."""
    return c.emit("Pow", c.constant(2, c.result.dtype), c.tensor("self"))


@translates("aten.hypot")
def hypot(c: Operation) -> str:
    """Translate aten.hypot to the root of the sum of squares."""
    x, y = _operands(c)
    return c.emit("Sqrt", c.emit("Add", c.emit("Mul", x, x), c.emit("Mul", y, y)))


@translates("aten.__lshift__", "aten.__rshift__", "aten.bitwise_left_shift",
            "aten.bitwise_right_shift")  # fmt: skip
def shift(c: Operation) -> str:
    """Translate a shift by a number of bits to a product, or a quotient rounded down."""
    bits = c.get("other")
    if type(bits) is not int or bits < 0:
        c.refuse(f"shifts by {bits!r:.60}", "a number of bits is supported")
    x, factor = c.tensor("self"), c.constant(1 << bits, c.result.dtype)
    if "left" in c.call.target or "lshift" in c.call.target:
        return c.emit("Mul", x, factor)
    return c.emit("Div", c.emit("Sub", x, c.emit("Mod", x, factor)), factor)


@translates("aten.square")
def square(c: Operation) -> str:
    """Translate aten.square to x * x."""
    return c.emit("Mul", c.tensor("self"), c.tensor("self"))


# Activations --------------------------------------------------------------------------------------


@translates("aten.relu6")
def relu6(c: Operation) -> str:
    """Translate aten.relu6 to Clip with the bounds 0 and 6."""
    dtype = c.result.dtype
    return c.emit("Clip", c.tensor("self"), c.constant(0, dtype), c.constant(6, dtype))


@translates("aten.hardtanh")
def hardtanh(c: Operation) -> str:
    """Translate aten.hardtanh to Clip with the bounds ``min_val`` and ``max_val``."""
    dtype = c.result.dtype
    low, high = c.scalar("min_val", dtype, -1), c.scalar("max_val", dtype, 1)
    return c.emit("Clip", c.tensor("self"), low, high)


@translates("aten.hardswish")
def hardswish(c: Operation) -> str:
    """Translate aten.hardswish to HardSwish."""
    return c.emit("HardSwish", c.tensor("self"))


@translates("aten.hardsigmoid")
def hardsigmoid(c: Operation) -> str:
    """Translate aten.hardsigmoid to HardSigmoid: max(0, min(1, x / 6 + 0.5))."""
    return c.emit("HardSigmoid", c.tensor("self"), alpha=1 / 6, beta=0.5)


@translates("aten.silu")
def silu(c: Operation) -> str:
    """Translate aten.silu to x * Sigmoid(x)."""
    x = c.tensor("self")
    return c.emit("Mul", x, c.emit("Sigmoid", x))


@translates("aten.glu")
def glu(c: Operation) -> str:
    """Translate aten.glu to a * Sigmoid(b), a and b the halves of the input along ``dim``."""
    halves = c.emit_many(
        "Split", [c.tensor("self")], 2, axis=c.axis("dim", default=-1), num_outputs=2
    )
    return c.emit("Mul", halves[0], c.emit("Sigmoid", halves[1]))


@translates("aten.gelu")
def gelu(c: Operation) -> str:
    """Translate aten.gelu to Gelu, exact (erf) or approximated by tanh."""
    return c.emit("Gelu", c.tensor("self"), approximate=c.get("approximate", "none"))


@translates("aten.leaky_relu")
def leaky_relu(c: Operation) -> str:
    """Translate aten.leaky_relu to LeakyRelu."""
    return c.emit("LeakyRelu", c.tensor("self"), alpha=float(c.get("negative_slope", 0.01)))


@translates("aten.rrelu")
def rrelu(c: Operation) -> str:
    """Translate aten.rrelu to LeakyRelu with the mean of the bounds of its slope.

    Raises :class:`~hilc.errors.UnsupportedError` in training mode.
    """
    if c.get("training", False):
        c.refuse("is in training", "export the module in evaluation mode (module.eval())")
    slope = (float(c.get("lower", 1 / 8)) + float(c.get("upper", 1 / 3))) / 2
    return c.emit("LeakyRelu", c.tensor("self"), alpha=slope)


@translates("aten.hardshrink", "aten.softshrink")
def shrink(c: Operation) -> str:
    """Translate aten.hardshrink and softshrink to Shrink; the latter moves towards 0 as well."""
    bound = float(c.get("lambd", 0.5))
    bias = bound if "softshrink" in c.call.target else 0.0
    return c.emit("Shrink", c.tensor("self"), lambd=bound, bias=bias)


@translates("aten.log_sigmoid")
def log_sigmoid(c: Operation) -> str:
    """Translate aten.log_sigmoid to -Softplus(-x)."""
    return c.emit("Neg", c.emit("Softplus", c.emit("Neg", c.tensor("self"))))


@translates("aten.elu")
def elu(c: Operation) -> str:
    """Translate aten.elu to Elu.

    Raises :class:`~hilc.errors.UnsupportedError` if ``scale`` or ``input_scale`` is not 1.
    """
    if c.get("scale", 1) != 1 or c.get("input_scale", 1) != 1:
        c.refuse("has a scale other than 1", "use elu, selu or celu without one")
    return c.emit("Elu", c.tensor("self"), alpha=float(c.get("alpha", 1)))


@translates("aten.selu")
def selu(c: Operation) -> str:
    """Translate aten.selu to Selu."""
    return c.emit("Selu", c.tensor("self"))


@translates("aten.celu")
def celu(c: Operation) -> str:
    """Translate aten.celu to Celu."""
    return c.emit("Celu", c.tensor("self"), alpha=float(c.get("alpha", 1)))


@translates("aten.softplus")
def softplus(c: Operation) -> str:
    """Translate aten.softplus to Softplus; PyTorch's is the identity above ``threshold / beta``."""
    beta, threshold = float(c.get("beta", 1)), float(c.get("threshold", 20))
    x, factor = c.tensor("self"), c.constant(beta, c.result.dtype)
    scaled = x if beta == 1 else c.emit("Mul", x, factor)
    made = c.emit("Softplus", scaled)
    made = made if beta == 1 else c.emit("Div", made, factor)
    if threshold >= 17:  # log(1 + exp(-17)) is below half a unit in the last place of 17
        return made
    return c.emit(
        "Where", c.emit("Greater", scaled, c.constant(threshold, c.result.dtype)), x, made
    )


@translates("aten.prelu", "aten._prelu_kernel")
def prelu(c: Operation) -> str:
    """Apply slopes that belong to the second axis."""
    slopes, rank = c.tensor("weight"), c.rank("self")
    count = int(np.prod(c.shape("weight")))
    if rank > 1 and count > 1:
        slopes = c.reshape(slopes, (count, *(1,) * (rank - 2)))
    return c.emit("PRelu", c.tensor("self"), slopes)


@translates("aten.threshold")
def threshold(c: Operation) -> str:
    """Translate aten.threshold to Where(x > threshold, x, value)."""
    dtype, x = c.result.dtype, c.tensor("self")
    above = c.emit("Greater", x, c.scalar("threshold", dtype))
    return c.emit("Where", above, x, c.scalar("value", dtype))


@translates("aten.clamp", "aten.clamp_min", "aten.clamp_max", "aten.clip")
def clamp(c: Operation) -> str:
    """Translate aten.clamp, clamp_min, clamp_max and clip to Max and Min, for the bounds given."""
    dtype = c.result.dtype
    x = c.cast(c.tensor("self"), c.signature("self").dtype, dtype)
    if c.has("min"):
        x = c.emit("Max", x, _operand(c, "min", dtype))
    if c.has("max"):
        x = c.emit("Min", x, _operand(c, "max", dtype))
    return x


# Two operands -------------------------------------------------------------------------------------


def _operand(c: Operation, name: str, dtype: str) -> str:
    """Return an operand, a tensor or a number, as an element of the type ``dtype``."""
    value = c.get(name)
    if isinstance(value, Ref):
        return c.cast(c.named(value), c.signature_of(value).dtype, dtype)
    return c.scalar(name, dtype)


def _operands(c: Operation, dtype: str | None = None) -> tuple[str, str]:
    common = dtype or c.result.dtype
    return _operand(c, "self", common), _operand(c, "other", common)


def _common(c: Operation) -> str:
    """Return the type in which PyTorch compares two operands."""
    types = []
    for name in ("self", "other"):
        value = c.get(name)
        if isinstance(value, Ref):
            types.append(c.signature_of(value).dtype)
    own = types[0]
    if len(types) == 2:
        return str(np.result_type(*types)) if own != types[1] else own
    widens = isinstance(c.get("other"), float) and not ELEMENT_TYPES[own].is_real
    return "float32" if widens else own


@translates("aten.add", "aten.sub", "aten.rsub")
def add(c: Operation) -> str:
    """``self ± alpha * other``; ``rsub`` exchanges the operands."""
    dtype = c.result.dtype
    x, y = _operands(c)
    if c.get("alpha", 1) != 1:
        scaled = x if "rsub" in c.call.target else y
        product = c.emit("Mul", scaled, c.scalar("alpha", dtype))
        x, y = (product, y) if "rsub" in c.call.target else (x, product)
    if "rsub" in c.call.target:
        x, y = y, x
    return c.emit("Add" if ".add" in c.call.target else "Sub", x, y)


@translates("aten.mul")
def mul(c: Operation) -> str:
    """Translate aten.mul to Mul, or to And of bools."""
    if c.result.dtype == "bool":
        return c.emit("And", *_operands(c))
    return c.emit("Mul", *_operands(c))


@translates("aten.div", "aten.true_divide", "aten.floor_divide")
def div(c: Operation) -> str:
    """Translate aten.div, true_divide and floor_divide to Div, rounded by ``rounding_mode``.

    Integer division truncates in ONNX; the floor of integers subtracts the remainder first.
    """
    mode = "floor" if "floor_divide" in c.call.target else c.get("rounding_mode")
    dtype = c.result.dtype
    x, y = _operands(c)
    if mode is None or (mode == "trunc" and "float" not in dtype):
        return c.emit("Div", x, y)
    if "float" not in dtype:
        # ONNX divides towards zero; where a remainder is negative for a positive divisor, or the
        # other way round, the floor is one less. Mod has the divisor's sign.
        return c.emit("Div", c.emit("Sub", x, c.emit("Mod", x, y)), y)
    quotient = c.emit("Div", x, y)
    if mode == "floor":
        return c.emit("Floor", quotient)
    sign = c.emit("Sign", quotient)
    return c.emit("Mul", sign, c.emit("Floor", c.emit("Abs", quotient)))


@translates("aten.remainder", "aten.fmod")
def remainder(c: Operation) -> str:
    """``remainder`` has the divisor's sign, ``fmod`` the dividend's."""
    x, y = _operands(c)
    if "fmod" in c.call.target:
        return c.emit("Mod", x, y, fmod=1)
    if "float" not in c.result.dtype:
        return c.emit("Mod", x, y)
    return c.emit("Sub", x, c.emit("Mul", c.emit("Floor", c.emit("Div", x, y)), y))


@translates("aten.pow")
def pow_(c: Operation) -> str:
    """Translate aten.pow to Pow; an exponent of 2 to a multiplication."""
    dtype = c.result.dtype
    if c.get("exponent") in (2, 2.0):
        x = _operand(c, "self", dtype)
        return c.emit("Mul", x, x)
    return c.emit("Pow", _operand(c, "self", dtype), _operand(c, "exponent", dtype))


@translates("aten.maximum", "aten.minimum")
def maximum(c: Operation) -> str:
    """Translate aten.maximum and minimum to Max and Min."""
    return c.emit("Max" if "max" in c.call.target else "Min", *_operands(c))


@translates(*(f"aten.{name}" for name in _COMPARISONS))
def comparison(c: Operation) -> str:
    """Translate aten.eq, ge, gt, le and lt to ONNX's comparison on operands of one type."""
    return c.emit(_COMPARISONS[c.call.target.split(".")[1]], *_operands(c, _common(c)))


@translates("aten.ne")
def ne(c: Operation) -> str:
    """Translate aten.ne to Not(Equal)."""
    return c.emit("Not", c.emit("Equal", *_operands(c, _common(c))))


@translates("aten.logical_and", "aten.logical_or", "aten.logical_xor")
def logical(c: Operation) -> str:
    """Translate aten.logical_and, logical_or and logical_xor to And, Or and Xor of bools."""
    name = c.call.target.split(".")[1].removeprefix("logical_").capitalize()
    return c.emit(name, *_operands(c, "bool"))


@translates("aten.bitwise_and", "aten.bitwise_or", "aten.bitwise_xor", "aten.__and__",
            "aten.__or__", "aten.__xor__")  # fmt: skip
def bitwise(c: Operation) -> str:
    """Translate aten.bitwise_and, _or and _xor to BitwiseAnd, BitwiseOr and BitwiseXor.

    Bools become And, Or and Xor.
    """
    name = c.call.target.split(".")[1].removeprefix("bitwise_").strip("_").capitalize()
    prefix = "" if c.result.dtype == "bool" else "Bitwise"
    return c.emit(prefix + name, *_operands(c))


@translates("aten.where")
def where(c: Operation) -> str:
    """Translate aten.where to Where."""
    return c.emit("Where", c.tensor("condition"), *_operands(c))


@translates("aten.masked_fill")
def masked_fill(c: Operation) -> str:
    """Translate aten.masked_fill to Where(mask, value, x)."""
    value = _operand(c, "value", c.result.dtype)
    return c.emit("Where", c.tensor("mask"), value, c.tensor("self"))


@translates("aten.lerp")
def lerp(c: Operation) -> str:
    """Translate aten.lerp to x + weight * (end - x)."""
    x, end = c.tensor("self"), c.tensor("end")
    weight = _operand(c, "weight", c.result.dtype)
    return c.emit("Add", x, c.emit("Mul", weight, c.emit("Sub", end, x)))


@translates("aten.addcmul")
def addcmul(c: Operation) -> str:
    """Translate aten.addcmul to x + value * tensor1 * tensor2."""
    product = c.emit("Mul", c.tensor("tensor1"), c.tensor("tensor2"))
    if c.get("value", 1) != 1:
        product = c.emit("Mul", product, c.scalar("value", c.result.dtype))
    return c.emit("Add", c.tensor("self"), product)


# Types --------------------------------------------------------------------------------------------

_PASSED_ON = (
    "_conj", "_conj_physical", "alias", "alpha_dropout", "clone", "conj", "conj_physical",
    "contiguous", "detach", "dropout", "feature_dropout", "lift_fresh", "lift_fresh_copy",
    "native_dropout", "real", "resolve_conj", "resolve_neg",
)  # fmt: skip


@translates(*(f"aten.{name}" for name in _PASSED_ON))
def passed_on(c: Operation) -> str:
    """Return the operand of an operator that is an identity at inference (:data:`_PASSED_ON`).

    Raises :class:`~hilc.errors.UnsupportedError` for dropout in training mode.
    """
    if "dropout" in c.call.target and c.get("train", False):
        c.refuse("is in training", "export the module in evaluation mode (module.eval())")
    return c.tensor("input" if c.has("input") else "self")


@translates("aten.to", "aten._to_copy", "aten.type_as")
def to(c: Operation) -> str:
    """Translate aten.to, _to_copy and type_as to Cast to the result's type."""
    return c.cast(c.tensor("self"), c.signature("self").dtype, c.result.dtype)
