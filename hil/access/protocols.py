"""The two protocols by which the harness reaches a board, for parts of this project and plugins.

A :class:`Runner` starts a firmware and provides its serial line: an emulator, a process. A
:class:`Flasher` programs a real board, erases and resets it, and may serve a debugger. A flasher
needs no runner: :mod:`hil.access.hardware` starts a board by programming it with its flasher, and
the flasher's name is then the runner's name.

Both are subclassed: what a class does not define has the default of its protocol.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Protocol, TypeAlias, runtime_checkable

from hil import virtual_probe
from hil.board.settings import NO_SETTINGS, Setting
from hil.errors import InputError
from hil.firmware.formats import ImageFormat
from hilc.support.counters import Counter

if TYPE_CHECKING:
    from hil.access.connection import Connection, Flashed, Image, ProbeInfo
    from hil.access.usb import ForbiddenProbe
    from hil.board import Board
    from hil.board.chip import Chip
    from hil.board.settings import Value
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.results.bench import Stalls
    from hil.virtual_probe import VirtualBoard

#: Called with the programmed fraction, 0 to 1.
Progress: TypeAlias = Callable[[float], None]

#: Optional features of a flasher, besides programming and resetting:
#: ``erase`` the whole flash, serve gdb (``debug``), read back what is programmed (``verify``),
#: control the core (``core``, by which the serial line is proven), carry the serial line (``rtt``),
#: access memory while the firmware runs (``memory``), use virtual probes (``virtual``), and
#: describe chips (``chips``).
Capability: TypeAlias = Literal[
    "erase", "debug", "verify", "core", "rtt", "memory", "virtual", "chips"
]
_ABILITIES: Final[Mapping[Capability, str]] = {
    "erase": "erase a board",
    "debug": "serve a debugger",
    "verify": "read back what is programmed",
    "core": "control a board's core",
    "rtt": "carry the serial line (RTT)",
    "memory": "access a running board's memory",
    "virtual": "use a virtual probe",
    "chips": "describe a chip",
}


class Running(Protocol):
    """A running firmware."""

    @property
    def url(self) -> str:
        """The serial line, for pyserial's ``serial_for_url``."""

    @property
    def line(self) -> Line | None:
        """The line itself if no URL can open it, else None."""

    @property
    def memory(self) -> BoardMemory | None:
        """The board's memory if it is accessible while the firmware runs, else None."""

    @property
    def is_emulated(self) -> bool:
        """Return whether an emulator replaces the board."""

    @property
    def counter(self) -> Counter:
        """The unit of :meth:`count`."""

    def alive(self) -> None:
        """Raise :class:`~hil.errors.DeviceError` with the reason if the firmware's process ended.

        Called every few milliseconds by code that waits for the firmware.
        """

    def count(self, ticks: int, ticks_hz: int) -> int:
        """Return ``ticks`` of the firmware's time base in the unit of :attr:`counter`."""


#: The members of :class:`Running`.
RUNNING: Final = ("url", "line", "memory", "is_emulated", "counter", "alive", "count")


@runtime_checkable
class Resettable(Protocol):
    """A running firmware that can be restarted from outside, even if it hangs."""

    @property
    def can_reset(self) -> bool:
        """Whether :meth:`reset` is available on this board."""

    def reset(self) -> None:
        """Restart the firmware; the serial line must be closed before and reopened after."""


@dataclass(frozen=True)
class Measurement:
    """What a run of a model or of a layer took on a simulated core."""

    cycles: int
    #: Retired instructions.
    instructions: int
    stalls: Stalls


@runtime_checkable
class Simulated(Protocol):
    """A running firmware on a simulated core, which is far slower than a real one."""

    @property
    def slowness(self) -> float:
        """How many times longer than on a board a run may take before it counts as hanging."""

    @property
    def memory_model(self) -> str:
        """The wait states of the simulated memory, in words."""

    def measurements(self) -> list[Measurement]:
        """Return the measurements that ended since the call before, the oldest first."""


@runtime_checkable
class Wired(Protocol):
    """A running firmware whose serial line is proven to be that of its board."""

    @property
    def port(self) -> str | None:
        """The line's port, by a stable name if it has one; None for a place of a lab, whose
        board server has proven it.
        """


@dataclass(frozen=True)
class Need:
    """A program or package that a runner or a flasher needs."""

    #: Its name in messages.
    name: str
    #: How to install it.
    hint: str
    #: Returns whether it is installed; None: whether it is a program on PATH.
    find: Callable[[], bool] | None = None
    #: The words with which a program prints its version, besides its name; none for one that would
    #: use a probe.
    version: tuple[str, ...] = ("--version",)

    def is_there(self) -> bool:
        """Return whether it is installed."""
        return self.find() if self.find is not None else shutil.which(self.name) is not None


# Runners ------------------------------------------------------------------------------------------


class Runner(Protocol):
    """Starts a firmware and provides its serial line."""

    #: The value of ``--runner`` and of ``runner.name`` in board files.
    name: str
    #: The settings that a board file and ``--runner NAME:KEY=VALUE`` may have.
    settings: Mapping[str, Setting] = NO_SETTINGS
    #: Whether it drives a board that exists once: then one process at a time uses the board.
    exists_once: bool = False
    #: Whether it reaches the board through a probe or a port, which may then be chosen, and the
    #: board runs on afterwards.
    uses_probe: bool = False
    #: Whether its firmware may have :attr:`Running.memory`.
    reaches_memory: bool = False

    def serves(self, board: Board) -> bool:
        """Return whether it can start a board whose file does not name it."""
        return False

    def needs(self, board: Board) -> Need | None:
        """Return the program or package that it needs for a board; None for nothing."""
        return None

    def lock_name(self, board: Board) -> str:
        """Return the name by which a board is locked that the runner finds itself."""
        return f"{self.name} {board.name}"

    def check(self, board: Board, connection: Connection) -> None:
        """Raise :class:`~hil.errors.HilError` for a problem of :meth:`start` that is known before
        a build.
        """
        return

    def check_debugger(self, board: Board, connection: Connection) -> None:
        """Raise :class:`~hil.errors.HilError` if a runner with a gdb server has none for a board,
        or lacks something for it.
        """
        return

    def start(
        self, board: Board, image: Image, connection: Connection
    ) -> AbstractContextManager[Running]:
        """Return a context that yields the running firmware ``image.elf``, and ends what it started
        on exit.

        Failures are :class:`~hil.errors.HilError`; every wait needs a deadline.
        """
        ...


@dataclass(frozen=True)
class DebugServer:
    """A gdb server, at the socket that it was given."""

    #: The serial line, if known.
    url: str | None
    #: Whether the line is known to be the board's.
    is_proven: bool
    #: Raise :class:`~hil.errors.DeviceError` if the server has ended.
    alive: Callable[[], None]


@runtime_checkable
class Debuggable(Protocol):
    """A runner with a gdb server for boards that it starts."""

    #: Commands of the server's monitor that gdb may give.
    monitor_commands: tuple[str, ...]

    def serve_debugger(
        self, board: Board, elf: Path, connection: Connection, stub: socket.socket
    ) -> AbstractContextManager[DebugServer]:
        """Return a context that serves gdb at ``stub``, a listening socket, with the board halted
        before the first instruction of ``elf``.
        """
        ...


# Flashers -----------------------------------------------------------------------------------------


class Core(Protocol):
    """The control of a board's core through its debug port."""

    def halt(self) -> None:
        """Stop the core."""

    def resume(self) -> None:
        """Let the core run on."""

    def step(self) -> None:
        """Execute one instruction of the stopped core."""

    def is_halted(self) -> bool:
        """Return whether the core is stopped."""

    def set_breakpoint(self, address: int) -> bool:
        """Return whether the core had a free breakpoint; it is active from :meth:`resume` on."""
        ...

    def remove_breakpoint(self, address: int) -> None:
        """Remove the breakpoint at ``address``."""

    def read_register(self, name: str) -> int:
        """Return the value of a core register, such as ``pc`` or ``r0``."""

    def write_register(self, name: str, value: int) -> None:
        """Set a core register to ``value``."""

    def read_memory(self, address: int, nbytes: int) -> bytes:
        """Return ``nbytes`` bytes of memory from ``address`` on."""


class VirtualMachine(Protocol):
    """A simulated board behind a virtual probe."""

    @property
    def uid(self) -> str:
        """The probe's unique id."""

    @property
    def url(self) -> str:
        """The serial line."""

    def running(self, reset: Callable[[], None]) -> Running:
        """Return the firmware that was programmed and started; ``reset`` starts it again."""


class FlasherSession(Protocol):
    """An open connection of a flasher to one board.

    ``image`` is a file in the first of the flasher's formats. Methods of a capability that the
    flasher does not declare are never called.
    """

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        """Program ``image`` unless the board has it already; FlashError if that fails."""
        ...

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Reset the board so that it runs ``image``, which is programmed; with ``halted`` (of the
        capability ``debug``) it stops before the first instruction.
        """
        ...

    def reset(self) -> str:
        """Reset the board; return the state of its core afterwards, such as ``running``."""
        ...

    def close(self) -> None:
        """End the connection early: others may use the probe while the firmware runs."""
        ...

    def erase(self) -> list[tuple[int, int]]:
        """Erase the whole flash; return the first address and the size of each region in bytes."""
        lacking("erase")

    def verify(self, image: Path) -> None:
        """Halt the core; raise :class:`~hil.errors.FlashError` if the board does not hold
        ``image``.
        """
        lacking("verify")

    @property
    def core(self) -> Core:
        """The board's core."""
        lacking("core")

    @property
    def memory(self) -> BoardMemory:
        """The board's memory, while the firmware runs."""
        lacking("memory")

    def rtt(self, address: int) -> Line:
        """Return the serial line over RTT; ``address`` is that of its control block."""
        lacking("rtt")

    def serve_debugger(
        self, board: Board, stub: socket.socket
    ) -> AbstractContextManager[Callable[[], None]]:
        """Return a context that serves gdb at ``stub``, a listening socket; it yields a function
        that raises if the server has ended.
        """
        lacking("debug")


class Flasher(Protocol):
    """Programs, erases and resets real boards, and may serve a debugger on them."""

    #: The value of ``--flasher`` and of ``flasher.name`` in board files.
    name: str
    #: Its name in messages.
    title: str
    #: The settings that a board file and ``--flasher NAME:KEY=VALUE`` may have.
    settings: Mapping[str, Setting] = NO_SETTINGS
    #: The formats of images that it programs, the preferred one first.
    formats: tuple[ImageFormat, ...] = ("elf",)
    capabilities: frozenset[Capability] = frozenset()
    #: Whether a board is chosen by the probe it is connected to (:meth:`probes`), not by a port.
    uses_probe: bool = True
    #: Whether a flasher that uses a port takes ``--probe`` as well, and passes it on unchecked.
    passes_probe: bool = False
    #: What the user does so that a board is found by it; empty: connect it.
    connect: str = ""
    #: Commands of its gdb server's monitor that gdb may give.
    monitor_commands: tuple[str, ...] = ()

    def serves(self, board: Board) -> bool:
        """Return whether it can program a board whose file does not name it."""
        return False

    def needs(self, board: Board | None) -> Need | None:
        """Return the program or package that it needs, for a board or at all; None for nothing."""
        return None

    def probes(self) -> list[ProbeInfo]:
        """Return the connected probes or boards that it can use, with unique ids; `hil doctor`
        lists them.

        Raise :class:`~hil.errors.ProbeError` where they cannot be listed.
        """
        return []

    def candidates(self, board: Board, connection: Connection) -> list[ProbeInfo]:
        """Return those of :meth:`probes` that may be on ``board`` by its settings, or what the user
        chose that is not among them.
        """
        return self.probes()

    def summon(self, board: Board, connection: Connection) -> float:
        """Ask a board that is not among :meth:`candidates` to appear there, such as by a restart
        into its bootloader; return the seconds for which it is then awaited, 0 if none can.
        """
        return 0.0

    def forbidden(self) -> list[ForbiddenProbe]:
        """Return the connected probes that this user may not open, each with a remedy."""
        return []

    def target(self, board: Board) -> str:
        """Return the name under which a probe may report the board's chip; "" if unknown."""
        return ""

    def can_reset(self, board: Board) -> bool:
        """Return whether it can reset a board that runs its firmware."""
        return True

    def uf2_family(self, board: Board) -> int | None:
        """Return the number of the chip's family for an image in UF2; None for none."""
        return None

    def check(self, board: Board) -> str:
        """Return in a few words that the board's chip is supported.

        Raise :class:`~hil.errors.HilError` with the remedy if it is not, as installed here.
        """
        return f"{self.title} is ready"

    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> AbstractContextManager[FlasherSession]:
        """Return a context with the connection to the board behind the probe ``uid``, or at the
        port ``uid`` if the flasher uses no probe. With ``attach`` the firmware is not stopped.

        Failures, also of the session while the context lasts, are :class:`~hil.errors.DeviceError`:
        the errors of a program or library are translated.
        """
        ...

    def chip(self, settings: Mapping[str, Value]) -> Chip:
        """Return the facts of the chip that ``settings`` select; InputError for an unknown one."""
        lacking("chips")

    def check_virtual(self, board: Board) -> None:
        """Raise if the board has no machine behind a virtual probe; known before a build."""
        return

    @contextlib.contextmanager
    def start_virtual(
        self, board: Board
    ) -> Iterator[tuple[VirtualBoard | VirtualMachine, Callable[[], None]]]:
        """Start the board's machine behind a virtual probe, without an image; leaving the context
        ends it. Yield it, and a function that raises if it has ended. :meth:`open` reaches it by
        its unique id.
        """
        with virtual_probe.start(board) as (virtual, process):
            yield virtual, process.alive

    def settings_for(self, chip: Chip | None) -> dict[str, Value]:
        """Return the settings for a chip, or those that suit any: for a new board file."""
        return {}


def lacking(capability: Capability) -> NoReturn:
    """Raise the error of a capability that a flasher does not declare."""
    raise NotImplementedError(f"a flasher that declares {capability!r} has to define this")


def require(flasher: Flasher, capability: Capability, others: Mapping[str, Flasher]) -> None:
    """Raise :class:`~hil.errors.InputError` if ``flasher`` lacks a capability; the hint names those
    of ``others`` that have it, such as all those of a board.
    """
    if capability in flasher.capabilities:
        return
    able = [name for name, other in others.items() if capability in other.capabilities]
    raise InputError(
        f"the flasher {flasher.name!r} cannot {_ABILITIES[capability]}",
        f"choose one that can: {', '.join(able)}" if able else "no other one can either",
    )
