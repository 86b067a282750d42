"""The entries of commands about boards, probes and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from hil.errors import Attempt
from hil.results.answer import entry_of
from hil.results.codec import omitted
from hil.results.parts import Fallback
from hilc.support.jsondata import Renamed


@dataclass(frozen=True)
class BoardRegion:
    """A range of addresses."""

    name: str
    origin: int
    bytes: Annotated[int, Renamed("size")]
    #: ``flash`` is the memory that the image is loaded into, of any technology; else ``ram``.
    kind: str
    #: Cycles of the core per word, wait states included; absent if unknown.
    read_cycles: int = omitted(0)
    #: Address at which the core fetches instructions from it; absent if that is ``origin``.
    fetch_origin: int | None = omitted(None)
    #: Whether it is RAM that a boot loader fills with the image; absent if not.
    writable: bool = omitted(False)


@entry_of("boards --connected")
@dataclass(frozen=True)
class ConnectedEntry:
    """A USB device or a probe that is plugged in, and the board that it may be."""

    name: str
    #: ``vendor:product``, and bus and sockets (``1-2.4``); empty where they are unknown.
    usb_id: str
    usb_path: str
    #: Unique id of its probe; None for a device that is no probe.
    probe: str | None
    #: Names of its serial ports that last, for ``--port``.
    ports: tuple[str, ...]
    #: Names of the boards that it may be, and how that is known; empty where it is not.
    boards: tuple[str, ...]
    known_by: str
    #: Whether the board's boot loader answers, instead of the board.
    boot_loader: bool
    #: Its name in the bench file; None where it has none.
    unit: str | None
    #: Words of a command line that address it; empty where the board is not known.
    address: str


@entry_of("board identify")
@dataclass(frozen=True)
class IdentifiedEntry:
    """A board that was added to the bench file."""

    name: str
    board: str
    probe: str | None
    port: str | None
    #: The bench file.
    bench: str


@dataclass(frozen=True)
class FrameSizes:
    """Sizes of the serial protocol."""

    #: Largest frame, and the size of the receive buffer, in bytes.
    frame_max: int
    rx_max: int


@entry_of("boards")
@dataclass(frozen=True)
class BoardEntry:
    """A board's description."""

    name: str
    description: str
    cpu: str
    clock_hz: int
    #: Memory of the board, in all its regions; None for this machine, whose memory has no limit.
    flash_bytes: int | None
    ram_bytes: int | None
    memory: tuple[BoardRegion, ...]
    stack_bytes: int
    handler_stack_bytes: int
    rpc: FrameSizes
    #: The firmware's ports by their first role, with their settings.
    ports: Mapping[str, Mapping[str, Any]]
    #: ``uart``, or ``rtt`` for a line through the debug probe.
    line: str
    runners: tuple[str, ...]
    #: Settings of the emulators; None for one that the board does not have.
    qemu: Mapping[str, Any] | None
    renode: Mapping[str, Any] | None
    #: Settings of the flashers, by name.
    flashers: Mapping[str, Mapping[str, Any]]
    #: Whether the pytest plugin uses the board where none is selected.
    default: bool
    #: Whether the description ran on hardware, and the date of the proof (`hil board prove`).
    silicon: bool
    proven: str
    #: Evidence of the description: ``silicon``, an emulator, or none yet.
    ran_on: str
    #: How it was shown to be right, the strongest first: ``silicon`` with the date, ``native``,
    #: ``emulated by QEMU``, ``RTL``, ``simulated registers``, ``image read back by`` a tool.
    shown_by: tuple[str, ...]


@entry_of("board new")
@dataclass(frozen=True)
class NewBoardEntry(BoardEntry):
    """A board description that was written."""

    file: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ToolFinding:
    """A program or package that hil uses."""

    name: str
    found: bool
    version: str | None
    too_old: bool
    #: Whether emulated boards need it.
    required: bool
    purpose: str
    remedy: str


@dataclass(frozen=True)
class SerialPort:
    """A serial port of this machine."""

    url: str
    #: A name that stays the same, for ``--port``.
    name: str
    description: str


@dataclass(frozen=True)
class ConnectedProbe:
    """A connected debug probe."""

    uid: str
    description: str
    #: Name of its board, and the flasher's name of the chip; empty if not reported.
    board: str
    target: str


@dataclass(frozen=True)
class ForbiddenProbe:
    """A probe without permission to use it."""

    name: str
    #: Its device file.
    node: str


@dataclass(frozen=True)
class InstalledReference:
    """The reference that ``hil verify`` uses here."""

    name: str
    #: None if the default reference is installed.
    reference_fallback: Fallback | None
    independent: bool


@dataclass(frozen=True)
class SelfTest:
    """Result of an inference on an emulated board."""

    ok: bool
    result: str


@dataclass(frozen=True)
class CacheState:
    """The build cache."""

    ok: bool
    folder: str | None
    result: str
    remedy: str


@dataclass(frozen=True)
class PluginState:
    """An installed plugin."""

    name: str
    target: str
    distribution: str
    version: str
    ok: bool
    #: Why it cannot be loaded; None if it can.
    problem: str | None
    remedy: str


@dataclass(frozen=True)
class BoardNeed:
    """Something that a runner of the board needs."""

    what: str
    found: bool
    required: bool
    result: str
    remedy: str


@dataclass(frozen=True)
class CheckedBoard:
    """The board of ``--board``."""

    name: str
    needs: tuple[BoardNeed, ...]


@entry_of("doctor")
@dataclass(frozen=True)
class DoctorEntry:
    """Installed tools, connected hardware, and remedies for missing ones."""

    #: Whether emulated boards work here, and the board of ``--board``.
    ok: bool
    tools: tuple[ToolFinding, ...]
    ports: tuple[SerialPort, ...]
    probes: tuple[ConnectedProbe, ...]
    forbidden_probes: tuple[ForbiddenProbe, ...]
    reference: InstalledReference
    self_test: SelfTest
    cache: CacheState
    plugins: tuple[PluginState, ...]
    #: With ``--board``.
    board: CheckedBoard | None = omitted()


@entry_of("flash")
@dataclass(frozen=True)
class FlashEntry:
    """A board that was programmed."""

    board: str
    elf: str
    #: False if the board had the image already.
    programmed: bool
    bytes: int
    seconds: float
    #: The build id that the firmware reported; None for firmware that hil did not build.
    build_id: str | None
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...]
    #: The action, as text.
    text: str


@entry_of("debug")
@dataclass(frozen=True)
class DebugEntry:
    """A gdb server on a board, printed when it listens."""

    board: str
    elf: str
    #: ``HOST:PORT`` of the server, and the command that connects gdb.
    gdb_address: str
    gdb: str
    #: The serial line while gdb lets the board run; None if there is none.
    serial: str | None
    #: Whether the line is proven to be this board's.
    serial_proven: bool


@dataclass(frozen=True)
class ErasedRegion:
    """An erased range of flash."""

    origin: int
    bytes: Annotated[int, Renamed("size")]


@entry_of("erase")
@dataclass(frozen=True)
class EraseEntry:
    """The erased flash of a board."""

    board: str
    #: Unique id of the probe.
    probe: str
    bytes: int
    regions: tuple[ErasedRegion, ...]
    seconds: float


@entry_of("reset")
@dataclass(frozen=True)
class ResetEntry:
    """A board after a reset."""

    board: str
    #: Unique id of the probe, or the port.
    probe: str
    #: State of the core after the reset.
    state: str


@entry_of("power")
@dataclass(frozen=True)
class PowerEntry:
    """A board's supply after it was switched."""

    #: The board's type, or its name in the bench file.
    board: str
    on: bool
    #: Whether it was off in between.
    cycled: bool


@entry_of("help")
@dataclass(frozen=True)
class HelpEntry:
    """The text of ``hil COMMAND --help``."""

    command: str
    help: str


@entry_of("completion")
@dataclass(frozen=True)
class CompletionEntry:
    """The script that completes ``hil`` in a shell."""

    shell: str
    script: str


@dataclass(frozen=True)
class ProofCheck:
    """A check of ``hil board prove``."""

    name: str
    #: ``passed``, ``failed``, or ``not run``.
    status: str
    #: What was found, or why it was not run.
    text: str
    #: The figures by name, with their unit in it.
    figures: Mapping[str, float | int | str] = field(default_factory=dict)


@entry_of("board prove")
@dataclass(frozen=True)
class ProofEntry:
    """What was proven of a board: the files of ``targets/proven`` have one each."""

    board: str
    description: str
    cpu: str
    clock_hz: int
    #: The runner that started the board, with the probe and port of a real one.
    source: str
    #: Whether an emulator took the place of the board.
    emulated: bool
    #: Whether all checks that were run have passed.
    proven: bool
    #: Local time with its zone.
    date: str
    #: Versions of this program and of the C compiler.
    versions: Mapping[str, str]
    checks: tuple[ProofCheck, ...]
