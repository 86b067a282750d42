"""Arithmetic in double precision, which ONNX models alone have: DOUBLE_ADD, DOUBLE_EXP and others.

They do to float64 what the operators do to float32 whose names follow DOUBLE_; no activation is
fused into them. What is no number stays none, also in a maximum. DOUBLE_CAST is CAST from float64
or to it: floats are truncated towards zero and saturated, and what is no number becomes zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Attributes, Node, Tensor
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.cast import CASTABLE
from hilc.ops.mean import reduced_axes, reduced_shape
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import operand, require_counts, require_dtype, unsupported
from hilc.ops.traits import BroadcastRows, SameRows, channelwise

Doubles = npt.NDArray[np.float64]

PREFIX = "DOUBLE_"
_DOUBLE = ("float64",)


def _modulo(x: Doubles, y: Doubles) -> Doubles:
    """Return the remainder of the sign of the divisor."""
    rest = np.fmod(x, y)
    other_sign = (rest != 0) & ((y < 0) != (rest < 0))
    return np.where(other_sign, rest + y, rest)


#: Functions of two operands, in the order of ``enum hil_double_operation`` in
#: ``hil/kernels/generic/double.h``.
BINARY: Mapping[str, Callable[[Doubles, Doubles], Doubles]] = {
    "ADD": lambda x, y: x + y,
    "SUB": lambda x, y: x - y,
    "MUL": lambda x, y: x * y,
    "DIV": lambda x, y: x / y,
    "MAXIMUM": lambda x, y: np.where((x > y) | (x != x), x, y),
    "MINIMUM": lambda x, y: np.where((x < y) | (x != x), x, y),
    "FLOOR_MOD": _modulo,
    "POW": lambda x, y: np.power(x, y),
}
#: Comparisons, in the order of ``enum hil_double_comparison``; the others exchange the operands.
COMPARISONS: Mapping[str, Callable[[Doubles, Doubles], Array]] = {
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}
#: Functions of one operand, in the order of ``enum hil_double_function``.
FUNCTIONS: Mapping[str, Callable[[Doubles], Doubles]] = {
    "ABS": np.abs,
    "NEG": lambda x: -x,
    "SIGN": np.sign,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ROUND": np.rint,
    "SQRT": np.sqrt,
    "EXP": np.exp,
    "LOG": np.log,
    "SIN": np.sin,
    "COS": np.cos,
    "TANH": np.tanh,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "RELU": lambda x: np.where(x < 0, 0, x),
}
#: Reductions, in the order of ``enum hil_double_reduction``.
REDUCTIONS = ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")


@dataclass(frozen=True, kw_only=True)
class DoubleCastAttributes(Attributes):
    """Attributes of a cast to or from float64."""

    #: The type of the output.
    dtype: str


def _kind(node: Node) -> str:
    return node.op.removeprefix(PREFIX)


def _infer_two(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    a, b = operands_of_one_type(node, ins, _DOUBLE)
    dtype = "bool" if _kind(node) in COMPARISONS else "float64"
    return [(broadcast_shape(node, (a, b)), dtype)]


def _two(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, y = values
    assert x is not None
    assert y is not None
    with np.errstate(all="ignore"):
        return [np.asarray({**BINARY, **COMPARISONS}[_kind(node)](x, y))]


def _infer_one(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x = operand(node, ins, 0)
    require_dtype(node, x, _DOUBLE)
    return [(x.shape, "float64")]


def _one(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x = values[0]
    assert x is not None
    with np.errstate(all="ignore"):
        return [np.asarray(FUNCTIONS[_kind(node)](x), np.float64)]


def _infer_reduction(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    require_dtype(node, operand(node, ins, 0), _DOUBLE)
    return [(reduced_shape(node, ins), "float64")]


def _reduction(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    x, axes, shape = values[0], reduced_axes(node, ins), outs[0].shape
    assert x is not None
    # One number after another in memory order.
    moved = np.moveaxis(x, axes, range(len(axes))).reshape(x.size // outs[0].size, -1)
    with np.errstate(all="ignore"):
        match _kind(node):
            case "REDUCE_PROD":
                found = np.cumprod(moved, axis=0)[-1]
            case "REDUCE_MAX":
                found = np.max(moved, axis=0)
            case "REDUCE_MIN":
                found = np.min(moved, axis=0)
            case kind:
                found = np.cumsum(moved, axis=0)[-1]
                found = found / len(moved) if kind == "MEAN" else found
    return [np.asarray(found, np.float64).reshape(shape)]


def _infer_cast(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=1)
    x, target = operand(node, ins, 0), DoubleCastAttributes.of(node).dtype
    if (x.dtype == "float64") == (target == "float64") or not {x.dtype, target} <= {
        "float64",
        *CASTABLE,
    }:
        unsupported(
            node,
            f"casts {x.dtype} to {target} by way of float64",
            f"cast from float64, or to it: {', '.join(CASTABLE)}",
        )
    return [(x.shape, target)]


def _cast(
    node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor], values: Sequence[Array | None]
) -> list[Array]:
    target, x = ELEMENT_TYPES[DoubleCastAttributes.of(node).dtype], values[0]
    assert x is not None
    with np.errstate(all="ignore"):
        if target.is_real or target.name == "bool":
            return [x.astype(target.name)]
        low, high = target.bounds
        whole = np.trunc(np.where(np.isnan(x), 0, x))
        # The largest int64 is no double: what reaches 2^63 is stated, not converted.
        inside = np.clip(whole, low, np.nextafter(2.0**63, 0) if high > 2**53 else high)
        return [np.where(whole > inside, high, inside.astype(np.int64)).astype(target.name)]


_TWO = OpDef(_infer_two, _two, rows=BroadcastRows(), channel_groups=broadcast_channel_groups)
_ONE = OpDef(_infer_one, _one, rows=SameRows(), channel_groups=channelwise)

OPERATORS: Mapping[str, OpDef] = {
    **{f"{PREFIX}{kind}": _TWO for kind in (*BINARY, *COMPARISONS)},
    **{f"{PREFIX}{kind}": _ONE for kind in FUNCTIONS},
    **{
        f"{PREFIX}{kind}": OpDef(_infer_reduction, _reduction, attributes=ReductionAttributes)
        for kind in REDUCTIONS
    },
    f"{PREFIX}CAST": OpDef(_infer_cast, _cast, attributes=DoubleCastAttributes),
}
