#!/usr/bin/env python3
"""Look for cliffs: layers that take far more instructions a unit of work than their neighbours.

    python tools/measure.py cliffs [FAMILY...] [--write]
    python tools/measure.py cliffs [FAMILY...] --measure COUNT

Each line varies one property of a layer (depth, channels, window, stride, range, ...). Instructions
are the estimates that the search decides by, of the fastest kernel of the core. Layers whose
instructions a unit of work (a multiply-accumulate, or an element) are at least 1.3 times their
neighbour's are listed, unless the layer has less work and takes fewer instructions than it.
``--measure`` counts the layers of the COUNT largest steps of each family on its emulated board.
``--write`` writes the picture and the table of docs/how-to/kernels.md.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from costs import LARGE_M0, RV32F, count_model
from marked import replaced, table
from matplotlib import rc_context
from matplotlib.figure import Figure
from single_op import Draft, SingleOp, finish, index_tensor
from steps import ROOT

from hil.page.plan_picture import STYLE, save
from hilc.errors import UnsupportedError
from hilc.ir import Quant, Rounding, Tensor
from hilc.lowering import KernelCall, candidates
from hilc.target import get_cpu
from hilc.transforms.float_sums import with_float_sums

PAGE = ROOT / "docs" / "how-to" / "kernels.md"
PICTURE = ROOT / "docs" / "images" / "cliffs.svg"
#: Ratio of instructions a unit of work between neighbours that is listed.
STEP = 1.3


@dataclass(frozen=True)
class Family:
    """A core with the kernels of a family, the types that it serves, and a board to count on."""

    cpu: str
    board: str
    dtypes: tuple[str, ...]


FAMILIES = {
    "v6m": Family("cortex-m0", LARGE_M0, ("int8", "int16")),
    "v7m": Family("cortex-m3", "mps2-an385", ("int8", "int16")),
    "dsp": Family("cortex-m4", "mps2-an386", ("int8", "int16")),
    "fpu": Family("cortex-m4", "mps2-an386", ("float32",)),
    "mve": Family("cortex-m55", "mps3-an547", ("int8", "int16", "float32")),
    "riscv": Family("rv32imac", "riscv-virt", ("int8", "int16")),
    "rvv": Family("rv32imac_zve32x", "riscv-virt-v", ("int8", "int16")),
    "xpulp": Family("rv32imc_xpulp", "rtl-cv32e40p-xpulp", ("int8", "int16")),
    "rv32f": Family("rv32imafc", RV32F, ("float32",)),
}  # fmt: skip


# Layers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """A layer, and its work: multiply-accumulates or elements."""

    single: SingleOp
    work: int


@dataclass(frozen=True)
class Line:
    """Layers of which one property differs."""

    operator: str
    varied: str
    values: Sequence[Any]
    layer: Callable[[str, Any], Point] = field(repr=False)


def _activation(dtype: str) -> Quant | None:
    """Return the quantization of inputs after ReLU."""
    if dtype == "int16":
        return Quant((0.05 / 256,), (0,))
    return Quant((0.05,), (-128,)) if dtype == "int8" else None


def _input(dtype: str, shape: Sequence[int], name: str = "x") -> Tensor:
    return Tensor(name, tuple(shape), dtype, _activation(dtype))


def _weights(
    rng: np.random.Generator, dtype: str, shape: tuple[int, ...], axis: int, spread: float
) -> list[Tensor]:
    """Return weights and bias; ``spread``: the deviation, 0 for the ends of the range."""
    channels = shape[axis]
    if dtype == "float32":
        data = rng.standard_normal(shape).astype(np.float32)
        return [
            Tensor("w", shape, dtype, data=data),
            Tensor("b", (channels,), dtype, data=np.ones(channels, np.float32)),
        ]
    drawn = rng.normal(0, spread, shape).round() if spread else rng.choice([-127, 127], shape)
    scales = tuple(rng.uniform(0.002, 0.004, channels).tolist())
    of_bias = "int64" if dtype == "int16" else "int32"
    bias = Tensor("b", (channels,), of_bias, data=rng.integers(-999, 999, channels).astype(of_bias))
    return [
        Tensor(
            "w", shape, "int8", Quant(scales, (0,) * channels, axis),
            drawn.clip(-127, 127).astype(np.int8),
        ),
        bias,
    ]  # fmt: skip


def _product(
    dtype: str, op: str, x: Sequence[int], w: tuple[int, ...], attrs: Mapping[str, Any],
    taps: int, spread: float = 40, activation: str = "RELU",
) -> Point:  # fmt: skip
    """Return a layer with ``taps`` products in each output."""
    rng = np.random.default_rng(1)
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    given = _input(dtype, x)
    quant = None
    if given.quant is not None:
        scale = given.quant.scale[0] * 0.003 * (spread or 127) * taps**0.5
        scale *= 1.5 if dtype == "int8" else 3
        quant = Quant((scale,), (0 if dtype == "int16" else -128 if activation == "RELU" else 0,))
    tensors = _weights(rng, dtype, w, axis, spread)
    ins = [given, *tensors]
    if op == "TRANSPOSE_CONV":
        attrs = dict(attrs)
        out = attrs.pop("out")
        ins = [index_tensor(out, "shape"), tensors[0], given, tensors[1]]
    rounding = Rounding.SINGLE if dtype == "int16" else Rounding.DOUBLE
    draft = Draft(ins, quant, {"activation": activation, **attrs}, rounding=rounding)
    single = finish(rng, op, draft)
    of = given.size * prod(w[:3]) if op == "TRANSPOSE_CONV" else single.outs[0].size * taps
    return Point(single, of)


def conv(
    dtype: str, h: int = 8, w: int = 8, depth: int = 16, channels: int = 16, window: Any = 3,
    stride: int = 1, dilation: int = 1, spread: float = 40, activation: str = "RELU",
    padding: str = "SAME",
) -> Point:  # fmt: skip
    rows, columns = (window, window) if isinstance(window, int) else window
    attrs = _window(stride, padding) | {"dilation_h": dilation, "dilation_w": dilation}
    image = (1, h * stride, w * stride, depth)
    return _product(
        dtype, "CONV_2D", image, (channels, rows, columns, depth), attrs,
        rows * columns * depth, spread, activation,
    )  # fmt: skip


def depthwise(
    dtype: str, h: int = 8, w: int = 8, channels: int = 16, window: Any = 3, stride: int = 1,
    dilation: int = 1, multiplier: int = 1, spread: float = 40, activation: str = "RELU",
) -> Point:  # fmt: skip
    rows, columns = (window, window) if isinstance(window, int) else window
    attrs = _window(stride) | {"dilation_h": dilation, "dilation_w": dilation}
    return _product(
        dtype, "DEPTHWISE_CONV_2D", (1, h * stride, w * stride, channels),
        (1, rows, columns, channels * multiplier), attrs | {"depth_multiplier": multiplier},
        rows * columns, spread, activation,
    )  # fmt: skip


def dense(
    dtype: str, rows: int = 1, depth: int = 64, channels: int = 32, spread: float = 40,
    activation: str = "RELU",
) -> Point:  # fmt: skip
    return _product(
        dtype, "FULLY_CONNECTED", (rows, depth), (channels, depth), {}, depth, spread, activation
    )


def transposed(
    dtype: str, side: int = 6, depth: int = 16, channels: int = 16, window: int = 3, stride: int = 2
) -> Point:
    out = (1, side * stride, side * stride, channels)
    return _product(
        dtype, "TRANSPOSE_CONV", (1, side, side, depth), (channels, window, window, depth),
        _window(stride) | {"out": out}, max(1, window * window * depth // stride**2),
    )  # fmt: skip


def pool(dtype: str, op: str, channels: int = 16, window: int = 2, stride: int = 2) -> Point:
    side = 6 * stride + max(0, window - stride)
    attrs = {"filter_h": window, "filter_w": window, **_window(stride, "VALID")}
    x = _input(dtype, (1, side, side, channels))
    single = finish(np.random.default_rng(1), op, Draft([x], x.quant, attrs))
    return Point(single, single.outs[0].size * window * window)


def _window(stride: int, padding: str = "SAME") -> dict[str, Any]:
    return {"stride_h": stride, "stride_w": stride, "padding": padding}


def _plain(
    dtype: str, op: str, shapes: Sequence[Sequence[int]], others: Sequence[Tensor] = (),
    scale: float = 1.0, **attrs: Any,
) -> Point:  # fmt: skip
    """Return a layer without products; its work is the larger of its input and its output."""
    ins = [_input(dtype, shape, f"x{i}") for i, shape in enumerate(shapes)]
    quant = ins[0].quant
    if op == "SOFTMAX" and quant is not None:
        quant = Quant((1 / 256,), (-128,)) if dtype == "int8" else Quant((2.0**-15,), (0,))
    elif quant is not None:
        quant = replace(quant, scale=(quant.scale[0] * scale,))
    single = finish(np.random.default_rng(1), op, Draft([*ins, *others], quant, attrs))
    return Point(single, max(single.outs[0].size, ins[0].size))


_SIZES = (*range(1, 19), 20, 24, 28, 31, 32, 33, 40, 48, 63, 64, 65, 96, 127, 128, 129, 192, 256)
_DEEP = (*_SIZES, 257, 384, 512, 640, 768, 900, 960, 1000, 1024, 1500, 2048, 3000, 4096)
_FEW = (*range(1, 18), 24, 31, 32, 33, 48, 64, 65)
_SIDES = (*range(1, 14), 16, 17, 24, 25, 32, 33, 48, 49)
_WINDOWS = (1, 2, 3, 4, 5, 6, 7)
_SPREADS = (1, 5, 10, 20, 40, 80, 0)
_ONE, _MANY = 1, 64


def _varied(operator: str, make: Callable[..., Point], **lines: Any) -> list[Line]:
    """Return a line for each property: its values, or values and what the others are."""

    def layer(varied: str, fixed: Mapping[str, Any]) -> Callable[[str, Any], Point]:
        return lambda dtype, value: make(dtype, **{**fixed, varied: value})

    found = []
    for name, given in lines.items():
        values, fixed = given if isinstance(given[-1], dict) else (given, {})
        varied = name.rstrip("_")
        found.append(Line(operator, varied, values, layer(varied, fixed)))
    return found


def _line(
    op: str, varied: str, values: Sequence[int], shapes: Callable[[int], list[tuple[int, ...]]],
    *others: Tensor, scale: float = 1.0, name: str = "", **attrs: Any,
) -> Line:  # fmt: skip
    """Return a line of layers without products, by the shapes of their inputs."""

    def layer(dtype: str, value: Any) -> Point:
        return _plain(dtype, op, shapes(value), others, scale=scale, **attrs)

    return Line(name or op, varied, values, layer)


def _element_wise(op: str) -> list[Line]:
    scale = 1.0 if op == "MAXIMUM" else 1.2
    return [
        _line(op, "size", _FEW, lambda n: [(1, 4, 4, n)] * 2, scale=scale),
        _line(op, "row length", _FEW, lambda n: [(1, 4, 4, n), (1, 1, 1, n)], scale=scale),
    ]


def _reduced(op: str) -> list[Line]:
    scale = 1.2 if op == "MEAN" else 30.0
    found = []
    for over, axes in (("images", [1, 2]), ("rows", [3])):
        indices = index_tensor(axes, "axes")
        found.append(
            _line(
                op, "channels", _FEW, lambda n: [(1, 6, 6, n)], indices,
                scale=scale, name=f"{op} of {over}", keep_dims=False,
            )
        )  # fmt: skip
    return found


def _pools(op: str) -> list[Line]:
    def make(dtype: str, **given: int) -> Point:
        return pool(dtype, op, **given)

    return _varied(
        op, make, channels=_FEW, window=(1, 2, 3, 4, 5, 8), stride=((1, 2, 3), {"window": 3})
    )


_PADDINGS = index_tensor([[0, 0], [1, 1], [1, 1], [0, 0]], "paddings")
_TWICE = index_tensor([12, 12], "size")
_SWAPPED = index_tensor([0, 2, 1], "perm")

LINES: tuple[Line, ...] = (
    *_varied(
        "CONV_2D 1x1", conv,
        depth=(_DEEP, {"window": 1, "h": 4, "w": 6}),
        channels=(_SIZES, {"window": 1}),
        w=(_SIDES, {"window": 1, "h": 1}),
        stride=((1, 2, 3, 4), {"window": 1}),
        spread=(_SPREADS, {"window": 1, "depth": 64}),
        activation=(("RELU", "NONE"), {"window": 1, "depth": 32}),
    ),
    *_varied(
        "CONV_2D 3x3", conv,
        depth=((*_FEW, 128, 256, 512), {"h": 5, "w": 6}),
        channels=(_FEW, {}),
        w=(_SIDES, {"h": 6}),
        stride=(1, 2, 3, 4),
        dilation=(1, 2, 3),
        spread=(_SPREADS, {}),
        padding=("VALID", "SAME"),
        activation=("RELU", "NONE"),
    ),
    *_varied("CONV_2D", conv, window=(_WINDOWS, {"depth": 8})),
    *_varied("CONV_2D, 1 channel", conv, window=(_WINDOWS, {"depth": 1, "w": 16})),
    *_varied("CONV_2D, 3 channels", conv, window=(_WINDOWS, {"depth": 3, "w": 16})),
    *_varied(
        "CONV_2D, one row", conv,
        window=([(1, n) for n in (1, 2, 3, 4, 5, 7, 9, 15)], {"h": 1, "w": 64}),
        dilation=((1, 2, 4, 8, 16), {"h": 1, "w": 64, "window": (1, 3)}),
        depth=(_FEW, {"h": 1, "w": 64, "window": (1, 3)}),
    ),
    *_varied(
        "DEPTHWISE_CONV_2D", depthwise,
        channels=_SIZES, w=(_SIDES, {"h": 6}), window=_WINDOWS, stride=(1, 2, 3, 4),
        dilation=(1, 2, 3), multiplier=((1, 2, 3, 4, 8, 16), {"channels": 4}),
        spread=_SPREADS, activation=("RELU", "NONE"),
    ),
    *_varied(
        "DEPTHWISE_CONV_2D, one row", depthwise,
        window=([(1, n) for n in (1, 2, 3, 4, 5, 7, 9, 15)], {"h": 1, "w": 64}),
        dilation=((1, 2, 4, 8), {"h": 1, "w": 64, "window": (1, 3)}),
    ),
    *_varied(
        "FULLY_CONNECTED", dense,
        depth=_DEEP, channels=_SIZES, rows=(1, 2, 3, 4, 5, 6, 8, 9, 16, 17), spread=_SPREADS,
        spread_=(_SPREADS, {"depth": 600, "channels": 8}), activation=("RELU", "NONE"),
    ),
    *_varied(
        "TRANSPOSE_CONV", transposed,
        depth=_FEW, channels=_FEW, side=(1, 2, 3, 4, 5, 6, 8, 9, 12),
        window=((2, 3, 4, 5), {}), window_=((1, 2, 3, 4, 5), {"stride": 1}),
        stride=((1, 2, 3, 4), {"window": 4}),
    ),
    *_pools("AVERAGE_POOL_2D"),
    *_pools("MAX_POOL_2D"),
    *(
        line
        for op in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM")
        for line in _element_wise(op)
    ),
    _line("SOFTMAX", "depth", _FEW, lambda n: [(4, n)], beta=1.0),
    _line("SOFTMAX", "rows", (1, 2, 3, 4, 8, 16, 32), lambda n: [(n, 10)], beta=1.0),
    *_reduced("MEAN"),
    *_reduced("SUM"),
    _line("CONCATENATION", "channels", _FEW, lambda n: [(1, 6, 6, n)] * 2, axis=3),
    _line("PAD", "channels", _FEW, lambda n: [(1, 6, 6, n)], _PADDINGS),
    _line("RESIZE_BILINEAR", "channels", _FEW, lambda n: [(1, 6, 6, n)], _TWICE),
    _line("RESIZE_NEAREST_NEIGHBOR", "channels", _FEW, lambda n: [(1, 6, 6, n)], _TWICE),
    *(
        _line(op, "size", _FEW, lambda n: [(1, 4, 4, n)], scale=0.3)
        for op in ("HARD_SWISH", "RELU", "TANH")
    ),
    # A single channel is moved nowhere: the compiler leaves the layer out.
    _line("TRANSPOSE", "channels", _FEW[1:], lambda n: [(1, 36, n)], _SWAPPED),
)  # fmt: skip


# Steps ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fastest:
    """The kernel of a layer that takes the fewest instructions by the estimates."""

    variant: str
    instructions: int
    work: int

    @property
    def each(self) -> float:
        """Instructions a unit of work."""
        return self.instructions / self.work


@dataclass(frozen=True)
class StepFound:
    """Neighbours on a line, of which ``worse`` takes more instructions a unit of work."""

    line: Line
    dtype: str
    better: tuple[Any, Fastest]
    worse: tuple[Any, Fastest]

    @property
    def ratio(self) -> float:
        """Instructions a unit of work of the worse over those of the better."""
        return self.worse[1].each / self.better[1].each

    @property
    def name(self) -> str:
        """The line and its ends."""
        better, worse = _shown(self.better[0]), _shown(self.worse[0])
        return f"{self.line.operator} {self.dtype}: {self.line.varied} {worse} beside {better}"


Curve = list[tuple[Any, Fastest]]


def fastest(point: Point, cpu_name: str) -> Fastest | None:
    """Return the fastest kernel of a layer on a core; None where the core has none."""
    cpu = get_cpu(cpu_name)
    single = point.single
    (node,) = with_float_sums(single.graph(), cpu).nodes
    calls = [
        call
        for call in candidates(node, single.ins, single.outs, cpu)
        if isinstance(call, KernelCall)
    ]
    if not calls:
        return None
    best = min(calls, key=lambda call: call.instructions(cpu))
    return Fastest(best.variant, best.instructions(cpu), point.work)


def curve(line: Line, dtype: str, cpu: str) -> Curve | None:
    """Return the fastest kernel of each layer of a line; None where the operator lacks the type."""
    found: Curve = []
    for value in line.values:
        try:
            point = line.layer(dtype, value)
        except UnsupportedError:
            return None
        best = fastest(point, cpu)
        if best is None:
            return None
        found.append((value, best))
    return found


def curves(family: Family) -> Iterator[tuple[Line, str, Curve]]:
    """Yield every line with every type of a family."""
    for line in LINES:
        for dtype in family.dtypes:
            if (found := curve(line, dtype, family.cpu)) is not None:
                yield line, dtype, found


def steps_of(line: Line, dtype: str, found: Curve) -> Iterator[StepFound]:
    """Yield the steps between neighbours on a line."""
    for pair in pairwise(found):
        better, worse = sorted(pair, key=lambda end: end[1].each)
        step = StepFound(line, dtype, better, worse)
        amortized = (
            worse[1].work < better[1].work and worse[1].instructions <= better[1].instructions
        )
        if step.ratio >= STEP and not amortized:
            yield step


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def measured(step: StepFound, board: str) -> str:
    """Return the ratio of the two layers' counts on a board."""
    each = []
    for value, best in (step.better, step.worse):
        graph = step.line.layer(step.dtype, value).single.graph()
        counts = count_model(board, "cliffs", graph)
        each.append(min(count.count for count in counts) / best.work)
    return f"{each[1] / each[0]:.2f}"


# Reasons ----------------------------------------------------------------------------------------

_BLOCK = "a block of columns, or a vector, more for one channel"
_PORTABLE_WINDOW = "not a filter of a special kernel, whose head states which: a general one"
_FOLDED = "rows of one element are one long row"
_WINOGRAD = "Winograd has stride 1, no dilation, 3x3"
_FEW_BITS = "sums leave their field of 21 bits (Armv6-M); a chunk (Helium) or a word (XPULP) more"
_CHUNK = "a chunk of 16 channels more (Helium)"
_SHORT = "tiles of several pixels, of which some are repeated"
#: Why a line has steps, by operator, type (any: ``*``), and varied property; the first that fits.
#: What is not here has no reason yet.
REASONS: Mapping[tuple[str, str, str], str] = {
    ("CONV_2D 3x3", "int16", "depth"): "one channel is a depthwise filter",
    ("CONV_2D, 1 channel", "int16", "window"):
        "up to 3x3 it is a depthwise filter in planes; 1x1 has one product an output",
    ("CONV_2D 3x3", "*", "stride"): _WINOGRAD,
    ("CONV_2D 3x3", "*", "dilation"): _WINOGRAD,
    ("CONV_2D", "*", "window"): _WINOGRAD,
    ("CONV_2D 1x1", "*", "stride"): "with a stride it is no matrix product: windows are gathered",
    ("CONV_2D 1x1", "*", "channels"): _BLOCK,
    ("CONV_2D 3x3", "*", "channels"): _BLOCK,
    ("CONV_2D 1x1", "int8", "depth"): _FEW_BITS,
    ("CONV_2D 3x3", "int8", "depth"): _FEW_BITS,
    ("FULLY_CONNECTED", "int8", "depth"): _FEW_BITS,
    ("*", "int8", "spread"): _FEW_BITS,
    ("FULLY_CONNECTED", "*", "channels"): _BLOCK,
    ("FULLY_CONNECTED", "*", "rows"): _SHORT,
    ("CONV_2D, one row", "*", "window"): "1x1 is a matrix product",
    ("DEPTHWISE_CONV_2D", "*", "window"): _PORTABLE_WINDOW,
    ("DEPTHWISE_CONV_2D", "*", "stride"):
        "fewer products of each pixel that is laid out; strides that the kernel's head states",
    ("DEPTHWISE_CONV_2D", "*", "dilation"):
        "taps that are apart share no word or vector; dilations that the kernel's head states",
    ("DEPTHWISE_CONV_2D, one row", "*", "window"): _PORTABLE_WINDOW,
    ("DEPTHWISE_CONV_2D, one row", "*", "dilation"): _PORTABLE_WINDOW,
    ("DEPTHWISE_CONV_2D", "*", "multiplier"):
        "several filters a channel run the kernel without vectors",
    ("DEPTHWISE_CONV_2D", "float32", "channels"):
        "filters of one channel are lowered as CONV_2D; a block or vector more",
    ("DEPTHWISE_CONV_2D", "*", "channels"): _BLOCK,
    ("*", "*", "w"): _SHORT,
    ("*", "*", "activation"):
        "without ReLU negative values need a correction, or have no exact constant",
    ("ADD", "*", "row length"): _FOLDED,
    ("SUB", "*", "row length"): _FOLDED,
    ("MUL", "*", "row length"): _FOLDED,
    ("SQUARED_DIFFERENCE", "*", "row length"): _FOLDED,
    ("RESIZE_BILINEAR", "int8", "channels"): "four channels share two words: no other number",
    ("TRANSPOSE", "*", "channels"): "of vectors a matrix has at most 17 rows or columns",
    ("CONCATENATION", "*", "channels"): "blocks of more than 32 bytes are moved by a call",
    ("CONV_2D, one row", "*", "depth"): _CHUNK,
    ("TRANSPOSE_CONV", "*", "depth"): _CHUNK,
    ("TRANSPOSE_CONV", "*", "window"): "at most three taps of a row in a phase (Helium)",
    ("TRANSPOSE_CONV", "*", "stride"): "fewer products an output, which all are requantized",
    ("MAX_POOL_2D", "*", "channels"): _BLOCK,
    ("AVERAGE_POOL_2D", "*", "channels"): _BLOCK,
    ("MEAN of images", "*", "channels"): "one channel runs the portable kernel; a vector more",
    ("SUM of images", "*", "channels"): "one channel runs the portable kernel; a vector more",
}  # fmt: skip


def reason(step: StepFound) -> str:
    """Return why a line has steps; ``-`` if nothing is known."""
    line = step.line
    for operator in (line.operator, "*"):
        for dtype in (step.dtype, "*"):
            if found := REASONS.get((operator, dtype, line.varied)):
                return found
    return "-"


# Output -----------------------------------------------------------------------------------------

#: Lines of the picture: operator and varied property.
DRAWN = (
    ("CONV_2D 1x1", "depth"), ("CONV_2D 1x1", "channels"), ("CONV_2D 1x1", "w"),
    ("CONV_2D 3x3", "depth"), ("CONV_2D 3x3", "channels"), ("CONV_2D 3x3", "w"),
    ("DEPTHWISE_CONV_2D", "channels"), ("DEPTHWISE_CONV_2D", "w"), ("DEPTHWISE_CONV_2D", "window"),
    ("FULLY_CONNECTED", "depth"), ("FULLY_CONNECTED", "channels"), ("TRANSPOSE_CONV", "depth"),
)  # fmt: skip
_COLOURS = ("#5b8db8", "#d98e4a", "#7fb069", "#c46d7c", "#9d7fc1", "#4a4a4a", "#3fa7a0", "#b59b2a")
_COLUMNS = 3
_NAMES = {"w": "width", "h": "height", "spread": "deviation of weights (0: at the ends)"}


def cliffs_figure(found: Mapping[str, Sequence[tuple[Line, str, Curve]]]) -> Figure:
    """Instructions a unit of work of the int8 and float32 lines, by core, with the steps marked."""
    with rc_context(STYLE):
        figure = Figure(figsize=(12, 13))
        grid = figure.subplots(len(DRAWN) // _COLUMNS, _COLUMNS)
        for axes, (operator, varied) in zip(grid.flat, DRAWN, strict=True):
            for colour, (family, lines) in zip(_COLOURS * 2, found.items(), strict=False):
                dtype = FAMILIES[family].dtypes[0]
                for line, own, curve_ in lines:
                    if (line.operator, line.varied, own) != (operator, varied, dtype):
                        continue
                    label = f"{family}, {dtype}"
                    values = [v for v, _ in curve_]
                    axes.plot(
                        values, [f.each for _, f in curve_], "-", color=colour, linewidth=1,
                        label=label,
                    )  # fmt: skip
                    ends = [step.worse for step in steps_of(line, own, curve_)]
                    axes.plot(
                        [v for v, _ in ends],
                        [f.each for _, f in ends],
                        "o",
                        color=colour,
                        markersize=4,
                    )
                    break
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_title(f"{operator}, by {_NAMES.get(varied, varied)}", loc="left", fontsize=9)
            axes.minorticks_off()
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
        figure.supylabel("instructions a multiply-accumulate", fontsize=9)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=5, fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.96))
    return figure


def rows_of(family: str, steps: Sequence[StepFound]) -> list[list[str]]:
    """Return a row for each line with steps: its largest step."""
    largest: dict[tuple[str, str, str], StepFound] = {}
    number: dict[tuple[str, str, str], int] = defaultdict(int)
    for step in steps:
        key = step.line.operator, step.line.varied, step.dtype
        number[key] += 1
        if key not in largest or step.ratio > largest[key].ratio:
            largest[key] = step
    return [
        [
            family, step.line.operator, step.dtype, _NAMES.get(varied, varied), str(number[key]),
            f"{step.ratio:.2f}",
            *(f"{_shown(v)}: {f.each:.2f}, `{f.variant}`" for v, f in (step.better, step.worse)),
            reason(step),
        ]
        for key, step in largest.items()
        for _, varied, _ in [key]
    ]  # fmt: skip


HEADER = (
    *("family", "operator", "type", "varied", "steps", "largest", "better", "worse"), "reason",
)  # fmt: skip


def main() -> int:
    """Print the steps of each family; with ``--write`` write them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--measure", type=int, default=0, metavar="COUNT")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} and its picture")
    args = parser.parse_args()
    if unknown := set(args.families) - set(FAMILIES):
        parser.error(f"unknown family {min(unknown)!r}: choose of {', '.join(FAMILIES)}")
    if args.write and args.families:
        parser.error("--write needs all families")
    found: dict[str, list[tuple[Line, str, Curve]]] = {}
    rows: list[list[str]] = []
    for name in args.families or FAMILIES:
        family = FAMILIES[name]
        found[name] = list(curves(family))
        steps = [step for line in found[name] for step in steps_of(*line)]
        for step in steps:
            print(f"{name}: {step.ratio:.2f} {step.name}", file=sys.stderr)
        rows += rows_of(name, steps)
        largest = sorted(steps, key=lambda step: -step.ratio)[: args.measure]
        for step in largest:
            counted = measured(step, family.board)
            print(f"{name}: {step.name}: estimated {step.ratio:.2f}, counted {counted}")
    print(table(HEADER, rows))
    if args.write:
        save(cliffs_figure(found), PICTURE)
        text = f"![instructions a multiply-accumulate](../images/{PICTURE.name})\n\n" + table(
            HEADER, rows
        )
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), "cliffs", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
