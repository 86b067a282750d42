"""Imports of the project's own modules stand at the top, where the contract in pyproject.toml and
every reader see them: one inside of a function or under TYPE_CHECKING hides a cycle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import hilc
from hilc.support.toml import tomllib

ROOT = Path(__file__).resolve().parents[2]
#: Modules for users, and where each has its names from.
DOORS = {
    "build": ["firmware.build"],
    "bench": ["jobs.functions"],
    "oracle": ["verify.oracle"],
    "samples": ["verify.samples", "verify.datasets"],
}
FOLDERS = {"hilc": ROOT / "compiler" / "hilc", "hil": ROOT / "hil"}


def modules(package: str) -> Iterator[tuple[str, Path]]:
    folder = FOLDERS[package]
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


KNOWN = {name: path for package in FOLDERS for name, path in modules(package)}


def imported(node: ast.AST) -> list[str]:
    """The modules, ours and others, that a statement imports; none for any other statement."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return []
    inside = [f"{node.module}.{alias.name}" for alias in node.names]
    found = [name for name in inside if name in KNOWN]
    # What is no module is defined by the package itself.
    return found if len(found) == len(inside) else [node.module, *found]


def hidden_imports(text: str) -> set[str]:
    """Own modules that are imported in a function or under a condition."""
    found: set[str] = set()

    def visit(node: ast.AST, is_hidden: bool) -> None:
        if is_hidden:
            found.update(n for n in imported(node) if n.partition(".")[0] in FOLDERS)
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


@pytest.mark.full
def test_the_compiler_hides_no_import() -> None:
    """But for what is loaded when a user asks for it, and what `hil --help` reads."""
    hidden = {name: hidden_imports(path.read_text("utf-8")) for name, path in modules("hilc")}
    options = ["hilc.codegen.options", "hilc.options"]
    # The classes of kernel parameters are made where they are asked for.
    # Names of packages that are loaded on first use are imported for type checkers.
    lazy = ["hilc", "hilc.frontends", "hilc.lowering"]
    expected = {*lazy, "hilc.lowering.parameters", *options}
    assert {name for name, found in hidden.items() if found} == expected


def cycles(imports: dict[str, set[str]]) -> list[str]:
    """The modules that import themselves by way of others."""
    left = {name: set(names) for name, names in imports.items()}
    # Take away what imports nothing that is left, and what nothing that is left imports.
    while ends := [
        name
        for name, names in left.items()
        if not names & left.keys() or not any(name in others for others in left.values())
    ]:
        for name in ends:
            del left[name]
    return sorted(left)


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["b", "c"]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside of functions and under conditions count."""
    imports = {
        name: {
            other
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            for other in imported(node)
            if other in KNOWN and other != name
        }
        for name, path in KNOWN.items()
    }
    assert cycles(imports) == []


def test_the_drawing_is_the_contract() -> None:
    """ARCHITECTURE.md draws the layers in the order of the contracts, the harness above the
    compiler."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = {contract["id"]: contract.get("layers", []) for contract in contracts}
    modules = {name: re.findall(r"\w+", " ".join(layers[name])) for name in ("layers", "harness")}
    compiler, harness = drawings((ROOT / "ARCHITECTURE.md").read_text("utf-8"))
    assert compiler == ["hil", *modules["layers"]]
    assert harness == modules["harness"]


def drawings(text: str) -> list[list[str]]:
    """The packages of each drawing, whose names stand in front of two spaces."""
    blocks = re.findall(r"```text\npackages (.*?)```", text, re.DOTALL)
    return [
        [
            name
            for line in block.splitlines()[1:]
            for name in re.findall(r"\w+", line.split("  ")[0])
        ]
        for block in blocks
    ]


def test_the_modules_for_users_are_there() -> None:
    """``hilc.host`` and its like, and functions, which are loaded when they are first asked for."""
    for name in {*hilc._HOMES, *hilc._MODULES}:
        assert name in dir(hilc)
        assert getattr(hilc, name).__name__.rpartition(".")[2] == name


def test_names_for_users_have_one_definition() -> None:
    """The modules for users re-export what the packages use; the reference documents it all."""
    for door, rooms in DOORS.items():
        module = import_module(f"hil.{door}")
        homes = [import_module(f"hil.{room}") for room in rooms]
        assert module.__all__, door
        for name in module.__all__:
            assert any(getattr(home, name, None) is getattr(module, name) for home in homes), name
    reference = (ROOT / "docs/reference/python.md").read_text("utf-8")
    assert set(re.findall(r"^## hil\.(\w+)$", reference, re.MULTILINE)) >= {"oracle", "samples"}
