"""Sizes that an export left open, as numbers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.pt2.program import Signature

_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
#: Functions of sympy and PyTorch in expressions of sizes.
_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "Add": lambda *terms: sum(terms),
    "Integer": int,
    "Mul": lambda *factors: prod(factors),
    "Max": max,
    "Min": min,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "PythonMod": operator.mod,
    "Mod": operator.mod,
}
_MAX_EXPRESSION = 1000
#: Larger sizes are none of a microcontroller's tensors, and make expressions slow.
_MAX_SIZE = 1 << 40


class Sizes:
    """Numbers for the open sizes of a program."""

    def __init__(self, open_sizes: Mapping[str, int], symbols: Mapping[str, int | str]) -> None:
        self._open = open_sizes
        self._symbols = symbols

    def symbol(self, name: str) -> int:
        """Return the number that a symbolic integer of the program is.

        Raise :class:`~hilc.errors.UnsupportedError` if it is only known at run time.
        """
        if name not in self._symbols:
            raise UnsupportedError(
                f"the integer {name!r} is only known at run time",
                "make it a constant before the export",
            )
        return self.number(self._symbols[name])

    def signature(self, signature: Signature) -> Signature:
        """Return a signature with every size replaced by a number."""
        return replace(signature, shape=tuple(map(self.number, signature.shape)))

    def is_known(self, size: int | str) -> bool:
        """Return whether a size depends on open sizes only, and not on values of tensors.

        Raise :class:`~hilc.errors.ModelError` for an invalid expression.
        """
        try:
            self.number(size)
        except UnsupportedError:
            return False
        return True

    def number(self, size: int | str) -> int:
        """Return a size, or the value of an expression of open sizes.

        Raise :class:`~hilc.errors.ModelError` for an invalid expression.
        """
        if isinstance(size, int):
            return size
        try:
            if len(size) > _MAX_EXPRESSION:
                raise ValueError
            value = self._value(ast.parse(size, mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, TypeError):
            raise ModelError(f"the size {size!r:.60} is no expression of open sizes") from None
        return value

    def _value(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                result = value
            case ast.Name(id=name):
                result = self._named(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                result = -self._value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                result = _BINARY[type(op)](self._value(left), self._value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
                result = _FUNCTIONS[name](*map(self._value, arguments))
            case _:
                raise ValueError
        if abs(result) > _MAX_SIZE:
            raise ValueError
        return result

    def _named(self, name: str) -> int:
        if name not in self._open:
            raise UnsupportedError(
                f"the size {name!r} is open and depends on the data",
                "export the module with fixed sizes",
            )
        return self._open[name]


def solve(signature: Signature, shape: tuple[int, ...]) -> dict[str, int] | None:
    """Return the open sizes of an input by the shape it is given; None where they do not agree.

    An open size of an input is a symbol alone; other expressions are checked later.
    """
    if len(shape) != len(signature.shape):
        return None
    found: dict[str, int] = {}
    for stated, size in zip(signature.shape, shape, strict=True):
        if isinstance(stated, int):
            if stated != size:
                return None
        elif stated.isidentifier() and found.setdefault(stated, size) != size:
            return None
    return found
