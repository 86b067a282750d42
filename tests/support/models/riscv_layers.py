"""Layers for the kernels that are emitted for RISC-V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from float_layers import float_layers
from kernel_checks import Check, Operator, checks_of
from kernel_layers import (
    CASES,
    conv,
    depthwise,
    extreme_layers,
    limit_layers,
    rectified,
    tamed,
    to_even,
    usual_layer,
)
from linear_layers import Layer, make_layer, random_layer
from single_op import Draft, SingleOp, activation_tensor, finish, index_tensor, random_op

from hilc.ir import Quant, Rounding, Tensor
from hilc.target import Cpu

PREFIXES = ("hil_riscv_", "hil_rvv_", "hil_xpulp_")
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: Operator, shapes of input and weights, attributes: parts of the depth, columns left over, tiles
#: at both edges of an image, a single row, rows and columns under no tap, several images.
SHAPES = (
    ("CONV_2D", (1, 4, 5, 600), (9, 1, 1, 600), conv("SAME")),
    ("CONV_2D", (1, 7, 5, 64), (6, 3, 3, 64), conv("SAME", activation="NONE")),
    ("CONV_2D", (1, 5, 19, 9), (5, 3, 3, 9), conv("SAME", activation="NONE")),
    ("CONV_2D", (2, 4, 27, 8), (4, 3, 3, 8), conv("VALID")),
    ("CONV_2D", (2, 5, 5, 24), (3, 1, 1, 24), conv("VALID", activation="NONE")),
    ("CONV_2D", (1, 9, 8, 3), (8, 3, 3, 3), conv("SAME", 2)),
    ("CONV_2D", (1, 9, 8, 2), (5, 3, 2, 2), {**conv("SAME"), "dilation_h": 2, "dilation_w": 2}),
    ("FULLY_CONNECTED", (7, 30), (13, 30), {"activation": "NONE"}),
    # Rows of outputs beyond the offset of a store.
    ("CONV_2D", (1, 2, 5, 9), (701, 1, 1, 9), conv("SAME", activation="NONE")),
    ("DEPTHWISE_CONV_2D", (1, 25, 5, 8), (1, 3, 3, 8), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (2, 6, 23, 5), (1, 3, 3, 5), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (1, 13, 24, 4), (1, 3, 3, 4), depthwise(2)),
    ("DEPTHWISE_CONV_2D", (1, 1, 3, 4), (1, 3, 3, 4), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (1, 2, 1, 3), (1, 3, 3, 3), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (1, 8, 9, 6), (1, 2, 4, 6), depthwise(1)),
    (
        "DEPTHWISE_CONV_2D", (1, 9, 12, 6), (1, 3, 3, 6),
        {**depthwise(1), "dilation_h": 2, "dilation_w": 3},
    ),
    ("DEPTHWISE_CONV_2D", (1, 4, 9, 500), (1, 3, 3, 500), depthwise(1)),
    (
        "DEPTHWISE_CONV_2D", (2, 3, 3, 5), (1, 2, 2, 5),
        conv((4, 4, 4, 4), 1, "NONE", depth_multiplier=1),
    ),
    ("DEPTHWISE_CONV_2D", (1, 11, 14, 6), (1, 5, 5, 6), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (2, 10, 9, 34), (1, 5, 5, 34), depthwise(2)),
    ("DEPTHWISE_CONV_2D", (1, 8, 7, 5), (1, 4, 7, 5), depthwise(1)),
    # More rows than arguments in registers, a long row, more filters than channels, pixels that the
    # offset of a load does not reach.
    ("DEPTHWISE_CONV_2D", (1, 9, 8, 5), (1, 7, 7, 5), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (1, 5, 8, 34), (1, 9, 3, 34), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (2, 1, 40, 3), (1, 1, 15, 3), depthwise(1)),
    ("DEPTHWISE_CONV_2D", (1, 8, 9, 3), (1, 3, 3, 3), depthwise(3)),
    ("DEPTHWISE_CONV_2D", (1, 6, 7, 5), (1, 3, 3, 10), {**depthwise(1), "depth_multiplier": 2}),
    ("DEPTHWISE_CONV_2D", (2, 7, 5, 1), (1, 5, 5, 8), {**depthwise(2), "depth_multiplier": 8}),
    ("DEPTHWISE_CONV_2D", (1, 5, 5, 1500), (1, 3, 3, 1500), depthwise(2)),
    (
        "DEPTHWISE_CONV_2D", (1, 3, 4, 700), (1, 2, 3, 2100),
        {**depthwise(1), "depth_multiplier": 3},
    ),
)  # fmt: skip


#: Layers with sums of many products: of one row and of several, in one part and by windows.
DEEP = (
    ("FULLY_CONNECTED", (1, 2048), (5, 2048), {"activation": "NONE"}),
    ("FULLY_CONNECTED", (4, 4096), (6, 4096), {"activation": "RELU"}),
    ("CONV_2D", (1, 1, 3, 3000), (5, 1, 1, 3000), conv("VALID", activation="NONE")),
    ("CONV_2D", (1, 3, 4, 256), (4, 3, 3, 256), conv("SAME", activation="NONE")),
)


#: Layers whose inputs have zeros: single rows, several, more than one part of the depth.
SPARSE = (
    ("FULLY_CONNECTED", (1, 900), (47, 900), {"activation": "NONE"}),
    ("FULLY_CONNECTED", (3, 130), (26, 130), {"activation": "RELU"}),
    ("CONV_2D", (1, 3, 4, 64), (70, 1, 1, 64), conv("SAME")),
    ("FULLY_CONNECTED", (1, 11), (300, 11), {"activation": "NONE"}),
)


def with_zeros(rng: np.random.Generator, layer: Layer, share: float) -> Layer:
    """The layer, ``share`` of its input's first half zero, and all of the second."""
    x = layer.ins[0]
    assert x is not None
    assert x.quant is not None
    flat = layer.x.reshape(-1).copy()
    half = flat.size // 2
    zero = np.append(rng.random(half) < share, np.ones(flat.size - half, bool))
    flat[zero] = x.quant.zero_point[0]
    return replace(layer, x=flat.reshape(layer.x.shape))


def sparse_layers(rng: np.random.Generator) -> list[Layer]:
    """Return layers with inputs of which none, some or all elements are zero."""
    layers = [tamed(make_layer(rng, op, "int8", x, w, attrs)) for op, x, w, attrs in SPARSE]
    return [
        layer if share is None else with_zeros(rng, layer, share)
        for i, layer in enumerate(map(rectified, layers))
        for share in ((None, 0.5), (1.0,), (0.5,), (0.0,))[i]
    ]


def deep_layers(rng: np.random.Generator) -> list[Layer]:
    """Return layers with sums of many products: weights of any size, and inputs and weights at the
    ends of their ranges, which make the largest sums.
    """
    layers = []
    for op, x_shape, w_shape, attrs in DEEP:
        for at_ends in (False, True):
            layer = rectified(tamed(make_layer(rng, op, "int8", x_shape, w_shape, attrs)))
            x, weights, *rest = layer.ins
            assert weights is not None
            assert layer.out.quant is not None
            # Outputs of sums of usual size: of more products, of larger ones.
            quant = replace(layer.out.quant, scale=(0.8 if at_ends else 0.2,))
            layer = replace(layer, out=replace(layer.out, quant=quant))
            if at_ends:
                data = rng.choice(np.array([-127, 127], np.int8), weights.shape)
                values = rng.choice(np.array([-128, 127], np.int8), layer.x.shape)
                layer = replace(layer, ins=(x, replace(weights, data=data), *rest), x=values)
            layers.append(layer)
    return layers


def riscv_layers(rng: np.random.Generator, copies: int) -> list[Layer]:
    """Return layers of all shapes, each linear and rectified, and random ones."""
    cases = [(op, x, w, attrs) for op, x, w, attrs, *_ in CASES.values()]
    layers = extreme_layers(rng, copies) + limit_layers(rng)[: 2 * copies]
    for i, (op, x, w, attrs) in enumerate((*SHAPES, *cases[:: 3 if copies == 1 else 1])):
        layer = tamed(make_layer(rng, op, "int8", x, w, attrs))
        layers.append(rectified(layer) if i % 2 else layer)
    usual = [usual_layer(rng) for _ in range(6 * copies)]
    layers += [to_even(layer) if i % 5 == 0 else layer for i, layer in enumerate(usual)]
    layers += sparse_layers(rng)
    return layers + [random_layer(rng, op, "int8", True) for op in LINEAR for _ in range(copies)]


def wide_layers(rng: np.random.Generator, copies: int) -> list[Layer]:
    """Return layers of int16 of all shapes, by both policies of rounding, and random ones."""
    layers = [make_layer(rng, op, "int16", x, w, attrs) for op, x, w, attrs in SHAPES]
    layers += [random_layer(rng, op, "int16", True) for op in LINEAR for _ in range(20 * copies)]
    long = [layer for layer in layers if layer.node.rounding is Rounding.SINGLE]
    return long + [to_even(layer) for layer in long[::3]]


def long_layers(rng: np.random.Generator) -> list[Layer]:
    """Return layers of int16 whose sums leave 32 bits: parts of one depth and of two, a row and
    many, columns left over, windows at the edges of an image.
    """
    linear, rectified_ = {"activation": "NONE"}, {"activation": "RELU"}
    shapes = (
        ("FULLY_CONNECTED", (3, 1100), (9, 1100), linear),
        ("FULLY_CONNECTED", (1, 2048), (10, 2048), rectified_),
        ("FULLY_CONNECTED", (6, 1031), (37, 1031), linear),
        ("CONV_2D", (1, 5, 3, 200), (6, 3, 3, 200), conv("SAME")),
        ("CONV_2D", (2, 3, 3, 260), (5, 2, 2, 260), conv("VALID", activation="NONE")),
    )
    layers = [make_layer(rng, op, "int16", x, w, attrs) for op, x, w, attrs in shapes]
    return [*layers, *(at_the_ends(layer) for layer in layers[:4])]


def at_the_ends(layer: Layer) -> Layer:
    """Return a layer whose weights and inputs are at the ends of their ranges, with outputs near
    the ends of theirs.
    """
    weights, x = layer.ins[1], layer.ins[0]
    assert weights is not None
    assert x is not None
    assert weights.data is not None
    assert weights.quant is not None
    assert x.quant is not None
    signs = np.where(np.arange(len(weights.data)) % 2, -127, 127)
    data = np.broadcast_to(signs.reshape(-1, *(1,) * (weights.data.ndim - 1)), weights.shape)
    step = 127 * max(weights.quant.scale) * x.quant.scale[0] * data[0].size
    return replace(
        layer,
        ins=(x, replace(weights, data=data.astype(np.int8)), *layer.ins[2:]),
        out=replace(layer.out, quant=Quant((1.1 * step,), (0,))),
        x=np.full(layer.x.shape, -32768, np.int16),
    )


def real_layers(rng: np.random.Generator, copies: int) -> list[Layer]:
    """Return layers of float32 of all shapes, random ones, and those with sums that are infinite or
    no numbers.
    """
    layers = [make_layer(rng, op, "float32", x, w, attrs) for op, x, w, attrs in SHAPES]
    layers += [random_layer(rng, op, "float32", True) for op in LINEAR for _ in range(4 * copies)]
    return layers + float_layers(rng)[::3]


def sums(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return sums and differences of int8."""
    return [random_op(rng, op, "int8") for op in ("ADD", "SUB") for _ in range(count)]


def tables(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return functions of int8 and changes of its scale, whose kernels are tables."""
    operators = ("LOGISTIC", "TANH", "HARD_SWISH", "QUANTIZE")
    return [random_op(rng, op, "int8") for op in operators for _ in range(count)]


def transposed(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return transposed convolutions of int8."""
    return [random_op(rng, "TRANSPOSE_CONV", "int8") for _ in range(count)]


def pools(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return pools, means and products of int8, means of many channels among them."""
    operators = ("MAX_POOL_2D", "AVERAGE_POOL_2D", "MEAN", "MUL")
    layers = [random_op(rng, op, "int8") for op in operators for _ in range(count)]
    x = activation_tensor(rng, "int8", (2, 7, 3, 70))
    for axes in ([1, 2], [1], [2]):
        layers.append(finish(rng, "MEAN", Draft([x, index_tensor(axes, "axes")], x.quant)))
    return [*layers, *wide_maxima(rng)]


def signed_products(rng: np.random.Generator) -> list[SingleOp]:
    """Return MUL of int8 whose outputs below zero are rounded away from it, as in a GRU."""
    gate, shapes = Quant((1 / 256,), (-128,)), ((1, 37), (1, 5, 37))
    found = []
    for shape in shapes:
        for scale, zero_point, out, out_point in (
            (0.006, -9, 0.005, -5), (0.0049, 4, 0.0023, 27), (0.03, 127, 0.0071, 3),
        ):  # fmt: skip
            a = Tensor("a", shape, "int8", gate)
            b = Tensor("b", (1, 37), "int8", Quant((scale,), (zero_point,)))
            draft = Draft([a, b], Quant((out,), (out_point,)))
            found.append(finish(rng, "MUL", draft))
    one = Tensor("b", (1, 1), "int8", Quant((0.05,), (-3,)))
    draft = Draft([Tensor("a", (4, 37), "int8", gate), one], Quant((0.02,), (11,)))
    return [*found, finish(rng, "MUL", draft)]


def matrices(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return products of two matrices of int8: random ones, long rows, and many columns."""
    layers = [random_op(rng, "BATCH_MATMUL", "int8") for _ in range(count)]
    quants = [Quant((0.03,), (zero_point,)) for zero_point in (9, -128, 127, 0)]
    for a, b, adj_x, adj_y in (
        ((5, 700), (700, 6), False, False),
        ((700, 5), (6, 700), True, True),
        ((2, 7, 33), (2, 33, 70), False, False),
        ((3, 300), (40, 300), False, True),
    ):
        ins = [Tensor("a", a, "int8", quants[0]), Tensor("b", b, "int8", quants[1])]
        quants = quants[1:] + quants[:1]
        out = Quant((0.02 * a[-1] ** 0.5,), (-7,))
        layers.append(
            finish(rng, "BATCH_MATMUL", Draft(ins, out, {"adj_x": adj_x, "adj_y": adj_y}))
        )
    return layers


def softmaxes(rng: np.random.Generator) -> list[SingleOp]:
    """Return SOFTMAX of int8: random ones, each distance of two values, and rows whose shares are
    nothing, for scales from where one exponential counts to where all do.
    """
    layers = [random_op(rng, "SOFTMAX", "int8") for _ in range(12)]
    bytes_ = np.arange(-128, 128, dtype=np.int8)
    distances = np.stack([np.full(256, 127, np.int8), bytes_], axis=1)
    several = np.concatenate([distances, np.roll(distances, 1, axis=0), distances[:, ::-1]], axis=1)
    rows = (distances, several, bytes_[None], np.zeros((1, 600), np.int8))
    quant = Quant((1 / 256,), (-128,))
    for scale in (1.0, 0.25, 0.1, 0.03, 0.004):
        for values in (*rows, np.full((1, 4095), -128, np.int8)):
            x = Tensor("x", values.shape, "int8", Quant((scale,), (3,)))
            layers.append(finish(rng, "SOFTMAX", Draft([x], quant, {"beta": 1.0}), [values]))
    return layers


def wide_maxima(rng: np.random.Generator) -> list[SingleOp]:
    """Return MAX_POOL_2D of many channels, the last with steps beyond an instruction's offset."""
    return [
        finish(
            rng,
            "MAX_POOL_2D",
            Draft(
                [x := activation_tensor(rng, "int8", shape)],
                x.quant,
                {
                    "filter_h": 3,
                    "filter_w": 2,
                    "stride_h": 2,
                    "stride_w": 1,
                    "padding": "SAME",
                    "activation": activation,
                },
            ),
        )
        for shape, activation in (
            ((2, 5, 3, 71), "RELU"),
            ((1, 4, 3, 32), "NONE"),
            ((1, 3, 2, 2100), "NONE"),
        )
    ]


#: Operators that move bytes.
MOVES = ("PAD", "PADV2", "CONCATENATION", "SLICE", "STRIDED_SLICE", "TRANSPOSE", "SPLIT", "GATHER")


def moves(rng: np.random.Generator, count: int) -> list[SingleOp]:
    """Return layers that move rows of any length to any address."""
    return [random_op(rng, op, "int8") for op in MOVES for _ in range(count)]


def long_pad(rng: np.random.Generator) -> SingleOp:
    """Return PAD of a long row that begins at a word."""
    x = activation_tensor(rng, "int8", (1, 60, 64))
    return finish(rng, "PAD", Draft([x, index_tensor([[0, 0], [2, 2], [0, 0]], "p")], x.quant))


def emitted_checks(layers: Sequence[Operator], cpu: Cpu, seed: int) -> list[tuple[Operator, Check]]:
    """Return a check for each emitted kernel of the layers."""
    return [
        (layer, one)
        for i, layer in enumerate(layers)
        for one in checks_of(layer, cpu, f"(layer {i} of seed {seed})")
        if one.kernel.startswith(PREFIXES)
    ]
