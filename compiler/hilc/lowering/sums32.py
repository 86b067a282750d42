"""Sums of products with 16-bit activations: those that fit 32 bits, and others.

A sum of 64 bits is rounded once with a multiplier of 15 bits and a shift to the right. Where no
input makes a sum leave 32 bits, and every shift is 16 to 32, that is the upper word of the product
with the multiplier, shifted to the left and rounded: :func:`narrow_sums` proves it for a layer.

Rounded to even the multiplier has 31 bits. Where no sum ties, the upper word of the product, an
addend that has half a unit and the zero point, and a shift to the right are the same.

Sums that leave 32 bits are rounded as they are: :func:`long_sums_of`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding
from hilc.lowering.linear import LinearForm, LinearWeights, has_tying_sums, packed_once
from hilc.numerics.requantize import INT32_MAX, FixedPoint, reduced_multiplier, reduced_shift

#: The largest magnitude of an input.
_MOST = -int(ELEMENT_TYPES["int16"].low)
#: Shifts to the right that become one to the left of the multiplier.
_LEAST_SHIFT, _MOST_SHIFT = 16, 32
#: The largest shift of an upper word.
_MOST_RIGHT = 30


@dataclass(frozen=True)
class NarrowSums:
    """Requantization of 32-bit sums, one value per channel."""

    bias: npt.NDArray[np.int64]
    #: The multiplier of a sum, of whose product the upper word is the output.
    multipliers: npt.NDArray[np.int64]
    #: The multiplier reduced to 15 bits, and the right shift of its product, in bits.
    reduced: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    low: int
    high: int
    #: Addend of the upper word, and the right shift after it; None if the upper word is the output.
    addends: npt.NDArray[np.int64] | None = None
    rights: npt.NDArray[np.int64] | None = None

    @property
    def shifted(self) -> int:
        """1: upper words have an addend and a shift; 0: they have neither."""
        return int(self.rights is not None)

    #: 1: sums have 64 bits; 0: 32.
    long_sums = 0

    @property
    def scales(self) -> list[npt.NDArray[np.int64]]:
        """The multipliers, and the addends and shifts that there are."""
        found = [self.multipliers, self.addends, self.rights]
        return [each for each in found if each is not None]

    @property
    def heads(self) -> list[npt.NDArray[np.int64]]:
        """Arrays before the weights of each block of columns, one after the other."""
        return [self.bias, *self.scales]


@dataclass(frozen=True)
class LongSums:
    """Requantization of 64-bit sums, one value per channel."""

    bias: npt.NDArray[np.int64]
    #: The multiplier of 15 bits, and the right shift of its product, in bits.
    reduced: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    low: int
    high: int
    shifted = 0
    long_sums = 1

    @property
    def heads(self) -> list[npt.NDArray[np.int64]]:
        """Arrays before the weights; the two words of a bias are next to each other."""
        words = self.bias.astype("<i8").view("<i4").astype(np.int64).reshape(-1, 2)
        return [words, self.reduced, self.shifts]


def narrow_sums(form: LinearForm) -> NarrowSums | None:
    """Return the requantization; None if sums or shifts are out of range."""
    return narrow_sums_of(form.packing)


@packed_once
def narrow_sums_of(form: LinearWeights) -> NarrowSums | None:
    """Return the requantization; None if sums or shifts are out of range."""
    outputs = form.wide
    requant = outputs.requant
    if requant.sums != "int64" or outputs.bound >= 2**31 or form.matrix.dtype.itemsize > 1:
        return None
    if requant.rounding is Rounding.NEAREST_EVEN:
        return _even_sums(form)
    bias = outputs.bias.astype(np.int64)
    multipliers = np.broadcast_to(reduced_multiplier(requant.multipliers), bias.shape)
    shifts = np.broadcast_to(reduced_shift(requant.shifts.astype(np.int64)), bias.shape)
    # A channel that is nearly dead: no sum reaches half a step.
    most = np.abs(bias) + _MOST * np.abs(form.matrix.astype(np.int64)).sum(axis=1)
    dead = most * multipliers < np.int64(1) << (shifts - 1)
    if not (dead | ((shifts >= _LEAST_SHIFT) & (shifts <= _MOST_SHIFT))).all():
        return None
    shifts = np.clip(shifts, _LEAST_SHIFT, _MOST_SHIFT)
    reduced = np.where(dead, 0, multipliers)
    scaled = reduced << (_MOST_SHIFT - shifts)
    return NarrowSums(bias, scaled, reduced, shifts, requant.low, requant.high)


@packed_once
def long_sums_of(form: LinearWeights) -> LongSums | None:
    """Return the requantization of a layer of int8 weights whose sums have 64 bits, by TensorFlow
    Lite's policy for these; None for others.
    """
    requant, bias = form.wide.requant, form.wide.bias.astype(np.int64)
    is_long = requant.sums == "int64" and requant.rounding is Rounding.SINGLE
    if not is_long or form.matrix.dtype.itemsize > 1:
        return None
    multipliers = np.broadcast_to(reduced_multiplier(requant.multipliers), bias.shape)
    shifts = np.broadcast_to(reduced_shift(requant.shifts.astype(np.int64)), bias.shape)
    return LongSums(bias, multipliers, shifts, requant.low, requant.high)


@packed_once
def sums_of(form: LinearWeights) -> NarrowSums | LongSums | None:
    """Return the requantization of 32-bit sums, else of 64-bit sums, else None."""
    return narrow_sums_of(form) or long_sums_of(form)


def _even_sums(form: LinearWeights) -> NarrowSums | None:
    """Return the requantization that rounds once; None if a sum may tie."""
    outputs = form.wide
    requant, bias = outputs.requant, outputs.bias
    if has_tying_sums(form):
        return None
    multipliers = np.broadcast_to(requant.multipliers.astype(np.int64), bias.shape)
    shifts = np.broadcast_to(requant.shifts.astype(np.int64), bias.shape)
    most = np.abs(bias) + _MOST * np.abs(form.matrix.astype(np.int64)).sum(axis=1)
    # Below half a step whatever the input is.
    dead = most * multipliers < np.int64(1) << np.clip(30 - shifts, 0, 62)
    rights = np.where(dead, 1, -1 - shifts)
    multipliers = np.where(dead, 0, multipliers)
    if rights.min() < 1 or rights.max() > _MOST_RIGHT:
        return None
    addends = (2 * requant.zero_point + 1) << (rights - 1)
    if (np.abs(addends) + (most * multipliers >> 32) + 1).max() > INT32_MAX:
        return None
    return NarrowSums(
        bias, multipliers, multipliers, rights, requant.low, requant.high, addends, rights
    )


def shifted_multiplier(factor: FixedPoint) -> int | None:
    """Return the multiplier of which a product's upper word, rounded, is the sum's in its new
    scale; None where the shift leaves the range.
    """
    shift = int(reduced_shift(factor.shift))
    if not factor.multiplier:
        return 0
    if not _LEAST_SHIFT <= shift <= _MOST_SHIFT:
        return None
    return int(reduced_multiplier(factor.multiplier)) << (_MOST_SHIFT - shift)
