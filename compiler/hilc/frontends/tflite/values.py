"""Values of a TFLite file's tables, in the form in which the readers use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers


def vector(table: Any, accessor: str) -> list[int]:
    """Return a vector of integers; empty if the file has none."""
    if getattr(table, f"{accessor}Length")() == 0:
        return []
    values: list[int] = getattr(table, f"{accessor}AsNumpy")().tolist()
    return values


def builtin_code(entry: Any) -> int:
    """Return an operator's code: the larger of two fields, of which the older one is a byte.

    Files may state either alone. The generated class takes the older one for small codes.
    """
    place = entry._tab.Offset(10)
    flags = flatbuffers.number_types.Int32Flags
    newer = entry._tab.Get(flags, entry._tab.Pos + place) if place else 0
    return max(int(newer), int(entry.DeprecatedBuiltinCode()))


def text_of(raw: bytes) -> str:
    """Return a name as printable text on one line, for messages and comments in C."""
    return "".join(c if c.isprintable() else "?" for c in raw.decode("utf-8", errors="replace"))


def unique_names(raw: Sequence[bytes]) -> tuple[str, ...]:
    """Return readable names, made unique by the tensor's index where the file repeats or omits
    one.
    """
    texts = [text_of(name) or f"tensor_{index}" for index, name in enumerate(raw)]
    names: dict[str, None] = {}
    listed = set(texts)
    for index, text in enumerate(texts):
        name = text
        while name in names or (name != text and name in listed):
            name = f"{name}#{index}"
        names[name] = None
    return tuple(names)
