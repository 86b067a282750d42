"""Content of an archive beside the model's code: its parameters, a runtime, templates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from hilc.artifact.params import save_params
from hilc.ir import Graph
from hilc.plugins import Slot


class ShippedRuntime(ABC):
    """A C runtime that is included in archives, for builds outside of hil."""

    #: Its folders in the archive, each with a trailing ``/``.
    folders: tuple[str, ...]
    #: Its description in ``metadata.json``.
    dependency: Mapping[str, str]

    @abstractmethod
    def files(self) -> Mapping[str, bytes]:
        """Return its files by their path in the archive."""


_SLOT: Slot[ShippedRuntime] = Slot()
provide_shipped_runtime = _SLOT.fill
#: The installed runtime; None for none.
shipped_runtime = _SLOT.found


def shipped_files(graph: Graph, module: str, runtime: str) -> dict[str, bytes]:
    """Return the shipped files by path.

    The parameters are the constants of ``graph`` by name, as in the model: the code holds them
    folded and packed. For TVM's C++ runtime no C runtime is shipped.
    """
    constants = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    files = {f"parameters/{module}.params": save_params(constants)}
    found = shipped_runtime() if runtime == "crt" else None
    return files if found is None else files | dict(found.files())
