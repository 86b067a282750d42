"""Transposes moved behind what does not ask where an element lies, until they meet their inverse.

ONNX puts the channels of an image before its pixels, the operators on images want them behind: so
each of these stands between two transposes. One that goes behind a function of single elements, a
sum or a concatenation meets the transpose that leads to the next image, and both go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from hilc.ir import Array, Graph, Node, Numerics, Tensor
from hilc.ops import OPS
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.broadcast import broadcast_links
from hilc.ops.concat_split import concatenation_axis
from hilc.ops.data_movement import permutation
from hilc.ops.mean import reduced_axes
from hilc.ops.traits import SameRows
from hilc.ops.views import ReshapeAttributes
from hilc.transforms.remove_dead import remove_dead


class _Moved(NamedTuple):
    """A tensor as the transpose of another."""

    source: str
    axes: tuple[int, ...]


def sink_transposes(graph: Graph) -> Graph:
    """Return an ONNX model's graph with as few transposes as this takes.

    The order of a TFLite model's axes is what its author chose, and stays.
    """
    from_onnx = any(node.numerics is Numerics.ONNX for node in graph.nodes)
    if not from_onnx or not any(node.op == "TRANSPOSE" for node in graph.nodes):
        return graph
    return _Sinking(graph).run()


@dataclass
class _Sinking:
    graph: Graph
    tensors: dict[str, Tensor] = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    moved: dict[str, _Moved] = field(default_factory=dict)
    #: Tensors that are another one under the same axes.
    same: dict[str, str] = field(default_factory=dict)
    #: Those of ``moved`` that were computed where somebody asked for them.
    computed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tensors = dict(self.graph.tensors)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            node = replace(node, inputs=tuple(self.same.get(n, n) for n in node.inputs))
            if not self._sunk(node):
                for name in node.inputs:
                    self._compute(name)
                self.nodes.append(node)
        for name in self.graph.results:
            if name in self.same:
                attrs = ReshapeAttributes(new_shape=self.tensors[name].shape)
                self._compute(self.same[name])
                self.nodes.append(Node("RESHAPE", (self.same[name],), (name,), attrs))
            self._compute(name)
        return remove_dead(self.graph.with_(tensors=self.tensors, nodes=tuple(self.nodes)))

    def _compute(self, name: str) -> None:
        """Add the transpose that makes a tensor, where somebody asks for it."""
        if name not in self.moved or name in self.computed:
            return
        self.computed.add(name)
        source, axes = self.moved[name]
        shape = self.tensors[source].shape
        lengths = [axis for axis in axes if shape[axis] != 1]
        if lengths == sorted(lengths):
            attrs = ReshapeAttributes(new_shape=self.tensors[name].shape)
            self.nodes.append(Node("RESHAPE", (source,), (name,), attrs, numerics=Numerics.ONNX))
            return
        order = self._constant(f"{name}:axes", np.array(axes, np.int32), None)
        self.nodes.append(Node("TRANSPOSE", (source, order), (name,), numerics=Numerics.ONNX))

    def _constant(self, base: str, data: Array, like: Tensor | None) -> str:
        number = 0
        while (name := f"{base}:{number}") in self.tensors:
            number += 1
        data = np.array(data, order="C")
        data.flags.writeable = False
        quant = None if like is None else like.quant
        self.tensors[name] = Tensor(name, data.shape, data.dtype.name, quant, data)
        return name

    def _sunk(self, node: Node) -> bool:
        """Return whether a node was done to what its inputs are transposes of."""
        ins = [self.tensors[n] if n else None for n in node.inputs]
        if node.op == "TRANSPOSE":
            return self._follow(node, permutation(node, ins))
        axes = {self.moved[n].axes for n in node.inputs if n in self.moved}
        if len(axes) != 1 or len(node.outputs) != 1:
            return False
        (order,) = axes
        operator = OPS[node.op]
        if node.op == "RESHAPE":
            return self._reshaped(node, order)
        if node.op in _OF_AXES:
            return self._of_axes(node, ins, order)
        if isinstance(operator.rows, SameRows):
            source = self.moved[node.inputs[0]].source
            return self._done(node, (source, *node.inputs[1:]), order)
        if operator.links is broadcast_links:
            return self._broadcast(node, order)
        return False

    def _follow(self, node: Node, axes: tuple[int, ...]) -> bool:
        """Take a transpose as one with that before it."""
        (name,) = node.outputs
        source = node.inputs[0]
        before = self.moved.get(source, _Moved(source, tuple(range(len(axes)))))
        both = tuple(before.axes[axis] for axis in axes)
        if both == tuple(range(len(both))):
            self.same[name] = before.source
        else:
            self.moved[name] = _Moved(before.source, both)
        return True

    def _done(
        self, node: Node, inputs: Sequence[str], order: tuple[int, ...], **changes: object
    ) -> bool:
        """Add the node on other inputs; its own output is a transpose of what that gives."""
        (name,) = node.outputs
        out = self.tensors[name]
        shape = [0] * len(order)
        for axis, source in enumerate(order):
            shape[source] = out.shape[axis]
        number = 0
        while (fresh := f"{name}:nhwc" + (f":{number}" if number else "")) in self.tensors:
            number += 1
        self.tensors[fresh] = Tensor(fresh, tuple(shape), out.dtype, out.quant)
        made = replace(node, inputs=tuple(inputs), outputs=(fresh,), **changes)  # type: ignore[arg-type]
        self.nodes.append(made)
        self.moved[name] = _Moved(fresh, order)
        return True

    def _broadcast(self, node: Node, order: tuple[int, ...]) -> bool:
        inputs = []
        for name in node.inputs:
            tensor = self.tensors[name]
            if name in self.moved:
                inputs.append(self.moved[name].source)
            elif tensor.size == 1 and len(tensor.shape) <= len(order):
                inputs.append(name)
            elif tensor.data is not None and len(tensor.shape) <= len(order):
                shape = (1,) * (len(order) - len(tensor.shape)) + tensor.shape
                back = np.argsort(order)
                inputs.append(
                    self._constant(name, tensor.data.reshape(shape).transpose(back), tensor)
                )
            else:
                return False
        if len(self.tensors[node.outputs[0]].shape) != len(order):
            return False
        return self._done(node, inputs, order)

    def _of_axes(self, node: Node, ins: Sequence[Tensor | None], order: tuple[int, ...]) -> bool:
        """Do the same along other axes: CONCATENATION and MEAN."""
        if node.op == "CONCATENATION":
            if any(name not in self.moved for name in node.inputs):
                return False
            axis = order[concatenation_axis(node, ins)]
            sources = [self.moved[name].source for name in node.inputs]
            return self._done(node, sources, order, attrs=replace(node.attrs, axis=axis))  # type: ignore[call-arg]
        axes = reduced_axes(node, ins)
        inner = self._constant(
            f"{node.name}:axes", np.array(sorted(order[axis] for axis in axes), np.int32), None
        )
        inputs = (self.moved[node.inputs[0]].source, inner)
        if ReductionAttributes.of(node).keep_dims:
            return self._done(node, inputs, order)
        kept = [order[axis] for axis in range(len(order)) if axis not in axes]
        if kept != sorted(kept):
            return False
        self.nodes.append(replace(node, inputs=inputs))
        return True

    def _reshaped(self, node: Node, order: tuple[int, ...]) -> bool:
        """View the source instead, where its elements lie in the same order."""
        source = self.moved[node.inputs[0]].source
        shape = self.tensors[source].shape
        lengths = [axis for axis in order if shape[axis] != 1]
        if lengths != sorted(lengths):
            return False
        attrs = ReshapeAttributes(new_shape=self.tensors[node.outputs[0]].shape)
        self.nodes.append(replace(node, inputs=(source,), attrs=attrs))
        return True


#: Operators that name an axis.
_OF_AXES = ("CONCATENATION", "MEAN")
