"""Operators that keep states, against TensorFlow Lite Micro itself, over many steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import pytest
from campaigns import cases, sampled
from flatbuffers import flexbuffers
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
#: The first type of each operator.
ONE_OF_EACH = list({op: (op, dtype) for op, dtype in reversed(KINDS_HERE)}.values())
#: Of a model, and between two resets.
STEPS = 40


def singles(op: str, dtype: str, count: int) -> Iterator[SingleOp]:
    rng = np.random.default_rng(zlib.crc32(f"{op} {dtype}".encode()))
    return (random_op(rng, op, dtype) for _ in range(count))


@cases(("op", "dtype"), KINDS_HERE, first=3)
def test_steps_equal_tflite_micro(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 8):
        check_steps(single.tflite(), STEPS)


@pytest.mark.parametrize(("op", "dtype"), sampled(KINDS_HERE, keep=ONE_OF_EACH))
def test_a_thousand_steps_equal_tflite_micro(op: str, dtype: str) -> None:
    for single in singles(op, dtype, 1):
        check_steps(single.tflite(), 1000, 1)


@needs_tflm
@pytest.mark.parametrize("name", sampled(STREAMS, keep=["lstm", "ring"]))
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
def test_models_with_states_import_unchanged(op: str, dtype: str) -> None:
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


#: What they keep is no output of the model, where it would need a place of its own.
_IN_PLACE = [k for k in KINDS_HERE if k[0] not in (*SIGNAL_DTYPES, "CIRCULAR_BUFFER")]


@pytest.mark.parametrize(("op", "dtype"), _IN_PLACE)
def test_states_are_updated_where_they_lie(op: str, dtype: str) -> None:
    """No copy, and no second place for a state."""
    for single in singles(op, dtype, 3):
        library = hilc.compile(single.graph(), cpu="host")
        (layer,) = library.modules[0].layers
        states = [(a.pool, a.value) for a in layer.arguments if a.kind == "pool" and a.pool]
        assert len(states) == 2 * len(single.states)
        assert len(set(states)) == len(single.states)


@cases(("op", "dtype"), KINDS_HERE, first=3)
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


@pytest.mark.parametrize("name", STREAMS)
def test_operators_are_numbered_as_in_the_file(name: str) -> None:
    """Also those with variables, since messages name them so."""
    indices = [node.index for node in load_model(STREAMS[name]).nodes]
    assert indices == sorted(indices)
    assert indices[0] < 4
    assert indices[-1] < 8


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


def convolution_over_time(options: dict[str, int], *, slots: int = 4, variable: bool) -> bytes:
    """The last rows that came, and a convolution over them."""
    rng = np.random.default_rng(4)
    b = ModelBuilder()
    b.input("x", (1, 1, 2, 3), "int8", 0.05, 7)
    b.tensor("rows", (1, slots, 2, 3), "int8", 0.05, 7, variable=variable)
    b.op(
        "CUSTOM", ("x",), ("rows",), custom_code="CIRCULAR_BUFFER",
        custom_options=bytes(flexbuffers.Dumps(options)) if options else b"",
    )  # fmt: skip
    b.const("w", rng.integers(-127, 128, (5, slots, 2, 3)).astype(np.int8), 0.01)
    b.output("y", (1, 1, 1, 5), "int8", 0.2, -1)
    b.op("CONV_2D", ("rows", "w"), ("y",), padding="VALID", stride_h=1, stride_w=1,
         dilation_h=1, dilation_w=1)  # fmt: skip
    return b.build()


def buffer_of(row: int, variable: bool) -> bytes:
    b = ModelBuilder()
    b.input("x", (1, 1, 3, row), "int8", 0.05, 7)
    b.tensor("y", (1, 4, 3, row), "int8", 0.05, 7, variable=variable)
    b.output("y")
    options = bytes(flexbuffers.Dumps({"cycles_max": 1}))
    b.op("CUSTOM", ("x",), ("y",), custom_code="CIRCULAR_BUFFER", custom_options=options)
    return b.build()


@pytest.mark.parametrize("variable", [False, True])
def test_a_memory_too_large_is_not_filled(variable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(shape: tuple[int, ...], *_: object) -> NoReturn:
        pytest.fail(f"it fills an array of {shape}")

    load_model(buffer_of(5, variable))
    monkeypatch.setattr(np, "full", full)
    with pytest.raises(ModelError, match=r"takes 25719472128 bytes, more than the 67108864"):
        load_model(buffer_of(2143289344, variable))


@needs_tflm
@cases("variable", [False, True], first=1)
@pytest.mark.parametrize(("options", "slots"), [({"cycles_max": 1}, 4), ({}, 5)])
def test_a_circular_buffer_is_where_its_rows_are(
    options: dict[str, int], slots: int, variable: bool
) -> None:
    """No copy; what did not come yet is as in TFLite Micro."""
    model = convolution_over_time(options, slots=slots, variable=variable)
    check_steps(model, 20)
    library = hilc.compile(model, cpu="host")
    buffer, _ = library.modules[0].layers
    assert len({(a.pool, a.value) for a in buffer.arguments if a.kind == "pool" and a.pool}) == 1
    interpreter = Interpreter(load_model(model))
    with hilc.host.load(library) as code:
        for inputs in samples(load_model(model), 10):
            code.set_input("x", inputs["x"])
            code.run()
            np.testing.assert_array_equal(code.get_output("y"), interpreter.run(inputs)["y"])


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"cycles_max": 2}, r"2 cycles_max \(supported: 1\)"),
        ({}, r"no number for cycles_max \(supported: 1\)"),
    ],
)
def test_a_circular_buffer_that_ends_runs_is_refused(options: dict[str, int], fact: str) -> None:
    with pytest.raises(UnsupportedError, match=fact):
        load_model(convolution_over_time(options, variable=False))
