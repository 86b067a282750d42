#!/usr/bin/env python3
"""Builds the distribution into ``dist`` and checks it as a user would get it; ``make release``.

The wheel and the source archive are built from a clean checkout, each is installed into a fresh
environment of its own, with its dependencies from the index, and used there: the version, a model
compiled and exported, and verified on an emulated board. Nothing is uploaded and nothing is
signed: the last line is the command that uploads, for whoever has a token. Exit code 1 where a
check fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from environments import ROOT, programs

from hilc.support.version import __version__

_LIMIT_S = 1800
_BOARD = "mps2-an386"
#: The model that the distribution brings, by its path in ``hilc``.
_MODEL = "_data/examples/digits/digits.tflite"
_FIND_MODEL = f"import hilc, pathlib; print(pathlib.Path(hilc.__file__).parent / {_MODEL!r})"


class ReleaseError(Exception):
    """A check of the release failed; the text says which and why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Build and check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--board", default=_BOARD, help="that verifies (default: %(default)s)")
    parser.add_argument("--allow-dirty", action="store_true", help="build uncommitted changes too")
    args = parser.parse_args(argv)
    try:
        if not args.allow_dirty:
            require_clean(ROOT)
        files = built(ROOT, args.output, programs("release"))
        for file in files:
            with tempfile.TemporaryDirectory(prefix="hil-release-") as folder:
                used(file, Path(folder), args.board)
    except (ReleaseError, subprocess.SubprocessError) as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    names = " ".join(str(file) for file in files)
    print(f"hil-harness {__version__} is built and checked. Upload it, with a token as password:")
    print(f"{programs('release') / 'twine'} upload -u __token__ {names}")
    return 0


def require_clean(root: Path) -> None:
    """Raise where the checkout has changes that no commit has."""
    if changed := _run("git", "status", "--porcelain", cwd=root).strip():
        raise ReleaseError(
            f"the checkout has uncommitted changes:\n{changed}\ncommit them, or give --allow-dirty"
        )


def built(root: Path, output: Path, tools: Path) -> list[Path]:
    """Return the source archive of ``root`` and the wheel of that archive, with valid metadata."""
    shutil.rmtree(output, ignore_errors=True)
    _run(tools / "python", "-m", "build", "--no-isolation", "-o", output, root, cwd=root)
    files = sorted(output.iterdir())
    stem = f"hil_harness-{__version__}"
    if [file.name for file in files] != [f"{stem}-py3-none-any.whl", f"{stem}.tar.gz"]:
        raise ReleaseError(f"{output} has {', '.join(file.name for file in files)}")
    _run(tools / "twine", "check", "--strict", *files, cwd=root)
    return files


def used(file: Path, folder: Path, board: str, *options: str) -> None:
    """Install a wheel or a source archive into a fresh environment in ``folder``, and use it.

    ``options`` are those of pip.
    """
    print(f"{file.name}: installing it with its dependencies", flush=True)
    venv.create(folder / "env", with_pip=True)
    python, hil = folder / "env/bin/python", folder / "env/bin/hil"
    _run(python, "-m", "pip", "install", "-q", *options, file.resolve(), cwd=folder)
    if (said := _run(hil, "--version", cwd=folder)) != f"hil {__version__}\n":
        raise ReleaseError(f"{file.name} says that it is {said!r}, not hil {__version__}")
    model = _run(python, "-c", _FIND_MODEL, cwd=folder).strip()
    _run(hil, "compile", model, "--board", board, "-o", "digits.tar", cwd=folder)
    _run(hil, "export", "digits.tar", "--build-system", "cmake", "-o", "exported", cwd=folder)
    print(
        _run(hil, "verify", "digits.tar", "--source", model, "--board", board, cwd=folder), end=""
    )


def _run(*command: object, cwd: Path) -> str:
    """Return what a command prints; raise ReleaseError where it fails."""
    words = [str(word) for word in command]
    # Nothing of the running environment, and no build that is cached.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = kept | {"XDG_CACHE_HOME": str(cwd / "cache")} if cwd != ROOT else kept
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_LIMIT_S
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
