"""Inputs of a model that state the number of turns of a loop, which tests draw within its bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hilc.ir import Graph, Node, Tensor
from hilc.ops import OPS
from hilc.ops.control_flow import WhileAttributes, parts

#: The most turns of a test: of a loop without a bound, and of one whose bound is larger than the
#: second number, which would take long.
_UNBOUNDED, _MOST = 16, 4096


def turn_counts(graph: Graph) -> Mapping[str, int]:
    """Return the inputs of a graph that a loop in it compares its number of turns with: for each
    the most turns of a test.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for operand, most in _operands(node):
            if (name := _origin(operand, makers)) in graph.inputs and _is_count(graph, name):
                counts[name] = min(most, counts.get(name, most))
    return counts


def _operands(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the operands of a node that are numbers of turns, each with the most of a test."""
    definition = OPS[node.op]
    if definition.subgraph is not None:
        inner = definition.subgraph(node)
        for name, most in turn_counts(inner).items():
            yield node.inputs[inner.inputs.index(name)], most
    control = definition.control
    if control is None:
        return
    # A branch takes the operands after the condition.
    given = node.inputs if control.loops else node.inputs[1:]
    for called in control.graphs(node):
        for name, most in turn_counts(called).items():
            yield given[called.inputs.index(name)], most
    if control.loops:
        bound = WhileAttributes.of(node).bound
        most = _UNBOUNDED if bound is None else min(bound, _MOST)
        condition, _ = parts(node)
        makers = {name: maker for maker in condition.nodes for name in maker.outputs}
        for test in condition.nodes:
            name = _origin(test.inputs[1], makers) if test.op == "LESS" else ""
            if name in condition.inputs:
                yield given[condition.inputs.index(name)], most


def _origin(name: str, makers: Mapping[str, Node]) -> str:
    """Return the tensor whose one element a tensor has, through changes of type and shape."""
    while (node := makers.get(name)) is not None and (OPS[node.op].view or node.op == "CAST"):
        name = node.inputs[0]
    return name


def _is_count(graph: Graph, name: str) -> bool:
    tensor: Tensor = graph.tensors[name]
    return tensor.size == 1 and tensor.dtype in ("int32", "int64")
