"""An application that knows only the generated headers, built from the archives without our CMake.

What a user of microTVM's C interface has: a ``main`` of a few lines, the compiler, a linker script
of their own. Two models, each from its own archive, in one image.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import models
import numpy as np
import pytest
from campaigns import sampled

import hilc
from hil.board import load_board
from hilc.frontends import load_model
from hilc.interpreter import run

APPLICATION = Path(__file__).parent / "c_caller"
MODELS = ("kws", "ad")
PATIENCE_S = 120
WARNINGS = (
    "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Wdouble-promotion",
    "-Werror",
)  # fmt: skip


@functools.cache
def expected(turn: int) -> dict[str, str]:
    """The lines that the application prints, from the interpreter."""
    lines = {}
    for name in MODELS:
        graph = load_model(models.model_path(name))
        (tensor,), (output,) = graph.inputs, graph.outputs
        shape = graph.tensors[tensor].shape
        pattern = (np.arange(np.prod(shape)) * 37 + turn * 101) % 256 - 128
        results = run(graph, {tensor: pattern.reshape(shape).astype(np.int8)})
        lines[name] = results[output].tobytes().hex()
    return lines


@pytest.mark.parametrize("codegen", sampled(["c", "llvm"], keep=["c"]))
def test_two_models_called_from_c(codegen: str, tmp_path: Path) -> None:
    board = load_board("mps2-an386")
    assert board.qemu is not None
    sources, includes = [], []
    for name in MODELS:
        library = hilc.compile(
            models.model_path(name), cpu=board.cpu.name, name=name, codegen=codegen
        )
        archive = library.save(tmp_path / f"{name}.tar")
        (tmp_path / name).mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", tmp_path / name], check=True)
        host = tmp_path / name / "codegen" / "host"
        sources += [*sorted(host.glob("src/*.c")), *sorted(host.glob("lib/*.o"))]
        includes.append(f"-I{host / 'include'}")
    elf = tmp_path / "application.elf"
    subprocess.run(
        [
            *("arm-none-eabi-gcc", *board.cpu.cflags, "-std=c11", "-O2", *WARNINGS, *includes),
            *(APPLICATION / "main.c", APPLICATION / "board.c", *sources),
            *("-nostartfiles", "--specs=nano.specs", "-T", APPLICATION / "board.ld"),
            *("-lm", "-o", elf),
        ],
        check=True,
    )
    done = subprocess.run(
        [
            *("qemu-system-arm", "-machine", board.qemu.machine, "-kernel", elf),
            *("-display", "none", "-serial", "none", "-monitor", "none"),
            *("-chardev", "stdio,id=console"),
            *("-semihosting-config", "enable=on,target=native,chardev=console"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = re.findall(r"^(\w+) ([0-9a-f]+)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in printed] == list(MODELS) * 3
    for turn in range(3):
        assert dict(printed[2 * turn : 2 * turn + 2]) == expected(turn)
