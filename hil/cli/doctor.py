"""Which tools there are, what each is for, and how to get the ones that are missing."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hilc
from hil.board import Board
from hil.errors import HilError
from hil.firmware.toolchain import (
    OLDEST_CMAKE,
    Version,
    in_words,
    is_older,
    version_in,
)
from hil.runners import Need, runner_named
from hilc import host, interpreter
from hilc.codegen.llvm import OLDEST_CLANG, find_clang
from hilc.ir import Graph, Node, Quant, Tensor
from hilc.ops.fully_connected import FullyConnectedAttributes
from hilc.references import tflm
from hilc.support.process import run
from hilc.target import Toolchain, get_cpu, toolchains

_TIMEOUT_S = 20
_HOST = get_cpu("host").toolchain


class InstallationError(HilError):
    """Wrong results of this installation: its tools do not compute what they should."""

    exit_code = 4


@dataclass(frozen=True)
class Tool:
    """Something that the harness runs or imports."""

    name: str
    purpose: str
    remedy: str
    #: The emulated path (compile, build, QEMU, verify) does not work without it.
    required: bool
    #: Its version; None when it is missing. Raises nothing.
    find: Callable[[], str | None]
    #: The first version that will do, where an older one is known not to.
    oldest: Version | None = None


@dataclass(frozen=True)
class Finding:
    """Result of a check of a tool."""

    tool: Tool
    version: str | None

    @property
    def problem(self) -> str:
        """The problem; empty for a tool that will do."""
        if self.version is None:
            return f"{self.tool.name} is missing"
        oldest = self.tool.oldest
        if oldest is None or not is_older(self.version, oldest):
            return ""
        return f"{self.tool.name} {self.version} is too old, and {in_words(oldest)} is the oldest"

    def json(self) -> dict[str, Any]:
        return {
            "name": self.tool.name,
            "found": self.version is not None,
            "version": self.version,
            "too_old": self.version is not None and bool(self.problem),
            "required": self.tool.required,
            "purpose": self.tool.purpose,
            "remedy": self.tool.remedy,
        }


def diagnose() -> list[Finding]:
    """Look for every tool."""
    return [Finding(tool, tool.find()) for tool in TOOLS]


def missing_for_runner(board: Board, runner: str | None = None) -> Tool | None:
    """Return the tool that ``runner``, or the board's first, cannot do without, when there is none
    that will do.
    """
    runner = runner or board.default_runner
    need = runner_named(runner).needs(board)
    # A process of this machine runs wherever it can be built.
    built_by = _HOST.gcc if board.is_host else ""
    name = built_by if need is None else need.name
    tools = [*TOOLS, *_toolchain_tools(board.cpu.toolchain)]
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None and need is not None:
        tool = Tool(name, f"the runner `{runner}`", need.hint, False, partial(_version_of, need))
    return tool if tool is not None and Finding(tool, tool.find()).problem else None


def _version_of(need: Need) -> str | None:
    """Return a word in place of a version that is not known; None for what is missing."""
    return "found" if need.is_there() else None


def self_test() -> str:
    """Compile a small model for this machine and compare it with the interpreter.

    Says what it saw; raises :class:`~hilc.errors.HilError` when the results differ or the model
    cannot be compiled.
    """
    if shutil.which(_HOST.gcc) is None:
        return "not run, since there is no C compiler for this machine"
    graph = _small_graph()
    values = np.arange(-32, 32, dtype=np.int8).reshape(1, 64)
    expected = interpreter.run(graph, {"x": values})["y"]
    with host.load(hilc.compile(graph)) as model:
        model.set_input("x", values)
        model.run()
        got = model.get_output("y")
    if not np.array_equal(got, expected):
        raise InstallationError(
            f"a compiled model gives {got.tolist()}, the interpreter {expected.tolist()}",
            "install this program again; is the host's C compiler sound?",
        )
    return "a model compiled for this machine equals the interpreter"


def _small_graph() -> Graph:
    """One fully connected layer, 64 to 8."""
    weights = (np.arange(8 * 64) * 37 % 255 - 127).astype(np.int8).reshape(8, 64)
    tensors = (
        Tensor("x", (1, 64), "int8", Quant((0.05,), (-3,))),
        Tensor("w", (8, 64), "int8", Quant((0.01,), (0,)), weights),
        Tensor("b", (8,), "int32", Quant((0.0005,), (0,)), np.arange(8, dtype=np.int32) * 100),
        Tensor("y", (1, 8), "int8", Quant((0.4,), (5,))),
    )
    node = Node(
        "FULLY_CONNECTED",
        ("x", "w", "b"),
        ("y",),
        FullyConnectedAttributes(),
    )
    return Graph("self_test", {t.name: t for t in tensors}, (node,), ("x",), ("y",))


def _program(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        path = shutil.which(name)
        return None if path is None else _first_version([path, "--version"])

    return find


def _package(name: str) -> Callable[[], str | None]:
    def find() -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    return find


def _program_or_package(name: str) -> Callable[[], str | None]:
    """Return the program that a Python package brings, or the one on the path."""
    return lambda: _package(name)() or _program(name)()


def _library(toolchain: Toolchain) -> str | None:
    """Return the C library of a toolchain."""
    gcc = shutil.which(toolchain.gcc)
    if gcc is None:
        return None
    # gcc prints the bare name of a file that it does not find.
    asked = [gcc, *toolchain.library_flags, f"-print-file-name={toolchain.library_file}"]
    library = Path(_output(asked))
    return "installed" if library.is_absolute() and library.is_file() else None


def _clang() -> str | None:
    """Return the one that makes objects, which may have a version in its name."""
    try:
        path, _ = find_clang()
    except HilError:
        return None
    return _first_version([path, "--version"])


def _first_version(command: list[str]) -> str | None:
    return version_in(_output(command))


def _output(command: list[str]) -> str:
    """Return what a program prints; nothing when it cannot run, which counts as missing."""
    try:
        result = run(command, Path(), limit_s=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def _toolchain_tools(toolchain: Toolchain) -> tuple[Tool, ...]:
    """Return what a toolchain's cores need to build and to emulate; none of it for the host."""
    if toolchain.is_host:
        return ()
    gcc, objdump, objcopy = map(toolchain.program, (toolchain.compiler, "objdump", "objcopy"))
    elsewhere = f"or a GNU toolchain {toolchain.prefix.rstrip('-')} on PATH"
    binutils = f"apt install {toolchain.binutils_package}, {elsewhere}"
    needed = toolchain.is_default
    return (
        Tool(
            gcc,
            f"compiles models and firmware for {toolchain.cores}",
            f"apt install {toolchain.gcc_package}, {elsewhere}",
            needed,
            _program(gcc),
            toolchain.oldest_gcc,
        ),
        Tool(objdump, "finds the deepest stack of a firmware", binutils, needed, _program(objdump)),
        Tool(
            objcopy,
            "models as objects (--codegen llvm), and archives that TVM wrote",
            binutils,
            False,
            _program(objcopy),
        ),
        Tool(
            toolchain.library,
            f"the C library of the firmware for {toolchain.cores}",
            f"apt install {toolchain.library_package}",
            needed,
            partial(_library, toolchain),
        ),
        Tool(
            toolchain.qemu,
            f"emulates boards with {toolchain.cores}",
            f"apt install {toolchain.qemu_package}",
            needed,
            _program(toolchain.qemu),
        ),
    )


TOOLS = (
    *(
        tool
        for toolchain in sorted(toolchains(), key=lambda t: not t.is_default)
        if not toolchain.is_host
        for tool in _toolchain_tools(toolchain)
    ),
    Tool(
        "pyocd",
        "programs and debugs boards through their probes",
        "pip install pyocd",
        False,
        _package("pyocd"),
    ),
    Tool(
        "renode",
        "the runner `renode`: emulates the boards in another way",
        "unpack one of https://github.com/renode/renode/releases (1.15 or later), on PATH",
        False,
        _program("renode"),
    ),
    Tool(
        "cmake",
        "builds firmware",
        "pip install cmake",
        True,
        _program_or_package("cmake"),
        OLDEST_CMAKE,
    ),
    Tool("ninja", "builds firmware", "pip install ninja", True, _program_or_package("ninja")),
    Tool(
        _HOST.gcc,
        "the board `native`, and models in this process",
        "apt install gcc",
        False,
        _program(_HOST.gcc),
        _HOST.oldest_gcc,
    ),
    Tool(
        "clang",
        "models as objects: --codegen llvm",
        f"apt install clang (version {OLDEST_CLANG} or later)",
        False,
        _clang,
    ),
    Tool(
        tflm.PACKAGE,
        "the reference `tflm`; without it the next is compared with",
        f"pip install {tflm.PACKAGE}=={tflm.VERSION} ({tflm.SYSTEM})",
        False,
        _package(tflm.PACKAGE),
    ),
    Tool(
        "ai-edge-litert",
        "the reference `litert-ref`, for what `tflm` lacks; without it `hilc` is compared with",
        "pip install ai-edge-litert==1.2.0",
        False,
        _package("ai-edge-litert"),
    ),
    Tool(
        "gdb-multiarch",
        "debugging firmware by hand",
        "apt install gdb-multiarch",
        False,
        _program("gdb-multiarch"),
    ),
)
