"""Inputs of a model that state the number of turns of a loop, which tests draw within its bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hilc.ir import Graph, Node, Tensor
from hilc.ops import OPS
from hilc.ops.control_flow import WhileAttributes, parts

#: The most turns of a test: of a loop without a bound, and of one whose bound is larger than the
#: second number, which would take long.
_UNBOUNDED, _MOST = 16, 4096
#: Comparisons of a counter with the number of turns: which operand is smaller as long as there is
#: another turn, and how many turns there are beyond that number.
_COMPARISONS = {"LESS": (0, 0), "GREATER": (1, 0), "LESS_EQUAL": (0, 1), "GREATER_EQUAL": (1, 1)}


def turn_counts(graph: Graph) -> Mapping[str, int]:
    """Return the inputs of a graph that a loop in it compares its number of turns with: for each
    the most turns of a test.
    """
    producers = graph.producers()
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for operand, most in _operands(node, graph):
            if (name := _origin(operand, producers)) in graph.inputs and _is_count(graph, name):
                counts[name] = min(most, counts.get(name, most))
    return counts


def _operands(node: Node, graph: Graph) -> Iterator[tuple[str, int]]:
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
        most = _UNBOUNDED if bound is None else min(bound.turns, _MOST)
        for name, beyond in _tests(node, graph):
            if most > beyond:
                yield name, most - beyond


def _tests(node: Node, graph: Graph) -> Iterator[tuple[str, int]]:
    """Yield the operands that a loop compares its counters with, each with the most turns beyond
    the operand's value.
    """
    condition, body = parts(node)
    for name, test in _conjuncts(condition.outputs[0], condition.producers()):
        if test is not None:
            # Before each turn, of what the turn before has made.
            yield from _limits(node, graph, condition, test, condition.inputs)
        elif name in condition.inputs[: len(body.outputs)]:
            # A condition that the body computes for the next turn.
            after = body.outputs[condition.inputs.index(name)]
            producers = body.producers()
            updated = [_origin(output, producers) for output in body.outputs]
            for _, made in _conjuncts(after, producers):
                if made is not None:
                    yield from _limits(node, graph, body, made, updated)


def _limits(
    node: Node, graph: Graph, called: Graph, test: Node, updated: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Yield the operand that a comparison in a called graph compares a counter with, if it does.

    ``updated`` are the names of the variables there as the next turn takes them.
    """
    if test.op not in _COMPARISONS:
        return
    position, beyond = _COMPARISONS[test.op]
    producers = called.producers()
    lower, upper = (_origin(test.inputs[i], producers) for i in (position, 1 - position))
    low, high = (_place(name, called.inputs, updated) for name in (lower, upper))
    if high is None:
        return
    operand, body = node.inputs[high], parts(node)[1]
    if low is None:
        # A variable that is decremented to a constant.
        if _is_natural(called, lower) and _step(body, high) < 0:
            yield operand, beyond + (upper not in updated)
    elif _is_natural(graph, node.inputs[low]) and _step(body, low) > 0 and _is_kept(body, high):
        # A variable that is incremented to a limit that no turn changes.
        yield operand, beyond + (lower not in updated)


def _place(name: str, inputs: Sequence[str], updated: Sequence[str]) -> int | None:
    """Return the position of the operand that a tensor is, or the next value of."""
    names = updated if name in updated else inputs
    return names.index(name) if name in names else None


def _is_kept(body: Graph, position: int) -> bool:
    """Return whether no turn changes an operand."""
    if position >= len(body.outputs):
        return True
    return _origin(body.outputs[position], body.producers()) == body.inputs[position]


def _conjuncts(name: str, producers: Mapping[str, Node]) -> Iterator[tuple[str, Node | None]]:
    """Yield the tensors that all hold where a bool does, each with its node."""
    name = _origin(name, producers)
    node = producers.get(name)
    if node is not None and node.op == "LOGICAL_AND":
        for operand in node.inputs:
            yield from _conjuncts(operand, producers)
    else:
        yield name, node


def _step(body: Graph, position: int) -> int:
    """Return what a turn adds to a variable; 0 where it does anything else."""
    if position >= len(body.outputs):
        return 0
    producers = body.producers()
    node = producers.get(_origin(body.outputs[position], producers))
    if node is None or node.op not in ("ADD", "SUB"):
        return 0
    first, second = node.inputs
    if node.op == "ADD" and body.tensors[first].is_constant:
        first, second = second, first
    step = body.tensors[second].data
    if step is None or step.size != 1 or _origin(first, producers) != body.inputs[position]:
        return 0
    return int(step.item()) * (1 if node.op == "ADD" else -1)


def _is_natural(graph: Graph, name: str) -> bool:
    """Return whether a tensor is a constant that is one number, 0 or more."""
    data = graph.tensors[name].data
    return data is not None and data.size == 1 and bool(data.reshape(()) >= 0)


def _origin(name: str, producers: Mapping[str, Node]) -> str:
    """Return the tensor whose one element a tensor has, through changes of type and shape."""
    while (node := producers.get(name)) is not None and (OPS[node.op].view or node.op == "CAST"):
        name = node.inputs[0]
    return name


def _is_count(graph: Graph, name: str) -> bool:
    tensor: Tensor = graph.tensors[name]
    return tensor.size == 1 and tensor.dtype in ("int32", "int64")
