"""Starting a firmware where the board's description says: a runner gives it a serial URL."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from hil.errors import DeviceError, InputError
from hil.runners import native, qemu, renode
from hil.runners.choice import VIRTUAL, Choice, Image
from hil.support.qemu import install_hint, program
from hilc.support.suggest import nearest

if TYPE_CHECKING:
    from hil.board import Board
    from hil.link.bulk import BoardMemory
    from hil.link.line import Line

__all__ = [
    "VIRTUAL",
    "Choice",
    "Counter",
    "Image",
    "Resettable",
    "Running",
    "check_line",
    "check_ready",
    "runner_name",
    "start",
]

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
        """Restarts it; the serial line must be closed, and opened again afterwards."""


def runner_name(board: Board, runner: str | None, choice: Choice) -> str:
    """Return the runner that :func:`start` takes: the one asked for, pyOCD where a probe or RTT is
    chosen, else the board's first.
    """
    needs_probe = choice.probe is not None or choice.rtt or board.is_over_rtt
    return runner or ("pyocd" if needs_probe else board.default_runner)


def check_line(choice: Choice) -> None:
    """Refuses a port for a line that goes through the probe."""
    if choice.rtt and choice.port is not None:
        raise InputError("RTT goes through a probe, not through a port", "drop the port")


def check_ready(board: Board, runner: str | None, choice: Choice) -> None:
    """Raise where :func:`start` would for want of a program, a probe or a port.

    Whoever builds a firmware asks first: nobody waits for a build that cannot run.
    """
    check_line(choice)
    if choice.lab is not None:
        return
    name = _checked_runner(board, runner, choice)
    programs = {
        "qemu": (program(board.cpu), install_hint(board.cpu)),
        "renode": (renode.PROGRAM, renode.INSTALL_HINT),
    }
    if name in programs and shutil.which(programs[name][0]) is None:
        missing, hint = programs[name]
        raise DeviceError(f"{missing} is not installed", hint)
    if name == "pyocd" and choice.probe != VIRTUAL:
        from hil.runners import pyocd

        with pyocd.reached(board, choice.probe) as chosen:
            pyocd.line_url(board, chosen, choice)


def start(
    board: Board,
    firmware: Image,
    runner: str | None = None,
    choice: Choice | None = None,
) -> AbstractContextManager[Running]:
    """Start ``firmware``; leaving the context ends what was started for it.

    ``runner`` is one that the board offers; see :func:`runner_name`.
    """
    choice = choice or Choice()
    if choice.lab is not None:
        return choice.lab.start(firmware.elf, choice)
    choice = replace(choice, rtt=choice.rtt or board.is_over_rtt)
    name = _checked_runner(board, runner, choice)
    if name == "pyocd":
        # Not at the top: pyOCD takes a third of a second to import.
        from hil.runners import pyocd

        return pyocd.start(board, firmware.elf, choice)
    if name == "renode":
        return renode.start(board, firmware)
    return native.start(board, firmware) if name == "native" else qemu.start(board, firmware)


def _checked_runner(board: Board, runner: str | None, choice: Choice) -> str:
    """Return the runner for the board; InputError where the board has it not, or it has no
    probe.
    """
    name = runner_name(board, runner, choice)
    if name not in board.runners:
        raise InputError(
            f"board {board.name!r} has no runner {name!r}{nearest(name, board.runners)}",
            f"choose one of {', '.join(board.runners)}",
        )
    if name != "pyocd" and (choice.probe is not None or choice.rtt or board.is_over_rtt):
        if board.is_over_rtt:
            raise InputError(
                f"the serial line to {board.name} goes through a probe, and the runner {name!r} "
                "uses none",
                "use the runner pyocd (--probe virtual where it is emulated)",
            )
        raise InputError(f"the runner {name!r} uses no probe", "drop --probe, or use pyocd")
    if choice.port is not None and (name != "pyocd" or choice.probe == VIRTUAL):
        what = "a virtual probe" if name == "pyocd" else f"the runner {name!r}"
        raise InputError(f"{what} has a serial line of its own, not {choice.port}", "drop the port")
    return name
