"""Descriptions in TOML, read strictly: an unknown key is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hilc.errors import HilError
from hilc.support.byte_counts import parse_bytes
from hilc.support.suggest import like, nearest
from hilc.support.toml import parse_toml

_ADDRESS_SPACE = 1 << 32
_BYTES_EXAMPLE = '65536, "64K" or "4M"'
#: Valid values by the kind of value that an error names.
_EXAMPLES = {
    "a string": '{key} = "..."',
    "an integer": "{key} = 1, without quotes",
    "true or false": "{key} = true or {key} = false, without quotes",
    "a number of bytes": f"{{key}} = {_BYTES_EXAMPLE}",
    "a list of strings": '{key} = ["...", "..."]',
    "a list of integers": "{key} = [1, 2]",
    "a table": "its keys below [{table}]",
    "a list of tables": "each entry below [[{table}]]",
}


class Table:
    """One table of a description, which records the keys that were read."""

    def __init__(
        self,
        place: Callable[[str], str],
        label: str,
        values: Mapping[str, Any],
        error: type[HilError],
    ) -> None:
        """Create a table: ``label`` is its own key, ``error`` the class of exceptions.

        ``place`` returns the file and the path of a key, for messages.
        """
        self._place = place
        self._label = label
        self._values = values
        self._error = error
        self._known: list[str] = []

    @classmethod
    def read(cls, path: Path, error: type[HilError]) -> Table:
        """Return the top-level table of a file."""
        remedy = "correct the file; docs/reference/core-files.md describes it"
        values = parse_toml(path.read_bytes(), path, error, remedy)
        return cls(lambda key: f"{path}: {key}", "", values, error)

    def error(self, key: str, problem: str, hint: str = "") -> HilError:
        """Return the exception for a problem of ``key``, with its file and path."""
        return self._error(f"{self._place(self._key(key))}: {problem}", hint)

    def _key(self, key: str) -> str:
        return f"{self._label}.{key}" if self._label else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the table, in the order of the file."""
        return tuple(self._values)

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of the table as the file has them."""
        return self._values

    def _get(
        self, key: str, kind: type | tuple[type, ...], kind_name: str, default: Any = None
    ) -> Any:
        self._known.append(key)
        if key not in self._values:
            if default is None:
                near = like(key, self._unknown())
                hint = (
                    f"is {self._key(near[0])!r} a misspelling of it?"
                    if near
                    else self._example(key, kind_name)
                )
                raise self.error(key, "the key is missing", hint)
            return default
        value = self._values[key]
        # bool is an int in Python, but not in a description.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong_type(key, value, kind_name)
        return value

    def _wrong_type(self, key: str, value: object, kind_name: str) -> HilError:
        return self.error(key, f"{value!r} is not {kind_name}", self._example(key, kind_name))

    def _example(self, key: str, kind_name: str) -> str:
        """Return the hint that shows how a value of this kind is written."""
        return f"write {_EXAMPLES[kind_name].format(key=key, table=self._key(key))}"

    def string(self, key: str, default: str | None = None) -> str:
        """Return a string of one line without control characters."""
        text = self.text(key, default)
        self._require_printable(key, text)
        return text

    def _require_printable(self, key: str, text: str) -> None:
        if not text.isprintable():
            raise self.error(
                key, f"{text!r} has control characters", "write one line of printable characters"
            )

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string of any number of lines.

        Raise the table's error for an empty string.
        """
        text: str = self._get(key, str, "a string", default)
        if not text.strip() and key in self:
            raise self.error(key, "the string is empty")
        return text

    def choice(self, key: str, choices: Iterable[str], default: str | None = None) -> str:
        """Return the string at ``key``; raise if it is none of ``choices``."""
        options = tuple(choices)
        value = self.string(key, default)
        if value not in options:
            near = nearest(value, options)
            raise self.error(
                key, f"unknown value {value!r}{near}", f"choose one of {', '.join(options)}"
            )
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return the integer at ``key``; raise if it is not within ``low`` to ``high``."""
        value: int = self._get(key, int, "an integer", default)
        if not low <= value <= high:
            raise self.error(key, f"{value} is not within {low} to {high}")
        return value

    def known(self, key: str) -> None:
        """Accept ``key``, which the table may have, without reading it."""
        self._known.append(key)

    def boolean(self, key: str, default: bool) -> bool:
        """Return the boolean at ``key``; raise for another type."""
        value: bool = self._get(key, bool, "true or false", default)
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """Return a size in bytes: an integer, or a string such as ``"64K"``.

        Raise the table's error for any other value.
        """
        value: int | str = self._get(key, (int, str), "a number of bytes", default)
        if isinstance(value, str):
            count = parse_bytes(value)
            if count is None:
                raise self._wrong_type(key, value, "a number of bytes")
            value = count
        if isinstance(value, bool) or not 0 < value <= _ADDRESS_SPACE:
            raise self.error(key, f"{value} is not a number of bytes from 1 to {_ADDRESS_SPACE}")
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return the printable strings at ``key``; raise for another type."""
        values = self._get(key, (list, tuple), "a list of strings", default)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong_type(key, values, "a list of strings")
        for value in values:
            self._require_printable(key, value)
        return tuple(values)

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return the integers at ``key``; raise for another type."""
        values = self._get(key, (list, tuple), "a list of integers", default)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise self._wrong_type(key, values, "a list of integers")
        return tuple(values)

    def table(self, key: str) -> Table:
        """Return the table at ``key``; raise for another type."""
        return Table(self._place, self._key(key), self._get(key, dict, "a table"), self._error)

    def tables(self, key: str) -> tuple[Table, ...]:
        """Return the tables at ``key``, an array of tables; raise for another type."""
        entries = self._get(key, list, "a list of tables", ())
        if not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong_type(key, entries, "a list of tables")
        return tuple(
            Table(self._place, f"{self._key(key)}[{index}]", entry, self._error)
            for index, entry in enumerate(entries)
        )

    def _unknown(self) -> list[str]:
        return [key for key in self._values if key not in self._known]

    def finish(self) -> None:
        """Raise for the first key that was not read."""
        for key in self._unknown():
            near = nearest(key, self._known)
            raise self.error(
                key, f"unknown key{near}", f"accepted keys: {', '.join(sorted(self._known))}"
            )
