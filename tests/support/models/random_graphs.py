"""Random int8 graphs with what makes memory planning hard: branches, views, joins and splits.

Outputs are drawn from all tensors, so that some are inputs, constants, views of one another, read
again later, or named twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from nodes import make_node

from hilc.ir import Array, Graph, Node, Quant, Tensor
from hilc.ops import OPS

QUANT = Quant((0.125,), (3,))


class GraphBuilder:
    """Builds a graph of int8 tensors node by node; names are given in order."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def input(self, *shape: int) -> str:
        name = self._add(shape, "int8", QUANT)
        self.inputs.append(name)
        return name

    def constant(self, *shape: int) -> str:
        data = self.rng.integers(-100, 100, shape).astype(np.int8)
        return self._add(shape, "int8", QUANT, data)

    def op(self, op: str, *inputs: str, outputs: int = 1, **attrs: object) -> str:
        """A node; its first output's name, the next ones follow."""
        names = tuple(f"t{len(self.tensors) + i}" for i in range(outputs))
        node = make_node(op, inputs, names, len(self.nodes), **attrs)
        ins = [self.tensors[name] if name else None for name in inputs]
        for shape, dtype in OPS[op].infer(node, ins):
            # The reference fixes the softmax's output scale.
            quant = Quant((1 / 256,), (-128,)) if op == "SOFTMAX" else QUANT
            self._add(shape, dtype, quant if dtype == "int8" else None)
        self.nodes.append(node)
        return names[0]

    def add(self, a: str, b: str) -> str:
        return self.op("ADD", a, b, activation="NONE")

    def relu(self, a: str) -> str:
        return self.op("RELU", a)

    def reshape(self, a: str, *shape: int) -> str:
        return self.op("RESHAPE", a, new_shape=shape)

    def concat(self, *parts: str) -> str:
        return self.op("CONCATENATION", *parts, axis=-1, activation="NONE")

    def split(self, a: str, count: int) -> str:
        axis = np.array(len(self.tensors[a].shape) - 1, np.int32)
        name = self._add((), "int32", None, axis)
        return self.op("SPLIT", name, a, outputs=count, num_splits=count)

    def conv(
        self, a: str, out_c: int, size: int = 3, stride: int = 1, padding: str = "SAME"
    ) -> str:
        in_c = self.tensors[a].shape[-1]
        w = self.weights((out_c, size, size, in_c), axis=0)
        attrs = _sliding(stride, padding)
        return self.op("CONV_2D", a, w, "", activation="NONE", **attrs)

    def depthwise(
        self, a: str, multiplier: int = 1, size: int = 3, stride: int = 1, padding: str = "SAME"
    ) -> str:
        channels = self.tensors[a].shape[-1] * multiplier
        w = self.weights((1, size, size, channels), axis=3)
        attrs = {**_sliding(stride, padding), "depth_multiplier": multiplier}
        return self.op("DEPTHWISE_CONV_2D", a, w, "", activation="NONE", **attrs)

    def pool(self, op: str, a: str, size: int = 2, stride: int = 2, padding: str = "SAME") -> str:
        attrs: dict[str, Any] = {"filter_h": size, "filter_w": size}
        attrs.update(stride_h=stride, stride_w=stride, padding=padding)
        return self.op(op, a, activation="NONE", **attrs)

    def weights(self, shape: tuple[int, ...], axis: int | None) -> str:
        """Constant weights with a scale for each entry of ``axis``, or one for all."""
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scale = tuple(self.rng.uniform(0.001, 0.02, count).tolist())
        return self._add(shape, "int8", Quant(scale, (0,) * count, axis or 0), data)

    def dense(self, a: str, out_c: int, *, per_channel: bool = False) -> str:
        """A fully connected layer that keeps leading dimensions, with a bias."""
        w = self.weights((out_c, self.tensors[a].shape[-1]), axis=0 if per_channel else None)
        bias = self.rng.integers(-999, 1000, out_c).astype(np.int32)
        c = self._add((out_c,), "int32", None, bias)
        return self.op("FULLY_CONNECTED", a, w, c, activation="RELU", keep_num_dims=True)

    def graph(self, *outputs: str, name: str = "net") -> Graph:
        return Graph(name, self.tensors, tuple(self.nodes), tuple(self.inputs), outputs)

    def _add(
        self, shape: tuple[int, ...], dtype: str, quant: Quant | None, data: Array | None = None
    ) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = Tensor(name, tuple(shape), dtype, quant, data)
        return name


def _sliding(stride: int, padding: str) -> dict[str, Any]:
    strides = {"stride_h": stride, "stride_w": stride, "padding": padding}
    return {**strides, "dilation_h": 1, "dilation_w": 1}


def random_graph(seed: int, *, ordinary_outputs: bool = False) -> Graph:
    """A graph of 3 to 14 nodes.

    With ``ordinary_outputs`` each output is computed by a node and named once, as the verifier of
    model files demands.
    """
    builder = GraphBuilder(seed)
    rng = builder.rng
    height, width = int(rng.integers(1, 8)), int(rng.integers(1, 8))
    live = [
        builder.input(1, height, width, int(rng.choice([1, 2, 4, 6])))
        for _ in range(rng.integers(1, 4))
    ]
    constants: list[str] = []
    for _ in range(rng.integers(3, 15)):
        first = len(builder.tensors)
        _add_random_node(builder, live, constants)
        live += [f"t{i}" for i in range(first, len(builder.tensors)) if _is_value(builder, i)]
    computed = [name for node in builder.nodes for name in node.outputs]
    if ordinary_outputs:
        count = int(rng.integers(1, min(4, len(computed)) + 1))
        return builder.graph(*rng.choice(computed, count, replace=False).tolist())
    pool = live + constants + computed[-1:] * 3
    return builder.graph(*rng.choice(pool, rng.integers(1, 5)).tolist())


def small_net(name: str = "net", seed: int = 3) -> Graph:
    """Two inputs and outputs, constants, a view, layers with scratch, variable argument counts."""
    b = GraphBuilder(seed)
    x, y = b.input(1, 3, 3, 2), b.input(1, 18)
    second = b.conv(b.conv(x, 2), 2)
    left = b.split(b.reshape(b.add(second, b.constant(1, 3, 3, 2)), 1, 18), 2)
    right = f"t{int(left[1:]) + 1}"
    return b.graph(b.add(b.concat(right, left), y), left, name=name)


def _is_value(builder: GraphBuilder, index: int) -> bool:
    """Whether every operator takes the tensor: no constant, and on the scale of all others."""
    tensor = builder.tensors[f"t{index}"]
    return not tensor.is_constant and tensor.quant == QUANT


_KINDS = [
    *("add", "add", "bias", "relu", "view", "concat", "split", "softmax"),
    *("conv", "conv", "depthwise", "pool", "dense"),
]


def _random_window(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, int, str]:
    """Size, stride and padding of a window that fits the image."""
    size, stride = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    fits = size <= min(shape[1:3])
    return size, stride, str(rng.choice(["SAME", "VALID"])) if fits else "SAME"


def _add_random_node(builder: GraphBuilder, live: list[str], constants: list[str]) -> None:
    rng = builder.rng
    # Recent tensors more often: chains and short skips, but also reads from far back.
    position = len(live) - 1 - int(rng.exponential(2.0)) % len(live)
    a = live[position]
    shape = builder.tensors[a].shape
    same = [n for n in live if builder.tensors[n].shape == shape]
    stackable = [n for n in live if builder.tensors[n].shape[:-1] == shape[:-1]]
    match rng.choice(_KINDS):
        case "add":
            builder.add(a, str(rng.choice(same)))
        case "bias":
            constants.append(builder.constant(*shape))
            builder.add(a, constants[-1])
        case "view":
            flat = int(np.prod(shape))
            target = (1, flat) if len(shape) == 4 else (1, 1, 1, flat)
            builder.reshape(a, *target)
        case "concat" if shape[-1] < 32:
            builder.concat(a, *(str(rng.choice(stackable)) for _ in range(rng.integers(1, 3))))
        case "split" if shape[-1] % 2 == 0:
            builder.split(a, 2)
        case "conv" if len(shape) == 4 and shape[-1] < 32:
            builder.conv(a, int(rng.choice([1, 2, 4, 5])), *_random_window(rng, shape))
        case "depthwise" if len(shape) == 4 and shape[-1] < 16:
            builder.depthwise(a, int(rng.choice([1, 1, 2])), *_random_window(rng, shape))
        case "pool" if len(shape) == 4:
            op = str(rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
            builder.pool(op, a, *_random_window(rng, shape))
        case "dense" if shape[-1] < 300:
            builder.dense(a, int(rng.integers(1, 9)))
        case "softmax":
            # Its output's scale is fixed: bring it back to that of all others.
            builder.op("QUANTIZE", builder.op("SOFTMAX", a, beta=1.0))
        case _:
            builder.relu(a)
