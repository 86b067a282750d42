"""Depthwise filters of any size, strides and dilations over the channels of a pixel at a time."""

from __future__ import annotations

from hilc.lowering.linear import DepthwiseConvolution
from hilc.lowering.parameters import HilChannelRows


def channel_rows(form: DepthwiseConvolution) -> HilChannelRows | None:
    """Return the fields of ``generic/channel_rows.h``; None where a channel has several filters."""
    if form.multiplier > 1:
        return None
    images, window = form.images, form.window
    rows, columns = (
        (outputs - 1) * stride + (size - 1) * dilation + 1
        for outputs, stride, size, dilation in (
            (images.out_h, window.stride_h, window.filter_h, window.dilation_h),
            (images.out_w, window.stride_w, window.filter_w, window.dilation_w),
        )
    )
    top, left = window.pad_top, window.pad_left
    beyond = top > 0 or left > 0 or rows - top > images.in_h or columns - left > images.in_w
    return form.parameters(
        HilChannelRows,
        padded=int(beyond),
        columns=max(0, min(images.in_w, columns - left)),
        line=max(columns, left),
    )
