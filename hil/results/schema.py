"""The JSON Schema of all answers, and the reference page, from the dataclasses."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal

import hil.results
from hil.results.answer import (
    COMBINED,
    ENTRIES,
    SCHEMA,
    ErrorInfo,
    FailedEntry,
    SkippedEntry,
    command_of,
)
from hil.results.codec import is_omittable
from hil.support.parts import TVM
from hilc.support.jsondata import key_of

_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def commands() -> dict[str, type]:
    """Return the class of the entries of every installed command."""
    for module in pkgutil.iter_modules(hil.results.__path__):
        importlib.import_module(f"hil.results.{module.name}")
    TVM.load()
    return dict(sorted(ENTRIES.items()))


def answer_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an answer of any command."""
    defined: dict[str, Any] = {}
    kinds: dict[str, list[type]] = {}
    for name, kind in commands().items():
        kinds.setdefault(command_of(name), []).extend(kinds_of(name, kind))
    answers = [
        _envelope(command, [_type(one, defined) for one in own], defined)
        for command, own in kinds.items()
    ]
    # A command line that names no command.
    answers.append(_envelope("", [], defined))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON answers of hil",
        "oneOf": answers,
        "$defs": dict(sorted(defined.items())),
    }


def kinds_of(command: str, kind: type) -> list[type]:
    """Return the classes that an entry of a command may be of."""
    return [kind, FailedEntry, SkippedEntry] if command in COMBINED else [kind]


def _envelope(command: str, entries: list[Any], defined: dict[str, Any]) -> dict[str, Any]:
    items = {"anyOf": entries} if len(entries) > 1 else entries[0] if entries else False
    return {
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "command": {"const": command},
            "exit_code": {"type": "integer"},
            "results": {"type": "array", "items": items},
            "error": _type(ErrorInfo, defined),
        },
        "required": ["schema", "command", "exit_code", "results"],
        "additionalProperties": False,
    }


def _type(kind: Any, defined: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; those of dataclasses are added to ``defined``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        # Numbers that are not finite have no JSON.
        return {"type": ["number", "null"] if kind is float else _SCALARS[kind]}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type(one, defined) for one in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], defined)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type(arguments[1], defined)}
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in defined:
            defined[kind.__name__] = {}  # It may have itself as a part.
            defined[kind.__name__] = _object(kind, defined)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    assert kind is Any, f"{kind} has no JSON"
    return {}


def _object(kind: type, defined: dict[str, Any]) -> dict[str, Any]:
    hints, notes = typing.get_type_hints(kind), field_notes(kind)
    properties = {}
    for one in fields(kind):
        schema = _type(hints[one.name], defined)
        if note := notes.get(one.name):
            schema = {**schema, "description": note}
        properties[key_of(one.name)] = schema
    return {
        "type": "object",
        "description": _summary(kind),
        "properties": properties,
        "required": [key_of(one.name) for one in fields(kind) if not is_omittable(one)],
        "additionalProperties": False,
    }


def _summary(kind: type) -> str:
    """Return the first paragraph of a class's docstring, as one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


@functools.cache
def field_notes(kind: type) -> Mapping[str, str]:
    """Return the ``#:`` comments above the fields of a dataclass, those of its bases included.

    Of several fields in consecutive lines the comment is that of the first.
    """
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            notes |= dict(_notes_in(textwrap.dedent(inspect.getsource(base))))
    return notes


def _notes_in(source: str) -> Iterator[tuple[str, str]]:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef), "the source of a class"
    lines = source.splitlines()
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        first = statement.lineno - 1
        while first and lines[first - 1].strip().startswith("#:"):
            first -= 1
        words = [
            line.strip().removeprefix("#:").strip() for line in lines[first : statement.lineno - 1]
        ]
        if words:
            yield statement.target.id, " ".join(words).replace("``", "`")


# -- the reference page --------------------------------------------------------------------------


def reference_page() -> str:
    """Return the tables of the reference page: the entry of each command, then the parts."""
    listed: dict[type, None] = {FailedEntry: None, SkippedEntry: None}
    lines = []
    for command, kind in commands().items():
        lines += [f"### hil {command}", "", _summary(kind), "", *_table(kind, listed), ""]
    lines += ["## Parts", ""]
    done: set[type] = set(commands().values())
    while pending := [
        kind for kind in sorted(listed, key=lambda k: k.__name__) if kind not in done
    ]:
        for kind in pending:
            done.add(kind)
            lines += [f"### {kind.__name__}", "", _summary(kind), "", *_table(kind, listed), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(kind: type, listed: dict[type, None]) -> Iterator[str]:
    hints, notes = typing.get_type_hints(kind), field_notes(kind)
    yield "| key | type | meaning |"
    yield "|---|---|---|"
    for one in fields(kind):
        shown = _shown(hints[one.name], listed)
        optional = " (optional)" if is_omittable(one) else ""
        note = notes.get(one.name, "").replace("|", "\\|")
        yield f"| `{key_of(one.name)}` | {shown}{optional} | {note} |"


def _shown(kind: Any, listed: dict[type, None]) -> str:
    """Return a type in JSON's words; dataclasses are added to ``listed``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_shown(one, listed) for one in arguments)
    if origin is tuple:
        return f"array of {_shown(arguments[0], listed)}"
    if origin is Mapping:
        return f"object of {_shown(arguments[1], listed)}"
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if isinstance(kind, type) and is_dataclass(kind):
        listed.setdefault(kind)
        # The entry of a command stands below the command's name.
        names = {entry: f"hil-{command}" for command, entry in commands().items()}
        return f"[{kind.__name__}](#{names.get(kind, kind.__name__.lower()).replace(' ', '-')})"
    return "any"
