"""Each operator that onnxruntime's ``quantize_static`` quantizes, in every type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx.reference import ReferenceEvaluator
from static_layers import LAYERS, quantized, samples

import hilc
from hilc import host
from hilc.frontends import read_model
from hilc.interpreter import run
from hilc.transforms import run_passes
from hilc.transforms.fuse_quantized import fuse_quantized

onnxruntime: Any = pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")

#: Types of activations and weights, and more options of the quantizer.
TYPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "int8": ("int8", "int8", {}),
    "uint8": ("uint8", "uint8", {}),
    "int16": ("int16", "int8", {}),
    "uint16": ("uint16", "uint8", {}),
    "uint8 with int8": ("uint8", "int8", {}),
    "channels": ("int8", "int8", {"per_channel": True}),
    "channels of uint8": ("uint8", "uint8", {"per_channel": True}),
    "weights of 7 bits": ("uint8", "uint8", {"reduce_range": True}),
    "symmetric uint8": (
        *("uint8", "uint8"),
        {"extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}},
    ),
    "int4": ("int8", "int4", {}),
    "uint4": ("uint8", "uint4", {}),
    "weights of int16": ("int16", "int16", {}),
    "operators on integers": ("uint8", "uint8", {"form": "QOperator"}),
    "operators on int8": ("int8", "int8", {"form": "QOperator"}),
}
#: Those of weights alone.
OF_WEIGHTS = ("channels", "channels of uint8", "int4", "uint4", "weights of int16")
#: Operators that have no integer form; a model with them needs ``allow_float``.
IN_FLOATS = ("BatchNormalization",)


def steps_of(model: onnx.ModelProto) -> dict[str, float]:
    """The steps of the outputs that are dequantized."""
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {
        node.output[0]: float(values[node.input[1]].reshape(-1)[0])
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and values[node.input[1]].size == 1
    }


@cases("types", TYPES, first=1)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_those_of_onnxruntime(name: str, types: str) -> None:
    """Within a step of the output, as floats round where integers do not."""
    layer, (activations, weights, options) = LAYERS[name], TYPES[types]
    if types in OF_WEIGHTS and not layer.has_channels:
        return
    data = quantized(layer, activations, weights, **options)
    model = onnx.load_from_string(data)
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions: list[Any] = [onnxruntime.InferenceSession(data, plain)]
    if not any(node.domain for node in model.graph.node):
        sessions.append(ReferenceEvaluator(model))
    read = read_model(data, "net")
    fused = fuse_quantized(read.graph, read.dequantized)
    if activations in ("int8", "uint8") and name not in IN_FLOATS:
        assert fused.float_layers == ()
    graph, steps, pairs = run_passes(fused.graph), steps_of(model), []
    for inputs in samples(layer):
        found = run(graph, {given: inputs[given] for given in graph.inputs})
        for session in sessions:
            for output, expected in zip(graph.outputs, session.run(None, inputs), strict=True):
                step = steps.get(output, 1e-5 * max(1, np.abs(expected).max()))
                assert np.abs(found[output].astype(np.float64) - expected).max() <= 1.01 * step
        pairs.append((inputs, found))
    with host.load(hilc.compile(data, allow_float=True)) as loaded:
        for inputs, found in pairs:
            for given in graph.inputs:
                loaded.set_input(given, inputs[given])
            loaded.run()
            for output in graph.outputs:
                np.testing.assert_allclose(loaded.get_output(output), found[output], 1e-6, 1e-6)
