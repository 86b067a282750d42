"""How integers of few bits become int8 with the upper word of one product, for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.riscv.emitter import Register
from hilc.lowering.rvv.emitter import VectorFunction

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

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        return (
            f"(mulhsu(x * 2^{self.bits}, multiplier) + addend) >> {self.shift}, rounded down, "
            "saturated and clamped. upper_line() has compared it with the reference for all x."
        )


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
    f: VectorFunction, to: int, value: int, line: UpperLine, multiplier: Register, addend: Register
) -> None:
    """Make int8 of scaled words in ``value``, from the selection of words on."""
    f.with_scalar("vmulhsu", value, value, multiplier)
    f.with_scalar("vadd", value, value, addend)
    f.elements(2)
    f.narrow(2, value, value, line.shift)
    f.elements(1)
    f.narrow(1, to, value, 0)


def signed_word(value: int) -> int:
    """Return a word without sign as ``int32_t`` holds it."""
    return value - 2 * _WORD if value >= _WORD else value
