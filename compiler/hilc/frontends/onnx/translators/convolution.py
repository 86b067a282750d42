"""Convolutions: images become NHWC around them, weights are permuted here.

One spatial axis is an image of one row. With three, an output is a sum of convolutions over the
last two, one for each tap along the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from hilc.frontends.onnx.operation import Operation, translates
from hilc.frontends.onnx.translators.movement import sliced
from hilc.ir import Array, Tensor
from hilc.ops.attributes import ActivationAttributes, ConvolutionAttributes
from hilc.ops.concat_split import ConcatenationAttributes
from hilc.ops.depthwise_conv2d import DepthwiseConv2DAttributes
from hilc.ops.dynamic import ConvIntegerAttributes
from hilc.ops.transpose_conv import TransposeConvAttributes


def channels_last(n: Operation, x: Tensor) -> Tensor:
    """Return ``[N, C, spatial...]`` as ``[N, spatial..., C]``."""
    rank = len(x.shape)
    return n.transpose(x, (0, *range(2, rank), 1))


def channels_first(n: Operation, x: Tensor) -> Tensor:
    """Return ``[N, spatial..., C]`` as ``[N, C, spatial...]``."""
    rank = len(x.shape)
    return n.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def pads_of(
    n: Operation,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis."""
    mode, rank = n.text("auto_pad", "NOTSET"), len(sizes)
    if mode == "NOTSET":
        pads = n.integers("pads", (0,) * (2 * rank))
        if len(pads) != 2 * rank or min(pads, default=0) < 0:
            n.invalid(f"has the pads {list(pads)}", f"{2 * rank} numbers of 0 or more are accepted")
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return [(0, 0)] * rank
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        n.invalid(f"has auto_pad {mode!r}")
    pads_each = []
    for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, same_padding(size, (taps - 1) * dilation + 1, stride))
        less, more = total // 2, total - total // 2
        pads_each.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return pads_each


def same_padding(size: int, span: int, stride: int) -> int:
    """Return the positions that ``SAME_*`` adds to an axis by the standard's formula.

    They are negative where strides pass over the end of the axis.
    """
    return (-(-size // stride) - 1) * stride + span - size


@translates("Conv")
def conv(n: Operation) -> Tensor:
    """Translate Conv over 1 to 3 spatial axes, from NCHW to the kernels' NHWC and back.

    Raises :class:`~hilc.errors.UnsupportedError` for more spatial axes or weights that are not
    known at compile time, :class:`~hilc.errors.ModelError` for shapes that disagree.
    """
    bias = n.known(2, "the bias") if n.has(2) else None
    return convolved_first(n, n.input(0), n.known(1, "the weights"), bias)


def convolved_first(
    n: Operation, x: Tensor, weights: Array, bias: Array | None, zero_point: Tensor | None = None
) -> Tensor:
    """Return the convolution of ``[N, C, spatial...]`` that the attributes of Conv describe.

    With a ``zero_point``, a list of int32, it is the int32 sums of int8.
    """
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3):
        n.refuse(f"has images of {rank} dimensions", "1 to 3 are supported")
    kernel = weights.shape[2:]
    if kernel != n.integers("kernel_shape", kernel):
        n.invalid(
            f"has kernel_shape {list(n.integers('kernel_shape'))} and weights {weights.shape}"
        )
    if len(kernel) != rank or 0 in weights.shape:
        n.invalid(f"has weights of shape {list(weights.shape)} for images of {rank} dimensions")
    strides, dilations = n.counts("strides", rank, 1), n.counts("dilations", rank, 1)
    pads = pads_of(n, x.shape[2:], kernel, strides, dilations)
    group = n.integer("group", 1)
    if group < 1 or weights.shape[0] % group:
        n.invalid(f"has {weights.shape[0]} output channels in {group} groups")
    if x.shape[1] != weights.shape[1] * group:
        n.invalid(f"has {x.shape[1]} input channels for weights {weights.shape} in {group} groups")
    image = channels_last(n, x)
    return channels_first(
        n, convolved(n, image, weights, bias, strides, dilations, pads, group, zero_point)
    )


def convolved(
    n: Operation,
    x: Tensor,
    weights: Array,
    bias: Array | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    group: int,
    zero_point: Tensor | None = None,
) -> Tensor:
    """Return the convolution of ``[N, spatial..., C]`` with weights ``[O, C / group, taps...]``.

    With a ``zero_point`` it is the int32 sums of int8, which have no bias.
    """
    rank = len(pads)
    if rank == 1:
        row = n.reshape(x, (x.shape[0], 1, *x.shape[1:]))
        made = convolved(
            n, row, weights[:, :, np.newaxis], bias, (1, *strides), (1, *dilations),
            ((0, 0), *pads), group, zero_point,
        )  # fmt: skip
        return n.reshape(made, (made.shape[0], *made.shape[2:]))
    if rank == 3:
        return _by_depth(n, x, weights, bias, strides, dilations, pads, group, zero_point)
    channels = weights.shape[0]
    attributes: dict[str, Any] = {
        "stride_h": strides[0],
        "stride_w": strides[1],
        "dilation_h": dilations[0],
        "dilation_w": dilations[1],
        "padding": (*pads[0], *pads[1]),
    }
    if zero_point is not None:
        filters = n.constant(weights.transpose(0, 2, 3, 1))
        of_sums = ConvIntegerAttributes(**attributes)
        return n.emit("CONV_INTEGER", x, zero_point, filters, attrs=of_sums)
    if bias is None:
        bias = np.zeros(channels, np.float32)
    if group == x.shape[3] and group > 1:
        # Output channel c * multiplier + m is made of input channel c.
        filters = n.constant(weights.transpose(1, 2, 3, 0))
        by_channel = DepthwiseConv2DAttributes(**attributes, depth_multiplier=channels // group)
        return n.emit("DEPTHWISE_CONV_2D", x, filters, n.constant(bias), attrs=by_channel)
    filters = n.constant(weights.transpose(0, 2, 3, 1))
    return n.emit(
        "CONV_2D", x, filters, n.constant(bias), attrs=ConvolutionAttributes(**attributes)
    )


def _by_depth(
    n: Operation,
    x: Tensor,
    weights: Array,
    bias: Array | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    group: int,
    zero_point: Tensor | None,
) -> Tensor:
    """Return a convolution over three axes of ``[N, D, H, W, C]``."""
    batch, size, height, width, depth = x.shape
    taps, (before, after) = weights.shape[2], pads[0]
    count = (size + before + after - (taps - 1) * dilations[0] - 1) // strides[0] + 1
    if count < 1:
        n.invalid(f"has a window of {taps} for {size} along its first spatial axis")
    sums = []
    for tap in range(taps):
        # The positions of this tap, as far as they lie inside; the others add nothing.
        places = [o * strides[0] + tap * dilations[0] - before for o in range(count)]
        inside = [o for o, place in enumerate(places) if 0 <= place < size]
        if not inside:
            continue
        first, last = places[inside[0]], places[inside[-1]]
        part = sliced(
            n, x, (0, first, 0, 0, 0), (batch, last + 1, height, width, depth),
            (1, strides[0], 1, 1, 1),
        )  # fmt: skip
        flat = n.reshape(part, (batch * len(inside), height, width, depth))
        own = bias if tap == 0 and len(inside) == count else None
        made = convolved(
            n, flat, weights[:, :, tap], own, strides[1:], dilations[1:], pads[1:], group,
            zero_point,
        )  # fmt: skip
        made = n.reshape(made, (batch, len(inside), *made.shape[1:]))
        amounts = [(0, 0), (inside[0], count - 1 - inside[-1]), *[(0, 0)] * 3]
        sums.append((padded(n, made, amounts), own is not None))
    if not sums:
        n.refuse("has no tap inside of the image", "use less padding")
    total = reduce(
        lambda a, b: n.emit("ADD", a, b, attrs=ActivationAttributes()), [part for part, _ in sums]
    )
    if bias is None or any(has_bias for _, has_bias in sums):
        return total
    return n.emit("ADD", total, n.constant(bias), attrs=ActivationAttributes())


def padded(n: Operation, x: Tensor, amounts: Sequence[tuple[int, int]]) -> Tensor:
    """Return a tensor with zeros around it."""
    if not any(map(any, amounts)):
        return x
    return n.emit("PAD", x, n.constant(amounts, "int32"), quant=x.quant)


@translates("ConvTranspose")
def conv_transpose(n: Operation) -> Tensor:
    """Translate ConvTranspose over 1 to 3 spatial axes, from NCHW to the kernels' NHWC and back.

    Raises :class:`~hilc.errors.UnsupportedError` for more spatial axes or weights that are not
    known at compile time, :class:`~hilc.errors.ModelError` for shapes that disagree.
    """
    x, weights = n.input(0), n.known(1, "the weights")
    bias = n.known(2, "the bias") if n.has(2) else None
    rank, group = len(x.shape) - 2, n.integer("group", 1)
    if rank not in (1, 2, 3):
        n.refuse(f"has images of {rank} dimensions", "1 to 3 are supported")
    kernel = weights.shape[2:]
    if len(kernel) != rank or 0 in weights.shape:
        n.invalid(f"has weights of shape {list(weights.shape)} for images of {rank} dimensions")
    if group < 1 or weights.shape[0] % group or x.shape[1] != weights.shape[0]:
        n.invalid(f"has {x.shape[1]} input channels for weights {weights.shape} in {group} groups")
    strides, dilations = n.counts("strides", rank, 1), n.counts("dilations", rank, 1)
    n.check_size(
        (*weights.shape[:2], *((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))),
        "float32",
    )
    weights = _spread(weights, dilations)
    kernel = weights.shape[2:]
    sizes, pads = _transposed_sizes(n, x.shape[2:], kernel, strides)
    wanted = tuple(sizes)
    if rank == 1:
        x = n.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        weights, strides = weights[:, :, np.newaxis], (1, *strides)
        sizes, pads = [1, *sizes], [(0, 0), *pads]
    image = channels_last(n, x)
    # The whole of what the windows cover; the padding is cut off it, or is outside.
    whole = [
        (size - 1) * stride + taps
        for size, stride, taps in zip(image.shape[1:-1], strides, weights.shape[2:], strict=True)
    ]
    # What is left out before is negative where something is added.
    spans = list(zip(whole, (before for before, _ in pads), sizes, strict=True))
    # Behind what the windows cover, output_padding leaves the bias alone.
    missing = [
        (0, 0),
        *((max(0, -before), max(0, before + size - covered)) for covered, before, size in spans),
        (0, 0),
    ]
    is_added = bias is not None and any(map(any, missing))
    channels = image.shape[-1] // group
    parts = []
    for i, filter_ in enumerate(np.split(weights, group)):
        begin = (*(0,) * (len(spans) + 1), i * channels)
        end = (*image.shape[:-1], (i + 1) * channels)
        part = sliced(n, image, begin, end, (1,) * len(begin)) if group > 1 else image
        own = None if bias is None or is_added else np.split(bias, group)[i]
        parts.append(_covered(n, part, filter_, own, strides))
    made = parts[0]
    if group > 1:
        made = n.emit("CONCATENATION", *parts, attrs=ConcatenationAttributes(axis=len(spans) + 1))
    first = [0, *(max(0, before) for _, before, _ in spans), 0]
    inner = (min(covered, before + size) for covered, before, size in spans)
    until = [made.shape[0], *inner, made.shape[-1]]
    made = padded(n, sliced(n, made, first, until, (1,) * len(first)), missing)
    if is_added:
        made = n.emit("ADD", made, n.constant(bias), attrs=ActivationAttributes())
    result = channels_first(n, made)
    return n.reshape(result, (*result.shape[:2], *wanted))


def _covered(
    n: Operation, x: Tensor, weights: Array, bias: Array | None, strides: Sequence[int]
) -> Tensor:
    """Return the transposed convolution of ``[N, spatial..., C]`` with weights
    ``[C, O, taps...]``: all that its windows cover.
    """
    whole = [
        (size - 1) * stride + taps
        for size, stride, taps in zip(x.shape[1:-1], strides, weights.shape[2:], strict=True)
    ]
    if len(whole) == 2:
        size = n.constant((x.shape[0], *whole, weights.shape[1]), "int32")
        attrs = TransposeConvAttributes(stride_h=strides[0], stride_w=strides[1], padding="VALID")
        operands = [size, n.constant(weights.transpose(1, 2, 3, 0)), x]
        if bias is not None:
            operands.append(n.constant(bias))
        return n.emit("TRANSPOSE_CONV", *operands, attrs=attrs)
    batch, depth, height, width, channels = x.shape
    planes = []
    for place in range(whole[0]):
        # The planes of the image with a tap here, side by side as channels.
        taps = [place - d * strides[0] for d in range(depth)]
        meeting = [(d, tap) for d, tap in enumerate(taps) if 0 <= tap < weights.shape[2]]
        shape = (batch, *whole[1:], weights.shape[1])
        if not meeting:
            plane = np.zeros(shape, np.float32) + (0 if bias is None else bias)
            planes.append(n.constant(plane.astype(np.float32)[:, np.newaxis]))
            continue
        images = [
            n.reshape(
                sliced(n, x, (0, d, 0, 0, 0), (batch, d + 1, height, width, channels), (1,) * 5),
                (batch, height, width, channels),
            )
            for d, _ in meeting
        ]
        image = images[0]
        if len(images) > 1:
            image = n.emit("CONCATENATION", *images, attrs=ConcatenationAttributes(axis=3))
        filters = np.concatenate([weights[:, :, tap] for _, tap in meeting])
        made = _covered(n, image, filters, bias, strides[1:])
        planes.append(n.reshape(made, (batch, 1, *made.shape[1:])))
    if len(planes) == 1:
        return planes[0]
    return n.emit("CONCATENATION", *planes, attrs=ConcatenationAttributes(axis=1))


def _spread(weights: Array, dilations: Sequence[int]) -> Array:
    """Return taps with zeros between them: the operator has no dilation of its own."""
    if set(dilations) == {1}:
        return weights
    kernel = weights.shape[2:]
    spread = np.zeros(
        (*weights.shape[:2], *((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))),
        weights.dtype,
    )
    taps = tuple(slice(None, None, dilation) for dilation in dilations)
    spread[(slice(None), slice(None), *taps)] = weights
    return spread


def _transposed_sizes(
    n: Operation, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the sizes of the output, and the elements cropped before and after each axis."""
    rank = len(sizes)
    extra = n.integers("output_padding", (0,) * rank)
    full = [
        (size - 1) * stride + taps + more
        for size, stride, taps, more in zip(sizes, strides, kernel, extra, strict=True)
    ]
    mode = n.text("auto_pad", "NOTSET")
    if n.has_attribute("output_shape"):
        wanted = list(n.integers("output_shape"))[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    else:
        given = n.integers("pads", (0,) * (2 * rank)) if mode == "NOTSET" else (0,) * (2 * rank)
        pads = list(zip(given[:rank], given[rank:], strict=True))
        return [size - before - after for size, (before, after) in zip(full, pads, strict=True)], (
            pads
        )
    pads = []
    for size, want in zip(full, wanted, strict=True):
        total = size - want
        half = total // 2
        pads.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return wanted, pads


def spatial(x: Tensor) -> int:
    """Return the elements of one channel of ``[N, C, spatial...]``."""
    return prod(x.shape[2:])
