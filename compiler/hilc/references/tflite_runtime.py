"""Releases of TensorFlow Lite's runtime with its reference kernels, in a process of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from hilc.errors import InputError
from hilc.interpreter import check_inputs
from hilc.ir import Array, Graph
from hilc.ops.unary import host_function_matters
from hilc.references.file import ModelFile
from hilc.references.loaded import LoadedModel
from hilc.references.process import Refused, arrays_of, described
from hilc.references.stops import stopped

#: Messages of operators about types that they do not support; zeros cause other messages, too.
_OF_TYPES = re.compile(r"not supported|supported currently|only supports|unsupported", re.I)


class TfliteRuntime:
    """A release of TFLite's runtime with the reference kernels."""

    def __init__(
        self, name: str, package: str, version: str, graph: Graph, model: bytes | None
    ) -> None:
        self._file = ModelFile(name, graph, model)
        _require_same_functions(name, graph)
        self.name = name
        self.description = self._file.describe(f"{name}: {package} {version}, BUILTIN_REF")
        self._graph = graph
        self._package = package
        self._loaded = _LoadedModel(package, self._file.data)
        self._require_types()

    def run_all(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every tensor of one inference, by name.

        Raises :class:`~hilc.errors.InputError` for inputs of another name, shape or type, and
        :class:`~hilc.errors.ModelError` if the runtime rejects the model.
        """
        check_inputs(self._graph, inputs)
        try:
            return self._file.named(self._run(inputs))
        except Refused as error:
            refusal = self._loaded.refusal(error)
            raise stopped(self._package, self._graph, inputs, refusal) from None

    def _run(self, inputs: Mapping[str, Array]) -> list[Array | None]:
        indices = self._file.indices
        given = {indices[name]: array for name, array in inputs.items()}
        return self._loaded.run(given, list(indices.values()))

    def _require_types(self) -> None:
        """Raise now where an operator rejects its types only when it runs, or ends the process."""
        tensors = [self._graph.tensors[name] for name in self._graph.inputs]
        try:
            self._run({x.name: np.zeros(x.shape, x.dtype) for x in tensors})
        except Refused as error:
            if error.has_ended or _OF_TYPES.search(str(error)):
                raise self._loaded.refusal(error) from None
        self.reset_state()

    def reset_state(self) -> None:
        """Give every variable its initial value."""
        self._loaded.reset()


class _LoadedModel(LoadedModel):
    """A model in the process of a package of TensorFlow Lite."""

    def run(self, inputs: Mapping[int, Array], tensors: list[int]) -> list[Array | None]:
        """Return tensors after a run, by their indices in the file; None for those without a value.

        Raise Refused with what the runtime says.
        """
        heads, data = described(list(inputs.values()))
        request = {"do": "run", "at": list(inputs), "inputs": heads, "tensors": tensors}
        answer, data = self.ask(request, data)
        return arrays_of(answer["arrays"], data)

    def reset(self) -> None:
        """Reset all variables."""
        self.ask({"do": "reset"})


def _require_same_functions(name: str, graph: Graph) -> None:
    """Raise if this machine's C library would fill a table with other values than glibc."""
    for node in graph.nodes:
        source, *_ = graph.ins(node)
        if source is None or not (
            function := host_function_matters(node, source, graph.outs(node)[0])
        ):
            continue
        raise InputError(
            f"on this host the reference {name} computes {node.op} {node.name!r} differently: "
            f"the C library's {function} rounds unlike that of glibc 2.28 to 2.40",
            "choose the reference hilc, or compare on x86-64 Linux with such a glibc",
        )
