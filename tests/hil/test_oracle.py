"""What results are compared with: the default reference, the named one, a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_ref import needs_litert_ref
from single_op import random_op
from tflite_builder import ModelBuilder
from tflm import needs_tflm

import hilc
import hilc.references
from hil.errors import InputError
from hil.verify.oracle import FallbackWarning, expected_outputs, installed_reference, reference_of
from hilc import interpreter
from hilc.artifact.library import ModelLibrary, Module
from hilc.errors import ModelError, UnsupportedError
from hilc.frontends import load_model
from hilc.ir import Array
from hilc.references.tflm import VERSION


@pytest.fixture(scope="module")
def library() -> ModelLibrary:
    builder = ModelBuilder()
    builder.input("x", (1, 4), "int8", scale=0.5, zero_point=1)
    builder.output("y", (1, 4), "int8", scale=0.5, zero_point=1)
    builder.op("RELU", ("x",), ("y",))
    return hilc.compile(builder.build(), name="relu")


X = np.array([[-5, 0, 1, 9]], np.int8)
RELU_X = [[1, 1, 1, 9]]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tflm", marks=needs_tflm),
        pytest.param("litert-ref", marks=needs_litert_ref),
        "hilc",
    ],
)
def test_a_named_reference(library: ModelLibrary, name: str) -> None:
    oracle = reference_of(library, library.modules[0], name)
    assert oracle.name == name
    assert oracle.values(0, {"x": X})["y"].tolist() == RELU_X


@needs_tflm
def test_the_default_is_tflm(library: ModelLibrary) -> None:
    assert reference_of(library, library.modules[0]).name == "tflm"


def test_without_tflm_it_is_hilc_and_says_why(
    library: ModelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hilc.references, "_installed", lambda package: None)
    with pytest.warns(FallbackWarning, match=r"compared with this compiler's own interpreter, not"):
        oracle = reference_of(library, library.modules[0], allow_fallback=True)
    assert (oracle.name, oracle.independent) == ("hilc", False)
    assert oracle.fallback is not None
    assert oracle.fallback.wanted == "tflm"
    assert oracle.fallback.used == "hilc"
    assert installed_reference() == ("hilc", oracle.fallback)
    assert f"the reference tflm needs tflite-micro {VERSION}" in oracle.description
    assert oracle.values(0, {"x": X})["y"].tolist() == RELU_X
    with pytest.raises(InputError, match="the reference tflm needs"):
        reference_of(library, library.modules[0], "tflm")
    # Who asks for it is not told that it is one.
    assert reference_of(library, library.modules[0], "hilc").fallback is None


def _padding(op: str) -> bytes:
    """``op`` on int8 beside a padding of int64, which TFLM does not have."""
    builder = ModelBuilder()
    builder.input("x", (1, 4), "int8", scale=0.1, zero_point=0)
    builder.input("n", (2,), "int64")
    builder.const("paddings", np.array([[1, 0]], np.int32))
    builder.output("y", (1, 4), "int8", scale=1 / 100, zero_point=0)
    builder.output("padded", (3,), "int64")
    builder.op(op, ("x",), ("y",))
    builder.op("PAD", ("n", "paddings"), ("padded",))
    return builder.build()


@needs_tflm
@needs_litert_ref
@pytest.mark.parametrize(("op", "used"), [("HARD_SWISH", "litert-ref"), ("TANH", "hilc")])
def test_a_model_that_tflm_refuses(op: str, used: str) -> None:
    """litert-ref stands in where it computes what the code does, and so not for TFLM's TANH."""
    library = hilc.compile(_padding(op), name="odd")
    with pytest.warns(FallbackWarning, match="PAD.*INT64|INT64.*Pad"):
        oracle = reference_of(library, library.modules[0], allow_fallback=True)
    assert oracle.fallback is not None
    assert (oracle.name, oracle.fallback.used, oracle.fallback.wanted) == (used, used, "tflm")
    sample: dict[str, Array] = {
        "x": np.array([[-9, 0, 1, 9]], np.int8),
        "n": np.array([3, 4], np.int64),
    }
    values = oracle.values(0, sample)
    assert values["padded"].tolist() == [0, 3, 4]
    graph = load_model(_padding(op))
    assert values["y"].tolist() == interpreter.run(graph, sample)["y"].tolist()


def _tanh() -> bytes:
    builder = ModelBuilder()
    builder.input("x", (1, 256), "int8", scale=0.02, zero_point=3)
    builder.output("y", (1, 256), "int8", scale=1 / 100, zero_point=5)
    builder.op("TANH", ("x",), ("y",))
    return builder.build()


@needs_tflm
@needs_litert_ref
@pytest.mark.parametrize(("own", "other"), [("tflm", "litert-ref"), ("litert-ref", "tflm")])
def test_code_is_compared_with_its_own_reference(own: str, other: str) -> None:
    library = hilc.compile(_tanh(), name="tanh", reference=own)
    (module,) = library.modules
    assert module.reference == own
    oracle = reference_of(library, module)
    assert (oracle.name, oracle.fallback) == (own, None)
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    with hilc.host.load(library) as model:
        model.set_input("x", x)
        model.run()
        computed = model.get_output("y")
    assert computed.tolist() == oracle.values(0, {"x": x})["y"].tolist()
    # The interpreter follows the code, too.
    assert reference_of(library, module, "hilc").values(0, {"x": x})["y"].tolist() == (
        computed.tolist()
    )
    with pytest.raises(InputError, match=f"as {own} does, and {other} defines TANH 'y'") as caught:
        reference_of(library, module, other)
    assert f"compile it with --reference {other}" in caught.value.hint


@pytest.mark.parametrize(
    ("op", "dtype"), [("UNIDIRECTIONAL_SEQUENCE_LSTM", "int8"), ("SVDF", "int8"), ("SUM", "int8")]
)
def test_the_only_definition_is_the_reference(op: str, dtype: str) -> None:
    """litert-ref differs there by design, and no option makes the code compute as it does."""
    rng = np.random.default_rng(0)
    singles = (random_op(rng, op, dtype) for _ in range(20))
    # An SVDF with states of int16 is the same for both.
    model = next(s for s in singles if op != "SVDF" or s.ins[4].dtype == "int8").tflite()
    library = hilc.compile(model, name="own")
    with pytest.raises(InputError, match=f"litert-ref defines {op} .* otherwise") as caught:
        reference_of(library, library.modules[0], "litert-ref")
    assert caught.value.hint == "compare with tflm"
    with pytest.raises(UnsupportedError, match="as TensorFlow Lite Micro does it") as refused:
        hilc.compile(model, name="own", reference="litert-ref")
    assert refused.value.hint == "compile with the reference tflm"


@needs_tflm
def test_tflm_is_the_reference_of_a_division_by_zero() -> None:
    """It is tried with a run of its own, over zeros; their quotient ends the run with an error."""
    b = ModelBuilder()
    for name in "ab":
        b.input(name, (1, 4), "int32")
    b.output("y", (1, 4), "int32")
    b.op("DIV", ("a", "b"), ("y",))
    library = hilc.compile(b.build(), name="div")
    oracle = reference_of(library, library.modules[0])
    assert (oracle.name, oracle.fallback) == ("tflm", None)
    sample: dict[str, Array] = {
        "a": np.array([[7, -7, 9, 0]], np.int32),
        "b": np.array([[2, 2, -3, 5]], np.int32),
    }
    assert oracle.values(0, sample)["y"].tolist() == [[3, -3, -3, 0]]
    sample["b"][0, 0] = 0
    with pytest.raises(ModelError, match="DIV"):
        oracle.values(0, sample)
    # What it is here is documented.
    graph = load_model(b.build())
    assert interpreter.run(graph, sample)["y"].tolist() == [[0, -3, -3, 0]]


def test_a_library_without_its_model(library: ModelLibrary) -> None:
    files = {path: data for path, data in library.files.items() if not path.startswith("src/")}
    bare = dataclasses.replace(library, files=files)
    with pytest.raises(InputError, match="does not hold the model") as caught:
        reference_of(bare, bare.modules[0])
    assert "--source MODEL.tflite" in str(caught.value.hint)
    assert "--expect F.npz" in str(caught.value.hint)


def _renamed(library: ModelLibrary, **tensors: dict[str, Any]) -> tuple[ModelLibrary, Module]:
    """The library without its model, its input ``x`` and output ``y`` described otherwise."""
    (module,) = library.modules
    module = dataclasses.replace(
        module,
        inputs=(dataclasses.replace(module.inputs[0], **tensors.get("x", {})),),
        outputs=(dataclasses.replace(module.outputs[0], **tensors.get("y", {})),),
    )
    return dataclasses.replace(library, modules=(module,), files={}), module


@pytest.fixture(scope="module")
def source(library: ModelLibrary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oracle") / "relu.tflite"
    path.write_bytes(library.files["src/relu.tflite"])
    return path


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"y": {"name": "output0"}},
        {"x": {"name": "serving_x_0"}, "y": {"name": "output"}},
        {"x": {"shape": (4,)}, "y": {"shape": (4,), "name": "output"}},
    ],
)
def test_the_model_of_a_library_without_it_is_given(
    library: ModelLibrary, source: Path, tensors: dict[str, Any]
) -> None:
    bare, module = _renamed(library, **tensors)
    oracle = reference_of(bare, module, "hilc", source=source)
    x = X.reshape(module.inputs[0].shape)
    values = oracle.values(0, {module.inputs[0].name: x})
    assert values[module.outputs[0].name].tolist() == RELU_X


def test_tensors_are_matched_by_name_before_position(tmp_path: Path) -> None:
    builder = ModelBuilder()
    for name in ("in:1", "in:0"):
        builder.input(name, (1, 4), "int8", scale=0.5, zero_point=1)
    for name, scale in (("b", 1.0), ("a", 0.5)):
        builder.output(name, (1, 4), "int8", scale=scale, zero_point=1)
    builder.op("RELU", ("in:1",), ("a",))
    builder.op("QUANTIZE", ("in:0",), ("b",))
    (tmp_path / "two.tflite").write_bytes(builder.build())
    library = hilc.compile(builder.build(), name="two")
    (module,) = library.modules
    # TVM's order is its own; its names are those that C allows.
    first, second = module.inputs
    inputs = (dataclasses.replace(second, name="in_0"), dataclasses.replace(first, name="in_1"))
    module = dataclasses.replace(module, inputs=inputs)
    bare = dataclasses.replace(library, modules=(module,), files={})
    oracle = reference_of(bare, module, "hilc", source=tmp_path / "two.tflite")
    values = oracle.values(0, {"in_0": X + 1, "in_1": X})
    assert values["a"].tolist() == RELU_X
    assert values["b"].tolist() == [[-1, 1, 2, 6]]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"x": {"dtype": "uint8"}}, r"inputs of the compiled model 'relu' \(x uint8\[1, 4\]\)"),
        ({"y": {"nbytes": 8, "shape": (8,)}}, r"outputs .* are not those of the model's file"),
    ],
)
def test_another_models_file_is_refused(
    library: ModelLibrary, source: Path, tensors: dict[str, Any], message: str
) -> None:
    bare, module = _renamed(library, **tensors)
    with pytest.raises(InputError, match=message):
        reference_of(bare, module, "hilc", source=source)


def test_a_source_that_is_not_there(library: ModelLibrary, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the model .*gone"):
        reference_of(library, library.modules[0], source=tmp_path / "gone")


def test_expected_outputs(library: ModelLibrary, tmp_path: Path) -> None:
    np.savez(tmp_path / "y.npz", y=np.arange(8, dtype=np.int8).reshape(2, 4))
    oracle = expected_outputs(tmp_path / "y.npz", library.modules[0], samples=2)
    assert oracle.name == "expect"
    assert oracle.values(1, {})["y"].tolist() == [[4, 5, 6, 7]]
    with pytest.raises(InputError, match="outputs of 2 samples, the inputs have 3"):
        expected_outputs(tmp_path / "y.npz", library.modules[0], samples=3)
