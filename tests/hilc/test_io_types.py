"""Inputs and outputs in another type (``io``): the same results, converted by the caller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hil.cli import main
from hil.verify.oracle import reference_of
from hilc.errors import InputError
from hilc.ir import Array
from hilc.ir.dtypes import IO_TYPES

_RNG = np.random.default_rng(8)


def qdq(dtype: type = np.int8, *, also_float: bool = False, behind: str = "") -> bytes:
    """Return a quantized sum of an input with itself, and what may stand beside or behind it."""
    make, zero_point = helper.make_node, 128 if dtype is np.uint8 else 5
    scale = 0.00013 if np.dtype(dtype).itemsize == 2 else 0.0413
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("DequantizeLinear", ["q", "s", "z"], ["d"]),
        make("Add", ["d", "d"], ["sum"]),
        make("QuantizeLinear", ["sum", "s", "z"], ["p"]),
        make("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    outputs = ["y"]
    if also_float:
        nodes.append(make("Neg", ["x"], ["n"]))
        outputs.append("n")
    if behind == "quantized":
        nodes += [
            make("Neg", ["y"], ["m"]),
            make("QuantizeLinear", ["m", "s", "z"], ["r"]),
            make("DequantizeLinear", ["r", "s", "z"], ["b"]),
        ]
        outputs.append("b")
    elif behind:
        nodes.append(make(behind, ["y"], ["b"]))
        outputs.append("b")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 16)) for name in outputs],
        [
            numpy_helper.from_array(np.array(scale, np.float32), "s"),
            numpy_helper.from_array(np.array(zero_point, dtype), "z"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = made.SerializeToString()
    return data


def tflite(*, floats: bool) -> bytes:
    """Return an ADD of int8 whose inputs and outputs are int8 or floats, as converters write it."""
    b, shape = ModelBuilder(), (1, 16)
    first, last = (0.0413, 3), (0.0711, -8)
    if floats:
        b.input("x", shape)
        b.tensor("q", shape, "int8", *first)
        b.tensor("p", shape, "int8", *last)
        b.op("QUANTIZE", ("x",), ("q",))
        b.op("ADD", ("q", "q"), ("p",))
        b.output("y", shape)
        b.op("DEQUANTIZE", ("p",), ("y",))
    else:
        b.input("x", shape, "int8", *first)
        b.output("y", shape, "int8", *last)
        b.op("ADD", ("x", "x"), ("y",))
    return b.build()


MODELS = {
    "int8": (qdq(), ("float", "int8", "uint8")),
    "uint8": (qdq(np.uint8), ("float", "int8", "uint8")),
    "int16": (qdq(np.int16), ("float", "int16")),
    "uint16": (qdq(np.uint16), ("float", "int16")),
    "an output that is read": (qdq(behind="quantized"), ("float", "int8", "uint8")),
    "TFLite with floats": (tflite(floats=True), ("float", "int8", "uint8")),
    "TFLite with integers": (tflite(floats=False), ("float", "int8", "uint8")),
}


def _random(tensor: hilc.TensorInfo) -> Array:
    if tensor.dtype == "float32":
        floats: Array = _RNG.normal(size=tensor.shape).astype(np.float32)
        return floats
    info = np.iinfo(tensor.dtype)
    integers: Array = _RNG.integers(info.min, info.max + 1, tensor.shape).astype(tensor.dtype)
    return integers


@pytest.mark.parametrize(
    ("name", "io"), [(name, io) for name, (_, types) in MODELS.items() for io in types]
)
def test_results_stay_the_same(name: str, io: str) -> None:
    library = hilc.compile(MODELS[name][0], name="net", io=io, allow_float=True)
    (module,) = library.modules
    tensors = (*module.inputs, *module.outputs)
    assert {tensor.dtype for tensor in tensors} == {IO_TYPES[io]}
    assert all((tensor.scale is None) == (io == "float") for tensor in tensors)
    reference = reference_of(library, module, allow_fallback=True)
    with hilc.host.load(library) as here:
        for index in range(5):
            x = _random(module.inputs[0])
            here.set_input("x", x)
            here.run()
            expected = reference.values(index, {"x": x})
            for tensor in module.outputs:
                np.testing.assert_array_equal(here.get_output(tensor.name), expected[tensor.name])


def test_no_conversion_is_left() -> None:
    for data in (qdq(), tflite(floats=True)):
        library = hilc.compile(data, name="net", io="int8")
        assert [layer.op for layer in library.modules[0].layers] == ["ADD"]


def test_what_is_kept_is_the_default() -> None:
    kept, default = hilc.compile(qdq(), name="net", io="keep"), hilc.compile(qdq(), name="net")
    assert kept.files == default.files
    assert {tensor.dtype for tensor in kept.modules[0].inputs} == {"float32"}


@pytest.mark.parametrize(
    ("data", "io", "message"),
    [
        (qdq(), "int16", "the input 'x' cannot be int16: the model has it in int8"),
        (qdq(np.int16), "int8", "the input 'x' cannot be int8: the model has it in int16"),
        (qdq(also_float=True), "int8", "the input 'x' cannot be int8: it is read as floats"),
        (qdq(behind="Sin"), "int8", "the output 'b' cannot be int8: it is computed in floats by"),
    ],
)
def test_others_are_refused(data: bytes, io: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hilc.compile(data, name="net", io=io, allow_float=True)


def test_the_saving_is_stated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(qdq())
    assert main(["compile", str(file), "-o", str(tmp_path / "net.tar")]) == 0
    # 16 elements in and out, of 4 bytes or of one.
    assert "as int8 take 96 B less, with the same results: --io int8" in capsys.readouterr().out
    assert main(["explain", str(file), "--board", "native", "--io", "int8"]) == 0
    shown = capsys.readouterr().out
    assert "take 96 B less" not in shown
    assert "input x: int8[1,16], real = 0.0412" in shown
    assert "* (value - 5)" in shown
    assert main(["verify", str(file), "--board", "native", "--io", "int8", "--samples", "3",
                 "--reference", "onnx"]) == 0  # fmt: skip
