"""JSON: read as untrusted data into dataclasses, written deterministically."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar

from hilc.errors import InputError

_T = TypeVar("_T")


def json_bytes(value: Any) -> bytes:
    """Return deterministic JSON in TVM's formatting."""
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def parse_json(text: bytes, label: str, hint: str = "") -> Any:
    """Return the value of ``text``; ``label`` names it in messages, and ``hint`` is the remedy."""
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        # The guessed encoding and the failing position do not help the user.
        raise InputError(f"{label} is not JSON: it is not text", hint) from None
    # Thousands of opening brackets give a RecursionError.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label} is not JSON: {error}", hint) from None


def decode(kind: type[_T], value: Any, label: str) -> _T:
    """Return ``value`` from JSON as the dataclass ``kind``: exactly its fields, each of its
    type.
    """
    hints = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{label} has {found}; expected are the keys {sorted(names)}")
    return kind(**{name: _decode(hints[name], value[name], f"{label}: {name}") for name in names})


def _decode(kind: Any, value: Any, label: str) -> Any:
    """Return ``value`` as the type ``kind``: a dataclass, tuple, literal, union or scalar."""
    origin = typing.get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value, label)
    if origin is tuple and isinstance(value, list):
        element = typing.get_args(kind)[0]
        return tuple(_decode(element, v, f"{label}[{i}]") for i, v in enumerate(value))
    # Of a literal and None, get_type_hints makes the older form.
    if origin in (types.UnionType, typing.Union):
        inner, none = typing.get_args(kind)
        assert none is type(None)
        return None if value is None else _decode(inner, value, label)
    if origin is Literal and isinstance(value, str) and value in typing.get_args(kind):
        return value
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if isinstance(kind, type) and type(value) is kind and not has_surrogate(value):
        return value
    # JSON's term for a tuple; before isinstance, which differs between Python versions for it.
    wanted = "list" if origin is tuple else getattr(kind, "__name__", str(kind))
    if origin is Literal:
        wanted = "one of " + ", ".join(map(repr, typing.get_args(kind)))
    raise InputError(f"{label} is {json.dumps(value)[:60]}; expected is {wanted}")


def has_surrogate(value: Any) -> bool:
    """Return whether ``value`` is text with a lone surrogate: valid in JSON, but not in UTF-8."""
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)
