"""What every power switch can do."""

from __future__ import annotations

import abc
import time
from dataclasses import dataclass
from pathlib import Path

from hil.errors import DeviceError


@dataclass(frozen=True)
class Switch(abc.ABC):
    """A switch in the supply of one board."""

    #: The board's name, and the file that states its switch, for messages.
    board: str
    file: Path
    #: Longest time of one command or request.
    timeout_s: float

    @abc.abstractmethod
    def turn(self, on: bool) -> None:
        """Switch the supply on or off.

        Raise :class:`~hil.errors.DeviceError` if the switch fails, times out or does not confirm
        its state, and :class:`~hil.errors.InputError` for one that can only be cycled.
        """

    def cycle(self, off_s: float) -> None:
        """Switch the supply off, and on after ``off_s``; raise as :meth:`turn` does."""
        self.turn(False)
        time.sleep(off_s)
        self.turn(True)

    def failed(self, problem: str, remedy: str = "") -> DeviceError:
        """Return the error for a ``problem`` of the switch."""
        stated = f"it is stated in {self.file}"
        return DeviceError(
            f"the power switch of {self.board} {problem}",
            f"{remedy}; {stated}" if remedy else stated,
        )


def state(on: bool) -> str:
    """Return the word for a state."""
    return "on" if on else "off"
