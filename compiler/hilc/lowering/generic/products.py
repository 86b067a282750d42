"""TRANSPOSE_CONV and BATCH_MATMUL: sums of products with no form of :mod:`hilc.lowering.linear`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hilc.ir import Rounding
from hilc.lowering.generic.conv_s16 import bias_words, multipliers, right_shifts
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import WideRequantization, output_range
from hilc.lowering.matrices import matrices_form
from hilc.lowering.parameters import (
    HilGenericBatchMatmulF32,
    HilGenericBatchMatmulS8,
    HilGenericBatchMatmulS16,
    HilGenericBatchMatmulS16Even,
    HilGenericTransposeConv2dF32,
    HilGenericTransposeConv2dS8,
    HilGenericTransposeConv2dS16,
    HilGenericTransposeConv2dS16Even,
    HilImages,
    HilOutputRange,
    HilTransposed,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import rounds
from hilc.numerics.requantize import reduced_multiplier, reduced_shift
from hilc.ops import batch_matmul, linear, transpose_conv
from hilc.ops.attributes import ActivationAttributes
from hilc.ops.operands import ARITHMETIC, float_range, quantization

_BOTH = (Rounding.SINGLE, Rounding.DOUBLE)


@lowers("TRANSPOSE_CONV", roundings=Rounding)
def transposed(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of a transposed convolution on any core."""
    ops, _ = transpose_conv.layer_operands(layer.node, layer.ins)
    if not ops.x.element.quantized:
        yield _transposed_call(layer, ops, _floats(layer, ops))
    elif not ops.x.element.symmetric:
        yield _transposed_call(layer, ops, _bytes(layer, ops))
    elif layer.node.rounding is Rounding.NEAREST_EVEN:
        yield _transposed_call(layer, ops, _even_words(layer, ops))
    else:
        yield _transposed_call(layer, ops, _words(layer, ops))


def _floats(layer: Layer, ops: linear.Operands) -> HilGenericTransposeConv2dF32:
    low, high = float_range(layer.node, ActivationAttributes.of(layer.node).activation)
    return HilGenericTransposeConv2dF32(
        transposed=_shape(layer),
        out_min=low,
        out_max=high,
        bias=ops.bias_data,
        weights=ops.weight_data.reshape(-1),
    )


def _words(layer: Layer, ops: linear.Operands) -> HilGenericTransposeConv2dS16:
    requant = linear.channel_requantization(layer.node, ops, layer.out)
    outputs = WideRequantization(requant, ops.bias_data.astype(np.int64), 0)
    return HilGenericTransposeConv2dS16(
        transposed=_shape(layer),
        out_min=requant.low,
        out_max=requant.high,
        per_channel=int(requant.multipliers.size > 1),
        bias=bias_words(outputs.bias),
        multipliers=multipliers(outputs),
        shifts=right_shifts(outputs),
        weights=ops.weight_data.reshape(-1),
    )


def _even_words(layer: Layer, ops: linear.Operands) -> HilGenericTransposeConv2dS16Even:
    requant = linear.channel_requantization(layer.node, ops, layer.out)
    return HilGenericTransposeConv2dS16Even(
        transposed=_shape(layer),
        in_offset=-quantization(layer.node, ops.x)[1],
        output_range=output_range(requant),
        per_channel=int(requant.multipliers.size > 1),
        bias=bias_words(ops.bias_data),
        multipliers=requant.multipliers,
        shifts=requant.shifts,
        weights=ops.weight_data.reshape(-1).astype(np.int16),
    )


def _bytes(layer: Layer, ops: linear.Operands) -> HilGenericTransposeConv2dS8:
    node = layer.node
    requant = linear.channel_requantization(node, ops, layer.out)
    return HilGenericTransposeConv2dS8(
        transposed=_shape(layer),
        in_offset=-quantization(node, ops.x)[1],
        output_range=output_range(requant),
        rounding=int(rounds(node.rounding, ties=True, narrow=False)),
        per_channel=int(requant.multipliers.size > 1),
        bias=ops.bias_data.astype(np.int32),
        multipliers=requant.multipliers,
        shifts=requant.shifts,
        weights=ops.weight_data.reshape(-1),
    )


def _transposed_call(layer: Layer, ops: linear.Operands, parameters: Parameters) -> KernelCall:
    _, filter_h, filter_w, _ = ops.weights.shape
    macs = ops.x.size * layer.out.shape[3] * filter_h * filter_w
    return KernelCall(parameters, (transpose_conv.IMAGE,), macs)


def _shape(layer: Layer) -> HilTransposed:
    """Return the images and the window of a transposed convolution."""
    ops, window = transpose_conv.layer_operands(layer.node, layer.ins)
    h, w = window.h, window.w
    images = HilImages(
        batch=layer.out.shape[0],
        in_h=h.out_size,
        in_w=w.out_size,
        in_c=ops.x.shape[3],
        out_h=layer.out.shape[1],
        out_w=layer.out.shape[2],
    )
    return HilTransposed(
        images=images,
        out_c=layer.out.shape[3],
        filter_h=h.filter_size,
        filter_w=w.filter_size,
        stride_h=h.stride,
        stride_w=w.stride,
        pad_top=h.pad_before,
        pad_left=w.pad_before,
    )


@lowers("BATCH_MATMUL", dtypes=ARITHMETIC, roundings=Rounding)
def batches(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of products of matrices on any core."""
    form = matrices_form(layer)
    if not layer.out.element.quantized:
        # Sums that are rounded once, with their products, are for the cores that do.
        if layer.node.rounding is not Rounding.SINGLE:
            yield form.call(HilGenericBatchMatmulF32(batch_matmul=form.shape))
        return
    multiplier, shift = batch_matmul.scale(layer.node, layer.ins, layer.out)
    low, high = layer.out.element.bounds
    range_ = HilOutputRange(out_zero_point=form.out_zero_point, out_min=low, out_max=high)
    if layer.out.element.symmetric and layer.node.rounding is Rounding.NEAREST_EVEN:
        exact = HilGenericBatchMatmulS16Even(
            batch_matmul=form.shape,
            a_offset=-form.a_zero_point,
            b_offset=-form.b_zero_point,
            output_range=range_,
            multiplier=multiplier,
            shift=shift,
        )
        yield form.call(exact)
        return
    if layer.out.element.symmetric:
        wide = HilGenericBatchMatmulS16(
            batch_matmul=form.shape,
            multiplier=int(reduced_multiplier(multiplier)),
            shift=int(reduced_shift(shift)),
        )
        yield form.call(wide)
        return
    parameters = HilGenericBatchMatmulS8(
        batch_matmul=form.shape,
        a_offset=-form.a_zero_point,
        b_offset=-form.b_zero_point,
        output_range=range_,
        multiplier=multiplier,
        shift=shift,
        rounding=int(form.rounds(layer)),
    )
    yield form.call(parameters)
