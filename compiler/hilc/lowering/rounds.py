"""How kernels of int8 layers round their sums: what a policy of rounding is for a certain layer."""

from __future__ import annotations

from enum import IntEnum

from hilc.ir import Rounding
from hilc.lowering.parameters import HilRequantization


class Rounds(IntEnum):
    """How kernels round sums: ``HIL_ROUND_TWICE`` and the others of ``quant.h``."""

    TWICE = 0
    TWICE_NARROW = 1
    HALF_UP = 2
    HALF_UP_NARROW = 3
    EVEN = 4


def rounds(rounding: Rounding, ties: bool, narrow: bool) -> Rounds:
    """Return how kernels round sums by a policy.

    Ties to even are half up where no sum ``ties``; ``narrow`` sums and their shifts to the right
    take fewer instructions.
    """
    match rounding:
        case Rounding.DOUBLE:
            return Rounds.TWICE_NARROW if narrow else Rounds.TWICE
        case Rounding.NEAREST_EVEN if ties:
            return Rounds.EVEN
    return Rounds.HALF_UP_NARROW if narrow else Rounds.HALF_UP


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
