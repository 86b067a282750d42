"""Filters of one channel each: planes of channels, and the table of what a plane computes."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hilc.lowering.channel_rows import channel_rows
from hilc.lowering.forms import limited
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import DepthwiseConvolution, LinearWeights, packed_once
from hilc.lowering.mve.channels import channel_filters, channel_group, channel_scales
from hilc.lowering.mve.packing import (
    CHUNK,
    FARTHEST,
    any_of,
    bytes_of,
    channel_values,
    narrow_first,
    ties,
)
from hilc.lowering.mve.taps import taps
from hilc.lowering.mve.windows import GATHERED
from hilc.lowering.parameters import (
    HilMveDepthwiseConv2dS8,
    HilMveDepthwiseConv2dS8Channels,
    HilMveDepthwiseConv2dS8Pairs,
    HilMveDepthwiseConv2dS8Rows,
    HilMveDepthwiseConv2dS8Strips,
    HilMveDepthwiseConv2dS8Taps,
)

#: The depthwise kernel's patch of pixels, the channels of its planes with the bytes of scratch that
#: they may take, quick ones first.
_PATCH = 4
_PLANES = ((8, 4096), (8, 1024), (4, 896), (2, 448), (1, 224), (1, 112))
#: Planes and pixels of the variant that gathers a channel's pixels, for images so large that a
#: call for each channel costs little.
_GATHERED_PLANES, _GATHERED_PIXELS = ((1, 4096), (1, 1024), (1, 512), (1, 224), (1, 112)), 256
_PLANES_OF_GATHERS = 2
#: Channels of a pixel that are copied at a time.
_TOGETHER = 8
#: The kernel of rows of filters: rows and columns of filters; rows of a plane by the stride, and
#: columns of one; outputs of a column; channels at a time.
_FILTER_ROWS, _FILTER_COLUMNS = 5, 8
_PLANE_ROWS = {1: 12, 2: 19}
_PLANE_COLUMNS = (32, 96)
_COLUMN = 8
_ROWS_AT_ONCE = (8, 2)
#: Outputs of a column below which portable kernels are faster.
_SHORT_COLUMN = 3
#: The kernel of pairs of rows: columns from a block to the next; rows and columns of filters by the
#: stride; rows of a filter and its columns as packed; zeros before the first filter; pairs of rows
#: of a turn; bytes of a pair in a block; bytes that turns read behind the last block.
_BLOCK_COLUMNS, _PAIRS_TAPS, _FILTER_ROOM = 4, {1: 5, 2: 6}, (6, 8)
_BEFORE_FILTERS, _TURN_PAIRS, _PAIR_BYTES, _BEHIND_BLOCKS = 16, 4, 16, 64
#: Bits of a mask: the run begins with a filter moved by one column more; its turns take two blocks.
_MOVED, _BESIDE = 1 << 30, -(1 << 31)
#: Instructions of its loops: an entry of two tiles, a part of the rows, a call for a channel.
_ENTRY, _PART, _CALL = 31, 8, 40
#: The kernel of strips: bytes of scratch that they may take; the farthest shift by which a zero
#: point moves, and that of products which saturate before it.
_STRIPS_BYTES, _FARTHEST_MOVED, _FARTHEST_NEAR = (16384, 8192, 4096, 2048), -23, -8
#: Turns of a run of each kind; bytes of code from behind a run's jump to them, and to what goes
#: before a run of one place, between both kinds, of a turn of a last column, and more of one that
#: stores in part, or shifts far; bytes of a turn by the stride.
_TURNS, _OTHER_TURNS = 13, 4
_BEFORE, _PARTED, _BETWEEN, _COLUMN_BYTES, _MORE_BYTES = 64, 52, 4, 92, 4
_TURN_BYTES = {1: 84, 2: 108}
#: Columns that may lie before an image, so that the second of a pair is in the first one.
_FARTHEST_PADDED = 2
#: Rows of outputs of a turn by the stride, and of one of a last column.
_TURN_ROWS, _COLUMN_ROWS = {1: 2, 2: 4}, 8
#: Columns of which a turn takes the last row.
_CORNER_WIDTH = 5
#: Lists of tiles, and of their entries, that are kept: bands of equal shape share them.
_KEPT = 512


def depthwise(form: DepthwiseConvolution) -> Sequence[Parameters]:
    """Lower filters of one channel each."""
    if ties(form.requantization):
        return []
    shape = form.shape
    # Behind the others, which serve bands of few rows better.
    strips = list(_depthwise_strips(form))
    found: list[HilMveDepthwiseConv2dS8] = []
    pixels = form.images.out_h * form.images.out_w
    alone = _within_gather(shape) and pixels >= _GATHERED_PIXELS
    least = 1 << 62
    for planes, planes_bytes in _GATHERED_PLANES if alone else _PLANES:
        parameters = _depthwise_planes(form, planes, planes_bytes)
        if parameters is None:
            continue
        if not found and _pays_addresses(parameters):
            # A copy of the table in the scratch is faster, and takes more memory.
            found.append(replace(parameters, addressed=int(parameters.table.size)))
            least = KernelCall(found[0]).scratch_bytes
        scratch = KernelCall(parameters).scratch_bytes
        if scratch < least:
            found.append(parameters)
            least = scratch
    # The kernel takes any planes: what tells variants apart is the scratch, the largest first.
    planes_of = [each.as_form(f"scratch_{n}") for n, each in enumerate(found, 1)]
    special = [*planes_of, *strips] or [*_depthwise_pairs(form), *_depthwise_rows(form)]
    return [*special, *_depthwise_taps(form), *_depthwise_channels(form)]


def _depthwise_channels(form: DepthwiseConvolution) -> Iterator[HilMveDepthwiseConv2dS8Channels]:
    """Yield the kernel of vectors of channels."""
    outputs = form.requantization
    if (rows := channel_rows(form)) is not None:
        yield HilMveDepthwiseConv2dS8Channels(
            channel_rows=rows,
            group=channel_group(form.packing, form.window.filter_w),
            any=any_of(outputs),
            out_zero_point=outputs.output_range.out_zero_point,
            out_min=outputs.output_range.out_min,
            out_max=outputs.output_range.out_max,
            weights=channel_filters(form.packing),
            scales=channel_scales(form.packing),
        )


def _depthwise_taps(form: DepthwiseConvolution) -> Iterator[HilMveDepthwiseConv2dS8Taps]:
    """Yield the ways of filters of any size."""
    outputs = form.requantization
    for rows, fields in taps(form, _taps_scales(form.packing)):
        yield HilMveDepthwiseConv2dS8Taps(
            mve_taps=fields,
            any=any_of(outputs),
            out_min=outputs.output_range.out_min,
            out_max=outputs.output_range.out_max,
        ).as_form(rows)


@packed_once
def _taps_scales(weights: LinearWeights) -> npt.NDArray[np.int32]:
    """Return bias, multiplier, shift and zero point of each channel."""
    zero_point = weights.requantization.output_range.out_zero_point
    zero_points = np.full((weights.channels, 1), zero_point)
    return np.hstack([*channel_values(weights), zero_points]).astype(np.int32).reshape(-1)


def _depthwise_strips(form: DepthwiseConvolution) -> Iterator[HilMveDepthwiseConv2dS8Strips]:
    """Yield the ways of channels in strips, fewer rows at a time in less scratch."""
    h, w, images, outputs = form.placed.h, form.placed.w, form.images, form.requantization
    channels, filters = images.in_c, form.filters
    if (
        channels < _TOGETHER
        or (h.stride, w.stride) not in {(1, 1), (2, 2)}
        or (h.span, w.span) != (h.filter_size, w.filter_size)
        or max(h.filter_size, w.filter_size) >= _PATCH
        or w.pad_before > _FARTHEST_PADDED
        or any_of(outputs) % 2
        or outputs.shifts.min() < _FARTHEST_MOVED
    ):
        return
    far = bool(outputs.shifts.min() < _FARTHEST_NEAR)
    heights = [rows for rows in range(1, images.out_h + 1) if images.out_h % rows == 0]
    found = [
        _Strips(rows, images.out_w, form.channels, form.multiplier, h.stride, far)
        for rows in heights
    ]
    fitting = {
        max((each for each in found if each.scratch <= most), key=lambda each: each.rows)
        for most in _STRIPS_BYTES
        if found[0].scratch <= most
    }
    for n, strips in enumerate(sorted(fitting, key=lambda each: -each.rows), 1):
        if strips.farthest > FARTHEST:
            continue
        kinds = strips.turns
        yield form.parameters(
            HilMveDepthwiseConv2dS8Strips,
            filter_h=h.filter_size,
            filter_w=w.filter_size,
            stride=h.stride,
            pad_top=h.pad_before,
            pad_left=w.pad_before,
            band_h=strips.rows,
            strips=strips.strips,
            plane_h=strips.plane_rows,
            gathered=sum(n * channels + _TOGETHER <= GATHERED for n in (1, 3)),
            masked=int(strips.masked),
            singles=int(strips.singles),
            column=int(strips.column),
            corner=int(strips.corner),
            band_runs=len(strips.runs),
            turns=kinds[0],
            column_turns=kinds[1],
            far=int(far),
            once=int(any_of(outputs) > 0),
            filters=_strip_filters(form.packing, *filters.shape[1:]),
            scales=_strip_scales(form.packing),
            places=bytes_of(strips.places, "<u2").reshape(-1),
            runs=strips.table,
        ).as_form(f"scratch_{n}")


@dataclass(frozen=True)
class _Run:
    """Turns one below the other of two places in the strips, from ``place`` on, of which those of
    the ``other`` kind lie ``distance`` bytes apart.
    """

    place: int
    row: int
    distance: int
    turns: int
    other: bool = False


@dataclass(frozen=True)
class _Strips:
    """Computation of ``depthwise_conv2d_s8_strips.h`` on a channel of a band of ``rows`` rows."""

    rows: int
    width: int
    #: Of the outputs, and those of a channel of the image.
    channels: int
    multiplier: int
    stride: int
    far: bool

    @property
    def column(self) -> bool:
        """Whether the last column has turns of its own: where the others are pairs of strips."""
        return self.stride == 1 and self.width % 4 == 1 and self.rows >= _COLUMN_ROWS

    @property
    def corner(self) -> bool:
        """Whether the last row has a turn of its own, behind those of the last column: there it
        saves one.
        """
        turns, rest = divmod(self.rows, _COLUMN_ROWS)
        return self.column and self.width == _CORNER_WIDTH and rest == 1 and turns <= _OTHER_TURNS

    @property
    def below_each_other(self) -> int:
        """The rows of the other turns."""
        return self.rows - self.corner

    @property
    def masked(self) -> bool:
        """Whether turns compute more than there is."""
        beside = self.width % self.outputs and not self.column
        return self.rows < _TURN_ROWS[self.stride] or bool(beside)

    @property
    def outputs(self) -> int:
        """The columns of outputs of a place."""
        return 2 // self.stride

    @property
    def count(self) -> int:
        """The places of a row."""
        return -(-self.width // self.outputs)

    @property
    def strips(self) -> int:
        """The strips of a channel: a place takes the columns of one, or half of two."""
        return self.count // 2 + 1

    @property
    def singles(self) -> bool:
        """Whether the last place is taken in two parts."""
        return not self.column and self.count % 2 == 1

    @property
    def plane_rows(self) -> int:
        """The rows of a strip, as far as patches reach."""
        return (max(self.rows, _TURN_ROWS[self.stride]) - 1) * self.stride + 3

    @property
    def scratch(self) -> int:
        return 4 * self.plane_rows * _TOGETHER * self.strips

    @property
    def line(self) -> int:
        """From an output to the one below it."""
        return self.width * self.channels

    @property
    def farthest(self) -> int:
        """The farthest offset of an output of a turn, or of a strip."""
        return max(int(self.places.max()), self.scratch)

    @property
    def halves(self) -> int:
        """The turns in which the last place's parts are taken."""
        return -(-self.rows // (2 * _TURN_ROWS[self.stride]))

    @property
    def part(self) -> int:
        """The rows from the first part of the last place to the second."""
        return max(self.rows - _TURN_ROWS[self.stride] * self.halves, 0)

    @property
    def runs(self) -> list[_Run]:
        paired = self.count - self.column - self.singles
        runs = []
        for left in range(0, paired, 2):
            runs += self._below(left)
        if self.singles:
            for row, turns in _split(self.halves, _OTHER_TURNS):
                top = _TURN_ROWS[self.stride] * row
                distance = 4 * self.part * self.stride
                runs.append(_Run(self.count - 1, top, distance, turns, True))
        if self.column:
            runs += self._below(self.count - 1, other=True)
        return runs

    def _below(self, place: int, other: bool = False) -> list[_Run]:
        """Return runs that cover all rows: one that begins above the first, or the last rows again,
        if need be.
        """
        of_turn, most = self._turn_rows(other), _OTHER_TURNS if other else _TURNS
        if early := self._early(other):
            return [_Run(place, -early, 0, (self.below_each_other + early) // of_turn, other)]
        runs = [
            _Run(place, of_turn * first, 0, turns, other)
            for first, turns in _split(self.below_each_other // of_turn, most)
        ]
        if self.below_each_other % of_turn:
            runs.append(_Run(place, max(self.below_each_other - of_turn, 0), 0, 1, other))
        return runs

    def _early(self, other: bool) -> int:
        """Return the rows above the first of which a run computes outputs, which the turn behind
        overwrites.
        """
        of_turn, most = self._turn_rows(other), _OTHER_TURNS if other else _TURNS
        single = of_turn < self.below_each_other <= of_turn * most
        return -self.below_each_other % of_turn if single and not (other and self.singles) else 0

    @property
    def turns(self) -> tuple[int, int]:
        """The turns of a channel: of strips, and of a last column."""
        column = sum(run.turns for run in self.runs if self.column and run.other)
        return sum(run.turns for run in self.runs) - column, column + self.corner

    def _lanes(self, other: bool) -> list[tuple[int, int, int]]:
        """Return, of the outputs of a turn in the order of the narrowed sums, the place (0 or 1),
        row and column.
        """
        if self.column and other:
            return [(0, row + below, 0) for row in range(4) for below in (0, 4)]
        columns = self.outputs
        return [(place, n // columns, n % columns) for n in range(4) for place in (0, 1)]

    def _second(self, other: bool) -> int:
        """Return how far the second place's outputs lie behind the first's."""
        return self.part * self.line if other else self.outputs * self.channels

    @functools.cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """The outputs of each turn of a run."""
        found = []
        for turns, other in ((_TURNS, False), (_OTHER_TURNS, True)):
            of_turn, early = self._turn_rows(other), self._early(other)
            first = turns - (self.rows + early) // of_turn if early else turns
            for turn in range(turns):
                below = [row for _, row, _ in self._lanes(other)]
                if turn == first:
                    below = [row + of_turn if row < early else row for row in below]
                found.append(
                    [
                        (turn * of_turn + row) * self.line
                        + column * self.channels
                        + place * self._second(other)
                        for row, (place, _, column) in zip(below, self._lanes(other), strict=True)
                    ]
                )
        # From the outputs of the last column's run.
        above = _OTHER_TURNS - self.below_each_other // _COLUMN_ROWS
        row = self.rows - 1 + _COLUMN_ROWS * above
        corner = [row * self.line + (x - 4) * self.channels for x in (0, 2, 1, 3, 4, 4, 4, 4)]
        return np.array([*found, corner if self.corner else [0] * len(corner)])

    def _turn_rows(self, other: bool) -> int:
        return _COLUMN_ROWS if self.column and other else _TURN_ROWS[self.stride]

    def _mask(self, run: _Run) -> int:
        """Return a turn's outputs that are stored, two bits each."""
        mask = 0
        for lane, (place, row, column) in enumerate(self._lanes(run.other)):
            x = self.outputs * (run.place + place * (not run.other)) + column
            inside = x < self.width and run.row + row < self.rows
            mask |= 3 << 2 * lane if inside else 0
        return mask

    @property
    def table(self) -> npt.NDArray[np.int32]:
        """The runs as the head of the kernel draws them."""
        more = _MORE_BYTES * self.far
        turn_bytes = _TURN_BYTES[self.stride] + more + _MORE_BYTES * self.masked
        other_bytes = _COLUMN_BYTES + more if self.column else turn_bytes
        rows = []
        reached = stored = 0
        for run in self.runs:
            skipped = (_OTHER_TURNS if run.other else _TURNS) - run.turns
            turns = skipped * (other_bytes if run.other else turn_bytes)
            if run.other:
                turns += _TURNS * turn_bytes + _BETWEEN
            code = _PARTED if run.other and self.singles else _BEFORE + turns
            step = self._turn_rows(run.other)
            out = (run.row - skipped * step) * self.line + self.outputs * run.place * self.channels
            patch = 4 * self.plane_rows * (run.place // 2) + 4 * run.row * self.stride
            mask = self._mask(run)
            rows.append((patch - reached, run.distance, out - stored, code, mask, turns))
            reached, stored = patch + 4 * run.turns * step * self.stride, out
        # The filters of a channel read the same strips.
        next_channel = 4 * self.plane_rows * self.strips * (self.multiplier == 1) - reached
        return np.array([*rows, (next_channel, 0, 1 - stored, 0, 0, 0)], np.int32).reshape(-1)


def _split(turns: int, most: int) -> list[tuple[int, int]]:
    """Return the first turn and the number of turns of runs of at most ``most``."""
    return [(first, min(most, turns - first)) for first in range(0, turns, most)]


@packed_once
def _strip_filters(weights: LinearWeights, height: int, width: int) -> npt.NDArray[np.int8]:
    """Return the filters as the head of the kernel draws them."""
    count, filters = weights.channels, weights.matrix.reshape(-1, height, width)
    patches = np.zeros((count, _PATCH, _PATCH), np.int8)
    patches[:, :height, :width] = filters
    # What is behind a filter of three rows of three is before the next one.
    return np.concatenate([np.zeros(5, np.int8), patches.reshape(-1)])


@packed_once
def _strip_scales(weights: LinearWeights) -> npt.NDArray[np.int32]:
    """Return multiplier, bias, moved zero point and shift of each channel."""
    outputs, count = weights.requantization, weights.channels
    multipliers, bias, shifts = (
        np.broadcast_to(each.astype(np.int64), (count,))
        for each in (outputs.multipliers, outputs.bias, outputs.shifts)
    )
    moved = outputs.output_range.out_zero_point << -shifts
    return np.stack([multipliers, bias, moved, shifts], axis=1).astype(np.int32).reshape(-1)


def _depthwise_pairs(form: DepthwiseConvolution) -> Iterator[HilMveDepthwiseConv2dS8Pairs]:
    """Yield the ways of filters that are too large for a patch by pairs of rows, fewer rows at a
    time in less scratch.
    """
    h, w, images, outputs = form.placed.h, form.placed.w, form.images, form.requantization
    taps = _PAIRS_TAPS.get(h.stride, 0)
    if images.in_c < _TOGETHER or h.stride != w.stride or max(h.span, w.span) > taps:
        return
    heights = [rows for rows in range(1, images.out_h + 1) if images.out_h % rows == 0]
    found = [
        _RowPairs(rows, images.out_w, form.channels, form.multiplier, h.stride) for rows in heights
    ]
    fitting = {
        max((each for each in found if each.scratch <= most), key=lambda each: each.rows)
        for most in _STRIPS_BYTES
        if found[0].scratch <= most
    }
    filter_axes = ((h.filter_size, h.dilation), (w.filter_size, w.dilation))
    for n, pairs in enumerate(sorted(fitting, key=lambda each: -each.rows), 1):
        if pairs.farthest > FARTHEST:
            continue
        runs = pairs.runs
        yield form.parameters(
            HilMveDepthwiseConv2dS8Pairs,
            filter_h=h.span,
            filter_w=w.span,
            stride=h.stride,
            pad_top=h.pad_before,
            pad_left=w.pad_before,
            band_h=pairs.rows,
            blocks=pairs.blocks,
            plane_pairs=pairs.plane_pairs,
            gathered=int(images.in_c + _TOGETHER <= GATHERED),
            band_runs=len(runs),
            turns=sum(run.turns for run in runs if not run.beside),
            beside_turns=sum(run.turns for run in runs if run.beside),
            any=any_of(outputs),
            filters=_pairs_filters(form.packing, filter_axes),
            scales=_pairs_scales(form.packing),
            runs=pairs.table,
        ).as_form(f"scratch_{n}")


@dataclass(frozen=True)
class _PairRun:
    """Turns beside each other from pair of rows ``top`` and block ``block`` on, with the filter
    moved by ``moved`` columns, whose outputs in ``mask`` are stored; of four pairs of a block, or
    of two pairs of two blocks ``beside`` each other.
    """

    moved: int
    top: int
    block: int
    turns: int
    mask: int
    beside: bool = False

    @property
    def blocks(self) -> int:
        return self.turns * (1 + self.beside)


@dataclass(frozen=True)
class _RowPairs:
    """Computation of ``depthwise_conv2d_s8_pairs.h`` on a channel of a band of ``rows`` rows."""

    rows: int
    width: int
    #: Of the outputs, and those of a channel of the image.
    channels: int
    multiplier: int
    stride: int

    @property
    def moves(self) -> int:
        """The filters of a channel, each moved by a column more."""
        return min(_BLOCK_COLUMNS, self.width) if self.stride == 1 else 1

    @property
    def outputs(self) -> int:
        """The columns of outputs of a block."""
        return _BLOCK_COLUMNS // self.stride

    @property
    def blocks(self) -> int:
        return -(-self.width // self.outputs)

    @property
    def pairs(self) -> int:
        """The pairs of input rows at which windows begin: those of two rows of outputs or one."""
        return -(-self.rows * self.stride // 2)

    @property
    def plane_pairs(self) -> int:
        """The pairs of input rows, as far as windows reach."""
        return self.pairs + 2

    @property
    def block_bytes(self) -> int:
        return _PAIR_BYTES * self.plane_pairs

    @property
    def scratch(self) -> int:
        return _TOGETHER * self.blocks * self.block_bytes + _BEHIND_BLOCKS

    @property
    def line(self) -> int:
        """From an output to the one below it."""
        return self.width * self.channels

    @property
    def step(self) -> int:
        """From an output to that of the next block."""
        return self.outputs * self.channels

    @property
    def farthest(self) -> int:
        """The farthest offset of an output of a turn, or of a plane."""
        rows = 2 * _TURN_PAIRS // self.stride
        return max((rows - 1) * self.line + self.step, self.scratch + self.block_bytes)

    @functools.cached_property
    def runs(self) -> list[_PairRun]:
        return [run for moved in range(self.moves) for run in self._runs_of(moved)]

    def _runs_of(self, moved: int) -> Iterator[_PairRun]:
        blocks = -(-(self.width - moved) // self.outputs) if self.stride == 1 else self.blocks
        turns, rest = divmod(self.pairs, _TURN_PAIRS)
        for turn in range(turns):
            yield from self._below(moved, _TURN_PAIRS * turn, range(blocks))
        top, first = _TURN_PAIRS * turns, 0
        if 0 < rest <= _TURN_PAIRS // 2:
            first = blocks // 2 * 2
            turns_beside = [(n, self._mask(moved, top, n, beside=True)) for n in range(0, first, 2)]
            yield from _equal_masks(moved, top, turns_beside, beside=True)
        if rest:
            yield from self._below(moved, top, range(first, blocks))

    def _below(self, moved: int, top: int, blocks: range) -> Iterator[_PairRun]:
        masks = [(n, self._mask(moved, top, n, beside=False)) for n in blocks]
        return _equal_masks(moved, top, masks, beside=False)

    def _mask(self, moved: int, top: int, block: int, *, beside: bool) -> int:
        """Return a turn's outputs that are stored, two bits each, in the order in which the
        narrowed sums lie: those of the two halves of the turn alternate.
        """
        mask = 0
        for lane in range(8):
            pair, other, second = lane // 4, lane // 2 % 2, lane % 2
            down = top + pair + (0 if beside else 2 * second)
            row, right = (2 * down + other, moved) if self.stride == 1 else (down, other)
            x = self.outputs * (block + (second if beside else 0)) + right
            mask |= 3 << 2 * lane if row < self.rows and x < self.width else 0
        return mask

    @property
    def table(self) -> npt.NDArray[np.int32]:
        """The runs as the head of the kernel draws them."""
        rows = []
        reached = stored = 0
        moved = -1
        for run in self.runs:
            place = _PAIR_BYTES * run.top + self.block_bytes * run.block
            row = run.top * 2 // self.stride
            out = row * self.line + run.moved * self.channels + run.block * self.step
            run_bytes = run.blocks * self.block_bytes
            mask = run.mask | _MOVED * (run.moved != moved) | _BESIDE * run.beside
            rows.append((place - reached, out - stored, run_bytes, mask))
            reached, stored, moved = place + run_bytes, out + run.blocks * self.step, run.moved
        # The filters of a channel read the same blocks.
        plane = self.blocks * self.block_bytes * (self.multiplier == 1)
        to_filter = math.prod(_FILTER_ROOM) + self.moves
        rows.append((plane - reached, 1 - stored, to_filter, 0))
        return np.array(rows, np.int32).reshape(-1)


def _equal_masks(
    moved: int, top: int, masks: Sequence[tuple[int, int]], *, beside: bool
) -> Iterator[_PairRun]:
    """Yield a run for each mask of turns that follow each other, given with their blocks."""
    for mask, turns in itertools.groupby(masks, key=operator.itemgetter(1)):
        blocks = [block for block, _ in turns]
        yield _PairRun(moved, top, blocks[0], len(blocks), mask, beside)


@packed_once
def _pairs_filters(
    weights: LinearWeights, axes: tuple[tuple[int, int], tuple[int, int]]
) -> npt.NDArray[np.int8]:
    """Return the filters as the head of the kernel draws them."""
    filters = _spread_filters(weights, axes, _FILTER_ROOM)
    return np.concatenate([np.zeros(_BEFORE_FILTERS, np.int8), filters.reshape(-1)])


@packed_once
def _pairs_scales(weights: LinearWeights) -> npt.NDArray[np.int32]:
    """Return bias, multiplier and shift of each channel."""
    return np.hstack(channel_values(weights)).astype(np.int32).reshape(-1)


def _depthwise_rows(form: DepthwiseConvolution) -> Iterator[HilMveDepthwiseConv2dS8Rows]:
    """Yield the ways of filters that are too large for a patch, which may be dilated ones."""
    h, w, images, outputs = form.placed.h, form.placed.w, form.images, form.requantization
    stride = h.stride
    plane_h = _PLANE_ROWS.get(stride)
    reach = (images.out_w - 1) * stride + w.span
    plane_w = next((width for width in _PLANE_COLUMNS if reach <= width), None)
    if (
        w.stride != stride
        or images.out_h < _SHORT_COLUMN
        or plane_h is None
        or plane_w is None
        or h.span > _FILTER_ROWS
        or w.span > _FILTER_COLUMNS
        or (_COLUMN - 1) * images.out_w * form.channels > FARTHEST
    ):
        return
    filter_axes = ((h.filter_size, h.dilation), (w.filter_size, w.dilation))
    for most, planes in limited(_ROWS_AT_ONCE, images.in_c):
        yield form.parameters(
            HilMveDepthwiseConv2dS8Rows,
            filter_h=h.span,
            filter_w=w.span,
            stride=stride,
            pad_top=h.pad_before,
            pad_left=w.pad_before,
            planes=planes,
            plane_h=plane_h,
            plane_w=plane_w,
            any=any_of(outputs),
            stream=_stream(form.packing, filter_axes, (_FILTER_ROWS, _FILTER_COLUMNS)),
        ).as_form(most)


@packed_once
def _stream(
    layer: LinearWeights, axes: tuple[tuple[int, int], tuple[int, int]], room: tuple[int, int]
) -> npt.NDArray[np.int8]:
    """Return the filters of the channels, each in ``room`` rows and columns and with its bias,
    multiplier and shift. ``axes`` are the taps of a filter and their dilation by rows and columns.
    """
    filters = _spread_filters(layer, axes, room)
    values = bytes_of(np.hstack(channel_values(layer)))
    return np.ascontiguousarray(np.hstack([filters, values]).reshape(-1))


def _spread_filters(
    layer: LinearWeights, axes: tuple[tuple[int, int], tuple[int, int]], room: tuple[int, int]
) -> npt.NDArray[np.int8]:
    """Return the filter of each channel in ``room`` rows and columns, one channel a row."""
    (height, down), (width, right) = axes
    weights = np.zeros((layer.channels, *room), np.int8)
    weights[:, : height * down : down, : width * right : right] = layer.matrix.reshape(
        -1, height, width
    )
    return weights.reshape(layer.channels, -1)


@packed_once
def _narrows_first(weights: LinearWeights) -> bool:
    return narrow_first(weights.matrix, weights.requantization)


def _within_gather(shape: tuple[int, ...]) -> bool:
    """Return whether sixteen pixels of a row lie within the reach of a gather of bytes."""
    return shape[3] * (CHUNK - 1) < GATHERED


def _pays_addresses(p: HilMveDepthwiseConv2dS8) -> bool:
    """Return whether the table may have addresses, and copying it costs less than they save."""
    if p.masked or p.any % 2 or p.stride != 1:
        return False
    parts = p.images.out_h // p.part_h
    iterations = parts * (p.part_iterations - 1) + p.rest_iterations + 2 * p.half_iterations
    saved = 2 * iterations * p.images.in_c * p.depth_multiplier
    return saved > 9 * (p.part_iterations + p.rest_iterations + p.half_iterations) + 60


def _depthwise_planes(
    form: DepthwiseConvolution, planes: int, planes_bytes: int
) -> HilMveDepthwiseConv2dS8 | None:
    """Return the same with ``planes`` channels at a time, in at most ``planes_bytes`` of
    scratch.
    """
    h, w = form.placed.h, form.placed.w
    shape, outputs = form.shape, form.requantization
    stride = h.stride
    largest = {1: _PATCH - 1, 2: _PATCH}.get(stride, 0)
    if (
        w.stride != stride
        or h.span != h.filter_size
        or w.span != w.filter_size
        or max(h.filter_size, w.filter_size) > largest
    ):
        return None
    channel_count = form.channels
    any_clamp = bool(any_of(outputs) % 2)
    planes = min(planes, shape[3])
    # A gather takes sixteen pixels of one channel, other loads eight channels of one pixel.
    gathered = _within_gather(shape) and (planes <= _PLANES_OF_GATHERS or shape[2] >= CHUNK)

    # As far as the patches of the last tile reach.
    def plane_width(columns: int) -> int:
        if stride == 1:
            return (columns - 1) // 2 * 2 + _PATCH
        return (columns + columns % 2 - 1) * stride + _PATCH

    def plane_rows(rows: int) -> int:
        return max(rows, 2) + 2 if stride == 1 else (rows - 1) * stride + _PATCH

    def fits(rows: int, columns: int) -> bool:
        farthest = max(
            rows * w.out_size * channel_count, 8 * plane_width(columns) * plane_rows(rows)
        )
        plane = plane_rows(rows) * plane_width(columns)
        return planes * plane <= planes_bytes and farthest <= FARTHEST

    tile_w = w.out_size
    fitting = [rows for rows in range(1, h.out_size + 1) if fits(rows, tile_w)]
    if fitting:
        band_h, part_h = _bands(h.out_size, tile_w, fitting[-1])
    else:
        # Parts of a row.
        widths = [n for n in range(1, tile_w) if tile_w % n == 0 and fits(1, n)]
        if not widths:
            return None
        tile_w, band_h, part_h = widths[-1], 1, 1
    plane_w = plane_width(tile_w)
    # An odd last column of all rows has entries of its own.
    halves = tile_w % 2 and tile_w > 1 and h.out_size > 1
    halves = bool(halves and band_h == h.out_size and stride == 1 and not any_clamp)
    whole_w = tile_w - halves
    parts = part_h, h.out_size % part_h
    tiles = [tile for rows in parts for tile in _tiles(rows, whole_w)]
    masked = any_clamp or any(tile.mask != _WHOLE_TILE for tile in tiles)
    line = w.out_size * channel_count
    tables = [
        _entries(rows, whole_w, masked, stride, plane_w, line, channel_count) for rows in parts
    ]
    half_entries = []
    if halves:
        half_entries = _half_entries(_tiles(h.out_size, 1), whole_w, plane_w, line, channel_count)
    return form.parameters(
        HilMveDepthwiseConv2dS8,
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride=stride,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
        planes=planes,
        gathered=int(gathered),
        paired=int(not gathered and shape[3] + _TOGETHER <= GATHERED),
        band_h=band_h,
        tile_w=tile_w,
        part_h=part_h,
        part_iterations=len(tables[0]),
        rest_iterations=len(tables[1]),
        half_iterations=len(half_entries),
        plane_h=plane_rows(band_h),
        plane_w=plane_w,
        masked=int(masked),
        any=any_of(outputs),
        first=int(_narrows_first(form.packing)),
        addressed=0,
        table=np.frombuffer(b"".join([*tables[0], *tables[1], *half_entries]), np.int8),
        stream=_stream(form.packing, ((h.filter_size, 1), (w.filter_size, 1)), (_PATCH, _PATCH)),
    )


@dataclass(frozen=True)
class _Tile:
    """A tile of 2x2 outputs and which of them count, row by row."""

    y: int
    x: int
    mask: tuple[bool, bool, bool, bool]


_WHOLE_TILE = (True, True, True, True)


@functools.lru_cache(_KEPT)
def _tiles(rows: int, width: int) -> Sequence[_Tile]:
    """Tiles that cover ``rows`` rows of outputs; whole ones first."""
    if rows == 0:
        return ()
    tops = list(range(0, rows - 1, 2)) or [0]
    if rows % 2 and rows > 1:
        tops.append(rows - 2)
    below = rows > 1
    tiles = []
    for x in range(0, width, 2):
        right = x + 1 < width
        tiles += [_Tile(y, x, (True, right, below, right and below)) for y in tops]
    return tuple(tiles)


@functools.lru_cache(_KEPT)
def _entries(
    rows: int, width: int, masked: bool, stride: int, plane_w: int, line: int, step: int
) -> Sequence[bytes]:
    """Return the table's entries of two tiles of so many outputs; ``line`` and ``step`` are from
    output to output.
    """
    tiles = _tiles(rows, width)
    entries = []
    for i in range(0, len(tiles), 2):
        pair = (tiles[i], tiles[min(i + 1, len(tiles) - 1)])
        # In the order in which the narrowed sums lie: those of the two tiles alternate.
        lanes = [(tile, n // 2, n % 2) for n in range(4) for tile in pair]
        mask = sum(
            3 << (2 * lane)
            for lane, (tile, down, right) in enumerate(lanes)
            if tile.mask[2 * down + right]
        )
        # What is not stored may lie anywhere.
        offsets = [
            (tile.y + down) * line + (tile.x + right) * step if mask >> (2 * lane) & 1 else 0
            for lane, (tile, down, right) in enumerate(lanes)
        ]
        first, second = ((tile.y * plane_w + tile.x) * stride for tile in pair)
        words = (first, mask, second) if masked else (first, second)
        entries.append(struct.pack(f"<{len(words)}i8H", *words, *offsets))
    return entries


def _half_entries(
    tiles: Sequence[_Tile], x: int, plane_w: int, line: int, step: int
) -> list[bytes]:
    """Return the table's entries of a last column ``x``, four tiles of 2x1 outputs each."""
    entries = []
    for i in range(0, len(tiles), 4):
        four = [tiles[min(i + n, len(tiles) - 1)].y for n in range(4)]
        # As the narrowed sums lie: of the first tile and the third alternate, upper and lower ones.
        rows = [four[n + k] + down for n in (0, 1) for down in (0, 1) for k in (0, 2)]
        offsets = [y * line + x * step for y in rows]
        entries.append(struct.pack("<4i8H", *(y * plane_w + x for y in four), *offsets))
    return entries


def _bands(height: int, width: int, largest: int) -> tuple[int, int]:
    """Return the rows of a band of at most ``largest`` outputs and those of its parts, all alike.

    A part costs a few instructions; long tables cost flash.
    """

    def cost(part: int, band: int) -> float:
        parts, rest = divmod(height, part)
        entries = [-(-len(_tiles(rows, width)) // 2) for rows in (part, rest)]
        calls = -(-height // band) + (2 if rest else 0)
        of_parts = parts * (_ENTRY * entries[0] + _PART)
        return of_parts + _ENTRY * entries[1] + _CALL * calls + sum(entries)

    choices = [
        (part, height if largest == height else largest // part * part)
        for part in range(1, largest + 1)
        if part == height or (height % part != 1 and largest // part > 0)
    ]
    part, band = min(choices, key=lambda choice: (cost(*choice), choice))
    return band, part
