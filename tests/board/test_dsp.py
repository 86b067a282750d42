"""The kernels for cores that multiply pairs of half-words, on such cores: many layers in one image.

The host runs their portable twins (``tests/c/test_dsp_kernels.py``); what is assembly runs here.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_layers import DSP, case_layers, extreme_layers
from linear_layers import as_single, random_layer
from single_op import SingleOp, merged, random_op

import hil
import hilc
from hil.board import load_board
from hilc.choice import Choice
from hilc.interpreter import run_all
from hilc.ops import OPS


def layers(rng: np.random.Generator) -> list[SingleOp]:
    found = [layer for layer, _ in case_layers(rng, DSP, 1)] + extreme_layers(rng, 3)
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        found += [random_layer(rng, op, "int8", explicit_padding=True) for _ in range(6)]
    return [as_single(layer) for layer in found] + [random_op(rng, "ADD", "int8") for _ in range(6)]


@pytest.mark.parametrize(
    ("name", "optimize", "kernel"),
    [
        ("mps2-an386", "balanced", 0),
        ("mps2-an505", "balanced", 1),
        ("mps2-an386", "speed", -1),
    ],
)
def test_layers_on_a_board(name, optimize, kernel):
    """Each with its first kernel, with one of the others where it has a choice, or the last one."""
    graph, values = merged(layers(np.random.default_rng([21, len(optimize)])))
    board = load_board(name)
    kernels = {}
    for turn, node in enumerate(graph.nodes):
        count = len(OPS[node.op].emit(node, graph.ins(node), graph.outs(node), board.cpu))
        others = {0: 0, 1: 1 + turn % max(count - 1, 1), -1: count - 1}
        kernels[node.name] = others[kernel] if count > 1 else 0
    library = hilc.compile(
        graph,
        cpu=board.cpu.name,
        name="operators",
        pools="external",
        io_in_pool=True,
        optimize=optimize,
        choice=Choice(kernels),
    )
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["operators"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            np.testing.assert_array_equal(model.get_output(tensor), expected[tensor], tensor)
