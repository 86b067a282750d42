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


def parameters_file(graph: Graph, module: str) -> dict[str, bytes]:
    """Return the file of the parameters by its path: the constants by name that the layers of
    ``graph`` read. The code holds them folded and packed.

    A front end may have transposed a constant of the model. Then that is left out: it is in the
    model's own file, which the archive has as well.
    """
    read = {name for node in graph.nodes for name in node.inputs} | set(graph.results)
    constants = {n: t.data for n, t in graph.tensors.items() if t.data is not None and n in read}
    return {f"parameters/{module}.params": save_params(constants)}


def shipped_files(runtime: str) -> dict[str, bytes]:
    """Return the files of the runtime by path; for TVM's C++ runtime no C runtime is shipped."""
    found = shipped_runtime() if runtime == "crt" else None
    return {} if found is None else dict(found.files())
