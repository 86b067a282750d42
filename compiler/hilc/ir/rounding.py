"""How a product of a sum and a real factor becomes a whole number again."""

from __future__ import annotations

from enum import Enum


class Rounding(Enum):
    """The policy of a node; :func:`hilc.numerics.requantize.requantize` computes each."""

    #: gemmlowp's: the product is rounded to 32 bits, half up, and once more by the shift to the
    #: right, half away from zero.
    DOUBLE = "double"
    #: Once, half up.
    SINGLE = "single"
    #: Once, ties to the even neighbour.
    NEAREST_EVEN = "nearest even"
