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
meet all outputs of a channel. Its scaled sums take an addend too, in the bits that scaling left
free (:attr:`Output.offset`). Multiplied, it moves the product by parts of a unit of the upper word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Rounding
from hilc.lowering.channels import once_for_channels
from hilc.lowering.riscv.emitter import Function, Register
from hilc.lowering.v7m.channels import RightShiftedChannels

#: The largest shift: 256 outputs, shifted, leave room in a word.
_MAX_SHIFT = 21
#: So many smaller shifts are tried where a constant does not exist or leaves its word.
_TRIED = 10
_NONE = 2**61
#: Other multipliers that are tried on both sides of a channel's own, and by which part of it, in
#: bits, they differ.
_NEAR, _NEAR_BITS = 96, 27
#: Channels for which all of these are tried first.
_PROBED = 4
_WORD = 2**31
#: Bits below a unit of the upper word in which an addend of scaled sums is looked for, how many
#: addends are tried, and what exceeds all constants.
_FINE, _ADDENDS, _FAR = 16, 256, 2**40
#: Part of the outputs that are expected to be clamped: after ReLU about half.
RECTIFIED, LINEAR = 0.5, 0.02
_INT8 = ELEMENT_TYPES["int8"].bounds


@dataclass(frozen=True)
class Scales:
    """Words with which the sums of channels become outputs."""

    #: ``[channels, 2 to 4]``: the multiplier, the constant that is added to the upper word, for
    #: signed outputs the place of a unit of the first rounding, and with an offset the addend of
    #: scaled sums.
    words: npt.NDArray[np.int32]
    shift: int
    signed: bool
    offset: bool


@once_for_channels
def scales_of(channels: RightShiftedChannels, bits: int, base: int) -> Scales | None:
    """Return the scales of sums times ``2**bits``, for outputs that begin at ``base``; None where
    there are none that are exact for each sum of each channel.
    """
    alive = channels.ends[0] < channels.ends[1]
    finest = int(channels.right[alive].min(initial=_MAX_SHIFT)) + bits
    finest = min(finest, _MAX_SHIFT)
    forms = [False]
    if channels.rounding is Rounding.DOUBLE and not channels.rectified:
        forms.append(True)
    for offset in (False, True):
        for signed in forms:
            for shift in range(finest, max(finest - _TRIED, 0), -1):
                words = _Search(channels, bits, base, shift, signed, offset).words()
                if words is not None:
                    return Scales(words, shift, signed, offset)
    return None


class _Search:
    """Search for the multipliers and constants of channels, for one shift."""

    def __init__(
        self,
        channels: RightShiftedChannels,
        bits: int,
        base: int,
        shift: int,
        signed: bool,
        offset: bool,
    ) -> None:
        self._channels = channels
        self._bits = bits
        # Scaling leaves the lowest bits free: these do not make a sum leave its word.
        free = np.arange(0, 1 << bits, max((1 << bits) // _ADDENDS, 1)) if offset else [0]
        self._addends = np.array(free, np.int64)
        lowest, highest = channels.ends
        # Nearly dead channels have no weights: what their sums, all 0, are multiplied with is free.
        alive = lowest < highest
        exponents = shift - (channels.right + bits - 1)
        real = np.ldexp(channels.multipliers.astype(np.float64), exponents)
        self._factors = np.rint(np.where(alive, real, 0.0)).astype(np.int64)
        changes = channels.changes()
        self._reached, self._begins = changes.reached, changes.begins
        range_ = channels.range
        self._places = np.clip(shift - channels.right, 0, _MAX_SHIFT) if signed else None

        def value(levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            """Return the least value of levels ``[channels, n]``."""
            least = (levels - base) << shift
            if self._places is None:
                return least
            unit = np.left_shift(1, self._places)[:, np.newaxis]
            return np.where(levels <= range_.out_zero_point, least + unit, least)

        self._wanted = value(changes.levels)
        least, beyond = value(np.stack([changes.least, changes.most + 1], axis=1)).T
        self._least = np.where(changes.least > range_.out_min, least, -_FAR)
        self._beyond = np.where(changes.most < range_.out_max, beyond, _FAR)
        middle = np.ldexp(channels.bias * channels.multipliers.astype(np.float64), -31)
        middle = np.ldexp(middle, -channels.right) + (range_.out_zero_point - base + 0.5)
        self._middle = np.rint(np.clip(np.ldexp(middle, shift), -_WORD, _WORD)).astype(np.int64)

    def words(self) -> npt.NDArray[np.int32] | None:
        """Return the words of each channel; None if one has none."""
        everyone = np.arange(len(self._factors))
        factors = self._factors.copy()
        found, good = self._constants(everyone, factors)
        # Other multipliers nearby round other sums up: what changes the largest output by a part
        # of its last bit.
        unit = np.maximum(self._factors >> _NEAR_BITS, 1)
        steps = np.repeat(np.arange(1, _NEAR + 1), 2)
        steps[1::2] *= -1
        # A channel that has none at all ends the search soon.
        for channel in np.flatnonzero(~good)[:_PROBED]:
            tried = self._factors[channel] + steps * unit[channel]
            if not self._constants(np.full(len(steps), channel), tried)[1].any():
                return None
        for step in steps:
            failed = np.flatnonzero(~good)
            if not failed.size:
                break
            tried = self._factors[failed] + step * unit[failed]
            own, right = self._constants(failed, tried)
            rows = failed[right]
            factors[rows], found[rows], good[rows] = tried[right], own[right], True
        if not good.all():
            return None
        added, addends = found.T
        places = [] if self._places is None else [self._places]
        offsets = [addends] if self._addends.size > 1 else []
        words = np.stack([factors, added, *places, *offsets], axis=1)
        return words.astype(np.uint32).view(np.int32)

    def _products(
        self,
        sums: npt.NDArray[np.int64],
        factors: npt.NDArray[np.int64],
        addends: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Return what is above the lowest ``_FINE`` bits of the products of scaled sums."""
        scaled = sums << self._bits
        ones = (1,) * (sums.ndim - 1)
        if addends is not None:
            scaled = scaled + addends.reshape(-1, *ones)
        wide = factors.reshape(-1, *ones)
        # The product has 64 bits, sign included: in two halves.
        return (scaled >> _FINE) * wide + (((scaled & (2**_FINE - 1)) * wide) >> _FINE)

    def _bounds(
        self,
        rows: npt.NDArray[np.int64],
        products: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
        bits: int,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the least constant of each of the channels ``rows`` and what it must stay below,
        to have each output begin at its sum; all with ``bits`` below a unit of the upper word.
        """
        lowest, highest = (products(end[rows]) for end in self._channels.ends)
        reached, begins = self._reached[rows], self._begins[rows]
        wanted = self._wanted[rows] << bits
        enough = np.where(reached, wanted - products(begins), -_NONE).max(axis=1)
        enough = np.maximum(enough, (self._least[rows] << bits) - lowest)
        limit = np.where(reached, wanted - products(begins - 1), _NONE).min(axis=1)
        limit = np.minimum(limit, (self._beyond[rows] << bits) - highest)
        # It and what it is added to are words.
        enough = np.maximum(enough, -(_WORD << bits) - np.minimum(lowest, 0))
        limit = np.minimum(limit, (_WORD << bits) - np.maximum(highest, 0))
        return enough, limit

    def _chosen_addends(
        self, rows: npt.NDArray[np.int64], factors: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the addends of scaled sums that leave most room for a constant."""
        if self._addends.size == 1:
            return np.zeros(len(rows), np.int64)
        enough, limit = self._bounds(rows, lambda sums: self._products(sums, factors), _FINE)
        moved = (self._addends * factors[:, np.newaxis]) >> _FINE
        enough, limit = enough[:, np.newaxis] - moved, limit[:, np.newaxis] - moved
        constant = -(-enough >> _FINE) << _FINE
        room = np.minimum(constant - enough, limit - constant)
        return self._addends[room.argmax(axis=1)]

    def _constants(
        self, rows: npt.NDArray[np.int64], factors: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return a constant and an addend of scaled sums for each of the channels ``rows`` with
        these multipliers, and whether they make each output of the channel begin at its sum.
        """
        addends = self._chosen_addends(rows, factors)
        enough, limit = self._bounds(
            rows, lambda sums: self._products(sums, factors, addends) >> (32 - _FINE), 0
        )
        good = (enough < limit) & (factors >= 0) & (factors < 2 * _WORD)
        added = np.clip(self._middle[rows], enough, np.maximum(limit - 1, enough))
        return np.where(good, np.stack([added, addends]), 0).T, good


@dataclass(frozen=True)
class Output:
    """How a layer's sums become outputs."""

    #: Bits by which sums are scaled, and the shift of the upper word.
    bits: int
    shift: int
    #: Whether values below zero are corrected; and what is zero, before the shift.
    signed: bool
    zero: int
    #: Whether scaled sums have an addend of their channel.
    offset: bool
    #: Range of the outputs, and whether it begins at the zero point.
    least: int
    most: int
    rectified: bool
    #: The extension of which instructions are used: ``zbb``, ``xpulp``, ``zve32x`` or none.
    extension: str

    @property
    def words(self) -> int:
        """Words of a channel's scale."""
        return 2 + self.signed + self.offset

    @property
    def features(self) -> frozenset[str]:
        """Features of the core that the function needs."""
        return frozenset({"riscv", "mul32", *filter(None, [self.extension])})

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions of its assembly."""
        # The assembler does not know XPULP: its instructions are written as numbers.
        return ("zbb",) if self.extension == "zbb" else ()

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
        zero = [self.zero] if self.signed else []
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

    def scale(self, f: Function) -> list[Register]:
        """Return registers for the scale of a channel."""
        return f.words("scale", self.words)

    def load(self, f: Function, scale: list[Register], offset: int, base: Register) -> None:
        """Load the scale of a channel."""
        for i, register in enumerate(scale):
            f.load("lw", register, offset + 4 * i, base)

    def emit(
        self,
        f: Function,
        value: Register,
        scale: list[Register],
        constants: list[Register],
        spare: Register,
    ) -> None:
        """Make the output of a scaled sum in its register, whose lowest byte it is then."""
        if self.offset:
            f.operate("add", value, value, scale[-1])
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

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        corrected = ", a unit of the first rounding less below zero" if self.signed else ""
        scaled = f"sum * 2^{self.bits}" + (" + addend" if self.offset else "")
        return (
            f"(mulhsu({scaled}, multiplier) + constant{corrected}) >> {self.shift}, "
            f"clamped to {self.least} to {self.most}. scales_of() has proven for each channel that "
            "each output begins at the same sum as in the reference."
        )


def output_of(
    channels: RightShiftedChannels, bits: int, extension: str
) -> tuple[Output, npt.NDArray[np.int32]] | None:
    """Return how sums times ``2**bits`` become outputs, and the words of each channel; None where
    that is not exact.
    """
    range_ = channels.range
    base = 0 if extension else range_.out_min
    if bits <= 0 or (scales := scales_of(channels, bits, base)) is None:
        return None
    output = Output(
        bits=bits,
        shift=scales.shift,
        signed=scales.signed,
        offset=scales.offset,
        zero=(2 * (range_.out_zero_point - base) + 1) << (scales.shift - 1),
        least=range_.out_min,
        most=range_.out_max,
        rectified=channels.rectified,
        extension=extension,
    )
    return output, scales.words
