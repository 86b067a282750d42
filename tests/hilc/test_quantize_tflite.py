"""Quantization of TFLite files in floats, compared with TensorFlow Lite Micro and LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import float_networks
import keras_files
import litert_ref
import numpy as np
import pytest
import tflm
from answers import entry
from campaigns import sampled
from tflite_builder import ModelBuilder

import hil
import hilc
from hil.cli import main
from hilc import host
from hilc.errors import HilError, InputError, ModelError
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph, Quant, Tensor
from hilc.quantization import QuantizedModel, quantize
from hilc.quantization.keras import conversion_error
from hilc.quantization.report import summary_lines
from hilc.quantization.tflite.rules import RULES
from hilc.writers.tflite_contents import contents

#: Operators that TensorFlow Lite Micro does not have, or pads with memory that it never wrote.
NOT_IN_TFLM = ("GELU", "RELU_0_TO_1", "RELU_N1_TO_1", "SELECT", "SPACE_TO_BATCH_ND", "TILE")
#: TensorFlow Lite Micro takes fewer dimensions of these than random operators have.
FEW_DIMENSIONS = ("STRIDED_SLICE", "TRANSPOSE")
FORMS = [(op, kind) for op, rule in RULES.items() for kind in rule.versions]
#: Networks by Keras in `make test`.
NETWORKS = ("attention", "lstm_fused", "mobilenet_v2", "normalizations", "two_tower")


@pytest.fixture(scope="module")
def made() -> QuantizedModel:
    file = float_networks.network().build()
    return quantize(file, float_networks.images(), test=float_networks.images(40, 2), name="net")


def graph_of(model: QuantizedModel | bytes) -> Graph:
    return load_model(model if isinstance(model, bytes) else model.data)


def quant_of(graph: Graph, name: str) -> Quant:
    quant = graph.tensors[name].quant
    assert quant is not None
    return quant


def require_equal(data: bytes, samples: Mapping[str, Array], reference: Any = tflm) -> None:
    """The file computes in a runtime of TFLite what it computes here."""
    graph = load_model(data, numerics=reference.numerics)
    runtime, interpreter = reference.reference(graph, data), Interpreter(graph)
    for index in range(2):
        given = {name: values[index] for name, values in samples.items()}
        wanted, found = runtime.run_all(given), interpreter.run_all(given)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], wanted[name], name)


def small(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


# Results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_a_network_computes_what_tflm_computes(activations: str) -> None:
    x = float_networks.images()
    result = quantize(float_networks.network().build(), x, activations=activations)
    assert result.report.float_layers == ()
    assert result.suffix == ".tflite"
    ratio = result.report.outputs["y"]
    assert ratio is not None
    assert ratio > {"int8": 25, "int16": 45}[activations]
    require_equal(result.data, {"x": x[:, np.newaxis]})


def test_the_library_computes_the_same(made: QuantizedModel) -> None:
    graph = graph_of(made)
    interpreter = Interpreter(graph)
    with host.load(hilc.compile(made)) as model:
        assert model.name == "net"
        for x in float_networks.images(4, 5):
            model.set_input("x", x[np.newaxis])
            model.run()
            wanted = interpreter.run({"x": x[np.newaxis]})["y"]
            np.testing.assert_array_equal(model.get_output(0), wanted)


@pytest.mark.parametrize(("op", "activations"), FORMS)
def test_operators_compute_what_tflite_does(op: str, activations: str) -> None:
    reference = litert_ref if op in (*NOT_IN_TFLM, *FEW_DIMENSIONS) else tflm
    tried = 0
    for seed in range(4):
        data, samples = float_networks.operator_file(op, seed)
        if not samples:
            continue
        if (result := _quantized_operator(data, samples, activations)) is None:
            continue
        require_equal(result.data, samples, reference)
        ratios = [db for db in result.report.outputs.values() if db is not None]
        assert min(ratios, default=99.0) > 18, f"{op}, seed {seed}"
        tried += 1
    assert tried


def _quantized_operator(
    data: bytes, samples: Mapping[str, Array], activations: str
) -> QuantizedModel | None:
    """The quantized file; None if the operator reads a table only, or operands of other types."""
    try:
        return quantize(data, samples, activations=activations)
    except ModelError as error:
        if "no layer that could be quantized" not in error.fact:
            raise
        return None


@pytest.mark.parametrize(
    "network",
    sampled(dict.fromkeys(file.network for file in keras_files.files()), keep=NETWORKS),
)
@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_networks_by_keras(network: str, activations: str) -> None:
    file = keras_files.KerasFile(network, "float32", "fixed")
    if file not in keras_files.files():
        file = keras_files.KerasFile(network, "float32", "open")
    inputs = hilc.compile(file.data).modules[0].inputs
    given = file.samples(inputs, 12)
    samples = {each.name: np.stack([sample[each.name] for sample in given]) for each in inputs}
    result = quantize(file.data, samples, activations=activations)
    ratios = [db for db in result.report.outputs.values() if db is not None]
    # A power spectrum has too wide a range for 8 bits.
    least = 9 if (network, activations) == ("spectrum", "int8") else 20
    assert min(ratios, default=99.0) > least
    try:
        tflm.reference(load_model(result.data), result.data)
    except ModelError:
        # Nor does TensorFlow Lite Micro run the network in floats, or it lacks the operator.
        assert network not in NETWORKS
        return
    require_equal(result.data, samples)


# Quantizations ------------------------------------------------------------------------------------


def test_weights_and_biases_have_tflites_scales(made: QuantizedModel) -> None:
    graph = graph_of(made)
    node = next(n for n in graph.nodes if n.op == "CONV_2D")
    x, w, b = (graph.tensors[name] for name in node.inputs)
    assert (x.dtype, w.dtype, b.dtype) == ("int8", "int8", "int32")
    assert w.quant is not None
    assert b.quant is not None
    assert x.quant is not None
    assert len(w.quant.scale) == 8
    assert set(w.quant.zero_point) == {0}
    assert w.data is not None
    assert np.abs(w.data.reshape(8, -1).astype(int)).max(axis=1).tolist() == [127] * 8
    np.testing.assert_allclose(b.quant.scale, np.array(w.quant.scale) * x.quant.scale[0], rtol=1e-6)


def test_results_with_one_quantization_have_it(made: QuantizedModel) -> None:
    graph = graph_of(made)
    (softmax,) = (n for n in graph.nodes if n.op == "SOFTMAX")
    assert quant_of(graph, softmax.outputs[0]) == Quant((1 / 256,), (-128,))
    # The concatenation takes another than the function before it computes.
    (logistic,) = (n for n in graph.nodes if n.op == "LOGISTIC")
    assert quant_of(graph, logistic.outputs[0]) == Quant((1 / 256,), (-128,))
    (requantize,) = (n for n in graph.nodes if n.inputs == logistic.outputs)
    assert requantize.op == "QUANTIZE"
    assert quant_of(graph, requantize.outputs[0]) == quant_of(graph, "padded")


def test_operators_that_copy_share_a_quantization(made: QuantizedModel) -> None:
    graph = graph_of(made)
    names = ("pool", "least", "both", "padded", "sum")
    assert len({quant_of(graph, name) for name in names}) == 1


def test_per_tensor_weights_have_one_scale() -> None:
    x = float_networks.images()
    result = quantize(float_networks.network().build(), x, per_channel=False)
    graph = graph_of(result)
    weights = [graph.tensors[n.inputs[1]] for n in graph.nodes if n.op.endswith("CONV_2D")]
    assert [len(t.quant.scale) for t in weights if t.quant] == [1, 1]
    require_equal(result.data, {"x": x[:, np.newaxis]})


def test_a_large_bias_fits() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 4))
    builder.const("w", np.array([[1e-7] * 4, [0] * 4, [1] * 4, [0] * 4], np.float32))
    builder.const("b", np.array([50, -3, 0.5, 0], np.float32))
    builder.output("y", (1, 4))
    builder.op("FULLY_CONNECTED", ("x", "w", "b"), ("y",))
    x = small(20, 4)
    for kind in ("int8", "int16"):
        result = quantize(builder.build(), x, activations=kind)
        require_equal(result.data, {"x": x[:, np.newaxis]})
        (ratio,) = result.report.outputs.values()
        assert ratio is not None
        assert ratio > 40


def test_a_percentile_narrows_the_range() -> None:
    x = small(50, 8)
    x[0, 0] = 1000
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.output("y", (1, 8))
    builder.op("LEAKY_RELU", ("x",), ("y",), alpha=0.5)
    whole = quantize(builder.build(), x)
    cut = quantize(builder.build(), x, calibrator="percentile", percentile=99)
    scales = [quant_of(graph_of(each), "x_int8").scale[0] for each in (whole, cut)]
    assert scales[0] == pytest.approx(1003 / 255, rel=0.01)
    assert scales[1] < 0.05
    (clipped,) = (t.clipped for t in cut.report.tensors if t.name == "x")
    assert clipped > 0


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("op", ["SOFTMAX", "LOGISTIC"])
def test_a_fixed_range_clips_nothing(op: str, activations: str) -> None:
    """Every sample has an output of 1.0, one step beyond TFLite's range."""
    builder = ModelBuilder()
    builder.input("x", (1, 4))
    builder.output("y", (1, 4))
    attributes: dict[str, Any] = {"beta": 1.0} if op == "SOFTMAX" else {}
    builder.op(op, ("x",), ("y",), **attributes)
    x = np.eye(4, dtype=np.float32)[np.arange(20) % 4] * 100
    report = quantize(builder.build(), x, activations=activations).report
    assert {t.name: t.clipped for t in report.tensors}["y"] == 0


def test_doubts_about_samples() -> None:
    file, x = float_networks.network().build(), float_networks.images(20)
    assert quantize(file, x).report.warnings == ()
    (equal,) = quantize(file, np.repeat(x[:1], 20, axis=0)).report.warnings
    assert "all 20 calibration samples are equal" in equal
    (few,) = quantize(file, x[:1]).report.warnings
    assert "1 sample;" in few


def test_a_mask_leaves_the_scores_their_range() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 6, 6))
    mask = np.where(np.tril(np.ones((6, 6), bool)), 0, -1e9).astype(np.float32)
    builder.const("mask", mask)
    builder.tensor("masked", (1, 6, 6))
    builder.output("y", (1, 6, 6))
    builder.op("ADD", ("x", "mask"), ("masked",), activation="NONE")
    builder.op("SOFTMAX", ("masked",), ("y",))
    x = small(20, 6, 6)
    result = quantize(builder.build(), x)
    assert quant_of(graph_of(result), "masked").scale[0] < 0.1
    (ratio,) = result.report.outputs.values()
    assert ratio is not None
    assert ratio > 30
    found = Interpreter(graph_of(result)).run({"x": x[:1]})["y"]
    assert (found[0][mask < 0] == 0).all()
    require_equal(result.data, {"x": x[:, np.newaxis]})


def test_a_clamp_does_not_widen_the_range() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.const("most", np.array(1e7, np.float32))
    builder.output("y", (1, 8))
    builder.op("MINIMUM", ("x", "most"), ("y",))
    (ratio,) = quantize(builder.build(), small(20, 8)).report.outputs.values()
    assert ratio is not None
    assert ratio > 30


# What stays in floats -----------------------------------------------------------------------------


def _around_sine() -> ModelBuilder:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.const("w", small(8, 8))
    for name in ("fc", "sine", "turned"):
        builder.tensor(name, (1, 8))
    builder.const("shape", np.array([8, 1], np.int32))
    builder.output("y", (8, 1))
    builder.op("FULLY_CONNECTED", ("x", "w"), ("fc",))
    builder.op("SIN", ("fc",), ("sine",))
    builder.op("RESHAPE", ("sine", "shape"), ("y",))
    return builder


def test_a_layer_without_a_rule_stays_in_floats() -> None:
    x = small(20, 8)
    result = quantize(_around_sine().build(), x)
    (layer,) = result.report.float_layers
    assert (layer.name, layer.op) == ("sine", "SIN")
    assert layer.reason == "SIN has no int8 kernel here"
    assert "1 layer stays in floats: sine" in summary_lines(result.report)
    # Nor is a RESHAPE of floats to floats worth a quantization.
    ops = [node.op for node in graph_of(result).nodes]
    assert ops == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE", "SIN", "RESHAPE"]
    require_equal(result.data, {"x": x[:, np.newaxis]})
    # No permission is needed, as for other models of TFLite with layers in floats.
    hilc.compile(result)


def test_excluded_layers_stay_in_floats() -> None:
    x = float_networks.images()
    result = quantize(float_networks.network().build(), x, exclude=("sum", "logits"))
    assert {layer.name for layer in result.report.float_layers} == {"sum", "logits"}
    assert result.report.not_excluded == ()
    assert {layer.reason for layer in result.report.float_layers} == {"it is excluded"}
    require_equal(result.data, {"x": x[:, np.newaxis]})
    with pytest.raises(InputError, match=r"no layer 'logit' to exclude .did you mean logits"):
        quantize(float_networks.network().build(), x, exclude=("logit",))


def test_infinite_tensors_stay_in_floats() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.tensor("clamped", (1, 8))
    builder.tensor("log", (1, 8))
    builder.output("y", (1, 8))
    builder.op("RELU", ("x",), ("clamped",))
    builder.op("LOG", ("clamped",), ("log",))
    builder.op("LOGISTIC", ("log",), ("y",))
    result = quantize(builder.build(), small(20, 8))
    reasons = {layer.name: layer.reason for layer in result.report.float_layers}
    assert reasons == {
        "log": "LOG has no int8 kernel here",
        "y": "'log' is not finite in a sample",
    }


def test_a_reciprocal_has_precise_operands() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.const("axes", np.array([1], np.int32))
    builder.const("least", np.array(1e-6, np.float32))
    builder.tensor("squares", (1, 8))
    for name in ("sum", "above", "root"):
        builder.tensor(name, (1, 1))
    builder.output("y", (1, 8))
    builder.op("MUL", ("x", "x"), ("squares",), activation="NONE")
    builder.op("SUM", ("squares", "axes"), ("sum",), keep_dims=True)
    builder.op("ADD", ("sum", "least"), ("above",), activation="NONE")
    builder.op("RSQRT", ("above",), ("root",))
    builder.op("MUL", ("x", "root"), ("y",), activation="NONE")
    result = quantize(builder.build(), small(20, 8))
    reasons = {layer.name: layer.reason for layer in result.report.float_layers}
    needs = "RSQRT needs the relative precision of its result"
    assert reasons == {"sum": needs, "above": needs, "root": "RSQRT has no int8 kernel here"}
    (ratio,) = result.report.outputs.values()
    assert ratio is not None
    assert ratio > 30


def test_a_factor_that_no_kernel_has_stays_in_floats() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.input("z", (1, 8))
    builder.output("y", (1, 8))
    builder.output("half", (1, 8))
    builder.op("LEAKY_RELU", ("x",), ("half",), alpha=0.5)
    builder.op("MUL", ("x", "z"), ("y",), activation="NONE")
    x, z = small(20, 8) * np.float32(1e6), np.full((20, 8), 1e6, np.float32)
    x[:, 1:], z[:, 0] = 0, 1e-7
    result = quantize(builder.build(), {"x": x, "z": z})
    (layer,) = result.report.float_layers
    assert layer.name == "y"
    assert layer.reason.startswith("'y' has a factor of 3.92157e+10")


def test_a_table_becomes_integers() -> None:
    builder = ModelBuilder()
    builder.input("rows", (1, 3), "int32")
    builder.const("table", small(50, 8))
    builder.const("w", small(4, 24, seed=1))
    builder.const("shape", np.array([1, 24], np.int32))
    builder.tensor("found", (1, 3, 8))
    builder.tensor("flat", (1, 24))
    builder.output("y", (1, 4))
    builder.op("GATHER", ("table", "rows"), ("found",), axis=0)
    builder.op("RESHAPE", ("found", "shape"), ("flat",))
    builder.op("FULLY_CONNECTED", ("flat", "w"), ("y",))
    rows = np.random.default_rng(2).integers(0, 50, (20, 1, 3)).astype(np.int32)
    result = quantize(builder.build(), {"rows": rows})
    graph = graph_of(result)
    assert graph.tensors["found"].dtype == graph.tensors["table_int8"].dtype == "int8"
    # Rows that no sample reads are within the range too.
    data = graph.tensors["table_int8"].data
    assert data is not None
    assert {int(data.min()), int(data.max())} == {-128, 127}
    assert result.report.float_layers == ()
    require_equal(result.data, {"rows": rows})


def test_all_constants_of_floats_are_taken() -> None:
    # As a float16 file has them.
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.const("half", small(4, 8).astype(np.float16))
    builder.tensor("w", (4, 8))
    builder.output("y", (1, 4))
    builder.op("DEQUANTIZE", ("half",), ("w",))
    builder.op("FULLY_CONNECTED", ("x", "w"), ("y",))
    x = small(20, 8)
    result = quantize(builder.build(), x)
    graph = graph_of(result)
    assert [node.op for node in graph.nodes] == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    assert graph.tensors[graph.nodes[1].inputs[1]].dtype == "int8"
    require_equal(result.data, {"x": x[:, np.newaxis]})


# Files --------------------------------------------------------------------------------------------


def test_signatures_and_metadata_are_kept() -> None:
    builder = float_networks.network()
    builder.metadata = {"made by": b"a test"}
    last = len(builder.tensors) - 1
    builder.signatures = [("serve", 0, {"image": 0}, {"scores": last})]
    result = contents(quantize(builder.build(), float_networks.images()).data)
    assert result.metadata["made by"] == b"a test"
    ((name, number, inputs, outputs),) = result.signatures
    assert (name, number) == ("serve", 0)
    assert result.tensors[inputs["image"]].name == "x"
    assert result.tensors[outputs["scores"]].name == "y"


@pytest.mark.parametrize(
    "name", sampled([f.name for f in keras_files.files()], keep=["lstm_fused.float32.fixed"])
)
def test_a_file_is_written_as_it_was_read(name: str) -> None:
    data = keras_files.KerasFile.named(name).data
    try:
        graph = load_model(data)
    except ModelError:
        pytest.skip("the compiler does not take the network")
    written = load_model(contents(data).build())
    assert written.nodes == graph.nodes
    assert written.tensors == graph.tensors
    for tensor, own in zip(written.tensors.values(), graph.tensors.values(), strict=True):
        _require_same_data(tensor, own)


def _require_same_data(tensor: Tensor, own: Tensor) -> None:
    assert (tensor.data is None) == (own.data is None)
    if tensor.data is not None:
        np.testing.assert_array_equal(tensor.data, own.data)


def test_weights_take_a_quarter_of_the_bytes() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 200))
    builder.const("w", small(100, 200))
    builder.output("y", (1, 100))
    builder.op("FULLY_CONNECTED", ("x", "w"), ("y",))
    data = builder.build()
    # No float weights are left in it.
    assert len(quantize(data, small(4, 200)).data) < len(data) / 3


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"activations": "uint8"}, "not uint8"),
        ({"calibrator": "entropy"}, "no calibrator 'entropy'"),
        ({"calibrator": "mse"}, "no calibrator 'mse'"),
        ({"shapes": {"x": (2, 8, 8, 2)}}, "which the shape .2, 8, 8, 2. does not fit"),
    ],
)
def test_settings_that_tflite_has_not(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(HilError, match=message):
        quantize(float_networks.network().build(), float_networks.images(), **choice)


def test_a_quantized_file_is_refused(made: QuantizedModel) -> None:
    with pytest.raises(ModelError, match="is quantized already"):
        quantize(made, float_networks.images())


def test_an_open_shape_is_refused() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 1), signature=(-1, -1))
    builder.output("y", (1, 1), signature=(-1, -1))
    builder.op("LOGISTIC", ("x",), ("y",))
    with pytest.raises(ModelError, match="has the dynamic shape") as caught:
        quantize(builder.build(), small(4, 1))
    assert "fixed sizes" in str(caught.value.hint)


def test_a_model_without_layers_is_refused() -> None:
    builder = ModelBuilder()
    builder.input("x", (1, 8))
    builder.output("y", (1, 8))
    builder.op("SIN", ("x",), ("y",))
    with pytest.raises(ModelError, match="no layer that could be quantized"):
        quantize(builder.build(), small(4, 8))


# Command line -------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.tflite").write_bytes(_around_sine().build())
    np.save(tmp_path / "x.npy", small(20, 8))
    given = ["quantize", str(tmp_path / "net.tflite"), "--calibration", str(tmp_path / "x.npy")]
    output = tmp_path / "net_int8.tflite"
    assert main([*given, "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "1 layer stays in floats: sine" in shown
    assert "--allow-float" not in shown
    # The file is ours: it may be written again.
    assert main(["--json", *given, "-o", str(output)]) == 0
    result = entry(capsys.readouterr().out)
    assert [layer["op"] for layer in result["float_layers"]] == ["SIN"]
    assert {t["name"] for t in result["tensors"]} == {"x", "fc"}
    assert main(["verify", str(output), "--board", "native", "--samples", "5"]) == 0
    assert "match" in capsys.readouterr().out


def test_a_signature_is_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder, other = float_networks.network(), ModelBuilder()
    other.input("a", (1, 8))
    other.output("b", (1, 8))
    other.op("TANH", ("a",), ("b",))
    builder.functions = [other]
    names = [tensor.name for tensor in builder.tensors]
    builder.signatures = [
        ("image", 0, {"x": names.index("x")}, {"y": names.index("y")}),
        ("row", 1, {"a": 0}, {"b": 1}),
    ]
    (tmp_path / "net.tflite").write_bytes(builder.build())
    np.save(tmp_path / "x.npy", small(20, 8))
    given = ["quantize", str(tmp_path / "net.tflite"), "--calibration", str(tmp_path / "x.npy"),
             "-o", str(tmp_path / "row.tflite")]  # fmt: skip
    assert main(given) == 2
    assert "--signature image" in capsys.readouterr().err
    assert main([*given, "--signature", "row"]) == 0
    graph = load_model(tmp_path / "row.tflite")
    assert [node.op for node in graph.nodes] == ["QUANTIZE", "TANH", "DEQUANTIZE"]


def test_keras_files_need_tensorflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where it is installed, too.
    monkeypatch.setattr("hilc.support.optional.is_installed", lambda module: False)
    (tmp_path / "net.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "saved_model.pb").write_bytes(b"\x08\x01\x12")
    np.save(tmp_path / "x.npy", small(4, 8))
    for name in ("net.h5", "folder"):
        given = ["quantize", str(tmp_path / name), "--calibration", str(tmp_path / "x.npy")]
        assert main([*given, "-o", str(tmp_path / "net.onnx")]) == 2
        assert "ends in .tflite" in capsys.readouterr().err
        assert main([*given, "-o", str(tmp_path / "net.tflite")]) == 2
        assert "pip install 'hil-harness[keras]'" in capsys.readouterr().err


def test_keras_files_through_tensorflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorflow", reason="pip install 'hil-harness[keras]'")
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(3)]
    )
    x = small(20, 8, 8, 1)
    np.save(tmp_path / "x.npy", x)
    model.save(tmp_path / "net.keras")
    model.save(tmp_path / "net.h5")
    model.export(tmp_path / "folder")
    for name in ("net.keras", "net.h5", "folder"):
        output = str(tmp_path / f"{name}.tflite")
        calibration = str(tmp_path / "x.npy")
        given = ["quantize", str(tmp_path / name), "--calibration", calibration, "-o", output]
        assert main(given) == 0
        require_equal(Path(output).read_bytes(), {_only_input(output): x[:, np.newaxis]})
    assert hil.quantize(model, x).suffix == ".tflite"
    with pytest.raises(InputError, match="Keras model") as caught:
        hilc.compile(model)
    assert "hil.quantize(model, samples)" in str(caught.value.hint)


def test_open_recurrent_keras_layers_state_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow 2.21 converts LSTM and GRU layers only with a known batch, or unrolled."""
    pytest.importorskip("tensorflow", reason="pip install 'hil-harness[keras]'")
    import keras

    layers = keras.layers
    np.save(tmp_path / "x.npy", small(8, 16, 8))
    given = ["quantize", str(tmp_path / "net.keras"), "--calibration", str(tmp_path / "x.npy")]
    given += ["-o", str(tmp_path / "net.tflite"), "--force"]
    for layer in (layers.LSTM, layers.GRU):
        keras.Sequential([layers.Input((16, 8)), layer(4), layers.Dense(3)]).save(
            tmp_path / "net.keras"
        )
        if code := main(given):
            assert code == 2
            said = capsys.readouterr().err
            assert "model: 'tf.TensorListReserve' op requires element_shape to be static" in said
            assert "batch_size=1" in said
            assert "unroll=True" in said
        for inputs, unroll in ((layers.Input((16, 8), batch_size=1), False),
                               (layers.Input((16, 8)), True)):  # fmt: skip
            network = [inputs, layer(4, unroll=unroll), layers.Dense(3)]
            keras.Sequential(network).save(tmp_path / "net.keras")
            assert main(given) == 0


#: What the converter of TensorFlow 2.21 writes for an LSTM layer whose batch is open.
_OPEN_LSTM = (
    '<unknown>:0: error: loc(callsite(fused["TensorListReserve:", "sequential_1/lstm_1/'
    'TensorArrayV2_1@__inference_function_666"] at fused["StatefulPartitionedCall:", '
    "\"StatefulPartitionedCall_1\"])): 'tf.TensorListReserve' op requires element_shape to be "
    'static during TF Lite transformation pass\n<unknown>:0: note: loc(fused["Partitioned'
    'Call:", "StatefulPartitionedCall_1"]): called from\n<unknown>:0: error: Lowering '
    "tensor list ops is failed. Please consider using Select TF ops\n"
)


@pytest.mark.parametrize(
    ("text", "fact", "hint"),
    [
        (
            _OPEN_LSTM,
            "'tf.TensorListReserve' op requires element_shape to be static during TF Lite "
            "transformation pass",
            "batch_size=1",
        ),
        ("File not found:\n  filepath=net.keras", "File not found: filepath=net.keras", "options"),
    ],
)
def test_the_errors_of_tensorflow_are_shortened(text: str, fact: str, hint: str) -> None:
    error = conversion_error(text)
    assert error.fact == f"TensorFlow cannot convert the model: {fact}"
    assert hint in str(error.hint)


def _only_input(path: str) -> str:
    (name,) = load_model(path).inputs
    return name
