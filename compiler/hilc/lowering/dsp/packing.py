"""Weights as the kernels of products read them: pairs of columns, units of four of depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.channels import padded
from hilc.lowering.dsp.affine import (
    BITS,
    Affine,
    RightShiftedChannels,
    affine_of,
    require_right_shifts,
)
from hilc.lowering.linear import LinearForm, LinearWeights, packed_once
from hilc.lowering.parameters import (
    HilDspPairs,
    HilRequantization,
)

#: Elements of depth that a kernel takes at a time, in the order in which they are widened.
UNIT = 4
UNIT_ORDER = (0, 2, 1, 3)
#: Weights up to which twice the room for them is nothing.
SMALL_WEIGHTS = 1024
#: Columns whose weights lie next to each other, for three rows and for a single one.
PAIR = 2
VECTOR_BLOCK = 4
#: Sums of which 256 times is a word, and sums that may be doubled and shifted to the left.
_PAIR_LIMIT, _SHIFTED_LIMIT = 2**23, 2**30
#: Largest right shift of sums, in bits.
_MOST_RIGHT = 29


def units_of(form: LinearForm) -> int:
    """Return the number of words of four elements in a row of ``form.depth`` elements."""
    return -(-form.depth // UNIT)


@packed_once
def channels_of(weights: LinearWeights) -> RightShiftedChannels | None:
    """Return the channels as the kernels take them; None where they cannot."""
    return require_right_shifts(weights.matrix, weights.requantization)


@packed_once
def affine_of_layer(weights: LinearWeights, signs: bool) -> Affine | None:
    """Return the affine requantization of a layer (:func:`affine_of`); None where there is none."""
    channels = channels_of(weights)
    return None if channels is None else affine_of(channels, weights.requantization, signs=signs)


@packed_once
def affine_of_wide(weights: LinearWeights, signs: bool) -> Affine | None:
    """Return the affine requantization of a layer whose weights are not in pairs: that of
    :func:`affine_of_layer`, or one for larger sums. None where there is none.
    """
    channels = channels_of(weights)
    if channels is None:
        return None
    return affine_of(channels, weights.requantization, signs=signs, least_bits=0)


@packed_once
def packed_streams(weights: LinearWeights) -> list[HilDspPairs]:
    """Return the ways to pack the weights in pairs (:func:`streams_of`)."""
    return streams_of(weights.matrix, weights.requantization)


@dataclass(frozen=True)
class PackedColumns:
    """Columns for kernels that round twice, in blocks; ``part`` is the number of units of depth in
    a part, or of all.
    """

    channels: RightShiftedChannels
    weights: npt.NDArray[np.int16]
    block: int
    part: int

    @property
    def units(self) -> int:
        """The number of units of depth."""
        units: int = -(-self.channels.weights.shape[1] // UNIT)
        return units

    @property
    def form(self) -> str:
        """The word of a variant's form."""
        return "in_parts" if self.part < self.units else ""

    def starts(self) -> npt.NDArray[np.int64]:
        """Return the initial values of the two sums of each pair of columns, ``[pairs, 2]``."""
        bias = padded(self.channels.bias, self.block)
        return bias.reshape(-1, PAIR) if self.part < self.units else paired_bias(bias)

    def pair_words(self) -> Array:
        """Return the words for the sums of each pair of columns: HIL_DSP_PAIR_WORDS."""
        factors = padded(self.channels.multipliers.astype(np.int64), PAIR).reshape(-1, 2)
        moves = padded(self.channels.shifts.astype(np.int64), PAIR).reshape(-1, 2) @ (1, 256)
        pairs = np.concatenate([self.starts(), factors, moves[:, np.newaxis]], axis=1)
        return pairs.reshape(-1).astype(np.int32)


@packed_once
def packed_columns_of_layer(weights: LinearWeights, block: int) -> PackedColumns | None:
    """Return the packed columns of a layer (:func:`packed_columns`); None where they do not fit."""
    return packed_columns(weights.matrix, weights.requantization, block)


@packed_once
def pair_words_of_layer(weights: LinearWeights, block: int) -> Array | None:
    """Return the words for the sums of each pair of a layer's columns."""
    packed = packed_columns_of_layer(weights, block)
    return None if packed is None else packed.pair_words()


def streams_of(matrix: Array, outputs: HilRequantization) -> list[HilDspPairs]:
    """Return the ways to pack the weights in pairs, where that serves."""
    channels = require_right_shifts(matrix, outputs)
    affine = None if channels is None else affine_of(channels, outputs, signs=True, least_bits=0)
    if channels is None or affine is None:
        return []
    pairs = paired_weights(channels.weights, PAIR) if affine.bits == BITS else None
    # Wide weights take twice the room and save an instruction in eight.
    kinds = [(2, True), (3, True)]
    if pairs is not None and matrix.size > SMALL_WEIGHTS:
        kinds = [(3, False), *kinds, (2, False)]
    if not affine.shares_one_shift:
        # Only two rows of wide weights leave registers for shifts; wide sums start from a fraction.
        kinds = [(2, True)]
    found = []
    for group, wide in kinds:
        if wide:
            weights = wide_weights(channels.weights, PAIR, affine.bits)
        else:
            assert pairs is not None
            weights = pairs.view(np.int32)
        found.append(
            HilDspPairs(
                group=group,
                wide=int(wide),
                signs=int(affine.corrections is not None),
                shift=affine.shift,
                stream=column_stream(affine, weights, wide, within=wide and group == 2),
            )
        )
    return found


def form_of(pairs: HilDspPairs) -> tuple[str, str]:
    """Return the words of a variant's form: the rows at a time, and whether weights are wide."""
    return f"{pairs.group}_rows", "wide" if pairs.wide else ""


def column_stream(
    affine: Affine,
    weights: npt.NDArray[np.int32],
    wide: bool,
    block: int = PAIR,
    within: bool = False,
) -> Array:
    """Return the packed form of each block of columns, one after the other: ``dsp/pairs_s8.h``.

    ``within`` puts the second bias of a pair behind the first two words of weights.
    """
    starts = affine.starts if wide else affine.bias
    whole = padded(starts, block)
    bias = whole.reshape(-1, PAIR) if wide else paired_bias(whole)
    scales = padded(np.stack(affine.scales, axis=1), block)
    blocks = len(scales) // block
    parts = [
        bias.reshape(blocks, -1),
        weights.reshape(blocks, len(weights) // blocks),
        scales.reshape(blocks, -1),
    ]
    words = np.concatenate(parts, axis=1)
    if within:
        words[:, 1:4] = words[:, [2, 3, 1]]
    return words.reshape(-1).astype(np.int32)


def wide_weights(matrix: Array, block: int, bits: int = BITS) -> npt.NDArray[np.int32]:
    """Weights in half-words, shifted to the left by ``bits``, words of all columns of a block in
    turn.
    """
    depth = matrix.shape[1]
    whole = np.pad(padded(matrix.astype(np.int16), block), ((0, 0), (0, -depth % UNIT))) << bits
    units = whole.reshape(-1, block, whole.shape[1] // UNIT, UNIT)[..., UNIT_ORDER]
    words = units.reshape(*units.shape[:3], 2, 2).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(words).reshape(-1).astype(np.int16).view(np.int32)


def packed_columns(matrix: Array, outputs: HilRequantization, block: int) -> PackedColumns | None:
    """Return the columns in blocks of ``block``; None where they do not fit."""
    channels = require_right_shifts(matrix, outputs)
    if channels is None or not channels.rounds_words_twice:
        return None
    weights, part = paired_weights(channels.weights, block), channels.part_of(UNIT)
    if weights is None or part is None:
        return None
    return PackedColumns(channels, weights, block, part)


def paired_weights(matrix: Array, block: int) -> npt.NDArray[np.int16] | None:
    """Weights as ``kernels/dsp/columns_s8.h`` lays them out; None where a pair needs 17 bits."""
    depth = matrix.shape[1]
    whole = np.pad(padded(matrix.astype(np.int32), block), ((0, 0), (0, -depth % UNIT)))
    pairs = 256 * whole[1::2] + whole[::2]
    if pairs.min() < np.iinfo(np.int16).min:
        return None
    units = pairs.reshape(-1, block // 2, whole.shape[1] // UNIT, UNIT)[..., UNIT_ORDER]
    return np.ascontiguousarray(units.transpose(0, 2, 1, 3)).reshape(-1).astype(np.int16)


def paired_bias(bias: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the initial values of the two sums of each column pair: b0 and 256 * b1 + b0."""
    first, second = bias.reshape(-1, PAIR).T
    return np.stack([first, first + 256 * second], axis=1)


def fits_pairs(bound: int, shifts: Sequence[int]) -> bool:
    """Return whether sums below ``bound`` of pairs of columns are requantized as
    ``hil_dsp_requantized`` does it, by shifts to the left (below 0 to the right).
    """
    return bound < _PAIR_LIMIT and all(
        shift >= -_MOST_RIGHT and bound << max(shift, 0) < _SHIFTED_LIMIT for shift in shifts
    )


def paired_blocks(matrix: Array, bias: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | None:
    """Return biases and weights of each four columns, a row for each, as
    ``kernels/dsp/matvec_s8.h`` takes them; None where a pair needs 17 bits.
    """
    pairs = paired_weights(matrix, VECTOR_BLOCK)
    if pairs is None:
        return None
    words = pairs.view(np.int32).reshape(len(bias) // VECTOR_BLOCK, -1)
    return with_bias(paired_bias(bias), words)


def with_bias(bias: npt.NDArray[np.int64], weights: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the biases of each four columns before their weights."""
    rows = np.concatenate([bias.reshape(-1, VECTOR_BLOCK), weights], axis=1)
    return rows.astype(np.int32)
