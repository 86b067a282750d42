"""Operators that keep states, against TensorFlow Lite Micro itself, over many steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from single_op import KINDS, SIGNAL_DTYPES, STATEFUL, SingleOp, random_op
from stateful import STREAMS, check_steps, samples
from tflite_builder import ModelBuilder
from tflm import needs_tflm

import hilc
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.references.tflm import TflmModel

KINDS_HERE = [kind for kind in KINDS if kind[0] in STATEFUL]
#: Of a model, and between two resets.
STEPS = 40


def singles(op: str, dtype: str, count: int) -> Iterator[SingleOp]:
    rng = np.random.default_rng(zlib.crc32(f"{op} {dtype}".encode()))
    return (random_op(rng, op, dtype) for _ in range(count))


@pytest.mark.parametrize(("op", "dtype"), KINDS_HERE)
def test_steps_equal_tflite_micro(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 8):
        check_steps(single.tflite(), STEPS)


@pytest.mark.parametrize(("op", "dtype"), KINDS_HERE)
def test_a_thousand_steps_equal_tflite_micro(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 1):
        check_steps(single.tflite(), 1000, 1)


@needs_tflm
@pytest.mark.parametrize("name", STREAMS)
def test_a_thousand_frames_of_a_stream(name: str) -> None:
    """The interpreter against TFLite Micro, and the code for this machine against both."""
    model = STREAMS[name]
    graph, reference = load_model(model), TflmModel(model)
    interpreter = Interpreter(graph)
    results = set()
    with hilc.host.load(hilc.compile(model, cpu="host", name=name)) as code:
        for frame, inputs in enumerate(samples(graph, 1000)):
            (theirs,) = reference.run(list(inputs.values()), outputs=1)
            code.set_input(0, inputs["x"])
            code.run()
            for ours in (code.get_output(0), interpreter.run(inputs)["y"]):
                np.testing.assert_array_equal(ours, theirs, f"frame {frame}")
            results.add(theirs.tobytes())
    # The stream says something.
    assert len(results) > 200


@pytest.mark.parametrize(("op", "dtype"), KINDS_HERE)
def test_models_with_states_import_as_they_were_written(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 5):
        graph = load_model(single.tflite())
        (node,) = graph.nodes
        assert node.op == op
        assert node.attrs == single.node.attrs
        assert graph.ins(node) == single.ins
        outs = [(t.shape, t.dtype, t.quant) for t in graph.outs(node)]
        assert outs == [(t.shape, t.dtype, t.quant) for t in single.outs]
        written = [(s.name, node.outputs.index(s.after)) for s in graph.states]
        assert written == [(single.ins[own].name, new) for new, own in single.states.items()]


@pytest.mark.parametrize(
    ("op", "dtype"), [kind for kind in KINDS_HERE if kind[0] not in SIGNAL_DTYPES]
)
def test_states_are_updated_where_they_lie(op: str, dtype: str) -> None:
    """No copy, and no second place for a state."""
    for single in singles(op, dtype, 3):
        library = hilc.compile(single.graph(), cpu="host")
        (layer,) = library.modules[0].layers
        states = [(a.pool, a.value) for a in layer.arguments if a.kind == "pool" and a.pool]
        assert len(states) == 2 * len(single.states)
        assert len(set(states)) == len(single.states)


@pytest.mark.parametrize(("op", "dtype"), KINDS_HERE)
def test_code_equals_the_interpreter(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 2):
        graph = single.graph()
        interpreter = Interpreter(graph)
        with hilc.host.load(hilc.compile(graph, cpu="host")) as model:
            for inputs in samples(graph, STEPS):
                for name, value in inputs.items():
                    model.set_input(name, value)
                model.run()
                expected = interpreter.run(inputs)
                for name in graph.outputs:
                    np.testing.assert_allclose(model.get_output(name), expected[name], 2e-6, 1e-30)
                for state in graph.states:
                    np.testing.assert_allclose(
                        model.state(state.name), interpreter.state(state.name), 2e-6, 1e-30
                    )


def test_two_layers_share_a_variable() -> None:
    """The second one starts from what the first has left, in the same run."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    for index in range(2):
        b.const(f"w{index}", rng.standard_normal((2, 4)).astype(np.float32))
        b.const(f"m{index}", rng.standard_normal((2, 3)).astype(np.float32))
        b.const(f"b{index}", rng.standard_normal(2).astype(np.float32))
    b.tensor("state", (1, 6), "float32", variable=True)
    for index in range(2):
        b.output(f"y{index}", (1, 2), "float32")
        operands = ("x", f"w{index}", f"m{index}", f"b{index}", "state")
        b.op("SVDF", operands, (f"y{index}",), rank=1, activation="NONE")
    check_steps(b.build(), 20)
    (state,) = load_model(b.build()).states
    assert (state.name, state.after) == ("state", "state:next_")


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("no variable", "its input 4 is 'state', which must be a variable"),
        ("absent", "it has a missing operand"),
        ("elsewhere", "reads the variable 'state', which is no state of its own"),
    ],
)
def test_variables_in_other_places_are_refused(change: str, fact: str) -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    b.const("w", np.ones((2, 4), np.float32))
    b.const("m", np.ones((2, 3), np.float32))
    b.const("b", np.ones(2, np.float32))
    b.tensor("state", (1, 6), "float32", variable=change != "no variable")
    b.output("y", (1, 2), "float32")
    if change == "elsewhere":
        b.output("z", (1, 6), "float32")
        b.op("RELU", ("state",), ("z",))
    state = "" if change == "absent" else "state"
    b.op("SVDF", ("x", "w", "m", "b", state), ("y",), rank=1, activation="NONE")
    with pytest.raises((ModelError, UnsupportedError), match=fact):
        load_model(b.build())
