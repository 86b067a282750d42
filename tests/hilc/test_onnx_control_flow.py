"""Loop and If of ONNX with conditions known only at run time, against onnxruntime."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx_control_flow import BOUNDS, MODELS, control_flow_inputs, control_flow_model

import hilc
from hilc.errors import InputError, LoopBoundError, ModelError, UnsupportedError
from hilc.frontends import Specialization, read_model
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph
from hilc.ir.loop_bounds import LoopBound
from hilc.references import get_reference

RUNS = 8


def values(name: str, graph: Graph, run: int) -> dict[str, Array]:
    tensors = (graph.tensors[n] for n in graph.inputs)
    return control_flow_inputs(name, {t.name: (t.shape, t.dtype) for t in tensors}, run)


@pytest.mark.parametrize("name", MODELS)
def test_results_equal_onnxruntime(name: str) -> None:
    data, bounds = control_flow_model(name), BOUNDS.get(name, {})
    read = read_model(data, "m", specialization=Specialization(loop_bounds=bounds))
    graph, interpreter = read.graph, Interpreter(read.graph)
    reference = get_reference("onnxruntime", graph, read.data)
    with hilc.host.load(hilc.compile(data, loop_bounds=bounds)) as model:
        for run in range(RUNS):
            given = values(name, graph, run)
            if "n" in given and bounds:
                given["n"] = np.minimum(given["n"], 6)
            expected, got = reference.run_all(given), interpreter.run(given)
            for key, value in given.items():
                model.set_input(key, value)
            model.run()
            for output in graph.outputs:
                np.testing.assert_allclose(got[output], expected[output], rtol=2e-6, atol=1e-6)
                np.testing.assert_array_equal(model.get_output(output), got[output])


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("if", ["SUM", "LESS", "IF"]),
        ("while", ["WHILE"]),
        ("rows", ["WHILE"]),
        ("known", ["ADD"] * 3),
    ],
)
def test_only_unknown_conditions_call_graphs(name: str, operators: list[str]) -> None:
    graph = read_model(control_flow_model(name), "m").graph
    assert [node.op for node in graph.nodes] == operators


def test_what_a_loop_reads_is_not_copied() -> None:
    """The rows that a body reads stay where the caller has them: they are no variables."""
    graph = read_model(control_flow_model("rows"), "m").graph
    (loop,) = graph.nodes
    assert "x" in loop.inputs
    assert [graph.tensors[name].shape for name in loop.outputs] == [(3,), (), ()]


def test_rows_begin_as_zeros_without_a_constant() -> None:
    """An output of the turns is cleared, not copied from a constant of its size."""
    library = hilc.compile(control_flow_model("for"), loop_bounds={"y": 60_000})
    assert library.modules[0].constants_bytes < 1000


def test_the_model_says_which_loop_needs_a_bound() -> None:
    with pytest.raises(UnsupportedError, match="loop of 'y'.*only at run time") as caught:
        read_model(control_flow_model("for"), "m")
    assert "--loop-bound y=N" in caught.value.hint
    assert "loop_bounds={'y': N}" in caught.value.hint


@pytest.mark.parametrize("name", ["y", "rows"])
def test_more_turns_than_the_bound_are_an_error(name: str) -> None:
    data = control_flow_model("for")
    read = read_model(data, "m", specialization=Specialization(loop_bounds={name: 3}))
    x = np.ones(4, np.float32)
    library = hilc.compile(data, loop_bounds={name: 3})
    with hilc.host.load(library) as model:
        model.set_input("x", x)
        for turns in (3, 4, 2):
            model.set_input("n", np.array(turns))
            given = {"x": x, "n": np.array(turns)}
            if turns <= 3:
                model.run()
                want = Interpreter(read.graph).run(given)
                np.testing.assert_array_equal(model.get_output("rows"), want["rows"])
                continue
            for run in (lambda: Interpreter(read.graph).run(given), model.run):  # noqa: B023
                with pytest.raises(
                    LoopBoundError, match=f"{name!r} exceeds its bound of 3"
                ) as caught:
                    run()
                assert f"loop_bounds={{{name!r}: N}}" in caught.value.hint
                assert caught.value.exit_code == 1


def test_a_bound_without_rows_ends_an_endless_loop() -> None:
    data = control_flow_model("while")
    library = hilc.compile(data, loop_bounds={"y": 50})
    with hilc.host.load(library) as model:
        model.set_input("x", np.zeros(4, np.float32))
        with pytest.raises(LoopBoundError, match="'y' exceeds its bound of 50"):
            model.run()


@pytest.mark.parametrize("options", [{}, {"api": "packed"}], ids=["plain", "packed"])
def test_packed_functions_return_the_status(options: dict[str, Any]) -> None:
    data = control_flow_model("for")
    library = hilc.compile(data, loop_bounds={"y": 3}, interface="packed", **options)
    assert library.modules[0].loop_bounds == (LoopBound("y", 3),)
    with hilc.host.load(library) as model:
        model.set_input("n", np.array(4))
        with pytest.raises(LoopBoundError, match="'y' exceeds its bound of 3"):
            model.run()


@pytest.mark.parametrize(
    ("bounds", "match"), [({"z": 3}, "no loop 'z'"), ({"W": 3}, "no loop 'W'")]
)
def test_unknown_loops_are_refused(bounds: dict[str, int], match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        hilc.compile(control_flow_model("for"), loop_bounds=bounds)
    assert "'y'" in caught.value.hint


@pytest.mark.parametrize("value", ["0", "-1", "many", "9" * 30, "9" * 5000, ""])
def test_bounds_in_metadata_are_checked(value: str) -> None:
    model = onnx.load_from_string(control_flow_model("for"))
    model.metadata_props.add(key="hil.loop-bound:y", value=value)
    with pytest.raises(ModelError, match="no number of turns"):
        read_model(model.SerializeToString(), "m")


@pytest.mark.parametrize("bound", [0, -3, 2**31])
def test_bounds_out_of_range_are_refused(bound: int) -> None:
    with pytest.raises(InputError, match=f"loop 'rows' is {bound}") as caught:
        hilc.compile(control_flow_model("for"), loop_bounds={"rows": bound})
    assert "1 to 2,147,483,647" in caught.value.hint


@pytest.mark.parametrize(("trips", "bounds"), [(60_000, {}), (2**62, {}), (2**62, {"y": 60_000})])
def test_rows_are_checked_before_memory(trips: int, bounds: dict[str, int]) -> None:
    """Two outputs of 983 MB: neither is allocated."""
    data = text(
        f"""g (float[4096] x, bool c) => (float[4096] y, float[n,4096] r, float[n,4096] s)
        <int64 most = {{{trips}}}> {{
            y, r, s = Loop (most, c, x) <
                body = b (int64 i, bool q, float[4096] v)
                    => (bool q, float[4096] w, float[4096] w, float[4096] w) {{ w = Neg (v) }}>
        }}"""
    )
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match="gathers 32,768 bytes in each") as caught:
            read_model(data, "m", specialization=Specialization(loop_bounds=bounds))
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert "1 to 2,048" in caught.value.hint


def text(body: str) -> bytes:
    data: bytes = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> {body}'
    ).SerializeToString()
    return data


REFUSED = {
    "branches of two shapes": (
        """g (float[4] x, bool c) => (float[n] y) <int64[1] two = {2}, int64[1] zero = {0}> {
            y = If (c) <
                then_branch = t () => (float[4] t) { t = Neg (x) },
                else_branch = e () => (float[2] e) { e = Slice (x, zero, two) }>
        }""",
        r"condition 'c' is known only at run time.*'y' as float32\[4\] and float32\[2\]",
    ),
    "a value that grows": (
        """g (float[4] x, int64 m) => (float[n] y) {
            y = Loop (m, "", x) <body = b (int64 i, bool q, float[k] v) => (bool q, float[l] w) {
                w = Concat <axis=0> (v, x)
            }>
        }""",
        r"carries 'y' as float32\[4\] into its first turn and as float32\[8\] out of it",
    ),
    "rows that a node reads": (
        """g (float[4] x, int64 m) => (float[4] z) {
            y, r = Loop (m, "", x) <
                body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w, float[4] w) {
                w = Neg (v)
            }>
            z = ReduceMean <axes=[0], keepdims=0> (r)
        }""",
        "reads 'r', whose number of rows is the number of turns",
    ),
    "rows that a branch reads": (
        """g (float[4] x, int64 m, bool c) => (float[n,4] z) {
            y, r = Loop (m, "", x) <
                body = b (int64 i, bool q, float[4] v) => (bool q, float[4] w, float[4] w) {
                w = Neg (v)
            }>
            z = If (c) <
                then_branch = t () => (float[n,4] t) { t = Neg (r) },
                else_branch = e () => (float[n,4] e) { e = Abs (r) }>
        }""",
        "reads 'r', whose number of rows",
    ),
    "rows of a branch": (
        """g (float[4] x, int64 m, bool c) => (float[n,4] z) {
            z = If (c) <
                then_branch = t () => (float[n,4] r) {
                    y, r = Loop (m, "", x) <
                        body = b (int64 i, bool q, float[4] v)
                            => (bool q, float[4] w, float[4] w) {
                        w = Neg (v)
                    }>
                },
                else_branch = e () => (float[n,4] f) {
                    d, f = Loop (m, "", x) <
                        body = b2 (int64 j, bool p, float[4] u)
                            => (bool p, float[4] s, float[4] s) {
                        s = Abs (u)
                    }>
                }>
        }""",
        "gives .*, whose number of rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_results_of_unknown_shape_are_refused(case: str) -> None:
    body, match = REFUSED[case]
    loops = {name: 5 for name in ("r", "f") if f", {name} = Loop" in body}
    with pytest.raises(UnsupportedError, match=match):
        read_model(text(body), "m", specialization=Specialization(loop_bounds=loops))
