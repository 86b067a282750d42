"""Readers of archives in Model Library Format that other programs wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from hilc.artifact.manifest import Module
from hilc.plugins import Slot


class ForeignReader(ABC):
    """Reader of archives without hil's description of their modules."""

    @abstractmethod
    def entries(self, metadata: Mapping[str, Any], label: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the entry of each module in ``metadata.json``, by name."""

    @abstractmethod
    def module(
        self, files: Mapping[str, bytes], name: str, entry: Mapping[str, Any], label: str
    ) -> Module:
        """Return the module ``name``, which ``entry`` describes."""

    @abstractmethod
    def path_beside_others(self, path: str, module: str) -> str:
        """Return the path, in an archive of several modules, of a file of an archive of
        ``module``.
        """


_SLOT: Slot[ForeignReader] = Slot()
provide_foreign_reader = _SLOT.fill


def foreign_reader(label: str) -> ForeignReader:
    """Return the reader for the archive ``label``; raise InputError if none is installed."""
    return _SLOT.get(
        f"reading {label}, which does not describe its models as hil does,",
        "or compile the model again with hil compile",
    )


def path_beside_others(path: str, module: str) -> str:
    """Return the path, in a library of several modules, of a file of a library of ``module``."""
    reader = _SLOT.found()
    return path if reader is None else reader.path_beside_others(path, module)
