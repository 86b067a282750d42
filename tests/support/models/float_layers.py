"""Layers of floats that kernels for few cores serve: shapes at their edges, and odd numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from kernel_layers import Shapes, conv, depthwise
from linear_layers import ACTIVATIONS, Layer, make_layer
from single_op import Draft, SingleOp, finish, index_tensor, pick

from hilc.ir import Rounding, Tensor
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
    *(
        ("DEPTHWISE_CONV_2D", (batch, *image, n), (1, *size, n * attrs["depth_multiplier"]), attrs)
        for batch, image, n, size, attrs in (
            (1, (4, 4), 3, (3, 3), conv("SAME", depth_multiplier=2)),
            (2, (9, 7), 4, (3, 3), conv("SAME", depth_multiplier=8)),
            (1, (7, 10), 5, (2, 4), conv("SAME", 2, "NONE", depth_multiplier=3)),
            (1, (12, 5), 2, (5, 3), conv((2, 1, 3, 0), depth_multiplier=5)),
            (1, (8, 9), 9, (3, 3), conv("VALID", depth_multiplier=2, dilation_h=2, dilation_w=2)),
        )
    ),
    # Of a single channel, and in groups of one, which are depthwise, too.
    ("CONV_2D", (1, 9, 10, 1), (8, 3, 3, 1), conv("SAME")),
    ("DEPTHWISE_CONV_2D", (2, 8, 7, 1), (1, 4, 3, 5), conv("SAME", 2, depth_multiplier=5)),
    ("CONV_2D", (1, 7, 6, 4), (8, 3, 3, 1), conv("SAME")),
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
        if OPS[one.node.op].on_vectors(one.node, one.ins)
    ]
    return layers + fused


#: Channels, or elements of a row, around the numbers that kernels take at a time.
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 19, 20, 32, 37, 48, 61)


#: Functions of single elements, with their attributes.
FUNCTIONS: Mapping[str, Sequence[dict[str, Any]]] = {
    **dict.fromkeys(("LOGISTIC", "TANH", "ELU", "EXP", "LOG", "HARD_SWISH", "RELU", "RELU6"), [{}]),
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "NEG", "ROUND", "RSQRT", "SQRT", "SQUARE"), [{}]),
    "RELU_N1_TO_1": [{}],
    "GELU": [{"approximate": False}, {"approximate": True}],
    "LEAKY_RELU": [{"alpha": 0.1}, {"alpha": 1.5}],
}


def float_op(rng: np.random.Generator, op: str, special: bool) -> SingleOp:
    """An operator without weights; ``special`` adds numbers that are infinite, none, subnormal or
    nearly so."""
    count = pick(rng, *LENGTHS)
    attrs: dict[str, Any] = {"activation": pick(rng, *ACTIVATIONS)}
    extra: list[Tensor] = []
    image = (1, *(int(n) for n in rng.integers(4, 9, 2)), count)
    shapes = [image]
    if op in ("ADD", "SUB", "MUL"):
        shapes = pick(rng, [image, image], [image, (count,)], [(1, 1, 1, 1), image])
        shapes = shapes[:: pick(rng, 1, -1)]
    elif op in FUNCTIONS:
        attrs = pick(rng, *FUNCTIONS[op])
    elif op == "SOFTMAX":
        shapes, attrs = [(int(rng.integers(1, 5)), count)], {"beta": pick(rng, 1.0, 0.3, 7.0)}
    elif op in ("MEAN", "SUM"):
        attrs = {"keep_dims": True}
        extra = [index_tensor(pick(rng, [1, 2], [3], [2, 3], [1], [0, 1, 2, 3], [1, 3]), "axes")]
    else:
        names = ("filter_h", "filter_w", "stride_h", "stride_w")
        attrs |= {name: int(rng.integers(1, 5)) for name in names}
        attrs["padding"] = pick(rng, "SAME", "VALID")
    draft = Draft(
        [*(Tensor(f"x{i}", s, "float32") for i, s in enumerate(shapes)), *extra], None, attrs
    )
    found = finish(rng, op, draft)
    values = [odd_numbers(rng, v) if special and v.dtype.kind == "f" else v for v in found.values]
    return replace(found, values=tuple(values))


def odd_numbers(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Most values with another magnitude, some infinite, none, or next to what is subnormal."""
    few = (*SPECIAL, 0.0, -0.0, 1e-40, -1e-40, 1.2e-38, -1.2e-38, float(np.finfo(np.float32).max))
    scaled = values * np.float32(pick(rng, 1, 1, 1e-38, 1e-20, 1e19, 1e38))
    odd = rng.random(values.shape) < pick(rng, 0.0, 0.01, 0.1)
    chosen: np.ndarray = np.where(odd, rng.choice(np.array(few, np.float32), values.shape), scaled)
    return chosen


#: Operators without weights that other cores compute by functions of the C library.
C_LIBRARY = ("SOFTMAX", "LOGISTIC", "TANH", "ELU", "EXP", "GELU", "LOG")
#: Operators without weights that Helium computes with vectors of floats.
FLOAT_OPERATORS = (
    *("ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM"),
    "SOFTMAX",
    *FUNCTIONS,
)


def float_ops(rng: np.random.Generator, number: int) -> list[SingleOp]:
    """So many of each operator, every other one on odd numbers, by both policies; those of the
    C library by that of vectors alone."""
    plain = [float_op(rng, op, i % 2 == 1) for op in FLOAT_OPERATORS for i in range(number)]
    vectors = [
        replace(one, node=replace(one.node, rounding=Rounding.SINGLE))
        for one in plain
        if OPS[one.node.op].on_vectors(one.node, one.ins)
    ]
    return [one for one in plain if one.node.op not in C_LIBRARY] + vectors
