"""InstanceNormalization and GroupNormalization of quantized ONNX models, on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import hilc
from hilc import host
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array
from hilc.references import get_reference

SHAPE = (2, 6, 5, 4)


def model(op: str, count: int, dtype: str = "", **attributes: Any) -> bytes:
    """A normalization of floats, or with ``dtype`` between integers of that type."""
    rng = np.random.default_rng(count)
    constants = {
        "scale": rng.standard_normal(count).astype(np.float32),
        "bias": rng.standard_normal(count).astype(np.float32),
    }
    nodes = [helper.make_node(op, ["x", "scale", "bias"], ["y"], **attributes)]
    if dtype:
        constants |= {
            "q_scale": np.array(0.03, np.float32),
            "q_zero": np.array(0 if dtype == "int16" else 7, dtype),
        }
        parameters = ["q_scale", "q_zero"]
        nodes[0].input[0], nodes[0].output[0] = "real", "made"
        nodes = [
            helper.make_node("QuantizeLinear", ["x", *parameters], ["q"]),
            helper.make_node("DequantizeLinear", ["q", *parameters], ["real"]),
            *nodes,
            helper.make_node("QuantizeLinear", ["made", *parameters], ["out"]),
            helper.make_node("DequantizeLinear", ["out", *parameters], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, SHAPE)],
        [helper.make_tensor_value_info("y", 1, SHAPE)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    data: bytes = made.SerializeToString()
    return data


FORMS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "instance": ("InstanceNormalization", 6, {"epsilon": 0.01}),
    "groups": ("GroupNormalization", 6, {"num_groups": 3}),
    "one group": ("GroupNormalization", 6, {"num_groups": 1}),
}


def samples() -> list[Array]:
    rng = np.random.default_rng(1)
    drawn = [rng.standard_normal(SHAPE).astype(np.float32) * scale for scale in (1, 0.05, 40)]
    return [*drawn, np.zeros(SHAPE, np.float32)]


def check_code(data: bytes, pairs: list[tuple[Array, Array]], tolerance: float) -> None:
    with host.load(hilc.compile(data)) as loaded:
        for x, y in pairs:
            loaded.set_input(0, x)
            loaded.run()
            np.testing.assert_allclose(loaded.get_output(0), y, rtol=0, atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_floats_are_those_of_onnx(form: str) -> None:
    op, count, attributes = FORMS[form]
    data = model(op, count, **attributes)
    evaluator = ReferenceEvaluator(onnx.load_from_string(data))
    graph, pairs = load_model(data), []
    assert [node.op for node in graph.nodes] == ["GROUP_NORMALIZATION"]
    for x in samples():
        (expected,) = evaluator.run(None, {"x": x})
        np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-4, atol=2e-5)
        pairs.append((x, run(graph, {"x": x})["y"]))
    check_code(data, pairs, 1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("form", FORMS)
def test_integers_are_within_a_step(form: str, dtype: str) -> None:
    """Of onnx.reference, which rounds sums of floats; and those of generated C are equal."""
    op, count, attributes = FORMS[form]
    data = model(op, count, dtype, **attributes)
    library = hilc.compile(data)
    assert not library.modules[0].float_layers
    assert "GROUP_NORMALIZATION" in {layer.op for layer in library.modules[0].layers}
    reference = get_reference("qdq", load_model(data), data)
    evaluator = ReferenceEvaluator(onnx.load_from_string(data))
    pairs = []
    for x in samples():
        made = reference.run_all({"x": x})["y"]
        steps = np.abs(made - evaluator.run(None, {"x": x})[0]) / np.float32(0.03)
        assert steps.max() < 1.5
        assert (steps > 0.5).mean() < 0.02
        pairs.append((x, made))
    check_code(data, pairs, 0)
