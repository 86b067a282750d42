"""LAYER_NORMALIZATION: its definition against double precision, its kernels against that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx.reference
import pytest
from campaigns import cases
from kernel_checks import check, checks_of
from layer_norms import layer_norm
from onnx import TensorProto, helper, numpy_helper
from single_op import SingleOp

import hil
import hilc
from hil.board import load_board
from hilc.errors import ModelError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array, Quant
from hilc.ops.layer_norm import LayerNormAttributes
from hilc.references import get_reference
from hilc.target import get_cpu


def real(one: SingleOp) -> Array:
    """What a layer gives in double precision, before it is quantized."""
    x, factors = one.values[0].astype(np.float64), one.values[1]
    addends = one.values[2] if len(one.values) > 2 else np.zeros_like(factors)
    attrs = LayerNormAttributes.of(one.node)
    quant = one.ins[0].quant or Quant((1.0,), (0,))
    x -= quant.zero_point[0]
    rest = (x - x.mean(-1, keepdims=True) if attrs.centered else x) * quant.scale[0]
    deviation = np.sqrt((rest * rest).mean(-1, keepdims=True) + attrs.epsilon)
    # Of a row without any deviation nothing is left but the addends.
    return rest / np.where(deviation, deviation, 1) * factors + addends


def test_float32_is_near_to_double_precision() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        one = layer_norm(rng, "float32")
        np.testing.assert_allclose(one.reference()[0], real(one), rtol=1e-3, atol=1e-4)


def test_int8_is_the_nearest_step() -> None:
    """But for results so near to the middle between two that float32 does not tell."""
    rng = np.random.default_rng(2)
    off = total = 0
    for _ in range(400):
        one = layer_norm(rng, "int8")
        quant = one.outs[0].quant
        assert quant is not None
        steps = real(one) / quant.scale[0] + quant.zero_point[0]
        wanted = np.clip(np.rint(steps), -128, 127)
        found = one.reference()[0].astype(np.float64)
        differs = found != wanted
        assert (np.abs(found - np.clip(steps, -128, 127)) <= 0.5 + 1e-4).all()
        off, total = off + int(differs.sum()), total + differs.size
    assert off <= total / 10_000


def test_kernels_on_this_machine() -> None:
    rng = np.random.default_rng(3)
    checks = []
    for dtype in ("int8", "float32"):
        for _ in range(60):
            checks += checks_of(layer_norm(rng, dtype), get_cpu("host"))
    check(checks)


# From models --------------------------------------------------------------------------------------


def model(op: str, shape: Sequence[int], axis: int, quantized: bool) -> bytes:
    """A normalization from the axis on, between QuantizeLinear and DequantizeLinear if so."""
    rng = np.random.default_rng(4)
    size = shape[axis:]
    constants = {"w": rng.normal(size=size), "b": rng.normal(size=size), "s": 0.02, "t": 0.05}
    arrays = {name: np.array(value, np.float32) for name, value in constants.items()}
    arrays |= {"z": np.array(3, np.int8)}
    taken = ["x", "w", "b"] if op == "LayerNormalization" else ["x", "w"]
    nodes = [helper.make_node(op, taken, ["y"], axis=axis, epsilon=1e-3)]
    dtype = TensorProto.FLOAT
    if quantized:
        dtype = TensorProto.INT8
        nodes = [
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"]),
            *nodes,
            helper.make_node("QuantizeLinear", ["y", "t", "z"], ["r"]),
        ]
    names = ("q", "r") if quantized else ("x", "y")
    given, made = (helper.make_tensor_value_info(name, dtype, shape) for name in names)
    stored = [numpy_helper.from_array(a, n) for n, a in arrays.items() if quantized or n in taken]
    graph = helper.make_graph(nodes, "norm", [given], [made], stored)
    opset = helper.make_opsetid("", 23)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_layer_of_onnx_is_one_operator(op: str, axis: int) -> None:
    data = model(op, (2, 3, 8), axis, quantized=False)
    graph = load_model(data, "norm")
    assert [n.op for n in graph.nodes if n.op != "RESHAPE"] == ["LAYER_NORMALIZATION"]
    x = np.random.default_rng(5).normal(size=(2, 3, 8)).astype(np.float32)
    wanted = onnx.reference.ReferenceEvaluator(data).run(None, {"x": x})[0]
    np.testing.assert_allclose(run(graph, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_between_integers_it_computes_on_these(op: str) -> None:
    data = model(op, (2, 3, 8), -1, quantized=True)
    library = hilc.compile(data, name="norm")
    (module,) = library.modules
    assert "LAYER_NORMALIZATION" in {layer.op for layer in module.layers}
    assert not {"DEQUANTIZE", "QUANTIZE"} & {layer.op for layer in module.layers}
    graph = load_model(data, "norm")
    reference = get_reference("qdq", graph, data)
    x = np.random.default_rng(6).integers(-128, 128, (2, 3, 8), np.int8)
    wanted = reference.run_all({"q": x})["r"]
    exact = onnx.reference.ReferenceEvaluator(data).run(None, {"q": x})[0]
    assert (np.abs(wanted.astype(int) - exact) <= 1).all()
    assert (wanted == exact).mean() > 0.95
    with hilc.host.load(library) as loaded:
        loaded.set_input("q", x)
        loaded.run()
        np.testing.assert_array_equal(loaded.get_output(0), wanted)


@pytest.mark.parametrize("op", ["LogSoftmax", "LpNormalization"])
def test_a_function_of_a_row_is_not_elementwise(op: str) -> None:
    """So it has no table of 256 values."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["x"]),
        helper.make_node(op, ["x"], ["y"], axis=-1),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["r"]),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.INT8, (2, 8)) for n in "qr"]
    constants = {"s": np.float32(0.1), "z": np.int8(0)}
    stored = [numpy_helper.from_array(np.array(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "soft", infos[:1], infos[1:], stored)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    with pytest.raises(ModelError, match="computes? in floats"):
        hilc.compile(data.SerializeToString(), name="soft")


@cases("board", ["lm3s6965evb", "mps2-an386", "mps3-an547"], first=1)
def test_kernels_on_boards(board: str) -> None:
    rng = np.random.default_rng(7)
    found = load_board(board)
    checks = []
    for dtype in ("int8", "float32"):
        for _ in range(30):
            checks += checks_of(layer_norm(rng, dtype), found.cpu)
    kernels = {one.kernel for one in checks}
    assert ("hil_mve_layer_norm_s8" in kernels) == ("mve" in found.cpu.features)
    check(checks, found)


def test_it_is_refused_what_it_does_not_define() -> None:
    with pytest.raises(ModelError, match="adds -1"):
        hil.compile(model_with_epsilon(-1.0), board="mps2-an386")


def model_with_epsilon(epsilon: float) -> bytes:
    made = onnx.load_model_from_string(model("LayerNormalization", (2, 8), -1, quantized=False))
    made.graph.node[0].attribute[1].CopyFrom(helper.make_attribute("epsilon", epsilon))
    return bytes(made.SerializeToString())
