"""Windows that slide over an image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Array
from hilc.lowering.kernels import Parameters
from hilc.lowering.linear import Convolution, LinearWeights, packed_once
from hilc.lowering.mve.packing import (
    CHUNK,
    DEEPEST,
    FARTHEST,
    LINES_BYTES,
    any_of,
    bytes_of,
    columns_of,
    few_columns,
    is_full,
    line_pairs,
    linear_of,
    packed_pixels,
    pairs_of,
    pixels_of,
    shallow_stream,
    ties,
)
from hilc.lowering.mve.windows import GATHERED, small_windows
from hilc.lowering.parameters import (
    HilMveColumns,
    HilMveConv2dS8,
    HilMveConv2dS8Gathered2x4,
    HilMveConv2dS8Gathered2x16,
    HilMveConv2dS8Rgb,
    HilMveConv2dS8RgbCopied,
    HilMveConv2dS8Rows,
    HilMveConv2dS81x1Strided,
    HilMveConv2dS83x3,
    HilMvePixels,
)

#: Strips of windows: windows at least and at most.
_SHORTEST_STRIP, _LONGEST_STRIP = 4, 32
#: Rows of windows: channels at least.
_FEW_CHANNELS = 6
#: Bytes of scratch that a row of windows of a sequence may take.
_SEQUENCE_BYTES = 16384
#: Bytes of scratch of a window of 27 values, and of its sums.
_WINDOW_BYTES = 40


def conv2d(form: Convolution) -> list[Parameters]:
    """Return the parameters of each MVE kernel for this int8 convolution, preferred ones first."""
    gathered = _gathered(form)
    if ties(form.requantization):
        return [] if gathered is None else [gathered]
    made = [make(form) for make in (_points, _three_by_three)]
    calls = [*_lines(form), *(call for call in made if call is not None)]
    if not calls or form.window.filter_h != 3:
        calls = [*calls, *_rgb(form), *small_windows(form), *_strips(form)]
    # Behind the others, which take less scratch for bands of few rows.
    behind = [*_windows(form), *_gathered_windows(form)]
    return [*calls, *([] if gathered is None else [gathered]), *behind]


def _points(form: Convolution) -> Parameters | None:
    """Lower filters of one pixel without padding."""
    images, window, depth = form.images, form.window, form.depth
    chunks = -(-depth // CHUNK)
    out_w, stride_w = images.out_w, window.stride_w
    inside = (images.out_h - 1) * window.stride_h < images.in_h
    inside = inside and (out_w - 1) * stride_w < images.in_w
    padded = bool(window.pad_top or window.pad_left)
    if window.filter_h * window.filter_w > 1 or padded or not inside or chunks > DEEPEST:
        return None
    reached = [x * stride_w * depth + chunks * CHUNK for x in range(out_w)]
    copied = sum(end > images.in_w * depth for end in reached)
    if copied > 0 and copied < out_w and (out_w - copied) % 2:
        copied += 1
    parameters = form.parameters(
        HilMveConv2dS81x1Strided,
        stride_w=stride_w,
        copied=copied,
        mve_pixels=packed_pixels(form.packing),
    )
    return parameters


def _rgb(form: Convolution) -> list[Parameters]:
    """Lower filters of 3x3 pixels of three channels, rows of whole groups of windows."""
    images, window, count = form.images, form.window, form.channels
    in_w, out_w, stride, pad_left = images.in_w, images.out_w, window.stride_h, window.pad_left
    eight = count == 8
    group = 4 if eight else 2
    if not _is_3x3_of_three(form) or (count % CHUNK and not eight) or out_w % group:
        return []
    # A load of a group's last window may not reach beyond its row.
    starts = 3 * (np.arange(0, out_w, group) * stride - pad_left)
    last = starts + 3 * stride * (group - 1) + CHUNK
    direct = np.flatnonzero((starts >= 0) & (last <= 3 * in_w))
    # Copies are made of windows with some of the image in the first sixteen bytes.
    if not direct.size or pad_left > 2 or (out_w - 1) * stride - pad_left >= in_w:
        return []
    parameters = form.parameters(
        HilMveConv2dS8Rgb,
        batch=images.batch,
        in_h=images.in_h,
        in_w=in_w,
        out_h=images.out_h,
        out_w=out_w,
        stride=stride,
        pad_left=pad_left,
        group=group,
        eight=int(eight),
        before=int(direct[0]),
        direct=int(direct.size),
        mve_pixels=_rgb_pixels(form.packing, 2 if eight else 1),
    )
    return [parameters]


@packed_once
def _rgb_pixels(weights: LinearWeights, pixels: int) -> HilMvePixels:
    rows = weights.matrix.reshape(weights.channels, 3, 9)
    taps = np.concatenate([rows[:, 0], rows[:, 1, :7], rows[:, 2], rows[:, 1, 7:]], axis=1)
    return pixels_of(taps, weights.requantization, pixels)


def _is_3x3_of_three(form: Convolution) -> bool:
    """Return whether filters of 3x3 pixels of three channels go on by one pixel, or by two, both
    ways.
    """
    window = form.window
    filters = window.filter_h, window.filter_w, form.images.in_c
    dilations = window.dilation_h, window.dilation_w
    return (
        filters == (3, 3, 3)
        and dilations == (1, 1)
        and window.stride_h == window.stride_w
        and window.stride_h in (1, 2)
    )


def _windows(form: Convolution) -> Iterator[Parameters]:
    """Yield filters of 3x3 pixels of three channels over some rows of outputs at a time, fewer in
    less scratch.
    """
    images, window, count = form.images, form.window, form.channels
    in_w, out_w, stride, pad_left = images.in_w, images.out_w, window.stride_h, window.pad_left
    if not _is_3x3_of_three(form) or not few_columns(count, form.requantization):
        return
    # A load of a window may not reach beyond its row; where one follows, not beyond that.
    starts = 3 * (np.arange(out_w) * stride - pad_left)
    direct = np.flatnonzero((starts >= 0) & (starts + CHUNK <= 3 * in_w))
    if not direct.size or starts[-1] > 3 * in_w or starts[-1] + CHUNK > 6 * in_w:
        return
    stream = _window_stream(form.packing)
    found: set[int] = set()
    for most in LINES_BYTES:
        lines = min(images.out_h, most // (_WINDOW_BYTES * out_w))
        if lines in (0, *found):
            continue
        found.add(lines)
        yield form.parameters(
            HilMveConv2dS8RgbCopied,
            batch=images.batch,
            in_h=images.in_h,
            in_w=in_w,
            out_h=images.out_h,
            out_w=out_w,
            stride=stride,
            pad_left=pad_left,
            lines=lines,
            before=int(direct[0]),
            direct=int(direct.size),
            once=int(any_of(form.requantization) > 0),
            stream=stream,
        ).as_form(f"{most}_bytes")


@packed_once
def _window_stream(weights: LinearWeights) -> Array:
    """Return filters of two chunks as ``conv2d_windows_s8.h`` takes them."""
    filled = np.zeros((weights.channels, 2 * CHUNK), np.int8)
    filled[:, : weights.depth] = weights.matrix
    pairs = filled[pairs_of(weights.channels)].reshape(-1, 4, CHUNK)
    return shallow_stream(pairs, weights.requantization, weights.channels)


def _gathered_windows(form: Convolution) -> Iterator[Parameters]:
    """Yield images with few channels whose windows lie within the reach of a gather, over some
    rows of outputs at a time, fewer in less scratch.
    """
    images, window, depth = form.images, form.window, form.depth
    chunks = -(-depth // CHUNK)
    filter_h, filter_w, out_w = window.filter_h, window.filter_w, images.out_w
    row_bytes = ((out_w - 1) * window.stride_w + filter_w) * images.in_c
    taps = np.zeros(chunks * CHUNK, np.int64)
    taps[:depth] = np.add.outer(
        row_bytes * np.arange(filter_h), np.arange(filter_w * images.in_c)
    ).reshape(-1)
    dilated = window.dilation_h * window.dilation_w != 1
    if not 1 < chunks <= DEEPEST or taps.max() >= GATHERED or dilated:
        return
    pixels = packed_pixels(form.packing, turned=True)
    found: set[int] = set()
    for most in LINES_BYTES:
        fitting = most // (chunks * CHUNK * out_w)
        # Whole pairs, where there are any.
        lines = next((n for n in range(fitting, 0, -1) if n * out_w % 2 == 0), fitting)
        lines = images.out_h if fitting >= images.out_h else lines
        if lines in (0, *found):
            continue
        found.add(lines)
        yield form.parameters(
            HilMveConv2dS8Gathered2x4,
            filter_h=filter_h,
            filter_w=filter_w,
            lines=lines,
            pairs=-(-lines * out_w // 2),
            rows=(lines - 1) * window.stride_h + filter_h,
            row_bytes=row_bytes,
            taps=taps.astype(np.uint8),
            mve_pixels=pixels,
        ).as_form(f"{most}_bytes")


def _strips(form: Convolution) -> list[Parameters]:
    """Return kernels for images with few channels: a gather reaches a strip of windows."""
    images, window, depth = form.images, form.window, form.depth
    chunks = -(-depth // CHUNK)
    in_c, out_w, filter_h, filter_w = images.in_c, images.out_w, window.filter_h, window.filter_w
    if chunks > DEEPEST or window.dilation_h * window.dilation_w != 1:
        return []

    def strip_bytes(windows: int) -> int:
        return ((windows - 1) * window.stride_w + filter_w) * in_c

    def reaches(windows: int) -> bool:
        return (filter_h - 1) * strip_bytes(windows) + filter_w * in_c <= GATHERED

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
    pixels = packed_pixels(form.packing, 2 if eight else 1)
    # Two rows of an odd number of windows make pairs.
    return [
        form.parameters(
            HilMveConv2dS8Gathered2x16,
            filter_h=filter_h,
            filter_w=filter_w,
            strip_w=strip_w,
            lines=lines,
            strip_bytes=strip_bytes(strip_w),
            eight=int(eight),
            taps=taps,
            mve_pixels=pixels,
        ).as_form(f"{lines}_rows")
        for lines in ((2, 1) if strip_w == out_w and out_w % 2 else (1,))
    ]


def _three_by_three(form: Convolution) -> Parameters | None:
    """Lower filters of 3x3 pixels of one, two or four chunks."""
    images, window, count, outputs = form.images, form.window, form.channels, form.requantization
    in_c, stride = images.in_c, window.stride_h
    shape = [window.filter_h, window.filter_w, window.dilation_h, window.dilation_w]
    if (
        shape != [3, 3, 1, 1]
        or stride != window.stride_w
        or stride not in (1, 2)
        or in_c not in (16, 32, 64)
        or count % 2
        or 4 * count > FARTHEST
    ):
        return None
    parameters = form.parameters(
        HilMveConv2dS83x3,
        stride=stride,
        any=int(not is_full(outputs) or images.out_w % 4 != 0),
        linear=linear_of(outputs),
        stream=_3x3_stream(form.packing, in_c),
    )
    return parameters


@packed_once
def _3x3_stream(layer: LinearWeights, in_c: int) -> Array:
    """Return pairs of filters as ``conv2d_3x3_s8.h`` takes them."""
    count, outputs = layer.channels, layer.requantization
    weights = layer.matrix.reshape(-1, 2, 3, 3, in_c // CHUNK, CHUNK).transpose(0, 2, 4, 1, 3, 5)
    values = [
        np.broadcast_to(each, (count,)).reshape(-1, 2)
        for each in (outputs.bias, outputs.multipliers, outputs.shifts)
    ]
    values.append(np.full((count // 2, 1), outputs.output_range.out_zero_point))
    stream = np.hstack([weights.reshape(count // 2, -1), bytes_of(np.hstack(values))])
    return stream.reshape(-1)


def _lines(form: Convolution) -> Iterator[Parameters]:
    """Yield filters of three columns over some outputs at a time, fewer in less scratch."""
    images, window, count, outputs = form.images, form.window, form.channels, form.requantization
    in_c, out_w, stride, dilation = images.in_c, images.out_w, window.stride_w, window.dilation_w
    filter_h, single = window.filter_h, window.filter_h == 1
    # A dilated row of windows is as many lines, which share no rows of pixels.
    dense = single if dilation > 1 else single or window.dilation_h == 1
    if (
        window.filter_w != 3
        or stride not in ((1, 2) if dilation == 1 else (1,))
        or not dense
        or in_c < _FEW_CHANNELS
        or 3 * dilation * count + 1 > FARTHEST
    ):
        return
    paired = int(in_c <= CHUNK // 2 and not single)
    chunks = -(-in_c // CHUNK)

    def fours_of(across: int) -> int:
        return -(-across // (4 * dilation))

    def planes_of(lines: int) -> int:
        return lines * dilation if single else window.stride_h * (lines - 1) + filter_h

    def width_of(across: int) -> int:
        return 4 * stride * fours_of(across) + 3 - stride

    def scratch(lines: int, across: int) -> int:
        pixels = CHUNK * chunks * planes_of(lines) * width_of(across)
        return pixels + 32 * lines * dilation * fours_of(across)

    found: set[tuple[int, int]] = set()
    # A whole row of a sequence may be long.
    for most in (_SEQUENCE_BYTES, *LINES_BYTES) if single else LINES_BYTES:
        fitting = sum(scratch(lines, out_w) <= most for lines in range(1, images.out_h + 1))
        # Blocks of about the same height, or of about the same width.
        lines, across = -(-images.out_h // -(-images.out_h // max(fitting, 1))), out_w
        if not fitting:
            step = 4 * dilation
            widest = sum(scratch(1, width) <= most for width in range(step, out_w, step))
            if not widest:
                continue
            across = -(-out_w // (-(-out_w // (widest * step)) * step)) * step
        if (lines, across) in found:
            continue
        found.add((lines, across))
        yield form.parameters(
            HilMveConv2dS8Rows,
            lines=lines,
            across=across,
            planes=planes_of(lines),
            paired=paired,
            chunks=chunks,
            passes=-(-filter_h // 2) if paired else filter_h * chunks,
            fours=fours_of(across),
            width=width_of(across),
            any=int(not is_full(outputs)),
            linear=linear_of(outputs),
            stream=_line_stream(form.packing, in_c, filter_h),
        ).as_form(f"{most}_bytes")


@packed_once
def _line_stream(layer: LinearWeights, in_c: int, filter_h: int) -> Array:
    """Return pairs of filters as ``conv2d_s8_rows.h`` takes them."""
    # Two rows of few channels fill a chunk.
    rows = 2 if in_c <= CHUNK // 2 and filter_h > 1 else 1
    filters = layer.matrix.reshape(-1, filter_h, 3, in_c)
    return line_pairs(filters, layer.requantization, rows)


def _gathered(form: Convolution) -> Parameters | None:
    """Any convolution."""
    filter_h, depth = form.window.filter_h, form.depth
    run = depth // filter_h
    # Whole chunks for each row of the filter are gathered faster; one chunk more is worth that.
    run_step = -(-run // CHUNK) * CHUNK
    chunks = -(-depth // CHUNK)
    if form.window.dilation_w != 1 or filter_h * run_step > (chunks + 1) * CHUNK:
        run_step = run
    columns = _gathered_columns(form.packing, filter_h, run_step)
    if columns is None:
        return None
    parameters = form.parameters(
        HilMveConv2dS8,
        run_step=run_step,
        mve_columns=columns,
    )
    return parameters


@packed_once
def _gathered_columns(weights: LinearWeights, filter_h: int, run_step: int) -> HilMveColumns | None:
    """Return pairs of filters with rows of ``run_step`` bytes; None if outputs are too far."""
    count, run = weights.channels, weights.depth // filter_h
    padded = np.zeros((count, filter_h, run_step), np.int8)
    padded[:, :, :run] = weights.matrix.reshape(-1, filter_h, run)
    matrix = padded.reshape(count, -1)
    return columns_of(matrix, weights.requantization, step=2, distances=(count, 1))
