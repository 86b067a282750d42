"""``hil.evaluate``: metrics of a model and its reference, interruptions, and the command."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from small_models import convolutions

import hil
import hilc
import hilc.host
from hil.cli import main
from hil.errors import InputError, NumericError
from hil.oracle import reference_of
from hil.verify import Oracle
from hil.verify.datasets import Scaling
from hil.verify.metrics import metric_named, wilson
from hilc.artifact.library import ModelLibrary
from hilc.support.outputs import OutputError

RNG = np.random.default_rng(5)
COUNT, CLASSES = 40, 5
INPUTS = RNG.integers(-128, 128, (COUNT, 1, 8, 8, 3)).astype(np.int8)
LABELS = RNG.integers(0, CLASSES, COUNT)


@pytest.fixture(scope="module")
def library() -> ModelLibrary:
    return hilc.compile(convolutions(), cpu="host", name="net")


@pytest.fixture(scope="module")
def model(library: ModelLibrary) -> Iterator[Any]:
    with hilc.host.load(library) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def oracle(library: ModelLibrary) -> Oracle:
    return reference_of(library, library.modules[0], "hilc")


def outputs(model: Any) -> np.ndarray:
    """What the model says of each sample, as real numbers."""
    found = []
    for sample in INPUTS:
        model.set_input(0, sample)
        model.run()
        found.append(model.get_output(0).ravel())
    return (np.array(found, float) + 128) / 256


@pytest.mark.full
def test_metrics_of_both_sides(model: Any, oracle: Oracle) -> None:
    report = hil.evaluate(
        model, INPUTS, LABELS, metric=["accuracy", "top2", "auc", "f1"], reference=oracle
    )
    real = outputs(model)
    right = int((real.argmax(axis=1) == LABELS).sum())
    assert report["accuracy"].device.value == right / COUNT
    assert (report["accuracy"].device.low, report["accuracy"].device.high) == wilson(
        right / COUNT, COUNT
    )
    for metric in report.metrics:
        assert metric.device == metric.reference == metric_named(metric.name).score(LABELS, real)
    assert report.mismatches == 0
    assert report.confusion is not None
    assert report.confusion.sum(axis=1).tolist() == np.bincount(LABELS, minlength=5).tolist()
    assert np.trace(report.confusion) == right
    assert report.check() is report
    json.dumps(report.to_json(), allow_nan=False)
    assert "accuracy" in repr(report)
    assert "<table" in report._repr_html_()


def test_mismatches_are_listed(model: Any, oracle: Oracle) -> None:
    """Where the reference is another, in the samples 3 and 7."""

    def values(index: int, sample: Any) -> Any:
        found = dict(oracle.values(index, sample))
        if index in (3, 7):
            found["y"] = np.roll(found["y"], 1)
        return found

    report = hil.evaluate(
        model, INPUTS, LABELS, reference=replace(oracle, values=values, name="other")
    )
    assert [m.sample for m in report.first_mismatches] == [3, 7]
    assert report.mismatches == 2
    assert not report.match
    with pytest.raises(NumericError, match="2 of 40 samples of net .* the first is sample 3"):
        report.check()
    first = report.first_mismatches[0]
    assert first.device_class is not None
    assert first.reference_class == (first.device_class + 1) % CLASSES
    assert first.source == "sample 3"
    assert first.max_abs_diff is not None
    assert first.max_abs_diff > 0
    assert report.reference == "other"


def test_values_and_limits(model: Any, oracle: Oracle) -> None:
    labels = RNG.random((COUNT, CLASSES))
    report = hil.evaluate(
        model,
        INPUTS.astype(np.float32),
        labels,
        metric=["mae", "rmse"],
        scaling=Scaling(as_integers=True),
        reference=oracle,
        at_most={"mae": 1e-3, "rmse": 10},
    )
    error = np.abs(outputs(model) - labels)
    assert report["mae"].device.value == pytest.approx(error.mean())
    assert report["rmse"].device.value == pytest.approx(np.sqrt((error**2).mean()))
    assert report.confusion is None
    assert [metric.is_met for metric in report.metrics] == [False, True]
    with pytest.raises(NumericError, match="mae of net .* it should be at most 0.001"):
        report.check()


def test_floats_are_quantized(model: Any, oracle: Oracle) -> None:
    real = (INPUTS.astype(np.float32) - 3) * 0.5
    by_floats = hil.evaluate(model, real, LABELS, reference=oracle)
    assert by_floats.metrics == hil.evaluate(model, INPUTS, LABELS, reference=oracle).metrics


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.where(np.arange(COUNT) == 9, 5, 0)}, "sample 9 has the label 5"),
        ({"labels": np.where(np.arange(COUNT) == 9, -1, 0)}, "sample 9 has the label -1"),
        ({"labels": np.zeros(COUNT, int), "metric": "auc"}, "all samples are of class 0"),
        ({"metric": "top5"}, "top5 is always 1 with 5 classes"),
        ({"metric": ["accuracy", "mae"]}, "labels of two kinds"),
        ({"metric": ["accuracy", "accuracy"]}, "given twice"),
        ({"at_least": {"auc": 0.5}}, "a limit of 'auc', which is not computed"),
        ({"at_least": float("nan")}, "no limit"),
        ({"at_least": 95}, "the limit 95 of accuracy is not within 0 to 1"),
        ({"at_least": -0.5, "metric": "auc"}, "the limit -0.5 of auc is not within 0 to 1"),
        ({"at_most": -1.0, "metric": "mae"}, "the limit -1 of mae is not within 0 to inf"),
        ({"score": "reconstruction"}, "is no reconstruction of x"),
        ({"classes": list("abcdef")}, "has 6 classes, and the model's output has 5"),
        # Sorted names of folders, where one class has no folder, would have wrong numbers.
        ({"classes": list("abcd")}, "has 4 classes, and the model's output has 5 values"),
        ({"labels": np.full(COUNT, 1e300)}, r"hold 1e\+300 at \[0\], which is no class"),
        ({"labels": np.full(COUNT, 2**64 - 1, np.uint64)}, "which is no class"),
        ({"data": INPUTS * 1.0, "scaling": Scaling(std=(1e-320,))}, "not finite any more"),
        ({"labels": None}, "arrays are given without labels"),
        ({"data": {"z": INPUTS, "x": INPUTS}}, "name each array as its input"),
    ],
)
def test_refusals(model: Any, oracle: Oracle, changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"data": INPUTS, "labels": LABELS, "reference": oracle} | changes
    if "labels" in changes and changes["labels"] is None:
        del arguments["labels"]
    with pytest.raises(InputError, match=message):
        hil.evaluate(model, **arguments)


# -- interruptions ---------------------------------------------------------------------------------


class Interrupted(Exception):
    """Stands for whatever ends an evaluation."""


def interrupted_after(count: int) -> Any:
    def progress(done: int, samples: int) -> None:
        if done == count:
            raise Interrupted

    return progress


class Counting:
    """An oracle that counts how often it is asked."""

    def __init__(self, oracle: Oracle) -> None:
        self.asked: list[int] = []
        self._oracle = oracle

    def oracle(self) -> Oracle:
        def values(index: int, sample: Any) -> Any:
            self.asked.append(index)
            return self._oracle.values(index, sample)

        return replace(self._oracle, values=values)


def test_an_interrupted_evaluation_goes_on(model: Any, oracle: Oracle, tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"
    with pytest.raises(Interrupted):
        hil.evaluate(
            model, INPUTS, LABELS, reference=oracle, journal=journal,
            progress=interrupted_after(11),
        )  # fmt: skip
    # A line that a kill has cut off.
    with journal.open("ab") as file:
        file.write(journal.read_bytes().splitlines()[-1][:-9])
    counting = Counting(oracle)
    seen: list[int] = []
    report = hil.evaluate(
        model, INPUTS, LABELS, reference=counting.oracle(), journal=journal,
        progress=lambda done, count: seen.append(done),
    )  # fmt: skip
    assert report.resumed == 11
    assert counting.asked == list(range(11, COUNT))
    assert seen == list(range(11, COUNT + 1))
    assert not journal.exists()
    assert report.metrics == hil.evaluate(model, INPUTS, LABELS, reference=oracle).metrics


def test_a_damaged_line_ends_what_is_known(model: Any, oracle: Oracle, tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"
    with pytest.raises(Interrupted):
        hil.evaluate(
            model, INPUTS, LABELS, reference=oracle, journal=journal,
            progress=interrupted_after(11),
        )  # fmt: skip
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b'"sample":5', b'"sample":6')
    journal.write_bytes(b"".join(lines))
    report = hil.evaluate(model, INPUTS, LABELS, reference=oracle, journal=journal)
    assert report.resumed == 5


def test_what_has_changed_is_noticed(model: Any, oracle: Oracle, tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"

    def evaluated(data: Any = INPUTS, labels: Any = LABELS, **more: Any) -> Any:
        return hil.evaluate(model, data, labels, reference=oracle, journal=journal, **more)

    with pytest.raises(Interrupted):
        evaluated(progress=interrupted_after(5))
    changed = INPUTS.copy()
    changed[2, 0, 0, 0, 0] ^= 1
    with pytest.raises(InputError, match="sample 2 has changed since"):
        evaluated(changed)
    with pytest.raises(InputError, match="not the journal of this evaluation: labels"):
        evaluated(labels=(LABELS + 1) % 5)
    with pytest.raises(InputError, match="samples was different"):
        evaluated(INPUTS[:9], LABELS[:9])
    changed[30] = 0
    assert evaluated(restart=True, data=changed).resumed == 0
    journal.write_bytes(b"a file of somebody else\n")
    with pytest.raises(InputError, match="it is none of an evaluation"):
        evaluated()


def test_two_do_not_share_a_journal(model: Any, oracle: Oracle, tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"

    def another(done: int, count: int) -> None:
        hil.evaluate(model, INPUTS, LABELS, reference=oracle, journal=journal)

    with pytest.raises(InputError, match="another program evaluates the same"):
        hil.evaluate(model, INPUTS, LABELS, reference=oracle, journal=journal, progress=another)


def test_a_full_disk_leaves_a_journal(model: Any, oracle: Oracle, tmp_path: Path) -> None:
    journal = tmp_path / "out.journal"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(OutputError, match=r"out\.journal: File too large"):
            hil.evaluate(model, INPUTS, LABELS, reference=oracle, journal=journal)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    report = hil.evaluate(model, INPUTS, LABELS, reference=oracle, journal=journal)
    assert 3 < report.resumed < COUNT


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def files(library: ModelLibrary, tmp_path: Path) -> tuple[str, str]:
    path = library.save(tmp_path / "net.tar")
    np.savez(tmp_path / "data.npz", x=INPUTS, labels=LABELS)
    return str(path), str(tmp_path / "data.npz")


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_an_interval_is_in_one_piece(
    columns: int,
    files: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    model, data = files
    words = ["evaluate", model, "--board", "native", "--data", data, "--reference", "hilc"]
    limits = ["--min", "0.01", "--max", "accuracy=1"]
    main([*words, *limits, "--no-history"])
    lines = capsys.readouterr().out.splitlines()
    whole = [line for line in lines if re.search(r"\d\.\d{4} +\d\.\d{4} to \d\.\d{4}", line)]
    assert len(whole) == 2
    assert "device" in whole[0]
    assert "hilc" in whole[1]


def test_the_command(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = files
    output = tmp_path / "out.json"
    words = ["evaluate", model, "--board", "native", "--data", data, "-o", str(output)]
    words += ["--reference", "hilc"]
    metrics = ["--metric", "f1", "--metric", "accuracy", "--min", "accuracy=0.99"]
    assert main([*words, *metrics, "--json"]) == 1
    printed = capsys.readouterr().out
    report = answers.entry(printed)
    assert answers.answer(printed) == json.loads(output.read_text())
    assert report["met"] is False
    assert report["metrics"][1]["min"] == 0.99
    assert report["mismatches"] == 0
    assert "CRC-32" in report["transport"]
    history = ["--history", str(tmp_path / "history.db")]
    assert main([*words, *history, "--classes", "a,b,c,d,e"]) == 0
    text = capsys.readouterr().out
    assert main(["history", *history]) == 0
    value = report["metrics"][1]["device"]["value"]
    told = f"native  balanced  accuracy {value:.4f} over {len(LABELS)} samples"
    assert capsys.readouterr().out.rstrip().endswith(told)
    assert report["provenance"]["inputs"]["samples"] == len(LABELS)
    assert "every output is that of hilc" in text
    assert "a      " in text
    assert main([*words, "--samples", "500"]) == 0
    assert f"500 samples are asked for; the data set has {COUNT}" in capsys.readouterr().err
    (tmp_path / "latin").write_bytes(b"a\n\xe9\n")
    for wrong, told in (
        (["--min", "x"], "'x' is not a limit of a metric"),
        (["--min", "95"], "write 0.95 for 95 %"),
        (["--min", "0.5", "--min", "accuracy=0.6"], "two limits of accuracy are given"),
        (["--classes", str(tmp_path / "latin")], "latin cannot be read: 'utf-8' codec"),
        (["--classes", "no-such.txt"], "'no-such.txt' is one name, and no file"),
        (["--classes", "a,b,c"], "name all classes in the order of the model's outputs"),
    ):
        assert main([*words, *wrong]) == 2
        assert told in capsys.readouterr().err
    output.write_text("mine")
    assert main(words) == 2
    assert output.read_text() == "mine"


@pytest.mark.full
def test_a_killed_command_goes_on(files: tuple[str, str], tmp_path: Path) -> None:
    model, data = files
    output = tmp_path / "out.json"
    command = [
        *(sys.executable, "-m", "hil", "evaluate", model, "--board", "native", "--data", data),
        *("--reference", "hilc", "-o", str(output), "--json"),
    ]
    journal = tmp_path / "out.json.journal"
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while started.poll() is None and not (
        journal.exists() and len(journal.read_bytes().splitlines()) > 3
    ):
        time.sleep(0.001)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert journal.exists(), "it ended before it was killed"
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = answers.entry(done.stdout)
    assert 3 <= report["resumed"] < COUNT
    assert report["samples"] == COUNT
    assert not journal.exists()
