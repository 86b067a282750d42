"""Files of one operator each as onnxruntime's ``quantize_static`` writes them, in all its types."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hilc.ir import Array


@dataclass(frozen=True)
class Layer:
    """An operator, the shape of its input ``x``, and its other operands."""

    op: str
    shape: tuple[int, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Shapes of further inputs, which are floats too.
    others: Sequence[tuple[int, ...]] = ()
    outputs: int = 1
    #: Whether the scales of weights may be those of channels.
    has_channels: bool = False


def _random(*shape: int) -> Array:
    rng = np.random.default_rng(zlib.crc32(str(shape).encode()))
    return rng.standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


_IMAGE = (1, 4, 7, 6)
_POOL = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}


def _weighted(op: str, shape: tuple[int, ...], *constants: Array, **attributes: Any) -> Layer:
    """A layer with weights, and perhaps a bias."""
    named = dict(zip(("w", "b"), constants, strict=False))
    return Layer(op, shape, named, attributes, has_channels=True)


def _resized(mode: str, *scales: float) -> Layer:
    given = {"": None, "scales": np.array([1, 1, *scales], np.float32)}
    return Layer("Resize", _IMAGE, given, {"mode": mode})


LAYERS: Mapping[str, Layer] = {
    "Add": Layer("Add", (2, 9), others=[(2, 9)]),
    "Add, constant": Layer("Add", (2, 9), {"c": _random(9)}),
    "ArgMax": Layer("ArgMax", (3, 8), attributes={"axis": 1, "keepdims": 0}),
    "AveragePool": Layer("AveragePool", _IMAGE, attributes=_POOL),
    "AveragePool, padding": Layer(
        "AveragePool", _IMAGE, attributes={**_POOL, "count_include_pad": 1}
    ),
    "BatchNormalization": Layer(
        "BatchNormalization", _IMAGE,
        {"s": _random(4), "b": _random(4) + 1, "m": _random(4) / 2, "v": np.abs(_random(4)) + 0.5},
    ),
    "Clip": Layer("Clip", (3, 8), {"low": np.float32(-0.7), "high": np.float32(1.1)}),
    "Concat": Layer("Concat", (2, 9), attributes={"axis": 0}, others=[(3, 9)]),
    "Conv": _weighted("Conv", _IMAGE, _random(6, 4, 3, 3), _random(6)),
    "Conv, groups": _weighted("Conv", _IMAGE, _random(8, 2, 3, 3), group=2, pads=[1] * 4),
    "Conv, depthwise": _weighted("Conv", _IMAGE, _random(4, 1, 3, 3), group=4),
    "Conv, line": _weighted("Conv", (1, 4, 9), _random(6, 4, 3), _random(6)),
    "ConvTranspose": _weighted(
        "ConvTranspose", _IMAGE, _random(4, 5, 3, 3), _random(5), strides=[2, 2]
    ),
    "ArgMin": Layer("ArgMin", (3, 8), attributes={"axis": 0, "select_last_index": 1}),
    "CumSum": Layer("CumSum", (3, 8), {"axis": np.array(1, np.int64)}),
    "CumSum, backwards": Layer(
        "CumSum", (3, 8), {"axis": np.array(0, np.int64)}, {"reverse": 1, "exclusive": 1}
    ),
    "Div": Layer("Div", (3, 8), {"c": np.abs(_random(8)) + 0.5}),
    "Div, computed": Layer("Div", (3, 8), others=[(3, 8)]),
    "Flatten": Layer("Flatten", _IMAGE),
    "Gather": Layer("Gather", (5, 6), {"i": _ints(4, 0, 2)}),
    "GatherElements": Layer(
        "GatherElements", (3, 4), {"i": _ints(0, 1, 2, 0, 1, 1, 1, 1).reshape(2, 4)}
    ),
    "Gemm": _weighted("Gemm", (3, 12), _random(12, 5), _random(5)),
    "Gemm, turned": _weighted("Gemm", (3, 12), _random(5, 12), _random(5), transB=1),
    "GlobalAveragePool": Layer("GlobalAveragePool", _IMAGE),
    "InstanceNormalization": Layer(
        "InstanceNormalization", _IMAGE, {"s": _random(4) + 1, "b": _random(4)}
    ),
    "LayerNormalization": Layer(
        "LayerNormalization", (3, 12), {"s": _random(12), "b": _random(12)}
    ),
    "LeakyRelu": Layer("LeakyRelu", (3, 8), attributes={"alpha": 0.2}),
    "MatMul": _weighted("MatMul", (2, 3, 12), _random(12, 5)),
    "MatMul, computed": Layer("MatMul", (2, 3, 12), others=[(2, 12, 4)]),
    "MaxPool": Layer("MaxPool", _IMAGE, attributes=_POOL),
    "Mul": Layer("Mul", (2, 9), others=[(2, 9)]),
    "Mul, constant": Layer("Mul", (2, 9), {"c": _random(9)}),
    "Pad": Layer("Pad", (3, 8), {"pads": _ints(1, 0, 0, 2)}),
    "Pad, reflected": Layer("Pad", (3, 8), {"pads": _ints(1, 0, 0, 2)}, {"mode": "reflect"}),
    "Pad, value": Layer("Pad", (3, 8), {"pads": _ints(1, 0, 0, 2), "v": np.float32(0.7)}),
    "Relu": Layer("Relu", (3, 8)),
    "Reshape": Layer("Reshape", (3, 8), {"shape": _ints(4, 6)}),
    "Resize, nearest": _resized("nearest", 2, 1.5),
    "Resize, linear": _resized("linear", 2, 2),
    "Resize, fractional": _resized("linear", 1.7, 1.3),
    "Resize, cubic": _resized("cubic", 2, 2),
    "Resize, cubic, smaller": _resized("cubic", 0.7, 0.6),
    "Resize, rows": _resized("linear", 1.7, 1),
    "Resize, line": Layer(
        "Resize", (1, 4, 9), {"": None, "scales": np.array([1, 1, 1.3], np.float32)},
        {"mode": "linear"},
    ),
    "Sigmoid": Layer("Sigmoid", (3, 8)),
    "Slice": Layer("Slice", (5, 8), {"begin": _ints(1, 2), "end": _ints(4, 7)}),
    "Softmax": Layer("Softmax", (3, 8)),
    "Split": Layer("Split", (3, 8), attributes={"axis": 1}, outputs=2),
    "Squeeze": Layer("Squeeze", (3, 1, 8), {"axes": _ints(1)}),
    "Sub": Layer("Sub", (2, 9), others=[(2, 9)]),
    "Tanh": Layer("Tanh", (3, 8)),
    "TopK": Layer("TopK", (3, 8), {"k": _ints(3)}, outputs=2),
    "TopK, least": Layer("TopK", (3, 8), {"k": _ints(2)}, {"axis": 0, "largest": 0}, outputs=2),
    "Transpose": Layer("Transpose", (3, 8), attributes={"perm": [1, 0]}),
    "Unsqueeze": Layer("Unsqueeze", (3, 8), {"axes": _ints(1)}),
    "Where": Layer("Where", (3, 8), {}, others=[(3, 8)]),
}  # fmt: skip


def float_model(layer: Layer) -> bytes:
    """The file in floats; a Where chooses by a constant."""
    shapes = {"x": layer.shape, **{f"x{i}": shape for i, shape in enumerate(layer.others)}}
    constants = {name: value for name, value in layer.constants.items() if name}
    names = [*list(shapes), *layer.constants]
    if layer.op == "Where":
        constants["chosen"] = np.arange(24).reshape(3, 8) % 3 > 0
        names.insert(0, "chosen")
    if layer.op == "Resize":
        names = ["x", "", "scales"]
    attributes = dict(layer.attributes)
    if layer.op == "Split":
        attributes["num_outputs"] = layer.outputs
    outputs = [f"y{i}" for i in range(layer.outputs)]
    kinds = [
        7 if layer.op in ("ArgMax", "ArgMin") or (layer.op == "TopK" and i) else 1
        for i in range(layer.outputs)
    ]
    graph = helper.make_graph(
        [helper.make_node(layer.op, names, outputs, **attributes)],
        "g",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()],
        [
            helper.make_tensor_value_info(n, kind, None)
            for n, kind in zip(outputs, kinds, strict=True)
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: bytes = onnx.shape_inference.infer_shapes(made).SerializeToString()
    return data


def samples(layer: Layer, count: int = 4, seed: int = 0) -> list[dict[str, Array]]:
    """Inputs of a layer."""
    rng = np.random.default_rng(seed)
    shapes = {"x": layer.shape, **{f"x{i}": shape for i, shape in enumerate(layer.others)}}
    away = 0.5 if layer.op == "Div" else 0.0
    made = []
    for _ in range(count):
        drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
        made.append(
            {
                name: (value if name == "x" else value + np.copysign(away, value)).astype(
                    np.float32
                )
                for name, value in drawn.items()
            }
        )
    return made


def quantized(layer: Layer, activations: str, weights: str, **options: Any) -> bytes:
    """The file that ``quantize_static`` writes with activations and weights of these types."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """The samples, once."""

        def __init__(self) -> None:
            self.left: Iterator[dict[str, Array]] = iter(samples(layer, 8, 1))

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    kinds = {
        "int8": QuantType.QInt8, "uint8": QuantType.QUInt8,
        "int16": QuantType.QInt16, "uint16": QuantType.QUInt16,
        "int4": QuantType.QInt4, "uint4": QuantType.QUInt4,
    }  # fmt: skip
    options = dict(options)
    options["extra_options"] = {
        "ForceQuantizeNoInputCheck": True,
        **options.get("extra_options", {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        source.write_bytes(float_model(layer))
        quantize_static(
            source, target, Reader(), quant_format=QuantFormat[options.pop("form", "QDQ")],
            op_types_to_quantize=[layer.op], activation_type=kinds[activations],
            weight_type=kinds[weights], **options,
        )  # fmt: skip
        return target.read_bytes()
