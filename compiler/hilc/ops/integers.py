"""Arithmetic, bits and comparisons of integers that stand for themselves, of every type.

They are ONNX's: INTEGER_ADD, INTEGER_DIV, INTEGER_XOR, INTEGER_LESS and their kind, of two tensors
of one type that are broadcast to one shape. What overflows wraps around; a quotient or remainder by
zero, which ONNX leaves open, is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array, Node, Tensor
from hilc.ops import permuting
from hilc.ops.broadcast import broadcast_channel_groups, broadcast_shape, operands_of_one_type
from hilc.ops.opdef import OpDef, Signature
from hilc.ops.operands import require_counts
from hilc.ops.traits import BroadcastRows

#: The types that the operators take: all integers.
DTYPES = tuple(
    name
    for name, row in ELEMENT_TYPES.items()
    if row.dl_kind in ("kDLInt", "kDLUInt") and name != "bool"
)


def _divided(x: Array, y: Array) -> Array:
    by = np.where(y == 0, 1, y).astype(y.dtype)
    quotient = _wrapped(x, by)
    return np.where(y == 0, 0, quotient)


def _wrapped(x: Array, by: Array) -> Array:
    """Return quotients truncated towards zero; the least number by -1 wraps around."""
    if x.dtype.kind == "u":
        return x // by
    least = ELEMENT_TYPES[x.dtype.name].bounds[0]
    overflows = (x == least) & (by == -1)
    safe = np.where(overflows, 1, by).astype(by.dtype)
    quotient = x // safe
    truncated = quotient + ((x % safe != 0) & ((x < 0) != (safe < 0)))
    return np.where(overflows, least, truncated)


def _divisor(y: Array) -> Array:
    """Return divisors, with 1 for those that leave no remainder, 0 among them."""
    none = (y == 0) | (y == -1) if y.dtype.kind == "i" else y == 0
    return np.where(none, 1, y).astype(y.dtype)


def _modulo(x: Array, y: Array) -> Array:
    rest: Array = np.mod(x, _divisor(y))
    return rest


def _fmod(x: Array, y: Array) -> Array:
    rest: Array = np.fmod(x, _divisor(y))
    return rest


def _power(x: Array, y: Array) -> Array:
    exponent = np.maximum(y, 0) if y.dtype.kind == "i" else y
    return np.where(y < 0, 0, np.power(x, exponent))


def _shifted_left(x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0).astype(y.dtype)), 0)


def _shifted_right(x: Array, y: Array) -> Array:
    """Return values shifted to the right; a shift by all bits leaves the sign."""
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    moved = np.right_shift(x, np.where(inside, y, 0).astype(y.dtype))
    return np.where(inside, moved, np.where(x < 0, -1, 0).astype(x.dtype))


_FUNCTIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "INTEGER_ADD": np.add,
    "INTEGER_SUB": np.subtract,
    "INTEGER_MUL": np.multiply,
    "INTEGER_DIV": _divided,
    "INTEGER_MOD": _modulo,
    "INTEGER_FMOD": _fmod,
    "INTEGER_MAX": np.maximum,
    "INTEGER_MIN": np.minimum,
    "INTEGER_POW": _power,
    "INTEGER_AND": np.bitwise_and,
    "INTEGER_OR": np.bitwise_or,
    "INTEGER_XOR": np.bitwise_xor,
    "INTEGER_SHIFT_LEFT": _shifted_left,
    "INTEGER_SHIFT_RIGHT": _shifted_right,
}
_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "INTEGER_EQUAL": np.equal,
    "INTEGER_LESS": np.less,
    "INTEGER_LESS_EQUAL": np.less_equal,
}
#: All operators, in the order of ``enum hil_integer_operation``.
NAMES = (*_FUNCTIONS, *_COMPARISONS)


def is_comparison(op: str) -> bool:
    """Return whether an operator's output is bool."""
    return op in _COMPARISONS


def _infer(node: Node, ins: Sequence[Tensor | None]) -> list[Signature]:
    require_counts(node, inputs=2)
    a, b = operands_of_one_type(node, ins, DTYPES)
    return [(broadcast_shape(node, (a, b)), "bool" if is_comparison(node.op) else a.dtype)]


def _reference(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    values: Sequence[Array | None],
) -> list[Array]:
    x, y = values
    assert x is not None
    assert y is not None
    if is_comparison(node.op):
        return [_COMPARISONS[node.op](x, y)]
    x, y = np.broadcast_arrays(x, y)
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[node.op](np.ascontiguousarray(x), np.ascontiguousarray(y))
    return [np.asarray(result).astype(x.dtype).reshape(outs[0].shape)]


INTEGER = OpDef(
    _infer,
    _reference,
    rows=BroadcastRows(),
    permuted=permuting.elements,
    channel_groups=broadcast_channel_groups,
)

OPERATORS: Mapping[str, OpDef] = dict.fromkeys(NAMES, INTEGER)
