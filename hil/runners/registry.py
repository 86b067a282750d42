"""The runners: what starts a board's firmware, by name. Ours and others' are registered alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from hil.board.board import allow_runner
from hil.errors import InputError
from hil.plugins import load_plugins
from hilc.support.suggest import listed, nearest

if TYPE_CHECKING:
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.runners.choice import Choice, Image

Counter = Literal["instructions", "cycles", "nanoseconds"]


class Running(Protocol):
    """A firmware that runs."""

    @property
    def url(self) -> str:
        """The serial line, for pyserial's ``serial_for_url``."""

    @property
    def line(self) -> Line | None:
        """The line itself, where no URL can open it."""

    @property
    def memory(self) -> BoardMemory | None:
        """The board's memory, where it can be reached while the firmware runs."""

    @property
    def is_emulated(self) -> bool:
        """Return whether an emulator takes the place of the board."""

    @property
    def counter(self) -> Counter:
        """The unit of :meth:`count`."""

    def alive(self) -> None:
        """Raise :class:`~hil.errors.DeviceError` saying how the firmware's process ended.

        Whoever waits for the firmware calls this every few milliseconds.
        """

    def count(self, ticks: int, ticks_hz: int) -> int:
        """``ticks`` of the firmware's time base in the unit of :attr:`counter`."""


@runtime_checkable
class Resettable(Protocol):
    """A running firmware that may be restarted from outside, also when it hangs."""

    @property
    def can_reset(self) -> bool: ...

    def reset(self) -> None:
        """Restart it; the serial line must be closed, and opened again afterwards."""


@dataclass(frozen=True)
class Need:
    """What must be installed before a runner can start anything."""

    #: As messages call it: mostly a program.
    name: str
    #: How to get it.
    hint: str
    #: Whether it is there; without this, whether it is a program on PATH.
    find: Callable[[], bool] | None = None

    def is_there(self) -> bool:
        return self.find() if self.find is not None else shutil.which(self.name) is not None


@dataclass(frozen=True)
class Runner:
    """A way to start a firmware.

    ``start(board, image, choice)`` gives a context with a :class:`Running`; leaving it ends what
    was started. What fails there is a :class:`~hil.errors.HilError`, every wait has a deadline.
    """

    #: As ``--runner`` and descriptions have it.
    name: str
    #: Starts an image on a board, as far as the user's choice leaves open how.
    start: Callable[[Board, Image, Choice], AbstractContextManager[Running]]
    #: Boards that it can start although their descriptions do not name it; without this, none.
    serves: Callable[[Board], bool] = field(default_factory=lambda: _serves_no_other)
    #: What must be installed for a board; None for nothing.
    needs: Callable[[Board], Need | None] = field(default_factory=lambda: _needs_nothing)
    #: Raises where ``start`` would, for want of what the user or the machine must provide.
    check: Callable[[Board, Choice], None] = field(default_factory=lambda: _is_always_ready)
    #: It goes through a debug probe: a probe, a port and RTT may be chosen, and the board runs on.
    uses_probe: bool = False
    #: A firmware that it started may have :attr:`Running.memory`.
    reaches_memory: bool = False


def _serves_no_other(board: Board) -> bool:
    return False


def _needs_nothing(board: Board) -> Need | None:
    return None


def _is_always_ready(board: Board, choice: Choice) -> None: ...


_RUNNERS: dict[str, Runner] = {}


def register_runner(runner: Runner) -> None:
    """Let boards be started by ``runner``, and their descriptions name it.

    :class:`~hilc.errors.InputError` where a runner has its name.
    """
    if runner.name in _RUNNERS:
        raise InputError(f"there is a runner {runner.name!r} already", "give yours another name")
    _RUNNERS[runner.name] = runner
    allow_runner(runner.name)


def runner_named(name: str) -> Runner:
    """Return the runner; :class:`~hilc.errors.InputError` where there is none of the name."""
    if name not in _RUNNERS:
        load_plugins()
    if name not in _RUNNERS:
        raise InputError(
            f"unknown runner {name!r}{nearest(name, _RUNNERS)}",
            f"choose {listed(list(_RUNNERS), 'or')}; a plugin may bring others (hil doctor)",
        )
    return _RUNNERS[name]


def runners_for(board: Board) -> tuple[str, ...]:
    """Return the runners that can start ``board``: those of its description first."""
    load_plugins()
    others = [r.name for r in _RUNNERS.values() if r.name not in board.runners and r.serves(board)]
    return (*board.runners, *others)
