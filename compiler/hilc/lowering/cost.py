"""What a kernel is expected to cost, before anything is built.

A kernel's header states its instructions as a formula of the layer's parameters (``cost``), with
numbers that were fitted to counts on emulated boards (``ci/costs.py``), and the bytes of its code
(``code``). The formula counts instructions on the cores that the kernel is for; where that is every
core, on Armv7-M, and ``cost_factors`` says how much more or less it takes on other architectures.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import FieldValue, Kernel, KernelCall
from hilc.target import Cpu

#: Calling a layer's function and returning from it, with the arguments.
CALL_INSTRUCTIONS = 12
#: Of a kernel whose header does not say it.
_CODE_BYTES = 600

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
)
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


def instructions(call: KernelCall, cpu: Cpu) -> int:
    """Return the instructions that ``call`` is expected to take on ``cpu``."""
    kernel = call.kernel
    factor = next(
        (kernel.cost_factors[key] for key in (cpu.arch, cpu.isa) if key in kernel.cost_factors), 1.0
    )
    return CALL_INSTRUCTIONS + round(factor * max(0.0, value(kernel.cost, call.fields)))


def code_bytes(kernel: Kernel) -> int:
    """Return the bytes of the kernel's code for one layer, without its constants."""
    return _CODE_BYTES if kernel.code is None else kernel.code


def constant_arrays(call: KernelCall) -> Iterator[Array]:
    """Return the arrays that ``call`` keeps in flash."""
    return (field for field in call.fields.values() if isinstance(field, np.ndarray))


def value(formula: str, fields: Mapping[str, FieldValue]) -> float:
    """Return the value of a formula over the numbers among ``fields``.

    It knows ``+ - * / // %``, comparisons (0 or 1), ``min`` and ``max``; ValueError for anything
    else.
    """
    names, function = _compiled(formula)
    return float(function(*[_number(name, fields.get(name)) for name in names]))


def terms(formula: str) -> list[ast.expr]:
    """Return the summands of a formula, in its order."""
    pending, found = [_parsed(formula)], list[ast.expr]()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        else:
            found.append(node)
    return found


def unparsed(term: ast.expr) -> str:
    """Return the text of a summand."""
    return ast.unparse(term)


@functools.cache
def _parsed(formula: str) -> ast.expr:
    # A header breaks a long formula into lines.
    return ast.parse(" ".join(formula.split()), mode="eval").body


@functools.cache
def _compiled(formula: str) -> tuple[tuple[str, ...], Callable[..., float]]:
    """Return the formula as a function of the fields that are named: thousands of bands of layers
    are asked for what they cost.
    """
    expression = _parsed(formula)
    names = tuple(dict.fromkeys(_names(expression)))
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    text = ast.Expression(ast.Lambda(arguments, expression))
    code = compile(ast.fix_missing_locations(text), "<cost>", "eval")
    return names, eval(code, {"__builtins__": {}, **_FUNCTIONS})


def _names(node: ast.expr) -> Iterator[str]:
    """Yield the fields that a formula names; ValueError unless it is one."""
    match node:
        case ast.Constant(value=int() | float()):
            return
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _names(inner)
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ) if isinstance(op, _OPERATORS):
            yield from _names(left)
            yield from _names(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            for arg in args:
                yield from _names(arg)
        case _:
            raise ValueError(f"a cost cannot have {ast.unparse(node)}")


def _number(name: str, found: FieldValue | None) -> float:
    if not isinstance(found, int | float | np.integer):
        raise ValueError(f"a cost cannot have {name}")
    return float(found)
