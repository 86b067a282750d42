"""Layers for kernels in assembly: every remainder of the blocks that registers hold, values at the
ends of their ranges, and sums on both sides of each change of an output."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from accumulator_proofs import channels_of
from kernel_layers import conv, depthwise, rectified, tamed
from linear_layers import Layer, make_layer

from hilc.ir import Array, Graph, Node, Quant, Tensor
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.operands import quantization

LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: More than the elements of the widest register, so that each remainder is there.
_WIDTHS = range(1, 19)
_DEPTHS = range(1, 35)
#: Channels around the sizes of blocks.
_AROUND = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33)

_Shapes = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]


def shapes() -> Iterator[_Shapes]:
    """Yield operators with the shapes of input and weights, and attributes."""
    turn = itertools.count()
    activations = ("RELU", "NONE", "RELU6")

    def row(rows: int, depth: int, columns: int) -> _Shapes:
        attrs = {"activation": activations[next(turn) % 3]}
        return "FULLY_CONNECTED", (rows, depth), (columns, depth), attrs

    for rows, columns in itertools.product(range(1, 6), _WIDTHS):
        yield row(rows, 1 + 7 * (rows + columns) % 34, columns)
    for depth, columns, rows in itertools.product(_DEPTHS, (1, 2, 3, 4, 5, 8, 9), (1, 2, 3)):
        yield row(rows, depth, columns)
    for width, depth in itertools.product(_WIDTHS, _AROUND):
        attrs = conv("VALID", 1, activations[next(turn) % 3])
        yield "CONV_2D", (1, 1, width, depth), (1 + (width + depth) % 18, 1, 1, depth), attrs
    for width, depth, stride in itertools.product(_WIDTHS, _AROUND, (1, 2)):
        attrs = conv("SAME", stride, activations[next(turn) % 3])
        shape = (1, 1 + (width + depth) % 4, width, depth)
        yield "CONV_2D", shape, (1 + (width + depth) % 18, 3, 3, depth), attrs
        attrs = depthwise(stride, activation=activations[next(turn) % 3])
        yield "DEPTHWISE_CONV_2D", shape, (1, 3, 3, depth), attrs


def remainders(rng: np.random.Generator, dtype: str = "int8") -> Iterator[Layer]:
    """Yield layers of every remainder: of random values, and of values at the ends of a range."""
    for number, (op, x, w, attrs) in enumerate(shapes()):
        layer = make_layer(rng, op, dtype, x, w, attrs)
        if dtype != "int8":
            yield layer
            continue
        layer = tamed(layer) if number % 2 else rectified(tamed(layer))
        yield at_the_ends(rng, layer) if number % 4 < 2 else layer


def at_the_ends(rng: np.random.Generator, layer: Layer) -> Layer:
    """The layer with weights and inputs at the ends of their ranges."""
    _, weights, *rest = layer.ins
    assert weights is not None
    data = rng.choice(np.array([-127, 127], np.int8), weights.shape)
    x = rng.choice(np.array([-128, 127], np.int8), layer.x.shape)
    return replace(layer, ins=(layer.ins[0], replace(weights, data=data), *rest), x=x)


# Sums at which outputs change --------------------------------------------------------------------

#: The weight of inputs that make up most of a sum; one of 1 makes up the rest.
_COARSE = 127
#: Inputs of a window that make it up, at most.
_INPUTS_MAX = 60


@dataclass(frozen=True)
class _Target:
    """A sum that an output channel shall have."""

    channel: int
    total: int


def boundaries(graph: Graph, channels: int, rng: np.random.Generator) -> Iterator[Layer]:
    """Yield layers with the scales, zero points and activation of each linear layer of a graph, and
    inputs whose sums are the last before and the first at each change of an output.

    ``channels`` of a layer are taken, at random; a layer takes the forms of all kernels: rows of a
    matrix, one row, windows over images and over the channels of images.
    """
    for node in graph.nodes:
        if node.op in LINEAR:
            ins = [graph.tensors[name] if name else None for name in node.inputs]
            yield from _of_layer(node, ins, graph.outs(node)[0], channels, rng)


def _of_layer(
    node: Node,
    ins: Sequence[Tensor | None],
    out: Tensor,
    count: int,
    rng: np.random.Generator,
) -> Iterator[Layer]:
    x, weights = ins[0], ins[1]
    assert x is not None
    assert weights is not None
    assert weights.quant is not None
    known, _ = channels_of(node, ins, out)
    chosen = sorted(rng.choice(len(known), min(count, len(known)), replace=False).tolist())
    scales = weights.quant.scale
    taken = tuple(scales[c] if len(scales) > 1 else scales[0] for c in chosen)
    largest = 127 * _COARSE * _INPUTS_MAX
    targets = [
        _Target(place, total)
        for place, c in enumerate(chosen)
        for first in known[c].outputs.thresholds(-largest, largest)
        if -largest < first <= largest
        for total in (first - 1, first)
    ]
    if not targets:
        return
    reach = max(abs(target.total) for target in targets)
    inputs = -(-reach // (127 * _COARSE)) + 1
    activation = ActivationAttributes.of(node).activation
    parts = _Parts(x, out, taken, activation)
    yield parts.rows("CONV_2D", targets, inputs + 1)
    for target in targets[:: max(1, len(targets) // 40)]:
        yield parts.rows("FULLY_CONNECTED", [target], inputs + 1)
    yield parts.windows("CONV_2D", targets, inputs + 1)
    near = [target for target in targets if abs(target.total) <= 127 * _COARSE * 8]
    if near:
        yield parts.windows("DEPTHWISE_CONV_2D", near, 9)


@dataclass(frozen=True)
class _Parts:
    """What the layers have of the model's."""

    x: Tensor
    out: Tensor
    scales: tuple[float, ...]
    activation: str

    def rows(self, op: str, targets: Sequence[_Target], depth: int) -> Layer:
        """Return a layer of a matrix with a row for each target."""
        values = np.stack([_inputs(target.total, depth) for target in targets])
        channels = len(self.scales)
        weights = np.tile(_weights(depth), (channels, 1))
        if op == "FULLY_CONNECTED":
            return self._layer(op, values, weights, {"activation": self.activation}, 0)
        image = values.reshape(1, 1, *values.shape)
        attrs = conv("VALID", 1, self.activation)
        return self._layer(op, image, weights.reshape(channels, 1, 1, depth), attrs, 0)

    def windows(self, op: str, targets: Sequence[_Target], least: int) -> Layer:
        """Return a layer of 3x3 windows with an image for each target."""
        channels = len(self.scales)
        if op == "DEPTHWISE_CONV_2D":
            window = _weights(9).reshape(1, 3, 3, 1)
            images = np.zeros((len(targets), 3, 3, channels), np.int8)
            for number, target in enumerate(targets):
                images[number, :, :, target.channel] = _inputs(target.total, 9).reshape(3, 3)
            attrs = conv("VALID", 1, self.activation, depth_multiplier=1)
            return self._layer(op, images, np.tile(window, channels), attrs, 3)
        depth = -(-least // 9)
        taps = 9 * depth
        images = np.stack([_inputs(target.total, taps) for target in targets])
        weights = np.tile(_weights(taps), (channels, 1)).reshape(channels, 3, 3, depth)
        attrs = conv("VALID", 1, self.activation)
        return self._layer(op, images.reshape(-1, 3, 3, depth), weights, attrs, 0)

    def _layer(
        self, op: str, values: Array, weights: Array, attrs: dict[str, Any], axis: int
    ) -> Layer:
        rng = np.random.default_rng(0)
        attrs = dict(attrs)
        layer = make_layer(rng, op, "int8", values.shape, weights.shape, attrs)
        while len(layer.ins) < 3 or layer.ins[2] is None:
            layer = make_layer(rng, op, "int8", values.shape, weights.shape, attrs)
        _, w, bias = layer.ins
        assert w is not None
        assert bias is not None
        x = replace(self.x, name="x", shape=values.shape)
        zero_point = quantization(layer.node, x)[1]
        # So that sums of the inputs as they are are those that are wanted.
        others = tuple(n for n in range(weights.ndim) if n != axis)
        sums = zero_point * weights.astype(np.int64).sum(axis=others)
        count = 1 if len(set(self.scales)) == 1 else len(self.scales)
        quant = Quant(self.scales[:count], (0,) * count, axis if count > 1 else 0)
        return replace(
            layer,
            ins=(
                x,
                replace(w, data=weights, quant=quant),
                replace(bias, data=sums.astype(np.int32), quant=None),
            ),
            out=replace(layer.out, quant=self.out.quant),
            x=values,
        )


def _weights(taps: int) -> Array:
    """One of 1, and all others as large as they get."""
    weights = np.full(taps, _COARSE, np.int8)
    weights[-1] = 1
    return weights


def _inputs(total: int, taps: int) -> Array:
    """Inputs whose products with :func:`_weights` add up to ``total``."""
    coarse = (total + _COARSE // 2) // _COARSE
    share, rest = divmod(coarse, taps - 1)
    values = np.full(taps, share, np.int64)
    values[:rest] += 1
    values[-1] = total - _COARSE * coarse
    assert values.min() >= -128
    assert values.max() <= 127
    assert int(values @ _weights(taps).astype(np.int64)) == total
    return values.astype(np.int8)
