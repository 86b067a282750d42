"""Streaming groups on boards: many random chains in one image, each group of another shape."""

from __future__ import annotations

import numpy as np
import pytest
from row_chains import random_chains

import hil
import hilc
from hil.board import load_board
from hilc.fusion.bands import NotFusible
from hilc.fusion.fused import GroupCalls
from hilc.interpreter import run
from hilc.lowering.choice import Choice


@pytest.mark.parametrize("name", ["mps2-an386", "mps3-an547"])
def test_groups_on_a_board(name):
    chains = random_chains(11, 14, largest=10, channels=18)
    board = load_board(name)
    streams = GroupCalls(chains.graph, board.cpu)
    groups = []
    for group in chains.choice.groups:
        try:
            streams.call(group)
        except NotFusible:
            continue
        groups.append(group)
    assert len(groups) > 8
    library = hilc.compile(
        chains.graph,
        cpu=board.cpu.name,
        name="chains",
        choice=Choice(groups=tuple(groups)),
        io_in_pool=True,
        fold_constant_channels=False,
    )
    expected = run(chains.graph, chains.inputs)
    with hil.open(board, library) as device:
        model = device["chains"]
        for tensor, value in chains.inputs.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in chains.graph.outputs:
            np.testing.assert_array_equal(
                model.get_output(tensor), expected[tensor], err_msg=tensor
            )
