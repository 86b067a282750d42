"""Validates JSON against the parts of JSON Schema that the answers' schema uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum", "const"}
_KNOWN |= {"anyOf", "oneOf", "$ref", "$defs", "$schema", "title", "description"}


def problems(value: Any, schema: Any, root: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Yield why ``value`` is not valid under ``schema``, a part of the schema ``root``."""
    if schema is False:
        yield f"{at} is not allowed"
        return
    assert schema.keys() <= _KNOWN, f"{schema.keys() - _KNOWN} are not implemented here"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from problems(value, root["$defs"][name], root, at)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found = [list(problems(value, one, root, at)) for one in schema[key]]
            good = sum(not one for one in found)
            if not good or (key == "oneOf" and good > 1):
                yield from min(found, key=len) or [f"{at} is valid under {good} schemas"]
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value!r}, not one of {schema['enum']}"
    if "type" in schema and not _is_of(value, schema["type"]):
        yield f"{at} is {value!r:.60}, not of the type {schema['type']}"
    if isinstance(value, dict):
        yield from _in_object(value, schema, root, at)
    if isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            yield from problems(one, schema["items"], root, f"{at}[{index}]")


def _is_of(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    return any(
        isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in names
    )


def _in_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (f"{at} lacks {key!r}" for key in schema.get("required", ()) if key not in value)
    for key, one in value.items():
        inner = known.get(key, schema.get("additionalProperties", {}))
        if inner is not True:
            yield from problems(one, inner, root, f"{at}.{key}")
