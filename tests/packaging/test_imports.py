"""Imports of the project's own modules stand at the top, where the contract in pyproject.toml and
every reader see them: one inside of a function or under TYPE_CHECKING hides a cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"hilc": ROOT / "compiler" / "hilc", "hil": ROOT / "hil"}


def modules(package: str) -> Iterator[tuple[str, Path]]:
    folder = FOLDERS[package]
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


def hidden_imports(text: str) -> set[str]:
    """Own modules that are imported in a function or under a condition."""
    found: set[str] = set()

    def visit(node: ast.AST, is_hidden: bool) -> None:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if is_hidden:
            found.update(name for name in names if name.partition(".")[0] in FOLDERS)
        hides = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
        for child in ast.iter_child_nodes(node):
            visit(child, is_hidden or hides)

    visit(ast.parse(text), False)
    return found


def test_hidden_imports_are_seen() -> None:
    assert hidden_imports("import hilc.ir\nfrom hil import cli\n") == set()
    assert hidden_imports("def f():\n    import hilc.ir, os\n") == {"hilc.ir"}
    assert hidden_imports("if TYPE_CHECKING:\n    from hil.board import Board\n") == {"hil.board"}
    assert hidden_imports("class A:\n    async def f(self):\n        from hilc import x\n") == {
        "hilc"
    }


def test_the_compiler_hides_no_import() -> None:
    hidden = {name: hidden_imports(path.read_text("utf-8")) for name, path in modules("hilc")}
    assert {name: found for name, found in hidden.items() if found} == {}
