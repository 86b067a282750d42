"""A library's sources as relocatable objects for the model's core, compiled with clang.

The objects link with gcc's: same ABI (enumerations as short as gcc's on Arm, the same
floating-point registers), one section per function and constant, the same linker sections as in the
sources, no debug information and so no paths. The function table, which has no C source here, is an
LLVM module.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hilc.codegen.function_table import function_table
from hilc.codegen.headers import include_dirs
from hilc.errors import HilError
from hilc.support.packages import install_command
from hilc.support.process import run
from hilc.support.temporary import TemporaryFolder
from hilc.target import Cpu

#: First release that reads LLVM modules with opaque pointers, there with a switch.
OLDEST_CLANG = 14
#: Program names besides plain ``clang``: the newest tested release first.
_VERSIONED = tuple(f"clang-{major}" for major in range(22, OLDEST_CLANG - 1, -1))

_SOURCES = "codegen/host/src"
_OBJECTS = "codegen/host/lib"
_INCLUDE = "codegen/host/include"
_BUILD_LIMIT_S = 600
_PROBE_LIMIT_S = 30

_INSTALL = (
    f"install clang {OLDEST_CLANG} or later ({install_command('clang')}), or choose codegen=c, "
    "which needs none"
)

# Flags that determine code and ABI, for C and LLVM modules alike. The optimization level is that of
# the firmware's C.
_CODE_FLAGS = ("-O2", "-ffunction-sections", "-fdata-sections", "-fno-addrsig")
# No contraction: a fused multiply-add rounds once where the reference rounds twice.
_C_FLAGS = (
    "-std=c11",
    "-ffp-contract=off",
    "-fno-common",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fstack-usage",
)


class LlvmError(HilError):
    """Clang is missing, too old, or failed."""

    exit_code = 3


def to_objects(
    files: Mapping[str, bytes], module: str, cpu: Cpu, table: Sequence[str] | None = None
) -> dict[str, bytes]:
    """Return ``files`` with the C sources of ``module`` for ``cpu`` replaced by objects.

    ``codegen/host/src/<module>_lib<N>.c`` becomes ``codegen/host/lib/<module>_lib<N>.o``, with
    ``..._lib<N>.su`` beside it: how much stack each function takes, in the form that gcc and clang
    write with ``-fstack-usage``. Headers stay where they are, for the user's own code.

    With ``registry``, the names of packed functions in the registry's order (there may be none of
    them), a further object with the next free number defines ``TVMSystemLibEntryPoint``, weak: an
    image of several modules has one for all of them. The sources must not define it too, then.

    Raises :class:`LlvmError` where there is no usable clang, or where it fails.
    """
    clang, version = find_clang()
    flags = _target_flags(cpu)
    # TVM's runtime headers are not part of a library; the program that links it has them.
    runtime = [f"-isystem{folder}" for folder in include_dirs()]
    headers = (f"-I{_INCLUDE}", *runtime, *_libc_flags(cpu))
    pattern = re.compile(rf"{_SOURCES}/({re.escape(module)}_lib(\d+))\.c")
    taken = re.compile(rf"{_OBJECTS}/{re.escape(module)}_lib(\d+)\.o")
    result = dict(files)
    numbers = [int(found[1]) for path in files if (found := taken.fullmatch(path))]
    with TemporaryFolder("llvm") as name:
        folder = Path(name)
        _write(folder, {path: data for path, data in files.items() if path.startswith("codegen/")})
        for path in sorted(files):
            if not (found := pattern.fullmatch(path)):
                continue
            numbers.append(int(found[2]))
            stem = f"{_OBJECTS}/{found[1]}"
            # clang writes the stack usage beside the object.
            (folder / _OBJECTS).mkdir(parents=True, exist_ok=True)
            command = [clang, *flags, *_CODE_FLAGS, *_C_FLAGS, *headers]
            _call([*command, "-c", path, "-o", f"{stem}.o"], folder, path)
            del result[path]
            # In the object now.
            result.pop(f"{_INCLUDE}/{found[1]}.bin", None)
            _strip(folder / f"{stem}.o", cpu)
            for suffix in (".o", ".su"):
                # A file without functions has no stack usage.
                if suffix == ".o" or (folder / (stem + suffix)).exists():
                    result[stem + suffix] = (folder / (stem + suffix)).read_bytes()
        if table is not None:
            stem = f"{module}_lib{max(numbers, default=-1) + 1}"
            source = f"{stem}.ll"
            text = function_table().llvm_module(table, source) + _abi_flags(cpu)
            (folder / source).write_text(text, encoding="utf-8")
            command = [clang, *flags, *_CODE_FLAGS, *_module_flags(version)]
            _call([*command, "-c", source, "-o", f"{stem}.o"], folder, source)
            _strip(folder / f"{stem}.o", cpu)
            result[f"{_OBJECTS}/{stem}.o"] = (folder / f"{stem}.o").read_bytes()
    return result


def _abi_flags(cpu: Cpu) -> str:
    """Return flags for the sizes of wchar_t and of the smallest enumeration, which the linker
    compares.
    """
    if cpu.is_host:
        return ""
    return (
        "!llvm.module.flags = !{!0, !1}\n"
        '!0 = !{i32 1, !"wchar_size", i32 4}\n'
        f'!1 = !{{i32 1, !"min_enum_size", i32 {cpu.toolchain.llvm_enum_bytes}}}\n'
    )


def _target_flags(cpu: Cpu) -> tuple[str, ...]:
    """Return clang's flags for the core."""
    if not cpu.is_host and not cpu.toolchain.llvm_flags:
        raise LlvmError(
            f"codegen=llvm does not support {cpu.name}: no clang target is known for it",
            f"add llvm.flags to {cpu.toolchain.path}, or use codegen=c",
        )
    return (*cpu.toolchain.llvm_flags, *cpu.llvm_flags)


def _module_flags(version: int) -> tuple[str, ...]:
    """Return the flags for the function table's module, which names no target of its own."""
    opaque = ("-mllvm", "-opaque-pointers") if version == OLDEST_CLANG else ()
    # C's flag for enumerations has no effect here: the module states the size itself.
    return ("-Wno-override-module", "-Wno-unused-command-line-argument", *opaque)


def _asked(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler and return its output; raise OSError or SubprocessError if that fails."""
    done = run(command, Path(), limit_s=_PROBE_LIMIT_S)
    done.check_returncode()
    return done


@functools.cache
def _version_of(clang: str) -> int | None:
    """Return the major version of a clang; None for other programs."""
    try:
        done = _asked([clang, "--version"])
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"clang version (\d+)", done.stdout)
    return int(found[1]) if found else None


def find_clang() -> tuple[str, int]:
    """Return path and major version of the clang to use: ``clang``, else the newest versioned
    one.

    Raise LlvmError if there is none that is new enough.
    """
    seen: list[str] = []
    for name in ("clang", *_VERSIONED):
        path = shutil.which(name)
        if path is None:
            continue
        version = _version_of(path)
        if version is not None and version >= OLDEST_CLANG:
            return path, version
        seen.append(f"{path} is {f'version {version}' if version else 'no working clang'}")
    fact = f"and {', '.join(seen)}" if seen else "and there is no clang in PATH"
    raise LlvmError(f"codegen=llvm needs clang {OLDEST_CLANG} or later, {fact}", _INSTALL)


def _libc_flags(cpu: Cpu) -> tuple[str, ...]:
    """Return flags for the C library's headers: those of the core's GNU toolchain."""
    if cpu.is_host:
        return ()
    toolchain = cpu.toolchain
    folders = _gcc_includes(_gnu_tool("gcc", cpu), toolchain.c_flags, toolchain.packages)
    return tuple(f"-isystem{folder}" for folder in folders)


def _gnu_tool(name: str, cpu: Cpu) -> str:
    """Return the path of a tool of the core's GNU toolchain, which every other build needs too."""
    program = cpu.toolchain.program(name)
    path = shutil.which(program)
    if path is None:
        raise LlvmError(
            f"codegen=llvm for {cpu.name} needs the C library and objcopy of the GNU toolchain, "
            f"but "
            f"there is no {program} in PATH",
            f"install it: {install_command(cpu.toolchain.packages)}",
        )
    return path


@functools.cache
def _gcc_includes(gcc: str, flags: tuple[str, ...], packages: str) -> tuple[str, ...]:
    """Return the folders that ``gcc`` searches, without those of the compiler itself."""
    try:
        done = _asked([gcc, *flags, "-E", "-v", "-x", "c", "-", "-o", "-"])
    except (OSError, subprocess.SubprocessError) as error:
        raise LlvmError(f"{gcc} does not print its include folders: {error}", _INSTALL) from None
    _, _, listed = done.stderr.partition("#include <...> search starts here:")
    folders = [Path(line.strip()) for line in listed.partition("End of search")[0].splitlines()]
    # Only the compiler's own folders hold stddef.h; clang has its own version.
    found = tuple(
        str(folder)
        for folder in folders
        if (folder / "string.h").is_file() and not (folder / "stdarg.h").is_file()
    )
    if not found:
        raise LlvmError(
            f"{gcc} has no C library: no string.h in {', '.join(map(str, folders)) or 'no folder'}",
            f"install it: {install_command(packages)}",
        )
    return found


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _strip(path: Path, cpu: Cpu) -> None:
    """Remove sections that objects of the core's gcc do not have either."""
    removed = [f"--remove-section={name}" for name in cpu.toolchain.llvm_removed_sections]
    if not removed:
        return
    _call([_gnu_tool("objcopy", cpu), *removed, path.name], path.parent, path.name)


def _call(command: Sequence[str], folder: Path, source: str) -> None:
    """Run a tool in ``folder`` with relative paths only, so that no path gets into the object."""
    try:
        done = run(command, folder, limit_s=_BUILD_LIMIT_S, temporary=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LlvmError(f"{source} could not be compiled: {error}") from None
    if done.returncode:
        raise LlvmError(
            f"{command[0]} could not compile {source}: {done.stderr.strip()[:2000]}",
            "fix the code if it is yours; otherwise use codegen=c",
        )
