"""Linear layers of 16-bit activations on any core, by the type of their sums.

Sums of 64 bits are rounded once, with a multiplier of 15 bits; those of 32 bits twice. By the
policy of ties to even the multiplier has 31 bits, and 64 bits are for weights of 16 and for sums
that leave 32.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hilc.ir import Array, Rounding
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.linear import (
    LINEAR,
    Convolution,
    DepthwiseConvolution,
    GroupedConvolution,
    LinearForm,
    LinearWeights,
    MatrixProduct,
    WideRequantization,
    flat_weights,
    has_tying_sums,
    linear_calls,
    packed_once,
)
from hilc.lowering.parameters import (
    HilGenericConv2dS16,
    HilGenericConv2dS16Even,
    HilGenericConv2dS16Sums32,
    HilGenericDepthwiseConv2dS16,
    HilGenericMatmulS16,
    HilGenericMatmulS16Even,
    HilGenericMatmulS16Sums32,
    HilRowsS16,
    HilWideConv2d,
)
from hilc.lowering.registry import Layer, lowers
from hilc.lowering.rounds import Rounds, rounds
from hilc.numerics.requantize import INT32_MAX, LEAST_SHIFT, reduced_multiplier, reduced_shift

#: Magnitude of a sum below which the short forms of rounding are exact.
_NARROW_LIMIT = 2**30


@lowers(*LINEAR, dtypes={"int16"}, roundings=Rounding)
def portable(layer: Layer) -> Iterator[KernelCall]:
    """Return the kernel of any linear int16 layer on any core."""
    return linear_calls(
        layer, rows=_matmul, convolution=_conv2d, depthwise=_depthwise, grouped=_conv2d
    )


def bias_words(bias: Array) -> npt.NDArray[np.int32]:
    """Return biases of 64 bits in words, the lower one first: constants are aligned as such."""
    words: npt.NDArray[np.int32] = bias.astype("<i8").view("<i4")
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


@packed_once
def _long_bias(weights: LinearWeights) -> npt.NDArray[np.int32]:
    return bias_words(weights.wide.bias)


@packed_once
def _long_scales(weights: LinearWeights) -> dict[str, Array]:
    """Return biases, multipliers and shifts of sums of 64 bits."""
    return {
        "bias": _long_bias(weights),
        "multipliers": multipliers(weights.wide),
        "shifts": right_shifts(weights.wide),
    }


@packed_once
def _half_words(weights: LinearWeights) -> npt.NDArray[np.int16]:
    return weights.matrix.reshape(-1).astype(np.int16)


def _has_long_sums(form: LinearForm) -> bool:
    """Whether sums have 64 bits, and are rounded by TensorFlow Lite's policy for these."""
    requant = form.wide.requant
    return requant.sums == "int64" and requant.rounding is Rounding.SINGLE


def _is_beyond_words(form: LinearWeights) -> bool:
    """Whether weights have 16 bits, or sums that are rounded to even leave 32."""
    outputs = form.wide
    is_wide = outputs.bound > INT32_MAX or form.matrix.dtype.itemsize > 1
    return outputs.requant.rounding is Rounding.NEAREST_EVEN and is_wide


@packed_once
def _word_rounds(form: LinearWeights) -> int:
    """Return the rounding mode of 32-bit sums."""
    outputs = form.wide
    requant = outputs.requant
    narrow = outputs.bound < _NARROW_LIMIT and requant.shifts.max() < 0
    if requant.rounding is Rounding.DOUBLE:
        return int(Rounds.TWICE)
    return int(rounds(requant.rounding, has_tying_sums(form), bool(narrow)))


@packed_once
def _word_scales(weights: LinearWeights) -> dict[str, Array]:
    """Return biases, multipliers and shifts of 32-bit sums; factors too small to affect an output
    are 0.
    """
    requant = weights.wide.requant
    counts = requant.shifts >= LEAST_SHIFT
    return {
        "bias": weights.wide.bias.astype(np.int32),
        "multipliers": np.where(counts, requant.multipliers, 0).astype(np.int32),
        "shifts": np.where(counts, requant.shifts, -1).astype(np.int8),
    }


def _matmul(form: MatrixProduct) -> Iterator[Parameters]:
    outputs = form.wide
    if _is_beyond_words(form.packing):
        yield form.parameters(
            HilGenericMatmulS16Even,
            weights=_half_words(form.packing),
            bias=_long_bias(form.packing),
            multipliers=outputs.requant.multipliers,
            shifts=outputs.requant.shifts,
        )
        return
    shape = form.parameters(HilRowsS16, weights=flat_weights(form.packing))
    if _has_long_sums(form):
        yield HilGenericMatmulS16(
            rows_s16=shape,
            **_long_scales(form.packing),
        )
    else:
        yield HilGenericMatmulS16Sums32(
            rows_s16=shape,
            out_zero_point=outputs.requant.zero_point,
            rounding=_word_rounds(form.packing),
            **_word_scales(form.packing),
        )


def _conv2d(form: Convolution | GroupedConvolution) -> Iterator[Parameters]:
    groups = form.groups if isinstance(form, GroupedConvolution) else 1
    if not _has_long_sums(form):
        yield _once(form, groups)
        return
    yield HilGenericConv2dS16(
        wide_conv2d=_shape(form, groups),
        **_long_scales(form.packing),
    )


def _shape(
    form: Convolution | GroupedConvolution | DepthwiseConvolution, groups: int
) -> HilWideConv2d:
    return form.parameters(
        HilWideConv2d,
        groups=groups,
        weights=flat_weights(form.packing),
    )


def _once(form: Convolution | GroupedConvolution | DepthwiseConvolution, groups: int) -> Parameters:
    """Return a convolution whose sums have a multiplier of 31 bits."""
    outputs = form.wide
    if _is_beyond_words(form.packing):
        return form.parameters(
            HilGenericConv2dS16Even,
            groups=groups,
            weights=_half_words(form.packing),
            bias=_long_bias(form.packing),
            multipliers=outputs.requant.multipliers,
            shifts=outputs.requant.shifts,
        )
    return HilGenericConv2dS16Sums32(
        wide_conv2d=_shape(form, groups),
        in_zero_point=form.pad_value,
        out_zero_point=outputs.requant.zero_point,
        rounding=_word_rounds(form.packing),
        **_word_scales(form.packing),
    )


def _depthwise(form: DepthwiseConvolution) -> Iterator[Parameters]:
    if form.images.in_c == 1:
        return  # _conv2d() lowers it
    if not _has_long_sums(form):
        # CONV_2D in groups of one channel: depthwise kernels have the reduced multiplier.
        yield _once(form, form.images.in_c)
        return
    yield form.parameters(
        HilGenericDepthwiseConv2dS16,
        weights=flat_weights(form.packing),
        **_long_scales(form.packing),
    )
