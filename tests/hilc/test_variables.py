"""Variables of TFLite files (VAR_HANDLE and its kind) as states, against TFLite Micro."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import cases
from stateful import check_steps, ring_file, samples, variable
from tflite_builder import ModelBuilder
from tflm import needs_tflm

import hilc
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.transforms import run_passes


@needs_tflm
@cases("dtype", ["int8", "float32"], first=1)
@pytest.mark.parametrize("initialized", [False, True])
def test_a_thousand_steps_of_a_ring_buffer(dtype: str, initialized: bool) -> None:
    model = ring_file(dtype, initialized=initialized)
    check_steps(model, 1000, 1)
    # Once more from the beginning.
    check_steps(model, 10)


def test_an_initialized_variable_resets_to_its_value() -> None:
    graph = load_model(ring_file(initialized=True))
    (state,) = graph.states
    assert (state.name, state.after) == ("ring", "filled")
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(state.reset, rng.integers(-128, 128, (6, 8)).astype(np.int8))
    # Without, it is the real value 0.
    assert (Interpreter(load_model(ring_file(initialized=False))).state("ring") == -3).all()


def test_reading_a_variable_costs_nothing() -> None:
    graph = run_passes(load_model(ring_file(initialized=True)))
    assert [node.op for node in graph.nodes] == ["STRIDED_SLICE", "CONCATENATION", "MEAN"]
    module = hilc.compile(ring_file(initialized=True), cpu="host").modules[0]
    assert [layer.op for layer in module.layers] == ["STRIDED_SLICE", "CONCATENATION", "MEAN"]
    assert module.state_bytes == 48
    # The reset's values lie in flash.
    assert (
        module.constants_bytes
        == hilc.compile(ring_file(initialized=False), cpu="host").modules[0].constants_bytes + 48
    )


def test_code_equals_the_interpreter() -> None:
    graph = load_model(ring_file(initialized=True))
    interpreter = Interpreter(graph)
    with hilc.host.load(hilc.compile(graph, cpu="host")) as model:
        for inputs in samples(graph, 20):
            model.set_input("x", inputs["x"])
            model.run()
            np.testing.assert_array_equal(model.get_output(0), interpreter.run(inputs)["y"])


def _reads_around_a_write() -> bytes:
    """Both values of a variable in one run, by two handles; and a variable that nobody assigns."""
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    for handle in ("first", "second"):
        variable(b, handle)
    variable(b, "third", "other")
    for name in ("before", "after", "sum", "kept"):
        b.tensor(name, (1, 4), "float32")
    b.op("READ_VARIABLE", ("first",), ("before",))
    b.op("READ_VARIABLE", ("third",), ("kept",))
    b.op("ADD", ("before", "x"), ("sum",))
    b.op("ASSIGN_VARIABLE", ("second", "sum"), ())
    b.op("READ_VARIABLE", ("first",), ("after",))
    b.output("y", (1, 4), "float32")
    b.output("before")
    b.output("after")
    b.output("z", (1, 4), "float32")
    b.op("MUL", ("before", "after"), ("y",))
    b.op("ADD", ("kept", "after"), ("z",))
    return b.build()


@needs_tflm
def test_each_read_has_the_value_of_its_place() -> None:
    check_steps(_reads_around_a_write(), 20)


def test_code_reads_around_a_write() -> None:
    graph = load_model(_reads_around_a_write())
    assert [(s.name, s.after) for s in graph.states] == [("ring", "sum"), ("other", "other")]
    interpreter = Interpreter(graph)
    for io_in_pool in (False, True):
        interpreter.reset_state()
        library = hilc.compile(graph, cpu="host", io_in_pool=io_in_pool)
        with hilc.host.load(library) as model:
            for inputs in samples(graph, 5):
                model.set_input("x", inputs["x"])
                model.run()
                expected = interpreter.run(inputs)
                for name, value in expected.items():
                    np.testing.assert_array_equal(model.get_output(name), value, name)


def _spoiled(what: str) -> bytes:
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    b.output("y", (1, 4), "float32")
    variable(b, "h")
    b.const("wide", np.ones((1, 5), np.float32))
    b.tensor("sum", (1, 4), "float32")
    b.tensor("int", (1, 4), "int32")
    function = ModelBuilder()
    b.functions.append(function)
    match what:
        case "other shape":
            b.op("ASSIGN_VARIABLE", ("h", "wide"), ())
        case "other type":
            b.op("ASSIGN_VARIABLE", ("h", "int"), ())
        case "no handle":
            b.op("ASSIGN_VARIABLE", ("x", "x"), ())
        case "no such subgraph":
            b.op("CALL_ONCE", (), (), subgraph=7)
        case "calls itself":
            function.op("CALL_ONCE", (), (), subgraph=1)
            b.op("CALL_ONCE", (), (), subgraph=1)
        case "has inputs":
            function.input("z", (1, 4), "float32")
            b.op("CALL_ONCE", (), (), subgraph=1)
        case "too late" | "reads":
            variable(function, "g")
            if what == "reads":
                function.tensor("v", (1, 4), "float32")
                function.op("READ_VARIABLE", ("g",), ("v",))
            else:
                function.const("v", np.ones((1, 4), np.float32))
                b.op("ASSIGN_VARIABLE", ("h", "x"), ())
            function.op("ASSIGN_VARIABLE", ("g", "v"), ())
            b.op("CALL_ONCE", (), (), subgraph=1)
    b.op("READ_VARIABLE", ("h",), ("sum",))
    b.op("ADD", ("sum", "x"), ("y",))
    return b.build()


@pytest.mark.parametrize(
    ("what", "fact"),
    [
        ("other shape", r"'ring_?', float32\[1, 5\], has the value 'sum', float32\[1, 4\]"),
        ("other type", r"'ring_?', int32\[1, 4\], has the value 'sum', float32"),
        ("no handle", "its input 'x' is no handle of a variable"),
        ("no such subgraph", "its subgraph is number 7; the file has 2"),
        ("calls itself", "it stands in another subgraph"),
        ("has inputs", "its subgraph 1 has inputs"),
        ("too late", "initializes the variable 'ring', which was used before"),
        ("reads", "does not give the variable 'ring' a value that depends on constants alone"),
    ],
)
def test_what_is_no_use_of_a_variable_is_refused(what: str, fact: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=fact):
        load_model(_spoiled(what))
