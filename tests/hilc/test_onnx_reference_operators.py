"""Operators that the reference ``onnx`` computes in place of ``onnx.reference``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array
from hilc.references import get_reference
from hilc.references.onnx_reference import Evaluator

_RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return _RNG.normal(size=shape).astype(np.float32)


def reals(*values: float) -> Array:
    return np.array(values, np.float32)


def file(op: str, x: Array, operands: list[Array | None], opset: int, **attributes: Any) -> bytes:
    """Return a model of one node from x to y."""
    names = ["" if each is None else f"k{i}" for i, each in enumerate(operands)]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [onnx.ValueInfoProto(name="y")],
        [
            numpy_helper.from_array(each, name)
            for name, each in zip(names, operands, strict=True)
            if each is not None
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


NONE = np.array([], np.float32)
CASES: dict[str, tuple[str, Array, list[Array | None], int, dict[str, Any]]] = {
    "LogSoftmax far below": ("LogSoftmax", reals(0, -87, -100, -1e4)[None], [], 13, {"axis": 1}),
    "LogSoftmax of all axes": ("LogSoftmax", normal(2, 3, 4), [], 11, {"axis": 1}),
    "Softmax of all axes": ("Softmax", normal(2, 3, 4), [], 11, {}),
    "Hardmax of all axes": ("Hardmax", normal(2, 3, 4), [], 11, {"axis": 1}),
    "LpNormalization, p=1": ("LpNormalization", normal(2, 3, 4), [], 13, {"axis": 1, "p": 1}),
    "LRN": ("LRN", normal(2, 5, 3, 3), [], 13, {"size": 4, "alpha": 0.5}),
    "BatchNormalization": (
        "BatchNormalization", normal(2, 3, 4), [np.abs(normal(3)) for _ in range(4)], 9, {},
    ),
    "ConvTranspose with groups": (
        "ConvTranspose", normal(2, 4, 3, 3), [normal(4, 2, 3, 2), normal(4)], 11, {"group": 2},
    ),
    "ReduceSumSquare of integers": (
        "ReduceSumSquare", np.arange(12, dtype=np.int32).reshape(3, 4), [], 13, {"axes": [1]},
    ),
    "MaxPool, SAME_LOWER": (
        "MaxPool", normal(1, 2, 6, 5), [], 12,
        {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "MaxPool, ceil_mode": (
        "MaxPool", normal(1, 2, 6, 6), [], 12,
        {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1},
    ),
    "AveragePool, ceil_mode": (
        "AveragePool", normal(1, 2, 7, 6), [], 19,
        {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1},
    ),
    "LpPool, ceil_mode": (
        "LpPool", normal(1, 2, 7, 6), [], 18,
        {"kernel_shape": [3, 2], "strides": [3, 2], "p": 3, "ceil_mode": 1},
    ),
    "Upsample": ("Upsample", normal(1, 1, 6, 4), [reals(1, 1, 5 / 3, 1.3)], 9, {}),
    "Upsample, linear": (
        "Upsample", normal(1, 1, 6, 4), [reals(1, 1, 5 / 3, 1.3)], 9, {"mode": "linear"},
    ),
    "Resize before opset 11": ("Resize", normal(1, 1, 6, 4), [reals(1, 1, 5 / 3, 0.6)], 10, {}),
    "Resize, size of a product": (
        "Resize", normal(1, 1, 6, 10), [None, reals(1, 1, 5 / 3, 0.7)], 19, {"mode": "linear"},
    ),
    "Resize, align_corners": (
        "Resize", normal(1, 1, 6, 10), [None, reals(1, 1, 1.7, 0.62)], 19,
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
    ),
    "Resize, one output": (
        "Resize", normal(1, 1, 6, 10), [None, None, np.array([1, 1, 1, 3])], 19,
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
    "Resize of a region": (
        "Resize", normal(1, 1, 8, 9),
        [reals(0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1), NONE, np.array([1, 1, 11, 10])], 13,
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "Resize, antialiased": (
        "Resize", normal(1, 1, 9, 10), [None, reals(1, 1, 0.4, 0.62)], 19,
        {"mode": "cubic", "antialias": 1},
    ),
    "Resize of one axis": (
        "Resize", normal(1, 1, 9, 10), [None, None, np.array([4])], 19,
        {"axes": [2], "mode": "linear", "keep_aspect_ratio_policy": "not_larger"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_the_standard(case: str) -> None:
    """As this compiler and, where it is installed, as onnxruntime."""
    op, x, operands, opset, attributes = CASES[case]
    data = file(op, x, operands, opset, **attributes)
    graph = load_model(data)
    found = get_reference("onnx", graph, data).run_all({"x": x})["y"]
    expected = {"hilc": run(graph, {"x": x})[graph.outputs[0]]}
    # It may not be installed, or lack the operator in this opset.
    with suppress(InputError):
        expected["onnxruntime"] = get_reference("onnxruntime", graph, data).run_all({"x": x})["y"]
    for name, values in expected.items():
        assert (found.dtype, found.shape) == (values.dtype, values.shape), name
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("nearest", ["nearest", "linear"])
@pytest.mark.parametrize(("op", "opset"), [("Upsample", 9), ("Resize", 10), ("Resize", 13)])
def test_a_scale_that_keeps_the_size(op: str, opset: int, nearest: str) -> None:
    """It moves entries, as one that changes the size does."""
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1)
    scales = reals(1, 1, 1.19, 1)
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    data = file(
        op,
        x,
        [scales] if opset < 11 else [NONE, scales],
        opset,
        mode=nearest,
        **attributes if opset > 10 else {},
    )
    graph = load_model(data)
    places = np.arange(5) / np.float32(1.19)
    expected = np.floor(places) if nearest == "nearest" else places
    for values in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        np.testing.assert_allclose(values[graph.outputs[0]].ravel(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("size", "by", "transformation", "nearest", "expected"),
    [
        # 2 / (4 / 7) is a half less a unit in the last place, which is the middle.
        (7, 4, "asymmetric", "round_prefer_ceil", [0, 2, 4, 5]),
        (20, 6, "half_pixel", "round_prefer_ceil", [1, 5, 8, 11, 15, 18]),
        (
            14,
            19,
            "half_pixel",
            "round_prefer_floor",
            [0, 1, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12, 13],
        ),
        (3, 1.5, "half_pixel_symmetric", "floor", [0, 0, 1, 2]),
        (2, 0.75, "half_pixel_symmetric", "round_prefer_ceil", [1]),
        # RESIZE_NEAREST_NEIGHBOR multiplies by 2 / 82, which is less than half of the 41st.
        (2, 82, "asymmetric", "floor", [0] * 41 + [1] * 41),
    ],
)
def test_places_of_the_nearest(
    size: int, by: float, transformation: str, nearest: str, expected: list[int]
) -> None:
    """By their rounding in onnxruntime, in sizes (whole numbers) and scales."""
    x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)
    operands: list[Array | None] = [None, reals(1, 1, 1, by)]
    if isinstance(by, int):
        operands = [None, None, np.array([1, 1, 1, by])]
    attributes = {"coordinate_transformation_mode": transformation, "nearest_mode": nearest}
    data = file("Resize", x, operands, 19, **attributes)
    graph = load_model(data)
    for found in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        assert found[graph.outputs[0]].ravel().tolist() == expected


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_strides_beyond_the_end(op: str) -> None:
    """A position that no window takes lies at the end; of more, it is not said where."""
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    attributes = {"kernel_shape": [1], "auto_pad": "SAME_UPPER"}
    data = file(op, x, [], 18, strides=[2], **attributes)
    graph = load_model(data)
    for found in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        assert found[graph.outputs[0]].ravel().tolist() == [0, 2, 4, 6]
    data = file(op, x[..., :3], [], 18, strides=[4], **attributes)
    with pytest.raises(UnsupportedError, match="a padding of -2, by which") as refused:
        load_model(data)
    assert refused.value.hint == "state pads of 0 or more in place of auto_pad"
    with pytest.raises(ModelError, match="SAME_UPPER adds -2 positions to 3"):
        Evaluator(data).run({"x": x[..., :3]})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_infinite_pixels_beyond_which_zeros_are_read(mode: str) -> None:
    """A place outside reads 0, not 0 times infinity."""
    x = np.full((1, 1, 3, 3), np.inf, np.float32)
    grid = reals(-3, -3, 3, 0, 3, 3).reshape(1, 1, 3, 2)
    data = file("GridSample", x, [grid], 20, mode=mode, padding_mode="zeros")
    graph = load_model(data)
    for found in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        assert found[graph.outputs[0]].ravel().tolist() == [0, 0, 0]


def test_cubic_filters_read_the_border_outside() -> None:
    """A place beyond the border is not moved to it: the filter's shares are those of the place."""
    x = reals(0, 1, 2, 4).reshape(1, 1, 1, 4)
    # 0.3 pixels beyond the last: the filter reads the last but one, and three times the last.
    grid = reals(1.2, 0).reshape(1, 1, 1, 2)
    given: dict[str, Any] = {"mode": "cubic", "padding_mode": "border", "align_corners": 1}
    data = file("GridSample", x, [grid], 20, **given)
    far, slope = 1.3, -0.75
    share = ((slope * far - 5 * slope) * far + 8 * slope) * far - 4 * slope
    graph = load_model(data)
    for found in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        assert found[graph.outputs[0]].item() == pytest.approx(2 * share + 4 * (1 - share), 1e-5)


@pytest.mark.parametrize("opset", [6, 13])
def test_clip_keeps_what_is_no_number(opset: int) -> None:
    x = reals(1, np.nan, 7, -1)
    bounds: list[Array | None] = [np.array(each, np.float32) for each in (0, 6)]
    attributes = {"min": 0.0, "max": 6.0} if opset < 11 else {}
    data = file("Clip", x, bounds if opset >= 11 else [], opset, **attributes)
    graph = load_model(data)
    for found in (run(graph, {"x": x}), get_reference("onnx", graph, data).run_all({"x": x})):
        np.testing.assert_array_equal(found[graph.outputs[0]], reals(1, np.nan, 6, 0))


@pytest.mark.parametrize(
    ("op", "gates", "attributes", "lengths", "ignored"),
    [
        ("LSTM", 4, {}, True, "sequence_lens"),
        ("LSTM", 4, {"clip": 0.5}, False, "clip"),
        ("GRU", 3, {"activations": ["Relu", "Tanh"]}, False, "activations"),
        ("RNN", 1, {}, True, "sequence_lens"),
    ],
)
def test_what_it_ignores_is_refused(
    op: str, gates: int, attributes: dict[str, Any], lengths: bool, ignored: str
) -> None:
    """A result that ignores it would be another one."""
    operands = [normal(1, gates * 2, 3), normal(1, gates * 2, 2), None]
    operands += [np.array([3], np.int32)] if lengths else []
    data = file(op, normal(4, 1, 3), operands, 14, hidden_size=2, **attributes)
    with pytest.raises(ModelError, match=f"ignores {ignored} of {op}") as found:
        get_reference("onnx", load_model(data), data)
    assert "onnxruntime" in (found.value.hint or "")
