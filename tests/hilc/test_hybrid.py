"""Dynamic-range layers with a state, products of matrices, and those that have floats alone."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import litert_ref
import numpy as np
import pytest
import tflm
from control_flow import counted
from tflite_builder import ModelBuilder

import hilc
from hil.cli.plan_report import dynamic_lines
from hilc import host
from hilc.artifact.manifest import Module
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import read_model
from hilc.frontends.readers import Specialization
from hilc.interpreter import Interpreter
from hilc.ir import Array, Graph
from hilc.references import get_reference

FORMS = ("integer", "float")
#: Mean and spread of the inputs, one row of them a step.
STEPS = ((0, 1), (0, 0), (-2, 0.1), (4, 3), (0, 0.5))


def graph_of(model: bytes, dynamic: str) -> Graph:
    return read_model(model, "net", specialization=Specialization(dynamic=dynamic)).graph


class Hybrid(ModelBuilder):
    """A file of a layer of int8 weights and floats."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def weights(self, name: str, shape: Sequence[int], scale: Any = 0.01, **more: Any) -> Array:
        values = self.rng.integers(-127, 128, shape, np.int8)
        self.const(name, values, scale, **more)
        return values

    def bias(self, name: str, size: int) -> None:
        self.const(name, self.rng.standard_normal(size).astype(np.float32))


def svdf(batch: int, depth: int, units: int, rank: int, memory: int, **options: Any) -> bytes:
    b = Hybrid(f"svdf {batch} {depth} {units} {rank}")
    b.input("x", (batch, depth))
    b.weights("features", (units * rank, depth))
    if options.pop("real_moments", False):
        b.const("moments", np.ones((units * rank, memory), np.float32))
    else:
        b.weights("moments", (units * rank, memory), 0.02)
    b.bias("bias", units)
    state = options.pop("state", (batch, units * rank * memory))
    b.tensor("state", state, variable=True)
    b.output("y", (batch, units))
    b.op("SVDF", ("x", "features", "moments", "bias", "state"), ("y",), rank=rank, **options)
    return b.build()


def lstm(
    x: Sequence[int], units: int, *, time_major: bool = False, scale: Any = 0.01, **options: Any
) -> bytes:
    b = Hybrid(f"lstm {x} {units}")
    b.input("x", tuple(x))
    gates = []
    for part, depth in (("w", x[2]), ("r", units), ("b", 0)):
        for gate in "ifco":
            gates.append(f"{part}{gate}")
            if depth:
                more = {} if isinstance(scale, float) else {"axis": 0}
                b.weights(gates[-1], (units, depth), scale, **more)
            else:
                b.bias(gates[-1], units)
    batch = x[1] if time_major else x[0]
    for state in "hc":
        b.tensor(state, (batch, units), variable=True)
    b.output("y", (*x[:2], units))
    operands = ["x", *gates[:8], "", "", "", *gates[8:], "", "", "h", "c", *[""] * 4]
    b.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, ("y",),
        activation="TANH", time_major=time_major, **options,
    )  # fmt: skip
    return b.build()


def product(
    x: Sequence[int], weights: Sequence[int], y: Sequence[int], scale: Any = 0.01, **options: Any
) -> bytes:
    b = Hybrid(f"product {x} {weights}")
    b.input("x", tuple(x))
    b.weights("w", weights, scale, **({} if isinstance(scale, float) else {"axis": 0}))
    b.output("y", tuple(y))
    b.op("BATCH_MATMUL", ("x", "w"), ("y",), **options)
    return b.build()


EXACT: Mapping[str, bytes] = {
    "svdf": svdf(1, 20, 6, 1, 8),
    "svdf of ranks": svdf(2, 33, 4, 2, 5, activation="RELU"),
    "svdf, zero point": svdf(2, 20, 3, 3, 4, asymmetric_quantize_inputs=True),
    "svdf of one moment": svdf(1, 9, 4, 1, 1),
    "product": product((5, 16), (16, 3), (5, 3)),
    "product, zero point": product((2, 5, 16), (16, 3), (2, 5, 3), asymmetric_quantize_inputs=True),
    "product for each matrix": product(
        (4, 5, 16), (4, 16, 3), (4, 5, 3), asymmetric_quantize_inputs=True
    ),
    "turned product": product((16, 5), (3, 16), (5, 3), adj_x=True, adj_y=True),
}
#: One matrix each, so that TFLite's own offsets into a batch do not matter.
LSTMS: Mapping[str, bytes] = {
    "lstm": lstm((1, 5, 12), 10),
    "lstm of batches": lstm((3, 4, 12), 7, asymmetric_quantize_inputs=True),
    "lstm by time": lstm((4, 2, 6), 5, time_major=True, cell_clip=0.5),
}


def inputs_of(graph: Graph) -> list[Array]:
    rng, shape = np.random.default_rng(5), graph.tensors["x"].shape
    return [(rng.standard_normal(shape) * s + m).astype(np.float32) for m, s in STEPS]


def check_code(model: bytes, graph: Graph, **options: Any) -> None:
    """Generated C gives what the interpreter gives, step by step."""
    interpreter = Interpreter(graph)
    with host.load(hilc.compile(model, **options)) as loaded:
        for x in inputs_of(graph):
            loaded.set_input(0, x)
            loaded.run()
            np.testing.assert_array_equal(loaded.get_output(0), interpreter.run({"x": x})["y"])


@litert_ref.needs_litert_ref
@pytest.mark.parametrize("name", [*EXACT, *LSTMS])
def test_layers_are_those_of_litert(name: str) -> None:
    """Bit by bit; the gates of an LSTM are approximations there, so the last places differ."""
    model = {**EXACT, **LSTMS}[name]
    graph = graph_of(model, "integer")
    assert "DYNAMIC_QUANTIZE" in {n.op for n in graph.nodes}
    reference = get_reference("litert-ref", graph, model)
    assert "as float32" not in reference.description
    interpreter = Interpreter(graph)
    for x in inputs_of(graph):
        expected, found = reference.run_all({"x": x})["y"], interpreter.run({"x": x})["y"]
        if name in EXACT:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, atol=1e-5)
    check_code(model, graph, dynamic="integer")


@litert_ref.needs_litert_ref
@pytest.mark.parametrize("name", ["svdf of ranks", "lstm", "product"])
def test_float_forms_are_those_of_float_weights(name: str) -> None:
    """The reference is given the weights as floats, too."""
    model = {**EXACT, **LSTMS}[name]
    graph = graph_of(model, "float")
    assert "DYNAMIC_QUANTIZE" not in {n.op for n in graph.nodes}
    reference = get_reference("litert-ref", graph, model)
    assert "dynamic-range weights as float32" in reference.description
    interpreter = Interpreter(graph)
    for x in inputs_of(graph):
        expected, found = reference.run_all({"x": x})["y"], interpreter.run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    forms = hilc.compile(model).modules[0].dynamic_forms
    assert [form.dynamic for form in forms] == ["float", "integer"]


def test_prices_of_loops_say_so() -> None:
    """An LSTM on integers is a loop, whose instructions are those of one turn; in floats not."""
    module = hilc.compile(LSTMS["lstm"], cpu="cortex-m4").modules[0]
    lines = dynamic_lines(module.dynamic_forms)
    assert [("one turn of each loop" in line) for line in lines] == [False, True]
    # Descriptions of earlier releases do not state it.
    written = json.loads(module.to_json())
    for form in written["dynamic_forms"]:
        del form["calls_graphs"]
    read = Module.from_json(json.dumps(written).encode(), "net.json")
    assert [form.calls_graphs for form in read.dynamic_forms] == [False, False]
    assert Module.from_json(module.to_json(), "net.json") == module


def called(op: str, axis: int = 0) -> bytes:
    """Three turns of a loop, with a dynamic-range layer in its body or in a choice in it.

    The weights have one scale, so ``axis`` means nothing.
    """
    b, condition, body, layer = (Hybrid(f"{op} {part}") for part in "mcbl")
    for part, v in ((b, "x"), (condition, "v"), (body, "v")):
        part.input("i", (), "int32")
        part.input(v, (2, 16))
    condition.const("limit", np.array(3, np.int32))
    condition.output("again", (), "bool")
    condition.op("LESS", ("i", "limit"), ("again",))
    layer.input("v", (2, 16))
    b.functions += [condition, body] if op == "WHILE" else [condition, body, layer, layer]
    within = body if op == "WHILE" else layer
    within.weights("w", (16, 16), axis=axis)
    within.bias("b", 16)
    within.tensor("next", (2, 16))
    within.op("FULLY_CONNECTED", ("v", "w", "b"), ("next",))
    if op == "IF":
        layer.output("next")
        body.const("one", np.array(1, np.int32))
        body.tensor("first", (), "bool")
        body.op("LESS", ("i", "one"), ("first",))
        body.tensor("next", (2, 16))
        body.op("IF", ("first", "v"), ("next",), then=3, otherwise=4)
    counted(body)
    b.output("turns", (), "int32")
    b.output("y", (2, 16))
    b.op("WHILE", ("i", "x"), ("turns", "y"), condition=1, body=2)
    return b.build()


@litert_ref.needs_litert_ref
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["WHILE", "IF"])
def test_layers_in_called_graphs_have_references(op: str, form: str) -> None:
    """Both compute the layer in floats, or both on integers, though the model calls it."""
    model = called(op)
    graph = graph_of(model, form)
    reference = get_reference("litert-ref", graph, model)
    assert ("as float32" in reference.description) == (form == "float")
    for x in inputs_of(graph):
        given = {"i": np.array(0, np.int32), "x": x}
        expected, found = reference.run_all(given)["y"], Interpreter(graph).run(given)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@tflm.needs_tflm
@pytest.mark.parametrize("op", ["WHILE", "IF"])
def test_called_float_forms_run_in_tflm(op: str) -> None:
    """It refuses floats with int8 weights; the default reference has them as floats."""
    model = called(op, axis=7)
    graph = graph_of(model, "float")
    reference = tflm.reference(graph, model)
    assert "quantized dimensions that do not exist as 0" in reference.description
    assert "dynamic-range weights as float32" in reference.description
    for x in inputs_of(graph):
        given = {"i": np.array(0, np.int32), "x": x}
        expected, found = reference.run_all(given)["y"], Interpreter(graph).run(given)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@tflm.needs_tflm
@pytest.mark.parametrize("scale", [None, 0.01, 0.03])
def test_weights_that_others_read_have_references(scale: float | None) -> None:
    """The table of an embedding, too: the same tensor, or one of the same data."""
    b = Hybrid("tied")
    b.input("i", (3,), "int32")
    values = b.weights("w", (8, 16))
    if scale is not None:
        b.const("table", values, scale)
    b.tensor("rows", (3, 16), "int8", scale or 0.01)
    b.tensor("x", (3, 16))
    b.output("y", (3, 8))
    b.op("GATHER", ("w" if scale is None else "table", "i"), ("rows",))
    b.op("DEQUANTIZE", ("rows",), ("x",))
    b.op("FULLY_CONNECTED", ("x", "w"), ("y",))
    model = b.build()
    graph = graph_of(model, "float")
    reference = tflm.reference(graph, model)
    assert "dynamic-range weights as float32" in reference.description
    given = {"i": np.array((1, 5, 7), np.int32)}
    found, expected = Interpreter(graph).run(given)["y"], reference.run_all(given)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@litert_ref.needs_litert_ref
def test_layers_of_the_same_data_have_references() -> None:
    """Two scales of the same numbers."""
    b = Hybrid("two scales")
    b.input("x", (3, 16))
    b.const("v", b.weights("w", (16, 16)), 0.5)
    b.tensor("h", (3, 16))
    b.output("y", (3, 16))
    b.op("FULLY_CONNECTED", ("x", "w"), ("h",))
    b.op("FULLY_CONNECTED", ("h", "v"), ("y",))
    model = b.build()
    graph = graph_of(model, "float")
    for x in inputs_of(graph):
        expected = get_reference("litert-ref", graph, model).run_all({"x": x})["y"]
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(
            Interpreter(graph).run({"x": x})["y"], expected, atol=1e-5 * scale
        )


@pytest.mark.parametrize("form", FORMS)
def test_transposed_convolutions_are_floats(form: str) -> None:
    """TFLite has no kernel of them on integers, though its converter writes them."""
    b = Hybrid("transposed")
    b.input("x", (1, 3, 4, 5))
    b.const("size", np.array((1, 6, 8, 2), np.int32))
    b.weights("w", (2, 3, 3, 5), (0.01, 0.02), axis=0)
    b.output("y", (1, 6, 8, 2))
    b.op("TRANSPOSE_CONV", ("size", "w", "x"), ("y",), padding="SAME", stride_h=2, stride_w=2)
    model = b.build()
    graph = graph_of(model, form)
    reference = get_reference("tflm", graph, model)
    assert "dynamic-range weights as float32" in reference.description
    for x in inputs_of(graph):
        expected = reference.run_all({"x": x})["y"]
        found = Interpreter(graph).run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    check_code(model, graph, dynamic=form)
    assert hilc.compile(model).modules[0].dynamic_forms == ()


def test_matrices_of_a_batch_have_own_weights() -> None:
    """With two batch axes TFLite's kernel takes the scales of other rows: floats are compared."""
    model = product((2, 3, 4, 16), (3, 16, 5), (2, 3, 4, 5), asymmetric_quantize_inputs=True)
    graph, real = (graph_of(model, form) for form in FORMS)
    for x in inputs_of(graph):
        found, expected = (Interpreter(g).run({"x": x})["y"] for g in (graph, real))
        np.testing.assert_allclose(found, expected, atol=0.02 * max(1, np.abs(expected).max()))
    check_code(model, graph, dynamic="integer")


@pytest.mark.parametrize(
    "model",
    [
        lstm((1, 2, 4), 3, scale=(0.01, 0.02, 0.03)),
        product((2, 4), (3, 4), (2, 3), (1.0, 2.0, 3.0), adj_y=True),
    ],
    ids=["lstm", "product"],
)
def test_weights_with_several_scales_are_refused(model: bytes) -> None:
    """Where TFLite's kernels read one; as floats they are right."""
    with pytest.raises(UnsupportedError, match="have 3 scales; TFLite on integers reads one"):
        graph_of(model, "integer")
    assert "DYNAMIC_QUANTIZE" not in {n.op for n in graph_of(model, "float").nodes}


@litert_ref.needs_litert_ref
@pytest.mark.parametrize(("op", "version"), [("FULLY_CONNECTED", 12), ("BATCH_MATMUL", 4)])
def test_newer_versions_have_references(op: str, version: int) -> None:
    """As converters of TensorFlow 2.21 declare dynamic-range layers."""
    b = Hybrid(op)
    b.input("x", (3, 16))
    b.weights("w", (5, 16))
    b.output("y", (3, 5))
    turned: dict[str, Any] = {"adj_y": True} if op == "BATCH_MATMUL" else {}
    b.op(op, ("x", "w"), ("y",), version=version, **turned)
    model = b.build()
    for form in FORMS:
        graph = graph_of(model, form)
        reference = get_reference("litert-ref", graph, model)
        assert f"{op} as of version {version - 1}" in reference.description
        for x in inputs_of(graph):
            expected = reference.run_all({"x": x})["y"]
            found = Interpreter(graph).run({"x": x})["y"]
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_damaged_layers_are_refused() -> None:
    """As those of floats are: the sizes of an SVDF, and weights of which some are floats."""
    with pytest.raises(ModelError, match="has the state"):
        graph_of(svdf(1, 4, 2, 1, 3, state=(1, 5)), "integer")
    with pytest.raises(UnsupportedError, match="'moments' of float32 are no quantized constants"):
        graph_of(svdf(1, 4, 2, 1, 3, real_moments=True), "integer")
    with pytest.raises(ModelError, match=r"it gives float32\[2, 4\], which must be"):
        graph_of(product((2, 4), (4, 3), (2, 4)), "integer")
