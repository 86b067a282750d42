"""``hil.matrix``: jobs one by one or in processes, each with its results or its error."""

from __future__ import annotations

import inspect
import os
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deciding_job import DecidingJob
from tflite_builder import ModelBuilder

import hil
from hil.errors import DeviceError, InputError, LinkError
from hil.firmware.fit import FitError
from hil.jobs.run import Run
from hil.support import scope

BOARD = "mps2-an386"


def dense(width: int = 8) -> bytes:
    builder = ModelBuilder()
    builder.input("x", (1, width), "int8", scale=0.05, zero_point=-3)
    builder.const("w", np.ones((4, width), np.int8), scale=0.01)
    builder.output("y", (1, 4), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "dense.tflite"
    path.write_bytes(dense())
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_results_in_order_and_an_error_in_its_place(model: Path, workers: int) -> None:
    jobs: list[hil.Job[Any]] = [
        hil.VerifyJob(model, 2, board="native"),
        hil.VerifyJob(model, 2, board="no-such-board"),
        hil.BenchJob(model, board=BOARD, options={"optimize": "ram"}),
        hil.VerifyJob([f"a={model}", f"b={model}"], 1, board=BOARD),
    ]
    found = hil.matrix(jobs, workers=workers)
    first, failed, counted, both = found
    assert (first.results[0].model, first.results[0].board, first.exit_code) == (
        "dense",
        "native",
        0,
    )
    assert isinstance(failed.error, InputError)
    assert (failed.results, failed.exit_code) == ((), 2)
    assert "no-such-board" in failed.error.fact
    assert (counted.results[0].goal, counted.results[0].counter) == ("ram", "instructions")
    assert [report.model for report in both.check()] == ["a", "b"]
    with pytest.raises(InputError, match="no-such-board"):
        failed.check()
    provenance = counted.results[0].provenance
    assert provenance.command == (
        f"hil.BenchJob({str(model)!r}, board='mps2-an386', options={{'optimize': 'ram'}}).run()"
    )


def test_a_job_is_what_the_function_does(model: Path) -> None:
    job = hil.VerifyJob(model, 3, board="native", seed=4, options={"optimize": "size"})
    (one,) = job.run()
    changing = dict.fromkeys(("seconds", "provenance", "cost"))
    other = hil.verify(model, 3, board="native", seed=4, optimize="size")
    assert {**one.to_json(), **changing} == {**other.to_json(), **changing}
    assert one.provenance is not None
    assert other.provenance is not None
    assert one.provenance.inputs == other.provenance.inputs
    assert one.provenance.image == other.provenance.image
    assert pickle.loads(pickle.dumps(job)).options == job.options


@pytest.mark.parametrize(
    ("job", "function"),
    [(hil.VerifyJob, hil.verify), (hil.BenchJob, hil.bench), (hil.EvaluateJob, hil.evaluate)],
)
def test_fields_are_the_keywords(job: Any, function: Any) -> None:
    keywords = {*inspect.signature(function).parameters}
    # ``module`` is for an open device alone; the commands give ``first`` and ``command``.
    assert {each.name for each in fields(job)} - {"command", "first"} == keywords - {"module"}


@pytest.mark.parametrize(
    ("keywords", "fact"),
    [
        ({"bord": "native"}, "unknown option 'bord'"),
        ({"optimise": "ram"}, "optimise"),
        ({"external": []}, "the option 'external' has another name"),
    ],
)
def test_misspelt_options(model: Path, keywords: dict[str, Any], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        hil.VerifyJob(model, board="native", options=keywords)


def test_wrong_types(model: Path) -> None:
    with pytest.raises(InputError, match="seed='x' is of type str"):
        hil.VerifyJob(model, board="native", seed="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="workers=0 is too small"):
        hil.matrix([], workers=0)
    with pytest.raises(InputError, match="workers=1000000 is too large") as caught:
        hil.matrix([], workers=10**6)
    assert caught.value.hint == "give 1 to 256"
    with pytest.raises(InputError, match="retries=-1 is too small"):
        hil.matrix([], retries=-1)
    assert hil.matrix([]) == []


def test_a_job_that_no_process_can_take(model: Path) -> None:
    jobs = [
        hil.VerifyJob(model, 1, board="native", repeated=lambda step: step()),
        hil.VerifyJob(model, 1, board="native"),
    ]
    unsent, good = hil.matrix(jobs, workers=2)
    assert isinstance(unsent.error, InputError)
    assert "cannot be sent to another process" in unsent.error.fact
    assert good.check()
    assert all(outcome.check() for outcome in hil.matrix(jobs))


def test_retries_and_boards_set_aside(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [LinkError("no answer"), LinkError("no answer")]
    results = hil.VerifyJob.results

    def fails(job: hil.VerifyJob, run: Run) -> Any:
        if errors:
            raise errors.pop()
        return results(job, run)

    monkeypatch.setattr(hil.VerifyJob, "results", fails)
    job = hil.VerifyJob(model, 1, board="native")
    (found,) = hil.matrix([job], retries=2)
    assert [attempt.board for attempt in found.reruns] == ["native", "native"]
    assert found.check()
    errors[:] = [LinkError("no answer")]
    assert isinstance(hil.matrix([job])[0].error, LinkError)


def test_a_board_that_is_lost_is_not_awaited_again(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[str] = []

    def lost(job: hil.VerifyJob, run: Run) -> Any:
        starts.append(str(job.board))
        raise DeviceError("no probe is connected", is_lost=True)

    monkeypatch.setattr(hil.VerifyJob, "results", lost)
    job = hil.VerifyJob(model, 1, board="stm32f4-discovery", options={"probe": "ABC"})
    errors = [outcome.error for outcome in hil.matrix([job, job])]
    assert len(starts) == 1
    assert "was set aside, since it failed before: no probe is connected" in str(errors[1])


def test_too_large(tmp_path: Path) -> None:
    large = tmp_path / "large.tflite"
    large.write_bytes(dense(1 << 17))
    job = hil.VerifyJob(large, 1, board="microbit")
    (failed,) = hil.matrix([job])
    assert isinstance(failed.error, FitError)
    (skipped,) = hil.matrix([job], skip_too_large=True)
    assert (skipped.error, skipped.exit_code, skipped.results) == (None, 0, ())
    assert "does not fit" in skipped.skipped


def test_a_bug_is_in_its_place(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hil.VerifyJob, "results", lambda job, run: {"a": 1}["b"])
    (found,) = hil.matrix([hil.VerifyJob(model, 1, board="native")])
    assert found.exit_code == 70
    assert isinstance(found.error.__cause__, KeyError)  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_of_a_board_decide_once(workers: int) -> None:
    """The probe that the first job chose is that of all, also in processes of their own."""
    jobs = [DecidingJob("m", board="native", options={"port": "loop://"}) for _ in range(3)]
    found = [outcome.results for outcome in hil.matrix(jobs, workers=workers)]
    assert len(set(found)) == 1
    assert (found[0] == (os.getpid(),)) is (workers == 1)


def test_what_is_decided_before_is_taken_over() -> None:
    with scope.one_command():
        scope.decided(("probe", "of a board"), lambda: 7)
        jobs = [DecidingJob("m", board="native", options={"port": "loop://"})] * 2
        assert [outcome.results for outcome in hil.matrix(jobs, workers=2)] == [(7,), (7,)]
