"""Window geometry: sizes, padding, and the view of patches against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from nodes import make_node

from hilc.errors import ModelError
from hilc.ir import Node
from hilc.ops import geometry


def conv(padding: object, stride: int = 1, dilation: int = 1) -> Node:
    return make_node(
        "CONV_2D", ("x", "w", ""), ("y",),
        stride_h=stride, stride_w=stride,
        dilation_h=dilation, dilation_w=dilation, padding=padding,
    )  # fmt: skip


# in, filter, stride, dilation, padding => out, before, after
AXES = [
    (5, 3, 1, 1, "SAME", 5, 1, 1),
    (6, 3, 2, 1, "SAME", 3, 0, 1),
    (5, 3, 2, 1, "SAME", 3, 1, 1),
    (49, 10, 2, 1, "SAME", 25, 4, 5),
    (5, 3, 1, 2, "SAME", 5, 2, 2),
    (3, 1, 2, 1, "SAME", 2, 0, 0),
    (5, 1, 3, 1, "SAME", 2, 0, 0),
    (1, 7, 1, 1, "SAME", 1, 3, 3),
    (5, 3, 1, 1, "VALID", 3, 0, 0),
    (6, 3, 2, 1, "VALID", 2, 0, 0),
    (5, 3, 1, 2, "VALID", 1, 0, 0),
    (2, 2, 5, 1, "VALID", 1, 0, 0),
    (4, 3, 2, 1, (1, 1), 2, 1, 0),
    (4, 3, 1, 1, (2, 3), 7, 2, 3),
]


@pytest.mark.parametrize(
    ("size", "taps", "stride", "dilation", "pad", "out", "before", "end"), AXES
)
def test_axis(size, taps, stride, dilation, pad, out, before, end):
    explicit = pad if isinstance(pad, str) else (*pad, *pad)
    axis = geometry.window(conv(explicit, stride, dilation), (1, size, size, 2), taps, taps).w
    assert (axis.out_size, axis.pad_before, axis.pad_after) == (out, before, end)


def test_negative_padding_is_refused():
    with pytest.raises(ModelError, match=r"padding \(0, 0, 0, -1\)"):
        geometry.window(conv((0, 0, 0, -1)), (1, 5, 5, 1), 3, 3)


def test_window_larger_than_the_image_is_refused():
    with pytest.raises(ModelError, match="a window of 5 does not fit into 4 along h"):
        geometry.window(conv("VALID", dilation=2), (1, 4, 9, 1), 3, 3)


def test_stride_zero_is_refused():
    with pytest.raises(ModelError, match="stride 0"):
        geometry.window(conv("VALID", stride=0), (1, 4, 9, 1), 3, 3)


@pytest.mark.parametrize("padding", ["SAME", "VALID", (0, 3, 2, 1)])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_patches_equal_a_plain_loop(padding, stride, dilation):
    x = np.random.default_rng(1).integers(-128, 128, (2, 6, 7, 3)).astype(np.int8)
    window = geometry.window(conv(padding, stride, dilation), x.shape, 3, 2)
    view = geometry.patches(x, window, -7)
    assert view.shape == (2, window.h.out_size, window.w.out_size, 3, 2, 3)
    for n, oy, ox, ky, kx, c in np.ndindex(view.shape):
        y = oy * stride + ky * dilation - window.h.pad_before
        z = ox * stride + kx * dilation - window.w.pad_before
        inside = 0 <= y < x.shape[1] and 0 <= z < x.shape[2]
        assert view[n, oy, ox, ky, kx, c] == (x[n, y, z, c] if inside else -7)
