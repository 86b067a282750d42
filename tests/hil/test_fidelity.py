"""The figures of how far a model is from its reference and from a model in floats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import ModelBuilder

import hilc
import hilc.host
from hil import verify
from hil.cli.render import verify_text
from hil.errors import InputError
from hil.results.codec import encode
from hil.verify import Fidelity, Oracle, TensorFidelity
from hil.verify.fidelity import FidelityMeter, exact_meter, float_meter
from hilc import interpreter
from hilc.artifact.library import TensorInfo
from hilc.frontends import load_model


def measured(device: np.ndarray, other: np.ndarray) -> TensorFidelity:
    """The figures of samples, each a row."""
    info = TensorInfo("y", "y", device.shape[1:], "float32", None, None, 4, None)
    meter = FidelityMeter("other", lambda sample, expected: expected)
    for y, r in zip(device, other, strict=True):
        meter.add({}, {"y": r}, [(info, y)], [])
    (found,) = meter.result().outputs
    return found


def test_the_formulas() -> None:
    rng = np.random.default_rng(1)
    r = rng.normal(3, 2, (7, 10))
    y = r + rng.normal(0, 0.3, r.shape)
    found, e = measured(y, r), y - r
    assert found.elements == 70
    assert found.rmse == pytest.approx(np.sqrt(np.mean(e**2)))
    assert found.mae == pytest.approx(np.mean(np.abs(e)))
    assert found.max_abs_diff == np.abs(e).max()
    assert found.l2r == pytest.approx(np.linalg.norm(e) / np.linalg.norm(r))
    assert found.nse == pytest.approx(1 - (e**2).sum() / ((r - r.mean()) ** 2).sum())
    cosine = (y * r).sum() / np.linalg.norm(y) / np.linalg.norm(r)
    assert found.cos == pytest.approx(cosine)
    assert found.snr_db == pytest.approx(20 * np.log10(np.linalg.norm(r) / np.linalg.norm(e)))
    assert found.top1 == np.mean(y.argmax(axis=1) == r.argmax(axis=1))


def test_classes() -> None:
    r = np.eye(8)[[0, 1, 2, 3]]
    y = r.copy()
    y[1] = np.arange(8)  # 1 is the seventh
    y[2] = [9, 8, 3, 2, 1, 0, 0, 0]  # 2 is the third
    found = measured(y, r)
    assert (found.top1, found.top5) == (0.5, 0.75)
    assert measured(r[:, :2], r[:, :2]).top1 is None


def test_what_is_not_defined_is_none() -> None:
    same = measured(np.ones((2, 4)), np.ones((2, 4)))
    assert (same.rmse, same.snr_db, same.nse) == (0, None, None)
    assert same.cos == pytest.approx(1)
    zeros = measured(np.ones((2, 4)), np.zeros((2, 4)))
    assert (zeros.l2r, zeros.snr_db, zeros.nse, zeros.cos) == (None, None, None, None)
    strange = measured(np.full((2, 4), np.nan), np.ones((2, 4)))
    assert json.loads(json.dumps(encode(strange), allow_nan=False))["rmse"] is None


def twins(folder: Path) -> tuple[bytes, Path]:
    """A fully connected layer on integers, and the file of the one in floats."""
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (6, 9), np.int8)
    b = ModelBuilder()
    b.input("x", (1, 9), "int8", 0.02, 4)
    b.const("w", weights, 0.002)
    b.output("y", (1, 6), "int8", 0.05, -7)
    b.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    f = ModelBuilder()
    f.input("x", (1, 9), "float32")
    f.const("w", (weights * np.float32(0.002)).astype(np.float32))
    f.output("y", (1, 6), "float32")
    f.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    path = folder / "float.tflite"
    path.write_bytes(f.build())
    return b.build(), path


def test_against_the_reference_and_the_model_in_floats(tmp_path: Path) -> None:
    model, floats = twins(tmp_path)
    graph = load_model(model)
    oracle = Oracle("hilc", "hilc", lambda _, sample: interpreter.run_all(graph, sample))
    with hilc.host.load(hilc.compile(model, name="net")) as loaded:
        report = verify(loaded, 20, oracle, per_layer=True, metrics=True, float_model=str(floats))
    exact, real = report.metrics
    assert [tensor.rmse for tensor in (*exact.outputs, *exact.layers)] == [0, 0]
    assert exact.outputs[0].top1 == 1
    # Rounding to steps of 0.05 is off by 0.05 / sqrt(12) on average, at most by 0.025.
    assert real.outputs[0].max_abs_diff is not None
    assert 0 < real.outputs[0].max_abs_diff <= 0.0251
    assert real.outputs[0].rmse == pytest.approx(0.05 / np.sqrt(12), rel=0.25)
    assert real.outputs[0].snr_db is not None
    assert real.outputs[0].snr_db > 20
    assert [tensor.layer for tensor in real.layers] == [0]
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))["metrics"]
    assert [entry["against"] for entry in data] == ["hilc", str(floats)]
    assert data[1]["outputs"][0]["name"] == "y"
    text = verify_text(report)
    assert f"compared with {floats}, in real numbers" in text
    assert "SNR dB" in text


def test_files_that_are_no_model_in_floats(tmp_path: Path) -> None:
    model, floats = twins(tmp_path)
    whole = tmp_path / "int8.tflite"
    whole.write_bytes(model)
    (module,) = hilc.compile(model, name="net").modules
    with pytest.raises(InputError, match="is not a model in floats: 'x' is int8"):
        float_meter(whole, module.inputs, module.outputs)
    with pytest.raises(InputError, match=r"inputs of .* have \[9\] elements, those of the model"):
        float_meter(floats, module.outputs, module.outputs)
    with pytest.raises(InputError):
        float_meter(tmp_path / "missing.tflite", module.inputs, module.outputs)
    assert isinstance(exact_meter("hilc", module.outputs, ()).result(), Fidelity)
