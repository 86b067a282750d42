"""How far the float results of a model move if the numbers that it computes with move a little.

Where large terms cancel, rounding is large relative to the result, and correct programs that add in
another order differ. Rounding equals a small relative change of the operands; what such a change
does is measured here, with this compiler's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hil.verify.samples import Sample
from hilc.artifact.library import TensorInfo
from hilc.errors import HilError
from hilc.ir import Array, Graph, Node

#: Relative change of every float operand in a trial. It is far larger than the rounding of float32,
#: so that a trial measures a slope: a step of a function that rounds or compares then allows less
#: than 1 % of its height.
_CHANGE = 2.0**-10
#: Pairs of trials: each pair draws the signs of the changes, and takes these and their opposites.
#: Half of the difference is the slope without what is of second order: near its minimum a square
#: does not change by rounding, but by a change as large as that of a trial. With four pairs, the
#: root mean square is less than a tenth of its expectation in one case of 5,000.
_PAIRS = 4

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
        self._exact: _Trial | None = None
        self._pairs: list[tuple[_Trial, _Trial]] = []
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

        The float operands of every layer change at random, independently of each other, and so do
        the terms that an operator adds inside; the result is the root mean square, in the tensor's
        units, 0 where it is not finite. Integers and what is computed from integers alone do not
        change, nor does the number of iterations of a loop. None for a tensor that the graph does
        not have, for one of integers, and where the interpreter cannot compute the sample.
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
            self._exact = _Trial(graph, 0, 0)
            self._pairs = [
                (_Trial(graph, number, 1), _Trial(graph, number, -1)) for number in range(_PAIRS)
            ]
        pending, self._pending, self._reset = self._pending, [], False
        self._slopes = {}
        if self._exact is None:
            return
        try:
            for sample in pending:
                inputs = self._source.given(sample)
                integers: list[dict[str, Array]] = []
                unchanged = self._exact.run(inputs, integers)
                pairs = [
                    (one.run(inputs, integers), other.run(inputs, integers))
                    for one, other in self._pairs
                ]
        except HilError:
            # States of the samples that follow are not known either.
            self._exact = None
            return
        named = self._source.named
        trials = [(named(one), named(other)) for one, other in pairs]
        self._slopes = {
            name: _slope(value, [(one[name], other[name]) for one, other in trials])
            for name, value in named(unchanged).items()
            if value.dtype.kind == "f"
        }


def _slope(unchanged: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """Return the root mean square of half the differences, per change. Where one change of a pair
    leaves the domain of a function, such as that of a logarithm, the other one's difference from
    the unchanged value counts.
    """
    exact = unchanged.astype(np.float64)
    squares, known = np.zeros(exact.shape), np.zeros(exact.shape)
    with np.errstate(all="ignore"):
        for pair in pairs:
            one, other = (values.astype(np.float64) for values in pair)
            aside = np.where(np.isnan(one), other, one) - exact
            found = np.where(np.isnan(one) | np.isnan(other), aside, (one - other) / 2)
            squares += np.where(np.isnan(found), 0, np.square(found))
            known += ~np.isnan(found)
        slope = np.sqrt(squares / np.maximum(known, 1)) / _CHANGE
    return np.asarray(np.where(np.isfinite(slope), slope, 0.0))


def _appended(new: list[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    while True:
        new.append({})
        yield new[-1]


class _Trial:
    """Runs of a graph, one after the other, whose float operands are changed by chance.

    Those of the same ``number`` in the ``direction`` 1 and -1 have opposite changes; in 0 none.
    """

    def __init__(self, graph: Graph, number: int, direction: int) -> None:
        self._graph = graph
        self._change = direction * _CHANGE
        # Not begun again with each run: as rounding, changes of a sequence do not add up one way.
        self._rng = np.random.default_rng(number)
        self._states = {state.name: graph.reset_value(state) for state in graph.states}
        #: Those of the graphs that the current run has yet to begin.
        self._integers: Iterator[dict[str, Array]] = iter(())

    def run(self, inputs: _Values, integers: list[dict[str, Array]]) -> dict[str, Array]:
        """Return all values of a run.

        ``integers`` has those of each graph that runs, in the order of the calls. A run without
        changes appends them; the others read them, and so take the same branches.
        """
        self._integers = iter(integers) if self._change else _appended(integers)
        values = self._values(self._graph, {**inputs, **self._states})
        self._states = {state.name: values[state.after] for state in self._graph.states}
        return values

    def _values(self, graph: Graph, given: _Values) -> dict[str, Array]:
        # Not at the top: the interpreter loads every operator.
        from hilc.ops import OPS

        integers = next(self._integers)
        values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
        values.update(given)
        for node in graph.nodes:
            is_known = bool(self._change) and integers.keys() >= set(node.outputs)
            if is_known and not OPS[node.op].runs_graphs:
                values.update((name, integers[name]) for name in node.outputs)
                continue
            operands = [values[name] if name else None for name in node.inputs]
            outs = graph.outs(node)
            for tensor, result in zip(outs, self._results(graph, node, operands), strict=True):
                is_real = tensor.element.is_real
                values[tensor.name] = (
                    result if is_real else integers.setdefault(tensor.name, result)
                )
        return values

    def _results(self, graph: Graph, node: Node, operands: Sequence[Array | None]) -> list[Array]:
        from hilc.interpreter import run_node
        from hilc.ops import OPS

        op = OPS[node.op]
        if not op.runs_graphs:
            # The layers of a called graph change their operands themselves.
            operands = [None if one is None else self._changed(one) for one in operands]
        results = run_node(graph, node, operands, self._run_graph)
        first = operands[0] if operands else None
        if op.inner_terms is not None and first is not None and first.dtype.kind == "f":
            terms = op.inner_terms(first)
            results[0] = results[0] + (self._changed(terms) - terms)
        return results

    def _run_graph(self, graph: Graph, operands: Sequence[Array | None]) -> list[Array]:
        given = zip(graph.inputs, operands, strict=True)
        values = self._values(graph, {name: one for name, one in given if one is not None})
        return [values[name] for name in graph.outputs]

    def _changed(self, operand: Array) -> Array:
        """Return the floats ``operand`` with each changed up or down by the same part of it."""
        if operand.dtype.kind != "f" or not self._change:
            return operand
        factors = np.array([1 - self._change, 1 + self._change], operand.dtype)
        with np.errstate(all="ignore"):
            return np.asarray(operand * factors[self._rng.integers(0, 2, operand.shape)])
