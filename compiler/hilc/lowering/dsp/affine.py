"""Requantization by a multiplication, an addition and a shift, where that is proven to be exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import Channels, channels_of, once_for_channels
from hilc.lowering.parameters import HilDspRange, HilOutputRange, HilRequantization
from hilc.numerics.requantize import requantize

#: Bits by which kernels shift sums to the left before the multiplication. Sums fill a word with
#: them: of larger sums, weights that are not in pairs take fewer.
BITS = 8
_SUM_LIMIT = 2 ** (31 - BITS)
#: Exclusive bound of sums that are words: twice one and its rounding fit a word.
_WORD_LIMIT = 2**29
#: Largest magnitude of an int8 input; four of it times a weight are far from the limits.
_MOST_INPUT = 128
#: Units in a turn of a kernel's loop.
_TURN = 4
#: The largest shift to the right: a channel beyond it has an output that does not change.
MAX_SHIFT = 23


@dataclass(frozen=True)
class RightShiftedChannels(Channels):
    """Channels with shifts to the right."""

    @property
    def reach(self) -> int:
        """The largest magnitude of a sum."""
        return int(max(self.highest.max(), -self.lowest.min()))

    @property
    def rounds_twice(self) -> bool:
        """Whether kernels can round sums twice as TensorFlow Lite does, which the layer asks
        for.
        """
        return self.rounds_words_twice and self.reach < _SUM_LIMIT

    @property
    def rounds_words_twice(self) -> bool:
        """The same for kernels that add up larger sums in parts, as words."""
        twice = self.rounding is Rounding.DOUBLE
        return bool(twice and self.reach < _WORD_LIMIT and self.right.max() <= MAX_SHIFT)

    def part_of(self, unit: int) -> int | None:
        """Return the most units of ``unit`` elements of depth whose sums keep :meth:`holds_parts`,
        or all units where the sums of the whole depth are below the limit. None where a single unit
        is not, since its bias is too large.
        """
        units: int = -(-self.weights.shape[1] // unit)
        if self.reach < _SUM_LIMIT:
            return units
        until = self._magnitudes(unit)
        tried = (_rounded_up(-(-units // parts)) for parts in range(2, units + 1))
        return next((part for part in tried if _most_of_parts(until, part) < _SUM_LIMIT), None)

    def holds_parts(self, part: int, unit: int) -> bool:
        """Return whether no sum of ``part`` units in turn, without the bias, reaches the limit."""
        return bool(_most_of_parts(self._magnitudes(unit), part) < _SUM_LIMIT)

    def _magnitudes(self, unit: int) -> npt.NDArray[np.int64]:
        """Return the largest magnitudes of each channel's sums up to the end of each unit."""
        short = -self.weights.shape[1] % unit
        magnitudes = np.abs(np.pad(self.weights, ((0, 0), (0, short))).astype(np.int32))
        units = sum(magnitudes[:, first::unit] for first in range(unit))
        return _MOST_INPUT * np.cumsum(units, axis=1, dtype=np.int64)

    @property
    def shifts(self) -> npt.NDArray[np.int8]:
        """Shifts to the right, less one."""
        return (self.right - 1).astype(np.int8)


def _most_of_parts(until: npt.NDArray[np.int64], part: int) -> int:
    """Return the largest sum of ``part`` units in turn, of sums ``until`` the end of each unit."""
    before = np.pad(until, ((0, 0), (part, 0)))[:, : until.shape[1]]
    return int((until - before).max())


def _rounded_up(units: int) -> int:
    """Return as many units or a few more, of which there are whole turns if they are several."""
    return units if units < _TURN else -(-units // _TURN) * _TURN


def require_right_shifts(matrix: Array, outputs: HilRequantization) -> RightShiftedChannels | None:
    """Return the channels as the kernels take them; None where they cannot."""
    if outputs.shifts.max() >= 0:
        return None
    # One scale for all leaves none of its own to a channel without weights.
    return RightShiftedChannels(
        **vars(channels_of(matrix, outputs, empty=bool(outputs.per_channel)))
    )


@dataclass(frozen=True)
class Affine:
    """Requantization as a multiplication, an addition and a shift.

    The output is ``addend + ((2**bits * sum + fraction) * multiplier >> 32) >> shift``, saturated,
    for the sum that starts from ``bias`` instead of the channel's own: a large one would not leave
    room for the bits.
    """

    #: 0 to 8; 8 where sums are below 2**23.
    bits: int
    bias: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    multipliers: npt.NDArray[np.int64]
    addends: npt.NDArray[np.int64]
    #: Fractions of the sums, 0 to ``2**bits - 1``, for sums of less than one addend step.
    fractions: npt.NDArray[np.int64]
    #: Subtracted from the addends for negative sums; None if one addend serves all sums.
    corrections: npt.NDArray[np.int64] | None
    #: Whether all channels have the same shift.
    shared: bool

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Initial values of the sums, shifted to the left."""
        return (self.bias << self.bits) + self.fractions

    @property
    def shares_one_shift(self) -> bool:
        """Whether all channels have the same shift, and no fractions."""
        return self.shared and not self.fractions.any()

    @property
    def shift(self) -> int:
        """The shift of all channels, 0 where each has its own."""
        return int(self.shifts[0]) if self.shared else 0

    def of(self, channels: slice) -> Affine:
        """Return the requantization of some of the channels."""
        arrays: dict[str, Any] = {
            name: values[channels]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray)
        }
        return replace(self, **arrays)

    @property
    def scales(self) -> list[npt.NDArray[np.int64]]:
        """Multipliers, addends, the corrections if there are any, shifts if channels differ."""
        corrections = [] if self.corrections is None else [self.corrections]
        return [
            self.multipliers,
            self.addends,
            *corrections,
            *([] if self.shared else [self.shifts]),
        ]


#: Largest distance of a channel's multiplier from the exact one, in units of the last place.
_TRIED_MULTIPLIERS = 64
#: Number of fractions of a sum that are tried, at most.
_FRACTIONS = 16
_MAX_AFFINE_SHIFT = 22
#: The shift of all layers whose multipliers keep bits enough with it.
_USUAL_SHIFT = 12


def affine_of(
    channels: RightShiftedChannels,
    outputs: HilRequantization,
    signs: bool = False,
    least_bits: int = BITS,
) -> Affine | None:
    """Return the affine requantization; None unless it is proven to give equal outputs.

    All channels share the least shift if that leaves the others' multipliers bits enough. Rounding
    twice takes halves away from zero, which no one line does for both signs unless one of them is
    clamped: with ``signs`` negative sums may have an addend of their own. Sums that do not fit a
    word with 8 bits have fewer, ``least_bits`` at least.

    What is beyond a fused activation's range need not be the same: kernels clamp to
    :func:`range_of`.
    """
    levels = _levels(outputs.output_range)
    for bits in _bits_of(channels, least_bits):
        found = _proven(channels, levels, signs, bits)
        if found is not None:
            return found
    return None


def _bits_of(channels: RightShiftedChannels, least: int) -> list[int]:
    """Return the most bits with which a word holds the width of every channel's sums, and the most
    with which it holds the sums themselves, so that negative ones may have their own addend.
    """
    width = int((channels.highest - channels.lowest + 1).max() + 1) // 2
    most = [min(BITS, 31 - (bound + 1).bit_length()) for bound in (width, channels.reach)]
    return [bits for bits in dict.fromkeys(most) if bits >= least]


def range_of(outputs: HilRequantization) -> HilDspRange:
    """Return the range that kernels clamp to."""
    return HilDspRange(low=outputs.output_range.out_min, high=outputs.output_range.out_max)


def _levels(outputs: HilOutputRange) -> range:
    """Every output except the least, which sums below all levels give."""
    return range(outputs.out_min + 1, outputs.out_max + 1)


@once_for_channels
def _proven(channels: RightShiftedChannels, levels: range, signs: bool, bits: int) -> Affine | None:
    if not levels:
        return None
    outputs = np.array(levels)
    first = _thresholds(channels, outputs - channels.range.out_zero_point)
    if first is None:
        return None
    limit = 2 ** (31 - bits)
    large = np.maximum(channels.highest, -channels.lowest) >= limit
    moved = np.where(large, (channels.lowest + channels.highest) // 2, 0)
    first = first - moved[:, np.newaxis]
    lowest, highest = channels.lowest - moved, channels.highest - moved
    if max(highest.max(), -lowest.min()) >= limit:
        return None
    fixed = lowest == highest
    exponents = channels.right + bits - 1
    own = np.where(fixed, _MAX_AFFINE_SHIFT, np.clip(exponents, 0, _MAX_AFFINE_SHIFT))
    least = np.full_like(own, own.min())
    # A unit of the first rounding, in the addend's.
    unit = np.where(fixed, 0, 1 << np.maximum(least - channels.right, 0))
    none = np.zeros_like(unit)
    # The same for many layers, which then may share a body: it is a number in the code.
    usual = np.minimum(least, _USUAL_SHIFT)
    tried = [
        (usual, none),
        (least, none),
        *([(least, unit)] if signs and not large.any() else []),
    ]

    def exact(shifts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # 2**-31 * 2**-right is a multiplier's weight in the sum's factor; here it is
        # 2**-(32 - bits + shift).
        excess = exponents - shifts
        rounded = (channels.multipliers.astype(np.int64) << 1 >> np.maximum(excess, 0)) + 1 >> 1
        return np.where(fixed, 0, rounded)

    bias = channels.bias - moved
    for shifts, corrections in tried:
        found = _affine_requantizations(
            outputs, first, lowest, highest, shifts, exact(shifts), corrections, bits=bits
        )
        if found is not None:
            given = corrections if corrections.any() else None
            return Affine(bits, bias, shifts, *found, none, given, shared=True)
    finer = _finer_affine_requantizations(
        outputs, first, lowest, highest, least, exact(least), bits
    )
    if finer is not None:
        return Affine(bits, bias, least, *finer, None, shared=True)
    found = _affine_requantizations(
        outputs, first, lowest, highest, own, exact(own), none, bits=bits
    )
    if found is not None:
        return Affine(bits, bias, own, *found, none, None, shared=bool((own == least).all()))
    return None


def _finer_affine_requantizations(
    levels: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.int64],
    highest: npt.NDArray[np.int64],
    shifts: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    bits: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return multipliers, addends and fractions; None where a channel has none."""
    none, lines = np.zeros(1, np.int64), []
    fractions = range(0, 1 << bits, max(1, (1 << bits) // _FRACTIONS))
    for channel in range(len(exact)):
        part = slice(channel, channel + 1)
        arrays = (first[part], lowest[part], highest[part], shifts[part], exact[part])
        tried = (
            (_affine_requantizations(levels, *arrays, none, bits=bits, fraction=fraction), fraction)
            for fraction in fractions
        )
        line = next(((*found, fraction) for found, fraction in tried if found is not None), None)
        if line is None:
            return None
        lines.append((line[0][0], line[1][0], line[2]))
    multipliers, addends, found = np.array(lines, np.int64).T
    return multipliers, addends, found


def _affine_requantizations(
    levels: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    lowest: npt.NDArray[np.int64],
    highest: npt.NDArray[np.int64],
    shifts: npt.NDArray[np.int64],
    exact: npt.NDArray[np.int64],
    corrections: npt.NDArray[np.int64],
    *,
    bits: int,
    fraction: int = 0,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return a multiplier near ``exact`` and an addend for each channel; None where one has none.

    ``corrections`` are subtracted from the addends for negative sums; ``fraction`` is added to the
    sums, shifted to the left by ``bits``.

    Outputs rise with sums, by whichever formula, so two formulas agree for all sums, up to outputs
    below and above the ``levels``, if the same sum is the ``first`` to reach each of these.
    """
    multipliers, addends = exact.copy(), np.zeros_like(exact)
    offsets = np.array(sorted(range(-_TRIED_MULTIPLIERS, _TRIED_MULTIPLIERS + 1), key=abs))
    candidates = np.clip(exact[:, np.newaxis] + offsets, 0, 2**31 - 1)
    #: By channel and candidate, whether it may be valid, as far as is known.
    possible = np.ones(candidates.shape, bool)
    left = np.arange(len(exact))
    while left.size:
        if not possible[left].any(axis=1).all():
            return None
        nearest = possible[left].argmax(axis=1)
        tried = candidates[left, nearest, np.newaxis]
        sums, reached = first[left], levels << shifts[left, np.newaxis]
        low, high = lowest[left, np.newaxis], highest[left, np.newaxis]
        correction = corrections[left, np.newaxis]
        at, before = (((x << bits) + fraction) * tried >> 32 for x in (sums, sums - 1))
        least = np.where(sums <= high, reached - at + np.where(sums < 0, correction, 0), -_ANY)
        most = np.where(sums > low, reached - 1 - before + np.where(sums <= 0, correction, 0), _ANY)
        # The two sums between which a line is the most too flat, or too steep.
        channels = np.arange(left.size)
        one, other = (channels, least.argmax(axis=1)), (channels, most.argmin(axis=1))
        needed, allowed = least[one], most[other]
        addend = (np.maximum(needed, -(2**31)) + np.minimum(allowed, 2**31)) >> 1
        both = (np.concatenate([low, high], axis=1) << bits) + fraction
        ends = np.abs(both * tried >> 32).max(axis=1)
        found = (needed <= allowed) & (np.abs(addend) + ends + corrections[left] < 2**31)
        multipliers[left[found]] = tried[found, 0]
        addends[left[found]] = addend[found]
        # From the one sum to the other it may rise so much; rounding down takes less than 1 of it.
        rise = allowed - needed + before[other] - at[one] + 1
        run = sums[other] - 1 - sums[one]
        may = run[:, np.newaxis] * candidates[left] < rise[:, np.newaxis] << 32 - bits
        possible[left] &= may | (needed <= allowed)[:, np.newaxis]
        possible[left, nearest] = False
        left = left[~found]
    return multipliers, addends


#: Beyond every addend.
_ANY = 2**40


def _thresholds(
    channels: RightShiftedChannels, levels: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | None:
    """Return the first sum of each channel whose output is no less than each level above the zero
    point.

    It lies between the channel's least sum and one more than its largest, which stands for none.
    """
    right = channels.right[:, np.newaxis]
    factors = channels.multipliers.astype(np.int64)[:, np.newaxis]
    low, high = channels.lowest[:, np.newaxis], channels.highest[:, np.newaxis]
    rounded = (levels << right) - (1 << right - 1)
    if channels.rounding is Rounding.DOUBLE:
        # Halves are rounded away from zero, and of the product before half up.
        products = (rounded + (levels <= 0) << 31) - (1 << 30)
    else:
        products = rounded << 31
    guess = np.clip(-(-products // np.maximum(factors, 1)), low, high + 1)
    found = np.full(guess.shape, 2**40)
    outputs = partial(requantize, multiplier=factors, shift=-right, rounding=channels.rounding)
    for sums in (guess + 1, guess, guess - 1):
        enough = (outputs(sums) >= levels) & (sums <= high) & (sums >= low)
        found = np.where(enough, sums, found)
    found = np.minimum(found, high + 1)
    before = (found > low) & (outputs(found - 1) >= levels)
    after = (found <= high) & (outputs(found) < levels)
    return None if (before | after).any() else found
