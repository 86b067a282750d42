"""Intervals that hold and are as narrow as they can be, and channels left out without a trace."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from answers import entry
from campaigns import cases, sampled
from random_graphs import GraphBuilder, random_graph
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hil import verify
from hil.cli import main
from hil.verify import Oracle
from hilc.artifact.library import ModelLibrary
from hilc.artifact.manifest import Folded, Module
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.interpreter import run_all
from hilc.ir import Array, Graph, Quant, Tensor
from hilc.lowering.choice import DEFAULT_CHOICE
from hilc.ops.verify import verify as verify_graph
from hilc.transforms import run_passes
from hilc.transforms.fold_channels import FoldedGraph, fold_channels, folded_away
from hilc.transforms.intervals import intervals

#: The zero point of every tensor of these networks, and what RELU makes the least value.
ZERO = -100
QUANT = Quant((0.125,), (ZERO,))
#: Biases that clamp a channel at its ends whatever the input.
FAR = 1 << 24


def numbers_of(tensor: Tensor) -> Array:
    """A copy of a constant's numbers."""
    assert tensor.data is not None
    return np.array(tensor.data)


class Net(GraphBuilder):
    """Layers with biases, in which channels can be planted that never change."""

    def quantized(self, name: str) -> str:
        self.tensors[name] = replace(self.tensors[name], quant=QUANT)
        return name

    def input(self, *shape: int) -> str:
        return self.quantized(super().input(*shape))

    def op(self, op: str, *inputs: str, outputs: int = 1, **attrs: object) -> str:
        first = super().op(op, *inputs, outputs=outputs, **attrs)
        for name in self.nodes[-1].outputs:
            self.quantized(name)
        return first

    def index(self, *values: Any) -> str:
        """A constant operand of integers."""
        data = np.array(values, np.int32)
        return self._add(data.shape, "int32", None, data)

    def layer(
        self,
        op: str,
        x: str,
        channels: int,
        *,
        size: int = 1,
        stride: int = 1,
        padding: str = "SAME",
        planted: Mapping[int, str | int] | None = None,
        activation: str = "RELU",
    ) -> str:
        """A layer of ``channels`` outputs (DEPTHWISE_CONV_2D: for each input).

        ``planted`` channels are always ``"low"`` or ``"high"`` by their bias, or have the bias
        given and weights of zero.
        """
        in_c = self.tensors[x].shape[-1]
        attrs: dict[str, Any] = {"activation": activation}
        if op == "FULLY_CONNECTED":
            shape: tuple[int, ...] = (channels, in_c)
        else:
            attrs |= {"stride_h": stride, "stride_w": stride, "padding": padding}
            attrs |= {"dilation_h": 1, "dilation_w": 1}
            shape = (channels, size, size, in_c)
        if op == "DEPTHWISE_CONV_2D":
            attrs["depth_multiplier"] = channels
            shape = (1, size, size, in_c * channels)
        axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
        weights = self.weights(shape, axis)
        data = np.moveaxis(numbers_of(self.tensors[weights]), axis, 0)
        bias = self.rng.integers(-3000, 3000, len(data)).astype(np.int32)
        for channel, kind in (planted or {}).items():
            bias[channel] = {"low": -FAR, "high": FAR}[kind] if isinstance(kind, str) else kind
            if not isinstance(kind, str):
                data[channel] = 0
        values = np.ascontiguousarray(np.moveaxis(data, 0, axis))
        self.tensors[weights] = replace(self.tensors[weights], data=values)
        return self.op(op, x, weights, self._add((len(data),), "int32", None, bias), **attrs)

    def conv_of(self, x: str, channels: int, **options: Any) -> str:
        return self.layer("CONV_2D", x, channels, **options)


def inputs_of(graph: Graph, seed: int) -> Iterator[dict[str, Array]]:
    """Values that are random, extreme everywhere or by place, and rising."""
    rng = np.random.default_rng(seed)
    shapes = {name: graph.tensors[name].shape for name in graph.inputs}

    def filled(make: Any) -> dict[str, Array]:
        return {name: make(shape).astype(np.int8) for name, shape in shapes.items()}

    yield filled(lambda shape: rng.integers(-128, 128, shape))
    yield filled(lambda shape: rng.choice([-128, 127], shape))
    yield filled(lambda shape: np.full(shape, -128))
    yield filled(lambda shape: np.full(shape, 127))
    yield filled(lambda shape: np.arange(np.prod(shape)).reshape(shape) % 256 - 128)


def held(values: Mapping[str, Array], folding: FoldedGraph, name: str) -> Array:
    """What the tensor of a folded graph holds of the whole one."""
    channels = folding.channels.get(name)
    return values[name] if channels is None else values[name][..., list(channels)]


def assert_the_same(graph: Graph, folding: FoldedGraph, seed: int = 0) -> None:
    """All that is left of every tensor is what it was, and the border is untouched."""
    folded = folding.graph
    verify_graph(folded)
    for name in (*graph.inputs, *graph.outputs):
        assert folded.tensors[name] == graph.tensors[name]
    for values in inputs_of(graph, seed):
        expected, got = run_all(graph, values), run_all(folded, values)
        for node in folded.nodes:
            for name in node.outputs:
                np.testing.assert_array_equal(got[name], held(expected, folding, name), name)


# Intervals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sampled(range(60), keep=range(12)))
def test_no_value_lies_outside_its_interval(seed: int) -> None:
    graph = random_graph(seed, ordinary_outputs=True)
    bounds = intervals(graph)
    assert {name for node in graph.nodes for name in node.outputs} <= set(bounds)
    for values in inputs_of(graph, seed):
        for name, value in run_all(graph, values).items():
            if name in bounds:
                assert (bounds[name].low <= value).all(), name
                assert (value <= bounds[name].high).all(), name


#: A layer each on an input of at most nine elements, which has 512 corners.
SMALL_LAYERS = {
    "conv": lambda b, x: b.conv_of(x, 5, size=3, activation="NONE"),
    "strided": lambda b, x: b.conv_of(x, 5, size=2, stride=2),
    "valid": lambda b, x: b.conv_of(x, 4, size=2, padding="VALID", activation="RELU6"),
    "padded": lambda b, x: b.conv_of(x, 4, size=2, padding=(1, 0, 2, 1), activation="RELU6"),
    "depthwise": lambda b, x: b.layer("DEPTHWISE_CONV_2D", x, 1, size=3, activation="NONE"),
    "multiplied": lambda b, x: b.layer("DEPTHWISE_CONV_2D", x, 3, size=2),
    "dense": lambda b, x: b.layer("FULLY_CONNECTED", b.reshape(x, -1, 8), 6, activation="NONE"),
    "average": lambda b, x: b.pool("AVERAGE_POOL_2D", x, stride=1),
    "max": lambda b, x: b.pool("MAX_POOL_2D", x, stride=1),
    "mean": lambda b, x: b.op("MEAN", x, b.index(1, 2), keep_dims=False),
    "sum": lambda b, x: b.op("SUM", x, b.index(1, 2), keep_dims=False),
    "largest": lambda b, x: b.op("REDUCE_MAX", x, b.index(1, 2), keep_dims=False),
    "add": lambda b, x: b.op("ADD", x, b.constant(1, 2, 2, 2), activation="NONE"),
    "sub": lambda b, x: b.op("SUB", b.constant(2), x, activation="RELU"),
    "mul": lambda b, x: b.op("MUL", x, b.constant(1, 2, 2, 1), activation="NONE"),
    "two": lambda b, x: b.op("MUL", b.split(x, 2), b.nodes[-1].outputs[1], activation="NONE"),
    "moved": lambda b, x: b.op("PAD", b.op("RELU6", x), b.index((0, 0), (1, 0), (0, 2), (0, 0))),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SMALL_LAYERS)
def test_both_ends_of_a_layers_interval_are_reached(kind: str, seed: int) -> None:
    """What a layer rounds it first adds up, or takes apart: its ends are at corners of its input.

    All corners are one batch; with the batch of one the same layer has the same weights.
    """
    corners = np.array([*np.ndindex(*[2] * 8)]) * 255 - 128
    b, batch = Net(seed), Net(seed)
    graph = b.graph(SMALL_LAYERS[kind](b, b.input(1, 2, 2, 2)))
    whole = batch.graph(SMALL_LAYERS[kind](batch, batch.input(len(corners), 2, 2, 2)))
    values = corners.reshape(-1, 2, 2, 2).astype(np.int8)
    results = run_all(whole, {whole.inputs[0]: values})[whole.outputs[0]]
    low, high = intervals(graph)[graph.outputs[0]]
    np.testing.assert_array_equal(low[0], results.min(0))
    np.testing.assert_array_equal(high[0], results.max(0))


def test_tables_that_fall_and_rise() -> None:
    """HARD_SWISH has its least value inside of the interval, so its ends are no corners."""
    b = Net()
    y = b.op("HARD_SWISH", b.input(1, 4))
    b.tensors["t0"] = replace(b.tensors["t0"], quant=Quant((0.05,), (0,)))
    b.tensors[y] = replace(b.tensors[y], quant=Quant((0.01,), (0,)))
    graph = b.graph(y)
    every = np.arange(-128, 128).astype(np.int8).reshape(-1, 4)
    results = np.stack([run_all(graph, {"t0": row[np.newaxis]})[y] for row in every])
    interval = intervals(graph)[y]
    assert (interval.low == results.min()).all()
    assert (interval.high == results.max()).all()
    assert results.min() not in (results[0, 0, 0], results[-1, 0, -1])


def test_sums_that_wrap_around_can_be_anything() -> None:
    """A multiplier above one shifts to the left first, and 32 bits may not hold that.

    Here every 2048 sums go around once: both ends of channel 0 come out at the upper clamp, and
    what lies between does not. Channel 1 never goes so far.
    """
    b = Net()
    x = b.input(1, 1, 1, 1)
    y = b.conv_of(x, 2)
    weights, bias = (b.tensors[name] for name in b.nodes[-1].inputs[1:])
    data = np.array([127, 0], np.int8).reshape(2, 1, 1, 1)
    quant = Quant((float(1 << 20),) * 2, (0, 0), 0)
    b.tensors[weights.name] = replace(weights, data=data, quant=quant)
    b.tensors[bias.name] = replace(bias, data=np.array([4056, -5], np.int32))
    graph = b.graph(y)
    low, high = intervals(graph)[y]
    assert (low.tolist(), high.tolist()) == ([[[[ZERO, ZERO]]]], [[[[127, ZERO]]]])
    results = [
        run_all(graph, {x: np.full((1, 1, 1, 1), value, np.int8)})[y][0, 0, 0, 0].item()
        for value in range(-128, 128)
    ]
    assert (results[0], min(results), results[-1]) == (127, ZERO, 127)


# Networks with planted channels -----------------------------------------------------------------


def planted_graph(seed: int) -> Graph:
    """Layers with channels that never change, and what may stand between, in any order."""
    b = Net(seed)
    rng = b.rng

    def planted(count: int) -> dict[int, str | int]:
        chosen = rng.choice(count, int(rng.integers(0, count + 1)), replace=False)
        kinds = ("low", "low", "high", int(rng.integers(-2000, 2000)))
        return {int(channel): kinds[int(rng.integers(4))] for channel in chosen}

    def convolved(x: str, channels: int, **options: Any) -> str:
        options.setdefault("activation", str(rng.choice(["RELU", "RELU", "NONE"])))
        return b.conv_of(x, channels, planted=planted(channels), **options)

    def depthwise(x: str, multiplier: int) -> str:
        count = b.tensors[x].shape[-1] * multiplier
        return b.layer("DEPTHWISE_CONV_2D", x, multiplier, size=3, planted=planted(count))

    def residual(x: str, op: str) -> str:
        same = convolved(x, b.tensors[x].shape[-1], size=3)
        return b.op(op, *rng.permutation([x, same]).tolist(), activation="RELU")

    steps = (
        lambda x: convolved(x, int(rng.integers(2, 9))),
        lambda x: convolved(x, int(rng.integers(2, 9)), size=3),
        lambda x: convolved(x, int(rng.integers(2, 9)), size=2, padding="VALID"),
        lambda x: depthwise(x, 1),
        lambda x: depthwise(x, 2),
        lambda x: residual(x, "ADD"),
        lambda x: residual(x, "MUL"),
        lambda x: b.concat(x, convolved(x, 3), x),
        lambda x: b.pool("AVERAGE_POOL_2D", x, stride=1),
        lambda x: b.pool("MAX_POOL_2D", x, padding="VALID", stride=1),
        lambda x: b.op("SUB", x, b.constant(b.tensors[x].shape[-1]), activation="NONE"),
        lambda x: b.op("HARD_SWISH", x),
        lambda x: b.op("PAD", x, b.index((0, 0), (1, 0), (1, 1), (0, 0))),
    )
    ends = (
        lambda x: b.op("MEAN", x, b.index(1, 2), keep_dims=False),
        lambda x: b.reshape(x, 1, -1),
        lambda x: b.op("SQUEEZE", b.op("MEAN", x, b.index(1, 2), keep_dims=True), squeeze_dims=()),
    )
    x = convolved(b.input(1, 5, int(rng.integers(5, 7)), int(rng.integers(1, 4))), 6)
    outputs = []
    for _ in range(int(rng.integers(2, 6))):
        # Where windows have eaten the image up, only the smallest steps are left.
        x = steps[int(rng.integers(len(steps)) if min(b.tensors[x].shape[1:3]) > 1 else 0)](x)
        if rng.random() < 0.1:
            outputs.append(x)
    x = ends[int(rng.integers(len(ends)))](x)
    x = b.layer("FULLY_CONNECTED", x, 5, planted=planted(5))
    outputs.append(b.layer("FULLY_CONNECTED", x, 3, planted=planted(3), activation="NONE"))
    return b.graph(*dict.fromkeys(outputs))


@pytest.mark.parametrize("seed", sampled(range(100), keep=range(20)))
def test_nothing_changes_but_what_is_left_out(seed: int) -> None:
    graph = run_passes(planted_graph(seed))
    folded = fold_channels(graph)
    assert_the_same(graph, folded, seed)
    assert fold_channels(folded.graph).graph == folded.graph


def test_random_networks_lose_channels() -> None:
    """So that the test above says something."""
    lost: dict[str, int] = {}
    for seed in range(100):
        folded = fold_channels(run_passes(planted_graph(seed)))
        for node in folded.graph.nodes:
            lost[node.op] = lost.get(node.op, 0) + (node.name in folded.channels)
    assert all(count >= 2 for count in lost.values()), lost
    assert lost["CONV_2D"] > 70


# One rule each ----------------------------------------------------------------------------------


def channels_of(graph: Graph) -> dict[str, int]:
    """The last side of each computed tensor of the folded graph, which is checked."""
    folded = fold_channels(graph)
    assert_the_same(graph, folded)
    return {node.name: folded.graph.tensors[node.name].shape[-1] for node in folded.graph.nodes}


#: Where a channel is always the zero point, or always something else, a reader that
#: reads outside the image, and whether the channel can go.
@pytest.mark.parametrize(
    ("kind", "options", "goes"),
    [
        ("low", {"size": 1}, True),
        ("high", {"size": 1}, True),
        (500, {"size": 1}, True),
        ("low", {"size": 3, "padding": "VALID"}, True),
        ("high", {"size": 3, "padding": "VALID"}, True),
        ("low", {"size": 3, "padding": "SAME"}, True),
        ("high", {"size": 3, "padding": "SAME"}, False),
        (500, {"size": 3, "padding": "SAME"}, False),
        # SAME, and yet no window reads outside.
        ("high", {"size": 2, "stride": 2, "padding": "SAME"}, True),
        ("high", {"size": 2, "padding": (1, 0, 0, 0)}, False),
    ],
)
def test_what_is_outside_of_an_image_is_the_zero_point(
    kind: str | int, options: dict[str, Any], goes: bool
) -> None:
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 5, planted={2: kind})
    y = b.conv_of(x, 3, activation="NONE", **options)
    assert channels_of(b.graph(y)) == {x: 4 if goes else 5, y: 3}


@pytest.mark.parametrize(("kind", "goes"), [("low", True), ("high", False)])
def test_a_depthwise_layer_sees_its_border(kind: str, goes: bool) -> None:
    """Of a constant that is not the zero point it makes another at the border than inside."""
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 5, planted={1: kind})
    y = b.layer("DEPTHWISE_CONV_2D", x, 1, size=3, activation="NONE")
    z = b.conv_of(y, 2)
    count = 4 if goes else 5
    assert channels_of(b.graph(z)) == {x: count, y: count, z: 2}


def test_what_a_constant_is_made_of_goes_too() -> None:
    """A layer that makes a constant of a channel needs it no more than its readers do."""
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 9)
    y = b.layer("DEPTHWISE_CONV_2D", x, 1, size=3, planted={0: "low", 5: "high", 6: "low"})
    z = b.conv_of(y, 2)
    assert channels_of(b.graph(z)) == {x: 6, y: 6, z: 2}


def test_pairs_stay_whole() -> None:
    """With the constant that takes the smallest sums to make."""
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 6, planted={1: "low", 3: 400, 4: -500})
    graph = b.graph(b.conv_of(x, 2))
    assert channels_of(graph)[x] == 4
    assert fold_channels(graph).channels[x] == (0, 2, 3, 5)


@pytest.mark.parametrize("other", ["low", "varies"])
def test_both_operands_of_a_sum_lose_a_channel_or_none(other: str) -> None:
    b = Net()
    x = b.input(1, 4, 4, 3)
    one = b.conv_of(x, 6, planted={0: "low", 4: "low"})
    two = b.conv_of(x, 6, planted={0: "low", 4: "low"} if other == "low" else {})
    y = b.op("ADD", one, two, activation="RELU")
    z = b.conv_of(y, 2)
    count = 4 if other == "low" else 6
    assert channels_of(b.graph(z)) == {one: count, two: count, y: count, z: 2}


@pytest.mark.parametrize(("padding", "count"), [("VALID", 4), ("SAME", 6)])
def test_every_reader_has_to_do_without(padding: str, count: int) -> None:
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 6, planted={1: "high", 4: "high"})
    y = b.conv_of(x, 2)
    z = b.conv_of(x, 2, size=3, padding=padding)
    assert channels_of(b.graph(y, z)) == {x: count, y: 2, z: 2}


def test_channels_whose_weights_are_zero_go() -> None:
    """They vary, but nobody looks; and what only they needed goes with them."""
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 6)
    y = b.conv_of(x, 6)
    z = b.conv_of(y, 2, size=3)
    weights = b.nodes[-1].inputs[1]
    data = numbers_of(b.tensors[weights])
    data[..., [0, 3]] = 0
    b.tensors[weights] = replace(b.tensors[weights], data=data)
    mine = b.nodes[1].inputs[1]
    data = numbers_of(b.tensors[mine])
    data[np.ix_([1, 2, 4, 5], [0], [0], [2, 5])] = 0
    b.tensors[mine] = replace(b.tensors[mine], data=data)
    graph = b.graph(z)
    folded = fold_channels(graph)
    assert_the_same(graph, folded)
    assert folded.channels[y] == (1, 2, 4, 5)
    assert folded.channels[x] == (0, 1, 3, 4)


def test_outputs_and_inputs_keep_their_channels() -> None:
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 6, planted={4: "low"})
    y = b.conv_of(x, 6, planted={1: "low"})
    assert channels_of(b.graph(x, y)) == {x: 6, y: 6}


def test_rows_of_pixels_lose_a_channel_in_each_pixel() -> None:
    b = Net()
    x = b.conv_of(b.input(1, 2, 3, 3), 5, planted={1: "high"})
    y = b.reshape(x, 1, 30)
    z = b.layer("FULLY_CONNECTED", y, 4, activation="NONE")
    graph = b.graph(z)
    assert channels_of(graph) == {x: 4, y: 24, z: 4}
    kept = [c for c in range(30) if c % 5 != 1]
    assert fold_channels(graph).channels[y] == tuple(kept)


def test_a_different_border_keeps_a_channel() -> None:
    """Each pixel of it is constant, but a convolution's bias knows no pixels; a matrix's does."""
    b = Net()
    x = b.conv_of(b.input(1, 3, 3, 3), 5, planted={0: "high"})
    y = b.layer("DEPTHWISE_CONV_2D", x, 1, size=3, activation="NONE")
    weights = b.nodes[-1].inputs[1]
    b.tensors[weights] = replace(b.tensors[weights], data=np.ones((1, 3, 3, 5), np.int8))
    row = b.reshape(y, 1, 45)
    dense = b.layer("FULLY_CONNECTED", row, 4, activation="NONE")
    assert channels_of(b.graph(dense)) == {x: 4, y: 4, row: 36, dense: 4}
    conv = b.conv_of(y, 2)
    assert channels_of(b.graph(dense, conv))[y] == 5


def test_something_is_left_of_every_layer() -> None:
    b = Net()
    everywhere: dict[int, str | int] = {channel: "low" for channel in range(6)}
    x = b.conv_of(b.input(1, 4, 4, 3), 6, planted=everywhere)
    y = b.conv_of(x, 6, planted=everywhere)
    z = b.conv_of(y, 2)
    assert channels_of(b.graph(z)) == {x: 2, y: 2, z: 2}
    everything: dict[int, str | int] = {channel: 7 for channel in range(6)}
    y = b.layer("DEPTHWISE_CONV_2D", b.input(1, 4, 4, 6), 1, planted=everything)
    pooled = b.pool("MAX_POOL_2D", y)
    z = b.conv_of(pooled, 2)
    # An input is the caller's, so what is made of it channel by channel is whole as well.
    assert channels_of(b.graph(z)) == {y: 6, pooled: 6, z: 2}


def test_channel_scales_do_not_become_a_tensors() -> None:
    """For one scale a fully connected layer has another rule of rounding than for several."""
    b = Net()
    x = b.layer("FULLY_CONNECTED", b.input(1, 8), 6, planted={c: "low" for c in range(5)})
    y = b.layer("FULLY_CONNECTED", x, 4, activation="NONE")
    assert channels_of(b.graph(y)) == {x: 2, y: 4}


def test_layers_that_share_their_weights() -> None:
    """Each loses other channels of its input."""
    b = Net()
    x = b.input(1, 4, 4, 3)
    one, two = (b.conv_of(x, 6, planted={c: "low", 5: "low"}) for c in (0, 3))
    y = b.conv_of(one, 5)
    b.nodes.append(replace(b.nodes[-1], inputs=(two, *b.nodes[-1].inputs[1:]), outputs=("z",)))
    b.tensors["z"] = replace(b.tensors[y], name="z")
    assert channels_of(b.graph(y, "z")) == {one: 4, two: 4, y: 5, "z": 5}


def test_operators_that_mix_channels_keep_them() -> None:
    b = Net()
    x = b.conv_of(b.input(1, 4, 4, 3), 6, planted={4: "low"})
    turned = b.op("TRANSPOSE", x, b.index(0, 3, 1, 2))
    halves = b.split(turned, 2)
    y = b.conv_of(halves, 2)
    assert channels_of(b.graph(y))[x] == 6


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_channel_that_changes_once_stays(end: str) -> None:
    """The bias at which a channel only just never changes, and the next one, where it does."""
    b = Net(5)
    x = b.conv_of(b.input(1, 1, 1, 4), 5, activation="RELU")
    y = b.conv_of(x, 2)
    weights, bias = (b.tensors[name] for name in b.nodes[0].inputs[1:])
    signs = np.sign(numbers_of(weights)[2, 0, 0].astype(np.int64))
    # The input that brings channel 2 furthest away from the end at which it is clamped.
    away = np.where((signs > 0) == (end == "low"), 127, -128).reshape(1, 1, 1, 4).astype(np.int8)
    clamp = ZERO if end == "low" else 127

    def with_bias(value: int) -> Graph:
        data = numbers_of(bias)
        data[2] = value
        return b.graph(y).with_(tensors={**b.tensors, bias.name: replace(bias, data=data)})

    def changes(value: int) -> bool:
        graph = with_bias(value)
        return int(run_all(graph, {graph.inputs[0]: away})[x][0, 0, 0, 2]) != clamp

    never, ever = (-FAR, FAR) if end == "low" else (FAR, -FAR)
    assert changes(ever)
    assert not changes(never)
    while abs(ever - never) > 1:
        middle = (never + ever) // 2
        never, ever = (never, middle) if changes(middle) else (middle, ever)
    assert channels_of(with_bias(never))[x] == 4
    assert channels_of(with_bias(ever))[x] == 5


# From the model to the report -------------------------------------------------------------------


def net() -> Graph:
    """A network that loses channels; its output reads a tensor that is not whole."""
    b = Net(7)
    x = b.conv_of(b.input(1, 4, 4, 3), 6, size=3, planted={1: "low"})
    y = b.layer("DEPTHWISE_CONV_2D", x, 1, size=3, planted={4: "high"})
    return b.graph(b.conv_of(y, 2))


def verified(graph: Graph, library: ModelLibrary) -> Any:
    """``hil verify --per-layer`` in this process, with the interpreter on the whole graph."""
    samples = list(inputs_of(graph, 3))
    oracle = Oracle("hilc", "", lambda index, sample: run_all(graph, sample))
    with hilc.host.load(library) as model:
        return verify(model, samples, oracle, board="host", per_layer=True)


@pytest.mark.full
@cases("optimize", ["balanced", "size"], first=1)
def test_each_layer_is_compared_with_what_it_holds(optimize: str) -> None:
    graph = net()
    library = hilc.compile(graph, optimize=optimize, choice=DEFAULT_CHOICE)
    (module,) = library.modules
    assert [layer.outputs[0].channels for layer in module.layers] == [(0, 2, 3, 5)] * 2 + [None]
    # At each of 16 places 27 weights for each of two channels, then 9, then 2 of the last layer.
    assert module.folded == folded_away(graph, fold_channels(graph).graph)
    assert (module.folded.channels, module.folded.macs) == (4, 16 * (2 * 27 + 2 * 9 + 2 * 2))
    report = verified(graph, library)
    assert report.match
    assert [len(layer.outputs) for layer in report.layers] == [1, 1, 1]
    whole = hilc.compile(
        graph, optimize=optimize, choice=DEFAULT_CHOICE, fold_constant_channels=False
    )
    assert all(layer.outputs[0].channels is None for layer in whole.modules[0].layers)
    assert whole.modules[0].folded.macs == 0
    assert verified(graph, whole).match
    macs = [sum(layer.macs for layer in lib.modules[0].layers) for lib in (library, whole)]
    assert macs[1] - macs[0] == module.folded.macs


def test_a_layer_with_wrong_channels_is_found() -> None:
    graph = net()
    library = hilc.compile(graph, choice=DEFAULT_CHOICE)
    (module,) = library.modules
    first = module.layers[0]
    wrong = replace(first.outputs[0], channels=(0, 2, 3, 4))
    layers = (replace(first, outputs=(wrong,)), *module.layers[1:])
    report = verified(graph, replace(library, modules=(replace(module, layers=layers),)))
    assert report.first_different_layer.index == 0
    assert all(output.mismatches == 0 for output in report.outputs)
    beyond = replace(first.outputs[0], channels=(0, 2, 3, 6))
    with pytest.raises(InputError, match="has channel 6 of a tensor of the shape"):
        beyond.held(np.zeros((1, 4, 4, 6)))
    with pytest.raises(InputError, match=r"of the shape \[\]"):
        beyond.held(np.zeros(()))


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        ((0, 2, 3), "channels of another shape"),
        ((0, 2, 2, 5), "channels out of order"),
        ((-1, 2, 3, 5), "channels out of order"),
        ((3, 2, 1, 0), "channels out of order"),
        ((0, 2, 3, 1 << 31), "channel 2147483648"),
    ],
)
def test_archives_with_wrong_channels_are_refused(channels: Sequence[int], says: str) -> None:
    (module,) = hilc.compile(net(), choice=DEFAULT_CHOICE).modules
    first = module.layers[0]
    outputs = (replace(first.outputs[0], channels=tuple(channels)),)
    bad = replace(module, layers=(replace(first, outputs=outputs), *module.layers[1:]))
    with pytest.raises(InputError, match=says):
        Module.from_json(bad.to_json(), "net.json")


def test_archives_keep_what_was_left_out() -> None:
    (module,) = hilc.compile(net()).modules
    assert Module.from_json(module.to_json(), "net.json") == module
    for changed, says in (
        (replace(module, folded=replace(module.folded, macs=-1)), "folded is out of range"),
        (replace(module, folded=replace(module.folded, channels=1 << 53)), "folded is out of"),
        (
            replace(module, inputs=(replace(module.inputs[0], channels=(0, 1, 2)),)),
            "input lacks channels",
        ),
    ):
        with pytest.raises(InputError, match=says):
            Module.from_json(changed.to_json(), "net.json")


def half_constant_file() -> bytes:
    """Two convolutions of single pixels; the first one's channels 0 and 3 are always zero."""
    rng = np.random.default_rng(4)
    b = ModelBuilder()
    b.input("x", (1, 3, 3, 2), "int8", 0.5, 3)
    b.const("w", rng.integers(-127, 128, (4, 1, 1, 2), np.int8), [0.01] * 4)
    b.const("b", np.array([-FAR, 5, 6, -FAR], np.int32), [0.005] * 4)
    b.tensor("t", (1, 3, 3, 4), "int8", 0.5, -128)
    b.const("v", rng.integers(-127, 128, (3, 1, 1, 4), np.int8), [0.01] * 3)
    b.const("c", np.zeros(3, np.int32), [0.005] * 3)
    b.output("y", (1, 3, 3, 3), "int8", 0.5, 0)
    sliding: dict[str, Any] = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    b.op("CONV_2D", ("x", "w", "b"), ("t",), activation="RELU", **sliding)
    b.op("CONV_2D", ("t", "v", "c"), ("y",), **sliding)
    return b.build()


def test_the_choice_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, archive = str(tmp_path / "net.tflite"), str(tmp_path / "net.tar")
    Path(model).write_bytes(half_constant_file())
    # Nine pixels of 4 * 2 and 3 * 4 weights; what is left out is half of both.
    assert main(["compile", model, "-o", archive, "--json"]) == 0
    data = entry(capsys.readouterr().out)
    assert (data["folded_channels"], data["folded_macs"], data["macs"]) == (2, 90, 90)
    assert main(["compile", model, "-o", archive]) == 0
    assert "2 channels with 90 of 180 MACs" in capsys.readouterr().out
    assert main(["compile", archive, "-o", archive, "--no-fold-constant-channels"]) == 2
    assert "so --no-fold-constant-channels cannot change it" in capsys.readouterr().err
    assert main(["compile", model, "-o", archive, "--no-fold-constant-channels", "--json"]) == 0
    data = entry(capsys.readouterr().out)
    assert (data["folded_channels"], data["folded_macs"], data["macs"]) == (0, 0, 180)


def test_half_of_the_visual_wake_words_is_constant() -> None:
    """On real images and on noise: every tensor that is left is what it was."""
    graph = run_passes(load_model(models.model_path("vww")))
    folded = fold_channels(graph)
    assert folded_away(graph, folded.graph) == Folded(channels=1714, macs=3751794)
    assert_the_same(graph, folded)
    (name,) = graph.inputs
    for image in models.samples("vww", 3):
        expected, got = run_all(graph, {name: image}), run_all(folded.graph, {name: image})
        for node in folded.graph.nodes:
            np.testing.assert_array_equal(got[node.name], held(expected, folded, node.name))


def test_a_graph_of_a_million_channels_stays_as_it_is() -> None:
    """A file of 400 bytes can have as many; each took 60 bytes and a turn of a loop."""
    b = ModelBuilder()
    b.input("x", (1, 1 << 20), "int8", 0.5, 0)
    b.output("y", (1, 1 << 20), "int8", 0.5, 0)
    b.op("RELU", ("x",), ("y",))
    graph = run_passes(load_model(b.build()))
    tracemalloc.start()
    try:
        assert fold_channels(graph).graph is graph
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("model", ["ad", "kws", "ic"])
def test_models_without_constant_channels_stay(model: str) -> None:
    graph = run_passes(load_model(models.model_path(model)))
    assert fold_channels(graph).graph is graph
