"""TensorFlow Lite's runtime in its process: ends of every kind, states, what has no value."""

from __future__ import annotations

import os
import signal

import litert_ref
import numpy as np
import pytest
from tflite_builder import ModelBuilder

from hilc.errors import InputError, ModelError
from hilc.frontends import load_model
from hilc.references import get_reference, loaded, tflite_runtime
from hilc.references.tflite_runtime import TfliteRuntime

pytestmark = litert_ref.needs_litert_ref

X = np.array([[-9, 0, 1, 9]], np.int8)
Y = [[-19, -1, 1, 17]]


def reference() -> TfliteRuntime:
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", 0.5, 1)
    b.output("y", (1, 4), "int8", 0.5, 1)
    b.op("ADD", ("x", "x"), ("y",))
    data = b.build()
    made = get_reference("litert-ref", load_model(data), data)
    assert isinstance(made, TfliteRuntime)
    return made


def process_id(model: TfliteRuntime) -> int:
    return model._loaded._process.running()._child.pid


def test_a_killed_process_restarts_for_all_models() -> None:
    first, second = reference(), reference()
    assert process_id(first) == process_id(second) != os.getpid()
    os.kill(process_id(first), signal.SIGABRT)
    with pytest.raises(ModelError, match="cannot run this model: it ended by SIGABRT"):
        first.run_all({"x": X})
    for model in (second, first):
        assert model.run_all({"x": X})["y"].tolist() == Y


def test_a_model_that_kills_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that another reference is taken for it."""
    run = tflite_runtime._LoadedModel.run

    def ended(self: tflite_runtime._LoadedModel, *arguments: object) -> object:
        os.kill(self._process.running()._child.pid, signal.SIGSEGV)
        return run(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tflite_runtime._LoadedModel, "run", ended)
    with pytest.raises(ModelError, match="it ended by SIGSEGV"):
        reference()


def test_a_run_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    model = reference()
    os.kill(process_id(model), signal.SIGSTOP)
    monkeypatch.setattr(loaded, "RUN_LIMIT_S", 0.2)
    with pytest.raises(ModelError, match="it takes too long"):
        model.run_all({"x": X})
    monkeypatch.undo()
    assert model.run_all({"x": X})["y"].tolist() == Y


def test_a_package_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    reference()._loaded._process._end()
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(InputError, match="does not start: it ended with status 1"):
        reference()
