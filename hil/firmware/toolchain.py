"""The compilers and build tools for firmware: paths, versions, checks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from hil.board import Board
from hil.errors import BuildError
from hilc.support.packages import install_command
from hilc.support.process import run
from hilc.target import Cpu

Version = tuple[int, ...]

#: The oldest host clang with -ffile-prefix-map, without which an image depends on its path (the
#: toolchain descriptions have gcc's), and the oldest CMake that reads the presets.
OLDEST_HOST_CLANG: Version = (10,)
OLDEST_CMAKE: Version = (3, 21)

#: By instruction set: macros that the compiler defines if its flags select a feature of a core.
_FEATURE_MACROS = {
    "arm": {
        "thumb2": "__thumb2__",
        "div": "__ARM_FEATURE_IDIV",
        "dsp": "__ARM_FEATURE_DSP",
        "mve": "__ARM_FEATURE_MVE",
        "fpu": "__ARM_FP",
    },
    "riscv": {"mul32": "__riscv_mul", "div": "__riscv_div", "fpu": "__riscv_flen"},
}

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_ASK_LIMIT_S = 30


def version_in(text: str) -> str | None:
    """Return the version in a program's output: the first after the packager's remarks."""
    first = text.strip().partition("\n")[0]
    match = _VERSION.search(first.rpartition(")")[2]) or _VERSION.search(text)
    return match[0] if match else None


def is_older(version: str, oldest: Version) -> bool:
    """Return whether a version is below ``oldest``."""
    # Suffixes of packagers and release candidates follow the numbers.
    return tuple(map(int, re.findall(r"\d+", version)[: len(oldest)])) < oldest


def in_words(version: Version) -> str:
    """Return a version as text, such as ``12.2.1``."""
    return ".".join(map(str, version))


def compiler_version(board: Board) -> str:
    """Return the first line of ``gcc --version``; raise BuildError if it is too old or missing."""
    toolchain = board.cpu.toolchain
    path = shutil.which(toolchain.gcc)
    if path is None:
        raise BuildError(
            f"the compiler {toolchain.gcc} is not in PATH",
            f"install it: {install_command(toolchain.packages)}",
        )
    line = program_version(path)
    oldest = OLDEST_HOST_CLANG if "clang" in line else board.cpu.oldest_gcc
    why = f" for {board.cpu.name}" if oldest == board.cpu.oldest_gcc != toolchain.oldest_gcc else ""
    _require(path, version_in(line), oldest, why)
    if board.cpu.word != board.cpu.name:
        _check_features(path, board.cpu)
    return line


def _check_features(gcc: str, cpu: Cpu) -> None:
    """Raise if a user's core has features for which its compiler flags select no instructions."""
    try:
        command = [gcc, *cpu.cflags, "-dM", "-E", "-x", "c", os.devnull]
        done = run(command, Path(), limit_s=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{gcc} failed: {error}", "install the program again") from None
    if done.returncode != 0:
        raise BuildError(
            f"{cpu.path}: cflags: {gcc} rejects the flags {shlex.join(cpu.cflags)}: "
            f"{(done.stderr.strip().splitlines() or ['no message'])[-1]}",
            "correct cflags in the core's description",
        )
    macros = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("#define ")}
    for feature, macro in _FEATURE_MACROS.get(cpu.isa, {}).items():
        if feature in cpu.features and macro not in macros:
            raise BuildError(
                f"{cpu.path}: features: {feature!r} contradicts cflags: with "
                f"{shlex.join(cpu.cflags)} the compiler uses no such instructions",
                "remove the feature, or correct cflags",
            )


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
    """Return the folders of the CMake and Ninja of the Python environment, if installed there."""
    folders = []
    for package, attribute in (("cmake", "CMAKE_BIN_DIR"), ("ninja", "BIN_DIR")):
        with suppress(ImportError):
            folders.append(str(getattr(import_module(package), attribute)))
    # A package that does not find its program gives an empty path: the working folder.
    return [folder for folder in folders if folder]


def program_version(path: str) -> str:
    """Return the first line of a program's ``--version``."""
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
    # A program without a version is accepted: it may work.
    if version is not None and is_older(version, oldest):
        raise BuildError(
            f"{path} is version {version}, and firmware needs {in_words(oldest)} or later{why}",
            "install a newer one, and put it first in PATH",
        )
