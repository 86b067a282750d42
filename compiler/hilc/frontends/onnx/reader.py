"""Entry points of the ONNX front end, which need the package ``onnx`` only once a model is read."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hilc.frontends.readers import Reading, Specialization
from hilc.ir.dtypes import FLOAT
from hilc.support.optional import check_installed

#: Fields of ModelProto by their numbers, and their wire types: a number, or bytes with a length.
_NUMBER, _BYTES = 0, 2
_FIELDS = {
    **dict.fromkeys((1, 5), _NUMBER),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), _BYTES),
}
_IR_VERSION, _GRAPH = 1, 7


def is_onnx(data: bytes) -> bool:
    """Return whether a file begins like a serialized ModelProto, up to its graph.

    The format has no identifier: it is a protocol buffer.
    """
    position, seen = 0, set()
    while position < len(data) and _GRAPH not in seen:
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if _FIELDS.get(number) != wire_type:
            return False
        value, position = _varint(data, position)
        if position < 0:
            return False
        if wire_type == _BYTES:
            position += value
        seen.add(number)
    return {_IR_VERSION, _GRAPH} <= seen


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position behind it; position -1 where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if not 0 <= position < len(data):
            break
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    return 0, -1


def require_package(what: str = "an ONNX model") -> None:
    """Raise InputError if the package ``onnx``, which ``what`` is read with, is not installed."""
    check_installed("onnx", what)


def specialize(data: bytes, stated: Specialization) -> bytes:
    """Return the model in one file, with the shapes and values that the user states."""
    specialized: bytes = _module("specialize").specialized(data, stated)
    return specialized


def import_graph(data: bytes, name: str) -> Reading:
    """Return the graph of a model in one file; no shape of it is open."""
    reading: Reading = _module("importer").import_graph(data, name)
    return reading


def import_floats(data: bytes, name: str) -> Reading:
    """Return the graph as :func:`import_graph` does, with exact sums of integers that are computed
    in floats, by parts.
    """
    reading: Reading = _module("importer").import_graph(data, name, FLOAT)
    return reading


def _module(name: str) -> Any:
    require_package()
    return import_module(f"hilc.frontends.onnx.{name}")
