"""TRANSPOSE_CONV and BATCH_MATMUL: sums of products with no form of :mod:`hilc.lowering.linear`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.wide import bias_words, multipliers, right_shifts
from hilc.lowering.kernels import KernelCall
from hilc.lowering.linear import WideRequantization
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import (
    HilBatchMatmulF32,
    HilBatchMatmulS8,
    HilBatchMatmulS16,
    HilImages,
    HilOutputRange,
    HilTransposeConv2dF32,
    HilTransposeConv2dS8,
    HilTransposeConv2dS16,
    HilTransposed,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import reduced_multiplier, reduced_shift
from hilc.ops import batch_matmul, linear, transpose_conv
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.operands import ARITHMETIC, float_range, quantization

_BOTH = (Rounding.SINGLE, Rounding.DOUBLE)


@lowers("TRANSPOSE_CONV", roundings=_BOTH)
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of a transposed convolution on any core."""
    node, out = layer.node, layer.out
    ops, window = transpose_conv.layer_operands(node, layer.ins)
    h, w = window.h, window.w
    shape = HilTransposed(
        images=HilImages(
            batch=out.shape[0],
            in_h=h.out_size,
            in_w=w.out_size,
            in_c=ops.x.shape[3],
            out_h=out.shape[1],
            out_w=out.shape[2],
        ),
        out_c=out.shape[3],
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride_h=h.stride,
        stride_w=w.stride,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
    )
    macs = ops.x.size * out.shape[3] * h.filter_size * w.filter_size
    inputs = (transpose_conv.IMAGE,)
    weights = ops.weight_data.reshape(-1)
    if not ops.x.element.quantized:
        low, high = float_range(node, ActivationAttributes.of(node).activation)
        floats = HilTransposeConv2dF32(
            transposed=shape, out_min=low, out_max=high, bias=ops.bias_data, weights=weights
        )
        yield KernelCall(floats, inputs, macs)
        return
    requant = linear.channel_requantization(node, ops, out)
    per_channel = int(requant.multipliers.size > 1)
    if ops.x.element.symmetric:
        outputs = WideRequantization(requant, ops.bias_data, 0)
        wide = HilTransposeConv2dS16(
            transposed=shape,
            out_min=requant.low,
            out_max=requant.high,
            per_channel=per_channel,
            bias=bias_words(outputs),
            multipliers=multipliers(outputs),
            shifts=right_shifts(outputs),
            weights=weights,
        )
        yield KernelCall(wide, inputs, macs)
        return
    parameters = HilTransposeConv2dS8(
        transposed=shape,
        in_offset=-quantization(node, ops.x)[1],
        output_range=HilOutputRange(
            out_zero_point=requant.zero_point, out_min=requant.low, out_max=requant.high
        ),
        per_channel=per_channel,
        bias=ops.bias_data.astype(np.int32),
        multipliers=requant.multipliers,
        shifts=requant.shifts,
        weights=weights,
    )
    yield KernelCall(parameters, inputs, macs)


@lowers("BATCH_MATMUL", dtypes=ARITHMETIC, roundings=Rounding)
def batches(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of products of matrices on any core."""
    form = matrices_form(layer)
    if not layer.out.element.quantized:
        # Sums that are rounded once, with their products, are for the cores that do.
        if layer.node.rounding is not Rounding.SINGLE:
            yield form.call(HilBatchMatmulF32(batch_matmul=form.shape))
        return
    multiplier, shift = batch_matmul.scale(layer.node, layer.ins, layer.out)
    if layer.out.element.symmetric:
        wide = HilBatchMatmulS16(
            batch_matmul=form.shape,
            multiplier=int(reduced_multiplier(multiplier)),
            shift=int(reduced_shift(shift)),
        )
        yield form.call(wide)
        return
    low, high = layer.out.element.bounds
    parameters = HilBatchMatmulS8(
        batch_matmul=form.shape,
        a_offset=-form.a_zero_point,
        b_offset=-form.b_zero_point,
        output_range=HilOutputRange(out_zero_point=form.out_zero_point, out_min=low, out_max=high),
        multiplier=multiplier,
        shift=shift,
        rounding=int(rounds(layer.node.rounding, ties=True, narrow=False)),
    )
    yield form.call(parameters)
