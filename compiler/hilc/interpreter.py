"""Interpreter of graphs in numpy, operator by operator: the specification of the generated code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hilc.errors import InputError
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops import OPS
from hilc.ops.opdef import RunGraph
from hilc.support.arguments import typed
from hilc.support.numbers import numbers


class Interpreter:
    """Runs of one graph, one after the other: its states keep their values in between.

    They begin with what a reset gives them.
    """

    @typed
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._states: dict[str, Array] = {}
        self.reset_state()

    def reset_state(self) -> None:
        """Give every state its reset value."""
        for state in self.graph.states:
            self._states[state.name] = self.graph.reset_value(state)

    def state(self, name: str) -> Array:
        """Return a copy of a state's value."""
        return self._states[self._tensor(name).name].copy()

    def set_state(self, name: str, value: npt.ArrayLike) -> None:
        """Let the next run start with ``value``, of the state's exact shape and type."""
        tensor = self._tensor(name)
        array = numbers(f"state {name!r}", value, f"{tensor.dtype}{list(tensor.shape)}")
        _check_value(f"state {name!r}", tensor, array)
        self._states[name] = array.copy()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the graph's outputs by name, for its ``inputs`` by name."""
        values = self.run_all(inputs)
        return {name: values[name] for name in self.graph.outputs}

    def run_all(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Every tensor's value by name: constants, inputs, states before and after, and all that
        nodes compute.
        """
        graph = self.graph
        check_inputs(graph, inputs)
        values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
        values.update({name: np.asarray(inputs[name]) for name in graph.inputs})
        values.update(self._states)
        for node in graph.nodes:
            operands = [values[name] if name else None for name in node.inputs]
            values.update(zip(node.outputs, run_node(graph, node, operands), strict=True))
        self._states = {state.name: values[state.after] for state in graph.states}
        return values

    def _tensor(self, name: str) -> Tensor:
        if name not in self._states:
            known = ", ".join(map(repr, self._states)) or "none"
            raise InputError(f"the model has no state {name!r}", f"its states are {known}")
        return self.graph.tensors[name]


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the graph's outputs by name, for its ``inputs`` by name; states have their reset
    values.
    """
    return Interpreter(graph).run(inputs)


def run_all(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return every tensor's value by name: constants, inputs and results of nodes.

    States have their reset values.
    """
    return Interpreter(graph).run_all(inputs)


def _run_graph(graph: Graph, operands: Sequence[Array | None]) -> list[Array]:
    given = zip(graph.inputs, operands, strict=True)
    results = run(graph, {name: value for name, value in given if value is not None})
    return [results[name] for name in graph.outputs]


def run_node(
    graph: Graph, node: Node, operands: Sequence[Array | None], run_graph: RunGraph = _run_graph
) -> list[Array]:
    """Return the outputs of a node for its inputs, None for an absent one.

    ``run_graph`` runs the graphs that the node calls.
    """
    outs = graph.outs(node)
    op = OPS[node.op]
    if op.subgraph is not None:
        results = run_graph(op.subgraph(node), operands)
    elif op.control is not None:
        results = op.control.run(node, operands, run_graph)
    else:
        # Infinities and NaNs are results like others. numpy's functions turn arrays without
        # dimensions into scalars.
        with np.errstate(all="ignore"):
            results = list(map(np.asarray, op.reference(node, graph.ins(node), outs, operands)))
    for tensor, result in zip(outs, results, strict=True):
        if result.shape != tensor.shape or result.dtype != np.dtype(tensor.dtype):
            raise AssertionError(
                f"{node.op} computed {result.dtype}{list(result.shape)} for {tensor.name!r}, "
                f"which is {tensor.dtype}{list(tensor.shape)}"
            )
    return results


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    """Raise :class:`~hilc.errors.InputError` unless every input has an array of its type and
    shape.
    """
    hint = f"the model's inputs are {', '.join(map(repr, graph.inputs))}"
    for name in inputs:
        if name not in graph.inputs:
            raise InputError(f"the model has no input {name!r}", hint)
    for name in graph.inputs:
        if name not in inputs:
            raise InputError(f"there is no value for the model's input {name!r}", hint)
        _check_value(f"input {name!r}", graph.tensors[name], np.asarray(inputs[name]))


def _check_value(what: str, tensor: Tensor, array: Array) -> None:
    if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
        raise InputError(
            f"the value for {what} is {array.dtype}{list(array.shape)}, "
            f"not {tensor.dtype}{list(tensor.shape)}"
        )
