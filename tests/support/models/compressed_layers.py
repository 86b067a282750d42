"""Layers with weights of many distributions, and calls of them with compressed weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from linear_layers import as_single, make_layer
from single_op import SingleOp

from hilc.fusion.candidates import Lowering
from hilc.ir import Array, Graph
from hilc.lowering.choice import KernelSelection
from hilc.lowering.compressed import CompressedCall
from hilc.target import Cpu

KINDS = ("constant", "two values", "uniform", "skewed", "sparse", "int4", "runs", "all values")


def weights_of(rng: np.random.Generator, kind: str, size: int) -> Array:
    """Return int8 of a distribution."""
    uniform = rng.integers(-128, 128, size)
    values: dict[str, Callable[[], Array]] = {
        "constant": lambda: np.full(size, -3),
        "two values": lambda: rng.choice([5, -9], size),
        "uniform": lambda: uniform,
        "skewed": lambda: np.clip(rng.laplace(0, 6, size).round(), -128, 127),
        "sparse": lambda: np.where(rng.random(size) < 0.97, 0, uniform),
        "int4": lambda: rng.integers(-8, 8, size),
        "runs": lambda: np.repeat(uniform, rng.integers(1, 600, size))[:size],
        "all values": lambda: np.append(np.arange(-128, 128), np.zeros(size))[:size],
    }
    return values[kind]().astype(np.int8)


#: Operator, shapes of the input and the weights: rows of one pixel and of several, with tiles and
#: without them.
_SHAPES: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    ("FULLY_CONNECTED", (1, 96), (64, 96)),
    ("FULLY_CONNECTED", (1, 700), (12, 700)),
    ("FULLY_CONNECTED", (3, 64), (80, 64)),
    ("CONV_2D", (1, 3, 4, 32), (96, 1, 1, 32)),
    ("CONV_2D", (1, 4, 4, 16), (24, 3, 3, 16)),
    ("CONV_2D", (1, 5, 3, 24), (13, 2, 2, 24)),
    ("DEPTHWISE_CONV_2D", (1, 4, 5, 72), (1, 3, 3, 72)),
)


def layers(rng: np.random.Generator, first: int = 0) -> list[SingleOp]:
    """Return a layer of each shape, with weights of the kinds from ``first`` on."""
    found = []
    for turn, (op, x_shape, w_shape) in enumerate(_SHAPES):
        attrs: dict[str, Any] = {"activation": str(rng.choice(["NONE", "RELU"]))}
        if op == "FULLY_CONNECTED":
            attrs["keep_num_dims"] = False
        else:
            attrs |= {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
            attrs["padding"] = "SAME"
        if op == "DEPTHWISE_CONV_2D":
            attrs["depth_multiplier"] = 1
        layer = make_layer(rng, op, "int8", x_shape, w_shape, attrs)
        weights = layer.ins[1]
        assert weights is not None
        data = weights_of(rng, KINDS[(first + turn) % len(KINDS)], weights.size).reshape(w_shape)
        new = replace(weights, data=data)
        found.append(as_single(replace(layer, ins=(layer.ins[0], new, *layer.ins[2:]))))
    return found


def every_variant(graph: Graph, cpu: Cpu) -> Iterator[tuple[KernelSelection, list[CompressedCall]]]:
    """Yield choices that together have each compressed call of each layer, with these calls."""
    lowering = Lowering(graph, cpu)
    found = {
        node.name: [call for call in lowering.calls(node) if isinstance(call, CompressedCall)]
        for node in graph.nodes
    }
    for turn in range(max(map(len, found.values()))):
        chosen = {name: own[turn % len(own)] for name, own in found.items() if own}
        yield (
            KernelSelection({name: call.variant for name, call in chosen.items()}),
            [*chosen.values()],
        )
