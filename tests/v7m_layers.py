"""Layers that the kernels of ``kernels/v7m`` serve: shapes at their edges, sums at their limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from dsp_layers import conv, depthwise, tamed
from linear_layers import Layer, make_layer

from hilc.cpu import get_cpu
from hilc.kernels import KernelCall
from hilc.ops import OPS

CPU = "cortex-m3"
FAMILY = "hil_v7m_"

#: Operator, shapes of input and weights, attributes, the kernel that must serve it.
CASES: dict[str, tuple[Any, ...]] = {
    "one pixel over threes": ("CONV_2D", (1, 5, 5, 16), (8, 1, 1, 16), conv("SAME"), "matmul"),
    "pixels, two more": ("CONV_2D", (1, 4, 5, 7), (6, 1, 1, 7), conv("SAME"), "matmul"),
    "two pixels": ("CONV_2D", (1, 1, 2, 5), (5, 1, 1, 5), conv("SAME"), "matmul"),
    "one channel to one": ("CONV_2D", (1, 3, 3, 1), (1, 1, 1, 1), conv("SAME"), "matmul"),
    "linear": ("CONV_2D", (1, 3, 3, 12), (4, 1, 1, 12), conv("SAME", activation="NONE"), "matmul"),
    "several parts": ("CONV_2D", (1, 2, 2, 300), (3, 1, 1, 300), conv("SAME"), "matmul"),
    "a single pixel": ("CONV_2D", (1, 1, 1, 33), (7, 1, 1, 33), conv("SAME"), "matvec"),
    "three images": ("CONV_2D", (3, 5, 4, 3), (5, 3, 3, 3), conv("SAME", 2), "conv2d"),
    "one channel, two more": ("CONV_2D", (1, 9, 5, 1), (6, 4, 3, 1), conv("SAME"), "conv2d"),
    "deep": ("CONV_2D", (1, 4, 4, 40), (4, 3, 3, 40), conv("SAME", activation="NONE"), "conv2d"),
    "padding beyond the image": ("CONV_2D", (1, 1, 1, 5), (6, 3, 3, 5), conv("SAME"), "conv2d"),
    "dilated": (
        "CONV_2D", (1, 7, 7, 3), (4, 3, 2, 3),
        conv("SAME", dilation_h=2, dilation_w=3), "conv2d",
    ),
    "depthwise, odd everything": (
        "DEPTHWISE_CONV_2D", (2, 7, 5, 6), (1, 3, 3, 6), depthwise(1), "depthwise_3x3",
    ),
    "depthwise, a single pixel": (
        "DEPTHWISE_CONV_2D", (1, 1, 1, 4), (1, 3, 3, 4), depthwise(1), "depthwise_3x3",
    ),
    "depthwise, two columns": (
        "DEPTHWISE_CONV_2D", (1, 5, 2, 3), (1, 3, 3, 3), depthwise(1), "depthwise_3x3",
    ),
    "depthwise, many rows": (
        "DEPTHWISE_CONV_2D", (1, 40, 21, 2), (1, 3, 3, 2), depthwise(1), "depthwise_3x3",
    ),
    "depthwise, stride 2": (
        "DEPTHWISE_CONV_2D", (1, 9, 8, 5), (1, 3, 3, 5), depthwise(2), "depthwise_3x3",
    ),
    "depthwise, stride 2, many rows": (
        "DEPTHWISE_CONV_2D", (1, 33, 28, 2), (1, 3, 3, 2), depthwise(2), "depthwise_3x3",
    ),
    "depthwise, stride 2, five columns": (
        "DEPTHWISE_CONV_2D", (1, 6, 10, 2), (1, 3, 3, 2), depthwise(2), "depthwise_3x3",
    ),
    "depthwise, linear": (
        "DEPTHWISE_CONV_2D", (1, 6, 9, 4), (1, 3, 3, 4), depthwise(1, activation="NONE"),
        "depthwise_3x3",
    ),
    "depthwise, no padding": (
        "DEPTHWISE_CONV_2D", (1, 6, 9, 4), (1, 3, 3, 4), conv("VALID", depth_multiplier=1),
        "depthwise_3x3",
    ),
    "depthwise, wholly in the padding": (
        "DEPTHWISE_CONV_2D", (1, 2, 2, 3), (1, 3, 3, 3), conv((5, 5, 6, 6), depth_multiplier=1),
        "depthwise_3x3",
    ),
    "a row": ("FULLY_CONNECTED", (1, 37), (16, 37), {"activation": "NONE"}, "matvec"),
    "a row, columns left": ("FULLY_CONNECTED", (1, 50), (22, 50), {"activation": "RELU"}, "matvec"),
    "a short row": ("FULLY_CONNECTED", (1, 3), (8, 3), {"activation": "RELU"}, "matvec"),
    "four rows": ("FULLY_CONNECTED", (4, 37), (11, 37), {"activation": "RELU"}, "matmul"),
}  # fmt: skip


def case_layers(rng: np.random.Generator, copies: int) -> list[tuple[Layer, str]]:
    return [
        (tamed(make_layer(rng, op, "int8", x, w, attrs)), f"{FAMILY}{kernel}_s8")
        for op, x, w, attrs, kernel in CASES.values()
        for _ in range(copies)
    ]


def candidates(layer: Layer) -> list[KernelCall]:
    """The family's kernels for a layer."""
    calls = OPS[layer.node.op].emit(layer.node, layer.ins, (layer.out,), get_cpu(CPU))
    kernels = [call for call in calls if isinstance(call, KernelCall)]
    return [call for call in kernels if call.kernel.name.startswith(FAMILY)]


def limit_layers(rng: np.random.Generator) -> list[Layer]:
    """Layers whose sums are as large as they get: weights and inputs at the ends of their ranges,
    of one sign all over, by column, or where a part of the depth ends.
    """
    shapes: list[tuple[Any, ...]] = [
        ("CONV_2D", (1, 1, 3, 200), (8, 1, 1, 200), conv("SAME", activation="NONE")),
        ("CONV_2D", (1, 2, 3, 30), (4, 2, 2, 30), conv("VALID", activation="NONE")),
        ("DEPTHWISE_CONV_2D", (1, 4, 6, 4), (1, 3, 3, 4), depthwise(1, activation="NONE")),
        ("FULLY_CONNECTED", (1, 500), (8, 500), {"activation": "NONE"}),
    ]
    layers = []
    for op, x_shape, w_shape, attrs in shapes:
        for inputs in ((-128,), (127,), (-128, 127)):
            for weights in ((-127,), (127,), (-127, 127)):
                layer = tamed(make_layer(rng, op, "int8", x_shape, w_shape, attrs))
                _, w, *rest = layer.ins
                assert w is not None
                data = rng.choice(np.array(weights, np.int8), w.shape)
                x = rng.choice(np.array(inputs, np.int8), x_shape)
                ins = (layer.ins[0], replace(w, data=data), *rest)
                layers.append(replace(layer, ins=ins, x=x))
    return layers
