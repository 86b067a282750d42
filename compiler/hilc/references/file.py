"""The model file that a reference runs, and its tensors' names in the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hilc.errors import InputError
from hilc.frontends.tflite.entry import is_tflite
from hilc.frontends.tflite.reader import tensor_names
from hilc.ir import Array, Graph, Tensor
from hilc.ops import OPS
from hilc.writers.tflite import for_reference


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
        shapes = {t.name: t.shape for t in _computed(graph)}
        self.data, self._remarks = for_reference(model, shapes, hybrid=_quantizes_by_range(graph))
        indices = {tensor: index for index, tensor in enumerate(tensor_names(model))}
        #: Indices in the file, by name, of the tensors that a run computes.
        self.indices = {name: indices[name] for name in variables(graph) if name in indices}
        self._unwritten = [
            (node, fill)
            for node in graph.nodes
            if (fill := OPS[node.op].fill_unwritten) is not None
        ]
        # Copies that hilc.transforms.unalias_outputs added, by the original tensor.
        self._copies = {
            node.name: node.inputs[0]
            for node in graph.nodes
            if node.name not in indices
            and OPS[node.op].view
            and node.inputs[0] in self.indices
            and graph.outs(node)[0].shape == graph.tensors[node.inputs[0]].shape
        }

    def describe(self, reference: str) -> str:
        """Return a reference's description, with the changes made to the file for it."""
        return ", ".join((reference, *self._remarks))

    def named(self, values: Sequence[Array | None]) -> dict[str, Array]:
        """Return the values of the graph's tensors, given those in the order of ``indices``.

        None is left out.
        """
        pairs = zip(self.indices, values, strict=True)
        found = {name: _real(value) for name, value in pairs if value is not None}
        for node, fill in self._unwritten:
            ours = fill(node, [found[name] for name in node.outputs])
            found.update(zip(node.outputs, ours, strict=True))
        return {**found, **{copy: found[name] for copy, name in self._copies.items()}}


def variables(graph: Graph) -> list[str]:
    """Return the names of the tensors that a run computes."""
    return [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]


def _computed(graph: Graph) -> Iterator[Tensor]:
    """Yield the tensors that the file's operators compute, as the file has them."""
    for node in graph.nodes:
        yield from graph.outs(node)


def _quantizes_by_range(graph: Graph) -> bool:
    """Return whether a node of the graph does, or one of a graph that it calls."""
    for node in graph.nodes:
        definition = OPS[node.op]
        called = map(_quantizes_by_range, definition.called_graphs(node))
        if definition.quantizes_by_range or any(called):
            return True
    return False


def _real(value: Array) -> Array:
    """Return complex numbers as the pairs that the graph has."""
    return np.stack([value.real, value.imag], -1) if value.dtype == np.complex64 else value
