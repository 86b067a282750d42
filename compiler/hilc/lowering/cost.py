"""What a kernel is expected to cost, before anything is built.

A kernel's header states its instructions as a formula of the layer's parameters (``cost``), with
numbers that were fitted to counts on emulated boards (``ci/costs.py``), and the bytes of its code
(``code``). The formula counts instructions on the cores that the kernel is for; where that is every
core, on Armv7-M, and ``cost_factors`` says how much more or less it takes on other architectures.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import FieldValue, Kernel, KernelCall
from hilc.target import Cpu

#: Calling a layer's function and returning from it, with the arguments.
CALL_INSTRUCTIONS = 12
#: For a kernel whose header has no formula: a multiply-accumulate, by what it asks of a core.
_INSTRUCTIONS_A_MAC = {"mve": 0.4, "dsp": 1.5, "mul32": 2.5}
_PORTABLE_INSTRUCTIONS_A_MAC = 8.0
_CODE_BYTES = 600

_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


def instructions(call: KernelCall, cpu: Cpu) -> int:
    """The instructions that ``call`` is expected to take on ``cpu``."""
    kernel = call.kernel
    if kernel.cost is None:
        known = (_INSTRUCTIONS_A_MAC[name] for name in kernel.requires & _INSTRUCTIONS_A_MAC.keys())
        return round(min(known, default=_PORTABLE_INSTRUCTIONS_A_MAC) * call.macs)
    factor = next(
        (kernel.cost_factors[key] for key in (cpu.arch, cpu.isa) if key in kernel.cost_factors), 1.0
    )
    return CALL_INSTRUCTIONS + round(factor * max(0.0, value(kernel.cost, call.fields)))


def code_bytes(kernel: Kernel) -> int:
    """The bytes of the kernel's code for one layer, without its constants."""
    return _CODE_BYTES if kernel.code is None else kernel.code


def constant_arrays(call: KernelCall) -> Iterator[Array]:
    """The arrays that ``call`` keeps in flash."""
    return (field for field in call.fields.values() if isinstance(field, np.ndarray))


def value(formula: str, fields: Mapping[str, FieldValue]) -> float:
    """The value of a formula over the numbers among ``fields``.

    It knows ``+ - * / // %``, comparisons (0 or 1), ``min`` and ``max``; ValueError for anything
    else.
    """
    return _compiled(formula)(fields)


def terms(formula: str) -> list[ast.expr]:
    """The summands of a formula, in its order."""
    pending, found = [_parsed(formula)], list[ast.expr]()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        else:
            found.append(node)
    return found


def unparsed(term: ast.expr) -> str:
    """The text of a summand."""
    return ast.unparse(term)


@functools.cache
def _parsed(formula: str) -> ast.expr:
    # A header breaks a long formula into lines.
    return ast.parse(" ".join(formula.split()), mode="eval").body


_Fields = Mapping[str, FieldValue]


@functools.cache
def _compiled(formula: str) -> Callable[[_Fields], float]:
    """The formula as a function: thousands of bands of layers are asked for what they cost."""
    return _function(_parsed(formula))


def _function(node: ast.expr) -> Callable[[_Fields], float]:
    match node:
        case ast.Constant(value=int(number) | float(number)):
            return lambda fields: number
        case ast.Name(id=name):
            return lambda fields: _number(name, fields.get(name))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            operand = _function(inner)
            return lambda fields: -operand(fields)
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ) if type(op) in _OPERATORS:
            apply, a, b = _OPERATORS[type(op)], _function(left), _function(right)
            return lambda fields: float(apply(a(fields), b(fields)))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            choose, values = _FUNCTIONS[name], [_function(arg) for arg in args]
            return lambda fields: choose(*[value(fields) for value in values])
    raise ValueError(f"a cost cannot have {ast.unparse(node)}")


def _number(name: str, found: FieldValue | None) -> float:
    if not isinstance(found, int | float | np.integer):
        raise ValueError(f"a cost cannot have {name}")
    return float(found)
