"""Readers of model files: one :class:`Reader` per format, selected by the file's content."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.ir import Graph


@dataclass(frozen=True)
class Reader:
    """Reader of one format of model files. It translates, and does nothing else."""

    #: Name of the format, for messages.
    name: str
    #: Suffix of the copy of a model in a library, such as ``.tflite``.
    suffix: str
    #: Return whether bytes are a file of this format; called with any bytes, so it never raises.
    recognizes: Callable[[bytes], bool]
    #: Return the graph of a file's bytes under a name, and the tensors whose shapes the file leaves
    #: open. Raises :class:`~hilc.errors.ModelError` for an invalid file, and
    #: :class:`~hilc.errors.UnsupportedError` for what the compiler does not implement.
    read: Callable[[bytes, str], tuple[Graph, Set[str]]]


_READERS: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Register ``reader`` for the files that it recognizes.

    Raise :class:`~hilc.errors.InputError` if a reader has its name.
    """
    if reader.name in _READERS:
        raise InputError(
            f"a reader named {reader.name!r} is registered already", "give yours another name"
        )
    _READERS[reader.name] = reader


def is_foreign(reader: Reader | None) -> bool:
    """Whether a reader is from outside this package, and so any program."""
    return reader is not None and not reader.read.__module__.startswith("hilc.")


def reader_of(data: bytes) -> Reader | None:
    """Return the reader that recognizes a model file's bytes; None for none."""
    return next((reader for reader in _READERS.values() if reader.recognizes(data)), None)
