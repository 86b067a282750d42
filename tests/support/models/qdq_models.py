"""ONNX models in QDQ form: each tensor quantized and dequantized again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hilc.ir import Array


class QdqBuilder:
    """Nodes on floats with QuantizeLinear and DequantizeLinear around each."""

    def __init__(self, rng: np.random.Generator, dtype: str = "int8") -> None:
        self.rng = rng
        self.dtype = dtype
        #: Steps of the type for one of 8 bits: scales and zero points are stated in these.
        self.finer = 1 << 8 * (np.dtype(dtype).itemsize - 1)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.count = 0

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def constant(self, value: Array, base: str = "c") -> str:
        name = self.name(base)
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [self.name(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def quantize(self, x: str, scale: float, zero_point: int = 0) -> str:
        operands = self._scale(scale, zero_point)
        return self.node("QuantizeLinear", x, *operands)

    def dequantize(self, x: str, scale: float, zero_point: int = 0) -> str:
        return self.node("DequantizeLinear", x, *self._scale(scale, zero_point))

    def _scale(self, scale: float, zero_point: int) -> tuple[str, str]:
        raised = 128 if self.dtype.startswith("u") else 0
        zero = np.array((zero_point + raised) * self.finer, self.dtype)
        return self.constant(np.array(scale / self.finer, np.float32)), self.constant(zero)

    def qdq(self, x: str, scale: float, zero_point: int = 0) -> str:
        """Quantize and dequantize again."""
        return self.dequantize(self.quantize(x, scale, zero_point), scale, zero_point)

    def input(self, shape: tuple[int, ...], scale: float, zero_point: int = 0) -> str:
        """Add an input of integers, and return its floats."""
        name = self.name("x")
        code = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        return self.dequantize(name, scale, zero_point)

    def linear(
        self, op: str, x: str, x_scale: float, shape: tuple[int, ...], **attributes: Any
    ) -> str:
        """Return a linear operator with constant int8 weights, a scale for each channel, and a
        bias of the sums' scale, as quantizers write it.
        """
        channels = shape[0]
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.006, channels).astype(np.float32)
        operands = (self.constant(scales), self.constant(np.zeros(channels, np.int8)))
        weights = self.node("DequantizeLinear", self.constant(values, "w"), *operands, axis=0)
        units = scales * np.float32(x_scale / self.finer)
        steps = np.rint(self.rng.normal(0, 0.4, channels) / units).astype(np.int32)
        bias = self.node(
            "DequantizeLinear", self.constant(steps, "b"), self.constant(units), axis=0
        )
        return self.node(op, x, weights, bias, **attributes)

    def model(self, *outputs: str, opset: int = 21) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "qdq",
            self.inputs,
            [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 10
        inferred = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(inferred)
        return inferred


def network(rng: np.random.Generator, dtype: str = "int8") -> onnx.ModelProto:
    """A small residual network with each kind of operator that fuses."""
    b = QdqBuilder(rng, dtype)

    def scale(near: float) -> float:
        # Of no few digits, as calibration gives them: nothing lies half-way between two outputs.
        return float(np.float32(near * rng.uniform(0.8, 1.25)))

    first, second, third = scale(0.02), scale(0.021), scale(3 / 255)
    last = scale(0.02)
    x = b.input((1, 3, 12, 10), first, 3)
    y = b.linear("Conv", x, first, (8, 3, 3, 3), pads=[1, 1, 1, 1])
    y = b.qdq(b.node("Relu", y), second, -128)
    z = b.linear("Conv", y, second, (8, 1, 3, 3), pads=[1, 1, 1, 1], group=8)
    ends = (b.constant(np.array(end, np.float32)) for end in (0, 3))
    z = b.qdq(b.node("Clip", z, *ends), third, -128)
    z = b.qdq(b.linear("Conv", z, third, (8, 8, 1, 1)), scale(0.031), 5)
    s = b.qdq(b.node("Add", y, z), scale(0.037), -20)
    g = b.qdq(b.node("Sigmoid", s), scale(1 / 256), -128)
    s = b.qdq(b.node("Mul", s, g), scale(0.033), -30)
    c = b.qdq(b.node("Concat", s, y, axis=1), scale(0.03), -40)
    m = b.node("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2])
    a = b.qdq(b.node("AveragePool", m, kernel_shape=[2, 2], strides=[1, 1]), scale(0.028), -40)
    p = b.qdq(b.node("GlobalAveragePool", a), last, -50)
    f = b.node("Flatten", p)
    logits = scale(0.05)
    q = b.quantize(b.linear("Gemm", f, last, (10, 16), transB=1), logits, 4)
    f = b.dequantize(q, logits, 4)
    shares = b.quantize(b.node("Softmax", f, axis=-1), 1 / 256, -128)
    # Of 16 bits the shares alone tell little of what is before them.
    return b.model(shares) if b.finer == 1 else b.model(shares, q)
