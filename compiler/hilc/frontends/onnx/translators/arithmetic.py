"""Arithmetic that translators of other families compose their operators of."""

from __future__ import annotations

from hilc.frontends.onnx.operation import Operation
from hilc.ir import Tensor
from hilc.ops.attributes import ActivationAttributes, ReductionAttributes

_PLAIN = ActivationAttributes()

#: An operand: a tensor, or a number of the type of the other operand.
Operand = Tensor | float


def add(n: Operation, a: Operand, b: Operand) -> Tensor:
    """Return the sum a + b; one operand may be a constant."""
    return _of_two(n, "ADD", a, b)


def subtract(n: Operation, a: Operand, b: Operand) -> Tensor:
    """Return the difference a - b; one operand may be a constant."""
    return _of_two(n, "SUB", a, b)


def multiply(n: Operation, a: Operand, b: Operand) -> Tensor:
    """Return the product a * b; one operand may be a constant."""
    return _of_two(n, "MUL", a, b)


def divide(n: Operation, a: Operand, b: Operand) -> Tensor:
    """Return the quotient a / b; one operand may be a constant."""
    return _of_two(n, "DIV", a, b)


def _of_two(n: Operation, op: str, a: Operand, b: Operand) -> Tensor:
    if isinstance(a, Tensor):
        return n.emit(op, a, b if isinstance(b, Tensor) else n.constant(b, a.dtype), attrs=_PLAIN)
    assert isinstance(b, Tensor)
    return n.emit(op, n.constant(a, b.dtype), b, attrs=_PLAIN)


def summed(n: Operation, x: Tensor, axis: int, keep: bool = False) -> Tensor:
    """Return the sums along an axis."""
    return along(n, "SUM", x, axis, keep)


def along(n: Operation, op: str, x: Tensor, axis: int, keep: bool = False) -> Tensor:
    """Return a reduction along an axis."""
    attrs = ReductionAttributes(keep_dims=keep)
    return n.emit(op, x, n.constant([axis], "int32"), attrs=attrs)
