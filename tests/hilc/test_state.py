"""Values that outlive a run: in the graph, the interpreter, the plan and the generated code."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import small_models
from campaigns import cases
from stateful import GRAPHS, ring_buffer, samples

import hilc
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError, ModelError
from hilc.interpreter import Interpreter
from hilc.ir import Graph, Node, State, Tensor
from hilc.memory.checker import check_plan, execute_plan
from hilc.memory.explain import explain
from hilc.memory.plan import plan
from hilc.memory.program import BufferRef, PlanError
from hilc.ops.verify import verify
from hilc.ops.views import ReshapeAttributes
from hilc.source import graph_digest
from hilc.target import get_cpu
from hilc.transforms import run_passes

CPU = get_cpu("cortex-m4")
RUNS = 4


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("io_in_pool", [False, True])
def test_a_plan_keeps_every_state(name: str, io_in_pool: bool) -> None:
    graph, copies = GRAPHS[name]
    graph = run_passes(graph)
    program = plan(graph, CPU, io_in_pool=io_in_pool)
    assert [node.op for node in program.graph.nodes].count("COPY") == copies
    assert program.state_bytes == 16 * len(graph.states)
    assert program.workspace_bytes == sum(pool.nbytes for pool in program.pools[:-1])
    interpreter, inputs = Interpreter(graph), samples(graph, RUNS)
    for count, values in enumerate(inputs, 1):
        expected, got = interpreter.run(values), execute_plan(program, *inputs[:count])
        for mine, planned in zip(graph.outputs, program.graph.outputs, strict=True):
            np.testing.assert_array_equal(expected[mine], got[planned])


def test_a_ring_buffer_is_written_where_it_lies() -> None:
    """The slice of the old value leaves nobody who reads it when the new one is written."""
    graph = ring_buffer()
    program = plan(graph, CPU)
    assert [step.node.op for step in program.steps] == ["STRIDED_SLICE", "CONCATENATION", "MEAN"]
    # Rows that are left, and nothing more.
    assert program.workspace_bytes == 48


def test_a_run_starts_with_what_the_last_one_left() -> None:
    graph, _ = GRAPHS["new_value_is_an_output"]
    interpreter = Interpreter(graph)
    x = {"x": np.full(4, 10, np.float32)}
    assert interpreter.run(x)["y"].tolist() == [10, 11, 12, 13]
    assert interpreter.run(x)["y"].tolist() == [20, 21, 22, 23]
    interpreter.set_state("s", np.zeros(4, np.float32))
    assert interpreter.run(x)["y"].tolist() == [10] * 4
    interpreter.reset_state()
    assert interpreter.state("s").tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="the model has no state 't'") as caught:
        interpreter.state("t")
    assert "'s'" in str(caught.value.hint)
    with pytest.raises(InputError, match=r"state 's' is float64\[4\], not float32\[4\]"):
        interpreter.set_state("s", np.zeros(4))


@pytest.mark.parametrize(
    ("states", "fact"),
    [
        ([State("s", "y"), State("s", "z")], "'s' is listed twice as state"),
        ([State("x", "y")], "'x' is an input"),
        ([State("s", "nothing")], "no tensor 'nothing'"),
        ([State("s", "w")], r"new value 'w' float32\[2\]"),
        ([State("s", "y", np.zeros(3, np.float32))], r"reset value float32\[3\]"),
        ([State("s", "y", np.zeros(4, np.int8))], r"reset value int8\[4\]"),
        ([State("s", "u")], "no operator computes 'u'"),
        ([State("s", "y"), State("y", "y")], "writes 'y', which already has a value"),
    ],
)
def test_states_that_contradict_the_graph_are_refused(states: list[State], fact: str) -> None:
    graph, _ = GRAPHS["in_place"]
    further = {n: Tensor(n, (s,), "float32") for n, s in (("w", 2), ("u", 4))}
    with pytest.raises(ModelError, match=fact):
        verify(graph.with_(states=tuple(states), tensors={**graph.tensors, **further}))


def test_passes_keep_what_updates_a_state() -> None:
    """The new value is no output, and nobody reads it in the run that computes it."""
    graph, _ = GRAPHS["in_place"]
    nodes = (graph.nodes[0], replace(graph.nodes[1], inputs=("x", "x")))
    passed = run_passes(graph.with_(nodes=nodes))
    assert [node.name for node in passed.nodes] == ["y", "z"]
    assert passed.states == graph.states


def test_an_activation_is_not_fused_into_a_new_value() -> None:
    graph, _ = GRAPHS["in_place"]
    nodes = (graph.nodes[0], Node("RELU", ("y",), ("z",)))
    passed = run_passes(graph.with_(nodes=nodes))
    assert [node.op for node in passed.nodes] == ["ADD", "RELU"]


def test_an_identity_before_a_new_value_is_dropped() -> None:
    graph, _ = GRAPHS["in_place"]
    v = Tensor("v", (4,), "float32")
    nodes = (*graph.nodes, Node("RESHAPE", ("y",), ("v",), ReshapeAttributes(new_shape=(4,))))
    states = (State("s", "v"),)
    passed = run_passes(graph.with_(nodes=nodes, tensors={**graph.tensors, "v": v}, states=states))
    assert [node.op for node in passed.nodes] == ["ADD", "ADD"]
    assert passed.states == (State("s", "y"),)


def test_a_digest_tells_states_apart() -> None:
    graph, _ = GRAPHS["in_place"]
    reset = State("s", "y", np.ones(4, np.float32))
    variants = [graph, graph.with_(states=(reset,)), graph.with_(states=(State("s", "s"),))]
    assert len({graph_digest(variant) for variant in variants}) == 3


# The checker ------------------------------------------------------------------------------------


def test_the_checker_sees_a_new_value_at_another_place() -> None:
    program = plan(GRAPHS["in_place"][0], CPU)
    refs = {**program.buffers, "y": BufferRef("pool", 0, 0)}
    with pytest.raises(PlanError, match="the state 's' lies in"):
        check_plan(replace(program, buffers=MappingProxyType(refs)))


def test_the_checker_sees_a_state_in_the_workspace() -> None:
    program = plan(GRAPHS["in_place"][0], CPU)
    pools = tuple(replace(pool, persistent=False) for pool in program.pools)
    with pytest.raises(PlanError, match="the state 's' lies in"):
        check_plan(replace(program, pools=pools, workspace_bytes=sum(p.nbytes for p in pools)))


def test_the_checker_sees_states_over_each_other() -> None:
    program = plan(GRAPHS["states_swap"][0], CPU)
    refs = {n: replace(p, value=0) if p.pool else p for n, p in program.buffers.items()}
    with pytest.raises(PlanError, match="reads 'a', which 'b' overwrote"):
        check_plan(replace(program, buffers=MappingProxyType(refs)))


def test_an_old_state_read_too_late_is_found() -> None:
    graph, _ = GRAPHS["old_value_is_read_later"]
    program = plan(graph, CPU)
    # As if no copy were needed.
    states = (State("s", "y"),)
    refs = {**program.buffers, "y": program.buffers["s"]}
    spoiled = replace(
        program,
        graph=program.graph.with_(states=states, nodes=program.graph.nodes[:2]),
        steps=program.steps[:2],
        buffers=MappingProxyType(refs),
    )
    with pytest.raises(PlanError, match="'z' reads 's', which 'y' overwrote"):
        check_plan(spoiled)


def test_a_state_lost_before_the_end_is_found() -> None:
    program = plan(GRAPHS["in_place"][0], CPU, io_in_pool=True)
    refs = {**program.buffers, "z": program.buffers["s"]}
    with pytest.raises(PlanError, match="the next run reads 'y', which 'z' overwrote"):
        check_plan(replace(program, buffers=MappingProxyType(refs)))


# Reports ----------------------------------------------------------------------------------------


def test_states_are_explained_beside_the_workspace() -> None:
    explanation = explain(plan(ring_buffer(), CPU, io_in_pool=True))
    (state,) = [slot for slot in explanation.slots if slot.what == "state"]
    assert (state.name, state.bytes, state.offset, state.pool) == ("buffer", 48, 0, 1)
    assert explanation.state_bytes == 48
    assert all(state.lives_at(step) for step in range(len(explanation.steps)))
    # Of the workspace alone: the rest of the old value, and the input.
    assert max(step.used_bytes for step in explanation.steps) == 48


# The generated code -----------------------------------------------------------------------------

INTERFACES: dict[str, dict[str, Any]] = {
    "c": {},
    "c_in_pool": {"io_in_pool": True},
    "c_external": {"pools": "external", "constants": "external"},
    "c_calls": {"pools": "calls"},
    "packed": {"interface": "packed", "api": "packed"},
    "packed_external": {"interface": "packed", "api": "packed", "pools": "external"},
    "packed_calls": {"interface": "packed", "api": "packed", "pools": "calls"},
    "packed_unpacked": {"interface": "packed", "pools": "external"},
}


def _library(graph: Graph, **options: Any) -> ModelLibrary:
    return hilc.compile(graph, cpu="host", **options)


@cases("interface", INTERFACES, first=2)
def test_code_keeps_and_resets_states(interface: str) -> None:
    graph = ring_buffer() if "external" in interface else GRAPHS["states_swap"][0]
    inputs = samples(graph, RUNS)
    interpreter = Interpreter(graph)
    library = _library(graph, **INTERFACES[interface])
    assert library.modules[0].state_bytes == plan(graph, CPU).state_bytes
    with hilc.host.load(library) as model:
        for again in range(2):
            for values in inputs:
                for name, value in values.items():
                    model.set_input(name, value)
                # Layer by layer is a run, too.
                if again:
                    list(model.layer_outputs())
                else:
                    model.run()
                expected = interpreter.run(values)
                np.testing.assert_array_equal(model.get_output(0), expected[graph.outputs[0]])
                for state in graph.states:
                    np.testing.assert_array_equal(
                        model.state(state.name), interpreter.state(state.name)
                    )
            interpreter.reset_state()
            model.reset_state()


def test_states_are_set_from_outside() -> None:
    graph = ring_buffer()
    interpreter = Interpreter(graph)
    with hilc.host.load(_library(graph)) as model:
        value = samples(graph, 1, seed=7)[0]["x"].repeat(6, axis=0)
        for one in (model, interpreter):
            one.set_state("buffer", value)
        np.testing.assert_array_equal(model.state(0), value)
        x = samples(graph, 1)[0]
        model.set_input("x", x["x"])
        model.run()
        np.testing.assert_array_equal(model.get_output("y"), interpreter.run(x)["y"])
        with pytest.raises(InputError, match=r"state 'buffer'.*int8\[6, 8\]"):
            model.set_state("buffer", value.astype(np.int16))
        with pytest.raises(InputError, match="Could not find 'ring' in model's states"):
            model.state("ring")
        indices: list[Any] = [True, 1.5, None]
        for index in indices:
            with pytest.raises(InputError, match=f"there is no state {index!r}, of type"):
                model.state(index)
        nothings: list[Any] = [None, "abc", [[1], [1, 2]]]
        for nothing in nothings:
            with pytest.raises(InputError, match="state 'buffer' was given a .* no array of"):
                model.set_state("buffer", nothing)
            with pytest.raises(InputError, match="'buffer'"):
                interpreter.set_state("buffer", nothing)


def test_a_model_without_states_says_so() -> None:
    with hilc.host.load(hilc.compile(small_models.convolutions(), cpu="host")) as model:
        for index in (0, "ring", True):
            with pytest.raises(InputError, match="the model has no state, and so not") as caught:
                model.state(index)
            assert caught.value.hint == "it has no states"


def test_each_loaded_library_has_states_of_its_own() -> None:
    graph, _ = GRAPHS["new_value_is_an_output"]
    library = _library(graph)
    with hilc.host.load(library) as one, hilc.host.load(library) as other:
        one.set_input("x", np.ones(4, np.float32))
        one.run()
        assert other.state("s").tolist() == [0, 1, 2, 3]


def test_an_archive_keeps_what_it_says_of_states(tmp_path: object) -> None:
    library = _library(ring_buffer())
    path = library.save(f"{tmp_path}/ring.tar")
    assert ModelLibrary.load(path).modules == library.modules
    # What has no states says nothing of them.
    stateless = _library(replace(GRAPHS["in_place"][0], states=(), inputs=("x", "s")))
    assert b"states" not in stateless.files["hil/in_place.json"]
    assert b"persistent" not in stateless.files["hil/in_place.json"]


def test_the_header_says_how_large_the_states_are() -> None:
    header = _library(ring_buffer()).files["codegen/host/include/tvmgen_ring.h"].decode()
    assert "#define TVMGEN_RING_STATE_SIZE 48" in header
    assert "int32_t tvmgen_ring_reset_state(void);" in header


def test_tvms_cpp_run_time_takes_no_states() -> None:
    with pytest.raises(InputError, match="has states") as caught:
        _library(ring_buffer(), interface="packed", api="packed", runtime="cpp", pools="calls")
    assert caught.value.hint == "use runtime=crt"


def test_names_of_states_are_told_apart_in_c() -> None:
    graph, _ = GRAPHS["states_swap"]
    tensors = {n: replace(t) for n, t in graph.tensors.items()}
    tensors |= {"s/a": Tensor("s/a", (4,), "float32"), "s.a": Tensor("s.a", (4,), "float32")}
    states = (*graph.states, State("s/a", "y"), State("s.a", "y"))
    with pytest.raises(InputError, match=r"'s/a' and 's\.a' both become s_a in C"):
        _library(graph.with_(tensors=tensors, states=states))
