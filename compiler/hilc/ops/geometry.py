"""Geometry of windows that slide over NHWC images: convolutions and poolings share it.

The attribute ``padding`` is ``"SAME"``, ``"VALID"`` or explicit amounts
``(top, bottom, left, right)``, which is what the pass that folds PAD leaves. SAME pads so that the
output has ``ceil(input / stride)`` positions; an odd total leaves its larger half after the image.
What is added around the input is the real value zero (int8: the zero point).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilc.errors import ModelError
from hilc.ir import Array, Node
from hilc.ops.attributes import WindowAttributes

#: Windows may reach far beyond a small image (dilated filters do), but not without bound: the
#: reference makes the padding real.
MAX_ADDED_POSITIONS = 1 << 20


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a sliding window."""

    in_size: int
    filter_size: int
    stride: int
    dilation: int
    out_size: int
    #: Positions added before the image; those that a window needs after it are ``pad_after``.
    pad_before: int

    @property
    def span(self) -> int:
        """Positions from a window's first tap to its last, both included."""
        return _span(self.filter_size, self.dilation)

    @property
    def pad_after(self) -> int:
        """Positions that the last window reads behind the image."""
        reach = (self.out_size - 1) * self.stride + self.span - self.pad_before
        return max(0, reach - self.in_size)


@dataclass(frozen=True)
class Window:
    """A sliding window over height and width."""

    h: Axis
    w: Axis

    @property
    def added_positions(self) -> int:
        """Positions around the image that windows read."""
        h, w = (a.in_size + a.pad_before + a.pad_after for a in (self.h, self.w))
        return h * w - self.h.in_size * self.w.in_size

    @property
    def padded(self) -> bool:
        """Whether any window reads outside the image."""
        return any(a.pad_before or a.pad_after for a in (self.h, self.w))


def _span(filter_size: int, dilation: int) -> int:
    return (filter_size - 1) * dilation + 1


def output_size(
    in_size: int, filter_size: int, stride: int, dilation: int, padding: str | tuple[int, int]
) -> int:
    """Return the number of window positions along one axis; not positive if the window does not
    fit.

    ``padding`` is "SAME", "VALID" or the amounts (before, after).
    """
    span = _span(filter_size, dilation)
    if padding == "SAME":
        return -(-in_size // stride)
    before, after = (0, 0) if isinstance(padding, str) else padding
    return (in_size + int(before) + int(after) - span) // stride + 1


def pad_before(
    in_size: int, filter_size: int, stride: int, dilation: int, padding: str | tuple[int, int]
) -> int:
    """Return the positions that ``padding`` adds before the image."""
    if not isinstance(padding, str):
        return int(padding[0])
    if padding == "SAME":
        out_size = output_size(in_size, filter_size, stride, dilation, padding)
        return max(0, (out_size - 1) * stride + _span(filter_size, dilation) - in_size) // 2
    return 0


def window(node: Node, in_shape: tuple[int, ...], filter_h: int, filter_w: int) -> Window:
    """Return the window of ``node`` over an NHWC input.

    :class:`~hilc.errors.ModelError` where its :class:`~hilc.ops.attributes.WindowAttributes` make
    no window.

    Raise :class:`~hilc.errors.ModelError` for invalid padding, filter, stride or dilation.
    """
    attributes = WindowAttributes.of(node)
    padding = attributes.padding
    by_axis: tuple[str | tuple[int, int], str | tuple[int, int]]
    if isinstance(padding, str):
        by_axis = padding, padding
    elif min(padding) >= 0:
        by_axis = padding[:2], padding[2:]
    else:
        raise ModelError(f"{node.op} {node.name!r} has padding {padding!r}")
    axes = []
    for name, in_size, filter_size, stride, dilation, pad in zip(
        ("h", "w"),
        in_shape[1:3],
        (filter_h, filter_w),
        (attributes.stride_h, attributes.stride_w),
        attributes.dilations,
        by_axis,
        strict=True,
    ):
        if stride < 1 or dilation < 1 or filter_size < 1:
            raise ModelError(
                f"{node.op} {node.name!r} has filter {filter_size}, stride {stride} and dilation "
                f"{dilation} along {name}; each must be at least 1"
            )
        out_size = output_size(in_size, filter_size, stride, dilation, pad)
        if out_size < 1:
            raise ModelError(
                f"{node.op} {node.name!r}: a window of {_span(filter_size, dilation)} does not fit "
                f"into {in_size} along {name} with padding {pad}"
            )
        before = pad_before(in_size, filter_size, stride, dilation, pad)
        axes.append(Axis(in_size, filter_size, stride, dilation, out_size, before))
    result = Window(*axes)
    if result.added_positions > MAX_ADDED_POSITIONS:
        raise ModelError(
            f"{node.op} {node.name!r} pads an image of {in_shape[1]} x {in_shape[2]} with "
            f"{result.added_positions} positions; its filter or dilation cannot be meant"
        )
    return result


def patches(x: Array, window: Window, pad_value: float) -> Array:
    """Return every window of ``x`` (NHWC) as a read-only view [N, out_h, out_w, filter_h, filter_w,
    C].

    Positions outside the image read as ``pad_value``.
    """
    h, w = window.h, window.w
    amounts = ((0, 0), (h.pad_before, h.pad_after), (w.pad_before, w.pad_after), (0, 0))
    if window.padded:
        x = np.pad(x, amounts, constant_values=x.dtype.type(pad_value))
    batch, row, column, channel = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], h.out_size, w.out_size, h.filter_size, w.filter_size, x.shape[3]),
        (
            batch,
            row * h.stride,
            column * w.stride,
            row * h.dilation,
            column * w.dilation,
            channel,
        ),
        writeable=False,
    )
