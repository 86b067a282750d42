"""The runner of measurements, generators and campaigns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import measure
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = {name for folder in measure.SCRIPTS.values() for name in measure.scripts(folder)}
#: Texts that name a script: documents, programs, and hints of errors.
TEXTS = [
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "Makefile", "tests/**/*.py")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md" and ".venv" not in path.parts
]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/measure.py", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_list() -> None:
    done = run("--list")
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"^  (\w+)  +\S", done.stdout, re.MULTILINE)) == NAMES
    assert {"compare", "costs", "reference", "torture", "faults"} <= NAMES


@pytest.mark.parametrize(("name", "program"), [("compare", "compare.py"), ("torture", "torture")])
def test_arguments_of_a_script(name: str, program: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: {program} " in done.stdout


def test_exit_code_of_a_script() -> None:
    done = run("torture", "nothing")
    assert done.returncode == 2
    assert "no campaign nothing" in done.stderr


@pytest.mark.parametrize("name", sorted(NAMES - {"lab_proof"}))
def test_no_script_ignores_its_arguments(name: str) -> None:
    """One that reads none runs for minutes and writes pages, also where help is asked for."""
    folders = measure.SCRIPTS.values()
    (path,) = (scripts[name] for each in folders if name in (scripts := measure.scripts(each)))
    if measure.takes_no_arguments(path):
        assert run(name, "--help").stdout.startswith(f"usage: {name} ")
        assert "unrecognized arguments: nosuch" in run(name, "nosuch").stderr


def test_unknown_name() -> None:
    done = run("compares")
    assert done.returncode == 2
    assert "there is no 'compares'; did you mean 'compare'?" in done.stderr


def test_names_in_texts() -> None:
    wanted = re.compile(r"(?:measure\.py |make measure NAME=)([a-z_0-9]+)")
    named = {(path.name, name) for path in TEXTS for name in wanted.findall(path.read_text())}
    assert len(named) > 20
    assert {each for each in named if each[1] not in NAMES | {"compares"}} == set()


def test_paths_in_texts() -> None:
    """A file of a folder of scripts that a text names exists."""
    wanted = re.compile(r"\b((?:ci|tools|tests/campaigns|tests/support)/[\w/]+\.(?:py|toml|sh))\b")
    named = {name for path in TEXTS for name in wanted.findall(path.read_text())}
    assert len(named) > 20
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []
