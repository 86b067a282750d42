"""How far the float results of a model move if the numbers that it computes with move a little.

Where large terms cancel, rounding is large relative to the result, and correct programs that add in
another order differ. Rounding equals a small relative change of the operands; what such a change
does is measured here, with this compiler's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hil.verify.samples import Sample
from hilc.artifact.library import TensorInfo
from hilc.ir import Array, Graph

#: Relative change of every float operand in a trial. It is far larger than the rounding of float32,
#: so that a trial measures a slope: a step of a function that rounds or compares then allows less
#: than 1 % of its height.
_CHANGE = 2.0**-10
#: Trials, which draw the signs of the changes. With four, the root mean square is less than a tenth
#: of its expectation in one case of 5,000.
_TRIALS = 4

_Values = Mapping[str, Array]


@dataclass(frozen=True)
class NamedGraph:
    """A graph, with the names and types of the library that is compiled from it."""

    graph: Graph
    #: Returns the inputs of the graph for a sample of the library.
    given: Callable[[Sample], _Values]
    #: Returns the values of the graph with those of the library's outputs.
    named: Callable[[_Values], _Values]


class Sensitivity:
    """The sensitivity of a model's float tensors to its operands, sample by sample.

    Nothing is computed before :meth:`slope` is called; most samples never need it. ``source`` is
    called before the first computation; ``has_states`` is whether the graph has states.
    """

    def __init__(self, source: Callable[[], NamedGraph], has_states: bool) -> None:
        self._make = source
        self._has_states = has_states
        #: Samples since the last computation: states depend on all of them.
        self._pending: list[Sample] = []
        self._reset = True
        self._trials: list[_Trial] = []
        self._slopes: dict[str, Array] = {}

    def follow(self, sample: Sample, is_first: bool) -> None:
        """Let :meth:`slope` be about ``sample``; if ``is_first`` with all states reset, otherwise
        with those that the samples before it left.
        """
        if is_first or not self._has_states:
            self._pending, self._reset = [], True
        self._pending.append(sample)

    def slope(self, tensor: TensorInfo) -> Array | None:
        """Return the change of each element of a tensor per relative change of all operands.

        The float operands of every layer change at random, independently of each other; the result
        is the root mean square, in the tensor's units, 0 where it is not finite. Integers and what
        is computed from integers alone do not change. None for a tensor that the graph does not
        have, and for one of integers.
        """
        if self._pending:
            self._compute()
        slope = self._slopes.get(tensor.name)
        return None if slope is None else tensor.held(slope)

    @cached_property
    def _source(self) -> NamedGraph:
        return self._make()

    def _compute(self) -> None:
        if self._reset:
            graph = self._source.graph
            self._trials = [_Trial(graph, number) for number in range(1 + _TRIALS)]
        exact, *changed = self._trials
        for sample in self._pending:
            inputs = self._source.given(sample)
            unchanged = exact.run(inputs, None)
            others = [trial.run(inputs, unchanged) for trial in changed]
        self._pending, self._reset = [], False
        named = self._source.named
        trials = [named(values) for values in others]
        self._slopes = {
            name: _slope(value, [trial[name] for trial in trials])
            for name, value in named(unchanged).items()
            if value.dtype.kind == "f"
        }


def _slope(unchanged: Array, changed: list[Array]) -> Array:
    center = unchanged.astype(np.float64)
    with np.errstate(all="ignore"):
        squares = [(value.astype(np.float64) - center) ** 2 for value in changed]
        slope = np.sqrt(np.mean(squares, axis=0)) / _CHANGE
    return np.asarray(np.where(np.isfinite(slope), slope, 0.0))


class _Trial:
    """Runs of a graph, one after the other, whose float operands are changed by chance."""

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        # Not begun again with each run: as rounding, changes of a sequence do not add up one way.
        self._rng = np.random.default_rng(number)
        self._states = {state.name: graph.reset_value(state) for state in graph.states}

    def run(self, inputs: _Values, unchanged: _Values | None) -> _Values:
        """Return all values of a run; integers are those of ``unchanged``, unless it is None."""
        # Not at the top: the interpreter loads every operator.
        from hilc.interpreter import run_node

        graph = self._graph
        values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
        values.update(inputs)
        values.update(self._states)
        for node in graph.nodes:
            operands = [values[name] if name else None for name in node.inputs]
            if unchanged is None:
                values.update(zip(node.outputs, run_node(graph, node, operands), strict=True))
                continue
            kept = {t.name: unchanged[t.name] for t in graph.outs(node) if not t.element.is_real}
            if len(kept) < len(node.outputs):
                operands = [None if one is None else _changed(one, self._rng) for one in operands]
                values.update(zip(node.outputs, run_node(graph, node, operands), strict=True))
            values.update(kept)
        self._states = {state.name: values[state.after] for state in graph.states}
        return values


def _changed(operand: Array, rng: np.random.Generator) -> Array:
    """Return the floats ``operand`` with each changed up or down by the same part of it."""
    if operand.dtype.kind != "f":
        return operand
    factors = np.array([1 - _CHANGE, 1 + _CHANGE], operand.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(operand * factors[rng.integers(0, 2, operand.shape)])
