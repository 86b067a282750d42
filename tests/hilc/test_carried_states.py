"""States of graphs that IF and WHILE call: against TFLite Micro, and in code for this machine."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import cases
from carried_states import FILES, exchanged_handles_file
from stateful import samples
from tflm import needs_tflm

import hilc
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph
from hilc.references.tflm import TflmModel

RUNS = 24


def steps(graph: Graph, seed: int = 0) -> list[dict[str, Array]]:
    """Random values; loops begin at a few turns before their end, or behind it."""
    found = samples(graph, RUNS, seed)
    for index, values in enumerate(found):
        if "start" in values:
            values["start"] = np.array(index % 8 - 1, np.int32)
    return found


@needs_tflm
@pytest.mark.parametrize("name", FILES)
def test_steps_equal_tflite_micro(name: str) -> None:
    graph, reference = load_model(FILES[name]), TflmModel(FILES[name])
    assert graph.states
    interpreter, seen = Interpreter(graph), set()
    for turn in range(2):
        for values in steps(graph, turn):
            expected = reference.run([values[n] for n in graph.inputs], outputs=len(graph.outputs))
            got = interpreter.run(values)
            for output, theirs in zip(graph.outputs, expected, strict=True):
                np.testing.assert_array_equal(got[output], theirs.reshape(got[output].shape))
            seen.add(got[graph.outputs[-1]].tobytes())
        # From the beginning again.
        interpreter.reset_state()
        reference.reset()
    assert len(seen) > RUNS // 2


@cases("api", ["unpacked", "packed"], first=1)
@cases("name", FILES, first=2)
def test_code_equals_the_interpreter(name: str, api: str) -> None:
    graph = load_model(FILES[name])
    interpreter = Interpreter(graph)
    interface = "c" if api == "unpacked" else "packed"
    library = hilc.compile(graph, cpu="host", api=api, interface=interface)
    assert library.modules[0].state_bytes == sum(
        -(-graph.tensors[state.name].nbytes // 16) * 16 for state in graph.states
    )
    with hilc.host.load(library) as model:
        for values in steps(graph)[:12]:
            for input_name, value in values.items():
                model.set_input(input_name, value)
            model.run()
            expected = interpreter.run(values)
            for output in graph.outputs:
                np.testing.assert_array_equal(model.get_output(output), expected[output])
        for state in graph.states:
            np.testing.assert_array_equal(model.state(state.name), interpreter.state(state.name))
        model.reset_state()
        for state in graph.states:
            np.testing.assert_array_equal(model.state(state.name), graph.reset_value(state))


def test_a_state_that_no_branch_updates_is_not_given() -> None:
    """The branch that reads it takes it; nothing is copied behind the run."""
    graph = load_model(FILES["chosen_sum"])
    (choice,) = [node for node in graph.nodes if node.op == "IF"]
    assert choice.outputs == ("chosen", "sum:next")
    loop = load_model(FILES["condition"]).nodes[0]
    condition = loop.attrs.condition  # type: ignore[attr-defined]
    # The bool, and the one variable that it updates.
    assert len(condition.outputs) == 2
    assert len(loop.outputs) == 4


def test_handles_that_depend_on_values_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="handle of a variable that depends on values"):
        load_model(exchanged_handles_file())
