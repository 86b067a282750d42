"""Operators whose outputs are known when a model is compiled: constants and shapes."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.ir import Tensor


@translates("Constant")
def constant(n: Operation) -> Tensor:
    """Return the value of the one attribute that the node has."""
    value = n.array("value")
    if value is not None:
        return n.constant(value)
    if n.has_attribute("value_int"):
        return n.constant(n.integer("value_int"), "int64")
    if n.has_attribute("value_ints"):
        return n.constant(n.integers("value_ints"), "int64")
    if n.has_attribute("value_float"):
        return n.constant(n.number("value_float"), "float32")
    if n.has_attribute("value_floats"):
        return n.constant(n.numbers("value_floats"), "float32")
    n.refuse("holds a value that is no dense tensor of numbers", "only those are supported")


@translates("Shape")
def shape(n: Operation) -> Tensor:
    """Return the sizes of the axes from one to another."""
    sizes = n.input(0).shape
    end = n.integer("end") if n.has_attribute("end") else len(sizes)
    return n.constant(sizes[slice(n.integer("start", 0), end)], "int64")


@translates("Size")
def size(n: Operation) -> Tensor:
    """Translate Size to an int64 constant: the number of elements."""
    return n.constant(n.input(0).size, "int64")


@translates("ConstantOfShape")
def constant_of_shape(n: Operation) -> Tensor:
    """Translate ConstantOfShape to a constant; the shape must be known at compile time.

    Raises :class:`~hilc.errors.ModelError` if ``value`` has not exactly one element.
    """
    value = n.array("value")
    filler = np.zeros(1, np.float32) if value is None else value
    if filler.size != 1:
        n.invalid(f"has a value of {filler.size} elements", "one is accepted")
    made = n.known_ints(0, "the shape")
    n.check_size(made, filler.dtype.name)
    return n.constant(np.full(made, filler.reshape(()), filler.dtype))


@translates("Range")
def range_(n: Operation) -> Tensor:
    """Return the numbers from a first one in equal steps, which must be known: their count is a
    shape.
    """
    start, limit, delta = (n.known(i, "a bound of the range").reshape(()) for i in range(3))
    if not delta or not np.isfinite([start, limit, delta]).all():
        n.invalid(f"counts from {start} to {limit} in steps of {delta}")
    count = max(0, int(np.ceil((limit.astype(object) - start) / delta)))
    n.check_size((count,), start.dtype.name)
    # As ONNX defines it, each number by a product, in the range's own type.
    return n.constant((start + np.arange(count) * delta).astype(start.dtype))


@translates("EyeLike")
def eye_like(n: Operation) -> Tensor:
    """Translate EyeLike to a constant with ones on diagonal ``k``.

    Raises :class:`~hilc.errors.ModelError` if the input is not a matrix.
    """
    x = n.input(0)
    if len(x.shape) != 2:
        n.invalid(f"has an input of {len(x.shape)} dimensions, not 2")
    dtype = n.dtype("dtype") if n.has_attribute("dtype") else x.dtype
    n.check_size(x.shape, dtype)
    return n.constant(np.eye(*x.shape, k=n.integer("k", 0), dtype=dtype))
