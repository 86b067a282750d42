"""IF and WHILE against TFLite Micro, in the interpreter and in the code for this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from control_flow import FILES, convolving_file, recursive_file
from stateful import samples
from tflm import needs_tflm

import hilc
from hilc.codegen import control_flow as codegen
from hilc.codegen.control_flow import with_written_calls
from hilc.errors import HilError, LimitError, ModelError, UnsupportedError
from hilc.external import ExternalCall, ExternalModule
from hilc.frontends import load_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph, Node, Numerics, Tensor
from hilc.memory.plan import Planner
from hilc.ops.control_flow import IfAttributes, WhileAttributes
from hilc.ops.external import ExternalAttributes
from hilc.ops.verify import verify
from hilc.references.tflm import TflmModel
from hilc.schedule.called import PlannedControl, with_control_flow
from hilc.source import graph_digest
from hilc.target import Cpu, get_cpu
from hilc.transforms import run_passes
from hilc.transforms.numerics import with_numerics

RUNS = 20


def inputs_of(graph: Graph) -> list[dict[str, Array]]:
    """Random values; loops begin at a few turns before their end, or behind it."""
    found = samples(graph, RUNS)
    for index, values in enumerate(found):
        if "start" in values:
            values["start"] = np.array(index % 8 - 1, np.int32)
    return found


@needs_tflm
@pytest.mark.parametrize("name", FILES)
def test_results_equal_tflite_micro(name: str) -> None:
    graph, reference = load_model(FILES[name]), TflmModel(FILES[name])
    interpreter, seen = Interpreter(graph), set()
    for values in inputs_of(graph):
        expected = reference.run([values[n] for n in graph.inputs], outputs=len(graph.outputs))
        got = interpreter.run(values)
        for output, theirs in zip(graph.outputs, expected, strict=True):
            np.testing.assert_array_equal(got[output], theirs.reshape(got[output].shape))
        seen.add(got[graph.outputs[-1]].tobytes())
    assert len(seen) > RUNS // 2


OPTIONS: dict[str, dict[str, Any]] = {
    "c": {},
    "in_pool": {"io_in_pool": True},
    "external": {"pools": "external", "constants": "external"},
    "calls": {"pools": "calls"},
    "packed": {"interface": "packed"},
    "packed_operators": {"interface": "packed", "api": "packed"},
    "packed_external": {"interface": "packed", "api": "packed", "pools": "external"},
    "size": {"optimize": "size"},
    "speed": {"optimize": "speed"},
}


@cases(
    ("name", "options"),
    [*((name, "c") for name in FILES), *(("nested_int8", options) for options in OPTIONS)],
    first=4,
)
def test_code_equals_the_interpreter(name: str, options: str) -> None:
    graph = load_model(FILES[name])
    interpreter = Interpreter(graph)
    with hilc.host.load(hilc.compile(graph, cpu="host", **OPTIONS[options])) as model:
        for values in inputs_of(graph)[:10]:
            for by_layer in (False, True):
                for input_name, value in values.items():
                    model.set_input(input_name, value)
                if by_layer:
                    list(model.layer_outputs())
                else:
                    model.run()
                expected = interpreter.run(values)
                for output in graph.outputs:
                    np.testing.assert_array_equal(model.get_output(output), expected[output])


def test_a_variable_that_stays_is_an_operand() -> None:
    """It takes no memory in the loop, and its readers read its first value."""
    graph = load_model(FILES["passing_int8"])
    reduced = run_passes(graph)
    loop, last = reduced.nodes
    assert (loop.inputs, loop.outputs) == (("start", "x", "k"), ("turns", "v"))
    assert last.inputs == ("v", "k")
    assert len(WhileAttributes.of(loop).body.outputs) == 2
    # An output of the model has to be computed.
    shown = run_passes(graph.with_(outputs=(*graph.outputs, "same")))
    assert shown.nodes[0].outputs == ("turns", "same", "v")


def test_a_graph_has_workspace_in_its_nodes_scratch() -> None:
    """Of two branches the larger one's; a loop keeps the next variables beside it."""
    cpu = get_cpu("cortex-m4")
    for name, scratch in (("if_int8", 0), ("while_int8", 48)):
        graph = with_control_flow(load_model(FILES[name]), cpu, goal="balanced", api="unpacked")
        planned = _called_module(graph)
        assert planned.scratch_bytes == scratch
        assert (planned.source, planned.parts, planned.part_bytes) == ("", (), 0)
        module = _written_module(graph, cpu)
        assert module.scratch_bytes == scratch
        assert len(module.parts) == 2
        assert module.part_bytes > 0
        assert module.flash_bytes == planned.flash_bytes


def _called_module(graph: Graph) -> PlannedControl:
    (module,) = [
        ExternalAttributes.of(node).module for node in graph.nodes if node.op == "EXTERNAL"
    ]
    assert isinstance(module, PlannedControl)
    return module


def _written_module(graph: Graph, cpu: Cpu) -> ExternalModule:
    program = with_written_calls(Planner(graph, cpu).plan())
    (call,) = [step.call for step in program.steps if isinstance(step.call, ExternalCall)]
    return call.module


def test_planning_writes_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("code is written while a program is planned")

    monkeypatch.setattr(codegen, "write_operators", refused)
    program = hilc.explain(FILES["nested_int8"], cpu="cortex-m4")
    assert program.workspace_bytes > 0
    with pytest.raises(AssertionError, match="code is written"):
        hilc.compile(FILES["nested_int8"], cpu="cortex-m4")


def test_constants_of_called_graphs_are_counted() -> None:
    module = hilc.compile(FILES["if_int8"], cpu="host").modules[0]
    # The branches' own, and one that both take and a layer reads too.
    assert module.constants_bytes >= 3 * 16
    assert [layer.op for layer in module.layers] == ["MUL", "EXTERNAL", "ADD"]


RHYTHM = Path(__file__).resolve().parents[2] / "examples" / "networks" / "rhythm.tflite"


def test_estimates_count_the_graphs_that_are_called() -> None:
    """All of the flash, and one of 13 turns: of about 8,000 of 102,000 instructions, by QEMU."""
    library = hilc.compile(RHYTHM, cpu="cortex-m4")
    chosen = library.reports["rhythm"].chosen
    # Without the loop it would be 1,000 instructions and 1,300 bytes. The bounds leave room for
    # other kernels; the linker's map says 9 KB.
    assert 5_000 < chosen.instructions < 12_000
    assert 6_000 < chosen.flash_bytes < 12_000


def test_a_nested_graph_counts_its_calls() -> None:
    modules = {}
    for name in ("while_int8", "nested_int8"):
        cpu = get_cpu("cortex-m4")
        graph = with_control_flow(load_model(FILES[name]), cpu, goal="balanced", api="unpacked")
        modules[name] = _written_module(graph, cpu)
    loop, nested = modules["while_int8"], modules["nested_int8"]
    assert nested.code_bytes > loop.code_bytes > 0
    assert nested.instructions > loop.instructions > 0
    assert nested.flash_bytes > nested.code_bytes + 16


def test_a_limit_of_flash_counts_called_graphs() -> None:
    with pytest.raises(LimitError, match="the least is about") as caught:
        hilc.compile(RHYTHM, cpu="cortex-m4", flash=2048)
    assert caught.value.least_flash > 5_000


@pytest.mark.full
def test_called_graphs_take_the_kernels_of_the_goal() -> None:
    """By estimate 135,000 instructions in 22 KB of flash, or 258,000 in 7 KB."""
    graph, cpu = load_model(convolving_file()), get_cpu("cortex-m4")
    modules = {
        goal: _called_module(with_control_flow(graph, cpu, goal=goal, api="unpacked"))
        for goal in ("speed", "balanced", "ram", "size")
    }
    speed, ram, size = modules["speed"], modules["ram"], modules["size"]
    assert speed.instructions * 1.5 < size.instructions <= speed.instructions * 2
    assert size.flash_bytes * 2 < speed.flash_bytes
    assert modules["balanced"].instructions <= 1.3 * speed.instructions
    assert ram.scratch_bytes < 0.6 * speed.scratch_bytes


@pytest.mark.full
def test_limits_reach_into_called_graphs() -> None:
    """The goal's kernels do not fit; those with less scratch, or less flash, do."""
    free = hilc.compile(convolving_file(), cpu="cortex-m4").modules[0]
    assert free.workspace_bytes > 4_000
    limited = hilc.compile(convolving_file(), cpu="cortex-m4", ram=3_400).modules[0]
    assert limited.workspace_bytes <= 3_400
    small = hilc.compile(convolving_file(), cpu="cortex-m4", flash=8_000)
    assert small.reports[small.modules[0].name].chosen.flash_bytes <= 8_000
    with pytest.raises(LimitError):
        hilc.compile(convolving_file(), cpu="cortex-m4", ram=1_000)


@pytest.mark.full
def test_fast_kernels_of_called_graphs() -> None:
    graph = load_model(convolving_file())
    values = {**samples(graph, 1)[0], "start": np.array(0, np.int32)}
    expected = Interpreter(graph).run(values)
    for goal in ("speed", "ram"):
        with hilc.host.load(hilc.compile(graph, cpu="host", optimize=goal)) as model:
            for name, value in values.items():
                model.set_input(name, value)
            model.run()
            np.testing.assert_array_equal(model.get_output("y"), expected["y"])


def test_names_of_two_models_stay_apart() -> None:
    libraries = [
        hilc.compile(FILES["nested_int8"], cpu="host", name=name) for name in ("one", "two")
    ]
    merged = hilc.artifact.library.merge(libraries)
    assert [module.name for module in merged.modules] == ["one", "two"]
    with hilc.host.load(merged, "two") as model:
        model.run()


def test_a_digest_tells_called_graphs_apart() -> None:
    graph = load_model(FILES["if_int8"])
    (node,) = [n for n in graph.nodes if n.op == "IF"]
    attrs = IfAttributes.of(node)
    swapped = replace(node, attrs=IfAttributes(then=attrs.otherwise, otherwise=attrs.then))
    other = graph.with_(nodes=tuple(swapped if n is node else n for n in graph.nodes))
    assert graph_digest(graph) != graph_digest(other)


def test_called_graphs_use_the_models_definition() -> None:
    graph = with_numerics(load_model(FILES["nested_int8"]), Numerics.LITERT)
    (loop,) = graph.nodes
    (choice,) = [n for n in WhileAttributes.of(loop).body.nodes if n.op == "IF"]
    inner = IfAttributes.of(choice).then.nodes
    assert {node.numerics for node in (loop, choice, *inner)} == {Numerics.LITERT}


def test_recursion_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="it calls subgraph 2, which it is part of"):
        load_model(recursive_file())


def test_the_interpreter_ends_an_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hilc.ops.control_flow.MAX_ITERATIONS", 100)
    graph = load_model(FILES["while_float32"])
    (node,) = graph.nodes
    attrs = WhileAttributes.of(node)
    # A body that does not count.
    body = attrs.body.with_(outputs=attrs.body.outputs)
    kept = replace(body.tensors["more"], name="same")
    nodes = (*body.nodes, Node("COPY", ("i",), ("same",)))
    body = body.with_(tensors={**body.tensors, "same": kept}, nodes=nodes, outputs=("same", "next"))
    endless = replace(node, attrs=WhileAttributes(condition=attrs.condition, body=body))
    with pytest.raises(HilError, match="has not ended after 100 iterations"):
        Interpreter(graph.with_(nodes=(endless,))).run(
            {"start": np.array(0, np.int32), "x": np.zeros((1, 8), np.float32)}
        )


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ("condition type", "IF does not support float32 input 'c'"),
        ("condition size", "the condition 'c' of 2 elements"),
        ("too few", "hands 1 tensors to 'subgraph_1', which takes 2"),
        ("other shape", "in it and 'subgraph_1'"),
        ("other results", "in its branches"),
    ],
)
def test_graphs_that_do_not_fit_their_call_are_refused(change: str, fact: str) -> None:
    graph = load_model(FILES["if_float32"])
    (node,) = [n for n in graph.nodes if n.op == "IF"]
    tensors = dict(graph.tensors)
    match change:
        case "condition type":
            tensors["c"] = Tensor("c", (1,), "float32")
        case "condition size":
            tensors["c"] = Tensor("c", (2,), "bool")
        case "too few":
            changed = replace(node, inputs=node.inputs[:2])
        case "other shape":
            tensors["x8"] = Tensor("x8", (2, 4), "float32")
            changed = replace(node, inputs=("c", "x8", *node.inputs[2:]))
        case "other results":
            attrs = IfAttributes.of(node)
            wide = attrs.then.with_(outputs=(*attrs.then.outputs, "t"))
            changed = replace(node, attrs=IfAttributes(then=wide, otherwise=attrs.otherwise))
    if change.startswith("condition"):
        changed = node
    nodes = tuple(changed if n is node else n for n in graph.nodes)
    inputs = (*graph.inputs, *(["x8"] if change == "other shape" else []))
    with pytest.raises((ModelError, UnsupportedError), match=fact):
        verify(graph.with_(tensors=tensors, nodes=nodes, inputs=inputs))
