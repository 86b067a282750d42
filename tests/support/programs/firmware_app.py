"""The firmware of ``examples/own_firmware``, and programs of this machine that print a text."""

from __future__ import annotations

import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "own_firmware"
FLAGS = (
    *("-mcpu=cortex-m4", "-mthumb", "-O1", "-g", "-ffreestanding", "-nostdlib"),
    *("-Wl,--build-id=none", "-T", str(EXAMPLE / "app.ld")),
)
BOARD = "mps2-an386"


def build_app(name: str, folder: Path, *flags: str) -> Path:
    """The ELF file of an application of the example."""
    elf = folder / f"{name}.elf"
    sources = [str(EXAMPLE / file) for file in (f"{name}.c", "board.c", "filter.c")]
    command = ["arm-none-eabi-gcc", *FLAGS, *flags, *sources, "-lgcc", "-o", str(elf)]
    subprocess.run(command, check=True, cwd=folder)
    return elf


def build_with_coverage(folder: Path, *, keeps: bool = True) -> Path:
    """The example's Unity application, with the counters of ``filter.c``; without ``keeps`` none
    of the sources has any.
    """
    gcc = "arm-none-eabi-gcc"
    common = [word for word in FLAGS if word.startswith(("-m", "-f", "-g"))]
    counted = ["--coverage", "-fprofile-info-section", "-O0"] if keeps else ["-O0"]
    header = str(EXAMPLE.parents[1] / "hil" / "device" / "gcov")
    for name, words in (
        ("filter", counted),
        ("unity_app", ["-O1", "-DCOVERAGE", f"-I{header}", "-Wall", "-Wextra", "-Werror"]),
        ("board", ["-O1"]),
    ):
        source = str(EXAMPLE / f"{name}.c")
        command = [gcc, *common, *words, "-c", source, "-o", f"{name}.o"]
        subprocess.run(command, cwd=folder, check=True)
    objects = ["filter.o", "unity_app.o", "board.o"]
    libraries = ["-lgcov", "-lc_nano", "-lgcc"]
    subprocess.run([gcc, *FLAGS, *objects, *libraries, "-o", "app.elf"], cwd=folder, check=True)
    return folder / "app.elf"


def build_program(folder: Path, code: str, name: str = "app") -> Path:
    """A program of this machine, for the board native."""
    (folder / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n{code}")
    subprocess.run(["gcc", f"{name}.c", "-o", name], cwd=folder, check=True)
    return folder / name


def printing(folder: Path, text: bytes, end: str = "return 0;", name: str = "app") -> Path:
    """A program of this machine that prints ``text`` and then does what ``end`` says."""
    numbers = ", ".join(map(str, text)) or "0"
    return build_program(
        folder,
        f"static const unsigned char text[] = {{{numbers}}};\n"
        f"int main(void) {{ fwrite(text, 1, {len(text)}, stdout); fflush(stdout); {end} }}\n",
        name,
    )
