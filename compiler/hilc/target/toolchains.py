"""Toolchains: the programs that generate code for a kind of core, and their flags.

One TOML file each in ``toolchains/``, read strictly; ``docs/reference/core-files.md`` has the keys.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hilc.errors import InputError
from hilc.support.suggest import nearest
from hilc.support.tables import Table
from hilc.target.flags import WORD, read_flags, read_name, read_sections

_FOLDER = Path(__file__).resolve().parent / "toolchains"
#: Instruction sets whose machine code is analysed: objects, faults, stacks.
ISAS = ("arm", "riscv", "host")


@dataclass(frozen=True)
class Toolchain:
    """Programs for a kind of core, and the flags that they need."""

    name: str
    #: Names for messages: ``32-bit Arm``, and its cores: ``Cortex-M``.
    title: str
    cores: str
    isa: str
    #: Prefix of the programs' names.
    prefix: str
    compiler: str
    #: System packages (Debian's names) with the compiler, and with the binutils.
    gcc_package: str
    binutils_package: str
    #: Whether its code runs as a process of this machine.
    is_host: bool
    #: Names of the machine in ELF (``EM_ARM``), and its number.
    elf_machine: str = ""
    elf_number: int = 0
    #: First supported version.
    oldest_gcc: tuple[int, ...] = (8,)
    #: C library: the file that gcc must find for ``library_flags``, and its name.
    library: str = ""
    library_file: str = ""
    library_flags: tuple[str, ...] = ()
    library_package: str = ""
    #: Flags for all C, additional ones for models, and for linking.
    c_flags: tuple[str, ...] = ()
    model_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    #: LLVM triples of such cores, as a regular expression.
    triples: str = ""
    #: Emulator of its cores, and its package.
    qemu: str = ""
    qemu_package: str = ""
    #: Clang: target, flags for every core, size of the smallest enumeration in bytes, and sections
    #: to remove from its objects, as gcc's do not have them.
    llvm_flags: tuple[str, ...] = ()
    llvm_enum_bytes: int = 4
    llvm_removed_sections: tuple[str, ...] = ()
    #: Whether it is required: most boards need it.
    is_default: bool = False
    path: Path = field(default=Path(), compare=False)

    @property
    def packages(self) -> str:
        """System packages with compiler and C library."""
        return f"{self.gcc_package} {self.library_package}".strip()

    def program(self, tool: str) -> str:
        """Return the name of one of its programs: ``gcc``, ``objdump``, ``gdb``."""
        return f"{self.prefix}{tool}"

    @property
    def gcc(self) -> str:
        """Name of the C compiler."""
        return self.program(self.compiler)


def toolchain_names() -> tuple[str, ...]:
    """Return the toolchains that ship with the compiler, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def toolchains() -> Iterator[Toolchain]:
    """Return the toolchains that ship with the compiler."""
    return (read_toolchain(_FOLDER / f"{name}.toml") for name in toolchain_names())


def load_toolchain(name: str, beside: Path) -> Toolchain:
    """Return the toolchain ``name``, or the one described in a file whose path is relative to
    ``beside``.

    Raise :class:`~hilc.errors.InputError` if it is unknown.
    """
    if name.endswith(".toml"):
        return read_toolchain(beside / name)
    if name not in toolchain_names():
        raise InputError(
            f"unknown toolchain {name!r}{nearest(name, toolchain_names())}",
            f"choose one of {', '.join(toolchain_names())}, or give the path of a .toml file",
        )
    return read_toolchain(_FOLDER / f"{name}.toml")


@functools.cache
def read_toolchain(path: Path) -> Toolchain:
    """Return the toolchain described in ``path``."""
    top = Table.read(path, InputError)
    isa = top.choice("isa", ISAS)
    is_host = isa == "host"
    none = "" if is_host else None
    library = top.table("library") if not is_host else None
    llvm = top.table("llvm") if "llvm" in top else None
    read = Toolchain(
        name=path.stem,
        title=top.string("title"),
        cores=top.string("cores"),
        isa=isa,
        prefix=read_name(top, "prefix", rf"{WORD}-", 'prefix = "arm-none-eabi-"', none),
        compiler=read_name(
            top, "compiler", r"(g?cc|clang)(-[0-9.]+)?", 'compiler = "gcc", cc or clang', "gcc"
        ),
        gcc_package=top.string("gcc_package"),
        binutils_package=top.string("binutils_package", default=none),
        is_host=is_host,
        elf_machine=top.string("elf_machine", default=none),
        elf_number=top.integer("elf_number", 0, 65535, default=0 if is_host else None),
        oldest_gcc=top.integers("oldest_gcc", default=(8,)),
        library=library.string("name") if library else "",
        library_file=read_name(library, "file", WORD, 'file = "libc.a"') if library else "",
        library_flags=read_flags(library, "flags", ()) if library else (),
        library_package=library.string("package") if library else "",
        c_flags=read_flags(top, "c_flags", ()),
        model_flags=read_flags(top, "model_flags", ()),
        link_flags=read_flags(top, "link_flags", ()),
        triples=_pattern(top, "triples"),
        qemu=read_name(top, "qemu", r"qemu-system-[a-z0-9_]+", 'qemu = "qemu-system-arm"', none),
        qemu_package=top.string("qemu_package", default=none),
        llvm_flags=read_flags(llvm, "flags") if llvm else (),
        llvm_enum_bytes=llvm.integer("enum_bytes", 1, 4, default=4) if llvm else 4,
        llvm_removed_sections=read_sections(llvm, "removed_sections", ()) if llvm else (),
        is_default=top.boolean("default", False),
        path=path,
    )
    for table in (top, library, llvm):
        if table is not None:
            table.finish()
    return read


def _pattern(top: Table, key: str) -> str:
    text = top.string(key)
    try:
        re.compile(text)
    except re.error as error:
        raise top.error(key, f"{text!r} is not a regular expression: {error}") from None
    return text
