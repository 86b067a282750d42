"""What exists only for microTVM can be removed: all else works where its folders are absent, and
what needs them says so."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import answers
import pytest
from campaigns import cases
from tvm_archive import Style, tvm_tar

ROOT = Path(__file__).resolve().parents[2]
#: The folders that are removed.
HIDDEN = ("compiler/hilc/compat", "hil/compat")
BOARD = "mps2-an386"
MODEL = ROOT / "examples/digits/digits.tflite"
MISSING = "which is not installed"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution without the hidden folders."""
    folder = tmp_path_factory.mktemp("tree")
    hidden = [ROOT / name for name in HIDDEN]
    assert all(path.is_dir() for path in hidden)
    for name in ("hil", "compiler", "targets", "firmware_template"):
        shutil.copytree(
            ROOT / name,
            folder / name,
            ignore=lambda at, names: [
                n for n in names if Path(at, n) in hidden or n == "__pycache__"
            ],
        )
    return folder


def python(tree: Path, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Python on the tree alone: the folder it starts in would be found first."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'compiler'}",
        "HIL_CACHE": str(tree / "cache"),
    }
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    return done


def hil(tree: Path, *words: object, code: int = 0) -> dict[str, object]:
    done = python(tree, "-m", "hil", "--json", *words, code=code)
    result: dict[str, object] = answers.result(done.stdout)
    return result


def refusal(tree: Path, *words: object) -> str:
    error = hil(tree, *words, code=2)
    assert error["hint"]
    return f"{error['message']}"


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_model_goes_all_the_way(tree: Path) -> None:
    hil(tree, "compile", MODEL, "-o", "digits.tar", "--board", BOARD)
    built = hil(tree, "build", "digits.tar", "--board", BOARD, "-o", "project")
    assert not Path(tree, "project/crt").exists()
    assert built
    verified = hil(tree, "verify", "digits.tar", "--board", BOARD, "--samples", "2")
    assert verified["match"] is True
    assert hil(tree, "bench", "digits.tar", "--board", BOARD)["per_inference"]


@pytest.mark.full
def test_an_archive_holds_no_run_time(tree: Path) -> None:
    hil(tree, "compile", MODEL, "-o", "alone/")
    names = {path.name for path in (tree / "alone").iterdir()}
    assert {"metadata.json", "hil", "codegen", "parameters"} <= names
    assert not names & {"runtime", "templates"}
    module = json.loads((tree / "alone/metadata.json").read_bytes())["modules"]["digits"]
    assert "external_dependencies" not in module


@pytest.mark.full
def test_a_model_runs_in_the_process(tree: Path) -> None:
    code = (
        "import sys, numpy, hilc\n"
        "with hilc.host.load(hilc.compile(sys.argv[1])) as model:\n"
        "    model.set_input(0, numpy.zeros(model.inputs[0].shape, model.inputs[0].dtype))\n"
        "    model.run()\n"
        "    print(model.get_output(0).shape)\n"
    )
    assert python(tree, "-c", code, MODEL).stdout == "(1, 10)\n"


@cases(
    "options",
    [
        ("--interface", "packed"),
        ("--interface", "packed", "--api", "packed"),
        ("--pools", "calls"),
        ("--runtime", "cpp"),
    ],
    ids=" ".join,
    first=1,
)
def test_options_say_what_is_missing(tree: Path, options: tuple[str, ...]) -> None:
    message = refusal(tree, "compile", MODEL, "-o", "x.tar", *options)
    assert "hilc.compat.tvm" in message
    assert MISSING in message


def test_tvmc_says_what_is_missing(tree: Path) -> None:
    for words in (("tvmc",), ("tvmc", "compile", "net.tflite"), ("tvmc", "micro", "build", "p")):
        message = refusal(tree, *words)
        assert "hil.compat.tvm" in message
        assert MISSING in message


def test_an_archive_of_tvms_says_what_is_missing(tree: Path, tmp_path: Path) -> None:
    tvm_tar(tmp_path / "theirs.tar", Style(7, "c", "unpacked"))
    message = refusal(tree, "build", tmp_path / "theirs.tar", "--board", BOARD)
    assert "hilc.compat.tvm" in message
    assert MISSING in message


def test_nothing_else_names_the_folders() -> None:
    """Only the two that load them."""
    named = {
        path.relative_to(ROOT).as_posix()
        for folder in ("compiler/hilc", "hil")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(ROOT / HIDDEN[0]) and not path.is_relative_to(ROOT / HIDDEN[1])
        if re.search(r"\bcompat\b", path.read_text("utf-8"))
    }
    assert named == {
        # The name of a class that has moved there.
        "compiler/hilc/executor.py",
        # A module of TensorFlow.
        "compiler/hilc/frontends/foreign.py",
        "compiler/hilc/plugins.py",
        "hil/support/parts.py",
        "hil/cli/commands/tvmc.py",
    }
