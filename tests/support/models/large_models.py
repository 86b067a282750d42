"""Networks of the size that phones run, as TFLite files with random weights.

They have the layers and shapes of the published networks, so that what the compiler takes for a
model of that size can be measured without the model. Weights and scales are such that activations
use their range: nothing is the same for every input.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tflite_builder import ModelBuilder

from hilc.ir import Array

#: Scale and zero point of activations, and those behind a ReLU.
_LINEAR, _POSITIVE = (0.05, -3), (0.05, -128)


class _Network:
    """Appends layers to a model; each method returns the name of what it made."""

    def __init__(self, size: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._builder = ModelBuilder()
        self._quant: dict[str, tuple[float, int]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._rectified: dict[str, str] = {}
        self.input = self._made("input", (1, size, size, 3), _LINEAR, is_input=True)

    def channels(self, name: str) -> int:
        return self._shapes[name][-1]

    def height(self, name: str) -> int:
        return self._shapes[name][1]

    def conv(
        self, x: str, channels: int, size: int = 1, stride: int = 1, activation: str = "NONE"
    ) -> str:
        depth = self.channels(x)
        return self._linear("CONV_2D", x, (channels, size, size, depth), 0, stride, activation)

    def depthwise(self, x: str, size: int, stride: int = 1, activation: str = "NONE") -> str:
        shape = (1, size, size, self.channels(x))
        return self._linear("DEPTHWISE_CONV_2D", x, shape, 3, stride, activation)

    def pool(self, x: str, op: str, size: int, stride: int) -> str:
        sides: dict[str, Any] = {
            "filter_h": size,
            "filter_w": size,
            "stride_h": stride,
            "stride_w": stride,
        }
        shape = self._strided(x, stride, self.channels(x))
        return self._op(op, [x], shape, padding="SAME", **sides)

    def relu(self, x: str) -> str:
        """A converter merges those of the same tensor."""
        if x not in self._rectified:
            self._rectified[x] = self._op("RELU", [x], self._shapes[x], _POSITIVE)
        return self._rectified[x]

    def add(self, a: str, b: str, activation: str = "NONE") -> str:
        quant = _LINEAR if activation == "NONE" else _POSITIVE
        return self._op("ADD", [a, b], self._shapes[a], quant, activation=activation)

    def concat(self, parts: list[str]) -> str:
        shape = (*self._shapes[parts[0]][:-1], sum(map(self.channels, parts)))
        return self._op("CONCATENATION", parts, shape, axis=3, activation="NONE")

    def shifted(self, x: str) -> str:
        """``x`` moved up and left by a pixel: PAD and STRIDED_SLICE."""
        batch, height, width, channels = self._shapes[x]
        pads = self._const("pads", np.array([[0, 0], [0, 1], [0, 1], [0, 0]], np.int32))
        padded = self._op(
            "PAD", [x, pads], (batch, height + 1, width + 1, channels), self._quant[x]
        )
        ends = ((0, 1, 1, 0), (batch, height + 1, width + 1, channels), (1, 1, 1, 1))
        slices = [self._const("slice", np.array(end, np.int32)) for end in ends]
        return self._op("STRIDED_SLICE", [padded, *slices], self._shapes[x], self._quant[x])

    def classifier(self, x: str, classes: int) -> bytes:
        """The mean of the image, a fully connected layer and a softmax: the file."""
        axes = self._const("axes", np.array([1, 2], np.int32))
        x = self._op("MEAN", [x, axes], (1, self.channels(x)), keep_dims=False)
        x = self._linear("FULLY_CONNECTED", x, (classes, self.channels(x)), 0)
        y = self._op("SOFTMAX", [x], (1, classes), (1 / 256, -128), beta=1.0)
        self._builder.output(y)
        return self._builder.build()

    def _linear(
        self,
        op: str,
        x: str,
        weights: tuple[int, ...],
        axis: int,
        stride: int | None = None,
        activation: str = "NONE",
    ) -> str:
        channels = weights[axis]
        depth = int(np.prod(weights)) // channels
        # Sums of this standard deviation become a quarter of the output's range.
        factor = 40 / (30 * 50 * depth**0.5)
        quant = _LINEAR if activation == "NONE" else _POSITIVE
        scales = factor * self._rng.uniform(0.6, 1.4, channels) * quant[0] / self._quant[x][0]
        values = np.clip(np.rint(self._rng.normal(0, 30, weights)), -127, 127).astype(np.int8)
        bias = self._rng.integers(-999, 999, channels).astype(np.int32)
        operands = [
            x,
            self._const("weights", values, scales, axis),
            self._const("bias", bias, scales * self._quant[x][0]),
        ]
        attrs: dict[str, Any] = {"activation": activation}
        shape: tuple[int, ...] = (1, channels)
        if stride is not None:
            shape = self._strided(x, stride, channels)
            attrs |= {"stride_h": stride, "stride_w": stride, "padding": "SAME"}
        if op == "DEPTHWISE_CONV_2D":
            attrs["depth_multiplier"] = 1
        return self._op(op, operands, shape, quant, **attrs)

    def _strided(self, x: str, stride: int, channels: int) -> tuple[int, ...]:
        batch, height, width, _ = self._shapes[x]
        return batch, -(-height // stride), -(-width // stride), channels

    def _op(
        self,
        op: str,
        inputs: list[str],
        shape: tuple[int, ...],
        quant: tuple[float, int] | None = None,
        **attrs: Any,
    ) -> str:
        name = self._made(
            f"{op.lower()}_{len(self._shapes)}", shape, quant or self._quant[inputs[0]]
        )
        self._builder.op(op, inputs, (name,), **attrs)
        return name

    def _made(
        self, name: str, shape: tuple[int, ...], quant: tuple[float, int], is_input: bool = False
    ) -> str:
        self._shapes[name], self._quant[name] = shape, quant
        declare = self._builder.input if is_input else self._builder.tensor
        return declare(name, shape, "int8", *quant)

    def _const(self, kind: str, data: Array, scale: Array | None = None, axis: int = 0) -> str:
        name = f"{kind}_{len(self._builder.tensors)}"
        return self._builder.const(name, data, scale, axis=axis)


@cache
def mobilenet_v2(size: int = 224, width: float = 1.0, classes: int = 1000) -> bytes:
    """MobileNetV2: 66 layers; 1.0 at 224 x 224 has 300 M multiply-accumulates."""
    net = _Network(size, seed=1)
    x = net.conv(net.input, _divisible(32 * width), 3, 2, "RELU6")
    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
    )
    for expansion, channels, count, first_stride in (*blocks, (6, 320, 1, 1)):
        for index in range(count):
            stride = 1 if index else first_stride
            x = _inverted(net, x, expansion, _divisible(channels * width), 3, stride)
    # The last layer is no narrower than that of width 1.
    return net.classifier(net.conv(x, 1280, activation="RELU6"), classes)


def _divisible(channels: float) -> int:
    """``channels`` as a multiple of 8, at least 90 % of them."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


def _inverted(net: _Network, x: str, expansion: int, channels: int, size: int, stride: int) -> str:
    """An inverted residual block."""
    y = x if expansion == 1 else net.conv(x, expansion * net.channels(x), activation="RELU6")
    y = net.conv(net.depthwise(y, size, stride, "RELU6"), channels)
    return net.add(x, y) if stride == 1 and channels == net.channels(x) else y


@cache
def efficientnet_lite(size: int = 96, width: float = 0.35, classes: int = 10) -> bytes:
    """EfficientNet-lite0, which has no squeeze and excitation: 16 blocks, windows of 3 and 5."""
    net = _Network(size, seed=6)
    x = net.conv(net.input, _divisible(32 * width), 3, 2, "RELU6")
    blocks = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    for expansion, channels, count, first_stride, window in blocks:
        for index in range(count):
            stride = 1 if index else first_stride
            x = _inverted(net, x, expansion, _divisible(channels * width), window, stride)
    return net.classifier(net.conv(x, _divisible(1280 * width), activation="RELU6"), classes)


@cache
def mcunet_like(size: int = 160, classes: int = 1000) -> bytes:
    """A network as MCUNet's search finds them: inverted residual blocks with windows of 3, 5 and 7
    and various expansions, 55 layers.
    """
    net = _Network(size, seed=4)
    x = net.conv(net.input, 16, 3, 2, "RELU6")
    x = _inverted(net, x, 1, 8, 3, 1)
    stages = (
        (16, 2, ((3, 7), (6, 3), (5, 3))),
        (24, 2, ((5, 5), (5, 5), (4, 3))),
        (40, 2, ((5, 7), (5, 5), (3, 3))),
        (48, 1, ((5, 3), (4, 5))),
        (96, 2, ((6, 7), (5, 5), (4, 3))),
        (160, 1, ((6, 5),)),
    )
    for channels, first_stride, blocks in stages:
        for index, (expansion, window) in enumerate(blocks):
            stride = 1 if index else first_stride
            x = _inverted(net, x, expansion, channels, window, stride)
    return net.classifier(x, classes)


@cache
def resnet18_tiny(size: int = 64, width: int = 16, classes: int = 200) -> bytes:
    """ResNet-18 for small images, at a quarter of its channels: 31 layers."""
    net = _Network(size, seed=5)
    x = net.conv(net.input, width, 3, 1, "RELU")
    for stage in range(4):
        for index in range(2):
            channels, stride = width << stage, 2 if stage and not index else 1
            y = net.conv(net.conv(x, channels, 3, stride, "RELU"), channels, 3)
            short = net.conv(x, channels, 1, stride) if stride > 1 else x
            x = net.add(short, y, "RELU")
    return net.classifier(x, classes)


@cache
def resnet50() -> bytes:
    """ResNet-50 at 32 x 32: 74 layers, 25 million weights."""
    net = _Network(32, seed=2)
    x = net.pool(net.conv(net.input, 64, 7, 2, "RELU"), "MAX_POOL_2D", 3, 2)
    for channels, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(count):
            stride = 2 if index == 0 and channels > 64 else 1
            skipped = net.conv(x, 4 * channels, 1, stride) if index == 0 else x
            x = net.conv(net.conv(x, channels, 1, stride, "RELU"), channels, 3, 1, "RELU")
            x = net.add(net.conv(x, 4 * channels), skipped, "RELU")
    return net.classifier(x, 1000)


@cache
def nasnet_mobile(size: int = 224, cells: int = 4) -> bytes:
    """NASNet-A 4 @ 1056 at 224 x 224: separable convolutions, joined by additions and
    concatenations, in cells that read the two cells before them; or one of fewer and smaller."""
    net = _Network(size, seed=3)
    before, x = None, net.conv(net.input, 32, 3, 2)
    for filters in (11, 22):
        before, x = x, _reduction_cell(net, x, before, filters)
    for filters in (44, 88, 176):
        if filters > 44:
            before, x = x, _reduction_cell(net, x, before, filters)
        for _ in range(cells):
            before, x = x, _normal_cell(net, x, before, filters)
    return net.classifier(net.relu(x), 1000)


def _separable(net: _Network, x: str, filters: int, size: int, stride: int = 1) -> str:
    """Two separable convolutions, each behind a ReLU."""
    x = net.conv(net.depthwise(net.relu(x), size, stride), filters, activation="RELU")
    return net.conv(net.depthwise(x, size), filters)


def _adjusted(net: _Network, x: str, like: str, filters: int) -> str:
    """``x`` with ``filters`` channels, in the size of ``like``."""
    positive = net.relu(x)
    if net.height(x) == net.height(like):
        return net.conv(positive, filters)
    halves = [net.pool(p, "AVERAGE_POOL_2D", 1, 2) for p in (positive, net.shifted(positive))]
    return net.concat([net.conv(half, filters // 2) for half in halves])


def _normal_cell(net: _Network, x: str, before: str, filters: int) -> str:
    p, h = _adjusted(net, before, x, filters), net.conv(net.relu(x), filters)
    averages = [net.pool(source, "AVERAGE_POOL_2D", 3, 1) for source in (h, p)]
    return net.concat(
        [
            p,
            net.add(_separable(net, h, filters, 5), _separable(net, p, filters, 3)),
            net.add(_separable(net, p, filters, 5), _separable(net, p, filters, 3)),
            net.add(averages[0], p),
            net.add(averages[1], averages[1]),
            net.add(_separable(net, h, filters, 3), h),
        ]
    )


def _reduction_cell(net: _Network, x: str, before: str | None, filters: int) -> str:
    p = net.conv(net.relu(x), filters) if before is None else _adjusted(net, before, x, filters)
    h = net.conv(net.relu(x), filters)
    first = net.add(_separable(net, h, filters, 5, 2), _separable(net, p, filters, 7, 2))
    most = net.pool(h, "MAX_POOL_2D", 3, 2)
    second = net.add(most, _separable(net, p, filters, 7, 2))
    third = net.add(net.pool(h, "AVERAGE_POOL_2D", 3, 2), _separable(net, p, filters, 5, 2))
    fourth = net.add(net.pool(first, "AVERAGE_POOL_2D", 3, 1), second)
    fifth = net.add(_separable(net, first, filters, 3), most)
    return net.concat([second, third, fourth, fifth])
