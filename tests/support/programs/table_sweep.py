"""Operators that are tables: many quantizations at once, every entry compared.

A wrong rounding shows in one entry of one table in thousands, so that single operators with random
inputs do not find it. ``tests/campaigns/sweep.py`` is the campaign, ``tests/hilc/test_tables.py`` a
slice of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import litert_ref
import numpy as np
import tflm
from single_op import Draft, Random, SingleOp, finish, merged, pick
from tflite_builder import file_of

from hilc.errors import UnsupportedError
from hilc.ir import Array, Numerics, Quant, Tensor

#: Operators of one variable, and QUANTIZE from one type of integers to another.
SWEPT = (
    *("TANH", "LOGISTIC", "HARD_SWISH", "LEAKY_RELU", "RELU", "RELU6", "SOFTMAX"),
    *("QUANTIZE int8 int8", "QUANTIZE int8 uint8", "QUANTIZE uint8 int8", "QUANTIZE uint8 uint8"),
    *("QUANTIZE int16 int8", "QUANTIZE int16 int16", "QUANTIZE int16 int32"),
    *("QUANTIZE int32 int8", "QUANTIZE int32 int16"),
)
#: Of what is quantized symmetrically: the logarithms of scales, as those of a byte from -9 to 2. An
#: int32 is a sum, or an int16 requantized.
_WIDE_SOURCES = {"int16": (-15.0, -3.0), "int32": (-26.0, -14.0)}
_WIDE_TARGETS = {"int16": (-15.0, -3.0), "int32": (-20.0, -8.0)}
#: What a reference has no kernel for.
LACKING = {Numerics.TFLM: frozenset({"QUANTIZE uint8 uint8"}), Numerics.LITERT: frozenset[str]()}
_ALL = np.arange(-128, 128, dtype=np.int8)
#: A row for each distance to its maximum.
_ROWS = np.stack([np.full(256, 127), 127 - np.arange(256)], 1).astype(np.int8)
#: Operators of one model; TFLM takes 1024 tensors at most where each keeps its memory.
_BATCH = {Numerics.TFLM: 500, Numerics.LITERT: 2000}


@dataclass
class Sweep:
    """What a sweep of one operator found."""

    operator: str
    quantizations: int = 0
    answers: int = 0
    #: Drawn, but refused by our checks.
    refused: int = 0
    #: Quantizations with an answer that is not the reference's, described.
    different: tuple[str, ...] = ()


def sweep(operator: str, count: int, seed: int, reference: Numerics) -> Sweep:
    """``count`` random quantizations of an operator, compared with a reference."""
    rng = np.random.default_rng([seed, SWEPT.index(operator)])
    result = Sweep(operator)
    drawn = _draw(rng, operator, result, reference)
    while (left := count - result.quantizations) > 0:
        compare([next(drawn) for _ in range(min(left, _BATCH[reference]))], result, reference)
    return result


def compare(singles: Sequence[SingleOp], result: Sweep, reference: Numerics) -> None:
    """Add to ``result`` what the reference says of ``singles``, all in one model."""
    graph, values = merged(singles)
    answers = _RUN_TIMES[reference](file_of(graph), values)
    for name, single in zip(graph.outputs, singles, strict=True):
        (ours,), theirs = single.by(reference).reference(), answers[name]
        result.quantizations += 1
        result.answers += ours.size
        if not np.array_equal(ours, theirs):
            result.different += (_described(single, ours, theirs),)


_RUN_TIMES = {Numerics.TFLM: tflm.run, Numerics.LITERT: litert_ref.run}


def unary(
    op: str, source: Quant, target: Quant, types: tuple[str, str] = ("int8", "int8"), **attrs: Any
) -> SingleOp:
    """An operator on every value of a byte, on as many of a wider type, on pairs for SOFTMAX."""
    values: Array = _ROWS if op == "SOFTMAX" else _values(types[0])
    if op == "QUANTIZE":
        attrs["dtype"] = types[1]
    x = Tensor("x", values.shape, types[0], source)
    return finish(np.random.default_rng(0), op, Draft([x], target, attrs), [values])


def _draw(rng: Random, operator: str, result: Sweep, reference: Numerics) -> Iterator[SingleOp]:
    op, *types = operator.split()
    source, target = types or ("int8", "int8")
    while True:
        in_scale = _scale(rng, *_WIDE_SOURCES.get(source, (-9, 2)))
        out = Quant(
            (_scale(rng, *_WIDE_TARGETS.get(target, (-9, 2))),),
            (_zero_point(rng, target, target=True),),
        )
        attrs = {}
        if op == "LEAKY_RELU":
            attrs["alpha"] = float(np.float32(pick(rng, rng.uniform(0, 2), 0.01, 0.1, 0.2, 0.3)))
        elif op == "SOFTMAX":
            attrs["beta"] = float(np.float32(pick(rng, 1.0, np.exp(rng.uniform(-3, 3)))))
        if op in ("LOGISTIC", "SOFTMAX"):
            out = Quant((1 / 256,), (-128,))
        elif op == "TANH" and rng.random() < 0.75:
            # The converter's.
            out = Quant((1 / 128,), (0,))
        try:
            single = unary(
                op, Quant((in_scale,), (_zero_point(rng, source),)), out, (source, target), **attrs
            )
            # What only one of them defines is no matter of the other.
            single.by(reference).reference()
            yield single
        except UnsupportedError:
            result.refused += 1


def _scale(rng: Random, low: float, high: float) -> float:
    """A scale as a file holds it; now and then a power of two, which makes ties."""
    exponent = rng.uniform(low, high)
    return 2.0 ** round(exponent) if rng.random() < 0.1 else float(np.float32(np.exp(exponent)))


def _far(rng: Random, dtype: str) -> int:
    """A zero point such as nobody means, of either sign and any size."""
    return int(rng.integers(-1, 2) * np.exp(rng.uniform(0, 10 if dtype == "int16" else 20)))


def _values(dtype: str) -> Array:
    if dtype in ("int8", "uint8"):
        return _ALL.view(dtype)
    info = np.iinfo(dtype)
    spread: Array = np.linspace(info.min, info.max, 253).round().astype(dtype)
    return np.concatenate([spread, np.array([-1, 0, 1], dtype)])


def _zero_point(rng: Random, dtype: str, *, target: bool = False) -> int:
    if dtype in _WIDE_TARGETS:
        # The reference takes no other int16 output.
        return 0 if rng.random() < 0.7 or (target and dtype == "int16") else _far(rng, dtype)
    info = np.iinfo(dtype)
    ends = (int(info.min), int(info.max), int(info.min) // 2 + int(info.max) // 2)
    return int(rng.integers(info.min, info.max + 1)) if rng.random() < 0.7 else pick(rng, *ends)


def _described(single: SingleOp, ours: Array, theirs: Array) -> str:
    (x,), (y,) = single.ins, single.outs
    place = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
    return (
        f"{single.node.op} {single.node.attrs} {x.quant} -> {y.quant}: "
        f"{np.count_nonzero(ours != theirs)} differ, first {single.values[0][place]} gives "
        f"{ours[place]}, reference {theirs[place]}"
    )
