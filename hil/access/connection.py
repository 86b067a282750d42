"""Values of access to boards: the user's connection, a probe, the result of programming."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from hil.board.config import remembered

#: Value for a probe's uid: start the board's QEMU machine with a virtual probe.
VIRTUAL: Final = "virtual"


class Image(Protocol):
    """Image that a runner starts: a built firmware, or an ELF file only."""

    @property
    def elf(self) -> Path:
        """Path of the ELF file."""


class AcquiredBoard(Protocol):
    """An acquired board of a lab; the context of ``start`` yields a ``Running``."""

    @property
    def place(self) -> str:
        """Name of the board's place in the lab."""

    def start(self, elf: Path, connection: Connection) -> AbstractContextManager[Any]:
        """Return a context that starts the ELF file and yields a ``Running``.

        Raise :class:`~hil.errors.DeviceError` if the board does not start.
        """


@dataclass(frozen=True)
class Flashed:
    """Result of programming a board."""

    #: False if the board already had the image.
    programmed: bool
    nbytes: int
    seconds: float


@dataclass(frozen=True)
class ProbeInfo:
    """A connected probe."""

    uid: str
    description: str
    #: Name of its board, and the flasher's name of the chip, if reported.
    board: str
    target: str

    @property
    def last_board(self) -> str:
        """Name of the board that it was last used on; empty if unknown."""
        return remembered(self.uid).get("board", "")

    @property
    def line(self) -> str:
        """The probe's line in a list of probes."""
        on = f", on {self.board}" if self.board else ""
        if not self.target and (used := self.last_board):
            on = f", last used on {used}"
        return f"{self.uid} ({self.description}{on})"


@dataclass(frozen=True)
class Connection:
    """Probe, serial port and callbacks for starting a firmware."""

    #: A probe's unique id or a part of it; ``virtual`` starts the board's QEMU machine, or its
    #: RTL, with one.
    probe: str | None = None
    port: str | None = None
    #: The whole unique id of the probe that was chosen; every later start uses that probe only.
    uid: str = field(default="", kw_only=True)
    #: Whether the serial line goes through the probe.
    rtt: bool = False
    #: Called with the programmed fraction, 0 to 1.
    progress: Callable[[float], None] | None = None
    #: Called once with the result of programming, when the board runs.
    flashed: Callable[[Flashed], None] | None = None
    #: An acquired board of a lab, used instead of a board of this machine.
    lab: AcquiredBoard | None = None
    #: Whether tensors are accessed in the board's memory; None: if the board is emulated.
    bulk: bool | None = None
    #: How long a probe and a port are awaited that are not connected, as after a power cycle, and a
    #: board that another process uses.
    appear_s: float = 0.0
    #: Whether the image is other people's firmware, whose serial line cannot be proven.
    is_foreign: bool = field(default=False, kw_only=True)
    #: Whether a locked chip is erased to open it; else it is an error.
    erase_to_unlock: bool = field(default=False, kw_only=True)
