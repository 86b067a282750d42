"""Linear layers of 16-bit activations on any core, by the type of their sums.

Sums of 64 bits are rounded once, with a multiplier of 15 bits; those of 32 bits twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hilc.ir import Rounding
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    GroupedConvolution,
    LinearForm,
    MatrixProduct,
    WideRequantization,
    linear_calls,
)
from hilc.lowering.parameters import (
    HilConv2dS16,
    HilConv2dS16Sums32,
    HilDepthwiseConv2dS16,
    HilMatmulS16,
    HilMatmulS16Sums32,
    HilRowsS16,
    HilWideConv2d,
)
from hilc.lowering.registry import Layer, lowers
from hilc.numerics.requantize import reduced_multiplier, reduced_shift


@lowers(*LINEAR, dtypes={"int16"}, roundings={Rounding.SINGLE, Rounding.DOUBLE})
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any linear int16 layer on any core."""
    return linear_calls(
        layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise, grouped=_conv2d
    )


def bias_words(outputs: WideRequantization) -> npt.NDArray[np.int32]:
    """Return the biases of 64 bits in words, the lower one first: constants are aligned as such."""
    words: npt.NDArray[np.int32] = outputs.bias.astype("<i8").view("<i4")
    return words


def right_shifts(outputs: WideRequantization) -> npt.NDArray[np.int8]:
    """Shifts to the right of products with a multiplier of 15 bits."""
    shifts: npt.NDArray[np.int8] = reduced_shift(outputs.requant.shifts.astype(np.int64)).astype(
        np.int8
    )
    return shifts


def multipliers(outputs: WideRequantization) -> npt.NDArray[np.int16]:
    """Multipliers of 15 bits."""
    reduced = reduced_multiplier(outputs.requant.multipliers)
    return reduced.astype(np.int16)


def _is_wide(form: LinearForm) -> bool:
    """Whether sums have 64 bits."""
    return form.wide.requant.sums == "int64"


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    outputs = form.wide
    shape = HilRowsS16(
        rows=form.rows,
        depth=form.depth,
        columns=form.channels,
        out_min=outputs.requant.low,
        out_max=outputs.requant.high,
        per_channel=outputs.per_channel,
        weights=form.weights.reshape(-1),
    )
    if _is_wide(form):
        yield HilMatmulS16(
            rows_s16=shape,
            bias=bias_words(outputs),
            multipliers=multipliers(outputs),
            shifts=right_shifts(outputs),
        )
    else:
        yield HilMatmulS16Sums32(
            rows_s16=shape,
            bias=outputs.bias.astype(np.int32),
            multipliers=outputs.requant.multipliers,
            shifts=outputs.requant.shifts,
        )


def _conv2d(form: Convolution | GroupedConvolution) -> Iterator[Parameters]:
    outputs = form.wide
    shape = HilWideConv2d(
        images=form.images,
        out_c=form.channels,
        groups=form.groups if isinstance(form, GroupedConvolution) else 1,
        window=form.window,
        out_min=outputs.requant.low,
        out_max=outputs.requant.high,
        per_channel=outputs.per_channel,
        weights=form.weights.reshape(-1),
    )
    if _is_wide(form):
        yield HilConv2dS16(
            wide_conv2d=shape,
            bias=bias_words(outputs),
            multipliers=multipliers(outputs),
            shifts=right_shifts(outputs),
        )
    else:
        yield HilConv2dS16Sums32(
            wide_conv2d=shape,
            bias=outputs.bias.astype(np.int32),
            multipliers=outputs.requant.multipliers,
            shifts=outputs.requant.shifts,
        )


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    outputs = form.wide
    if not _is_wide(form):
        # CONV_2D in groups of one channel: a bias of 32 bits is not for depthwise kernels.
        yield HilConv2dS16Sums32(
            wide_conv2d=HilWideConv2d(
                images=form.images,
                out_c=form.channels,
                groups=form.images.in_c,
                window=form.window,
                out_min=outputs.requant.low,
                out_max=outputs.requant.high,
                per_channel=outputs.per_channel,
                weights=form.weights.reshape(-1),
            ),
            bias=outputs.bias.astype(np.int32),
            multipliers=outputs.requant.multipliers,
            shifts=outputs.requant.shifts,
        )
        return
    yield HilDepthwiseConv2dS16(
        images=form.images,
        depth_multiplier=form.multiplier,
        window=form.window,
        out_min=outputs.requant.low,
        out_max=outputs.requant.high,
        per_channel=outputs.per_channel,
        weights=form.weights.reshape(-1),
        bias=bias_words(outputs),
        multipliers=multipliers(outputs),
        shifts=right_shifts(outputs),
    )
