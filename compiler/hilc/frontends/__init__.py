"""Front end: reading of a model file into a :class:`~hilc.ir.Graph`.

The names that read a file are loaded on first use: a command that finds its results in the cache
only asks for the format of a file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilc.frontends import formats
from hilc.frontends.readers import Reader, Reading, Specialization, reader_of, register_reader

if TYPE_CHECKING:
    from hilc.frontends.load import LoadedModel, load_model, read_file, read_model

__all__ = [
    "LoadedModel",
    "Reader",
    "Reading",
    "Specialization",
    "formats",
    "load_model",
    "read_file",
    "read_model",
    "reader_of",
    "register_reader",
]

_LOADED = ("LoadedModel", "load_model", "read_file", "read_model")


def __getattr__(name: str) -> Any:
    if name not in _LOADED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("hilc.frontends.load"), name)
