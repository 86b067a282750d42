"""The checker of plans, on plans that are wrong in one respect each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_graphs import GraphBuilder

from hilc import interpreter
from hilc.ir import Array
from hilc.lowering.access import NEVER
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory import checker
from hilc.memory.checker import check_plan, execute_plan
from hilc.memory.plan import Planner
from hilc.memory.pools import Pool
from hilc.memory.program import BufferRef, PlanError, Program
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")


@cache
def chain(io_in_pool: bool = True, *, scratch_in_pool: bool = True) -> Program:
    """Three dense layers and a sum with the first, with scratch."""
    builder = GraphBuilder()
    x = builder.input(1, 48)
    a = builder.dense(x, 40)
    b = builder.dense(a, 32)
    c = builder.dense(b, 40)
    graph = builder.graph(builder.add(c, a))
    planner = Planner(graph, CPU, io_in_pool=io_in_pool, scratch_in_pool=scratch_in_pool)
    return planner.plan()


@cache
def grouped() -> Program:
    builder = GraphBuilder()
    names = [builder.conv(builder.input(1, 8, 6, 4), 8)]
    names += [builder.conv(names[-1], 5)]
    planner = Planner(builder.graph(names[-1]), CPU, io_in_pool=True)
    return planner.plan(KernelSelection(groups=(Group(tuple(names), 2),)))


def moved(program: Program, **places: BufferRef) -> Program:
    return replace(program, buffers=MappingProxyType({**program.buffers, **places}))


def widened(program: Program, nbytes: int = 512) -> Program:
    """Return the program with so many bytes more, and its pool's first byte where it was."""
    pool = program.pools[0]
    return replace(
        program,
        pools=(replace(pool, nbytes=pool.nbytes + nbytes), *program.pools[1:]),
        workspace_bytes=program.workspace_bytes + nbytes,
    )


def told(program: Program) -> str:
    try:
        check_plan(program)
    except PlanError as error:
        return str(error)
    return ""


def at(program: Program, name: str, by: int, pool: int = 0) -> Program:
    """Return the program with a tensor moved by so many bytes."""
    ref = program.buffers[name]
    return moved(program, **{name: BufferRef("pool", ref.value + by, ref.pool + pool)})


def test_plans_that_are_right_pass() -> None:
    for program in (chain(), chain(False), chain(scratch_in_pool=False), grouped()):
        assert told(program) == ""


def test_the_workspace_is_pools_and_largest_scratch() -> None:
    for program in (chain(), chain(scratch_in_pool=False)):
        for off in (-16, -1, 1, 16):
            size = program.workspace_bytes + off
            wrong = told(replace(program, workspace_bytes=size))
            assert wrong == (
                f"workspace_bytes is {size}, but the plan takes {program.workspace_bytes}"
            )


def test_each_tensor_is_aligned_in_its_pool() -> None:
    program = chain()
    name = program.steps[1].node.name
    end = program.pools[0].nbytes
    nbytes = program.graph.tensors[name].nbytes
    for offset in (8, 15, -16, end - nbytes + 16, end):
        wrong = moved(program, **{name: BufferRef("pool", offset // 1)})
        assert f"'{name}' ({nbytes} bytes) is at offset {offset} of {end} bytes" in told(wrong)
    for pool in (-1, 1):
        wrong = moved(program, **{name: BufferRef("pool", 0, pool)})
        assert f"'{name}' is in pool {pool}, but there are 1 pools" in told(wrong)
    wrong = moved(program, **{name: BufferRef("input", 7)})
    assert "writes to BufferRef(kind='input', value=7" in told(wrong)


def test_inputs_and_outputs_at_the_callers_places() -> None:
    inside, outside = chain(), chain(False)
    x, y = inside.graph.inputs[0], inside.graph.outputs[0]
    assert f"the model's input '{x}' is in" in told(moved(inside, **{x: BufferRef("input", 0)}))
    assert f"the model's output '{y}' is in" in told(moved(inside, **{y: BufferRef("output", 0)}))
    outer_y = outside.graph.outputs[0]
    for ref in (BufferRef("pool", 0), BufferRef("input", 1), BufferRef("output", 0)):
        assert f"the model's input '{x}' is in" in told(moved(outside, **{x: ref}))
    for ref in (BufferRef("pool", 0), BufferRef("output", 1)):
        assert told(moved(outside, **{outer_y: ref})) != ""


def test_every_node_is_computed_by_one_step() -> None:
    program = chain()
    for left in range(len(program.steps)):
        steps = tuple(step for at, step in enumerate(program.steps) if at != left)
        missing = program.steps[left].node.name
        assert told(replace(program, steps=steps)) == f"no step computes '{missing}'"
    strange = replace(program.steps[0].node, outputs=("more",))
    more = replace(program.steps[0], node=strange)
    assert "compute no node of the graph" in told(replace(program, steps=(*program.steps, more)))


def test_what_is_read_later_is_not_written_over() -> None:
    """The first layer's output is read by the last one."""
    program = chain()
    names = [step.node.name for step in program.steps]
    first = program.buffers[names[0]]
    for name in names[1:3]:
        wrong = told(moved(program, **{name: first}))
        assert f"reads '{names[0]}', which '{name}' overwrote from byte 0 on" in wrong
    # So is scratch not written over it, nor over what the step itself reads.
    wide = widened(program)
    for number, wrong in (
        (1, f"'{names[1]}' writes its scratch over its input '{names[0]}': byte 0"),
        (2, f"'{names[3]}' reads '{names[0]}', which scratch overwrote from byte 0 on"),
    ):
        steps = list(wide.steps)
        steps[number] = replace(steps[number], scratch=first)
        assert told(replace(wide, steps=tuple(steps))).startswith(wrong)


def test_outputs_and_scratch_of_a_step_lie_apart() -> None:
    program = widened(chain())
    for number, step in enumerate(program.steps):
        if step.scratch is None:
            continue
        own = program.buffers[step.node.name]
        inside = replace(step, scratch=own)
        steps = (*program.steps[:number], inside, *program.steps[number + 1 :])
        wrong = f"'{step.node.name}' overwrites '{step.node.name}' with 'scratch'"
        assert told(replace(program, steps=steps)) == wrong


def test_scratch_among_states_is_refused() -> None:
    program = chain()
    step = program.steps[0]
    state = Pool("state", 1 << 12, None, persistent=True)
    with_state = replace(program, pools=(*program.pools, state))
    scratch = replace(step, scratch=BufferRef("pool", 0, 1))
    wrong = replace(with_state, steps=(scratch, *program.steps[1:]))
    assert told(wrong) == f"'{step.node.name}' has its scratch among the states"
    assert told(with_state) == ""
    for kind in ("input", "constant"):
        wrong = moved(program, **{step.node.name: BufferRef(kind, 0)})
        assert f"'{step.node.name}' writes to BufferRef(kind='{kind}'" in told(wrong)


def test_inputs_are_kept_where_that_is_promised() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 32)
    graph = builder.graph(builder.relu(x))
    free = Planner(graph, CPU, io_in_pool=True).plan()
    kept = Planner(graph, CPU, io_in_pool=True, keep_inputs=True).plan()
    assert told(kept) == told(free) == ""
    assert free.buffers[x] == free.buffers[graph.outputs[0]]
    assert "the caller reads" in told(replace(free, keep_inputs=True))


# -- orders of reads and writes --------------------------------------------------------------------


def test_an_output_over_the_input_that_was_read() -> None:
    """At the same place, but not before it."""
    builder = GraphBuilder()
    x = builder.input(1, 64)
    relu = builder.relu(x)
    wide = widened(Planner(builder.graph(relu), CPU, io_in_pool=True).plan())
    base = moved(wide, **{x: BufferRef("pool", 128), relu: BufferRef("pool", 128)})
    assert told(base) == ""
    for by in (16, 48):
        assert f"over its input '{x}'" in told(at(base, relu, by))
    for by in (-128, -16, 64):
        assert told(at(base, relu, by)) == ""


def test_times_of_bytes() -> None:
    times = np.array([3, 1, 3, NEVER, 1], np.int32)
    found = {time: bytes_.tolist() for time, bytes_ in checker._by_time(times).items()}
    assert found == {3: [0, 2], 1: [1, 4], NEVER: [3]}


def test_without_an_order_writes_precede_reads() -> None:
    step: Any = SimpleNamespace(call=SimpleNamespace())
    tensors: Any = [SimpleNamespace(nbytes=3)], [SimpleNamespace(nbytes=2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "access_of", lambda call, inputs, outputs: None)
        order = checker._Order.of(step, *tensors)
    assert [times.tolist() for times in order.last_read] == [[1, 1, 1]]
    assert [times.tolist() for times in order.first_write] == [[0, 0]]
    assert order.first_write[0].max() < order.last_read[0].min()


def test_the_first_late_read_is_named() -> None:
    made: Any = object.__new__(checker._Replay)
    written = np.array([5, 9, 2, 0], np.int32)
    made._written = SimpleNamespace(tensor=lambda name: written)
    made._writers = SimpleNamespace(tensor=lambda name: np.array([0, 0, 1, 0]))
    step: Any = SimpleNamespace(node=SimpleNamespace(name="n"), outputs=("y",))

    def late(*last_read: int) -> str:
        try:
            made._require_read_in_time(step, "x", np.array(last_read, np.int32))
        except PlanError as error:
            return str(error)
        return ""

    assert late(5, 9, 2, 0) == ""
    assert late(6, 9, 2, 0).endswith("byte 0 is overwritten at step 5 and read at step 6")
    # Of two the one that is read first, whatever lies there.
    assert late(8, 9, 7, 0) == (
        "'n' writes its scratch over its input 'x': byte 2 is overwritten at step 2 and read at "
        "step 7"
    )
    assert "byte 3 is overwritten at step 0 and read at step 1" in late(5, 9, 2, 1)
    # What is never read does not matter.
    assert late(NEVER, 9, NEVER, NEVER) == ""


def test_scratch_and_tensors_in_one_pool_are_apart() -> None:
    program: Any = SimpleNamespace(
        buffers={
            "a": BufferRef("pool", 48),
            "b": BufferRef("pool", 16, 1),
            "c": BufferRef("input", 0),
            "d": BufferRef("pool", 80),
        }
    )
    scratch = BufferRef("pool", 64)
    step: Any = SimpleNamespace(scratch=scratch, inputs=("a", "b", "c"), outputs=("d",))
    assert checker._beside_scratch(program, step) == {"a": -16, "d": 16}
    step.scratch = None
    assert checker._beside_scratch(program, step) == {}


# -- plans that are executed -----------------------------------------------------------------------


def given(program: Program) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    graph = program.graph
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


@pytest.mark.parametrize("make", [chain, grouped])
def test_executed_plans_equal_the_interpreter(make: Callable[[], Program]) -> None:
    program = make()
    values = given(program)
    outputs = execute_plan(program, values)
    expected = interpreter.run(program.graph, values)
    for name in program.graph.outputs:
        np.testing.assert_array_equal(outputs[name], expected[name])
    # The last of several runs is returned, and none changes another.
    other = {name: -1 - value for name, value in values.items()}
    again = execute_plan(program, other, values)
    for name in program.graph.outputs:
        np.testing.assert_array_equal(again[name], expected[name])
    assert execute_plan(program) == {}


def test_an_overwritten_tensor_shows_in_outputs() -> None:
    program = chain()
    names = [step.node.name for step in program.steps]
    values = given(program)
    wrong = moved(program, **{names[1]: program.buffers[names[0]]})
    expected = interpreter.run(program.graph, values)
    try:
        outputs = execute_plan(wrong, values)
    except PlanError as error:
        assert "after it was overwritten" in str(error)  # noqa: PT017
    else:
        name = program.graph.outputs[0]
        assert not np.array_equal(outputs[name], expected[name])


def test_bytes_that_are_read_after_a_write_are_named() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 64)
    graph = builder.graph(builder.relu(x))
    program = Planner(graph, CPU, io_in_pool=True).plan()
    relu = graph.outputs[0]
    wide = widened(program)
    base = moved(wide, **{x: BufferRef("pool", 64), relu: BufferRef("pool", 64)})
    values = {x: np.arange(-32, 32, dtype=np.int8).reshape(1, 64)}
    expected = interpreter.run(graph, values)[relu]
    for by in (-64, -16, 0, 64):
        np.testing.assert_array_equal(execute_plan(at(base, relu, by), values)[relu], expected)
    with pytest.raises(PlanError, match=f"reads byte .* of '{x}' at time step"):
        execute_plan(at(base, relu, 16), values)


def test_operands_that_no_kernel_reads_are_executed() -> None:
    """The zeros lie over the operand, which the program does not hold."""
    builder = GraphBuilder()
    x = builder.relu(builder.input(1, 64))
    graph = builder.graph(builder.relu(builder.op("ZEROS_LIKE", x)))
    program = Planner(graph, CPU, io_in_pool=True).plan()
    assert () in [step.inputs for step in program.steps]
    (output,) = graph.outputs
    values = given(program)
    found, expected = execute_plan(program, values), interpreter.run(graph, values)
    np.testing.assert_array_equal(found[output], expected[output])
