"""Poolings: images become NHWC around them."""

from __future__ import annotations

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.convolution import (
    channels_first,
    channels_last,
    padded,
    pads_of,
)
from hilc.ir import Tensor
from hilc.ops.attributes import ReductionAttributes
from hilc.ops.pooling import PoolingAttributes


@translates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Operation) -> Tensor:
    x = n.input(0)
    op = "MEAN" if n.type == "GlobalAveragePool" else "REDUCE_MAX"
    axes = n.constant(range(2, len(x.shape)), "int32")
    return n.emit(op, x, axes, attrs=ReductionAttributes(keep_dims=True))


@translates("AveragePool", "MaxPool")
def pool(n: Operation) -> Tensor:
    x, kernel = n.input(0), n.integers("kernel_shape")
    rank = len(kernel)
    if len(x.shape) != rank + 2 or rank not in (1, 2):
        n.refuse(f"pools images of {rank} dimensions", "1 and 2 are supported")
    if len([name for name in n.output_names if name]) > 1:
        n.refuse("gives the places of its maxima", "use its first output only")
    strides, dilations = n.integers("strides", (1,) * rank), n.integers("dilations", (1,) * rank)
    if set(dilations) != {1}:
        n.refuse(f"has dilations {list(dilations)}", "dilations of 1 are supported")
    pads = pads_of(n, x.shape[2:], kernel, strides, dilations)
    image = channels_last(n, x)
    if rank == 1:
        image = n.reshape(image, (image.shape[0], 1, *image.shape[1:]))
        kernel, strides, pads = (1, *kernel), (1, *strides), [(0, 0), *pads]
    if n.type == "AveragePool" and n.integer("count_include_pad", 0):
        # What is added counts: it is made real.
        image = padded(n, image, [(0, 0), *pads, (0, 0)])
        pads = [(0, 0)] * 2
    if n.integer("ceil_mode", 0):
        pads = [
            (before, _up(size, taps, stride, before, after))
            for size, taps, stride, (before, after) in zip(
                image.shape[1:3], kernel, strides, pads, strict=True
            )
        ]
    attrs = PoolingAttributes(
        filter_h=kernel[0],
        filter_w=kernel[1],
        stride_h=strides[0],
        stride_w=strides[1],
        padding=(*pads[0], *pads[1]) if np.any(pads) else "VALID",
    )
    op = "AVERAGE_POOL_2D" if n.type == "AveragePool" else "MAX_POOL_2D"
    made = n.emit(op, image, attrs=attrs)
    if len(x.shape) == 3:
        made = n.reshape(made, (made.shape[0], *made.shape[2:]))
    return channels_first(n, made)


def _up(size: int, taps: int, stride: int, before: int, after: int) -> int:
    """Return the padding after an axis that lets a last window in which begins inside."""
    count = -(-(size + before + after - taps) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return max(after, (count - 1) * stride + taps - size - before)
