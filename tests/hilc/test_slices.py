"""Expansions by slices of channels: results, memory, and when they are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder

import hilc
from hil.cli.render import chosen_lines
from hilc import host
from hilc.fusion.bands import NotFusible
from hilc.fusion.bounds import Prices
from hilc.fusion.call import FusedCall
from hilc.fusion.fused import GroupCalls
from hilc.fusion.slices import expansions
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.lowering.choice import ChoiceReport, Group, KernelSelection
from hilc.memory.check_fused import check_group
from hilc.memory.checker import execute_plan
from hilc.memory.plan import plan
from hilc.memory.program import PlanError
from hilc.target import get_cpu

#: Channels of the expansions: neither a multiple of a slice, nor of what a kernel takes at a time.
EXPANDED = 22


@cache
def _blocks(stride: int, padding: str, size: int = 3) -> Graph:
    """Two inverted residual blocks; the second one's input is added to its output where it can."""
    builder = GraphBuilder(stride + size)
    x = builder.conv(builder.input(1, 17, 12, 3), 4)
    y = builder.depthwise(builder.conv(x, EXPANDED, 1), 1, size, stride, padding)
    x = builder.conv(y, 5, 1)
    y = builder.depthwise(builder.conv(x, EXPANDED, 1), 1, 3, 1)
    return builder.graph(builder.add(x, builder.conv(y, 5, 1)))


def _group(graph: Graph, rows: int = 1, sliced: int = 0) -> Group:
    return Group(tuple(node.name for node in graph.nodes), rows, sliced=sliced)


def _input(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    (name,) = graph.inputs
    return {name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)}


def _fused(graph: Graph, cpu: str, sliced: int) -> FusedCall:
    return GroupCalls(graph, get_cpu(cpu)).call(_group(graph, sliced=sliced))


WAYS = [(1, "SAME", 3), (2, "SAME", 3), (1, "VALID", 3), (2, "VALID", 5), (3, "SAME", 5)]


# What they compute ------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "padding", "size"), sampled(WAYS, keep=[WAYS[0], WAYS[3]]))
def test_slices_compute_what_their_layers_do(stride: int, padding: str, size: int) -> None:
    graph = _blocks(stride, padding, size)
    given = _input(graph)
    (name,) = graph.outputs
    expected = run(graph, given)[name]
    for rows in (1, 2, 3):
        choice = KernelSelection(groups=(_group(graph, rows=rows, sliced=8),))
        with host.load(hilc.compile(graph, choice=choice, fold_constant_channels=False)) as model:
            model.set_input(0, given[graph.inputs[0]])
            model.run()
            np.testing.assert_array_equal(model.get_output(0), expected)


@cases("cpu", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imac"], first=1)
@cases(("stride", "padding", "size"), WAYS, first=1)
def test_plans_with_slices_keep_what_is_needed(
    stride: int, padding: str, size: int, cpu: str
) -> None:
    """Executed on one byte buffer, in the order that the groups declare."""
    graph = _blocks(stride, padding, size)
    choice = KernelSelection(groups=(_group(graph, sliced=8),))
    program = plan(graph, get_cpu(cpu), io_in_pool=True, choice=choice)
    given = _input(graph)
    (name,) = graph.outputs
    np.testing.assert_array_equal(execute_plan(program, given)[name], run(graph, given)[name])


# Their memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "padding", "size"), WAYS)
def test_only_rows_of_a_slice_exist(stride: int, padding: str, size: int) -> None:
    graph = _blocks(stride, padding, size)
    plain, sliced = (_fused(graph, "cortex-m4", sliced=width) for width in (0, 8))
    check_group(sliced)
    # Three rows of both expansions are most of what rows take, and a third of them remains.
    row = 12 * EXPANDED
    assert plain.scratch_bytes - sliced.scratch_bytes > 2 * row
    assert sliced.macs > plain.macs
    with pytest.raises(PlanError):
        check_group(replace(sliced, scratch_bytes=sliced.scratch_bytes - 4))


def test_one_kernel_computes_all_slices_of_a_layer() -> None:
    """In as much scratch as there is, for the layers as the group names them."""
    graph = _blocks(1, "SAME")
    group = _group(graph, sliced=8)
    calls = GroupCalls(graph, get_cpu("cortex-m4"))
    free = Prices(lambda name, call: 0, 0.0, 0.0)
    kernels = calls.kernels_within(group, 1 << 20, 1 << 20, free)
    assert kernels is not None
    assert len(kernels) == len(group.nodes)
    stages = calls.call(replace(group, kernels=kernels)).stages
    for layer, node in enumerate(graph.nodes):
        own = [s for s in stages if s.layer == layer and s.node.op == node.op]
        assert len({stage.call.kernel.name for stage in own}) == 1
    least = calls.call(replace(group, kernels=kernels)).scratch_bytes
    assert calls.kernels_within(group, least // 4, 1 << 20, free) is None
    with pytest.raises(NotFusible):
        calls.call(replace(group, kernels=("none",) * len(kernels)))
    with pytest.raises(NotFusible, match="slices of -1 channels"):
        calls.call(replace(group, sliced=-1))


# What can be sliced -----------------------------------------------------------------------------


def _sliceable(graph: Graph, channels: int = 8) -> Sequence[int]:
    return expansions(graph, graph.nodes, graph.consumers(), channels)


def test_what_is_no_expansion_is_not_sliced() -> None:
    builder = GraphBuilder()
    x = builder.input(1, 8, 8, 4)
    wide = builder.conv(x, 24, 1)
    y = builder.depthwise(wide)
    assert _sliceable(builder.graph(y)) == [0]
    assert _sliceable(builder.graph(y), 24) == []  # one slice is all
    assert _sliceable(builder.graph(y, wide)) == []  # the caller reads it
    assert _sliceable(builder.graph(builder.add(wide, y))) == []  # another layer does
    for made in (
        builder.conv(x, 24, 3),  # more than a pixel
        builder.conv(x, 24, 1, stride=2),
        builder.conv(x, 8, 1),  # too few channels
    ):
        own = GraphBuilder()
        own.tensors, own.inputs = builder.tensors, builder.inputs
        own.nodes = [node for node in builder.nodes if node.name == made]
        assert _sliceable(own.graph(own.depthwise(made))) == []
    own.nodes = [node for node in builder.nodes if node.name == wide]
    assert _sliceable(own.graph(own.depthwise(wide, 2))) == []  # two filters a channel


# When they are chosen ---------------------------------------------------------------------------


def _image() -> Graph:
    builder = GraphBuilder(7)
    x = builder.conv(builder.conv(builder.input(1, 64, 64, 1), 16, 3, 2), 8)
    for stride in (2, 1):
        y = builder.depthwise(builder.conv(x, 48, 1), 1, 3, stride)
        x = builder.conv(y, 8, 1)
    return builder.graph(x)


def _report(library: hilc.ModelLibrary) -> ChoiceReport:
    (report,) = library.reports.values()
    return report


def test_slices_are_chosen_where_a_limit_asks_for_them() -> None:
    graph = _image()
    options = hilc.CompileOptions(cpu="cortex-m4", feed="rows", io_in_pool=True)
    fast = _report(hilc.compile(graph, options=replace(options, optimize="speed")))
    assert not any(group.sliced for group in fast.groups)
    least = hilc.compile(graph, options=replace(options, optimize="ram"))
    report = _report(least)
    assert any(group.sliced for group in report.groups)
    assert any("expansions by 32 channels" in line for line in chosen_lines(report))
    # No less of the others.
    above = _report(
        hilc.compile(graph, options=replace(options, ram=2 * report.chosen.workspace_bytes))
    )
    assert not any(group.sliced for group in above.groups)
    within = _report(
        hilc.compile(graph, options=replace(options, ram=report.chosen.workspace_bytes))
    )
    assert any(group.sliced for group in within.groups)
    # What lies in memory is told by the layers of the model.
    (explain,) = least.plans.values()
    for step in explain().steps:
        assert {name for name, _, _ in step.kept} <= {node.name for node in step.nodes}
    own = hilc.compile(graph, feed="rows", ram=report.chosen.workspace_bytes)
    with host.load(own) as model:
        given = _input(graph, 3)
        model.set_input(0, given[graph.inputs[0]])
        model.run()
        expected = run(graph, given)[graph.outputs[0]]
        np.testing.assert_array_equal(model.get_output(0), expected)
