"""Tensors whose scale vanishes: constants of zeros, against TFLite Micro."""

from __future__ import annotations

import numpy as np
import pytest
import tflm
from tflite_builder import ModelBuilder

import hilc
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array
from hilc.ops.operands import LEAST_SCALE

_SCALES = (0.0, 3.6e-43, 1e-39)


def split_activation(scale: float, dtype: str = "int16") -> bytes:
    """``relu(x) + slopes * relu(-x)``, as Keras writes PRELU, where -x was never above zero."""
    b, shape = ModelBuilder(), (1, 6)
    b.input("x", shape, dtype, 0.001, 0)
    b.input("z", shape, dtype, 0.001, 0)
    b.const("slopes", np.arange(1, 7).astype(dtype), 0.02, 0)
    b.tensor("below", shape, dtype, scale, 0)
    b.tensor("scaled", shape, dtype, 0.001, 0)
    b.tensor("above", shape, dtype, 0.001, 0)
    b.output("y", shape, dtype, 0.001, 0)
    b.op("RELU", ("z",), ("below",))
    b.op("MUL", ("below", "slopes"), ("scaled",))
    b.op("RELU", ("x",), ("above",))
    b.op("ADD", ("above", "scaled"), ("y",))
    return b.build()


def values() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {name: rng.integers(-9000, 9000, (1, 6)).astype(np.int16) for name in ("x", "z")}


@tflm.needs_tflm
@pytest.mark.parametrize("scale", _SCALES[1:])
def test_what_is_behind_equals_tflite_micro(scale: float) -> None:
    model, inputs = split_activation(scale), values()
    graph = load_model(model)
    # What computes the zeros is gone.
    assert "below" not in {name for node in graph.nodes for name in node.outputs}
    ours, theirs = run(graph, inputs), tflm.run(model, inputs)
    np.testing.assert_array_equal(ours["y"], theirs["y"])
    np.testing.assert_array_equal(ours["y"], np.maximum(inputs["x"], 0))


@pytest.mark.parametrize("scale", _SCALES)
def test_code_equals_the_interpreter(scale: float) -> None:
    graph, inputs = load_model(split_activation(scale)), values()
    assert graph.tensors["below"].quant.scale == (LEAST_SCALE,)  # type: ignore[union-attr]
    with hilc.host.load(hilc.compile(graph, cpu="host")) as model:
        for name, value in inputs.items():
            model.set_input(name, value)
        model.run()
        np.testing.assert_array_equal(model.get_output("y"), run(graph, inputs)["y"])


def test_scales_that_do_not_vanish_are_no_zeros() -> None:
    with pytest.raises(UnsupportedError, match="'below' has a factor of 5e.26"):
        load_model(split_activation(2e-30, "int8"))


@pytest.mark.parametrize("border", ["input", "output"])
def test_inputs_and_outputs_keep_their_scale(border: str) -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", 0.0 if border == "input" else 0.1, 0)
    b.output("y", (1, 4), "int8", 0.0 if border == "output" else 0.1, 0)
    b.op("RELU", ("x",), ("y",))
    with pytest.raises(ModelError, match=r"with scale 0\.0"):
        load_model(b.build())
