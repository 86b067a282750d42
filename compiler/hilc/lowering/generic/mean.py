"""MEAN and SUM."""

from __future__ import annotations

from collections.abc import Sequence

from hilc.ir import Node, Rounding, Tensor
from hilc.lowering.kernels import KernelCall
from hilc.lowering.parameters import (
    HilGenericMeanF32,
    HilGenericMeanRowsF32,
    HilGenericMeanRowsS8,
    HilGenericMeanRowsS16,
    HilGenericMeanS8,
    HilGenericMeanS16,
    HilMean,
    HilMeanBlock,
    HilMeanRows,
    HilMeanScale,
    HilMveMeanRowsF32,
)
from hilc.lowering.registry import Layer, lowers, lowers_incrementally
from hilc.lowering.rounds import Rounds, sum_rounds
from hilc.lowering.strides import contiguous_strides, nest, walk
from hilc.ops.mean import block_of_values, divisor, mean_scale, reduced_axes
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import (
    ARITHMETIC,
    operand,
    quantization,
)


def walk_of_values(layer: Layer) -> HilMean:
    """Return the walk over the outputs of a reduction, and for each over its values."""
    node, ins = layer.node, layer.ins
    x, out = layer.operand(0), layer.out
    axes = reduced_axes(node, ins)
    strides = contiguous_strides(x.shape)
    kept = [i for i in range(len(x.shape)) if i not in axes]
    outer = nest([x.shape[i] for i in kept], [strides[i] for i in kept])
    *inner, last = nest([x.shape[i] for i in axes], [strides[i] for i in axes])
    over, within = walk(node, outer), walk(node, inner)
    return HilMean(
        size=out.size,
        counts=over.counts,
        jumps=over.jumps[0],
        rows=within.rows,
        row_counts=within.counts,
        row_jumps=within.jumps[0],
        length=last.count,
        step=last.steps[0],
    )


@lowers("MEAN", "SUM", dtypes=ARITHMETIC, roundings=TWICE_OR_EVEN)
def portable(layer: Layer) -> KernelCall:
    """Return the mean or the sum over any axes."""
    node, x, out, mean = layer.node, layer.operand(0), layer.out, walk_of_values(layer)
    count = x.size // out.size
    if not x.element.quantized:
        return KernelCall(HilGenericMeanF32(mean=mean, count=divisor(node, count)))
    multiplier, shift = mean_scale(node, x, out, count)
    if x.element.symmetric:
        of_words = HilGenericMeanS16(
            mean=mean,
            offset=-quantization(node, x)[1] * count,
            multiplier=multiplier,
            shift=shift,
            rounding=int(mean_rounds(layer)),
            out_zero_point=quantization(node, out)[1],
        )
        return KernelCall(of_words)
    return KernelCall(HilGenericMeanS8(mean=mean, mean_scale=scale_of_bytes(layer)))


def scale_of_bytes(layer: Layer) -> HilMeanScale:
    """Return how the sums of an int8 layer become outputs."""
    node, x, out = layer.node, layer.operand(0), layer.out
    count = x.size // out.size
    multiplier, shift = mean_scale(node, x, out, count)
    return HilMeanScale(
        offset=-quantization(node, x)[1] * count,
        multiplier=multiplier,
        shift=shift,
        rounding=int(mean_rounds(layer)),
        out_zero_point=quantization(node, out)[1],
    )


def block_of_bytes(layer: Layer) -> HilMeanBlock | None:
    """Return the blocks over which an int8 layer averages; None if its axes are not adjacent."""
    found = block_of_values(layer.node, layer.ins)
    if found is None:
        return None
    blocks, count, channels = found
    return HilMeanBlock(blocks=blocks, count=count, channels=channels)


def mean_rounds(layer: Layer) -> Rounds:
    """Return the rounding mode of an int8 MEAN or SUM."""
    node, x, out = layer.node, layer.operand(0), layer.out
    count = x.size // out.size
    scale = mean_scale(node, x, out, count)
    return sum_rounds(node, x, count, scale)


@lowers_incrementally("SUM")
@lowers_incrementally("MEAN")
def add_rows(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    rows: int,
    first: bool,
    last: bool,
) -> KernelCall:
    """Return the call of MEAN or SUM over an image, which comes ``rows`` rows at a time.

    ``first`` and ``last`` say whether these are the image's first and last rows.
    """
    x, out = operand(node, ins, 0), outs[0]
    count = x.size // out.size
    mean_rows = HilMeanRows(
        first=int(first), last=int(last), pixels=rows * x.shape[2], channels=x.shape[3]
    )
    if node.rounding is Rounding.SINGLE:
        of_vectors = HilMveMeanRowsF32(mean_rows=mean_rows, count=divisor(node, count))
        return KernelCall(of_vectors)
    if not x.element.quantized:
        of_floats = HilGenericMeanRowsF32(mean_rows=mean_rows, count=divisor(node, count))
        return KernelCall(of_floats)
    multiplier, shift = mean_scale(node, x, out, count)
    if x.element.symmetric:
        of_rows = HilGenericMeanRowsS16(mean_rows=mean_rows, multiplier=multiplier, shift=shift)
        return KernelCall(of_rows)
    parameters = HilGenericMeanRowsS8(
        mean_rows=mean_rows,
        offset=-quantization(node, x)[1] * count,
        multiplier=multiplier,
        shift=shift,
        out_zero_point=quantization(node, out)[1],
    )
    return KernelCall(parameters)
