"""Output channels as the kernels of ``kernels/v7m`` take them: sums below a limit, shifts to the
right; at which sums their outputs change, and how kernels make these of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.channels import Channels, channels_of, once_for_channels, padded
from hilc.lowering.parameters import HilRequantization

#: Exclusive bound of sums.
SUM_LIMIT = 2**30
#: Columns up to a multiple of which scales are filled up.
_BLOCK = 4
#: The largest shift of all channels, and no limit.
_MAX_EVEN_SHIFT = 22
_ANY = 2**62
#: The largest shift to the right: a channel beyond it has an output that does not change.
_MAX_SHIFT = 23
#: In the place of a shift of all channels: HIL_V7M_OWN_SHIFTS, _ONCE and _TIES.
_OWN_SHIFTS = {Rounding.DOUBLE: -1, Rounding.SINGLE: -2, Rounding.NEAREST_EVEN: -3}


@dataclass(frozen=True)
class RightShiftedChannels(Channels):
    """Channels whose sums stay below the limit, with shifts to the right."""

    @property
    def rectified(self) -> bool:
        """Whether no output is below the zero point."""
        return self.range.out_min >= self.range.out_zero_point

    def scales(self) -> npt.NDArray[np.int32]:
        """``[channels, 4]`` as ``hil_v7m_output`` and the others for own shifts take them."""
        bias, shifts = self.bias, self.right
        units = 2 * self.range.out_zero_point + 1
        if self.rounding is not Rounding.DOUBLE:
            added = bias * self.multipliers + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        elif self.rectified:
            added = bias * self.multipliers + (1 << 30) + (units << (shifts + 30))
            first, second, moves = added, added >> 32, shifts - 1
        else:
            first, second, moves = 2 * bias, units << (shifts - 1), shifts
        # The lower 32 bits of each.
        return np.stack([first, second, self.multipliers, moves], axis=1).astype(np.int32)

    def changes(self) -> Changes:
        """Return at which sums outputs change."""
        levels = np.arange(self.range.out_min, self.range.out_max + 1)
        least, most = self.outputs(np.stack(self.ends, axis=1)).T
        reached = (levels > least[:, np.newaxis]) & (levels <= most[:, np.newaxis])
        begins = self.first_sums(levels)
        return Changes(self, levels, reached, begins, least, most)

    def even_scales(self) -> tuple[npt.NDArray[np.int32], int] | None:
        """``[channels, 4]`` as ``hil_v7m_even_output`` takes them, and the shift of all channels;
        None where that is not exact for every sum of every channel.

        Both ways are monotone, so it is enough that they reach each output at the same sum.
        """
        lowest, highest = self.ends
        alive = lowest < highest
        # The multipliers of all but the smallest shift lose bits.
        shift = int(self.right[alive].min(initial=_MAX_SHIFT)) - 1
        if shift > _MAX_EVEN_SHIFT:
            return None
        exponents = 1 + shift - self.right
        multipliers = np.rint(np.ldexp(np.where(alive, self.multipliers, 0.0), exponents))
        factors = multipliers.astype(np.int64)
        unit = 1 << (32 + shift)
        exact = self.bias * factors + (1 << 30) + (2 * self.range.out_zero_point + 1) * (unit >> 1)
        added = self.changes().addend(lambda levels: levels * unit, factors, exact)
        if added is None:
            return None
        zeros = np.zeros_like(added)
        return np.stack([added, added >> 32, factors, zeros], axis=1).astype(np.int32), shift


@dataclass(frozen=True)
class Changes:
    """At which sums the outputs of channels change, of all sums that there are."""

    channels: RightShiftedChannels
    #: All outputs; ``[channels, levels]``: whether they are reached, at which sums.
    levels: npt.NDArray[np.int64]
    reached: npt.NDArray[np.bool_]
    begins: npt.NDArray[np.int64]
    #: The least and the largest output.
    least: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]

    def addend(
        self,
        first: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
        factors: npt.NDArray[np.int64],
        exact: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64] | None:
        """Return what, added to each channel's ``factors`` times the sum, gives a value that
        reaches ``first(levels)`` at the same sum as the output reaches the level, as near to
        ``exact`` as it may be; None where a channel has none.
        """
        range_, (lowest, highest) = self.channels.range, self.channels.ends
        # It must bring each sum at which an output begins to it, and none before; at the ends of
        # the range what is beyond it is clamped.
        wanted = first(self.levels)
        least, beyond = (
            first(levels[:, np.newaxis])[:, 0] for levels in (self.least, self.most + 1)
        )
        at = self.begins * factors[:, np.newaxis]
        enough = np.where(self.reached, wanted - at, -_ANY).max(axis=1)
        enough = np.maximum(
            enough, np.where(self.least > range_.out_min, least - lowest * factors, -_ANY)
        )
        before = at - factors[:, np.newaxis]
        limit = np.where(self.reached, wanted - before, _ANY).min(axis=1)
        limit = np.minimum(
            limit, np.where(self.most < range_.out_max, beyond - highest * factors, _ANY)
        )
        if (enough >= limit).any():
            return None
        return np.clip(exact, enough, limit - 1)


def require_right_shifts(
    matrix: Array, outputs: HilRequantization, raised: int = 0
) -> RightShiftedChannels | None:
    """Return the channels as the kernels take them, inputs so much raised; None where they
    cannot.
    """
    found = channels_of(matrix, outputs, raised=raised)
    weights = found.weights.astype(np.int64)
    reach = np.abs(found.bias) + (128 + abs(raised)) * np.abs(weights).sum(axis=1)
    if reach.max() >= SUM_LIMIT or found.right.min() < 1 or found.right.max() > _MAX_SHIFT:
        return None
    return RightShiftedChannels(**vars(found))


@once_for_channels
def scales_of(channels: RightShiftedChannels) -> tuple[int, Array]:
    """Return the shift of all channels, or that each has its own, and how the sums of each become
    outputs: with one shift for all where that is exact.
    """
    own = channels.scales(), _OWN_SHIFTS[channels.rounding]
    scales, shift = channels.even_scales() or own
    return shift, padded(scales, _BLOCK).reshape(-1)
