"""How emitted kernels make outputs of int16 of 32-bit sums (:mod:`hilc.lowering.sums32`).

A sum is multiplied with the channel's multiplier. Rounded once with a multiplier of 15 bits, the
upper word of the product with one bit more than the output has, plus one, shifted by one, is the
output: nothing below that bit changes a rounding half up. Rounded to even, where no sum ties, the
upper word takes an addend and the channel's shift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.lowering.linear import LinearWeights, packed_once
from hilc.lowering.riscv.emitter import Function, Register
from hilc.lowering.riscv.outputs import LINEAR, RECTIFIED, ScaledWords
from hilc.lowering.sums32 import narrow_sums_of

#: The least shift to the right of a product with a multiplier of 15 bits: with one bit more in the
#: upper word, the multiplier is below 2**31.
_LEAST_SHIFT = 17
#: Bits of a shift that makes of a product its upper word, with one bit more.
_UPPER = 33


@dataclass(frozen=True)
class WideOutput(ScaledWords):
    """How a layer's sums become outputs."""

    #: Whether upper words have an addend and a shift of their channel.
    shifted: bool
    least: int
    most: int
    #: Whether the range begins at the zero point.
    rectified: bool

    #: Bits by which sums are scaled: none.
    bits = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a channel's scale."""
        return ("bias", "multiplier", *(("addend", "shift") if self.shifted else ()))

    @property
    def constant_count(self) -> int:
        """Registers of :meth:`constants`."""
        return 2

    def constants(self, f: Function) -> list[Register]:
        """Return registers with the constants of all channels."""
        registers = f.words("limit", self.constant_count)
        for register, value in zip(registers, (self.least, self.most), strict=True):
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
        """Make the output of a sum in its register, whose lower half it is then."""
        f.operate("add", value, value, scale[0])
        f.operate("mulhsu", value, value, scale[1])
        if self.shifted:
            f.operate("add", value, value, scale[2])
            f.operate("sra", value, value, scale[3])
        else:
            f.advance(value, 1)
            f.shift("srai", value, value, 1)
        if self.extension:
            f.operate("max", value, value, constants[0])
            f.operate("min", value, value, constants[1])
        else:
            share = RECTIFIED if self.rectified else LINEAR
            f.clamp_between(value, constants[0], constants[1], share)

    @property
    def text(self) -> str:
        """Text of a kernel's head."""
        product = "mulhsu(sum + bias, multiplier)"
        value = f"({product} + addend) >> shift" if self.shifted else f"({product} + 1) >> 1"
        return (
            f"{value}, clamped to {self.least} to {self.most}. narrow_sums() has proven that no "
            "input makes a sum leave 32 bits."
        )


@dataclass(frozen=True)
class PartialSums(ScaledWords):
    """Sums of a part of the products, which are stored as words."""

    #: Bits by which sums are scaled, and registers of :meth:`constants`: none.
    bits = 0
    constant_count = 0
    names = ()
    text = "sums of the products of a part."

    def constants(self, f: Function) -> list[Register]:
        """Return no registers."""
        del f
        return []

    def emit(
        self,
        f: Function,
        value: Register,
        scale: list[Register],
        constants: list[Register],
        spare: Register,
    ) -> None:
        """Leave the sum as it is."""


@packed_once
def wide_output_of(
    layer: LinearWeights, extension: str
) -> tuple[WideOutput, npt.NDArray[np.int32]] | None:
    """Return how sums become outputs, and the words of each channel, ``[channels, words]``; None
    where sums or shifts leave their ranges, or where padding is not zero.
    """
    sums = narrow_sums_of(layer)
    if sums is None or layer.pad_value != 0:
        return None
    if sums.shifted:
        columns = [sums.bias, *sums.scales]
    else:
        if (sums.reduced.astype(bool) & (sums.shifts < _LEAST_SHIFT)).any():
            return None
        columns = [sums.bias, np.where(sums.reduced, sums.reduced << (_UPPER - sums.shifts), 0)]
    words = np.stack(columns, axis=1).astype(np.uint32).view(np.int32)
    rectified = sums.low >= layer.wide.requant.zero_point
    return WideOutput(extension, bool(sums.shifted), sums.low, sums.high, rectified), words
