"""Layers whose weights are stored compressed, on boards: every variant of each layer."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns import sampled
from compressed_layers import every_variant, layers
from single_op import merged

import hil
import hilc
from hil.board import load_board
from hilc.interpreter import run

BOARDS = ["mps2-an386", "riscv-virt", "mps3-an547", "mps2-an385"]


@pytest.mark.parametrize("name", sampled(BOARDS, keep=["mps2-an386"]))
def test_compressed_weights_equal_the_reference(name: str) -> None:
    board = load_board(name)
    rng = np.random.default_rng(BOARDS.index(name))
    graph, values = merged(layers(rng, 2 + BOARDS.index(name)))
    expected = run(graph, values)
    libraries = [
        hilc.compile(
            graph,
            cpu=board.cpu.name,
            name=f"turn_{turn}",
            choice=choice,
            io_in_pool=True,
            pools="external",
            fold_constant_channels=False,
        )
        for turn, (choice, _) in enumerate(every_variant(graph, board.cpu))
    ]
    assert all(library.modules[0].compressed for library in libraries)
    with hil.open(board, *libraries) as device:
        for library in libraries:
            model = device[library.modules[0].name]
            for tensor, value in values.items():
                model.set_input(tensor, value)
            model.run()
            for tensor, output in expected.items():
                np.testing.assert_array_equal(model.get_output(tensor), output, tensor)
