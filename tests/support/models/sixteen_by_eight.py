"""Fully connected layers of int16 activations and int8 weights: random ones, a small network."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from linear_layers import Layer
from tflite_builder import ModelBuilder

from hilc.frontends import load_model

#: The types of a bias; None where there is none.
BIASES: tuple[str | None, ...] = ("int64", "int32", None)
#: TFLite reads a bias of 32 bits as one only where the option says so.
_INT32 = 2


def layer(
    rng: np.random.Generator, bias: str | None, rows: int = 3, depth: int = 0, columns: int = 0
) -> tuple[bytes, npt.NDArray[np.int16]]:
    """A random layer as a model, and an input; extremes of every number among them."""
    # Sums of 32 bits hold 511 products of the largest numbers, and then no bias.
    deepest = 500 if bias == "int32" else 600
    depth = depth or int(rng.choice([1, 2, 7, 64, 255, 256, 257, deepest]))
    columns = columns or int(rng.integers(1, 9))
    x = rng.integers(-32768, 32768, (rows, depth)).astype(np.int16)
    weights = rng.integers(-128, 128, (columns, depth)).astype(np.int8)
    extreme = rng.random() < 0.3
    if extreme:
        x[...] = rng.choice([-32768, 32767], (rows, 1))
        weights[...] = rng.choice([-128, 127], (columns, 1))
    per_channel = bool(rng.random() < 0.5)
    x_scale = np.float32(rng.uniform(1e-4, 1e-3))
    scales = rng.uniform(1e-3, 1e-2, columns if per_channel else 1).astype(np.float32)
    # So that outputs fill their range, and now and then leave it.
    spread = depth if extreme else depth**0.5
    y_scale = np.float32(x_scale * scales.max() * 2.0 ** rng.uniform(4, 9) * spread)
    builder = ModelBuilder()
    builder.input("x", x.shape, "int16", scale=x_scale)
    builder.const("w", weights, scales)
    if bias is not None:
        limit = 2**40 if bias == "int64" else 2**31 - 1 - (depth << 22)
        values = rng.integers(-limit, limit + 1, columns)
        if rng.random() < 0.5:
            values >>= 16
        builder.const("b", values.astype(bias), x_scale * scales)
    builder.output("y", (rows, columns), "int16", scale=y_scale)
    attrs: dict[str, Any] = {
        "activation": str(rng.choice(["NONE", "RELU", "RELU6"])),
        "keep_num_dims": False,
    }
    if bias == "int32":
        attrs["quantized_bias_type"] = _INT32
    inputs = ("x", "w", "b" if bias else "")
    builder.op("FULLY_CONNECTED", inputs, ("y",), **attrs)
    return builder.build(), x


def operator(rng: np.random.Generator, bias: str | None, **shape: int) -> Layer:
    """A random layer as an operator with its tensors and an input."""
    model, x = layer(rng, bias, **shape)
    graph = load_model(model)
    (node,) = graph.nodes
    (out,) = graph.outs(node)
    return Layer(node, graph.ins(node), out, x)


def network(seed: int = 1) -> bytes:
    """Three layers one after the other, one for each kind of bias."""
    rng = np.random.default_rng(seed)
    sizes = (48, 24, 12, 6)
    builder = ModelBuilder()
    scale = np.float32(1 / 4096)
    builder.input("x", (1, sizes[0]), "int16", scale=scale)
    value = "x"
    for i, bias in enumerate(BIASES):
        depth, columns = sizes[i], sizes[i + 1]
        weights = rng.integers(-127, 128, (columns, depth)).astype(np.int8)
        scales = rng.uniform(0.001, 0.004, columns).astype(np.float32)
        builder.const(f"w{i}", weights, scales)
        attrs: dict[str, Any] = {"activation": "NONE" if i == 2 else "RELU", "keep_num_dims": False}
        if bias:
            values = rng.integers(-(2**16), 2**16, columns).astype(bias)
            builder.const(f"b{i}", values, scale * scales)
        if bias == "int32":
            attrs["quantized_bias_type"] = _INT32
        name = f"y{i}"
        add = builder.output if i == 2 else builder.tensor
        scale_out = np.float32(scale * (2 if i else 4))
        add(name, (1, columns), "int16", scale=float(scale_out))
        builder.op("FULLY_CONNECTED", (value, f"w{i}", f"b{i}" if bias else ""), (name,), **attrs)
        value, scale = name, scale_out
    return builder.build()


def images(seed: int = 1) -> bytes:
    """A network on images: convolutions, a depthwise one, a sum, a pool, classes."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    builder.input("x", (1, 24, 20, 4), "int16", scale=1 / 4096)
    scales = {"x": 1 / 4096}
    shapes = {"x": (1, 24, 20, 4)}

    def convolution(name: str, source: str, channels: int, size: int, stride: int = 1) -> str:
        _, h, w, depth = shapes[source]
        single = channels == 0
        shape = (1, size, size, depth) if single else (channels, size, size, depth)
        weights = rng.integers(-127, 128, shape).astype(np.int8)
        count = channels or depth
        own = rng.uniform(0.001, 0.004, count).astype(np.float32)
        bias = rng.integers(-(2**18), 2**18, count)
        builder.const(f"{name}/w", weights, own, axis=3 if single else 0)
        builder.const(f"{name}/b", bias, np.float32(scales[source]) * own)
        terms = size * size * (1 if single else depth)
        scales[name] = float(np.float32(scales[source] * 0.18 * terms**0.5))
        shapes[name] = (1, -(-h // stride), -(-w // stride), count)
        builder.tensor(name, shapes[name], "int16", scale=scales[name])
        attrs: dict[str, Any] = {"depth_multiplier": 1} if single else {}
        code = "DEPTHWISE_CONV_2D" if single else "CONV_2D"
        builder.op(
            code, (source, f"{name}/w", f"{name}/b"), (name,), stride_h=stride, stride_w=stride,
            dilation_h=1, dilation_w=1, padding="SAME", activation="RELU", **attrs,
        )  # fmt: skip
        return name

    first = convolution("first", "x", 16, 3, 2)
    wide = convolution("depthwise", first, 0, 3)
    last = convolution("pixels", wide, 16, 1)
    builder.tensor("sum", shapes[last], "int16", scale=2 * scales[last])
    builder.op("ADD", (first, last), ("sum",), activation="NONE")
    builder.tensor("pool", (1, 1, 1, 16), "int16", scale=2 * scales[last])
    builder.op(
        "AVERAGE_POOL_2D", ("sum",), ("pool",), filter_h=12, filter_w=10, stride_h=1, stride_w=1,
        padding="VALID", activation="NONE",
    )  # fmt: skip
    weights = rng.integers(-127, 128, (6, 16)).astype(np.int8)
    builder.const("classes/w", weights, 0.003)
    logits = float(np.float32(2 * scales[last] * 0.18 * 4 / 8))
    builder.tensor("classes", (1, 6), "int16", scale=logits)
    builder.op(
        "FULLY_CONNECTED", ("pool", "classes/w", ""), ("classes",), activation="NONE",
        keep_num_dims=False,
    )  # fmt: skip
    builder.output("y", (1, 6), "int16", scale=2.0**-15)
    builder.op("SOFTMAX", ("classes",), ("y",), beta=1.0)
    return builder.build()
