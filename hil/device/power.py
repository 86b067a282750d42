"""User-defined commands that switch a board's supply off and on (:mod:`hil.board.config`)."""

from __future__ import annotations

import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from hil.board.config import config_path, power_table
from hil.errors import DeviceError, InputError
from hilc.support.process import run

_OFF_S, _TIMEOUT_S, _RETURN_S = 1.0, 30.0, 30.0
_LONGEST_S = 3600.0


@dataclass(frozen=True)
class Power:
    """Commands that switch one board off and on again."""

    board: str
    commands: tuple[tuple[str, ...], ...]
    #: Pause between the first command and the second.
    off_s: float
    timeout_s: float
    #: Longest time after the commands until the probe and the port are back.
    return_s: float

    def cycle(self) -> None:
        """Run the commands; raise :class:`DeviceError` if one fails or times out."""
        for number, command in enumerate(self.commands):
            if number:
                time.sleep(self.off_s)
            self._run(command)

    def _run(self, command: tuple[str, ...]) -> None:
        text = shlex.join(command)
        hint = f"run it by hand; it is set in {config_path()}"
        try:
            # What it has started ends with it past the deadline, or when this program ends.
            done = run(command, Path(), limit_s=self.timeout_s, errors_apart=False)
        except subprocess.TimeoutExpired:
            raise DeviceError(
                f"the power command of {self.board} did not end within {self.timeout_s:g} s: "
                f"{text}",
                hint,
            ) from None
        except OSError as error:
            raise DeviceError(
                f"the power command of {self.board} cannot be run: {text}: {error.strerror}", hint
            ) from None
        if done.returncode != 0:
            said = done.stdout.strip().splitlines()
            raise DeviceError(
                f"the power command of {self.board} failed with {done.returncode}: {text}"
                + (f", saying {said[-1]!r}" if said else ""),
                hint,
            )


def power_of(board: str) -> Power | None:
    """Return the user's power commands for ``board``; None if there are none.

    Raises :class:`InputError` where it is not valid.
    """
    table = power_table(board)
    if table is None:
        return None
    label = f"{config_path()}: boards.{board}.power"
    for key, value in table.items():
        if isinstance(value, str) and not _words(value):
            raise InputError(f"{label}.{key} is {value!r}", "write a command as text")
        if not isinstance(value, str) and not 0 < value < _LONGEST_S:
            raise InputError(
                f"{label}.{key} is {value!r}",
                f"write seconds, more than 0 and less than {_LONGEST_S:g}",
            )
    given = [key for key in ("cycle", "off", "on") if key in table]
    if given not in (["cycle"], ["off", "on"]):
        raise InputError(
            f"{label} has {' and '.join(given) or 'no command'}", "give cycle, or both off and on"
        )
    return Power(
        board,
        tuple(tuple(_words(table[key])) for key in given),
        float(table.get("off_s", _OFF_S)),
        float(table.get("timeout_s", _TIMEOUT_S)),
        float(table.get("return_s", _RETURN_S)),
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []
