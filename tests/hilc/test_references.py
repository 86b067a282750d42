"""Choice of a reference: never under a name whose version is not the one installed."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import pytest
import tflm
from tflite_builder import ModelBuilder

from hilc import interpreter, references
from hilc.errors import InputError
from hilc.frontends import load_model
from hilc.references import get_reference, reference_names


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


def test_tflm_reads_every_computed_tensor_by_the_graph_s_name() -> None:
    data = _model()
    graph = load_model(data)
    reference = tflm.reference(graph, data)
    assert reference.name == "tflm"
    assert reference.description == "tflm: ai-edge-litert 1.2.0, BUILTIN_REF"
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
    with pytest.raises(InputError, match="runs the model's file, but there is none"):
        get_reference("tflm", load_model(_model()), None)


@pytest.mark.parametrize(
    ("name", "versions", "found", "requirement"),
    [
        ("tflm", {}, "installed is none", "ai-edge-litert==1.2.0"),
        ("tflm", {"ai_edge_litert": "1.4.0"}, "ai-edge-litert 1.4.0", "ai-edge-litert==1.2.0"),
        ("tflm", {"tflite_runtime": "2.13.0"}, "tflite-runtime 2.13.0", "ai-edge-litert==1.2.0"),
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
    monkeypatch.setattr(references, "_TFLM_UNTIL", (9, 0))
    with pytest.raises(InputError) as caught:
        get_reference(name, graph, data)
    assert found in caught.value.fact
    assert f"pip install '{requirement}'" in caught.value.hint


def test_a_python_that_has_no_package_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    monkeypatch.setattr(references, "_TFLM_UNTIL", (3, 10))
    with pytest.raises(InputError) as caught:
        references.tflm_package()
    assert caught.value.hint.startswith("no Python after 3.9 has it, and this is 3.")


@pytest.mark.parametrize(
    ("name", "versions", "package", "version"),
    [
        ("tflm", {"tflite_runtime": "2.14.0"}, "tflite-runtime", "2.14.0"),
        (
            "tflm",
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
    monkeypatch.setattr(references, "_load_runtime", lambda package, model: loaded.append(package))
    _installed(monkeypatch, **versions)
    assert (
        get_reference(name, graph, data).description == f"{name}: {package} {version}, BUILTIN_REF"
    )
    assert loaded == [package]


@pytest.mark.parametrize("name", [pytest.param("tflm", marks=tflm.needs_tflm), "hilc"])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "the model's input 'x' has no value"),
        ({"x": np.zeros((1, 4), np.int8), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((4,), np.int8)}, r"is int8\[4\], not int8\[1, 4\]"),
        ({"x": np.zeros((1, 4), np.float32)}, r"is float32\[1, 4\], not int8"),
    ],
)
def test_wrong_inputs(name: str, inputs: dict[str, np.ndarray], message: str) -> None:
    data = _model()
    with pytest.raises(InputError, match=message):
        get_reference(name, load_model(data), data).run_all(inputs)
