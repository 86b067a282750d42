"""Int8 TFLite models as ONNX models in QDQ form, with the same integers and scales.

What a quantizer of ONNX or PyTorch would have written had it chosen TensorFlow Lite's numbers:
floats between DequantizeLinear and QuantizeLinear, channels first. So the same network can be
compiled through each front end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from qdq_models import QdqBuilder

from hilc.ir import Array, Graph, Node, Quant, Tensor
from hilc.ops import conv2d, depthwise_conv2d, pooling
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.geometry import Window


class _Twin:
    """One graph on its way; ``floats`` are the names of dequantized tensors."""

    def __init__(self, graph: Graph, channels_first: bool) -> None:
        self.graph = graph
        self.b = QdqBuilder(np.random.default_rng(0))
        self.first = channels_first
        self.floats: dict[str, str] = {}

    def model(self) -> onnx.ModelProto:
        b = self.b
        for name in self.graph.inputs:
            tensor = self.graph.tensors[name]
            shape = tensor.shape
            if len(shape) == 4 and self.first:
                shape = (shape[0], shape[3], shape[1], shape[2])
            x = b.input(shape, *_quant(tensor))
            if len(shape) == 4 and not self.first:
                x = b.node("Transpose", x, perm=[0, 3, 1, 2])
            self.floats[name] = x
        for node in self.graph.nodes:
            y = _OPERATORS[node.op](self, node)
            out = self.graph.tensors[node.outputs[0]]
            if _activation(node) == "RELU":
                y = b.node("Relu", y)
            last = out.name in self.graph.outputs
            self.floats[out.name] = (b.quantize if last else b.qdq)(y, *_quant(out))
        return b.model(*(self.floats[name] for name in self.graph.outputs))

    def weights(self, node: Node, values: Array, axis: int) -> list[str]:
        """The dequantized weights and bias of a node; weights are given as ONNX has them."""
        b = self.b
        x, weights = (self.graph.tensors[n] for n in node.inputs[:2])
        assert weights.quant is not None
        scales = np.array(weights.quant.scale, np.float32)
        operands = [b.constant(values, "w")]
        if scales.size == 1:
            w = b.node("DequantizeLinear", *operands, b.constant(scales[0]))
        else:
            w = b.node("DequantizeLinear", *operands, b.constant(scales), axis=axis)
        if len(node.inputs) < 3 or not node.inputs[2]:
            return [w]
        bias = self.graph.tensors[node.inputs[2]].data
        assert bias is not None
        assert x.quant is not None
        units = scales * np.float32(x.quant.scale[0])
        if scales.size == 1:
            return [w, b.node("DequantizeLinear", b.constant(bias, "b"), b.constant(units[0]))]
        return [w, b.node("DequantizeLinear", b.constant(bias, "b"), b.constant(units), axis=0)]

    def conv(self, node: Node) -> str:
        ops, window = conv2d.layer_operands(node, self.graph.ins(node))
        operands = self.weights(node, ops.weight_data.transpose(0, 3, 1, 2), 0)
        return self.sliding(node, window, operands, 1)

    def depthwise(self, node: Node) -> str:
        ops, window, _ = depthwise_conv2d.layer_operands(node, self.graph.ins(node))
        values = ops.weight_data.transpose(3, 0, 1, 2)
        return self.sliding(node, window, self.weights(node, values, 0), ops.x.shape[3])

    def sliding(self, node: Node, window: Window, operands: list[str], groups: int) -> str:
        h, w = window.h, window.w
        return self.b.node(
            "Conv",
            self.floats[node.inputs[0]],
            *operands,
            group=groups,
            strides=[h.stride, w.stride],
            dilations=[h.dilation, w.dilation],
            pads=_pads(window),
        )

    def dense(self, node: Node) -> str:
        weights = self.graph.tensors[node.inputs[1]].data
        assert weights is not None
        operands = self.weights(node, weights, 0)
        return self.b.node("Gemm", self.floats[node.inputs[0]], *operands, transB=1)

    def average(self, node: Node) -> str:
        window = pooling.pooling_window(node, self.graph.tensors[node.inputs[0]])
        h, w = window.h, window.w
        return self.b.node(
            "AveragePool",
            self.floats[node.inputs[0]],
            kernel_shape=[h.filter_size, w.filter_size],
            strides=[h.stride, w.stride],
            pads=_pads(window),
        )

    def add(self, node: Node) -> str:
        return self.b.node("Add", *(self.floats[name] for name in node.inputs))

    def reshape(self, node: Node) -> str:
        x, out = (self.graph.tensors[n] for n in (node.inputs[0], node.outputs[0]))
        assert x.shape[-1] == x.size // x.shape[0], "channels alone, in whichever order"
        shape = self.b.constant(np.array(out.shape, np.int64))
        return self.b.node("Reshape", self.floats[node.inputs[0]], shape)

    def softmax(self, node: Node) -> str:
        return self.b.node("Softmax", self.floats[node.inputs[0]], axis=-1)


_OPERATORS: Mapping[str, Callable[[_Twin, Node], str]] = {
    "CONV_2D": _Twin.conv,
    "DEPTHWISE_CONV_2D": _Twin.depthwise,
    "FULLY_CONNECTED": _Twin.dense,
    "AVERAGE_POOL_2D": _Twin.average,
    "ADD": _Twin.add,
    "RESHAPE": _Twin.reshape,
    "SOFTMAX": _Twin.softmax,
}


def qdq_twin(graph: Graph, channels_first: bool = True) -> onnx.ModelProto:
    """The network in QDQ form; its images in ONNX's order of axes or, else, in TensorFlow's."""
    return _Twin(graph, channels_first).model()


def _quant(tensor: Tensor) -> tuple[float, int]:
    assert isinstance(tensor.quant, Quant)
    return tensor.quant.scale[0], tensor.quant.zero_point[0]


def _pads(window: Window) -> list[int]:
    h, w = window.h, window.w
    return [h.pad_before, w.pad_before, max(h.pad_after, 0), max(w.pad_after, 0)]


def _activation(node: Node) -> str:
    return node.attrs.activation if isinstance(node.attrs, ActivationAttributes) else "NONE"
