#!/usr/bin/env python3
"""Builds and checks the libraries of `hil export`, of every format, with the ecosystems' tools.

Each library is written into a path with spaces. Its example is built with all warnings as errors,
by the ecosystem's own build system where that is at hand (CMake, PlatformIO) and a stand-in else,
and run here or in QEMU; its manifest is read by the ecosystem's tools, which an environment of
their own has (``build/export-tools``, made at the first run). The exit code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import export_hosts as hosts
from export_tools import CHECKS, PACKAGES

import hil
from hil.board import load_board
from hil.export.registry import export_formats

ROOT = Path(__file__).resolve().parents[2]

DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
#: A board of each kind of core.
BOARDS = ("mps2-an386", "microbit", "mps3-an547", "riscv-virt")
STYLES = ("tvm", "plain")
_LIMIT_S = 900.0


def main() -> int:
    """Run all checks; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path, default=[DIGITS], help="model files")
    parser.add_argument("--style", choices=STYLES, help="only this style of the code")
    parser.add_argument("--boards", nargs="*", default=BOARDS, help="boards in QEMU")
    parser.add_argument("--no-tools", action="store_true", help="only boards in QEMU")
    parser.add_argument("--tools", action="store_true", help="only the ecosystems' tools")
    parser.add_argument("--python", type=Path, help="a Python that has the ecosystems' tools")
    args = parser.parse_args()
    tools = args.python or (None if args.no_tools else _environment())
    models = [] if args.tools else args.models
    styles = (args.style,) if args.style else STYLES
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for index, (what, check) in enumerate(_checks(models, tools, styles, args.boards)):
            start = time.monotonic()
            try:
                said, mark = check(Path(folder) / f"check {index}"), "good"
            except (AssertionError, subprocess.SubprocessError, hil.HilError) as error:
                said, mark, failed = str(error), "FAILED", failed + 1
            print(f"{mark:6} {what:44} {time.monotonic() - start:5.1f} s  {said}", flush=True)
    return 1 if failed else 0


def _environment() -> Path:
    """Return the Python of the environment with the tools; make it if it is not there."""
    folder = ROOT / "build" / "export-tools"
    python = folder / "bin" / "python"
    done = folder / "packages.txt"
    if not done.is_file() or done.read_text() != "\n".join(PACKAGES):
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", *PACKAGES], check=True, timeout=_LIMIT_S
        )
        done.write_text("\n".join(PACKAGES))
    return python


Check = Callable[[Path], str]


def _checks(
    models: list[Path], tools: Path | None, styles: Sequence[str], boards: Sequence[str]
) -> Iterator[tuple[str, Check]]:
    for model, style in itertools.product(models, styles):
        what = f"{model.stem}, {style}"
        for board in boards:
            yield f"{what}: cmake, {board} in QEMU", _in_qemu(model, board, style)
        for name in export_formats() if tools is not None else ():
            yield f"{what}: {name}, built here", _built_here(model, name, style)
    if tools is None:
        return
    for name in CHECKS:
        yield f"{name}: the ecosystem's tools", _by_tools(name, tools)
    yield "cmsis-pack: read by pyOCD", _by_pyocd


def _in_qemu(model: Path, board: str, style: str) -> Check:
    def check(folder: Path) -> str:
        hil.export(model, "cmake", folder / "a library", board=board, style=style)
        (toolchain,) = (folder / "a library" / "example").glob("toolchain-*.cmake")
        program = hosts.build_cmake(folder / "a library", folder / "a build", toolchain)
        return _last_line(hosts.run_on_qemu(load_board(board), program))

    return check


def _built_here(model: Path, name: str, style: str) -> Check:
    def check(folder: Path) -> str:
        library, build = folder / "a library", folder / "a build"
        exported = hil.export(model, name, library, style=style)
        slug = exported.name.lower()
        match name:
            case "cmake":
                program = hosts.build_cmake(library, build)
            case "zephyr":
                program = hosts.build_zephyr(library / "samples" / slug, build)
            case "esp-idf":
                program = hosts.build_esp_idf(library, slug, build)
            case "arduino":
                (sketch,) = library.rglob("*.ino")
                built = hosts.build_arduino(library, sketch, build)
                assert built is not None
                program = built
            case "platformio":
                program = hosts.build_files(
                    library, library / "examples" / slug / "src" / "main.c", build
                )
            case _:
                program = hosts.build_files(library, library / "template" / "main.c", build)
        return _last_line(hosts.run(program))

    return check


def _by_tools(name: str, tools: Path) -> Check:
    def check(folder: Path) -> str:
        # Kconfig's parser takes a path with a space for several.
        library = folder / ("library" if name == "zephyr" else "a library")
        hil.export(DIGITS, name, library)
        script = Path(__file__).with_name("export_tools.py")
        environment = {"PYTHONPATH": ""}
        return hosts.run(tools, script, name, library, environment=environment).strip()

    return check


def _by_pyocd(folder: Path) -> str:
    from pyocd.target.pack.cmsis_pack import CmsisPack

    hil.export(DIGITS, "cmsis-pack", folder, cpu="cortex-m4")
    (path,) = folder.glob("*.pack")
    # It raises for a pack that it cannot read; of chips this one has none.
    assert CmsisPack(str(path)).devices == []
    return path.name


def _last_line(said: str) -> str:
    line = said.strip().splitlines()[-1]
    assert line.endswith(hosts.PASSED), said
    return line


if __name__ == "__main__":
    sys.exit(main())
