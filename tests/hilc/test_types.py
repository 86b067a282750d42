"""A type is data: one table, a policy of rounding on the node, and 16x8 layers as the proof."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from campaigns import cases
from linear_layers import random_layer
from litert_ref import interpreter, needs_litert_ref
from nodes import make_node
from single_op import random_op
from sixteen_by_eight import BIASES, layer, network
from tflite_builder import ModelBuilder

import hilc
from hilc import host
from hilc import interpreter as hilc_interpreter
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.ir import DTYPES, ELEMENT_TYPES, Graph, Quant, Rounding, Tensor
from hilc.lowering import candidates
from hilc.numerics.requantize import SUMS, quantize_multiplier, requantize
from hilc.ops import OPS
from hilc.ops.int8_layers import is_int8_layer
from hilc.ops.verify import verify
from hilc.target import get_cpu

PACKAGE = Path(hilc.__file__).parent
#: What decides by a type's name, or by numbers that are its ends.
BY_NAME = re.compile(
    r"""is_float|"s8"|"f32"|[!=]= "(u?int8|int16|float32)"|np\.iinfo"""
    r"""|(?<![\w.])-128\b|(?<!-)\b127\b"""
)


def test_nothing_decides_by_the_name_of_a_type() -> None:
    rooms = ("ops", "transforms", "lowering", "frontends", "fusion")
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for room in rooms
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BY_NAME.search(line.partition("#")[0]) and "np.iinfo(np." not in line
    ]
    assert not found, "\n".join(found)


def test_no_pass_knows_sixteen_bits() -> None:
    named = [
        path
        for room in ("transforms", "schedule", "memory", "fusion")
        for path in (PACKAGE / room).rglob("*.py")
        if "int16" in path.read_text()
    ]
    assert not named


@pytest.mark.parametrize("name", DTYPES)
def test_a_row_agrees_with_numpy(name: str) -> None:
    row, dtype = ELEMENT_TYPES[name], np.dtype(name)
    assert row.name == name
    assert row.itemsize == dtype.itemsize
    if name == "bool":
        assert row.bounds == (0, 1)
        return
    info: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    assert (row.low, row.high) == (info.min, info.max)
    assert row.dl_bits == 8 * dtype.itemsize
    assert {"i": 0, "u": 1, "f": 2}[dtype.kind] == row.dl_code
    c_types = {"float": ctypes.c_float, "double": ctypes.c_double} | {
        f"{kind}int{bits}_t": getattr(ctypes, f"c_{kind}int{bits}")
        for kind in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    assert ctypes.sizeof(c_types[row.c_type]) == row.itemsize


# Rounding ---------------------------------------------------------------------------------------


def exact(x: int, multiplier: int, shift: int, rounding: Rounding) -> int:
    """By Python's own whole numbers."""
    product, right = x * multiplier, 31 - shift
    if rounding is Rounding.SINGLE:
        return (product + (1 << (right - 1))) >> right
    quotient, rest = divmod(product, 1 << right)
    half = 1 << (right - 1)
    return quotient + (rest > half or (rest == half and quotient % 2 == 1))


@pytest.mark.parametrize("rounding", [Rounding.SINGLE, Rounding.NEAREST_EVEN])
def test_one_rounding_is_exact(rounding: Rounding) -> None:
    rng = np.random.default_rng(3)
    differs = 0
    for _ in range(400):
        multiplier, shift = quantize_multiplier(float(2.0 ** rng.uniform(-24, -1)))
        if rng.random() < 0.3:
            multiplier = 1 << 30  # A power of two: ties.
        x = rng.integers(-(2**31), 2**31, 50)
        got = requantize(x, multiplier, shift, rounding)
        assert got.tolist() == [exact(v, multiplier, shift, rounding) for v in x.tolist()]
        differs += int((got != requantize(x, multiplier, shift)).sum())
    assert differs


def test_ties_go_where_the_policy_says() -> None:
    half, shift = 1 << 30, -1  # A factor of a quarter: 2 is a tie.
    x = np.array([-6, -2, 2, 6])
    assert requantize(x, half, shift, Rounding.DOUBLE).tolist() == [-2, -1, 1, 2]
    assert requantize(x, half, shift, Rounding.SINGLE).tolist() == [-1, 0, 1, 2]
    assert requantize(x, half, shift, Rounding.NEAREST_EVEN).tolist() == [-2, 0, 0, 2]


def test_an_uncomputed_policy_is_refused_by_name() -> None:
    graph = load_model(network())
    (node, *_) = graph.nodes
    assert node.rounding is Rounding.SINGLE
    wrong = graph.with_(nodes=(replace(node, rounding=Rounding.DOUBLE), *graph.nodes[1:]))
    with pytest.raises(UnsupportedError, match=r"rounding 'double' of int64 sums.*single"):
        verify(wrong)


def int8_net() -> Graph:
    """One fully connected layer of int8."""
    rng = np.random.default_rng(9)
    weights = rng.integers(-127, 128, (4, 40)).astype(np.int8)
    b = ModelBuilder()
    b.input("x", (1, 40), "int8", scale=0.5, zero_point=3)
    b.const("w", weights, 0.25, 0)
    b.const("b", np.zeros(4, np.int32), 0.125, 0)
    b.output("y", (1, 4), "int8", scale=16.0, zero_point=0)
    b.op("FULLY_CONNECTED", ("x", "w", "b"), ("y",), activation="NONE", keep_num_dims=False)
    return load_model(b.build())


def test_interpreter_and_builders_follow_the_node() -> None:
    graph = int8_net()
    (node,) = graph.nodes
    assert node.rounding is Rounding.DOUBLE
    assert is_int8_layer(graph, node)
    rng = np.random.default_rng(10)
    samples = [rng.integers(-128, 128, (1, 40)).astype(np.int8) for _ in range(300)]
    results = {}
    for rounding in Rounding:
        other = graph.with_(nodes=(replace(node, rounding=rounding),))
        verify(other)
        results[rounding] = [hilc_interpreter.run(other, {"x": x})["y"] for x in samples]
        assert candidates(
            other.nodes[0], other.ins(other.nodes[0]), other.outs(other.nodes[0]), get_cpu("host")
        )
        with host.load(hilc.compile(other)) as model:
            for x, expected in zip(samples, results[rounding], strict=True):
                model.set_input("x", x)
                model.run()
                np.testing.assert_array_equal(model.get_output("y"), expected)
        assert is_int8_layer(other, other.nodes[0]) == (rounding is Rounding.DOUBLE)
    double = np.array(results.pop(Rounding.DOUBLE))
    # A factor of 2^-7 has ties: the policies differ there, and by one.
    for one in results.values():
        assert np.abs(np.array(one).astype(int) - double).max() == 1


# 16x8 -------------------------------------------------------------------------------------------


def judged(model: bytes, x: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    runtime = interpreter(model)
    runtime.set_tensor(runtime.get_input_details()[0]["index"], x)
    runtime.invoke()
    y: npt.NDArray[np.int16] = runtime.get_tensor(runtime.get_output_details()[0]["index"])
    return y


@needs_litert_ref
@cases("bias", BIASES, first=1)
def test_the_reference_equals_tflites_own_kernels(bias: str | None) -> None:
    rng = np.random.default_rng([7, BIASES.index(bias)])
    for _ in range(80):
        model, x = layer(rng, bias)
        graph = load_model(model)
        np.testing.assert_array_equal(
            hilc_interpreter.run(graph, {"x": x})["y"], judged(model, x), err_msg=str(graph.nodes)
        )


def test_zero_points_other_than_zero_are_refused() -> None:
    graph = load_model(network())
    for name in ("x", graph.outputs[0]):
        tensor = replace(graph.tensors[name], quant=Quant((0.01,), (1,)))
        with pytest.raises(
            UnsupportedError, match=rf"'{name}'.*int16.*zero point 1 \(supported: 0"
        ):
            verify(graph.with_(tensors={**graph.tensors, name: tensor}))


def test_sums_beyond_the_references_are_refused() -> None:
    graph = load_model(network())
    name = graph.nodes[0].inputs[2]
    bias = graph.tensors[name]
    data = np.full(bias.shape, SUMS["int64"].limit, np.int64)
    with pytest.raises(UnsupportedError, match="sums that reach"):
        verify(graph.with_(tensors={**graph.tensors, name: replace(bias, data=data)}))


def test_sixteen_bits_without_a_reference_are_refused() -> None:
    x = Tensor("x", (1, 2, 2, 4), "int16", Quant((0.1,), (0,)))
    expected = r"^'y': HARD_SWISH does not support int16 input 'x' \(supported: int8, float32\)"
    with pytest.raises(UnsupportedError, match=expected):
        OPS["HARD_SWISH"].infer(make_node("HARD_SWISH", ("x",), ("y",)), (x,))


@pytest.mark.parametrize("op", ["ADD", "MUL", "MEAN", "SOFTMAX", "RELU", "LOGISTIC"])
def test_operators_of_sixteen_bits_refuse_zero_points(op: str) -> None:
    single = random_op(np.random.default_rng(1), op, "int16")
    wrong = (replace(single.ins[0], quant=Quant((0.001,), (1,))), *single.ins[1:])
    with pytest.raises(UnsupportedError, match=r"of type int16, with zero point 1 \(supported: 0"):
        OPS[op].infer(single.node, wrong)


def test_a_depthwise_bias_of_32_bits_is_refused() -> None:
    """TFLite Micro would read it as one of 64."""
    layer = random_layer(np.random.default_rng(2), "DEPTHWISE_CONV_2D", "int16", False)
    x, weights, *_ = layer.ins
    assert weights is not None
    bias = Tensor("b", (weights.shape[3],), "int32", data=np.zeros(weights.shape[3], np.int32))
    node = replace(layer.node, inputs=("x", "w", "b"))
    with pytest.raises(ModelError, match=r"bias 'b', int32.*supported: int64\["):
        OPS[node.op].infer(node, (x, weights, bias))
