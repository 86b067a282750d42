"""TensorFlow Lite Micro in its process: all tensors, state, refusals, ends of every kind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import tflm
from models import INT8_MODELS, model_path, samples
from tflite_builder import ModelBuilder

from hilc.errors import InputError, ModelError
from hilc.references import tflm as reference
from hilc.references import tflm_arena_bytes
from hilc.references.tflm import TflmModel

pytestmark = tflm.needs_tflm


def _sum() -> bytes:
    b = ModelBuilder()
    b.input("x", (1, 4), "int8", 0.5, 1)
    b.output("y", (1, 4), "int8", 0.5, 1)
    b.op("ADD", ("x", "x"), ("y",))
    return b.build()


X = np.array([[-9, 0, 1, 9]], np.int8)
Y = [[-19, -1, 1, 17]]


def _process() -> int:
    """The id of TFLM's process."""
    process = reference._PROCESS.running()
    return process._child.pid


@pytest.mark.parametrize("name", INT8_MODELS)
def test_own_memory_for_each_tensor_changes_nothing(name: str) -> None:
    model = model_path(name).read_bytes()
    planned, apart = TflmModel(model, recording=True), TflmModel(model)
    for x in samples(name, 2, seed=8):
        (expected,) = planned.run([x], outputs=1)
        (computed,) = apart.run([x], outputs=1)
        np.testing.assert_array_equal(computed, expected, strict=True)


def test_many_models_and_inputs_share_one_process() -> None:
    models = [TflmModel(_sum()) for _ in range(3)]
    pid = _process()
    for model in (*models, *models):
        assert model.run([X], [1])[0].tolist() == Y
    assert _process() == pid


def test_state_is_kept_and_can_be_reset() -> None:
    b = ModelBuilder()
    b.input("x", (1, 1, 1, 2), "int8", 0.5, 0)
    b.output("y", (1, 3, 1, 2), "int8", 0.5, 0)
    b.op("CUSTOM", ("x",), ("y",), custom_code="CIRCULAR_BUFFER", custom_options=b"c\0")
    model = TflmModel(b.build())

    def step(value: int) -> list[int]:
        return model.run([np.full((1, 1, 1, 2), value, np.int8)], [1])[0].ravel().tolist()

    assert [step(1), step(2)] == [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2]]
    model.reset()
    assert step(9) == [0, 0, 0, 0, 9, 9]


def test_a_process_that_was_ended_starts_again() -> None:
    model = TflmModel(_sum())
    pid = _process()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ModelError, match="it ended by SIGKILL"):
        model.run([X], [1])
    assert model.run([X], [1])[0].tolist() == Y
    assert _process() != pid


def test_a_model_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arena that does not even hold what TFLM writes at its end."""
    monkeypatch.setattr(reference, "_FIRST_ARENA", 64)
    monkeypatch.setattr(reference, "_LARGEST_ARENA", 128)
    with pytest.raises(ModelError, match="need an arena of more than 0 MiB"):
        TflmModel(_sum())
    monkeypatch.undo()
    assert TflmModel(_sum()).run([X], [1])[0].tolist() == Y


@pytest.mark.full
def test_the_arena_grows_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_FIRST_ARENA", 64)
    model = TflmModel(_sum())
    assert model._arena > 64
    assert model.run([X], [1])[0].tolist() == Y


def test_a_run_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TflmModel(_sum())
    os.kill(_process(), signal.SIGSTOP)
    monkeypatch.setattr(reference, "RUN_LIMIT_S", 0.2)
    with pytest.raises(ModelError, match="it takes too long"):
        model.run([X], [1])
    monkeypatch.undo()
    assert model.run([X], [1])[0].tolist() == Y


def test_an_operator_that_it_lacks_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder()
    b.input("x", (1, 4), "int64")
    b.const("paddings", np.array([[0, 0], [1, 0]], np.int32))
    b.output("y", (1, 5), "int64")
    b.op("PAD", ("x", "paddings"), ("y",))
    model = TflmModel(b.build())
    with pytest.raises(ModelError, match="Type INT64 not currently supported by Pad"):
        model.run([np.zeros((1, 4), np.int64)], [1])
    # What it prints stays in the message.
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def without_process() -> Iterator[None]:
    reference._PROCESS._end()
    yield
    reference._PROCESS._end()


def test_a_package_that_does_not_start(
    without_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(InputError, match="tflite-micro does not start: it ended with status 1"):
        TflmModel(_sum())


@pytest.mark.parametrize(
    ("name", "planned"), [("ad", 768), ("kws", 16000), ("ic", 49152), ("vww", 73728)]
)
def test_the_arena_of_a_model(name: str, planned: int) -> None:
    arena = tflm_arena_bytes(model_path(name).read_bytes())
    assert arena.planned == planned
    assert arena.total == arena.planned + arena.persistent
