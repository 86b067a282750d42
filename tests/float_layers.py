"""Layers of floats that kernels for few cores serve: shapes at their edges, and odd numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from kernel_layers import Shapes, conv, depthwise
from linear_layers import ACTIVATIONS, Layer, make_layer

from hilc.ir import Rounding
from hilc.ops import OPS

#: Depths of whole units, of fours and of eights, with a rest and without; rows and columns that are
#: no multiple of a block; windows next to every side, strides and dilation.
SHAPES: tuple[Shapes, ...] = (
    *(
        ("CONV_2D", (1, 1, rows, depth), (count, 1, 1, depth), conv("VALID", 1, activation))
        for (depth, rows), activation in zip(
            ((1, 5), (2, 4), (7, 3), (8, 8), (16, 9), (33, 6), (40, 12)),
            ACTIVATIONS * 2,
            strict=False,
        )
        for count in (1, 4, 6, 16)
    ),
    *(
        ("FULLY_CONNECTED", (rows, depth), (count, depth), {"activation": activation})
        for (depth, rows), activation in zip(
            ((1, 1), (6, 1), (8, 2), (16, 1), (57, 1), (96, 1), (17, 5)),
            ACTIVATIONS * 2,
            strict=False,
        )
        for count in (1, 8, 11, 16)
    ),
    *(
        ("CONV_2D", (batch, *image, depth), (count, *filters, depth), attrs)
        for batch, image, depth, count, filters, attrs in (
            (1, (5, 6), 3, 8, (3, 3), conv("SAME")),
            (2, (7, 5), 4, 5, (3, 2), conv("SAME", 2, "NONE")),
            (1, (4, 9), 16, 6, (3, 3), conv("VALID", 1, "RELU6")),
            (1, (9, 4), 1, 7, (4, 3), conv((2, 1, 3, 0))),
            (2, (3, 3), 5, 3, (2, 2), conv((4, 4, 4, 4), 1, "NONE")),
            (1, (8, 7), 17, 4, (2, 3), conv("SAME", dilation_h=2, dilation_w=3)),
        )
    ),
    *(
        ("DEPTHWISE_CONV_2D", (batch, *image, n), (1, *filters, n), depthwise(stride, activation=a))
        for batch, image, n, filters, stride, a in (
            (1, (25, 5), 8, (3, 3), 1, "RELU"), (1, (6, 9), 5, (3, 3), 1, "NONE"),
            (2, (9, 13), 12, (3, 3), 2, "RELU6"), (1, (1, 1), 3, (3, 3), 1, "RELU"),
            (1, (12, 12), 16, (5, 5), 1, "RELU"), (1, (9, 8), 4, (2, 4), 1, "RELU_N1_TO_1"),
            (1, (8, 10), 6, (1, 6), 1, "NONE"), (1, (10, 3), 4, (7, 1), 2, "RELU"),
            (1, (5, 11), 7, (3, 3), 3, "RELU"), (1, (4, 14), 5, (2, 7), 2, "NONE"),
        )
    ),
    ("DEPTHWISE_CONV_2D", (1, 6, 7, 4), (1, 3, 3, 4), conv("VALID", depth_multiplier=1)),
    ("DEPTHWISE_CONV_2D", (1, 8, 9, 8), (1, 3, 3, 8), depthwise(1, dilation_h=2, dilation_w=2)),
    ("DEPTHWISE_CONV_2D", (1, 4, 4, 3), (1, 3, 3, 6), conv("SAME", depth_multiplier=2)),
    # Wholly beside the image, and before its padding ends.
    ("DEPTHWISE_CONV_2D", (1, 2, 2, 5), (1, 3, 3, 5), conv((5, 5, 6, 6), depth_multiplier=1)),
    ("DEPTHWISE_CONV_2D", (1, 2, 2, 4), (1, 1, 2, 4), conv((1, 1, 4, 0), 9, depth_multiplier=1)),
)  # fmt: skip

#: What is no usual number: some sums are infinite or none, or too large for the type.
SPECIAL: tuple[float, ...] = (np.inf, -np.inf, np.nan, float(np.copysign(np.nan, -1)), 3e38, -3e38)


def float_layer(rng: np.random.Generator, shapes: Shapes, special: float | None = None) -> Layer:
    """A layer of usual numbers; ``special`` is one more, somewhere in its input."""
    op, x_shape, w_shape, attrs = shapes
    layer = make_layer(rng, op, "float32", x_shape, w_shape, attrs)
    if special is None:
        return layer
    x = layer.x.copy()
    x.reshape(-1)[rng.integers(x.size)] = special
    return replace(layer, x=x)


def float_layers(rng: np.random.Generator) -> list[Layer]:
    """All shapes, with usual numbers, with one that is not and with tiny ones, by both policies of
    sums."""
    layers = [
        float_layer(rng, shapes, special)
        for i, shapes in enumerate(SHAPES)
        for special in (None, SPECIAL[i % len(SPECIAL)])
    ]
    layers += [replace(one, x=one.x * np.float32(1e-38)) for one in layers[::7]]
    fused = [
        replace(one, node=replace(one.node, rounding=Rounding.SINGLE))
        for one in layers
        if (fuses := OPS[one.node.op].fuses_sums) is not None and fuses(one.node, one.ins)
    ]
    return layers + fused
