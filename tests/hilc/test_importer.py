"""Import of TFLite files: what each part of a file becomes, and what is refused in which words."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
import tflm
from models import model_path
from tflite_builder import ModelBuilder

from hil.cli import main
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.frontends.tflite.reader import import_graph, tensor_names
from hilc.interpreter import run
from hilc.ops import OPS
from hilc.writers.tflite import for_reference

_Q: dict[str, Any] = {"dtype": "int8", "scale": 0.5, "zero_point": 1}
_CONV = {"stride_h": 2, "stride_w": 3, "dilation_h": 1, "dilation_w": 1, "padding": "VALID"}


def _chain(
    code: str, operands: int = 1, version: int = 1, custom_code: str = "", **attrs: Any
) -> bytes:
    """A file with one operator of ``code`` on int8[1,4] tensors; it need not make sense."""
    b = ModelBuilder()
    names = [b.input(f"x{i}", (1, 4), **_Q) for i in range(operands)]
    b.output("y", (1, 4), **_Q)
    b.op(code, names, ("y",), version=version, custom_code=custom_code, **attrs)
    return b.build()


ATTRIBUTES: list[tuple[str, int, dict[str, Any], dict[str, Any]]] = [
    (
        "CONV_2D",
        2,
        {**_CONV, "dilation_w": 4, "activation": "RELU6"},
        {**_CONV, "dilation_w": 4, "activation": "RELU6"},
    ),
    (
        "DEPTHWISE_CONV_2D",
        3,
        {**_CONV, "padding": "SAME", "depth_multiplier": 5, "activation": "RELU_N1_TO_1"},
        {**_CONV, "padding": "SAME", "depth_multiplier": 5, "activation": "RELU_N1_TO_1"},
    ),
    (
        "FULLY_CONNECTED",
        2,
        {"activation": "RELU", "keep_num_dims": True},
        {"activation": "RELU", "keep_num_dims": True},
    ),
    ("FULLY_CONNECTED", 3, {}, {"activation": "NONE", "keep_num_dims": False}),
    *(
        (
            code,
            1,
            {"filter_h": 3, "filter_w": 2, "stride_h": 5, "stride_w": 4, "padding": "SAME"},
            {
                "filter_h": 3,
                "filter_w": 2,
                "stride_h": 5,
                "stride_w": 4,
                "padding": "SAME",
                "activation": "NONE",
            },
        )
        for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    ),
    ("RESHAPE", 2, {}, {"new_shape": None}),
    ("RESHAPE", 1, {"new_shape": (4, -1)}, {"new_shape": (4, -1)}),
    ("SQUEEZE", 1, {"squeeze_dims": (0, -1)}, {"squeeze_dims": (0, -1)}),
    ("SQUEEZE", 1, {}, {"squeeze_dims": ()}),
    ("EXPAND_DIMS", 2, {}, {}),
    ("SOFTMAX", 1, {"beta": 0.5}, {"beta": 0.5}),
    *(
        (code, 2, {"activation": "RELU6"}, {"activation": "RELU6"})
        for code in ("ADD", "SUB", "MUL")
    ),
    ("PAD", 2, {}, {}),
    ("MEAN", 2, {"keep_dims": True}, {"keep_dims": True}),
    ("CONCATENATION", 4, {"axis": -1}, {"axis": -1, "activation": "NONE"}),
    *((code, 1, {}, {}) for code in ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH")),
    ("LEAKY_RELU", 1, {"alpha": 0.25}, {"alpha": 0.25}),
    ("DEQUANTIZE", 1, {}, {}),
    ("QUANTIZE", 1, {}, {"dtype": "int8"}),
    ("TRANSPOSE", 2, {}, {}),
    (
        "STRIDED_SLICE",
        4,
        {
            "begin_mask": 1,
            "end_mask": 2,
            "ellipsis_mask": 4,
            "new_axis_mask": 8,
            "shrink_axis_mask": 16,
        },
        {
            "begin_mask": 1,
            "end_mask": 2,
            "ellipsis_mask": 4,
            "new_axis_mask": 8,
            "shrink_axis_mask": 16,
        },
    ),
    ("SPLIT", 2, {"num_splits": 3}, {"num_splits": 3}),
    ("PACK", 3, {"values_count": 3, "axis": 1}, {"values_count": 3, "axis": 1}),
]


@pytest.mark.parametrize(("code", "operands", "written", "read"), ATTRIBUTES)
def test_attributes(
    code: str, operands: int, written: dict[str, Any], read: dict[str, Any]
) -> None:
    (node,) = import_graph(_chain(code, operands, **written), "m").graph.nodes
    assert (node.op, node.attrs, node.outputs) == (code, OPS[code].attributes(**read), ("y",))
    assert [name for name in node.inputs if name] == [f"x{i}" for i in range(operands)]


def test_absent_bias_is_an_empty_name() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), **_Q)
    b.const("w", np.ones((2, 4), np.int8), 0.1)
    b.output("y", (1, 2), **_Q)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    assert load_model(b.build()).nodes[0].inputs == ("x", "w", "")


def test_tensors_keep_type_shape_data_and_quantization() -> None:
    b = ModelBuilder()
    b.input("x", (1, 2, 2, 2), "int8", 0.5, -7)
    w = np.arange(24, dtype=np.int8).reshape(3, 2, 2, 2)
    b.const("w", w, (0.25, 0.5, 1.0), axis=0)
    bias = np.array([1, -2, 2**30], np.int32)
    b.const("b", bias, (0.125, 0.25, 0.5))
    b.output("y", (1, 1, 1, 3), "int8", 2.0, 5)
    b.op("CONV_2D", ("x", "w", "b"), ("y",), padding="VALID")
    graph = load_model(b.build(), "named")
    x, weights, biases, y = (graph.tensors[n] for n in ("x", "w", "b", "y"))
    assert graph.name == "named"
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert (x.shape, x.dtype, x.is_constant) == ((1, 2, 2, 2), "int8", False)
    assert x.quant is not None
    assert (x.quant.scale, x.quant.zero_point) == ((0.5,), (-7,))
    assert weights.quant is not None
    assert (weights.quant.scale, weights.quant.axis) == ((0.25, 0.5, 1.0), 0)
    np.testing.assert_array_equal(weights.data, w)
    np.testing.assert_array_equal(biases.data, bias)
    assert (y.shape, y.quant and y.quant.zero_point) == ((1, 1, 1, 3), (5,))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "bool"])
def test_constant_types(dtype: str) -> None:
    values = np.array([[0, 1], [1, 0]], dtype)
    b = ModelBuilder()
    b.input("x", (2, 2), dtype, 0.5)
    b.const("c", values, 0.5)
    b.output("y", (2, 2), dtype, 0.5)
    b.op("ADD", ("x", "c"), ("y",))
    constant = import_graph(b.build(), "m").graph.tensors["c"]
    assert constant.data is not None
    assert constant.data.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(constant.data, values)
    assert (constant.quant is None) == (dtype in ("float32", "bool"))


def test_constants_cannot_be_written_to() -> None:
    graph = load_model(model_path("kws"))
    data = next(t.data for t in graph.tensors.values() if t.data is not None)
    with pytest.raises(ValueError, match="read-only"):
        data[...] = 0


def test_several_inputs_and_outputs_keep_their_order() -> None:
    b = ModelBuilder()
    for name in ("b", "a"):
        b.input(name, (1, 4), **_Q)
    for name in ("z", "w"):
        b.tensor(name, (1, 4), **_Q)
    b.op("ADD", ("a", "b"), ("w",))
    b.op("MUL", ("w", "b"), ("z",))
    b.output("z")
    b.output("w")
    graph = load_model(b.build())
    assert graph.inputs == ("b", "a")
    assert graph.outputs == ("z", "w")


def test_names_are_unique_printable_and_stable() -> None:
    b = ModelBuilder()
    for name in ("x", "x", "", "x#1", "a\nb*/"):
        b.tensor(name, (1,))
    data = b.build()
    assert tensor_names(data) == ("x", "x#1#1", "tensor_2", "x#1", "a?b*/")
    assert tensor_names(data) == tensor_names(bytes(data))


def test_name_from_stem_and_source_as_text(tmp_path: Path) -> None:
    path = tmp_path / "some.model.tflite"
    path.write_bytes(_chain("RELU"))
    assert load_model(path).name == load_model(str(path)).name == "some.model"
    assert load_model(path, "other").name == "other"
    assert load_model(path.read_bytes()).name == "default"


def test_scale_on_a_float_tensor_is_dropped() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "float32", 0.5, 3)
    b.output("y", (1, 4))
    b.op("RELU", ("x",), ("y",))
    assert load_model(b.build()).tensors["x"].quant is None


def test_open_batch_is_one() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), signature=(-1, 4))
    b.output("y", (1, 4), signature=(-1, 4))
    b.op("RELU", ("x",), ("y",))
    assert load_model(b.build()).tensors["x"].shape == (1, 4)


def test_float16_constants_become_float32() -> None:
    half = np.array([[1.5, -0.1, 65504.0, 6e-8]], np.float16)
    b = ModelBuilder()
    b.input("x", (1, 4))
    b.const("h", half)
    b.tensor("wide", (1, 4))
    b.output("y", (1, 4))
    b.op("DEQUANTIZE", ("h",), ("wide",))
    b.op("ADD", ("x", "wide"), ("y",))
    graph = load_model(b.build())
    assert [(n.op, n.inputs, n.index) for n in graph.nodes] == [("ADD", ("x", "wide"), 1)]
    np.testing.assert_array_equal(graph.tensors["wide"].data, half.astype(np.float32))


def _hybrid(per_channel: bool, shared: bool = False) -> bytes:
    rng = np.random.default_rng(7)
    b = ModelBuilder()
    b.input("x", (2, 6))
    scale = (0.25, 0.5, 0.1) if per_channel else 0.3
    b.const("w", rng.integers(-127, 128, (3, 6), np.int8), scale)
    b.const("b", rng.standard_normal(3).astype(np.float32))
    b.output("y", (2, 3))
    b.op("FULLY_CONNECTED", ("x", "w", "b"), ("y",), activation="RELU")
    if shared:
        b.output("z", (2, 3))
        b.op("FULLY_CONNECTED", ("x", "w", ""), ("z",))
    return b.build()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_dynamic_range_weights_are_dequantized(per_channel: bool, shared: bool) -> None:
    data = _hybrid(per_channel, shared)
    graph = load_model(data)
    weights = graph.tensors[graph.nodes[0].inputs[1]]
    scale = np.array((0.25, 0.5, 0.1) if per_channel else 0.3, np.float32).reshape(-1, 1)
    raw = np.random.default_rng(7).integers(-127, 128, (3, 6), np.int8)
    assert (weights.dtype, weights.quant) == ("float32", None)
    np.testing.assert_array_equal(weights.data, raw * scale)
    x = np.random.default_rng(8).standard_normal((2, 6)).astype(np.float32)
    reference = tflm.reference(graph, data).run_all({"x": x})
    for name, value in run(graph, {"x": x}).items():
        np.testing.assert_allclose(value, reference[name], rtol=1e-6, atol=1e-6)


def test_rewritten_file_has_the_same_hybrid_weights() -> None:
    rewritten, remarks = for_reference(_hybrid(per_channel=True))
    assert remarks == ("dynamic-range weights as float32",)
    assert for_reference(rewritten) == (rewritten, ())
    assert for_reference(_chain("RELU")) == (_chain("RELU"), ())
    assert load_model(rewritten).tensors["w"].dtype == "float32"


def test_static_shape_arithmetic_is_folded() -> None:
    b = ModelBuilder()
    b.input("x", (1, 2, 3, 4))
    b.tensor("shape", (4,), "int32")
    for name, value in (("begin", 0), ("end", 1), ("stride", 1)):
        b.const(name, np.array([value], np.int32))
    b.tensor("batch", (), "int32")
    b.const("rest", np.array(24, np.int32))
    b.tensor("target", (2,), "int32")
    b.output("y", (1, 24))
    b.op("SHAPE", ("x",), ("shape",), out_type=2)
    b.op("STRIDED_SLICE", ("shape", "begin", "end", "stride"), ("batch",), shrink_axis_mask=1)
    b.op("PACK", ("batch", "rest"), ("target",), values_count=2, axis=0)
    b.op("RESHAPE", ("x", "target"), ("y",))
    graph = load_model(b.build())
    assert [node.op for node in graph.nodes] == ["RESHAPE"]
    assert graph.tensors["target"].data is not None
    assert graph.tensors["target"].data.tolist() == [1, 24]


def _file(build: Callable[[ModelBuilder], None]) -> bytes:
    b = ModelBuilder()
    build(b)
    return b.build()


def _dynamic(b: ModelBuilder) -> None:
    b.input("x", (1, 1, 4), signature=(1, -1, 4))
    b.output("y", (1, 1, 4))
    b.op("RELU", ("x",), ("y",))


def _batch_of_eight(b: ModelBuilder) -> None:
    b.input("x", (8, 4), signature=(-1, 4))
    b.output("y", (8, 4))
    b.op("RELU", ("x",), ("y",))


def _float16_activation(b: ModelBuilder) -> None:
    b.input("x", (1, 4), "float16")
    b.output("y", (1, 4))
    b.op("DEQUANTIZE", ("x",), ("y",))


def _per_channel_activation(b: ModelBuilder) -> None:
    b.input("x", (1, 2), "int8", (0.5, 0.25), axis=1)
    b.output("y", (1, 2), "int8", 0.5)
    b.op("RELU", ("x",), ("y",))


def _unquantized(b: ModelBuilder) -> None:
    b.input("x", (1, 2), "int8")
    b.output("y", (1, 2), "int8")
    b.op("RELU", ("x",), ("y",))


def _wrong_order(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.tensor("t", (1, 4))
    b.output("y", (1, 4))
    b.op("RELU", ("t",), ("y",))
    b.op("RELU", ("x",), ("t",))


def _cycle(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 4))
    b.op("ADD", ("x", "y"), ("y",))


def _written_twice(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 4))
    b.op("RELU", ("x",), ("y",))
    b.op("RELU6", ("x",), ("y",))


def _writes_an_input(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 4))
    b.op("RELU", ("x",), ("y",))
    b.op("RELU", ("y",), ("x",))


def _writes_a_constant(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.const("c", np.zeros((1, 4), np.float32))
    b.output("c")
    b.op("RELU", ("x",), ("c",))


def _output_not_computed(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 4))


def _no_output(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.tensor("y", (1, 4))
    b.op("RELU", ("x",), ("y",))


def _wrong_shape(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 5))
    b.op("RELU", ("x",), ("y",))


def _huge(b: ModelBuilder) -> None:
    b.input("x", (1 << 15, 1 << 15))
    b.output("y", (1 << 15, 1 << 15))
    b.op("RELU", ("x",), ("y",))


def _empty_dimension(b: ModelBuilder) -> None:
    b.input("x", (0, 4))
    b.output("y", (0, 4))
    b.op("RELU", ("x",), ("y",))


def _constant_of_wrong_size(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.tensor("c", (1, 4), data=np.zeros(3, np.float32))
    b.output("y", (1, 4))
    b.op("ADD", ("x", "c"), ("y",))


def _complex_type(b: ModelBuilder) -> None:
    b.input("x", (1, 4), "complex64")
    b.output("y", (1, 4), "complex64")
    b.op("RELU", ("x",), ("y",))


def _scales_without_axis(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **_Q)
    b.const("w", np.ones((2, 4), np.int8), (0.1, 0.2, 0.3))
    b.output("y", (1, 2), **_Q)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))


def _zero_scale(b: ModelBuilder) -> None:
    b.input("x", (1, 4), "int8", 0.0)
    b.output("y", (1, 4), **_Q)
    b.op("RELU", ("x",), ("y",))


def _infinite_scales(b: ModelBuilder) -> None:
    b.input("x", (1, 4), **_Q)
    b.const("w", np.ones((2, 4), np.int8), (0.1, np.inf))
    b.output("y", (1, 2), **_Q)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))


def _scale_that_is_none(b: ModelBuilder) -> None:
    b.input("x", (1, 4), "int8", np.nan)
    b.output("y", (1, 4), **_Q)
    b.op("RELU", ("x",), ("y",))


def _absent_operand(b: ModelBuilder) -> None:
    b.input("x", (1, 4))
    b.output("y", (1, 4))
    b.op("ADD", ("x", ""), ("y",))


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (_dynamic, UnsupportedError, "input 'x' has the dynamic shape [1, -1, 4]"),
        (_batch_of_eight, UnsupportedError, "input 'x' has the dynamic shape [-1, 4]"),
        (_float16_activation, UnsupportedError, "it reads 'x', a computed float16 tensor"),
        (_per_channel_activation, UnsupportedError, "'x' is computed but quantized per channel"),
        (_unquantized, ModelError, "'y' takes 'x', of type int8, without quantization"),
        (_wrong_order, ModelError, "operator 0 (RELU) reads 't' before any operator writes it"),
        (_cycle, ModelError, "operator 0 (ADD) reads 'y' before any operator writes it"),
        (_written_twice, ModelError, "operator 1 (RELU6) writes 'y', which already has a value"),
        (_writes_an_input, ModelError, "operator 1 (RELU) writes 'x', which already has a value"),
        (_writes_a_constant, ModelError, "operator 0 (RELU) writes the constant 'c'"),
        (_output_not_computed, ModelError, "no operator computes the model's output 'y'"),
        (_no_output, ModelError, "the model has no output"),
        (_wrong_shape, ModelError, "operator 0 (RELU) computes float32[1, 4] but 'y' is declared"),
        (_huge, ModelError, "takes 4294967296 bytes"),
        (_empty_dimension, UnsupportedError, "the input 'x' has shape [0, 4], which has no"),
        (_constant_of_wrong_size, ModelError, "'c' has 12 bytes of data; its shape [1, 4]"),
        (_complex_type, UnsupportedError, "'x' is an input or an output, and complex"),
        (_scales_without_axis, ModelError, "'w' with shape [2, 4] has 3 scales along axis 0"),
        (_zero_scale, ModelError, "'x' with scale 0.0"),
        (_infinite_scales, ModelError, "'w' has the scale inf, as 1 of its 2 are no finite number"),
        (_scale_that_is_none, ModelError, "'x' has the scale nan, as 1 of its 1 are no finite"),
        (_absent_operand, ModelError, "operator 0 (ADD): it has a missing operand"),
    ],
)
def test_refused(build: Callable[[ModelBuilder], None], kind: type, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(_file(build))
    assert message in caught.value.fact
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_chain("CONV_2D", 2, padding="VALID", stride_h=0), "StrideH is 0; it must be at least 1"),
        (_chain("CONV_2D", 2, dilation_w=-1), "DilationWFactor is -1"),
        (_chain("ADD", 2, activation="TANH"), "its fused activation TANH is not supported"),
        (
            _chain("CONCATENATION", 2, axis=0, activation="RELU"),
            "its fused activation RELU is not supported",
        ),
        (_chain("ADD", 3), "it has 3 inputs; 2 are accepted"),
        (_chain("CONV_2D", 1), "it has 1 inputs; 2 to 3 are accepted"),
        (_chain("FULLY_CONNECTED", 2, weights_format=1), "shuffled weights"),
        (_chain("STRIDED_SLICE", 4, offset=True), "its option offset"),
    ],
)
def test_options_refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(data)
    assert caught.value.fact.startswith("operator 0 (")
    assert message in caught.value.fact


def test_unsupported_operators_are_all_named() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4))
    b.tensor("t", (1, 4))
    b.tensor("u", (1, 4))
    b.output("y", (1, 4))
    b.op("RELU", ("x",), ("t",))
    b.op("CUSTOM", ("t",), ("u",), custom_code="SomebodysOwn")
    b.op("UNIQUE", ("u",), ("y",))
    with pytest.raises(UnsupportedError) as caught:
        load_model(b.build())
    assert caught.value.fact == (
        "operators 1 (CUSTOM 'SomebodysOwn'), 2 (UNIQUE) are not supported"
    )
    assert "docs/how-to/operators.md shows how to add an operator" in caught.value.hint
    assert len(caught.value.hint) < 200


def test_an_unsupported_operator_names_similar_ones() -> None:
    with pytest.raises(UnsupportedError) as caught:
        load_model(_chain("UNSORTED_SEGMENT_SUM"))
    assert caught.value.hint.startswith("docs/reference/operators.md")
    with pytest.raises(UnsupportedError) as caught:
        load_model(_chain("CONV_3D_TRANSPOSE"))
    assert caught.value.hint.startswith("similar are TRANSPOSE; docs/reference/operators.md")


def test_a_model_is_called_as_it_was_asked_for() -> None:
    assert load_model(_chain("RELU"), "wanted").name == "wanted"
    assert load_model(_chain("RELU")).name == "default"


def test_operator_beyond_the_old_code_range_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"operator 0 \(MULTINOMIAL\) is not supported"):
        load_model(_chain("MULTINOMIAL"))


def test_an_unforeseen_failure_is_a_model_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("hilc.frontends.load.verify", fail)
    with pytest.raises(ModelError, match="is inconsistent .IndexError: list index out of range"):
        load_model(_chain("RELU"))


FOREIGN = [
    (b"", "the file is empty"),
    (b"\x00", "not a TFLite, ONNX or PyTorch model"),
    (b"\x89HDF\r\n\x1a\n" + bytes(64), "Keras HDF5"),
    (b"PK\x03\x04" + bytes(64), "ZIP archive"),
    (b"\x08\x07\x12\x07pytorch" + bytes(64), "ONNX"),
    (b"<html>404</html>", "HTML"),
    (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    (bytes(range(256)), "its identifier is"),
    (b"\x1c\x00\x00\x00TFL3", "damaged or cut short"),
    (b"\xff\xff\xff\x7fTFL3" + bytes(64), "damaged or cut short"),
    (b"\x00\x00\x00\x00TFL3" + bytes(64), "the file"),
]


def _keras_archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, "{}")
    return file.getvalue()


#: Files of TensorFlow by name: what they begin with, what they are, and a part of the remedy.
TENSORFLOW = [
    ("m.keras", _keras_archive(), "this is a Keras model (.keras)", "load_model('{path}')"),
    ("m.h5", b"\x89HDF\r\n\x1a\n" + bytes(64), "Keras HDF5 model", "hil quantize {path} "),
    ("folder/saved_model.pb", b"\x08\x01\x12\x07" + bytes(64), "a TensorFlow SavedModel",
     "from_saved_model('{folder}')"),
    ("graph.pb", b"\n\x20\n\x01x\x12\x0bPlaceholder" + bytes(64), "frozen graph of TensorFlow 1",
     "from_frozen_graph('{path}'"),
]  # fmt: skip


def _archive(**members: bytes) -> bytes:
    """The archive of torch.save or torch.jit.save, with these files in its folder."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name.replace('__', '/').replace('_pkl', '.pkl')}", data)
    return file.getvalue()


_WEIGHTS = (
    b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n."
)
_MODULE = b"\x80\x02c__main__\nNet\n)\x81."
#: In the protocol 4, a name is two texts.
_MODULE_4 = b"\x80\x04\x8c\x08__main__\x8c\x03Net\x93)\x81."
_BEFORE_1_6 = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."
#: {"epoch": 3, "model": OrderedDict()}, and one whose optimizer uses the class before.
_CHECKPOINT = (
    b"\x80\x02}q\0(X\x05\0\0\0epochq\x01K\x03"
    b"X\x05\0\0\0modelq\x02ccollections\nOrderedDict\nq\x03)Rq\x04u."
)
_OPTIMIZER_FIRST = (
    b"\x80\x02}q\0(X\x03\0\0\0optq\x01}q\x02K\0\x89ccollections\nOrderedDict\nq\x03)R\x86s"
    b"X\x06\0\0\0net{0}q\x04h\x03)Rq\x05u."
)
#: Files of PyTorch by name: what they are, and a part of the remedy.
PYTORCH = [
    ("script.pt", _archive(data_pkl=_MODULE, constants_pkl=b"", code____torch__=b""),
     "TorchScript", "torch.onnx.export(torch.jit.load('{path}').eval(), (x,), "),
    ("weights.pt", _archive(data_pkl=_WEIGHTS), "a state_dict",
     "module.load_state_dict(torch.load('{path}', weights_only=True)); torch.export.save("),
    ("checkpoint.pt", _archive(data_pkl=_CHECKPOINT), "a state_dict that torch.save wrote under",
     "load_state_dict(torch.load('{path}', weights_only=True)['model']); torch.export.save("),
    ("last.pt", _archive(data_pkl=_OPTIMIZER_FIRST), "under the key 'net{0}'",
     "load_state_dict(torch.load('{path}', weights_only=True)['net{{0}}']); torch.export.save("),
    ("module.pt", _archive(data_pkl=_MODULE), "a pickle of the class '__main__.Net'",
     "module = torch.load('{path}', weights_only=False); torch.export.save("),
    ("module_4.pt", _archive(data_pkl=_MODULE_4), "class '__main__.Net'", "torch.load('{path}'"),
    ("weights.pth", _BEFORE_1_6 + _WEIGHTS, "a state_dict", "torch.load('{path}', weights_only=T"),
    ("module.pth", _BEFORE_1_6 + _MODULE, "class '__main__.Net'", "weights_only=False"),
    ("net.safetensors", (2).to_bytes(8, "little") + b"{}", "safetensors", "load_file('{path}')"),
    ("net.pte", b"\x1c\0\0\0ET12" + bytes(9), "ExecuTorch", "torch.export.save("),
    ("net.pt2", _archive(data__aotinductor__model__a_so=b""), "AOTInductor", "torch.export.save("),
    ("forest.joblib", b"\x80\x04\x95" + bytes(9), "a pickle", "skl2onnx.to_onnx(model, x[:1])"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "message", "remedy"), TENSORFLOW + PYTORCH)
def test_files_of_other_programs(
    name: str, data: bytes, message: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert message in caught.value.fact
    assert remedy.format(path=path, folder=path.parent) in str(caught.value.hint)
    with pytest.raises(ModelError):
        load_model(data)


@pytest.mark.parametrize("command", ["compile", "verify", "bench", "explain"])
def test_a_folder_of_tensorflow(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01\x12\x07")
    output = ["-o", str(tmp_path / "out")] if command == "compile" else []
    assert main([command, str(tmp_path), "--board", "mps2-an386", *output]) == 2
    shown = capsys.readouterr().err
    assert "this is a SavedModel folder of TensorFlow" in shown
    assert f"hil quantize {tmp_path} --calibration" in shown


@pytest.mark.parametrize(("data", "message"), FOREIGN)
def test_foreign_files(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "some.tflite"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert caught.value.fact.startswith(f"{path}: ")
    assert message in caught.value.fact
    assert caught.value.hint
    with pytest.raises(ModelError):
        load_model(data)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_named(protocol: int) -> None:
    """A model of scikit-learn as users save it, and the first layer of older checkpoints."""
    with pytest.raises(ModelError, match="looks like a pickle of Python objects") as caught:
        load_model(pickle.dumps({"classes_": [0, 1]}, protocol))
    assert "skl2onnx.to_onnx" in caught.value.hint


def test_sources_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "absent.tflite", "the file does not exist"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
    ):
        with pytest.raises(ModelError, match=message):
            load_model(path)


def test_a_table_named_very_often_is_refused_in_time() -> None:
    # 16384 times one subgraph, which has 16384 times one tensor: 128 KB that spell 2**28 tables.
    fbb = flatbuffers.Builder()
    tflite.TensorStart(fbb)
    tensors = _repeated(fbb, tflite.TensorEnd(fbb), 1 << 14)
    tflite.SubGraphStart(fbb)
    tflite.SubGraphAddTensors(fbb, tensors)
    subgraphs = _repeated(fbb, tflite.SubGraphEnd(fbb), 1 << 14)
    tflite.ModelStart(fbb)
    tflite.ModelAddVersion(fbb, 3)
    tflite.ModelAddSubgraphs(fbb, subgraphs)
    fbb.Finish(tflite.ModelEnd(fbb), b"TFL3")
    with pytest.raises(ModelError, match="refers to more tables than it can hold"):
        load_model(bytes(fbb.Output()))


def _repeated(fbb: flatbuffers.Builder, table: int, count: int) -> int:
    fbb.StartVector(4, count, 4)
    for _ in range(count):
        fbb.PrependUOffsetTRelative(table)
    return int(fbb.EndVector())


def test_constants_of_four_bits_are_int8():
    """Two in a byte, the lower half first; the last half is filled up."""
    b = ModelBuilder()
    b.input("x", (1, 3), "int8", 0.1, 0)
    data = np.array([0x7F, 0x80, 0x21, 0xF3, 0x05], np.uint8)
    b.tensor("w", (3, 3), "int4", (0.1,), (0,), data=data)
    b.output("y", (1, 3), "int8", 0.1, 0)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",), activation="NONE", keep_num_dims=False)
    weights = load_model(b.build()).tensors["w"]
    assert weights.dtype == "int8"
    assert weights.data is not None
    assert weights.data.tolist() == [[-1, 7, 0], [-8, 1, 2], [3, -1, 5]]


def test_computed_tensors_of_four_bits_are_refused():
    b = ModelBuilder()
    b.input("x", (1, 3), "int4", 0.1, 0)
    b.output("y", (3,), "int4", 0.1, 0)
    b.op("RESHAPE", ("x",), ("y",), new_shape=(3,))
    with pytest.raises(UnsupportedError, match="'x' has type int4 and is computed"):
        load_model(b.build())


def test_a_constant_of_no_elements_has_valid_sizes() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "float32")
    b.tensor("w", (0, 2**31 - 1, 2**31 - 1, 2**31 - 1), "float32")
    b.output("y", (1, 4), "float32")
    b.op("ADD", ("x", "w"), ("y",))
    with pytest.raises(ModelError, match=r"'w' with shape \[0, .*\] has no elements, but sizes"):
        load_model(b.build())
