"""Cores: features that select kernels, compiler flags, and the names that tools use.

One TOML file each in ``cores/``, read strictly; ``docs/reference/core-files.md`` has the keys. A
core that does not ship is described in a file of the same form: pass its path in place of the name,
call :func:`add_cores`, or list the file or its folder in ``HIL_CORES``.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hilc.errors import InputError
from hilc.support.arguments import typed
from hilc.support.inputs import check_regular
from hilc.support.suggest import nearest
from hilc.support.tables import Table
from hilc.target.flags import WORD, read_flags, read_name
from hilc.target.toolchains import Toolchain, load_toolchain

#: Features that kernels may require of a core (``requires`` in their headers).
FEATURES: Mapping[str, str] = {
    "mul32": "multiplies 32 by 32 bits in about a cycle, and has ten registers free for a loop",
    "thumb1": "executes Thumb code of 16 bits alone, with its assembly",
    "thumb2": "executes Thumb-2, with its assembly",
    "riscv": "executes RV32I code, with its assembly",
    "zbb": "has the RISC-V extension Zbb (minimum, maximum)",
    "xpulp": "has CV32E40P's instructions (XPULP), and loads words from any address",
    "zve32x": "has the RISC-V extension Zve32x: vectors of integers, of any length",
    "div": "divides 32 bits",
    "dsp": "has Arm's instructions for two half-words (Armv7E-M, Armv8-M with DSP)",
    "mve": "has Helium, Arm's vectors",
    "fpu": "computes single-precision floats",
}
#: Types of operands for which a core's description states the products per instruction.
MULTIPLIED = ("int8", "int16", "float32")
#: More than any instruction does at a time.
_MOST_AT_ONCE = 1 << 16
#: More cycles than any instruction takes.
_MOST_CYCLES = 1000
#: The largest caches before a flash that are modelled.
_MOST_LINES, _MOST_LINE_BYTES = 256, 64
#: More than any chip takes, in percent of an estimate.
_MOST_PERCENT = 10_000
#: Environment variable that lists files and folders of user-defined cores, separated as in PATH.
VARIABLE = "HIL_CORES"

_FOLDER = Path(__file__).resolve().parent / "cores"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*\Z")
#: No core that ships has a longer one; what asks the file system stays below its limit.
_NAME_LENGTH = 100
_MNEMONIC = re.compile(r"[a-z][a-z0-9]*\Z")
#: User-defined cores that were given by path, by name.
_ADDED: dict[str, Cpu] = {}


@dataclass(frozen=True)
class Objects:
    """Objects that the core can run, by their build attributes."""

    #: Name of the architecture, and the codes in objects of those that it executes (Arm:
    #: ``Tag_CPU_arch``).
    title: str = ""
    built_for: tuple[int, ...] = ()
    #: Codes of the floating-point units whose code it executes, and whether it has single precision
    #: only (Arm: ``Tag_FP_arch``).
    floats: tuple[int, ...] = ()
    single_precision: bool = False
    #: Extensions that code may use (RISC-V: ``imac``).
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Debug:
    """Names of the core in debuggers and emulators, and its identification registers."""

    #: CPUID part numbers of the cores that run code compiled for this one.
    part_numbers: tuple[int, ...] = ()
    #: CMSIS-SVD name, and the core whose code runs on chips without its float unit.
    svd: tuple[str, ...] = ()
    without_fpu: str = ""
    renode: str = ""
    #: Whether memory as a debugger reads it may differ from the core's view (caches).
    data_cache: bool = False
    #: ROM table entries: part numbers of the system control space and of the breakpoint unit, the
    #: version of that unit, and their DEVARCH values if they are CoreSight components.
    scs_part: int = 0
    fpb_part: int = 0
    fpb_version: int = 1
    scs_devarch: int = 0
    fpb_devarch: int = 0


@dataclass(frozen=True)
class Limit:
    """Largest work of one instruction of the core, from which a layer's limit follows
    (:mod:`hilc.artifact.work`).
    """

    #: Products that it adds to sums, by the type of the operands; a type that is not here has no
    #: such instruction.
    products: Mapping[str, int] = field(hash=False)
    #: Bytes that it loads or stores.
    bytes: int
    #: Sums on their way to outputs that it computes at a time.
    sums: int


@dataclass(frozen=True)
class SlowInstructions:
    """Instructions that do not take one cycle, and the fewest and most cycles that they take."""

    mnemonics: tuple[str, ...]
    cycles: tuple[int, int]


@dataclass(frozen=True)
class TimedChip:
    """A chip whose cycles were published, for which estimates include its flash."""

    #: The chip, its clock and its flash.
    name: str
    #: Where the cycles were published.
    source: str
    #: Wait states of a read of the flash, and its bytes.
    waits: int
    read: int
    #: Bytes of a line of the caches before the flash, and their lines.
    line: int
    fetch_lines: int
    data_lines: int
    #: Published cycles in percent of estimates for the same programs: at least ``percent[0]`` of
    #: the fewest, at most ``percent[1]`` of the most.
    percent: tuple[int, int]


@dataclass(frozen=True)
class Timing:
    """Cycles of a core's instructions by the table of its maker, of which ``hil bench --cycles``
    makes its estimate. What is not named here takes one cycle, a list of registers one more than it
    has registers.
    """

    #: Source of the table, and the assumptions about what it leaves to the chip.
    source: str
    assumes: str
    #: A load or a store of one register.
    access: int
    #: Whether loads in a row overlap, and a store is done beside the next instruction.
    overlaps: bool
    #: Cycles of the pipeline's refill after a taken branch, and additional ones of a register list
    #: with the program counter.
    refill: tuple[int, int]
    list_branch: int
    slow: tuple[SlowInstructions, ...]
    #: None where no cycles of a program that can be built again were published.
    chip: TimedChip | None = None


@dataclass(frozen=True)
class Cpu:
    """A core. ``features`` are those of :data:`FEATURES` that it has."""

    name: str
    #: Architecture, the key of costs and sizes.
    arch: str
    features: frozenset[str]
    cflags: tuple[str, ...]
    title: str
    toolchain: Toolchain
    oldest_gcc: tuple[int, ...]
    #: Clang's flags for the core, and the ``-keys=`` of TVM's target.
    llvm_flags: tuple[str, ...]
    tvm_keys: str
    objects: Objects
    debug: Debug
    #: None where the description has none.
    limit: Limit | None
    #: None where the description has none, since no table is published.
    timing: Timing | None
    #: Path of the description; a core that ships is found by its name.
    path: Path = field(compare=False)

    @property
    def is_host(self) -> bool:
        """Whether its code runs as a process of this machine."""
        return self.toolchain.is_host

    @property
    def isa(self) -> str:
        """Instruction set: ``arm``, ``riscv`` or ``host``."""
        return self.toolchain.isa

    @property
    def word(self) -> str:
        """Argument by which another process finds the core: its name, or the path if it does not
        ship.
        """
        return self.name if self.path.parent == _FOLDER else str(self.path)


def cpu_names() -> tuple[str, ...]:
    """Return the cores known by name: those that ship, the host first, and the user's."""
    shipped = sorted((path.stem for path in _FOLDER.glob("*.toml")), key=_order)
    return tuple(dict.fromkeys((*shipped, *sorted(_listed()), *_ADDED)))


def _order(name: str) -> tuple[object, ...]:
    """Return a sort key: the host first, then names with numbers as numbers (cortex-m7 before
    cortex-m33).
    """
    parts = re.split(r"(\d+)", name)
    return (name != "host", *(int(p) if i % 2 else p for i, p in enumerate(parts)))


@typed
def load_cpu(name_or_path: str | Path) -> Cpu:
    """Return the core ``name`` (:func:`get_cpu`), or the one that the file ``path`` describes.

    An argument that ends in ``.toml`` is a path.
    """
    text = str(name_or_path)
    return add_core(text) if text.endswith(".toml") else get_cpu(text)


@typed
def get_cpu(name: str) -> Cpu:
    """Return the core called ``name``; raise :class:`~hilc.errors.InputError` if it is unknown."""
    found = find_cpu(name)
    if found is None:
        raise InputError(
            f"unknown CPU {name!r}{nearest(name, cpu_names())}",
            f"choose one of {', '.join(cpu_names())}; for a core of your own give the path of its "
            f"description, NAME.toml, or list that in {VARIABLE}",
        )
    return found


@typed
def find_cpu(name: str) -> Cpu | None:
    """Return the core called ``name``; None if it is unknown."""
    path = core_file(name)
    if path is None:
        return _ADDED.get(name)
    return _read(path)


def core_file(name: str) -> Path | None:
    """Return the description of the core ``name``: one that ships, or one of ``HIL_CORES``."""
    shipped = _FOLDER / f"{name}.toml"
    if len(name) <= _NAME_LENGTH and _NAME.match(name) and shipped.is_file():
        return shipped
    return _listed().get(name)


@typed
def add_core(path: str | Path) -> Cpu:
    """Return the core that the file ``path`` describes, and make it known by name.

    Raise :class:`~hilc.errors.InputError` if the file does not exist, or another core has the name.
    """
    path = Path(path)
    check_regular(path, "give the path of a core's description, NAME.toml")
    if not path.is_file():
        raise InputError(
            f"the core description {str(path)!r} does not exist", "give the path of a .toml"
        )
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


@typed
def add_cores(folder: str | Path) -> tuple[Cpu, ...]:
    """Return the cores that the files ``*.toml`` of ``folder`` describe, and make them known by
    name.

    Raise :class:`~hilc.errors.InputError` if the folder does not exist.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"the folder {str(folder)!r} does not exist", "give a folder of *.toml files"
        )
    return tuple(add_core(path) for path in sorted(folder.glob("*.toml")))


def _listed() -> dict[str, Path]:
    """Return the user's descriptions by name; the first for each name."""
    found: dict[str, Path] = {}
    for part in os.environ.get(VARIABLE, "").split(os.pathsep):
        if not part:
            continue
        path = Path(part)
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        for file in files:
            if not file.is_file():
                raise InputError(
                    f"{VARIABLE} lists {str(file)!r}, which does not exist",
                    "list core descriptions (*.toml) or folders of them",
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
            f"the description {str(path)!r} has an invalid name for a core",
            "rename it with lower-case letters, digits, '-', '+', '.' and '_'",
        )
    if path.parent != _FOLDER and (_FOLDER / path.name).exists():
        raise InputError(
            f"{path} describes a core {path.stem!r}, which ships with the compiler",
            "give it another name",
        )
    top = Table.read(path, InputError)
    toolchain = load_toolchain(top.string("toolchain"), path.parent)
    arch = read_name(top, "arch", WORD, 'arch = "armv7e-m"')
    features = top.strings("features")
    for feature in features:
        if feature not in FEATURES:
            raise top.error(
                "features",
                f"unknown feature {feature!r}{nearest(feature, FEATURES)}",
                f"choose from {', '.join(FEATURES)}",
            )
    cflags = read_flags(top, "cflags", () if toolchain.is_host else None)
    cpu = Cpu(
        name=path.stem,
        arch=arch,
        features=frozenset(features),
        cflags=cflags,
        title=top.string("title"),
        toolchain=toolchain,
        oldest_gcc=top.integers("oldest_gcc", default=toolchain.oldest_gcc),
        llvm_flags=read_flags(top, "llvm_flags", cflags),
        tvm_keys=top.string("tvm_keys", default=f"cpu -mcpu={path.stem}"),
        objects=_objects(top),
        debug=_debug(top),
        limit=_limit(top),
        timing=_timing(top),
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
        renode=read_name(table, "renode", WORD, 'renode = "cortex-m4"', ""),
        data_cache=table.boolean("data_cache", False),
        scs_part=table.integer("scs_part", *word, default=0),
        fpb_part=table.integer("fpb_part", *word, default=0),
        fpb_version=table.integer("fpb_version", 1, 2, default=1),
        scs_devarch=table.integer("scs_devarch", *word, default=0),
        fpb_devarch=table.integer("fpb_devarch", *word, default=0),
    )
    table.finish()
    return read


def _limit(top: Table) -> Limit | None:
    if "limit" not in top:
        return None
    table = top.table("limit")
    products = table.table("products")
    at_once = {dtype: products.integer(dtype, 0, _MOST_AT_ONCE, 0) for dtype in MULTIPLIED}
    read = Limit(
        products={dtype: count for dtype, count in at_once.items() if count},
        bytes=table.integer("bytes", 1, _MOST_AT_ONCE),
        sums=table.integer("sums", 1, _MOST_AT_ONCE),
    )
    products.finish()
    table.finish()
    return read


def _timing(top: Table) -> Timing | None:
    if "cycles" not in top:
        return None
    table = top.table("cycles")
    read = Timing(
        source=table.string("source"),
        assumes=table.string("assumes"),
        access=table.integer("access", 1, _MOST_CYCLES),
        overlaps=table.boolean("overlaps", False),
        refill=_range(table, "refill"),
        list_branch=table.integer("list_branch", 0, _MOST_CYCLES, default=0),
        slow=_slow(table),
        chip=_timed_chip(table),
    )
    table.finish()
    return read


def _timed_chip(top: Table) -> TimedChip | None:
    if "chip" not in top:
        return None
    table = top.table("chip")
    percent = table.integers("percent")
    if len(percent) != 2 or not 0 < percent[0] <= percent[1] <= _MOST_PERCENT:
        raise table.error(
            "percent",
            f"{list(percent)} are not two ascending numbers from 1 to {_MOST_PERCENT}",
            "write the published cycles in percent of the fewest and of the most estimated, "
            "percent = [90, 110]",
        )
    read = TimedChip(
        name=table.string("name"),
        source=table.string("source"),
        waits=table.integer("waits", 0, _MOST_CYCLES),
        read=table.integer("read", 1, _MOST_LINE_BYTES),
        line=table.integer("line", 1, _MOST_LINE_BYTES),
        fetch_lines=table.integer("fetch_lines", 1, _MOST_LINES),
        data_lines=table.integer("data_lines", 1, _MOST_LINES),
        percent=(percent[0], percent[1]),
    )
    if read.line % read.read:
        raise table.error("line", f"{read.line} bytes are no multiple of `read`, {read.read}")
    table.finish()
    return read


def _slow(top: Table) -> tuple[SlowInstructions, ...]:
    read: list[SlowInstructions] = []
    known: set[str] = set()
    for table in top.tables("slow"):
        mnemonics = table.strings("instructions")
        for name in mnemonics:
            if not _MNEMONIC.match(name) or name in known:
                fact = "is there twice" if name in known else "is no instruction"
                raise table.error(
                    "instructions",
                    f"{name!r} {fact}",
                    'write each once, in lower case and without a condition, as "smull"',
                )
            known.add(name)
        read.append(SlowInstructions(mnemonics, _range(table, "cycles")))
        table.finish()
    return tuple(read)


def _range(table: Table, key: str) -> tuple[int, int]:
    """Return the fewest and most cycles: two integers, or one for both."""
    values = table.integers(key)
    if len(values) not in (1, 2) or not 0 <= values[0] <= values[-1] <= _MOST_CYCLES:
        raise table.error(
            key,
            f"{list(values)} are no numbers of cycles",
            f"write the fewest and the most, {key} = [1, 3], or one number if both are equal",
        )
    return values[0], values[-1]
