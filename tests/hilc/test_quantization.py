"""Quantization of ONNX models, its samples and its report; PyTorch's has a file of its own."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from answers import entry
from campaigns import cases
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from quantized_files import fused_file

import hil
import hilc
from hil.cli import main
from hilc import host
from hilc.errors import HilError, InputError, ModelError
from hilc.frontends import LoadedModel, load_model, read_model
from hilc.frontends.onnx.fold_batch_norm import convolve_batch_norm
from hilc.interpreter import Interpreter
from hilc.quantization import ACTIVATIONS, QuantizedModel, Samples, Settings, quantize
from hilc.quantization.masks import filled, ranges_of, with_choices
from hilc.quantization.report import compare, summary_lines
from hilc.quantization.samples import check_labels, named_arrays
from hilc.references import get_reference
from hilc.transforms import run_passes
from hilc.transforms.fuse_quantized import FusedGraph

CLASSES = 5


def network(opset: int = 19) -> onnx.ModelProto:
    """A convolution with normalization, a depthwise one, pools, a sum, a function, a product."""
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray] = {
        "w": rng.normal(0, 0.4, (8, 2, 3, 3)), "b": rng.normal(0, 0.1, 8),
        "scale": rng.uniform(0.5, 2, 8), "shift": rng.normal(0, 0.2, 8),
        "mean": rng.normal(0, 0.2, 8), "variance": rng.uniform(0.5, 2, 8),
        "d": rng.normal(0, 0.4, (8, 1, 3, 3)), "g": rng.normal(0, 0.4, (CLASSES, 8)),
        "h": rng.normal(0, 0.1, CLASSES), "three": np.array(3.0),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["conv", "scale", "shift", "mean", "variance"], ["norm"]
        ),
        helper.make_node("Relu", ["norm"], ["relu"]),
        helper.make_node("Conv", ["relu", "d"], ["deep"], pads=[1, 1, 1, 1], group=8),
        helper.make_node("Add", ["deep", "relu"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["sigmoid"]),
        helper.make_node("Div", ["sigmoid", "three"], ["third"]),
        helper.make_node("MaxPool", ["third"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["pool"], ["mean_"]),
        helper.make_node("Flatten", ["mean_"], ["flat"]),
        helper.make_node("Gemm", ["flat", "g", "h"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 2, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model


SHAPES = {"x": (1, 2, 8, 8)}


def images(count: int = 24, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (count, 2, 8, 8)).astype(np.float32)


def classes(x: np.ndarray) -> np.ndarray:
    (y,) = ReferenceEvaluator(network()).run(None, {"x": x})
    return np.asarray(y.argmax(1))


@pytest.fixture(scope="module")
def made() -> QuantizedModel:
    pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")
    x = images()
    return quantize(network(), x, shapes=SHAPES, test=images(40, 2), labels=classes(images(40, 2)))


# Results ------------------------------------------------------------------------------------------


def test_every_layer_computes_on_integers(made: QuantizedModel) -> None:
    fusion = fused_file(made.data, "net")
    graph = fusion.graph
    assert not fusion.float_layers
    assert made.report.float_layers == ()
    ops = {node.op for node in graph.nodes}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "LOOKUP", "FULLY_CONNECTED", "SOFTMAX"} <= ops
    # Scales for each channel.
    weights = [t.quant for t in graph.tensors.values() if t.quant and len(t.quant.scale) > 1]
    assert len(weights) >= 3


def test_the_report_names_the_noise_of_each_tensor(made: QuantizedModel) -> None:
    report = made.report
    assert {"x", "relu", "deep", "sum", "logits", "y"} <= {t.name for t in report.tensors}
    levels = [t.sqnr_db for t in report.tensors if t.sqnr_db is not None]
    assert levels == sorted(levels)
    assert min(levels) > 20
    assert report.calibration_samples == 24
    assert report.samples == 32
    assert report.accuracy is not None
    assert report.accuracy.float_right == report.accuracy.samples == 40
    assert report.accuracy.quantized_right == report.accuracy.same >= 36


def test_the_noise_is_that_of_the_reference(made: QuantizedModel) -> None:
    x = images(32, 2)
    (wanted,) = ReferenceEvaluator(network()).run(None, {"x": x})
    evaluator = ReferenceEvaluator(onnx.load_from_string(made.data))
    found = np.concatenate([evaluator.run(None, {"x": part[np.newaxis]})[0] for part in x])
    db = 10 * np.log10((wanted.astype(float) ** 2).sum() / ((wanted - found) ** 2).sum())
    assert made.report.outputs["y"] == pytest.approx(db, abs=0.05)


def test_the_library_computes_what_the_reference_does(made: QuantizedModel) -> None:
    read = read_model(made.data, "net")
    graph, data = read.graph, read.data
    reference = get_reference("qdq", graph, data)
    with host.load(hilc.compile(made)) as model:
        assert model.name == "modelproto"
        for x in images(8, 5):
            model.set_input("x", x[np.newaxis])
            model.run()
            wanted = reference.run_all({"x": x[np.newaxis]})[graph.outputs[0]]
            np.testing.assert_array_equal(model.get_output(0), wanted)


def quantized(x: np.ndarray, **choice: Any) -> tuple[QuantizedModel, FusedGraph]:
    result = quantize(network(), x, shapes=SHAPES, **choice)
    return result, fused_file(result.data, "net")


@pytest.mark.full
def test_calibrators_leave_out_what_hardly_occurs(made: QuantizedModel) -> None:
    x = images()
    x[3, 1, 2, 2] = 60.0
    scales = {}
    for choice in ("minmax", "entropy", "percentile"):
        share = {"percentile": 99.9} if choice == "percentile" else {}
        result, _ = quantized(x, calibrator=choice, **share)
        scales[choice] = next(t.scale for t in result.report.tensors if t.name == "x")
    assert scales["minmax"] == pytest.approx((60 - x.min()) / 255, rel=1e-3)
    assert scales["entropy"] < scales["minmax"] / 2
    assert scales["percentile"] < scales["minmax"] / 2


def test_activations_may_be_unsigned(made: QuantizedModel) -> None:
    result, fusion = quantized(images(), activations="uint8")
    model = onnx.load_from_string(result.data)
    types = {t.data_type for t in model.graph.initializer if t.name.endswith("x_zero_point")}
    assert types == {onnx.TensorProto.UINT8}
    assert not fusion.float_layers
    # The same numbers, 128 higher.
    assert result.report.outputs["y"] == pytest.approx(made.report.outputs["y"], abs=1)
    assert {t.name for t in result.report.tensors} == {t.name for t in made.report.tensors}


@pytest.mark.full
def test_activations_may_have_16_bits(made: QuantizedModel) -> None:
    """No zero points, no clamp by itself, and less noise than with 8."""
    wide = quantize(
        network().SerializeToString(), images(), test=images(8, 2), shapes=SHAPES,
        activations="int16", name="net",
    )  # fmt: skip
    fusion = fused_file(wide.data, "net")
    graph = run_passes(fusion.graph)
    assert not fusion.float_layers
    assert "RELU" not in {node.op for node in graph.nodes}
    computed = [t for t in graph.tensors.values() if t.dtype == "int16" and t.quant is not None]
    assert len(computed) >= 8
    assert {zero for t in computed if t.quant is not None for zero in t.quant.zero_point} == {0}
    assert {t.dtype for t in wide.report.tensors} == {"int16"}
    narrow = made.report.outputs["y"]
    assert narrow is not None
    assert (wide.report.outputs["y"] or 0) > narrow + 10
    with host.load(hilc.compile(wide)) as model:
        x = images(1, 5)
        model.set_input("x", x)
        model.run()
        read = read_model(wide.data, "net")
        reference = get_reference("qdq", read.graph, read.data)
        (wanted,) = reference.run_all({"x": x})[graph.outputs[0]]
        np.testing.assert_array_equal(model.get_output(0)[0], wanted)


def test_weights_may_have_one_scale(made: QuantizedModel) -> None:
    _, fusion = quantized(images(), per_channel=False)
    assert all(len(t.quant.scale) == 1 for t in fusion.graph.tensors.values() if t.quant)
    assert not fusion.float_layers


def test_an_excluded_layer_stays_in_floats(made: QuantizedModel) -> None:
    result, fusion = quantized(images(), exclude=["deep"])
    assert [layer.op for layer in fusion.float_layers] == ["DEPTHWISE_CONV_2D"]
    assert [layer.name for layer in result.report.float_layers] == ["deep"]
    with pytest.raises(HilError, match="in floats"):
        hilc.compile(result)
    assert hilc.compile(result, allow_float=True).modules[0].float_layers


def test_what_is_excluded_between_integers_is_told(made: QuantizedModel) -> None:
    result, _ = quantized(images(), exclude=["sigmoid", "deep"])
    assert result.report.not_excluded == ("sigmoid",)
    assert any("'sigmoid' is excluded and" in line for line in summary_lines(result.report))
    assert [layer.name for layer in result.report.float_layers] == ["deep"]


def branch(kind: str) -> onnx.ModelProto:
    """A normalization without a convolution before it, or an image of another size."""
    rng = np.random.default_rng(0)
    constants = {n: rng.uniform(0.5, 2, 8).astype(np.float32) for n in ("a", "b", "m", "v")}
    constants["w"] = rng.normal(0, 0.5, (8, 4)).astype(np.float32)
    sizes = numpy_helper.from_array(np.array([1, 8, 8, 8], np.int64), "sizes")
    first = {
        "norm": helper.make_node("BatchNormalization", ["x", "a", "b", "m", "v"], ["z"]),
        "linear": helper.make_node("Resize", ["x", "", "", "sizes"], ["z"], mode="linear"),
        "cubic": helper.make_node("Resize", ["x", "", "", "sizes"], ["z"], mode="cubic"),
    }[kind]
    nodes = [
        first,
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    made = [numpy_helper.from_array(v, n) for n, v in constants.items()]
    graph = helper.make_graph(
        nodes,
        "branch",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 4, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4])],
        [t for t in [*made, sizes] if any(t.name in node.input for node in nodes)],
    )
    opsets = [helper.make_opsetid("", 17)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model


def test_normalizations_become_convolutions() -> None:
    plain = branch("norm")
    made = convolve_batch_norm(plain, {"x": 4})
    assert [n.op_type for n in made.graph.node][:2] == ["Conv", "Relu"]
    x = np.random.default_rng(1).normal(0, 1, (1, 8, 4, 4)).astype(np.float32)
    found, wanted = (ReferenceEvaluator(model).run(None, {"x": x})[0] for model in (made, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    # Of unknown rank, it is left as it is.
    assert convolve_batch_norm(plain, {}).graph.node[0].op_type == "BatchNormalization"


@pytest.mark.parametrize("kind", ["norm", "linear", "cubic"])
def test_what_has_a_form_on_integers_has_it(kind: str) -> None:
    pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")
    x = np.random.default_rng(1).normal(0, 1, (20, 8, 4, 4)).astype(np.float32)
    report = quantize(branch(kind), x).report
    assert bool(report.float_layers) == (kind == "cubic")
    assert (report.outputs["y"] or 99) > 30


# Masks --------------------------------------------------------------------------------------------

LATER = np.triu(np.ones((6, 6), bool), 1)


def attention(kind: str) -> onnx.ModelProto:
    """Attention whose scores a mask hides in one of three ways."""
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray] = {
        "wq": rng.normal(0, 0.5, (8, 8)).astype(np.float32),
        "wk": rng.normal(0, 0.5, (8, 8)).astype(np.float32),
        "seen": ~LATER,
        "infinite": np.array(-np.inf, np.float32),
        "mask": np.where(LATER, np.float32(-np.inf), np.float32(0)),
        "slopes": np.where(LATER, np.finfo(np.float32).min, -np.arange(6, dtype=np.float32) / 9),
    }
    hide = {"where": ("Where", ["seen", "scores", "infinite"]), "sum": ("Add", ["scores", "mask"]),
            "slopes": ("Add", ["slopes", "scores"])}[kind]  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node(*hide, ["kept"]),
        helper.make_node("Softmax", ["kept"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "k"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 6, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 6, 8])],
        [
            numpy_helper.from_array(v, n)
            for n, v in constants.items()
            if n in (*hide[1], "wq", "wk")
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model


KINDS = ("where", "sum", "slopes")


@pytest.mark.parametrize("kind", KINDS)
def test_masks_choose_and_have_a_finite_range(kind: str) -> None:
    plain = attention(kind)
    model, masks = with_choices(plain)
    (mask,) = masks
    assert mask.kept == "kept"
    x = np.random.default_rng(1).normal(0, 1, (4, 1, 6, 8)).astype(np.float32)

    def run(names: Any) -> Any:
        shown = onnx.ModelProto()
        shown.CopyFrom(model)
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        return (ReferenceEvaluator(shown).run(list(names), {"x": part}) for part in x)

    for part, (made,) in zip(x, run(["y"]), strict=True):
        (wanted,) = ReferenceEvaluator(plain).run(None, {"x": part})
        np.testing.assert_allclose(made, wanted, rtol=1e-6)
    ranges = ranges_of(run, masks, ACTIVATIONS["int8"])
    low, high = ranges["kept"]
    assert ranges[mask.scores] == (low, high)
    for (kept,) in run(["kept"]):
        assert kept.max() <= high
        shares = np.exp(low - np.where(LATER, -np.inf, kept).max(-1))
        assert (6 * shares < 1 / 512 * 1.001).all()
    # A mask is the least number of the range.
    made = ReferenceEvaluator(filled(model, masks, ranges)).run(
        None, {"x": x[0]}, intermediate=True
    )
    assert (made["kept"][0][LATER] == low).all()


@pytest.mark.parametrize("kind", KINDS)
@cases("calibrator", ["minmax", "percentile", "entropy"], first=1)
def test_attention_with_a_mask_is_on_integers(kind: str, calibrator: str) -> None:
    pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")
    x = np.random.default_rng(1).normal(0, 1, (20, 6, 8)).astype(np.float32)
    result = quantize(attention(kind), x, calibrator=calibrator)
    assert result.report.float_layers == ()
    assert result.report.outputs["y"] is not None
    assert result.report.outputs["y"] > (25 if calibrator != "entropy" else 10)
    graph = fused_file(result.data, "attention").graph
    values = Interpreter(graph).run_all({"x": x[:1]})
    (node,) = [n for n in graph.nodes if n.op == "SOFTMAX"]
    assert (values[node.outputs[0]][0][LATER] == -128).all()


# States -------------------------------------------------------------------------------------------


def counter() -> onnx.ModelProto:
    """A product whose result is added to what was there in the run before."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "last"], ["y"]),
        helper.make_node("Identity", ["y"], ["next"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "counter",
        [info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", "last")],
        [info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("y", "next")],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9
    )
    model.metadata_props.add(key="hil.state:last", value="next")
    return model


def test_states_are_reset_between_samples_unless_told() -> None:
    pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")
    x = np.ones((10, 4), np.float32) * np.linspace(-1, 1, 4, dtype=np.float32)
    highest = {}
    for kept in (False, True):
        result = quantize(counter(), x, keep_state=kept)
        (row,) = [t for t in result.report.tensors if t.name == "y"]
        highest[kept] = row.scale * (127 - row.zero_point)
        assert row.clipped == 0
    assert highest[False] == pytest.approx(1, abs=0.02)
    assert highest[True] == pytest.approx(10, abs=0.2)


# The command --------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=images())
    np.save(tmp_path / "y.npy", classes(images()))
    return tmp_path


def command(files: Path, *more: str, samples: str = "x.npz") -> list[str]:
    return ["quantize", str(files / "net.onnx"), "--shape", "x=1,2,8,8",
            "--calibration", str(files / samples), "-o", str(files / "q.onnx"), *more]  # fmt: skip


def test_the_command_writes_a_model_that_compiles(
    made: QuantizedModel, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(files, "--labels", str(files / "y.npy"))) == 0
    told = capsys.readouterr().out
    assert "net: quantized with 24 samples" in told
    assert "accuracy over 24 samples: 100.00 % in floats" in told
    assert "SOFTMAX" in told
    # The second run replaces its own file, and gives the same one.
    before = (files / "q.onnx").read_bytes()
    assert main(command(files, "--json")) == 0
    report = entry(capsys.readouterr().out)
    assert (files / "q.onnx").read_bytes() == before
    assert report["accuracy"] is None
    assert report["tensors"][0]["sqnr_db"] <= report["tensors"][-1]["sqnr_db"]
    assert report["float_layers"] == []
    assert main(["compile", str(files / "q.onnx"), "-o", str(files / "q.tar")]) == 0
    # It is quantized now.
    again = command(files)
    again[1] = str(files / "q.onnx")
    again[-1] = str(files / "r.onnx")
    assert main(again) == 2
    assert "is quantized already" in capsys.readouterr().err
    assert not (files / "r.onnx").exists()


def test_the_command_keeps_other_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), files / "q.onnx")
    before = (files / "q.onnx").read_bytes()
    assert main(command(files)) == 2
    assert "not a quantized model written by hil" in capsys.readouterr().err
    assert (files / "q.onnx").read_bytes() == before


def test_a_quantized_tflite_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
    np.savez(tmp_path / "x.npz", x=images())
    given = ["quantize", str(model), "--calibration", str(tmp_path / "x.npz"), "-o"]
    assert main([*given, str(tmp_path / "q.tflite")]) == 2
    assert "computes no floats" in capsys.readouterr().err
    # Before anything is computed.
    assert main([*given, str(tmp_path / "q.onnx")]) == 2
    assert "use a name that ends in .tflite" in capsys.readouterr().err


def test_without_its_package_a_remedy_is_named(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine without it: nothing of it can be found."""
    monkeypatch.setattr(
        "hilc.support.optional.find_spec",
        lambda name: None if name == "onnxruntime" else find_spec(name),
    )
    assert main(command(files)) == 2
    told = capsys.readouterr().err
    assert "the package onnxruntime, which is not installed" in told
    assert "pip install 'hil-harness[quantize]'" in told
    assert not (files / "q.onnx").exists()


# Samples ------------------------------------------------------------------------------------------


def with_nan() -> np.ndarray:
    x = images(3)
    x[1, 0, 2, 3] = np.nan
    return x


@pytest.mark.parametrize(("given", "words"), [
    ({"y": images(2)}, ("'y', which is no input", "'x'")),
    ({}, ("no samples of the model's input 'x'",)),
    ({"x": images(2)[:, :, :7]}, ("[2, 2, 7, 8]", "[N, 1, 2, 8, 8]")),
    ({"x": (images(2) * 9).astype(np.int8)}, ("are int8, and the input is float32", "astype")),
    ({"x": with_nan()}, ("hold nan at [1, 0, 2, 3]",)),
    ({"x": images(2).astype(float) * 1e300}, ("beyond float32", "scale them as in training")),
    ({"x": images(0)}, ("there is no sample",)),
    ({"x": np.array(["a", "b"])}, ("no array of numbers",)),
    ({"x": np.float32(3)}, ("shape []",)),
    ((images(2), images(2)), ("samples for 2 inputs", "the model has 1")),
])  # fmt: skip
def test_unsuitable_samples_are_refused(given: Any, words: tuple[str, ...]) -> None:
    graph = load_model(_closed(), "net")
    with pytest.raises(InputError) as caught:
        Samples(named_arrays(given, graph.inputs), graph)
    for word in words:
        assert word in str(caught.value)


def _closed() -> bytes:
    model = network()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.parametrize("given", [
    images(4), (images(4),), {"x": images(4)}, images(4)[:, np.newaxis],
    images(4).astype(np.float64),
])  # fmt: skip
def test_samples_have_many_forms(given: Any) -> None:
    graph = load_model(_closed(), "net")
    samples = Samples(named_arrays(given, graph.inputs), graph)
    assert len(samples) == 4
    np.testing.assert_array_equal(samples[3]["x"], images(4)[3:])
    assert samples[0]["x"].dtype == np.float32


@pytest.mark.parametrize(
    "labels",
    [
        *(np.zeros(3, int), np.zeros(4), np.zeros((2, 2), int)),
        *("abcd", np.array(list("abab")), [[1], [1, 2]]),
    ],
)
def test_labels_are_one_class_for_each_sample(labels: Any) -> None:
    with pytest.raises(InputError, match=r"^the labels are") as found:
        check_labels(labels, 4)
    assert "one whole number" in found.value.hint


@pytest.mark.parametrize("settings", [
    {"calibrator": "max"}, {"activations": "int4"}, {"percentile": 99.9},
    {"calibrator": "percentile", "percentile": 101.0},
    {"calibrator": "percentile", "percentile": 10.0},
])  # fmt: skip
def test_unknown_settings_are_refused(settings: Any) -> None:
    with pytest.raises(InputError):
        Settings(**settings)


def test_a_calibrator_of_another_quantizer_is_refused(made: QuantizedModel) -> None:
    with pytest.raises(InputError, match="onnxruntime has no calibrator 'mse'"):
        quantize(network(), images(), shapes=SHAPES, calibrator="mse")
    with pytest.raises(InputError, match="no node 'sigmoud' to exclude .did you mean sigmoid"):
        quantize(network(), images(), shapes=SHAPES, exclude=["sigmoud"])


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ModelError, match=r"^missing.onnx: the file does not exist"):
        quantize("missing.onnx", images())


def test_weights_and_classes_are_no_models() -> None:
    for given, words in (({"layer.weight": 3}, "state_dict"), (QuantizedModel, "an instance")):
        for use in (lambda model: quantize(model, images()), hilc.compile):
            with pytest.raises(InputError, match=words):
                use(given)


@pytest.mark.parametrize("model", [object(), 3, None])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(HilError):
        hil.quantize(model, images())


def test_an_open_size_is_refused_with_its_option() -> None:
    with pytest.raises(ModelError, match="--shape x=1,2,8,8"):
        quantize(network(), images())


# The report ---------------------------------------------------------------------------------------


ZERO = np.int8(0)


def qdq_files(scale: float, zero: Any = ZERO) -> tuple[bytes, bytes]:
    """A model that doubles its input, and the same with integers of one scale on both sides."""

    def file(nodes: list[onnx.NodeProto]) -> bytes:
        made = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 64])],
            [numpy_helper.from_array(np.float32(scale), "s"),
             numpy_helper.from_array(zero, "z")],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(made, opset_imports=opsets, ir_version=9)
        data: bytes = model.SerializeToString()
        return data

    quantized = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "s", "z"], ["x_d"]),
        helper.make_node("Add", ["x_d", "x_d"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "s", "z"], ["sum_q"]),
        helper.make_node("DequantizeLinear", ["sum_q", "s", "z"], ["y"]),
    ]
    return file([helper.make_node("Add", ["x", "x"], ["y"])]), file(quantized)


def qdq_of(scale: float, zero: Any = ZERO) -> tuple[hilc.Graph, LoadedModel]:
    plain, quantized = (read_model(data, "g") for data in qdq_files(scale, zero))
    return plain.graph, quantized


def test_noise_and_clipping_are_counted_by_hand() -> None:
    plain, quantized = qdq_of(0.5)
    samples = [{"x": np.linspace(-40, 40, 64, dtype=np.float32)[np.newaxis]}]
    report = compare(plain, quantized, samples, None, lambda: None, 7)
    x = samples[0]["x"].astype(float)
    rounded = np.rint(x / 0.5) * 0.5
    doubled = np.clip(2 * rounded, -64, 63.5)
    by_name = {tensor.name: tensor for tensor in report.tensors}

    def db(real: np.ndarray, found: np.ndarray) -> float:
        return float(10 * np.log10((real**2).sum() / ((real - found) ** 2).sum()))

    assert by_name["x"].sqnr_db == pytest.approx(db(x, rounded), abs=0.01)
    assert by_name["y"].sqnr_db == pytest.approx(db(2 * x, doubled), abs=0.01)
    assert by_name["x"].clipped == 0
    steps = np.rint(2 * x / 0.5)
    assert by_name["y"].clipped == pytest.approx(((steps < -129) | (steps > 128)).mean())
    assert report.tensors[0].name == "y"
    assert report.calibration_samples == 7
    assert "clipped" in report._repr_html_()


def test_a_tensor_without_noise_is_exact() -> None:
    plain, quantized = qdq_of(0.5)
    samples = [{"x": np.arange(-32, 32, dtype=np.float32)[np.newaxis] / 2}]
    report = compare(plain, quantized, samples, None, lambda: None, 1)
    assert {t.sqnr_db for t in report.tensors} == {None}
    assert Interpreter(plain).run(samples[0])["y"].max() == 31


def test_unsigned_tensors_are_in_the_report() -> None:
    samples = [{"x": np.linspace(-40, 40, 64, dtype=np.float32)[np.newaxis]}]
    signed, unsigned = (
        compare(*qdq_of(0.5, zero), samples, None, lambda: None, 1)
        for zero in (np.int8(0), np.uint8(128))
    )
    assert unsigned.tensors == signed.tensors
    assert len(signed.tensors) == 2


def test_the_reference_of_onnx_runs_older_opsets() -> None:
    """Its DequantizeLinear begins with opset 19."""
    _, file = qdq_files(0.5)
    x = np.linspace(-9, 9, 64, dtype=np.float32)[np.newaxis]
    found = get_reference("onnx", load_model(file, "g"), file).run_all({"x": x})
    np.testing.assert_array_equal(found["y"], 2 * 0.5 * np.rint(x / 0.5))


def test_labels_of_no_class_are_refused() -> None:
    plain, quantized = qdq_of(0.5)
    samples = [{"x": np.zeros((1, 64), np.float32)}]
    with pytest.raises(InputError, match="the labels are 64 to 64"):
        compare(plain, quantized, samples, np.array([64]), lambda: None, 1)


def test_names_of_tensors_cannot_be_markup() -> None:
    plain, quantized = qdq_of(0.5)
    evil = "<script>alert(1)</script>"
    report = compare(plain, quantized, [{"x": np.ones((1, 64), np.float32)}], None, lambda: None, 1)
    shown = replace(report, tensors=(replace(report.tensors[0], name=evil),))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
