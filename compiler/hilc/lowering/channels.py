"""Output channels as kernels for int8 take them: shifted to the right, constant ones emptied."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from hilc.ir import ELEMENT_TYPES, Array, Rounding
from hilc.lowering.parameters import HilOutputRange, HilRequantization
from hilc.lowering.rounds import rounding_of
from hilc.numerics.requantize import requantize, shifts_wrap

_LEAST, _MOST = ELEMENT_TYPES["int8"].bounds
#: Sums around the exact one between which a level is reached.
_NEAR = 3
#: Number of cached results of each function.
_KEPT = 256


@dataclass(frozen=True)
class Channels:
    """Weights and requantization of each output channel."""

    weights: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int64]
    multipliers: npt.NDArray[np.int32]
    #: Shifts to the right.
    right: npt.NDArray[np.int64]
    #: The least and the largest sum that an input makes, bias included.
    lowest: npt.NDArray[np.int64]
    highest: npt.NDArray[np.int64]
    #: Whether the output was the same for every input, so that there are no weights.
    emptied: npt.NDArray[np.bool_]
    #: The policy that gives the outputs of the layer's sums.
    rounding: Rounding
    #: Range of the outputs.
    range: HilOutputRange

    @property
    def key(self) -> tuple[object, ...]:
        """Values that outputs depend on, for all sums that an input makes."""
        arrays = (self.bias, self.multipliers, self.right, self.lowest, self.highest)
        range_ = self.range
        bounds = (range_.out_zero_point, range_.out_min, range_.out_max)
        return (*(array.tobytes() for array in arrays), self.rounding, *bounds)

    @property
    def ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The least and the largest sum of each channel, bias not included."""
        return self.lowest - self.bias, self.highest - self.bias

    def outputs(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the outputs of ``sums [channels, n]``, bias not included."""
        bias, multipliers, shifts = (
            v[:, np.newaxis] for v in (self.bias, self.multipliers, self.right)
        )
        values = requantize(sums + bias, multipliers, -shifts, self.rounding)
        values = values + self.range.out_zero_point
        return np.clip(values, self.range.out_min, self.range.out_max)

    def first_sums(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """``[channels, levels]``: the smallest sum, bias not included, whose output reaches the
        level; the largest of all where none does. Outputs grow with the sum, so this says all of
        them.
        """
        lowest, highest = (end[:, np.newaxis] for end in self.ends)
        # Where the exact product, half a unit of the output more, is that of the level; rounding
        # moves this by less than _NEAR sums.
        halves = 2 * (levels - self.range.out_zero_point) - 1
        units = np.ldexp(1.0 / np.maximum(self.multipliers, 1), 30 + self.right)
        about = np.floor(halves * units[:, np.newaxis]).astype(np.int64) - self.bias[:, np.newaxis]
        # What is below the range of outputs is clamped to its least.
        about = np.where(levels <= self.range.out_min, lowest - 1 - _NEAR, about)
        under = np.clip(about - _NEAR, lowest - 1, highest - 1)
        reaching = np.clip(about + _NEAR, under + 1, highest)
        # No sum lies before the lowest, whatever its output would be.
        far = (under >= lowest) & (self.outputs(under) >= levels)
        far |= (reaching < highest) & (self.outputs(reaching) < levels)
        under, reaching = np.where(far, lowest - 1, under), np.where(far, highest, reaching)
        while (reaching - under > 1).any():
            middle = (under + reaching) >> 1
            reached = (self.outputs(middle) >= levels) & (middle >= lowest)
            reaching = np.where(reached, middle, reaching)
            under = np.where(reached, under, middle)
        return reaching


_P = ParamSpec("_P")
_T = TypeVar("_T")
_C = TypeVar("_C", bound=Channels)


def once_for_channels(
    proof: Callable[Concatenate[_C, _P], _T],
) -> Callable[Concatenate[_C, _P], _T]:
    """Decorate a function of the channels alone: its result is shared by all bands of an image."""
    known: dict[tuple[object, ...], _T] = {}

    @functools.wraps(proof)
    def kept(channels: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        key = (*channels.key, *args, *kwargs.items())
        if key not in known:
            if len(known) >= _KEPT:
                known.clear()
            known[key] = proof(channels, *args, **kwargs)
        return known[key]

    return kept


def channels_of(
    matrix: Array, outputs: HilRequantization, *, raised: int = 0, empty: bool = True
) -> Channels:
    """Return the channels of a matrix of weights, for inputs that are ``raised`` by so much, which
    the bias takes off again.

    With ``empty`` a channel whose output is the same for every input, as nearly dead ones are whose
    bias exceeds all else, becomes one without weights.
    """
    bias = outputs.bias.astype(np.int64) - raised * matrix.sum(axis=1, dtype=np.int64)
    right = np.broadcast_to(-outputs.shifts.astype(np.int64), bias.shape)
    multipliers = np.broadcast_to(outputs.multipliers.astype(np.int64), bias.shape)
    range_, rounding = outputs.output_range, rounding_of(outputs)
    ends = [bias + end for end in sum_ends(matrix, raised)]
    least, most = (
        np.clip(
            requantize(end, multipliers, -right, rounding) + range_.out_zero_point,
            range_.out_min,
            range_.out_max,
        )
        for end in ends
    )
    emptied = (least == most) & ~shifts_wrap(ends[0], ends[1], -right) & empty
    # A quarter of four times the value.
    bias = np.where(emptied, 4 * (least - range_.out_zero_point), bias)
    lowest, highest = (np.where(emptied, bias, end) for end in ends)
    return Channels(
        np.where(emptied[:, np.newaxis], np.int8(0), matrix.astype(np.int8)),
        bias,
        np.where(emptied, 1 << 30, multipliers).astype(np.int32),
        np.where(emptied, 1, right),
        lowest,
        highest,
        emptied,
        rounding,
        range_,
    )


def sum_ends(
    weights: Array, raised: int = 0, bounds: tuple[int, int] = (_LEAST, _MOST)
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the least and the largest sum of each channel, bias not included, for all inputs
    within the bounds: those of int8.
    """
    # The magnitudes of bytes, and their sums, have room in types of which NumPy makes few copies.
    wide, sums = (np.int16, np.int32) if weights.dtype == np.int8 else (np.int64, np.int64)
    total = weights.sum(axis=1, dtype=sums).astype(np.int64)
    magnitudes = np.abs(weights.astype(wide)).sum(axis=1, dtype=sums)
    above, below = (total + magnitudes) // 2, (total - magnitudes) // 2
    least, most = raised + bounds[0], raised + bounds[1]
    return most * below + least * above, most * above + least * below


def padded(values: Array, block: int) -> Array:
    """``values`` along the first axis, with zeros up to a whole number of blocks."""
    return np.pad(values, [(0, -len(values) % block)] + [(0, 0)] * (values.ndim - 1))
