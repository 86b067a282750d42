"""Packed weights lie as the heads of the kernels draw them, byte by byte.

The kernels' results are tested elsewhere; here each drawing is read as a stranger reads it, so that
packing, assembly and drawing cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from campaigns import cases
from kernel_layers import conv, depthwise, rectified, tamed
from linear_layers import Layer, make_layer

from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.lowering.mve.packing import line_pairs
from hilc.lowering.parameters import HilOutputRange, HilRequantization
from hilc.numerics.requantize import requantize
from hilc.target import get_cpu

PORTABLE = ("hil_generic_matmul_s8", "hil_generic_conv2d_s8", "hil_generic_depthwise_conv2d_s8")
HELIUM, DSP, ARMV7M, ARMV6M = "cortex-m55", "cortex-m4", "cortex-m3", "cortex-m0"
#: Elements of a unit of four in the order in which widening leaves them.
UNIT = (0, 2, 1, 3)
FOURS = ((0, 4, 8, 12), (2, 6, 10, 14), (1, 5, 9, 13), (3, 7, 11, 15))


@dataclass(frozen=True)
class Packed:
    """A call for a layer, with the layer's numbers as the portable kernel has them."""

    fields: dict[str, Any]
    #: ``[channels, depth]``, depth in the order of the filter's rows, columns, channels.
    weights: npt.NDArray[np.int64]
    bias: npt.NDArray[np.int64]
    multipliers: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    #: Of the portable kernel, which has the zero point and bounds of the outputs.
    portable: dict[str, Any]

    @property
    def stream(self) -> bytes:
        return bytes(self.fields["stream"].tobytes())

    def weight(self, channel: int, element: int) -> int:
        """0 for what fills a chunk, a unit or a block up."""
        count, depth = self.weights.shape
        return int(self.weights[channel, element]) if channel < count and element < depth else 0

    def of(self, name: str, channel: int) -> int:
        values = getattr(self, name)
        return int(values[channel]) if channel < len(values) else 0

    def exact(self, channel: int, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The outputs of sums, bias included, by the reference's rounding."""
        factor, shift = self.of("multipliers", channel), self.of("shifts", channel)
        values = requantize(sums, factor, shift) + self.portable["out_zero_point"]
        low, high = (self.portable[name] for name in ("out_min", "out_max"))
        outputs: npt.NDArray[np.int64] = np.clip(values, low, high)
        return outputs


def packed(layer: Layer, cpu: str, kernel: str, **wanted: Any) -> Packed:
    """The call of ``kernel`` whose fields are as ``wanted``."""
    calls = candidates(layer.node, layer.ins, (layer.out,), get_cpu(cpu))
    found = [call for call in calls if isinstance(call, KernelCall)]
    (portable,) = (call.fields for call in found if call.kernel.name in PORTABLE)
    (fields,) = (
        call.fields
        for call in found
        if call.kernel.name == kernel
        and all(call.fields[name] == value for name, value in wanted.items())
    )
    w = layer.ins[1]
    assert w is not None
    assert w.data is not None
    data = w.data.astype(np.int64)
    count = layer.out.shape[-1]
    columns = np.moveaxis(data, -1, 0) if layer.node.op[0] == "D" else data
    numbers = [
        np.broadcast_to(np.asarray(portable[name], np.int64), count)
        for name in ("bias", "multipliers", "shifts")
    ]
    bias, multipliers, shifts = numbers
    weights = columns.reshape(count, -1)
    return Packed(dict(fields), weights, bias, multipliers, shifts, dict(portable))


def a_layer(op: str, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]) -> Layer:
    """A layer whose outputs all vary with its input: channels that do not are packed as others."""
    rng = np.random.default_rng(8)
    layer = rectified(tamed(make_layer(rng, op, "int8", x, w, attrs)))
    _, weights, *rest = layer.ins
    small = [
        replace(b, data=np.clip(b.data, -3000, 3000))
        for b in rest
        if b is not None and b.data is not None
    ]
    return replace(layer, ins=(layer.ins[0], weights, *small))


def pixels(depth: int, count: int, activation: str = "RELU", rows: int = 6) -> Layer:
    attrs = conv("VALID", activation=activation)
    return a_layer("CONV_2D", (1, 1, rows, depth), (count, 1, 1, depth), attrs)


def row(depth: int, count: int, activation: str = "RELU") -> Layer:
    return a_layer("FULLY_CONNECTED", (1, depth), (count, depth), {"activation": activation})


def windows(depth: int, count: int, activation: str = "RELU") -> Layer:
    attrs = conv("SAME", activation=activation)
    return a_layer("CONV_2D", (1, 5, 8, depth), (count, 3, 3, depth), attrs)


def planes(count: int, activation: str = "RELU") -> Layer:
    attrs = depthwise(1, activation=activation)
    return a_layer("DEPTHWISE_CONV_2D", (1, 5, 6, count), (1, 3, 3, count), attrs)


def int32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little", signed=True)


def int16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little", signed=True)


def int8(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 1], "little", signed=True)


# Helium -----------------------------------------------------------------------------------------


def check_scales_of_sixteen(p: Packed, at: int, channels: list[int]) -> int:
    """What requantizes sixteen sums, of ``channels`` by place; where it ends."""
    data = p.stream
    for pair in range(2):
        fours = [[channels[c] for c in FOURS[2 * pair + i]] for i in (0, 1)]
        if p.fields["first"]:
            for place, channel in enumerate([*fours[0], *fours[1]]):
                assert int32(data, at + 4 * place) == p.of("multipliers", channel)
            turns = [c for both in zip(*fours, strict=True) for c in both]
            for place, channel in enumerate(turns):
                assert int16(data, at + 32 + 2 * place) == p.of("shifts", channel)
            at += 48
            continue
        for four in fours:
            for place, channel in enumerate(four):
                assert int32(data, at + 4 * place) == p.of("multipliers", channel)
                assert int32(data, at + 16 + 4 * place) == p.of("shifts", channel)
            at += 32
    return at


@pytest.mark.parametrize("depth", [5, 33, 64, 128])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_pixels_by_sixteen_columns(depth: int, activation: str) -> None:
    p = packed(pixels(depth, 21, activation), HELIUM, "hil_mve_matmul_s8_2x16", staged=0)
    check_pixels(p, turned=False)


@pytest.mark.parametrize("depth", [5, 33, 64, 70, 128])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_pairs_of_pixels_by_four_columns(depth: int, activation: str) -> None:
    p = packed(pixels(depth, 21, activation), HELIUM, "hil_mve_matmul_s8_2x4")
    assert p.fields["chunks"] == -(-depth // 16)
    check_pixels(p, turned=True)


def check_pixels(p: Packed, *, turned: bool) -> None:
    """The stream of pairs of pixels by sixteen of 21 columns, of which every other four has the
    last chunks first where they are ``turned``.
    """
    data, n, at = p.stream, p.fields["chunks"], 0
    twos = [list(range(n))[first : first + 2] for first in range(0, n, 2)]
    back = [chunk for two in reversed(twos) for chunk in two]
    for group in range(2):
        for number, four in enumerate(FOURS):
            order = back if turned and number % 2 else range(n)
            for i, place in enumerate(four):
                channel = 16 * group + place
                assert int32(data, at + 4 * i) == p.of("bias", channel)
                assert int32(data, at + 16 + 4 * i) == p.of("bias", channel)
                for position, chunk in enumerate(order):
                    for lane in range(16):
                        weight = p.weight(channel, 16 * chunk + lane)
                        assert int8(data, at + 32 + 64 * position + 16 * i + lane) == weight
            at += 32 + 64 * n
        at = check_scales_of_sixteen(p, at, [16 * group + c for c in range(16)])
    assert at == len(data) == 2 * ((224 if p.fields["first"] else 256) + 256 * n)


@pytest.mark.parametrize("depth", [8, 16])
def test_rows_of_few_elements_by_pairs_of_columns(depth: int) -> None:
    layer = rectified(tamed(a_layer("CONV_2D", (1, 4, 5, depth), (6, 1, 1, depth), conv("SAME"))))
    p = packed(layer, HELIUM, "hil_mve_matmul_s8_8x2", block=32)
    data, at = p.stream, 0
    for first in (0, 2, 4):
        for i in (0, 1):
            channel = first + i
            for copy in range(4):
                assert int32(data, at + 16 * i + 4 * copy) == p.of("bias", channel)
            for half in range(16 // depth):
                row = at + 32 + 16 * (i * (16 // depth) + half)
                for lane in range(16):
                    inside = lane // depth == half
                    expected = p.weight(channel, lane % depth) if inside else 0
                    assert int8(data, row + lane) == expected
            shift = p.of("shifts", channel)
            assert int32(data, at + 96 + 4 * i) == p.of("multipliers", channel)
            assert int32(data, at + 104 + 4 * i) == shift
            assert int32(data, at + 112 + 4 * i) == (-255 << -shift - 1)
        at += 120
    assert at == len(data)


def test_windows_by_pairs_of_columns() -> None:
    layer = rectified(tamed(a_layer("CONV_2D", (1, 6, 16, 3), (6, 3, 3, 3), conv("SAME"))))
    p = packed(layer, HELIUM, "hil_mve_conv2d_s8_rgb_copied", lines=6)
    data, at = p.stream, 0
    for first in (0, 2, 4):
        for i in (0, 1):
            channel = first + i
            for copy in range(4):
                assert int32(data, at + 16 * i + 4 * copy) == p.of("bias", channel)
            for lane in range(32):
                expected = p.weight(channel, lane) if lane < 27 else 0
                assert int8(data, at + 32 + 32 * i + lane) == expected
            shift = p.of("shifts", channel)
            assert int32(data, at + 96 + 4 * i) == p.of("multipliers", channel)
            assert int32(data, at + 104 + 4 * i) == shift
            assert int32(data, at + 112 + 4 * i) == (-255 << -shift - 1)
        at += 120
    assert at == len(data)
    assert (p.fields["before"], p.fields["direct"]) == (1, 11)


@pytest.mark.parametrize("depth", [5, 33, 160])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_four_pixels_by_sixteen_columns(depth: int, activation: str) -> None:
    p = packed(pixels(depth, 21, activation), HELIUM, "hil_mve_matmul_s8_4x4")
    assert p.fields["first"] == (activation == "RELU")
    data, n, at = p.stream, p.fields["chunks"], 0
    for chunk in range(n):
        for group in range(2):
            for four in FOURS:
                channels = [16 * group + place for place in four]
                for i, channel in enumerate(channels):
                    for lane in range(16):
                        expected = p.weight(channel, 16 * chunk + lane)
                        assert int8(data, at + 16 * i + lane) == expected
                    if chunk == 0:
                        assert int32(data, at + 64 + 4 * i) == p.of("bias", channel)
                        assert int32(data, at + 80 + 4 * i) == p.of("bias", channel)
                at += 64 if chunk else 96
    for group in range(2):
        at = check_scales_of_sixteen(p, at, [16 * group + c for c in range(16)])
    assert at == len(data)


@pytest.mark.parametrize("depth", [33, 160])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_six_pixels_by_sixteen_columns(depth: int, activation: str) -> None:
    p = packed(pixels(depth, 21, activation), HELIUM, "hil_mve_matmul_s8_6x4")
    check_sixes(p)


@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_pairs_of_windows_by_four_columns(activation: str) -> None:
    attrs = conv("SAME", 2, activation)
    layer = a_layer("CONV_2D", (1, 13, 7, 2), (21, 3, 4, 2), attrs)
    p = packed(layer, HELIUM, "hil_mve_conv2d_s8_gathered_2x4")
    check_pixels(p, turned=True)
    assert p.fields["row_bytes"] == 2 * (2 * 3 + 4)
    taps = p.fields["taps"].tolist()
    for element in range(32):
        row, column = divmod(element, 8)
        assert taps[element] == (20 * row + column if element < 24 else 0)


def check_sixes(p: Packed) -> None:
    """The stream of six pixels by sixteen of 21 columns."""
    data, n, at = p.stream, p.fields["chunks"], 0
    for chunk in range(n):
        for group in range(2):
            for four in FOURS:
                channels = [16 * group + place for place in four]
                for i, channel in enumerate(channels):
                    where = at + 16 * (i if chunk else (1, 0, 2, 3)[i])
                    for lane in range(16):
                        assert int8(data, where + lane) == p.weight(channel, 16 * chunk + lane)
                    if chunk == 0:
                        for place in (0, 1, 4, 5):
                            word = at + 64 + 32 * (i // 2) + 8 * (i % 2) + 4 * place
                            assert int32(data, word) == p.of("bias", channel)
                at += 64 if chunk else 128
    for group in range(2):
        at = check_scales_of_sixteen(p, at, [16 * group + c for c in range(16)])
    assert at == len(data)


@pytest.mark.parametrize("shift", range(-31, 0))
def test_products_that_saturate_before_a_near_shift(shift: int) -> None:
    """What `_first` functions do to a product, and how far that may be from its output."""
    products = np.concatenate([np.arange(-300, 70_000), 2 ** np.arange(16, 30)]).astype(np.int64)
    exact = np.clip(requantize(2 * products, 2**30, shift) - 128, -128, 127)
    kept = np.clip(products, 0, 65_535)
    narrowed = np.clip((kept + (1 << (-shift - 1))) >> -shift, 0, 255) - 128
    fits = (products < 1 << 16) | (shift >= -8)
    np.testing.assert_array_equal(narrowed[fits], exact[fits])
    assert shift >= -8 or shift < -23 or not np.array_equal(narrowed, exact)


#: Bytes of a window of 3x3 pixels of three channels in the order of the lanes of both chunks.
RGB_LANES = [*range(9), *range(9, 16), *range(18, 27), 16, 17]


@pytest.mark.parametrize("kernel", ["hil_mve_conv2d_s8_gathered_2x16", "hil_mve_conv2d_s8_rgb"])
def test_eight_columns_of_two_pixels(kernel: str) -> None:
    attrs = conv("SAME")
    layer = a_layer("CONV_2D", (1, 6, 16, 3), (8, 3, 3, 3), attrs)
    p = packed(layer, HELIUM, kernel, **({"lines": 1} if "gathered" in kernel else {}))
    assert p.fields["eight"] == 1
    elements = RGB_LANES if "rgb" in kernel else list(range(27))
    data, at = p.stream, 0
    for four in ((0, 4, 2, 6), (1, 5, 3, 7)):
        a, b, c, d = four
        for i, channel in enumerate((a, b, a, b, c, d, c, d)):
            assert int32(data, at + 4 * i) == p.of("bias", channel)
        for i, channel in enumerate(four):
            for lane in range(32):
                where = at + 32 + 64 * (lane // 16) + 16 * i + lane % 16
                expected = p.weight(channel, elements[lane]) if lane < 27 else 0
                assert int8(data, where) == expected
        at += 160
    at = check_scales_of_sixteen(p, at, [c % 8 for c in range(16)])
    assert at == len(data) == (416 if p.fields["first"] else 448)


def test_rgb_windows_by_sixteen_columns() -> None:
    layer = a_layer("CONV_2D", (1, 6, 16, 3), (16, 3, 3, 3), conv("SAME"))
    p = packed(layer, HELIUM, "hil_mve_conv2d_s8_rgb")
    data = p.stream
    for at, four in zip(range(0, 640, 160), FOURS, strict=True):
        for i, channel in enumerate(four):
            for lane, element in enumerate(RGB_LANES):
                where = at + 32 + 64 * (lane // 16) + 16 * i + lane % 16
                assert int8(data, where) == p.weight(channel, element)
    assert len(data) == (736 if p.fields["first"] else 768)


def test_rows_by_pairs_of_columns() -> None:
    p = packed(pixels(40, 5), HELIUM, "hil_mve_matmul_s8")
    data, n = p.stream, p.fields["chunks"]
    pairs = [(0, 1), (2, 3), (4, 4)]
    assert len(data) == len(pairs) * (32 * n + 28)
    for at, pair in zip(range(0, len(data), 32 * n + 28), pairs, strict=True):
        for i, channel in enumerate(pair):
            for element in range(16 * n):
                where = at + 32 * (element // 16) + 16 * i + element % 16
                assert int8(data, where) == p.weight(channel, element)
            for word, name in enumerate(("bias", "multipliers", "shifts")):
                assert int32(data, at + 32 * n + 8 * word + 4 * i) == p.of(name, channel)
        assert int32(data, at + 32 * n + 24) == 2


@pytest.mark.parametrize("uniform", [0, 1])
def test_a_row_by_eight_columns(uniform: int) -> None:
    layer = row(40, 11)
    x, weights, *rest = layer.ins
    assert weights is not None
    assert weights.quant is not None
    scales = tuple(0.002 + 0.001 * i for i in range(1 if uniform else 11))
    quant = replace(weights.quant, scale=scales, zero_point=(0,) * len(scales))
    layer = replace(layer, ins=(x, replace(weights, quant=quant), *rest))
    p = packed(layer, HELIUM, "hil_mve_matvec_s8")
    assert p.fields["uniform"] == uniform
    data, n, at = p.stream, p.fields["chunks"], 0
    for group in range(2):
        order = [8 * group + c for c in (0, 2, 4, 6, 1, 3, 5, 7)]
        for i, channel in enumerate(order):
            for element in range(16 * n):
                where = at + 128 * (element // 16) + 16 * i + element % 16
                assert int8(data, where) == p.weight(channel, element)
            assert int32(data, at + 128 * n + 4 * i) == p.of("bias", channel)
            if not uniform:
                assert int32(data, at + 128 * n + 32 + 4 * i) == p.of("multipliers", channel)
                assert int32(data, at + 128 * n + 64 + 4 * i) == p.of("shifts", channel)
        if uniform:
            assert int32(data, at + 128 * n + 32) == p.of("multipliers", 0)
            assert int32(data, at + 128 * n + 36) == p.of("shifts", 0)
        at += 128 * n + (40 if uniform else 96)
    assert at == len(data)


@pytest.mark.parametrize("uniform", [0, 1])
def test_a_row_by_sixteen_columns(uniform: int) -> None:
    layer = row(40, 21)
    x, weights, *rest = layer.ins
    assert weights is not None
    assert weights.quant is not None
    scales = tuple(0.002 + 0.001 * i for i in range(1 if uniform else 21))
    quant = replace(weights.quant, scale=scales, zero_point=(0,) * len(scales))
    layer = replace(layer, ins=(x, replace(weights, quant=quant), *rest))
    p = packed(layer, HELIUM, "hil_mve_matvec_s8_two_passes")
    assert p.fields["uniform"] == uniform
    data, n, at = p.stream, p.fields["chunks"], 0
    scale = p.fields["scale"].tolist()
    if uniform:
        assert scale == [p.of("multipliers", 0), p.of("shifts", 0)]
    for first in (0, 16):
        fours = [[first + offset + 4 * i for i in range(4)] for offset in (0, 2, 1, 3)]
        for eight in (0, 1):
            order = [*fours[2 * eight], *fours[2 * eight + 1]]
            for i, channel in enumerate(order):
                inside = channel < 21
                assert int32(data, at + 4 * i) == (p.of("bias", channel) if inside else 0)
                for element in range(16 * n):
                    where = at + 32 + 128 * (element // 16) + 16 * i + element % 16
                    assert int8(data, where) == (p.weight(channel, element) if inside else 0)
                if inside and not uniform:
                    place = 32 * (first // 16) + 16 * eight + 8 * (i // 4) + i % 4
                    assert scale[place] == p.of("multipliers", channel)
                    assert scale[place + 4] == p.of("shifts", channel)
            at += 32 + 128 * n
    assert at == len(data)


@pytest.mark.parametrize("depth", [16, 32])
def test_windows_by_pairs_of_filters(depth: int) -> None:
    p = packed(windows(depth, 4), HELIUM, "hil_mve_conv2d_s8_3x3")
    data, n, at = p.stream, depth // 16, 0
    for first in (0, 2):
        for element in range(9 * depth):
            line, tap, channel = element // (3 * depth), element // depth % 3, element % depth
            for i in (0, 1):
                where = at + 96 * (n * line + channel // 16) + 48 * i + 16 * tap + channel % 16
                assert int8(data, where) == p.weight(first + i, element)
        for i in (0, 1):
            for word, name in enumerate(("bias", "multipliers", "shifts")):
                assert int32(data, at + 288 * n + 8 * word + 4 * i) == p.of(name, first + i)
        assert int32(data, at + 288 * n + 24) == p.portable["out_zero_point"]
        at += 288 * n + 28
    assert at == len(data)


@pytest.mark.parametrize("depth", [7, 16, 24])
def test_rows_of_windows_by_pairs_of_filters(depth: int) -> None:
    layer = windows(depth, 4)
    p = packed(layer, HELIUM, "hil_mve_conv2d_s8_rows", lines=layer.out.shape[1])
    # Two rows of up to eight channels are a pass.
    rows, lanes = (2, 8) if depth <= 8 else (1, 16)
    data, n, at = p.stream, -(-depth // 16), 0
    passes = 2 if rows == 2 else 3 * n
    assert (p.fields["chunks"], p.fields["passes"]) == (n, passes)
    for first in (0, 2):
        for i in (0, 1):
            for copy in range(4):
                assert int32(data, at + 16 * i + 4 * copy) == p.of("bias", first + i)
        for part, i, tap, lane in np.ndindex(passes, 2, 3, 16):
            where = at + 32 + 96 * part + 48 * i + 16 * tap + lane
            line = part // n * rows + lane // lanes
            channel = part % n * 16 + lane % lanes
            element = depth * (3 * line + tap) + channel
            inside = channel < depth and line < 3
            assert int8(data, where) == (p.weight(first + i, element) if inside else 0)
        for i in (0, 1):
            for word, name in enumerate(("multipliers", "shifts")):
                where = at + 32 + 96 * passes + 8 * word + 4 * i
                assert int32(data, where) == p.of(name, first + i)
        at += 48 + 96 * passes
    assert at == len(data)


@pytest.mark.parametrize("taps", [1, 2])
def test_pairs_of_filters_of_a_phase(taps: int) -> None:
    rng = np.random.default_rng(8)
    filters = rng.integers(-127, 128, (3, 2, taps, 20)).astype(np.int8)
    multipliers, shifts = rng.integers(1 << 30, 1 << 31, 3), rng.integers(-9, -1, 3)
    outputs = HilRequantization(
        output_range=HilOutputRange(out_zero_point=0, out_min=-128, out_max=127),
        per_channel=1,
        narrow=0,
        bias=rng.integers(-3000, 3000, 3).astype(np.int32),
        multipliers=multipliers.astype(np.int32),
        shifts=shifts.astype(np.int32),
    )
    data, passes = bytes(line_pairs(filters, outputs).tobytes()), 2 * 2
    pair_bytes = 48 + 32 * taps * passes
    assert len(data) == 2 * pair_bytes
    # The last filter makes a pair with the one before it.
    for at, pair in ((0, (0, 1)), (pair_bytes, (1, 2))):
        for i, channel in enumerate(pair):
            for copy in range(4):
                assert int32(data, at + 16 * i + 4 * copy) == outputs.bias[channel]
            for line, chunk, tap, lane in np.ndindex(2, 2, taps, 16):
                where = at + 32 + 32 * taps * (2 * line + chunk) + 16 * (taps * i + tap) + lane
                inside = 16 * chunk + lane < 20
                weight = filters[channel, line, tap, 16 * chunk + lane] if inside else 0
                assert int8(data, where) == weight
            scales = at + 32 + 32 * taps * passes
            assert int32(data, scales + 4 * i) == multipliers[channel]
            assert int32(data, scales + 8 + 4 * i) == shifts[channel]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_small_windows_by_pairs_of_filters(depth: int) -> None:
    layer = windows(depth, 3)
    # Of 9, 18 and 27 values.
    size = 16 if depth == 1 else 32
    p = packed(layer, HELIUM, "hil_mve_conv2d_s8_windows", lines=layer.out.shape[1])
    assert p.fields["bytes"] == size
    data = p.stream
    assert len(data) == 2 * 112
    # The last filter makes a pair with the one before it.
    for at, pair in ((0, (0, 1)), (112, (1, 2))):
        for i, channel in enumerate(pair):
            for copy in range(4):
                assert int32(data, at + 16 * i + 4 * copy) == p.of("bias", channel)
            for lane in range(size):
                assert int8(data, at + 32 + size * i + lane) == p.weight(channel, lane)
            for word, name in enumerate(("multipliers", "shifts")):
                assert int32(data, at + 96 + 8 * word + 4 * i) == p.of(name, channel)


@pytest.mark.parametrize("depth", [5, 8])
def test_short_rows_by_pairs_of_columns(depth: int) -> None:
    p = packed(pixels(depth, 2, rows=20), HELIUM, "hil_mve_matmul_s8_windows")
    data = p.stream
    assert (p.fields["bytes"], len(data)) == (8, 112)
    # Two rows in a vector: [w, 0] and [0, w].
    for i in (0, 1):
        for half, lane in np.ndindex(2, 16):
            inside = lane // 8 == half
            weight = p.weight(i, lane % 8) if inside else 0
            assert int8(data, 32 + 32 * i + 16 * half + lane) == weight


def test_depthwise_filters_and_tiles() -> None:
    calls = candidates
    layer = planes(5)
    helium = next(
        call
        for call in calls(layer.node, layer.ins, (layer.out,), get_cpu(HELIUM))
        if isinstance(call, KernelCall) and call.kernel.name == "hil_mve_depthwise_conv2d_s8"
    )
    p = packed(
        layer,
        HELIUM,
        "hil_mve_depthwise_conv2d_s8",
        addressed=helium.fields["addressed"],
        planes=helium.fields["planes"],
        band_h=helium.fields["band_h"],
    )
    data = p.stream
    for channel in range(5):
        at = 28 * channel
        for tap in range(16):
            y, x = divmod(tap, 4)
            expected = p.weight(channel, 3 * y + x) if max(x, y) < 3 else 0
            assert int8(data, at + tap) == expected
        for word, name in enumerate(("bias", "multipliers", "shifts")):
            assert int32(data, at + 16 + 4 * word) == p.of(name, channel)
    assert len(data) == 28 * 5
    # Of the whole layer's turns, each output is stored, and nothing but outputs.
    table = p.fields["table"].tobytes()
    masked, turns = p.fields["masked"], p.fields["part_iterations"]
    width = 28 if masked else 24
    stored = set()
    for at in range(0, width * turns, width):
        tiles = int32(table, at), int32(table, at + (8 if masked else 4))
        mask = int32(table, at + 4) if masked else 0xFFFF
        for lane in range(8):
            place = int.from_bytes(table[at + width - 16 + 2 * lane :][:2], "little")
            if mask >> (2 * lane) & 1:
                stored.add(place)
                y, x = divmod(place // 5, 6)
                top, left = divmod(tiles[lane % 2], p.fields["plane_w"])
                assert (y - top, x - left) in {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert stored == {5 * i for i in range(6 * p.fields["part_h"])}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("height", "width"), [(25, 5), (24, 5), (6, 6), (3, 3), (1, 4), (26, 8), (9, 1)]
)
def test_depthwise_filters_and_strips(height: int, width: int, stride: int) -> None:
    """Every output is stored from its own patch, and nothing else, by the slots of code that the
    head draws.
    """
    shape = (1, stride * height, stride * width, 8)
    layer = a_layer("DEPTHWISE_CONV_2D", shape, (1, 3, 3, 8), depthwise(stride))
    p = packed(rectified(tamed(layer)), HELIUM, "hil_mve_depthwise_conv2d_s8_strips", band_h=height)
    for channel in range(8):
        row = p.fields["filters"][16 * channel :][:21].tolist()
        for begin, down, right in ((5, 0, 0), (4, 0, 1), (1, 1, 0), (0, 1, 1)):
            for y, x in np.ndindex(4, 4):
                tap = y - down, x - right
                inside = max(tap) < 3 and min(tap) >= 0
                expected = p.weight(channel, 3 * tap[0] + tap[1]) if inside else 0
                assert row[begin + 4 * y + x] == expected
        shift = p.of("shifts", channel)
        scale = [p.of("multipliers", channel), p.of("bias", channel), -128 << -shift, shift]
        assert p.fields["scales"][4 * channel :][:4].tolist() == scale
    places = p.fields["places"].view("<u2").reshape(18, 8).tolist()
    runs = p.fields["runs"].reshape(-1, 6)
    strip_bytes, column = 4 * p.fields["plane_h"], p.fields["column"]
    turn_bytes = (84 if stride == 1 else 108) + 4 * p.fields["masked"]
    #: Rows and columns of outputs at a place.
    columns = 2 // stride
    stored = set()
    patch = out = 0
    for to_patch, distance, to_out, code, mask, turns in runs[:-1].tolist():
        other = turns >= 13 * turn_bytes
        assert code == (52 if other and not column else 64 + turns)
        begin = 13 * turn_bytes + 4 if other else 0
        first, rest = divmod(turns - begin, 92 if other and column else turn_bytes)
        assert rest == 0
        patch, out = patch + to_patch, out + to_out
        for turn in range(first, 4 if other else 13):
            for lane in range(8):
                if not (mask >> 2 * lane & 1 or not p.fields["masked"]):
                    continue
                # The order of narrowed sums: q6 and q7 alternate, four sums each.
                number, second = lane // 2, lane % 2
                at, right = patch, 0
                if other and column:
                    at += 8 * (number // 2 + 2 * second)
                    down = number % 2
                else:
                    at += distance * second if other else 0
                    down, right = divmod(number, columns)
                stored_y, x = divmod((out + places[turn + 13 * other][lane]) // 8, width)
                # A second place begins in the right half of a strip.
                strip, half = divmod(stride * (x - right), 4)
                assert half == (0 if other else 2 * second)
                row, rest = divmod(at - strip_bytes * strip, 4)
                assert rest == row % stride == 0
                y = row // stride + down
                if y < 0:
                    # What is above the image goes where the next turn's outputs will be.
                    assert turn == first
                    assert stored_y == y + (8 if other and column else 4 if stride == 2 else 2)
                else:
                    assert stored_y == y
                    stored.add((stored_y, x))
            patch += 32 if (other and column) or stride == 2 else 8
    if p.fields["corner"]:
        # Behind the last column: that of a strip before and of the last row.
        assert patch == strip_bytes + 4 * (height - 1)
        for place, x in zip(places[17], (0, 2, 1, 3, 4, 4, 4, 4), strict=True):
            assert divmod((out + place) // 8, width) == (height - 1, x)
            stored.add((height - 1, x))
    to_patch, _, to_out, *code = runs[-1].tolist()
    assert patch + to_patch == strip_bytes * p.fields["strips"]
    assert (out + to_out, code) == (1, [0, 0, 0])
    assert stored == set(np.ndindex(height, width))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("height", "width"), [(12, 12), (8, 7), (7, 3), (3, 9), (1, 1), (14, 5), (2, 17)]
)
def test_depthwise_filters_and_pairs_of_rows(height: int, width: int, stride: int) -> None:
    """Every output is stored once, from its own pair of rows and by its own filter."""
    shape = (1, stride * height, stride * width, 8)
    layer = a_layer("DEPTHWISE_CONV_2D", shape, (1, 5, 5, 8), depthwise(stride))
    p = packed(rectified(tamed(layer)), HELIUM, "hil_mve_depthwise_conv2d_s8_pairs", band_h=height)
    filters = p.fields["filters"]
    for channel in range(8):
        for y, x in np.ndindex(6, 8):
            expected = p.weight(channel, 5 * y + x) if max(y, x) < 5 else 0
            assert filters[16 + 48 * channel + 8 * y + x] == expected
        scale = [p.of(name, channel) for name in ("bias", "multipliers", "shifts")]
        assert p.fields["scales"][3 * channel :][:3].tolist() == scale
    assert not filters[:16].any()
    runs = p.fields["runs"].reshape(-1, 4).tolist()
    block_bytes, blocks = 16 * p.fields["plane_pairs"], p.fields["blocks"]
    columns = 4 // stride
    stored: list[tuple[int, int]] = []
    place = out = 0
    moved, turns = -1, [0, 0]
    for to_place, to_out, run_bytes, mask in runs[:-1]:
        moved += mask >> 30 & 1
        beside = mask < 0
        place, out = place + to_place, out + to_out
        for _ in range(run_bytes // block_bytes // (1 + beside)):
            turns[beside] += 1
            block, top = divmod(place // 16, p.fields["plane_pairs"])
            for lane in range(8):
                # The order of narrowed sums: those of the halves of the turn alternate.
                pair, other, second = lane // 4, lane // 2 % 2, lane % 2
                row = top + pair + 2 * second * (not beside)
                x = columns * (block + second * beside) + (moved if stride == 1 else other)
                y = 2 * row + other if stride == 1 else row
                if mask >> 2 * lane & 1:
                    assert block + second * beside < blocks
                    first = top * 2 // stride, columns * block + moved
                    assert divmod(out // 8, width) == first
                    stored.append((y, x))
                else:
                    assert y >= height or x >= width
            place += block_bytes * (1 + beside)
            out += 8 * columns * (1 + beside)
    to_place, to_out, to_filter, mask = runs[-1]
    assert (place + to_place, out + to_out, mask) == (block_bytes * blocks, 1, 0)
    assert to_filter == 48 + moved + 1
    assert turns == [p.fields["turns"], p.fields["beside_turns"]]
    assert sorted(stored) == sorted(np.ndindex(height, width))


# DSP --------------------------------------------------------------------------------------------


def units(depth: int) -> Iterator[tuple[int, int, int]]:
    """The words of a depth: unit, word of it, and the element of the low half."""
    for unit in range(-(-depth // 4)):
        for word in (0, 1):
            yield unit, word, 4 * unit + word


def packed_half(p: Packed, pair: int, element: int) -> int:
    return 256 * p.weight(2 * pair + 1, element) + p.weight(2 * pair, element)


def check_lines(p: Packed, channel: int, words: list[int]) -> None:
    """The line of a channel gives the reference's outputs for every sum that an input makes."""
    multiplier, addend = words[:2]
    weights, bias = p.weights[channel], p.of("bias", channel)
    above, below = weights[weights > 0].sum(), weights[weights < 0].sum()
    low, high = 127 * below - 128 * above + bias, 127 * above - 128 * below + bias
    assert max(high, -low) < 2**23
    # Every sum of two channels; of others the ends and some between.
    sums = np.arange(low, high + 1, 1 if channel < 2 else 61, dtype=np.int64)
    sums = np.append(sums, high)
    corrections = np.where(sums < 0, words[2], 0) if len(words) > 2 else 0
    totals = addend - corrections + (256 * sums * multiplier >> 32)
    assert np.abs(totals).max() < 2**31
    result = np.clip(totals >> p.fields["shift"], -128, 127)
    np.testing.assert_array_equal(result, p.exact(channel, sums))


@cases("taps", [3, 1], first=1)
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_windows_by_partial_sums(taps: int, activation: str) -> None:
    p = packed(windows(8, 5, activation), DSP, "hil_dsp_conv2d_s8_partial", taps=taps, group=3)
    data, depth = p.fields["stream"], 8 * taps
    parts, count = 9 // taps, depth // 4
    assert (p.fields["parts"], p.fields["units"]) == (parts, count)
    own = 3 if p.fields["signs"] else 2
    weights = data[6 : 6 + parts * 3 * 2 * count].astype(np.int32).view(np.int16)
    assert len(data) == 6 + parts * 3 * 2 * count + 5 * own
    for pair in range(3):
        first, second = p.of("bias", 2 * pair), p.of("bias", 2 * pair + 1)
        assert tuple(data[2 * pair : 2 * pair + 2]) == (first, 256 * second + first)
        for part in range(parts):
            at = 4 * count * (3 * part + pair)
            for unit, word, low in units(depth):
                for half in (0, 1):
                    where = at + 4 * unit + 2 * word + half
                    element = depth * part + low + 2 * half
                    assert weights[where] == packed_half(p, pair, element)
    for channel in range(5):
        at = len(data) - own * (5 - channel)
        check_lines(p, channel, data[at : at + own].tolist())


@pytest.mark.parametrize(("wide", "group"), [(0, 3), (1, 3), (1, 2)])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_rows_by_pairs_of_columns_with_lines(wide: int, group: int, activation: str) -> None:
    p = packed(
        pixels(29, 39, activation), DSP, "hil_dsp_matmul_s8_column_pairs", wide=wide, group=group
    )
    data, depth = p.fields["stream"], 29
    count = p.fields["units"]
    own = 3 if p.fields["signs"] else 2
    words = 2 + count * (4 if wide else 2) + 2 * own
    assert len(data) == 20 * words
    for pair in range(20):
        at = words * pair
        first, second = p.of("bias", 2 * pair), p.of("bias", 2 * pair + 1)
        expected = (256 * first, 256 * second) if wide else (first, 256 * second + first)
        # Of two rows the second one is behind the first two words of weights.
        second_at = at + (3 if wide and group == 2 else 1)
        assert (data[at], data[second_at]) == expected
        weights = np.delete(data[at : at + words - 2 * own], [0, second_at - at])
        halves = weights.astype(np.int32).view(np.int16)
        for unit, word, low in units(depth):
            for half in (0, 1):
                element = low + 2 * half
                if wide:
                    for i in (0, 1):
                        where = 8 * unit + 4 * word + 2 * i + half
                        assert halves[where] == 256 * p.weight(2 * pair + i, element)
                else:
                    where = 4 * unit + 2 * word + half
                    assert halves[where] == packed_half(p, pair, element)
        for i in (0, 1):
            if 2 * pair + i < 39:
                begin = at + words - own * (2 - i)
                check_lines(p, 2 * pair + i, [int(v) for v in data[begin : begin + own]])


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("activation", ["RELU", "NONE"])
def test_a_row_by_four_columns_with_lines(wide: int, activation: str) -> None:
    # Small layers have wide weights alone.
    depth, columns = (30, 10) if wide else (110, 10)
    name = "hil_dsp_matvec_s8_column_pairs"
    p = packed(row(depth, columns, activation), DSP, name, widened=1, wide=wide)
    data, lines, count = p.fields["stream"], p.fields["lines"], p.fields["units"]
    own = 3 if p.fields["signs"] else 2
    size, words = count * (8 if wide else 4), 4 + 4 * own
    assert (len(data), len(lines)) == (3 * size, 3 * words + 4)
    for block in range(3):
        at = words * block
        halves = data[size * block : size * (block + 1)].astype(np.int32).view(np.int16)
        biases = [p.of("bias", 4 * block + i) for i in range(4)]
        if wide:
            assert [int(v) for v in lines[at : at + 4]] == [256 * bias for bias in biases]
        else:
            pairs = [(a, 256 * b + a) for a, b in (biases[:2], biases[2:])]
            assert [int(v) for v in lines[at : at + 4]] == [*pairs[0], *pairs[1]]
        for unit, word, low in units(depth):
            for half in (0, 1):
                for i in range(4 if wide else 0):
                    where = 16 * unit + 8 * word + 2 * i + half
                    assert halves[where] == 256 * p.weight(4 * block + i, low + 2 * half)
                for pair in range(0 if wide else 2):
                    where = 8 * unit + 4 * pair + 2 * word + half
                    assert halves[where] == packed_half(p, 2 * block + pair, low + 2 * half)
        for i in range(4):
            if 4 * block + i < 10:
                begin = at + 4 + own * i
                check_lines(p, 4 * block + i, [int(v) for v in lines[begin : begin + own]])


def test_a_column_of_eight() -> None:
    p = packed(pixels(8, 5, "RELU"), DSP, "hil_dsp_matmul_s8_8_columns")
    data = p.fields["stream"]
    assert len(data) == 7 * 5
    for column in range(5):
        words = data[7 * column : 7 * column + 7]
        halves = words[:4].astype(np.int32).view(np.int16)
        for unit, word, low in units(8):
            for half in (0, 1):
                at = 4 * unit + 2 * word + half
                assert halves[at] == 256 * p.weight(column, low + 2 * half)
        assert words[4] == 256 * p.of("bias", column)
        check_lines(p, column, [int(v) for v in words[5:]])


def test_winograd_filters() -> None:
    p = packed(windows(8, 3), DSP, "hil_dsp_conv2d_s8_winograd")
    data, count = p.fields["stream"], p.fields["units"]
    own = 3 if p.fields["signs"] else 2
    words = 2 + 2 * own + 64 * count
    assert len(data) == 2 * words
    twice_g = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
    # Places of the kernel, one after the other, as rows and columns of U, and their signs.
    places = [(row, column) for column in range(4) for row in (1, 2, 0, 3)]
    for pair in (0, 1):
        at = words * pair
        for i in (0, 1):
            filter_ = 2 * pair + i
            assert data[at + i] == 64 * p.of("bias", filter_)
            halves = data[at + 2 + 2 * own : at + words].astype(np.int32).view(np.int16)
            for channel in range(8):
                g = np.array([[p.weight(filter_, 8 * t + channel) for t in range(9)]]).reshape(3, 3)
                u = twice_g @ g @ twice_g.T
                unit, word = channel // 4, channel % 4 % 2
                for place, (row, column) in enumerate(places):
                    half = channel % 4 // 2
                    where = 8 * (count * place + unit) + 4 * word + 2 * i + half
                    assert halves[where] == (-16 if row == 3 else 16) * u[row, column]
            if filter_ < 3:
                begin = at + 2 + own * i
                multiplier, *others = (int(v) for v in data[begin : begin + own])
                check_lines(p, filter_, [multiplier >> 2 - p.fields["left"], *others])


def test_winograd_along_rows() -> None:
    """Taps 0 2 4 and 1 3 of a filter of five with stride 2."""
    attrs = conv("SAME", 2, activation="NONE")
    layer = a_layer("CONV_2D", (1, 1, 16, 8), (3, 1, 5, 8), attrs)
    p = packed(layer, DSP, "hil_dsp_conv2d_s8_winograd_rows")
    data, count = p.fields["stream"], p.fields["units"]
    assert list(p.fields["taps"]) == [0, 1]
    own = 3 if p.fields["signs"] else 2
    words = 2 + 2 * own + 4 * 7 * count
    assert len(data) == 2 * words
    for filter_ in range(3):
        at, i = words * (filter_ // 2), filter_ % 2
        assert data[at + i] == 64 * p.of("bias", filter_)
        halves = data[at + 2 + 2 * own : at + words].astype(np.int32).view(np.int16)
        for channel in range(8):
            g = [p.weight(filter_, 8 * t + channel) for t in range(5)]
            a, b = [32 * (g[0] + g[2] + g[4]), 64 * (g[1] + g[3])], [32 * (g[0] - g[2] + g[4])]
            c, d = [64 * g[0], 64 * g[1]], [-64 * g[4], -64 * g[3]]
            unit, word, half = channel // 4, channel % 4 % 2, channel % 4 // 2
            for place, u in enumerate([*a, *b, *c, *d]):
                assert halves[8 * (count * place + unit) + 4 * word + 2 * i + half] == u
        begin = at + 2 + own * i
        multiplier, *others = (int(v) for v in data[begin : begin + own])
        check_lines(p, filter_, [multiplier >> 2 - p.fields["left"], *others])


def test_winograd_filters_as_they_are() -> None:
    p = packed(windows(8, 3), DSP, "hil_dsp_conv2d_s8_winograd_packed", bands=1)
    data, count = p.fields["stream"], p.fields["units"]
    own = 3 if p.fields["signs"] else 2
    words = 2 + 2 * own + 18 * count
    assert len(data) == 2 * words
    for pair in (0, 1):
        at = words * pair
        for i in (0, 1):
            filter_ = 2 * pair + i
            assert data[at + i] == 4 * p.of("bias", filter_)
            taps = data[at + 2 + 2 * own : at + words].astype(np.int32).view(np.int8)
            for channel in range(8):
                for tap in range(9):
                    where = 4 * (9 * (2 * (channel // 4) + i) + tap) + channel % 4
                    assert taps[where] == p.weight(filter_, 8 * tap + channel)
            if filter_ < 3:
                begin = at + 2 + own * i
                multiplier, *others = (int(v) for v in data[begin : begin + own])
                check_lines(p, filter_, [multiplier >> 6 - p.fields["left"], *others])


def test_winograd_numbers_are_half_words() -> None:
    twice_g = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
    b = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    assert 16 * 128 * np.abs(twice_g).sum(axis=1).max() ** 2 == 18432
    assert 128 * np.abs(b).sum(axis=1).max() ** 2 == 512
    ones = np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]])
    assert 128 * np.abs(ones).sum(axis=1).max() ** 2 == 1152


def test_columns_that_are_rounded_twice() -> None:
    p = packed(pixels(29, 7, "NONE"), DSP, "hil_dsp_matmul_s8")
    halves, words, count = p.fields["weights"], p.fields["pairs"], p.fields["units"]
    for pair in range(4):
        for unit, word, low in units(29):
            for half in (0, 1):
                where = 4 * (count * pair + unit) + 2 * word + half
                assert halves[where] == packed_half(p, pair, low + 2 * half)
        first, second = (2 * pair, 2 * pair + 1)
        moves = [-p.of("shifts", c) - 1 if c < 7 else 0 for c in (first, second)]
        assert [int(v) for v in words[5 * pair : 5 * pair + 5]] == [
            p.of("bias", first),
            256 * p.of("bias", second) + p.of("bias", first),
            p.of("multipliers", first),
            p.of("multipliers", second),
            256 * moves[1] + moves[0],
        ]


def test_a_row_that_is_rounded_twice() -> None:
    p = packed(row(30, 6, "NONE"), DSP, "hil_dsp_matvec_s8", widened=0)
    halves, bias, count = p.fields["weights"], p.fields["bias"], p.fields["units"]
    for pair in range(4):
        for unit, word, low in units(30):
            for half in (0, 1):
                where = 8 * count * (pair // 2) + 8 * unit + 4 * (pair % 2) + 2 * word + half
                assert halves[where] == packed_half(p, pair, low + 2 * half)
        first, second = p.of("bias", 2 * pair), p.of("bias", 2 * pair + 1)
        assert (bias[2 * pair], bias[2 * pair + 1]) == (first, 256 * second + first)


def test_depthwise_planes() -> None:
    p = packed(planes(5), DSP, "hil_dsp_depthwise_conv2d_s8_plane", rows=5, channels=1, packed=0)
    taps, own = p.fields["weights"], 3 if p.fields["shift"] else 4
    for channel in range(5):
        for i, tap in enumerate((0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8)):
            assert taps[12 * channel + i] == p.weight(channel, tap)
        words = [int(v) for v in p.fields["scales"][own * channel : own * channel + own]]
        assert words[0] == 256 * p.of("bias", channel)
        if own == 3:
            check_lines(p, channel, words[1:])


def test_packed_depthwise_planes() -> None:
    p = packed(planes(5), DSP, "hil_dsp_depthwise_conv2d_s8_plane", rows=5, channels=1, packed=1)
    taps, addend, shift = (p.fields[name] for name in ("weights", "addend", "shift"))
    assert addend == (p.portable["out_zero_point"] << shift) + (1 << shift - 1)
    assert len(taps) == 9 * 5
    for channel in range(5):
        assert [int(tap) for tap in taps[9 * channel :][:9]] == [
            p.weight(channel, tap) for tap in range(9)
        ]
        first, multiplier = (int(v) for v in p.fields["scales"][2 * channel :][:2])
        assert first >> 8 == p.of("bias", channel)
        check_lines(p, channel, [multiplier, addend + (first & 255)])


@pytest.mark.parametrize(
    ("width", "dilation", "stride"), [(5, 1, 1), (4, 1, 1), (3, 3, 1), (3, 3, 2), (1, 2, 1)]
)
def test_depthwise_pairs(width: int, dilation: int, stride: int) -> None:
    attrs = conv("SAME", stride, depth_multiplier=2, dilation_w=dilation)
    layer = a_layer("DEPTHWISE_CONV_2D", (1, 6, 9, 3), (1, 2, width, 6), attrs)
    p = packed(layer, DSP, "hil_dsp_depthwise_conv2d_s8_pairs", rows=-(-6 // stride))
    together = dilation == 1 or width == 1 or stride == 1
    pairs, step = p.fields["pairs"], p.fields["step"]
    assert p.fields["phases"] == (dilation if width > 1 and stride == 1 else 1)
    assert (pairs, step) == (((width + 1) // 2, 2) if together else (width, dilation))
    halves = p.fields["weights"].view(np.int16).reshape(6, 2, pairs, 2)
    for channel in range(6):
        for tap in range(2 * width):
            row, column = divmod(tap, width)
            at = divmod(column, 2) if together else (column, 0)
            assert halves[channel, row][at] == 256 * p.weight(channel, tap)
        first, multiplier, addend, shift = p.fields["scales"][4 * channel :][:4]
        assert first >> 8 == p.of("bias", channel)
        real = p.of("multipliers", channel) * 2.0 ** (p.of("shifts", channel) - 31)
        assert abs(multiplier * 2.0 ** (8 - 32 - shift) / real - 1) < 2.0**-10
        assert abs(addend * 2.0**-shift - p.portable["out_zero_point"] - 0.5) < 0.1
    assert np.count_nonzero(halves) == np.count_nonzero(p.weights)


@pytest.mark.parametrize(
    ("image", "size", "stride", "dilation"),
    [
        ((6, 9), (2, 5), 1, 1),
        ((7, 12), (2, 5), 3, 2),
        ((24, 3), (4, 1), 2, 1),
        ((9, 9), (3, 3), 2, 2),
    ],
)
def test_depthwise_taps(
    image: tuple[int, int], size: tuple[int, int], stride: int, dilation: int
) -> None:
    """A tap's pixel of each output is where the part of its run has it."""
    attrs = conv("SAME", stride, depth_multiplier=2, dilation_h=dilation, dilation_w=dilation)
    layer = a_layer("DEPTHWISE_CONV_2D", (1, *image, 3), (1, *size, 6), attrs)
    rows = -(-image[0] // stride)
    p = packed(layer, HELIUM, "hil_mve_depthwise_conv2d_s8_taps", rows=rows)
    upright, runs, step, part = (p.fields[name] for name in ("upright", "runs", "step", "part"))
    assert bool(upright) == (size[1] == 1)
    filters = p.weights.reshape(6, *size)
    lines = filters.transpose(0, 2, 1) if upright else filters
    stream = iter(p.fields["weights"].tolist())
    for channel in range(6):
        for line in lines[channel]:
            for run in range(runs):
                for n, weight in enumerate(line[run::runs]):
                    assert next(stream) == weight
                    # Elements of the part are `stride` pixels apart.
                    assert (run + n * runs) * dilation == run * dilation + stride * n * step
        words = p.fields["scales"][4 * channel :][:4]
        assert list(words[:3]) == [p.of(n, channel) for n in ("bias", "multipliers", "shifts")]
        assert words[3] == p.portable["out_zero_point"]
    assert next(stream, None) is None
    outputs = -(-image[not upright] // stride)
    assert part == outputs + (lines.shape[2] - 1) // runs * step


@pytest.mark.parametrize("channels", [4, 6])
def test_depthwise_fours_of_channels(channels: int) -> None:
    attrs = conv("SAME", 3, depth_multiplier=1)
    layer = a_layer("DEPTHWISE_CONV_2D", (1, 9, 8, channels), (1, 2, 3, channels), attrs)
    p = packed(layer, DSP, "hil_dsp_depthwise_conv2d_s8_channels")
    halves = p.fields["weights"].view(np.int16).reshape(-1, 6, 4)
    for channel in range(channels):
        for tap in range(6):
            four, place = divmod(channel, 4)
            # Two words of the bytes 0 and 2, and 1 and 3, of four pixels.
            assert halves[four, tap, (0, 2, 1, 3)[place]] == 256 * p.weight(channel, tap)
    assert np.count_nonzero(halves) == np.count_nonzero(p.weights)


@pytest.mark.parametrize("channels", [16, 21])
def test_depthwise_vectors_of_channels(channels: int) -> None:
    attrs = conv("SAME", 3, depth_multiplier=1)
    layer = a_layer("DEPTHWISE_CONV_2D", (1, 9, 8, channels), (1, 2, 5, channels), attrs)
    p = packed(layer, HELIUM, "hil_mve_depthwise_conv2d_s8_channels")
    filters = p.fields["weights"].reshape(-1, 10, 16)
    scales = p.fields["scales"].reshape(-1, 3, 16)
    for channel in range(channels):
        block, place = divmod(channel, 16)
        for tap in range(10):
            assert filters[block, tap, place] == p.weight(channel, tap)
        # Of each four channels every vector of sums has one.
        four, of_four = divmod(place, 4)
        lane = 4 * (0, 2, 1, 3)[of_four] + four
        names = ("bias", "multipliers", "shifts")
        assert [scales[block, i, lane] for i in range(3)] == [p.of(n, channel) for n in names]
    assert np.count_nonzero(filters) == np.count_nonzero(p.weights)
    # No more taps than whose products fit 16 bits whatever the inputs.
    group = p.fields["group"]
    rows = np.abs(filters.astype(np.int64)).reshape(-1, 2, 5, 16)
    most = max(rows[:, :, x : x + group].sum(axis=2).max() for x in range(0, 5, group))
    assert 128 * most <= 2**15


def test_depthwise_lines() -> None:
    p = packed(planes(5), DSP, "hil_dsp_depthwise_conv2d_s8_3x3")
    for channel in range(5):
        for i, tap in enumerate((0, 3, 3, 6, 1, 4, 4, 7, 2, 5, 5, 8)):
            assert p.fields["weights"][12 * channel + i] == p.weight(channel, tap)
        assert p.fields["bias"][channel] == 2 * p.of("bias", channel)
        assert p.fields["multipliers"][channel] == p.of("multipliers", channel)
        assert p.fields["shifts"][channel] == -p.of("shifts", channel) - 1


# Armv7-M ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wide", "raised"), [(2, 0), (1, 128)])
def test_blocks_of_four_columns(wide: int, raised: int) -> None:
    p = packed(pixels(29, 6, "NONE"), ARMV7M, "hil_v7m_matmul_s8", wide=wide)
    weights = p.fields["weights"]
    assert len(weights) == 2 * 29 * 4
    for channel in range(8):
        for element in range(29):
            where = 4 * (29 * (channel // 4) + element) + channel % 4
            assert weights[where] == p.weight(channel, element)
    if p.fields["even_shift"] < 0:
        for channel in range(6):
            first, second, multiplier, shift = p.fields["scales"][4 * channel :][:4]
            bias = p.of("bias", channel) - raised * int(p.weights[channel].sum())
            unit = 2 * p.portable["out_zero_point"] + 1
            right = -p.of("shifts", channel)
            assert (first, second) == (2 * bias, unit << (right - 1))
            assert (multiplier, shift) == (p.of("multipliers", channel), right)


def test_blocks_of_eight_columns() -> None:
    p = packed(row(50, 15), ARMV7M, "hil_v7m_matvec_s8")
    weights = p.fields["weights"]
    for channel in range(16):
        for element in range(50):
            where = 8 * (50 * (channel // 8) + element) + channel % 8
            assert int(weights[where]) == 128 + p.weight(channel, element)


@pytest.mark.parametrize(("kernel", "triples"), [("matmul", 1), ("matvec", 2)])
def test_packed_columns(kernel: str, triples: int) -> None:
    """In parts, since the sums of all 100 elements leave their fields."""
    depth, count, part = 100, 8, 64
    layer = pixels(depth, count) if kernel == "matmul" else row(depth, count)
    w = layer.ins[1]
    assert w is not None
    ends = np.full(w.shape, 127, np.int8)
    p = packed(
        replace(layer, ins=(layer.ins[0], replace(w, data=ends), *layer.ins[2:])),
        ARMV7M,
        f"hil_v7m_{kernel}_s8_packed",
    )
    assert p.fields["part"] == part
    words = iter(int(word) for word in p.fields["weights"])
    for first in range(0, count, 3 * triples):
        columns = range(first, first + 3 * triples)
        for at in range(0, depth, part):
            elements = range(at, min(at + part, depth))
            # With what they begin with, the least sums are 0.
            begins = [128 * sum(p.weight(c, e) for e in elements) for c in columns]
            for values in (begins, *([p.weight(c, e) for c in columns] for e in elements)):
                for u, v, w_ in np.reshape(values, (triples, 3)):
                    assert next(words) == int(u + 2**11 * w_) % 2**32
                    assert next(words) == int(v + 2**22 * w_) % 2**32
    assert not list(words)


def test_depthwise_filters_of_armv7m() -> None:
    p = packed(planes(5), ARMV7M, "hil_v7m_depthwise_conv2d_s8_3x3", band=5)
    for channel in range(5):
        for tap in range(9):
            assert p.fields["weights"][9 * channel + tap] == p.weight(channel, tap)


@pytest.mark.parametrize("turned", [False, True])
def test_depthwise_words(turned: bool) -> None:
    """Also of filters that are turned, whose sums have the same ends."""
    layer = planes(5)
    w = layer.ins[1]
    assert w is not None
    assert w.data is not None
    if turned:
        other = replace(w, data=np.ascontiguousarray(w.data[:, ::-1, ::-1]))
        layer = replace(layer, ins=(layer.ins[0], other, *layer.ins[2:]))
    p = packed(layer, ARMV7M, "hil_v7m_depthwise_conv2d_s8_words")
    channels = p.fields["channels"].astype(np.int64).reshape(5, 11)
    for channel, (begin, *taps, multiplier) in enumerate(channels):
        ratios = {int(tap) // p.weight(channel, i) for i, tap in enumerate(taps) if tap}
        assert len(ratios) == 1
        (factor,) = ratios
        assert factor & (factor - 1) == 0
        assert list(taps) == [factor * p.weight(channel, i) for i in range(9)]
        sums = np.arange(128 * -1143, 128 * 1143, 7)
        upper = (begin + factor * sums) * multiplier >> 32
        outputs = np.clip(upper >> p.fields["shift"], -128, 127)
        assert (outputs == p.exact(channel, sums + p.of("bias", channel))).all()


# Armv6-M ----------------------------------------------------------------------------------------


def test_columns_of_armv6m() -> None:
    p = packed(pixels(29, 6, "NONE"), ARMV6M, "hil_v6m_matmul_s8", tile=3)
    assert len(p.fields["weights"]) == 6 * 29
    for channel in range(6):
        for element in range(29):
            assert p.fields["weights"][29 * channel + element] == p.weight(channel, element)
        low, middle, high, _, _, _, shift = (int(w) for w in p.fields["scales"][7 * channel :][:7])
        bits = p.fields["bits"]
        pieces = low + (middle << bits) + (high << 2 * bits)
        factor = middle + (high << bits) if p.fields["pieces"] == 2 else pieces
        places = shift + bits * (p.fields["pieces"] - 1)
        real = p.of("multipliers", channel) * 2.0 ** (p.of("shifts", channel) - 31)
        assert abs(factor - real * 2.0**places) <= 4


def test_depthwise_filters_of_armv6m() -> None:
    p = packed(planes(5), ARMV6M, "hil_v6m_depthwise_conv2d_s8_3x3", band=4)
    for channel in range(5):
        for tap in range(9):
            assert p.fields["weights"][9 * channel + tap] == p.weight(channel, tap)


def fields_of(word_x: int, word_y: int) -> tuple[int, int, int]:
    """The three weights in two words: x = a + 2^11 c + 2^21 b, y = b + 2^22 c."""
    c = (word_y + (1 << 21)) >> 22
    b = word_y - (c << 22)
    return word_x - (c << 11) - (b << 21), b, c


def is_scale(p: Packed, channel: int, words: npt.NDArray[np.int32]) -> bool:
    """Whether two pieces of 12 bits and the shift are the channel's multiplier."""
    middle, high, _, shift = (int(word) for word in words)
    real = p.of("multipliers", channel) * 2.0 ** (p.of("shifts", channel) - 31)
    return abs(middle + (high << 12) - real * 2.0 ** (shift + 12)) <= 4


@pytest.mark.parametrize("count", [20, 18, 2])
def test_stream_of_armv6m(count: int) -> None:
    p = packed(rectified(tamed(pixels(7, count, "RELU"))), ARMV6M, "hil_v6m_matmul_s8_packed")
    words, at, column = p.fields["stream"], 0, 0
    while column < count:
        together = 9 if count - column >= 9 else 3
        for element in range(7):
            for first in range(0, together, 3):
                found = fields_of(int(words[at]), int(words[at + 1]))
                wanted = tuple(p.weight(column + first + i, element) for i in range(3))
                assert found == wanted
                at += 2
        for channel in range(column, min(column + together, count)):
            assert is_scale(p, channel, words[at : at + 4])
            at += 4
        column += together
    assert at == len(words)


def test_depthwise_triples_of_armv6m() -> None:
    p = packed(rectified(tamed(planes(5))), ARMV6M, "hil_v6m_depthwise_conv2d_s8_triples")
    for channel in range(5):
        scale = p.fields["scales"][7 * channel :][:7]
        assert is_scale(p, channel, scale[[1, 2, 3, 6]])
        for tap in range(9):
            assert p.fields["weights"][9 * channel + tap] == p.weight(channel, tap)


@pytest.mark.parametrize("wide", [False, True])
def test_channels_of_small_kernels(wide: bool) -> None:
    layer = pixels(9, 6, "NONE")
    x, weights, own = layer.ins
    assert own is not None
    assert own.data is not None
    # One more than fits in the half-word of a bias, or as much.
    data = np.append(own.data[:-1], np.int32(2**15 if wide else 1 - 2**15))
    layer = replace(layer, ins=(x, weights, replace(own, data=data)))
    p = packed(layer, ARMV7M, "hil_compact_matmul_s8", wide=int(wide))
    scales = p.fields["scales"].tobytes()
    quant = layer.ins[0].quant if layer.ins[0] is not None else None
    assert quant is not None
    for channel in range(6):
        if wide:
            word = int32(scales, 8 * channel + 4)
            found = int32(scales, 8 * channel), (word & 63) - 32, word >> 6
        else:
            at = 2 + 6 * channel
            word = int.from_bytes(scales[at : at + 4], "little")
            shift = int16(scales, 0) + (word & 3)
            found = 2**30 + (word >> 2), shift, int16(scales, at + 4)
        # The inputs lose their zero point in the kernel, so it is not in this bias.
        bias = p.of("bias", channel) + quant.zero_point[0] * int(p.weights[channel].sum())
        assert found == (p.of("multipliers", channel), p.of("shifts", channel), bias)
    assert len(scales) == (6 * 8 if wide else 2 + 6 * 6)
