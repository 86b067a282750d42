"""Definition of an operator for the rest of the compiler: one :class:`OpDef`, in one module.

The module declares the operator's attributes too (:mod:`hilc.ops.attributes`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from hilc.errors import InputError
from hilc.ir import Array, Attributes, Graph, Node, Rounding, Tensor
from hilc.ops.attributes import Activation, ActivationAttributes, field_types
from hilc.ops.permuting import Permute
from hilc.ops.traits import (
    Bounds,
    ChannelGroup,
    Conversion,
    FewerChannels,
    Ins,
    IntegerForm,
    Outs,
    Reference,
    Rows,
    Weights,
)

__all__ = ["Check", "Infer", "OpDef", "Reference", "Signature", "one_definition"]

#: Shape and dtype of one output.
Signature = tuple[tuple[int, ...], str]

Infer = Callable[[Node, Ins], list[Signature]]
Check = Callable[[Node, Ins, Outs], None]
ByNumerics = Callable[[Node, Ins, Outs], Hashable | None]

#: Runs a graph on the values of its inputs and returns those of its outputs, by position.
RunGraph = Callable[[Graph, Sequence[Array | None]], list[Array]]


@dataclass(frozen=True)
class Control:
    """Protocol of an operator that calls graphs."""

    #: The graphs of a node.
    graphs: Callable[[Node], tuple[Graph, ...]]
    #: The outputs of a node, from the values of its inputs and a function that runs a graph.
    run: Callable[[Node, Sequence[Array | None], RunGraph], list[Array]]
    #: Whether its graphs are the condition and the body of a loop; else the first operand selects
    #: one of them.
    loops: bool


#: The policies of operators that round as TensorFlow Lite does, or once, ties to even.
TWICE_OR_EVEN = frozenset({Rounding.DOUBLE, Rounding.NEAREST_EVEN})


def nothing_to_check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    """Accept every output: the ``check`` of operators whose outputs may have any quantization."""


#: Fields whose names changed, with the names that they have now.
_RENAMED: Mapping[str, str] = {
    "left_to_chance": "undefined_in_tflm",
    "moves": "copies_elements",
    "added_around": "explicit_padding",
    "passes_on": "is_identity",
    "links": "channel_groups",
    "narrowed": "with_fewer_channels",
}


@dataclass(frozen=True)
class OpDef:
    """Definition of an operator: shapes, arithmetic, and the traits that passes ask for.

    A trait that is not stated keeps the passes away from the operator (:mod:`hilc.ops.traits`).
    Kernels are not named here: their builders state the operators that they lower
    (:mod:`hilc.lowering.registry`).

    Raises :class:`~hilc.errors.InputError` for a field under a name that it had in version 0.1.
    """

    #: Shape and type of each output, from the inputs and the attributes; raises
    #: :class:`~hilc.errors.ModelError` when they are not compatible (wrong rank, channels that do
    #: not match, a missing quantization, ...). :mod:`hilc.ops.verify` calls it, so the reference
    #: and the builders may rely on everything that it checked.
    infer: Infer
    #: The outputs in numpy, bit-exact with the reference of the project, from the inputs' values
    #: (None for an absent optional input).
    reference: Reference
    #: Conditions between inputs and outputs beyond shape and type, above all on the outputs'
    #: quantization; raises as ``infer`` does. Called after the signatures agree.
    check: Check = nothing_to_check
    #: The class of its nodes' attributes; read them with ``attributes.of(node)``.
    attributes: type[Attributes] = Attributes
    #: The rounding policies that it supports; operators that do not round take the default.
    roundings: frozenset[Rounding] = frozenset({Rounding.DOUBLE})
    #: Whether a float32 node may be computed with ``Rounding.SINGLE``, which is faster on cores
    #: with float vectors (:mod:`hilc.transforms.float_sums`); None for never. float32 nodes take
    #: this policy, whatever ``roundings`` states.
    vector_floats: Callable[[Node, Ins], bool] | None = None
    #: The part of a node's arithmetic that depends on its ``numerics``, as a value that can be
    #: compared; None where all definitions agree.
    by_numerics: ByNumerics | None = None
    #: The output is the input's bytes under another shape (RESHAPE, SQUEEZE, ...).
    view: bool = False
    #: The caller provides the rows of its input while the model runs.
    fed: bool = False
    #: Operands without elements contribute nothing to the output, and may be left out.
    ignores_empty: bool = False
    #: The position of the operand that states the shape of the output, which TensorFlow Lite Micro
    #: takes from the output itself; None for operators without one.
    states_shape: int | None = None
    #: The graph that a node runs; its inputs and outputs are the node's, by position. The
    #: interpreter calls this, not ``reference``.
    subgraph: Callable[[Node], Graph] | None = None
    #: Calls of its graphs, which depend on values. The interpreter calls this, not ``reference``;
    #: :mod:`hilc.schedule.called` plans them, and
    #: :mod:`hilc.codegen.control_flow` writes their functions.
    control: Control | None = None

    #: Why the result of a node is undefined in TensorFlow Lite Micro; None where it is defined.
    #: Such a node is computed as TFLite defines it, and TFLite Micro is no reference for its model.
    undefined_in_tflm: Callable[[Node, Ins, Outs], str | None] | None = None
    #: The outputs of a reference, with our values where the reference leaves memory unwritten.
    fill_unwritten: Callable[[Node, Sequence[Array]], list[Array]] | None = None

    #: Whether the outputs are elements of the inputs, of any type, and zeros of real numbers: on
    #: quantized numbers of one quantization it then computes what it does on the real ones.
    copies_elements: bool = False
    #: The fused activation that computes the same: with one quantization before and behind it, it
    #: only clamps.
    as_activation: Activation | None = None
    #: Integer form of a float node between DEQUANTIZE and QUANTIZE
    #: (:mod:`hilc.transforms.fuse_quantized`); None if it has none. Operators that copy
    #: elements, and functions of single elements, need no statement.
    integer_form: IntegerForm | None = None
    #: Whether it converts real numbers to quantized integers, or back; None for other operators.
    conversion: Conversion | None = None
    #: Whether it quantizes real numbers by the range that they have when the model runs.
    quantizes_by_range: bool = False
    #: The end of the operands' type that, as a constant operand, leaves the other operand
    #: unchanged.
    neutral: Literal["lowest", "highest"] | None = None
    #: The order of axes of an operator that transposes: axis ``i`` of the output is axis
    #: ``order[i]`` of the input. None for other operators.
    axis_order: Callable[[Node, Ins], tuple[int, ...]] | None = None
    #: The number of elements of the real value zero that it adds before and after each axis of its
    #: first input, with shape [rank, 2].
    explicit_padding: Callable[[Node, Ins], Array] | None = None
    #: Whether a node whose output has shape, type and quantization of its input returns the input.
    is_identity: Callable[[Node, Ins], bool] | None = None
    #: The magnitude of the terms that it adds inside, for the values of its first input: a float
    #: result that is far smaller holds their rounding. None where no such terms cancel.
    inner_terms: Callable[[Array], Array] | None = None
    #: Lower and upper bounds of its outputs.
    bounds: Bounds | None = None
    #: Relation of its output rows to its input rows; None if it cannot be divided into bands.
    rows: Rows | None = None
    #: The height of the image whose rows a node reduces to one; None where a node does not.
    whole_height: Callable[[Node, Ins], int | None] | None = None
    #: The channels (last axis) of its inputs and of its output that have to be removed together;
    #: called where both have axes.
    channel_groups: Callable[[Node, Ins, Tensor], list[ChannelGroup]] | None = None
    #: Its constant weights, if they have an axis of output channels.
    weights: Weights | None = None
    #: The number of products that each element of the output sums; None for operators without sums
    #: of products, and for operators with ``weights``, whose size states it.
    sum_depth: Callable[[Node, Ins], int] | None = None
    #: The node on operands with another order of axes; None where operands must have the node's own
    #: order (:mod:`hilc.ops.permuting`).
    permuted: Permute | None = None
    #: The attributes and constants of a node whose output keeps only ``length`` channels; None
    #: where they do not change.
    with_fewer_channels: Callable[[Node, Ins, int], FewerChannels] | None = None

    def __new__(cls, *_: Any, **fields: Any) -> OpDef:
        for name in _RENAMED.keys() & fields.keys():
            raise InputError(
                f"an operator's definition has no field {name!r}",
                f"the field is called {_RENAMED[name]!r} since version 0.2",
            )
        return super().__new__(cls)

    @cached_property
    def attribute_types(self) -> Mapping[str, Any]:
        """The accepted values of its attributes, by name (:mod:`hilc.ops.attributes`)."""
        return field_types(self.attributes)

    @property
    def runs_graphs(self) -> bool:
        """Whether its results are those of graphs that its nodes hold."""
        return self.subgraph is not None or self.control is not None

    def called_graphs(self, node: Node) -> tuple[Graph, ...]:
        """Return the graphs that a node calls; none for operators without ``control``."""
        return () if self.control is None else self.control.graphs(node)

    def on_vectors(self, node: Node, ins: Sequence[Tensor | None]) -> bool:
        """Return whether a node computes float32 and may take ``Rounding.SINGLE``."""
        if self.vector_floats is None or not ins or ins[0] is None:
            return False
        return ins[0].element.is_real and self.vector_floats(node, ins)

    def depth(self, node: Node, ins: Sequence[Tensor | None]) -> int:
        """Return the number of products that each element of the output of a node sums up; 0 for
        operators that compute no sums of products.
        """
        if self.sum_depth is not None:
            return self.sum_depth(node, ins)
        weights = ins[1] if self.weights is not None else None
        if self.weights is None or weights is None or not weights.size:
            return 0
        return weights.size // weights.shape[self.weights.channel_axis]

    @property
    def takes_activation(self) -> bool:
        """Whether a pass may fuse an activation into it."""
        return issubclass(self.attributes, ActivationAttributes)


def one_definition(check: Check) -> ByNumerics:
    """Return the ``by_numerics`` of an operator whose nodes have one definition each.

    ``check`` raises for nodes for which the references disagree and the compiler supports only one.
    """

    def by_numerics(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> bool:
        check(node, ins, outs)
        return True

    return by_numerics
