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
    ("QUANTIZE", "float32"), ("AVERAGE_POOL_2D", "int8"), ("SOFTMAX", "int8"),
    ("BATCH_MATMUL", "int8"), ("TRANSPOSE_CONV", "int8"),
)  # fmt: skip


def even_op(rng: np.random.Generator, op: str, dtype: str, ties: bool = False) -> SingleOp:
    """A random operator by the policy; with ``ties`` its scales are powers of two."""
    single = random_op(rng, op, dtype)
    node = replace(single.node, rounding=Rounding.NEAREST_EVEN)

    def other(tensor: Tensor) -> Tensor:
        if tensor.quant is None or not ties:
            return tensor
        return replace(
            tensor, quant=Quant((2.0 ** -int(rng.integers(4, 7)),), tensor.quant.zero_point)
        )

    ins, outs = tuple(map(other, single.ins)), tuple(map(other, single.outs))
    if op in ("AVERAGE_POOL_2D", "SOFTMAX"):
        # What the other policy does not allow: another scale behind it.
        scale, zero_point = (0.01, -100) if op == "SOFTMAX" else (0.03, 7)
        if ties:
            scale = 2.0**-7
        outs = tuple(replace(t, quant=t.quant and Quant((scale,), (zero_point,))) for t in outs)
    made = replace(single, node=node, ins=ins, outs=outs)
    OPS[op].check(node, ins, outs)
    return made


def _steps(tensor: Tensor, value: int) -> int:
    assert tensor.quant is not None
    return value - tensor.quant.zero_point[0]


def _scale(tensor: Tensor) -> Fraction:
    assert tensor.quant is not None
    return Fraction(tensor.quant.scale[0])


def exact_pairs(single: SingleOp, values: Sequence[tuple[int, int]]) -> list[int]:
    """The outputs of ADD, SUB or MUL for pairs of int8 numbers, in fractions."""
    (a, b), out = single.ins, single.outs[0]
    combine = {"ADD": operator.add, "SUB": operator.sub, "MUL": operator.mul}[single.node.op]
    found = []
    for x, y in values:
        real = combine(_steps(a, x) * _scale(a), _steps(b, y) * _scale(b))
        # round() of a fraction is to even.
        found.append(round(real / _scale(out)) + quantization(single.node, out)[1])
    return found


def every_pair() -> tuple[list[tuple[int, int]], list[Array]]:
    """Pairs of int8 numbers, as a list and as two arrays."""
    pairs = list(product(range(-128, 128, 3), range(-128, 128, 5)))
    return pairs, [np.array(column, np.int8) for column in zip(*pairs, strict=True)]
