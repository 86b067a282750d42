"""Random convolutions, depthwise convolutions and fully connected layers, corner cases included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from nodes import make_node
from single_op import SingleOp
from tflite_builder import ModelBuilder

from hilc.ir import Array, Node, Quant, Rounding, Tensor
from hilc.ops import OPS

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
# How an operator states that it has no bias; the reference's CONV_2D always has one.
_WITHOUT_BIAS = {"DEPTHWISE_CONV_2D": ("x", "w"), "FULLY_CONNECTED": ("x", "w", "")}
_CHANNEL_AXIS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}


@dataclass(frozen=True)
class Layer:
    """One operator with its tensors and an input."""

    node: Node
    ins: tuple[Tensor | None, ...]
    out: Tensor
    x: Array

    @property
    def outs(self) -> tuple[Tensor, ...]:
        return (self.out,)

    @property
    def values(self) -> tuple[Array | None, ...]:
        """An array for each input that is there."""
        return (self.x, *(None if t is None else t.data for t in self.ins[1:]))

    def reference(self) -> Array:
        """What the operator's numpy reference computes."""
        (result,) = OPS[self.node.op].reference(self.node, self.ins, self.outs, self.values)
        return result

    def tflite(self, packed: bool = False) -> bytes:
        """The layer as a model; ``packed``: with weights of four bits, which they must fit."""
        builder = ModelBuilder()
        for tensor in (*self.ins, self.out):
            if tensor is None:
                continue
            scale: tuple[float, ...] | None = None
            zero_point: tuple[int, ...] = (0,)
            axis = 0
            if tensor.quant is not None:
                scale, zero_point = tensor.quant.scale, tensor.quant.zero_point
                axis = tensor.quant.axis
            if packed and tensor.name == "w" and tensor.data is not None:
                pairs = np.append(tensor.data.reshape(-1), np.zeros(tensor.size % 2, np.int8))
                low, high = pairs.astype(np.uint8).reshape(-1, 2).T
                data = (low & 15) | high << 4
                builder.tensor("w", tensor.shape, "int4", scale, zero_point, axis, data=data)
            elif tensor.data is not None:
                builder.const(tensor.name, tensor.data, scale, zero_point, axis)
            else:
                add = builder.output if tensor is self.out else builder.input
                add(tensor.name, tensor.shape, tensor.dtype, scale, zero_point, axis)
        attrs = vars(self.node.attrs)
        bias = self.ins[2] if len(self.ins) > 2 else None
        if self.node.op == "FULLY_CONNECTED" and bias and self.x.dtype == np.int16:
            # A bias of 32 bits is one only where the option says so.
            attrs = {**attrs, "quantized_bias_type": {"int32": 2, "int64": 4}[bias.dtype]}
        builder.op(self.node.op, self.node.inputs, self.node.outputs, **attrs)
        return builder.build()


def random_layer(rng: np.random.Generator, op: str, dtype: str, explicit_padding: bool) -> Layer:
    """A layer of ``op``, where wanted with explicit padding, which TFLite cannot state."""
    x_shape, w_shape, attrs = _shapes(rng, op, explicit_padding)
    attrs["activation"] = str(rng.choice(ACTIVATIONS))
    return make_layer(rng, op, dtype, x_shape, w_shape, attrs)


def make_layer(
    rng: np.random.Generator,
    op: str,
    dtype: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    attrs: dict[str, Any],
) -> Layer:
    """A layer of the given shapes with random values and quantization."""
    channels = w_shape[_CHANNEL_AXIS[op]]
    inputs = ("x", "w", "b") if rng.random() < 0.8 else _WITHOUT_BIAS.get(op, ("x", "w", "b"))
    node = make_node(op, inputs, ("y",), **attrs)
    out_quant: Quant | None = None
    if dtype == "float32":
        x = rng.standard_normal(x_shape).astype(np.float32)
        tensors = _float_tensors(rng, x_shape, w_shape, channels)
    elif dtype == "int16":
        x = rng.integers(-32768, 32768, x_shape).astype(np.int16)
        if rng.random() < 0.1:
            x[...] = rng.choice([-32768, 32767])
        tensors, out_quant = _int16_tensors(rng, op, x_shape, w_shape)
    else:
        x = rng.integers(-128, 128, x_shape).astype(np.int8)
        if rng.random() < 0.1:
            x[...] = rng.choice([-128, 127])
        tensors, out_quant = _int8_tensors(rng, x_shape, w_shape, channels, _CHANNEL_AXIS[op])
    by_name = {tensor.name: tensor for tensor in tensors}
    ins = tuple(by_name.get(name) for name in node.inputs)
    if dtype == "int16":
        sums = by_name["b"].dtype if "b" in inputs else "int64"
        node = replace(node, rounding=Rounding.SINGLE if sums == "int64" else Rounding.DOUBLE)
    ((shape, _),) = OPS[op].infer(node, ins)
    return Layer(node, ins, Tensor("y", shape, dtype, out_quant), x)


def _shapes(
    rng: np.random.Generator, op: str, explicit_padding: bool
) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    def pick(*options: int) -> int:
        return int(rng.choice(options))

    batch = pick(1, 1, 2, 3)
    channels = pick(1, 2, 3, 4, 5, 8, 17)
    if op == "FULLY_CONNECTED":
        if rng.random() < 0.5:
            return (batch, channels), (int(rng.integers(1, 20)), channels), {"keep_num_dims": False}
        shape = (batch, pick(1, 2, 3), channels)
        return shape, (int(rng.integers(1, 20)), channels), {"keep_num_dims": True}
    dilation = (pick(1, 1, 1, 2, 3), pick(1, 1, 1, 2, 3))
    filters = (pick(1, 1, 2, 3, 3, 5), pick(1, 1, 2, 3, 3, 4))
    spans = [(f - 1) * d + 1 for f, d in zip(filters, dilation, strict=True)]
    padding: Any = str(rng.choice(["SAME", "VALID"]))
    sides = [int(rng.integers(1, 10)), int(rng.integers(1, 10))]
    if explicit_padding and rng.random() < 0.4:
        padding = tuple(int(p) for p in rng.integers(0, 5, 4))
    if padding != "SAME":
        sides = [max(side, span) for side, span in zip(sides, spans, strict=True)]
    attrs = {
        "stride_h": pick(1, 1, 2, 4),
        "stride_w": pick(1, 1, 2, 3),
        "dilation_h": dilation[0],
        "dilation_w": dilation[1],
        "padding": padding,
    }
    if op == "DEPTHWISE_CONV_2D":
        attrs["depth_multiplier"] = pick(1, 1, 1, 2, 3, 5)
        w_shape = (1, *filters, channels * attrs["depth_multiplier"])
    else:
        w_shape = (int(rng.integers(1, 14)), *filters, channels)
    return (batch, *sides, channels), w_shape, attrs


def _float_tensors(
    rng: np.random.Generator, x_shape: Sequence[int], w_shape: Sequence[int], channels: int
) -> list[Tensor]:
    weights = rng.standard_normal(w_shape).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    return [
        Tensor("x", tuple(x_shape), "float32"),
        Tensor("w", tuple(w_shape), "float32", data=weights),
        Tensor("b", (channels,), "float32", data=bias),
    ]


def _int8_tensors(
    rng: np.random.Generator,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    channels: int,
    channel_axis: int,
) -> tuple[list[Tensor], Quant]:
    weights = rng.integers(-128, 128, w_shape).astype(np.int8)
    depth = prod(w_shape) // channels
    scales = channels if rng.random() < 0.7 else 1
    x_scale = np.float32(rng.uniform(0.004, 0.1))
    lively = rng.uniform(0.001, 0.02, scales)
    # A few channels are nearly dead, with multipliers down to nothing; of the weights of one of
    # several a converter may have found none but zeros.
    faint = [1.0, 1.0, 1.0, 1e-4, 1e-10, *([0.0] if scales > 1 else [])]
    w_scale = (lively * rng.choice(faint, scales)).astype(np.float32)
    # Outputs spread over about the whole of int8; now and then nearly all of them saturate,
    # which takes multipliers above one.
    spread = float(x_scale) * lively.max() * 74 * 74 * depth**0.5 / 40
    out_scale = np.float32(spread * rng.choice([1.0, 1.0, 1.0, 1.0, 1e-3, 1e-5]))
    largest = 1000 * depth if rng.random() < 0.9 else 2**29
    bias = rng.integers(-largest, largest, channels).astype(np.int32)

    def zero_point() -> int:
        return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))

    def per_tensor(scale: np.float32) -> Quant:
        return Quant((float(scale),), (zero_point(),))

    b_scale = (x_scale * w_scale).astype(np.float32)
    b_quant = Quant(tuple(map(float, b_scale)), (0,) * scales)
    w_quant = Quant(tuple(map(float, w_scale)), (0,) * scales, channel_axis if scales > 1 else 0)
    tensors = [
        Tensor("x", tuple(x_shape), "int8", per_tensor(x_scale)),
        Tensor("w", tuple(w_shape), "int8", w_quant, weights),
        Tensor("b", (channels,), "int32", b_quant, bias),
    ]
    return tensors, per_tensor(out_scale)


def _int16_tensors(
    rng: np.random.Generator, op: str, x_shape: Sequence[int], w_shape: Sequence[int]
) -> tuple[list[Tensor], Quant]:
    """Weights, a bias of 64 or of 32 bits, and the quantization of the outputs."""
    axis = _CHANNEL_AXIS[op]
    channels = w_shape[axis]
    depth = prod(w_shape) // channels
    weights = rng.integers(-128, 128, w_shape).astype(np.int8)
    if rng.random() < 0.1:
        weights[...] = rng.choice([-128, 127])
    scales = channels if rng.random() < 0.7 else 1
    x_scale = float(np.float32(rng.uniform(1e-5, 1e-3)))
    lively = rng.uniform(0.001, 0.02, scales)
    faint = [1.0, 1.0, 1.0, 1e-3, 1e-8, *([0.0] if scales > 1 else [])]
    w_scale = (lively * rng.choice(faint, scales)).astype(np.float32)
    # Mostly outputs spread over their range; now and then nearly all are at its ends, or tiny.
    spread = x_scale * lively.max() * 74 * depth**0.5
    y_scale = float(np.float32(spread * rng.choice([1.0, 1.0, 1.0, 0.1, 300.0])))
    # Sums of 32 bits hold 511 products of the largest numbers.
    short = op != "DEPTHWISE_CONV_2D" and depth <= 200 and rng.random() < 0.3
    largest = 2**30 - (depth << 22) if short else int(2.0 ** rng.uniform(16, 40))
    bias = rng.integers(-largest, largest, channels).astype(np.int32 if short else np.int64)
    w_quant = Quant(tuple(map(float, w_scale)), (0,) * scales, axis if scales > 1 else 0)
    b_scale = (np.float32(x_scale) * w_scale).astype(np.float32)
    tensors = [
        Tensor("x", tuple(x_shape), "int16", Quant((x_scale,), (0,))),
        Tensor("w", tuple(w_shape), "int8", w_quant, weights),
        Tensor(
            "b", (channels,), bias.dtype.name, Quant(tuple(map(float, b_scale)), (0,) * scales),
            bias,
        ),
    ]  # fmt: skip
    return tensors, Quant((y_scale,), (0,))


def grouped_layer(rng: np.random.Generator, dtype: str) -> Layer:
    """A convolution whose channels are in groups, of one channel or of more."""
    groups, own, each = (int(rng.integers(low, 5)) for low in (2, 1, 1))
    size = tuple(int(n) for n in rng.integers(1, 4, 2))
    attrs = {
        "stride_h": int(rng.integers(1, 3)),
        "stride_w": int(rng.integers(1, 3)),
        "dilation_h": int(rng.integers(1, 3)),
        "dilation_w": 1,
        "padding": str(rng.choice(["SAME", "VALID"])),
        "activation": str(rng.choice(ACTIVATIONS)),
    }
    image = (int(rng.integers(1, 3)), int(rng.integers(5, 8)), int(rng.integers(3, 8)))
    shapes = (*image, groups * own), (groups * each, *size, own)
    return make_layer(rng, "CONV_2D", dtype, *shapes, attrs)


def as_single(layer: Layer) -> SingleOp:
    """The layer as :func:`single_op.merged` takes it."""
    ins = tuple(t for t in layer.ins if t is not None)
    names = tuple(t.name for t in ins)
    node = replace(layer.node, inputs=names)
    values = (layer.x, *(t.data for t in ins[1:] if t.data is not None))
    return SingleOp(node, ins, (layer.out,), values)
