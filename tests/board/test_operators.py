"""Every operator but the linear layers in one model, on a core with and one without Helium."""

from __future__ import annotations

import numpy as np
import pytest
from single_op import KINDS, merged, random_op

import hil
import hilc
from hil.board import load_board
from hilc.interpreter import run_all

#: What a float32 result may differ by: the C library is another one.
RELATIVE = 1e-5


@pytest.mark.parametrize("name", ["mps2-an385", "mps3-an547", "riscv-virt"])
def test_all_operators_on_a_board(name):
    rng = np.random.default_rng(5)
    graph, values = merged(
        [random_op(rng, *kind) for kind in KINDS if kind[1] in ("int8", "float32")]
    )
    board = load_board(name)
    library = hilc.compile(
        graph, cpu=board.cpu.name, name="operators", pools="external", io_in_pool=True
    )
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["operators"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            result = model.get_output(tensor)
            if result.dtype == np.float32:
                np.testing.assert_allclose(
                    result, expected[tensor], RELATIVE, 1e-30, err_msg=tensor
                )
            else:
                np.testing.assert_array_equal(result, expected[tensor], err_msg=tensor)
