"""The kernels that are small rather than fast, on a core that has the instructions they use."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_layers import DSP, case_layers, extreme_layers
from linear_layers import as_single, random_layer
from single_op import merged

import hil
import hilc
from hil.board import load_board
from hilc.choice import Choice
from hilc.interpreter import run_all
from hilc.kernels import KernelCall
from hilc.ops import OPS


@pytest.mark.parametrize("name", ["mps2-an386", "mps2-an385"])
def test_layers_on_a_board(name: str) -> None:
    rng = np.random.default_rng(41)
    layers = [layer for layer, _ in case_layers(rng, DSP, 1)] + extreme_layers(rng, 3)
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        layers += [random_layer(rng, op, "int8", explicit_padding=True) for _ in range(12)]
    graph, values = merged([as_single(layer) for layer in layers])
    board = load_board(name)
    chosen: dict[str, int] = {}
    for node in graph.nodes:
        calls = OPS[node.op].emit(node, graph.ins(node), graph.outs(node), board.cpu)
        for position, call in enumerate(calls):
            if isinstance(call, KernelCall) and "compact" in call.kernel.name:
                chosen[node.name] = position
    assert len(chosen) > 0.9 * len(layers)
    library = hilc.compile(
        graph,
        cpu=board.cpu.name,
        name="operators",
        pools="external",
        io_in_pool=True,
        optimize="size",
        choice=Choice(chosen),
    )
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["operators"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            np.testing.assert_array_equal(model.get_output(tensor), expected[tensor], tensor)
