"""A matrix that is cancelled: what had finished is in every file, the others are marked."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import answers
import numpy as np
import psutil
import pytest
from campaigns import cases, sampled
from processes import file_size_limit
from tflite_builder import ModelBuilder
from waiting import PATIENCE_S

from hil.cli import main
from hil.cli.outcome_files import OutcomeFiles
from hil.cli.reports import Outcome
from hil.errors import DeviceError, NotRunError
from hil.history import History
from hil.jobs.matrix import WORKER, board_name
from hil.jobs.run import Run
from hil.jobs.verify import VerifyJob
from hilc.support.outputs import OutputError

#: What a command of these tests runs: two models on two boards.
LABELS = [f"{model} on {board}" for model in ("one", "two") for board in ("native", "mps2-an386")]
#: How many combinations have finished when the signal is sent, and seconds after that.
MOMENTS = [(count, delay_s) for count in range(4) for delay_s in (0.0, 0.25)]
MOMENTS += [(0, 1.0), (2, 0.6)]


def model(width: int) -> bytes:
    builder = ModelBuilder()
    builder.input("x", (1, width), "int8", scale=0.05, zero_point=-3)
    builder.const("w", np.ones((4, width), np.int8), scale=0.01)
    builder.output("y", (1, 4), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, width in (("one", 8), ("two", 16)):
        (tmp_path / f"{name}.tflite").write_bytes(model(width))
    return tmp_path


WORDS = [
    *("verify", "one.tflite", "two.tflite", "--separate", "--board", "native"),
    *("--board", "mps2-an386", "--samples", "1", "--junit", "junit.xml"),
    *("--summary", "summary.md", "--history", "history.db", "--json"),
]


def in_junit(path: Path) -> dict[str, str]:
    """The result of each test: ``done``, or the kind and message of its error."""
    (suite,) = ElementTree.parse(path).iter("testsuite")
    cases = list(suite.iter("testcase"))
    assert len(cases) == int(str(suite.get("tests")))
    assert int(str(suite.get("errors"))) == sum(case.find("error") is not None for case in cases)
    found = {}
    for case in cases:
        error = case.find("error")
        found[str(case.get("name"))] = "done" if error is None else str(error.get("message"))
    return found


def in_summary(path: Path) -> dict[str, str]:
    rows = re.findall(r"^\| (one|two) \| (\S+) \|[^|]*\| ([^|]+) \|", path.read_text(), re.M)
    assert len(rows) == len({row[:2] for row in rows})
    return {f"{name} on {board}": result for name, board, result in rows}


def in_json(text: str) -> dict[str, str]:
    found = {}
    for board in answers.entries(text):
        label = f"{board['model']} on {board['board']}"
        found[label] = board["error"]["message"] if "error" in board else "done"
    return found


def in_history(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {f"{entry.model} on {entry.board}" for entry in History(path).entries()}


def cancelled(number: signal.Signals, count: int, delay_s: float) -> tuple[int, str, set[str]]:
    """Send a signal to a matrix; return its exit code, its output and what it said had finished.

    All the time the JUnit file is read as others may read it: it must always be whole.
    """
    stderr = Path("stderr.txt")
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "hil", *WORDS, "--jobs", "2"],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    deadline, due_s = time.monotonic() + 120, float("inf")
    try:
        while time.monotonic() < min(deadline, due_s):
            if Path("junit.xml").exists():
                seen = sorted(in_junit(Path("junit.xml")))
                assert seen == sorted(LABELS) or seen == ["old on native"]
                if seen == sorted(LABELS) and due_s == float("inf") and len(said(stderr)) >= count:
                    due_s = time.monotonic() + delay_s
            if process.poll() is not None:
                break
            time.sleep(0.01)
        children = descendants(process.pid)
        process.send_signal(number)
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert not psutil.wait_procs(children, timeout=PATIENCE_S)[1]
    return process.returncode, output.decode(), said(stderr)


def descendants(parent: int) -> list[psutil.Process]:
    """The processes below one, which may end at any moment: then there are none."""
    try:
        found: list[psutil.Process] = psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def said(stderr: Path) -> set[str]:
    return set(re.findall(r"^\d of 4: (.+): match in ", stderr.read_text(), re.M))


@pytest.mark.parametrize(
    ("count", "delay_s"), sampled(MOMENTS, keep=[(0, 0.0), (1, 0.0), (3, 0.25)])
)
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_a_cancelled_matrix(
    folder: Path, number: signal.Signals, count: int, delay_s: float
) -> None:
    code, output, done = cancelled(number, count, delay_s)
    why = {signal.SIGTERM: "terminated", signal.SIGINT: "interrupted"}[number]
    found = in_json(output)
    finished = {label for label, result in found.items() if result == "done"}
    assert len(done) >= count
    assert done <= finished
    assert set(found) == set(LABELS)
    assert set(found.values()) <= {"done", f"not run: {why}"}
    assert in_junit(folder / "junit.xml") == found
    assert {
        label: "done" if result == "match" else f"not run: {why}"
        for label, result in in_summary(folder / "summary.md").items()
    } == found
    assert finished <= in_history(folder / "history.db")
    # Where all had finished, it may have been about to end by itself.
    assert code == 128 + number or (finished == set(LABELS) and code in (0, -number))


@pytest.mark.parametrize(("count", "delay_s"), sampled(MOMENTS, keep=[(0, 0.0), (2, 0.0)]))
def test_a_killed_matrix(folder: Path, count: int, delay_s: float) -> None:
    code, output, done = cancelled(signal.SIGKILL, count, delay_s)
    assert code in (0, -signal.SIGKILL)
    found = in_junit(folder / "junit.xml")
    finished = {label for label, result in found.items() if result == "done"}
    # The line that says so is printed before the file is written.
    assert len(done - finished) <= 1
    assert len(finished) >= count - 1
    assert set(found.values()) <= {"done", "not run: the command ended before it had a result"}
    assert abs(len(in_summary(folder / "summary.md")) - len(finished)) <= 1
    assert finished <= in_history(folder / "history.db")
    text = (folder / "summary.md").read_text()
    assert text.startswith("4 combinations, with a row for each that ended.")


@pytest.mark.parametrize("at", range(4))
def test_a_matrix_without_jobs(
    folder: Path, at: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cancelled in the combination ``at``, after those before it."""
    calls: list[Any] = []
    results = VerifyJob.results

    def counted(*args: Any) -> Any:
        calls.append(args)
        if len(calls) > at:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        return results(*args)

    monkeypatch.setattr(VerifyJob, "results", counted)
    assert main(WORDS) == 143
    expected = {label: "done" for label in LABELS[:at]}
    expected |= dict.fromkeys(LABELS[at:], "not run: terminated")
    captured = capsys.readouterr()
    assert in_json(captured.out) == in_junit(folder / "junit.xml") == expected
    assert in_history(folder / "history.db") == set(LABELS[:at])
    assert f"{4 - at} of 4 combinations were not run: terminated" in captured.err


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_signal_while_a_result_is_recorded(
    folder: Path,
    is_recorded: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Right before or after the entry is in the history: it is there once, as in the answer."""
    recorded = History.record

    def interrupted(*args: Any) -> int:
        number = recorded(*args) if is_recorded else 0
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        return number if is_recorded else recorded(*args)

    monkeypatch.setattr(History, "record", interrupted)
    assert main(WORDS) == 143
    expected = {LABELS[0]: "done"} | dict.fromkeys(LABELS[1:], "not run: terminated")
    assert in_json(capsys.readouterr().out) == in_junit(folder / "junit.xml") == expected
    assert [entry.model for entry in History(folder / "history.db").entries()] == ["one"]


@pytest.mark.full
def test_a_cancelled_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page and results have what had finished: after the signal, and for SIGKILL before it."""
    compared = VerifyJob.on
    before: list[str] = []

    def counted(job: VerifyJob, *args: Any) -> Any:
        if job.models == ("two.tflite",):
            before.extend((folder / name).read_text() for name in ("results.json", "page.html"))
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        return compared(job, *args)

    monkeypatch.setattr(VerifyJob, "on", counted)
    words = ["report", "one.tflite", "two.tflite", "--board", "native", "--samples", "1", "--json"]
    assert main([*words, "-o", "page.html", "--results", "results.json"]) == 143
    printed = capsys.readouterr().out
    for text, why in ((before[0], "the command ended before"), (printed, "terminated")):
        one, two = json.loads(text)["results"]
        assert one["verify"]["match"]
        assert two["error"]["message"].startswith(f"not run: {why}")
    stored = json.loads((folder / "results.json").read_text())["results"]
    shown = json.loads(printed)["results"]
    # Only what is printed names the page.
    for entry in shown:
        del entry["status"], entry["page"]
    assert stored == shown
    assert "not run: the command ended before it had a result" in before[1]
    assert "not run: terminated" in (folder / "page.html").read_text()
    # The results can be shown again.
    assert main(["report", "--from", "results.json", "-o", "again.html"]) == 1


@cases("number", [signal.SIGINT, signal.SIGTERM], first=1)
def test_a_single_combination(
    folder: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its entry has the error, as that of a matrix has."""

    def ended(*args: Any) -> Any:
        os.kill(os.getpid(), number)
        time.sleep(30)

    monkeypatch.setattr(VerifyJob, "results", ended)
    words = ["verify", "one.tflite", "--board", "native", "--junit", "junit.xml", "--json"]
    assert main(words) == 128 + number
    captured = capsys.readouterr()
    why = {signal.SIGTERM: "terminated", signal.SIGINT: "interrupted"}[number]
    (entry,) = answers.entries(captured.out)
    assert (entry["model"], entry["board"]) == ("one", "native")
    assert entry["error"]["message"] == f"not run: {why}"
    assert answers.answer(captured.out)["exit_code"] == 128 + number
    assert captured.err.strip() == why


def test_a_child_that_the_same_signal_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An emulator gets Ctrl-C of a terminal, too: its end is no result of the combination."""

    def ended(*args: Any) -> Any:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        except KeyboardInterrupt:
            raise DeviceError("QEMU ended") from None

    monkeypatch.setattr(VerifyJob, "results", ended)
    assert main(WORDS) == 130
    assert set(in_json(capsys.readouterr().out).values()) == {"not run: interrupted"}


def test_a_bug_in_one_combination(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its traceback is printed, and the others have their results."""
    results = VerifyJob.results

    def broken(job: VerifyJob, run: Run) -> Any:
        if (job.models, board_name(job)) == (("one.tflite",), "mps2-an386"):
            raise ZeroDivisionError("the bug")
        return results(job, run)

    monkeypatch.setattr(VerifyJob, "results", broken)
    assert main(WORDS) == 70
    captured = capsys.readouterr()
    found = in_json(captured.out)
    assert found.pop("one on mps2-an386") == "ZeroDivisionError: the bug"
    assert set(found.values()) == {"done"}
    assert "Traceback" in captured.err
    assert "this is a bug in hil" in captured.err


@pytest.mark.full
def test_an_old_file_does_not_survive(folder: Path) -> None:
    """What an earlier run found is not left for the reader of a killed one."""
    pending = [Outcome("verify", "native", model="old.tflite")]
    OutcomeFiles(argparse.Namespace(junit="junit.xml"), pending).begin()
    cancelled(signal.SIGKILL, 0, 0.0)
    assert sorted(in_junit(folder / "junit.xml")) == sorted(LABELS)


@pytest.mark.full
@cases("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV], first=1)
def test_a_process_of_a_combination_that_ends(folder: Path, number: signal.Signals) -> None:
    """The others go on; it is no bug, and its result is said to be missing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hil", *WORDS, "--jobs", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        worker = until(lambda: workers(process.pid))[0]
        worker.send_signal(number)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "bug in hil" not in errors
    found = in_json(output)
    ends = {result for result in found.values() if result != "done"}
    why = (
        "not run: its process was terminated"
        if number == signal.SIGTERM
        else f"the process that ran it ended with signal {number.value} ({number.name}), "
        "and without a result"
    )
    assert ends == {why}
    assert list(found.values()).count("done") == 3
    assert process.returncode == (143 if number == signal.SIGTERM else 2)


def workers(parent: int) -> list[psutil.Process]:
    """The processes of combinations that end in order after SIGTERM."""
    found = []
    for child in descendants(parent):
        try:
            caught = Path(f"/proc/{child.pid}/status").read_text().split("SigCgt:")[1].split()[0]
            is_worker = any(WORKER in word for word in child.cmdline())
        except (psutil.NoSuchProcess, OSError, IndexError):
            continue
        if is_worker and int(caught, 16) >> (signal.SIGTERM - 1) & 1:
            found.append(child)
    return found


def until(found: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while not (some := found()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return some


# -- the files by themselves ---------------------------------------------------------------------


def outcomes(count: int) -> list[Outcome]:
    error = NotRunError("the command ended before it had a result", 137)
    return [
        Outcome("verify", "native", model=f"m{i}.tflite", error=error, exit_code=137)
        for i in range(count)
    ]


def test_a_full_disk_keeps_the_last_whole_file(tmp_path: Path) -> None:
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    args = argparse.Namespace(junit=str(junit), summary=str(summary))
    pending = outcomes(20)
    done = [Outcome("verify", "native", model=f"m{i}.tflite", log="x" * 500) for i in range(20)]
    files = OutcomeFiles(args, pending)
    files.begin()
    sizes = []
    with file_size_limit(junit.stat().st_size + 1000):
        for index, outcome in enumerate(done):
            files.add(index, outcome)
            finished = list(in_junit(junit).values()).count("done")
            sizes.append(finished)
        with pytest.raises(OutputError, match="File too large"):
            files.finish(done)
    assert 0 < sizes[-1] < 20
    files.finish(done)
    assert set(in_junit(junit).values()) == {"done"}
    assert len(re.findall(r"^\| m\d+ \|", summary.read_text(), re.M)) == 20


def test_a_full_summary(tmp_path: Path) -> None:
    """Where others append between, and where the file takes only a part of a row."""
    summary = tmp_path / "summary.md"
    files = OutcomeFiles(argparse.Namespace(summary=str(summary)), outcomes(3))
    files.begin()
    size = summary.stat().st_size
    done = [Outcome("verify", "native", model=f"m{i}.tflite") for i in range(3)]
    with file_size_limit(size + 5):
        files.add(0, done[0])
    assert summary.stat().st_size == size + 5
    files.add(1, done[1])
    with summary.open("a") as other:
        other.write("other\n")
    files.finish(done)
    text = summary.read_text()
    assert re.findall(r"^\| (m\d) \|.*\|$|^(other)$", text, re.M) == [
        ("m0", ""), ("m1", ""), ("", "other"), ("m2", ""),
    ]  # fmt: skip


def test_files_of_many_combinations_cost_little(tmp_path: Path) -> None:
    """The tests of a JUnit file are made once each, not again for each that ends."""
    from hil.cli import outcome_files

    made = []
    cases = outcome_files._case_texts

    def counted(outcome: Outcome) -> list[str]:
        made.append(outcome)
        return cases(outcome)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcome_files, "_case_texts", counted)
        files = OutcomeFiles(argparse.Namespace(junit=str(tmp_path / "j.xml")), outcomes(100))
        for index in range(100):
            files.add(index, Outcome("verify", "native", model=f"m{index}.tflite"))
    assert len(made) == 200
    assert set(in_junit(tmp_path / "j.xml").values()) == {"done"}
