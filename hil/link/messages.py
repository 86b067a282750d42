"""Reading and writing of :mod:`hil.link.protocol`'s messages, exact to the byte.

A message of numbers and trailing bytes, as most are, goes through the struct module, which takes a
tenth of construct's time; its layout comes from construct's definition all the same.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any

from construct import Bytes, Const, ConstructError, FormatField, GreedyBytes, Renamed


class Fields(dict[str, Any]):
    """The fields of a message, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def parse(message: Any, payload: bytes) -> Mapping[str, Any] | None:
    """Return the fields of ``payload``; None if it is not exactly a ``message``."""
    layout = _layout(message)
    if layout is not None:
        return layout.parse(payload)
    try:
        fields: Mapping[str, Any] = message.parse(payload)
        # A parser that stops early would hide extra bytes.
        return fields if message.build(fields) == payload else None
    except ConstructError:
        return None


def build(message: Any, fields: Mapping[str, Any]) -> bytes:
    """Return the payload of ``message`` with these fields; raise what construct raises."""
    layout = _layout(message)
    if layout is not None and layout.is_written:
        try:
            return layout.build(fields)
        except (struct.error, KeyError, TypeError):
            pass  # construct says what is wrong
    payload: bytes = message.build(fields)
    return payload


class _Layout:
    """A message of fields of a fixed size, which may be followed by bytes up to its end."""

    def __init__(self, message: Any) -> None:
        """Raise TypeError for a message that has others."""
        *fixed, last = message.subcons or [None]
        self._tail = last.name if _core(last) is GreedyBytes else None
        if self._tail is None and last is not None:
            fixed.append(last)
        self._constants: dict[int, int] = {}
        codes = "<"
        for index, part in enumerate(fixed):
            core = _core(part)
            if isinstance(core, Const):
                self._constants[index] = core.value
                core = core.subcon
            if isinstance(core, FormatField) and core.fmtstr.startswith("<"):
                codes += core.fmtstr[1]
            elif isinstance(core, Bytes) and isinstance(core.length, int):
                codes += f"{core.length}s"
            else:
                raise TypeError(core)
        self._names = [part.name for part in fixed]
        self._struct = struct.Struct(codes)
        # The struct module would cut or extend bytes to their length.
        self.is_written = "s" not in codes

    def parse(self, payload: bytes) -> Fields | None:
        size = self._struct.size
        if len(payload) < size or (self._tail is None and len(payload) > size):
            return None
        values = self._struct.unpack_from(payload)
        for index, value in self._constants.items():
            if values[index] != value:
                return None
        fields = Fields(zip(self._names, values, strict=True))
        if self._tail is not None:
            fields[self._tail] = payload[size:]
        return fields

    def build(self, fields: Mapping[str, Any]) -> bytes:
        constants = self._constants
        values = [
            constants[index] if index in constants else fields[name]
            for index, name in enumerate(self._names)
        ]
        data = self._struct.pack(*values)
        return data + fields[self._tail] if self._tail is not None else data


@functools.cache
def _layout(message: Any) -> _Layout | None:
    """Return the layout of a message; None if it has parts of another kind."""
    try:
        return _Layout(message)
    except (TypeError, AttributeError):
        return None


def _core(part: Any) -> Any:
    """Return what construct calls ``part`` without its name."""
    return part.subcon if isinstance(part, Renamed) else part
