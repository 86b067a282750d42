"""Choice of a reference: never under a name whose version is not the one installed."""

from __future__ import annotations

import importlib.metadata

import litert_ref
import numpy as np
import onnx
import pytest
import tflm
from tflite_builder import ModelBuilder

from hilc import interpreter, references
from hilc.errors import InputError, ModelError
from hilc.frontends import load_model
from hilc.references import get_reference, reference_names, require_installed, tflite_runtime
from hilc.references import tflm as tflm_reference
from hilc.references.tflm import VERSION


def _model() -> bytes:
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", 0.5, 1)
    b.output("y", (1, 4), "int8", 0.5, 1)
    b.op("ADD", ("x", "x"), ("y",))
    return b.build()


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(package: str) -> str:
        try:
            return versions[package.replace("-", "_")]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(package) from None

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_tflm_reads_tensors_by_graph_name() -> None:
    data = _model()
    graph = load_model(data)
    reference = tflm.reference(graph, data)
    assert reference.name == "tflm"
    assert reference.description == f"tflm: tflite-micro {VERSION}"
    x = np.array([[-128, 0, 1, 127]], np.int8)
    values = reference.run_all({"x": x})
    assert set(values) == {"x", "y"}
    np.testing.assert_array_equal(values["x"], x)
    np.testing.assert_array_equal(values["y"], interpreter.run(graph, {"x": x})["y"])


def test_results_survive_the_next_run() -> None:
    data = _model()
    reference = tflm.reference(load_model(data), data)
    first = reference.run_all({"x": np.full((1, 4), 3, np.int8)})["y"]
    kept = first.copy()
    reference.run_all({"x": np.full((1, 4), -50, np.int8)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("op", "dtype", "reference", "said"),
    [
        ("FLOOR_DIV", "float32", "tflm", "its divisor 'b' is 0 in 2 elements of 4"),
        ("DIV", "int32", "tflm", "its divisor 'b' is 0 in 2 elements of 4"),
        ("FLOOR_MOD", "int32", "litert-ref", "its divisor 'b' is 0 in 2 elements of 4"),
        ("POW", "int32", "litert-ref", "its exponent 'b' is below 0 in 1 element of 4"),
    ],
)
def test_an_operand_at_which_a_runtime_stops(
    op: str, dtype: str, reference: str, said: str
) -> None:
    """The message names it, and none of what the runtime printed before is left as zeros."""
    b = ModelBuilder()
    b.input("a", (1, 4), dtype)
    b.input("b", (1, 4), dtype)
    b.output("y", (1, 4), dtype)
    b.op(op, ("a", "b"), ("y",))
    made = get_reference(reference, load_model(b.build()), b.build())
    good = {"a": np.array([[5, 7, 1, 3]], dtype), "b": np.array([[2, 1, 1, 3]], dtype)}
    before = made.run_all(good)["y"]
    bad = {**good, "b": np.array([[2, 0, 0, -1]], dtype)}
    with pytest.raises(ModelError) as caught:
        made.run_all(bad)
    assert said in caught.value.fact
    assert caught.value.fact.endswith("the first at [0, 3]" if op == "POW" else "at [0, 1]")
    assert "the reference hilc" in caught.value.hint
    assert (made.run_all(good)["y"] == before).all()


def test_what_a_runtime_printed_begins_anew() -> None:
    """The next message has nothing of the last one, and no zeros in its place."""
    b = ModelBuilder()
    for name in ("a", "b"):
        b.input(name, (1, 4), "int32")
    b.output("y", (1, 4), "int32")
    b.op("FLOOR_DIV", ("a", "b"), ("y",))
    said = []
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            get_reference("tflm", load_model(b.build()), b.build())
        said.append(caught.value.fact)
    assert "Type 'INT32' is not supported by FLOOR_DIV" in said[0]
    assert said[1] == said[0]


def test_hilc_needs_no_file() -> None:
    graph = load_model(_model())
    reference = get_reference("hilc", graph, None)
    assert (reference.name, reference.description.split(",")[0]) == (
        "hilc",
        "hilc: this compiler's interpreter",
    )
    x = np.zeros((1, 4), np.int8)
    assert set(reference.run_all({"x": x})) == {"x", "y"}


def test_unknown_reference_lists_the_known() -> None:
    with pytest.raises(InputError) as caught:
        get_reference("tflite", load_model(_model()), None)
    for name in reference_names():
        assert name in caught.value.hint


@tflm.needs_tflm
def test_tflm_without_a_file() -> None:
    with pytest.raises(InputError, match="runs model files, but this model has none"):
        get_reference("tflm", load_model(_model()), None)


@pytest.mark.parametrize(
    ("name", "versions", "found", "requirement"),
    [
        ("tflm", {}, "installed is none", f"tflite-micro=={VERSION}"),
        ("tflm", {"tflite_micro": "0.1"}, "tflite-micro 0.1", f"tflite-micro=={VERSION}"),
        ("litert-ref", {}, "installed is none", "hil-harness[litert]"),
        ("litert-ref", {"ai_edge_litert": "1.4.0"}, "ai-edge-litert 1.4.0", "hil-harness[litert]"),
        ("litert-ref", {"tflite_runtime": "2.13.0"}, "runtime 2.13.0", "hil-harness[litert]"),
        ("litert", {}, "installed is none", "ai-edge-litert>=1.4"),
        ("litert", {"ai_edge_litert": "1.2.0"}, "ai-edge-litert 1.2.0", "ai-edge-litert>=1.4"),
    ],
)
def test_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    versions: dict[str, str],
    found: str,
    requirement: str,
) -> None:
    data = _model()
    graph = load_model(data)
    _installed(monkeypatch, **versions)
    monkeypatch.setattr(references, "_LITERT_REF_UNTIL", (9, 0))
    monkeypatch.setattr(tflm_reference, "UNTIL", (9, 0))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(InputError) as caught:
        get_reference(name, graph, data)
    assert found in caught.value.fact
    assert f"pip install '{requirement}" in caught.value.hint


@pytest.mark.parametrize("name", ["tflm", "litert-ref"])
def test_a_python_that_has_no_package_for_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _installed(monkeypatch)
    monkeypatch.setattr(references, "_LITERT_REF_UNTIL", (3, 10))
    monkeypatch.setattr(tflm_reference, "UNTIL", (3, 10))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(InputError) as caught:
        require_installed(name)
    assert "the package supports up to 3.9: use Python 3.9" in caught.value.hint


def test_a_machine_that_has_no_package_for_tflm(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(InputError) as caught:
        require_installed("tflm")
    assert "on aarch64: compare on Linux on x86-64" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "versions", "package", "version"),
    [
        ("litert-ref", {"tflite_runtime": "2.14.0"}, "tflite-runtime", "2.14.0"),
        (
            "litert-ref",
            {"ai_edge_litert": "2.0.0", "tflite_runtime": "2.14.0"},
            "tflite-runtime",
            "2.14.0",
        ),
        ("litert", {"ai_edge_litert": "1.10.1"}, "ai-edge-litert", "1.10.1"),
        ("litert", {"ai_edge_litert": "2.0.0rc1"}, "ai-edge-litert", "2.0.0rc1"),
    ],
)
def test_which_package_serves_a_reference(
    monkeypatch: pytest.MonkeyPatch, name: str, versions: dict[str, str], package: str, version: str
) -> None:
    data = _model()
    graph = load_model(data)
    loaded = []
    monkeypatch.setattr(
        tflite_runtime, "_LoadedModel", lambda package, model: loaded.append(package)
    )
    # There is nothing that it could run.
    monkeypatch.setattr(tflite_runtime.TfliteRuntime, "_require_types", lambda *_: None)
    _installed(monkeypatch, **versions)
    assert (
        get_reference(name, graph, data).description == f"{name}: {package} {version}, BUILTIN_REF"
    )
    assert loaded == [package]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tflm", marks=tflm.needs_tflm),
        pytest.param("litert-ref", marks=litert_ref.needs_litert_ref),
        "hilc",
    ],
)
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "'x' has no value|no value for the model's input 'x'"),
        ({"x": np.zeros((1, 4), np.int8), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((4,), np.int8)}, r"is int8\[4\], not int8\[1, 4\]"),
        ({"x": np.zeros((1, 4), np.float32)}, r"is float32\[1, 4\], not int8"),
    ],
)
def test_wrong_inputs(name: str, inputs: dict[str, np.ndarray], message: str) -> None:
    data = _model()
    with pytest.raises(InputError, match=message):
        get_reference(name, load_model(data), data).run_all(inputs)


def _loop(times: int, body: onnx.GraphProto, x: str, y: str) -> list[onnx.NodeProto]:
    """A loop without a condition."""
    count = onnx.numpy_helper.from_array(np.int64(times))
    constant = onnx.helper.make_node("Constant", [], [f"{y}_times"], value=count)
    return [constant, onnx.helper.make_node("Loop", [f"{y}_times", "", x], [y], body=body)]


def _body(nodes: list[onnx.NodeProto], before: str, after: str) -> onnx.GraphProto:
    """The body of a loop, whose own condition is false: without a condition it does not count."""
    info = onnx.helper.make_tensor_value_info
    false = onnx.helper.make_tensor("false", onnx.TensorProto.BOOL, (), [False])
    stop = onnx.helper.make_node("Constant", [], [f"{after}_stop"], value=false)
    states = [info(name, onnx.TensorProto.FLOAT, [4]) for name in (before, after)]
    inputs = [
        info(f"{before}_turn", onnx.TensorProto.INT64, []),
        info(f"{before}_condition", onnx.TensorProto.BOOL, []),
        states[0],
    ]
    stopped = info(f"{after}_stop", onnx.TensorProto.BOOL, [])
    return onnx.helper.make_graph([*nodes, stop], "body", inputs, [stopped, states[1]])


def test_onnx_turns_loops_without_a_condition() -> None:
    double = onnx.helper.make_node("Add", ["b", "b"], ["c"])
    inner = _loop(2, _body([double], "b", "c"), "s", "t")
    outer = _loop(3, _body(inner, "s", "t"), "x", "y")
    tensors = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"
    ]
    graph = onnx.helper.make_graph(outer, "net", tensors[:1], tensors[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    data = onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    x = np.arange(4, dtype=np.float32)
    for name in ("onnx", "hilc"):
        reference = get_reference(name, load_model(data), data)
        assert np.array_equal(reference.run_all({"x": x})["y"], x * 64)
