"""The C kernels of convolutions and fully connected layers against their numpy references."""

from __future__ import annotations

import zlib
from typing import Any

import kernel_runner
import numpy as np
import pytest
from campaigns import PARTS, cases, sampled
from kernel_checks import check, checks_of
from linear_layers import Layer, grouped_layer, make_layer, random_layer

from hilc.target import get_cpu

HOST = get_cpu("host")
OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def check_layers(layers: list[Layer], told: str = "", **options: Any) -> int:
    """Compare every portable kernel of every layer with the reference; how many calls these are.

    Floats, too, are equal to the last bit: the order of the additions is the same.
    """
    checks = [one for layer in layers for one in checks_of(layer, HOST, told, **options)]
    check(checks)
    return len(checks)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dtype", sampled(["int8", "int16", "float32"], keep=["int8", "float32"]))
@pytest.mark.parametrize("op", OPERATORS)
def test_random_layers(op, dtype, part):
    seed = [3, OPERATORS.index(op), ("float32", "int8", "int16").index(dtype), part]
    rng = np.random.default_rng(seed)
    count = 50 if dtype == "int16" else 125
    layers = [random_layer(rng, op, dtype, explicit_padding=True) for _ in range(count)]
    assert check_layers(layers, f"(of seed {seed})") >= (225 if dtype == "int8" else count)


@cases("dtype", ["int8", "int16", "float32"], first=1)
def test_channels_in_groups(dtype):
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    assert check_layers([grouped_layer(rng, dtype) for _ in range(100)]) >= 100


@pytest.mark.full  # It changes rarely, and takes long.
@pytest.mark.parametrize("op", OPERATORS)
def test_layers_compiled_on_their_own(op):
    rng = np.random.default_rng([4, OPERATORS.index(op)])
    layers = [random_layer(rng, op, dtype, True) for dtype in ("int8",) * 3 + ("int16", "float32")]
    check_layers(layers, specialise=True)


def conv(padding: Any, stride: int = 1, dilation: int = 1, **attrs: Any) -> dict[str, Any]:
    return {
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h": dilation,
        "dilation_w": dilation,
        "padding": padding,
        "activation": "NONE",
        **attrs,
    }


CORNERS: dict[str, tuple[Any, ...]] = {
    "padding larger than the image": ("CONV_2D", (1, 1, 2, 3), (5, 7, 7, 3), conv("SAME")),
    "windows wholly in the padding": ("CONV_2D", (1, 2, 2, 3), (5, 2, 2, 3), conv((4, 4, 4, 4))),
    "stride beyond the filter": ("CONV_2D", (1, 9, 9, 2), (6, 2, 2, 2), conv("VALID", stride=4)),
    "dilation over the border": ("CONV_2D", (1, 5, 5, 4), (4, 3, 3, 4), conv("SAME", dilation=3)),
    "whole image": ("CONV_2D", (3, 4, 5, 2), (7, 4, 5, 2), conv("VALID")),
    "pixels": ("CONV_2D", (1, 3, 5, 8), (9, 1, 1, 8), conv("SAME")),
    "every other pixel": ("CONV_2D", (1, 4, 6, 8), (9, 1, 1, 8), conv("SAME", stride=2)),
    "one channel to many": (
        "DEPTHWISE_CONV_2D", (1, 9, 7, 1), (1, 5, 4, 8), conv("SAME", 2, depth_multiplier=8),
    ),
    "depthwise, padding larger than the image": (
        "DEPTHWISE_CONV_2D", (1, 2, 1, 3), (1, 7, 7, 3), conv("SAME", depth_multiplier=1),
    ),
    "depthwise, wholly in the padding": (
        "DEPTHWISE_CONV_2D", (2, 2, 2, 2), (1, 2, 2, 4), conv((3, 3, 3, 3), depth_multiplier=2),
    ),
    "depthwise, rows longer than a band": (
        "DEPTHWISE_CONV_2D", (1, 3, 131, 16), (1, 3, 3, 16), conv("SAME", depth_multiplier=1),
    ),
    "depthwise, long rows, stride and dilation": (
        "DEPTHWISE_CONV_2D", (1, 5, 90, 24), (1, 3, 4, 48), conv("SAME", 2, 2, depth_multiplier=2),
    ),
    "depthwise, channels that no block divides": (
        "DEPTHWISE_CONV_2D", (1, 4, 6, 37), (1, 3, 3, 37), conv("SAME", depth_multiplier=1),
    ),
    "depthwise, a filter too long to unroll": (
        "DEPTHWISE_CONV_2D", (1, 9, 40, 4), (1, 8, 11, 4), conv("SAME", depth_multiplier=1),
    ),
    "one of everything": ("CONV_2D", (1, 1, 1, 1), (1, 1, 1, 1), conv("VALID")),
}  # fmt: skip


def test_corner_cases():
    rng = np.random.default_rng(5)
    check_layers([make_layer(rng, op, "int8", *rest) for op, *rest in CORNERS.values()])


@pytest.mark.parametrize("corner", ["whole image", "pixels", "one of everything"])
def test_matrix_products_need_no_scratch(corner):
    op, *rest = CORNERS[corner]
    layer = make_layer(np.random.default_rng(6), op, "int8", *rest)
    call = kernel_runner.kernel_call(layer.node, layer.ins, (layer.out,), "host")
    assert call.kernel.name == "hil_generic_matmul_s8"
    assert call.scratch_bytes == 0


def test_macs_are_counted():
    rng = np.random.default_rng(7)
    for op, x, w, attrs, macs in (
        ("CONV_2D", (1, 8, 8, 3), (5, 3, 3, 3), conv("SAME", 2), 4 * 4 * 5 * 27),
        ("DEPTHWISE_CONV_2D", (1, 8, 8, 3), (1, 3, 3, 6), conv("SAME", depth_multiplier=2), 3456),
        ("FULLY_CONNECTED", (2, 10), (4, 10), {"activation": "NONE"}, 80),
    ):
        layer = make_layer(rng, op, "int8", x, w, attrs)
        call = kernel_runner.kernel_call(layer.node, layer.ins, (layer.out,))
        assert call.macs == macs
