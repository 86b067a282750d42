"""Assignments to an element of a list, as TensorFlow's converter writes them, with fixed shapes.

A loop of Keras collects its steps in a list, a tensor with an entry for each. The converter makes
the assignment of entry ``i`` from the part before, the new entry and the part behind::

    CONCATENATION(SLICE(list, [0, 0], [i, -1]), entry, SLICE(list, [i + 1, 0], [-1, -1]))

The sizes of both parts are known at run time alone, that of the result is not: each entry is the
new one where its number is ``i``, and stays what it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hilc.ir import Graph, Node, Tensor
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.support.identifiers import unused


class _Assignment(NamedTuple):
    source: str
    number: str
    entry: str
    #: The nodes of both parts.
    parts: tuple[Node, Node]


def with_fixed_lists(graph: Graph) -> Graph:
    """Return the graph with a choice for each entry in place of an assignment by parts."""
    producers = graph.producers()
    found = {
        node.outputs: made
        for node in graph.nodes
        if node.op == "CONCATENATION" and (made := _assignment(graph, producers, node))
    }
    if not found:
        return graph
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        made = found.get(node.outputs)
        nodes += [node] if made is None else _chosen(tensors, node, made)
    read = {name for node in nodes for name in node.inputs} | set(graph.results)
    parts = {name for made in found.values() for part in made.parts for name in part.outputs}
    kept = tuple(
        n for n in nodes if not parts.issuperset(n.outputs) or read.intersection(n.outputs)
    )
    return graph.with_(tensors=tensors, nodes=kept)


def _chosen(tensors: dict[str, Tensor], node: Node, made: _Assignment) -> list[Node]:
    """Return the nodes of an assignment with fixed shapes."""
    (out,) = node.outputs
    source, number = tensors[made.source], tensors[made.number]
    shape = (source.shape[0], *(1,) * (len(source.shape) - 1))
    places = np.arange(source.shape[0], dtype=number.dtype).reshape(shape)
    places.flags.writeable = False
    numbers = unused(f"{out}:numbers", tensors)
    tensors[numbers] = Tensor(numbers, shape, number.dtype, None, places)
    here = unused(f"{out}:here", tensors)
    tensors[here] = Tensor(here, shape, "bool")
    tensors[out] = replace(tensors[out], shape=source.shape)
    return [
        Node("EQUAL", (numbers, made.number), (here,), index=node.index),
        Node("SELECT_V2", (here, made.entry, made.source), (out,), index=node.index),
    ]


def _assignment(graph: Graph, producers: Mapping[str, Node], node: Node) -> _Assignment | None:
    """Return what a concatenation assigns; None for any other."""
    if len(node.inputs) != 3 or ConcatenationAttributes.of(node).axis != 0:
        return None
    before, entry, after = (producers.get(name) for name in node.inputs)
    if before is None or after is None or (before.op, after.op) != ("SLICE", "SLICE"):
        return None
    (source, begin, size), (other, start, rest) = before.inputs, after.inputs
    first, second = _led(graph, producers, size), _led(graph, producers, start)
    shape = graph.tensors[source].shape
    if (
        entry is None
        or source != other
        or not _is_all(graph, begin, 0)
        or not _is_all(graph, rest, -1)
        or first is None
        or second is None
        or not _is_all(graph, first[1], -1)
        or not _is_all(graph, second[1], 0)
        or not _is_next(graph, producers, first[0], second[0])
        or graph.tensors[node.inputs[1]].shape != (1, *shape[1:])
    ):
        return None
    return _Assignment(source, first[0], node.inputs[1], (before, after))


def _led(graph: Graph, producers: Mapping[str, Node], name: str) -> tuple[str, str] | None:
    """Return the number in front of a list of sizes, and the others, which are joined to it."""
    joined = producers.get(name)
    if joined is None or joined.op != "CONCATENATION" or len(joined.inputs) != 2:
        return None
    view = producers.get(joined.inputs[0])
    if view is None or view.op != "RESHAPE" or graph.tensors[view.inputs[0]].size != 1:
        return None
    return view.inputs[0], joined.inputs[1]


def _is_all(graph: Graph, name: str, value: int) -> bool:
    """Return whether a tensor is a constant of this value alone."""
    data = graph.tensors[name].data
    return data is not None and bool((data == value).all())


def _is_next(graph: Graph, producers: Mapping[str, Node], number: str, other: str) -> bool:
    """Return whether a tensor is another one plus 1."""
    made = producers.get(other)
    if made is None or made.op != "ADD" or number not in made.inputs:
        return False
    (one,) = (name for name in made.inputs if name != number)
    return _is_all(graph, one, 1)
