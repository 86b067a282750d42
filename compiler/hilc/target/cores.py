"""Cores: features for the choice of kernels, flags for compilers, and the names that tools have.

One TOML file each in ``cores/``, read strictly; ``docs/reference/core-files.md`` has the keys. A
core that does not ship is described in a file of the same form: give its path in place of the name,
:func:`add_cores` it, or name the file or its folder in ``HIL_CORES``.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hilc.errors import InputError
from hilc.support.inputs import check_regular
from hilc.support.suggest import nearest
from hilc.support.tables import Table
from hilc.target.toolchains import Toolchain, load_toolchain

#: What kernels may ask of a core (``requires`` in their headers).
FEATURES: Mapping[str, str] = {
    "mul32": "multiplies 32 by 32 bits in about a cycle, and has ten registers free for a loop",
    "thumb2": "executes Thumb-2, with its assembly",
    "div": "divides 32 bits",
    "dsp": "has Arm's instructions for two half-words (Armv7E-M, Armv8-M with DSP)",
    "mve": "has Helium, Arm's vectors",
    "fpu": "computes single-precision floats",
}
#: Files and folders of the user's own descriptions, as PATH lists folders.
VARIABLE = "HIL_CORES"

_FOLDER = Path(__file__).resolve().parent / "cores"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*\Z")
#: Cores of the user's that were given by their files, by name.
_ADDED: dict[str, Cpu] = {}


@dataclass(frozen=True)
class Objects:
    """What an object may have been built for to run on the core."""

    #: What the architecture is called, and the codes that objects have of those that it executes
    #: (Arm: ``Tag_CPU_arch``).
    title: str = ""
    built_for: tuple[int, ...] = ()
    #: Codes of the floating-point units whose code it executes, and whether in single precision
    #: only (Arm: ``Tag_FP_arch``).
    floats: tuple[int, ...] = ()
    single_precision: bool = False
    #: Extensions that code may have (RISC-V: ``imac``).
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Debug:
    """What debuggers and emulators call the core, and what they find of it."""

    #: Part numbers in CPUID of the cores that run what is compiled for this one.
    part_numbers: tuple[int, ...] = ()
    #: What CMSIS-SVD calls it, and the core whose code runs where the chip lacks its float unit.
    svd: tuple[str, ...] = ()
    without_fpu: str = ""
    renode: str = ""
    #: Memory that a debugger writes or reads may differ from what the core sees.
    data_cache: bool = False
    #: The ROM table's entries: part numbers of the system control space and of the breakpoint
    #: unit, whose version that is, and their DEVARCH where they are CoreSight components.
    scs_part: int = 0
    fpb_part: int = 0
    fpb_version: int = 1
    scs_devarch: int = 0
    fpb_devarch: int = 0


@dataclass(frozen=True)
class Cpu:
    """A core. ``features`` are those that kernels ask for, out of :data:`FEATURES`."""

    name: str
    #: The architecture, by which costs and sizes are known.
    arch: str
    features: frozenset[str]
    cflags: tuple[str, ...]
    title: str
    toolchain: Toolchain
    oldest_gcc: tuple[int, ...]
    #: How clang is told the core, and what stands behind ``-keys=`` in TVM's target.
    llvm_flags: tuple[str, ...]
    tvm_keys: str
    objects: Objects
    debug: Debug
    #: Where the description is; a shipped one is found by its name.
    path: Path = field(compare=False)

    @property
    def is_host(self) -> bool:
        """Its code runs as a process of this machine."""
        return self.toolchain.is_host

    @property
    def isa(self) -> str:
        """The instruction set: ``arm``, ``riscv`` or ``host``."""
        return self.toolchain.isa

    @property
    def word(self) -> str:
        """By what another process finds it: the name, or where it does not ship, the path."""
        return self.name if self.path.parent == _FOLDER else str(self.path)


def cpu_names() -> tuple[str, ...]:
    """The cores that are known by name: those that ship, the host first, and the user's."""
    shipped = sorted((path.stem for path in _FOLDER.glob("*.toml")), key=_order)
    return tuple(dict.fromkeys((*shipped, *sorted(_listed()), *_ADDED)))


def _order(name: str) -> tuple[object, ...]:
    """The host first, then by name with numbers as numbers: cortex-m7 before cortex-m33."""
    parts = re.split(r"(\d+)", name)
    return (name != "host", *(int(p) if i % 2 else p for i, p in enumerate(parts)))


def load_cpu(name_or_path: str | Path) -> Cpu:
    """The core ``name`` (:func:`get_cpu`), or the one that the file ``path`` describes.

    What ends in ``.toml`` is a path.
    """
    text = str(name_or_path)
    return add_core(text) if text.endswith(".toml") else get_cpu(text)


def get_cpu(name: str) -> Cpu:
    """The core called ``name``; :class:`~hilc.errors.InputError` for one that is not known."""
    found = find_cpu(name)
    if found is None:
        raise InputError(
            f"unknown CPU {name!r}{nearest(name, cpu_names())}",
            f"choose one of {', '.join(cpu_names())}; for a core of your own give the path of its "
            f"description, NAME.toml, or list that in {VARIABLE}",
        )
    return found


def find_cpu(name: str) -> Cpu | None:
    """The core that is known as ``name``; None where there is none."""
    path = core_file(name)
    if path is None:
        return _ADDED.get(name)
    return _read(path)


def core_file(name: str) -> Path | None:
    """The description of the core ``name``: one that ships, or of the user's ``HIL_CORES``."""
    shipped = _FOLDER / f"{name}.toml"
    if _NAME.match(name) and shipped.is_file():
        return shipped
    return _listed().get(name)


def add_core(path: str | Path) -> Cpu:
    """The core that the file ``path`` describes, which is known by its name from now on."""
    path = Path(path)
    check_regular(path, "give the path of a core's description, NAME.toml")
    if not path.is_file():
        raise InputError(f"there is no core description {str(path)!r}", "give the path of a .toml")
    path = path.resolve()
    if path.parent == _FOLDER:
        return _read(path)
    cpu = _read_anew(path)
    known = _ADDED.setdefault(cpu.name, cpu)
    if known != cpu:
        raise InputError(
            f"two different cores are called {cpu.name!r}: {known.path} and {path}",
            "rename one of the files",
        )
    return cpu


def add_cores(folder: str | Path) -> tuple[Cpu, ...]:
    """The cores that the files ``*.toml`` of ``folder`` describe, known by their names from now
    on."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}", "give the folder of *.toml files")
    return tuple(add_core(path) for path in sorted(folder.glob("*.toml")))


def _listed() -> dict[str, Path]:
    """The user's descriptions by name; of one name the first."""
    found: dict[str, Path] = {}
    for part in os.environ.get(VARIABLE, "").split(os.pathsep):
        if not part:
            continue
        path = Path(part)
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        for file in files:
            if not file.is_file():
                raise InputError(
                    f"{VARIABLE} names {str(file)!r}, which is not there",
                    "name core descriptions (*.toml) or folders of them",
                )
            found.setdefault(file.stem, file.resolve())
    return found


def _read(path: Path) -> Cpu:
    return _read_shipped(path) if path.parent == _FOLDER else _read_anew(path)


@functools.cache
def _read_shipped(path: Path) -> Cpu:
    return _read_anew(path)


def _read_anew(path: Path) -> Cpu:
    if not _NAME.match(path.stem):
        raise InputError(
            f"the description {str(path)!r} has no name for a core",
            "rename it: lower-case letters, digits, '-', '+', '.' and '_'",
        )
    if path.parent != _FOLDER and (_FOLDER / path.name).exists():
        raise InputError(
            f"{path} describes a core {path.stem!r}, which ships with the compiler",
            "give it another name",
        )
    top = Table.read(path, InputError)
    toolchain = load_toolchain(top.string("toolchain"), path.parent)
    arch = top.string("arch")
    features = top.strings("features")
    for feature in features:
        if feature not in FEATURES:
            raise top.error(
                "features",
                f"unknown feature {feature!r}{nearest(feature, FEATURES)}",
                f"choose from {', '.join(FEATURES)}",
            )
    cflags = top.strings("cflags", default=() if toolchain.is_host else None)
    cpu = Cpu(
        name=path.stem,
        arch=arch,
        features=frozenset(features),
        cflags=cflags,
        title=top.string("title"),
        toolchain=toolchain,
        oldest_gcc=top.integers("oldest_gcc", default=toolchain.oldest_gcc),
        llvm_flags=top.strings("llvm_flags", default=cflags),
        tvm_keys=top.string("tvm_keys", default=f"cpu -mcpu={path.stem}"),
        objects=_objects(top),
        debug=_debug(top),
        path=path,
    )
    top.finish()
    return cpu


def _objects(top: Table) -> Objects:
    if "objects" not in top:
        return Objects()
    table = top.table("objects")
    read = Objects(
        title=table.string("title"),
        built_for=table.integers("built_for", default=()),
        floats=table.integers("floats", default=()),
        single_precision=table.boolean("single_precision", False),
        extensions=table.strings("extensions", default=()),
    )
    table.finish()
    return read


def _debug(top: Table) -> Debug:
    if "debug" not in top:
        return Debug()
    table = top.table("debug")
    word = (0, 0xFFFF_FFFF)
    read = Debug(
        part_numbers=table.integers("part_numbers", default=()),
        svd=table.strings("svd", default=()),
        without_fpu=table.string("without_fpu", default=""),
        renode=table.string("renode", default=""),
        data_cache=table.boolean("data_cache", False),
        scs_part=table.integer("scs_part", *word, default=0),
        fpb_part=table.integer("fpb_part", *word, default=0),
        fpb_version=table.integer("fpb_version", 1, 2, default=1),
        scs_devarch=table.integer("scs_devarch", *word, default=0),
        fpb_devarch=table.integer("fpb_devarch", *word, default=0),
    )
    table.finish()
    return read
