"""Linear layers on cores that multiply words (``kernels/v7m``): when these kernels serve, and how
their data is laid. They were written for Armv7-M, and are as well C for any core with ``mul32``.

Each function here gives the kernel calls of a layer, the fastest first, or none where the family
does not serve it. What the kernels ask for, and what is checked here for each layer:

* sums stay below 2**30, and every shift is to the right;
* of no part of a column does the sum leave its bits, whatever the inputs: parts are cut so;
* where the values of rows are raised, the bias takes off what that adds to each sum;
* one shift for all channels only where each output of each is the same, whatever the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hilc.ir import Array, Rounding
from hilc.lowering.channels import padded, sum_ends
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    LinearWeights,
    MatrixProduct,
    linear_calls,
    packed_once,
)
from hilc.lowering.parameters import (
    HilV7mColumns,
    HilV7mConv2dS8,
    HilV7mDepthwiseConv2dS83x3,
    HilV7mMatmulS8,
    HilV7mMatvecS8,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.v7m.channels import require_right_shifts, scales_of

#: Columns whose weights lie next to each other, for three rows and for a single one.
_BLOCK = 4
_VECTOR_BLOCK = 8
#: Largest ratio of columns padded to whole blocks to columns.
_VECTOR_PADDING = 1.2
#: Exclusive bound of the sums of a single row.
_VECTOR_LIMIT = 2**23
#: Rows below which a kernel for single rows is better than one for three at a time.
FEW_ROWS = 2
#: Elements of depth that the kernels' loops take at a time.
_TURN = 8
#: Bits of the sums of a part, sign included.
PART_BITS = 21
#: Offset of the values of three rows that share a word.
_RAISED = 128

#: Outputs of a row that the depthwise kernel computes at a time, at most.
_MAX_BLOCK = 6
#: Scratch of the depthwise kernel's rows, in bytes: more rows at a time, or fewer.
_BAND_BYTES = (448, 0)


@lowers(*LINEAR, dtypes={"int8"}, requires={"mul32"}, lacks={"dsp"}, roundings=Rounding)
def linear(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels for a linear layer."""
    return with_int32_multiplies(layer)


def with_int32_multiplies(layer: Layer) -> Iterator[KernelCall]:
    """Return the family's kernels on any core: they round ties to even, which others do not."""
    return linear_calls(layer, rows=_rows, convolution=_conv2d, depthwise=_depthwise)


def _rows(form: MatrixProduct) -> Iterable[Parameters]:
    return _matvec(form) if form.rows < FEW_ROWS else _matmul(form)


def _matvec(form: MatrixProduct) -> list[Parameters]:
    """Return the kernel for few rows, where its columns fill its blocks well enough and sums 24
    bits.
    """
    packed = _vector(form.packing)
    if packed is None:
        return []
    weights, even_shift, scales = packed
    parameters = form.parameters(
        HilV7mMatvecS8,
        even_shift=even_shift,
        weights=weights,
        scales=scales,
    )
    return [parameters]


@packed_once
def _vector(layer: LinearWeights) -> tuple[Array, int, Array] | None:
    """Return weights, shift and scales for few rows; None where the kernel does not serve."""
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    weights = padded(channels.weights, _VECTOR_BLOCK)
    largest = 128 * np.abs(weights.astype(np.int64)).sum(axis=1).max()
    if len(weights) > _VECTOR_PADDING * layer.channels or largest >= _VECTOR_LIMIT:
        return None
    even_shift, scales = scales_of(channels)
    raised = (_interleaved(weights, _VECTOR_BLOCK).astype(np.int16) + 128).astype(np.uint8)
    return raised, even_shift, scales


def _matmul(form: MatrixProduct) -> list[Parameters]:
    """Return the kernel for three rows at a time."""
    return [
        form.parameters(HilV7mMatmulS8, v7m_columns=columns).as_form(f"{columns.wide}_words")
        for columns in _columns(form.packing)
    ]


def _conv2d(form: Convolution) -> list[Parameters]:
    """Return the kernel for three windows at a time."""
    return [
        form.parameters(HilV7mConv2dS8, v7m_columns=columns).as_form(f"{columns.wide}_words")
        for columns in _columns(form.packing)
    ]


def _depthwise(form: DepthwiseConvolution) -> list[Parameters]:
    """Lower filters of 3x3, one per channel."""
    window, images = form.window, form.images
    packed = _filters(form.packing) if is_3x3(form) else None
    if packed is None:
        return []
    line = (images.out_w - 1) * window.stride_w + 3
    weights, even_shift, scales = packed
    return [
        form.parameters(
            HilV7mDepthwiseConv2dS83x3,
            stride=window.stride_w,
            band=band,
            line=line,
            block=outputs_at_a_time(images.out_w, 15, 24),
            even_shift=even_shift,
            weights=weights,
            scales=scales,
        ).as_form(room)
        for room, band in bands_of(form, line, _BAND_BYTES)
    ]


@packed_once
def _filters(layer: LinearWeights) -> tuple[Array, int, Array] | None:
    """Return filters, shift and scales of depthwise layers; None where the kernel does not
    serve.
    """
    channels = require_right_shifts(layer.matrix, layer.requantization)
    if channels is None:
        return None
    even_shift, scales = scales_of(channels)
    return channels.weights.reshape(-1), even_shift, scales


def is_3x3(form: DepthwiseConvolution) -> bool:
    """Return whether the kernels for filters of 3x3 serve the layer."""
    window = form.window
    size = [window.filter_h, window.filter_w, window.dilation_h, window.dilation_w]
    stride = window.stride_w
    return form.multiplier == 1 and size == [3, 3, 1, 1] and stride == window.stride_h <= 2


def outputs_at_a_time(out_w: int, own: int, output: int) -> int:
    """Return the number of outputs of a row to compute at a time for few repeated outputs, given
    the instructions of a block and of an output.
    """

    def instructions(block: int) -> int:
        return -(-out_w // block) * (own + output * block)

    return min(range(1, min(_MAX_BLOCK, out_w) + 1), key=instructions)


def bands_of(
    form: DepthwiseConvolution, line: int, rooms: Iterable[int]
) -> Iterator[tuple[str, int]]:
    """Yield for each room a variant's form and the rows of outputs whose lines fit so many pixels,
    in bands of one size; at least one row, and no number of rows twice.
    """
    out_h, stride = form.images.out_h, form.window.stride_h
    seen: set[int] = set()
    for room in rooms:
        rows = max(1, (room // line - 3) // stride + 1)
        band = -(-out_h // -(-out_h // rows))
        if band not in seen:
            seen.add(band)
            yield f"{room}_pixels", band


@packed_once
def _columns(layer: LinearWeights) -> list[HilV7mColumns]:
    """Return the weights with two words of scratch an element of depth, which is faster, and with
    one.
    """
    outputs = layer.requantization
    found = []
    for wide, raised in ((2, 0), (1, _RAISED)):
        channels = require_right_shifts(layer.matrix, outputs, raised)
        if channels is not None:
            weights = padded(channels.weights, _BLOCK)
            even_shift, scales = scales_of(channels)
            columns = HilV7mColumns(
                part=longest_part(weights, raised),
                wide=wide,
                output_range=outputs.output_range,
                even_shift=even_shift,
                weights=_interleaved(weights),
                scales=scales,
            )
            found.append(columns)
    return found


def longest_part(weights: Array, raised: int) -> int:
    """Return the depth of the longest equal parts of columns whose sums fit their bits for all
    inputs; a multiple of the depth of the kernel's loop, or all.
    """
    depth = weights.shape[1]
    parts = 0
    while True:
        parts += 1
        part = -(-depth // (_TURN * parts)) * _TURN
        cuts = [weights[:, at : at + part] for at in range(0, depth, part)]
        limit = 1 << (PART_BITS - 1)
        if all(
            -limit <= least.min() and most.max() < limit
            for least, most in (sum_ends(cut, raised) for cut in cuts)
        ):
            return int(min(part, depth))


def _interleaved(weights: Array, block: int = _BLOCK) -> Array:
    """``[blocks][depth][block]``, flat."""
    blocks = weights.reshape(-1, block, weights.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).reshape(-1)
