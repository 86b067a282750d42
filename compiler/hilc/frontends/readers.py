"""The kinds of model files that are read: one :class:`Reader` each, told by the file's content."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.ir import Graph


@dataclass(frozen=True)
class Reader:
    """A kind of model file. It translates, and does nothing else."""

    #: What people call it, for messages.
    name: str
    #: What the copy of a model in a library ends with, such as ``.tflite``.
    suffix: str
    #: Whether a file's bytes are of this kind; asked of anything, so it never raises.
    recognizes: Callable[[bytes], bool]
    #: The graph of a file's bytes under a name, and the tensors whose shapes the file leaves open.
    #: Raises :class:`~hilc.errors.ModelError` for a file that is not valid, and
    #: :class:`~hilc.errors.UnsupportedError` for what the compiler does not implement.
    read: Callable[[bytes, str], tuple[Graph, Set[str]]]


_READERS: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Read files that ``reader`` recognizes by it.

    :class:`~hilc.errors.InputError` where a reader has its name.
    """
    if reader.name in _READERS:
        raise InputError(f"there is a reader {reader.name!r} already", "give yours another name")
    _READERS[reader.name] = reader


def reader_of(data: bytes) -> Reader | None:
    """The reader that recognizes a model file's bytes; None for none."""
    return next((reader for reader in _READERS.values() if reader.recognizes(data)), None)
