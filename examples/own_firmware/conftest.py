"""Builds the example's firmware with Arm's GCC, as your build system does it for yours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FLAGS = (
    *("-mcpu=cortex-m4", "-mthumb", "-O1", "-g", "-std=c11", "-Wall", "-Werror"),
    *("-ffreestanding", "-nostdlib", "-Wl,--build-id=none", "-T", str(HERE / "app.ld")),
)


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that builds the ELF file of an application."""

    def built(name: str, *flags: str) -> Path:
        elf = tmp_path / f"{name}.elf"
        sources = [str(HERE / file) for file in (f"{name}.c", "board.c", "filter.c")]
        command = ["arm-none-eabi-gcc", *FLAGS, *flags, *sources, "-lgcc", "-o", str(elf)]
        subprocess.run(command, check=True, cwd=tmp_path)
        return elf

    return built
