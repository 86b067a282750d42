"""Compiles the C of a library, with every compiler and warning that users may have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hilc.artifact.library import ModelLibrary
from hilc.compat.tvm.crt import INCLUDE

#: The C run time's headers, which generated code for the packed interface includes.
RUNTIME = INCLUDE

WARNINGS = (
    "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
    "-Wstrict-prototypes", "-Wdouble-promotion", "-Wundef", "-Werror",
)  # fmt: skip

#: Compilers, by a name for test reports; the first word is the program.
COMPILERS: Mapping[str, Sequence[str]] = {
    "gcc": ("gcc",),
    "clang": ("clang",),
    "cortex-m0": ("arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"),
    "cortex-m3": ("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb"),
    "cortex-m4": (
        "arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard",
        "-mfpu=fpv4-sp-d16",
    ),
    "cortex-m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
}  # fmt: skip


def run(command: Sequence[str], folder: Path) -> str:
    """The program's standard output; a failure fails the test with what it said."""
    assert shutil.which(command[0]) or (folder / command[0]).is_file(), f"{command[0]} is missing"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[:6000]}"
    return done.stdout


def sources(library: ModelLibrary) -> list[str]:
    """The paths of the generated C files, relative to the library's folder."""
    found = (n for n in library.files if n.startswith("codegen/host/src/") and n.endswith(".c"))
    return sorted(found)


def compile_objects(
    library: ModelLibrary, compiler: Sequence[str], folder: Path, flags: Sequence[str] = ("-Os",)
) -> None:
    """Compile every C file of the library in ``folder``; a warning fails the test."""
    library.save(folder)
    includes = ["-Icodegen/host/include", f"-I{RUNTIME}"]
    for name in sources(library):
        run([*compiler, *WARNINGS, *flags, *includes, "-c", name, "-o", "object.o"], folder)
