"""Linear layers on any core: the kernels of ``kernels/generic``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    linear_form,
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


@dataclass(frozen=True)
class _Kernels:
    """The kernels of an element type."""

    matmul: type[Parameters]
    conv2d: type[Parameters]
    depthwise: type[Parameters]
    grouped: type[Parameters]
    #: The fields that the depthwise kernel has besides those of all.
    depthwise_fields: Callable[[DepthwiseConvolution], dict[str, int]] = lambda form: {}


def _band(form: DepthwiseConvolution) -> dict[str, int]:
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
    return {"block": block, "tile_w": tile, "band_w": band_width(tile)}


_KERNELS = {
    "int8": _Kernels(
        HilGenericMatmulS8,
        HilGenericConv2dS8,
        HilGenericDepthwiseConv2dS8,
        HilGenericConv2dS8Groups,
        _band,
    ),
    "float32": _Kernels(
        HilGenericMatmulF32,
        HilGenericConv2dF32,
        HilGenericDepthwiseConv2dF32,
        HilGenericConv2dF32Groups,
    ),
}


@lowers(*LINEAR, dtypes={"int8"}, roundings=Rounding)
@lowers(*LINEAR, dtypes={"float32"})
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any linear layer of int8 or float32 on any core."""
    form, kernels = linear_form(layer), _KERNELS[layer.dtype]
    packing, parameters = form.packing, form.parameters
    made: Parameters
    match form:
        case MatrixProduct():
            made = parameters(kernels.matmul, weights=interleaved(packing))
        case Convolution():
            made = parameters(kernels.conv2d, weights=interleaved(packing))
        case GroupedConvolution():
            made = parameters(kernels.grouped, weights=flat_weights(packing))
        case DepthwiseConvolution():
            own = kernels.depthwise_fields(form)
            made = parameters(kernels.depthwise, weights=flat_weights(packing), **own)
        case _:
            raise AssertionError(form)
    return KernelCall(made, macs=form.macs)
