"""ONNX models that lie, are damaged or have no end: refused with a reason, soon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_mutations import mutant, suite

from hilc.errors import HilError, ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.frontends.onnx import builder
from hilc.frontends.onnx.importer import import_graph
from hilc.frontends.onnx.translators.sampling import affine_places
from hilc.ir import Array

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
IMAGE = (1, 2, 6, 6)


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int] = IMAGE,
    constants: Mapping[str, Array] = MappingProxyType({}),
    declared: Sequence[int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 18,
) -> bytes:
    """A model from ``x`` to ``y``, whose shape is open unless it is declared."""
    rank = 4 if declared is None else len(declared)
    sizes: Sequence[int | None] = [None] * rank if declared is None else declared
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, sizes)],
        [numpy_helper.from_array(value, name) for name, value in dict(constants).items()],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("own", 1)] * bool(functions))]
    made = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)
    data: bytes = made.SerializeToString()
    return data


def refusal(data: bytes) -> str:
    """What a model is refused with: the fact and the remedy."""
    with pytest.raises(ModelError) as refused:
        import_graph(data, "m")
    return f"{refused.value.fact} | {refused.value.hint}"


def one(op: str, *operands: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [helper.make_node(op, ["x", *operands], ["y"], **attributes)]


WEIGHTS = {"w": np.ones((2, 2, 3, 3), np.float32)}


def ints(*values: int) -> dict[str, Array]:
    return {"k": np.array(values, np.int64)}


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        (one("Conv", "w", strides=[0, 1]), WEIGHTS, "has strides [0, 1] | 2 numbers of 1 or more"),
        (one("Conv", "w", strides=[1]), WEIGHTS, "has strides [1] | 2 numbers"),
        (one("Conv", "w", dilations=[1, -2]), WEIGHTS, "has dilations [1, -2]"),
        (one("Conv", "w", pads=[0, 0, -1, 0]), WEIGHTS, "has the pads [0, 0, -1, 0] | 4 numbers"),
        (one("Conv", "w", group=0), WEIGHTS, "2 output channels in 0 groups"),
        (one("ConvTranspose", "w", dilations=[2**40, 1]), WEIGHTS, "may ever fit"),
        (one("MaxPool", kernel_shape=[0, 2]), {}, "has kernel_shape [0, 2]"),
        (one("AveragePool", kernel_shape=[2, 2], strides=[1, 0]), {}, "has strides [1, 0]"),
        (one("Transpose", perm=[0, 1, 2, 2]), {}, "has perm [0, 1, 2, 2] | the axes 0 to 3 once"),
        (one("Flatten", axis=9), {}, "has the axis 9 of 4 dimensions"),
        (one("Pad", "k"), ints(0, 0, 0, 2**40, 0, 0, 0, 0), "may ever fit"),
        (one("Pad", "k"), ints(0, 0, 1), "3 amounts for 4 axes | two for each"),
        (one("Expand", "k"), ints(2**20, 2, 6, 6), "may ever fit"),
        (one("Expand", "k"), ints(5, 5), "do not fit each other"),
        (one("Unsqueeze", "k"), ints(0, 0), "adds the axes [0, 0]"),
        (one("Resize", "", "k"), {"k": np.array([1, 1, np.nan, 2], np.float32)}, "has the scales"),
        (one("Resize", "", "", "k"), ints(1, 2, 2**40, 6), "may ever fit"),
        (one("Resize", "", "", "k", antialias=1), ints(1, 2, 3, 3), "antialias with the mode"),
        (one("ConvInteger", "e"), {"e": np.zeros((3, 0, 1, 1), np.uint8)}, "adds up no products"),
        (one("ConvInteger", "e"), {"e": np.zeros((3, 2, 0, 1), np.uint8)}, "adds up no products"),
        (one("MatMulInteger", "e"), {"e": np.zeros((0, 3), np.uint8)}, "takes no element"),
        (one("Slice", "k", "k", "k", "z"), {**ints(0, 1), "z": np.ones(1, np.int64)},
         "has 2 starts, 2 ends, 2 axes and 1 steps"),
        (one("GatherND", "k"), {"k": np.zeros((2, 0), np.int64)}, "at least 1"),
        (one("QuantizeLinear", "s"), {"s": np.array(np.nan, np.float32)}, "has the scale [nan]"),
        (one("QuantizeLinear", "s"), {"s": np.array(0, np.float32)}, "finite numbers above 0"),
        ([helper.make_node("ConstantOfShape", ["k"], ["y"])], ints(2**31, 1, 1, 1), "may ever fit"),
        ([helper.make_node("ConstantOfShape", ["k"], ["y"])], ints(-1, 1, 1, 1), "0 or more"),
    ],
)  # fmt: skip
def test_corners_of_attributes_and_operands(
    nodes: list[onnx.NodeProto], constants: Mapping[str, Array], message: str
) -> None:
    said = refusal(model(nodes, constants=constants))
    assert message in said
    assert said.startswith("node 0 (")


def test_what_is_declared_holds() -> None:
    assert import_graph(model(one("Relu"), declared=IMAGE), "m").graph.outputs == ("y",)
    said = refusal(model(one("Relu"), declared=(1, 2, 6, 7)))
    assert "'y' is declared float[1, 2, 6, 7], and the nodes compute float32[1, 2, 6, 6]" in said
    said = refusal(model(one("Cast", to=INT64), declared=IMAGE))
    assert "declared float[1, 2, 6, 6], and the nodes compute int64[1, 2, 6, 6]" in said


@pytest.mark.parametrize(
    ("opset", "nodes"),
    [
        (19, one("Resize", "", "k")),
        (10, one("Resize", "k")),
        (9, one("Upsample", "k")),
        (7, one("Upsample", scales=[1.0, 1.0, 5 / 3, 1.0])),
    ],
)
def test_shapes_inferred_in_double(opset: int, nodes: list[onnx.NodeProto]) -> None:
    """6 times 5 / 3: of float32 the product is 10, as a float64 less."""
    scales = {"k": np.array([1, 1, 5 / 3, 1], np.float32)}
    nodes[0].output[0] = "up"
    nodes.append(helper.make_node("Relu", ["up"], ["y"]))
    data = model(nodes, constants=scales, opset=opset)
    assert import_graph(data, "m").graph.tensors["y"].shape == (1, 2, 10, 6)
    inferred = onnx.shape_inference.infer_shapes(onnx.load_from_string(data))
    assert [d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim][2] == 9
    read = import_graph(inferred.SerializeToString(), "m").graph
    assert read.tensors["y"].shape == (1, 2, 10, 6)


def test_shapes_inferred_with_a_window_in_the_padding() -> None:
    """Of windows that begin at -1 and 1, the second covers padding alone."""
    attributes = {"kernel_shape": [2, 1], "strides": [2, 1], "pads": [1, 0, 1, 0], "ceil_mode": 1}
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], **attributes)]
    data = model(nodes, shape=[1, 2, 1, 5], opset=19)
    assert import_graph(data, "m").graph.tensors["y"].shape == (1, 2, 1, 5)
    inferred = onnx.shape_inference.infer_shapes(onnx.load_from_string(data))
    output = inferred.graph.output[0].type.tensor_type.shape.dim[2]
    assert output.dim_value == 2
    read = import_graph(inferred.SerializeToString(), "m").graph
    assert read.tensors["y"].shape == (1, 2, 1, 5)
    output.dim_value = 3
    said = refusal(inferred.SerializeToString())
    assert "is declared float[1, 2, 3, 5], and the nodes compute float32[1, 2, 1, 5]" in said
    # Opset 22 infers what is computed, so that another size is a damage.
    later = onnx.load_from_string(model(nodes, shape=[1, 2, 1, 5], opset=22))
    shape = onnx.shape_inference.infer_shapes(later).graph.output[0].type.tensor_type.shape
    assert shape.dim[2].dim_value == 1
    shape.dim[2].dim_value = 2
    later.graph.output[0].type.tensor_type.shape.CopyFrom(shape)
    assert "is declared float[1, 2, 2, 5]" in refusal(later.SerializeToString())


@pytest.mark.parametrize("sizes", [[1, 1, 4, 1], [1, 2, 1, 3], [1, 1, 1, 3, 4]])
def test_corners_of_a_grid_of_one_pixel_are_refused(sizes: list[int]) -> None:
    """onnxruntime places it at -1, PyTorch at 0, and the standard's function divides by zero."""
    rank = len(sizes) - 2
    constants = {"size": np.array(sizes, np.int64)}
    node = helper.make_node("AffineGrid", ["x", "size"], ["y"], align_corners=1)
    data = model([node], constants=constants, shape=[1, rank, rank + 1], opset=20)
    said = refusal(data)
    assert f"align_corners over a grid {sizes[2:]}" in said
    assert "set align_corners to 0" in said


def test_places_of_a_grid() -> None:
    """As torch.nn.functional.affine_grid has them."""
    places = affine_places([1, 3], align=True)
    assert places.tolist() == [[-1, 0, 1], [0, 0, 1], [1, 0, 1]]
    assert affine_places([2, 1], align=False).tolist() == [[0, -0.5, 1], [0, 0.5, 1]]


def test_a_function_named_like_an_operator() -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    opset = [helper.make_opsetid("", 18)]
    for domain in ("", "ai.onnx"):
        function = helper.make_function(domain, "Relu", ["a"], ["b"], body, opset)
        assert "the model's function 'Relu' has the name of an operator" in refusal(
            model(one("Relu"), functions=[function])
        )


def test_constants_beyond_all_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MAX_CONSTANT_BYTES", 1 << 20)
    size = {"k": np.array([1, 1, 100, 1000], np.int64)}
    nodes = [helper.make_node("ConstantOfShape", ["k"], [f"c{i}"]) for i in range(8)]
    nodes += [helper.make_node("Sum", ["x", *(f"c{i}" for i in range(8))], ["y"])]
    assert f"take more than {1 << 20} bytes" in refusal(
        model(nodes, (1, 1, 100, 1000), constants=size)
    )


def test_a_type_unknown_to_the_version_converter() -> None:
    proto = onnx.ModelProto()
    proto.ParseFromString(
        model(one("Add", "w"), constants={"w": np.ones((1, 2), np.float32)}, opset=1)
    )
    proto.graph.initializer[0].data_type = 99
    assert "ONNX's converter cannot raise it to" in refusal(proto.SerializeToString())


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    proto = onnx.ModelProto()
    proto.ParseFromString(model(one("Add", "w"), constants={"w": np.ones((1, 2), np.float32)}))
    constant = proto.graph.initializer[0]
    constant.data_location = onnx.TensorProto.EXTERNAL
    entry = constant.external_data.add()
    entry.key, entry.value = "location", "x" * 300
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="which is no name of a file: .*File name too long"):
        load_model(tmp_path / "m.onnx")


def test_a_damaged_constant_is_named() -> None:
    proto = onnx.ModelProto()
    proto.ParseFromString(model(one("Add", "w"), constants={"w": np.ones((1, 2), np.float32)}))
    proto.graph.initializer[0].dims[1] = 3
    assert "w" in refusal(proto.SerializeToString())


def valid() -> list[bytes]:
    """Small models of operators that ask their attributes and operands for shapes."""
    taps = {"w": np.ones((2, 2, 3, 3), np.float32), "b": np.ones(2, np.float32)}
    return [
        model(one("Conv", "w", "b", strides=[2, 2], pads=[1, 1, 1, 1]), constants=taps),
        model(one("ConvTranspose", "w", strides=[2, 2], output_padding=[1, 1]), constants=taps),
        model(one("MaxPool", kernel_shape=[2, 2], ceil_mode=1, dilations=[2, 2])),
        model(one("AveragePool", kernel_shape=[3, 3], auto_pad="SAME_LOWER", count_include_pad=1)),
        model(one("LRN", size=3)),
        model(one("Pad", "k"), constants=ints(0, 0, 1, 1, 0, 0, -1, 2)),
        model(one("Slice", "k", "e", "a", "s"), constants={
            "k": np.array([0, -3]), "e": np.array([2, -1]), "a": np.array([1, -1]),
            "s": np.array([1, 2])}),
        model(one("Resize", "", "", "k", mode="cubic"), constants=ints(1, 2, 9, 4)),
        model(one("Reshape", "k"), constants=ints(0, -1, 3, 1)),
        model(one("Tile", "k"), constants=ints(1, 2, 1, 3)),
        model(one("Gather", "k", axis=2), constants={"k": np.array([1, -1])}),
        model(one("ReduceMean", "k", keepdims=1), constants=ints(-1)),
        model([helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=1)], constants=ints(1)),
        model([helper.make_node("Split", ["x", "k"], ["y", "z"], axis=2)], constants=ints(2, 4)),
        model(one("GRU", "w", "r", hidden_size=2)[:1], (3, 1, 2), {
            "w": np.ones((1, 6, 2), np.float32), "r": np.ones((1, 6, 2), np.float32)}),
        model([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
               helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
              constants={"s": np.array(0.1, np.float32), "z": np.array(3, np.int8)}),
    ]  # fmt: skip


def check_mutants(seeds: range, originals: Sequence[bytes]) -> None:
    """Hold each to one of two ends: it is read, or refused by an error of ours."""
    read = 0
    for seed in seeds:
        try:
            import_graph(mutant(seed, originals), "m")
            read += 1
        except HilError:
            continue
        except Exception as error:
            raise AssertionError(f"mutant({seed}) raises {type(error).__name__}") from error
    assert read > len(seeds) // 10


def test_models_to_be_changed_are_valid() -> None:
    for data in valid():
        import_graph(data, "m")


def test_changed_models_are_read_or_refused() -> None:
    check_mutants(range(300), valid())


@pytest.mark.full
def test_changed_suite_models_are_read_or_refused() -> None:
    check_mutants(range(2400), suite())


def test_an_unsupported_function_is_still_named() -> None:
    with pytest.raises(UnsupportedError, match="NonMaxSuppression"):
        import_graph(
            model([helper.make_node("NonMaxSuppression", ["x", "x"], ["y"])], (1, 2, 4)), "m"
        )


@pytest.mark.parametrize("shape", [(0, 2**62), (2, 2**63 - 1, 8, 0)])
def test_an_input_of_no_elements_has_sizes_that_can_be(shape: tuple[int, ...]) -> None:
    """Its sizes are multiplied nevertheless."""
    nodes = [helper.make_node("Shape", ["x"], ["y"])]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [len(shape)])
    graph = helper.make_graph(nodes, "g", [x], [y])
    opsets = [helper.make_opsetid("", 13)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(ModelError, match=r"'x' with shape \[.*\] has no elements, but sizes"):
        load_model(made.SerializeToString())
