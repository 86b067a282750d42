"""Streaming groups on boards: many random chains in one image, each group of another shape."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import sampled
from row_chains import random_chains

import hil
import hilc
from hil.board import load_board
from hilc.fusion.bands import NotFusible
from hilc.fusion.fused import GroupCalls
from hilc.interpreter import run
from hilc.lowering.choice import KernelSelection
from hilc.transforms.float_sums import with_float_sums

BOARDS = ("mps2-an386", "mps3-an547")


@pytest.mark.parametrize(
    ("name", "dtype", "seed"),
    sampled(
        [
            (name, dtype, seed)
            for name in BOARDS
            for dtype, seeds in {
                "int8": (11, *range(40, 46)),
                "int16": (13, *range(46, 50)),
                "float32": (12, *range(50, 54)),
            }.items()
            for seed in seeds
        ],
        # The second has a group of which GCC left out a stage.
        keep=[("mps3-an547", "int8", 11), ("mps2-an386", "int16", 46)],
    ),
)
def test_groups_on_a_board(name: str, dtype: str, seed: int) -> None:
    chains = random_chains(seed, 14, dtype, largest=10, channels=18)
    board = load_board(name)
    graph = with_float_sums(chains.graph, board.cpu)
    streams = GroupCalls(graph, board.cpu)
    groups = []
    for group in chains.choice.groups:
        try:
            streams.call(group)
        except NotFusible:
            continue
        groups.append(group)
    assert len(groups) > 8
    library = hilc.compile(
        graph,
        cpu=board.cpu.name,
        name="chains",
        choice=KernelSelection(groups=tuple(groups)),
        io_in_pool=True,
        fold_constant_channels=False,
    )
    expected = run(graph, chains.inputs)
    with hil.open(board, library) as device:
        model = device["chains"]
        for tensor, value in chains.inputs.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            found = model.get_output(tensor)
            np.testing.assert_array_equal(found, expected[tensor], err_msg=tensor)
