"""Settings of runners and flashers: what a board file and the command line may set for each.

A runner or a flasher states its settings (:class:`Setting`) when it is registered; a board file
sets them in its tables ``runner`` and ``flasher``, a chip's file in ``runners.NAME`` and
``flashers.NAME``, and ``--runner NAME:KEY=VALUE`` for one command. All three are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from hil.errors import InputError
from hil.plugins import load_plugins, optional_module
from hilc.support.suggest import nearest
from hilc.support.tables import Table

Kind: TypeAlias = Literal["runner", "flasher"]
Value: TypeAlias = int | str | bool

#: Names of machines, cores, chips and peripherals in other programs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*\Z")
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Setting:
    """A setting of a runner or a flasher: its type, its range and its default."""

    #: ``name`` is a word for another program, which could take other characters for options;
    #: ``words`` are some of these, with blanks between them; ``size`` is a number of bytes such as
    #: ``"64K"``.
    type: Literal["integer", "boolean", "name", "words", "text", "size"]
    #: Description, for the reference.
    help: str
    #: None: the setting must be given.
    default: Value | None = None
    #: The range of an integer.
    low: int = 0
    high: int = (1 << 31) - 1

    def read(self, table: Table, key: str) -> Value:
        """Return the value of ``key`` in ``table``, or the default.

        Raise the table's error if the key is missing or its value is not of this type.
        """
        if key not in table and self.default is not None:
            table.known(key)
            return self.default
        match self.type:
            case "integer":
                return table.integer(key, self.low, self.high)
            case "boolean":
                return table.boolean(key, False)
            case "size":
                return table.size(key)
            case "text":
                return table.text(key)
            case "words":
                words = table.text(key)
                if not all(map(_NAME.match, words.split(" "))):
                    raise table.error(
                        key, f"{words!r} are not names", "write letters, digits and . _ -"
                    )
                return words
            case "name":
                name = table.string(key)
                if not _NAME.match(name):
                    raise table.error(
                        key, f"{name!r} is not a name", "write letters, digits and . _ -"
                    )
                return name

    def parsed(self, text: str) -> Value:
        """Parse ``text`` of a command line; return the value as a board file has it.

        Text that is not of the type is returned as it is: :meth:`read` refuses it.
        """
        if self.type == "boolean":
            return _TRUTH.get(text, text)
        if self.type in ("integer", "size"):
            try:
                return int(text.replace("_", ""), 0)
            except ValueError:
                return text
        return text


#: Values on a command line, by the kind of value that an error names.
_EXAMPLES = {
    "a string": "TEXT",
    "an integer": "NUMBER",
    "true or false": "true or false",
    "a number of bytes": "65536, 64K or 4M",
}


class WordTable(Table):
    """Settings from a command line, with hints in its form instead of that of TOML."""

    def _example(self, key: str, kind_name: str) -> str:
        return f"write {self._place(key)}={_EXAMPLES[kind_name]}"


#: The settings of something without any.
NO_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({})

_KNOWN: dict[Kind, dict[str, Mapping[str, Setting]]] = {"runner": {}, "flasher": {}}


def allow(kind: Kind, name: str, settings: Mapping[str, Setting]) -> None:
    """Let board files and command lines name a runner or a flasher and set its settings."""
    _KNOWN[kind][name] = settings


def known_names(kind: Kind) -> tuple[str, ...]:
    """Return the names of the registered runners or flashers, without importing plugins."""
    optional_module("hil.access")  # registers this project's own
    return tuple(_KNOWN[kind])


def is_known(kind: Kind, name: str) -> bool:
    """Return whether a runner or flasher is registered, by this project or by a plugin."""
    if name not in known_names(kind):
        load_plugins()
    return name in _KNOWN[kind]


def settings_of(name: str) -> Mapping[str, Setting]:
    """Return the settings of the runner or flasher ``name``; none for an unknown one."""
    known_names("runner")
    return _KNOWN["runner"].get(name) or _KNOWN["flasher"].get(name) or NO_SETTINGS


def read_settings(table: Table, settings: Mapping[str, Setting]) -> dict[str, Value]:
    """Return the value of each setting in ``table``.

    Raise the table's error for an unknown key, a missing one, and a value of another type.
    """
    values = {key: setting.read(table, key) for key, setting in settings.items()}
    table.finish()
    return values


def parse_named(option: str, text: str) -> tuple[str, dict[str, str]]:
    """Return name and settings of ``NAME[:KEY=VALUE[,KEY=VALUE...]]``, the value of ``option``.

    Raise :class:`~hil.errors.InputError` for text of another form, and for a setting that the
    runner or flasher of that name does not have. The caller refuses an unknown name.
    """
    name, colon, rest = text.partition(":")
    values: dict[str, str] = {}
    for word in rest.split(",") if colon else ():
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise InputError(
                f"{option} {text!r}: {word!r} is not a setting",
                f"write {option} {name or 'NAME'}:KEY=VALUE,KEY=VALUE",
            )
        if key in values:
            raise InputError(f"{option} {text!r} sets {key} twice", "set it once")
        values[key] = value
    if values and any(is_known(kind, name) for kind in _KNOWN):
        known = settings_of(name)
        wrong = next((key for key in values if key not in known), None)
        if wrong is not None:
            raise InputError(
                f"{option} {text!r}: {name} has no setting {wrong!r}{nearest(wrong, known)}",
                f"choose one of {', '.join(known)}" if known else "drop the settings",
            )
    return name, values
