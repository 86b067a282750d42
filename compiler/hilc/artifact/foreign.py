"""Archives in Model Library Format that another program wrote: who can read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from hilc.artifact.manifest import Module
from hilc.plugins import Slot


class ForeignReader(ABC):
    """Finds out what the modules of such an archive are, which does not describe them our way."""

    @abstractmethod
    def entries(self, metadata: Mapping[str, Any], where: str) -> Mapping[str, Mapping[str, Any]]:
        """What ``metadata.json`` says of each module, by name."""

    @abstractmethod
    def module(
        self, files: Mapping[str, bytes], name: str, entry: Mapping[str, Any], where: str
    ) -> Module:
        """The module ``name``, of which ``entry`` tells."""

    @abstractmethod
    def path_beside_others(self, path: str, module: str) -> str:
        """Where a file of an archive of this one ``module`` lies in one of several."""


_SLOT: Slot[ForeignReader] = Slot()
provide_foreign_reader = _SLOT.fill


def foreign_reader(where: str) -> ForeignReader:
    """The reader for the archive ``where``; InputError where none is installed."""
    return _SLOT.get(
        f"reading {where}, which does not describe its models as hil does,",
        "or compile the model again with hil compile",
    )


def path_beside_others(path: str, module: str) -> str:
    """Where a file of a library of one ``module`` lies in a library of several."""
    reader = _SLOT.found()
    return path if reader is None else reader.path_beside_others(path, module)
