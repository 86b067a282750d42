"""What TFLite Micro computes: 16-bit activations, groups of channels, 4-bit weights."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from campaigns import cases
from linear_layers import Layer, grouped_layer, random_layer
from single_op import SingleOp, random_op
from sixteen_by_eight import images

from hilc import interpreter
from hilc.frontends import load_model
from hilc.ir import Array

runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")

LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: Those that were there before others; new ones have tests of their own.
WIDE = (
    *("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "DEQUANTIZE", "EXPAND_DIMS", "LEAKY_RELU"),
    *("LOGISTIC", "MAX_POOL_2D", "MEAN", "MUL", "PACK", "PAD", "QUANTIZE", "RELU", "RELU6"),
    *("RESHAPE", "SOFTMAX", "SPLIT", "SQUEEZE", "STRIDED_SLICE", "SUB", "TANH", "TRANSPOSE"),
)
#: What TFLite Micro does not take.
_MOST_DIMENSIONS = {"TRANSPOSE": 5, "STRIDED_SLICE": 4, "PAD": 4, "MEAN": 4, "ADD": 4, "MUL": 4}


def generator(*seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(" ".join(seed).encode()))


def judged(model: bytes, inputs: list[Array]) -> list[Array]:
    made = runtime.Interpreter.from_bytes(model, arena_size=1 << 20)
    for index, value in enumerate(inputs):
        made.set_input(value, index)
    made.invoke()
    graph = load_model(model)
    return [made.get_output(index) for index in range(len(graph.outputs))]


def check_layer(layer: Layer, packed: bool = False) -> None:
    model = layer.tflite(packed)
    (expected,) = judged(model, [layer.x])
    graph = load_model(model)
    (found,) = (interpreter.run(graph, {"x": layer.x})[name] for name in graph.outputs)
    said = f"{layer.node} {layer.ins} {layer.out}"
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=said)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=said, strict=True)


def check_single(single: SingleOp) -> None:
    variable = [
        value
        for tensor, value in zip(single.ins, single.values, strict=True)
        if tensor.data is None
    ]
    expected = judged(single.tflite(), variable)
    for found, wanted in zip(single.reference(), expected, strict=True):
        said = f"{single.node} {single.ins} {single.outs}"
        np.testing.assert_array_equal(found, wanted.reshape(found.shape), err_msg=said)


@cases("op", LINEAR, first=1)
def test_layers_of_sixteen_bits(op: str) -> None:
    rng = generator("layers", op)
    for _ in range(100):
        check_layer(random_layer(rng, op, "int16", explicit_padding=False))


@cases("dtype", ["int8", "int16", "float32"], first=1)
def test_grouped_convolutions(dtype: str) -> None:
    rng = generator("groups", dtype)
    for _ in range(100):
        check_layer(grouped_layer(rng, dtype))


@cases("op", LINEAR, first=1)
def test_weights_of_four_bits(op: str) -> None:
    rng = generator("four bits", op)
    checked = 0
    while checked < 100:
        layer = random_layer(rng, op, "int8", explicit_padding=False)
        x, weights, *rest = layer.ins
        assert weights is not None
        assert weights.quant is not None
        # Such weights of one scale each are not for the reference's matrices.
        if op == "FULLY_CONNECTED" and not weights.quant.per_tensor:
            continue
        checked += 1
        few = replace(weights, data=rng.integers(-8, 8, weights.shape).astype(np.int8))
        check_layer(replace(layer, ins=(x, few, *rest)), packed=True)


@cases("op", WIDE, first=6)
def test_operators_of_sixteen_bits(op: str) -> None:
    rng = generator("operators", op)
    checked = 0
    while checked < 100:
        single = random_op(rng, op, "int16")
        most = _MOST_DIMENSIONS.get(op, 6)
        if max(len(t.shape) for t in (*single.ins, *single.outs)) > most:
            continue
        attrs = vars(single.node.attrs)
        if attrs.get("ellipsis_mask") or attrs.get("new_axis_mask"):
            continue
        if all(tensor.data is not None for tensor in single.ins):
            continue
        check_single(single)
        checked += 1


def test_a_network_on_images() -> None:
    model, rng = images(), generator("images")
    graph = load_model(model)
    for _ in range(5):
        x = rng.integers(-32768, 32768, (1, 24, 20, 4)).astype(np.int16)
        (found,) = (interpreter.run(graph, {"x": x})[name] for name in graph.outputs)
        np.testing.assert_array_equal(found, judged(model, [x])[0])
