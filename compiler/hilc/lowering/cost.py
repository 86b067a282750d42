"""Cost estimates of kernels, before anything is built.

A kernel's header names what takes time, its terms, each with a formula of the layer's parameters
and of the terms above it::

    [cost]
    block = "(rows // 2) * (columns // 4)"     # two rows by four columns
    mac = "block * depth"

A table for each core (:mod:`hilc.lowering.cost_tables`) states how many instructions each of them
takes there::

    hil_generic_matmul_s8 = {call = 21, block = 82.55, mac = 15.93}

``call`` is counted once. The figures of a core hold for all cores of its architecture; those of the
first core, Cortex-M3's where it has some, for every core without. A ``factor`` is a multiple of the
first's. ``shared`` has the figures of code that layers of other numbers share, which reads these
from memory (:mod:`hilc.lowering.bodies`); its ``factor`` is a multiple of the core's own figures.
``tools/costs.py`` fits the figures to counts on emulated boards, and measures how far the estimates
are off.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hilc.target import Cpu, get_cpu

#: Calling a layer's function and returning from it, with the arguments.
CALL_INSTRUCTIONS = 12
#: The count that every kernel has: one.
CALL = "call"
#: Stands in place of figures that are a multiple of the first core's.
FACTOR = "factor"

#: Names of the fields that a formula needs, and the formula as a function of them.
_Function = tuple[tuple[str, ...], Callable[..., float]]

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
)
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}


@dataclass(frozen=True)
class Cost:
    """Instructions of a kernel; ValueError if figures and terms do not fit.

    ``on`` has, by core, the instructions of each term, or a ``factor``; ``counts`` the formula of
    each term; ``shared``, by core, the same as ``on`` for code that layers share, which takes as
    much as other code where nothing is stated.
    """

    on: Mapping[str, Mapping[str, float]] = field(hash=False)
    counts: Mapping[str, str] = field(default_factory=dict, hash=False)
    shared: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.on or FACTOR in next(iter(self.on.values())):
            raise ValueError("a cost needs the figures of a core, not factors alone")
        for core, figures in (*self.on.items(), *self.shared.items()):
            known = {FACTOR} if FACTOR in figures else {CALL, *self.counts}
            if unknown := figures.keys() - known:
                raise ValueError(f"[cost] has no {sorted(unknown)}, which {core} has")
            if idle := [name for name, each in figures.items() if not each > 0]:
                raise ValueError(f"{idle} take nothing on {core}: leave them out")
        for formula in self.counts.values():
            set(_names(_parsed(formula)))

    def core_of(self, cpu: Cpu) -> str:
        """Return the core whose figures apply to ``cpu``: one of its architecture, else of its
        instruction set, else the first. Figures of a core that computes floats by instructions do
        not apply to one that calls functions for them, which take ten to twenty times as many.
        """
        cores = {name: get_cpu(name) for name in self.on}
        if "fpu" not in cpu.features:
            # A kernel that requires one is on no other core.
            cores = {n: core for n, core in cores.items() if "fpu" not in core.features} or cores
        alike = [name for name, core in cores.items() if core.arch == cpu.arch]
        alike += [name for name, core in cores.items() if core.isa == cpu.isa]
        return next(iter([*alike, *cores]))

    def figures(self, core: str, *, shared: bool = False) -> Mapping[str, float]:
        """Instructions that each of the counts takes on a core of :attr:`on`, in code that layers
        share or in code of a layer's own.
        """
        own = _resolved(self.on[core], next(iter(self.on.values())))
        return _resolved(self.shared[core], own) if shared and core in self.shared else own

    def instructions(self, fields: Mapping[str, Any], cpu: Cpu, *, shared: bool = False) -> int:
        """Return the instructions of a call with these parameters, the call itself included, in
        code that layers of other numbers share or in code of its own.
        """
        names, function = self._compiled(cpu, shared)
        total = function(*[_number(name, fields.get(name)) for name in names])
        return CALL_INSTRUCTIONS + round(max(0.0, float(total)))

    def counted(self, fields: Mapping[str, Any]) -> dict[str, float]:
        """Return the value of each count."""
        found = {CALL: 1.0}
        for name, formula in self.counts.items():
            found[name] = value(formula, {**fields, **found})
        return found

    @functools.cached_property
    def _functions(self) -> dict[tuple[str, str, bool, bool], _Function]:
        return {}

    def _compiled(self, cpu: Cpu, shared: bool) -> _Function:
        """Return the sum as a function of the fields that it names, with these names.

        Thousands of bands of layers are asked for what they cost.
        """
        key = cpu.arch, cpu.isa, "fpu" in cpu.features, shared
        if key not in self._functions:
            figures = self.figures(self.core_of(cpu), shared=shared)
            terms = [f"{each!r} * {n}" if n != CALL else repr(each) for n, each in figures.items()]
            self._functions[key] = _function(self.counts, " + ".join(terms))
        return self._functions[key]


def _resolved(stated: Mapping[str, float], of: Mapping[str, float]) -> Mapping[str, float]:
    """Return the figures that a table states; a ``factor`` is a multiple of others."""
    return {n: stated[FACTOR] * each for n, each in of.items()} if FACTOR in stated else stated


def value(formula: str, fields: Mapping[str, Any]) -> float:
    """Return the value of a formula over the numbers among ``fields``.

    It knows ``+ - * / // %``, comparisons (0 or 1), ``min`` and ``max``; ValueError for anything
    else.
    """
    names, function = _formula(formula)
    return float(function(*[_number(name, fields.get(name)) for name in names]))


@functools.cache
def _formula(formula: str) -> _Function:
    return _function({}, formula)


@functools.cache
def _parsed(formula: str) -> ast.expr:
    # A header breaks a long formula into lines.
    return ast.parse(" ".join(formula.split()), mode="eval").body


def _function(counts: Mapping[str, str], result: str) -> _Function:
    """Return ``result`` as a function of the fields that it and ``counts`` name."""
    names: dict[str, None] = {}
    lines = []
    for name, formula in counts.items():
        names |= dict.fromkeys(n for n in _names(_parsed(formula)) if n not in counts)
        lines.append(f"    {name} = {ast.unparse(_parsed(formula))}")
    names |= dict.fromkeys(n for n in _names(_parsed(result)) if n not in counts)
    body = [*lines, f"    return {ast.unparse(_parsed(result))}"]
    text = "\n".join([f"def total({', '.join(names)}):", *body])
    found: dict[str, Any] = {"__builtins__": {}, **_FUNCTIONS}
    exec(compile(text, "<cost>", "exec"), found)
    return tuple(names), found["total"]


def _names(node: ast.expr) -> Iterator[str]:
    """Return the fields that a formula names; ValueError unless it is one."""
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


def _number(name: str, found: object) -> float:
    if not isinstance(found, int | float | np.integer):
        raise ValueError(f"a cost cannot have {name}")
    return float(found)
