"""The kernels for Armv7-M on such a core: many layers in one image, each of their kernels.

The host runs their portable twins (``tests/c/test_v7m_kernels.py``); what is assembly runs here.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_layers import V7M, candidates, case_layers, limit_layers
from linear_layers import Layer, random_layer
from single_op import SingleOp, merged

import hil
import hilc
from hil.board import load_board
from hilc.choice import Choice
from hilc.interpreter import run_all


def as_single(layer: Layer) -> SingleOp:
    """The layer as :func:`merged` takes it."""
    ins = tuple(t for t in layer.ins if t is not None)
    names = tuple(t.name for t in ins)
    node = type(layer.node)(layer.node.op, names, layer.node.outputs, layer.node.attrs)
    values = (layer.x, *(t.data for t in ins[1:] if t.data is not None))
    return SingleOp(node, ins, (layer.out,), values)


def layers(rng: np.random.Generator) -> list[Layer]:
    found = [layer for layer, _ in case_layers(rng, V7M, 1)] + limit_layers(rng)[::4]
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        found += [random_layer(rng, op, "int8", explicit_padding=True) for _ in range(6)]
    return [layer for layer in found if candidates(layer, V7M)]


@pytest.mark.parametrize(("position", "optimize"), [(0, "speed"), (1, "size")])
def test_layers_on_a_board(position, optimize):
    """``position`` among a layer's kernels: the fastest, or the one after it."""
    found = layers(np.random.default_rng([41, position]))
    graph, values = merged([as_single(layer) for layer in found])
    chosen = {
        node.name: min(position, len(candidates(layer, V7M)) - 1)
        for node, layer in zip(graph.nodes, found, strict=True)
    }
    board = load_board("mps2-an385")
    library = hilc.compile(
        graph,
        cpu=board.cpu.name,
        name="operators",
        pools="external",
        io_in_pool=True,
        optimize=optimize,
        choice=Choice(chosen),
    )
    source = library.files["codegen/host/src/operators_lib1.c"].decode()
    for layer, choice in zip(found, chosen.values(), strict=True):
        assert candidates(layer, V7M)[choice].kernel.name in source
    expected = run_all(graph, values)
    with hil.open(board, library) as device:
        model = device["operators"]
        for tensor, value in values.items():
            model.set_input(tensor, value)
        model.run()
        for tensor in graph.outputs:
            np.testing.assert_array_equal(model.get_output(tensor), expected[tensor], tensor)
