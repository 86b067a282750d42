"""Windows of few values, and rows of few elements, which are laid out in whole or half vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Array
from hilc.lowering.forms import limited
from hilc.lowering.linear import (
    Convolution,
    LinearForm,
    LinearWeights,
    MatrixProduct,
    packed_once,
)
from hilc.lowering.mve.packing import (
    CHUNK,
    FARTHEST,
    LINES_BYTES,
    is_full,
    linear_of,
    pairs_of,
    window_pairs,
)
from hilc.lowering.parameters import (
    HilMveConv2dS8Windows,
    HilMveMatmulS8Windows,
    HilMveWindowColumns,
)

#: Bytes that a gather reaches.
GATHERED = 256
#: Bytes of a window that is laid out.
_SIZES = (CHUNK // 2, CHUNK, 2 * CHUNK)
#: Rows of a matrix: how many at a time.
_BLOCKS = (256, 64)


def small_windows(form: Convolution) -> Iterator[HilMveConv2dS8Windows]:
    """Yield convolutions over some rows of outputs at a time, fewer in less scratch."""
    images, window, depth = form.images, form.window, form.depth
    in_c, out_w = images.in_c, images.out_w
    over = (window.filter_h - 1) * window.dilation_h + 1
    reach = (window.filter_w - 1) * window.dilation_w + 1
    row_bytes = ((out_w - 1) * window.stride_w + reach) * in_c
    pixels = np.add.outer(
        row_bytes * window.dilation_h * np.arange(window.filter_h),
        in_c * window.dilation_w * np.arange(window.filter_w),
    )
    values = np.add.outer(pixels, np.arange(in_c)).reshape(-1)
    size = next((size for size in _SIZES if depth <= size), 0)
    step = window.stride_w * in_c
    if not size or 3 * form.channels + 1 > FARTHEST or values.max() + step >= GATHERED:
        return

    def scratch(lines: int) -> int:
        rows = (lines - 1) * window.stride_h + over
        return (8 + size) * (-(-lines * out_w // CHUNK) * CHUNK) + row_bytes * rows

    found: set[int] = set()
    for most in LINES_BYTES:
        fitting = sum(scratch(lines) <= most for lines in range(1, images.out_h + 1))
        lines = -(-images.out_h // -(-images.out_h // fitting)) if fitting else 0
        if lines in (0, *found):
            continue
        found.add(lines)
        yield form.parameters(
            HilMveConv2dS8Windows,
            lines=lines,
            rows=(lines - 1) * window.stride_h + over,
            row_bytes=row_bytes,
            mve_window_columns=_columns(form, size, _taps(values, size, step)),
        ).as_form(f"{most}_bytes")


def short_rows(form: MatrixProduct) -> Iterator[HilMveMatmulS8Windows]:
    """Yield matrix products of rows of few elements; fewer rows at a time take less scratch."""
    depth = form.depth
    size = next((size for size in _SIZES if depth <= size), 0)
    if not size or form.rows < CHUNK or 3 * form.channels + 1 > FARTHEST:
        return
    for most, block in limited(_BLOCKS, -(-form.rows // CHUNK) * CHUNK):
        yield form.parameters(
            HilMveMatmulS8Windows,
            block=block,
            mve_window_columns=_columns(form, size, _taps(np.arange(depth), size, depth)),
        ).as_form(most)


def _columns(form: LinearForm, size: int, taps: Array) -> HilMveWindowColumns:
    outputs = form.requantization
    return HilMveWindowColumns(
        bytes=size,
        columns=form.channels,
        any=int(not is_full(outputs)),
        linear=linear_of(outputs),
        output_range=outputs.output_range,
        taps=taps,
        stream=_stream(form.packing, size),
    )


def _taps(values: Array, size: int, step: int) -> Array:
    """Return the places of a window's values, those of a second window in the same vector."""
    taps = np.zeros(size, np.int64)
    taps[: values.size] = values
    if size < CHUNK:
        taps = np.concatenate([taps, taps + step])
    return taps.astype(np.uint8)


@packed_once
def _stream(weights: LinearWeights, size: int) -> Array:
    """Return pairs of filters as ``conv2d_s8_windows.h`` draws them."""
    filled = np.zeros((weights.channels, size), np.int8)
    filled[:, : weights.depth] = weights.matrix
    pairs = filled[pairs_of(weights.channels)]
    vectors = np.zeros((len(pairs), 4, CHUNK), np.int8)
    if size < CHUNK:
        vectors[:, 0::2, :size] = pairs
        vectors[:, 1::2, size:] = pairs
    else:
        vectors[:, : 2 * size // CHUNK] = pairs.reshape(len(pairs), -1, CHUNK)
    return window_pairs(vectors, weights.requantization, weights.channels).reshape(-1)
