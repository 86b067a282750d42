"""Inputs and outputs where the caller wants them, and inputs that a run leaves as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from random_graphs import random_graph
from small_models import convolutions, moves

import hilc
from hilc import host
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.memory.allocate import Block, allocate, allocate_pools, lower_bound, pool_bytes
from hilc.memory.checker import execute_plan
from hilc.memory.plan import plan
from hilc.memory.pools import Pin, PoolSpec
from hilc.memory.program import Program
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")
POOLS = (PoolSpec("fast", 512), PoolSpec("slow"))


def planned(graph: Graph, **options: Any) -> Program:
    return plan(graph, CPU, io_in_pool=True, **options)


def some_input(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def test_blocks_lie_around_those_that_are_pinned():
    blocks = [Block(100, 0, 1, 64), Block(50, 0, 0), Block(40, 1, 2), Block(64, 2, 2, 0)]
    offsets = allocate(blocks)
    assert (offsets[0], offsets[3]) == (64, 0)
    assert offsets[1] == 0
    assert offsets[2] == 176, "64 bytes from 0 on and 100 from 64 on are taken"
    assert pool_bytes(blocks, offsets) == lower_bound(blocks) + 40 + 12


def test_a_block_fits_exactly_below_one_that_is_pinned():
    blocks = [Block(64, 0, 1, 128), Block(128, 0, 1)]
    assert allocate(blocks) == (128, 0)


def test_a_pinned_block_keeps_its_pool():
    blocks = [Block(64, 0, 1, 32, 1), Block(64, 0, 1), Block(64, 1, 1)]
    assert allocate_pools(blocks, [900, 1, 1], [4096, 4096]) == [(1, 32), (0, 0), (0, 64)]
    assert allocate_pools(blocks, [900, 1, 1], [None, None]) == [(1, 32), (0, 0), (0, 64)]
    assert allocate_pools(blocks, [1, 1, 1], [4096, 64]) is None


def test_an_exchange_leaves_each_block_in_one_pool():
    """The block that is accessed the most comes last, by its size, and goes to the best pool."""
    blocks = [Block(80, 0, 1), Block(80, 0, 1), Block(128, 0, 1)]
    assert allocate_pools(blocks, [200, 190, 210], [128, 128, None]) == [(2, 0), (1, 0), (0, 0)]


def test_each_pin_is_compared_with_all_others():
    """Also behind one that has a pool for itself."""
    graph = load_model(moves(), "m")
    pins = {"x": Pin(0, 1), "z": Pin(0), graph.outputs[0]: Pin(16)}
    with pytest.raises(InputError, match="pinned to overlapping bytes"):
        planned(graph, pins=pins, keep_inputs=True, memory=POOLS)


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_are_computed_around_pins(seed):
    rng = np.random.default_rng([31, seed])
    graph = random_graph(3100 + seed)
    free = planned(graph)
    names = [*graph.inputs, *graph.outputs]
    chosen = names[int(rng.integers(len(names)))]
    offset = 16 * int(rng.integers(free.workspace_bytes // 16 + 4))
    program = planned(graph, pins={chosen: Pin(offset)}, keep_inputs=bool(seed % 2))
    border = [*program.graph.inputs, *program.graph.outputs]
    assert program.buffers[border[names.index(chosen)]].value == offset
    values = some_input(graph, seed)
    expected = run(graph, values)
    results = execute_plan(program, values)
    for name, planned_name in zip(graph.outputs, program.graph.outputs, strict=True):
        np.testing.assert_array_equal(results[planned_name], expected[name])


@cases("model", [convolutions, moves], first=1)
def test_kept_inputs_are_there_after_a_run(model):
    library = hilc.compile(model(), cpu="host", name="m", io_in_pool=True, keep_inputs=True)
    graph = load_model(model(), "m")
    values = some_input(graph)
    expected = run(graph, values)
    with host.load(library) as loaded:
        for name, value in values.items():
            loaded.set_input(name, value)
        for _ in range(3):
            loaded.run()
            for index, name in enumerate(graph.outputs):
                np.testing.assert_array_equal(loaded.get_output(index), expected[name])
    header = next(d for n, d in library.files.items() if n.endswith("tvmgen_m.h")).decode()
    assert "leaves them as they are" in header
    assert "destroys" not in header


def test_pins_are_in_the_code():
    library = hilc.compile(
        convolutions(), cpu="host", name="m", io_in_pool=True, pins={"x": Pin(64), "y": Pin(0)}
    )
    (module,) = library.modules
    assert [tensor.offset for tensor in module.inputs + module.outputs] == [64, 0]


def test_a_pin_in_another_pool():
    graph = load_model(convolutions(), "m")
    program = planned(graph, memory=POOLS, pins={"x": Pin(256, 1)})
    ref = program.buffers["x"]
    assert (ref.pool, ref.value) == (1, 256)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pins": {"x": Pin(8)}}, "give a multiple of 16"),
        ({"pins": {"x": Pin(-16)}}, "give a multiple of 16"),
        ({"pins": {"p": Pin(0)}}, "not an input or output of 'm'"),
        ({"pins": {"x": Pin(0, 1)}}, "there are 1"),
        ({"pins": {"x": Pin(0)}, "memory": (PoolSpec("ram", 128),)}, "does not fit"),
        ({"pins": {"x": Pin(0)}, "io_in_pool": False}, "in the caller's buffers"),
        ({"keep_inputs": True, "io_in_pool": False}, "in the caller's buffers"),
        (
            {"pins": {"x": Pin(0), "y": Pin(16)}, "keep_inputs": True},
            "pinned to overlapping bytes",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: Mapping[str, Any], message):
    graph = load_model(convolutions(), "m")
    with pytest.raises(InputError) as caught:
        plan(graph, CPU, **{"io_in_pool": True, **options})
    assert message in f"{caught.value} {caught.value.hint}"
