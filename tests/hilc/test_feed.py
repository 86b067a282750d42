"""Inputs by rows: what a model computes on them, when it takes them, and what it refuses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from campaigns import sampled
from onnx import TensorProto, helper, numpy_helper
from random_graphs import GraphBuilder
from row_chains import random_chains

import hilc
from hil.cli import main
from hil.cli.render import chosen_lines
from hil.page.plan_json import plan_entry, plan_of
from hilc import CompileOptions, InputError, host
from hilc.host import HostModel
from hilc.interpreter import run
from hilc.ir import Array, Graph
from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.checker import check_plan, execute_plan
from hilc.memory.explanation import BEFORE
from hilc.memory.plan import Planner
from hilc.memory.program import BufferRef, PlanError
from hilc.target import get_cpu
from hilc.transforms.feed import with_feed


def _rows(model: HostModel, x: Array) -> Array:
    return x.reshape(model.module.fed_rows, -1)


def _push(model: HostModel, x: Array, rng: np.random.Generator) -> None:
    """Push the rows in uneven parts, some of them none."""
    rows = _rows(model, x)
    at = 0
    while at < len(rows):
        count = min(int(rng.integers(0, 6)), len(rows) - at)
        at += count
        assert model.push_rows(rows[at - count : at]) == len(rows) - at


def _callback(fetch: Callable[[int, int, int, int], int]) -> Any:
    number, pointer = ctypes.c_int32, ctypes.c_void_p
    return ctypes.CFUNCTYPE(number, pointer, pointer, number, number)(fetch)


def _pull(model: HostModel, x: Array) -> None:
    """Let the C code fetch the rows, and run it on them; no row is fetched twice."""
    rows, asked = _rows(model, x).view(np.uint8), 0

    def fetch(context: int, to: int, first: int, count: int) -> int:
        nonlocal asked
        assert first >= asked
        asked = first + count
        part = rows[first:asked]
        ctypes.memmove(to, part.ctypes.data, part.nbytes)
        return 0

    assert _call(model, "pull_rows", _callback(fetch), None) == 0
    assert 0 < asked <= len(rows)
    _call(model, "run")


def _call(model: HostModel, function: str, *arguments: Any) -> int:
    return int(model._code.function(f"{model.module.symbol}_{function}")(*arguments))


def _ways(model: HostModel, rng: np.random.Generator) -> dict[str, Callable[[Array], object]]:
    def pushed(x: Array) -> None:
        _push(model, x, rng)
        model.run()

    def stopped(x: Array) -> None:
        model.start_rows()
        model.push_rows(np.full_like(_rows(model, x)[: len(_rows(model, x)) // 2], 1))
        model.start_rows()
        pushed(x)

    def given(x: Array) -> None:
        model.set_input(0, x)
        model.run()

    def layers(x: Array) -> None:
        model.set_input(0, x)
        assert len(list(model.layer_outputs())) == len(model.layers)

    return {"pushed": pushed, "stopped": stopped, "given": given, "by layer": layers}


def _assert_exact(model: HostModel, expected: Callable[[Array], Array]) -> None:
    rng = np.random.default_rng(5)
    info = model.inputs[0]
    for way, compute in _ways(model, rng).items():
        x = _random(info.shape, info.dtype, rng)
        compute(x)
        np.testing.assert_array_equal(model.get_output(0), expected(x), err_msg=way)


def _random(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Array:
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return rng.integers(low, high + 1, shape).astype(dtype)


# What they compute ------------------------------------------------------------------------------


#: The larger ones take long.
@pytest.mark.parametrize(
    "name", ["kws", *(pytest.param(n, marks=pytest.mark.full) for n in ("ic", "vww"))]
)
def test_models_compute_the_same_on_rows(name):
    path = models.model_path(name)
    with (
        host.load(hilc.compile(path, feed="rows", io_in_pool=name == "kws")) as fed,
        host.load(hilc.compile(path, optimize="speed")) as whole,
    ):

        def expected(x: Array) -> Array:
            whole.set_input(0, x)
            whole.run()
            return whole.get_output(0)

        _assert_exact(fed, expected)
        if fed.module.io_in_pool:
            return
        # The outputs are the caller's.
        x = _random(fed.inputs[0].shape, "int8", np.random.default_rng(6))
        rows = _rows(fed, x)
        assert _call(fed, "start_rows", *map(ctypes.byref, fed._row_structs())) == 0
        structs = fed._row_structs()
        push = fed._code.function(f"{fed.module.symbol}_push_rows")
        for at in range(0, len(rows), 8):
            part = rows[at : at + 8]
            given = ctypes.c_void_p(part.ctypes.data)
            assert push(*map(ctypes.byref, structs), given, len(part)) == len(rows) - at - len(part)
        assert _call(fed, "run", *map(ctypes.byref, structs)) == 0
        np.testing.assert_array_equal(fed.get_output(0), expected(x))


@pytest.mark.parametrize("seed", sampled(range(5), keep=range(2)))
def test_random_chains_compute_the_same_on_rows(seed):
    """Strides that leave out rows, skip connections, averages, resized images, all types."""
    dtype = ("int8", "int8", "float32", "int16", "int8")[seed]
    seed += 30
    chains = random_chains(seed, 1, dtype, largest=30)
    while len(chains.graph.inputs) != 1 or len(chains.graph.nodes) < 2:
        seed += 100
        chains = random_chains(seed, 1, dtype, largest=30)
    graph = chains.graph
    library = hilc.compile(
        graph, feed="rows", io_in_pool=True, fold_constant_channels=False, optimize="ram"
    )
    with host.load(library) as model:
        _assert_exact(model, lambda x: _interpreted(graph, x))
        x = _random(model.inputs[0].shape, dtype, np.random.default_rng(seed))
        _pull(model, x)
        outputs = model._map("outputs", [])
        ctypes.memmove(model._outputs[0].ctypes.data, outputs[0], model.outputs[0].nbytes)
        np.testing.assert_array_equal(model.get_output(0), _interpreted(graph, x))


def _interpreted(graph: Graph, x: Array) -> Array:
    return run(graph, {graph.inputs[0]: x})[graph.outputs[0]]


def test_rows_of_a_view_of_the_input():
    """A flat input is fed by the rows of the image that it becomes."""
    builder = GraphBuilder()
    x = builder.reshape(builder.input(1, 12 * 7 * 3), 1, 12, 7, 3)
    graph = builder.graph(builder.conv(builder.conv(x, 4), 5))
    with host.load(hilc.compile(graph, feed="rows")) as model:
        assert model.module.fed_rows == 12
        _assert_exact(model, lambda x: _interpreted(graph, x))


# Memory -----------------------------------------------------------------------------------------


def test_no_input_lies_in_memory_as_a_whole():
    graph = GraphBuilder()
    made = graph.graph(graph.conv(graph.conv(graph.input(1, 40, 40, 8), 4, stride=2), 2))
    library = hilc.compile(made, cpu="cortex-m4", io_in_pool=True, optimize="ram", feed="rows")
    (module,) = library.modules
    (info,) = module.inputs
    assert info.offset is None
    assert module.workspace_bytes < info.nbytes / 3
    plan = library.plans[module.name]()
    assert plan_of(plan_entry(plan)) == plan
    slots = plan.slots
    (kept,) = (slot for slot in slots if slot.name == "progress of the input's rows")
    assert (kept.first, kept.last) == (BEFORE, len(module.layers))
    assert not any(slot.what == "input" for slot in slots)


def _fed_program() -> Any:
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.conv(builder.input(1, 12, 7, 3), 4), 5))
    planner = Planner(with_feed(graph), get_cpu("host"), io_in_pool=True)
    names = tuple(node.name for node in planner.lowering.graph.nodes)
    return graph, planner.plan(KernelSelection(groups=(Group(names[:2]),)))


def test_plans_keep_what_rows_need():
    graph, program = _fed_program()
    x = _random((1, 12, 7, 3), "int8", np.random.default_rng(1))
    outputs = execute_plan(program, {graph.inputs[0]: x})
    np.testing.assert_array_equal(outputs[graph.outputs[0]], _interpreted(graph, x))
    # Where the output lies.
    spoiled = replace(program, feed=program.buffers[graph.outputs[0]])
    with pytest.raises(PlanError, match="kept between the rows"):
        check_plan(spoiled)
    with pytest.raises(PlanError, match="offset"):
        check_plan(replace(program, feed=BufferRef("pool", program.pools[0].nbytes)))


# What is refused --------------------------------------------------------------------------------


def _two_inputs() -> Graph:
    builder = GraphBuilder()
    return builder.graph(builder.add(builder.input(1, 4, 4, 2), builder.input(1, 4, 4, 2)))


def _dense() -> Graph:
    builder = GraphBuilder()
    return builder.graph(builder.dense(builder.input(1, 12), 3))


def _whole_image() -> Graph:
    builder = GraphBuilder()
    x = builder.reshape(builder.input(1, 32), 1, 4, 4, 2)
    return builder.graph(builder.conv(x, 2), x)


def _read_twice() -> Graph:
    """A skip connection around more than the layers of a group."""
    builder = GraphBuilder()
    x = builder.input(1, 4, 4, 2)
    flat = builder.reshape(x, 1, 32)
    return builder.graph(builder.dense(flat, 3), builder.conv(x, 2))


@pytest.mark.parametrize(
    ("graph", "fact"),
    [
        (_two_inputs, "has 2 inputs"),
        (_dense, r"int8\[1, 12\], which has no rows"),
        (_whole_image, "an output or a state holds it as a whole"),
        (_read_twice, "cannot be fed to 'net'"),
    ],
)
def test_models_that_need_the_whole_input(graph, fact):
    with pytest.raises(InputError, match=fact) as caught:
        hilc.compile(graph(), feed="rows")
    assert "feed=whole" in str(caught.value.hint)


def _channels_first(*first: str, channels: int = 3) -> bytes:
    """An ONNX model whose first layers work on elements, and the next one on pixels."""
    nodes, name = [], "x"
    for number, op in enumerate(first):
        nodes.append(helper.make_node(op, [name], [f"e{number}"]))
        name = f"e{number}"
    nodes.append(helper.make_node("Conv", [name, "w"], ["y"], pads=[1, 1, 1, 1]))
    weights = np.linspace(-1, 1, 36 * channels, dtype=np.float32).reshape(4, channels, 3, 3)
    image, shape = TensorProto.FLOAT, [1, channels, 12, 8]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", image, shape)],
        [helper.make_tensor_value_info("y", image, [1, 4, 12, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 13)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


@pytest.mark.parametrize("first", [(), ("Relu",), ("Neg", "Relu")])
def test_channels_before_pixels_are_not_fed_as_rows(first: tuple[str, ...]) -> None:
    """Layers on elements take in whatever comes, planes of channels too."""
    with pytest.raises(InputError, match="has its channels before its pixels") as caught:
        hilc.compile(_channels_first(*first), name="net", feed="rows")
    assert r"[1, 3, 12, 8]" in caught.value.fact
    assert "feed=whole" in caught.value.hint
    # Of a single channel, both orders are the same.
    (module,) = hilc.compile(_channels_first(channels=1), name="net", feed="rows").modules
    assert (module.fed_rows, module.row_bytes) == (12, 32)


def _elementwise(*shape: int, given: tuple[int, ...] = ()) -> bytes:
    """An ONNX model none of whose layers says what an axis means; its input may have a shape of its
    own.
    """
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["v"]),
        helper.make_node("Relu", ["v"], ["r"]),
        helper.make_node("Neg", ["r"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, given or shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    sizes = numpy_helper.from_array(np.array(shape, np.int64), "shape")
    graph = helper.make_graph(nodes, "net", [x], [y], [sizes])
    opsets = [helper.make_opsetid("", 13)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "the slices of x, float32[1, 3, 12, 8], along axis 1"),
        ((1, 288), "consecutive parts of x, float32[1, 288]"),
    ],
)
def test_without_a_transpose_it_is_told_what_a_row_is(
    given: tuple[int, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(_elementwise(1, 3, 12, 8, given=given))
    words = ["compile", str(path), "--cpu", "cortex-m4", "--feed", "rows"]
    assert main([*words, "-o", str(tmp_path / "net.tar")]) == 0
    assert f"net: the input comes by rows: 3 of 384 B, {told}\n" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(1, 12, 8), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_without_an_image_it_is_told_what_a_row_is(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        hilc.compile(_elementwise(*shape), name="net", feed="rows")
    told = f"float32{list(shape)}, which has no rows: a row is a slice along axis 1 of one image, "
    assert f"{told}[1, height, width, channels]" in caught.value.fact
    assert "with 1 for a dimension that it lacks, or" in caught.value.hint


def test_rows_that_cost_memory_are_told() -> None:
    """Of few rows, most are needed at once; what the group keeps of them comes on top."""
    builder = GraphBuilder()
    small = builder.graph(builder.conv(builder.conv(builder.input(1, 4, 8, 8), 8), 8))
    builder = GraphBuilder()
    tall = builder.graph(builder.conv(builder.conv(builder.input(1, 40, 8, 8), 8), 1))
    told = {}
    for name, graph in (("small", small), ("tall", tall)):
        whole, fed = (
            hilc.compile(graph, feed=feed, io_in_pool=True, pools="external")
            for feed in ("whole", "rows")
        )
        saved = fed.modules[0].workspace_bytes - whole.modules[0].workspace_bytes
        told[name] = saved > 0
        assert fed.reports["net"].whole_saves_bytes == max(0, saved)
        assert whole.reports["net"].whole_saves_bytes == 0
        lines = "\n".join(chosen_lines(fed.reports["net"]))
        assert (f"with --feed whole, workspace, inputs and outputs take {saved:,} B" in lines) == (
            saved > 0
        )
    assert told == {"small": True, "tall": False}


@pytest.mark.parametrize(
    "options",
    [
        {"interface": "packed"},
        {"api": "packed"},
        {"pools": "calls"},
        {"io_in_pool": True, "keep_inputs": True},
    ],
)
def test_options_that_need_the_whole_input(options):
    with pytest.raises(InputError):
        CompileOptions(feed="rows", **options)


def test_a_choice_without_a_group_for_the_rows():
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 12, 7, 3), 4))
    with pytest.raises(InputError, match="takes in the rows"):
        hilc.compile(graph, feed="rows", choice=KernelSelection())


@pytest.mark.full
def test_rows_out_of_turn():
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.conv(builder.input(1, 12, 7, 3), 4), 5))
    x = np.zeros((12, 7, 3), np.int8)
    with host.load(hilc.compile(graph, feed="rows", io_in_pool=True)) as model:
        model.push_rows(x[:5])
        with pytest.raises(InputError, match="7 of 12 rows"):
            model.run()
        with pytest.raises(InputError, match="8 rows .* 7 are missing"):
            model.push_rows(x[:8])
        with pytest.raises(InputError, match="of 21 elements"):
            model.push_rows(np.zeros(20, np.int8))
        assert model.push_rows(x[:7]) == 0
        with pytest.raises(InputError, match="2 runs"):
            model.run(2)
        model.run()
        with pytest.raises(InputError, match="12 of 12 rows"):
            model.run()
        # The C code says the same.
        pointer = ctypes.c_void_p(x.ctypes.data)
        assert _call(model, "push_rows", pointer, 1) == -1, "no inference was started"
        assert _call(model, "start_rows") == 0
        assert _call(model, "push_rows", pointer, 5) == 7
        assert _call(model, "run") == -1
        assert _call(model, "push_rows", pointer, 8) == -1
        assert _call(model, "push_rows", None, 1) == -1
        assert _call(model, "push_rows", pointer, -1) == -1
        assert _call(model, "push_bytes", pointer, 20) == 7 * 21 - 20
        assert _call(model, "push_rows", pointer, 7) == -1
        assert _call(model, "push_rows", pointer, 6) == 1
        assert _call(model, "push_bytes", pointer, 1) == 0
        assert _call(model, "run") == 0
        failing = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 3)
        assert _call(model, "pull_rows", failing, None) == -1
    with host.load(hilc.compile(graph)) as model, pytest.raises(InputError, match="as a whole"):
        model.push_rows(x)


def test_failing_callbacks_and_nested_inferences():
    x = np.ones((1, 8, 8, 4), np.int8)
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.conv(builder.input(*x.shape), 4), 2))
    with host.load(hilc.compile(graph, feed="rows", io_in_pool=True, optimize="ram")) as model:
        rows = _rows(model, x)

        def push() -> int:
            return _call(model, "push_rows", rows.ctypes.data_as(ctypes.c_void_p), 1)

        def failing(context: int, to: int, first: int, count: int) -> int:
            return 1 if first > 2 else 0

        def starting(context: int, to: int, first: int, count: int) -> int:
            assert push() == -1, "rows of a pull come by the callback"
            return _call(model, "start_rows") if first > 2 else 0

        assert _call(model, "pull_rows", _callback(failing), None) == -1
        assert push() == -1
        assert _call(model, "run") == -1
        assert _call(model, "pull_rows", _callback(starting), None) == -1
        # The inference that was started meanwhile goes on.
        assert push() == 7
        _pull(model, x)


def test_a_pull_ends_with_a_callbacks_inference():
    """Also with one that is over when the callback returns: another that failed, or that ran."""
    x = np.ones((1, 8, 8, 4), np.int8)
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.conv(builder.input(*x.shape), 4), 2))
    with host.load(hilc.compile(graph, feed="rows", io_in_pool=True, optimize="ram")) as model:
        rows = _rows(model, x)

        def fail(context: int, to: int, first: int, count: int) -> int:
            return 1

        def pull() -> None:
            assert _call(model, "pull_rows", _callback(fail), None) == -1

        def infer() -> None:
            assert _call(model, "start_rows") == 0
            assert _call(model, "push_rows", rows.ctypes.data_as(ctypes.c_void_p), 8) == 0
            assert _call(model, "run") == 0

        for other in (pull, infer):
            done: list[int] = []

            def starting(context: int, to: int, first: int, count: int) -> int:
                if first > 2 and not done:  # noqa: B023
                    done.append(first)  # noqa: B023
                    other()  # noqa: B023
                return 0

            assert _call(model, "pull_rows", _callback(starting), None) == -1
            assert done
            assert _call(model, "run") == -1


def test_pushed_rows_invalidate_the_last_outputs():
    """The layer that takes in the rows writes the output."""
    builder = GraphBuilder()
    graph = builder.graph(builder.conv(builder.input(1, 8, 8, 4), 2))
    x = np.ones((8, 8, 4), np.int8)
    with host.load(hilc.compile(graph, feed="rows")) as model:
        result = model.run()
        model.push_rows(x[:6])
        with pytest.raises(InputError, match="rows of another inference were pushed"):
            model.get_output(0)
        with pytest.raises(InputError, match="rows of another inference were pushed"):
            _ = result.outputs[0]
        with pytest.raises(InputError, match="2 of 8 rows"):
            list(model.layer_outputs())
        model.push_rows(x[6:])
        model.run()
        expected = model.get_output(0)
        # An input that is set takes the place of rows, whichever way it is set.
        model.push_rows(x[:6])
        model.set_input_zero_copy(0, x[np.newaxis].copy())
        model.run()
        np.testing.assert_array_equal(model.get_output(0), expected)
