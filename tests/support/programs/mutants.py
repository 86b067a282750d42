"""Mutants of Python sources: small changes, one at a time, that a test should notice.

A mutant replaces the text of one expression or statement, so all other lines stay as they are.
What is left alone, because no behaviour hangs on it or because only words do: annotations,
docstrings, strings and f-strings, decorators, ``__repr__`` and the arguments of errors.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
#: Functions that take the same arguments and return something else.
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Keywords of zip and dataclass that check what holds anyway.
_CHECKS = frozenset({"strict", "frozen", "slots", "stacklevel"})
_WORDS = frozenset({"__repr__", "__str__"})


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: relative to the folder that was searched, with slashes.
        function: the qualified name of what it stands in; empty at the top of the module.
        source: the text of its first line, which tells it from others when lines move.
        change: what is replaced by what.
        nth: how many mutants of the same four values stand before it.
    """

    file: str
    function: str
    source: str
    change: str
    nth: int
    #: Where the change is, in bytes of the file, and what takes the place.
    span: tuple[int, int] = field(compare=False)
    text: str = field(compare=False)
    #: Its lines, from 1, and those of the statement, or of what stands before its block. Python
    #: runs a table of constants on the first line of the latter only.
    lines: range = field(compare=False)
    statement: range = field(compare=False)

    def __str__(self) -> str:
        place = f"{self.file}:{self.lines.start}" + (f" in {self.function}" * bool(self.function))
        again = f" ({self.nth + 1})" if self.nth else ""
        return f"{place}: {self.change}{again}: {self.source}"

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What stays the same when other lines of the file change."""
        return self.file, self.function, self.source, self.change, self.nth

    def apply(self, source: bytes) -> bytes:
        """Return the file's text with the change."""
        start, end = self.span
        return source[:start] + self.text.encode() + source[end:]


def mutants(folder: Path) -> list[Mutant]:
    """Return every mutant of the Python files below a folder, in the order of the sources."""
    found: list[Mutant] = []
    for path in sorted(folder.rglob("*.py")):
        found += of_source(path.read_bytes(), path.relative_to(folder).as_posix())
    return found


def of_source(source: bytes, file: str) -> list[Mutant]:
    """Return every mutant of one file that Python still compiles."""
    search = _Search(source, file)
    search.visit(ast.parse(source))
    counts: Counter[tuple[str, str, str, str, int]] = Counter()
    found = []
    for mutant in search.found:
        nth = counts[mutant.key]
        counts[mutant.key] += 1
        found.append(replace(mutant, nth=nth))
    return found


def sample(all_of_them: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return so many mutants, drawn by the seed; a change elsewhere in the files redraws few."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, mutant.key)).encode()).digest()

    return sorted(all_of_them, key=rank)[:count]


class _Search(ast.NodeVisitor):
    def __init__(self, source: bytes, file: str) -> None:
        self.found: list[Mutant] = []
        self._source, self._file = source, file
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._statement = range(0)

    def visit(self, node: ast.AST) -> None:
        """Keep which lines belong to the statement that is searched."""
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        outer = self._statement
        assert node.end_lineno is not None
        block = getattr(node, "body", None)
        end = block[0].lineno if block else node.end_lineno + 1
        self._statement = range(node.lineno, max(end, node.lineno + 1))
        super().visit(node)
        self._statement = outer

    def _add(self, node: ast.expr | ast.stmt, text: str, what: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        self.found.append(
            Mutant(
                self._file,
                ".".join(self._names),
                self._lines[node.lineno - 1].decode().strip(),
                what,
                0,
                (
                    self._starts[node.lineno - 1] + node.col_offset,
                    self._starts[node.end_lineno - 1] + node.end_col_offset,
                ),
                text,
                range(node.lineno, node.end_lineno + 1),
                self._statement,
            )
        )

    def _swap(self, node: ast.expr, other: ast.expr, what: str) -> None:
        self._add(node, f"({ast.unparse(other)})", what)

    # -- what is left alone

    def _scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if node.name in _WORDS:
            return
        self._names.append(node.name)
        if not isinstance(node, ast.ClassDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scope

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave f-strings alone."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they hold, whatever becomes of them."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _CHECKS:
            self.generic_visit(node)

    # -- what is changed

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass", "raise → pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add(node, "pass", "call → pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "break", "continue → break")

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "continue", "break → continue")

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None:
            return
        # In the place of False, None is as good wherever the result is a condition.
        if not (isinstance(value, ast.Constant) and (value.value is None or value.value is False)):
            self._add(node, "return None", "return → return None")
        self.visit(value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        other = _OPERATORS.get(type(node.op))
        if other is not None:
            changed = ast.AugAssign(node.target, other(), node.value)
            self._add(node, ast.unparse(changed), f"{_sign(node.op)}= → {_sign(other())}=")
        self.visit(node.value)

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.Constant | ast.UnaryOp):
            self._swap(node.test, ast.UnaryOp(ast.Not(), node.test), "condition → not")
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = _condition

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            other = _COMPARISONS[type(operator)]()
            changed = ast.Compare(
                node.left, [*node.ops[:index], other, *node.ops[index + 1 :]], node.comparators
            )
            self._swap(node, changed, f"{_sign(operator)} → {_sign(other)}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        is_and = isinstance(node.op, ast.And)
        changed = ast.BoolOp(ast.Or() if is_and else ast.And(), node.values)
        self._swap(node, changed, "and → or" if is_and else "or → and")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self._swap(node, node.operand, f"{_sign(node.op)} → nothing")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node.left, "value", None), int | float
        )
        other = _OPERATORS.get(type(node.op))
        if other is not None and not words:
            changed = ast.BinOp(node.left, other(), node.right)
            self._swap(node, changed, f"{_sign(node.op)} → {_sign(other())}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
            twin = _TWINS[node.func.id]
            self._add(node.func, twin, f"{node.func.id} → {twin}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value), f"{value} → {not value}")
        elif isinstance(value, int | float):
            self._add(node, f"({value + 1!r})", f"{value!r} → {value + 1!r}")


def _sign(operator: ast.cmpop | ast.operator | ast.unaryop) -> str:
    """Return an operator as it is written."""
    name = ast.Name("x")
    if isinstance(operator, ast.cmpop):
        text = ast.unparse(ast.Compare(name, [operator], [name]))
    elif isinstance(operator, ast.operator):
        text = ast.unparse(ast.BinOp(name, operator, name))
    else:
        text = ast.unparse(ast.UnaryOp(operator, name))
    return text.replace("x", "").strip()


def written(path: Path, source: bytes) -> None:
    """Write a module, and remove what Python compiled of it.

    Python knows a module's compiled form by the time in seconds and the size of its source, which
    two mutants may share.
    """
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
