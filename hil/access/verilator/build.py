"""Simulators: Verilator's program of a core with the system on a chip, cached.

An entry of the cache is a folder with the program. Its name is a digest of all that it is made
from: the files of the RTL, the simulator's source, the options, the versions of the tools.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hil.access.verilator.cores import DEBUG_MODULE, INSTALL, RtlCore, package_folder
from hil.errors import BuildError, EmulatorError
from hil.firmware.toolchain import program_version
from hil.support.cache import (
    REMEDY,
    digest,
    evict_unused,
    locked,
    read_checked,
    remove,
    touch,
    with_checksum,
    writable_folder,
)
from hilc.support.outputs import cannot_write, write_file
from hilc.support.packages import install_command
from hilc.support.process import run

VERILATOR: Final = "verilator"
#: Programs that a build needs, and the Debian packages that bring them.
PROGRAMS: Final = {VERILATOR: "verilator", "g++": "g++", "make": "make"}
_LOG = logging.getLogger("hil.simulator")
_KIND = "simulators"
#: Part of every key: increment it when the form of entries changes.
_KEY_VERSION = b"1"
_SOURCE = Path(__file__).parent / "simulator.cpp"
#: Modules that a wrapper may use.
_BRIDGES = Path(__file__).parent / "bridges"
_DEBUG_TOP = Path(__file__).parent / "debug.sv"
_NAME = "simulator"
_RESULT = "simulator.json"
_BUILD_LIMIT_S = 1800.0
_SUFFIXES = (".sv", ".svh", ".v", ".vh")
#: Two parts of the C++ are compiled at a time: each takes some 200 MB.
_JOBS = min(2, os.cpu_count() or 1)
_ERROR_LINE = re.compile(r"%Error|: error:|fatal error|undefined reference")
_FIRST_ERRORS = 6
_OPTIONS: Final = (
    *("--cc", "--exe", "--build", "--prefix", "Vhil_rtl"),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    # The RTL is not ours to correct.
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
    *("-Wno-UNOPTFLAT", "-Wno-BLKANDNBLK", "-Wno-COMBDLY"),
    # Verilator's own makefile would add -Os for the parts that run in every cycle.
    *("-MAKEFLAGS", "OPT_FAST=-O2 OPT_SLOW=-O0 OPT_GLOBAL=-O2"),
)


def simulator(core: RtlCore, parameters: Sequence[str], *, debug: bool = False) -> Path:
    """Return the simulator of a core with these parameters of its wrapper, and with ``debug`` a
    debug module; build it if the cache has none.

    Raise :class:`DeviceError` if a program or the RTL's package is missing, and
    :class:`BuildError` if Verilator or the compiler fails.
    """
    check_installed(core, debug=debug)
    command = _command(core, parameters, debug)
    try:
        entry = writable_folder(_KIND) / _key(core, command, debug)
        with locked(entry):
            if not _is_complete(entry):
                _build(core, command, entry)
            touch(entry / _RESULT)
    except OSError as error:
        problem = cannot_write(error.filename or _KIND, error, REMEDY)
        raise BuildError(problem.fact, problem.hint) from None
    return entry / _NAME


def missing(core: RtlCore, *, debug: bool = False) -> tuple[str, str] | None:
    """Return the name of a program or package that a build lacks, and how to install it."""
    for name, package in PROGRAMS.items():
        if shutil.which(name) is None:
            return name, f"install it: {install_command(package)}"
    if core.folder is None:
        return core.package, f"install the RTL of {core.title}: {INSTALL}"
    if debug and package_folder(DEBUG_MODULE.folder) is None:
        return DEBUG_MODULE.package, f"install the RTL of the debug module: {INSTALL}"
    return None


def check_installed(core: RtlCore, *, debug: bool = False) -> None:
    """Raise DeviceError if a build lacks a program, or the RTL."""
    if (absent := missing(core, debug=debug)) is not None:
        raise EmulatorError(f"{absent[0]} is not installed", absent[1])


def version() -> str:
    """Return the version of Verilator in one line."""
    return program_version(shutil.which(VERILATOR) or VERILATOR)


def _command(core: RtlCore, parameters: Sequence[str], debug: bool) -> list[str]:
    flags = (
        f"-std=c++17 -O2 -DHIL_SAME_CYCLE={int(core.bus.answers_at_once)} "
        f"-DHIL_BUS_ERRORS={int(core.bus_errors)} -DHIL_DEBUG={int(debug)}"
    )
    folder = _folder(core)
    if debug:
        # -G sets parameters of the top module; hil_debug passes these on.
        words = (f".{name}({value})" for name, _, value in (p.partition("=") for p in parameters))
        top = ["--top-module", "hil_debug", f"-DHIL_PARAMETERS={','.join(words)}"]
    else:
        top = ["--top-module", "hil_rtl", *(f"-G{parameter}" for parameter in parameters)]
    return [
        *(VERILATOR, *_OPTIONS, "-CFLAGS", flags, "-j", str(_JOBS), "-o", _NAME, *top),
        *(f"-D{name}" for name in core.define),
        *(f"-I{folder / name}" for name in core.include),
        *(word for name in core.modules for word in ("-y", str(folder / name))),
        *("-y", str(_BRIDGES)),
        "+libext+.sv+.v",
        *map(str, _verilog(core, debug)),
        str(_SOURCE),
    ]


def _folder(core: RtlCore) -> Path:
    assert core.folder is not None, "check_installed has raised"
    return core.folder


def _verilog(core: RtlCore, debug: bool) -> Iterator[Path]:
    """Yield the files that are named on Verilator's command line, in their order."""
    yield from (_folder(core) / name for name in core.verilog)
    yield core.path.parent / core.wrapper
    if debug:
        folder = package_folder(DEBUG_MODULE.folder)
        assert folder is not None, "check_installed has raised"
        yield from (folder / name for name in DEBUG_MODULE.verilog)
        yield _DEBUG_TOP


def _sources(core: RtlCore, debug: bool) -> Iterator[Path]:
    """Yield the files that a simulator is made from, in a fixed order."""
    yield _SOURCE
    yield from _verilog(core, debug)
    yield from sorted(_BRIDGES.iterdir())
    folder = _folder(core)
    for name in dict.fromkeys((*core.modules, *core.include)):
        found = (folder / name).iterdir() if (folder / name).is_dir() else ()
        yield from sorted(path for path in found if path.suffix in _SUFFIXES)


def _key(core: RtlCore, command: Sequence[str], debug: bool) -> str:
    key = hashlib.sha256(_KEY_VERSION)
    for part in (version(), program_version(shutil.which("g++") or "g++"), *command):
        key.update(f"{len(part)}:{part}".encode())
    for path in _sources(core, debug):
        content = digest(path)
        if content is None:
            raise BuildError(
                f"{path} cannot be read, which the simulator of {core.title} is made from",
                f"install the RTL again: {INSTALL}" if core.package else f"correct {core.path}",
            )
        key.update(f"{path.name}:{content}:".encode())
    return key.hexdigest()[:32]


def _is_complete(entry: Path) -> bool:
    found = read_checked(entry / _RESULT)
    return found is not None and found.get("program") == digest(entry / _NAME) is not None


def _build(core: RtlCore, command: Sequence[str], entry: Path) -> None:
    """Build in ``entry``, which may have any content; it is complete when its result is there."""
    _LOG.warning(
        "building the simulator of %s with Verilator, once for these settings (a minute or less)",
        core.title,
    )
    start = time.monotonic()
    remove(entry)
    entry.mkdir()
    objects = entry / "objects"
    try:
        done = run(
            [*command, "--Mdir", str(objects)], entry, limit_s=_BUILD_LIMIT_S, errors_apart=False
        )
        text, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"the simulator of {core.title} was not built within {_BUILD_LIMIT_S:.0f} s",
            "run it again on a computer that is less busy",
        ) from None
    write_file(entry / "build.log", text)
    if code != 0 or not (objects / _NAME).is_file():
        lines = [line for line in text.splitlines() if _ERROR_LINE.search(line)]
        lines = lines[:_FIRST_ERRORS] or text.splitlines()[-_FIRST_ERRORS:]
        shown = "\n".join(f"  {line}" for line in lines)
        raise BuildError(
            f"the simulator of {core.title} does not build:\n{shown or f'  exit code {code}'}",
            f"see {entry / 'build.log'}",
        )
    (objects / _NAME).replace(entry / _NAME)
    remove(objects)
    write_file(entry / _RESULT, with_checksum({"program": digest(entry / _NAME)}))
    _LOG.info("built %s in %.1f s", entry / _NAME, time.monotonic() - start)
    evict_unused()
