"""The memory plan: small, safe for any graph, and checked by a replay that finds every fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import models
import numpy as np
import pytest
from random_graphs import GraphBuilder, random_graph

from hilc import interpreter
from hilc.cpu import get_cpu
from hilc.importer import load_model
from hilc.ir import Array, Graph
from hilc.ops import OPS
from hilc.passes import run_passes
from hilc.plan import Place, PlanError, Program, check_plan, plan

HOST = get_cpu("host")


def _inputs(graph: Graph, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def _execute(program: Program, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs when every step reads and writes where the plan says, scratch being garbage."""
    graph = program.graph
    pool = np.full(program.workspace_bytes, 0xA5, np.uint8)
    borders = [Place("input", i) for i in range(len(graph.inputs))]
    borders += [Place("output", i) for i in range(len(graph.outputs))]
    buffers = {
        place: np.full(graph.tensors[name].nbytes, 0xA5, np.uint8)
        for place, name in zip(borders, graph.inputs + graph.outputs, strict=True)
    }

    def memory(place: Place, nbytes: int) -> Array:
        if place.kind == "pool":
            return pool[place.value : place.value + nbytes]
        return buffers[place][:nbytes]

    def load(name: str) -> Array:
        tensor = graph.tensors[name]
        if tensor.data is not None:
            return tensor.data
        data = memory(program.places[name], tensor.nbytes).copy()
        return data.view(tensor.dtype).reshape(tensor.shape)

    for name, value in inputs.items():
        memory(program.places[name], value.nbytes)[:] = value.reshape(-1).view(np.uint8)
    for step in program.steps:
        node = step.node
        values = [load(name) if name else None for name in node.inputs]
        results = OPS[node.op].reference(node, graph.ins(node), graph.outs(node), values)
        if step.scratch is not None:
            memory(step.scratch, step.call.scratch_bytes)[:] = 0xA5
        for name, result in zip(node.outputs, results, strict=True):
            data = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
            memory(program.places[name], result.nbytes)[:] = data
    if not program.io_in_pool:
        for i, name in enumerate(graph.inputs):
            assert bytes(buffers[Place("input", i)]) == inputs[name].tobytes(), "input written to"
    return [load(name) for name in graph.outputs]


def _require_right(graph: Graph, program: Program) -> None:
    inputs = _inputs(graph)
    expected = interpreter.run(graph, inputs)
    for name, got in zip(graph.outputs, _execute(program, inputs), strict=True):
        np.testing.assert_array_equal(got, expected[name], err_msg=name)


@pytest.mark.parametrize("io_in_pool", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_compute_what_the_interpreter_does(seed: int, io_in_pool: bool) -> None:
    graph = random_graph(seed)
    program = plan(graph, HOST, io_in_pool=io_in_pool)
    assert program.output_names == graph.outputs
    assert program.workspace_bytes >= program.workspace_bound_bytes
    _require_right(graph, program)


# memory.md's optimum for whole tensors, and the scratch of the layer that sets the peak.
@pytest.mark.parametrize(
    ("model", "whole_tensors_bytes"),
    [("ad", 768), ("kws", 16_000), ("ic", 49_152), ("vww", 55_296)],
)
def test_benchmark_models_reach_the_optimum(model: str, whole_tensors_bytes: int) -> None:
    graph = run_passes(load_model(models.model_path(model)))
    program = plan(graph, HOST, io_in_pool=True)
    scratch = max(step.call.scratch_bytes for step in program.steps)
    assert program.workspace_bytes == program.workspace_bound_bytes
    assert whole_tensors_bytes <= program.workspace_bytes <= whole_tensors_bytes + scratch


# Inputs and outputs -----------------------------------------------------------------------------


@pytest.mark.parametrize("io_in_pool", [True, False])
def test_an_input_may_be_an_output(io_in_pool: bool) -> None:
    b = GraphBuilder()
    x = b.input(1, 40)
    y = b.relu(b.relu(x))
    graph = b.graph(x, y)
    program = plan(graph, HOST, io_in_pool=io_in_pool)
    _require_right(graph, program)
    # In the pool it is there already; the caller's buffers are two.
    assert len(program.steps) == (2 if io_in_pool else 3)


@pytest.mark.parametrize("io_in_pool", [True, False])
def test_a_constant_may_be_an_output(io_in_pool: bool) -> None:
    b = GraphBuilder()
    x, c = b.input(1, 8), b.constant(1, 40)
    graph = b.graph(c, b.relu(x))
    _require_right(graph, plan(graph, HOST, io_in_pool=io_in_pool))


@pytest.mark.parametrize("io_in_pool", [True, False])
def test_an_output_may_be_named_twice_and_read_again(io_in_pool: bool) -> None:
    b = GraphBuilder()
    y = b.relu(b.input(1, 40))
    z = b.add(b.add(y, y), y)
    graph = b.graph(y, z, y)
    program = plan(graph, HOST, io_in_pool=io_in_pool)
    _require_right(graph, program)
    places = [program.places[name] for name in program.graph.outputs]
    assert (places[0] == places[2]) is io_in_pool


def test_an_input_that_nobody_reads_is_the_callers_all_the_same() -> None:
    b = GraphBuilder()
    unused, x = b.input(1, 1000), b.input(1, 40)
    graph = b.graph(b.relu(x))
    program = plan(graph, HOST, io_in_pool=True)
    assert program.places[unused].kind == "pool"
    assert program.workspace_bytes >= 1040
    assert plan(graph, HOST).workspace_bytes == 0


def test_outputs_are_computed_in_the_callers_buffers() -> None:
    b = GraphBuilder()
    y = b.relu(b.input(1, 40))
    z = b.relu(y)
    program = plan(b.graph(y, z), HOST)
    assert (program.places[y], program.places[z]) == (Place("output", 0), Place("output", 1))
    assert program.workspace_bytes == 0


# Views and in-place kernels ---------------------------------------------------------------------


@pytest.mark.parametrize("io_in_pool", [True, False])
def test_a_view_between_kernels_costs_nothing(io_in_pool: bool) -> None:
    b = GraphBuilder()
    y = b.conv(b.input(1, 4, 4, 2), 4)
    v = b.reshape(y, 1, 64)
    z = b.concat(v, v)
    program = plan(b.graph(z), HOST, io_in_pool=io_in_pool)
    assert [step.node.op for step in program.steps] == ["CONV_2D", "CONCATENATION"]
    assert program.places[y] == program.places[v]


def test_a_view_from_one_callers_buffer_to_another_copies() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    graph = b.graph(b.reshape(x, 1, 32))
    program = plan(graph, HOST)
    assert [step.node.op for step in program.steps] == ["RESHAPE"]
    _require_right(graph, program)
    # With the outputs in the pool the input may stay where it is.
    assert plan(graph, HOST, io_in_pool=True).steps == ()


def test_a_tensor_and_its_view_may_both_be_outputs() -> None:
    b = GraphBuilder()
    y = b.relu(b.input(1, 4, 4, 2))
    v = b.reshape(y, 1, 32)
    graph = b.graph(v, y)
    program = plan(graph, HOST)
    assert [step.node.op for step in program.steps] == ["RELU", "RESHAPE"]
    _require_right(graph, program)


def test_an_elementwise_kernel_takes_the_place_of_what_dies() -> None:
    b = GraphBuilder()
    x = b.input(1, 100)
    y = x
    for _ in range(5):
        y = b.relu(y)
    program = plan(b.graph(y), HOST, io_in_pool=True)
    assert program.workspace_bytes == 112


def test_an_operand_that_is_read_again_keeps_its_bytes() -> None:
    b = GraphBuilder()
    x = b.input(1, 100)
    y = b.relu(x)
    graph = b.graph(b.add(y, x))
    program = plan(graph, HOST, io_in_pool=True)
    assert program.places[x] != program.places[y]
    assert program.workspace_bytes == 2 * 112


def test_a_view_that_is_read_again_keeps_the_bytes_of_what_it_views() -> None:
    b = GraphBuilder()
    x = b.input(1, 2, 2, 25)
    v = b.reshape(x, 1, 100)
    y = b.relu(x)
    program = plan(b.graph(y, b.relu(v)), HOST, io_in_pool=True)
    assert program.places[x] == program.places[v] != program.places[y]


def test_a_kernel_without_an_order_never_works_in_place() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 4)
    y = b.conv(x, 4)
    program = plan(b.graph(y), HOST, io_in_pool=True)
    assert program.places[x] != program.places[y]


# The checker ------------------------------------------------------------------------------------


def _two_steps() -> Program:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 4)
    y = b.conv(x, 4)
    z = b.conv(y, 4)
    return plan(b.graph(z, name="n"), HOST, io_in_pool=True)


def _move(program: Program, name: str, place: Place) -> Program:
    return replace(program, places={**program.places, name: place})


def test_the_checker_names_what_was_overwritten() -> None:
    program = _two_steps()
    x, y, z = program.graph.inputs[0], program.steps[0].outputs[0], program.steps[1].outputs[0]
    with pytest.raises(PlanError, match=f"'{y}' writes '{y}' over its input '{x}'"):
        check_plan(_move(program, y, program.places[x]))
    with pytest.raises(PlanError, match=f"'{z}' writes '{z}' over its input '{y}'"):
        check_plan(_move(program, z, program.places[y]))
    with pytest.raises(PlanError, match=r"lies at 8 of"):
        check_plan(_move(program, y, Place("pool", 8)))
    with pytest.raises(PlanError, match=r"\(64 bytes\) lies at"):
        check_plan(_move(program, y, Place("pool", program.workspace_bytes)))
    with pytest.raises(PlanError, match="the model's output"):
        check_plan(_move(program, z, Place("output", 0)))


def test_the_checker_watches_the_scratch() -> None:
    program = _two_steps()
    first, second = program.steps
    assert first.scratch is not None
    for place in (program.places[first.inputs[0]], program.places[first.outputs[0]]):
        steps = (replace(first, scratch=place), second)
        with pytest.raises(PlanError, match="scratch"):
            check_plan(replace(program, steps=steps))


def test_the_checker_misses_no_step() -> None:
    program = _two_steps()
    with pytest.raises(PlanError, match="nothing computes"):
        check_plan(replace(program, steps=program.steps[1:]))


def test_a_damaged_plan_that_passes_the_checker_still_computes_right() -> None:
    """No false acquittal: thousands of plans with one place moved, executed."""
    caught = passed = 0
    for seed in range(120):
        graph = random_graph(seed)
        program = plan(graph, HOST, io_in_pool=bool(seed % 2))
        rng = np.random.default_rng(seed)
        pooled = [name for name, place in program.places.items() if place.kind == "pool"]
        for name in pooled:
            offset = 16 * int(rng.integers(0, program.workspace_bytes // 16 + 1))
            damaged = _move(program, name, Place("pool", offset))
            try:
                check_plan(damaged)
            except PlanError:
                caught += 1
                continue
            passed += 1
            _require_right(graph, damaged)
    assert caught > 100
    assert passed > 20
