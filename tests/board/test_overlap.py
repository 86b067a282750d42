"""Layers on boards whose outputs lie over their inputs as far as the kernels' orders allow.

The kernels' assembly is tried where one byte more would be lost: the planner's offsets, multiples
of 16 and as convenient, are replaced by the borders of what is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from campaigns import sampled
from linear_layers import as_single, make_layer, random_layer
from single_op import SingleOp, merged, random_op

import hil
import hilc
from hil.board import load_board
from hilc.interpreter import run_all
from hilc.lowering import candidates
from hilc.lowering.choice import KernelSelection
from hilc.memory import checker as hazards
from hilc.memory import plan as planner
from hilc.memory.allocate import Block, Overlaps

#: Bytes between pairs, so that what a kernel writes beside its output hits nothing else.
_BETWEEN = 64

#: Images that are read where they lie, or channel by channel: shapes of inputs and weights, stride.
_IMAGES = (
    ("CONV_2D", (1, 12, 24, 3), (8, 3, 3, 3), 2),
    ("CONV_2D", (1, 12, 24, 3), (8, 3, 3, 3), 1),
    ("CONV_2D", (2, 9, 24, 3), (16, 3, 3, 3), 1),
    ("CONV_2D", (1, 9, 24, 3), (32, 3, 3, 3), 2),
    ("DEPTHWISE_CONV_2D", (1, 32, 48, 8), (1, 3, 3, 8), 1),
    ("DEPTHWISE_CONV_2D", (1, 32, 48, 16), (1, 3, 3, 16), 2),
    ("DEPTHWISE_CONV_2D", (1, 19, 20, 17), (1, 3, 3, 17), 1),
    ("DEPTHWISE_CONV_2D", (1, 80, 64, 2), (1, 3, 3, 2), 1),
)


def layers(rng: np.random.Generator, count: int) -> list[SingleOp]:
    found = []
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        found += [
            as_single(random_layer(rng, op, "int8", explicit_padding=True)) for _ in range(count)
        ]
    kinds = ("ADD", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SOFTMAX", "CONCATENATION")
    return found + [random_op(rng, op, "int8") for op in kinds for _ in range(count // 4)]


def images(rng: np.random.Generator) -> list[SingleOp]:
    found = []
    for op, shape, weights, stride in _IMAGES:
        attrs = {
            "stride_h": stride, "stride_w": stride, "dilation_h": 1, "dilation_w": 1,
            "padding": "SAME", "activation": "RELU",
        }  # fmt: skip
        if op == "DEPTHWISE_CONV_2D":
            attrs["depth_multiplier"] = 1
        found.append(as_single(make_layer(rng, op, "int8", shape, weights, attrs)))
    return found


class AtTheBorder:
    """Stands in for the allocator: each output just where it may lie over its input."""

    def __init__(self) -> None:
        self.shifted = self.in_place = 0

    def __call__(
        self,
        blocks: Sequence[Block],
        accesses: Sequence[int],
        limits: Sequence[int | None],
        overlaps: Overlaps,
    ) -> list[tuple[int, int]]:
        offsets = [-1] * len(blocks)
        end = 0
        for turn, ((a, b), forbidden) in enumerate(overlaps.items()):
            if offsets[a] >= 0 or offsets[b] >= 0:
                continue
            first, second = blocks[a].nbytes, blocks[b].nbytes
            borders = [d for d in (forbidden.low, forbidden.high) if -second < d < first]
            borders += [0] if forbidden.allow(0) else []
            difference = borders[turn % len(borders)] if borders else first
            self.shifted += bool(borders) and difference != 0
            self.in_place += difference == 0
            offsets[a] = end + max(0, -difference)
            offsets[b] = offsets[a] + difference
            end = max(offsets[a] + first, offsets[b] + second) + _BETWEEN
        for index, block in enumerate(blocks):
            if offsets[index] < 0:
                # Scratch starts at whole words.
                offsets[index] = -(-end // 16) * 16
                end = offsets[index] + block.nbytes + _BETWEEN
        return [(0, offset) for offset in offsets]


@pytest.mark.parametrize(
    "name", sampled(["mps2-an385", "mps2-an386", "mps3-an547"], keep=["mps3-an547"])
)
def test_outputs_over_inputs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([7, int(name[-3:])])
    any_kernel = layers(rng, 12)
    graph, values = merged([*any_kernel, *images(rng)])
    board = load_board(name)
    chosen: dict[str, str] = {}
    called: dict[str, str] = {}
    for position, node in enumerate(graph.nodes):
        calls = candidates(node, graph.ins(node), graph.outs(node), board.cpu)
        call = calls[int(rng.integers(len(calls))) if position < len(any_kernel) else 0]
        chosen[node.name] = call.variant
        told = f"{call} {node.attrs}"
        called.update(dict.fromkeys(node.outputs, told))
    place = AtTheBorder()
    monkeypatch.setattr(planner, "allocate_pools", place)
    monkeypatch.setattr(hazards, "ALIGNMENT", 1)
    library = hilc.compile(
        graph,
        cpu=board.cpu.name,
        name="layers",
        io_in_pool=True,
        choice=KernelSelection(chosen),
        fold_constant_channels=False,
    )
    assert place.shifted > 15
    assert place.in_place > 1
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["layers"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            np.testing.assert_array_equal(
                model.get_output(tensor), expected[tensor], called[tensor]
            )
