"""Streaming groups: what they compute, that their memory suffices, and that no less does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import models
import numpy as np
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder
from row_chains import Chains, random_chains

import hilc
from hilc import host
from hilc.frontends import load_model
from hilc.fusion import schedule
from hilc.fusion.bands import NotFusible
from hilc.fusion.call import FusedCall, Location, Move, Part, Piece, numbers
from hilc.fusion.fused import GroupCalls
from hilc.interpreter import run, run_all
from hilc.ir import Quant
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.allocate import align
from hilc.memory.check_fused import check_group
from hilc.memory.checker import check_plan, execute_plan
from hilc.memory.plan import plan
from hilc.memory.program import PlanError
from hilc.ops.operands import ARITHMETIC
from hilc.target import get_cpu
from hilc.transforms import run_passes

CORES = ("host", "cortex-m4", "cortex-m55")


def _fusible(chains: Chains, cpu: str = "host") -> Chains:
    """The chains without the groups that the compiler refuses; few are."""
    calls = GroupCalls(chains.graph, get_cpu(cpu))
    groups = []
    for group in chains.choice.groups:
        try:
            calls.call(group)
        except NotFusible:
            continue
        groups.append(group)
    assert len(groups) > 0.7 * len(chains.choice.groups)
    return replace(chains, choice=KernelSelection(groups=tuple(groups)))


def _assert_equal(chains: Any, outputs: Any, tolerance: float = 0.0) -> None:
    for name, expected in run(chains.graph, chains.inputs).items():
        np.testing.assert_allclose(outputs[name], expected, tolerance, tolerance, err_msg=name)


# What they compute ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sampled(ARITHMETIC, keep=["int8"]))
def test_groups_compute_what_their_layers_do(dtype):
    chains = _fusible(random_chains(1, 24, dtype))
    model = host.load(
        hilc.compile(chains.graph, choice=chains.choice, fold_constant_channels=False)
    )
    for name, value in chains.inputs.items():
        model.set_input(name, value)
    model.run()
    outputs = {name: model.get_output(name) for name in chains.graph.outputs}
    _assert_equal(chains, outputs, 1e-5 if dtype == "float32" else 0.0)


# Their memory -----------------------------------------------------------------------------------


@cases("cpu", CORES, first=1)
def test_plans_with_groups_keep_what_is_needed(cpu):
    """Executed on one byte buffer, in the order that the groups declare."""
    chains = _fusible(random_chains(CORES.index(cpu) + 3, 8, largest=8), cpu)
    program = plan(chains.graph, get_cpu(cpu), io_in_pool=True, choice=chains.choice)
    _assert_equal(chains, execute_plan(program, chains.inputs))


@pytest.mark.parametrize("cpu", CORES[:2])
@pytest.mark.parametrize("dtype", sampled(ARITHMETIC, keep=["int8"]))
def test_no_byte_of_a_group_can_be_spared(cpu, dtype):
    """Rows that are put anywhere else, or a scratch that is shorter, are noticed."""
    chains = _fusible(random_chains(7, 8, dtype, largest=8), cpu)
    calls = GroupCalls(chains.graph, get_cpu(cpu))
    spoiled = 0
    for group in chains.choice.groups:
        call = calls.call(group)
        check_group(call)
        if call.scratch_bytes:
            with pytest.raises(PlanError):
                check_group(replace(call, scratch_bytes=call.scratch_bytes - 4))
        for position, entry in enumerate(call.entries):
            where = entry.write
            if where.kind != "scratch" or not entry.writes:
                continue
            row = entry.output.nbytes // entry.output.shape[1]
            for offset in (where.offset - row, where.offset + row):
                entries = list(call.entries)
                entries[position] = replace(entry, write=Location("scratch", offset))
                with pytest.raises(PlanError):
                    check_group(replace(call, parts=(Part(Piece.of(entries)),)))
                spoiled += 1
    assert spoiled > 50


@cases("seed", range(3), first=1)
def test_scratch_lies_over_rows_that_have_been_read(seed):
    """As near to the input as it may, and no nearer."""
    cpu = get_cpu("cortex-m4")
    chains = _fusible(random_chains(60 + seed, 10, largest=12), cpu.name)
    calls = GroupCalls(chains.graph, cpu)
    over = spoiled = 0
    for group in chains.choice.groups:
        call = calls.call(group)
        if not call.scratch_bytes or len(call.inputs) > 1:
            continue
        (name,) = call.inputs
        nbytes = chains.graph.tensors[name].nbytes
        forbidden = call.scratch_differences(0)
        for d in range(-call.scratch_bytes, nbytes + 1, 4):
            if -call.scratch_bytes < d < nbytes and forbidden.allow(d):
                check_group(call, {name: -d})
                over += 1
        for low, high in forbidden.parts:
            for d in (low + 1, high - 1):
                with pytest.raises(PlanError, match="over which the scratch"):
                    check_group(call, {name: -d})
                spoiled += 1
    assert over > 10
    assert spoiled > 10


@cases("seed", range(3), first=1)
def test_output_over_unused_scratch(seed):
    """As near to the scratch as it may, and nowhere else but in an entry whose kernel reads what
    the output is written over.
    """
    cpu = get_cpu("cortex-m4")
    chains = _fusible(random_chains(60 + seed, 10, largest=12), cpu.name)
    calls = GroupCalls(chains.graph, cpu)
    over = spoiled = both = 0
    for group in chains.choice.groups:
        call = calls.call(group)
        if not call.scratch_bytes:
            continue
        (output,) = call.outputs
        forbidden = call.output_differences()
        for d in range(-call.scratch_bytes, call.output_bytes + 1, 4):
            if forbidden.allow(d):
                check_group(call, {output: -d})
                over += -call.scratch_bytes < d < call.output_bytes
        low, high = forbidden.low, forbidden.high
        assert -call.scratch_bytes <= low < high <= call.output_bytes
        for d in (low + 1, high - 1, (low + high) // 2):
            if not forbidden.allow(d):
                try:
                    check_group(call, {output: -d})
                    both += 1
                except PlanError:
                    spoiled += 1
    assert over > 10
    assert spoiled > max(10, 4 * both)


def test_plan_places_output_over_unused_scratch():
    """The mean of an image is written when its rows have been read."""
    builder = GraphBuilder(4)
    x = given = builder.input(1, 8, 8, 16)
    names = [x := builder.conv(x, channels) for channels in (16, 16, 16)]
    names.append(x := builder.pool("AVERAGE_POOL_2D", x, 8, 8, "VALID"))
    graph = builder.graph(x)
    choice = KernelSelection(groups=(Group(tuple(names)),))
    program = plan(graph, get_cpu("cortex-m4"), io_in_pool=True, choice=choice)
    (step,) = program.steps
    assert isinstance(step.call, FusedCall)
    assert step.scratch is not None
    place, nbytes = step.scratch.value - program.buffers[x].value, graph.tensors[x].nbytes
    assert -step.call.scratch_bytes < place < nbytes
    rng = np.random.default_rng(4)
    inputs = {given: rng.integers(-128, 128, (1, 8, 8, 16), np.int8)}
    for name, expected in run(graph, inputs).items():
        np.testing.assert_array_equal(execute_plan(program, inputs)[name], expected)
    forbidden = step.call.output_differences()
    size, given_bytes = align(step.call.scratch_bytes), align(graph.tensors[given].nbytes)
    pool = replace(program.pools[0], nbytes=given_bytes + 3 * size)
    wrong = 0
    for difference in range(-size, align(nbytes) + 1, 16):
        at = {given: 0, x: given_bytes + size, "scratch": given_bytes + size + difference}
        moved = replace(
            program,
            steps=(replace(step, scratch=replace(step.scratch, value=at["scratch"])),),
            pools=(pool,),
            buffers={n: replace(program.buffers[n], value=at[n]) for n in (given, x)},
            workspace_bytes=pool.nbytes,
        )
        if forbidden.allow(difference):
            check_plan(moved)
            execute_plan(moved, inputs)
        else:
            with pytest.raises(PlanError):
                check_plan(moved)
            wrong += 1
    assert wrong > 3


def test_a_plan_uses_what_its_input_leaves():
    """The last layers of a chain begin when most of its input has been read."""
    builder = GraphBuilder(4)
    x = given = builder.input(1, 16, 8, 8)
    names = [x := builder.conv(x, channels) for channels in (8, 8, 16, 16, 16)]
    names.append(x := builder.conv(x, 8, stride=2))
    graph = builder.graph(x)
    program = plan(
        graph,
        get_cpu("cortex-m4"),
        io_in_pool=True,
        choice=KernelSelection(groups=(Group(tuple(names)),)),
    )
    (step,) = program.steps
    assert isinstance(step.call, FusedCall)
    assert step.scratch is not None
    place, nbytes = program.buffers[given].value, graph.tensors[given].nbytes
    assert -step.call.scratch_bytes < step.scratch.value - place < nbytes
    rng = np.random.default_rng(4)
    inputs = {given: rng.integers(-128, 128, (1, 16, 8, 8), np.int8)}
    for name, expected in run(graph, inputs).items():
        np.testing.assert_array_equal(execute_plan(program, inputs)[name], expected)
    forbidden, size = step.call.scratch_differences(0), step.call.scratch_bytes
    pool = replace(program.pools[0], nbytes=4 * (size + nbytes) // 16 * 16)
    refs = {given: replace(program.buffers[given], value=align(size))}
    refs[x] = replace(program.buffers[x], value=align(2 * size + nbytes))
    for difference in range(-align(size), align(nbytes) + 1, 16):
        moved = replace(
            program,
            steps=(replace(step, scratch=replace(step.scratch, value=align(size) + difference)),),
            pools=(pool,),
            buffers=refs,
            workspace_bytes=pool.nbytes,
        )
        if forbidden.allow(difference):
            check_plan(moved)
        else:
            with pytest.raises(PlanError, match="over which the scratch"):
                check_plan(moved)


@cases("seed", [1, 7], first=1)
def test_rows_between_windows_are_not_kept(seed):
    """Of chains in which a later window leaves out rows of a tensor that others were kept of."""
    chains = random_chains(seed, 24)
    calls = GroupCalls(chains.graph, get_cpu("host"))
    for group in _fusible(chains).choice.groups:
        check_group(calls.call(group))


def test_a_skip_connection_frees_rows_early() -> None:
    """Of its input, which the other branch has read, two rows go for one of half the size each."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 32, 16, 4), 8)
    inner = b.conv(b.conv(x, 8, stride=2), 8)
    skip = b.conv(x, 8, size=1, stride=2)
    total = b.add(skip, inner)
    graph = b.graph(total)
    names = tuple(node.name for node in graph.nodes)
    call = GroupCalls(graph, get_cpu("host")).call(Group(names, 1))
    check_group(call)
    last = {e.stage: 0 for e in call.entries}
    ahead = 0
    for entry in call.entries:
        last[entry.stage] = entry.first + entry.count
        # Rows of the skip connection beside those that are added.
        ahead = max(ahead, last[names.index(skip)] - last[names.index(total)])
    assert ahead == 2
    values = {graph.inputs[0]: np.arange(32 * 16 * 4, dtype=np.int8).reshape(1, 32, 16, 4)}
    choice = KernelSelection(groups=(Group(names, 1),))
    with host.load(hilc.compile(graph, choice=choice, fold_constant_channels=False)) as model:
        model.set_input(0, values[graph.inputs[0]])
        model.run()
        np.testing.assert_array_equal(model.get_output(0), run(graph, values)[total])


def test_rows_of_a_skip_connection_over_those_read() -> None:
    """Apart from these they would take 256 bytes, half of a row, more."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 32, 32, 4), 16)
    inner = b.conv(b.conv(x, 32, stride=2), 32)
    graph = b.graph(b.conv(b.add(inner, b.conv(x, 32, size=1, stride=2)), 32))
    call = GroupCalls(graph, get_cpu("host")).call(
        Group(tuple(node.name for node in graph.nodes), 1)
    )
    check_group(call)
    assert call.scratch_bytes == 4896


@pytest.mark.parametrize("seed", sampled(range(3), keep=[0]))
def test_rounds_that_repeat_are_what_each_would_be(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule whose rounds are worked out one by one is the same in everything."""
    chains, cpu = (
        random_chains(20 + seed, 20, largest=50, channels=3, resized=False),
        get_cpu("cortex-m4"),
    )
    groups = _fusible(chains, cpu.name).choice.groups

    def calls() -> list[FusedCall]:
        calls = GroupCalls(chains.graph, cpu)
        return [calls.call(group) for group in groups]

    found = calls()
    monkeypatch.setattr(schedule._Walk, "_leap", lambda *_: None)
    repeated = 0
    for call, expected in zip(found, calls(), strict=True):
        assert all(part.copies == 1 for part in expected.parts)
        repeated += sum(part.copies - 1 for part in call.parts)
        assert [_plain(e) for e in call.entries] == [_plain(e) for e in expected.entries]
        for name in ("scratch_bytes", "count", "macs", "move_bytes", "moves_words"):
            assert getattr(call, name) == getattr(expected, name), name
        assert call.cost(cpu) == expected.cost(cpu)
        assert call.count == len(call.entries)
        own, other = call.access((), ()), expected.access((), ())
        assert own is not None
        assert other is not None
        reads = zip(own.last_read, other.last_read, strict=True)
        writes = zip(own.first_write, other.first_write, strict=True)
        assert all(np.array_equal(a, b) for a, b in (*reads, *writes))
        assert own.steps == other.steps
    assert repeated > 50


@pytest.mark.full
@cases("seed", [20, 22], first=1)
def test_a_group_states_accesses_outside_it(seed: int) -> None:
    """Also those of a stage whose rows lie where the last one writes the output."""
    chains, cpu = random_chains(seed, 30, largest=20, channels=3), get_cpu("cortex-m4")
    calls = GroupCalls(chains.graph, cpu)
    aliased = 0
    for group in _fusible(chains, cpu.name).choice.groups:
        call = calls.call(group)
        every = replace(call, parts=(Part(Piece.of(call.entries)),))
        own, other = call.access((), ()), every.access((), ())
        assert own is not None
        assert other is not None
        assert own.steps == other.steps
        reads = zip(own.last_read, other.last_read, strict=True)
        writes = zip(own.first_write, other.first_write, strict=True)
        assert all(np.array_equal(a, b) for a, b in (*reads, *writes))
        last = len(call.stages) - 1
        aliased += any(e.write.kind == "output" and e.stage < last for e in call.entries)
    assert aliased > 0


def _plain(entry: Any) -> tuple[object, ...]:
    """An entry without arrays, whose calls compare by what they pass."""
    call = entry.call
    own = (entry.stage, entry.first, entry.count, entry.in_first, entry.writes, entry.moves)
    shapes = [tensor.shape for tensor in (*entry.inputs, entry.output)]
    return *own, entry.reads, entry.write, shapes, call.kernel.name, numbers(call.fields)


def test_a_group_with_one_row_less_is_noticed():
    """Every row of the arena moved towards the start by one, as if it were that much smaller."""
    chains = random_chains(8, 30)
    calls = GroupCalls(chains.graph, get_cpu("cortex-m4"))
    noticed = 0
    for group in _fusible(chains).choice.groups:
        call = calls.call(group)
        rows = [
            e.output.nbytes // e.output.shape[1] for e in call.entries if e.write.kind == "scratch"
        ]
        if not rows or not any(entry.moves for entry in call.entries):
            continue
        entries = [replace(entry, moves=entry.moves[:-1]) for entry in call.entries]
        with pytest.raises(PlanError):
            check_group(replace(call, parts=(Part(Piece.of(entries)),)))
        noticed += 1
    assert noticed > 3


def test_overwritten_sums_are_noticed():
    b = GraphBuilder()
    x = b.conv(b.input(1, 9, 7, 4), 4)
    pooled = b.op(
        "AVERAGE_POOL_2D", x, filter_h=9, filter_w=7, stride_h=1, stride_w=1, padding="VALID",
        activation="NONE",
    )  # fmt: skip
    call = GroupCalls(b.graph(pooled), get_cpu("host")).call(Group((x, pooled), 2))
    sums = call.stages[1]
    assert sums.accumulates
    entries = [
        replace(e, moves=(*e.moves, *_over(sums))) if e.stage == 0 else e for e in call.entries
    ]
    with pytest.raises(PlanError, match="accumulators of"):
        check_group(replace(call, parts=(Part(Piece.of(entries)),)))


def test_an_average_below_the_first_row() -> None:
    """Of an image of two rows SAME has two windows of two rows, the second of one row inside."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 2, 5, 4), 4)
    pooled = b.op(
        "AVERAGE_POOL_2D", x, filter_h=2, filter_w=2, stride_h=1, stride_w=1, padding="SAME",
        activation="NONE",
    )  # fmt: skip
    graph = b.graph(pooled)
    choice = KernelSelection(groups=(Group((x, pooled), 2),))
    values = {graph.inputs[0]: np.arange(-20, 20, dtype=np.int8).reshape(1, 2, 5, 4)}
    with host.load(hilc.compile(graph, choice=choice, fold_constant_channels=False)) as model:
        model.set_input(0, values[graph.inputs[0]])
        model.run()
        np.testing.assert_array_equal(model.get_output(0), run(graph, values)[pooled])


def _over(stage: Any) -> Any:
    """A move of other bytes over the first of a stage's scratch."""
    source = 0 if stage.scratch else stage.scratch_bytes
    return (Move(stage.scratch, source, 4),)


# Refusals ---------------------------------------------------------------------------------------


def _refused() -> dict[str, tuple[hilc.Graph, Group]]:
    b = GraphBuilder()
    x = b.input(1, 6, 6, 4)
    a = b.conv(x, 4)
    c = b.conv(a, 4)
    d = b.add(a, c)
    e = b.reshape(d, 1, 144)
    soft = b.op("SOFTMAX", e, beta=1.0)
    turned = b.op("SOFTMAX", d, beta=1.0)
    two = b.conv(b.input(2, 6, 6, 4), 4)
    graph = b.graph(a, soft, turned, two)
    return {
        "is read outside of the fused group": (graph, Group((a, c))),
        "are not consecutive nodes": (graph, Group((c, a))),
        "no node 'nobody'": (graph, Group(("nobody",))),
        "does not read images of batch 1": (graph, Group((two,))),
        "does not write one image of batch 1": (graph, Group((e,))),
        "cannot be computed row by row": (graph, Group((turned,))),
        "several nodes cannot run backward": (graph, Group((c, d), 1, "backward")),
        "a fused group of 0 rows": (graph, Group((c, d), 0)),
        "has no kernel variant 'x'": (graph, Group((c, d), 1, "forward", ("x", ""))),
        "1 kernels for 2 nodes": (graph, Group((c, d), 1, "forward", ("",))),
    }


@pytest.mark.parametrize("message", _refused())
def test_what_cannot_stream_is_refused(message):
    graph, group = _refused()[message]
    with pytest.raises(NotFusible, match=message):
        GroupCalls(graph, get_cpu("host")).call(group)
    with pytest.raises(hilc.InputError, match=message):
        plan(graph, get_cpu("host"), choice=KernelSelection(groups=(group,)))


def test_a_node_is_in_one_group_only():
    b = GraphBuilder()
    a = b.conv(b.input(1, 6, 6, 4), 4)
    c = b.conv(a, 4)
    graph = b.graph(c)
    with pytest.raises(hilc.InputError, match="in two fused groups"):
        plan(graph, get_cpu("host"), choice=KernelSelection(groups=(Group((a, c)), Group((c,)))))


# The models -------------------------------------------------------------------------------------

#: The nodes of groups, rows at a time, and the bytes that inputs, outputs and all need.
REACHED = {
    "kws": ([(0, 10)], 4, 5_504),
    "ic": ([(0, 8), (8, 13)], 1, 19_600),
    # With the fastest kernels, which transform their weights and need more scratch.
    "ic, all layers of images": ([(0, 13)], 1, 17_472),
    "vww": ([(1, 4)], 1, 28_000),
}


@pytest.mark.parametrize("name", REACHED)
def test_models_need_a_third_of_the_memory(name):
    spans, rows, most = REACHED[name]
    graph = run_passes(load_model(models.model_path(name.split(",")[0])))
    names = [node.name for node in graph.nodes]
    groups = tuple(Group(tuple(names[first:end]), rows) for first, end in spans)
    program = plan(
        graph, get_cpu("cortex-m4"), io_in_pool=True, choice=KernelSelection(groups=groups)
    )
    assert program.workspace_bytes <= most


def test_the_description_names_all_layers_of_a_group():
    b = GraphBuilder()
    a = b.conv(b.input(1, 6, 6, 4), 4)
    c = b.conv(a, 4)
    d = b.reshape(c, 1, 144)
    e = b.op("SOFTMAX", d, beta=1.0)
    choice = KernelSelection(groups=(Group((a, c)),))
    library = hilc.compile(b.graph(e), choice=choice, fold_constant_channels=False)
    first, second = library.modules[0].layers
    assert (first.name, first.group, second.group) == (c, (a, c), ())
    assert first.macs == 2 * 6 * 6 * 4 * 36


@cases(
    ("op", "scale", "zero_point"),
    [("L2_NORMALIZATION", 1 / 128, 0), ("LOG_SOFTMAX", 1 / 16, 127)],
    first=1,
)
def test_normalizations_of_pixels_run_row_by_row(op: str, scale: float, zero_point: int) -> None:
    """Between two convolutions, in one group with them, and not in memory as a whole."""
    builder = GraphBuilder(1)
    x = builder.input(1, 30, 30, 4)
    normalized = builder.op(op, builder.conv(x, 8))
    quant = Quant((scale,), (zero_point,))
    builder.tensors[normalized] = replace(builder.tensors[normalized], quant=quant)
    graph = builder.graph(builder.conv(normalized, 2, 3, 2))
    library = hilc.compile(graph, optimize="ram")
    (module,) = library.modules
    assert len(module.layers) == 1
    assert module.workspace_bytes < graph.tensors[normalized].nbytes / 4
    values = np.random.default_rng(0).integers(-128, 128, (1, 30, 30, 4)).astype(np.int8)
    with hilc.host.load(library) as model:
        model.set_input(x, values)
        model.run()
        (expected,) = (run_all(graph, {x: values})[name] for name in graph.outputs)
        np.testing.assert_array_equal(model.get_output(0), expected)
