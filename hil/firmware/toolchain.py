"""The compilers and build tools that firmware needs: where they are, and how old they may be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from hil.board import Board
from hil.errors import BuildError
from hilc.support.process import run

Version = tuple[int, ...]

#: The first that has -ffile-prefix-map, without which an image depends on its place (of gcc, each
#: toolchain says it); the first CMake that reads our presets.
OLDEST_HOST_CLANG: Version = (10,)
OLDEST_CMAKE: Version = (3, 21)

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_ASK_LIMIT_S = 30


def version_in(text: str) -> str | None:
    """Return the version in what a program says of itself: the first one behind the packager's
    remarks.
    """
    first = text.strip().partition("\n")[0]
    match = _VERSION.search(first.rpartition(")")[2]) or _VERSION.search(text)
    return match[0] if match else None


def is_older(version: str, oldest: Version) -> bool:
    """Return whether a version in words is below ``oldest``."""
    # A packager's or a candidate's own marks follow the numbers.
    return tuple(map(int, re.findall(r"\d+", version)[: len(oldest)])) < oldest


def in_words(version: Version) -> str:
    return ".".join(map(str, version))


def compiler_version(board: Board) -> str:
    """Return the first line that the board's compiler says of itself; BuildError where it will not
    do.
    """
    toolchain = board.cpu.toolchain
    path = shutil.which(toolchain.gcc)
    if path is None:
        raise BuildError(
            f"the compiler {toolchain.gcc} is not in PATH",
            f"install it: apt install {toolchain.packages}",
        )
    line = program_version(path)
    oldest = OLDEST_HOST_CLANG if "clang" in line else board.cpu.oldest_gcc
    why = f" for {board.cpu.name}" if oldest == board.cpu.oldest_gcc != toolchain.oldest_gcc else ""
    _require(path, version_in(line), oldest, why)
    return line


def build_programs() -> tuple[str, Mapping[str, str]]:
    """Return the path of CMake, and the environment in which it finds Ninja."""
    path = os.pathsep.join([*tool_folders(), os.environ.get("PATH", os.defpath)])
    cmake = shutil.which("cmake", path=path)
    if cmake is None or shutil.which("ninja", path=path) is None:
        raise BuildError(
            f"{'ninja' if cmake else 'cmake'} is not in PATH", "pip install cmake ninja"
        )
    _require(cmake, version_in(_ask(cmake)), OLDEST_CMAKE, "")
    return cmake, {**os.environ, "PATH": path}


def tool_folders() -> list[str]:
    """Folders of the CMake and Ninja that came with the Python environment, where they did."""
    folders = []
    for package, attribute in (("cmake", "CMAKE_BIN_DIR"), ("ninja", "BIN_DIR")):
        with suppress(ImportError):
            folders.append(str(getattr(import_module(package), attribute)))
    # An empty one, for a package that does not find its program, would be the working folder.
    return [folder for folder in folders if folder]


def program_version(path: str) -> str:
    """Return the first line that a program says of itself."""
    return _ask(path).partition("\n")[0]


def _ask(path: str) -> str:
    try:
        done = run([path, "--version"], Path(), limit_s=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{path} --version failed: {error}", "install the program again") from None
    if done.returncode != 0 or not done.stdout:
        raise BuildError(
            f"{path} --version failed: {done.stderr.strip() or f'exit code {done.returncode}'}",
            "install the program again",
        )
    return done.stdout


def _require(path: str, version: str | None, oldest: Version, why: str) -> None:
    # What does not say its version is taken as it is: its errors will tell.
    if version is not None and is_older(version, oldest):
        raise BuildError(
            f"{path} is version {version}, and firmware needs {in_words(oldest)} or later{why}",
            "install a newer one, and put it first in PATH",
        )
