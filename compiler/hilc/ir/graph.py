"""Intermediate representation: a graph of operators over named tensors.

Everything is immutable; a pass builds a new :class:`Graph`. Objects check their own invariants on
construction; invariants of the whole graph are checked by :mod:`hilc.ops.verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hilc.errors import ModelError
from hilc.ir.dtypes import DTYPES, ELEMENT_TYPES, ElementType
from hilc.ir.rounding import Numerics, Rounding

Array = npt.NDArray[Any]

_AttributesT = TypeVar("_AttributesT", bound="Attributes")


@dataclass(frozen=True)
class Quant:
    """Affine quantization, ``real = scale * (q - zero_point)``.

    One entry is per tensor; several are per channel along ``axis``.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0

    def __post_init__(self) -> None:
        if not self.scale or len(self.scale) != len(self.zero_point):
            raise ModelError(
                f"quantization has {len(self.scale)} scales and {len(self.zero_point)} zero points"
            )
        # A converter may write the scale 0 for weights that are all zero.
        if not all(np.isfinite(s) and s >= 0 for s in self.scale):
            raise ModelError("quantization has a scale that is negative or not finite")

    @property
    def per_tensor(self) -> bool:
        """Whether one scale applies to the whole tensor."""
        return len(self.scale) == 1


@dataclass(frozen=True)
class Tensor:
    """A value with a static shape. ``data`` is set for constants and has exactly ``shape``.

    Only a constant may have no elements: an empty list of axes, or the shape of a scalar.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None
    data: Array | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ModelError(
                f"tensor {self.name!r} has unsupported type {self.dtype}",
                f"supported: {', '.join(DTYPES)}",
            )
        if any(d < 0 or (d == 0 and self.data is None) for d in self.shape):
            raise ModelError(
                f"tensor {self.name!r} has shape {list(self.shape)}; every dimension must be > 0",
                "change the sizes in the model so that each tensor has at least one element, "
                "and export it again",
            )
        if self.data is not None and (
            self.data.shape != self.shape or self.data.dtype != np.dtype(self.dtype)
        ):
            raise ModelError(
                f"constant {self.name!r} is {self.data.dtype}{list(self.data.shape)} "
                f"but is declared {self.dtype}{list(self.shape)}"
            )

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the elements, in bytes."""
        return self.size * self.element.itemsize

    @property
    def element(self) -> ElementType:
        """Row of its type in the table of element types."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def is_constant(self) -> bool:
        """Whether the tensor is a constant of the model."""
        return self.data is not None


#: Metadata of a field that attributes did not have at first: its default leaves the digest of a
#: graph as it was.
ADDED: Mapping[str, Any] = MappingProxyType({"added": True})


@dataclass(frozen=True)
class Attributes:
    """Attributes of a node beside its tensors: none, or the fields of its operator's own class.

    An operator declares that class beside its :class:`~hilc.ops.opdef.OpDef`;
    :mod:`hilc.ops.verify` checks that each field holds what its type says.
    """

    @classmethod
    def of(cls: type[_AttributesT], node: Node) -> _AttributesT:
        """Return the attributes of a node whose operator has this class or a subclass.

        :class:`~hilc.errors.ModelError` where the node carries others.

        Raise :class:`~hilc.errors.ModelError` for attributes of another class.
        """
        if not isinstance(node.attrs, cls):
            raise ModelError(
                f"{node.op} {node.name!r} has attributes of class {type(node.attrs).__name__}, not "
                f"{cls.__name__}"
            )
        return node.attrs


@dataclass(frozen=True)
class Node:
    """One operator. ``inputs`` names tensors; an absent optional input is the empty string."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attributes = Attributes()
    #: Position in the model file, for messages; nodes made by a pass inherit it.
    index: int = 0
    #: Rounding of sums to the output's scale; irrelevant for other operators.
    rounding: Rounding = Rounding.DOUBLE
    #: Definition that it computes, if definitions differ.
    numerics: Numerics = Numerics.TFLM

    @property
    def name(self) -> str:
        """Name of the layer: that of its first output, as TFLite models name layers."""
        return self.outputs[0]


@dataclass(frozen=True)
class State:
    """A value that persists between runs: the next run starts with this run's final value.

    A node that updates a state reads the old value and writes the new one, which is another tensor,
    as each tensor is written once.
    """

    #: The tensor that holds the value before a run, which no node writes; the state's name, too.
    name: str
    #: The tensor of the same shape, type and quantization that holds the value after the run;
    #: ``name`` itself where no node updates the state.
    after: str
    #: The value after a reset; None for zeros.
    reset: Array | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Graph:
    """Operators in execution order over named tensors."""

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[State, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.nodes)} nodes, {len(self.tensors)} tensors>"

    @property
    def results(self) -> tuple[str, ...]:
        """The tensors that a run leaves to others: the outputs to the caller, states to the next
        run.
        """
        return (*self.outputs, *(state.after for state in self.states))

    @property
    def given(self) -> tuple[str, ...]:
        """The tensors that have a value before the first node runs, constants aside."""
        return (*self.inputs, *(state.name for state in self.states))

    def reset_value(self, state: State) -> Array:
        """Return the value of a state after a reset."""
        tensor = self.tensors[state.name]
        return np.zeros(tensor.shape, tensor.dtype) if state.reset is None else state.reset

    def ins(self, node: Node) -> tuple[Tensor | None, ...]:
        """Return the node's input tensors; None for an absent optional one."""
        return tuple(self.tensors[n] if n else None for n in node.inputs)

    def outs(self, node: Node) -> tuple[Tensor, ...]:
        """Return the node's output tensors, by position."""
        return tuple(self.tensors[n] for n in node.outputs)

    def producers(self) -> dict[str, Node]:
        """Return, for each tensor that a node computes, the node."""
        return {name: node for node in self.nodes for name in node.outputs}

    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """Return, for each tensor name, the nodes that read it, in execution order."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    readers.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}

    def with_(self, **changes: Any) -> Graph:
        """Return a copy with the given fields replaced; tensors are not verified."""
        return replace(self, **changes)


def of_node(node: Node, tensors: Mapping[str, Tensor]) -> Graph:
    """Return the graph of one node, with those of ``tensors`` that the node names."""
    names = dict.fromkeys((*filter(None, node.inputs), *node.outputs))
    return Graph(node.name, {name: tensors[name] for name in names}, (node,), (), node.outputs)
