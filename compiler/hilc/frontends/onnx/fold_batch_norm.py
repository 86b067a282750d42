"""Batch normalization as part of the convolution or the product before it.

In inference it is a factor and a summand for each channel, which the weights and the bias take in.
They are computed in double precision and rounded once; the result is that of the two operators but
for the rounding of floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hilc.ir import Array
from hilc.support.identifiers import unused

#: Operators whose weights are input 1 and whose bias is input 2, with the axis of the weights that
#: the outputs lie along.
_LAYERS = {"Conv": 0, "ConvTranspose": 1}
_NORMALIZATION = "BatchNormalization"


def fold_batch_norm(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with normalizations folded into the preceding layers, if both have constant
    parameters and nothing else reads the tensor between them.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    layers = {node.output[0]: node for node in graph.node if node.op_type in _LAYERS}
    folded: dict[str, onnx.NodeProto] = {}
    added: list[onnx.TensorProto] = []
    for node in graph.node:
        if node.op_type != _NORMALIZATION or node.domain:
            continue
        layer = layers.get(node.input[0])
        if layer is None or layer.domain or readers[node.input[0]] != 1 or len(node.output) > 1:
            continue
        if any(name and name not in constants for name in (*layer.input[1:], *node.input[1:])):
            continue
        made = _folded(layer, node, constants)
        if made is not None:
            folded[layer.output[0]], tensors = made
            added += tensors
    if not folded:
        return model
    # A layer that takes in what is behind it has that one's output, at its own place.
    gone = {node.output[0] for node in folded.values()}
    kept = [folded.get(node.output[0], node) for node in graph.node
            if node.op_type != _NORMALIZATION or node.output[0] not in gone]  # fmt: skip
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(kept)
    result.graph.initializer.extend(added)
    return result


def convolve_batch_norm(model: onnx.ModelProto, ranks: Mapping[str, int]) -> onnx.ModelProto:
    """Return a model in which depthwise 1x1 convolutions replace the remaining normalizations;
    ``ranks`` has the ranks of tensors.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in made.graph.node:
        is_plain = node.op_type == _NORMALIZATION and not node.domain and len(node.output) == 1
        axes = ranks.get(node.input[0], 0) - 2 if is_plain else 0
        if axes < 1 or any(name not in constants for name in node.input[1:]):
            continue
        channels = int(np.prod(constants[node.input[1]].dims))
        ones = numpy_helper.from_array(np.ones((channels, 1, *(1,) * axes), np.float32), "ones")
        layer = helper.make_node("Conv", [node.input[0], "ones"], node.output, group=channels)
        folded = _folded(layer, node, {**constants, "ones": ones})
        if folded is not None:
            convolution, tensors = folded
            convolution.name = node.name
            made.graph.initializer.extend(tensors)
            constants.update((tensor.name, tensor) for tensor in tensors)
            node.CopyFrom(convolution)
    return made


def _folded(
    layer: onnx.NodeProto, node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]
) -> tuple[onnx.NodeProto, list[onnx.TensorProto]] | None:
    """Return the layer with the normalization in it, and its new constants."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    stated = {a.name: helper.get_attribute_value(a) for a in layer.attribute}
    if attributes.get("training_mode", 0):
        return None
    if layer.op_type == "ConvTranspose" and stated.get("group", 1) != 1:
        return None
    weights = numpy_helper.to_array(constants[layer.input[1]])
    values = [numpy_helper.to_array(constants[name]) for name in node.input[1:5]]
    axis = _LAYERS[layer.op_type]
    channels = weights.shape[axis]
    if weights.dtype != np.float32 or any(value.shape != (channels,) for value in values):
        return None
    scale, shift, mean, variance = (value.astype(np.float64) for value in values)
    factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    has_bias = len(layer.input) > 2 and layer.input[2]
    bias: Array = (
        numpy_helper.to_array(constants[layer.input[2]]) if has_bias else np.zeros(channels)
    )
    if bias.shape != (channels,):
        return None
    shape = [1] * weights.ndim
    shape[axis] = channels
    base = node.output[0]
    tensors = [
        _constant(f"{base}:weights", weights * factor.reshape(shape), constants),
        _constant(f"{base}:bias", (bias - mean) * factor + shift, constants),
    ]
    made = onnx.NodeProto()
    made.CopyFrom(layer)
    made.input[:] = [layer.input[0], *(tensor.name for tensor in tensors)]
    made.output[:] = [base]
    return made, tensors


def _constant(base: str, value: Array, taken: Mapping[str, onnx.TensorProto]) -> onnx.TensorProto:
    return numpy_helper.from_array(value.astype(np.float32), unused(base, taken))
