"""ONNX models in QDQ form: fused to operators on integers, equal to onnx.reference."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from qdq_models import QdqBuilder, network

import hilc
from hil.cli import main
from hilc import host, interpreter
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array, Graph
from hilc.transforms import run_passes
from hilc.transforms.fuse_quantized import fuse_quantized, require_integers


def fused(model: onnx.ModelProto) -> Graph:
    return run_passes(fuse_quantized(load_model(model.SerializeToString(), "net")))


def random_input(rng: np.random.Generator, model: onnx.ModelProto) -> dict[str, Array]:
    (value,) = model.graph.input
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype == np.float32:
        return {value.name: rng.normal(0, 1, shape).astype(np.float32)}
    info = np.iinfo(dtype)
    return {value.name: rng.integers(info.min, info.max, shape, dtype, endpoint=True)}


def differing(model: onnx.ModelProto, graph: Graph, inputs: dict[str, Array]) -> int:
    """How many outputs are other than those of onnx.reference."""
    wanted = ReferenceEvaluator(model).run(None, inputs)
    got = interpreter.run(graph, inputs)
    return sum(
        int((got[name].reshape(-1) != want.reshape(-1)).sum())
        for name, want in zip(graph.outputs, wanted, strict=True)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_network_on_integers_is_the_reference_on_floats(dtype):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = network(rng, dtype)
        graph = fused(model)
        assert not graph.float_layers
        assert not any(t.dtype == "float32" for t in graph.tensors.values())
        # Two parts of a concatenation, and uint8 at both borders.
        borders = 2 * (dtype == "uint8")
        assert [node.op for node in graph.nodes].count("QUANTIZE") == 2 + borders
        # Of channels first, only what the model is given.
        assert [node.op for node in graph.nodes].count("TRANSPOSE") == 1
        assert differing(model, graph, random_input(rng, model)) == 0


def test_biases_of_the_sums_scale_lose_nothing():
    graph = fused(network(np.random.default_rng(1)))
    assert len(graph.rounded_biases) == 4
    assert max(bias.largest_effect for bias in graph.rounded_biases) < 1e-5


def test_what_has_no_form_on_integers_is_refused_by_name_or_allowed():
    b = QdqBuilder(np.random.default_rng(2))
    x = b.input((1, 4, 4, 4), 0.0213)
    y = b.node("LpNormalization", x, axis=1)
    graph = fused(b.model(b.quantize(b.node("Relu", y), 0.01)))
    assert graph.float_layers
    with pytest.raises(UnsupportedError, match=r"layers of the quantized model compute in floats"):
        require_integers(graph, allow_float=False)
    require_integers(graph, allow_float=True)


def test_moved_integers_take_another_scale():
    """As parts of a tensor do that PT2E observes each for itself."""
    b = QdqBuilder(np.random.default_rng(5))
    x = b.input((1, 2, 6), 0.0213, 3)
    y = b.node("Reshape", x, b.constant(np.array((1, 12))))
    z = b.qdq(y, 0.0171, -5)
    model = b.model(b.quantize(b.node("Add", y, z), 0.031))
    graph = fused(model)
    assert not graph.float_layers
    assert differing(model, graph, random_input(np.random.default_rng(6), model)) == 0


def test_the_library_gives_the_same_bytes():
    rng = np.random.default_rng(9)
    model = network(rng)
    with host.load(hilc.compile(model.SerializeToString(), name="net")) as compiled:
        for _ in range(4):
            inputs = random_input(rng, model)
            (wanted,) = ReferenceEvaluator(model).run(None, inputs)
            for name, value in inputs.items():
                compiled.set_input(name, value)
            compiled.run()
            np.testing.assert_array_equal(compiled.get_output(0), wanted)


def test_the_command_line_lists_what_is_left_in_floats(tmp_path, capsys):
    b = QdqBuilder(np.random.default_rng(2))
    x = b.input((1, 4, 4, 4), 0.0213)
    y = b.qdq(b.linear("Conv", x, 0.0213, (4, 4, 1, 1)), 0.0371)
    path = tmp_path / "mixed.onnx"
    onnx.save(b.model(b.quantize(b.node("LpNormalization", y, axis=1), 0.0113)), path)
    command = ["compile", str(path), "-o", str(tmp_path / "net.tar")]
    assert main(command) == 2
    refusal = capsys.readouterr().err
    assert "layers of the quantized model compute in floats" in refusal
    assert "--allow-float" in refusal
    assert main([*command, "--allow-float"]) == 0
    told = capsys.readouterr().out
    assert "net.tar" in told
    assert "mixed: computed in floats:" in told
    assert "mixed: biases of 1 layers" in told
    assert main([*command, "--allow-float", "--force", "--json"]) == 0
    module = json.loads(capsys.readouterr().out)
    assert {layer["op"] for layer in module["float_layers"]}
    assert module["rounded_biases"][0]["largest_effect"] < 1e-4


def test_verify_compares_with_the_named_arithmetic(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    onnx.save(network(np.random.default_rng(4)), path)
    for reference in ((), ("--reference", "onnx"), ("--reference", "qdq")):
        command = ["verify", str(path), "--board", "native", "--samples", "3", "--json"]
        assert main([*command, *reference]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["match"]
        assert report["reference"].startswith("onnx" if "onnx" in reference else "qdq")
