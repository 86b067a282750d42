"""Linear layers on any core: the kernels of ``kernels/generic``."""

from __future__ import annotations

from collections.abc import Iterator

from hilc.lowering.kernels import KernelCall, kernels
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    Fields,
    MatrixProduct,
    interleave,
    linear_form,
)
from hilc.lowering.registry import Layer, lowers

# The scratch of the int8 kernel of depthwise convolutions: channels of a band at most, bytes where
# there is a choice, the pixels that it computes at a time, the bytes that it copies at a time.
_BAND_CHANNELS = 16
_BAND_BYTES = 1024
_PIXEL_BLOCK = 4
_WORD = 4


@lowers(*LINEAR, dtypes={"int8", "float32"})
def portable(layer: Layer) -> Iterator[KernelCall]:
    """The kernel of any linear layer on any core."""
    form = linear_form(layer)
    is_float = layer.dtype == "float32"
    fields: Fields
    if isinstance(form, DepthwiseConvolution):
        name = "depthwise_conv2d"
        fields = {
            **form.window,
            "depth_multiplier": form.multiplier,
            **form.channels,
            "weights": form.columns.reshape(-1),
        }
        if not is_float:
            fields |= {"in_zero_point": form.fill, **_band_fields(form)}
    elif isinstance(form, MatrixProduct):
        name = "matmul"
        count, depth = form.columns.shape
        shape: Fields = {"rows": form.rows, "depth": depth, "columns": count}
        fields = {**shape, **form.channels, "weights": interleave(form.columns)}
    else:
        assert isinstance(form, Convolution)
        name = "conv2d"
        outside: Fields = {} if is_float else {"in_zero_point": form.fill}
        fields = {
            **form.window,
            "out_c": len(form.columns),
            **outside,
            **form.channels,
            "weights": interleave(form.columns),
        }
    suffix = "f32" if is_float else "s8"
    yield KernelCall(kernels()[f"hil_{name}_{suffix}"], fields, macs=form.macs)


def _band_fields(form: DepthwiseConvolution) -> Fields:
    """How the int8 kernel cuts a row of outputs, and the channels, into bands of its scratch.

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
