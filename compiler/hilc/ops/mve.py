"""Choice and data of the Helium kernels (``runtime/include/hil/kernels/mve``).

Each function returns the call of a kernel for one layer, or None where the layer's shape or
quantisation is not one that the kernels take; the portable kernels take every layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hilc.cpu import Cpu
from hilc.ir import Array
from hilc.kernels import FieldValue, KernelCall, kernels

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
    fields = _columns(columns, channels, step=2, distances=(columns.shape[0], 1))
    if fields is None:
        return None
    return KernelCall(kernels()["hil_conv2d_s8_mve"], {**place, **fields}, macs=macs)


def _exact(channels: _Channels) -> bool:
    """Whether the blocks requantise as the specification does: all shifts are to the right."""
    return int(_array(channels, "shifts").max()) < 0


def _array(channels: _Channels, name: str) -> npt.NDArray[Any]:
    value = channels[name]
    assert isinstance(value, np.ndarray)
    return value


def _clamp(channels: _Channels) -> dict[str, FieldValue]:
    names = ("out_zero_point", "out_min", "out_max")
    fields = {name: channels[name] for name in names}
    low, zero_point = channels["out_min"], channels["out_zero_point"]
    assert isinstance(low, int)
    assert isinstance(zero_point, int)
    return {**fields, "linear": int(low < zero_point)}


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
        "uniform": int(uniform),
        **_clamp(channels),
        "stream": stream.reshape(-1),
    }
    return KernelCall(kernels()["hil_vector_s8_mve"], fields, macs=macs)
