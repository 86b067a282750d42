"""How emitted kernels make outputs of sums: with the upper word of one product.

A sum of a channel, scaled by a power of two, is multiplied with the channel's multiplier. The
upper word of the product, plus a constant, shifted to the right, is the output. The constant is
searched for so that each output of each channel begins at the same sum as in the reference, for
all sums that inputs can make: both are monotone, so this is equality for every input.

TensorFlow Lite rounds twice, the second time away from zero: a negative value must exceed the
middle between two outputs by a unit of the first rounding. After ReLU that is clamped. Linear
layers for which one constant is not enough take such a unit off values below zero
(:attr:`Output.signed`).

Large sums leave few bits to scale by: a unit of the upper word is then too coarse for a constant to
meet all outputs of a channel. Such layers have the bias, the multiplier and the shift of each
channel as the reference has them (:attr:`Output.own`), for one instruction more, or two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding
from hilc.lowering.channels import once_for_channels
from hilc.lowering.riscv.emitter import Function, Register
from hilc.lowering.v7m.channels import Changes, RightShiftedChannels

#: The largest shift: 256 outputs, shifted, leave room in a word.
_MAX_SHIFT = 21
#: So many smaller shifts are tried where a constant does not exist or leaves its word.
_TRIED = 10
_NONE = 2**61
#: Other multipliers that are tried on both sides of a channel's own, and by which part of it, in
#: bits, they differ.
_NEAR, _NEAR_BITS = 96, 27
_STEPS = np.repeat(np.arange(1, _NEAR + 1), 2)
_STEPS[1::2] *= -1
#: Channels for which all of these are tried first, for one output of so many, then for all.
_PROBED, _PART = 4, 16
_WORD = 2**31
#: The most bits by which sums with shifts of their own are scaled: half a unit of the first
#: rounding is a constant of an instruction.
_OWN_BITS = 11
#: Part of the outputs that are expected to be clamped: after ReLU about half.
RECTIFIED, LINEAR = 0.5, 0.02
_INT8 = ELEMENT_TYPES["int8"].bounds
#: Channels, each by its number, or all.
_Rows = npt.NDArray[np.int64] | slice


@dataclass(frozen=True)
class Scales:
    """Words with which the sums of channels become outputs."""

    #: ``[channels, 2 or 3]``: the multiplier, the constant that is added to the upper word, and for
    #: signed outputs the place of a unit of the first rounding.
    words: npt.NDArray[np.int32]
    shift: int
    signed: bool


@once_for_channels
def scales_of(channels: RightShiftedChannels, bits: int, base: int) -> Scales | None:
    """Return the scales of sums times ``2**bits``, which are words, for outputs that begin at
    ``base``; None where there are none that are exact for each sum of each channel.
    """
    assert max(int(np.abs(end).max()) for end in channels.ends) << bits <= _WORD
    alive = channels.ends[0] < channels.ends[1]
    finest = int(channels.right[alive].min(initial=_MAX_SHIFT)) + bits
    finest = min(finest, _MAX_SHIFT)
    forms = [False]
    if channels.rounding is Rounding.DOUBLE and not channels.rectified:
        forms.append(True)
    changes = channels.changes()
    hard: int | None = None
    for signed in forms:
        for shift in range(finest, max(finest - _TRIED, 0), -1):
            search = _Search(changes, bits, base, shift, signed)
            words = search.words(hard)
            if words is not None:
                return Scales(words, shift, signed)
            hard = search.hard
    return None


class _Search:
    """Search for the multipliers and constants of channels, for one shift."""

    def __init__(self, changes: Changes, bits: int, base: int, shift: int, signed: bool) -> None:
        self._channels = channels = changes.channels
        self._bits = bits
        lowest, highest = channels.ends
        # Nearly dead channels have no weights: what their sums, all 0, are multiplied with is free.
        alive = lowest < highest
        exponents = shift - (channels.right + bits - 1)
        real = np.ldexp(channels.multipliers.astype(np.float64), exponents)
        self._factors = np.rint(np.where(alive, real, 0.0)).astype(np.int64)
        self._changes, self._base, self._shift = changes, base, shift
        range_ = channels.range
        self._places = np.clip(shift - channels.right, 0, _MAX_SHIFT) if signed else None
        #: A channel without any constant, which hardly has one for the next shift; None if each has
        #: one.
        self.hard: int | None = None
        ends = np.stack([changes.least, changes.most + 1], axis=1)
        least, beyond = self._values(slice(None), ends).T
        self._least = np.where(changes.least > range_.out_min, least, -_NONE)
        self._beyond = np.where(changes.most < range_.out_max, beyond, _NONE)
        middle = np.ldexp(channels.bias * channels.multipliers.astype(np.float64), -31)
        middle = np.ldexp(middle, -channels.right) + (range_.out_zero_point - base + 0.5)
        self._middle = np.rint(np.clip(np.ldexp(middle, shift), -_WORD, _WORD)).astype(np.int64)

    def _values(self, rows: _Rows, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the least value of ``levels [n]``, or ``[channels, n]``, of the channels
        ``rows``.
        """
        least = (levels - self._base) << self._shift
        if self._places is None:
            return least
        unit = np.left_shift(1, self._places[rows])[:, np.newaxis]
        return np.where(levels <= self._channels.range.out_zero_point, least + unit, least)

    def words(self, hard: int | None = None) -> npt.NDArray[np.int32] | None:
        """Return multiplier and constant of each channel; None if one has none, perhaps the
        channel ``hard``.
        """
        if hard is not None and self._has_none(hard):
            return None
        added, good = self._constants(slice(None), self._factors)
        factors = self._factors.copy()
        # A channel that has none at all ends the search soon.
        if any(self._has_none(int(channel)) for channel in np.flatnonzero(~good)[:_PROBED]):
            return None
        for step in _STEPS:
            failed = np.flatnonzero(~good)
            if not failed.size:
                break
            tried = self._factors[failed] + step * self._units[failed]
            own, right = self._constants(failed, tried)
            found = failed[right]
            factors[found], added[found], good[found] = tried[right], own[right], True
        if not good.all():
            return None
        places = [] if self._places is None else [self._places]
        return np.stack([factors, added, *places], axis=1).astype(np.uint32).view(np.int32)

    @property
    def _units(self) -> npt.NDArray[np.int64]:
        """For each channel, how far apart multipliers are that round different sums up: what
        changes the largest output by a part of its last bit.
        """
        units: npt.NDArray[np.int64] = np.maximum(self._factors >> _NEAR_BITS, 1)
        return units

    def _has_none(self, channel: int) -> bool:
        """Return whether a channel, which is :attr:`hard` then, has no constant with any of the
        multipliers.
        """
        tried = self._factors[channel] + np.append(0, _STEPS) * self._units[channel]
        # Some outputs refuse most multipliers.
        for part in (slice(None, None, _PART), slice(None)):
            tried = tried[self._constants(np.full(len(tried), channel), tried, part)[1]]
            if not tried.size:
                self.hard = channel
                return True
        return False

    def _constants(
        self, rows: _Rows, factors: npt.NDArray[np.int64], part: slice = slice(None)
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return a constant for each of the channels ``rows`` with these multipliers, and whether
        it makes each output of the channel, or of a ``part`` of these, begin at its sum.
        """
        changes, bits = self._changes, self._bits
        # Scaled sums are words, multipliers are below 2^32: 63 bits and the sign.
        lowest, highest = (((end[rows] << bits) * factors) >> 32 for end in self._channels.ends)
        reached = changes.reached[rows, part]
        wanted = self._values(rows, changes.levels[part])
        products = (changes.begins[rows, part] << bits) * factors[:, np.newaxis]
        enough = np.where(reached, wanted - (products >> 32), -_NONE).max(axis=1)
        enough = np.maximum(enough, self._least[rows] - lowest)
        # Of the sum before.
        products -= (factors << bits)[:, np.newaxis]
        limit = np.where(reached, wanted - (products >> 32), _NONE).min(axis=1)
        limit = np.minimum(limit, self._beyond[rows] - highest)
        # It and what it is added to are words.
        enough = np.maximum(enough, -_WORD - np.minimum(lowest, 0))
        limit = np.minimum(limit, _WORD - np.maximum(highest, 0))
        good = (enough < limit) & (factors >= 0) & (factors < 2 * _WORD)
        added = np.clip(self._middle[rows], enough, np.maximum(limit - 1, enough))
        return np.where(good, added, 0), good


@dataclass(frozen=True)
class ScaledWords:
    """What outputs of integers have in common: a channel's scale is words."""

    #: The extension of which instructions are used: ``zbb``, ``xpulp``, ``zve32x`` or none.
    extension: str

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a channel's scale."""
        raise NotImplementedError

    @property
    def words(self) -> int:
        """Words of a channel's scale."""
        return len(self.names)

    @property
    def features(self) -> frozenset[str]:
        """Features of the core that the function needs."""
        return frozenset({"riscv", "mul32", *filter(None, [self.extension])})

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions of its assembly."""
        # The assembler does not know XPULP: its instructions are written as numbers.
        return ("zbb",) if self.extension == "zbb" else ()

    def scale(self, f: Function) -> list[Register]:
        """Return registers for the scale of a channel."""
        return f.words("scale", self.words)

    def load(self, f: Function, scale: list[Register], offset: int, base: Register) -> None:
        """Load the scale of a channel."""
        for i, register in enumerate(scale):
            f.load("lw", register, offset + 4 * i, base)


@dataclass(frozen=True)
class Output(ScaledWords):
    """How a layer's sums become outputs."""

    #: Bits by which sums are scaled, and the shift of the upper word: 0 if channels have their own.
    bits: int
    shift: int
    #: Whether values below zero are corrected; and what is zero, before the shift.
    signed: bool
    zero: int
    #: Range of the outputs, and whether it begins at the zero point.
    least: int
    most: int
    rectified: bool
    #: Whether each channel has a bias and a shift.
    own: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Words of a channel's scale."""
        if self.own:
            return ("multiplier", "constant", "shift", "bias")
        return ("multiplier", "constant", "place") if self.signed else ("multiplier", "constant")

    @property
    def clips(self) -> bool:
        """Whether one instruction clamps, to the range of int8."""
        return self.extension == "xpulp" and (self.least, self.most) == _INT8

    @property
    def constant_count(self) -> int:
        """Registers of :meth:`constants`."""
        return len(self._constants)

    @property
    def _constants(self) -> list[int]:
        zero = [self.zero] if self.signed and not self.own else []
        if self.clips:
            return zero
        if self.extension:
            return [self.least, self.most, *zero]
        return [self.most - self.least, *zero]

    def constants(self, f: Function) -> list[Register]:
        """Return registers with the constants of all channels."""
        values = self._constants
        registers = f.words("limit", len(values))
        for register, value in zip(registers, values, strict=True):
            f.constant(register, value)
        return registers

    def emit(
        self,
        f: Function,
        value: Register,
        scale: list[Register],
        constants: list[Register],
        spare: Register,
    ) -> None:
        """Make the output of a scaled sum in its register, whose lowest byte it is then."""
        if self.own:
            self._emit_own(f, value, scale, spare)
        else:
            f.operate("mulhsu", value, value, scale[0])
            f.operate("add", value, value, scale[1])
            if self.signed:
                f.operate("slt", spare, value, constants[-1])
                f.operate("sll", spare, spare, scale[2])
                f.operate("sub", value, value, spare)
            f.shift("srai", value, value, self.shift)
        if self.clips:
            f.clip(value)
            return
        if self.extension:
            f.operate("max", value, value, constants[0])
            f.operate("min", value, value, constants[1])
            return
        share = RECTIFIED if self.rectified else LINEAR
        f.clamp(value, constants[0], self.most - self.least, share)
        f.advance(value, self.least)

    def _emit_own(
        self, f: Function, value: Register, scale: list[Register], spare: Register
    ) -> None:
        multiplier, constant, shift, bias = scale
        f.operate("add", value, value, bias)
        f.operate("mulhsu", value, value, multiplier)
        if self.signed:
            f.advance(value, self.half)
            f.shift("srai", spare, value, 31)
            f.shift("slli", spare, spare, self.bits)
            f.operate("add", value, value, spare)
        f.operate("add", value, value, constant)
        f.operate("sra", value, value, shift)

    @property
    def half(self) -> int:
        """Half a unit of the first rounding, of sums with shifts of their own."""
        return 1 << (self.bits - 1)

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        corrected = ", a unit of the first rounding less below zero" if self.signed else ""
        if self.own:
            return (
                f"(mulhsu(sum * 2^{self.bits} + bias, multiplier) + constant{corrected}) >> shift, "
                f"clamped to {self.least} to {self.most}: the reference's own arithmetic, with a "
                "bound for each word. own_scales() has compared where the outputs begin."
            )
        return (
            f"(mulhsu(sum * 2^{self.bits}, multiplier) + constant{corrected}) >> {self.shift}, "
            f"clamped to {self.least} to {self.most}. scales_of() has proven for each channel that "
            "each output begins at the same sum as in the reference."
        )


@dataclass(frozen=True)
class OwnScales:
    """Words with which the sums of channels become outputs as in the reference."""

    #: ``[channels, 4]``: twice the multiplier, the constant that is added to the upper word, the
    #: shift and the bias of scaled sums.
    words: npt.NDArray[np.int32]
    bits: int
    signed: bool


@once_for_channels
def own_scales(channels: RightShiftedChannels, bits: int, base: int) -> OwnScales | None:
    """Return the scales of sums times two to the power of at most ``bits``, with a shift for each
    channel, for outputs that begin at ``base``; None where a word would overflow, or where sums
    tie that are rounded to even.
    """
    signed = channels.rounding is Rounding.DOUBLE and not channels.rectified
    for scaled in range(min(bits, _OWN_BITS), 0, -1):
        words = _own_words(channels, scaled, base, signed)
        if words is not None and _equal(channels, words, base, scaled, signed):
            return OwnScales(words, scaled, signed)
    return None


def _own_words(
    channels: RightShiftedChannels, bits: int, base: int, signed: bool
) -> npt.NDArray[np.int32] | None:
    """Return the words of each channel; None where one, or a value on the way, has no room."""
    range_ = channels.range
    alive = channels.lowest < channels.highest
    half = 1 << (bits - 1)
    twice = channels.rounding is Rounding.DOUBLE
    units = (2 * (range_.out_zero_point - base) + 1) << (channels.right + bits - 1)
    constants = units + (half if twice and not signed else 0)
    # A channel without weights has one output.
    (level,) = channels.outputs(channels.ends[0][:, np.newaxis]).T
    constants = np.where(alive, constants, level - base - (half if signed else 0))
    largest = np.maximum(np.abs(channels.lowest), np.abs(channels.highest)) << bits
    # With the constant, half a unit and a unit of the first rounding.
    reach = ((largest * channels.multipliers) >> 31) + np.abs(constants) + 4 * half
    if (np.where(alive, np.maximum(largest, reach), 0) >= _WORD).any():
        return None
    columns = [2 * channels.multipliers.astype(np.int64), channels.right + bits]
    factors, shifts = (np.where(alive, column, 0) for column in columns)
    words = np.stack([factors, constants, shifts, channels.bias << bits], axis=1)
    return words.astype(np.uint32).view(np.int32)


def _equal(
    channels: RightShiftedChannels, words: npt.NDArray[np.int32], base: int, bits: int, signed: bool
) -> bool:
    """Return whether each output begins at the same sum as in the reference. Both grow with the
    sum, so it is enough to compare the sums at which outputs begin, those before, and the ends.
    """
    lowest, highest = (end[:, np.newaxis] for end in channels.ends)
    begins = channels.changes().begins
    sums = np.clip(np.concatenate([begins - 1, begins, lowest, highest], axis=1), lowest, highest)
    multiplier, constant, shift, bias = (
        column[:, np.newaxis].astype(np.int64) for column in words.T
    )
    multiplier = multiplier & 0xFFFFFFFF
    scaled = (sums << bits) + bias
    # The product has 64 bits, sign included: in two halves.
    value = ((scaled >> 16) * multiplier + (((scaled & 0xFFFF) * multiplier) >> 16)) >> 16
    if signed:
        value += 1 << (bits - 1)
        value -= np.where(value < 0, 1 << bits, 0)
    made = ((value + constant) >> shift) + base
    made = np.clip(made, channels.range.out_min, channels.range.out_max)
    return bool((made == channels.outputs(sums)).all())


def output_of(
    channels: RightShiftedChannels, bits: int, extension: str
) -> tuple[Output, npt.NDArray[np.int32]] | None:
    """Return how sums times two to the power of at most ``bits`` become outputs
    (:attr:`Output.bits`), and the words of each channel; None where that is not exact.
    """
    range_ = channels.range
    base = 0 if extension else range_.out_min
    if bits <= 0:
        return None
    zero, shift, own = 0, 0, False
    scales: Scales | OwnScales | None = scales_of(channels, bits, base)
    if isinstance(scales, Scales):
        shift = scales.shift
        zero = (2 * (range_.out_zero_point - base) + 1) << (shift - 1)
    else:
        scales = own_scales(channels, bits, base)
        if scales is None:
            return None
        bits, own = scales.bits, True
    output = Output(
        extension=extension,
        bits=bits,
        shift=shift,
        signed=scales.signed,
        zero=zero,
        least=range_.out_min,
        most=range_.out_max,
        rectified=channels.rectified,
        own=own,
    )
    return output, scales.words
