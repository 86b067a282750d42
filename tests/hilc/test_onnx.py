"""ONNX models: read, specialized, refused, compiled and compared with ONNX's own reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import hilc
import hilc.host
from hilc.errors import HilError, InputError, ModelError, UnsupportedError
from hilc.frontends import Specialization, load_model, read_model, reader_of
from hilc.interpreter import Interpreter, run
from hilc.ir import Array
from hilc.onnx_backend import run_node
from hilc.references import get_reference

FLOAT = TensorProto.FLOAT


def model(
    nodes: Sequence[tuple[Any, ...]],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    constants: Mapping[str, Array] = MappingProxyType({}),
    opset: int = 17,
) -> bytes:
    """The bytes of a model; inputs and outputs are names with shapes of float32."""
    values = [
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in given.items()]
        for given in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **n[3]) for n in nodes], "g", *values, tensors
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    data: bytes = made.SerializeToString()
    return data


def network(batch: str | int = 1) -> bytes:
    """A small network of convolutions, pools and a classifier."""
    rng = np.random.default_rng(7)

    def weights(*shape: int) -> Array:
        return rng.normal(size=shape).astype(np.float32)

    constants = {"w1": weights(8, 3, 3, 3), "b1": weights(8), "w2": weights(8, 1, 3, 3),
                 "w3": weights(5, 8), "b3": weights(5)}  # fmt: skip
    nodes = [
        ("Conv", ["x", "w1", "b1"], ["c"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "w2"], ["d"], {"group": 8, "pads": [1, 1, 1, 1]}),
        ("MaxPool", ["d"], ["m"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("GlobalAveragePool", ["m"], ["g"], {}),
        ("Flatten", ["g"], ["f"], {}),
        ("Gemm", ["f", "w3", "b3"], ["l"], {"transB": 1}),
        ("Softmax", ["l"], ["y"], {}),
    ]
    return model(nodes, {"x": [batch, 3, 8, 8]}, {"y": [batch, 5]}, constants)


def test_a_network_keeps_the_order_of_its_axes() -> None:
    data = network()
    graph = load_model(data)
    assert graph.tensors["x"].shape == (1, 3, 8, 8)
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    expected = get_reference("onnx", graph, data).run_all({"x": x})
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected["y"], rtol=1e-5, atol=1e-6)
    with hilc.host.load(hilc.compile(data, cpu="host")) as here:
        here.set_input("x", x)
        here.run()
        np.testing.assert_allclose(here.get_output(0), expected["y"], rtol=1e-5, atol=1e-6)


def test_an_open_size_is_refused_or_fixed() -> None:
    data = network("N")
    with pytest.raises(UnsupportedError, match=r"open shape \[N, 3, 8, 8\]") as caught:
        load_model(data)
    assert "--shape x=1,3,8,8" in caught.value.hint
    read = read_model(data, specialization=Specialization({"x": (2, 3, 8, 8)}))
    graph, file = read.graph, read.data
    assert graph.tensors["y"].shape == (2, 5)
    # What a library keeps is the model as it was compiled.
    assert load_model(file).tensors["x"].shape == (2, 3, 8, 8)
    library = hilc.compile(data, name="net", shapes={"x": (2, 3, 8, 8)})
    assert library.files["src/net.onnx"] == file


def test_outputs_without_shape_or_type() -> None:
    made = onnx.load_from_string(network())
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert load_model(made.SerializeToString()).tensors["y"].shape == (1, 5)
    made.graph.output[0].ClearField("type")
    data = made.SerializeToString()
    graph = load_model(data)
    assert graph.tensors["y"].shape == (1, 5)
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    expected = get_reference("onnx", graph, data).run_all({"x": x})["y"]
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_an_input_without_shape_or_type() -> None:
    made = onnx.load_from_string(network())
    made.graph.input[0].type.tensor_type.ClearField("shape")
    data = made.SerializeToString()
    with pytest.raises(UnsupportedError, match="the input 'x' has no shape") as caught:
        load_model(data)
    assert "--shape x=" in caught.value.hint
    stated = read_model(data, specialization=Specialization({"x": (1, 3, 8, 8)}))
    assert stated.graph.tensors["y"].shape == (1, 5)
    made.graph.input[0].ClearField("type")
    with pytest.raises(ModelError, match="the input 'x' has no type"):
        load_model(made.SerializeToString())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1, 3, 8, 8)}, "no input 'z'"),
        ({"x": (1, 4, 8, 8)}, "does not fit"),
        ({"x": (1, 3, 8)}, "does not fit"),
        ({"x": (0, 3, 8, 8)}, "has no elements"),
    ],
)
def test_a_wrong_shape_is_refused(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hilc.compile(network("N"), shapes=shapes)


def test_an_operand_that_must_be_known() -> None:
    node = helper.make_node("Tile", ["x", "repeats"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, [2]),
            helper.make_tensor_value_info("repeats", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, [None])],
    )
    data = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    with pytest.raises(UnsupportedError, match="'repeats', is only known at run time") as caught:
        load_model(data)
    assert "--constant repeats=FILE.npy" in caught.value.hint
    library = hilc.compile(data, inputs={"repeats": np.array([3])})
    assert [info.name for info in library.modules[0].inputs] == ["x"]
    with pytest.raises(InputError, match="the stated value is float32"):
        hilc.compile(data, inputs={"repeats": np.zeros(1, np.float32)})


def test_tflite_takes_no_shapes(tmp_path: Path) -> None:
    with pytest.raises(HilError):
        hilc.compile(b"\x00\x00\x00\x00TFL3" + bytes(64), shapes={"x": (1,)})


def external(location: str, length: int | str = 16, offset: int | str = 0) -> bytes:
    """A model whose constant lies in another file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    stated = (("location", location), ("length", str(length)), ("offset", str(offset)))
    for key, value in stated:
        tensor.external_data.add(key=key, value=value)
    values = [helper.make_tensor_value_info(name, FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [tensor]
    )
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    data: bytes = made.SerializeToString()
    return data


def test_data_beside_the_model_are_read_into_it(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype="<f4").tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(external("w.bin"))
    read = read_model(path)
    graph, file = read.graph, read.data
    np.testing.assert_array_equal(graph.tensors["w"].data, np.arange(4))
    assert load_model(file).tensors["w"].data is not None


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "none.bin", "", "link.bin"])
def test_data_elsewhere_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    path = folder / "m.onnx"
    path.write_bytes(external(location))
    with pytest.raises(ModelError, match="the data of 'w'"):
        load_model(path)


def test_data_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(15))
    path = tmp_path / "m.onnx"
    path.write_bytes(external("w.bin"))
    with pytest.raises(ModelError, match="exceed the 15 bytes"):
        load_model(path)


@pytest.mark.parametrize(
    ("length", "offset", "message"),
    [
        (-1, 0, "the length '-1'"),
        (16, -4, "the offset '-4'"),
        ("9" * 5000, 0, "the length '9999"),
        (16, "0x0", "the offset '0x0'"),
        ("", 1 << 33, f"0 bytes at {1 << 33}, exceed the 16 bytes"),
        (16, 4, "16 bytes at 4, exceed the 16 bytes"),
    ],
)
def test_ranges_that_are_none_are_refused(
    tmp_path: Path, length: int | str, offset: int | str, message: str
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = tmp_path / "m.onnx"
    path.write_bytes(external("w.bin", length, offset))
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_every_truncation_is_refused() -> None:
    data = network()
    reader = reader_of(data)
    assert reader is not None
    assert reader.name == "ONNX"
    for length in range(0, len(data), 97):
        with pytest.raises(ModelError):
            load_model(data[:length])


def test_a_refusal_names_operator_node_and_type() -> None:
    data = model([("Unique", ["x"], ["y"], {"name": "u"})], {"x": [4]}, {"y": [None]})
    with pytest.raises(UnsupportedError, match=r"node 0 \(Unique 'u'\)"):
        load_model(data)


def test_a_type_without_a_kernel_names_the_node() -> None:
    """Not the one that it is translated to, whose tensors the model does not have."""
    node = helper.make_node("ReduceL2", ["x"], ["y"], name="norm", keepdims=0)
    values = [
        helper.make_tensor_value_info(n, TensorProto.INT32, s) for n, s in (("x", [2]), ("y", []))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    with pytest.raises(UnsupportedError) as caught:
        load_model(data)
    assert caught.value.fact.startswith("node 0 (ReduceL2 'norm') is not supported for")
    assert "int32" in caught.value.fact
    assert "float32" in caught.value.fact
    assert "SQRT" not in str(caught.value)


def test_a_function_of_the_model_is_expanded() -> None:
    body = [
        helper.make_node("Mul", ["a", "a"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["b"]),
    ]
    body[1].attribute.add(name="alpha", ref_attr_name="slope", type=1)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Squared", ["a"], ["b"], body, opsets[:1], ["slope"])
    values = [helper.make_tensor_value_info(name, FLOAT, [4]) for name in "xy"]
    node = helper.make_node("Squared", ["x"], ["y"], domain="own", slope=0.5)
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    data = helper.make_model(
        graph, opset_imports=opsets, functions=[function], ir_version=8
    ).SerializeToString()
    loaded = load_model(data)
    assert [node.op for node in loaded.nodes] == ["MUL", "LEAKY_RELU"]
    x = np.array([-2, 0, 1, 3], np.float32)
    np.testing.assert_array_equal(run(loaded, {"x": x})["y"], x * x)


def test_the_backend_runs_a_node() -> None:
    x = np.array([[1, -2], [3, -4]], np.float32)
    (y,) = run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(y, np.maximum(x, 0))


# Recurrent layers ---------------------------------------------------------------------------------


def recurrent(kind: str, direction: str, layout: int, **attributes: object) -> onnx.ModelProto:
    """A recurrent layer with random constants, whose states before are inputs."""
    rng = np.random.default_rng(len(kind) + layout)
    gates, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if direction == "bidirectional" else 1
    steps, batch, depth, units = 4, 2, 3, 5
    shapes = {
        "w": (ways, gates * units, depth),
        "r": (ways, gates * units, units),
        "b": (ways, 2 * gates * units),
    }
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.4, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    state = [batch, ways, units] if layout else [ways, batch, units]
    names = ["h", "c"] if kind == "LSTM" else ["h"]
    inputs = [helper.make_tensor_value_info(
        "x", onnx.TensorProto.FLOAT, [batch, steps, depth] if layout else [steps, batch, depth]
    )]  # fmt: skip
    inputs += [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, state) for n in names]
    outputs = ["y", *(f"{name}_last" for name in names)]
    node = helper.make_node(
        kind, ["x", "w", "r", "b", "", *names], outputs,
        hidden_size=units, direction=direction, layout=layout, **attributes,
    )  # fmt: skip
    whole = [batch, steps, ways, units] if layout else [steps, ways, batch, units]
    values = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, state if i else whole)
        for i, n in enumerate(outputs)
    ]
    graph = helper.make_graph([node], "recurrent", inputs, values, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("LSTM", {}), ("GRU", {"linear_before_reset": 1}), ("GRU", {}), ("RNN", {})],
    ids=["LSTM", "GRU linear", "GRU", "RNN"],
)
def test_recurrent_layers_equal_the_formulas(
    kind: str, direction: str, attributes: dict[str, object]
) -> None:
    """The evaluator of ONNX has only some directions."""
    model = recurrent(kind, direction, 0, **attributes)
    graph = load_model(model.SerializeToString(), "recurrent")
    rng = np.random.default_rng(1)
    inputs = {
        name: rng.normal(0, 1, graph.tensors[name].shape).astype(np.float32)
        for name in graph.inputs
    }
    found = Interpreter(graph).run(inputs)
    wanted = stepped(kind, direction, model, inputs, bool(attributes))
    for name, array in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


def stepped(
    kind: str, direction: str, model: onnx.ModelProto, inputs: dict[str, np.ndarray], linear: bool
) -> list[np.ndarray]:
    """The formulas of ONNX's documents, in double precision."""
    w, r, b = (numpy_helper.to_array(t).astype(float) for t in model.graph.initializer)
    x = inputs["x"].astype(float)
    ways = 2 if direction == "bidirectional" else 1
    ys, hs, cs = [], [], []
    for way in range(ways):
        back = direction == "reverse" or way == 1
        h = inputs["h"][way].astype(float)
        c = inputs["c"][way].astype(float) if kind == "LSTM" else h
        wb, rb = np.split(b[way], 2)
        y = []
        for moment in x[::-1] if back else x:
            of_x, of_h = moment @ w[way].T + wb, h @ r[way].T + rb
            if kind == "RNN":
                h = np.tanh(of_x + of_h)
            elif kind == "LSTM":
                i, o, f, g = np.split(of_x + of_h, 4, axis=1)
                c = logistic(f) * c + logistic(i) * np.tanh(g)
                h = logistic(o) * np.tanh(c)
            else:
                (xz, xr, xn), (hz, hr, hn) = np.split(of_x, 3, axis=1), np.split(of_h, 3, axis=1)
                z, reset = logistic(xz + hz), logistic(xr + hr)
                rn, rbn = np.split(r[way], 3)[2], np.split(rb, 3)[2]
                new = np.tanh(xn + (reset * hn if linear else (reset * h) @ rn.T + rbn))
                h = (1 - z) * new + z * h
            y.append(h)
        ys.append(np.stack(y[::-1] if back else y))
        hs.append(h)
        cs.append(c)
    last = [np.stack(hs)] + ([np.stack(cs)] if kind == "LSTM" else [])
    return [np.stack(ys, axis=1), *last]


def logistic(x: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1 / (1 + np.exp(-x))
    return values


# Batch normalization ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_batch_normalization_joins_the_layer_before(kind: str, has_bias: bool) -> None:
    data = normalized(kind, has_bias)
    graph = load_model(data, "normalized")
    assert sum(node.op in ("MUL", "ADD") for node in graph.nodes) == 0
    rng = np.random.default_rng(2)
    inputs = {"x": rng.normal(size=(1, 3, 6, 5)).astype(np.float32)}
    reference = get_reference("onnx", graph, data).run_all(inputs)
    np.testing.assert_allclose(run(graph, inputs)["y"], reference["y"], rtol=1e-5, atol=1e-6)


def normalized(kind: str, has_bias: bool, second_reader: bool = False) -> bytes:
    rng = np.random.default_rng(1)
    shape = (4, 3, 3, 3) if kind == "Conv" else (3, 4, 3, 3)
    constants = {
        "w": rng.normal(0, 0.3, shape),
        "b": rng.normal(0, 1, 4),
        "scale": rng.uniform(0.5, 2, 4),
        "shift": rng.normal(0, 1, 4),
        "mean": rng.normal(0, 1, 4),
        "variance": rng.uniform(0.1, 2, 4),
    }
    of_layer = ["x", "w", "b"] if has_bias else ["x", "w"]
    size = [1, 4, 4, 3] if kind == "Conv" else [1, 4, 8, 7]
    nodes: list[tuple[Any, ...]] = [
        (kind, of_layer, ["c"], {}),
        ("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["y"],
         {"epsilon": 1e-3}),
    ]  # fmt: skip
    outputs: dict[str, Sequence[Any]] = {"y": size}
    if second_reader:
        nodes.append(("Relu", ["c"], ["z"], {}))
        outputs["z"] = size
    return model(
        nodes, {"x": [1, 3, 6, 5]}, outputs,
        {name: value.astype(np.float32) for name, value in constants.items()},
    )  # fmt: skip


def test_batch_normalization_stays_for_other_readers() -> None:
    graph = load_model(normalized("Conv", True, second_reader=True), "normalized")
    assert {"MUL", "ADD"} <= {node.op for node in graph.nodes}


# Corners of functions -----------------------------------------------------------------------------


def of_one(kind: str, x: Array) -> Array:
    (y,) = run_node(helper.make_node(kind, ["x"], ["y"]), [x])
    return np.asarray(y)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_magnitudes_of_unsigned_numbers_are_themselves(dtype: str) -> None:
    x = np.array([0, 1, 7, 128, 255], dtype)
    np.testing.assert_array_equal(of_one("Abs", x), x)


def test_softplus_of_large_and_small_values() -> None:
    x = np.array([1e4, 100, 3, 0, -3, -20, -80, -1e4], np.float32)
    wanted = np.logaddexp(0, x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(of_one("Softplus", x), wanted, rtol=3e-7)


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_what_is_no_number_stays_that(kind: str) -> None:
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    wanted = (np.maximum if kind == "Max" else np.minimum)(a, b)
    nodes: list[tuple[Any, ...]] = [(kind, ["a", "b"], ["y"], {}), (kind, ["a", "c"], ["z"], {})]
    constants = {"c": np.array([0, 0, 9], np.float32)}
    data = model(nodes, {"a": [3], "b": [3]}, {"y": [3], "z": [3]}, constants)
    with hilc.host.load(hilc.compile(data)) as compiled:
        compiled.set_input("a", a)
        compiled.set_input("b", b)
        compiled.run()
        np.testing.assert_array_equal(compiled.get_output(0), wanted)
        assert np.isnan(compiled.get_output(1)[0])


def test_an_inverse_transpose_keeps_the_layer() -> None:
    """ConvNeXt of timm goes to channels last behind a convolution, where its result is already."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(5, 3, 2, 2)).astype(np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 3, 1]),
            helper.make_node("Relu", ["t"], ["y"]),
        ],
        "net",
        [value("x", TensorProto.FLOAT, (1, 3, 4, 6))],
        [value("y", TensorProto.FLOAT, (1, 3, 5, 5))],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    read = load_model(model.SerializeToString(), "net")
    x = rng.normal(size=(1, 3, 4, 6)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(run(read, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)
