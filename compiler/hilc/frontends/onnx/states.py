"""States of ONNX models, which the format has no word for: metadata pair an input and an output.

The entry ``hil.state:INPUT`` of a model's metadata names the output that is the input's value in
the next run. The input's initializer is its value after a reset; without one that is zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper

from hilc.errors import ModelError
from hilc.ir import Array, Graph, State

_PREFIX = "hil.state:"


def state_metadata(states: Mapping[str, str]) -> list[onnx.StringStringEntryProto]:
    """Return the entries for states: names of outputs by names of inputs."""
    return [
        onnx.StringStringEntryProto(key=f"{_PREFIX}{before}", value=after)
        for before, after in states.items()
    ]


def states_of(model: onnx.ModelProto) -> dict[str, str]:
    """Return the states of a model: names of outputs by names of inputs.

    Raise :class:`~hilc.errors.ModelError` for entries that name no input or no output, or an
    output twice.
    """
    inputs = {value.name for value in model.graph.input}
    outputs = {value.name for value in model.graph.output}
    states: dict[str, str] = {}
    for entry in model.metadata_props:
        if not entry.key.startswith(_PREFIX):
            continue
        before, after = entry.key.removeprefix(_PREFIX), entry.value
        if before not in inputs or after not in outputs or after in states.values():
            raise ModelError(
                f"the model's metadata {entry.key!r} = {after!r} name no input and an output of "
                "its own",
                f"write {_PREFIX}INPUT with the name of an output that no other state has",
            )
        states[before] = after
    return states


def reset_values(graph: onnx.GraphProto, states: Mapping[str, str]) -> dict[str, Array]:
    """Return the values after a reset of the states that have an initializer."""
    return {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.name in states}


def with_states(graph: Graph, states: Mapping[str, str], source: onnx.GraphProto) -> Graph:
    """Return a graph with the paired inputs and outputs replaced by states.

    Raise :class:`~hilc.errors.ModelError` if a state's values before, after and at reset differ in
    type or shape.
    """
    resets = reset_values(source, states)
    for before, after in states.items():
        old, new = graph.tensors[before], graph.tensors[after]
        reset = resets.get(before)
        value = (old.dtype, old.shape) if reset is None else (reset.dtype.name, reset.shape)
        if not (old.dtype, old.shape) == (new.dtype, new.shape) == value:
            raise ModelError(
                f"the state {before!r} is {old.dtype}{list(old.shape)}, its value after a run "
                f"{new.dtype}{list(new.shape)}, and after a reset {value[0]}{list(value[1])}",
                "give all of them one type and shape",
            )
    return graph.with_(
        inputs=tuple(name for name in graph.inputs if name not in states),
        outputs=tuple(name for name in graph.outputs if name not in states.values()),
        states=tuple(State(before, after, resets.get(before)) for before, after in states.items()),
    )
