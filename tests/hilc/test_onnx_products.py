"""Sums of products in ONNX: Einsum, exact integers, and onnxruntime's operators on integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx import helper, numpy_helper

import hilc
import hilc.host
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array
from hilc.onnx_backend import run_node

RNG = np.random.default_rng(15)


def node(op: str, count: int, domain: str = "", **attributes: Any) -> onnx.NodeProto:
    names = [f"x{i}" for i in range(count)]
    return helper.make_node(op, names, ["y"], domain=domain, **attributes)


@cases(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 2)]),
        ("ij,jk", [(3, 4), (4, 2)]),
        ("ba,b", [(3, 4), (3,)]),
        ("ij->", [(3, 4)]),
        ("ii->i", [(4, 4)]),
        ("iij->ji", [(3, 3, 2)]),
        ("ii", [(4, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 2, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (2, 5, 4, 2)]),
        ("...i->...", [(2, 3, 4)]),
        ("ij...,j->i...", [(2, 3, 4, 2), (3,)]),
        ("ij,ij->ij", [(3, 4), (3, 4)]),
        ("a,ab,bc,cd->d", [(2,), (2, 3), (3, 4), (4, 5)]),
        (" i j , j -> i ", [(3, 4), (4,)]),
    ],
    first=4,
)
def test_einsum_equals_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    values = [RNG.normal(size=shape).astype(np.float32) for shape in shapes]
    for device in ("CPU", "CPU:C"):
        (found,) = run_node(node("Einsum", len(values), equation=equation), values, device)
        np.testing.assert_allclose(found, np.einsum(equation, *values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4)]),
        ("ij->ik", [(3, 4)]),
        ("ij->ii", [(3, 4)]),
        ("ijk->i", [(3, 4)]),
        ("ii->i", [(3, 4)]),
        ("ij,jk->ik", [(3, 4), (5, 6)]),
    ],
)
def test_an_equation_that_does_not_fit_is_refused(
    equation: str, shapes: list[tuple[int, ...]]
) -> None:
    values = [helper.make_tensor_value_info(f"x{i}", 1, shape) for i, shape in enumerate(shapes)]
    result = [helper.make_tensor_value_info("y", 1, (1,))]
    graph = helper.make_graph([node("Einsum", len(shapes), equation=equation)], "g", values, result)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    with pytest.raises(ModelError, match="Einsum"):
        load_model(model.SerializeToString())


@pytest.mark.parametrize("device", ["CPU", "CPU:C"])
def test_integer_products_are_exact_for_long_sums(device: str) -> None:
    a = RNG.integers(200, 256, (3, 900)).astype(np.uint8)
    b = RNG.integers(-128, -100, (900, 2)).astype(np.int8)
    zeros = np.array([0, 1, 2], np.uint8), np.array([100, 127], np.int8)
    wide = (a.astype(int) - zeros[0][:, np.newaxis]) @ (b.astype(int) - zeros[1])
    assert abs(wide).max() > 2**24
    (found,) = run_node(node("MatMulInteger", 4), [a, b, *zeros], device)
    np.testing.assert_array_equal(found, wide)


@pytest.mark.parametrize("device", ["CPU", "CPU:C"])
def test_convolutions_of_integers_are_exact(device: str) -> None:
    x = RNG.integers(200, 256, (1, 60, 3, 3)).astype(np.uint8)
    w = RNG.integers(200, 256, (2, 60, 3, 3)).astype(np.uint8)
    (found,) = run_node(node("ConvInteger", 2), [x, w], device)
    expected = np.einsum("nchw,ochw->no", x.astype(int), w.astype(int)).reshape(1, 2, 1, 1)
    assert expected.max() > 2**24
    np.testing.assert_array_equal(found, expected)


def test_a_window_too_large_for_exact_sums_is_refused() -> None:
    x, w = np.ones((1, 1, 20, 20), np.uint8), np.ones((1, 1, 17, 17), np.uint8)
    with pytest.raises(UnsupportedError, match="adds 289 products"):
        run_node(node("ConvInteger", 2), [x, w])


SCALE, ZERO = np.float32(0.05), np.uint8(120)
OTHER, SHIFT = np.float32(0.04), np.uint8(7)
X = RNG.integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
Y = RNG.integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
W = RNG.integers(-100, 100, (5, 4)).astype(np.int8)
REAL_X, REAL_Y = (X.astype(float) - ZERO) * SCALE, (Y.astype(float) - SHIFT) * OTHER
PAIRS = [X, SCALE, ZERO, Y, OTHER, SHIFT]
BIAS = RNG.integers(-900, 900, 5).astype(np.int32)
NONE = np.int8(0)


def means(x: Array) -> Array:
    return (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4


#: The operands, the attributes, and what the result stands for.
CASES: Mapping[str, tuple[list[Any], dict[str, Any], Array]] = {
    "QLinearAdd": ([*PAIRS, SCALE, ZERO], {}, REAL_X + REAL_Y),
    "QLinearMul": ([*PAIRS, SCALE, ZERO], {}, REAL_X * REAL_Y),
    "QLinearSigmoid": (
        [X, SCALE, ZERO, np.float32(1 / 256), np.uint8(0)],
        {},
        1 / (1 + np.exp(-REAL_X)),
    ),
    "QLinearLeakyRelu": (
        [X, SCALE, ZERO, SCALE, ZERO],
        {"alpha": 0.3},
        np.where(REAL_X < 0, 0.3 * REAL_X, REAL_X),
    ),
    "QLinearGlobalAveragePool": (
        [X, SCALE, ZERO, SCALE, ZERO],
        {"channels_last": 0},
        REAL_X.mean((2, 3), keepdims=True),
    ),
    "QLinearAveragePool": (
        [X, SCALE, ZERO, SCALE, ZERO],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        means(REAL_X),
    ),
    "QLinearConcat": ([SCALE, ZERO, *PAIRS], {"axis": 1}, np.concatenate([REAL_X, REAL_Y], 1)),
    "QLinearWhere": (
        [X > 100, *PAIRS, SCALE, ZERO],
        {},
        np.where(X > 100, REAL_X, REAL_Y),
    ),
    "QGemm": (
        [X[0, :, :, 0].T.copy(), SCALE, ZERO, W, OTHER, NONE, BIAS, SCALE, ZERO],
        {"transB": 1},
        REAL_X[0, :, :, 0].T @ (W * float(OTHER)).T + BIAS * float(SCALE) * float(OTHER),
    ),
}


@cases("op", CASES, first=2)
def test_onnxruntimes_integer_operators_use_integers(op: str) -> None:
    operands, attributes, real = CASES[op]
    arrays = [np.asarray(value) for value in operands]
    given = {"QLinearConcat": (2, 5), "QLinearWhere": (0, 1, 4)}.get(
        op, (0, 3) if op in ("QLinearAdd", "QLinearMul") else (0,)
    )
    made = node(op, len(arrays), "com.microsoft", **attributes)
    inputs = [
        helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(arrays[i].dtype), arrays[i].shape
        )
        for i in given
    ]
    constants = [
        numpy_helper.from_array(a, f"x{i}") for i, a in enumerate(arrays) if i not in given
    ]
    scale, zero = (
        arrays[0 if op == "QLinearConcat" else -2],
        arrays[1 if op == "QLinearConcat" else -1],
    )
    result = helper.make_tensor_value_info(
        "y", helper.np_dtype_to_tensor_dtype(zero.dtype), real.shape
    )
    graph = helper.make_graph([made], "g", inputs, [result], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    values = {f"x{i}": arrays[i] for i in given}
    expected = np.clip(np.rint(real / scale) + zero, 0, 255)
    library = hilc.compile(data, cpu="host")
    assert not any(
        t.dtype == "float32" for layer in library.modules[0].layers for t in layer.outputs
    )
    with hilc.host.load(library) as here:
        for name, value in values.items():
            here.set_input(name, value)
        here.run()
        found = here.get_output(0)
    np.testing.assert_array_less(np.abs(run(load_model(data), values)["y"] - expected), 1.5)
    assert np.abs(found.astype(int) - expected).max() <= 1
