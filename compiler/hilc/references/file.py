"""The model file that a reference runs, and its tensors' names in the graph."""

from __future__ import annotations

from collections.abc import Sequence

from hilc.errors import InputError
from hilc.frontends.tflite.reader import for_reference, is_tflite, tensor_names
from hilc.ir import Array, Graph


class ModelFile:
    """A TFLite file in the form that TensorFlow's runtimes accept."""

    def __init__(self, reference: str, graph: Graph, model: bytes | None) -> None:
        if model is None:
            raise InputError(
                f"the reference {reference} runs model files, but this model has none",
                "give the .tflite file, or choose the reference hilc",
            )
        if not is_tflite(model):
            raise InputError(
                f"the reference {reference} runs TensorFlow Lite files only",
                "choose the reference hilc",
            )
        self.data, self._remarks = for_reference(model)
        indices = {tensor: index for index, tensor in enumerate(tensor_names(model))}
        #: Indices in the file, by name, of the tensors that a run computes.
        self.indices = {name: indices[name] for name in variables(graph) if name in indices}
        # Copies that hilc.transforms.own_outputs added, by the original tensor.
        self._copies = {
            node.name: node.inputs[0] for node in graph.nodes if node.name not in indices
        }

    def describe(self, reference: str) -> str:
        """Return a reference's description, with the changes made to the file for it."""
        return ", ".join((reference, *self._remarks))

    def named(self, values: Sequence[Array | None]) -> dict[str, Array]:
        """Return the values of the graph's tensors, given those in the order of ``indices``.

        None is left out.
        """
        pairs = zip(self.indices, values, strict=True)
        found = {name: value for name, value in pairs if value is not None}
        return {**found, **{copy: found[name] for copy, name in self._copies.items()}}


def variables(graph: Graph) -> list[str]:
    """Return the names of the tensors that a run computes."""
    return [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]
