"""A TFLite file in floats, with what its quantization needs to know of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hilc.frontends.tflite.reader import tensor_names
from hilc.frontends.tflite.schema import custom_name
from hilc.ir import Array, Graph
from hilc.quantization.tflite.rules import Rule
from hilc.writers.tflite_contents import contents
from hilc.writers.tflite_file import FileOperator


class Model:
    """A file as a builder, and as the graph that is read from it."""

    def __init__(self, data: bytes, graph: Graph) -> None:
        self.graph = graph
        self.file = contents(data)
        #: Names of the main subgraph's tensors, which are those of the graph.
        self.names = tensor_names(data)
        for tensor, name in zip(self.file.tensors, self.names, strict=True):
            tensor.name = name
        self._keep_resolved()

    @property
    def operators(self) -> list[FileOperator]:
        return self.file.operators

    def code(self, place: int) -> str:
        """Return the operator's name in messages."""
        operator = self.operators[place]
        return custom_name(operator.custom_code) if operator.custom_code else operator.code

    def constant(self, index: int) -> Array | None:
        """Return the value of a float constant; None for other tensors."""
        if index < 0:
            return None
        tensor = self.graph.tensors.get(self.names[index])
        return None if tensor is None or not tensor.element.is_real else tensor.data

    def is_real(self, index: int) -> bool:
        """Return whether a tensor is float32."""
        return index >= 0 and self.file.tensors[index].dtype == "float32"

    def reals(self, indices: Iterable[int]) -> list[int]:
        """Return those that are float32 and computed at run time."""
        return [i for i in indices if self.is_real(i) and self.constant(i) is None]

    def bias(self, operator: FileOperator, rule: Rule) -> Array | None:
        """Return the bias of a layer with weights; None without a constant one."""
        assert rule.weights is not None
        return self.constant(operand(operator, rule.weights.bias))

    def _keep_resolved(self) -> None:
        """Let constants that the reader resolved (float16, sparse, encoded) be constants of the
        file, without the operators that make them.
        """
        kept = []
        for operator in self.operators:
            made = [self.graph.tensors.get(self.names[i]) for i in operator.outputs]
            if made and all(t is not None and t.is_constant for t in made):
                for index, tensor in zip(operator.outputs, made, strict=True):
                    assert tensor is not None
                    self.file.tensors[index].data = tensor.data
            else:
                kept.append(operator)
        self.file.operators = kept


@dataclass
class Layers:
    """What becomes of each operator, by its place in the file."""

    integers: dict[int, Rule] = field(default_factory=dict)
    #: Why an operator with float operands stays in floats.
    floats: dict[int, str] = field(default_factory=dict)

    def leave(self, place: int, reason: str) -> None:
        """Let an operator stay in floats."""
        del self.integers[place]
        self.floats[place] = reason


def operand(operator: FileOperator, position: int) -> int:
    """Return the tensor at a position among an operator's inputs; -1 for none."""
    return operator.inputs[position] if position < len(operator.inputs) else -1
