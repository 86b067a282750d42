"""The reference ``onnxruntime``, and operators of which ``onnx.reference`` computes another thing
than the standard says.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hilc.errors import InputError, ModelError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.references import get_reference, is_independent
from hilc.support import optional

pytest.importorskip("onnxruntime", reason="pip install 'hil-harness[quantize]'")


def resize(shape: tuple[int, ...], scales: tuple[float, ...], **attributes: Any) -> bytes:
    """Return a model of one Resize by scales."""
    values = [numpy_helper.from_array(np.array(scales, np.float32), "scales")]
    inputs = ["x", "", "scales"]
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        region = np.array([0.1] * len(shape) + [0.8] * len(shape), np.float32)
        region[:2], region[len(shape) : len(shape) + 2] = 0, 1
        values.append(numpy_helper.from_array(region, "region"))
        inputs[1] = "region"
    graph = helper.make_graph(
        [helper.make_node("Resize", inputs, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        values,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    data: bytes = onnx.shape_inference.infer_shapes(made).SerializeToString()
    return data


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize(
    "transformation",
    [
        "align_corners",
        "asymmetric",
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "tf_crop_and_resize",
    ],
)
@pytest.mark.parametrize("scales", [(1.7, 0.62), (0.35, 2.29), (0.2, 0.15)])
def test_fractional_sizes(mode: str, transformation: str, scales: tuple[float, float]) -> None:
    shape = (1, 2, 5, 7)
    data = resize(
        shape, (1.0, 1.0, *scales), mode=mode, coordinate_transformation_mode=transformation
    )
    graph = load_model(data)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    expected = get_reference("onnxruntime", graph, data).run_all({"x": x})["y"]
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("version", [10, 19])
def test_sizes_and_places_by_scales(version: int) -> None:
    """Of quotients of small numbers, by which a product or a place is nearly a whole number."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        size, scale = int(rng.integers(2, 40)), rng.integers(3, 49) / rng.integers(2, 13)
        scales = numpy_helper.from_array(np.array([1, 1, scale, 1], np.float32), "scales")
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        graph = helper.make_graph(
            [helper.make_node("Resize", ["x", *["", "scales"][version < 11 :]], ["y"],
                              mode="nearest", **(attributes if version >= 11 else {}))],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, size, 1))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
            [scales],
        )  # fmt: skip
        opset = helper.make_opsetid("", version)
        data = helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size, 1)
        read = load_model(data)
        expected = get_reference("onnxruntime", read, data).run_all({"x": x})["y"]
        np.testing.assert_array_equal(run(read, {"x": x})["y"], expected, f"{size} * {scale}")


def test_aligned_corners_take_the_native_operator() -> None:
    data = resize(
        (1, 2, 5, 6),
        (1.0, 1.0, 1.7, 0.6),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    assert "RESIZE_BILINEAR" in [node.op for node in load_model(data).nodes]


def _network() -> bytes:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Add", ["r", "s"], ["after"]),
        helper.make_node("Neg", ["after"], ["y"]),
    ]
    shape = (1, 4)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xs"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("after", "y")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = made.SerializeToString()
    return data


def test_all_tensors_by_name() -> None:
    data = _network()
    reference = get_reference("onnxruntime", load_model(data), data)
    x, s = np.array([[-1, 2, -3, 4]], np.float32), np.full((1, 4), 0.5, np.float32)
    values = reference.run_all({"x": x, "s": s})
    assert values["r"].tolist() == [[0, 2, 0, 4]]
    assert values["y"].tolist() == [[-0.5, -2.5, -0.5, -4.5]]
    assert reference.description.startswith("onnxruntime: onnxruntime ")
    assert is_independent("onnxruntime")


def test_states_are_carried_and_reset() -> None:
    model = onnx.load_from_string(_network())
    model.metadata_props.add(key="hil.state:s", value="after")
    data = model.SerializeToString()
    reference = get_reference("onnxruntime", load_model(data), data)
    x = {"x": np.ones((1, 4), np.float32)}
    assert [reference.run_all(x)["y"][0, 0] for _ in range(3)] == [-1, -2, -3]
    reference.reset_state()
    assert reference.run_all(x)["y"][0, 0] == -1


def test_a_model_that_it_rejects() -> None:
    made = onnx.load_from_string(_network())
    made.opset_import[0].version = 99
    graph = load_model(_network())
    with pytest.raises(ModelError, match="onnxruntime cannot run this model: .*99"):
        get_reference("onnxruntime", graph, made.SerializeToString())


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _network()
    graph = load_model(data)
    monkeypatch.setattr(
        optional, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name)
    )
    with pytest.raises(InputError, match="needs the package onnxruntime, which is not") as caught:
        get_reference("onnxruntime", graph, data)
    assert "pip install 'hil-harness[quantize]'" in caught.value.hint


def test_no_model_file() -> None:
    graph = load_model(_network())
    with pytest.raises(InputError, match="the reference onnxruntime runs model files"):
        get_reference("onnxruntime", graph, None)
    with pytest.raises(InputError, match="the reference onnxruntime runs ONNX files only"):
        get_reference("onnxruntime", graph, b"TFL3")


@pytest.mark.parametrize("others", [0, 1])
def test_outputs_of_types_without_an_array(others: int) -> None:
    """Those of bfloat16: alone, or beside one of float32."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)]
    nodes += [helper.make_node("Neg", ["x"], ["z"])] * others
    value = helper.make_tensor_value_info
    outputs = [value("y", TensorProto.BFLOAT16, (2,)), value("z", TensorProto.FLOAT, (2,))]
    given = [value("x", TensorProto.FLOAT, (2,))]
    graph = helper.make_graph(nodes, "g", given, outputs[: 1 + others])
    opsets = [helper.make_opsetid("", 13)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    reference = get_reference("onnxruntime", load_model(data), data)
    with pytest.raises(ModelError, match="'y', whose type"):
        reference.run_all({"x": np.ones(2, np.float32)})
