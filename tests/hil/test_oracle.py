"""What results are compared with: the default reference, the named one, a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import ModelBuilder
from tflm import needs_tflm

import hilc
import hilc.references
from hil.errors import InputError
from hil.oracle import expected_outputs, reference_of
from hilc.library import ModelLibrary


@pytest.fixture(scope="module")
def library() -> ModelLibrary:
    builder = ModelBuilder()
    builder.input("x", (1, 4), "int8", scale=0.5, zero_point=1)
    builder.output("y", (1, 4), "int8", scale=0.5, zero_point=1)
    builder.op("RELU", ("x",), ("y",))
    return hilc.compile(builder.build(), name="relu")


X = np.array([[-5, 0, 1, 9]], np.int8)
RELU_X = [[1, 1, 1, 9]]


@pytest.mark.parametrize("name", [pytest.param("tflm", marks=needs_tflm), "hilc"])
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
    oracle = reference_of(library, library.modules[0])
    assert oracle.name == "hilc"
    assert (
        "the reference tflm needs ai-edge-litert 1.2.0 (Python 3.10 to 3.12); "
        in oracle.description
    )
    assert oracle.values(0, {"x": X})["y"].tolist() == RELU_X
    with pytest.raises(InputError, match="the reference tflm needs"):
        reference_of(library, library.modules[0], "tflm")


def test_a_library_without_its_model(library: ModelLibrary) -> None:
    files = {path: data for path, data in library.files.items() if not path.startswith("src/")}
    bare = dataclasses.replace(library, files=files)
    with pytest.raises(InputError, match="does not hold the model"):
        reference_of(bare, bare.modules[0])


def test_expected_outputs(library: ModelLibrary, tmp_path: Path) -> None:
    np.savez(tmp_path / "y.npz", y=np.arange(8, dtype=np.int8).reshape(2, 4))
    oracle = expected_outputs(tmp_path / "y.npz", library.modules[0], samples=2)
    assert oracle.name == "expect"
    assert oracle.values(1, {})["y"].tolist() == [[4, 5, 6, 7]]
    with pytest.raises(InputError, match="outputs of 2 samples, the inputs have 3"):
        expected_outputs(tmp_path / "y.npz", library.modules[0], samples=3)
