"""The interpreter against TFLite on whole models: every tensor, real and random inputs."""

from __future__ import annotations

from typing import Protocol

import litert_ref
import numpy as np
import pytest
import tflm
from models import FLOAT_MODELS, INT8_MODELS, model_path, samples
from small_models import SMALL_MODELS

from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Graph, Numerics
from hilc.references import Reference
from hilc.transforms import run_passes

_RELATIVE_TOLERANCE = 1e-5


class Judge(Protocol):
    """A module of tests that makes a reference for a model's file."""

    numerics: Numerics

    def reference(self, graph: Graph, model: bytes) -> Reference: ...


both = pytest.mark.parametrize(
    "judge",
    [
        pytest.param(tflm, marks=tflm.needs_tflm, id="tflm"),
        pytest.param(litert_ref, marks=litert_ref.needs_litert_ref, id="litert-ref"),
    ],
)


@both
@pytest.mark.parametrize("short_name", INT8_MODELS)
def test_every_tensor_of_an_int8_model_is_byte_exact(short_name: str, judge: Judge) -> None:
    path = model_path(short_name)
    graph = run_passes(load_model(path))
    reference = judge.reference(graph, path.read_bytes())
    for x in samples(short_name, 6, seed=1):
        inputs = {graph.inputs[0]: x}
        computed, expected = run_all(graph, inputs), reference.run_all(inputs)
        for node in graph.nodes:
            assert computed[node.name].dtype == expected[node.name].dtype
            np.testing.assert_array_equal(computed[node.name], expected[node.name], node.name)


@both
@pytest.mark.parametrize("short_name", FLOAT_MODELS)
def test_every_tensor_of_a_float_model_is_close(short_name: str, judge: Judge) -> None:
    path = model_path(short_name)
    graph = run_passes(load_model(path))
    reference = judge.reference(graph, path.read_bytes())
    for x in samples(short_name, 4, seed=2):
        inputs = {graph.inputs[0]: x}
        computed, expected = run_all(graph, inputs), reference.run_all(inputs)
        for node in graph.nodes:
            largest = np.abs(expected[node.name]).max()
            np.testing.assert_allclose(
                computed[node.name],
                expected[node.name],
                rtol=_RELATIVE_TOLERANCE,
                atol=_RELATIVE_TOLERANCE * largest,
                err_msg=node.name,
            )


@both
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_small_models_after_all_passes(name: str, judge: Judge) -> None:
    data = SMALL_MODELS[name]()
    if name == "floats" and judge is tflm:
        with pytest.raises(ModelError, match="Node DEQUANTIZE"):  # of float16
            judge.reference(load_model(data), data)
        return
    graph = run_passes(load_model(data, numerics=judge.numerics))
    reference = judge.reference(graph, data)
    rng = np.random.default_rng(3)
    for _ in range(20):
        inputs = {
            t.name: rng.integers(-128, 128, t.shape).astype(t.dtype)
            for t in (graph.tensors[name] for name in graph.inputs)
        }
        computed, expected = run_all(graph, inputs), reference.run_all(inputs)
        for node in graph.nodes:
            tolerance = _RELATIVE_TOLERANCE if computed[node.name].dtype == np.float32 else 0
            np.testing.assert_allclose(
                computed[node.name], expected[node.name], rtol=tolerance, err_msg=node.name
            )


def test_inputs_are_not_degenerate() -> None:
    """A model that answers every input alike would hide an error in any layer."""
    for short_name in INT8_MODELS:
        path = model_path(short_name)
        graph = load_model(path)
        reference = tflm.reference(graph, path.read_bytes())
        # Softmax saturates on random inputs: judge what goes into it.
        name = graph.nodes[-1].name
        if graph.nodes[-1].op == "SOFTMAX":
            name = graph.nodes[-1].inputs[0]
        answers = [
            reference.run_all({graph.inputs[0]: x})[name].tobytes()
            for x in samples(short_name, 4, seed=1)
        ]
        assert len(set(answers)) == 4
