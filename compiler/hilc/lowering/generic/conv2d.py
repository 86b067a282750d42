"""Linear layers on any core: the kernels of ``kernels/generic``."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    GroupedConvolution,
    MatrixProduct,
    flat_weights,
    interleaved,
    linear_calls,
)
from hilc.lowering.parameters import (
    HilGenericConv2dF32,
    HilGenericConv2dF32Groups,
    HilGenericConv2dS8,
    HilGenericConv2dS8Groups,
    HilGenericDepthwiseConv2dF32,
    HilGenericDepthwiseConv2dS8,
    HilGenericMatmulF32,
    HilGenericMatmulS8,
)
from hilc.lowering.registry import Layer, lowers

# The scratch of the int8 kernel of depthwise convolutions: channels of a band at most, bytes where
# there is a choice, the pixels that it computes at a time, the bytes that it copies at a time.
_BAND_CHANNELS = 16
_BAND_BYTES = 1024
_PIXEL_BLOCK = 4
_WORD = 4


@lowers(*LINEAR, dtypes={"int8"}, roundings=Rounding)
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any linear int8 layer on any core."""
    return linear_calls(
        layer, rows=_matmul_s8, convolution=_conv2d_s8, depthwise=_depthwise_s8, grouped=_grouped_s8
    )


@lowers(*LINEAR, dtypes={"float32"})
def floats(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any linear float32 layer on any core."""
    return linear_calls(
        layer,
        rows=_matmul_f32,
        convolution=_conv2d_f32,
        depthwise=_depthwise_f32,
        grouped=_grouped_f32,
    )


def _matmul_s8(form: MatrixProduct) -> Iterator[Parameters]:
    yield HilGenericMatmulS8(
        rows=form.rows,
        depth=form.depth,
        columns=form.channels,
        requantization=form.requantization,
        weights=interleaved(form.packing),
    )


def _conv2d_s8(form: Convolution) -> Iterator[Parameters]:
    yield HilGenericConv2dS8(
        images=form.images,
        out_c=form.channels,
        window=form.window,
        in_zero_point=form.pad_value,
        requantization=form.requantization,
        weights=interleaved(form.packing),
    )


def _depthwise_s8(form: DepthwiseConvolution) -> Iterator[Parameters]:
    block, tile_w, band_w = _band(form)
    yield HilGenericDepthwiseConv2dS8(
        images=form.images,
        depth_multiplier=form.multiplier,
        window=form.window,
        block=block,
        tile_w=tile_w,
        band_w=band_w,
        in_zero_point=form.pad_value,
        requantization=form.requantization,
        weights=flat_weights(form.packing),
    )


def _grouped_s8(form: GroupedConvolution) -> Iterator[Parameters]:
    yield HilGenericConv2dS8Groups(
        images=form.images,
        out_c=form.channels,
        groups=form.groups,
        window=form.window,
        in_zero_point=form.pad_value,
        requantization=form.requantization,
        weights=flat_weights(form.packing),
    )


def _grouped_f32(form: GroupedConvolution) -> Iterator[Parameters]:
    yield HilGenericConv2dF32Groups(
        images=form.images,
        out_c=form.channels,
        groups=form.groups,
        window=form.window,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        weights=flat_weights(form.packing),
        bias=form.floats.bias,
    )


def _matmul_f32(form: MatrixProduct) -> Iterator[Parameters]:
    yield HilGenericMatmulF32(
        rows=form.rows,
        depth=form.depth,
        columns=form.channels,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        weights=interleaved(form.packing),
        bias=form.floats.bias,
    )


def _conv2d_f32(form: Convolution) -> Iterator[Parameters]:
    yield HilGenericConv2dF32(
        images=form.images,
        out_c=form.channels,
        window=form.window,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        weights=interleaved(form.packing),
        bias=form.floats.bias,
    )


def _depthwise_f32(form: DepthwiseConvolution) -> Iterator[Parameters]:
    yield HilGenericDepthwiseConv2dF32(
        images=form.images,
        depth_multiplier=form.multiplier,
        window=form.window,
        out_min=form.floats.out_min,
        out_max=form.floats.out_max,
        weights=flat_weights(form.packing),
        bias=form.floats.bias,
    )


def _band(form: DepthwiseConvolution) -> tuple[int, int, int]:
    """Return how the int8 kernel cuts a row of outputs, and the channels, into bands of its
    scratch: the channels of a band, its pixels of the output and those of the input.

    A band holds whole words of channels where they divide so, and rows of outputs as long as the
    scratch allows, in whole blocks of the pixels that the kernel computes at a time.
    """
    in_channels, window = form.shape[3], form.placed
    divisors = [d for d in range(1, _BAND_CHANNELS + 1) if in_channels % d == 0]
    block = max(divisors, key=lambda d: (d % _WORD == 0, d))

    def band_width(tile: int) -> int:
        return (tile - 1) * window.w.stride + window.w.span

    tile = window.w.out_size
    while tile > _PIXEL_BLOCK and window.h.filter_size * band_width(tile) * block > _BAND_BYTES:
        tile = (tile - 1) // _PIXEL_BLOCK * _PIXEL_BLOCK
    return block, tile, band_width(tile)
