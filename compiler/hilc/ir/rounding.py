"""Rounding policies of the product of a sum and a real factor."""

from __future__ import annotations

from enum import Enum


class Rounding(Enum):
    """Rounding policy of a node; :func:`hilc.numerics.requantize.requantize` computes each."""

    #: gemmlowp: rounded to 32 bits, half up, and again by the right shift, half away from zero.
    DOUBLE = "double"
    #: Rounded once, half up.
    SINGLE = "single"
    #: Rounded once, ties to even.
    NEAREST_EVEN = "nearest even"
