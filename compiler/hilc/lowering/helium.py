"""Choice and data of the Helium kernels (``runtime/include/hil/kernels/mve``).

Each function returns the call of a kernel for one layer, or None where the layer's shape or
quantisation is not one that the kernels take; the portable kernels take every layer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.ir import Array
from hilc.lowering.generic.binary import sum_parameters
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
    RequantizationParameters,
    linear_form,
)
from hilc.lowering.parameters import (
    HilAveragePoolS8Mve,
    HilConv2d3x3S8Mve,
    HilConv2dRgbS8Mve,
    HilConv2dS8Mve,
    HilDepthwiseConv2dS8Mve,
    HilMatmulS8Mve,
    HilMveColumns,
    HilMvePixels,
    HilPixelsS8Mve,
    HilPointsS8Mve,
    HilScaledSumS8Mve,
    HilStripsS8Mve,
    HilSumS8,
    HilSumS8Mve,
    HilVectorS8Mve,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import requantize
from hilc.ops.pooling import pooling_clamp, pooling_window

#: Bytes of a vector register: depths are padded to this many weights.
CHUNK = 16
#: Rows that the blocks of ``blocks_s8.h`` take at a time, columns that they take of a vector.
_ROWS, _VECTOR_COLUMNS = 4, 8
#: With fewer rows a vector at a time is quicker than four of which some are repeated.
_FEW_ROWS = 2
#: The outputs of a block are stored at 16-bit distances.
_FARTHEST = (1 << 16) - 1
#: Columns of a group in the order of the sums in ``hil_mve_vector_s8``.
_VECTOR_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)

#: Of products in 16 bits, that is shifts by which the largest of them gives 255 or more.
_NEAR_SHIFT = 8

#: What ``pixels_s8.h`` takes: chunks of depth; fours of columns as they are narrowed.
_DEEPEST = 8
_NARROWED = (0, 2, 1, 3)
#: Strips of windows: bytes that a gather reaches, and windows at least and at most.
_GATHERED, _SHORTEST_STRIP, _LONGEST_STRIP = 256, 4, 32

#: The depthwise kernel's patch of pixels, the channels of its planes with the bytes of scratch that
#: they may take, quick ones first.
_PATCH = 4
_PLANES = ((8, 4096), (8, 1024), (4, 896), (2, 448), (1, 224), (1, 112))
#: The same where a gather fetches a channel's pixels, for images so large that a call for each
#: channel costs little.
_GATHERED_PLANES, _GATHERED_PIXELS = ((1, 4096), (1, 1024), (1, 512), (1, 224), (1, 112)), 256
_PLANES_OF_GATHERS = 2
#: Instructions of its loops: a turn of two tiles, a part of the rows, a call for a channel.
_TURN, _PART, _CALL = 31, 8, 40

#: Where the search for factors of sums looks around the nearest factors.
_NEARBY = np.array(
    sorted(
        ((a, b) for a in range(-16, 17) for b in range(-16, 17)),
        key=lambda pair: sum(map(abs, pair)),
    )
)

#: The average pooling kernel's: sums fit their shift to the left, the reciprocal's point.
_LARGEST_POOL, _RECIPROCAL_BITS = 4096, 24


@lowers(*LINEAR, dtypes={"int8"}, requires={"mve"})
def linear(layer: Layer) -> list[KernelCall]:
    """The family's kernels for a linear layer."""
    form = linear_form(layer)
    # The blocks requantize as the specification does where all shifts are to the right.
    if form.requantization.shifts.max() >= 0:
        return []
    if isinstance(form, MatrixProduct):
        return _vector(form) if form.rows <= _FEW_ROWS else _matmul(form)
    if isinstance(form, Convolution):
        return _conv2d(form)
    assert isinstance(form, DepthwiseConvolution)
    return _depthwise_conv2d(form) if form.multiplier == 1 else []


def _matmul(form: MatrixProduct) -> list[KernelCall]:
    """Rows that follow each other."""
    depth, rows, outputs = form.depth, form.rows, form.requantization
    calls = []
    chunks = -(-depth // CHUNK)
    if chunks <= _DEEPEST:
        # Chunks of the last rows reach behind the input: these are copied, and an even number goes
        # before them.
        copied = min(rows, -(-(chunks * CHUNK - depth) // depth))
        if copied > 0 and (rows - copied) % 2:
            copied += 1
        pixels = _pixels(form.weights, outputs)
        calls = [
            KernelCall(
                HilPixelsS8Mve(
                    rows=rows, depth=depth, copied=count, staged=staged, mve_pixels=pixels
                ),
                macs=form.macs,
            )
            for count, staged in ((copied, 0), (0, 1))
        ]
    columns = _columns(form.weights, outputs, step=2, distances=(form.channels, 1))
    if columns is not None:
        parameters = HilMatmulS8Mve(rows=rows, depth=depth, mve_columns=columns)
        calls.append(KernelCall(parameters, macs=form.macs))
    return calls


def _conv2d(form: Convolution) -> list[KernelCall]:
    """A window at every place of an image."""
    made = [make(form) for make in (_points, _three_by_three)]
    calls = [call for call in made if call is not None]
    if not calls:
        calls = [*_rgb(form), *_strips(form)]
    gathered = _gathered(form)
    return [*calls, *([] if gathered is None else [gathered])]


def _points(form: Convolution) -> KernelCall | None:
    """Filters of one pixel without padding."""
    images, window, depth = form.images, form.window, form.depth
    chunks = -(-depth // CHUNK)
    out_w, stride_w = images.out_w, window.stride_w
    inside = (images.out_h - 1) * window.stride_h < images.in_h
    inside = inside and (out_w - 1) * stride_w < images.in_w
    padded = bool(window.pad_top or window.pad_left)
    if window.filter_h * window.filter_w > 1 or padded or not inside or chunks > _DEEPEST:
        return None
    reached = [x * stride_w * depth + chunks * CHUNK for x in range(out_w)]
    copied = sum(end > images.in_w * depth for end in reached)
    if copied > 0 and copied < out_w and (out_w - copied) % 2:
        copied += 1
    parameters = HilPointsS8Mve(
        batch=images.batch,
        in_h=images.in_h,
        in_w=images.in_w,
        in_c=images.in_c,
        out_h=images.out_h,
        out_w=out_w,
        stride_h=window.stride_h,
        stride_w=stride_w,
        copied=copied,
        mve_pixels=_pixels(form.weights, form.requantization),
    )
    return KernelCall(parameters, macs=form.macs)


def _rgb(form: Convolution) -> list[KernelCall]:
    """Filters of 3x3 pixels of three channels, rows of whole groups of windows."""
    images, window, count = form.images, form.window, form.channels
    in_w, out_w, stride, pad_left = images.in_w, images.out_w, window.stride_h, window.pad_left
    shape = [*(window.filter_h, window.filter_w, images.in_c, window.dilation_h, window.dilation_w)]
    eight = count == 8
    group = 4 if eight else 2
    if (
        shape != [3, 3, 3, 1, 1]
        or stride != window.stride_w
        or stride not in (1, 2)
        or (count % CHUNK and not eight)
        or out_w % group
    ):
        return []
    # A load of a group's last window may not reach beyond its row.
    starts = 3 * (np.arange(0, out_w, group) * stride - pad_left)
    last = starts + 3 * stride * (group - 1) + CHUNK
    direct = np.flatnonzero((starts >= 0) & (last <= 3 * in_w))
    # Copies are made of windows with some of the image in the first sixteen bytes.
    if not direct.size or pad_left > 2 or (out_w - 1) * stride - pad_left >= in_w:
        return []
    rows = form.weights.reshape(count, 3, 9)
    taps = np.concatenate([rows[:, 0], rows[:, 1, :7], rows[:, 2], rows[:, 1, 7:]], axis=1)
    parameters = HilConv2dRgbS8Mve(
        batch=images.batch,
        in_h=images.in_h,
        in_w=in_w,
        out_h=images.out_h,
        out_w=out_w,
        stride=stride,
        pad_top=window.pad_top,
        pad_left=pad_left,
        in_zero_point=form.pad_value,
        group=group,
        eight=int(eight),
        before=int(direct[0]),
        direct=int(direct.size),
        mve_pixels=_pixels(taps, form.requantization, 2 if eight else 1),
    )
    return [KernelCall(parameters, macs=form.macs)]


def _strips(form: Convolution) -> list[KernelCall]:
    """Images of few channels, of which a strip of windows lies within the reach of a gather."""
    images, window, depth = form.images, form.window, form.depth
    chunks = -(-depth // CHUNK)
    in_c, out_w, filter_h, filter_w = images.in_c, images.out_w, window.filter_h, window.filter_w
    if chunks > _DEEPEST or window.dilation_h * window.dilation_w != 1:
        return []

    def strip_bytes(windows: int) -> int:
        return ((windows - 1) * window.stride_w + filter_w) * in_c

    def reaches(windows: int) -> bool:
        return (filter_h - 1) * strip_bytes(windows) + filter_w * in_c <= _GATHERED

    longest = max(filter(reaches, range(1, min(out_w, _LONGEST_STRIP) + 1)), default=0)
    if longest < min(out_w, _SHORTEST_STRIP):
        return []
    # Strips of about the same length, all but the last even.
    strip_w = -(-out_w // -(-out_w // longest))
    if strip_w < out_w and strip_w % 2:
        strip_w += 1 if strip_w < longest else -1
    row, offset = np.divmod(np.arange(depth), filter_w * in_c)
    taps = np.zeros(chunks * CHUNK, np.uint8)
    taps[:depth] = row * strip_bytes(strip_w) + offset
    eight = form.channels == 8 and chunks == 2 and filter_h * strip_bytes(strip_w) >= CHUNK
    pixels = _pixels(form.weights, form.requantization, 2 if eight else 1)
    # Two rows of an odd number of windows make pairs.
    return [
        KernelCall(
            HilStripsS8Mve(
                batch=images.batch,
                in_h=images.in_h,
                in_w=images.in_w,
                in_c=in_c,
                out_h=images.out_h,
                out_w=out_w,
                filter_h=filter_h,
                filter_w=filter_w,
                stride_h=window.stride_h,
                stride_w=window.stride_w,
                pad_top=window.pad_top,
                pad_left=window.pad_left,
                in_zero_point=form.pad_value,
                strip_w=strip_w,
                lines=lines,
                strip_bytes=strip_bytes(strip_w),
                eight=int(eight),
                taps=taps,
                mve_pixels=pixels,
            ),
            macs=form.macs,
        )
        for lines in ((2, 1) if strip_w == out_w and out_w % 2 else (1,))
    ]


def _three_by_three(form: Convolution) -> KernelCall | None:
    """Filters of 3x3 pixels of one, two or four chunks."""
    images, window, count, outputs = form.images, form.window, form.channels, form.requantization
    in_c, stride = images.in_c, window.stride_h
    shape = [window.filter_h, window.filter_w, window.dilation_h, window.dilation_w]
    if (
        shape != [3, 3, 1, 1]
        or stride != window.stride_w
        or stride not in (1, 2)
        or in_c not in (16, 32, 64)
        or count % 2
        or 4 * count > _FARTHEST
    ):
        return None
    weights = form.weights.reshape(-1, 2, 3, 3, in_c // CHUNK, CHUNK).transpose(0, 2, 4, 1, 3, 5)
    values = [
        np.broadcast_to(each, (count,)).reshape(-1, 2)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]
    values.append(np.full((count // 2, 1), outputs.out_zero_point))
    stream = np.hstack([weights.reshape(count // 2, -1), _bytes(np.hstack(values))])
    parameters = HilConv2d3x3S8Mve(
        batch=images.batch,
        in_h=images.in_h,
        in_w=images.in_w,
        in_c=in_c,
        out_h=images.out_h,
        out_w=images.out_w,
        stride=stride,
        pad_top=window.pad_top,
        pad_left=window.pad_left,
        in_zero_point=form.pad_value,
        columns=count,
        any=int(not _is_full(outputs) or images.out_w % 4 != 0),
        linear=_linear(outputs),
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        stream=stream.reshape(-1),
    )
    return KernelCall(parameters, macs=form.macs)


def _gathered(form: Convolution) -> KernelCall | None:
    """Any convolution."""
    filter_h, depth, count = form.window.filter_h, form.depth, form.channels
    run = depth // filter_h
    # Whole chunks for each row of the filter are gathered faster; one chunk more is worth that.
    run_step = -(-run // CHUNK) * CHUNK
    chunks = -(-depth // CHUNK)
    if form.window.dilation_w != 1 or filter_h * run_step > (chunks + 1) * CHUNK:
        run_step = run
    padded = np.zeros((count, filter_h, run_step), np.int8)
    padded[:, :, :run] = form.weights.reshape(-1, filter_h, run)
    matrix = padded.reshape(count, -1)
    columns = _columns(matrix, form.requantization, step=2, distances=(count, 1))
    if columns is None:
        return None
    parameters = HilConv2dS8Mve(
        images=form.images,
        window=form.window,
        in_zero_point=form.pad_value,
        run_step=run_step,
        mve_columns=columns,
    )
    return KernelCall(parameters, macs=form.macs)


def _depthwise_conv2d(form: DepthwiseConvolution) -> list[KernelCall]:
    """Filters of one channel each."""
    shape = form.shape
    found: list[HilDepthwiseConv2dS8Mve] = []
    pixels = form.images.out_h * form.images.out_w
    alone = _within_gather(shape) and pixels >= _GATHERED_PIXELS
    least = 1 << 62
    for planes, planes_bytes in _GATHERED_PLANES if alone else _PLANES:
        parameters = _depthwise(form, planes, planes_bytes)
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
    return [KernelCall(parameters, macs=form.macs) for parameters in found]


def _within_gather(shape: tuple[int, ...]) -> bool:
    """Whether sixteen pixels of a row lie within the reach of a gather of bytes."""
    return shape[3] * (CHUNK - 1) < _GATHERED


def _pays_addresses(p: HilDepthwiseConv2dS8Mve) -> bool:
    """Whether the table may have addresses, and copying it costs less than they save."""
    if p.masked or p.any or p.stride != 1:
        return False
    parts = p.out_h // p.part_h
    saved = 2 * (parts * (p.part_turns - 1) + p.rest_turns + 2 * p.half_turns) * p.in_c
    return saved > 9 * (p.part_turns + p.rest_turns + p.half_turns) + 60


def _depthwise(
    form: DepthwiseConvolution, planes: int, planes_bytes: int
) -> HilDepthwiseConv2dS8Mve | None:
    """The same with ``planes`` channels at a time, in at most ``planes_bytes`` of scratch."""
    h, w = form.placed.h, form.placed.w
    shape, filters, outputs = form.shape, form.filters, form.requantization
    stride = h.stride
    largest = {1: _PATCH - 1, 2: _PATCH}.get(stride, 0)
    if (
        filters.shape[0] != shape[3]
        or w.stride != stride
        or h.span != h.filter_size
        or w.span != w.filter_size
        or max(h.filter_size, w.filter_size) > largest
    ):
        return None
    channel_count = shape[3]
    any_clamp = bool(_linear(outputs)) or not _is_full(outputs)
    planes = min(planes, channel_count)
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
        return planes * plane <= planes_bytes and farthest <= _FARTHEST

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
    # An odd last column of all rows has turns of its own.
    halves = tile_w % 2 and tile_w > 1 and h.out_size > 1
    halves = bool(halves and band_h == h.out_size and stride == 1 and not any_clamp)
    whole_w = tile_w - halves
    parts = [_tiles(part_h, whole_w), _tiles(h.out_size % part_h, whole_w)]
    masked = any_clamp or any(tile.mask != _WHOLE_TILE for part in parts for tile in part)
    line = w.out_size * channel_count
    tables = [_turns(part, masked, stride, plane_w, line, channel_count) for part in parts]
    half_turns = []
    if halves:
        half_turns = _half_turns(_tiles(h.out_size, 1), whole_w, plane_w, line, channel_count)
    count = filters.shape[0]
    weights = np.zeros((count, _PATCH, _PATCH), np.int8)
    weights[:, : filters.shape[1], : filters.shape[2]] = filters
    values = [
        np.broadcast_to(each, (count,)).reshape(-1, 1)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]
    stream = np.hstack([weights.reshape(count, -1), _bytes(np.hstack(values))])
    return HilDepthwiseConv2dS8Mve(
        batch=shape[0],
        in_h=h.in_size,
        in_w=w.in_size,
        in_c=channel_count,
        out_h=h.out_size,
        out_w=w.out_size,
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride=stride,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
        planes=planes,
        gathered=int(gathered),
        band_h=band_h,
        tile_w=tile_w,
        part_h=part_h,
        part_turns=len(tables[0]),
        rest_turns=len(tables[1]),
        half_turns=len(half_turns),
        plane_h=plane_rows(band_h),
        plane_w=plane_w,
        masked=int(masked),
        any=int(any_clamp),
        addressed=0,
        in_zero_point=form.pad_value,
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        table=np.frombuffer(b"".join(tables[0] + tables[1] + half_turns), np.int8),
        stream=stream.reshape(-1),
    )


@dataclass(frozen=True)
class _Tile:
    """A tile of 2x2 outputs and which of them count, row by row."""

    y: int
    x: int
    mask: tuple[bool, bool, bool, bool]


_WHOLE_TILE = (True, True, True, True)


def _tiles(rows: int, width: int) -> list[_Tile]:
    """Tiles that cover ``rows`` rows of outputs; whole ones first."""
    if rows == 0:
        return []
    tops = list(range(0, rows - 1, 2)) or [0]
    if rows % 2 and rows > 1:
        tops.append(rows - 2)
    below = rows > 1
    tiles = []
    for x in range(0, width, 2):
        right = x + 1 < width
        tiles += [_Tile(y, x, (True, right, below, right and below)) for y in tops]
    return tiles


def _turns(
    tiles: Sequence[_Tile], masked: bool, stride: int, plane_w: int, line: int, step: int
) -> list[bytes]:
    """The table's turns, two tiles each; ``line`` and ``step`` are from output to output."""
    turns = []
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
        places = [
            (tile.y + down) * line + (tile.x + right) * step if mask >> (2 * lane) & 1 else 0
            for lane, (tile, down, right) in enumerate(lanes)
        ]
        first, second = ((tile.y * plane_w + tile.x) * stride for tile in pair)
        words = (first, mask, second) if masked else (first, second)
        turns.append(struct.pack(f"<{len(words)}i8H", *words, *places))
    return turns


def _half_turns(tiles: Sequence[_Tile], x: int, plane_w: int, line: int, step: int) -> list[bytes]:
    """The table's turns of a last column ``x``, four tiles of 2x1 outputs each."""
    turns = []
    for i in range(0, len(tiles), 4):
        four = [tiles[min(i + n, len(tiles) - 1)].y for n in range(4)]
        # As the narrowed sums lie: of the first tile and the third alternate, upper and lower ones.
        rows = [four[n + k] + down for n in (0, 1) for down in (0, 1) for k in (0, 2)]
        places = [y * line + x * step for y in rows]
        turns.append(struct.pack("<4i8H", *(y * plane_w + x for y in four), *places))
    return turns


def _bands(height: int, width: int, largest: int) -> tuple[int, int]:
    """The rows of a band of at most ``largest`` outputs and those of its parts, all alike.

    A part costs a few instructions; long tables cost flash.
    """

    def cost(part: int, band: int) -> float:
        parts, rest = divmod(height, part)
        turns = [-(-len(_tiles(rows, width)) // 2) for rows in (part, rest)]
        calls = -(-height // band) + (2 if rest else 0)
        return parts * (_TURN * turns[0] + _PART) + _TURN * turns[1] + _CALL * calls + sum(turns)

    choices = [
        (part, height if largest == height else largest // part * part)
        for part in range(1, largest + 1)
        if part == height or (height % part != 1 and largest // part > 0)
    ]
    part, band = min(choices, key=lambda choice: (cost(*choice), choice))
    return band, part


@lowers("AVERAGE_POOL_2D", dtypes={"int8"}, requires={"mve"})
def average_pool(layer: Layer) -> Iterator[KernelCall]:
    """Averages over windows that lie inside the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    size = window.h.filter_size * window.w.filter_size
    if window.padded or size > _LARGEST_POOL:
        return
    reciprocal = -(-(1 << _RECIPROCAL_BITS) // size)
    # The kernel divides by a product: proven for every sum that there is, a half added.
    sums = np.arange(128 * size + size // 2 + 1, dtype=np.int64)
    if not np.array_equal((sums * reciprocal) >> _RECIPROCAL_BITS, sums // size):
        return
    low, high = pooling_clamp(layer.node, layer.out)
    parameters = HilAveragePoolS8Mve(
        batches=x.shape[0],
        in_h=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_h=window.h.out_size,
        out_w=window.w.out_size,
        filter_h=window.h.filter_size,
        filter_w=window.w.filter_size,
        stride_h=window.h.stride,
        stride_w=window.w.stride,
        reciprocal=reciprocal,
        low=int(low),
        high=int(high),
    )
    yield KernelCall(parameters)


@lowers("ADD", "SUB", dtypes={"int8"}, requires={"mve"})
def sums(layer: Layer) -> list[KernelCall]:
    """The sum or difference of tensors of one shape."""
    if layer.operand(0).shape != layer.operand(1).shape:
        return []
    scales = sum_parameters(layer)
    if scales.out_shift >= 0:
        return []
    size, subtract = layer.out.size, layer.node.op == "SUB"
    parameters = HilSumS8Mve(
        size=size,
        subtract=int(subtract),
        a_zero_point=scales.a_zero_point,
        a_multiplier=scales.a_multiplier,
        a_shift=scales.a_shift,
        b_zero_point=scales.b_zero_point,
        b_multiplier=scales.b_multiplier,
        b_shift=scales.b_shift,
        out_zero_point=scales.out_zero_point,
        out_multiplier=scales.out_multiplier,
        out_shift=scales.out_shift,
        low=scales.low,
        high=scales.high,
    )
    calls = [KernelCall(parameters, (0, 1))]
    found = _scaled_sum(subtract, scales)
    if found is not None:
        a_factor, b_factor, constant, shift = found
        scaled = HilScaledSumS8Mve(
            size=size,
            a_factor=a_factor,
            b_factor=b_factor,
            constant=constant,
            shift=shift,
            low=scales.low,
            high=scales.high,
        )
        calls.insert(0, KernelCall(scaled, (0, 1)))
    return calls


def _scaled_sum(subtract: bool, scales: HilSumS8) -> tuple[int, int, int, int] | None:
    """Factors of both values, a constant and a shift that give every sum that there is."""
    values = np.arange(-128, 128, dtype=np.int64)
    a_zero, b_zero = scales.a_zero_point, scales.b_zero_point
    a = requantize((values - a_zero) << 20, scales.a_multiplier, scales.a_shift)
    b = requantize((values - b_zero) << 20, scales.b_multiplier, scales.b_shift)
    total = a.reshape(-1, 1) + (-b if subtract else b)
    low, high = scales.low, scales.high
    outputs = requantize(total, scales.out_multiplier, scales.out_shift) + scales.out_zero_point
    wanted = np.clip(outputs, low, high).reshape(-1)
    whole = scales.out_multiplier * 2.0 ** (scales.out_shift - 31 + 20)
    a_real = scales.a_multiplier * 2.0 ** (scales.a_shift - 31) * whole
    b_real = scales.b_multiplier * 2.0 ** (scales.b_shift - 31) * whole * (-1 if subtract else 1)
    first, second = (x.reshape(-1) for x in np.meshgrid(values, values, indexing="ij"))
    reach = 128 * (abs(a_real) + abs(b_real)) + abs(a_real * a_zero) + abs(b_real * b_zero) + 256
    # As fine as 32 bits allow; then coarser, as the factors near by are others there.
    finest = 30 - int(np.ceil(np.log2(reach)))
    for bits in range(finest + 2, max(finest - 4, 8), -1):
        a_factors, b_factors = (
            round(real * 2**bits) + offset
            for real, offset in ((a_real, _NEARBY[:, 0]), (b_real, _NEARBY[:, 1]))
        )
        # A level's sums and the constant lie from level << bits to the next level. Those that
        # decide, whichever the factors, are near the ends; beyond the bounds the clamp helps.
        sums = first * a_factors[0] + second * b_factors[0]
        least, most = np.full(256, 2**62), np.full(256, -(2**62))
        np.minimum.at(least, wanted + 128, sums)
        np.maximum.at(most, wanted + 128, sums)
        margin = 2 * 128 * int(np.abs(_NEARBY).sum(axis=1).max())
        below = np.flatnonzero((sums <= least[wanted + 128] + margin) & (wanted > low))
        above = np.flatnonzero((sums >= most[wanted + 128] - margin) & (wanted < high))

        def products(pairs: Array, a: Array = a_factors, b: Array = b_factors) -> Array:
            product: Array = np.outer(a, first[pairs]) + np.outer(b, second[pairs])
            return product

        # One pair at the end of each level binds most choices; what else one fails on is then asked
        # of all.
        floor, ceiling = (
            pairs[np.unique(wanted[pairs], return_index=True)[1]]
            for pairs in (
                below[sums[below] == least[wanted[below] + 128]],
                above[sums[above] == most[wanted[above] + 128]],
            )
        )
        while True:
            lowest = ((wanted[floor] << bits) - products(floor)).max(axis=1, initial=-(2**31))
            highest = ((wanted[ceiling] + 1) << bits) - 1 - products(ceiling)
            highest = highest.min(axis=1, initial=2**31)
            constants = (lowest + highest) // 2
            largest = 128 * (np.abs(a_factors) + np.abs(b_factors)) + np.abs(constants)
            right = np.flatnonzero((lowest <= highest) & (largest < 2**31))
            if not right.size:
                break
            i = right[0]
            found = int(a_factors[i]), int(b_factors[i]), int(constants[i])
            result = (first * found[0] + second * found[1] + found[2]) >> bits
            clipped = np.clip(result, low, high)
            if np.array_equal(clipped, wanted):
                return *found, bits
            own = first * found[0] + second * found[1]
            if below.size:
                floor = np.append(floor, below[np.argmax((wanted[below] << bits) - own[below])])
            if above.size:
                ends = ((wanted[above] + 1) << bits) - own[above]
                ceiling = np.append(ceiling, above[np.argmin(ends)])
    return None


def _linear(outputs: RequantizationParameters) -> int:
    """1 where values below the zero point remain after the clamp."""
    return int(outputs.out_min < outputs.out_zero_point)


def _is_full(outputs: RequantizationParameters) -> bool:
    """Whether outputs have the whole range of int8."""
    return (outputs.out_min, outputs.out_max) == (-128, 127)


def _padded(matrix: Array, count: int) -> npt.NDArray[np.int8]:
    """``matrix`` with weights of 0 up to whole chunks, and ``count`` of them."""
    depth = -(-matrix.shape[1] // CHUNK) * CHUNK
    padded = np.zeros((count, depth), np.int8)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded


def _bytes(values: npt.NDArray[Any], dtype: str = "<i4") -> npt.NDArray[np.int8]:
    """Values, rows of them, as the bytes of a little-endian core; int32 by default."""
    return np.ascontiguousarray(values.astype(dtype)).view(np.int8)


def _narrow_first(matrix: Array, outputs: RequantizationParameters) -> bool:
    """Whether products may be saturated to uint16 before they are shifted.

    Negative ones clamp then to the zero point, which is the least output. The others either never
    saturate, whatever the input, or still give the largest output: they do with shifts that are
    not too far.
    """
    if not _is_full(outputs) or outputs.out_zero_point != -128:
        return False
    weights = matrix.reshape(matrix.shape[0], -1).astype(np.int64)
    largest = outputs.bias + np.maximum(127 * weights, -128 * weights).sum(axis=1)
    products = (largest * outputs.multipliers.astype(np.int64) + (1 << 30)) >> 31
    near = outputs.shifts >= -_NEAR_SHIFT
    return bool(np.all(near | (products < 1 << 16)))


def _columns(
    matrix: Array, outputs: RequantizationParameters, step: int, distances: tuple[int, int]
) -> HilMveColumns | None:
    """The weights in pairs of columns. ``distances`` are those of the outputs of two rows and of a
    pair's columns, ``step`` is that of two pairs'. None where the outputs lie too far apart."""
    row_step, column_step = distances
    if (_ROWS - 1) * row_step + column_step > _FARTHEST:
        return None
    count = matrix.shape[0]
    order = np.arange(count)
    if count % 2:
        order = np.append(order, count - 1)
    weights = _padded(matrix, count)[order]
    chunks = weights.shape[1] // CHUNK
    pairs = (
        weights.reshape(-1, 2, chunks, CHUNK).transpose(0, 2, 1, 3).reshape(-1, 2 * CHUNK * chunks)
    )
    values = [
        np.broadcast_to(each, (count,))[order].reshape(-1, 2)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]
    values.append(np.full((pairs.shape[0], 1), step))
    stream = np.hstack([pairs, _bytes(np.hstack(values))])
    return HilMveColumns(
        chunks=chunks,
        pairs=count // 2,
        odd=count % 2,
        row_step=row_step,
        column_step=column_step,
        linear=_linear(outputs),
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        stream=stream.reshape(-1),
    )


def _pixels(matrix: Array, outputs: RequantizationParameters, pixels: int = 1) -> HilMvePixels:
    """The weights in groups of sixteen columns, which ``pixels`` side by side share: 2 of eight."""
    channels = matrix.shape[0]
    count = channels * pixels
    groups = -(-count // CHUNK)
    filled = groups * CHUNK
    order = np.arange(filled).reshape(groups, 4, 4).transpose(0, 2, 1)[:, _NARROWED]
    # The columns of a second pixel are the first's, whose weights are there already.
    weights = _padded(matrix, filled)[order[..., : 4 // pixels]]
    chunks = weights.shape[3] // CHUNK

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.tile(np.broadcast_to(of_channels, (channels,)), pixels)
        return np.append(values, np.zeros(filled - count, values.dtype))[order]

    bias, multipliers = each(outputs.bias), each(outputs.multipliers)
    shifts = each(outputs.shifts)
    if pixels == 1:
        fours = weights.reshape(groups, 4, 4, chunks, CHUNK).transpose(0, 1, 3, 2, 4)
        sums = [_bytes(np.concatenate([bias, bias], axis=2)), fours.reshape(groups, 4, -1)]
    else:
        # Two fours are taken as one, whose columns are each pixel's.
        fours = weights.reshape(groups, 2, 4, chunks, CHUNK).transpose(0, 1, 3, 2, 4)
        sums = [_bytes(bias.reshape(groups, 2, 8)), fours.reshape(groups, 2, -1)]
    first = _narrow_first(matrix, outputs)
    if first:
        # Narrowed products of two fours alternate.
        alternate = shifts.reshape(groups, 2, 2, 4).transpose(0, 1, 3, 2).reshape(-1, 2, 8)
        parts = [_bytes(multipliers.reshape(groups, 2, 8)), _bytes(alternate, "<i2")]
        scales = np.concatenate(parts, axis=2).reshape(groups, -1)
    else:
        scales = _bytes(np.stack([multipliers, shifts], axis=2).reshape(groups, -1))
    stream = np.hstack([np.concatenate(sums, axis=2).reshape(groups, -1), scales])
    return HilMvePixels(
        chunks=chunks,
        columns=channels,
        any=int(bool(_linear(outputs)) or not _is_full(outputs)),
        first=int(first),
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        stream=stream.reshape(-1),
    )


def _vector(form: MatrixProduct) -> list[KernelCall]:
    """A row at a time."""
    count, depth, outputs = form.channels, form.depth, form.requantization
    groups = -(-count // _VECTOR_COLUMNS)
    filled = groups * _VECTOR_COLUMNS
    order = np.arange(filled).reshape(groups, _VECTOR_COLUMNS)[:, _VECTOR_ORDER]
    weights = _padded(form.weights, filled)[order]
    chunks = weights.shape[2] // CHUNK
    uniform = not outputs.per_channel
    blocks = weights.reshape(groups, _VECTOR_COLUMNS, chunks, CHUNK).transpose(0, 2, 1, 3)

    def each(of_channels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.broadcast_to(of_channels, (count,))
        return np.append(values, np.zeros(filled - count, values.dtype))[order]

    scale = [
        np.full((groups, 1), values[0]) if uniform else each(values)
        for values in (outputs.multipliers, outputs.shifts)
    ]
    words = _bytes(np.hstack([each(outputs.bias), *scale]))
    parameters = HilVectorS8Mve(
        rows=form.rows,
        depth=depth,
        columns=count,
        chunks=chunks,
        copied=int(depth % CHUNK != 0),
        uniform=int(uniform),
        linear=_linear(outputs),
        out_zero_point=outputs.out_zero_point,
        out_min=outputs.out_min,
        out_max=outputs.out_max,
        stream=np.hstack([blocks.reshape(groups, -1), words]).reshape(-1),
    )
    return [KernelCall(parameters, macs=form.macs)]
