"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hilc.ir import Node, Rounding, Tensor
from hilc.lowering.kernels import KernelCall, Parameters
from hilc.lowering.parameters import (
    HilAverageRows,
    HilDspAveragePoolS8Scaled,
    HilGenericAveragePoolF32,
    HilGenericAveragePoolS8,
    HilGenericAveragePoolS8Even,
    HilGenericAveragePoolS16,
    HilGenericAveragePoolS16Even,
    HilGenericAverageRowsF32,
    HilGenericAverageRowsS8,
    HilGenericAverageRowsS16,
    HilGenericL2PoolF32,
    HilGenericMaxPoolF32,
    HilGenericMaxPoolS8,
    HilGenericMaxPoolS16,
    HilMveAveragePoolS8Scaled,
    HilMveAverageRowsF32,
    HilPool,
    HilPoolWindows,
)
from hilc.lowering.registry import Layer, lowers, lowers_incrementally
from hilc.lowering.rounds import Rounds, sum_rounds
from hilc.ops.geometry import Window
from hilc.ops.mean import mean_scale, reduced_axes
from hilc.ops.opdef import TWICE_OR_EVEN
from hilc.ops.operands import ARITHMETIC, operand, quantization
from hilc.ops.pooling import average_scales, is_scaled, pooling_clamp, pooling_window

_EVEN_AVERAGES = {"int8": HilGenericAveragePoolS8Even, "int16": HilGenericAveragePoolS16Even}
#: By operator and element type.
_POOLS: Mapping[tuple[str, str], type[Parameters]] = {
    ("AVERAGE_POOL_2D", "int8"): HilGenericAveragePoolS8,
    ("AVERAGE_POOL_2D", "int16"): HilGenericAveragePoolS16,
    ("AVERAGE_POOL_2D", "float32"): HilGenericAveragePoolF32,
    ("MAX_POOL_2D", "int8"): HilGenericMaxPoolS8,
    ("MAX_POOL_2D", "int16"): HilGenericMaxPoolS16,
    ("MAX_POOL_2D", "float32"): HilGenericMaxPoolF32,
    ("L2_POOL_2D", "float32"): HilGenericL2PoolF32,
}
_ROWS = {"int8": HilGenericAverageRowsS8, "int16": HilGenericAverageRowsS16}


@lowers("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D", dtypes=ARITHMETIC, roundings=TWICE_OR_EVEN)
def portable(layer: Layer) -> KernelCall:
    """Return the kernel of any windows on any core."""
    if is_scaled(layer.node) and layer.out.element.quantized:
        return KernelCall(_scaled_average(layer))
    return pool_call(layer, _POOLS[layer.node.op, layer.dtype])


def pool_call(layer: Layer, kind: type[Parameters]) -> KernelCall:
    """Return the call of a kernel of any family whose parameters are ``pool``, ``low`` and
    ``high``.
    """
    low, high = pooling_clamp(layer.node, layer.out)
    if layer.out.element.quantized:
        low, high = int(low), int(high)
    return KernelCall(kind(pool=any_windows(layer), low=low, high=high))


def inner_pool_call(layer: Layer, kind: type[Parameters], **own: int) -> KernelCall:
    """Return the call of an int8 kernel of any family over windows inside the image."""
    low, high = (int(end) for end in pooling_clamp(layer.node, layer.out))
    windows = pool_windows(layer.operand(0), pooling_window(layer.node, layer.operand(0)))
    return KernelCall(kind(pool_windows=windows, low=low, high=high, **own))


def _scaled_average(layer: Layer) -> Parameters:
    """Return averages that are requantized to the output's scale, rounded once."""
    node, x, out = layer.node, layer.operand(0), layer.out
    place, (low, high) = pooling_window(node, x), pooling_clamp(node, out)
    scales = average_scales(node, x, out)
    kinds = {sum_rounds(node, x, i + 1, scale) for i, scale in enumerate(scales)}
    if not place.padded:
        scales, kinds = scales[-1:], {sum_rounds(node, x, len(scales), scales[-1])}
    return _EVEN_AVERAGES[layer.dtype](
        pool=any_windows(layer),
        in_zero_point=quantization(node, x)[1],
        out_zero_point=quantization(node, out)[1],
        padded=int(place.padded),
        rounding=int(kinds.pop() if len(kinds) == 1 else Rounds.EVEN),
        low=int(low),
        high=int(high),
        multipliers=np.array([scale.multiplier for scale in scales], np.int32),
        shifts=np.array([scale.shift for scale in scales], np.int8),
    )


def scaled_average_calls(
    layer: Layer,
    kind: type[HilDspAveragePoolS8Scaled] | type[HilMveAveragePoolS8Scaled],
    most: int,
) -> Iterator[KernelCall]:
    """Yield the call of a family's kernel of averages with ties to even (AVERAGE_POOL_2D, or MEAN
    over images); none where its windows are of more than ``most`` pixels, or reach beyond the
    image.
    """
    node, x, out = layer.node, layer.operand(0), layer.out
    if node.op == "MEAN":
        if len(x.shape) != 4 or reduced_axes(node, layer.ins) != (1, 2):
            return
        batches, height, width, channels = x.shape
        size, (low, high) = height * width, out.element.bounds
        scale = mean_scale(node, x, out, size)
        windows = HilPoolWindows(
            batches=batches, in_h=height, in_w=width, channels=channels, out_h=1, out_w=1,
            filter_h=height, filter_w=width, stride_h=1, stride_w=1,
        )  # fmt: skip
    else:
        place = pooling_window(node, x)
        if place.padded:
            return
        scales = average_scales(node, x, out)
        size, scale = len(scales), scales[-1]
        low, high = (int(end) for end in pooling_clamp(node, out))
        windows = pool_windows(x, place)
    if size > most:
        return
    parameters = kind(
        pool_windows=windows,
        offset=-quantization(node, x)[1] * size,
        multiplier=scale.multiplier,
        shift=scale.shift,
        rounding=int(sum_rounds(node, x, size, scale)),
        out_zero_point=quantization(node, out)[1],
        low=low,
        high=high,
    )
    yield KernelCall(parameters)


def pool_windows(x: Tensor, window: Window) -> HilPoolWindows:
    """Return the windows of a pooling layer on its input."""
    return HilPoolWindows(
        batches=x.shape[0],
        in_h=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_h=window.h.out_size,
        out_w=window.w.out_size,
        filter_h=window.h.filter_size,
        filter_w=window.w.filter_size,
        stride_h=window.h.stride,
        stride_w=window.w.stride,
    )


def any_windows(layer: Layer) -> HilPool:
    """Return the windows of a pooling layer, which may reach beyond the image."""
    x = layer.operand(0)
    window = pooling_window(layer.node, x)
    return HilPool(
        pool_windows=pool_windows(x, window),
        pad_top=window.h.pad_before,
        pad_left=window.w.pad_before,
    )


@lowers_incrementally("AVERAGE_POOL_2D")
def add_rows(
    node: Node,
    ins: Sequence[Tensor | None],
    outs: Sequence[Tensor],
    rows: int,
    first: bool,
    last: bool,
) -> KernelCall:
    """Return the call of AVERAGE_POOL_2D over the :func:`whole_height`, which comes ``rows`` rows
    at a time.

    ``first`` and ``last`` say whether these are the image's first and last rows.
    """
    x, out = operand(node, ins, 0), outs[0]
    window = pooling_window(node, x).w
    low, high = pooling_clamp(node, out)
    average_rows = HilAverageRows(
        rows=rows,
        first=int(first),
        last=int(last),
        height=x.shape[1],
        in_w=x.shape[2],
        channels=x.shape[3],
        out_w=window.out_size,
        filter_w=window.filter_size,
        stride_w=window.stride,
        pad_left=window.pad_before,
    )
    if out.element.quantized:
        of_integers = _ROWS[out.dtype]
        return KernelCall(of_integers(average_rows=average_rows, low=int(low), high=int(high)))
    of_floats = (
        HilMveAverageRowsF32 if node.rounding is Rounding.SINGLE else HilGenericAverageRowsF32
    )
    return KernelCall(of_floats(average_rows=average_rows, low=low, high=high))
