"""Choice and data of the Helium kernels (``runtime/include/hil/kernels/mve``).

Each function returns the call of a kernel for one layer, or None where the layer's shape or
quantisation is not one that the kernels take; the portable kernels take every layer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall, kernels
from hilc.ops.geometry import Window

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

#: The depthwise kernel's patch of pixels, the channels of its planes, and the bytes of scratch that
#: it takes where it has a choice.
_PATCH = 4
_PLANES_BYTES = 4096
#: Instructions of its loops: a turn of two tiles, a part of the rows, a call for a channel.
_TURN, _PART, _CALL = 31, 8, 40

#: The average pooling kernel's: sums fit their shift to the left, the reciprocal's point.
_LARGEST_POOL, _RECIPROCAL_BITS = 4096, 24

_Channels = Mapping[str, FieldValue]


def serves(cpu: Cpu) -> bool:
    """Whether the core has Helium."""
    return "mve" in cpu.features


def matmul(rows: int, columns: Array, channels: _Channels, macs: int) -> KernelCall | None:
    """``rows`` consecutive rows of the input times ``columns`` [count, depth]."""
    if not _exact(channels):
        return None
    if rows <= _FEW_ROWS:
        return _vector(rows, columns, channels, macs)
    count, depth = columns.shape
    if 2 * depth <= CHUNK and rows % 2 == 0:
        # Two rows are one vector: each column twice, for its first half and for its second.
        doubled = np.zeros((2 * count, 2 * depth), np.int8)
        doubled[0::2, :depth] = columns
        doubled[1::2, depth:] = columns
        place = {"rows": rows // 2, "depth": 2 * depth}
        fields = _columns(doubled, _repeated(channels, count), step=1, distances=(2 * count, count))
    else:
        place = {"rows": rows, "depth": depth}
        fields = _columns(columns, channels, step=2, distances=(count, 1))
    if fields is None:
        return None
    return KernelCall(kernels()["hil_matmul_s8_mve"], {**place, **fields}, macs=macs)


def conv2d(place: _Channels, columns: Array, channels: _Channels, macs: int) -> KernelCall | None:
    """A convolution; ``place`` lays the window over the image and holds ``in_zero_point``."""
    if not _exact(channels):
        return None
    filter_h = _int(place, "filter_h")
    run = columns.shape[1] // filter_h
    # Whole chunks for each row of the filter are gathered faster; one chunk more is worth that.
    run_step = -(-run // CHUNK) * CHUNK
    chunks = -(-columns.shape[1] // CHUNK)
    if _int(place, "dilation_w") != 1 or filter_h * run_step > (chunks + 1) * CHUNK:
        run_step = run
    padded = np.zeros((columns.shape[0], filter_h, run_step), np.int8)
    padded[:, :, :run] = columns.reshape(-1, filter_h, run)
    columns = padded.reshape(columns.shape[0], -1)
    fields = _columns(columns, channels, step=2, distances=(columns.shape[0], 1))
    if fields is None:
        return None
    fields["run_step"] = run_step
    return KernelCall(kernels()["hil_conv2d_s8_mve"], {**place, **fields}, macs=macs)


def depthwise_conv2d(
    shape: tuple[int, ...],
    window: Window,
    filters: Array,
    zero_point: int,
    channels: _Channels,
    macs: int,
    planes: int = 8,
    planes_bytes: int = _PLANES_BYTES,
) -> KernelCall | None:
    """A depthwise convolution of an image of ``shape`` with ``filters`` [C, height, width].

    ``planes`` channels at a time take at most ``planes_bytes`` of scratch.
    """
    h, w = window.h, window.w
    stride = h.stride
    largest = {1: _PATCH - 1, 2: _PATCH}.get(stride, 0)
    if (
        not _exact(channels)
        or filters.shape[0] != shape[3]
        or w.stride != stride
        or h.span != h.filter_size
        or w.span != w.filter_size
        or max(h.filter_size, w.filter_size) > largest
    ):
        return None
    channel_count = shape[3]
    clamp = _clamp(channels)
    full = (clamp["out_min"], clamp["out_max"]) == (-128, 127)
    any_clamp = bool(clamp.pop("linear")) or not full
    planes = min(planes, channel_count)
    plane_w = (w.out_size + w.out_size % 2 - 1) * stride + _PATCH
    plane_w += plane_w % 2

    def plane_rows(rows: int) -> int:
        return (max(rows, 2) - 1) * stride + _PATCH

    farthest = _FARTHEST // max(w.out_size * channel_count, plane_w)
    fitting = [
        rows
        for rows in range(1, h.out_size + 1)
        if planes * plane_w * plane_rows(rows) <= planes_bytes and plane_rows(rows) <= farthest
    ]
    if not fitting:
        return None
    band_h, part_h = _bands(h.out_size, w.out_size, fitting[-1])
    parts = [_tiles(part_h, w.out_size), _tiles(h.out_size % part_h, w.out_size)]
    masked = any_clamp or any(tile.mask != _WHOLE_TILE for part in parts for tile in part)
    line = w.out_size * channel_count
    tables = [_turns(part, masked, stride, plane_w, line, channel_count) for part in parts]
    count = filters.shape[0]
    weights = np.zeros((count, _PATCH, _PATCH), np.int8)
    weights[:, : filters.shape[1], : filters.shape[2]] = filters
    values = [
        np.broadcast_to(_array(channels, name), (count,)).reshape(-1, 1)
        for name in ("bias", "multipliers", "shifts")
    ]
    fields: dict[str, FieldValue] = {
        "batch": shape[0],
        "in_h": h.in_size,
        "in_w": w.in_size,
        "in_c": channel_count,
        "out_h": h.out_size,
        "out_w": w.out_size,
        "filter_h": h.filter_size,
        "filter_w": w.filter_size,
        "stride": stride,
        "pad_top": h.pad_before,
        "pad_left": w.pad_before,
        "planes": planes,
        "band_h": band_h,
        "part_h": part_h,
        "part_turns": len(tables[0]),
        "rest_turns": len(tables[1]),
        "plane_h": plane_rows(band_h),
        "plane_w": plane_w,
        "masked": int(masked),
        "any": int(any_clamp),
        "in_zero_point": zero_point,
        **clamp,
        "table": np.frombuffer(b"".join(tables[0] + tables[1]), np.int8),
        "stream": np.hstack([weights.reshape(count, -1), _bytes(np.hstack(values))]).reshape(-1),
    }
    return KernelCall(kernels()["hil_depthwise_conv2d_s8_mve"], fields, macs=macs)


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


def average_pool(window: Window, fields: _Channels) -> KernelCall | None:
    """AVERAGE_POOL_2D with the fields of ``hil_average_pool_s8``."""
    size = window.h.filter_size * window.w.filter_size
    if window.padded or size > _LARGEST_POOL:
        return None
    reciprocal = -(-(1 << _RECIPROCAL_BITS) // size)
    # The kernel divides by a product: proven for every sum that there is, a half added.
    sums = np.arange(128 * size + size // 2 + 1, dtype=np.int64)
    if not np.array_equal((sums * reciprocal) >> _RECIPROCAL_BITS, sums // size):
        return None
    names = (
        "batches", "in_h", "in_w", "channels", "out_h", "out_w",
        "filter_h", "filter_w", "stride_h", "stride_w", "low", "high",
    )  # fmt: skip
    taken = {name: fields[name] for name in names}
    kernel = kernels()["hil_average_pool_s8_mve"]
    return KernelCall(kernel, {**taken, "reciprocal": reciprocal})


def sum_of_two(size: int, subtract: bool, scales: _Channels) -> KernelCall:
    """ADD or SUB of two tensors of ``size`` elements with the fields of ``hil_add_s8``."""
    kernel = kernels()["hil_sum_s8_mve"]
    names = ("zero_point", "mantissa", "shift")
    taken = [f"{tensor}_{name}" for tensor in ("a", "b", "out") for name in names]
    fields: dict[str, FieldValue] = {"size": size, "subtract": int(subtract)}
    fields.update({name: scales[name] for name in (*taken, "low", "high")})
    return KernelCall(kernel, fields, (0, 1))


def _exact(channels: _Channels) -> bool:
    """Whether the blocks requantise as the specification does: all shifts are to the right."""
    return int(_array(channels, "shifts").max()) < 0


def _int(fields: _Channels, name: str) -> int:
    value = fields[name]
    assert isinstance(value, int)
    return value


def _array(channels: _Channels, name: str) -> npt.NDArray[Any]:
    value = channels[name]
    assert isinstance(value, np.ndarray)
    return value


def _clamp(channels: _Channels) -> dict[str, FieldValue]:
    names = ("out_zero_point", "out_min", "out_max")
    fields = {name: channels[name] for name in names}
    return {**fields, "linear": int(_int(fields, "out_min") < _int(fields, "out_zero_point"))}


def _repeated(channels: _Channels, count: int) -> _Channels:
    """The channels' values for each of them twice."""
    names = ("bias", "multipliers", "shifts")
    values = {name: np.broadcast_to(_array(channels, name), (count,)).repeat(2) for name in names}
    return {**channels, **values}


def _padded(columns: Array, count: int) -> npt.NDArray[np.int8]:
    """``columns`` with weights of 0 up to whole chunks, and ``count`` of them."""
    depth = -(-columns.shape[1] // CHUNK) * CHUNK
    padded = np.zeros((count, depth), np.int8)
    padded[: columns.shape[0], : columns.shape[1]] = columns
    return padded


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """int32 values, rows of them, as the bytes of a little-endian core."""
    return np.ascontiguousarray(values.astype("<i4")).view(np.int8)


def _columns(
    columns: Array, channels: _Channels, step: int, distances: tuple[int, int]
) -> dict[str, FieldValue] | None:
    """HIL_MVE_COLUMNS_FIELDS. ``distances`` are those of the outputs of two rows and of a pair's
    columns, ``step`` is that of two pairs'. None where the outputs lie too far apart."""
    row_step, column_step = distances
    if (_ROWS - 1) * row_step + column_step > _FARTHEST:
        return None
    count = columns.shape[0]
    order = np.arange(count)
    if count % 2:
        order = np.append(order, count - 1)
    weights = _padded(columns, count)[order]
    chunks = weights.shape[1] // CHUNK
    pairs = (
        weights.reshape(-1, 2, chunks, CHUNK).transpose(0, 2, 1, 3).reshape(-1, 2 * CHUNK * chunks)
    )
    values = [
        np.broadcast_to(_array(channels, name), (count,))[order].reshape(-1, 2)
        for name in ("bias", "multipliers", "shifts")
    ]
    values.append(np.full((pairs.shape[0], 1), step))
    stream = np.hstack([pairs, _bytes(np.hstack(values))])
    return {
        "chunks": chunks,
        "pairs": count // 2,
        "odd": count % 2,
        "row_step": row_step,
        "column_step": column_step,
        **_clamp(channels),
        "stream": stream.reshape(-1),
    }


def _vector(rows: int, columns: Array, channels: _Channels, macs: int) -> KernelCall:
    count, depth = columns.shape
    groups = -(-count // _VECTOR_COLUMNS)
    filled = groups * _VECTOR_COLUMNS
    order = np.arange(filled).reshape(groups, _VECTOR_COLUMNS)[:, _VECTOR_ORDER]
    weights = _padded(columns, filled)[order]
    chunks = weights.shape[2] // CHUNK
    uniform = not channels["per_channel"]
    blocks = weights.reshape(groups, _VECTOR_COLUMNS, chunks, CHUNK).transpose(0, 2, 1, 3)

    def each(name: str) -> npt.NDArray[Any]:
        values = np.broadcast_to(_array(channels, name), (count,))
        return np.append(values, np.zeros(filled - count, values.dtype))[order]

    scale = [
        np.full((groups, 1), _array(channels, name)[0]) if uniform else each(name)
        for name in ("multipliers", "shifts")
    ]
    stream = np.hstack([blocks.reshape(groups, -1), _bytes(np.hstack([each("bias"), *scale]))])
    fields = {
        "rows": rows,
        "depth": depth,
        "columns": count,
        "chunks": chunks,
        "copied": int(depth % CHUNK != 0),
        "uniform": int(uniform),
        **_clamp(channels),
        "stream": stream.reshape(-1),
    }
    return KernelCall(kernels()["hil_vector_s8_mve"], fields, macs=macs)
