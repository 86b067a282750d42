"""The public names of Python: functions, one statement of what is public, types for others' code.

mypy runs as in a program of a user: outside of the repository, with ``--strict``.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hil

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "python.md"
#: Functions with the names of modules: who imports these first must not matter.
LIKE_MODULES = ("verify", "bench", "build", "export")


def documented() -> dict[str, list[str]]:
    """The names of the reference page, by module."""
    text = PAGE.read_text("utf-8")
    modules = re.findall(r"^## ([\w.]+)$", text, re.MULTILINE)
    names: dict[str, list[str]] = {module: [] for module in modules}
    for full in re.findall(r"^### ([\w.]+)$", text, re.MULTILINE):
        module, _, name = full.rpartition(".")
        names[module].append(name)
    return names


def checked(code: str, folder: Path) -> list[str]:
    """What mypy finds in a program of a user."""
    (folder / "program.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "program.py"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    return [line for line in run.stdout.splitlines() if ": error: " in line]


def test_public_names_are_stated_once() -> None:
    """What type checkers see, what is loaded on first use and ``__all__`` are the same."""
    tree = ast.parse(Path(hil.__file__).read_text("utf-8"))
    seen = {
        (alias.asname or alias.name): str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if str(node.module).startswith("hil")
    }
    assert seen == hil._HOMES
    assert {*hil.__all__, "open", "compile"} == set(seen)
    assert set(documented()["hil"]) == set(seen)


def test_star_replaces_no_builtin() -> None:
    names: dict[str, object] = {}
    exec("from hil import *", names)
    assert not (names.keys() - {"__builtins__"}) & vars(builtins).keys()
    assert set(hil.__all__) <= names.keys()
    assert {"open", "compile"} <= set(dir(hil))


@pytest.mark.parametrize(
    "first", ["", *(f"hil.{name}" for name in LIKE_MODULES), "hil.jobs.functions"]
)
def test_functions_are_functions(first: str) -> None:
    """Whichever module of such a name is imported first."""
    code = (
        f"{f'import {first}' if first else ''}\n"
        "import inspect, hil\n"
        f"from hil import {', '.join(LIKE_MODULES)}\n"
        "from hil.verify import Report\n"
        f"names = {LIKE_MODULES!r}\n"
        "assert all(inspect.isfunction(getattr(hil, name)) for name in names)\n"
        "assert verify is hil.verify and Report is hil.Report\n"
        "assert hil.verify.__doc__ and 'board' in inspect.signature(hil.verify).parameters\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_every_documented_name_has_a_type(tmp_path: Path) -> None:
    lines = ["from __future__ import annotations", "import hil"]
    uses = []
    for module_name, names in documented().items():
        module = importlib.import_module(module_name)
        alias = module_name.replace(".", "_")
        lines.append(f"import {module_name} as {alias}_" if module_name != "hil" else "")
        for name in names:
            where = f"hil.{name}" if module_name == "hil" else f"{alias}_.{name}"
            if parameters := getattr(getattr(module, name), "__parameters__", ()):
                where = f"{where}[{', '.join(['object'] * len(parameters))}]"
            if inspect.isclass(getattr(module, name)):
                uses.append(f"def take_{alias}_{name}(value: {where}) -> {where}: return value")
            else:
                uses.append(f"used_{alias}_{name} = {where}")
    code = "\n".join([*lines, *uses])
    assert code.count("def take_") > 50
    assert checked(f"{code}\n", tmp_path) == []


def test_keywords_have_types(tmp_path: Path) -> None:
    code = """
import hil
import hilc

report: hil.Report = hil.verify("m", 20, board="native", optimize="ram", ram=4096, runner="qemu")
cost: hil.BenchReport = hil.bench("m", board="native", shapes={"x": (1, 2)}, keep_inputs=True)
found: hil.Evaluation = hil.evaluate("m", "d.npz", board="native", allow_float=True)
library: hilc.ModelLibrary = hil.compile("m", cpu="cortex-m4", name="net", reference="tflm")
firmware: hil.Firmware = hil.build([library], hil.board.load_board("native"))
hil.export("m", "cmake", "out", optimize="size")
hil.verify("m", bord="x")
hil.verify("m", optimise="ram")
hil.bench("m", runs=1, optimise="ram")
hil.evaluate("m", "d", ram="much")
hil.compile("m", optimise="ram")
hil.export("m", "cmake", "out", optimise="ram")
hilc.compile("m", optimise="ram")
"""
    errors = checked(code, tmp_path)
    lines = code.splitlines()
    first = next(number for number, line in enumerate(lines, 1) if "bord" in line)
    wrong = {int(error.split(":")[1]) for error in errors}
    assert wrong == set(range(first, len(lines) + 1)), "\n".join(errors)
    assert 'Unexpected keyword argument "bord" for "verify"' in "\n".join(errors)
