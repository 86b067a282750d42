"""A command on several boards, goals and models: what is run, in which order, and what is left."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import pty
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import numpy as np
import psutil
import pytest
from tflite_builder import ModelBuilder
from waiting import PATIENCE_S

from hil.cli import main
from hil.cli.command_line import build_parser
from hil.cli.matrix import combinations
from hil.cli.outcome_files import junit_xml, markdown
from hil.cli.reports import Outcome
from hil.errors import DeviceError, HilError, InputError, LinkError, Remedy
from hil.firmware.fit import Demand, FitError
from hil.jobs.matrix import JobOutcome, should_retry
from hil.jobs.run import Run
from hil.jobs.verify import VerifyJob
from hil.verify import Report


def dense(width: int = 8) -> bytes:
    builder = ModelBuilder()
    builder.input("x", (1, width), "int8", scale=0.05, zero_point=-3)
    builder.const("w", np.ones((4, width), np.int8), scale=0.01)
    builder.output("y", (1, 4), "int8", scale=0.4, zero_point=5)
    builder.op("FULLY_CONNECTED", ("x", "w", ""), ("y",))
    return builder.build()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small models, one of them in a folder of its own."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "one.tflite").write_bytes(dense())
    (folder / "more").mkdir()
    (folder / "more" / "two.tflite").write_bytes(dense(16))
    (folder / "more" / "notes.txt").write_text("no model")
    return folder


def planned(*words: str) -> list[tuple[str, str | None, str | None]]:
    args = build_parser().parse_args(["verify", *words])
    return [(c.name, c.goal, Path(c.model).name if c.model else None) for c in combinations(args)]


def test_what_is_combined(models: Path) -> None:
    one, folder = str(models / "one.tflite"), str(models)
    assert planned(one, "--board", "native") == [("native", None, None)]
    assert planned(one, folder, "--board=native", "--optimize=ram") == [("native", None, None)]
    words = ("--board=native", "--board=microbit", "--optimize=ram", "--optimize=speed")
    assert planned(one, *words) == [
        (board, goal, None) for board in ("native", "microbit") for goal in ("ram", "speed")
    ]
    assert planned(folder, "--separate", "--board=native", "--board=microbit") == [
        (board, None, model)
        for model in ("two.tflite", "one.tflite")
        for board in ("native", "microbit")
    ]
    emulated = planned(one, "--board=emulated")
    assert ("mps2-an386", None, None) in emulated
    assert ("native", None, None) not in emulated


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--board=native", "--board=native"], "--board names 'native' twice"),
        (["--board=microbit", "--board=emulated"], "--board names 'microbit' twice"),
        (["--board=native", "--optimize=ram", "--optimize=ram"], "--optimize names 'ram' twice"),
    ],
)
def test_nothing_is_combined_twice(models: Path, words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planned(str(models / "one.tflite"), *words)


def test_a_folder_without_models(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no model file"):
        planned(str(tmp_path), "--separate", "--board=native")


def result_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main([*words, "--json"])
    found = answers.answer(capsys.readouterr().out)
    assert found["exit_code"] == code
    return code, found


def without_times(found: dict[str, Any]) -> str:
    return json.dumps(
        {**found, "results": [{**b, "seconds": 0, "provenance": None} for b in found["results"]]}
    )


@pytest.mark.full  # It changes rarely, and takes long.
def test_processes_give_what_one_process_gives(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", str(models), "--separate", "--board=mps2-an386", "--samples=1"]
    words += ["--optimize=speed", "--optimize=ram"]
    code, one_by_one = result_of(capsys, *words)
    junit = tmp_path / "new" / "out.xml"
    again, found = result_of(capsys, *words, "--jobs=2", f"--junit={junit}")
    assert (code, again) == (0, 0)
    assert without_times(found) == without_times(one_by_one)
    assert [(b["model"], b["goal"], b["match"]) for b in found["results"]] == [
        (model, goal, True) for model in ("two", "one") for goal in ("speed", "ram")
    ]
    cases = list(ElementTree.parse(junit).iter("testcase"))
    assert [case.get("name") for case in cases] == [
        f"{model} on mps2-an386 ({goal})" for model in ("two", "one") for goal in ("speed", "ram")
    ]
    properties = {str(p.get("name")): p.get("value") for p in cases[0].iter("property")}
    assert properties["hil_reference"] == "tflm"
    assert properties["hil_instructions"] == str(found["results"][0]["cost"]["per_inference"])


@pytest.mark.full
def test_what_fails_and_what_is_skipped(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = tmp_path / "large.tflite"
    large.write_bytes(dense(1 << 17))
    junit, summary = tmp_path / "out.xml", tmp_path / "summary.md"
    summary.write_text("before\n")
    words = ["verify", str(large), "--board=native", "--board=microbit", "--samples=1"]
    files = [f"--junit={junit}", f"--summary={summary}"]
    code, found = result_of(capsys, *words, *files)
    assert code == 3
    assert [b.get("match") for b in found["results"]] == [True, None]
    assert found["results"][1]["error"]["class"] == "build"
    (suite,) = ElementTree.parse(junit).iter("testsuite")
    assert [suite.get(kind) for kind in ("tests", "failures", "errors", "skipped")] == list("2010")
    text = summary.read_text()
    assert text.startswith("before\n2 combinations, with a row for each that ended.\n\n| model |")
    assert "| large | native |  | match |" in text
    assert "| - | microbit |  | error: build |" in text
    code, found = result_of(capsys, *words, *files, "--skip-too-large", "--jobs=2")
    assert code == 0
    assert found["results"][1]["skipped"].startswith("'large' does not fit microbit")
    (suite,) = ElementTree.parse(junit).iter("testsuite")
    assert [suite.get(kind) for kind in ("tests", "failures", "errors", "skipped")] == list("2001")


def test_one_combination_has_the_same_envelope(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, junit = str(models / "one.tflite"), tmp_path / "out.xml"
    words = ["verify", one, "--board=native", "--samples=1", f"--junit={junit}"]
    code, found = result_of(capsys, *words, "--optimize=ram")
    assert (code, [one["model"] for one in found["results"]]) == (0, ["one"])
    assert len(list(ElementTree.parse(junit).iter("testcase"))) == 1
    words[1] = str(tmp_path / "absent.tflite")
    code, found = result_of(capsys, *words)
    (failed,) = found["results"]
    assert (code, failed["error"]["class"]) == (2, "input")
    assert (failed["model"], failed["board"], failed["goal"]) == ("absent", "native", "balanced")
    (case,) = ElementTree.parse(junit).iter("testcase")
    assert "absent.tflite" in str(case.find("error").get("message"))  # type: ignore[union-attr]


def test_files_that_cannot_be_written_are_told_before(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a program is started: a compiler, an emulator, a process of the matrix."""
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a program was started"))
    words = ["verify", str(models / "one.tflite"), "--board=native", f"--junit={tmp_path}"]
    assert main(words) == 2


def test_text_names_the_goals(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", str(models / "one.tflite"), "--board=native", "--samples=1"]
    assert main([*words, "--optimize=speed", "--optimize=size"]) == 0
    text = capsys.readouterr().out
    assert text.count("\ngoal speed\n") == text.count("\ngoal size\n") == 1
    assert len([line for line in text.splitlines() if line.startswith("one  ")]) == 2


def test_what_differs_is_a_failure() -> None:
    report = Report("net", "b", 1, "tflm", "TFLM \x1b", (), None, 0.5)
    tensor: Any = argparse.Namespace(mismatches=1, first=None, name="y\x00", shape=(), dtype="int8")
    tensor.max_abs_diff, tensor.undecided = 1, 0
    object.__setattr__(report, "outputs", (tensor,))
    outcome = Outcome("verify", "b", (report,), exit_code=1, log="warning: \x07\ud800", goal="ram")
    root = ElementTree.fromstring(junit_xml([outcome]).partition("?>")[2])
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "DIFFER" in str(failure.get("message"))
    assert "y\\x00" in str(failure.text)
    assert root.findtext("testsuite/testcase/system-err") == "warning: \\x07\\ud800"
    assert "| net | b | ram | DIFFER |" in markdown([outcome])


@pytest.mark.parametrize(
    "error",
    [
        InputError("fact", "hint"),
        LinkError("fact", "hint", remedy=Remedy.POWER),
        FitError("fact", "hint", [Demand("flash", 3, 2)]),
    ],
)
def test_errors_go_from_process_to_process(error: HilError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == "fact\n\nhint: hint"


def command_of(index: int, *words: str) -> str:
    """The command line of one combination of another."""
    args = build_parser().parse_args(words)
    args.words = words
    return " ".join(combinations(args)[index].words(args))


def test_a_combination_has_a_command_of_its_own(models: Path) -> None:
    """Without what is of the whole matrix, and with what is of every combination."""
    one, folder = str(models / "one.tflite"), str(models)
    words = ("verify", one, "--board=native", "--board", "microbit", "--optimize", "ram")
    matrix = ("--optimize=speed", "--jobs", "2", "--junit=j.xml", "--summary", "s.md")
    kept = ("--name", "microbit", "--samples=3", "--json", "-v")
    assert command_of(3, *words, *matrix, *kept) == (
        f"verify {one} --name microbit --samples=3 --json -v --board microbit --optimize speed"
    )
    two = str(models / "more" / "two.tflite")
    first = planned(one, "--board=emulated")[0][0]
    words = ("-q", "bench", folder, "--separate", "--board=emulated", "--seed", "1")
    assert command_of(0, *words) == f"-q bench --seed 1 {two} --board {first}"
    assert command_of(1, "bench", one, two, "--separate", "--board=native") == (
        f"bench {two} --board native"
    )
    boards = ("bench", "--board=native", "--board=microbit", "--json")
    behind = ("--", one, two)
    assert command_of(1, *boards, *behind) == f"bench --json --board microbit -- {one} {two}"
    one_of_four = command_of(3, *boards, "--separate", *behind)
    assert one_of_four == f"bench --json --board microbit -- {two}"


@pytest.mark.full
def test_a_report_of_several_goals(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each goal has its own command, and a failure is shown
    beside what was found.
    """
    page, one = tmp_path / "page.html", str(models / "one.tflite")
    words = ["report", one, "--board=native", "--optimize=ram", "--optimize=speed"]
    words += ["--samples=1", "--metrics", "-o", str(page)]
    assert main([*words, "--json"]) == 0
    found = answers.entries(capsys.readouterr().out)
    assert [(r["goal"], r["verify"]["match"]) for r in found] == [
        ("ram", True),
        ("speed", True),
    ]
    command = (
        f"hil report --samples=1 --metrics -o {page} --json {one} --board native --optimize ram"
    )
    assert found[0]["command"] == found[0]["verify"]["provenance"]["command"] == command
    text = page.read_text()
    assert "one on native, goal speed" in text
    assert "Compared with tflm, in real numbers" in text
    # Not a model in floats: the error, and the log that came before it.
    assert main([*words[:3], "--samples=1", "-o", str(page), "--float-model", one]) == 2
    told = capsys.readouterr()
    assert "is not a model in floats" in told.err
    assert "is not a model in floats" in page.read_text()
    two = str(models / "more" / "two.tflite")
    assert main(["report", one, two, *words[2:], "--float-model", one]) == 2
    assert "--float-model is for one model" in capsys.readouterr().err


def test_what_is_repeated() -> None:
    """Failures of the board, and nothing else; as often as is asked for."""
    failed = JobOutcome(error=DeviceError("it hangs"))
    assert [should_retry(failed, 2, n) for n in (1, 2, 3)] == [True, True, False]
    assert not should_retry(JobOutcome(error=InputError("x")), 2, 1)
    assert not should_retry(JobOutcome(is_wrong=True), 2, 1)
    assert not should_retry(replace(failed, is_wrong=True), 2, 1)


def test_a_lost_board_is_repeated_in_a_lab_only() -> None:
    lost = JobOutcome(error=DeviceError("no probe", is_lost=True))
    assert not should_retry(lost, 2, 1)
    assert should_retry(replace(lost, place="bench-2"), 2, 1)


@pytest.mark.parametrize("goals", [[], ["--optimize=ram", "--optimize=speed"]])
def test_an_earlier_run_is_reported(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    goals: list[str],
) -> None:
    """In JSON, the JUnit file and the summary, of the combination that it belongs to."""
    calls = []

    def fails_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise LinkError("no answer")
        return results(*args)

    results = VerifyJob.results
    monkeypatch.setattr(VerifyJob, "results", fails_once)
    junit, summary = tmp_path / "out.xml", tmp_path / "summary.md"
    words = ["verify", str(models / "one.tflite"), "--board=native", "--samples=1", *goals]
    words += ["--retries=1", f"--junit={junit}", f"--summary={summary}"]
    assert main([*words, "--json"]) == 0
    first, *others = answers.entries(capsys.readouterr().out)
    assert [step["step"] for step in first["recoveries"]] == ["another run"]
    assert [one["recoveries"] for one in others] == [[]] * len(others)
    found = ElementTree.parse(junit).findall(".//property[@name='hil_recovery']")
    assert len(found) == 1
    assert "no answer; another run took" in str(found[0].get("value"))
    assert "recovery: native: no answer; another run took" in summary.read_text()
    calls.clear()
    assert main(words) == 0
    assert capsys.readouterr().out.count("recovery: native: no answer; another run") == 1


def test_an_exit_code_is_a_failure() -> None:
    """Also where the report itself has no verdict."""
    report: Any = argparse.Namespace(model="net", recoveries=(), cost=None)
    outcome = Outcome("bench", "b", (report,), exit_code=1)
    root = ElementTree.fromstring(junit_xml([outcome]).partition("?>")[2])
    assert root.find("testsuite/testcase/failure") is not None
    assert root.find("testsuite").get("failures") == "1"  # type: ignore[union-attr]
    good = junit_xml([replace(outcome, exit_code=0)]).partition("?>")[2]
    assert ElementTree.fromstring(good).find("testsuite/testcase/failure") is None


def test_a_board_that_fails_is_tried_again(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def fails_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise LinkError("no answer")
        return results(*args)

    results = VerifyJob.results
    monkeypatch.setattr(VerifyJob, "results", fails_once)
    words = ["verify", str(models / "one.tflite"), "--board=native", "--samples=1"]
    words += ["--optimize=ram", "--optimize=speed"]
    assert main([*words, "--retries=1"]) == 0
    assert len(calls) == 3
    assert "no answer" not in capsys.readouterr().err


def test_the_only_combination_is_repeated(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    errors: list[BaseException] = []
    places: list[Any] = []

    def fails(job: VerifyJob, run: Run) -> Any:
        places.append(run.avoid)
        run.place = f"place-{len(errors)}"
        if errors:
            raise errors.pop()
        run.place = ""
        return results(job, run)

    results = VerifyJob.results
    monkeypatch.setattr(VerifyJob, "results", fails)
    junit = tmp_path / "junit.xml"
    words = ["verify", str(models / "one.tflite"), "--board=native", "--samples=1"]
    words += ["--junit", str(junit)]
    errors[:] = [LinkError("no answer"), LinkError("no answer")]
    assert main([*words, "--retries=2"]) == 0
    assert places == [(), ("place-2",), ("place-2", "place-1")]
    assert capsys.readouterr().err.count("failed and runs again: no answer") == 2
    assert 'failures="0" errors="0"' in junit.read_text()
    errors[:] = [LinkError("no answer"), LinkError("no answer")]
    assert main([*words, "--retries=1"]) == 4
    assert 'failures="0" errors="1"' in junit.read_text()
    too_large = FitError("no room", "hint", [Demand("flash", 3, 2)])
    capsys.readouterr()
    for output, told in (([], "native: skipped: no room"), (["--json"], '"skipped": "no room"')):
        errors[:] = [too_large]
        assert main([*words, "--skip-too-large", *output]) == 0
        assert told in capsys.readouterr().out
        assert 'skipped="1"' in junit.read_text()
    errors[:] = [too_large]
    assert main(words) == 3
    errors[:] = [KeyboardInterrupt()]
    assert main(words) == 130
    assert 'message="not run: interrupted"' in junit.read_text()


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)],
)
def test_an_end_ends_the_processes(models: Path, number: signal.Signals) -> None:
    words = ["verify", str(models / "one.tflite"), "--board=native", "--board=mps2-an386"]
    command = [sys.executable, "-m", "hil", *words, "--jobs=2", "--samples=1000000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + PATIENCE_S

    def names() -> list[str]:
        found = []
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended just now
                found.append(child.name())
        return found

    try:
        while not any("qemu" in name for name in names()):
            assert time.monotonic() < deadline, names()
            time.sleep(0.05)
        children = parent.children(recursive=True)
        process.send_signal(number)
        is_killed = number == signal.SIGKILL
        assert process.wait(timeout=PATIENCE_S) == (-number if is_killed else 128 + number)
    finally:
        process.kill()
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert (len(gone), alive) == (len(children), [])


@pytest.mark.full  # It changes rarely, and takes long.
def test_a_live_table_on_a_terminal(models: Path) -> None:
    """rich draws it on stderr, and the results come afterwards, on stdout."""
    words = ["verify", str(models / "one.tflite"), "--board=native", "--board=mps2-an386"]
    command = [sys.executable, "-m", "hil", *words, "--jobs=2", "--samples=1"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    drawn = b""
    with contextlib.suppress(OSError), os.fdopen(ours, "rb", 0) as terminal:
        while data := terminal.read(4096):
            drawn += data
    assert process.stdout is not None
    text = process.stdout.read().decode()
    assert process.wait(timeout=60) == 0
    shown = drawn.decode()
    assert all(word in shown for word in ("combination", "running", "mps2-an386", "match"))
    assert text.count("match over 1 sample") == 2
    assert "\x1b" not in text


def test_names_of_files_are_no_markup() -> None:
    """Of a model's file in a pull request of a stranger, in the summary that CI shows."""
    name = "a\n| kws | b |  | match |\n<img src=x>`x`[l](http:h)\u2028\\"
    error = InputError(f"{name} cannot be read", "")
    outcomes = [
        Outcome("verify", "b", model=name, error=error),
        Outcome("verify", "<b>|", model=name, skipped=f"no {name}"),
    ]
    lines = markdown(outcomes).splitlines()
    assert sum(line.startswith("|") for line in lines) == 2 + len(outcomes)
    assert sum(line.startswith("- ") for line in lines) == len(outcomes)
    for line in lines[4:]:
        bare = re.sub(r"\\\\|\\[|`\[\]]", "", line)
        assert not re.search(r"[<>`\[\]]", bare), line
        assert bare.count("|") in (0, 9), line
