"""The registry of runners, which start a board's firmware; plugins register theirs alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hil.board.board import allow_runner
from hil.plugins import fault_of, load_plugins, registered
from hilc.support.counters import Counter
from hilc.support.registering import check_registered

if TYPE_CHECKING:
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line
    from hil.runners.choice import Choice, Image


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
RUNNING = ("url", "line", "memory", "is_emulated", "counter", "alive", "count")


@runtime_checkable
class Resettable(Protocol):
    """A running firmware that can be restarted from outside, even if it hangs."""

    @property
    def can_reset(self) -> bool: ...

    def reset(self) -> None:
        """Restart the firmware; the serial line must be closed before and reopened after."""


@runtime_checkable
class Wired(Protocol):
    """A running firmware whose serial line is proven to be that of its board."""

    @property
    def port(self) -> str | None:
        """The line's port, by a name that lasts where it has one; None for a place of a lab, whose
        board server has proven it.
        """


@dataclass(frozen=True)
class Need:
    """A program or package that a runner needs."""

    #: Its name in messages.
    name: str
    #: How to install it.
    hint: str
    #: Returns whether it is installed; None: whether it is a program on PATH.
    find: Callable[[], bool] | None = None

    def is_there(self) -> bool:
        return self.find() if self.find is not None else shutil.which(self.name) is not None


@dataclass(frozen=True)
class Runner:
    """A way to start a firmware.

    ``start(board, image, choice)`` returns a context that yields a :class:`Running` and ends it on
    exit. Failures are :class:`~hil.errors.HilError`; every wait needs a deadline.
    """

    #: The value of ``--runner`` and of ``runners`` in descriptions.
    name: str
    #: Starts an image on a board with the user's choice.
    start: Callable[[Board, Image, Choice], AbstractContextManager[Running]]
    #: Returns whether it can start a board whose description does not list it.
    serves: Callable[[Board], bool] = field(default_factory=lambda: _serves_no_other)
    #: Returns the missing prerequisite for a board; None if nothing is needed.
    needs: Callable[[Board], Need | None] = field(default_factory=lambda: _needs_nothing)
    #: Raises if ``start`` would for a problem that is known before a build.
    check: Callable[[Board, Choice], None] = field(default_factory=lambda: _is_always_ready)
    #: Whether it uses a debug probe: then a probe, a port and RTT may be chosen.
    uses_probe: bool = False
    #: Whether it drives a board that exists once, without a probe: then one process at a time may.
    exists_once: bool = False
    #: Whether its firmware may have :attr:`Running.memory`.
    reaches_memory: bool = False


def _serves_no_other(board: Board) -> bool:
    return False


def _needs_nothing(board: Board) -> Need | None:
    return None


def _is_always_ready(board: Board, choice: Choice) -> None: ...


_RUNNERS: dict[str, Runner] = {}


def register_runner(runner: Runner) -> None:
    """Register ``runner`` for boards and their descriptions.

    Raise :class:`~hilc.errors.InputError` if another runner has its name, or the name or one of
    its functions is invalid.
    """
    functions = {name: getattr(runner, name) for name in ("start", "serves", "needs", "check")}
    known = {name: other.start for name, other in _RUNNERS.items()}
    check_registered("runner", runner.name, functions, known)
    _RUNNERS[runner.name] = runner
    allow_runner(runner.name)


def runner_named(name: str) -> Runner:
    """Return the runner; raise :class:`~hilc.errors.InputError` if the name is unknown."""
    return registered("runner", name, _RUNNERS)


def need_of(runner: Runner, board: Board) -> Need | None:
    """Return what the runner needs for a board; raise InputError if it returns something else."""
    need: object = runner.needs(board)
    if need is None or isinstance(need, Need):
        return need
    raise fault_of(
        runner.needs,
        f"the runner {runner.name!r} returned {need!r}, of type {type(need).__name__}, as what it "
        "needs, not a Need or None",
    )


def runners_for(board: Board) -> tuple[str, ...]:
    """Return the runners that can start ``board``; those of its description come first."""
    load_plugins()
    others = [r.name for r in _RUNNERS.values() if r.name not in board.runners and r.serves(board)]
    return (*board.runners, *others)
