"""Layers of 16-bit activations that kernels for few cores serve: shapes at their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from kernel_layers import MULTIPLIED, REACHING, Shapes, conv, depthwise
from linear_layers import Layer, make_layer

from hilc.ir import Array, Quant, Rounding, Tensor

#: Depths of whole units and of fours of them, with a rest and without; odd columns and rows;
#: windows next to every side; planes that are too wide for an instruction's distances.
SHAPES: tuple[Shapes, ...] = (
    *(
        ("CONV_2D", (1, 1, rows, depth), (count, 1, 1, depth), conv("VALID", 1, activation))
        for depth, rows in ((1, 5), (4, 2), (7, 3), (16, 9), (33, 4), (64, 26), (100, 3))
        for count, activation in ((1, "NONE"), (6, "RELU"), (9, "RELU6"))
    ),
    *(
        ("FULLY_CONNECTED", (rows, depth), (count, depth), {"activation": activation})
        for depth in (1, 6, 16, 32, 57, 160)
        for rows, count, activation in (
            (1, 8, "RELU"), (1, 7, "NONE"), (1, 9, "RELU6"), (3, 5, "NONE"),
        )
    ),
    *(
        ("CONV_2D", (batch, *image, depth), (count, *filters, depth), conv(padding, stride, act))
        for batch, image, depth, count, filters, padding, stride, act in (
            (1, (5, 6), 3, 8, (3, 3), "SAME", 1, "RELU"),
            (2, (7, 5), 4, 5, (3, 2), "SAME", 2, "NONE"),
            (1, (4, 9), 16, 6, (3, 3), "VALID", 1, "RELU6"),
            (1, (9, 4), 1, 7, (4, 3), (2, 1, 3, 0), 1, "RELU"),
            (2, (3, 3), 5, 3, (2, 2), (4, 4, 4, 4), 1, "NONE"),
        )
    ),
    *(
        ("DEPTHWISE_CONV_2D", (1, *image, n), (1, 3, 3, n), depthwise(stride, activation=act))
        for image, n, stride in (
            ((1, 1), 3, 1), ((2, 3), 2, 2), ((25, 5), 9, 1), ((4, 48), 3, 2), ((5, 26), 2, 1),
            ((6, 6), 17, 1), ((3, 40), 2, 2), ((7, 1), 8, 1), ((1, 9), 5, 1), ((9, 13), 4, 2),
            ((6, 24), 48, 1), ((5, 25), 96, 2), ((7, 11), 4, 1), ((13, 34), 3, 1), ((10, 9), 5, 1),
        )
        for act in ("RELU", "NONE")
    ),
    ("DEPTHWISE_CONV_2D", (2, 7, 6, 4), (1, 3, 3, 4), conv("VALID", depth_multiplier=1)),
    ("DEPTHWISE_CONV_2D", (1, 4, 4, 3), (1, 3, 3, 3), depthwise(1, activation="RELU6")),
    *MULTIPLIED,
    *REACHING,
)  # fmt: skip


def wide_layer(rng: np.random.Generator, shapes: Shapes, extreme: bool = False) -> Layer:
    """A layer with scales of usual size and a bias of 64 bits; ``extreme``: all inputs and weights
    at the ends of their types, sums near those of 32 bits."""
    op, x_shape, w_shape, attrs = shapes
    layer = make_layer(rng, op, "int16", x_shape, w_shape, attrs)
    x, weights, *_ = layer.ins
    assert x is not None
    assert weights is not None
    assert weights.data is not None
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    channels = w_shape[axis]
    # As quantizers make them.
    data, value = np.maximum(weights.data, -127), layer.x
    if extreme:
        data = rng.choice(np.array([-128, 127], np.int8), w_shape)
        value = rng.choice(np.array([-32768, 32767], np.int16), x_shape)
    depth = data.size // channels
    room = 2**31 - 1 - (depth << 22)
    limit = max(1, room if extreme else min(room, 1 << 24))
    bias = rng.integers(-limit, limit, channels, endpoint=extreme)
    scale = tuple(0.002 + 0.001 * (i % 7) for i in range(channels))
    x = replace(x, quant=Quant((2.0**-12,), (0,)))
    spread = 2.0**-12 * 0.005 * 74 * depth**0.5
    quant = Quant(scale, (0,) * channels, axis)
    ins: list[Any] = [x, replace(weights, data=data, quant=quant)]
    b = make_bias(bias.astype(np.int64), x.quant, quant)
    node = replace(layer.node, inputs=("x", "w", "b"), rounding=Rounding.SINGLE)
    out = replace(layer.out, quant=Quant((float(np.float32(spread)),), (0,)))
    return replace(layer, node=node, ins=(*ins, b), out=out, x=value)


#: Layers whose sums leave 32 bits where their weights are at the ends.
DEEP_SHAPES: tuple[Shapes, ...] = (
    ("CONV_2D", (1, 1, 5, 1100), (3, 1, 1, 1100), conv("VALID", 1, "NONE")),
    ("FULLY_CONNECTED", (1, 1101), (6, 1101), {"activation": "NONE"}),
    ("CONV_2D", (1, 3, 3, 129), (4, 3, 3, 129), conv("SAME", 1, "NONE")),
    ("FULLY_CONNECTED", (1, 2048), (8, 2048), {"activation": "NONE"}),
    ("FULLY_CONNECTED", (3, 600), (5, 600), {"activation": "RELU"}),
    ("CONV_2D", (1, 3, 2, 1030), (6, 1, 1, 1030), conv("SAME", 1, "NONE")),
    ("CONV_2D", (2, 4, 3, 64), (7, 3, 3, 64), conv("SAME", 1, "RELU6")),
    ("CONV_2D", (1, 5, 4, 100), (4, 3, 3, 100), conv("SAME", 2, "NONE")),
)


def long_layer(rng: np.random.Generator, shapes: Shapes, extreme: bool = False) -> Layer:
    """The same with sums of more than 32 bits, by their bias."""
    layer = wide_layer(rng, shapes, extreme)
    x, weights, bias = layer.ins
    assert x is not None
    assert x.quant is not None
    assert bias is not None
    limit = 2**40 if extreme else 2**34
    values = rng.integers(-limit, limit, bias.shape, endpoint=True)
    values[0] = limit
    spread = float(np.float32(x.quant.scale[0] * 0.005 * limit * 2.0**-15))
    out = replace(layer.out, quant=Quant((spread,), (0,)))
    return replace(layer, ins=(x, weights, replace(bias, data=values)), out=out)


def deep_layer(rng: np.random.Generator, shapes: Shapes, bias_bits: int, signs: bool) -> Layer:
    """A layer whose sums leave 32 bits, with biases below 2^bias_bits. ``signs``: weights of both
    signs; else inputs and weights are at one end, and sums as large as can be."""
    layer = wide_layer(rng, shapes)
    x, weights, _ = layer.ins
    assert x is not None
    assert weights is not None
    assert weights.quant is not None
    ends, inputs = np.array([-128, 127], np.int8), np.array([-32768, 32767], np.int16)
    data = rng.choice(ends, weights.shape) if signs else np.full(weights.shape, rng.choice(ends))
    value = rng.choice(inputs, x.shape, p=(0.1, 0.9) if signs else None)
    if not signs:
        value[:] = rng.choice(inputs)
    weights = replace(weights, data=data)
    bias = rng.integers(-(1 << bias_bits), 1 << bias_bits, weights.shape[0])
    assert layer.out.quant is not None
    (scale,) = layer.out.quant.scale
    # The largest sum is somewhat more than the largest output.
    depth = data.size // weights.shape[0]
    largest = (depth << 22) + (1 << bias_bits)
    scale = float(np.float32(scale * largest / (74 * depth**0.5) / 2**15))
    ins: list[Any] = [x, weights, make_bias(bias.astype(np.int64), x.quant, weights.quant)]
    return replace(
        layer, ins=tuple(ins), x=value, out=replace(layer.out, quant=Quant((scale,), (0,)))
    )


def make_bias(values: Array, x: Quant | None, weights: Quant | None) -> Tensor:
    """The bias of a layer, on the scale of its sums."""
    assert x is not None
    assert weights is not None
    scales = tuple(float(np.float32(x.scale[0]) * np.float32(s)) for s in weights.scale)
    return Tensor("b", values.shape, "int64", Quant(scales, (0,) * len(scales)), values)


def even_layer(
    rng: np.random.Generator, layer: Layer, *, zero_points: bool, wide_weights: bool = False
) -> Layer:
    """The same rounded once, ties to even; with zero points, or with weights of 16 bits."""
    x, weights, *bias = layer.ins
    assert x is not None
    assert weights is not None
    assert weights.quant is not None
    assert weights.data is not None

    def activation(tensor: Tensor) -> Tensor:
        assert tensor.quant is not None
        zero_point = int(rng.integers(-32768, 32768)) if zero_points else 0
        return replace(tensor, quant=Quant(tensor.quant.scale, (zero_point,)))

    if wide_weights:
        finer = rng.integers(0, 256, weights.shape)
        scales = tuple(scale / 256 for scale in weights.quant.scale)
        weights = replace(
            weights,
            dtype="int16",
            data=(weights.data.astype(np.int64) * 256 + finer).astype(np.int16),
            quant=replace(weights.quant, scale=scales),
        )
    node = replace(layer.node, rounding=Rounding.NEAREST_EVEN)

    def of_64_bits(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or tensor.data is None:
            return tensor
        return replace(tensor, dtype="int64", data=tensor.data.astype(np.int64))

    ins = (activation(x), weights, *map(of_64_bits, bias))
    return replace(layer, node=node, ins=ins, out=activation(layer.out))
