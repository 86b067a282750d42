"""How integers of few bits become int8 with the upper word of one product, for all of them.

One line that is rounded down serves most layers. Where values below zero are rounded away from it,
it does not for all integers: the reference's own two roundings are then three instructions more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.riscv.emitter import Register
from hilc.lowering.rvv.emitter import VectorFunction
from hilc.numerics.requantize import FixedPoint

#: Shifts that are tried, and by which parts multipliers differ: rounding away from zero takes one
#: that is a little too large.
_TRIED = 4
_PARTS = (30, 24, 21, 18)
_STEPS = (0, 1, -1, 2, -2, 3, -3)
_WORD = 2**31
#: The scale of integers is a factor of int16.
_MOST_BITS = 14
#: Outputs, shifted, leave room in a word.
_FINEST = 22


@dataclass(frozen=True)
class UpperLine:
    """Outputs as ``(mulhsu(x << bits, multiplier) + addend) >> shift``, clamped."""

    bits: int
    multiplier: int
    addend: int
    shift: int
    #: Whether the upper word is rounded to a multiple of ``1 << bits``, and one of these less below
    #: zero.
    signed: bool = False

    @property
    def half(self) -> int:
        """Half a unit of the first rounding, of a signed line."""
        return 1 << (self.bits - 1)

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        upper = f"mulhsu(x * 2^{self.bits}, multiplier)"
        if self.signed:
            upper = f"y - (y < 0 ? 2^{self.bits} : 0)"
        where = f" with y = mulhsu(x * 2^{self.bits}, multiplier) + {self.half}"
        return (
            f"({upper} + addend) >> {self.shift}{where if self.signed else ''}, rounded down, "
            "saturated and clamped, compared with the reference for all x."
        )

    def values(self, x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the outputs of integers before they are clamped."""
        upper = ((x << self.bits) * self.multiplier) >> 32
        if self.signed:
            upper = upper + self.half
            upper -= np.where(upper < 0, 1 << self.bits, 0)
        return (upper + self.addend) >> self.shift


def line_of(
    x: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    bounds: tuple[int, int],
    real: float,
    scale: FixedPoint | None,
    zero_point: int,
) -> UpperLine | None:
    """Return the line that gives the outputs ``expected`` of the integers ``x``: about ``real``
    times these, which the reference rounds twice with ``scale`` (if not None) and adds the zero
    point to. None if none is found.
    """
    line = upper_line(x, expected, bounds, real)
    return line or (_signed_line(x, expected, bounds, scale, zero_point) if scale else None)


def _signed_line(
    x: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    bounds: tuple[int, int],
    scale: FixedPoint,
    zero_point: int,
) -> UpperLine | None:
    """Return the two roundings of the reference; None where a word on the way overflows."""
    multiplier, right = int(scale.multiplier), -int(scale.shift)
    largest = int(np.abs(x).max())
    for bits in range(min(_MOST_BITS, 30 - largest.bit_length(), _FINEST - right), 0, -1):
        if right < 1:
            break
        addend = (2 * zero_point + 1) << (right + bits - 1)
        line = UpperLine(bits, 2 * multiplier, addend, right + bits, signed=True)
        upper = ((largest << bits) * multiplier >> 31) + line.half + (1 << bits)
        if upper + abs(addend) < _WORD and np.array_equal(
            np.clip(line.values(x), *bounds), expected
        ):
            return line
    return None


def upper_line(
    x: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    bounds: tuple[int, int],
    real: float,
) -> UpperLine | None:
    """Return the line that gives the outputs ``expected`` of the integers ``x``, about ``real``
    times these; None if none is found.
    """
    largest = int(np.abs(x).max())
    bits = min(_MOST_BITS, 30 - largest.bit_length())
    if bits < 1:
        return None
    low, high = bounds
    # Neither the multiplier nor an upper word leaves 32 bits.
    rise = int(np.ceil(np.log2(real)))
    finest = min(bits - rise, 30 - largest.bit_length() - rise, _FINEST)
    for shift in range(finest, max(0, finest - _TRIED), -1):
        exact = real * 2.0 ** (32 - bits + shift)
        for part in _PARTS:
            for step in _STEPS:
                factor = round(exact * (1 + step * 2.0**-part))
                if not 0 < factor < 2 * _WORD:
                    continue
                values = ((x << bits) * factor) >> 32
                least = np.where(expected > low, (expected << shift) - values, -_WORD).max()
                most = np.where(
                    expected < high, ((expected + 1) << shift) - 1 - values, _WORD - 1
                ).min()
                addend = int(least + most) // 2
                if least <= most and abs(addend) + np.abs(values).max() < _WORD:
                    return UpperLine(bits, factor, addend, shift)
    return None


def emit_line(
    f: VectorFunction,
    to: int,
    value: int,
    line: UpperLine,
    constants: tuple[Register, Register],
    spare: tuple[Register, int] | None = None,
) -> None:
    """Make int8 of scaled words in ``value``, from the selection of words on. ``constants`` are the
    multiplier and the addend; ``spare``, for signed lines, a word and the first of eight vector
    registers that are overwritten.
    """
    multiplier, addend = constants
    f.with_scalar("vmulhsu", value, value, multiplier)
    if line.signed:
        assert spare is not None, "a signed line needs registers"
        half, signs = spare
        f.constant(half, line.half)
        f.with_scalar("vadd", value, value, half)
        f.immediate("vsra", signs, value, 31)
        f.immediate("vsll", signs, signs, line.bits)
        f.vectors("vadd", value, value, signs)
    f.with_scalar("vadd", value, value, addend)
    f.elements(2)
    f.narrow(2, value, value, line.shift)
    f.elements(1)
    f.narrow(1, to, value, 0)


def signed_word(value: int) -> int:
    """Return a word without sign as ``int32_t`` holds it."""
    return value - 2 * _WORD if value >= _WORD else value
