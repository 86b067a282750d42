"""The same model compiled and built again in other surroundings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import FROM_LOCK, lock_path
from models import model_path

from torture.campaign import Budget, Figures, Finding

TITLE = "The same input, the same output"
ABOUT = """Compiles and builds models twice, each time in changed surroundings. These outputs must
be byte-identical: every file of the library, its archive in Model Library Format, the memory plan,
the shared object for this machine, the firmware's ELF (in the cache and as a user's project), and
its build ID. A different digest is a finding."""

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
_CHILD = Path("tests") / "support" / "programs" / "repeatable_outputs.py"
_LIMIT_S = 1800
#: What the product is, beside its own packages.
_PARTS = ("compiler", "hil", "targets", "firmware_template", "pyproject.toml")
_PYTHONS = ("3.10", "3.11", "3.12", "3.13")

#: A name, board and options; a model that is no example is one of MLPerf Tiny.
_Model = tuple[str, str, dict[str, str]]
_FEW: tuple[_Model, ...] = (
    ("digits", "mps2-an386", {}),
    ("digits", "native", {"api": "packed", "interface": "packed"}),
    ("kws", "mps3-an547", {"optimize": "size"}),
)
_MORE: tuple[_Model, ...] = (
    *_FEW,
    ("ad", "native", {"codegen": "llvm"}),
    ("ic", "mps2-an386", {"codegen": "llvm"}),
    ("kws", "riscv-virt", {"pools": "external", "io_in_pool": "true"}),
    ("vww", "mps2-an505", {"optimize": "ram"}),
)


@dataclass(frozen=True)
class _Surroundings:
    """How one run differs from the first."""

    what: str
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Name of the folder that all is in, below that of the campaign.
    folder: str = "a"
    python: str = sys.executable
    #: Whether the models are copies, with other names and times.
    copies_models: bool = False
    #: Whether the product is a copy in another folder.
    copies_product: bool = False
    backwards: bool = False
    #: Takes the cache of the first run as that left it.
    cache_of_first: bool = False
    umask: int = 0o022


_FIRST = _Surroundings("the first run", {"PYTHONHASHSEED": "1"})
_OTHERS = (
    _Surroundings("again, with a warm cache", {"PYTHONHASHSEED": "1"}, cache_of_first=True),
    _Surroundings("another order of sets and dictionaries", {"PYTHONHASHSEED": "2"}),
    _Surroundings("the same, at random", {"PYTHONHASHSEED": "random"}),
    _Surroundings("a folder with a longer name, blanks in it", folder="a much longer name/of it"),
    _Surroundings("another clock, language and home", {
        "TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "HOME": "/nonexistent",
        "USER": "another", "COLUMNS": "40",
    }),
    _Surroundings("a file mode of 077", umask=0o077),
    _Surroundings("folders that list their entries backwards", backwards=True),
    _Surroundings("models of other names and times", copies_models=True),
    _Surroundings("the product in another folder", copies_product=True),
    _Surroundings("one job at a time", {
        "CMAKE_BUILD_PARALLEL_LEVEL": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    }),
    _Surroundings("four jobs at a time", {
        "CMAKE_BUILD_PARALLEL_LEVEL": "4", "OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4",
    }),
)  # fmt: skip


def run(budget: Budget) -> Figures:
    """Compare all surroundings with the first."""
    models = _MORE if budget.is_long else _FEW
    others, notes = [*_OTHERS], []
    for version in _PYTHONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        python = _python(version)
        if isinstance(python, Path):
            others.append(_Surroundings(f"Python {version}", python=str(python)))
        else:
            notes.append(f"Python {version} was not compared: {python}.")
    rows, findings = [], []
    with tempfile.TemporaryDirectory(prefix="hil-determinism-") as name:
        folder = Path(name)
        first = digests(_FIRST, models, folder)
        for other in others:
            found = digests(other, models, folder)
            different = differences(first, found)
            rows.append([other.what, f"{len(found):,}", f"{len(different):,}"])
            findings += [
                Finding(f"{other.what}: {what}", "python tools/measure.py torture determinism")
                for what in different
            ]
    told = "; ".join(f"{name} for {board} {json.dumps(o)}" for name, board, o in models)
    notes.insert(0, f"Compiled and built: {told}.")
    return Figures(["what is different", "outputs", "that differ"], rows, findings, notes)


def differences(first: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the outputs that two runs do not both have, or have in two ways."""
    return sorted(n for n in {*first, *other} if first.get(n) != other.get(n))


def digests(surroundings: _Surroundings, models: Sequence[_Model], folder: Path) -> dict[str, str]:
    """Return the digest of each output, by its name."""
    place = Path(tempfile.mkdtemp(prefix="run-", dir=folder)) / surroundings.folder
    place.mkdir(parents=True)
    cache = folder / "cache" if surroundings.cache_of_first or surroundings is _FIRST else place
    root = place / "product" if surroundings.copies_product else ROOT
    if surroundings.copies_product:
        for part in _PARTS:
            _copy(ROOT / part, root / part)
    job = {
        "models": [
            [name, str(_model(name, place, surroundings.copies_models)), board, _options(options)]
            for name, board, options in models
        ],
        "folder": str(place / "work"),
        "backwards": surroundings.backwards,
        "product": str(root),
    }
    kept = {k: v for k, v in os.environ.items() if k != "CMAKE_C_COMPILER_LAUNCHER"}
    done = subprocess.run(
        [surroundings.python, str(ROOT / _CHILD), json.dumps(job)],
        cwd=place,
        env={
            **kept,
            "HIL_CACHE": str(cache / "cache"),
            "PYTHONPATH": os.pathsep.join([str(root / "compiler"), str(root)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            **surroundings.variables,
        },
        umask=surroundings.umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{surroundings.what}: {done.stderr[-4000:]}"
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _options(options: Mapping[str, str]) -> dict[str, Any]:
    return {name: True if value == "true" else value for name, value in options.items()}


def _model(name: str, place: Path, copied: bool) -> Path:
    path = DIGITS if name == "digits" else model_path(name)
    if not copied:
        return path
    other = place / f"another name of {name}.tflite"
    shutil.copyfile(path, other)
    os.utime(other, (1e9, 1e9))
    return other


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    else:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "build"))


# Other Pythons -----------------------------------------------------------------------------------


def _python(version: str) -> Path | str:
    """Return a Python of this version with what the product needs, made where there is none; else
    why there is none.
    """
    folder = ROOT / "build" / "torture" / f"python{version}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    installed = next(filter(_runs, _candidates(version)), None)
    if installed is None:
        return "it is not installed"
    for command in (
        [installed, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "-q", "install", *FROM_LOCK, str(lock_path("action"))],
    ):
        done = _completed(command)
        if isinstance(done, str):
            return re.sub(r"[|\n]", " ", done)[:200]
    (folder / "complete").touch()
    return python


def _candidates(version: str) -> Iterator[str]:
    """Yield where a Python may be: in PATH, where a name may stand for none, or pyenv's."""
    if (found := shutil.which(f"python{version}")) is not None:
        yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(root.glob(f"versions/{version}.*/bin/python")))


def _runs(python: str) -> bool:
    return not isinstance(_completed([python, "-c", "import venv"]), str)


def _completed(command: Sequence[str]) -> None | str:
    """Return nothing, or the last line that a program that failed wrote."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
