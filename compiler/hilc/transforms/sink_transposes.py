"""Transposes sink through operators that do not care about the order of axes, and cancel there.

ONNX puts the channels of an image before its pixels, the operators on images want them behind, so
each of these stands between two transposes. The one behind it moves on: through operators on
elements, concatenations, reductions and padding, until it meets its opposite, or an operator that
needs the order, or an output.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hilc.ir import Graph, Node, Numerics, Tensor
from hilc.ops import OPS, permuting
from hilc.ops.permuting import Order, Permuted
from hilc.ops.views import ReshapeAttributes


class _Source(NamedTuple):
    """A tensor of which another one is the transpose."""

    name: str
    order: Order


def sink_transposes(graph: Graph) -> Graph:
    """Return an ONNX model's graph with transposes as far behind as they go, if less is moved then.

    The order of a TFLite model's axes is what its author chose, and stays.
    """
    is_onnx = any(node.numerics is Numerics.ONNX for node in graph.nodes)
    if not is_onnx or not any(map(_transposes, graph.nodes)):
        return graph
    sunk = _Sinking(graph).graph()
    return sunk if _moved(sunk) < _moved(graph) else graph


def _transposes(node: Node) -> bool:
    return OPS[node.op].axis_order is not None


def _moved(graph: Graph) -> int:
    """Return the bytes that transposes move."""
    return sum(graph.outs(node)[0].nbytes for node in filter(_transposes, graph.nodes))


class _Sinking:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = dict(graph.tensors)
        self._nodes: list[Node] = []
        #: The sources of tensors that are not computed themselves, or not yet.
        self._sources: dict[str, _Source] = {}
        self._results = frozenset(graph.results)
        #: Tensors that are another one, in its own order.
        self._same: dict[str, str] = {}

    def graph(self) -> Graph:
        """Return the graph after the transposes have been moved; call it once."""
        for node in self._graph.nodes:
            node = replace(node, inputs=tuple(self._same.get(n, n) for n in node.inputs))
            if not (self._is_dropped(node) or self._is_sunk(node)):
                self._compute(node.inputs, node.index)
                self._nodes.append(node)
        last = max((node.index for node in self._graph.nodes), default=0)
        self._compute(self._graph.results, last)
        read = {name for node in self._nodes for name in (*node.inputs, *node.outputs)}
        kept = read | set(self._graph.given) | set(self._graph.results)
        tensors = {name: tensor for name, tensor in self._tensors.items() if name in kept}
        return self._graph.with_(tensors=tensors, nodes=tuple(self._nodes))

    def _is_dropped(self, node: Node) -> bool:
        """Note a transpose instead of computing it; return whether the node is one."""
        axis_order = OPS[node.op].axis_order
        if axis_order is None or node.inputs[0] in self._results:
            return False
        x = self._tensors[node.inputs[0]]
        if x.is_constant:
            return False
        own = axis_order(node, [self._tensors[name] for name in node.inputs])
        before = self._sources.get(x.name, _Source(x.name, tuple(range(len(own)))))
        order = tuple(before.order[axis] for axis in own)
        if _is_own(order) and node.name not in self._results:
            self._same[node.name] = before.name
        else:
            self._sources[node.name] = _Source(before.name, order)
        return True

    def _is_sunk(self, node: Node) -> bool:
        """Compute a node on the sources of its operands, if it can be."""
        permute = OPS[node.op].permuted
        orders = {self._sources[name].order for name in node.inputs if name in self._sources}
        if permute is None or len(orders) != 1:
            return False
        (order,) = orders
        ins = [self._tensors[n] if n else None for n in node.inputs]
        outs = self._graph.outs(node)
        permuted = permute(node, ins, outs, order)
        if permuted is None or not permuted.moved:
            return False
        if not all(self._is_at_hand(node.inputs[place], order) for place in permuted.moved):
            return False
        if not _is_own(permuted.order) and not self._results.isdisjoint(node.outputs):
            # Its name is the caller's; a transpose behind it would be one more.
            return False
        self._add(node, permuted, order)
        return True

    def _is_at_hand(self, name: str, order: Order) -> bool:
        """Return whether a tensor is a transpose by ``order``, or lies in memory as one does."""
        if name in self._sources:
            return self._sources[name].order == order
        shape = _at_hand(self._tensors[name].shape, order)
        return permuting.keeps_elements(shape, order)

    def _source(self, name: str, order: Order, index: int) -> str:
        """Return the tensor of which another one is the transpose by ``order``."""
        if name in self._sources:
            return self._sources[name].name
        # Such as a factor for each channel, which pixels share: only axes of 1 change places.
        tensor = self._tensors[name]
        made = replace(tensor, name=self._fresh(name), shape=_at_hand(tensor.shape, order))
        self._tensors[made.name] = made
        self._view(name, made, index)
        return made.name

    def _view(self, name: str, out: Tensor, index: int) -> None:
        """Add the elements of a tensor as they lie, in another shape."""
        attrs = ReshapeAttributes(new_shape=out.shape)
        node = Node("RESHAPE", (name,), (out.name,), attrs, index, numerics=Numerics.ONNX)
        self._nodes.append(node)

    def _add(self, node: Node, permuted: Permuted, order: Order) -> None:
        inputs = list(node.inputs)
        for place in permuted.moved:
            inputs[place] = self._source(inputs[place], order, node.index)
        for place, value in permuted.constants.items():
            old = self._graph.tensors[inputs[place]]
            name = self._fresh(old.name)
            self._tensors[name] = replace(old, name=name, shape=value.shape, data=value)
            inputs[place] = name
        outputs = []
        for place, output in enumerate(node.outputs):
            in_order = permuted.outputs is None or place < permuted.outputs
            if _is_own(permuted.order) or not in_order:
                outputs.append(output)
                continue
            tensor = self._graph.tensors[output]
            shape = _at_hand(tensor.shape, permuted.order)
            name = self._fresh(output)
            self._tensors[name] = replace(tensor, name=name, shape=shape)
            self._sources[output] = _Source(name, permuted.order)
            outputs.append(name)
        made = replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attrs=permuted.attrs)
        self._nodes.append(made)

    def _compute(self, names: Iterable[str], index: int) -> None:
        """Add the transposes that tensors are, once each."""
        for name in dict.fromkeys(names):
            source = self._sources.pop(name, None)
            if source is None:
                continue
            tensor, x = self._tensors[name], self._tensors[source.name]
            if permuting.keeps_elements(x.shape, source.order):
                self._view(x.name, tensor, index)
                continue
            order = self._fresh(f"{name}:order")
            value = np.array(source.order, np.int32)
            self._tensors[order] = Tensor(order, value.shape, "int32", data=value)
            made = Node("TRANSPOSE", (x.name, order), (name,), index=index, numerics=Numerics.ONNX)
            self._nodes.append(made)

    def _fresh(self, base: str) -> str:
        number, name = 0, f"{base}:moved"
        while name in self._tensors:
            number += 1
            name = f"{base}:moved{number}"
        return name


def _is_own(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _at_hand(shape: tuple[int, ...], order: Order) -> tuple[int, ...]:
    """Return the shape of a tensor whose transpose has ``shape``."""
    return tuple(shape[place] for place in np.argsort(order))
