"""Operators whose results are rounded once, ties to even, and what they must give in fractions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
from single_op import SingleOp, random_op

from hilc.ir import Array, Quant, Rounding, Tensor
from hilc.ops import OPS
from hilc.ops.operands import quantization

#: Operators and types that have the policy, beside the linear layers.
KINDS = (
    ("ADD", "int8"), ("SUB", "int8"), ("MUL", "int8"), ("MEAN", "int8"), ("QUANTIZE", "int8"),
    ("QUANTIZE", "float32"), ("AVERAGE_POOL_2D", "int8"), ("SOFTMAX", "int8"), ("DIV", "int8"),
    ("BATCH_MATMUL", "int8"), ("TRANSPOSE_CONV", "int8"), ("CUMSUM", "int8"),
    ("ADD", "int16"), ("SUB", "int16"), ("MUL", "int16"), ("MEAN", "int16"),
    ("QUANTIZE", "int16"), ("AVERAGE_POOL_2D", "int16"), ("SOFTMAX", "int16"),
    ("BATCH_MATMUL", "int16"), ("TRANSPOSE_CONV", "int16"), ("DIV", "int16"),
    ("CUMSUM", "int16"),
)  # fmt: skip

_DRAWN_AS = {("DIV", "int16"): ("SUB", "int16"), ("CUMSUM", "int16"): ("CUMSUM", "int8")}


def even_op(rng: np.random.Generator, op: str, dtype: str, ties: bool = False) -> SingleOp:
    """A random operator by the policy; with ``ties`` its scales are powers of two.

    Of int16 half of the activations have a zero point, which the other policies do not allow.
    """
    # These have this policy alone; others have their operands.
    single = random_op(rng, *_DRAWN_AS.get((op, dtype), (op, dtype)))
    node = replace(single.node, op=op, rounding=Rounding.NEAREST_EVEN)
    finer = 8 * (np.dtype(dtype).itemsize - 1) if dtype != "float32" else 0

    def other(tensor: Tensor) -> Tensor:
        if (quant := tensor.quant) is None:
            return tensor
        if op == "CUMSUM":
            tensor = replace(tensor, dtype=dtype)
        scale, zero_point = quant.scale, quant.zero_point
        if ties:
            scale = (2.0 ** -int(rng.integers(4 + finer, 7 + finer)),) * len(scale)
        if tensor.dtype == "int16" and tensor.data is None and rng.random() < 0.5:
            drawn = int(rng.integers(-32768, 32768))
            zero_point = (int(rng.choice([-32768, 32767, drawn])),)
        return replace(tensor, quant=replace(quant, scale=scale, zero_point=zero_point))

    ins, outs = tuple(map(other, single.ins)), tuple(map(other, single.outs))
    if op in ("AVERAGE_POOL_2D", "SOFTMAX"):
        # What the other policy does not allow: another scale behind it.
        scale, zero_point = (0.01, -100) if op == "SOFTMAX" else (0.03, 7)
        if ties:
            scale = 2.0**-7
        quant = Quant((scale / (1 << finer),), (zero_point << finer,))
        outs = tuple(replace(t, quant=t.quant and quant) for t in outs)
    values = tuple(
        v if tensor.dtype == was.dtype else v.astype(tensor.dtype) << finer
        for v, was, tensor in zip(single.values, single.ins, ins, strict=True)
    )
    made = replace(single, node=node, ins=ins, outs=outs, values=values)
    OPS[op].check(node, ins, outs)
    return made


def _steps(tensor: Tensor, value: int) -> int:
    assert tensor.quant is not None
    return value - tensor.quant.zero_point[0]


def _scale(tensor: Tensor) -> Fraction:
    assert tensor.quant is not None
    return Fraction(tensor.quant.scale[0])


def exact_pairs(single: SingleOp, values: Sequence[tuple[int, int]]) -> list[int]:
    """The outputs of ADD, SUB, MUL or DIV for pairs of integers, in fractions.

    By 0 a quotient is beyond every type, on the side of its numerator; 0 / 0 below.
    """
    (a, b), out = single.ins, single.outs[0]
    combine = {
        "ADD": operator.add,
        "SUB": operator.sub,
        "MUL": operator.mul,
        "DIV": operator.truediv,
    }[single.node.op]
    found = []
    for x, y in values:
        if single.node.op == "DIV" and not _steps(b, y):
            found.append(1 << 30 if _steps(a, x) > 0 else -(1 << 30))
            continue
        real = combine(_steps(a, x) * _scale(a), _steps(b, y) * _scale(b))
        # round() of a fraction is to even.
        found.append(round(real / _scale(out)) + quantization(single.node, out)[1])
    return found


def pairs_of_16_bits(rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[Array]]:
    """Pairs of int16 numbers, their ends among them."""
    ends = [-32768, -32767, -1, 0, 1, 32766, 32767]
    drawn = rng.integers(-32768, 32768, (1500, 2)).tolist()
    pairs = [*product(ends, ends), *((a, b) for a, b in drawn)]
    return pairs, [np.array(column, np.int16) for column in zip(*pairs, strict=True)]


def every_pair() -> tuple[list[tuple[int, int]], list[Array]]:
    """Pairs of int8 numbers, as a list and as two arrays."""
    pairs = list(product(range(-128, 128, 3), range(-128, 128, 5)))
    return pairs, [np.array(column, np.int8) for column in zip(*pairs, strict=True)]
