"""Operators of onnxruntime's own domain, and dynamic quantization, equal onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hilc
import hilc.host
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array
from hilc.references import get_reference

pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")

_RNG = np.random.default_rng(11)


def _real(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


def _bytes(*shape: int) -> Array:
    return _RNG.integers(0, 256, shape).astype(np.uint8)


def model(
    op: str,
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Array] = MappingProxyType({}),
    names: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    **attributes: Any,
) -> bytes:
    """Return a model of one operator of onnxruntime's domain; its outputs have no shapes."""
    values = {name: (TensorProto.FLOAT, shape) for name, shape in inputs.items()}
    if op == "EmbedLayerNormalization":
        values = {name: (TensorProto.INT32, shape) for name, shape in inputs.items()}
    taken = [*inputs, *constants] if names is None else names
    node = helper.make_node(op, taken, outputs, domain="com.microsoft", **attributes)
    shown = [name for name in outputs if name and name != "counts"]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, *value) for name, value in values.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in shown],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return data


def _few_bits(bits: int, inner: int, *, offsets: bool, bias: bool = False) -> bytes:
    """Return a MatMulNBits of six columns with blocks of 16 weights."""
    blocks = inner // 16
    constants: dict[str, Array] = {
        "w": _bytes(6, blocks, 2 * bits),
        "scales": np.abs(_real(6 * blocks)) / 20,
    }
    names = ["x", "w", "scales"]
    if offsets:
        constants["offsets"] = _bytes(6 * -(-blocks * bits // 8))
        names.append("offsets")
    if bias:
        constants["bias"] = _real(6)
        names += [""] * (5 - len(names)) + ["bias"]
    stated: dict[str, Any] = {"K": inner, "N": 6, "bits": bits, "block_size": 16}
    return model("MatMulNBits", {"x": (2, inner)}, constants, names, **stated)


_FILTER = {"w": _real(4, 3, 3, 3), "b": _real(4)}
_ROWS = {"x": (1, 3, 8), "skip": (1, 3, 8)}
_PADS = [1, 1, 1, 1]

CASES: Mapping[str, bytes] = {
    "Gelu": model("Gelu", {"x": (2, 8)}),
    "BiasGelu": model("BiasGelu", {"x": (2, 8)}, {"b": _real(8)}),
    "FastGelu": model("FastGelu", {"x": (2, 8)}, {"b": _real(8)}),
    "QuickGelu": model("QuickGelu", {"x": (2, 8)}, alpha=1.5),
    "FusedMatMul": model(
        "FusedMatMul", {"x": (2, 3, 8)}, {"w": _real(2, 5, 8)}, alpha=0.5, transB=1
    ),
    "FusedMatMul, batches inside": model(
        "FusedMatMul", {"x": (3, 2, 8)}, {"w": _real(2, 5, 8)}, transB=1, transBatchA=1
    ),
    "FusedConv": model(
        "FusedConv",
        {"x": (1, 3, 6, 6)},
        _FILTER,
        activation="LeakyRelu",
        activation_params=[0.1],
        pads=_PADS,
    ),
    "FusedConv with a sum": model(
        "FusedConv",
        {"x": (1, 3, 6, 6), "z": (1, 4, 6, 6)},
        _FILTER,
        ["x", "w", "b", "z"],
        activation="Clip",
        activation_params=[0.0, 6.0],
        pads=_PADS,
    ),
    "FusedGemm": model(
        "FusedGemm", {"x": (2, 8)}, {"w": _real(8, 4), "b": _real(4)}, activation="Relu"
    ),
    "SkipLayerNormalization": model(
        "SkipLayerNormalization",
        _ROWS,
        {"g": _real(8), "b": _real(8), "c": _real(8)},
        outputs=("y", "", "", "sum"),
    ),
    "SkipSimplifiedLayerNormalization": model(
        "SkipSimplifiedLayerNormalization", _ROWS, {"g": _real(8)}
    ),
    "EmbedLayerNormalization": model(
        "EmbedLayerNormalization",
        {"ids": (1, 4), "segments": (1, 4)},
        {"we": _real(4, 8), "pe": _real(6, 8), "se": _real(4, 8), "g": _real(8), "b": _real(8)},
        outputs=("y", "counts"),
    ),
    "Attention": model(
        "Attention", {"x": (1, 4, 8)}, {"w": _real(8, 24), "b": _real(24)}, num_heads=2
    ),
    "Attention of what is before": model(
        "Attention",
        {"x": (1, 4, 8)},
        {"w": _real(8, 24), "b": _real(24)},
        num_heads=2,
        unidirectional=1,
    ),
    "MultiHeadAttention": model(
        "MultiHeadAttention",
        {"q": (1, 4, 8), "k": (1, 5, 8), "v": (1, 5, 8)},
        {"b": _real(24)},
        num_heads=2,
    ),
    "MatMulNBits": _few_bits(4, 32, offsets=False),
    "MatMulNBits, an odd number of zero points": _few_bits(4, 48, offsets=True),
    "MatMulNBits of 8 bits": _few_bits(8, 32, offsets=True, bias=True),
    "MatMulNBits of 2 bits": _few_bits(2, 64, offsets=True),
}


@pytest.mark.parametrize("name", CASES)
def test_equal_to_onnxruntime(name: str) -> None:
    graph = load_model(CASES[name])
    reference = get_reference("onnxruntime", graph, CASES[name])
    inputs = {}
    for each in graph.inputs:
        tensor = graph.tensors[each]
        real = tensor.dtype == "float32"
        inputs[each] = _real(*tensor.shape) if real else np.arange(4, dtype=np.int32)[None] % 3
    expected, found = reference.run_all(inputs), run(graph, inputs)
    for each in graph.outputs:
        np.testing.assert_allclose(found[each], expected[each], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (model("FusedConv", {"x": (1, 3, 6, 6)}, _FILTER, activation="Softplus"), "'Softplus'"),
        (
            model(
                "Attention",
                {"x": (1, 4, 8), "mask": (1, 4)},
                {"w": _real(8, 24), "b": _real(24)},
                ["x", "w", "b", "mask"],
                num_heads=2,
            ),
            "takes a mask",
        ),
    ],
)
def test_other_forms_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        load_model(data)


def _dynamic(folder: Path, nodes: list[Any], shape: Sequence[int], **constants: Array) -> bytes:
    """Return a model of float nodes from ``x`` to ``y`` after onnxruntime's quantize_dynamic."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, folder / "float.onnx")
    quantization.quantize_dynamic(folder / "float.onnx", folder / "dynamic.onnx")
    return (folder / "dynamic.onnx").read_bytes()


def _layers(folder: Path) -> bytes:
    make = helper.make_node
    nodes = [
        make("Gemm", ["x", "w", "b"], ["h"]),
        make("Relu", ["h"], ["r"]),
        make("MatMul", ["r", "v"], ["y"]),
    ]
    return _dynamic(folder, nodes, (2, 8), w=_real(8, 16), b=_real(16), v=_real(16, 4))


def _images(folder: Path) -> bytes:
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w", "b"], ["h"], pads=_PADS),
        make("Relu", ["h"], ["r"]),
        make("Conv", ["r", "v", "c"], ["y"], group=8, strides=[2, 2]),
    ]
    constants = {"w": _real(8, 3, 3, 3), "b": _real(8), "v": _real(8, 1, 3, 3), "c": _real(8)}
    return _dynamic(folder, nodes, (1, 3, 6, 6), **constants)


@pytest.mark.parametrize("make", [_layers, _images])
@pytest.mark.filterwarnings("ignore")
def test_dynamic_quantization(tmp_path: Path, make: Any) -> None:
    data = make(tmp_path)
    graph = load_model(data)
    reference = get_reference("onnxruntime", graph, data)
    shape = graph.tensors["x"].shape
    with hilc.host.load(hilc.compile(data, name="net", cpu="host")) as here:
        # Ranges on both sides of zero, on one, and none.
        for scale, offset in ((1, 0), (30, 0), (0.01, 5), (0.01, -5), (0, 0)):
            x = _real(*shape) * np.float32(scale) + np.float32(offset)
            expected = reference.run_all({"x": x})["y"]
            here.set_input("x", x)
            here.run()
            np.testing.assert_allclose(here.get_output(0), expected, rtol=1e-5, atol=1e-6)
