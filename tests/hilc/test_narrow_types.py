"""Types of ONNX that are stored in wider ones: 4 and 2 bits, bfloat16, floats of 8 and 4 bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from campaigns import cases
from onnx import TensorProto, helper

import hilc
import hilc.host
from hilc.errors import UnsupportedError
from hilc.frontends import load_model
from hilc.frontends.onnx.storage import STORED, StoredFloat, packed, unpacked
from hilc.interpreter import run
from hilc.ir import Array
from hilc.onnx_backend import run_model
from hilc.references import get_reference

FLOATS = {code: kind for code, kind in STORED.items() if isinstance(kind, StoredFloat)}


def of_one(
    node: onnx.NodeProto, source: int, target: int, shape: tuple[int, ...]
) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, c, shape) for n, c in (("x", source), ("y", target))]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 25)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def cast(source: int, target: int, x: Array, device: str = "CPU", saturate: int = 1) -> Array:
    node = helper.make_node("Cast", ["x"], ["y"], to=target, saturate=saturate)
    result: Array = run_model(of_one(node, source, target, x.shape), [x], device)[0]
    return result


def floats() -> Array:
    """Numbers of all magnitudes, halves between the numbers of each type, and the special ones."""
    rng = np.random.default_rng(4)
    near = [kind.values[np.isfinite(kind.values)] for kind in FLOATS.values() if kind.bits == 8]
    exact = np.unique(np.concatenate(near)).astype(np.float64)
    halves = (exact[1:] + exact[:-1]) / 2
    random = rng.normal(size=2000) * 2.0 ** rng.integers(-30, 20, 2000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -1e-40]
    return np.concatenate([exact, halves, np.nextafter(halves, 9e9), random, special]).astype("f")


@pytest.mark.parametrize("code", FLOATS, ids=lambda code: FLOATS[code].name)
def test_every_pattern_has_the_value_of_ml_dtypes(code: int) -> None:
    kind = FLOATS[code]
    patterns = np.arange(1 << kind.bits).astype(kind.dtype)
    expected = unpacked(patterns, code).astype(np.float32)
    np.testing.assert_array_equal(kind.values, expected)
    real = ~np.isnan(expected)
    assert np.array_equal(np.signbit(kind.values[real]), np.signbit(expected[real]))


@cases("device", ["CPU", "CPU:C"], first=1)
@pytest.mark.parametrize("code", FLOATS, ids=lambda code: FLOATS[code].name)
def test_floats_are_rounded_as_numpy_rounds_them(code: int, device: str) -> None:
    x, kind = floats(), FLOATS[code]
    largest = float(kind.values[kind.largest])
    # numpy does not saturate: what is beyond is looked at by itself.
    inside = np.abs(np.nan_to_num(x.astype(np.float64), posinf=1e99, neginf=-1e99)) <= largest
    found = cast(TensorProto.FLOAT, code, x, device).astype(np.float32)
    expected = x.astype(helper.tensor_dtype_to_np_dtype(code)).astype(np.float32)
    np.testing.assert_array_equal(found[inside], expected[inside])
    assert np.array_equal(np.signbit(found[inside]), np.signbit(expected[inside]))
    if not kind.computed:
        beyond = ~inside & ~np.isnan(x)
        np.testing.assert_array_equal(found[beyond], np.copysign(largest, x[beyond]))
    if kind.bits > 4:
        assert np.isnan(found[np.isnan(x)]).all()
        back = cast(
            code,
            TensorProto.FLOAT,
            unpacked(packed(expected.astype(helper.tensor_dtype_to_np_dtype(code))), code),
            device,
        )
        np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("code", FLOATS, ids=lambda code: FLOATS[code].name)
def test_overflow_without_saturation(code: int) -> None:
    kind = FLOATS[code]
    if kind.bits != 8:
        return
    found = cast(TensorProto.FLOAT, code, np.array([1e9, -1e9, np.inf], "f"), saturate=0)
    real = found.astype(np.float32)
    if kind.infinity is None:
        assert np.isnan(real).all()
    else:
        np.testing.assert_array_equal(real, np.array([np.inf, -np.inf, np.inf], "f"))


@pytest.mark.parametrize("device", ["CPU", "CPU:C"])
@cases("name", ["INT4", "UINT4", "INT2", "UINT2"], first=1)
def test_narrow_integers_keep_the_lowest_bits(name: str, device: str) -> None:
    code = getattr(TensorProto, name)
    x = np.arange(-40, 41, dtype=np.int32)
    found = cast(TensorProto.INT32, code, x, device)
    dtype = helper.tensor_dtype_to_np_dtype(code)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.int32), x.astype(dtype).astype(np.int32))
    wide = cast(code, TensorProto.FLOAT, found, device)
    np.testing.assert_array_equal(wide, found.astype(np.float32))


def test_bfloat16_is_float32_rounded_once() -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    model = of_one(node, TensorProto.BFLOAT16, TensorProto.BFLOAT16, (50,))
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x = np.random.default_rng(1).normal(size=50).astype(dtype)
    expected = (x.astype(np.float32) * x.astype(np.float32)).astype(dtype)
    for device in ("CPU", "CPU:C"):
        (found,) = run_model(model, [x], device)
        np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


def test_a_model_has_inputs_of_stored_types() -> None:
    node = helper.make_node("Transpose", ["x"], ["y"])
    data = of_one(node, TensorProto.INT4, TensorProto.INT4, (3, 3)).SerializeToString()
    graph = load_model(data)
    assert {graph.tensors[name].dtype for name in ("x", "y")} == {"int8"}
    x = np.arange(-4, 5, dtype=np.int8).reshape(3, 3)
    expected = get_reference("onnx", graph, data).run_all({"x": x})["y"]
    assert expected.dtype == np.int8
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], expected)
    with hilc.host.load(hilc.compile(data, cpu="host")) as here:
        here.set_input("x", x)
        here.run()
        np.testing.assert_array_equal(here.get_output(0), expected)


def test_what_is_only_stored_is_not_computed() -> None:
    node = helper.make_node("Max", ["x", "x"], ["y"])
    float8, scales = TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E8M0
    with pytest.raises(UnsupportedError, match="computes float8e4m3fn"):
        load_model(of_one(node, float8, float8, (3,)).SerializeToString())
    with pytest.raises(UnsupportedError, match="type float8e8m0 is not supported"):
        load_model(of_one(node, scales, scales, (3,)).SerializeToString())


def test_weights_of_four_bits_make_a_layer_of_integers() -> None:
    rng = np.random.default_rng(2)
    weights = rng.integers(-8, 8, (4, 6)).astype(np.int8)
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    constants = {
        "s": np.array(0.05, np.float32),
        "z": np.array(3, np.int8),
        "w": weights.astype(dtype),
        "ws": np.full(4, 0.1, np.float32),
        "ys": np.array(0.2, np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wr"], axis=0),
        helper.make_node("Gemm", ["xr", "wr"], ["yr"], transB=1),
        helper.make_node("QuantizeLinear", ["yr", "ys", "z"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(n, TensorProto.INT8, (1, m)) for n, m in (("x", 6), ("y", 4))
    ]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    library = hilc.compile(model.SerializeToString(), cpu="host")
    assert [layer.op for layer in library.modules[0].layers] == ["FULLY_CONNECTED"]
    x = rng.integers(-100, 100, (1, 6)).astype(np.int8)
    expected = np.rint((x.astype(float) - 3) * 0.05 @ (weights.T * 0.1) / 0.2) + 3
    with hilc.host.load(library) as here:
        here.set_input("x", x)
        here.run()
        assert np.abs(here.get_output(0) - expected).max() <= 1
