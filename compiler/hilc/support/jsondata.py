"""JSON: read as untrusted data into dataclasses, written deterministically."""

from __future__ import annotations

import contextlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, Literal, TypeVar

from hilc.errors import InputError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Renamed:
    """Mark the type of a field (``Annotated``) that earlier versions wrote by the key ``old``."""

    old: str


def json_bytes(value: Any) -> bytes:
    """Return deterministic JSON in TVM's formatting."""
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def parse_json(text: bytes, label: str, hint: str = "") -> Any:
    """Return the value of ``text``; ``label`` names it in messages, and ``hint`` is the remedy.

    Raise :class:`~hilc.errors.InputError` if it is not JSON.
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        # The guessed encoding and the failing position do not help the user.
        raise InputError(f"{label} is not JSON: it is not text", hint) from None
    # Thousands of opening brackets give a RecursionError.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label} is not JSON: {error}", hint) from None


def decode(kind: type[_T], value: Any, label: str, *, exact: bool = True) -> _T:
    """Return ``value`` from JSON as the dataclass ``kind``: exactly its fields, each of its type.

    Unless ``exact``, keys that are no fields are ignored, and a field that has a default may be
    absent: so is read what other versions of a program write.

    Raise :class:`~hilc.errors.InputError` for missing, unknown or invalid fields.
    """
    hints = {key_of(name): hint for name, hint in typing.get_type_hints(kind).items()}
    attributes = {key_of(field.name): field.name for field in fields(kind)}  # type: ignore[arg-type]
    names = list(attributes)
    if isinstance(value, dict):
        value = _with_new_keys(kind, value)
    if not exact and isinstance(value, dict):
        optional = {key_of(f.name) for f in fields(kind) if _has_default(f)}  # type: ignore[arg-type]
        names = [name for name in names if name in value or name not in optional]
        value = {name: value[name] for name in names if name in value}
    if not isinstance(value, dict):
        given = json.dumps(value)[:60]
        raise InputError(f"{label} is {given}; expected is an object with the keys {sorted(names)}")
    if not exact and (lacking := [name for name in names if name not in value]):
        raise InputError(f"{label} lacks the key {', '.join(map(repr, lacking))}")
    if sorted(value) != sorted(names):
        raise InputError(f"{label} has {sorted(value)}; expected are the keys {sorted(names)}")
    return kind(
        **{
            attributes[name]: _decode(hints[name], value[name], f"{label}: {name}", exact)
            for name in names
        }
    )


def _with_new_keys(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value`` with the keys of this version in the place of :func:`renamed` ones."""
    new = {
        mark.old: key_of(name)
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Renamed)
    }
    # Where a file has both, it is of neither version: the old key stays, and is no field.
    return {
        new[key] if key in new and new[key] not in value else key: item
        for key, item in value.items()
    }


def key_of(field: str) -> str:
    """Return the JSON key of a dataclass field: ``class`` of ``class_``, a word of Python's."""
    return field.rstrip("_")


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _decode(kind: Any, value: Any, label: str, exact: bool) -> Any:
    """Return ``value`` as the type ``kind``: dataclass, tuple, mapping, literal, union, scalar."""
    origin = typing.get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value, label, exact=exact)
    if origin is tuple and isinstance(value, list):
        element = typing.get_args(kind)[0]
        return tuple(_decode(element, v, f"{label}[{i}]", exact) for i, v in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        element = typing.get_args(kind)[1]
        if not any(map(has_surrogate, value)):
            return {k: _decode(element, v, f"{label}[{k!r}]", exact) for k, v in value.items()}
    # Of a literal and None, get_type_hints makes the older form.
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(kind), value, label, exact)
    if kind is Any:
        return value
    if origin is Literal and isinstance(value, str) and value in typing.get_args(kind):
        return value
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if isinstance(kind, type) and type(value) is kind and not has_surrogate(value):
        return value
    # JSON's terms for a tuple and a mapping; before isinstance, which differs between Python
    # versions for them.
    wanted = {tuple: "list", Mapping: "object"}.get(origin) or getattr(kind, "__name__", str(kind))
    if origin is Literal:
        wanted = "one of " + ", ".join(map(repr, typing.get_args(kind)))
    raise InputError(f"{label} is {json.dumps(value)[:60]}; expected is {wanted}")


def _decode_union(kinds: tuple[Any, ...], value: Any, label: str, exact: bool) -> Any:
    """Return ``value`` as one of ``kinds``: None, or the first of the others that accepts it."""
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        with contextlib.suppress(InputError):
            return _decode(kind, value, label, exact)
    return _decode(others[-1], value, label, exact)


def has_surrogate(value: Any) -> bool:
    """Return whether ``value`` is text with a lone surrogate: valid in JSON, but not in UTF-8."""
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)


def shown_argument(word: str) -> str:
    """Return a file's name or another argument as text that every file can hold.

    Of one that is no UTF-8 the other bytes are ``\\xff``: Python has lone surrogates for them.
    """
    try:
        data = word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        data = word.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")


def shown_in(value: Any) -> Any:
    """Return a value of JSON with each text, file's names among them, as one in UTF-8."""
    if isinstance(value, Mapping):
        return {shown_in(key): shown_in(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown_in(item) for item in value]
    return shown_argument(value) if has_surrogate(value) else value
