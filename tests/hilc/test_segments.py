"""Segments of small graphs: what their memory, flash and costs are made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from linear_layers import make_layer
from random_graphs import GraphBuilder

from hilc.external import ExternalCall
from hilc.fusion.call import FusedCall
from hilc.lowering import candidates
from hilc.lowering.access import ForbiddenInterval
from hilc.lowering.bodies import BodySharing, body_key
from hilc.lowering.choice import Group, KernelSelection
from hilc.lowering.compressed import DECODER_BYTES, HEADER, LAYER_BYTES, CompressedCall
from hilc.lowering.kernels import KernelCall
from hilc.memory.allocate import align
from hilc.memory.plan import Planner
from hilc.memory.pools import Pin
from hilc.schedule import estimate
from hilc.schedule.estimate import Estimator, Segment
from hilc.schedule.policy import POLICY
from hilc.target import get_cpu

CPU = get_cpu("cortex-m4")


@cache
def crossed() -> Planner:
    """Layers of 32 channels, the first of which is read again by the last."""
    builder = GraphBuilder()
    first = builder.dense(builder.input(1, 64), 32)
    second = builder.dense(first, 32)
    third = builder.dense(second, 32)
    graph = builder.graph(builder.add(third, first))
    return Planner(graph, CPU, io_in_pool=True)


@cache
def images() -> Planner:
    """Two convolutions of an image, which may be fused."""
    builder = GraphBuilder()
    first = builder.conv(builder.input(1, 8, 6, 4), 8)
    return Planner(builder.graph(builder.conv(first, 5)), CPU, io_in_pool=True)


def estimator(planner: Planner, optimize: str = "speed") -> Estimator:
    return Estimator(planner, None, optimize, POLICY)


def kernel_calls(segment: Segment) -> list[KernelCall]:
    return [call for call in segment.calls if isinstance(call, KernelCall)]


# -- memory ----------------------------------------------------------------------------------------


def test_the_sizes_around_a_layer() -> None:
    """Those that live on, its inputs that end, its outputs; inputs that live on are around it."""
    one = estimator(crossed())
    assert [one._sizes(step, step) for step in range(4)] == [
        (0, 64, 32),
        (32, 0, 32),
        (32, 32, 32),
        (0, 64, 32),
    ]
    assert one._sizes(1, 2) == (32, 0, 32)
    assert one._sizes(0, 3) == (0, 64, 32)


def test_the_bound_of_a_layer_is_what_lies_apart_in_it() -> None:
    """Without room for scratch its tensors lie apart; with it the output may lie over its input."""
    one = estimator(crossed())
    for step, around, operand in ((0, 0, 64), (1, 32, 0), (2, 32, 32)):
        found = one.singles(step)
        assert len(found) > 1
        for segment in found:
            scratch = sum(call.scratch_bytes for call in kernel_calls(segment))
            under = max(operand, 32) if segment.in_place and operand else operand + 32
            assert segment.memory_bound == around + under + scratch, (step, segment.kernel)
    assert {s.in_place for s in one.singles(2)} == {False, True}
    # Where no input ends the output lies over none, whatever the kernel.
    assert {s.in_place for s in one.singles(1)} == {True}


def test_a_segment_of_the_only_input_places_its_output() -> None:
    one = estimator(crossed())
    first, second, third, last = (one.singles(step)[0] for step in range(4))
    by_name = one._liveness.by_name
    names = [node.outputs[0] for node in one.nodes]
    assert first.output == id(by_name[names[0]])
    assert [len(s.passages) for s in (first, second, third, last)] == [1, 0, 1, 2]
    assert set(third.passages) == {id(by_name[names[1]])}
    apart = one.singles(2)[-1]
    assert not apart.in_place
    # 32 bytes of the first layer are not counted here.
    assert third.after(third.output, None, 16) == ()
    assert apart.after(None, None, 48) == ()
    assert apart.after(next(iter(apart.passages)), None, 64) == ((0, 0), (2, 2))
    # From the end of the pool, it lies at its start.
    assert apart.after(next(iter(apart.passages)), ((2, 2),), 64) == ((0, 0),)
    # Of a tensor that it does not read nothing is known: any offset of its own input.
    assert apart.after(apart.output, ((2, 2),), 64) == ((0, 0), (2, 2))


def test_an_output_in_the_place_of_one_input_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several inputs that end; where none permits it, and none is known to, it is not."""
    one = estimator(crossed())
    node, call = one.nodes[3], one._calls[3][0]
    assert isinstance(call, KernelCall)
    by_name = one._liveness.by_name
    output = by_name[node.outputs[0]]
    apart, over = ForbiddenInterval(-32, 32), ForbiddenInterval(0, 0)
    for given, in_place in (
        ((apart, over), True),
        ((over, apart), True),
        ((over, over), True),
        ((apart, apart), False),
        ((), False),
    ):
        pairs = [
            (by_name[name], output, between)
            for name, between in zip(node.inputs, given, strict=False)
        ]
        monkeypatch.setattr(estimate, "may_overlap", lambda *rest, pairs=pairs: pairs)
        assert one._memory(3, 3, call, node.inputs, node.outputs).in_place == in_place, given


def test_separate_pools_or_pins_give_no_offsets() -> None:
    planner = crossed()
    graph = planner.lowering.graph
    pinned = Planner(graph, CPU, io_in_pool=True, pins={graph.outputs[0]: Pin(64)})
    apart = Planner(graph, CPU, io_in_pool=True, scratch_in_pool=False)
    for planner, known in ((pinned, [0, 2]), (apart, [])):
        one = estimator(planner)
        assert [step for step in range(4) if one.singles(step)[0].passages] == known


def test_the_bound_of_a_layer_is_its_plan() -> None:
    """A graph of one layer, with each of its kernels."""
    builder = GraphBuilder()
    planner = Planner(builder.graph(builder.dense(builder.input(1, 64), 32)), CPU, io_in_pool=True)
    for segment in estimator(planner).singles(0):
        name = planner.lowering.graph.nodes[0].name
        program = planner.plan(KernelSelection({name: segment.kernel}))
        assert align(segment.memory_bound) == program.workspace_bytes


# -- flash -----------------------------------------------------------------------------------------


def array_bytes(call: KernelCall) -> int:
    """Return the bytes of a call's arrays, equal ones once, each aligned."""
    return sum(
        align(nbytes)
        for nbytes in {array.tobytes(): array.nbytes for array in call.constant_arrays}.values()
    )


@pytest.mark.parametrize("optimize", ["speed", "balanced", "size"])
def test_the_flash_of_a_layer_is_arrays_and_code(optimize: str) -> None:
    """Two of the three dense layers are alike; for size all three share code."""
    one = estimator(crossed(), optimize)
    calls = [
        call
        for node in one.nodes
        for call in one._lowering.calls(node)
        if isinstance(call, KernelCall)
    ]
    keys = [body_key(call, optimize, one._lowering.cpu) for call in calls]
    shared = 0
    for step in range(3):
        for segment in one.singles(step):
            (call,) = kernel_calls(segment)
            if isinstance(call, CompressedCall):
                continue
            key = body_key(call, optimize, one._lowering.cpu)
            sharers = 1 if key is None or optimize == "speed" else keys.count(key)
            shared += sharers > 1
            expected = array_bytes(call) + call.kernel.code / sharers
            assert segment.flash == pytest.approx(expected)
            assert sum(segment.parts.values()) == array_bytes(call) + call.kernel.code
    assert (shared > 0) == (optimize != "speed")


def test_compressed_weights_count_their_decoder_once() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 64)
    weights = builder.weights((64, 64), axis=None)
    # Few values, so that compression pays.
    data = builder.tensors[weights].data
    assert data is not None
    data //= 64
    planner = Planner(
        builder.graph(
            builder.op("FULLY_CONNECTED", x, weights, "", activation="NONE", keep_num_dims=True)
        ),
        CPU,
        io_in_pool=True,
    )
    one = estimator(planner)
    calls = [call for call in one._calls[0] if isinstance(call, CompressedCall)]
    assert calls
    for call in calls:
        parts = one._parts(call, None)
        assert parts[HEADER] == DECODER_BYTES
        assert parts[HEADER, id(call)] == LAYER_BYTES
        assert sum(parts.values()) == (
            array_bytes(call) + call.kernel.code + DECODER_BYTES + LAYER_BYTES
        )


def test_an_external_function_costs_as_stated() -> None:
    call: Any = object.__new__(ExternalCall)
    module = SimpleNamespace(symbol="user_conv", flash_bytes=321, instructions=99)
    object.__setattr__(call, "module", module)
    assert estimator(crossed())._parts(call, None) == {"user_conv": 321}
    assert estimate._instructions(call, CPU) == 99


def fused(planner: Planner, rows: int = 2) -> tuple[Estimator, Group, FusedCall]:
    one = estimator(planner)
    group = Group(tuple(node.name for node in one.nodes), rows)
    return one, group, planner.lowering.group(group)


def test_a_fused_group_costs_stages_and_entries() -> None:
    one, group, call = fused(images())
    segment = one.fused(group, call, 0, 1)
    stages = [stage.call for stage in call.stages]
    code = sum(one._band_bytes(stage.kernel) for stage in stages)
    entries = POLICY.group_entry_bytes * call.count
    assert segment.flash == sum(map(array_bytes, stages)) + code + entries
    assert segment.parts[group] == entries > 0
    assert segment.cost == round(call.cost(CPU))
    assert (segment.first, segment.last, segment.kernel) == (0, 1, "")
    assert (segment.group, segment.names, segment.calls) == (group, group.nodes, tuple(stages))
    program = images().plan(KernelSelection({}, (group,)))
    assert align(segment.memory_bound) == program.workspace_bytes


@pytest.mark.parametrize("worth", [0.0, 2.0])
def test_the_price_of_a_stage_counts_new_arrays(worth: float) -> None:
    one, group, call = fused(images())
    stages = [stage.call for stage in call.stages]
    prices = one.prices(worth)
    assert one.prices(worth) is prices
    assert (prices.worth, prices.entry) == (worth, worth * POLICY.group_entry_bytes)
    own = [array_bytes(stage) + one._band_bytes(stage.kernel) for stage in stages]
    for name, stage, nbytes in zip(group.nodes, stages, own, strict=True):
        assert prices.stage_bytes(name, stage) == nbytes
        assert prices.stage_bytes(name, stage) == nbytes  # known now
    # The same arrays in another layer cost nothing there.
    again = replace(stages[0])
    assert one._arrays(again) == one._arrays(stages[0])
    assert prices.stage_bytes("other", again) == one._band_bytes(again.kernel)


def test_segments_compare_by_instructions() -> None:
    one = estimator(crossed())
    found = one.singles(0)
    assert [estimate.segment_cost(s) for s in found] == [s.cost for s in found]
    for segment in found:
        (call,) = kernel_calls(segment)
        assert segment.cost == call.instructions(CPU)


def test_layers_of_other_numbers_share_slower_code() -> None:
    rng, cpu = np.random.default_rng(5), get_cpu("cortex-m4")
    attrs = {"stride_h": 1, "stride_w": 1, "padding": "SAME", "depth_multiplier": 1}
    small, large = (
        make_layer(rng, "DEPTHWISE_CONV_2D", "int8", (1, size, size, 8), (1, 3, 3, 8), attrs)
        for size in (6, 9)
    )
    first, same, other = (
        next(
            call
            for call in candidates(layer.node, layer.ins, layer.outs, cpu)
            if isinstance(call, KernelCall) and call.variant == "generic.depthwise_conv2d.s8"
        )
        for layer in (small, small, large)
    )
    for optimize, calls, slower in (
        ("size", (first, other), True),
        # The numbers are constants of the body.
        ("size", (first, same), False),
        ("size", (first,), False),
        ("balanced", (first, other), False),
    ):
        bodies = BodySharing(calls, optimize, cpu)
        assert [bodies.reads_numbers(call) for call in calls] == [slower] * len(calls)
    assert first.instructions(cpu, shared=True) > 1.5 * first.instructions(cpu)


def test_each_kernel_that_is_kept_has_something_for_it() -> None:
    def figures(segment: Segment) -> Sequence[float]:
        return segment.cost, segment.memory_bound, segment.flash, -segment.in_place

    one = estimator(crossed())
    for step in range(4):
        kept = one.singles(step)
        for before, after in itertools.combinations(kept, 2):
            assert any(a > b for a, b in zip(figures(before), figures(after), strict=True))
        kernels = {segment.kernel for segment in kept}
        left = set(range(len(one._calls[step]))) - kernels
        for kernel in left:
            call = one._calls[step][kernel]
            cost = estimate._instructions(call, CPU)
            # Kernels that are left out are no cheaper than all that are kept.
            assert cost >= min(segment.cost for segment in kept)


def test_emitted_functions_are_stored_once() -> None:
    """Layers of one kernel share what is emitted; the code around it is there for each."""
    cpu, rng = get_cpu("rv32imac"), np.random.default_rng(7)
    layers = [
        make_layer(rng, "FULLY_CONNECTED", "int16", (rows, 40), (9, 40), {"activation": "NONE"})
        for rows in (5, 6)
    ]
    first, second = (
        next(
            call
            for call in candidates(layer.node, layer.ins, layer.outs, cpu)
            if isinstance(call, KernelCall) and call.kernel.shared_code
        )
        for layer in layers
    )
    assert first.kernel is second.kernel
    one = estimator(crossed())
    own, other = (one._parts(call, None) for call in (first, second))
    together = sum({**own, **other}.values())
    assert together == sum(own.values()) + sum(other.values()) - first.kernel.shared_code
    assert first.kernel.shared_code > first.kernel.code / 2
