"""Entry points of TensorFlow Lite files, which load the importer only to read one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hilc.frontends.readers import Reading

#: Bytes 4 to 8 of every TFLite file.
IDENTIFIER = b"TFL3"


def is_tflite(data: bytes) -> bool:
    """Return whether ``data`` has the file identifier of TFLite."""
    return data[4:8] == IDENTIFIER


def import_graph(data: bytes, name: str) -> Reading:
    """Return the graph of a file (:func:`hilc.frontends.tflite.reader.import_graph`)."""
    found: Reading = _module("reader").import_graph(data, name)
    return found


def import_hybrid(data: bytes, name: str) -> Reading:
    """Return the graph with dynamic-range layers on integers
    (:func:`hilc.frontends.tflite.reader.import_hybrid`).
    """
    found: Reading = _module("reader").import_hybrid(data, name)
    return found


def selected(data: bytes, name: str) -> bytes:
    """Return the file whose model is the signature ``name``
    (:func:`hilc.frontends.tflite.signatures.selected`).
    """
    found: bytes = _module("signatures").selected(data, name)
    return found


def _module(name: str) -> Any:
    return import_module(f"hilc.frontends.tflite.{name}")
