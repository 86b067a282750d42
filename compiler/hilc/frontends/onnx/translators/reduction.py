"""Reductions along axes."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import ELEMENT_TYPES, Array, Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes
from hilc.ops.reduce import ArgAttributes

_SAME = {
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "SUM",
}
#: The first opset in which the axes are an operand.
_OPERAND_SINCE = {"ReduceSum": 13}


def axes_of(n: Operation) -> tuple[int, ...] | None:
    """Return the axes; None if the node is an identity."""
    rank = len(n.input(0).shape)
    if n.version < _OPERAND_SINCE.get(n.type, 18):
        given = n.integers("axes", ())
    else:
        given = n.known_ints(1, "the axes") if n.has(1) else ()
    if not given:
        return None if n.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({n.axis(axis, rank) for axis in given}))


def reduced(n: Operation, op: str, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return a reduction of a tensor along axes, which stay where the node says so."""
    keep = bool(n.integer("keepdims", 1))
    if not x.size and x.data is not None:
        return n.constant(_of_nothing(op, x.data, axes, keep))
    attrs = ReductionAttributes(keep_dims=keep)
    return n.emit(op, x, n.constant(axes, "int32"), attrs=attrs)


def _of_nothing(op: str, x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    """Return the reductions of no elements, as ONNX defines them."""
    if op in ("SUM", "REDUCE_PROD"):
        function = np.sum if op == "SUM" else np.prod
        return np.asarray(function(x, axis=axes, keepdims=keep, dtype=x.dtype))
    if x.dtype == np.bool_ or op == "MEAN":
        least: object = op == "REDUCE_MIN" if op != "MEAN" else np.nan
    elif x.dtype.kind == "f":
        least = np.inf if op == "REDUCE_MIN" else -np.inf
    else:
        least = ELEMENT_TYPES[x.dtype.name].bounds[op == "REDUCE_MIN"]
    shape = np.sum(x, axis=axes, keepdims=keep).shape
    return np.full(shape, least, x.dtype)


@translates(*_SAME)
def same(n: Operation) -> Tensor:
    """Translate ReduceMax, ReduceMean, ReduceMin, ReduceProd and ReduceSum (:data:`_SAME`)."""
    axes = axes_of(n)
    return n.input(0) if axes is None else reduced(n, _SAME[n.type], n.input(0), axes)


@translates("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare")
def of_sums(n: Operation) -> Tensor:
    """Translate ReduceL1, ReduceL2, ReduceLogSum and ReduceSumSquare to SUM and functions."""
    x, axes = n.input(0), axes_of(n)
    if n.type == "ReduceL1":
        x = n.emit("ABS", x)
    elif n.type != "ReduceLogSum":
        x = n.emit("MUL", x, x, attrs=ActivationAttributes())
    if axes is not None:
        x = reduced(n, "SUM", x, axes)
    if n.type == "ReduceL2":
        return n.emit("SQRT", x)
    return n.emit("LOG", x) if n.type == "ReduceLogSum" else x


@translates("ReduceLogSumExp")
def log_sum_exp(n: Operation) -> Tensor:
    """Compute ``log(sum(exp(x - m))) + m``; ``m`` is the largest element where that is finite.

    Doubles have room for the powers of what float32 reaches, and no operator for their maximum.
    """
    x, axes = n.input(0), axes_of(n)
    if axes is None:
        return x
    if x.dtype == "float64" or not x.size:
        return n.emit("LOG", reduced(n, "SUM", n.emit("EXP", x), axes))
    attrs = ReductionAttributes(keep_dims=True)
    largest = n.emit("REDUCE_MAX", x, n.constant(axes, "int32"), attrs=attrs)
    zero = n.constant(0, x.dtype)
    shift = n.emit("SELECT_V2", n.emit("IS_INFINITE", largest), zero, largest)
    powers = n.emit("EXP", n.emit("SUB", x, shift, attrs=ActivationAttributes()))
    sums = n.emit("SUM", powers, n.constant(axes, "int32"), attrs=attrs)
    found = n.emit("ADD", n.emit("LOG", sums), shift, attrs=ActivationAttributes())
    if n.integer("keepdims", 1):
        return found
    return n.reshape(found, [s for axis, s in enumerate(x.shape) if axis not in axes])


@translates("ArgMax", "ArgMin")
def arg(n: Operation) -> Tensor:
    """Translate ArgMax and ArgMin to int64 indices; ``select_last_index`` searches from the end."""
    x = n.input(0)
    axis = n.axis(n.integer("axis", 0), len(x.shape))
    op = "ARG_MAX" if n.type == "ArgMax" else "ARG_MIN"
    last = bool(n.integer("select_last_index", 0))
    if last:
        x = n.emit("REVERSE_V2", x, n.constant([axis], "int32"))
    found = n.emit(op, x, n.constant(axis, "int32"), attrs=ArgAttributes(dtype="int64"))
    if last:
        end = n.constant(x.shape[axis] - 1, "int64")
        found = n.emit("SUB", end, found, attrs=ActivationAttributes())
    if not n.integer("keepdims", 1):
        return found
    return n.reshape(found, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
