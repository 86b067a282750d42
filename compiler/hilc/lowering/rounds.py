"""Rounding mode of int8 kernels: a layer's rounding policy as the kernels know it."""

from __future__ import annotations

from enum import IntEnum

from hilc.ir import Node, Rounding, Tensor
from hilc.lowering.parameters import HilRequantization
from hilc.numerics.requantize import FixedPoint, has_ties
from hilc.ops.operands import quantization


class Rounds(IntEnum):
    """Rounding mode of kernels: ``HIL_ROUND_TWICE`` and the others of ``quant.h``."""

    TWICE = 0
    TWICE_NARROW = 1
    HALF_UP = 2
    HALF_UP_NARROW = 3
    EVEN = 4


#: Whether kernels of products of int8 round them once, for those forms of rounding that they have;
#: others are left to portable kernels.
ROUNDED_ONCE = {Rounds.TWICE: 0, Rounds.TWICE_NARROW: 0, Rounds.HALF_UP_NARROW: 1}


def rounds(rounding: Rounding, ties: bool, narrow: bool) -> Rounds:
    """Return the rounding mode of a policy.

    Ties to even are half up where no sum ``ties``; ``narrow`` sums and their shifts to the right
    take fewer instructions.
    """
    match rounding:
        case Rounding.DOUBLE:
            return Rounds.TWICE_NARROW if narrow else Rounds.TWICE
        case Rounding.NEAREST_EVEN if ties:
            return Rounds.EVEN
    return Rounds.HALF_UP_NARROW if narrow else Rounds.HALF_UP


def sum_rounds(node: Node, x: Tensor, count: int, scale: FixedPoint) -> Rounds:
    """Return the rounding mode for sums of ``count`` int8 values, less their zero points.

    By TensorFlow Lite's policy that is in the long form, which serves every shift.
    """
    (low, high), zero_point = x.element.bounds, quantization(node, x)[1]
    ends = (low - zero_point) * count, (high - zero_point) * count
    once = node.rounding is not Rounding.DOUBLE
    narrow = once and scale.shift < 0 and max(map(abs, ends)) < 2**30
    return rounds(node.rounding, bool(has_ties(*scale, *ends)), narrow)


def rounding_of(outputs: HilRequantization) -> Rounding:
    """Return the policy that gives a layer's outputs, for the sums that it has.

    That is half up for most layers whose policy is ties to even.
    """
    match Rounds(outputs.narrow):
        case Rounds.TWICE | Rounds.TWICE_NARROW:
            return Rounding.DOUBLE
        case Rounds.EVEN:
            return Rounding.NEAREST_EVEN
    return Rounding.SINGLE
