"""PRelu of quantized ONNX models whose slopes are floats."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import hilc
from hilc import host
from hilc.frontends import load_model
from hilc.references import get_reference


def model(slopes: int, dtype: str) -> bytes:
    rng = np.random.default_rng(slopes)
    constants = {
        "slopes": rng.standard_normal((slopes, 1, 1)).astype(np.float32),
        "x_scale": np.array(0.05, np.float32),
        "y_scale": np.array(0.07, np.float32),
        "zero": np.array(9, dtype),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "x_scale", "zero"], ["real"]),
        helper.make_node("PRelu", ["real", "slopes"], ["made"]),
        helper.make_node("QuantizeLinear", ["made", "y_scale", "zero"], ["out"]),
        helper.make_node("DequantizeLinear", ["out", "y_scale", "zero"], ["y"]),
    ]
    shape = (1, 5, 6, 7)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("slopes", [1, 5])
def test_slopes_of_floats_take_integers(slopes: int, dtype: str) -> None:
    """Outputs equal those of onnx.reference but for ties of numbers that it rounded before."""
    data = model(slopes, dtype)
    library = hilc.compile(data)
    assert not library.modules[0].float_layers
    reference = get_reference("qdq", load_model(data), data)
    evaluator = ReferenceEvaluator(onnx.load_from_string(data))
    rng = np.random.default_rng(2)
    with host.load(library) as loaded:
        for scale in (1, 5, 30):
            x = (rng.standard_normal((1, 5, 6, 7)) * scale).astype(np.float32)
            expected = reference.run_all({"x": x})["y"]
            steps = np.abs(expected - evaluator.run(None, {"x": x})[0]) / np.float32(0.07)
            assert steps.max() < 1.5
            assert (steps > 0.5).mean() < 0.03
            loaded.set_input(0, x)
            loaded.run()
            np.testing.assert_array_equal(loaded.get_output(0), expected)
