"""What the distribution needs, and what each extra adds.

The environment of these tests holds the packages of ``dependencies`` in pyproject.toml and no
other, linked from the running environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hilc.support.optional import EXTRAS
from hilc.support.toml import tomllib

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def distributions(requirements: list[str]) -> Iterator[metadata.Distribution]:
    """The installed distributions that the requirements name, and those that these need."""
    seen: set[str] = set()
    waiting = list(requirements)
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(wanted.name)
        found = metadata.distribution(wanted.name)
        waiting += found.requires or []
        yield found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with nothing but what the project always needs."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=False, symlinks=True)
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", vars=paths))
    (site / "checkout.pth").write_text(f"{ROOT}\n{ROOT / 'compiler'}\n")
    for found in distributions(PROJECT["dependencies"]):
        for name in {file.parts[0] for file in found.files or [] if file.parts[0] != ".."}:
            if name != "__pycache__" and not (site / name).exists():
                (site / name).symlink_to(Path(str(found.locate_file(name))))
        for file in found.files or []:
            if file.parts[0] == ".." and file.parent.name == "bin":  # programs, such as ninja
                program = folder / "bin" / file.name
                if not program.exists():
                    program.symlink_to(Path(str(found.locate_file(file))).resolve())
    return folder


def run(environment: Path, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``hil`` in the environment; check its exit code."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [environment / "bin" / "python", "-m", "hil", *map(str, words)],
        cwd=environment,
        env=kept | {"HIL_CACHE": str(environment / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_no_other_package_is_there(environment: Path) -> None:
    script = f"import importlib.util as u; print([n for n in {list(EXTRAS)} if u.find_spec(n)])"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_model_is_verified(environment: Path) -> None:
    done = run(environment, "verify", DIGITS, "--board", "mps2-an386", "--samples", 2)
    assert "match" in done.stdout
    if sys.platform == "linux" and sys.version_info < (3, 15):
        assert "reference tflm" in done.stdout


@pytest.mark.parametrize(
    ("line", "extra", "code"),
    [
        ("explain {model} --board mps2-an386 -o plan.svg", "report", 2),
        ("report {model} --board mps2-an386 -o page.html", "report", 2),
        ("verify {model} --board mps2-an386 --format html", "report", 2),
        ("verify {model} --board microbit --probe virtual", "pyocd", 4),
        ("flash {model} --board nucleo-l476rg", "pyocd", 4),
        ("debug {model} --board nucleo-l476rg", "pyocd", 4),
        ("lab watch", "lab", 2),
        ("mcp", "mcp", 2),
        ("compile {onnx} -o m.tar", "onnx", 2),
    ],
)
def test_a_missing_extra_is_named(environment: Path, line: str, extra: str, code: int) -> None:
    onnx = environment / "m.onnx"
    onnx.write_bytes(b"\x08\x08\x12\x04test:\x00")
    done = run(environment, *line.format(model=DIGITS, onnx=onnx).split(), code=code)
    assert f"pip install 'hil-harness[{extra}]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("line", ["--help", "boards", "doctor"])
def test_commands_that_need_no_extra(environment: Path, line: str) -> None:
    assert "Traceback" not in run(environment, line).stderr


def test_every_optional_package_has_its_extra() -> None:
    """A package's name on the index may differ from that of its module."""
    names = {
        "PIL": "pillow",
        "ai_edge_litert": "ai-edge-litert",
        "ppk2_api": "ppk2-api",
        "tensorflow": "tensorflow-cpu",
    }
    for module, extra in EXTRAS.items():
        wanted = {Requirement(line).name for line in PROJECT["optional-dependencies"][extra]}
        assert names.get(module, module) in wanted
