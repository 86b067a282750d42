"""TFLite files in floats, to be quantized: a network, and single operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from linear_layers import random_layer
from single_op import random_op
from tflite_builder import ModelBuilder

from hilc.ir import Array
from hilc.quantization.tflite.rules import RULES
from hilc.writers.tflite_contents import contents
from hilc.writers.tflite_file import FileOperator

CLASSES = 5
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def network() -> ModelBuilder:
    """Convolutions, a residual sum, pools, a concatenation, padding, a mean, a classifier."""
    rng = np.random.default_rng(0)
    made = ModelBuilder()
    made.input("x", (1, 8, 8, 2))
    made.const("w", rng.normal(0, 0.4, (8, 3, 3, 2)).astype(np.float32))
    made.const("b", rng.normal(0, 0.1, 8).astype(np.float32))
    made.const("d", rng.normal(0, 0.4, (1, 3, 3, 8)).astype(np.float32))
    made.const("c", rng.normal(0, 0.1, 8).astype(np.float32))
    made.const("g", rng.normal(0, 0.4, (CLASSES, 16)).astype(np.float32))
    made.const("h", rng.normal(0, 0.1, CLASSES).astype(np.float32))
    made.const("pads", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    made.const("axes", np.array([1, 2], np.int32))
    for name in ("conv", "deep", "sum", "gate"):
        made.tensor(name, (1, 8, 8, 8))
    made.tensor("pool", (1, 4, 4, 8))
    made.tensor("least", (1, 4, 4, 8))
    made.tensor("both", (1, 4, 4, 16))
    made.tensor("padded", (1, 6, 6, 16))
    made.tensor("mean", (1, 16))
    made.tensor("logits", (1, CLASSES))
    made.output("y", (1, CLASSES))
    made.op("CONV_2D", ("x", "w", "b"), ("conv",), padding="SAME", activation="RELU")
    made.op("DEPTHWISE_CONV_2D", ("conv", "d", "c"), ("deep",), padding="SAME", depth_multiplier=1)
    made.op("ADD", ("deep", "conv"), ("sum",), activation="NONE")
    made.op("LOGISTIC", ("sum",), ("gate",))
    window: dict[str, Any] = {
        "filter_h": 2,
        "filter_w": 2,
        "stride_h": 2,
        "stride_w": 2,
        "padding": "VALID",
    }
    made.op("MAX_POOL_2D", ("gate",), ("pool",), **window)
    made.op("AVERAGE_POOL_2D", ("sum",), ("least",), **window)
    made.op("CONCATENATION", ("pool", "least"), ("both",), axis=3)
    made.op("PAD", ("both", "pads"), ("padded",))
    made.op("MEAN", ("padded", "axes"), ("mean",), keep_dims=False)
    made.op("FULLY_CONNECTED", ("mean", "g", "h"), ("logits",))
    made.op("SOFTMAX", ("logits",), ("y",))
    return made


def images(count: int = 24, seed: int = 1) -> Array:
    """Samples for the network."""
    return np.random.default_rng(seed).normal(0, 1, (count, 8, 8, 2)).astype(np.float32)


def operator_file(op: str, seed: int) -> tuple[bytes, dict[str, Array]]:
    """A file with a random operator on floats, and samples of its inputs.

    Before an operator that copies elements each input passes a LEAKY_RELU, as elements are only
    copied as integers if they are computed as integers.
    """
    rng = np.random.default_rng(seed)
    if op in LINEAR:
        layer = random_layer(rng, op, "float32", False)
        return layer.tflite(), {"x": _spread(layer.x)}
    single = random_op(rng, op, "float32")
    file = contents(single.tflite())
    if RULES[op].copies:
        for place, index in enumerate(file.input_indices):
            tensor = file.tensors[index]
            if tensor.dtype == "float32":
                file.input_indices[place] = len(file.tensors)
                file.tensors.append(replace(tensor))
                tensor.name += "_before"
                leaky = FileOperator(
                    "LEAKY_RELU", (len(file.tensors) - 1,), (index,), {"alpha": 0.5}
                )
                file.operators.insert(0, leaky)
    values = {t.name: v for t, v in zip(single.ins, single.values, strict=True)}
    names = [file.tensors[index].name for index in file.input_indices]
    return file.build(), {name: _spread(values[name]) for name in names}


def _spread(value: Array) -> Array:
    """Return some samples of a value: floats of other sizes and signs, and the same integers."""
    factors = (1, 0.5, -0.3, 0.9) if value.dtype.kind == "f" else (1, 1, 1, 1)
    return np.stack([(value * factor).astype(value.dtype) for factor in factors])
