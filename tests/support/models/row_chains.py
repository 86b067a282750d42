"""Random chains of layers that work row by row, side by side in one graph, each a group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from nodes import make_node

from hilc.ir import ELEMENT_TYPES, Array, Graph, Node, Quant, Rounding, Tensor
from hilc.lowering.choice import Group, KernelSelection
from hilc.ops import OPS

QUANT = Quant((0.125,), (3,))
#: By the type of a chain; none for floats.
QUANTS = {"int8": QUANT, "int16": Quant((2.0**-12,), (0,))}
#: Rows and columns up to which an image is made larger.
_ENLARGED = 20

Random = np.random.Generator


@dataclass(frozen=True)
class Chains:
    """A graph of chains, how they run, and inputs."""

    graph: Graph
    choice: KernelSelection
    inputs: dict[str, Array]


class _Builder:
    def __init__(self, rng: Random, dtype: str) -> None:
        self.rng = rng
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def tensor(
        self, shape: tuple[int, ...], dtype: str, quant: Quant | None, data: Array | None = None
    ) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = Tensor(name, shape, dtype, quant, data)
        return name

    def input(self, shape: tuple[int, ...]) -> str:
        name = self.tensor(shape, self.dtype, self._quant())
        self.inputs.append(name)
        return name

    def op(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"t{len(self.tensors)}"
        node = make_node(op, inputs, (name,), len(self.nodes), **attrs)
        ins = [self.tensors[i] if i else None for i in inputs]
        if self.dtype == "int16" and (OPS[op].weights is not None or op == "TRANSPOSE_CONV"):
            node = replace(node, rounding=Rounding.SINGLE)
        ((shape, dtype),) = OPS[op].infer(node, ins)
        self.tensor(tuple(shape), dtype, self._quant())
        self.nodes.append(node)
        return name

    def window(self) -> dict[str, object]:
        stride = int(self.rng.choice([1, 1, 2, 3]))
        return {
            "stride_h": stride,
            "stride_w": int(self.rng.choice([stride, 1])),
            "activation": str(self.rng.choice(["NONE", "RELU"])),
        }

    def padding(self, filter_h: int, filter_w: int) -> object:
        choice = self.rng.choice(["SAME", "VALID", "own"])
        if choice == "own":
            h, w = (self.rng.integers(0, size, 2) for size in (filter_h, filter_w))
            return tuple(int(n) for n in (*h, *w))
        return str(choice)

    def weights(self, shape: tuple[int, ...], axis: int) -> str:
        if self.dtype == "float32":
            return self.tensor(shape, "float32", None, self._floats(shape))
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        scale = tuple(self.rng.uniform(0.0005, 0.01, shape[axis]).tolist())
        return self.tensor(shape, "int8", Quant(scale, (0,) * shape[axis], axis), data)

    def bias(self, count: int) -> str:
        if self.dtype == "float32":
            return self.tensor((count,), "float32", None, self._floats((count,)))
        sums = ELEMENT_TYPES[self.dtype].biases[0]
        data = self.rng.integers(-999, 1000, count).astype(sums)
        return self.tensor((count,), sums, None, data)

    def constant_row(self, shape: tuple[int, ...]) -> str:
        if self.dtype == "float32":
            return self.tensor(shape, "float32", None, self._floats(shape))
        data = self.rng.integers(-100, 101, shape).astype(self.dtype)
        return self.tensor(shape, self.dtype, self._quant(), data)

    def _floats(self, shape: tuple[int, ...]) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)

    def _quant(self) -> Quant | None:
        return QUANTS.get(self.dtype)


def random_chains(
    seed: int,
    count: int,
    dtype: str = "int8",
    *,
    largest: int = 14,
    channels: int = 9,
    resized: bool = True,
) -> Chains:
    """``count`` chains with odd sizes, strides, paddings, skip connections and averages.

    ``resized``: with layers whose rows lie at places of their own, for which rounds do not repeat.
    """
    rng = np.random.default_rng(seed)
    builder = _Builder(rng, dtype)
    groups: list[Group] = []
    outputs: list[str] = []
    while len(groups) < count:
        first = len(builder.nodes)
        _chain(builder, largest, channels, resized)
        names = tuple(node.name for node in builder.nodes[first:])
        single = len(names) == 1
        direction: Literal["forward", "backward"] = (
            "backward" if single and rng.random() < 0.7 else "forward"
        )
        groups.append(Group(names, int(rng.choice([1, 1, 2, 3, 5])), direction))
        outputs.append(names[-1])
    graph = Graph(
        "chains", builder.tensors, tuple(builder.nodes), tuple(builder.inputs), tuple(outputs)
    )
    inputs = {}
    for name in builder.inputs:
        shape = builder.tensors[name].shape
        if dtype in QUANTS:
            low, high = ELEMENT_TYPES[dtype].bounds
            inputs[name] = rng.integers(low, high + 1, shape).astype(dtype)
        else:
            inputs[name] = rng.standard_normal(shape).astype(np.float32)
    return Chains(graph, KernelSelection(groups=tuple(groups)), inputs)


def _chain(b: _Builder, largest: int, channels: int, resized: bool) -> None:
    rng = b.rng
    h, w, c = (int(n) for n in (*rng.integers(3, largest + 1, 2), rng.integers(1, channels + 1)))
    x = b.input((1, h, w, c))
    # What is needed after the chain must be its end: whatever was read by nothing is added up.
    live = [x]
    length = int(rng.integers(1, 6))
    for position in range(length):
        x = _layer(b, x, live, largest if resized else 0)
        live.append(x)
        if position == length - 1 and length > 1 and rng.random() < 0.4:
            _average(b, x)


def _layer(b: _Builder, x: str, live: list[str], largest: int) -> str:
    rng, shape = b.rng, b.tensors[x].shape
    _, h, w, c = shape
    kinds = ["conv", "conv", "depthwise", "pool", "unary", "add", "row", "residual"]
    kind = rng.choice([*kinds, "join", "resize", "transposed", "transposed", "blocks", "pixels"])
    filter_h, filter_w = (min(int(rng.integers(1, 5)), n) for n in (h, w))
    window = b.window()
    if kind == "conv":
        weights = b.weights((int(rng.integers(1, 9)), filter_h, filter_w, c), 0)
        bias = b.bias(b.tensors[weights].shape[0])
        padding = b.padding(filter_h, filter_w)
        return b.op("CONV_2D", x, weights, bias, padding=padding, **window, **_DILATION)
    if kind == "depthwise":
        multiplier = int(rng.choice([1, 1, 2]))
        side = int(rng.choice([1, 3, 3])) if min(h, w) >= 3 else 1
        weights = b.weights((1, side, side, c * multiplier), 3)
        attrs = {**window, **_DILATION, "padding": b.padding(side, side)}
        bias = b.bias(c * multiplier)
        return b.op("DEPTHWISE_CONV_2D", x, weights, bias, depth_multiplier=multiplier, **attrs)
    if kind == "pool":
        op = str(rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]))
        padding = str(rng.choice(["SAME", "VALID"]))
        return b.op(op, x, filter_h=filter_h, filter_w=filter_w, padding=padding, **window)
    same = [name for name in live if b.tensors[name].shape == shape]
    if kind == "add" and len(same) > 1:
        # A skip connection, within the chain or from its input.
        op = str(rng.choice(["ADD", "ADD", "SUB", "MUL"]))
        operands = [x, str(rng.choice(same))][:: int(rng.choice([1, -1]))]
        return b.op(op, *operands, activation="NONE")
    if kind == "join":
        # Channels beside those of a tensor with the same pixels: perhaps its own once more.
        pixels = [name for name in live if b.tensors[name].shape[:3] == shape[:3]]
        return b.op("CONCATENATION", x, str(rng.choice(pixels)), axis=3)
    if kind == "resize" and max(h, w) <= largest:
        sizes = [int(pick) for pick in (rng.choice([2 * n, n + 1, max(1, n // 2)]) for n in (h, w))]
        own = rng.choice(["align_corners", "half_pixel_centers", ""])
        size = b.tensor((2,), "int32", None, np.array(sizes, np.int32))
        op = str(rng.choice(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"]))
        return b.op(op, x, size, **({str(own): True} if own else {}))
    if kind == "transposed" and max(h, w) <= _ENLARGED:
        return _transposed(b, x)
    if kind == "blocks":
        blocks = [block for block in (3, 2) if h % block == 0 and w % block == 0]
        if blocks:
            return b.op("SPACE_TO_DEPTH", x, block_size=blocks[0])
    if kind == "pixels" and max(h, w) <= _ENLARGED:
        block = int(rng.choice([2, 2, 3]))
        filters = b.weights((block * block * int(rng.integers(1, 3)), 1, 1, c), 0)
        attrs = {"stride_h": 1, "stride_w": 1, "padding": "VALID", "activation": "NONE"}
        bias = b.bias(b.tensors[filters].shape[0])
        deep = b.op("CONV_2D", x, filters, bias, **attrs, **_DILATION)
        return b.op("DEPTH_TO_SPACE", deep, block_size=block)
    if kind == "row":
        constant = b.constant_row((1, 1, 1, c) if rng.random() < 0.5 else (c,))
        return b.op("ADD", *[x, constant][:: int(rng.choice([1, -1]))], activation="RELU")
    if kind == "residual":
        # A branch of its own, as residual networks have where the size changes.
        stride = int(rng.choice([1, 2]))
        out_c = int(rng.integers(1, 9))
        attrs = {"stride_h": stride, "stride_w": stride, "padding": "SAME", "activation": "RELU"}
        skip = b.op(
            "CONV_2D", x, b.weights((out_c, 1, 1, c), 0), b.bias(out_c), **attrs, **_DILATION
        )
        wide = b.op(
            "CONV_2D", x, b.weights((out_c, 3, 3, c), 0), b.bias(out_c), **attrs, **_DILATION
        )
        return b.op("ADD", wide, skip, activation="RELU")
    # No pass fuses it with the layer before.
    return b.op("LEAKY_RELU", x, alpha=0.25)


_DILATION = {"dilation_h": 1, "dilation_w": 1}


def _transposed(b: _Builder, x: str) -> str:
    """TRANSPOSE_CONV of any padding, perhaps with rows and columns that no window covers."""
    rng, shape = b.rng, b.tensors[x].shape
    strides = [int(rng.choice([1, 2, 2, 3])) for _ in range(2)]
    filters = [stride + int(rng.integers(0, 3)) for stride in strides]
    padding = rng.choice(["SAME", "VALID", "own"])
    sizes: list[int] = []
    amounts: list[int] = []
    for size, stride, filter_size in zip(shape[1:3], strides, filters, strict=True):
        around = rng.integers(0, filter_size, 2) if padding == "own" else np.zeros(2, int)
        whole = (size - 1) * stride + filter_size - int(around.sum()) + int(rng.integers(0, stride))
        sizes.append(size * stride if padding == "SAME" else whole)
        amounts += around.tolist()
    if min(sizes) < 1:
        padding, sizes = "SAME", [n * stride for n, stride in zip(shape[1:3], strides, strict=True)]
    channels = int(rng.integers(1, 6))
    weights = b.weights((channels, *filters, shape[3]), 0)
    out = b.tensor((4,), "int32", None, np.array([1, *sizes, channels], np.int32))
    return b.op(
        "TRANSPOSE_CONV", out, weights, x, b.bias(channels), stride_h=strides[0],
        stride_w=strides[1], padding=tuple(amounts) if padding == "own" else str(padding),
        activation=str(rng.choice(["NONE", "RELU"])),
    )  # fmt: skip


def _average(b: _Builder, x: str) -> str:
    """An average over the whole height."""
    _, h, w, _ = b.tensors[x].shape
    if b.rng.random() < 0.5:
        axes = b.tensor((2,), "int32", None, np.array([1, 2], np.int32))
        return b.op("MEAN", x, axes, keep_dims=bool(b.rng.random() < 0.5))
    filter_w = int(b.rng.integers(1, w + 1))
    return b.op(
        "AVERAGE_POOL_2D", x, filter_h=h, filter_w=filter_w, stride_h=h,
        stride_w=int(b.rng.integers(1, w + 1)), padding="VALID", activation="NONE",
    )  # fmt: skip
