"""Runs a graph in numpy, operator by operator: the specification of the generated code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array, Graph, Node
from hilc.ops import OPS


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The graph's outputs by name, for its ``inputs`` by name."""
    values = run_all(graph, inputs)
    return {name: values[name] for name in graph.outputs}


def run_all(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor's value by name: constants, inputs, and what each node computes."""
    check_inputs(graph, inputs)
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values.update({name: np.asarray(inputs[name]) for name in graph.inputs})
    for node in graph.nodes:
        operands = [values[name] if name else None for name in node.inputs]
        values.update(zip(node.outputs, run_node(graph, node, operands), strict=True))
    return values


def run_node(graph: Graph, node: Node, operands: Sequence[Array | None]) -> list[Array]:
    """What a node computes of its inputs, None for an absent one."""
    outs = graph.outs(node)
    op = OPS[node.op]
    if op.subgraph is not None:
        results = _run_subgraph(op.subgraph(node), operands)
    else:
        # numpy's functions make numbers of arrays without dimensions.
        results = list(map(np.asarray, op.reference(node, graph.ins(node), outs, operands)))
    for tensor, result in zip(outs, results, strict=True):
        if result.shape != tensor.shape or result.dtype != np.dtype(tensor.dtype):
            raise AssertionError(
                f"{node.op} computed {result.dtype}{list(result.shape)} for {tensor.name!r}, "
                f"which is {tensor.dtype}{list(tensor.shape)}"
            )
    return results


def _run_subgraph(graph: Graph, operands: Sequence[Array | None]) -> list[Array]:
    given = zip(graph.inputs, operands, strict=True)
    results = run(graph, {name: value for name, value in given if value is not None})
    return [results[name] for name in graph.outputs]


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    """Raise :class:`~hilc.errors.InputError` unless each input has an array, as declared."""
    hint = f"the model's inputs are {', '.join(map(repr, graph.inputs))}"
    for name in inputs:
        if name not in graph.inputs:
            raise InputError(f"the model has no input {name!r}", hint)
    for name in graph.inputs:
        if name not in inputs:
            raise InputError(f"there is no value for the model's input {name!r}", hint)
        tensor, array = graph.tensors[name], np.asarray(inputs[name])
        if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
            raise InputError(
                f"the value for input {name!r} is {array.dtype}{list(array.shape)}, "
                f"not {tensor.dtype}{list(tensor.shape)}"
            )
