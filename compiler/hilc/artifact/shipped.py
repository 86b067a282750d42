"""What an archive holds beside the model's own code: its parameters, a run time, templates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from hilc.artifact.params import save_params
from hilc.ir import Graph
from hilc.plugins import Slot


class ShippedRuntime(ABC):
    """A C run time that goes into archives, for those who build the model elsewhere."""

    #: Its folders in the archive, each with its ``/``.
    folders: tuple[str, ...]
    #: What ``metadata.json`` says of it.
    dependency: Mapping[str, str]

    @abstractmethod
    def files(self) -> Mapping[str, bytes]:
        """Its files by their path in the archive."""


_SLOT: Slot[ShippedRuntime] = Slot()
provide_shipped_runtime = _SLOT.fill
#: The one that there is; None where no part of the installation has one.
shipped_runtime = _SLOT.found


def shipped_files(graph: Graph, module: str, runtime: str) -> dict[str, bytes]:
    """The files by path.

    The parameters are the constants of ``graph`` by their names, as the model has them: the code
    holds them folded and packed. With TVM's C++ run time there is no C run time to ship.
    """
    constants = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    files = {f"parameters/{module}.params": save_params(constants)}
    found = shipped_runtime() if runtime == "crt" else None
    return files if found is None else files | dict(found.files())
