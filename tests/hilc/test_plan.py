"""The memory plan: small, safe for any graph, and checked by a replay that finds every fault."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import models
import numpy as np
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder, random_graph

import hilc
from hilc import interpreter
from hilc.artifact.library import Pool
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.ir import Array, Graph
from hilc.lowering.access import ForbiddenInterval, forbidden_interval
from hilc.memory.allocate import align
from hilc.memory.checker import execute_plan
from hilc.memory.plan import (
    BufferRef,
    PlanError,
    Planner,
    PoolSpec,
    Program,
    _extend_buffers,
    check_plan,
    plan,
)
from hilc.target import get_cpu
from hilc.transforms import run_passes

HOST = get_cpu("host")


def _inputs(graph: Graph, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def _require_right(graph: Graph, program: Program) -> None:
    inputs = _inputs(graph)
    expected = interpreter.run(graph, inputs)
    got = execute_plan(program, inputs)
    for name, ref in zip(graph.outputs, program.graph.outputs, strict=True):
        np.testing.assert_array_equal(got[ref], expected[name], err_msg=name)


@pytest.mark.parametrize("io_in_pool", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_equal_the_interpreter(seed: int, io_in_pool: bool) -> None:
    graph = random_graph(seed)
    program = plan(graph, HOST, io_in_pool=io_in_pool)
    assert program.output_names == graph.outputs
    assert program.workspace_bytes >= program.workspace_bound_bytes
    _require_right(graph, program)


def _overlapping(program: Program) -> list[tuple[int, str, str]]:
    """Step, input and output of every pair that shares bytes."""
    tensors, refs = program.graph.tensors, program.buffers
    found = []
    for index, step in enumerate(program.steps):
        for name in set(step.inputs):
            for output in step.outputs:
                a, b = refs[name], refs[output]
                below, above = a.value + tensors[name].nbytes, b.value + tensors[output].nbytes
                pooled = a.kind == b.kind == "pool" and a.pool == b.pool
                if pooled and a.value < above and b.value < below:
                    found.append((index, name, output))
    return found


@cases("cpu", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"], first=1)
def test_plans_of_every_family_of_kernels(cpu: str) -> None:
    """Executed in the declared order of the kernels that the core has."""
    shifted = set()
    for seed in range(314, 326):
        graph = random_graph(seed)
        program = plan(graph, get_cpu(cpu), io_in_pool=True)
        _require_right(graph, program)
        for step, name, output in _overlapping(program):
            if program.buffers[name].value != program.buffers[output].value:
                shifted.add(program.steps[step].node.op)
    # Not just in place.
    assert {"CONV_2D", "CONCATENATION"} <= shifted


@pytest.mark.full
def test_outputs_overlap_where_they_just_may() -> None:
    """Any further over its input, and the checker finds the byte that is lost."""
    caught = set()
    for seed in range(60):
        program = plan(random_graph(seed), HOST, io_in_pool=True)
        for index, name, output in _overlapping(program):
            step = program.steps[index]
            tensors = program.graph.tensors
            access = step.call.access(
                [tensors[n] for n in step.inputs], [tensors[n] for n in step.outputs]
            )
            assert access is not None
            position, which = step.inputs.index(name), step.outputs.index(output)
            forbidden = forbidden_interval(access, position, which)
            assert forbidden.allow(program.buffers[output].value - program.buffers[name].value)
            low = program.buffers[name].value + forbidden.low // 16 * 16 + 16
            if low < 0 or low + tensors[output].nbytes > program.pools[0].nbytes:
                continue
            d = low - program.buffers[name].value
            first = access.first_write[which][max(0, -d) :]
            last = access.last_read[position][max(0, d) :]
            both = min(first.size, last.size)
            # Between forbidden differences there may be one that is not, which no plan uses.
            if (first[:both] >= last[:both]).all():
                continue
            with pytest.raises(PlanError, match="writes|reads"):
                check_plan(_move(program, output, BufferRef("pool", low)))
            caught.add(step.node.op)
    assert {"CONV_2D", "DEPTHWISE_CONV_2D"} <= caught


# memory.md's optimum with overlap is 768, 8,384, 33,296 and 36,864 without scratch. The portable
# depthwise convolution goes on from row to row, so that kws sinks by six pixels in each of four.
@pytest.mark.parametrize(
    ("model", "tensors_bytes"),
    [("ad", 768), ("kws", 8000 + 4 * 384 + 944), ("ic", 33_296), ("vww", 36_864)],
)
def test_benchmark_models_reach_the_optimum(model: str, tensors_bytes: int) -> None:
    graph = run_passes(load_model(models.model_path(model)))
    program = plan(graph, HOST, io_in_pool=True)
    scratch = max(step.call.scratch_bytes for step in program.steps)
    assert program.workspace_bound_bytes <= program.workspace_bytes <= tensors_bytes + scratch


@pytest.mark.parametrize(
    ("model", "cpu"),
    sampled(
        [("ad", "cortex-m4"), ("kws", "cortex-m55"), ("ic", "cortex-m4"), ("vww", "cortex-m55")],
        keep=[("ad", "cortex-m4"), ("kws", "cortex-m55")],
    ),
)
def test_a_small_program_is_found_by_few_plans(
    model: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand groups that may run row by row, on the core for which most are laid out."""
    planned: list[object] = []
    plan_one = Planner.plan

    def counted(self: Planner, choice):
        planned.append(choice)
        return plan_one(self, choice)

    monkeypatch.setattr(Planner, "plan", counted)
    hilc.compile(models.model_path(model), cpu=cpu, optimize="ram", io_in_pool=True)
    assert 1 < len(planned) < 30


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
    refs = [program.buffers[name] for name in program.graph.outputs]
    assert (refs[0] == refs[2]) is io_in_pool


def test_an_unread_input_is_the_callers() -> None:
    b = GraphBuilder()
    unused, x = b.input(1, 1000), b.input(1, 40)
    graph = b.graph(b.relu(x))
    program = plan(graph, HOST, io_in_pool=True)
    assert program.buffers[unused].kind == "pool"
    assert program.workspace_bytes >= 1040
    assert plan(graph, HOST).workspace_bytes == 0


def test_outputs_are_computed_in_the_callers_buffers() -> None:
    b = GraphBuilder()
    y = b.relu(b.input(1, 40))
    z = b.relu(y)
    program = plan(b.graph(y, z), HOST)
    assert (program.buffers[y], program.buffers[z]) == (
        BufferRef("output", 0),
        BufferRef("output", 1),
    )
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
    assert program.buffers[y] == program.buffers[v]


def test_a_view_between_callers_buffers_copies() -> None:
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


def test_an_elementwise_kernel_reuses_dead_bytes() -> None:
    b = GraphBuilder()
    x = b.input(1, 100)
    y = x
    for _ in range(5):
        y = b.relu(y)
    program = plan(b.graph(y), HOST, io_in_pool=True)
    assert program.workspace_bytes == 112


def test_steps_in_place_work_in_the_callers_output() -> None:
    b = GraphBuilder()
    y = b.relu(b.input(1, 100))
    z = b.relu(b.relu(y))
    graph = b.graph(z)
    program = plan(graph, HOST)
    assert program.buffers[y] == program.buffers[z] == BufferRef("output", 0)
    assert program.workspace_bytes == 0
    _require_right(graph, program)


def test_an_operand_that_is_read_again_keeps_its_bytes() -> None:
    b = GraphBuilder()
    x = b.input(1, 100)
    y = b.relu(x)
    graph = b.graph(b.add(y, x))
    program = plan(graph, HOST, io_in_pool=True)
    assert program.buffers[x] != program.buffers[y]
    assert program.workspace_bytes == 2 * 112


def test_a_view_that_is_read_again_keeps_bytes() -> None:
    b = GraphBuilder()
    x = b.input(1, 2, 2, 25)
    v = b.reshape(x, 1, 100)
    y = b.relu(x)
    program = plan(b.graph(y, b.relu(v)), HOST, io_in_pool=True)
    assert program.buffers[x] == program.buffers[v] != program.buffers[y]


def test_a_kernel_without_an_order_is_not_in_place() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 4)
    y = b.conv(x, 4)
    program = plan(b.graph(y), HOST, io_in_pool=True)
    assert program.buffers[x] != program.buffers[y]


# Several pools ----------------------------------------------------------------------------------


def _split(program: Program, rng: np.random.Generator, slack: float) -> tuple[PoolSpec, PoolSpec]:
    """Two pools that hold together as much as the one of ``program``, times ``slack``."""
    total = int(program.workspace_bytes * slack)
    first = int(total * rng.uniform(0.2, 0.8))
    return PoolSpec("fast", first), PoolSpec("slow", total - first)


@pytest.mark.full
@cases("io_in_pool", [True, False], first=1)
def test_plans_in_tight_pools_equal_the_interpreter(io_in_pool: bool) -> None:
    placed, refusals = 0, list[str]()
    for seed in range(60):
        graph = random_graph(seed)
        rng = np.random.default_rng(seed)
        one = plan(graph, HOST, io_in_pool=io_in_pool)
        memory = _split(one, rng, 1.0 + seed % 4 / 8)
        try:
            program = plan(graph, HOST, io_in_pool=io_in_pool, memory=memory)
        except InputError as error:
            refusals.append(error.fact)
            continue
        placed += 1
        assert [pool.name for pool in program.pools] == ["fast", "slow"]
        for pool, spec in zip(program.pools, memory, strict=True):
            assert spec.limit_bytes is not None
            assert pool.nbytes <= spec.limit_bytes
            assert pool.nbytes % 16 == 0
        assert program.workspace_bytes == sum(pool.nbytes for pool in program.pools)
        again = plan(graph, HOST, io_in_pool=io_in_pool, memory=memory)
        assert (again.buffers, again.pools) == (program.buffers, program.pools)
        _require_right(graph, program)
    assert placed > 20
    assert len(refusals) > 2
    assert all("does not fit into its memory pools (fast " in fact for fact in refusals)


def test_an_unlimited_pool_takes_the_remainder() -> None:
    for seed in range(40):
        graph = random_graph(seed)
        memory = (PoolSpec("a", 40, "dtcm"), PoolSpec("b", 100), PoolSpec("c", None, "sdram"))
        program = plan(graph, HOST, io_in_pool=True, memory=memory)
        assert [pool.region for pool in program.pools] == ["dtcm", None, "sdram"]
        assert program.pools[0].nbytes <= 32
        _require_right(graph, program)


def test_the_busiest_block_goes_to_the_preferred_pool() -> None:
    b = GraphBuilder()
    y = b.conv(b.conv(b.input(1, 8, 8, 4), 4), 4)
    graph = b.graph(y)
    scratch = plan(graph, HOST).steps[0].call.scratch_bytes
    program = plan(graph, HOST, memory=(PoolSpec("fast", scratch + 15), PoolSpec("slow")))
    # Every multiplication reads the scratch, and the tensor between is read once.
    assert [step.scratch for step in program.steps] == [BufferRef("pool", 0, 0)] * 2
    assert program.buffers[program.steps[0].outputs[0]] == BufferRef("pool", 0, 1)


def test_one_pool_is_planned_as_without_a_limit() -> None:
    for model in ("kws", "ic"):
        graph = run_passes(load_model(models.model_path(model)))
        free = plan(graph, HOST, io_in_pool=True)
        memory = (PoolSpec(limit_bytes=free.workspace_bytes),)
        tight = plan(graph, HOST, io_in_pool=True, memory=memory)
        assert tight.workspace_bytes == free.workspace_bytes
        assert plan(graph, HOST, io_in_pool=True, memory=(PoolSpec(), PoolSpec("b"))).pools == (
            Pool("global_workspace", free.workspace_bytes, None),
            Pool("b", 0, None),
        )


def test_kws_is_divided_where_its_largest_tensors_part() -> None:
    graph = run_passes(load_model(models.model_path("kws")))
    memory = (PoolSpec("dtcm", 8_500), PoolSpec("sram", 8_000))
    program = plan(graph, HOST, io_in_pool=True, memory=memory)
    assert program.pools[1].nbytes == 8_000
    assert all(step.scratch is None or step.scratch.pool == 0 for step in program.steps)


def test_a_model_that_does_not_fit_shows_figures() -> None:
    b = GraphBuilder()
    graph = b.graph(b.conv(b.conv(b.input(1, 8, 8, 4), 4), 4))
    needed = plan(graph, HOST, io_in_pool=True).workspace_bound_bytes
    scratch = plan(graph, HOST).steps[0].call.scratch_bytes
    with pytest.raises(InputError) as caught:
        plan(graph, HOST, io_in_pool=True, memory=(PoolSpec("a", 200), PoolSpec("b", 300)))
    assert caught.value.fact == (
        "the model does not fit into its memory pools (a 200 B, b 300 B): it needs "
        f"{needed} B at least, at CONV_2D 't2' in blocks of 256, 256, {scratch} B"
    )
    with pytest.raises(InputError, match="'a' has an invalid limit of -1 bytes"):
        plan(graph, HOST, memory=(PoolSpec("a", -1),))


# Scratch from an allocator ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_scratch_may_be_left_to_an_allocator(seed: int) -> None:
    graph = random_graph(seed)
    program = plan(graph, HOST, scratch_in_pool=False)
    largest = max((step.call.scratch_bytes for step in program.steps), default=0)
    assert all(step.scratch is None for step in program.steps)
    assert program.workspace_bytes == program.pools[0].nbytes + align(largest)
    assert program.workspace_bytes >= program.workspace_bound_bytes
    _require_right(graph, program)


def test_an_allocator_is_one_pool() -> None:
    with pytest.raises(InputError, match="2 memory pools with pools=calls"):
        plan(random_graph(0), HOST, memory=(PoolSpec("a"), PoolSpec("b")), scratch_in_pool=False)


# The checker ------------------------------------------------------------------------------------


def _two_steps() -> Program:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 4)
    y = b.conv(x, 4)
    z = b.conv(y, 4)
    return plan(b.graph(z, name="n"), HOST, io_in_pool=True)


def _move(program: Program, name: str, ref: BufferRef) -> Program:
    return replace(program, buffers={**program.buffers, name: ref})


def test_the_checker_names_what_was_overwritten() -> None:
    program = _two_steps()
    x, y, z = program.graph.inputs[0], program.steps[0].outputs[0], program.steps[1].outputs[0]
    with pytest.raises(PlanError, match=f"'{y}' writes '{y}' over its input '{x}'"):
        check_plan(_move(program, y, program.buffers[x]))
    with pytest.raises(PlanError, match=f"'{z}' writes '{z}' over its input '{y}'"):
        check_plan(_move(program, z, program.buffers[y]))
    with pytest.raises(PlanError, match=r"is at offset 8 of"):
        check_plan(_move(program, y, BufferRef("pool", 8)))
    with pytest.raises(PlanError, match=r"\(64 bytes\) is at offset"):
        check_plan(_move(program, y, BufferRef("pool", program.workspace_bytes)))
    with pytest.raises(PlanError, match="the model's output"):
        check_plan(_move(program, z, BufferRef("output", 0)))


def test_the_first_lost_byte_is_named() -> None:
    b = GraphBuilder()
    x = b.input(1, 8, 8, 4)
    y = b.conv(x, 4)
    graph = b.graph(y)
    program = plan(graph, HOST, io_in_pool=True)
    inside = program.buffers[x].value
    assert program.buffers[y].value <= inside - 9 * 4
    program = _move(program, y, BufferRef("pool", inside - 16))
    # Pairs of pixels: pixel 2 is written, over pixel 0 and 1, after it was read for pixel 9 only.
    message = f"'{y}' writes '{y}' over its input '{x}': byte 0 is overwritten at step 2 and read"
    with pytest.raises(PlanError, match=message):
        check_plan(program)
    with pytest.raises(PlanError, match=f"'{y}' reads byte 0 of '{x}' at time step 4"):
        execute_plan(program, _inputs(graph))


def test_the_checker_watches_the_scratch() -> None:
    program = _two_steps()
    first, second = program.steps
    assert first.scratch is not None
    for ref in (program.buffers[first.inputs[0]], program.buffers[first.outputs[0]]):
        steps = (replace(first, scratch=ref), second)
        with pytest.raises(PlanError, match="scratch"):
            check_plan(replace(program, steps=steps))


def test_the_checker_misses_no_step() -> None:
    program = _two_steps()
    with pytest.raises(PlanError, match="no step computes"):
        check_plan(replace(program, steps=program.steps[1:]))


def test_the_checker_knows_the_pools() -> None:
    program = _two_steps()
    y = program.steps[0].outputs[0]
    with pytest.raises(PlanError, match="is in pool 1, but there are 1"):
        check_plan(_move(program, y, replace(program.buffers[y], pool=1)))
    with pytest.raises(PlanError, match="but the plan takes"):
        check_plan(replace(program, workspace_bytes=program.workspace_bytes - 16))
    unplaced = replace(program.steps[0], scratch=None)
    with pytest.raises(PlanError, match="but the plan takes"):
        check_plan(replace(program, steps=(unplaced, program.steps[1])))


@pytest.mark.full
@cases("pool_count", [1, 3], first=1)
def test_a_damaged_plan_that_passes_is_still_right(pool_count: int) -> None:
    """No false acquittal: thousands of plans with one place moved, executed."""
    caught = dict.fromkeys(range(pool_count), 0)
    passed = 0
    for seed in range(50):
        graph = random_graph(seed)
        specs = [PoolSpec("a", 64), PoolSpec("b", 128), PoolSpec("c")]
        program = plan(graph, HOST, io_in_pool=bool(seed % 2), memory=specs[-pool_count:])
        rng = np.random.default_rng(seed)
        pooled = [name for name, ref in program.buffers.items() if ref.kind == "pool"]
        for name in pooled:
            pool = int(rng.integers(0, pool_count))
            offset = 16 * int(rng.integers(0, program.pools[pool].nbytes // 16 + 1))
            damaged = _move(program, name, BufferRef("pool", offset, pool))
            try:
                check_plan(damaged)
            except PlanError:
                caught[pool] += 1
                continue
            passed += 1
            _require_right(graph, damaged)
    assert min(caught.values()) > 30
    assert passed > 20


# -- the caller's buffers --------------------------------------------------------------------------


def _value(nbytes: int, first: int, last: int, buffer: BufferRef | None = None) -> Any:
    return SimpleNamespace(
        tensor=SimpleNamespace(nbytes=nbytes), first=first, last=last, buffer=buffer
    )


OUT = BufferRef("output", 0)
AT_ONCE, APART = ForbiddenInterval(-9, 9, ((0, 0),)), ForbiddenInterval(-9, 9)


@pytest.mark.parametrize(
    ("operand", "forbidden", "other", "expected"),
    [
        (_value(8, 0, 3), AT_ONCE, None, OUT),
        (_value(9, 0, 3), AT_ONCE, None, None),
        (_value(8, 0, 3), APART, None, None),
        (_value(8, 1, 3), AT_ONCE, _value(8, 0, 0, OUT), OUT),
        (_value(8, 1, 3), AT_ONCE, _value(8, 0, 1, OUT), None),
        (_value(8, 1, 3), AT_ONCE, _value(8, 4, 9, OUT), OUT),
        (_value(8, 1, 3), AT_ONCE, _value(8, 3, 9, OUT), None),
        (_value(8, 1, 3), AT_ONCE, _value(8, 0, 9, BufferRef("output", 1)), OUT),
        (_value(8, 1, 3, BufferRef("input", 0)), AT_ONCE, None, BufferRef("input", 0)),
    ],
)
def test_overwritten_values_are_in_the_callers_output(
    operand: Any, forbidden: ForbiddenInterval, other: Any, expected: BufferRef | None
) -> None:
    output = _value(8, 3, 9, OUT)
    values: Any = SimpleNamespace(distinct=[v for v in (operand, output, other) if v is not None])
    _extend_buffers(values, [(operand, output, forbidden)])
    assert operand.buffer == expected


def test_a_chain_of_steps_works_in_the_callers_output() -> None:
    first, second, output = _value(8, 0, 1), _value(8, 1, 2), _value(8, 2, 9, OUT)
    values: Any = SimpleNamespace(distinct=[first, second, output])
    _extend_buffers(values, [(first, second, AT_ONCE), (second, output, AT_ONCE)])
    assert [first.buffer, second.buffer] == [OUT, OUT]
    alone = _value(8, 0, 1)
    _extend_buffers(values, [(alone, _value(8, 1, 2), AT_ONCE)])
    assert alone.buffer is None
