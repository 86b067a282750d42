"""Small networks of many operators each, as TFLite files, for tests of the whole compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tflite_builder import ModelBuilder


def convolutions() -> bytes:
    """An int8 network: PAD, convolutions per channel, pooling, a fully connected head."""
    rng = np.random.default_rng(1)
    b = ModelBuilder()
    b.input("x", (1, 8, 8, 3), "int8", 0.5, 3, signature=(-1, 8, 8, 3))
    b.const("pads", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    b.tensor("padded", (1, 10, 10, 3), "int8", 0.5, 3)
    b.const("w", rng.integers(-127, 128, (4, 3, 3, 3), np.int8), (0.01, 0.02, 0.03, 0.04))
    b.const("b", rng.integers(-99, 99, (4,), np.int32), (0.005, 0.01, 0.015, 0.02))
    b.tensor("c", (1, 4, 4, 4), "int8", 0.7, -4)
    b.const("dw", rng.integers(-127, 128, (1, 3, 3, 8), np.int8), [0.01] * 8, axis=3)
    b.tensor("d", (1, 4, 4, 8), "int8", 0.3, 0)
    b.tensor("r", (1, 4, 4, 8), "int8", 0.3, 0)
    b.tensor("p", (1, 2, 2, 8), "int8", 0.3, 0)
    b.const("shape", np.array([1, 32], np.int32))
    b.tensor("f", (1, 32), "int8", 0.3, 0)
    b.const("fw", rng.integers(-127, 128, (5, 32), np.int8), 0.02)
    b.tensor("l", (1, 5), "int8", 0.2, 1)
    b.output("y", (1, 5), "int8", 1 / 256, -128)
    b.op("PAD", ("x", "pads"), ("padded",))
    b.op("CONV_2D", ("padded", "w", "b"), ("c",), padding="VALID", stride_h=2, stride_w=2)
    b.op("DEPTHWISE_CONV_2D", ("c", "dw"), ("d",), padding="SAME", depth_multiplier=2)
    b.op("RELU", ("d",), ("r",))
    b.op("MAX_POOL_2D", ("r",), ("p",), filter_h=2, filter_w=2, stride_h=2, stride_w=2)
    b.op("RESHAPE", ("p", "shape"), ("f",), new_shape=(1, 32))
    b.op("FULLY_CONNECTED", ("f", "fw", ""), ("l",), activation="RELU6")
    b.op("SOFTMAX", ("l",), ("y",), beta=1.0)
    return b.build()


def moves() -> bytes:
    """Two int8 inputs, two outputs; mostly operators that move elements."""
    b = ModelBuilder()
    b.input("x", (1, 4, 6), "int8", 0.5, 3)
    b.input("z", (1, 4, 6), "int8", 0.25, 0)
    b.const("perm", np.array([0, 2, 1], np.int32))
    b.const("axis", np.array(1, np.int32))
    b.const("axes", np.array([1], np.int32))
    for name, values in (("begin", (0, 1, 0)), ("end", (1, 4, 4)), ("strides", (1, 2, 1))):
        b.const(name, np.array(values, np.int32))
    b.tensor("s", (1, 4, 6), "int8", 0.6, -1)
    b.tensor("t", (1, 6, 4), "int8", 0.6, -1)
    b.tensor("h0", (1, 3, 4), "int8", 0.6, -1)
    b.tensor("h1", (1, 3, 4), "int8", 0.6, -1)
    b.tensor("cat", (1, 6, 4), "int8", 0.6, -1)
    b.tensor("slice", (1, 2, 4), "int8", 0.6, -1)
    b.tensor("m", (1, 4), "int8", 0.6, -1)
    b.tensor("e", (1, 1, 4), "int8", 0.6, -1)
    b.tensor("q", (1, 4), "int8", 0.3, 5)
    b.tensor("k", (2, 1, 4), "int8", 0.3, 5)
    b.output("f", (2, 1, 4), "float32")
    b.output("g", (1, 1, 4), "int8", 0.6, -1)
    b.op("ADD", ("x", "z"), ("s",), activation="NONE")
    b.op("TRANSPOSE", ("s", "perm"), ("t",))
    b.op("SPLIT", ("axis", "t"), ("h0", "h1"), num_splits=2)
    b.op("CONCATENATION", ("h1", "h0"), ("cat",), axis=1)
    b.op("STRIDED_SLICE", ("cat", "begin", "end", "strides"), ("slice",))
    b.op("MEAN", ("slice", "axes"), ("m",), keep_dims=False)
    b.op("EXPAND_DIMS", ("m", "axis"), ("e",))
    b.op("LEAKY_RELU", ("e",), ("g",), alpha=0.25)
    b.op("QUANTIZE", ("m",), ("q",))
    b.op("PACK", ("q", "q"), ("k",), axis=0, values_count=2)
    b.op("DEQUANTIZE", ("k",), ("f",))
    return b.build()


def floats() -> bytes:
    """A float32 network with dynamic-range weights, a float16 bias and a computed shape."""
    rng = np.random.default_rng(2)
    b = ModelBuilder()
    b.input("x", (1, 6, 6, 2), "float32")
    b.const("w", rng.integers(-127, 128, (3, 2, 2, 2), np.int8), (0.01, 0.02, 0.03))
    b.const("b", rng.standard_normal(3).astype(np.float32))
    b.const("half", rng.standard_normal((1, 3)).astype(np.float16))
    b.tensor("bias", (1, 3), "float32")
    b.tensor("c", (1, 5, 5, 3), "float32")
    b.tensor("s", (1, 5, 5, 3), "float32")
    b.tensor("a", (1, 2, 2, 3), "float32")
    b.tensor("n", (4,), "int32")
    b.output("y", (1, 2, 2, 3), "float32")
    b.op("DEQUANTIZE", ("half",), ("bias",))
    b.op("CONV_2D", ("x", "w", "b"), ("c",), padding="VALID")
    b.op("SUB", ("c", "bias"), ("s",), activation="RELU")
    b.op(
        "AVERAGE_POOL_2D",
        ("s",),
        ("a",),
        filter_h=2,
        filter_w=2,
        stride_h=2,
        stride_w=2,
        padding="VALID",
    )
    b.op("SHAPE", ("a",), ("n",), out_type=2)
    b.op("RESHAPE", ("a", "n"), ("y",))
    return b.build()


SMALL_MODELS: Mapping[str, Callable[[], bytes]] = {
    "convolutions": convolutions,
    "moves": moves,
    "floats": floats,
}
