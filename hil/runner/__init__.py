"""Starting a firmware where the board's description says: a runner gives it a serial URL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol

from hil.errors import InputError
from hil.runner import native, qemu

if TYPE_CHECKING:
    from hil.board import Board
    from hil.build import Firmware

__all__ = ["Counter", "Running", "start"]

Counter = Literal["instructions", "cycles", "nanoseconds"]


class Running(Protocol):
    """A firmware that runs."""

    @property
    def url(self) -> str:
        """The serial line, for pyserial's ``serial_for_url``."""

    @property
    def counter(self) -> Counter:
        """What :meth:`count` counts."""

    def alive(self) -> None:
        """Raises :class:`~hil.errors.DeviceError` saying how the firmware's process ended.

        Whoever waits for the firmware calls this every few milliseconds.
        """

    def count(self, ticks: int, ticks_hz: int) -> int:
        """``ticks`` of the firmware's time base in the unit of :attr:`counter`."""


_RUNNERS: dict[str, Callable[[Board, Firmware], AbstractContextManager[Running]]] = {
    "native": native.start,
    "qemu": qemu.start,
}


def start(
    board: Board, firmware: Firmware, runner: str | None = None
) -> AbstractContextManager[Running]:
    """Starts ``firmware``; leaving the context ends it. ``runner`` is one that the board offers."""
    name = runner or board.default_runner
    if name not in board.runners:
        raise InputError(
            f"board {board.name!r} has no runner {name!r}",
            f"choose one of {', '.join(board.runners)}",
        )
    return _RUNNERS[name](board, firmware)
