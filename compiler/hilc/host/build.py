"""A library as a shared object for this machine, which contains its own description.

The loaded object needs no compiler and no other file: descriptions of modules and initial values
are data in it, ``hilc_host_description``, beside the external constants of each module.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hilc.artifact.extra import EXTRA, ExtraCode, extra_code
from hilc.artifact.library import ModelLibrary, Module, module_path
from hilc.artifact.manifest import check_module
from hilc.artifact.params import load_params, save_params
from hilc.codegen.function_table import function_table
from hilc.codegen.headers import include_dirs
from hilc.errors import HilError, InputError
from hilc.host.runtime import HostRuntime, host_runtime, needs_runtime
from hilc.ir import Array
from hilc.support.jsondata import decode, parse_json
from hilc.support.packages import install_command
from hilc.support.process import run
from hilc.support.temporary import TemporaryFolder
from hilc.target import get_cpu
from hilc.target.objects import require_fits

#: ``HIL_MODEL_FLAGS`` of the firmware explains the last one.
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fno-delete-null-pointer-checks")
# Bsymbolic: another library in the process may have functions of these names, TVM's own for
# example. defs: the linker reports undefined symbols now, instead of the loader later.
_LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,noexecstack", "-Wl,-z,defs")
_BUILD_LIMIT_S = 600
_UNDEFINED = re.compile(r"undefined reference to [`'](\w+)'")
_MISSING_HEADER = re.compile(r"fatal error: ([\w./+-]+): No such file")
#: Maximum number of missing symbols in a message.
_MOST_NAMES = 10

_DESCRIPTION_VERSION = 1
_REGISTRY = "hilc_registry.c"

#: Symbols of the data in the shared object.
DESCRIPTION = "hilc_host_description"
CONSTANTS = "hilc_host_constants_"


class HostBuildError(HilError):
    """The host's C compiler is missing or failed."""

    exit_code = 3


@dataclass(frozen=True)
class Description:
    """Description inside a shared object."""

    modules: tuple[Module, ...]
    #: Name of the default module.
    default: str | None = None
    #: Initial values of its inputs by name, for every new executor.
    params: Mapping[str, Array] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the description as compact JSON; the parameters are in Base64."""
        params = base64.b64encode(save_params(self.params)).decode()
        written = _Written(_DESCRIPTION_VERSION, self.modules, self.default, params)
        # Without indentation: it is compiled in.
        return json.dumps(asdict(written), sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def from_json(text: bytes, label: str) -> Description:
        """Return the description in ``text``, checked; ``label`` names it in messages.

        Raise :class:`~hilc.errors.InputError` for another version or invalid content.
        """
        value = parse_json(text, label)
        version = value.get("version") if isinstance(value, dict) else None
        if version != _DESCRIPTION_VERSION:
            raise InputError(
                f"{label} has version {version!r} of the library description; "
                f"supported is {_DESCRIPTION_VERSION}",
                "export the library again with this version",
            )
        written = decode(_Written, value, label)
        for module in written.modules:
            check_module(module, label)
        try:
            params = base64.b64decode(written.params, validate=True)
        except binascii.Error as error:
            raise InputError(f"{label}: params: {error}") from None
        return Description(written.modules, written.default, load_params(params, label))


@dataclass(frozen=True)
class _Written:
    """JSON form of a description."""

    version: int
    modules: tuple[Module, ...]
    default: str | None
    #: TVM's parameter file in base 64.
    params: str


def host_compiler() -> str:
    """Return the C compiler: ``CC`` if it is set, else the first of cc, gcc and clang that is
    installed.

    Raise HostBuildError if none is found.
    """
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for candidate in candidates:
        if path := shutil.which(candidate):
            return path
    raise HostBuildError(
        f"no C compiler for this machine: {', '.join(candidates)} not found",
        f"install gcc or clang ({install_command('gcc')}), or set CC",
    )


def build_shared_object(
    library: ModelLibrary, folder: Path, description: Description | None = None
) -> Path:
    """Return the path of ``library`` as one shared object, built in ``folder`` with all its files.

    ``description`` is embedded, if it has more than the modules.
    """
    compiler = host_compiler()
    _require_for_this_machine(library)
    for name, data in library.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    description = description or Description(library.modules)
    (folder / "hilc_host.c").write_text(_glue(library.modules, description))
    sources = [name for name in library.files if _is_part(name, "src", ".c")]
    objects = [name for name in library.files if _is_part(name, "lib", ".o")]
    link_flags = [*_LINK_FLAGS]
    foreign = any(module_path(m.name) not in library.files for m in library.modules)
    called = next(filter(needs_runtime, library.modules), None)
    if called is not None:
        objects += map(str, _runtime_objects(compiler, host_runtime(called.name)))
        functions = [name for module in library.modules for name in module.functions]
        table = function_table().source(functions, weak=False)
        if foreign or table.encode() not in library.files.values():
            # One table for all modules. It precedes their own: TVM's are not weak.
            (folder / _REGISTRY).write_text(table)
            sources = [_REGISTRY, *sources]
            if foreign:
                link_flags.append("-Wl,--allow-multiple-definition")
    flags = [*_FLAGS, "-Icodegen/host/include", *(f"-I{path}" for path in include_dirs())]
    if foreign:
        flags.append("-w")
    extra = extra_code(library.files)
    flags += [f"-I{path}" for path in extra.includes]
    if extra.sources or extra.objects:
        objects.append(_extra_archive(compiler, extra, folder))
    target = folder / "library.so"
    names = " and ".join(repr(module.name) for module in library.modules)
    command = [compiler, *flags, *link_flags, *sources, "hilc_host.c", *objects]
    _run([*command, "-lm", "-o", target.name], folder, names, _hint(library))
    return target


def _extra_archive(compiler: str, extra: ExtraCode, folder: Path) -> str:
    """Return external code as a static library, from which the linker takes the needed objects."""
    (folder / "extra_objects").mkdir()
    objects = list(extra.objects)
    includes = [f"-I{path}" for path in (*extra.includes, *include_dirs())]
    for index, source in enumerate(extra.sources):
        objects.append(f"extra_objects/{index}.o")
        command = [compiler, *_FLAGS, "-std=gnu11", "-w", *includes, "-c", source]
        _run([*command, "-o", objects[-1]], folder, source, "")
    _run(["ar", "rcs", "libextra.a", *objects], folder, "the code from elsewhere", "")
    return "libextra.a"


def _is_part(name: str, folder: str, suffix: str) -> bool:
    return name.startswith(f"codegen/host/{folder}/") and name.endswith(suffix)


def _require_for_this_machine(library: ModelLibrary) -> None:
    for module in library.modules:
        if module.codegen == "llvm" and module.cpu != "host":
            raise InputError(
                f"the objects of {module.name!r} are for {module.cpu}, which is not this machine",
                "compile the model with cpu=host, or with codegen=c",
            )
    for name, data in library.files.items():
        if _is_part(name, "lib", ".o") or (name.startswith(EXTRA) and name.endswith(".o")):
            require_fits(data, get_cpu("host"), name)


def _hint(library: ModelLibrary) -> str:
    cpus = sorted({module.cpu for module in library.modules} - {"host"})
    if not cpus:
        return ""
    return f"the library is for {', '.join(cpus)}; compile it with cpu=host to run it here"


def _run(command: Sequence[str], folder: Path, what: str, hint: str) -> None:
    try:
        done = run(command, folder, limit_s=_BUILD_LIMIT_S, temporary=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostBuildError(f"building {what} for this machine failed: {error}") from None
    if done.returncode == 0:
        return
    if undefined := list(dict.fromkeys(_UNDEFINED.findall(done.stderr))):
        raise HostBuildError(
            f"{what} has undefined symbols: {', '.join(undefined[:_MOST_NAMES])}",
            "give the sources that define them: --source FILE, or library.with_code(sources=[...])",
        )
    if header := _MISSING_HEADER.search(done.stderr):
        hint = (
            f"give the folder of {header[1]}: --include-dir DIR, or "
            "library.with_code(include_dirs=[...])"
        )
    raise HostBuildError(
        f"building {what} for this machine failed: {done.stderr.strip()[:2000]}", hint
    )


def _glue(modules: Sequence[Module], description: Description) -> str:
    """Return the C data by which a loaded library is called."""
    parts = ["#include <stdint.h>\n"]
    parts += [f'#include "{m.symbol}.h"\n' for m in modules if m.constants == "external"]
    # One literal for every part: compilers bound the length of a literal.
    text = description.to_json().decode()
    lines = [text[i : i + 4000] for i in range(0, len(text), 4000)]
    quoted = "\n".join(f'    "{_escape(line)}"' for line in lines)
    parts.append(f"const char {DESCRIPTION}[] =\n{quoted};\n")
    for module in modules:
        if module.constants == "external":
            stem = f"{module.symbol}_{module.constants_pool}_CONSTANT_POOL".upper()
            parts.append(
                f"const uint8_t {CONSTANTS}{module.symbol}[{stem}_SIZE]\n"
                f"    __attribute__((aligned(16))) = {stem}_DATA;\n"
            )
    return "\n".join(parts)


def _escape(text: str) -> str:
    # Two question marks could begin a trigraph.
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")


@functools.lru_cache(maxsize=4)
def _runtime(compiler: str, runtime: HostRuntime) -> tuple[TemporaryFolder, tuple[Path, ...]]:
    """Return the C runtime, compiled once for all models of this process, and the folder that holds
    it.
    """
    folder = TemporaryFolder("crt")
    includes = [f"-I{path}" for path in include_dirs()]
    command = [compiler, *_FLAGS, *includes, "-c", *map(str, runtime.sources())]
    _run(command, Path(folder.name), "the C run time", "")
    return folder, tuple(sorted(Path(folder.name).glob("*.o")))


def _runtime_objects(compiler: str, runtime: HostRuntime) -> tuple[Path, ...]:
    return _runtime(compiler, runtime)[1]
