"""Dynamically quantized layers on integers: against onnxruntime, LiteRT, and generated C."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import litert_ref
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tflite_builder import ModelBuilder

import hilc
from hilc import host
from hilc.errors import InputError, ModelError
from hilc.frontends import read_model
from hilc.frontends.readers import Specialization
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.references import get_reference
from hilc.transforms import run_passes

FORMS = ("integer", "float")


def graph_of(model: bytes, dynamic: str | None = None) -> Graph:
    return read_model(model, "net", specialization=Specialization(dynamic=dynamic)).graph


def check_code(model: bytes, expected: Sequence[tuple[Array, Array]], **options: Any) -> None:
    """Generated C gives these outputs of these inputs."""
    with host.load(hilc.compile(model, **options)) as loaded:
        for x, y in expected:
            loaded.set_input(0, x)
            loaded.run()
            np.testing.assert_array_equal(loaded.get_output(0), y)


# ONNX ------------------------------------------------------------------------------------------


class Dynamic:
    """A model as onnxruntime's ``quantize_dynamic`` writes it."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def layer(
        self,
        x: str,
        shape: Sequence[int],
        dtype: str = "int8",
        zero: int = 0,
        *,
        per_channel: bool = False,
        **attributes: Any,
    ) -> str:
        """A MatMul, or with weights of four axes a Conv; then a bias and Relu."""
        convolves = len(shape) == 4
        axis = 0 if convolves else -1
        channels = (shape[axis],) if per_channel else ()
        broadcast = (1, -1, 1, 1) if convolves else (1, -1)
        info = np.iinfo(dtype)
        weights = self.rng.integers(max(info.min, -127), info.max + 1, shape).astype(dtype)
        scale = self.rng.uniform(0.001, 0.02, channels).astype(np.float32)
        # onnxruntime's ConvInteger takes one zero point.
        zeros = np.full(() if convolves else channels, zero, dtype)
        bias = self.rng.standard_normal(shape[axis]).astype(np.float32)
        q, x_scale, x_zero = self.add("DynamicQuantizeLinear", [x], 3)
        operands = [q, self.constant(weights), x_zero, self.constant(zeros)]
        kind = "ConvInteger" if convolves else "MatMulInteger"
        (sums,) = self.add(kind, operands, **attributes)
        (real,) = self.add("Cast", [sums], to=1)
        shown = scale.reshape(broadcast) if per_channel else scale
        (factor,) = self.add("Mul", [x_scale, self.constant(shown)])
        (scaled,) = self.add("Mul", [real, factor])
        (made,) = self.add("Add", [scaled, self.constant(bias.reshape(broadcast))])
        return self.add("Relu", [made])[0]

    def model(self, shape: Sequence[int], output: str) -> bytes:
        self.nodes[-1].output[0] = output = "y"
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", 1, shape)],
            [helper.make_tensor_value_info(output, 1, None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 17)]
        data: bytes = helper.make_model(
            graph, opset_imports=opsets, ir_version=8
        ).SerializeToString()
        return data


def dense(dtype: str, zero: int, per_channel: bool) -> tuple[bytes, tuple[int, ...]]:
    net = Dynamic(f"dense {dtype} {zero} {per_channel}")
    hidden = net.layer("x", (70, 33), dtype, zero, per_channel=per_channel)
    return net.model((3, 70), net.layer(hidden, (33, 6), dtype, zero)), (3, 70)


def convolutions(dtype: str, zero: int, per_channel: bool) -> tuple[bytes, tuple[int, ...]]:
    net = Dynamic(f"convolutions {dtype} {zero} {per_channel}")
    options: dict[str, Any] = {"dtype": dtype, "zero": zero, "per_channel": per_channel}
    x = net.layer("x", (6, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], **options)
    x = net.layer(x, (6, 1, 3, 3), group=6, pads=[0, 1, 2, 1], **options)
    x = net.layer(x, (5, 6, 1, 1), **options)
    return net.model((2, 3, 9, 8), net.layer(x, (4, 5, 2, 2), dilations=[2, 1], **options)), (
        2, 3, 9, 8,
    )  # fmt: skip


WEIGHTS = [("int8", 0, False), ("int8", 0, True), ("uint8", 128, False), ("uint8", 97, False)]


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda w: f"{w[0]}-{w[1]}-{w[2]}")
@pytest.mark.parametrize("make", [dense, convolutions])
def test_onnx_layers_are_exact(make: Any, weights: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, shape = make(*weights)
    session = onnxruntime.InferenceSession(model)
    evaluator = ReferenceEvaluator(onnx.load_from_string(model))
    graphs = [graph_of(model, form) for form in FORMS]
    assert "CONV_INTEGER" in (ops := {n.op for n in graphs[0].nodes}) or "MATMUL_INTEGER" in ops
    rng, pairs = np.random.default_rng(3), []
    for offset, scale in ((0, 1), (-4, 0.01), (9, 50), (0, 0)):
        x = (rng.standard_normal(shape) * scale + offset).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(evaluator.run(None, {"x": x})[0], expected)
        for graph in graphs:
            np.testing.assert_array_equal(run(graph, {"x": x})["y"], expected)
        pairs.append((x, expected))
    check_code(model, pairs)


def test_images_are_transposed_once() -> None:
    """The passes move transposes through a quantization by one range."""
    model, _ = convolutions("int8", 0, False)
    graph = run_passes(graph_of(model))
    assert [node.op for node in graph.nodes].count("TRANSPOSE") == 2


def test_integers_take_less_flash() -> None:
    model, _ = dense("int8", 0, False)
    integer, real = (hilc.compile(model, dynamic=form).modules[0] for form in FORMS)
    assert integer.constants_bytes < real.constants_bytes / 2
    assert [form.dynamic for form in integer.dynamic_forms] == ["integer", "float"]
    assert [form.dynamic for form in real.dynamic_forms] == ["float", "integer"]
    assert integer.dynamic_forms == real.dynamic_forms[::-1]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_given_integers(dtype: str) -> None:
    """Inputs that nothing quantized, and zero points that are operands, one a row."""
    rng = np.random.default_rng(4)
    weights = numpy_helper.from_array(rng.integers(0, 256, (9, 4)).astype(np.uint8), "w")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])],
        "net",
        [
            helper.make_tensor_value_info("x", kind, (5, 9)),
            helper.make_tensor_value_info("zero", kind, (5,)),
        ],
        [helper.make_tensor_value_info("y", 6, (5, 4))],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    read = graph_of(model.SerializeToString())
    assert "MATMUL_INTEGER" in {node.op for node in read.nodes}
    info = np.iinfo(dtype)
    x, zero = (
        rng.integers(info.min, info.max + 1, shape).astype(dtype) for shape in ((5, 9), (5,))
    )
    found = run(read, {"x": x, "zero": zero})["y"]
    left = x.astype(np.int64) - zero[:, np.newaxis]
    np.testing.assert_array_equal(found, left @ numpy_helper.to_array(weights).astype(np.int64))


def computed_scales(kind: str) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """Conversions whose scales an operator or an input gives."""
    shapes: dict[str, tuple[int, ...]] = {"x": (3, 8)}
    net = Dynamic(kind)
    q, *scales = net.add("DynamicQuantizeLinear", ["x"], 3)
    axis: dict[str, int] = {}
    if kind == "quantized again":
        (q,) = net.add("QuantizeLinear", [net.add("Neg", ["x"])[0], *scales])
    elif kind == "given channels":
        shapes |= {"s": (8,)}
        net.nodes.clear()
        scales, axis = ["s", net.constant(np.full(8, 100, np.uint8))], {"axis": 1}
        (q,) = net.add("QuantizeLinear", ["x", *scales], **axis)
    (real,) = net.add("DequantizeLinear", [q, *scales], **axis)
    if kind == "before a product":
        weights = net.constant(net.rng.standard_normal((8, 4)).astype(np.float32))
        (real,) = net.add("MatMul", [real, weights])
    net.nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        net.constants,
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), shapes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind", ["dequantized", "quantized again", "before a product", "given channels"]
)
def test_scales_may_be_computed(kind: str, form: str) -> None:
    """They were refused, with the hint to make the model's input a constant."""
    model, shapes = computed_scales(kind)
    graph, rng = graph_of(model.SerializeToString(), form), np.random.default_rng(1)
    for spread in (1, 0, 40):
        inputs = {
            name: (np.abs(rng.standard_normal(shape)) * spread + (name == "s")).astype(np.float32)
            for name, shape in shapes.items()
        }
        (expected,) = ReferenceEvaluator(model).run(None, inputs)
        found = run(graph, inputs)["y"]
        if kind == "before a product":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        elif spread:
            np.testing.assert_array_equal(found, expected)
    if kind != "given channels":
        x = rng.standard_normal((3, 8)).astype(np.float32)
        check_code(model.SerializeToString(), [(x, run(graph, {"x": x})["y"])], dynamic=form)


# TensorFlow Lite -------------------------------------------------------------------------------


def hybrid(
    code: str,
    x: Sequence[int],
    weights: Sequence[int],
    y: Sequence[int],
    *,
    axis: int | None = None,
    **attributes: Any,
) -> bytes:
    """A layer of int8 weights and floats, with a scale for each channel along ``axis``."""
    rng = np.random.default_rng(zlib.crc32(f"{code} {x} {weights} {axis}".encode()))
    b = ModelBuilder()
    b.input("x", tuple(x))
    count = 1 if axis is None else weights[axis]
    scales = tuple(float(np.float32(scale)) for scale in rng.uniform(0.01, 0.1, count))
    scale: Any = scales[0] if axis is None else scales
    quantized = {} if axis is None else {"axis": axis}
    b.const("w", rng.integers(-127, 128, weights, np.int8), scale, **quantized)
    b.const("b", rng.standard_normal(y[-1]).astype(np.float32))
    b.output("y", tuple(y))
    b.op(code, ("x", "w", "b"), ("y",), **attributes)
    return b.build()


_WINDOW: dict[str, Any] = {"padding": "SAME", "stride_h": 2, "stride_w": 1}
HYBRID: Mapping[str, bytes] = {
    "rows": hybrid("FULLY_CONNECTED", (3, 37), (5, 37), (3, 5), activation="RELU"),
    "rows, zero point": hybrid(
        "FULLY_CONNECTED", (3, 37), (5, 37), (3, 5), asymmetric_quantize_inputs=True
    ),
    "rows, channels": hybrid("FULLY_CONNECTED", (2, 64), (9, 64), (2, 9), axis=0),
    "rows of an image": hybrid("FULLY_CONNECTED", (2, 4, 4, 2), (9, 32), (2, 9)),
    "kept axes": hybrid(
        "FULLY_CONNECTED", (2, 3, 12), (4, 12), (2, 3, 4),
        keep_num_dims=True, asymmetric_quantize_inputs=True,
    ),
    "image": hybrid("CONV_2D", (2, 8, 7, 6), (12, 3, 3, 6), (2, 4, 7, 12), **_WINDOW),
    "image, channels": hybrid(
        "CONV_2D", (2, 8, 7, 6), (12, 3, 3, 6), (2, 4, 7, 12), axis=0, activation="RELU6", **_WINDOW
    ),
    "depthwise": hybrid(
        "DEPTHWISE_CONV_2D", (2, 8, 7, 6), (1, 3, 3, 12), (2, 4, 7, 12),
        axis=3, depth_multiplier=2, **_WINDOW,
    ),
}  # fmt: skip


@litert_ref.needs_litert_ref
@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_layers_equal_those_of_litert(name: str) -> None:
    model = HYBRID[name]
    graph = graph_of(model, "integer")
    reference = get_reference("litert-ref", graph, model)
    assert "as float32" not in reference.description
    rng, pairs = np.random.default_rng(5), []
    for offset, scale in ((0, 1), (2, 3), (-9, 0.1), (30, 0), (0, 0)):
        x = rng.standard_normal(graph.tensors["x"].shape) * scale + offset
        x = x.astype(np.float32)
        expected = reference.run_all({"x": x})["y"]
        np.testing.assert_array_equal(run(graph, {"x": x})["y"], expected)
        pairs.append((x, expected))
    check_code(model, pairs, dynamic="integer")


def test_hybrid_layers_are_floats_by_default() -> None:
    model = HYBRID["rows"]
    module = hilc.compile(model).modules[0]
    assert [layer.op for layer in module.layers] == ["FULLY_CONNECTED"]
    assert [form.dynamic for form in module.dynamic_forms] == ["float", "integer"]


def test_tflm_is_no_reference_of_hybrid_layers() -> None:
    model = HYBRID["rows"]
    with pytest.raises(InputError, match="FLOAT32 with filter type: INT8"):
        get_reference("tflm", graph_of(model, "integer"), model)


def test_depthwise_weights_with_one_scale_are_refused() -> None:
    model = hybrid("DEPTHWISE_CONV_2D", (1, 4, 4, 2), (1, 3, 3, 2), (1, 2, 4, 2), **_WINDOW)
    with pytest.raises(ModelError, match="have one scale"):
        graph_of(model, "integer")
    assert graph_of(model).nodes[0].op == "DEPTHWISE_CONV_2D"


def test_a_model_without_such_layers_has_no_forms() -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", 0.5, 1)
    b.output("y", (1, 4), "int8", 0.5, 1)
    b.op("ADD", ("x", "x"), ("y",))
    assert hilc.compile(b.build(), dynamic="integer").modules[0].dynamic_forms == ()


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError, match="integer"):
        hilc.compile(HYBRID["rows"], dynamic="int8")


# Fused operators of onnxruntime ----------------------------------------------------------------


def fused(op: str, inputs: Sequence[str], constants: Mapping[str, Any], **attributes: Any) -> Any:
    """A node of onnxruntime's own domain, and the session that computes it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    given = {"x": 1, "q": 2}
    outputs = ("y", "h", "c") if op == "DynamicQuantizeLSTM" else ("y",)
    shapes = {name: attributes.pop(name) for name in given if name in attributes}
    node = helper.make_node(op, inputs, outputs, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(n, given[n], shape) for n, shape in shapes.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return model, onnxruntime.InferenceSession(model)


def weights_of(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -127), info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_fused_products_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(6)
    constants: dict[str, Any] = {
        "w": weights_of(rng, (12, 7), dtype),
        "scale": rng.uniform(0.01, 0.02, 7).astype(np.float32),
        "zero": np.full(7, 0 if dtype == "int8" else 99, dtype),
        "bias": rng.standard_normal(7).astype(np.float32),
    }
    model, session = fused(
        "DynamicQuantizeMatMul", ["x", "w", "scale", "zero", "bias"], constants, x=(3, 12)
    )
    x = rng.standard_normal((3, 12)).astype(np.float32)
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(run(graph_of(model), {"x": x})["y"], expected)
    constants |= {"q_scale": np.float32(0.03), "q_zero": np.uint8(77)}
    inputs = ["q", "w", "q_scale", "scale", "q_zero", "zero", "bias"]
    model, session = fused("MatMulIntegerToFloat", inputs, constants, q=(3, 12))
    q = rng.integers(0, 256, (3, 12)).astype(np.uint8)
    (expected,) = session.run(None, {"q": q})
    np.testing.assert_array_equal(run(graph_of(model), {"q": q})["y"], expected)


@pytest.mark.parametrize(
    ("dtype", "directions", "per_channel", "depth"),
    [("int8", 1, False, 5), ("int8", 2, True, 4), ("uint8", 1, False, 6)],
)
def test_lstms_are_those_of_onnxruntime(
    dtype: str, directions: int, per_channel: bool, depth: int
) -> None:
    """Its curves are approximations, so results differ in the last places."""
    rng, units, steps = np.random.default_rng(7), 5, 4
    scales = (directions, 4 * units) if per_channel else (directions,)
    zero = np.full(scales, 0 if dtype == "int8" else 120, dtype)
    constants = {
        "w": weights_of(rng, (directions, depth, 4 * units), dtype),
        "r": weights_of(rng, (directions, units, 4 * units), dtype),
        "b": (rng.standard_normal((directions, 8 * units)) / 10).astype(np.float32),
        "w_scale": rng.uniform(0.002, 0.01, scales).astype(np.float32),
        "r_scale": rng.uniform(0.002, 0.01, scales).astype(np.float32),
        "w_zero": zero,
        "r_zero": zero,
    }
    inputs = ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    direction = "bidirectional" if directions == 2 else "forward"
    model, session = fused(
        "DynamicQuantizeLSTM", inputs, constants,
        x=(steps, 1, depth), hidden_size=units, direction=direction,
    )  # fmt: skip
    x = rng.standard_normal((steps, 1, depth)).astype(np.float32)
    expected = session.run(None, {"x": x})
    graph = graph_of(model)
    assert "MATMUL_INTEGER" in {node.op for node in graph.nodes}
    found = run(graph, {"x": x})
    for name, value in zip(("y", "h", "c"), expected, strict=True):
        np.testing.assert_allclose(found[name], value, atol=1e-6)


def test_steps_of_an_lstm_share_weights() -> None:
    rng, sizes = np.random.default_rng(8), []
    for steps in (2, 5):
        constants: dict[str, Any] = {
            "w": weights_of(rng, (1, 30, 120), "int8"),
            "r": weights_of(rng, (1, 30, 120), "int8"),
            "scale": np.ones(1, np.float32),
            "zero": np.zeros(1, np.int8),
        }
        inputs = ["x", "w", "r", *[""] * 5, "scale", "zero", "scale", "zero"]
        model, _ = fused("DynamicQuantizeLSTM", inputs, constants, x=(steps, 1, 30), hidden_size=30)
        sizes.append(hilc.compile(model).modules[0].constants_bytes)
    assert 7200 < max(sizes) < min(sizes) + 200 < 14400
