"""Definition of an operator for the rest of the compiler: one :class:`OpDef`, in one module.

The module declares the operator's attributes too (:mod:`hilc.ops.attributes`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from hilc.ir import Array, Attributes, Graph, Node, Rounding, Tensor
from hilc.ops.attributes import Activation, ActivationAttributes, field_types
from hilc.ops.permuting import Permute
from hilc.ops.traits import (
    Bounds,
    Conversion,
    IntegerForm,
    Link,
    Narrowed,
    Reference,
    Rows,
    Weights,
)

__all__ = ["Check", "Infer", "OpDef", "Reference", "Signature", "one_definition"]

#: Shape and dtype of one output.
Signature = tuple[tuple[int, ...], str]

Infer = Callable[[Node, Sequence[Tensor | None]], list[Signature]]
Check = Callable[[Node, Sequence[Tensor | None], Sequence[Tensor]], None]
ByNumerics = Callable[[Node, Sequence[Tensor | None], Sequence[Tensor]], Hashable | None]


#: Runs a graph on the values of its inputs and returns those of its outputs, by position.
RunGraph = Callable[[Graph, Sequence[Array | None]], list[Array]]


@dataclass(frozen=True)
class Control:
    """How an operator calls graphs."""

    #: The graphs of a node.
    graphs: Callable[[Node], tuple[Graph, ...]]
    #: The outputs of a node, from the values of its inputs and what runs a graph.
    run: Callable[[Node, Sequence[Array | None], RunGraph], list[Array]]
    #: Whether its graphs are the condition and the body of a loop; else the first operand selects
    #: one of them.
    loops: bool


#: The policies of operators that round as TensorFlow Lite does, or once, ties to even.
TWICE_OR_EVEN = frozenset({Rounding.DOUBLE, Rounding.NEAREST_EVEN})


def nothing_to_check(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> None:
    """Accept every output: the ``check`` of operators whose outputs may carry any quantization."""


@dataclass(frozen=True)
class OpDef:
    """An operator. What is not said of it keeps the passes away from it (:mod:`hilc.ops.traits`).

    Kernels are not named here: their builders say which operators they lower
    (:mod:`hilc.lowering.registry`).
    """

    #: Shape and type of each output, from the inputs and the attributes; raises
    #: :class:`~hilc.errors.ModelError` when they do not go together (wrong rank, channels that do
    #: not match, a missing quantization, ...). :mod:`hilc.ops.verify` calls it, so the reference
    #: and the builders may rely on everything that it checked.
    infer: Infer
    #: The outputs in numpy, bit-exact with the reference of the project, from the inputs' values
    #: (None for an absent optional input).
    reference: Reference
    #: What must hold between inputs and outputs beyond shape and type, above all the outputs'
    #: quantization; raises as ``infer`` does. Called after the signatures agree.
    check: Check = nothing_to_check
    #: The class of its nodes' attributes; whoever reads them asks it (``attributes.of(node)``).
    attributes: type[Attributes] = Attributes
    #: The policies by which it can round; what does not round takes the default.
    roundings: frozenset[Rounding] = frozenset({Rounding.DOUBLE})
    #: Whether a node of float32 may be computed by ``Rounding.SINGLE``, which cores with vectors of
    #: floats do faster (:mod:`hilc.transforms.float_sums`); None for never. Nodes of float32 take
    #: this policy, whatever ``roundings`` says.
    vector_floats: Callable[[Node, Sequence[Tensor | None]], bool] | None = None
    #: What of a node's arithmetic depends on its ``numerics``, in a form that compares; None where
    #: all definitions are one.
    by_numerics: ByNumerics | None = None
    #: The output is the input's bytes under another shape (RESHAPE and its kind).
    view: bool = False
    #: The caller brings the rows of its input while the model runs.
    fed: bool = False
    #: Operands that hold no element add nothing to the output, and may be left out.
    ignores_empty: bool = False
    #: The position of the operand that states the shape of the output, which TensorFlow Lite Micro
    #: takes from the output itself; None for operators without one.
    states_shape: int | None = None
    #: The graph that a node runs; its inputs and outputs are the node's, by position. The
    #: interpreter asks this, not ``reference``.
    subgraph: Callable[[Node], Graph] | None = None
    #: How it calls graphs, which ones depends on values. The interpreter asks this, not
    #: ``reference``; :mod:`hilc.codegen.control_flow` makes functions of them.
    control: Control | None = None

    #: What TensorFlow Lite Micro leaves to chance of a node, in words; None where it does not. The
    #: node is computed as TFLite defines it, then, and TFLite Micro is no reference of its model.
    left_to_chance: (
        Callable[[Node, Sequence[Tensor | None], Sequence[Tensor]], str | None] | None
    ) = None
    #: The outputs that a reference gives, with our values where it leaves memory as it finds it.
    fill_unwritten: Callable[[Node, Sequence[Array]], list[Array]] | None = None

    #: Whether outputs hold elements of the inputs, of any type, and zeros of real numbers: then
    #: it computes on quantized numbers what it does on the real ones, if all have one quantization.
    moves: bool = False
    #: The fused activation that does the same: with one quantization before and behind it, it only
    #: clamps.
    as_activation: Activation | None = None
    #: The node on integers in its place between DEQUANTIZE and QUANTIZE
    #: (:mod:`hilc.transforms.fuse_quantized`); None where there is none. Operators that copy
    #: elements, and functions of single elements, need no statement.
    integer_form: IntegerForm | None = None
    #: Whether it converts real numbers to integers with a quantization, or back.
    conversion: Conversion | None = None
    #: The end of the operands' type that, as a constant operand, leaves the other operand as it is.
    neutral: Literal["lowest", "highest"] | None = None
    #: The order in which it puts the axes of its input: axis ``i`` of the output is axis
    #: ``axis_order(node, ins)[i]`` of the input. None for operators that do not transpose.
    axis_order: Callable[[Node, Sequence[Tensor | None]], tuple[int, ...]] | None = None
    #: The constant elements before and after each axis that it adds around its first input, of the
    #: real value zero.
    added_around: Callable[[Node, Sequence[Tensor | None]], Array] | None = None
    #: Whether a node whose output has shape, type and quantization of its input passes it on.
    passes_on: Callable[[Node, Sequence[Tensor | None]], bool] | None = None
    #: The values that its outputs can have.
    bounds: Bounds | None = None
    #: How it is cut into rows.
    rows: Rows | None = None
    #: The height of one image that a node takes in whole, adding up row by row; None where a node
    #: does not.
    whole_height: Callable[[Node, Sequence[Tensor | None]], int | None] | None = None
    #: Which channels (last axis) of its input and of its output go together; asked where both have
    #: axes.
    links: Callable[[Node, Sequence[Tensor | None], Tensor], list[Link]] | None = None
    #: Its weights, where it has some that go with its channels.
    weights: Weights | None = None
    #: The number of products that each element of the output sums up; None for operators without
    #: sums of products, and for those whose ``weights`` say it.
    sum_depth: Callable[[Node, Sequence[Tensor | None]], int] | None = None
    #: What it becomes where the axes of its operands are in another order; None where it stays as
    #: it is, with operands in its own order (:mod:`hilc.ops.permuting`).
    permuted: Permute | None = None
    #: What it becomes when its output keeps ``length`` channels; None where it stays as it is.
    narrowed: Callable[[Node, Sequence[Tensor | None], int], Narrowed] | None = None

    @cached_property
    def attribute_types(self) -> Mapping[str, Any]:
        """Return the accepted values of its attributes, by name (:mod:`hilc.ops.attributes`)."""
        return field_types(self.attributes)

    def on_vectors(self, node: Node, ins: Sequence[Tensor | None]) -> bool:
        """Return whether a node is one of float32 that may take ``Rounding.SINGLE``."""
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

    ``check`` raises for nodes that the other reference defines otherwise, and the compiler does not
    compute so.
    """

    def by_numerics(node: Node, ins: Sequence[Tensor | None], outs: Sequence[Tensor]) -> bool:
        check(node, ins, outs)
        return True

    return by_numerics
