"""The Helium kernels against the references: random layers, a hundred in one image, and corners.

Arrays start wherever the linker puts them, and what follows one is the next one's, so that a byte
written outside an array shows in the results of another layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from linear_layers import Layer, make_layer, random_layer
from single_op import merged, random_op

import hil
import hilc
from hil.board import load_board
from hilc.choice import FIRST
from hilc.interpreter import run_all
from hilc.ir import Array, Graph, Node, Tensor
from hilc.ops import families, mve

BOARD = "mps3-an547"


def side_by_side(layers: Sequence[Layer]) -> tuple[Graph, dict[str, Array]]:
    """All layers in one graph, and its inputs."""
    tensors: dict[str, Tensor] = {}
    nodes: list[Node] = []
    values: dict[str, Array] = {}
    for i, layer in enumerate(layers):
        for tensor in (*layer.ins, layer.out):
            if tensor is not None:
                tensors[f"l{i}_{tensor.name}"] = replace(
                    tensor, name=f"l{i}_{tensor.name}", data=tensor.data
                )
        values[f"l{i}_x"] = layer.x
        inputs = tuple(f"l{i}_{name}" if name else "" for name in layer.node.inputs)
        nodes.append(replace(layer.node, inputs=inputs, outputs=(f"l{i}_y",), index=i))
    outputs = tuple(node.outputs[0] for node in nodes)
    return Graph("layers", tensors, tuple(nodes), tuple(values), outputs), values


def check(graph: Graph, values: dict[str, Array], kernels: Sequence[str]) -> None:
    """The board's outputs are the interpreter's; the image has all of ``kernels``."""
    board = load_board(BOARD)
    library = hilc.compile(graph, cpu=board.cpu.name, name="layers", optimize="size", choice=FIRST)
    source = b"".join(d for n, d in library.files.items() if n.endswith("lib1.c")).decode()
    for kernel in kernels:
        assert f"{kernel}(" in source
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["layers"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for node in graph.nodes:
            tensor = node.outputs[0]
            told = f"{[graph.tensors[n] for n in node.inputs if n]} {dict(node.attrs)}"
            np.testing.assert_array_equal(model.get_output(tensor), expected[tensor], told)


def conv(padding: Any, stride: int = 1, activation: str = "NONE", **attrs: Any) -> dict[str, Any]:
    window = {"stride_h": stride, "stride_w": stride, "dilation_h": 1, "dilation_w": 1}
    return {**window, "padding": padding, "activation": activation, **attrs}


def depthwise(stride: int = 1, activation: str = "RELU") -> dict[str, Any]:
    return conv("SAME", stride, activation, depth_multiplier=1)


#: Depths of one chunk of 16 and of many, with a rest and without; columns and rows that are no
#: multiple of a block; layers of one pixel and of one channel; bands of several sizes.
CORNERS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
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
    ("DEPTHWISE_CONV_2D", (2, 7, 9, 3), (1, 2, 3, 3), depthwise(1, "RELU6")),
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
PIXELS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
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

SMALL_DEPTHWISE: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = tuple(
    ("DEPTHWISE_CONV_2D", (1, *image, channels), (1, 3, 3, channels), depthwise(stride, act))
    for image, channels, stride in (
        ((1, 1), 3, 1), ((2, 3), 2, 2), ((25, 5), 9, 1), ((4, 48), 3, 2), ((5, 26), 2, 1),
        ((6, 6), 17, 1), ((3, 40), 2, 2), ((7, 1), 8, 1), ((1, 9), 5, 1), ((9, 13), 4, 2),
    )
    for act in ("RELU", "NONE")
)  # fmt: skip


def test_pixels():
    rng = np.random.default_rng(24)
    layers = [make_layer(rng, op, "int8", x, w, attrs) for op, x, w, attrs in PIXELS]
    kernels = ("pixels_s8", "points_s8", "strips_s8", "conv2d_3x3_s8", "conv2d_rgb_s8")
    check(*side_by_side(layers), [f"hil_{kernel}_mve" for kernel in kernels])


def test_other_ways(monkeypatch):
    """The kernels that are taken where the quickest do not fit, or need too much memory."""
    rng = np.random.default_rng(25)
    layers = [make_layer(rng, op, "int8", x, w, attrs) for op, x, w, attrs in PIXELS[:40:2]]
    with monkeypatch.context() as staged:
        second = ((mve.serves, lambda *layer: mve.matmul(*layer)[1:2]),)
        staged.setattr(families, "_MATMUL", second)
        check(*side_by_side(layers), ("hil_pixels_s8_mve",))
    monkeypatch.setattr(mve, "_DEEPEST", 0)
    sides = side_by_side(layers)
    check(*sides, ("hil_matmul_s8_mve", "hil_conv2d_s8_mve"))
    tiles = [make_layer(rng, op, "int8", x, w, attrs) for op, x, w, attrs in SMALL_DEPTHWISE]
    monkeypatch.setattr(mve, "_scaled_sum", lambda *_: None)
    sums = merged([random_op(rng, op, "int8") for op in ("ADD", "SUB") for _ in range(20)])
    check(*sums, ("hil_sum_s8_mve",))
    for planes in ((4, 896), (2, 448), (1, 112)):
        monkeypatch.setattr(mve, "_PLANES", (planes,))
        check(*side_by_side(tiles), ("hil_depthwise_conv2d_s8_mve",))


def test_corners():
    rng = np.random.default_rng(21)
    layers = [make_layer(rng, op, "int8", x, w, attrs) for op, x, w, attrs in CORNERS]
    kernels = ("pixels_s8", "matmul_s8", "vector_s8", "conv2d_s8", "depthwise_conv2d_s8")
    check(*side_by_side(layers), [f"hil_{kernel}_mve" for kernel in kernels])


def test_random_layers():
    rng = np.random.default_rng(22)
    ops = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    layers = [random_layer(rng, op, "int8", explicit_padding=True) for op in ops for _ in range(60)]
    check(*side_by_side(layers), ("hil_strips_s8_mve", "hil_depthwise_conv2d_s8_mve"))


def test_random_sums_and_averages():
    rng = np.random.default_rng(23)
    ops = ("ADD", "SUB", "AVERAGE_POOL_2D")
    graph, values = merged([random_op(rng, op, "int8") for op in ops for _ in range(40)])
    check(graph, values, ("hil_scaled_sum_s8_mve", "hil_average_pool_s8_mve"))
