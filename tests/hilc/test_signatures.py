"""Signatures of TFLite files: several are refused, and a selected one is the model everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import litert_ref
import numpy as np
import pytest
import tflm
from litert_ref import needs_litert_ref
from signatures_of_files import filled, two_signatures
from stateful import variable
from tflite_builder import ModelBuilder
from tflm import needs_tflm

import hilc
from hilc.errors import InputError, ModelError, UnsupportedError
from hilc.frontends import Specialization, load_model, read_model
from hilc.frontends.tflite.signatures import selected
from hilc.interpreter import Interpreter, run_all
from hilc.ir import Array, Graph

X: dict[str, Array] = {"x": np.array([[-1, 2, -3, 4]], np.float32)}


def _selected(data: bytes, name: str) -> tuple[Graph, bytes]:
    read = read_model(data, specialization=Specialization(signature=name))
    return read.graph, read.data


@needs_tflm
@needs_litert_ref
@pytest.mark.parametrize(("name", "expected"), [("neg", [[1, -2, 3, -4]]), ("abs", [[1, 2, 3, 4]])])
def test_the_references_run_the_selected_one(name: str, expected: Sequence[Sequence[int]]) -> None:
    graph, data = _selected(two_signatures("NEG", "ABS").build(), name)
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert run_all(graph, X)["y"].tolist() == expected
    for reference in (tflm.reference(graph, data), litert_ref.reference(graph, data)):
        assert reference.run_all(X)["y"].tolist() == expected
    # The file of one signature needs no selection.
    assert load_model(data).outputs == ("y",)


def test_several_are_refused() -> None:
    data = two_signatures("NEG", "ABS").build()
    with pytest.raises(ModelError, match="2 signatures, and one is compiled: 'neg', 'abs'") as got:
        load_model(data)
    assert got.value.hint == "choose one: --signature neg, in Python signature='neg'"
    for function in (hilc.compile, hilc.explain, hilc.frontier):
        with pytest.raises(ModelError, match="2 signatures"):
            function(data)
    # A reference that is given the whole file cannot know which one is meant.
    graph, _ = _selected(data, "abs")
    with pytest.raises(ModelError, match="2 signatures"):
        hilc.references.get_reference("tflm", graph, data)


@pytest.mark.parametrize("name", ["ab", "NEG", "", "\udc80"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises((ModelError, InputError), match="signature"):
        hilc.compile(two_signatures("NEG", "ABS").build(), signature=name)


def test_what_has_no_signatures_refuses_one() -> None:
    with pytest.raises(ModelError, match="the file has no signatures; 'f' cannot be selected"):
        hilc.compile(filled(ModelBuilder()).build(), signature="f")
    with pytest.raises(InputError, match="a graph has no signatures"):
        hilc.compile(load_model(filled(ModelBuilder()).build()), signature="f")


def test_two_of_one_subgraph_are_one_entry() -> None:
    b = filled(ModelBuilder())
    b.signatures = [("f", 0, {"x": 0}, {"y": 1}), ("g", 0, {"u": 0}, {"v": 1})]
    assert load_model(b.build()).inputs == ("a:0",)
    assert _selected(b.build(), "g")[0].inputs == ("u",)


def test_a_subgraph_that_nothing_calls_is_refused() -> None:
    b = filled(ModelBuilder(extra_subgraphs=2))
    with pytest.raises(ModelError, match=r"no operator calls 2 of .* 3 subgraphs \(1, 2\)"):
        load_model(b.build())
    b.signatures = [("f", 0, {"x": 0}, {"y": 1})]
    with pytest.raises(ModelError, match="1 signature: 'f'"):
        load_model(b.build())
    assert _selected(b.build(), "f")[0].inputs == ("x",)


def test_the_only_signature_may_be_of_another_subgraph() -> None:
    b = two_signatures("NEG", "ABS")
    del b.signatures[0]
    with pytest.raises(ModelError, match="only signature, 'abs', is not its first subgraph"):
        load_model(b.build())
    assert _selected(b.build(), "abs")[0].nodes[0].op == "ABS"


def test_an_unsupported_operator_is_named_first() -> None:
    """It may call the other subgraphs, in a way that the reader does not know."""
    b = ModelBuilder(extra_subgraphs=1)
    b.input("a", (1, 4), "float32")
    b.output("b", (1, 4), "float32")
    b.op("STABLEHLO_COMPOSITE", ("a",), ("b",))
    with pytest.raises(UnsupportedError, match="STABLEHLO_COMPOSITE"):
        load_model(b.build())


# Subgraphs that operators call ------------------------------------------------------------------


def _loop(then: int, otherwise: int) -> ModelBuilder:
    b = ModelBuilder()
    b.input("c", (), "bool")
    b.input("a", (1, 4), "float32")
    b.output("b", (1, 4), "float32")
    b.op("IF", ("c", "a"), ("b",), then=then, otherwise=otherwise)
    return b


@needs_tflm
def test_called_subgraphs_follow() -> None:
    """A signature behind others, whose subgraphs get other numbers."""
    b = two_signatures("NEG", "EXP", "ABS", "SQUARE")
    b.functions.append(_loop(4, 2))
    b.functions[2:] = [b.functions[3], filled(ModelBuilder(), "SQUARE")]
    # 0 NEG, 1 EXP, 2 ABS, 3 IF, 4 SQUARE
    b.functions[1] = filled(ModelBuilder(), "ABS")
    b.signatures = [("neg", 0, {}, {}), ("if", 3, {"c": 0, "x": 1}, {"y": 2})]
    graph, data = _selected(b.build(), "if")
    reference = tflm.reference(graph, data)
    for choice, expected in ((True, [[1, 4, 9, 16]]), (False, [[1, 2, 3, 4]])):
        inputs = {"c": np.array(choice), **X}
        assert run_all(graph, inputs)["y"].tolist() == expected
        assert reference.run_all(inputs)["y"].tolist() == expected


def test_a_called_signature_is_selected_by_name() -> None:
    b = _loop(1, 2)
    b.functions = [filled(ModelBuilder(), "NEG"), filled(ModelBuilder(), "ABS")]
    assert load_model(b.build()).outputs == ("b",)
    b.signatures = [("f", 0, {"x": 1}, {"y": 2})]
    assert load_model(b.build()).outputs == ("b",)
    b.signatures.append(("abs", 2, {"x": 0}, {"y": 1}))
    with pytest.raises(ModelError, match="2 signatures"):
        load_model(b.build())
    assert run_all(_selected(b.build(), "abs")[0], X)["y"].tolist() == [[1, 2, 3, 4]]


def test_a_call_of_the_first_subgraph_is_refused() -> None:
    b = filled(ModelBuilder())
    b.functions = [_loop(0, 0)]
    b.signatures = [("f", 0, {}, {}), ("g", 1, {}, {})]
    with pytest.raises(UnsupportedError, match="'g' calls the file's first subgraph"):
        _selected(b.build(), "g")


def _counter(step: float) -> ModelBuilder:
    b = ModelBuilder()
    b.input("a", (1, 4), "float32")
    b.output("b", (1, 4), "float32")
    b.const("step", np.full((1, 4), step, np.float32))
    variable(b, "handle", "count")
    b.tensor("before", (1, 4), "float32")
    b.tensor("next", (1, 4), "float32")
    b.op("READ_VARIABLE", ("handle",), ("before",))
    b.op("ADD", ("before", "step"), ("next",))
    b.op("ASSIGN_VARIABLE", ("handle", "next"), ())
    b.op("ADD", ("a", "next"), ("b",))
    return b


@needs_tflm
def test_each_has_states_of_its_own() -> None:
    b = _counter(1)
    b.functions = [_counter(10)]
    b.signatures = [(name, i, {"x": 0}, {"y": 1}) for i, name in enumerate(("slow", "fast"))]
    with pytest.raises(ModelError) as refused:
        load_model(b.build())
    assert "they share 1 variable: compiled alone, each has states of its own" in refused.value.hint
    for name, step in (("slow", 1), ("fast", 10)):
        graph, data = _selected(b.build(), name)
        interpreter, reference = Interpreter(graph), tflm.reference(graph, data)
        for run in (1, 2, 3):
            expected = X["x"] + run * step
            np.testing.assert_array_equal(interpreter.run(X)["y"], expected)
            np.testing.assert_array_equal(reference.run_all(X)["y"], expected)


# Names ------------------------------------------------------------------------------------------


def test_names_of_the_signature_are_the_models() -> None:
    """Also where another tensor, or an output, has the name of an input."""
    b = ModelBuilder()
    b.input("a", (1, 4), "float32")
    b.tensor("x", (1, 4), "float32")
    b.output("c", (1, 4), "float32")
    b.output("d", (1, 4), "float32")
    b.op("NEG", ("a",), ("x",))
    b.op("NEG", ("x",), ("c",))
    b.op("ABS", ("x",), ("d",))
    b.signatures = [("f", 0, {"x": 0}, {"x": 2, "": 3})]
    graph, _ = _selected(b.build(), "f")
    assert (graph.inputs, graph.outputs) == (("x",), ("x#2", "d"))
    assert list(graph.nodes[0].outputs) == ["x#1"]


def test_data_behind_the_flatbuffer_stay() -> None:
    b = filled(ModelBuilder())
    b.functions = [_counter(3)]
    b.signatures = [("f", 0, {}, {}), ("g", 1, {"x": 0}, {"y": 1})]
    graph, _ = _selected(b.build(outside=True), "g")
    np.testing.assert_array_equal(Interpreter(graph).run(X)["y"], X["x"] + 3)


# Hostile files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("subgraph", [1, 7, 2**31])
def test_a_signature_of_no_subgraph_is_refused(subgraph: int) -> None:
    b = filled(ModelBuilder())
    b.signatures = [("f", subgraph, {"x": 0}, {"y": 1})]
    with pytest.raises(ModelError, match=f"the signature 'f' is of subgraph {subgraph}; the file"):
        load_model(b.build())
    with pytest.raises(ModelError, match=f"is of subgraph {subgraph}"):
        selected(b.build(), "f")


@pytest.mark.parametrize("named", [({"x": 1}, {}), ({"x": 9}, {}), ({}, {"y": 2**31})])
def test_a_signature_of_another_tensor_is_refused(
    named: tuple[dict[str, int], dict[str, int]],
) -> None:
    b = filled(ModelBuilder())
    b.signatures = [("f", 0, *named)]
    with pytest.raises(ModelError, match=r"names tensor \d+, which is not among the (in|out)puts"):
        selected(b.build(), "f")


def test_many_signatures_are_counted() -> None:
    b = two_signatures("NEG", "ABS")
    b.signatures = [(f"s{i}", i % 2, {}, {}) for i in range(3000)]
    with pytest.raises(ModelError, match="3000 signatures.* 's7' and 2992 more") as got:
        load_model(b.build())
    assert len(str(got.value)) < 400
    assert _selected(b.build(), "s2999")[0].nodes[0].op == "ABS"


def test_names_that_select_nothing_are_refused() -> None:
    b = two_signatures("NEG", "ABS")
    b.signatures = [("", 0, {}, {}), ("", 1, {}, {})]
    with pytest.raises(ModelError, match="2 signatures") as got:
        load_model(b.build())
    assert "--signature" not in (got.value.hint or "")
    b.signatures = [("f", 0, {}, {}), ("f", 1, {}, {})]
    with pytest.raises(ModelError, match="2 signatures 'f'"):
        selected(b.build(), "f")
    b.signatures = [("f" * 1001, 0, {}, {}), ("g", 1, {}, {})]
    with pytest.raises(ModelError, match="has 1001 bytes"):
        load_model(b.build())


def test_a_name_is_shown_on_one_line() -> None:
    b = two_signatures("NEG", "ABS")
    b.signatures = [("a\n\x1b[31m b", 0, {}, {}), ("g", 1, {}, {})]
    with pytest.raises(ModelError) as got:
        load_model(b.build())
    assert "\x1b" not in str(got.value)
    assert "--signature 'a??[31m b'" in (got.value.hint or "")


def test_cut_and_changed_files_are_refused() -> None:
    """Any change of a byte in the tables leaves a model or a refusal."""
    data = two_signatures("NEG", "ABS").build()
    rng = np.random.default_rng(1)
    for place in rng.choice(len(data), 400, replace=False):
        changed = bytearray(data)
        changed[place] ^= int(rng.integers(1, 256))
        try:
            _selected(bytes(changed), "abs")
        except (ModelError, InputError) as refusal:
            assert "inconsistent" not in str(refusal), place  # noqa: PT017
