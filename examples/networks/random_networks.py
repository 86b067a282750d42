#!/usr/bin/env python3
"""Write networks that no training script makes: published shapes, random weights.

    python random_networks.py FOLDER [NAME...]

Needs this repository's tests (a writer of TFLite files) and the package onnx. The files are the
same on every machine. ``make measure NAME=kinds`` measures them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_SUPPORT = Path(__file__).resolve().parents[2] / "tests" / "support" / "models"
if str(_SUPPORT) not in sys.path:
    sys.path.append(str(_SUPPORT))

import large_models  # noqa: E402
from tflite_builder import ModelBuilder  # noqa: E402


class _Onnx:
    """Appends nodes to a float32 model with random weights; methods return names of tensors."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: int) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def output(self, name: str, *shape: int) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def dense(self, x: str, depth: int, channels: int) -> str:
        weights = self._rng.normal(0, depth**-0.5, (depth, channels))
        product = self.node("MatMul", x, self.constant(weights))
        return self.node("Add", product, self.constant(self._rng.normal(0, 0.1, channels)))

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def normalized(self, x: str, channels: int) -> str:
        ones = self.constant(self._rng.uniform(0.8, 1.2, channels))
        return self.node("LayerNormalization", x, ones, self.constant(np.zeros(channels)), axis=-1)

    def attention(self, x: str, rows: int, channels: int, heads: int, mask: str = "") -> str:
        """Multi-head self-attention over ``rows`` positions, added to ``x``."""
        size = channels // heads
        parts = []
        for swap in ([1, 0, 2], [1, 2, 0], [1, 0, 2]):
            y = self.reshape(self.dense(x, channels, channels), rows, heads, size)
            parts.append(self.node("Transpose", y, perm=swap))
        scores = self.node("MatMul", parts[0], parts[1])
        scores = self.node("Mul", scores, self.constant(size**-0.5))
        if mask:
            scores = self.node("Add", scores, mask)
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), parts[2])
        y = self.reshape(self.node("Transpose", y, perm=[1, 0, 2]), rows, channels)
        return self.node("Add", x, self.dense(y, channels, channels))

    def block(self, x: str, rows: int, channels: int, heads: int, mask: str = "") -> str:
        x = self.normalized(self.attention(x, rows, channels, heads, mask), channels)
        y = self.node("Relu", self.dense(x, channels, 2 * channels))
        return self.normalized(self.node("Add", x, self.dense(y, 2 * channels, channels)), channels)

    def build(self, opset: int = 18, **imports: int) -> bytes:
        graph = helper.make_graph(
            self._nodes, "network", self._inputs, self._outputs, self._constants
        )
        ids = [helper.make_opsetid("", opset), *(helper.make_opsetid(*i) for i in imports.items())]
        model = helper.make_model(graph, opset_imports=ids, ir_version=9)
        data: bytes = model.SerializeToString(deterministic=True)
        return data


def keyword_transformer() -> bytes:
    """Return a keyword transformer: 49 frames of 40 bands, 2 blocks of 64 channels and 4 heads."""
    net = _Onnx(1)
    frames = net.dense(net.input("frames", 49, 40), 40, 64)
    x = net.node("Add", frames, net.constant(net._rng.normal(0, 0.1, (49, 64))))
    for _ in range(2):
        x = net.block(x, 49, 64, 4)
    mean = net.node("ReduceMean", x, net.constant([0], np.int64), keepdims=1)
    net.output(net.node("Softmax", net.dense(mean, 64, 12), axis=-1), 1, 12)
    return net.build()


def decoder() -> bytes:
    """Return a decoder over 32 positions, 2 blocks of 64 channels and 4 heads."""
    net = _Onnx(2)
    mask = net.constant(np.triu(np.full((32, 32), -1e9), 1))
    x = net.input("embedded", 32, 64)
    for _ in range(2):
        x = net.block(x, 32, 64, 4, mask)
    net.output(net.dense(x, 64, 128), 32, 128)
    return net.build()


def forest() -> bytes:
    """Return a forest of 20 trees of depth 6 over 16 features, for 4 classes."""
    rng = np.random.default_rng(3)
    nodes: dict[str, list[Any]] = {
        key: [] for key in ("treeids", "nodeids", "featureids", "modes", "values",
                            "truenodeids", "falsenodeids")
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    depth, inner = 6, 63
    for tree in range(20):
        for node in range(2 ** (depth + 1) - 1):
            is_leaf = node >= inner
            row: tuple[Any, ...] = (tree, node, 0 if is_leaf else int(rng.integers(16)))
            row += ("LEAF" if is_leaf else "BRANCH_LEQ", 0.0 if is_leaf else float(rng.normal()))
            row += (0, 0) if is_leaf else (2 * node + 1, 2 * node + 2)
            for key, value in zip(nodes, row, strict=True):
                nodes[key].append(value)
            if is_leaf:
                share = rng.dirichlet(np.ones(4)) / 20
                for label, weight in enumerate(share):
                    for key, value in zip(leaves, (tree, node, label, weight), strict=True):
                        leaves[key].append(value)
    attributes = {f"nodes_{key}": values for key, values in nodes.items()}
    attributes |= {f"class_{key}": values for key, values in leaves.items()}
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], "forest", domain="ai.onnx.ml",
        classlabels_int64s=[0, 1, 2, 3], post_transform="NONE", **attributes,
    )  # fmt: skip
    ends = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 18)]
    graph = helper.make_graph([node], "forest", [x], ends)
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def dense_head(depth: int, channels: int) -> bytes:
    """Return an int8 fully connected layer, as behind a flattened image."""
    rng = np.random.default_rng(depth)
    model = ModelBuilder()
    model.input("x", (1, depth), "int8", 0.05, -3)
    scales = 0.5 / (30 * 50 * depth**0.5) * rng.uniform(0.6, 1.4, channels)
    values = np.clip(np.rint(rng.normal(0, 30, (channels, depth))), -127, 127).astype(np.int8)
    model.const("weights", values, scales)
    model.const("bias", rng.integers(-999, 999, channels).astype(np.int32), scales * 0.05)
    model.tensor("y", (1, channels), "int8", 0.02, 5)
    model.op("FULLY_CONNECTED", ["x", "weights", "bias"], ["y"], activation="NONE")
    model.output("y")
    return model.build()


#: File name, and what makes its content.
KINDS: dict[str, Callable[[], bytes]] = {
    "efficientnet_lite.tflite": large_models.efficientnet_lite,
    "resnet18_256.tflite": lambda: large_models.resnet18_tiny(32, 32, 10),
    "resnet18_512.tflite": lambda: large_models.resnet18_tiny(32, 64, 10),
    "mcunet_like.tflite": lambda: large_models.mcunet_like(96, 10),
    "dense_4096.tflite": lambda: dense_head(4096, 8),
    "keyword_transformer.onnx": keyword_transformer,
    "decoder.onnx": decoder,
    "forest.onnx": forest,
}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    wanted = sys.argv[2:] or list(KINDS)
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        data = KINDS[name]()
        (folder / name).write_bytes(data)
        print(f"{folder / name}: {len(data):,} B")


if __name__ == "__main__":
    main()
