"""Messages on the arguments of the tools of ``hil mcp``: fact, value, what is accepted, remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hilc.support.byte_counts import BYTE_COUNT_PATTERN, BYTE_COUNTS
from hilc.support.suggest import listed, nearest

#: What is said of the patterns of arguments.
_PATTERNS = {BYTE_COUNT_PATTERN: f"such as {BYTE_COUNTS}"}
#: Longest value that is shown.
_SHOWN = 60
_TYPES = {"string": "a string", "integer": "an integer", "number": "a number"}
_TYPES |= {"boolean": "true or false", "object": "an object", "null": "null"}


def unknown_tool(name: str, tools: Iterable[str]) -> str:
    """Return the message for a tool that does not exist."""
    known = sorted(tools)
    return f"there is no tool {name!r}{nearest(name, known)}: call one of {', '.join(known)}"


def wrong_arguments(
    tool: str,
    schema: Mapping[str, Any],
    arguments: Mapping[str, Any],
    places: Iterable[Sequence[int | str]],
) -> str:
    """Return the message for arguments of a tool that its JSON schema does not accept.

    ``places`` are the paths of the wrong arguments; what follows an argument's name, such as the
    members of a union, is ignored.
    """
    named: dict[tuple[str, ...], None] = {}
    for place in places:
        # Options of the compiler are an object in an object.
        depth = 2 if place[0] == "options" and len(place) > 1 else 1
        named[tuple(map(str, place[:depth]))] = None
    return "; ".join(_fact(tool, schema, arguments, path) for path in named)


def _fact(
    tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any], path: tuple[str, ...]
) -> str:
    owner, accepted, given = tool, schema, arguments
    if len(path) > 1:
        owner, given = f"{tool}: options", arguments["options"]
        # The only object among the arguments of a tool.
        (accepted,) = schema["$defs"].values()
    name, known = path[-1], accepted["properties"]
    if name not in known:
        names = f"{nearest(name, known)}: give only {', '.join(sorted(known))}"
        return f"{owner} has no argument {name!r}{names}"
    kinds = _accepted(known[name])
    if name not in given:
        return f"{owner} lacks the argument {name!r}: give {kinds}"
    value = json.dumps(given[name], default=str)
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
    return f"{owner}: {name!r} is {shown}: give {kinds}"


def _accepted(schema: Mapping[str, Any]) -> str:
    """Return what a JSON schema of a value accepts; an argument that may be null is left out."""
    if "anyOf" in schema:
        kinds = [_accepted(kind) for kind in schema["anyOf"] if kind.get("type") != "null"]
        left_out = any(kind.get("type") == "null" for kind in schema["anyOf"])
        return listed(kinds + ["leave it out"] * left_out, "or")
    if "enum" in schema:
        return listed(map(json.dumps, schema["enum"]), "or")
    if "$ref" in schema:
        return "an object"
    if schema.get("type") == "array":
        return f"a list, each {_accepted(schema['items'])}"
    kind = _TYPES[schema["type"]]
    if "minimum" in schema:
        kind += f" of at least {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        kind += f" above {schema['exclusiveMinimum']}"
    if "pattern" in schema:
        kind += f" {_PATTERNS[schema['pattern']]}"
    return kind
