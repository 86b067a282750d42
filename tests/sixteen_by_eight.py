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
