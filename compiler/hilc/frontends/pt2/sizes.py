"""Sizes that an export left open, as numbers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.pt2.program import Signature

Number = int | float

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
#: Functions of sympy and PyTorch in expressions of sizes.
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "Add": lambda *terms: sum(terms),
    "Integer": int,
    "Mul": lambda *factors: prod(factors),
    "Max": max,
    "Min": min,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "PythonMod": operator.mod,
    "Mod": operator.mod,
    "GreaterThan": operator.ge,
    "StrictGreaterThan": operator.gt,
    "LessThan": operator.le,
    "StrictLessThan": operator.lt,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "And": lambda *terms: all(terms),
    "Or": lambda *terms: any(terms),
    "Not": operator.not_,
    "ToFloat": float,
    "FloatTrueDiv": operator.truediv,
    "IntTrueDiv": operator.truediv,
    "FloatPow": lambda base, exponent: math.pow(base, exponent),
    "OpaqueUnaryFn_sqrt": math.sqrt,
    "OpaqueUnaryFn_exp": math.exp,
    "OpaqueUnaryFn_log2": math.log2,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
}
_MAX_EXPRESSION = 1000
#: Larger sizes are none of a microcontroller's tensors, and make expressions slow.
_MAX_SIZE = 1 << 40


class Sizes:
    """Numbers for the open sizes of a program."""

    def __init__(self, open_sizes: Mapping[str, int], symbols: Mapping[str, Number | str]) -> None:
        self._open = open_sizes
        self._symbols = symbols

    def within(self, symbols: Mapping[str, Number | str]) -> Sizes:
        """Return the same open sizes with the symbolic numbers of another region."""
        return Sizes(self._open, symbols)

    def symbol(self, name: str) -> Number:
        """Return the number that a symbolic number of the program is.

        Raise :class:`~hilc.errors.UnsupportedError` if it is only known at run time.
        """
        if name not in self._symbols:
            raise UnsupportedError(
                f"the number {name!r} is only known at run time",
                "make it a constant before the export",
            )
        value = self._symbols[name]
        return self._evaluated(value) if isinstance(value, str) else value

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
        value = self._evaluated(size) if isinstance(size, str) else size
        if not isinstance(value, int):
            raise ModelError(f"the size {size!r:.60} is {value}, which is no integer")
        return value

    def _evaluated(self, text: str) -> Number:
        try:
            if len(text) > _MAX_EXPRESSION:
                raise ValueError
            return self._value(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, ArithmeticError, RecursionError, TypeError):
            raise ModelError(f"the size {text!r:.60} is no expression of open sizes") from None

    def _value(self, node: ast.expr) -> Number:
        result: Number
        match node:
            case ast.Constant(value=int(value) | float(value)):
                result = value
            case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(text))]):
                result = float(text)
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
        if not abs(result) <= _MAX_SIZE:
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
