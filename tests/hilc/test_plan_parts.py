"""The parts of a plan by themselves: traffic, buffers in place, pins, refusals, what is told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_graphs import GraphBuilder

from hilc.errors import InputError
from hilc.fusion.call import FusedCall, Part, Piece
from hilc.fusion.candidates import Lowering
from hilc.ir import Tensor
from hilc.lowering.access import ForbiddenInterval
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory import check_fused, explain, liveness, plan
from hilc.memory.allocate import NO_OVERLAPS, Block, Overlaps
from hilc.memory.check_fused import check_group
from hilc.memory.explanation import BEFORE, ArenaSlot
from hilc.memory.liveness import Liveness, Value
from hilc.memory.plan import Planner
from hilc.memory.pools import Pin, PoolSpec
from hilc.memory.program import BufferRef, PlanError, Program
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")


def tensor(nbytes: int, name: str = "t") -> Tensor:
    return Tensor(name, (nbytes,), "int8", None, None)


def value(nbytes: int, first: int, last: int, buffer: BufferRef | None = None) -> Value:
    return Value(tensor(nbytes, f"t{nbytes}"), first, last, buffer)


# -- what a plan is made of ------------------------------------------------------------------------


def test_traffic_is_what_kernels_read_and_write() -> None:
    """Once to write it, and for each reader its bytes or its multiplications, the more of both."""
    values: Any = SimpleNamespace(by_name={"a": value(10, 0, 9), "b": value(7, 1, 9)})
    values.by_name["view of a"] = values.by_name["a"]

    def call(macs: int, scratch: int = 0) -> Any:
        return SimpleNamespace(macs=macs, scratch_bytes=scratch)

    def traffic(*steps: tuple[Any, Sequence[str]]) -> tuple[int, int]:
        found = plan._traffic(values, [call for call, _ in steps], [names for _, names in steps])
        return found[id(values.by_name["a"])], found[id(values.by_name["b"])]

    assert traffic() == (10, 7)
    assert traffic((call(0), ["a"])) == (20, 7)
    assert traffic((call(1), ["a"])) == (20, 7)
    assert traffic((call(500), ["a"])) == (510, 7)
    # What it multiplies is in its scratch then.
    assert traffic((call(500, 16), ["a"])) == (20, 7)
    assert traffic((call(500), ["a", "constant"]), (call(8), ["view of a", "b"])) == (520, 15)


def pinned(nbytes: int, offset: int | None, first: int = 0, last: int = 1, pool: int = 0) -> Block:
    return Block(nbytes, first, last, offset, pool)


def test_pins_of_overlapping_tensors_share_bytes() -> None:
    values = [value(32, 0, 1), value(48, 0, 1)]

    def told(first: Block, second: Block, overlaps: Overlaps = NO_OVERLAPS) -> str:
        try:
            plan._check_apart(values, [first, second], overlaps)
        except InputError as error:
            return error.fact
        return ""

    def holds(first: Block, second: Block, overlaps: Overlaps = NO_OVERLAPS) -> bool:
        return not told(first, second, overlaps)

    fact = "'t32' (32 bytes at 0) and 't48' (48 bytes at 16) are pinned to overlapping bytes"
    assert told(pinned(32, 0), pinned(48, 16)).startswith(fact)
    assert not holds(pinned(32, 0), pinned(48, 16))
    assert not holds(pinned(32, 64), pinned(48, 48))
    assert holds(pinned(32, 0), pinned(48, 32))
    assert holds(pinned(32, 48), pinned(48, 0))
    # In other pools, at other times, or where the allocator chooses.
    assert holds(pinned(32, 0), pinned(48, 16, pool=1))
    assert holds(pinned(32, 0, pool=1), pinned(48, 16))
    assert not holds(pinned(32, 0, pool=1), pinned(48, 16, pool=1))
    assert holds(pinned(32, 0, 0, 1), pinned(48, 16, 2, 3))
    assert holds(pinned(32, None), pinned(48, 16))
    # Where a kernel permits it.
    allowed = {(0, 1): ForbiddenInterval(-48, 16)}
    assert holds(pinned(32, 0), pinned(48, 16), allowed)
    assert not holds(pinned(32, 16), pinned(48, 16), allowed)


def test_pins_of_several_tensors_are_all_looked_at() -> None:
    """Of which some are at other times."""
    values = [value(16, 0, 1) for _ in range(4)]
    blocks = [pinned(16, 0, 0, 0), pinned(16, 0, 1, 1), pinned(16, 16), pinned(16, 16)]
    with pytest.raises(InputError, match="pinned to overlapping bytes"):
        plan._check_apart(values, blocks, {})
    plan._check_apart(values, [*blocks[:3], pinned(16, 32)], {})


CALLERS = BufferRef("output", 0)


@pytest.mark.parametrize(
    ("operand", "forbidden", "others", "is_taken"),
    [
        (value(32, 0, 2), (0, 0), [], True),
        (value(31, 0, 2), (0, 0), [], False),
        (value(32, 0, 2), (-1, 1), [], False),
        # Another value has the buffer: before it, behind it, or while it lives.
        (value(32, 2, 4), (0, 0), [(0, 1)], True),
        (value(32, 2, 4), (0, 0), [(0, 2)], False),
        (value(32, 2, 4), (0, 0), [(5, 6)], True),
        (value(32, 2, 4), (0, 0), [(4, 6)], False),
        (value(32, 2, 4), (0, 0), [(0, 1), (3, 3)], False),
    ],
)
def test_an_operand_takes_the_callers_buffer(
    operand: Value, forbidden: tuple[int, int], others: list[tuple[int, int]], is_taken: bool
) -> None:
    """Where the output may be written over it, and nothing else lies there meanwhile."""
    output = value(32, 4, 9, CALLERS)
    rest = [value(32, first, last, CALLERS) for first, last in others]
    values: Any = SimpleNamespace(distinct=[operand, output, *rest])
    plan._extend_buffers(values, [(operand, output, ForbiddenInterval(*forbidden))])
    assert operand.buffer == (CALLERS if is_taken else None)
    operand.buffer = None


def buffers(*values: Value) -> list[BufferRef | None]:
    return [value.buffer for value in values]


def test_operands_in_the_callers_buffer_at_the_end() -> None:
    first, second, output = value(32, 0, 1), value(32, 1, 2), value(32, 2, 9, CALLERS)
    values: Any = SimpleNamespace(distinct=[first, second, output])
    free = ForbiddenInterval(0, 0)
    # The second lies there from step 1 on, at which the first is read.
    plan._extend_buffers(values, [(second, output, free)])
    assert second.buffer == CALLERS
    second.buffer = None
    first.last = 0
    plan._extend_buffers(values, [(first, second, free), (second, output, free)])
    assert buffers(first, second) == [CALLERS, CALLERS]
    # One that has a buffer keeps it, and one without a caller's output has none to take.
    own = BufferRef("input", 0)
    first.buffer, second.buffer, output.buffer = own, None, None
    plan._extend_buffers(values, [(first, output, free), (second, output, free)])
    assert buffers(first, second) == [own, None]
    # What cannot take it does not keep another from it.
    output.buffer = CALLERS
    small = value(16, 0, 2)
    values.distinct.append(small)
    plan._extend_buffers(values, [(second, output, free), (small, output, free)])
    assert buffers(small, second) == [None, CALLERS]


def test_the_end_of_a_pool_is_that_of_its_last_block() -> None:
    blocks = [Block(10, 0, 0), Block(20, 0, 0), Block(50, 0, 0)]
    refs = [BufferRef("pool", 16, 0), BufferRef("pool", 0, 0), BufferRef("pool", 32, 1)]
    assert [plan._end(blocks, refs, pool) for pool in range(3)] == [26, 82, 0]


def refused(*sizes: int, limit: int, **options: Any) -> str:
    builder = GraphBuilder()
    x = builder.input(1, sizes[0])
    for size in sizes[1:]:
        x = builder.dense(x, size)
    planner = Planner(
        builder.graph(x), CPU, io_in_pool=True, memory=(PoolSpec("ram", limit),), **options
    )
    calls = {n.name: planner.lowering.calls(n) for n in planner.lowering.graph.nodes}
    choice = KernelSelection({name: found[1].variant for name, found in calls.items()})
    with pytest.raises(InputError) as caught:
        planner.plan(choice)
    return caught.value.fact


def test_a_misfit_names_the_fullest_layer() -> None:
    told = refused(16, 64, 96, 16, limit=100)
    assert "(ram 100 B): it needs 160 B at least" in told
    assert "at FULLY_CONNECTED" in told
    assert told.endswith("in blocks of 96, 64 B")
    # Of two inputs the first layer reads one; all of them are there before it.
    builder = GraphBuilder()
    many = [builder.input(1, 160) for _ in range(3)]
    x = builder.dense(builder.concat(*(builder.dense(one, 4) for one in many)), 4)
    planner = Planner(builder.graph(x), CPU, io_in_pool=True, memory=(PoolSpec("ram", 64),))
    with pytest.raises(InputError) as caught:
        planner.plan()
    assert " 160, 160, 160" in caught.value.fact


def test_arguments_of_a_plan_are_possible_ones() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 64)
    y = builder.dense(x, 32)
    graph = builder.graph(y)

    def told(**options: Any) -> str:
        try:
            Planner(graph, CPU, **{"io_in_pool": True, **options})
        except InputError as error:
            return error.fact
        return ""

    pools = (PoolSpec("fast", 64), PoolSpec("slow"))
    for offset, pool in ((0, 0), (16, 1)):
        assert told(pins={x: Pin(offset, pool)}, memory=pools) == ""
    assert "is pinned in pool 2, but there are 2 pools" in told(pins={x: Pin(0, 2)}, memory=pools)
    assert "is pinned in pool -1" in told(pins={x: Pin(0, -1)}, memory=pools)
    for offset in (-16, 1, 15, 17):
        assert f"misaligned offset {offset}" in told(pins={x: Pin(offset)})
    assert "is not an input or output" in told(pins={"other": Pin(0)})
    for options in ({"pins": {x: Pin(0)}}, {"keep_inputs": True}):
        assert "need inputs and outputs in the workspace" in told(io_in_pool=False, **options)
        assert told(**options) == ""
    assert "an invalid limit of -1 bytes" in told(memory=(PoolSpec("ram", -1),))
    assert told(memory=(PoolSpec("ram", 0),)) == ""
    assert "2 memory pools with pools=calls" in told(memory=pools, scratch_in_pool=False)
    assert told(memory=pools[:1], scratch_in_pool=False) == ""
    assert told(memory=pools) == ""


def test_one_pool_is_that_of_tensors_and_scratch() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.dense(builder.input(1, 64), 32))
    pools = (PoolSpec("fast", 64), PoolSpec("slow"))
    assert Planner(graph, CPU).one_pool
    assert Planner(graph, CPU, memory=()).one_pool
    assert not Planner(graph, CPU, memory=pools).one_pool
    assert not Planner(graph, CPU, scratch_in_pool=False).one_pool


def test_scratch_of_a_call_counts_once() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 64)
    graph = builder.graph(builder.dense(builder.dense(x, 32), 8))
    inside = Planner(graph, CPU).plan()
    apart = Planner(graph, CPU, scratch_in_pool=False).plan()
    scratch = [step.call.scratch_bytes for step in apart.steps]
    assert all(scratch)
    assert [step.scratch for step in apart.steps] == [None, None]
    assert apart.workspace_bytes == sum(p.nbytes for p in apart.pools) + max(scratch)
    assert apart.workspace_bound_bytes == 32 + max(scratch)
    assert [step.scratch is not None for step in inside.steps] == [True, True]
    assert inside.workspace_bytes == sum(p.nbytes for p in inside.pools)


def test_a_choice_of_groups_and_kernels_is_possible() -> None:
    builder = GraphBuilder()
    names = [builder.conv(builder.input(1, 8, 6, 4), 8)]
    for _ in range(2):
        names.append(builder.conv(names[-1], 4))
    planner = Planner(builder.graph(names[-1]), CPU, io_in_pool=True)
    one, other = Group(tuple(names[:2])), Group(tuple(names[1:]))
    assert len(planner.plan(KernelSelection(groups=(one,))).steps) == 2
    with pytest.raises(InputError, match=f"the choice has '{names[1]}' in two fused groups"):
        planner.plan(KernelSelection(groups=(one, other)))
    with pytest.raises(InputError, match="a group of layers that cannot be fused"):
        planner.plan(KernelSelection(groups=(Group((names[0], names[2])),)))
    for position in (0, 1):
        # As choices named kernels before variants had names.
        with pytest.raises(InputError, match=f"has no kernel variant {position}") as caught:
            planner.plan(KernelSelection({names[0]: position}))  # type: ignore[dict-item]
        assert "generic.conv2d.s8" in caught.value.hint
    for call in planner.lowering.calls(planner.lowering.graph.nodes[0]):
        planner.plan(KernelSelection({names[0]: call.variant}))


# -- live ranges -----------------------------------------------------------------------------------


def test_values_around_steps() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 8)
    a = builder.dense(x, 8)
    b = builder.dense(a, 8)
    c = builder.dense(b, 8)
    d = builder.add(c, a)
    live = Liveness(builder.graph(d), io_in_pool=True)
    live.set_reads([[x], [a], [b], [c, a]])
    names = {id(value): value.tensor.name for value in live.distinct}

    def at(first: int, last: int) -> tuple[list[str], ...]:
        found = live.neighbours(first, last)
        parts = found.around, found.ending, found.starting
        return tuple([names[id(value)] for value in part] for part in parts)

    assert at(0, 0) == ([], [x], [a])
    assert at(1, 1) == ([a], [], [b])
    assert at(2, 2) == ([a], [b], [c])
    assert at(3, 3) == ([], [a, c], [d])
    assert at(1, 2) == ([a], [], [c])
    assert at(1, 3) == ([], [a], [d])
    assert {n: (v.first, v.last) for n, v in live.by_name.items()} == {
        x: (BEFORE, 0), a: (0, 3), b: (1, 2), c: (2, 3), d: (3, 4)
    }  # fmt: skip
    assert list(live.dying(3, [a, c, "constant", b])) == [a, c]
    live.set_reads([[x], [a], [b], [c, a]], keep_inputs=True)
    assert live.by_name[x].last == 4


def test_pins_of_one_buffer_agree() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 8)
    y = builder.reshape(x, 8)
    live = Liveness(builder.graph(y), io_in_pool=True)
    live.set_pins({x: Pin(16), y: Pin(16)})
    assert live.by_name[x].pin == (16, 0)
    for other in (Pin(32), Pin(16, 1)):
        with pytest.raises(InputError, match=f"pinned at {other.offset} and 16"):
            live.set_pins({y: other})


def test_states_lie_one_behind_the_other() -> None:
    sizes = (5, 16, 17)
    states = [SimpleNamespace(name=f"s{size}") for size in sizes]
    graph: Any = SimpleNamespace(
        states=[StateOf(state.name) for state in states],
        tensors={f"s{size}": tensor(size) for size in sizes},
    )
    refs = liveness.state_buffers(graph, 3)
    assert [(ref.kind, ref.value, ref.pool) for ref in refs.values()] == [
        ("pool", 0, 3), ("pool", 16, 3), ("pool", 32, 3)
    ]  # fmt: skip
    assert liveness.state_bytes(graph) == 64


class StateOf:
    """A state by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Differences:
    """A lowering that permits what is listed, by the positions of operand and output."""

    def __init__(
        self,
        found: dict[tuple[int, int], ForbiddenInterval],
        over: ForbiddenInterval | None = None,
    ) -> None:
        self.found = found
        self.over = over

    def differences(self, call: Any, reads: Any, writes: Any, operand: int, output: int) -> Any:
        return self.found.get((operand, output))

    def scratch_differences(self, call: Any, operand: int) -> Any:
        return self.found.get((operand, 0))

    def output_differences(self, call: Any) -> Any:
        return self.over


def test_an_operand_read_twice_has_both_intervals() -> None:
    a, b, y, z = (value(size, 0, 1) for size in (8, 9, 10, 11))
    wide, narrow, other = (ForbiddenInterval(*each) for each in ((-9, 1), (-2, 7), (-1, 1)))
    lowering: Any = Differences({(0, 0): wide, (2, 0): narrow, (1, 1): other})
    reads, dying = ["a", "b", "view of a", "constant"], {"a": a, "view of a": a, "b": b}
    call: Any = None

    def pairs(written: dict[str, Value]) -> list[Any]:
        found = liveness.may_overlap(lowering, call, reads, ["y", "z"], dying, written)
        return [(one.tensor.nbytes, out.tensor.nbytes, between) for one, out, between in found]

    assert pairs({"y": y, "z": z}) == [(8, 10, ForbiddenInterval(-9, 7)), (9, 11, other)]
    assert pairs({"z": z}) == [(9, 11, other)]
    assert pairs({}) == []
    assert liveness.may_overlap(lowering, call, reads, ["y"], {}, {"y": y}) == []
    below: Any = Differences({(0, 0): wide, (2, 0): narrow})
    found = liveness.under_scratch(below, call, reads, dying, [y])
    assert [(one.tensor.nbytes, between) for one, between in found] == [
        (8, ForbiddenInterval(-9, 7))
    ]
    assert liveness.under_scratch(below, call, reads, {"b": b}, [y]) == []
    beside: Any = Differences({}, other)
    assert liveness.under_scratch(beside, call, reads, dying, [y]) == [(y, other)]


# -- fused groups ----------------------------------------------------------------------------------


@cache
def two_convolutions() -> FusedCall:
    builder = GraphBuilder()
    first = builder.conv(builder.input(1, 9, 6, 4), 8)
    graph = builder.graph(builder.conv(first, 5))
    names = tuple(node.name for node in graph.nodes)
    return Lowering(graph, CPU).group(Group(names, 2))


def with_entries(call: FusedCall, entries: Sequence[Any]) -> FusedCall:
    return replace(call, parts=(Part(Piece.of(list(entries))),))


def test_every_call_of_a_group_is_needed() -> None:
    call = two_convolutions()
    check_group(call)
    output = call.outputs[0]
    for left in range(len(call.entries)):
        rest = [entry for at, entry in enumerate(call.entries) if at != left]
        with pytest.raises(PlanError) as caught:
            check_group(with_entries(call, rest))
        if call.entries[left].stage == 1:
            assert f"output {output!r} is incomplete" in str(caught.value)
    # The last rows alone.
    with pytest.raises(PlanError, match="is incomplete at the end of the fused group"):
        check_group(with_entries(call, call.entries[:-1]))


def test_a_stage_does_not_write_over_its_own_scratch() -> None:
    call = two_convolutions()
    stage = call.stages[0]
    first = call.entries[0]
    assert first.write.kind == "scratch"
    begin, nbytes = first.write.offset, first.output.nbytes
    for at, size, is_refused in (
        (begin, 1, True),
        (begin + nbytes - 1, 1, True),
        (begin + nbytes, 1, False),
        (begin, 0, False),
    ):
        if at + size > call.scratch_bytes:
            continue
        stages = (replace(stage, scratch=at, scratch_bytes=size), *call.stages[1:])
        alone = with_entries(replace(call, stages=stages), [first])
        told = ""
        try:
            check_group(alone)
        except PlanError as error:
            told = str(error)
        assert ("writes its output rows over its own scratch" in told) == is_refused, (at, size)


def test_rows_are_fed_in_order() -> None:
    made: Any = object.__new__(check_fused._Replay)
    ran: list[tuple[int, int]] = []

    def entry(stage: int, first: int, count: int) -> Any:
        return SimpleNamespace(stage=stage, first=first, count=count, moves=())

    def run(*entries: Any) -> None:
        ran.clear()
        made._call = SimpleNamespace(fed=0, entries=entries, outputs=("y",))
        made._run = lambda entry: ran.append((entry.stage, entry.first))
        made._output = made._owners = None
        made._first_owner = {"y": 0}
        # Of an output of no bytes nothing is missing.
        made._output = np.empty(0, np.int64)
        made._owners = lambda name, begin, nbytes: np.arange(nbytes) + begin
        made.run()

    run(entry(0, 0, 2), entry(1, 0, 1), entry(0, 2, 1), entry(0, 5, 1))
    assert ran == [(0, 0), (1, 0), (0, 2), (0, 5)]
    for first, after in ((1, 2), (0, 2)):
        with pytest.raises(PlanError, match=f"row {first} is fed after {after} rows"):
            run(entry(0, 0, 2), entry(0, first, 2))
    run(entry(0, 0, 2), entry(1, 1, 2), entry(1, 0, 2))


def test_moves_take_their_owners_along() -> None:
    """A copy of the rows, from where they were; what they leave behind stays."""
    made: Any = object.__new__(check_fused._Replay)
    made._scratch = np.arange(10)
    made._used = np.zeros(10, bool)
    move = SimpleNamespace(source=2, target=5, nbytes=3)
    entry = SimpleNamespace(stage=0, first=0, count=1, moves=(move,))
    made._call = SimpleNamespace(fed=None, entries=[entry], outputs=("y",), stages=[])
    made._run = lambda entry: None
    made._output = np.empty(0, np.int64)
    made._first_owner = {"y": 0}
    made.run()
    assert made._scratch.tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 8, 9]
    assert np.flatnonzero(made._used).tolist() == [5, 6, 7]


# -- what is told of a plan ------------------------------------------------------------------------


def slot(offset: int, nbytes: int, pool: int = 0, first: int = 0, last: int = 0) -> ArenaSlot:
    return ArenaSlot(f"s{offset}", "tensor", nbytes, pool, offset, first, last)


def test_bytes_that_several_buffers_cover_count_once() -> None:
    for spans in itertools.product([(0, 4), (2, 4), (6, 1), (8, 3), (1, 1)], repeat=3):
        taken = {byte for offset, size in spans for byte in range(offset, offset + size)}
        assert explain._covered([slot(*span) for span in spans]) == len(taken)
    assert explain._covered([]) == 0


def test_two_buffers_meet_where_they_share_a_byte() -> None:
    for a, b, size, other in itertools.product(range(4), range(4), (1, 2), (1, 3)):
        shared = set(range(a, a + size)) & set(range(b, b + other))
        first, second = BufferRef("pool", a), BufferRef("pool", b)
        assert explain._meet(first, size, second, other) == bool(shared)
    here = BufferRef("pool", 0)
    assert not explain._meet(here, 9, BufferRef("pool", 0, 1), 9)
    for elsewhere in (BufferRef("input", 0), BufferRef("constant", 0)):
        assert not explain._meet(here, 9, elsewhere, 9)
        assert not explain._meet(elsewhere, 9, elsewhere, 9)


def slots_of(program: Program) -> dict[str, tuple[str, int, int]]:
    return {s.name: (s.what, s.first, s.last) for s in explain.explain(program).slots}


def test_each_buffer_is_told_with_what_it_is_and_when() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 9, 6, 4)
    names = [builder.conv(x, 8)]
    for _ in range(2):
        names.append(builder.conv(names[-1], 4))
    graph = builder.graph(names[-1], names[0])
    inside = Planner(graph, CPU, io_in_pool=True).plan()
    assert {n: s for n, s in slots_of(inside).items() if not n.startswith("scratch")} == {
        x: ("input", BEFORE, 0),
        names[0]: ("output", 0, 3),
        names[1]: ("tensor", 1, 2),
        names[2]: ("output", 2, 3),
    }
    scratch = {n: s for n, s in slots_of(inside).items() if n.startswith("scratch")}
    assert scratch == {f"scratch of {n}": ("scratch", at, at) for at, n in enumerate(names)}
    # Inputs and outputs that are the caller's take nothing of a pool.
    outside = Planner(graph, CPU).plan()
    assert {n for n in slots_of(outside) if not n.startswith("scratch")} == {names[1]}
    # Of a fused group the last tensor alone has a buffer.
    group = Group((names[1], names[2]))
    fused = Planner(graph, CPU, io_in_pool=True).plan(KernelSelection(groups=(group,)))
    told = explain.explain(fused)
    assert names[1] not in slots_of(fused)
    assert slots_of(fused)[names[2]] == ("output", 1, 2)
    assert [[node.name for node in step.nodes] for step in told.steps] == [[names[0]], names[1:]]
    assert [bool(step.kept) for step in told.steps] == [False, True]
    assert [step.macs for step in told.steps] == [step.call.macs for step in fused.steps]


def test_slots_are_sorted_by_their_start_and_place() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 64)
    graph = builder.graph(builder.add(builder.dense(x, 64), builder.dense(x, 64)))
    told = explain.explain(Planner(graph, CPU, io_in_pool=True).plan())
    places = [(s.first, s.pool, s.offset) for s in told.slots]
    assert places == sorted(places)
    for step in range(len(told.steps)):
        here = told.at(step)
        assert [s.name for s in here] == [
            s.name for s in sorted(here, key=lambda s: s.offset) if s.first <= step <= s.last
        ]
        ends = max(s.end for s in here)
        assert told.steps[step].ends == (ends,)


def test_the_peak_is_the_first_of_the_fullest_steps() -> None:
    """Of those that reach the end, the one with the most bytes in use; of equal ones the first."""

    def peak(*steps: tuple[int, int]) -> int:
        told = [SimpleNamespace(ends=(ends,), used_bytes=used) for ends, used in steps]
        program: Any = SimpleNamespace(
            steps=told, feed=None,
            graph=SimpleNamespace(name="net", inputs=(), outputs=(), tensors={}, nodes=()),
            cpu=CPU, io_in_pool=True, pools=(),
            workspace_bytes=0, state_bytes=0,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(explain, "_arena_slots", lambda program: [])
            patch.setattr(explain, "io_saving", lambda graph: None)
            patch.setattr(explain, "_step_memory", lambda program, index, living: told[index])
            return explain.explain(program).peak

    assert peak((10, 5), (20, 1), (15, 15)) == 1
    assert peak((20, 5), (20, 9), (20, 7)) == 1
    assert peak((20, 9), (20, 9), (10, 99)) == 0
    assert peak() == 0


def test_kept_rows_span_all_places_of_a_tensor() -> None:
    def entry(stage: int, kind: str, offset: int, nbytes: int) -> Any:
        write = SimpleNamespace(kind=kind, offset=offset)
        return SimpleNamespace(stage=stage, write=write, output=SimpleNamespace(nbytes=nbytes))

    # The rows of a layer's slices are the layer's.
    call: Any = SimpleNamespace(
        nodes=[SimpleNamespace(name=name) for name in "ab"],
        stages=[SimpleNamespace(layer=layer) for layer in (0, 1, 0)],
        entries=[
            entry(0, "scratch", 40, 8),
            entry(0, "scratch", 16, 8),
            entry(1, "output", 0, 99),
            entry(1, "scratch", 100, 4),
            entry(2, "scratch", 24, 8),
        ],
    )
    assert list(explain._kept(call)) == [("a", 16, 48), ("b", 100, 104)]


def test_outputs_over_inputs_have_a_distance() -> None:
    def overlaps(output: int, **inputs: int) -> list[tuple[str, str, int]]:
        buffers = {name: BufferRef("pool", at) for name, at in inputs.items()}
        program: Any = SimpleNamespace(
            graph=SimpleNamespace(tensors={n: tensor(32) for n in ("y", *inputs)}),
            buffers={"y": BufferRef("pool", output), **buffers},
        )
        # An input that is read twice is told once.
        step: Any = SimpleNamespace(outputs=("y",), inputs=(*inputs, *inputs))
        return list(explain._overlaps(program, step))

    assert overlaps(0, a=16, b=32) == [("y", "a", -16)]
    assert overlaps(48, a=16, b=32) == [("y", "b", 16)]
    assert overlaps(16, a=0, b=16) == [("y", "a", 16), ("y", "b", 0)]
