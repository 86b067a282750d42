"""Layers that kernels for few cores serve: shapes at their edges, channels at extremes, sums at
their limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from linear_layers import Layer, make_layer

from hilc.ir import Rounding, Tensor
from hilc.lowering import candidates
from hilc.lowering.kernels import KernelCall
from hilc.ops.attributes import ActivationAttributes
from hilc.target import get_cpu


def conv(padding: Any, stride: int = 1, activation: str = "RELU", **attrs: Any) -> dict[str, Any]:
    return {
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h": 1,
        "dilation_w": 1,
        "padding": padding,
        "activation": activation,
        **attrs,
    }


def depthwise(stride: int, **attrs: Any) -> dict[str, Any]:
    return conv("SAME", stride, depth_multiplier=1, **attrs)


@dataclass(frozen=True)
class Family:
    """Kernels of which the names begin alike, and a core that has them."""

    prefix: str
    cpu: str
    #: Which of the kernels of a case are its.
    column: int


DSP = Family("hil_dsp_", "cortex-m4", 4)
V7M = Family("hil_v7m_", "cortex-m3", 5)
V6M = Family("hil_v6m_", "cortex-m0", 5)

WINOGRAD, CONV_PAIRS = "conv2d_s8_winograd_packed", "conv2d_s8_column_pairs"
PLANE, DEPTHWISE_3X3 = "depthwise_conv2d_s8_plane", "depthwise_conv2d_s8_3x3"
MATMUL_PAIRS, MATVEC_PAIRS = "matmul_s8_column_pairs", "matvec_s8_column_pairs"

#: Operator, shapes of input and weights, attributes, how the name of its first kernel for DSP cores
#: must begin, and of its kernels for Armv7-M, where there are any.
CASES: dict[str, tuple[Any, ...]] = {
    "one pixel over threes": (
        "CONV_2D", (1, 5, 5, 16), (8, 1, 1, 16), conv("SAME"), "matmul", "matmul",
    ),
    "pixels, two more": ("CONV_2D", (1, 4, 5, 7), (6, 1, 1, 7), conv("SAME"), "matmul", "matmul"),
    "an odd number of channels": (
        "CONV_2D", (1, 3, 3, 9), (7, 1, 1, 9), conv("SAME"), "matmul", "matmul",
    ),
    "one channel to one": ("CONV_2D", (1, 3, 3, 1), (1, 1, 1, 1), conv("SAME"), "matmul", "matmul"),
    "a single pixel": ("CONV_2D", (1, 1, 1, 33), (10, 1, 1, 33), conv("SAME"), "matvec", ""),
    "three images": ("CONV_2D", (3, 5, 4, 3), (5, 3, 3, 3), conv("SAME", 2), "conv2d", "conv2d"),
    "deep": (
        "CONV_2D", (1, 4, 4, 40), (4, 3, 3, 40),
        conv("SAME", activation="NONE"), WINOGRAD, "conv2d",
    ),
    "padding beyond the image": (
        "CONV_2D", (1, 1, 1, 5), (6, 3, 3, 5), conv("SAME"), "conv2d", "conv2d",
    ),
    "rows of one word": (
        "CONV_2D", (1, 9, 7, 1), (6, 5, 4, 1), conv("SAME", 2), CONV_PAIRS, "conv2d",
    ),
    "rows of one word, two channels": (
        "CONV_2D", (2, 4, 6, 2), (5, 3, 2, 2), conv((2, 1, 3, 4)), CONV_PAIRS, "conv2d",
    ),
    "an image narrower than a row": (
        "CONV_2D", (1, 6, 2, 1), (4, 3, 4, 1), conv((1, 1, 2, 3)), "conv2d", "conv2d",
    ),
    "few channels, rectified": (
        "CONV_2D", (1, 7, 7, 3), (9, 3, 3, 3), conv("SAME"), CONV_PAIRS, "conv2d",
    ),
    "many odd channels": (
        "CONV_2D", (1, 4, 5, 19), (3, 3, 2, 19), conv("SAME"), "conv2d", "conv2d",
    ),
    "words, dilated": (
        "CONV_2D", (1, 7, 8, 4), (6, 2, 3, 4),
        conv("SAME", dilation_h=2, dilation_w=2), CONV_PAIRS, "conv2d",
    ),
    "words, linear": (
        "CONV_2D", (1, 5, 6, 12), (40, 3, 3, 12),
        conv("SAME", 2, activation="NONE"), "conv2d", "conv2d",
    ),
    "two rows at a time, odd everything": (
        "CONV_2D", (2, 7, 9, 4), (5, 3, 3, 4), conv("SAME"), CONV_PAIRS, "conv2d",
    ),
    "two rows at a time, no padding": (
        "CONV_2D", (1, 6, 8, 16), (6, 3, 3, 16), conv("VALID"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, linear": (
        "CONV_2D", (1, 5, 7, 32), (7, 3, 3, 32),
        conv("SAME", activation="NONE"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, deep": (
        "CONV_2D", (1, 4, 5, 64), (4, 3, 3, 64), conv("SAME"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, whole tiles": (
        "CONV_2D", (2, 4, 8, 16), (6, 3, 3, 16), conv("SAME"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, whole tiles, an odd row": (
        "CONV_2D", (1, 5, 8, 16), (6, 3, 3, 16), conv("SAME"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, whole tiles, linear": (
        "CONV_2D", (1, 6, 4, 32), (4, 3, 3, 32),
        conv("SAME", activation="NONE"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, whole tiles, deep": (
        "CONV_2D", (1, 4, 4, 64), (2, 3, 3, 64), conv("SAME"), WINOGRAD, "conv2d",
    ),
    "two rows at a time, wholly in the padding": (
        "CONV_2D", (1, 2, 3, 8), (3, 3, 3, 8), conv((5, 5, 6, 6)), WINOGRAD, "conv2d",
    ),
    "two rows at a time, a single one": (
        "CONV_2D", (1, 3, 5, 16), (1, 3, 3, 16), conv("VALID"), WINOGRAD, "conv2d",
    ),
    "a row of three taps": (
        "CONV_2D", (1, 1, 18, 16), (6, 1, 3, 16), conv("SAME"), CONV_PAIRS, "conv2d",
    ),
    "a row of three taps, dilated": (
        "CONV_2D", (1, 1, 24, 8), (4, 1, 3, 8), conv("VALID", dilation_w=2), CONV_PAIRS, "conv2d",
    ),
    "a row of three taps, dilated by three, linear": (
        "CONV_2D", (2, 1, 27, 8), (5, 1, 3, 8),
        conv("SAME", activation="NONE", dilation_w=3), CONV_PAIRS, "conv2d",
    ),
    "a row of five taps, stride 2": (
        "CONV_2D", (1, 1, 37, 16), (6, 1, 5, 16), conv("SAME", 2), CONV_PAIRS, "conv2d",
    ),
    "a row of seven taps, linear": (
        "CONV_2D", (1, 1, 20, 12), (4, 1, 7, 12),
        conv("SAME", activation="NONE"), CONV_PAIRS, "conv2d",
    ),
    "a row of four taps, two turns": (
        "CONV_2D", (1, 1, 9, 96), (2, 1, 4, 96), conv("SAME"), CONV_PAIRS, "conv2d",
    ),
    "a row of two taps": (
        "CONV_2D", (1, 1, 10, 4), (3, 1, 2, 4), conv("VALID"), CONV_PAIRS, "conv2d",
    ),
    "rows of five taps": (
        "CONV_2D", (1, 6, 8, 8), (3, 5, 5, 8), conv("SAME"), CONV_PAIRS, "conv2d",
    ),
    "rows of three taps, stride 2": (
        "CONV_2D", (2, 7, 7, 16), (4, 3, 3, 16), conv("SAME", 2), CONV_PAIRS, "conv2d",
    ),
    "sixteen units": (
        "CONV_2D", (1, 4, 4, 64), (20, 1, 1, 64), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "eight units, linear": (
        "CONV_2D", (1, 4, 4, 32), (38, 1, 1, 32),
        conv("SAME", activation="NONE"), "matmul", "matmul",
    ),
    "units in fours and rest": (
        "CONV_2D", (1, 3, 4, 58), (24, 1, 1, 58), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "eleven units": (
        "CONV_2D", (1, 2, 5, 44), (8, 1, 1, 44), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "twelve units": (
        "CONV_2D", (1, 4, 2, 46), (6, 1, 1, 46), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "thirteen units, linear": (
        "CONV_2D", (1, 3, 3, 52), (8, 1, 1, 52),
        conv("SAME", activation="NONE"), "matmul", "matmul",
    ),
    "fourteen units": (
        "CONV_2D", (1, 4, 2, 56), (4, 1, 1, 56), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "sixty-four units": (
        "CONV_2D", (1, 2, 4, 256), (8, 1, 1, 256), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "rows of eight": (
        "CONV_2D", (1, 5, 7, 8), (6, 1, 1, 8), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "many rows of eight": (
        "CONV_2D", (1, 9, 19, 8), (3, 1, 1, 8), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "a last row by itself": (
        "CONV_2D", (1, 3, 3, 128), (12, 1, 1, 128), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "a last row by itself, few units": (
        "CONV_2D", (1, 5, 1, 11), (5, 1, 1, 11), conv("SAME"), MATMUL_PAIRS, "matmul",
    ),
    "most windows reach beyond the image": (
        "CONV_2D", (2, 9, 9, 1), (8, 10, 4, 1), conv("SAME", 2), CONV_PAIRS, "conv2d",
    ),
    "rows and columns that no window reaches": (
        "CONV_2D", (1, 8, 8, 4), (6, 2, 3, 4), conv((0, 0, 1, 0), 3), CONV_PAIRS, "conv2d",
    ),
    "depthwise, four channels at a time": (
        "DEPTHWISE_CONV_2D", (2, 9, 15, 8), (1, 3, 3, 8), depthwise(1), PLANE, "",
    ),
    "depthwise, four channels and three, stride 2": (
        "DEPTHWISE_CONV_2D", (1, 11, 26, 7), (1, 3, 3, 7), depthwise(2), PLANE, "",
    ),
    "two pixels": ("CONV_2D", (1, 1, 2, 5), (5, 1, 1, 5), conv("SAME"), "matvec", "matmul"),
    "linear": (
        "CONV_2D", (1, 3, 3, 12), (4, 1, 1, 12),
        conv("SAME", activation="NONE"), "matmul", "matmul",
    ),
    "several parts": ("CONV_2D", (1, 2, 2, 300), (3, 1, 1, 300), conv("SAME"), "matmul", "matmul"),
    "a single pixel, columns left": (
        "CONV_2D", (1, 1, 1, 33), (7, 1, 1, 33), conv("SAME"), "matvec", "matvec",
    ),
    "one channel, two more": (
        "CONV_2D", (1, 9, 5, 1), (6, 4, 3, 1), conv("SAME"), "conv2d", "conv2d",
    ),
    "dilated": (
        "CONV_2D", (1, 7, 7, 3), (4, 3, 2, 3),
        conv("SAME", dilation_h=2, dilation_w=3), "conv2d", "conv2d",
    ),
    "depthwise, odd everything": (
        "DEPTHWISE_CONV_2D", (2, 7, 5, 6), (1, 3, 3, 6),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, a single pixel": (
        "DEPTHWISE_CONV_2D", (1, 1, 1, 4), (1, 3, 3, 4),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, stride 2": (
        "DEPTHWISE_CONV_2D", (1, 9, 8, 5), (1, 3, 3, 5),
        depthwise(2), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, linear": (
        "DEPTHWISE_CONV_2D", (1, 6, 9, 4), (1, 3, 3, 4),
        depthwise(1, activation="NONE"), "depthwise_conv2d_s8", DEPTHWISE_3X3,
    ),
    "depthwise, no padding": (
        "DEPTHWISE_CONV_2D", (1, 6, 9, 4), (1, 3, 3, 4),
        conv("VALID", depth_multiplier=1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, wholly in the padding": (
        "DEPTHWISE_CONV_2D", (1, 2, 2, 3), (1, 3, 3, 3),
        conv((5, 5, 6, 6), depth_multiplier=1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, one row": (
        "DEPTHWISE_CONV_2D", (1, 3, 7, 3), (1, 3, 3, 3),
        conv("VALID", depth_multiplier=1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, three rows, one column": (
        "DEPTHWISE_CONV_2D", (1, 3, 1, 3), (1, 3, 3, 3),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, wide": (
        "DEPTHWISE_CONV_2D", (1, 12, 12, 2), (1, 3, 3, 2),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, wide, stride 2": (
        "DEPTHWISE_CONV_2D", (1, 20, 20, 2), (1, 3, 3, 2),
        depthwise(2), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, two columns": (
        "DEPTHWISE_CONV_2D", (1, 5, 2, 3), (1, 3, 3, 3),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, many rows": (
        "DEPTHWISE_CONV_2D", (1, 40, 21, 2), (1, 3, 3, 2),
        depthwise(1), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, stride 2, many rows": (
        "DEPTHWISE_CONV_2D", (1, 33, 28, 2), (1, 3, 3, 2),
        depthwise(2), PLANE, DEPTHWISE_3X3,
    ),
    "depthwise, stride 2, five columns": (
        "DEPTHWISE_CONV_2D", (1, 6, 10, 2), (1, 3, 3, 2),
        depthwise(2), PLANE, DEPTHWISE_3X3,
    ),
    "two rows": ("FULLY_CONNECTED", (2, 37), (11, 37), {"activation": "NONE"}, "matvec", "matmul"),
    "a row of eight units": (
        "FULLY_CONNECTED", (1, 32), (14, 32), {"activation": "RELU"}, MATVEC_PAIRS, "matvec",
    ),
    "a row of two units": (
        "FULLY_CONNECTED", (1, 8), (8, 8), {"activation": "RELU"}, MATVEC_PAIRS, "matvec",
    ),
    "a row of units in fours and rest": (
        "FULLY_CONNECTED", (1, 27), (12, 27), {"activation": "RELU"}, MATVEC_PAIRS, "",
    ),
    "a deep row": (
        "FULLY_CONNECTED", (1, 256), (14, 256), {"activation": "RELU"}, MATVEC_PAIRS, "matvec",
    ),
    "a deep row of units in fours and rest, linear": (
        "FULLY_CONNECTED", (1, 299), (9, 299), {"activation": "NONE"}, "matvec", "",
    ),
    "rows of sixteen units, few columns": (
        "FULLY_CONNECTED", (2, 64), (3, 64), {"activation": "RELU"}, MATVEC_PAIRS, "matmul",
    ),
    "four rows": ("FULLY_CONNECTED", (4, 37), (11, 37), {"activation": "RELU"}, "matmul", "matmul"),
    "a row of few": (
        "FULLY_CONNECTED", (1, 37), (16, 37), {"activation": "NONE"}, "matvec", "matvec",
    ),
    "a row, columns left": (
        "FULLY_CONNECTED", (1, 50), (22, 50), {"activation": "RELU"}, "matvec", "matvec",
    ),
    "a short row": ("FULLY_CONNECTED", (1, 3), (8, 3), {"activation": "RELU"}, "matvec", "matvec"),
}  # fmt: skip


#: Operator, shapes of input and weights, attributes: where kernels for Helium take another way.
Shapes = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]

#: Depths of one chunk of 16 and of many, with a rest and without; columns and rows that are no
#: multiple of a block; layers of one pixel and of one channel; bands of several sizes.
CORNERS: tuple[Shapes, ...] = (
    *(
        ("CONV_2D", (1, 3, rows, depth), (count, 1, 1, depth), conv("VALID"))
        for depth in (1, 8, 17, 128, 145, 300)
        for rows, count in ((1, 1), (2, 3), (5, 4))
    ),
    *(
        ("FULLY_CONNECTED", (rows, depth), (count, depth), {"activation": "RELU"})
        for depth in (1, 16, 129, 144, 400)
        for rows, count in ((1, 1), (1, 8), (2, 9), (1, 23), (3, 5))
    ),
    *(
        ("FULLY_CONNECTED", (1, depth), (count, depth), {"activation": "NONE"})
        for depth, count in ((96, 131), (222, 150), (240, 16), (352, 33))
    ),
    *(
        ("CONV_2D", (1, 5, 6, depth), (6, 3, 3, depth), conv("SAME", stride))
        for depth in (1, 3, 5, 16, 32, 33)
        for stride in (1, 2)
    ),
    *(
        ("DEPTHWISE_CONV_2D", (1, side, width, channels), (1, 3, 3, channels), depthwise(stride))
        for side, width in ((1, 1), (2, 2), (3, 3), (3, 6), (26, 25))
        for channels in (2, 8, 11)
        for stride in (1, 2)
    ),
    ("DEPTHWISE_CONV_2D", (2, 7, 9, 3), (1, 2, 3, 3), depthwise(1, activation="RELU6")),
    ("DEPTHWISE_CONV_2D", (1, 9, 8, 16), (1, 4, 4, 16), depthwise(2)),
    ("DEPTHWISE_CONV_2D", (1, 2, 700, 8), (1, 3, 3, 8), depthwise(1)),
    # Channels by themselves, in one band and in several.
    *(
        ("DEPTHWISE_CONV_2D", (batch, *image, channels), (1, 3, 3, channels), depthwise(stride))
        for batch, image, channels, stride in (
            (1, (32, 48), 3, 1),
            (2, (33, 34), 17, 2),
            (1, (64, 90), 2, 1),
            (1, (80, 64), 2, 2),
        )
    ),
)

#: Depths and columns around those of a group of sixteen; pixels read up to the tensor's end; strips
#: of windows; 3x3 windows next to every side; strides, batches and bounds of both kinds.
PIXELS: tuple[Shapes, ...] = (
    # Many pixels of few channels, in blocks; four pixels at a time of many.
    *(
        ("CONV_2D", (batch, 7, width, depth), (count, 1, 1, depth), conv("VALID", 1, "RELU"))
        for batch, width, depth, count in (
            (1, 41, 8, 6),
            (2, 5, 8, 36),
            (1, 10, 16, 2),
            (1, 48, 16, 10),
            (1, 3, 200, 37),
            (1, 4, 144, 16),
            (2, 6, 17, 32),
            (1, 1, 250, 5),
            # An odd last channel makes a pair with the one before it, a single one with itself.
            (1, 9, 8, 1),
            (2, 5, 16, 3),
            (1, 11, 8, 9),
        )
    ),
    # Rows of windows of 3x3 pixels, in blocks, whose last fours are whole or not.
    *(
        ("CONV_2D", (batch, 9, width, depth), (count, 3, 3, depth), conv(padding, stride, act))
        for batch, width, depth, count, padding, stride, act in (
            (1, 13, 40, 6, "SAME", 1, "RELU"),
            (2, 16, 24, 4, "SAME", 1, "NONE"),
            (1, 26, 17, 2, "VALID", 2, "RELU6"),
            (2, 33, 6, 8, "SAME", 2, "RELU"),
            (1, 10, 48, 4, "VALID", 1, "NONE"),
            (1, 12, 8, 1, "SAME", 1, "RELU"),
            (2, 9, 16, 1, "SAME", 1, "NONE"),
            (1, 13, 16, 3, "SAME", 2, "RELU"),
            (1, 8, 20, 7, "VALID", 1, "NONE"),
        )
    ),
    # Rows of windows of other filters of three columns: two rows of few channels in a chunk, lines
    # of dilated windows, blocks of a row's windows.
    *(
        (
            "CONV_2D",
            (batch, *image, depth),
            (count, *filters, depth),
            conv(padding, stride, act, **attrs),
        )
        for batch, image, depth, count, filters, padding, stride, act, attrs in (
            (2, (6, 9), 8, 3, (5, 3), "SAME", 1, "NONE", {}),
            (1, (7, 13), 7, 4, (2, 3), "SAME", 1, "RELU", {}),
            (1, (9, 11), 6, 2, (4, 3), (3, 2, 4, 3), 2, "RELU6", {}),
            (1, (3, 40), 24, 5, (1, 3), "SAME", 2, "RELU", {}),
            (2, (2, 21), 16, 4, (1, 3), "SAME", 1, "NONE", {"dilation_w": 2}),
            (1, (2, 9), 33, 2, (1, 3), (0, 0, 1, 5), 1, "RELU", {"dilation_w": 4}),
            (1, (1, 5), 16, 2, (1, 3), "SAME", 1, "RELU", {"dilation_w": 7}),
            (1, (1, 290), 32, 3, (1, 3), "VALID", 1, "RELU", {"dilation_w": 3}),
            (1, (2, 700), 16, 1, (1, 3), "SAME", 1, "NONE", {}),
            (1, (4, 120), 64, 2, (3, 3), "SAME", 1, "RELU", {}),
        )
    ),
    # Dilated windows of whole chunks, four at a time.
    *(
        (
            "CONV_2D",
            (1, 7, width, depth),
            (5, *filters, depth),
            conv(padding, dilation_h=down, dilation_w=right),
        )
        for width, depth, filters, padding, down, right in (
            (19, 16, (1, 3), "VALID", 1, 2),
            (23, 32, (3, 2), "SAME", 2, 3),
            (12, 48, (2, 3), "SAME", 1, 4),
        )
    ),
    *(
        ("CONV_2D", (1, 1, rows, depth), (count, 1, 1, depth), conv("VALID", 1, activation))
        for depth, rows in ((1, 9), (3, 4), (16, 3), (40, 6), (48, 5), (64, 7), (90, 3), (113, 4))
        for count, activation in ((8, "RELU"), (16, "NONE"), (21, "RELU6"))
    ),
    *(
        ("CONV_2D", (batch, 5, 7, depth), (count, 1, 1, depth), conv("VALID", stride, "RELU"))
        for batch, stride, depth, count in ((1, 2, 16, 16), (2, 2, 5, 9), (1, 3, 32, 33))
    ),
    *(
        ("CONV_2D", (batch, 11, width, depth), (count, *filters, depth), conv(padding, stride, act))
        for batch, width, depth, count, filters, padding, stride, act in (
            (1, 10, 1, 16, (10, 4), "SAME", 2, "RELU"),
            (2, 21, 3, 8, (3, 3), "SAME", 2, "RELU"),
            (1, 65, 3, 7, (3, 3), "SAME", 1, "NONE"),
            (1, 7, 4, 17, (2, 5), (3, 1, 2, 4), 1, "RELU6"),
        )
    ),
    *(
        ("CONV_2D", (batch, *image, 3), (count, 3, 3, 3), conv(padding, stride, act))
        for batch, image, count, padding, stride, act in (
            (1, (9, 24), 8, "SAME", 2, "RELU"),
            (1, (7, 19), 1, "SAME", 1, "RELU"),
            (1, (6, 22), 5, "SAME", 2, "RELU"),
            (2, (7, 9), 10, "SAME", 1, "RELU"),
            (1, (10, 13), 36, (2, 2, 3, 1), 2, "RELU"),
            (1, (20, 96), 8, "SAME", 2, "RELU"),
            (2, (12, 7), 2, "VALID", 1, "RELU"),
            (2, (5, 24), 8, (1, 1, 1, 1), 2, "NONE"),
            (1, (4, 16), 8, "SAME", 1, "RELU"),
            (1, (6, 14), 8, "VALID", 1, "RELU6"),
            (2, (8, 20), 16, "SAME", 1, "NONE"),
            (1, (8, 16), 48, "SAME", 2, "RELU"),
            (1, (3, 17), 32, (2, 2, 2, 1), 2, "RELU6"),
        )
    ),
    *(
        ("CONV_2D", (batch, *image, depth), (count, 3, 3, depth), conv(padding, stride, act))
        for batch, image, depth, count, padding, stride, act in (
            (1, (4, 8), 16, 2, "SAME", 1, "RELU"),
            (2, (3, 9), 16, 6, "SAME", 1, "NONE"),
            (1, (5, 16), 32, 4, "SAME", 1, "NONE"),
            (1, (6, 12), 64, 2, "VALID", 1, "RELU"),
            (1, (8, 16), 16, 4, "SAME", 2, "RELU"),
            (1, (9, 17), 32, 2, "SAME", 2, "NONE"),
            (1, (7, 8), 64, 4, (2, 3, 4, 1), 2, "RELU6"),
            (1, (1, 1), 16, 2, "SAME", 1, "RELU"),
        )
    ),
)

#: Small images, a few channels at a time.
PLANES: tuple[Shapes, ...] = tuple(
    ("DEPTHWISE_CONV_2D", (1, *image, n), (1, 3, 3, n), depthwise(stride, activation=act))
    for image, n, stride in (
        ((1, 1), 3, 1), ((2, 3), 2, 2), ((25, 5), 9, 1), ((4, 48), 3, 2), ((5, 26), 2, 1),
        ((6, 6), 17, 1), ((3, 40), 2, 2), ((7, 1), 8, 1), ((1, 9), 5, 1), ((9, 13), 4, 2),
    )
    for act in ("RELU", "NONE")
)  # fmt: skip

#: Eight channels or more in strips: pairs of them, one alone, a last column of one, in one run of
#: turns and in several, in bands; pixels that a gather reaches and others.
STRIPS: tuple[Shapes, ...] = tuple(
    ("DEPTHWISE_CONV_2D", (batch, *image, n), (1, *size, n), conv(pad, stride, depth_multiplier=1))
    for batch, image, n, size, pad, stride in (
        (1, (25, 5), 16, (3, 3), "SAME", 1),
        (2, (6, 6), 24, (3, 3), "SAME", 1),
        (1, (3, 3), 256, (3, 3), "SAME", 1),
        (1, (1, 7), 8, (3, 3), "SAME", 1),
        (1, (8, 1), 8, (3, 3), "SAME", 1),
        (1, (13, 12), 8, (2, 3), "VALID", 1),
        (2, (24, 24), 16, (3, 3), "SAME", 1),
        (1, (18, 9), 248, (1, 2), (2, 1, 2, 0), 1),
        (1, (9, 10), 264, (3, 1), (0, 2, 1, 2), 1),
        (1, (48, 30), 8, (3, 3), "SAME", 1),
        (1, (10, 13), 8, (3, 3), (3, 3, 2, 2), 1),
        (1, (6, 6), 13, (3, 3), "SAME", 1),
        (2, (9, 5), 106, (3, 3), "SAME", 1),
        (1, (5, 12), 84, (3, 3), "SAME", 1),
        (1, (24, 24), 16, (3, 3), "SAME", 2),
        (2, (13, 11), 9, (3, 3), "SAME", 2),
        (1, (12, 12), 60, (3, 3), (1, 1, 1, 1), 2),
        (1, (5, 6), 8, (3, 3), "SAME", 2),
        (1, (7, 50), 8, (2, 3), "VALID", 2),
        (1, (120, 4), 8, (3, 2), (2, 0, 2, 1), 2),
    )
)

#: Filters of up to five rows and eight columns, which a few rows of pixels lie under at a time.
FILTER_ROWS: tuple[Shapes, ...] = tuple(
    ("DEPTHWISE_CONV_2D", (1, *image, n // attrs["depth_multiplier"]), (1, *size, n), attrs)
    for image, n, size, attrs in (
        ((9, 7), 9, (5, 5), depthwise(1)),
        ((17, 6), 3, (5, 5), depthwise(2, activation="NONE")),
        ((5, 30), 2, (4, 8), depthwise(1, activation="NONE")),
        ((8, 12), 8, (3, 3), conv("SAME", depth_multiplier=1, dilation_h=2, dilation_w=2)),
        ((20, 4), 1, (2, 5), depthwise(2)),
        ((12, 5), 5, (5, 4), conv((2, 1, 0, 3), depth_multiplier=1, activation="NONE")),
        ((13, 16), 32, (3, 3), conv("SAME", depth_multiplier=8)),
        ((9, 40), 6, (5, 3), conv("SAME", 2, depth_multiplier=3, activation="NONE")),
        ((4, 9), 34, (2, 8), conv("VALID", depth_multiplier=2)),
        # Of eight channels or more: pairs of rows, of which 1 to 4 remain, in one block or more.
        ((7, 7), 9, (5, 5), depthwise(1)),
        ((12, 12), 8, (5, 5), depthwise(1, activation="NONE")),
        ((10, 5), 20, (5, 4), conv((2, 1, 0, 3), depth_multiplier=1, activation="RELU6")),
        ((5, 1), 8, (5, 5), depthwise(1)),
        ((2, 30), 11, (4, 4), depthwise(1, activation="NONE")),
        ((48, 40), 8, (5, 5), depthwise(1)),
        ((8, 9), 250, (3, 3), conv("SAME", depth_multiplier=1, dilation_h=2, dilation_w=2)),
        ((9, 10), 264, (5, 5), conv((0, 4, 5, 1), 2, depth_multiplier=1)),
        ((26, 14), 12, (6, 6), depthwise(2, activation="NONE")),
        ((11, 13), 8, (5, 5), depthwise(2)),
        ((6, 3), 16, (5, 2), conv("VALID", 2, depth_multiplier=1)),
        ((10, 11), 32, (5, 5), conv("SAME", depth_multiplier=4)),
        ((9, 16), 27, (4, 5), conv("SAME", 2, depth_multiplier=3, activation="NONE")),
        ((1, 6), 8, (1, 5), conv((0, 0, 6, 6), depth_multiplier=1)),
    )
)


#: Several filters a channel of the image, of which kernels lay out one channel or some at a time.
MULTIPLIED: tuple[Shapes, ...] = tuple(
    ("DEPTHWISE_CONV_2D", (batch, *image, n), (1, *size, n * attrs["depth_multiplier"]), attrs)
    for batch, image, n, size, attrs in (
        (1, (9, 13), 8, (3, 3), conv("SAME", depth_multiplier=2)),
        (2, (7, 6), 5, (3, 3), conv("SAME", depth_multiplier=3)),
        (1, (12, 12), 3, (3, 3), conv("SAME", depth_multiplier=8, activation="NONE")),
        (1, (13, 11), 9, (3, 3), conv("SAME", 2, depth_multiplier=2)),
        (2, (10, 7), 7, (3, 3), conv((2, 1, 2, 2), 2, "RELU6", depth_multiplier=3)),
        (1, (25, 5), 13, (3, 3), conv("SAME", depth_multiplier=3)),
        (1, (6, 40), 2, (3, 3), conv("VALID", 2, depth_multiplier=8, activation="NONE")),
        (1, (1, 4), 11, (3, 3), conv((4, 4, 4, 4), depth_multiplier=2)),
        (1, (20, 9), 17, (3, 3), conv("VALID", depth_multiplier=8)),
        (1, (8, 10), 12, (2, 3), conv("SAME", depth_multiplier=2)),
        (1, (9, 12), 9, (3, 3), conv("SAME", depth_multiplier=2, dilation_h=2, dilation_w=2)),
        # In filters of 3x3 with zeros.
        (1, (10, 9), 5, (2, 2), conv("SAME", depth_multiplier=2, dilation_h=2, dilation_w=2)),
        (2, (7, 8), 6, (2, 2), conv("VALID", depth_multiplier=1)),
        (1, (9, 11), 5, (1, 3), conv("SAME", 2, depth_multiplier=1)),
        (1, (8, 5), 4, (3, 1), conv("VALID", depth_multiplier=2)),
        # Of a single channel, which are convolutions too.
        (1, (9, 10), 1, (3, 3), conv("SAME", depth_multiplier=8)),
        (2, (12, 7), 1, (3, 3), conv((1, 1, 2, 0), 2, "NONE", depth_multiplier=5)),
        (1, (11, 6), 1, (3, 3), conv("VALID", depth_multiplier=1)),
    )
)


#: Filters that reach farther than 3x3, other strides, and dilations: pairs of taps in words, of
#: rows that registers hold and longer ones, with an odd column, beside the image.
REACHING: tuple[Shapes, ...] = tuple(
    ("DEPTHWISE_CONV_2D", (batch, *image, n), (1, *size, n * attrs["depth_multiplier"]), attrs)
    for batch, image, n, size, attrs in (
        (1, (9, 11), 3, (4, 4), conv("SAME", depth_multiplier=1)),
        (2, (8, 7), 5, (5, 5), conv("SAME", 2, "NONE", depth_multiplier=1)),
        (1, (12, 18), 2, (7, 7), conv("SAME", depth_multiplier=2)),
        (1, (13, 10), 4, (3, 3), conv("SAME", 3, depth_multiplier=1)),
        (1, (9, 22), 3, (3, 3), conv((1, 2, 3, 0), 4, "RELU6", depth_multiplier=3)),
        (1, (10, 9), 4, (3, 3), conv("SAME", depth_multiplier=1, dilation_h=3, dilation_w=2)),
        (2, (11, 12), 2, (2, 3), conv("SAME", depth_multiplier=2, dilation_h=1, dilation_w=4)),
        (1, (1, 40), 3, (1, 10), conv("VALID", depth_multiplier=1)),
        (1, (25, 3), 2, (9, 1), conv("SAME", 2, depth_multiplier=4, activation="NONE")),
        (1, (2, 3), 3, (4, 6), conv((5, 4, 7, 6), depth_multiplier=1)),
        (1, (6, 5), 17, (5, 4), conv("SAME", depth_multiplier=1)),
    )
)


def tamed(layer: Layer) -> Layer:
    """The layer with scales of usual size, so that every shift is to the right."""
    x, weights, *rest = layer.ins
    assert x is not None
    assert weights is not None
    assert weights.data is not None
    assert weights.quant is not None
    assert layer.out.quant is not None
    scale = tuple(0.002 + 0.001 * (i % 7) for i in range(len(weights.quant.scale)))
    data = np.maximum(weights.data, -127)
    quant = replace(weights.quant, scale=scale)
    inputs = (x, replace(weights, data=data, quant=quant), *rest)
    x = replace(x, quant=replace(x.quant, scale=(0.05,))) if x.quant else x
    biases = [
        replace(b, data=np.clip(b.data, -(2**21), 2**21))
        if b is not None and b.data is not None
        else b
        for b in inputs[2:]
    ]
    out = replace(layer.out, quant=replace(layer.out.quant, scale=(0.04,)))
    return replace(layer, ins=(x, inputs[1], *biases), out=out)


def to_even(layer: Layer) -> Layer:
    """The layer with sums that are rounded once, ties to even."""
    return replace(layer, node=replace(layer.node, rounding=Rounding.NEAREST_EVEN))


def with_ties(layer: Layer) -> Layer:
    """The same with scales of few bits, so that sums lie between two outputs: of weights small odd
    numbers times powers of two, of other tensors powers of two.
    """

    def coarse(tensor: Tensor) -> Tensor:
        if tensor.quant is None:
            return tensor
        count = len(tensor.quant.scale)
        odd = [1 + 2 * (channel % 4) for channel in range(count)]
        scale = tuple(n * 2.0**-9 if tensor.is_constant else 2.0**-5 for n in odd)
        return replace(tensor, quant=replace(tensor.quant, scale=scale))

    ins = tuple(tensor and coarse(tensor) for tensor in layer.ins)
    return to_even(replace(layer, ins=ins, out=coarse(layer.out)))


def rectified(layer: Layer) -> Layer:
    """The layer, the range of its outputs starting from zero where they are rectified."""
    if ActivationAttributes.of(layer.node).activation != "RELU":
        return layer
    assert layer.out.quant is not None
    quant = replace(layer.out.quant, zero_point=(-128,))
    return replace(layer, out=replace(layer.out, quant=quant))


def uneven_layers(rng: np.random.Generator, copies: int) -> list[Layer]:
    """Layers whose channels' scales lie far apart, so that not all of them share a shift."""
    shapes = (
        ((1, 3, 3, 128), (12, 1, 1, 128)),
        ((1, 5, 5, 64), (9, 1, 1, 64)),
        ((1, 5, 5, 16), (6, 3, 3, 16)),
    )
    layers = [
        rectified(tamed(make_layer(rng, "CONV_2D", "int8", x, w, conv("SAME"))))
        for x, w in shapes
        for _ in range(copies)
    ]
    return [_uneven(layer, 2 + 2 * (i % 2)) for i, layer in enumerate(layers)]


def line_layers(rng: np.random.Generator, count: int) -> list[Layer]:
    """Layers of filters of three columns on images of every width: with dilations, rectified and
    clamped outputs, few windows to a line and many, products that shift near and far.
    """
    widths, rows = (1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 40, 64, 65, 96, 100), (1, 1, 1, 2, 3, 6)
    depths, channels = (6, 8, 13, 16, 17, 24, 32), (1, 2, 3, 5, 8, 12, 40)
    layers = []
    for i in range(count):
        dilation, c = int(rng.choice([1, 1, 2, 3, 4, 7, 8])), int(rng.choice(depths))
        filters = int(rng.choice(channels)), 1 if dilation > 1 else int(rng.choice([1, 3])), 3, c
        x = 1, int(rng.choice(rows)), int(rng.choice(widths)), c
        activation = str(rng.choice(["RELU", "RELU", "NONE", "RELU6"]))
        attrs = conv("SAME", activation=activation, dilation_h=1, dilation_w=dilation)
        layer = tamed(rectified(make_layer(rng, "CONV_2D", "int8", x, filters, attrs)))
        layers.append(_uneven(layer, 2 + i % 4) if i % 2 else _scaled(layer, 2.0 ** -(3 + i % 13)))
    return layers


def _scaled(layer: Layer, scale: float) -> Layer:
    """The layer with filters of about one scale."""
    x, weights, *rest = layer.ins
    assert weights is not None
    assert weights.quant is not None
    count = len(weights.quant.scale)
    quant = replace(weights.quant, scale=tuple(scale * (1 + 0.1 * (j % 10)) for j in range(count)))
    return replace(layer, ins=(x, replace(weights, quant=quant), *rest))


def _uneven(layer: Layer, step: int) -> Layer:
    x, weights, *rest = layer.ins
    assert weights is not None
    assert weights.quant is not None
    scales = enumerate(weights.quant.scale)
    scale = tuple(value * 2.0 ** (-step * (i % 5)) for i, value in scales)
    weights = replace(weights, quant=replace(weights.quant, scale=scale))
    return replace(layer, ins=(x, weights, *rest))


def case_layers(rng: np.random.Generator, family: Family, copies: int) -> list[tuple[Layer, str]]:
    """Layers of all cases, with how the name of the kernel must begin that serves each."""
    return [
        (rectified(tamed(make_layer(rng, case[0], "int8", *case[1:4]))), kernel)
        for case in CASES.values()
        if case[family.column]
        for kernel in [f"{family.prefix}{case[family.column]}"]
        for _ in range(copies)
    ]


def family_calls(layer: Layer, family: Family) -> list[KernelCall]:
    """The family's kernels for a layer."""
    calls = candidates(layer.node, layer.ins, (layer.out,), get_cpu(family.cpu))
    kernels = [call for call in calls if isinstance(call, KernelCall)]
    return [call for call in kernels if call.kernel.name.startswith(family.prefix)]


def usual_layer(rng: np.random.Generator) -> Layer:
    """A random layer of a kind that models are made of, with scales of usual size: what kernels for
    few cores are made for."""

    def pick(*options: int) -> int:
        return int(rng.choice(options))

    depth, count = (int(n) for n in rng.integers(1, (41, 25)))
    h, w = (int(n) for n in rng.integers(1, (10, 14)))
    attrs = conv(
        str(rng.choice(["SAME", "VALID"])),
        pick(1, 1, 2),
        str(rng.choice(["NONE", "RELU", "RELU6"])),
    )
    op, x_shape, w_shape = "CONV_2D", (1, h, w, depth), (count, 1, 1, depth)
    match str(rng.choice(["pixels", "window", "strip", "image", "image", "depthwise", "row"])):
        case "window":
            depth = pick(depth, 16, 32, 64)
            x_shape, w_shape = (1, h + 2, w + 2, depth), (count, 3, 3, depth)
        case "strip":
            depth, filter_h, filter_w = pick(1, 2, 3, 4), pick(1, 2, 3, 5, 10), pick(1, 2, 3, 4)
            x_shape = (1, h + filter_h, w + filter_w, depth)
            w_shape = (count, filter_h, filter_w, depth)
        case "image":
            depth, count = pick(1, 3), pick(8, 16, 24)
            attrs["stride_h"] = attrs["stride_w"] = 2
            x_shape, w_shape = (1, 2 * h + 3, 2 * w + 3, depth), (count, 3, 3, depth)
        case "depthwise":
            op, attrs["depth_multiplier"] = "DEPTHWISE_CONV_2D", 1
            x_shape, w_shape = (1, h + 2, w + 2, depth), (1, 3, 3, depth)
        case "row":
            depth = int(rng.integers(1, 200))
            attrs = {"activation": attrs["activation"]}
            row = make_layer(
                rng, "FULLY_CONNECTED", "int8", (pick(1, 1, 1, 2, 5), depth), (count, depth), attrs
            )
            return _of_usual_range(rng, row)
    return _of_usual_range(rng, make_layer(rng, op, "int8", x_shape, w_shape, attrs))


def _of_usual_range(rng: np.random.Generator, layer: Layer) -> Layer:
    return rectified(tamed(layer)) if rng.random() < 0.7 else tamed(layer)


def extreme_layers(rng: np.random.Generator, count: int) -> list[Layer]:
    """1x1 convolutions by :func:`channel_extremes`."""
    layers: list[Layer] = []
    while len(layers) < count:
        layer = tamed(make_layer(rng, "CONV_2D", "int8", (1, 3, 3, 8), (6, 1, 1, 8), conv("SAME")))
        weights = layer.ins[1]
        if weights is not None and weights.quant is not None and not weights.quant.per_tensor:
            layers.append(channel_extremes(layer))
    return layers


def channel_extremes(layer: Layer) -> Layer:
    """Channels that are dead, saturate, or have the largest bias that there is."""
    x, weights, bias = layer.ins
    assert weights is not None
    assert weights.quant is not None
    assert bias is not None
    assert bias.data is not None
    data = bias.data.copy()
    data[:4] = (2**30 - 1, -(2**30) + 1, 2**21, -(2**21))
    scale = (1e-9, 1e-9, 1e-5, 0.3, *weights.quant.scale[4:])
    quant = replace(weights.quant, scale=scale)
    return replace(layer, ins=(x, replace(weights, quant=quant), replace(bias, data=data)))


def limit_layers(rng: np.random.Generator) -> list[Layer]:
    """Layers whose sums are as large as they get: weights and inputs at the ends of their ranges,
    of one sign all over, by column, or where a part of the depth ends.
    """
    shapes: list[tuple[Any, ...]] = [
        ("CONV_2D", (1, 1, 3, 200), (8, 1, 1, 200), conv("SAME", activation="NONE")),
        ("CONV_2D", (1, 2, 3, 30), (4, 2, 2, 30), conv("VALID", activation="NONE")),
        ("DEPTHWISE_CONV_2D", (1, 4, 6, 4), (1, 3, 3, 4), depthwise(1, activation="NONE")),
        ("FULLY_CONNECTED", (1, 500), (8, 500), {"activation": "NONE"}),
        ("CONV_2D", (1, 1, 3, 128), (16, 1, 1, 128), conv("VALID", activation="NONE")),
        ("CONV_2D", (1, 3, 8, 56), (2, 3, 3, 56), conv("SAME", activation="NONE")),
        ("CONV_2D", (1, 3, 8, 64), (2, 3, 3, 64), conv("SAME", activation="NONE")),
        ("CONV_2D", (1, 3, 8, 3), (8, 3, 3, 3), conv("SAME", activation="NONE")),
        # Sums of more than 24 bits.
        ("FULLY_CONNECTED", (1, 1100), (5, 1100), {"activation": "NONE"}),
        ("FULLY_CONNECTED", (1, 1031), (6, 1031), {"activation": "NONE"}),
        ("CONV_2D", (1, 1, 4, 702), (4, 1, 1, 702), conv("VALID", activation="NONE")),
        ("CONV_2D", (1, 3, 4, 92), (3, 3, 3, 92), conv("SAME", activation="NONE")),
    ]
    layers = []
    for op, x_shape, w_shape, attrs in shapes:
        for inputs in ((-128,), (127,), (-128, 127)):
            for weights in ((-128,), (127,), (-128, 127)):
                layer = tamed(make_layer(rng, op, "int8", x_shape, w_shape, attrs))
                _, w, *rest = layer.ins
                assert w is not None
                data = rng.choice(np.array(weights, np.int8), w.shape)
                x = rng.choice(np.array(inputs, np.int8), x_shape)
                ins = (layer.ins[0], replace(w, data=data), *rest)
                layers.append(replace(layer, ins=ins, x=x))
    return layers
