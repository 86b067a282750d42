"""User-defined commands that switch a board's supply off and on (:mod:`hil.board.config`)."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hil.board.config import check_power, config_path, power_table
from hil.errors import DeviceError, InputError
from hilc.support.process import run

if TYPE_CHECKING:
    from hil.board import Board

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
    #: The file that sets the commands.
    file: Path

    def cycle(self) -> None:
        """Run the commands; raise :class:`DeviceError` if one fails or times out."""
        for number, command in enumerate(self.commands):
            if number:
                time.sleep(self.off_s)
            self._run(command)

    def _run(self, command: tuple[str, ...]) -> None:
        text = shlex.join(command)
        hint = f"run it by hand; it is set in {self.file}"
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
    """Return the user's power commands for boards of the type ``board``; None if there are none.

    Raise :class:`InputError` if they are not valid.
    """
    table = power_table(board)
    path = config_path()
    return None if table is None else _power(board, path, f"boards.{board}.power", table)


def power_of_board(board: Board) -> Power | None:
    """Return the power commands of a board of the bench, else those for boards of its type.

    Raise :class:`InputError` if they are not valid.
    """
    unit = board.unit
    if unit is None or unit.power is None:
        return power_of(board.name)
    label = f"boards.{unit.name}.power"
    check_power(unit.file, label, unit.power)
    return _power(unit.name, unit.file, label, unit.power)


def _power(board: str, path: Path, key: str, table: Mapping[str, Any]) -> Power:
    label = f"{path}: {key}"
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
        path,
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []
