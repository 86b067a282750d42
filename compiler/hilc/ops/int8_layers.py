"""Description of an int8 convolution or fully connected layer for code generators.

For generators of users (:mod:`hilc.external`): the model's own numbers, checked, in the form that
accelerators and kernel libraries take them. A layer computes, for each output channel::

    sum = bias + sum(weight * (x - input_zero_point))
    y = clamp(requantize(sum, multiplier, shift) + zero_point, low, high)

in int32, with :func:`hilc.numerics.requantize.requantize` (double rounding).
"""

from __future__ import annotations

from dataclasses import dataclass

from hilc.ir import Array, Graph, Node, Rounding, Tensor
from hilc.ops import conv2d, depthwise_conv2d, fully_connected, linear
from hilc.ops.geometry import Window
from hilc.ops.linear import Requantization
from hilc.ops.operands import quantization

_DTYPES = ("int8",)
INT8_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True)
class Int8Layer:
    """A linear layer on int8 tensors."""

    op: str
    x: Tensor
    out: Tensor
    input_zero_point: int
    #: CONV_2D ``[O, filter_h, filter_w, I]``, DEPTHWISE_CONV_2D ``[1, filter_h, filter_w, I * M]``,
    #: FULLY_CONNECTED ``[O, I]``; zero points are 0.
    weights: Array
    #: int32, one an output channel; zeros where the model has none.
    bias: Array
    #: Multipliers and shifts (to the left where positive): one for all channels, or one each.
    requant: Requantization
    #: None for FULLY_CONNECTED.
    window: Window | None

    @property
    def channels(self) -> int:
        """Output channels."""
        return int(self.bias.size)

    @property
    def per_channel(self) -> bool:
        """Whether each output channel has a factor of its own."""
        return self.requant.multipliers.size > 1


def is_int8_layer(graph: Graph, node: Node) -> bool:
    """Return whether :func:`int8_layer` describes the node."""
    return (
        node.op in INT8_LAYERS
        and graph.outs(node)[0].dtype in _DTYPES
        and node.rounding is Rounding.DOUBLE
        and not _is_grouped(graph, node)
    )


def _is_grouped(graph: Graph, node: Node) -> bool:
    """Whether it is a convolution in groups, which these layers are not."""
    if node.op != "CONV_2D":
        return False
    return conv2d.groups_of(conv2d.layer_operands(node, graph.ins(node))[0]) > 1


def int8_layer(graph: Graph, node: Node) -> Int8Layer:
    """Return the layer that ``node`` of a verified graph is."""
    ins, (out,) = graph.ins(node), graph.outs(node)
    window: Window | None = None
    if node.op == "CONV_2D":
        operands, window = conv2d.layer_operands(node, ins)
        requant = linear.requantization(node, linear.channel_factors(node, operands), out)
    elif node.op == "DEPTHWISE_CONV_2D":
        operands, window, _ = depthwise_conv2d.layer_operands(node, ins)
        requant = linear.requantization(node, linear.channel_factors(node, operands), out)
    else:
        operands = fully_connected.layer_operands(node, ins)
        requant = fully_connected.requantization(node, operands, out)
    return Int8Layer(
        op=node.op,
        x=operands.x,
        out=out,
        input_zero_point=quantization(node, operands.x)[1],
        weights=operands.weight_data,
        bias=operands.bias_data,
        requant=requant,
        window=window,
    )
