"""Reductions, running sums and orders."""

from __future__ import annotations

import numpy as np

from hilc.frontends.pt2.model import Operation, Outputs, translates

_REDUCTIONS = {
    "amax": "ReduceMax", "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp", "mean": "ReduceMean",
    "prod": "ReduceProd", "sum": "ReduceSum",
}  # fmt: skip


@translates(*(f"aten.{name}" for name in _REDUCTIONS))
def reduction(c: Operation) -> str:
    """Translate a reduction (:data:`_REDUCTIONS`); the input is cast to the result's type."""
    kind = _REDUCTIONS[c.call.target.split(".")[1]]
    x = c.cast(c.tensor("self"), c.signature("self").dtype, c.result.dtype)
    return _reduced(c, kind, x)


def _reduced(c: Operation, kind: str, x: str) -> str:
    keep = int(c.get("keepdim", False))
    return c.emit(kind, x, c.integers(c.axes("dim")), keepdims=keep)


@translates("aten.any", "aten.all")
def any_(c: Operation) -> str:
    """Translate a reduction of bools to a maximum or minimum of integers."""
    x = c.cast(c.tensor("self"), c.signature("self").dtype, "bool")
    y = _reduced(
        c, "ReduceMax" if ".any" in c.call.target else "ReduceMin", c.cast(x, "bool", "int32")
    )
    return c.cast(y, "int32", "bool")


@translates("aten.max", "aten.min")
def max_(c: Operation) -> Outputs:
    """Of two tensors, of a whole tensor, or along an axis with the place of the value."""
    kind = "Max" if ".max" in c.call.target else "Min"
    if c.has("other"):
        return c.emit(kind, c.tensor("self"), c.tensor("other"))
    y = _reduced(c, f"Reduce{kind}", c.tensor("self"))
    if not c.has("dim"):
        return y
    places = c.emit(
        f"Arg{kind}", c.tensor("self"), axis=c.axis("dim"), keepdims=int(c.get("keepdim", False))
    )
    return [y, places]


@translates("aten.argmax", "aten.argmin")
def argmax(c: Operation) -> str:
    """Translate aten.argmax and argmin to ArgMax and ArgMin, without ``dim`` over all elements."""
    kind = "ArgMax" if "argmax" in c.call.target else "ArgMin"
    if c.has("dim"):
        keep = int(c.get("keepdim", False))
        return c.emit(kind, c.tensor("self"), axis=c.axis("dim"), keepdims=keep)
    flat = c.reshape(c.tensor("self"), (int(np.prod(c.shape("self"))),))
    return c.reshape(c.emit(kind, flat, axis=0, keepdims=0), c.result_shape)


@translates("aten.var", "aten.std", "aten.var_mean", "aten.std_mean")
def var(c: Operation) -> Outputs:
    """Average the squares of distances from the mean, with Bessel's correction by default."""
    x, axes = c.tensor("self"), c.axes("dim")
    count = int(np.prod([c.shape("self")[axis] for axis in axes]))
    correction = c.get("correction", 1 if c.get("unbiased", True) else 0)
    mean = c.emit("ReduceMean", x, c.integers(axes), keepdims=1)
    distance = c.emit("Sub", x, mean)
    squares = _reduced(c, "ReduceSum", c.emit("Mul", distance, distance))
    variance = c.emit("Div", squares, c.constant(max(0, count - correction), "float32"))
    if ".std" in c.call.target:
        variance = c.emit("Sqrt", variance)
    if "_mean" in c.call.target:
        return [variance, c.reshape(mean, tuple(map(int, c.results[1].shape)))]
    return variance


@translates("aten.linalg_vector_norm", "aten.norm")
def norm(c: Operation) -> str:
    """Translate aten.linalg_vector_norm and norm to ReduceL1, ReduceL2, or a sum of powers.

    The infinite orders are the largest and the smallest magnitude, 0 counts what is not 0.
    """
    order, x = float(c.get("ord" if c.has("ord") else "p", 2)), c.tensor("self")
    if order in (1, 2):
        return _reduced(c, f"ReduceL{int(order)}", x)
    dtype = c.result.dtype
    if order == 0:
        # A NaN is not 0.
        some = c.emit("Not", c.emit("Equal", x, c.constant(0, dtype)))
        return _reduced(c, "ReduceSum", c.cast(some, "bool", dtype))
    magnitude = c.emit("Abs", x)
    if np.isinf(order):
        return _reduced(c, "ReduceMax" if order > 0 else "ReduceMin", magnitude)
    powers = c.emit("Pow", magnitude, c.constant(order, dtype))
    return c.emit("Pow", _reduced(c, "ReduceSum", powers), c.constant(1 / order, dtype))


@translates("aten.cumsum")
def cumsum(c: Operation) -> str:
    """Translate aten.cumsum to CumSum."""
    x = c.cast(c.tensor("self"), c.signature("self").dtype, c.result.dtype)
    return c.emit("CumSum", x, c.constant(c.axis("dim"), "int64"))


@translates("aten.cumprod")
def cumprod(c: Operation) -> str:
    """Multiply by the tensor moved along the axis by 1, 2, 4, ... entries."""
    y = c.cast(c.tensor("self"), c.signature("self").dtype, c.result.dtype)
    shape = c.result_shape
    if not shape:
        return y
    axis = c.axis("dim")
    step = 1
    while step < shape[axis]:
        ones = np.ones((*shape[:axis], step, *shape[axis + 1 :]), c.result.dtype)
        ends = c.integers([shape[axis] - step])
        moved = c.emit("Slice", y, c.integers([0]), ends, c.integers([axis]))
        y = c.emit("Mul", y, c.emit("Concat", c.constant(ones), moved, axis=axis))
        step *= 2
    return y


@translates("aten.cummax", "aten.cummin")
def cummax(c: Operation) -> Outputs:
    """Compare with the tensor moved along the axis by 1, 2, 4, ... entries; return the values and
    their places. A NaN stays, and of equal values the last one counts, as in PyTorch.
    """
    values, shape, dtype = c.tensor("self"), c.result_shape, c.result.dtype
    if not shape:
        return [values, c.constant(0, "int64")]
    axis, is_real = c.axis("dim"), "float" in dtype
    along = [1] * len(shape)
    along[axis] = shape[axis]
    places = c.constant(np.broadcast_to(np.arange(shape[axis]).reshape(along), shape), "int64")
    before = "Greater" if "cummax" in c.call.target else "Less"
    step = 1
    while step < shape[axis]:
        # The first entries are compared with themselves.
        indices = c.integers([max(0, i - step) for i in range(shape[axis])])
        moved, others = (c.emit("Gather", x, indices, axis=axis) for x in (values, places))
        better = c.emit(before, moved, values)
        if is_real:
            some = c.emit("And", c.emit("IsNaN", moved), c.emit("Not", c.emit("IsNaN", values)))
            better = c.emit("Or", better, some)
        values = c.emit("Where", better, moved, values)
        places = c.emit("Where", better, others, places)
        step *= 2
    return [values, places]


@translates("aten.logcumsumexp")
def logcumsumexp(c: Operation) -> str:
    """Translate aten.logcumsumexp to the logarithm of running sums, less the largest value."""
    x, axis = c.tensor("self"), c.axis("dim")
    largest = c.emit("ReduceMax", x, c.integers([axis]), keepdims=1)
    powers = c.emit("Exp", c.emit("Sub", x, largest))
    total = c.emit("CumSum", powers, c.constant(axis, "int64"))
    return c.emit("Add", c.emit("Log", total), largest)


@translates("aten.histc")
def histc(c: Operation) -> str:
    """Translate aten.histc to counts of the entries in each interval; the last has its end.

    Raises :class:`~hilc.errors.UnsupportedError` without bounds: PyTorch takes those of the values.
    """
    low, high, count = float(c.get("min", 0)), float(c.get("max", 0)), c.get("bins", 100)
    if not low < high:
        c.refuse(f"has the bounds {low:g} and {high:g}", "state min and max, min below max")
    dtype, size = c.result.dtype, int(np.prod(c.shape("self")))
    x = c.reshape(c.tensor("self"), (size, 1))
    steps = c.emit("Div", c.emit("Sub", x, c.constant(low, dtype)), c.constant(high - low, dtype))
    steps = c.emit("Floor", c.emit("Mul", steps, c.constant(count, dtype)))
    is_last = c.emit("Equal", x, c.constant(high, dtype))
    steps = c.emit("Where", is_last, c.constant(count - 1, dtype), steps)
    found = c.emit("Equal", steps, c.constant(np.arange(count).reshape(1, count), dtype))
    return c.emit("ReduceSum", c.cast(found, "bool", dtype), c.integers([0]), keepdims=0)


@translates("aten.median", "aten.kthvalue")
def median(c: Operation) -> Outputs:
    """Return the k-th smallest entry along an axis and its place; the lower one of two medians.

    The median of a whole tensor has no place.
    """
    x, shape, axis = c.tensor("self"), c.shape("self"), 0
    if ".median.default" in c.call.target:
        shape = (int(np.prod(shape)),)
        x = c.reshape(x, shape)
    elif shape:
        axis = c.axis("dim", default=-1)
    else:
        x, shape = c.reshape(x, (1,)), (1,)
    count = c.get("k", (shape[axis] + 1) // 2)
    found = c.emit_many("TopK", [x, c.integers([count])], 2, axis=axis, largest=0)
    last = [c.emit("Gather", part, c.integers([count - 1]), axis=axis) for part in found]
    shaped = [c.reshape(part, c.result_shape) for part in last]
    return shaped[0] if ".median.default" in c.call.target else shaped


@translates("aten.topk")
def topk(c: Operation) -> Outputs:
    """Translate aten.topk to TopK; return the values and their indices."""
    axis = c.axis("dim", default=-1)
    return c.emit_many(
        "TopK", [c.tensor("self"), c.integers([c.get("k")])], 2,
        axis=axis, largest=int(c.get("largest", True)), sorted=int(c.get("sorted", True)),
    )  # fmt: skip


@translates("aten.sort", "aten.argsort")
def sort(c: Operation) -> Outputs:
    """Return the sorted entries and where they were; ``argsort`` the places alone."""
    both = _sorted(c)
    return both[1:] if "argsort" in c.call.target else both


def _sorted(c: Operation) -> list[str]:
    axis = c.axis("dim", default=-1)
    count = c.integers([c.shape("self")[axis]])
    return c.emit_many(
        "TopK", [c.tensor("self"), count], 2, axis=axis, largest=int(c.get("descending", False))
    )
