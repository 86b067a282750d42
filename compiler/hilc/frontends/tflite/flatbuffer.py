"""Check of a FlatBuffers file's structure before its content is used.

The generated Python classes follow every offset in the file; a damaged file makes them raise
arbitrary exceptions, or return unrelated bytes. :func:`check` walks the file along a schema first:
every table, vector and string that the reader may access is inside the file. The meaning of the
values is left to the reader.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hilc.errors import ModelError

#: Width of a scalar in bytes.
Scalar = int


@dataclass(frozen=True)
class Vector:
    """Vector of scalars of a width, or of tables."""

    item: Scalar | Table


#: A string is a vector of bytes.
STRING = Vector(1)


@dataclass(frozen=True)
class Table:
    """Fields of a table by slot; a slot that is not listed is not checked and must not be read."""

    name: str
    fields: Mapping[int, tuple[str, Scalar | Vector | Table]]


#: Table of which only the frame is checked, for unions.
ANY_TABLE = Table("table", {})


class _Frame(NamedTuple):
    """Frame of a table: its start, size, and the field offsets of its vtable (0: absent)."""

    start: int
    size: int
    offsets: tuple[int, ...]


def check(data: bytes, root: Table) -> None:
    """Raise :class:`~hilc.errors.ModelError` unless ``data`` is a FlatBuffers file of ``root``."""
    checker = _Checker(data)
    checker.table(checker.follow(0, root.name), root, root.name)


def check_table(data: bytes, start: int, table: Table) -> None:
    """Raise :class:`~hilc.errors.ModelError` unless a table of this kind starts at a byte of
    ``data``: for unions, whose kind another field states.
    """
    _Checker(data).table(start, table, table.name)


def _damaged(fact: str) -> ModelError:
    return ModelError(f"the file is damaged or cut short: {fact}", "copy or export the model again")


class _Checker:
    def __init__(self, data: bytes) -> None:
        self._data = data
        # Several offsets may point to one table, so a small file can describe a long walk. A valid
        # file has no more tables than words.
        self._tables_left = len(data) // 4

    def table(self, start: int, table: Table, label: str) -> None:
        frame = self._frame(start, label)
        for slot, (name, kind) in table.fields.items():
            offset = frame.offsets[slot] if slot < len(frame.offsets) else 0
            if offset == 0:
                continue
            width = kind if isinstance(kind, Scalar) else 4
            if offset + width > frame.size:
                raise _damaged(f"{label}.{name} is outside of its table")
            self._field(start + offset, kind, f"{label}.{name}")

    def follow(self, place: int, label: str) -> int:
        """Return the target of the offset at ``place``."""
        return place + self._read("<I", place, label)

    def _field(self, place: int, kind: Scalar | Vector | Table, label: str) -> None:
        if isinstance(kind, Table):
            self.table(self.follow(place, label), kind, label)
        elif isinstance(kind, Vector):
            self._vector(self.follow(place, label), kind.item, label)

    def _vector(self, start: int, item: Scalar | Table, label: str) -> None:
        count = self._read("<I", start, label)
        width = item if isinstance(item, Scalar) else 4
        if start + 4 + count * width > len(self._data):
            raise _damaged(
                f"{label} has {count} entries from byte {start} "
                f"on, but the file has only {len(self._data)} bytes"
            )
        if isinstance(item, Table):
            for i in range(count):
                entry = f"{label}[{i}]"
                self.table(self.follow(start + 4 + 4 * i, entry), item, entry)

    def _frame(self, start: int, label: str) -> _Frame:
        self._tables_left -= 1
        if self._tables_left < 0:
            raise _damaged(f"it refers to more tables than it can hold ({label})")
        vtable = start - self._read("<i", start, label)
        vtable_size = self._read("<H", vtable, label)
        size = self._read("<H", vtable + 2, label)
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > len(self._data):
            raise _damaged(f"{label} has no valid table header")
        if size < 4 or start + size > len(self._data):
            raise _damaged(f"{label} extends beyond its end")
        offsets = struct.unpack_from(f"<{vtable_size // 2 - 2}H", self._data, vtable + 4)
        return _Frame(start, size, offsets)

    def _read(self, layout: str, place: int, label: str) -> int:
        if not 0 <= place <= len(self._data) - struct.calcsize(layout):
            raise _damaged(f"{label} points to byte {place} of {len(self._data)}")
        value: int = struct.unpack_from(layout, self._data, place)[0]
        return value
