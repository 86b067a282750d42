"""Operators between DequantizeLinear and QuantizeLinear become integers, equal to onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hilc
import hilc.host
from hilc.frontends import read_model
from hilc.ir import Array
from hilc.references import get_reference
from hilc.transforms.fuse_quantized import fuse_quantized

pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")

_RNG = np.random.default_rng(5)
#: Integers, scale, zero point and axis of weights.
Weights = tuple[Array, Any, Any, int | None]


def _model(nodes: list[Any], shape: Sequence[int], constants: Mapping[str, Any]) -> bytes:
    rank = [None] * len(shape)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, rank)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    data: bytes = onnx.shape_inference.infer_shapes(made).SerializeToString()
    return data


def quantized(
    op: str,
    shape: Sequence[int],
    constants: Mapping[str, Any] = MappingProxyType({}),
    weights: Weights | None = None,
    between: Sequence[Any] = (),
    dtype: Any = np.int8,
    scales: tuple[float, float] = (0.05132, 0.04177),
    zero_points: tuple[int, int] = (3, -5),
    **attributes: Any,
) -> bytes:
    """Return an operator between DequantizeLinear and QuantizeLinear.

    ``between`` are nodes from the dequantized weights ``wd`` to the operator's ``w``.
    """
    make, given = helper.make_node, dict(constants)
    for i, (scale, zero_point) in enumerate(zip(scales, zero_points, strict=True)):
        given[f"s{i}"], given[f"z{i}"] = np.float32(scale), dtype(zero_point)
    nodes = [
        make("QuantizeLinear", ["x", "s0", "z0"], ["q"]),
        make("DequantizeLinear", ["q", "s0", "z0"], ["d"]),
    ]
    names = ["d", *constants]
    if weights is not None:
        values, given["ws"], given["wz"], axis = weights
        given["wq"] = values
        stated = {} if axis is None else {"axis": axis}
        made = "wd" if between else "w"
        nodes += [make("DequantizeLinear", ["wq", "ws", "wz"], [made], **stated), *between]
        names.insert(1, "w")
    given = {name: value for name, value in given.items() if name}
    names = [name for name in names if not name.startswith("shape")]
    nodes += [
        make(op, names, ["r"], **attributes),
        make("QuantizeLinear", ["r", "s1", "z1"], ["p"]),
        make("DequantizeLinear", ["p", "s1", "z1"], ["y"]),
    ]
    return _model(nodes, shape, given)


def _integers(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return _RNG.integers(info.min, info.max + 1, shape).astype(dtype)


_IMAGE = (1, 8, 6, 6)
_AXES = {"axes": np.array([2, 3])}
_SIXTEEN: dict[str, Any] = {"dtype": np.int16, "scales": (1.132e-4, 1.132e-4)}
_TRANSPOSE = [helper.make_node("Transpose", ["wd"], ["w"])]
_RESHAPE = [helper.make_node("Reshape", ["wd", "shape"], ["w"])]
_SCALES = np.array([0.01, 0.02, 0.005, 0.013, 0.0091, 0.017], np.float32)
_WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}

CASES: Mapping[str, tuple[str, Any]] = {
    "PRelu, a slope a channel": (
        "PRELU",
        lambda: quantized(
            "PRelu",
            _IMAGE,
            weights=(_integers(np.int8, 8, 1, 1), np.float32(0.011), np.int8(9), None),
        ),
    ),
    "PRelu, one slope": (
        "LOOKUP",
        lambda: quantized("PRelu", _IMAGE, {"slope": np.array([0.25], np.float32)}),
    ),
    "ReduceMax": ("REDUCE_MAX", lambda: quantized("ReduceMax", _IMAGE, _AXES, keepdims=0)),
    "ReduceMin": ("REDUCE_MIN", lambda: quantized("ReduceMin", _IMAGE, _AXES, keepdims=1)),
    "GlobalMaxPool": ("REDUCE_MAX", lambda: quantized("GlobalMaxPool", _IMAGE)),
    "ReduceSum": (
        "SUM",
        lambda: quantized("ReduceSum", _IMAGE, _AXES, scales=(0.05132, 0.2771), keepdims=0),
    ),
    "Expand": (
        "BROADCAST_TO",
        lambda: quantized("Expand", (1, 8, 1, 1), {"sizes": np.array([1, 8, 3, 4])}),
    ),
    "AveragePool with its padding": (
        "AVERAGE_POOL_2D",
        lambda: quantized("AveragePool", _IMAGE, count_include_pad=1, **_WINDOW),
    ),
    "Relu of int16 with a zero point": (
        "MAXIMUM",
        lambda: quantized("Relu", _IMAGE, zero_points=(300, 300), **_SIXTEEN),
    ),
    "weights transposed": (
        "FULLY_CONNECTED",
        lambda: quantized(
            "MatMul",
            (3, 4),
            weights=(_integers(np.int8, 6, 4), np.float32(0.0113), np.int8(0), None),
            between=_TRANSPOSE,
        ),
    ),
    "weights transposed, a scale a channel": (
        "FULLY_CONNECTED",
        lambda: quantized(
            "MatMul",
            (3, 4),
            weights=(_integers(np.int8, 6, 4), _SCALES, np.zeros(6, np.int8), 0),
            between=_TRANSPOSE,
        ),
    ),
    "weights reshaped": (
        "FULLY_CONNECTED",
        lambda: quantized(
            "MatMul",
            (3, 4),
            {"shape": np.array([4, 6])},
            weights=(_integers(np.int8, 24), np.float32(0.0113), np.int8(0), None),
            between=_RESHAPE,
        ),
    ),
    "weights of uint8 with zero point 77": (
        "FULLY_CONNECTED",
        lambda: quantized(
            "MatMul",
            (3, 4),
            weights=(_integers(np.uint8, 4, 6), np.float32(0.0113), np.uint8(77), None),
        ),
    ),
    "filters of uint8 with zero point 0": (
        "CONV_2D",
        lambda: quantized(
            "Conv",
            _IMAGE,
            weights=(_integers(np.uint8, 6, 8, 3, 3), np.float32(0.0113), np.uint8(0), None),
            scales=(0.05132, 0.5177),
        ),
    ),
    "filters of int8 with zero point 90": (
        "DEPTHWISE_CONV_2D",
        lambda: quantized(
            "Conv",
            _IMAGE,
            weights=(_integers(np.int8, 8, 1, 3, 3), np.float32(0.0113), np.int8(90), None),
            scales=(0.05132, 0.177),
            group=8,
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_integers_equal_onnxruntime(name: str) -> None:
    op, make = CASES[name]
    data = make()
    read = read_model(data, "net")
    fused = fuse_quantized(read.graph, read.dequantized)
    assert fused.float_layers == ()
    assert op in [node.op for node in fused.graph.nodes]
    reference = get_reference("onnxruntime", read.graph, read.data)
    (shape,) = (read.graph.tensors[name].shape for name in read.graph.inputs)
    with hilc.host.load(hilc.compile(data, name="net", cpu="host")) as here:
        for scale in (0.3, 1, 3):
            x = (_RNG.normal(size=shape) * scale).astype(np.float32)
            expected = reference.run_all({"x": x})["y"]
            here.set_input("x", x)
            here.run()
            np.testing.assert_array_equal(here.get_output(0), expected)
