"""Passes, fusion, plan and code ask for an operator's traits, not for its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hilc
from hilc.ops import OPS

COMPILER = Path(hilc.__file__).parent
#: Packages that state operators, name those of a file format, or select kernels by operator.
NAMING = ("ops", "frontends", "lowering")
#: Files of those kinds in other packages: what TFLite specifies of each of its operators.
OF_A_FORMAT = (
    *("quantization/tflite/", "writers/tflite_file.py", "writers/tflite_contents.py"),
    "references/stops.py",
)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(COMPILER.rglob("*.py")):
        name = path.relative_to(COMPILER)
        if name.parts[0] not in NAMING and not name.as_posix().startswith(OF_A_FORMAT):
            yield str(name), ast.parse(path.read_text())


def names_in(node: ast.AST) -> set[str]:
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return {value for value in constants if isinstance(value, str) and value in OPS}


def compares_an_operator(node: ast.AST) -> bool:
    """``node.op == "ADD"`` and ``node.op in (...)``."""
    if not isinstance(node, ast.Compare):
        return False
    parts = (node.left, *node.comparators)
    of_nodes = any(isinstance(n, ast.Attribute) and n.attr == "op" for part in parts
                   for n in ast.walk(part))  # fmt: skip
    return of_nodes and bool(names_in(node))


def lists_operators(node: ast.AST) -> bool:
    """A table of two operators or more, as keys of a dictionary or elements of a collection."""
    match node:
        case ast.Dict(keys=[_, _, *_]):
            elements = [key for key in node.keys if key is not None]
        case ast.Tuple(elts=[_, _, *_]) | ast.List(elts=[_, _, *_]) | ast.Set(elts=[_, _, *_]):
            elements = node.elts
        case _:
            return False
    constants = [e.value for e in elements if isinstance(e, ast.Constant)]
    return bool(elements) and len(constants) == len(elements) and OPS.keys() >= set(constants)


def test_no_pass_knows_operators_by_name() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources()
        for node in ast.walk(tree)
        if (compares_an_operator(node) or lists_operators(node)) and isinstance(node, ast.expr)
    ]
    assert found == []


def test_the_search_finds_what_it_looks_for() -> None:
    text = 'a = node.op == "ADD"\nb = {"ADD": 1, "SUB": 2}\nc = node.op in ("MUL", "x")\n'
    tree = ast.parse(text)
    assert sum(map(compares_an_operator, ast.walk(tree))) == 2
    assert sum(map(lists_operators, ast.walk(tree))) == 1
    assert len(list(sources())) > 100
