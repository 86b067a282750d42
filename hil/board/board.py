"""Boards, from their descriptions: ``targets/<board>.toml`` and the chip that it names.

An invalid description is a :class:`~hil.errors.BoardError` whose message names the file and the
key. :mod:`hil.board.description` joins the files, :mod:`hil.board.ports` reads the ports and their
settings; the keys are documented in ``docs/reference/board-files.md``.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hil.board.bench import Unit, is_of_bench, unit_named
from hil.board.config import boards_folder
from hil.board.description import read_description, shipped_file
from hil.board.line import DEFAULT_BAUD, DEFAULT_LINE, LineSettings, read_line
from hil.board.ports import ROLES, Port, make_port, port_description, port_names
from hil.board.proven import proof_of
from hil.board.settings import (
    Kind,
    Setting,
    Value,
    WordTable,
    is_known,
    known_names,
    read_settings,
    settings_of,
)
from hil.errors import BoardError
from hilc.support.arguments import typed
from hilc.support.inputs import check_regular
from hilc.support.resources import data_dir
from hilc.support.suggest import nearest
from hilc.support.tables import Table
from hilc.support.toml import tomllib
from hilc.target import Cpu, cpu_names, get_cpu, load_cpu

_ADDRESS_SPACE = 1 << 32
_GUARD_MIN, _GUARD_MAX = 256, 1 << 20
_READ_CYCLES_MAX = 1000
_USB_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}\Z")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
#: Platforms that come with Renode; a file from elsewhere could run programs.
_PLATFORM = re.compile(
    r"platforms/(cpus|boards)/([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_.-]+\.repl\Z"
)
_MODELS = ("Memory", "UART", "Timers", "GPIOPort", "IRQControllers")
#: Lines of changes to a platform. Those of Renode's language that run a program or read a file
#: (Python's peripherals, ``init:`` with commands of its monitor, ``using``, names of files in
#: quotes) have other forms.
_CHANGE = re.compile(
    rf"""[a-z][A-Za-z0-9_]*:(\ ({"|".join(_MODELS)})\.[A-Za-z0-9_]+\ @\ sysbus
         (\ [0-9A-Fa-fx]+|\ <[0-9A-Fa-fx]+,\ \+[0-9A-Fa-fx]+>))?\s*\Z
      | \ +(?!(init|reset|preinit)\b)[A-Za-z][A-Za-z0-9_]*:\ [A-Za-z0-9_.]+\s*\Z
      | \ +->\ [A-Za-z][A-Za-z0-9_]*@[0-9]+\s*\Z""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class MemoryRegion:
    """A range of addresses. ``flash`` is the memory that the image is loaded into, of any
    technology.
    """

    name: str
    origin: int
    size: int
    kind: Literal["flash", "ram"]
    #: Cycles of the core per word, wait states included; 0 if unknown.
    read_cycles: int = 0
    #: Address at which the core fetches instructions from this memory, if it differs from the one
    #: at which it reads data.
    fetch_origin: int | None = None
    #: Whether it is RAM that a boot loader fills with the image: initialized data stay there.
    writable: bool = False

    @property
    def end(self) -> int:
        """Address of the first byte after the region."""
        return self.origin + self.size


@dataclass(frozen=True)
class Qemu:
    """Settings of the board in QEMU."""

    machine: str
    #: An instruction takes 2**icount_shift ns of virtual time.
    icount_shift: int
    #: Index of the machine's serial line that is the firmware's UART.
    serial: int
    #: The core and the size of the memory, where the machine has a choice; "" and 0: its own.
    cpu: str = ""
    memory_bytes: int = 0
    #: Bits of a vector register of a RISC-V core; 0 for one without vectors.
    vector_bits: int = 0
    #: File or pipe for a trace of the executed instructions; "" for none. No key sets it.
    trace: str = ""
    #: A plugin of QEMU with its arguments, whose text is in the trace; "" for none. No key sets it.
    plugin: str = ""


@dataclass(frozen=True)
class Trigger:
    """Register writes that drive a pin, which is high while a model runs."""

    #: Address and value that make the pin high, and low.
    high: tuple[int, int]
    low: tuple[int, int]
    #: Address, mask and value of what makes the pin an output: the mask's bits become the value's.
    setup: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Renode:
    """Settings of the board in Renode."""

    #: Platform file in Renode for the board's chip; or "": a platform is generated from core,
    #: memory and UART.
    platform: str
    #: Name of the UART in the platform.
    uart: str
    #: Millions of instructions that the core executes in a second of virtual time.
    mips: int
    #: Additions and changes to the platform, in Renode's language.
    changes: str = ""


#: The settings of the runners `qemu` and `renode`, which are read as :class:`Qemu` and
#: :class:`Renode`.
QEMU_SETTINGS: Mapping[str, Setting] = {
    "machine": Setting("name", "QEMU's name of the machine"),
    "icount_shift": Setting("integer", "an instruction takes 2 to this power ns", None, 0, 10),
    "serial": Setting("integer", "index of the machine's serial line that is the UART", 0, 0, 7),
    "cpu": Setting("name", "the core, where the machine has a choice", ""),
    "memory": Setting("size", "bytes of RAM, where the machine has a choice", 0),
    "vector_bits": Setting("integer", "bits of a vector register (RISC-V); 0: none", 0, 0, 65536),
}
RENODE_SETTINGS: Mapping[str, Setting] = {
    "platform": Setting("text", "Renode's platform file of the chip", ""),
    "uart": Setting("name", "the platform's name of the UART", ""),
    "mips": Setting("integer", "million instructions in a second of virtual time", 0, 0, 10_000),
    "changes": Setting("text", "additions to the platform, in Renode's language", ""),
}


@dataclass(frozen=True)
class BaseFigures:
    """Size of the smallest firmware; measured, and a lower bound for every other."""

    flash_bytes: int
    #: Static data without the buffers whose size the board chooses.
    ram_bytes: int
    #: Number of static buffers of the link, each of ``frame_max`` bytes.
    frame_buffers: int
    stack_bytes: int
    handler_stack_bytes: int

    def link_ram_bytes(self, frame_max: int, rx_max: int) -> int:
        """Return the static RAM of the firmware without models and stacks, in bytes."""
        return self.ram_bytes + self.frame_buffers * frame_max + rx_max


@dataclass(frozen=True)
class Board:
    """A valid board description."""

    name: str
    path: Path
    description: str
    cpu: Cpu
    #: Rate of the core and of the time base in Hz.
    clock_hz: int
    memory: tuple[MemoryRegion, ...]
    #: Stack sizes: of the firmware and its models, and of interrupts and faults (handler stack).
    stack_bytes: int
    handler_stack_bytes: int
    #: Longest frame of the serial link, and size of the receive buffer, in bytes.
    frame_max: int
    rx_max: int
    ports: tuple[Port, ...]
    #: What starts the board's firmware: runners, and flashers, which start the board itself by
    #: programming it. The first is the default.
    runners: tuple[str, ...]
    #: The flashers; the first is the default. Empty for a board that is only emulated.
    flashers: tuple[str, ...]
    qemu: Qemu | None
    renode: Renode | None
    #: Whether it is the default board; one of the shipped boards is.
    is_default: bool
    #: Date on which `hil board prove` passed on the real board; "" if never.
    proven: str
    #: Size of the boot loader that starts the image; 0 for none.
    boot_loader_bytes: int = 0
    #: Files beside ``path`` that describe its chip.
    chip_files: tuple[Path, ...] = ()
    #: The pin that a meter of current watches; None for none.
    trigger: Trigger | None = None
    #: How the serial line is opened, at the baud rate of the firmware's UART.
    line: LineSettings = DEFAULT_LINE
    #: USB ids, ``vendor:product``, of the board as it is sold, and of its boot loader.
    usb: tuple[str, ...] = ()
    usb_boot: tuple[str, ...] = ()
    #: The entry of the bench file by which it was named; None for another name.
    unit: Unit | None = field(default=None, hash=False)
    #: The settings of each runner and flasher, by its name.
    settings: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, hash=False)

    @property
    def default_runner(self) -> str:
        """The runner that starts the board if the user chooses none."""
        return self.runners[0]

    @property
    def is_emulated(self) -> bool:
        """Whether only emulators start it: there is no real board, or no flasher for it."""
        return not self.flashers and not self.is_host

    def with_settings(self, option: str, name: str, words: Mapping[str, str]) -> Board:
        """Return the board with other settings of the runner or flasher ``name``: the text of
        ``KEY=VALUE`` pairs of ``option``.

        Raise :class:`BoardError` for a value that the setting does not accept.
        """
        if not words and name in self.settings:
            return self
        # A board's file need not name the runner or flasher: its settings are the defaults then.
        known = settings_of(name)
        stated = {k: v for k, v in self.settings.get(name, {}).items() if v != known[k].default}
        values = {**stated, **{key: known[key].parsed(word) for key, word in words.items()}}
        table = WordTable(lambda key: f"{option} {name}:{key}", "", values, BoardError)
        return _with_access(self, name, table)

    @property
    def is_host(self) -> bool:
        """Whether the firmware is a process of this machine, without a memory map."""
        return self.cpu.is_host

    def regions(self, kind: Literal["flash", "ram"]) -> tuple[MemoryRegion, ...]:
        """Return the memory regions of a kind, in the order of the description."""
        return tuple(region for region in self.memory if region.kind == kind)

    def total_bytes(self, kind: Literal["flash", "ram"]) -> int:
        """Return the bytes of all memory regions of a kind."""
        return sum(region.size for region in self.regions(kind))

    @property
    def stack_guard_bytes(self) -> int:
        """Size of an MPU region without memory below the first RAM region; 0 if another region is
        too near.
        """
        origin = self.regions("ram")[0].origin
        below = [region.end for region in self.memory if region.end <= origin]
        gap = min(origin - max(below, default=0), _GUARD_MAX)
        # The size of an MPU region is a power of two from 32 bytes on, and its address a multiple
        # of it.
        while gap >= _GUARD_MIN and origin % (size := 1 << (gap.bit_length() - 1)):
            gap = size - 1
        return size if gap >= _GUARD_MIN else 0

    @property
    def is_over_rtt(self) -> bool:
        """Whether the serial line is RTT through the debug probe."""
        return any(port.name == "rtt" for port in self.ports)

    @property
    def macros(self) -> dict[str, int]:
        """Settings of all ports, by macro name."""
        return {name: value for port in self.ports for name, value in port.macros.items()}

    def with_baud(self, baud: int) -> Board:
        """Return the board with the baud rate of its UART; RTT and the host have none."""
        has_baud = {p.name for p in self.ports if "uart" in p.roles and "baud" in p.settings}
        ports = tuple(
            make_port(p.name, {**p.settings, "baud": baud}) if p.name in has_baud else p
            for p in self.ports
        )
        line = replace(self.line, baud=baud) if has_baud else self.line
        return replace(self, ports=ports, line=line)

    def over_rtt(self) -> Board:
        """Return the board with its serial line through the debug probe instead of a UART."""
        if self.is_host:
            raise BoardError(f"{self.name} has no debug probe, so no RTT", "use its UART")
        if self.is_over_rtt:
            return self
        ports = [port for port in self.ports if "uart" not in port.roles]
        about = port_description("rtt")
        settings = {key: spec["default"] for key, spec in about["settings"].items()}
        return replace(self, ports=(*ports, make_port("rtt", settings)))

    @property
    def base(self) -> BaseFigures:
        """Sizes of the smallest firmware for the board's core: a lower bound for every other."""
        return base_figures(self.cpu)


def board_names() -> tuple[str, ...]:
    """Return the boards that ship with the project, sorted."""
    return tuple(sorted(path.stem for path in data_dir("targets").glob("*.toml")))


def own_board_names() -> tuple[str, ...]:
    """Return the boards in the user's folder of descriptions, sorted."""
    return tuple(sorted(path.stem for path in boards_folder().glob("*.toml")))


@typed
def board_file(name: str) -> Path | None:
    """Return the description of the board ``name``: one that ships, ``./NAME.toml``, or one of the
    user's folder.

    Those that ship come first, so that a name means the same in every folder.
    """
    folders = (Path(), boards_folder())
    paths = [shipped_file("board", name), *(folder / f"{name}.toml" for folder in folders)]
    return next((path for path in paths if path.is_file()), None)


@typed
def load_board(name_or_path: str | Path) -> Board:
    """Return the board ``name`` (:func:`board_file`), the one described in the file ``path``, or
    ``NAME@bench``, the board of the bench file with that name (:mod:`hil.board.bench`).

    An argument that ends in ``.toml`` or contains a folder is a path.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and is_of_bench(text):
        unit = unit_named(text)
        if unit is None:
            raise BoardError(
                f"{text!r} selects boards of a bench, and a single board is needed",
                "name it: NAME@bench",
            )
        return _of_bench(load_board(unit.board), unit)
    if isinstance(name_or_path, Path) or text.endswith(".toml") or "/" in text:
        path = Path(name_or_path)
        check_regular(path, "give the path of a .toml file")
        if not path.is_file():
            raise BoardError(
                f"the board description {text!r} does not exist", "give the path of a .toml file"
            )
        return _read_board(path)
    return load_named_board(text)


def _of_bench(board: Board, unit: Unit) -> Board:
    """Return the board with what the bench file changes."""
    if "baud" in unit.line:
        board = board.with_baud(unit.line["baud"])
    return replace(board, line=replace(board.line, **unit.line), unit=unit)


def load_named_board(text: str) -> Board:
    """Return the board called ``text``, which may come from elsewhere and is never a path."""
    found = board_file(text) if text and os.sep not in text else None
    if found is None:
        if elsewhere := _elsewhere(text):
            raise elsewhere
        here = [path.stem for path in Path().glob("*.toml")]
        raise BoardError(
            f"unknown board {text!r}{nearest(text, (*board_names(), *own_board_names(), *here))}",
            f"`hil boards` lists the boards; a description of your own is ./NAME.toml, a file in "
            f"{boards_folder()}, or the path of a .toml file",
        )
    return _read_board(found)


def _elsewhere(name: str) -> BoardError | None:
    """Return the error for a board that another tool builds for; None for any other name."""
    for path in sorted((data_dir("targets") / "elsewhere").glob("*.toml")):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        if re.search(about["names"], name, re.IGNORECASE):
            return BoardError(
                f"no firmware for the board {name!r}: {about['reason']}", about["remedy"]
            )
    return None


def default_board() -> Board:
    """Return the shipped board whose description says ``default = true``."""
    return next(board for board in map(load_board, board_names()) if board.is_default)


@functools.cache
def base_figures(cpu: Cpu) -> BaseFigures:
    """Return the template's measured figures for the core's architecture, else for its instruction
    set.
    """
    path = data_dir("firmware_template") / "base.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return BaseFigures(**table.get(cpu.arch, table[cpu.isa]))


# -- the description ---------------------------------------------------------------------------


def _read_board(path: Path) -> Board:
    # The firmware reports the board's name over the link, as text.
    if not path.stem.isprintable():
        raise BoardError(
            f"the description {str(path)!r} has an invalid name for a board",
            "rename it with letters and digits",
        )
    description = read_description(path)
    top = Table(description.place, "", description.values, BoardError)
    cpu = _cpu(top)
    runners, flashers = _ways(top)
    clock_hz = top.integer("clock_hz", 1, 10**10)
    rpc = top.table("rpc")
    frame_max = rpc.integer("frame_max", 128, 16384)
    rx_max = rpc.integer("rx_max", frame_max, 65536)
    rpc.finish()
    host = cpu.is_host
    ports = _ports(top, cpu.isa)
    board = Board(
        name=path.stem,
        path=path,
        description=top.string("description"),
        cpu=cpu,
        clock_hz=clock_hz,
        memory=() if host else _memory(top),
        stack_bytes=0 if host else _stack(top, "stack_bytes"),
        handler_stack_bytes=0 if host else _stack(top, "handler_stack_bytes"),
        frame_max=frame_max,
        rx_max=rx_max,
        ports=ports,
        runners=runners,
        flashers=flashers,
        qemu=None,
        renode=None,
        is_default=top.boolean("default", False),
        proven=proof.date[:10] if (proof := proof_of(description.path)) is not None else "",
        boot_loader_bytes=top.size("boot_loader_bytes") if "boot_loader_bytes" in top else 0,
        chip_files=description.chip_files,
        trigger=None if host else _trigger(top),
        line=_line(top, ports),
        usb=_usb_ids(top, "usb"),
        usb_boot=_usb_ids(top, "usb_boot"),
    )
    top.finish()
    for kind in ("runner", "flasher"):
        ways = top.table(kind)
        for name in description.values.get(kind, {}):
            # A runner's entry that names a flasher only states the order.
            if kind == "flasher" or name not in flashers:
                board = _with_access(board, name, ways.table(name))
    if not host:
        _check_room(board, top)
    return board


def _ways(top: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the board's runners, with its flashers, and of its flashers."""
    names: dict[Kind, tuple[str, ...]] = {"runner": (), "flasher": ()}
    for kind in names:
        top.known(kind)
        if kind in top:
            names[kind] = top.table(kind).keys
    flashers = names["flasher"]
    for name in flashers:
        if not is_known("flasher", name):
            raise _unknown(top, "flasher", name, known_names("flasher"))
    for name in names["runner"]:
        if name in flashers:
            if keys := top.table("runner").table(name).keys:
                raise top.error(
                    f"runner.{name}.{keys[0]}",
                    f"{name} is the board's flasher",
                    "set it in the flasher's table",
                )
        elif not is_known("runner", name):
            raise _unknown(top, "runner", name, (*known_names("runner"), *flashers))
    runners = (*names["runner"], *(name for name in flashers if name not in names["runner"]))
    if not runners:
        raise top.error(
            "runner",
            "the board has no runner and no flasher",
            'add what starts its firmware, such as flasher = { name = "NAME" } or runner = '
            f'{{ name = "NAME" }}; runners: {", ".join(known_names("runner"))}; flashers: '
            f"{', '.join(known_names('flasher'))}",
        )
    return runners, flashers


def _unknown(top: Table, kind: Kind, name: str, known: Sequence[str]) -> BoardError:
    error = top.error(
        f"{kind}.{name}.name",
        f"unknown {kind} {name!r}{nearest(name, known)}",
        f"choose from {', '.join(known)}",
    )
    assert isinstance(error, BoardError)
    return error


def _with_access(board: Board, name: str, table: Table) -> Board:
    """Return the board with the settings of a runner or flasher that ``table`` has."""
    values = read_settings(table, settings_of(name))
    changes: dict[str, Any] = {}
    if name == "qemu":
        changes["qemu"] = _qemu(values, table, board.clock_hz)
    elif name == "renode":
        changes["renode"] = _renode(values, table, board.clock_hz, board.ports)
    return replace(board, settings={**board.settings, name: values}, **changes)


def _memory(top: Table) -> tuple[MemoryRegion, ...]:
    regions: list[MemoryRegion] = []
    for table in top.tables("memory"):
        name = table.string("name")
        if not _IDENTIFIER.match(name):
            raise table.error("name", f"{name!r} is not a lower-case identifier")
        region = MemoryRegion(
            name=name,
            origin=table.integer("origin", 0, _ADDRESS_SPACE - 1),
            size=table.size("size"),
            kind="flash" if table.choice("kind", ("flash", "ram")) == "flash" else "ram",
            read_cycles=table.integer("read_cycles", 0, _READ_CYCLES_MAX, default=0),
        )
        region = _for_image(table, region)
        table.finish()
        if region.end > _ADDRESS_SPACE:
            raise table.error("size", f"the region ends at {region.end:#x}, beyond 32 bits")
        if region.origin % 8 or region.size % 8:
            raise table.error("origin", "origin and size must be multiples of 8")
        for other in regions:
            if other.name == region.name:
                raise table.error("name", f"{name!r} is also the name of an earlier region")
            if region.origin < other.end and other.origin < region.end:
                raise table.error(
                    "origin",
                    f"{name!r} ({region.origin:#x} to {region.end:#x}) overlaps {other.name!r} "
                    f"({other.origin:#x} to {other.end:#x})",
                )
        regions.append(region)
    for kind in ("flash", "ram"):
        if not any(region.kind == kind for region in regions):
            raise top.error("memory", f"a region of kind {kind!r} is missing")
    return _without_boot_loader(top, regions)


def _for_image(table: Table, region: MemoryRegion) -> MemoryRegion:
    """Return ``region`` with what only memory for the image may state."""
    stated = [key for key in ("fetch_origin", "writable") if key in table]
    if region.kind != "flash" and stated:
        raise table.error(
            stated[0],
            f"only memory for the image has it, and {region.name!r} is {region.kind}",
            'remove it, or write kind = "flash"',
        )
    fetch_origin = None
    table.known("fetch_origin")
    if "fetch_origin" in table:
        fetch_origin = table.integer("fetch_origin", 0, _ADDRESS_SPACE - region.size)
        if fetch_origin % 8:
            raise table.error("fetch_origin", f"{fetch_origin:#x} is not a multiple of 8")
    return replace(region, fetch_origin=fetch_origin, writable=table.boolean("writable", False))


def _without_boot_loader(top: Table, regions: Sequence[MemoryRegion]) -> tuple[MemoryRegion, ...]:
    """Return the regions without the bytes of the first flash that are a boot loader's: those at
    its start, and those at its end.
    """
    first = next(region for region in regions if region.kind == "flash")
    start, end = (_held(top, key, first) for key in ("boot_loader_bytes", "reserved_end_bytes"))
    if start + end >= first.size:
        raise top.error(
            "reserved_end_bytes", f"with boot_loader_bytes it leaves nothing of {first.name!r}"
        )
    fetched = None if first.fetch_origin is None else first.fetch_origin + start
    rest = replace(
        first, origin=first.origin + start, size=first.size - start - end, fetch_origin=fetched
    )
    return tuple(rest if region is first else region for region in regions)


def _held(top: Table, key: str, first: MemoryRegion) -> int:
    if key not in top:
        top.known(key)
        return 0
    held = top.size(key)
    if held % 8 or held >= first.size:
        raise top.error(
            key, f"{held} is not a multiple of 8 below {first.size}, the size of {first.name!r}"
        )
    return held


def _stack(top: Table, key: str) -> int:
    size = top.size(key)
    if size % 32:
        raise top.error(key, f"{size} is not a multiple of 32")
    return size


def _cpu(top: Table) -> Cpu:
    """Return the core by its name, or by the file that describes it."""
    word = top.string("cpu")
    if word.endswith(".toml"):
        return load_cpu(word)
    return get_cpu(top.choice("cpu", cpu_names()))


def _ports(top: Table, isa: str) -> tuple[Port, ...]:
    """Return each role's port; further roles of a port need no table."""
    provided: dict[str, str] = {}
    ports: list[Port] = []
    for role in ROLES:
        if role in provided:
            if role in top:
                raise top.error(role, f"port {provided[role]!r} provides the {role} already")
            continue
        table = top.table(role)
        name = table.choice("port", port_names())
        about = port_description(name)
        if role not in about["provides"]:
            provides = ", ".join(about["provides"])
            raise table.error("port", f"{name!r} provides {provides}, not {role}")
        if about["arch"] != isa and (about["arch"] != "any" or isa == "host"):
            raise table.error("port", f"{name!r} is for {about['arch']}, the cpu is {isa}")
        settings = {
            key: table.integer(key, low=spec["min"], high=spec["max"], default=spec.get("default"))
            for key, spec in about.get("settings", {}).items()
        }
        table.finish()
        ports.append(make_port(name, settings))
        provided.update(dict.fromkeys(about["provides"], name))
    return tuple(ports)


def _qemu(values: Mapping[str, Any], table: Table, clock_hz: int) -> Qemu:
    qemu = Qemu(
        values["machine"],
        values["icount_shift"],
        values["serial"],
        values["cpu"],
        values["memory"],
        values["vector_bits"],
    )
    instruction_ns, tick_ns = 1 << qemu.icount_shift, 10**9 / clock_hz
    # A measurement is up to a tick short; half an instruction is rounded away. If an instruction
    # takes whole ticks, the measurement is exact.
    if 2 * tick_ns > instruction_ns and (clock_hz << qemu.icount_shift) % 10**9:
        raise table.error(
            "icount_shift",
            f"an instruction of {instruction_ns} ns is shorter than two ticks of {tick_ns:g} ns, "
            "so counts would not be exact",
            f"raise it to {math.ceil(2 * tick_ns - 1).bit_length()} or more",
        )
    return qemu


def _renode(
    values: Mapping[str, Any], table: Table, clock_hz: int, ports: tuple[Port, ...]
) -> Renode:
    platform, changes = values["platform"], values["changes"]
    if platform and not _PLATFORM.match(platform):
        raise table.error(
            "platform",
            f"{platform!r} is not one of Renode's platforms",
            'write platform = "platforms/cpus/NAME.repl", or boards in place of cpus',
        )
    for line in changes.splitlines():
        if line.strip() and not _CHANGE.match(line):
            raise table.error(
                "changes",
                f"{line!r} is not accepted: a platform's language can run programs",
                "accepted lines: `name:`, `name: GROUP.MODEL @ sysbus ADDRESS` with GROUP one of "
                f"{', '.join(_MODELS)}, and indented `property: NUMBER, true, false or a name` and "
                "`-> name@NUMBER`",
            )
    if platform and not values["uart"]:
        raise table.error("uart", "the key is missing", "give the platform's name of the UART")
    renode = Renode(
        platform,
        values["uart"] or "uart",
        values["mips"] or max(1, clock_hz // 2_000_000),
        changes,
    )
    if 2_000_000 * renode.mips > clock_hz:
        raise table.error(
            "mips",
            f"{renode.mips} million instructions a second are more than one for two ticks of "
            f"{clock_hz} Hz, so counts would not be exact",
            f"lower it to {clock_hz // 2_000_000} or less",
        )
    unknown = [port.name for port in ports if port.renode is None]
    if not platform and unknown:
        raise table.error(
            "platform",
            f"no platform can be generated for the port {unknown[0]!r}, which has no Renode model",
            "give the Renode platform file for the chip",
        )
    return renode


def _trigger(top: Table) -> Trigger | None:
    """Return the pin for a meter, if the board has one."""
    if "trigger" not in top:
        top.known("trigger")
        return None
    table = top.table("trigger")
    high, low = (_register_words(table, key, 2) for key in ("high", "low"))
    setup = _register_words(table, "setup", 3)
    table.finish()
    return Trigger(high[0], low[0], setup)


def _line(top: Table, ports: Sequence[Port]) -> LineSettings:
    """Return the settings of the serial line."""
    baud = {k: v for port in ports for k, v in port.macros.items()}.get("HIL_UART_BAUD")
    top.known("line")
    table = top.table("line") if "line" in top else Table(str, "line", {}, BoardError)
    return read_line(table, baud or DEFAULT_BAUD)


def _usb_ids(top: Table, key: str) -> tuple[str, ...]:
    """Return the USB ids at ``key``."""
    ids = top.strings(key, ())
    for word in ids:
        if not _USB_ID.match(word):
            raise top.error(key, f"{word!r} is not a USB id", 'write "vendor:product": "2e8a:0003"')
    return ids


def _register_words(table: Table, key: str, each: int) -> tuple[Any, ...]:
    """Return a list of integers as tuples of so many, each an aligned address and 32-bit values."""
    words = table.integers(key)
    groups = tuple(words[at : at + each] for at in range(0, len(words), each))
    form = "ADDRESS, VALUE" if each == 2 else "ADDRESS, MASK, VALUE"
    if len(words) % each or not groups or (each == 2 and len(groups) > 1):
        many = "" if each == 2 else ", ..."
        raise table.error(key, f"{len(words)} numbers are not [{form}{many}]")
    for group in groups:
        if group[0] % 4 or not all(0 <= word < _ADDRESS_SPACE for word in group):
            shown = ", ".join(f"{word:#x}" for word in group)
            raise table.error(
                key,
                f"[{shown}] is not {form}, with an address that is a multiple of 4",
                "write the address of a 32-bit register, and values of 32 bits",
            )
    return groups


def _check_room(board: Board, top: Table) -> None:
    """Check that the firmware without a model fits, so that a fit error is always about a model."""
    base = board.base
    for key, had, needed in (
        ("stack_bytes", board.stack_bytes, base.stack_bytes),
        ("handler_stack_bytes", board.handler_stack_bytes, base.handler_stack_bytes),
    ):
        if had < needed:
            raise top.error(key, f"{had} bytes are too few; the firmware itself takes {needed}")
    stacks = board.stack_bytes + board.handler_stack_bytes
    ram_bytes = base.link_ram_bytes(board.frame_max, board.rx_max) + stacks
    for kind, needed in (("flash", base.flash_bytes), ("ram", ram_bytes)):
        region = next(region for region in board.memory if region.kind == kind)
        if region.size < needed:
            raise top.error(
                f"memory[{board.memory.index(region)}].size",
                f"{region.name!r} has {region.size} bytes; the firmware without a model takes "
                f"{needed}",
            )
