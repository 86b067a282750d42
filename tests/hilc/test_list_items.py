"""Lists that a loop fills, as TensorFlow's converter writes those of Keras's recurrent layers."""

from __future__ import annotations

import litert_ref
import numpy as np
import pytest
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run

STEPS, WIDTH = 5, 3


def _function(dtype: str) -> ModelBuilder:
    f = ModelBuilder()
    f.input("i", (), "int32")
    f.input("list", (STEPS, 1, WIDTH), dtype)
    f.input("state", (1, WIDTH), dtype)
    f.input("x", (STEPS, 1, WIDTH), dtype)
    return f


def _assignment(f: ModelBuilder, dtype: str, *, behind: int) -> None:
    """Assign the state to entry ``i`` by parts, the last of which begins ``behind`` entries on."""
    for name, values in (
        ("one", 1), ("step", behind), ("single", [1]), ("rest", [-1, -1]), ("zeros", [0, 0]),
        ("start", [0, 0, 0]), ("all", [-1, -1, -1]), ("entry shape", [1, 1, WIDTH]),
    ):  # fmt: skip
        f.const(name, np.array(values, np.int32))
    for name in ("i + 1", "next"):
        f.tensor(name, (), "int32")
    for name in ("i, ", "i + 1, "):
        f.tensor(name, (1,), "int32")
    for name in ("size", "begin"):
        f.tensor(name, (3,), "int32")
    for name in ("before", "after"):
        f.tensor(name, (1, 1, WIDTH), dtype, signature=(-1, 1, WIDTH))
    f.tensor("entry", (1, 1, WIDTH), dtype)
    f.tensor("filled", (STEPS, 1, WIDTH), dtype)
    f.op("ADD", ("i", "one"), ("next",))
    f.op("ADD", ("i", "step"), ("i + 1",))
    f.op("RESHAPE", ("i", "single"), ("i, ",))
    f.op("CONCATENATION", ("i, ", "rest"), ("size",), axis=0)
    f.op("SLICE", ("list", "start", "size"), ("before",))
    f.op("RESHAPE", ("i + 1", "single"), ("i + 1, ",))
    f.op("CONCATENATION", ("i + 1, ", "zeros"), ("begin",), axis=0)
    f.op("SLICE", ("list", "begin", "all"), ("after",))
    f.op("RESHAPE", ("new state", "entry shape"), ("entry",))
    f.op("CONCATENATION", ("before", "entry", "after"), ("filled",), axis=0)


def file(dtype: str, behind: int = 1) -> bytes:
    """Return running sums of the entries of ``x``, which a loop collects in a list."""
    condition, body = _function(dtype), _function(dtype)
    condition.const("limit", np.array(STEPS, np.int32))
    condition.output("goes on", (), "bool")
    condition.op("LESS", ("i", "limit"), ("goes on",))
    for name in ("item", "new state"):
        body.tensor(name, (1, WIDTH), dtype)
    body.op("GATHER", ("x", "i"), ("item",))
    body.op("ADD", ("item", "state"), ("new state",))
    _assignment(body, dtype, behind=behind)
    for name in ("next", "filled", "new state", "x"):
        body.output(name)
    b = ModelBuilder()
    b.functions += [condition, body]
    b.input("x", (STEPS, 1, WIDTH), dtype)
    b.const("first", np.array(0, np.int32))
    b.const("empty", np.zeros((STEPS, 1, WIDTH), dtype))
    b.const("start", np.zeros((1, WIDTH), dtype))
    b.tensor("turns", (), "int32")
    b.output("y", (STEPS, 1, WIDTH), dtype)
    b.tensor("last", (1, WIDTH), dtype)
    b.tensor("same", (STEPS, 1, WIDTH), dtype)
    b.op("WHILE", ("first", "empty", "start", "x"), ("turns", "y", "last", "same"),
         condition=1, body=2)  # fmt: skip
    return b.build()


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@litert_ref.needs_litert_ref
def test_a_list_filled_by_a_loop(dtype: str) -> None:
    data = file(dtype)
    graph = load_model(data)
    x = {"x": np.random.default_rng(2).integers(-9, 9, (STEPS, 1, WIDTH)).astype(dtype)}
    expected = litert_ref.reference(graph, data).run_all(x)["y"]
    np.testing.assert_array_equal(run(graph, x)["y"], expected)
    np.testing.assert_array_equal(expected, np.cumsum(x["x"], axis=0))
    with hilc.host.load(hilc.compile(data, cpu="host", reference="litert-ref")) as here:
        here.set_input("x", x["x"])
        here.run()
        np.testing.assert_array_equal(here.get_output(0), expected)


def test_parts_that_do_not_meet() -> None:
    """An entry fewer is left: that is no assignment."""
    with pytest.raises(UnsupportedError, match="only known at run time"):
        load_model(file("float32", behind=2))
