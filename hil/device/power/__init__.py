"""Switches of boards' supplies, as the user's configuration or the bench file states them.

A table ``power`` has the commands of the user (:mod:`hil.board.config`), or a driver with its
settings (:data:`DRIVERS`). A bench file is shared: it selects drivers, and no commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hil.board.config import check_power, config_path, power_table
from hil.device.power.programs import Cycle, OnOff, Uhubctl
from hil.device.power.sockets import Shelly, Tasmota
from hil.device.power.switch import Switch
from hil.errors import InputError
from hilc.support.suggest import listed, nearest

if TYPE_CHECKING:
    from hil.board import Board

_OFF_S, _TIMEOUT_S, _RETURN_S = 1.0, 30.0, 30.0
_LONGEST_S = 3600.0
_TIMES: Final = ("off_s", "timeout_s", "return_s")
_COMMANDS: Final = ("cycle", "off", "on")

#: What a setting of a driver may be, and how to write it.
_LOCATION: Final = re.compile(r"[0-9]{1,3}(-[0-9]{1,2}(\.[0-9]{1,2})*)?")
_LABEL: Final = r"[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(
    rf"({_LABEL}(\.{_LABEL}){{0,20}}|\[[0-9A-Fa-f:.]{{2,45}}\])"
    # A port: 1 to 65535.
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
)
_TEXTS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "location": (_LOCATION, 'write the hub\'s location as uhubctl lists it, such as "1-1.4"'),
    "host": (_HOST, 'write a name or an address, with a port if it is not 80: "10.0.0.7:8080"'),
}


@dataclass(frozen=True)
class Driver:
    """A kind of switch: the class, and its settings with the values of those that have one."""

    switch: Callable[..., Switch]
    texts: tuple[str, ...]
    #: Each number's name with the smallest and the largest value, and the default; None: required.
    numbers: Mapping[str, tuple[int, int, int | None]]

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the settings."""
        return (*self.texts, *self.numbers)


DRIVERS: Final[Mapping[str, Driver]] = {
    # uhubctl's own limit of ports.
    "uhubctl": Driver(Uhubctl, ("location",), {"port": (1, 14, None)}),
    "shelly": Driver(Shelly, ("host",), {"channel": (0, 255, 0)}),
    "tasmota": Driver(Tasmota, ("host",), {"channel": (1, 32, 1)}),
}


@dataclass(frozen=True)
class Power:
    """The switch of one board, and the times of a cycle."""

    switch: Switch
    #: Pause between off and on.
    off_s: float
    #: Longest time after a cycle until the probe and the port are back.
    return_s: float

    def turn(self, on: bool) -> None:
        """Switch the supply on or off; raise as :meth:`.Switch.turn` does."""
        self.switch.turn(on)

    def cycle(self) -> None:
        """Switch off and on; raise :class:`~hil.errors.DeviceError` if that fails."""
        self.switch.cycle(self.off_s)


def power_of(board: str) -> Power | None:
    """Return the power switch of boards of the type ``board`` by the user's configuration; None
    if it has none.

    Raise :class:`InputError` if its table is not valid.
    """
    table = power_table(board)
    return None if table is None else _power(board, config_path(), f"boards.{board}.power", table)


def power_of_board(board: Board) -> Power | None:
    """Return the power switch of a board: for one of the bench that of ``NAME@bench`` in the
    user's configuration, else that of the bench file; else that for boards of its type.

    Raise :class:`InputError` if its table is not valid.
    """
    unit = board.unit
    if unit is None:
        return power_of(board.name)
    if (own := power_of(unit.spec)) is not None or unit.power is None:
        return own or power_of(board.name)
    label = f"boards.{unit.name}.power"
    check_power(unit.file, label, unit.power)
    for key in _COMMANDS:
        if key in unit.power:
            raise InputError(
                f"{unit.file}: {label}.{key} is a command, and a bench file runs none",
                f"state a driver ({', '.join(DRIVERS)}), or the command below "
                f'[boards."{unit.spec}".power] in {config_path()}',
            )
    return _power(unit.name, unit.file, label, unit.power)


def _power(board: str, path: Path, key: str, table: Mapping[str, Any]) -> Power:
    label = f"{path}: {key}"
    for name in _TIMES:
        if not 0 < table.get(name, 1) < _LONGEST_S:
            raise InputError(
                f"{label}.{name} is {table[name]!r}",
                f"write seconds, more than 0 and less than {_LONGEST_S:g}",
            )
    common = (board, path, float(table.get("timeout_s", _TIMEOUT_S)))
    stated = _driver if "driver" in table else _commands
    return Power(
        stated(label, table, common),
        float(table.get("off_s", _OFF_S)),
        float(table.get("return_s", _RETURN_S)),
    )


_Common = tuple[str, Path, float]


def _commands(label: str, table: Mapping[str, Any], common: _Common) -> Switch:
    """Return the switch of a table without a driver."""
    _refuse_others(label, table, _COMMANDS, "without a driver")
    given = [key for key in _COMMANDS if key in table]
    for key in given:
        if not _words(table[key]):
            raise InputError(f"{label}.{key} is {table[key]!r}", "write a command as text")
    if given == ["cycle"]:
        return Cycle(*common, _words(table["cycle"]))
    if given == ["off", "on"]:
        return OnOff(*common, _words(table["on"]), _words(table["off"]))
    raise InputError(
        f"{label} has {' and '.join(given) or 'no command'}",
        f"give cycle, or both off and on, or driver: one of {', '.join(DRIVERS)}",
    )


def _driver(label: str, table: Mapping[str, Any], common: _Common) -> Switch:
    """Return the switch of a table with a driver."""
    name = table["driver"]
    if name not in DRIVERS:
        raise InputError(
            f"{label}.driver: unknown driver {name!r}{nearest(name, DRIVERS)}",
            f"choose one of {', '.join(DRIVERS)}",
        )
    driver = DRIVERS[name]
    _refuse_others(label, table, ("driver", *driver.keys), f"of the driver {name}")
    settings = [_text(label, table, key) for key in driver.texts]
    numbers = [_number(label, table, key, *range_) for key, range_ in driver.numbers.items()]
    return driver.switch(*common, *settings, *numbers)


def _refuse_others(label: str, table: Mapping[str, Any], keys: tuple[str, ...], whose: str) -> None:
    for key in table:
        if key not in (*keys, *_TIMES):
            raise InputError(
                f"{label}.{key} is no key {whose}",
                f"accepted keys: {listed((*keys, *_TIMES), 'and')}",
            )


def _text(label: str, table: Mapping[str, Any], key: str) -> str:
    pattern, remedy = _TEXTS[key]
    value = table.get(key)
    if value is None:
        raise InputError(f"{label}.{key}: the key is missing", remedy)
    if not pattern.fullmatch(value):
        raise InputError(f"{label}.{key} is {value!r}", remedy)
    return str(value)


def _number(
    label: str, table: Mapping[str, Any], key: str, low: int, high: int, default: int | None
) -> int:
    value = table.get(key, default)
    if value is None:
        raise InputError(f"{label}.{key}: the key is missing", f"write {low} to {high}")
    if not low <= value <= high:
        raise InputError(f"{label}.{key}: {value} is not within {low} to {high}")
    return int(value)


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()
