"""A difference that was found before a board failed is the result: it is shown, and no other run of
the command replaces it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from campaigns import cases
from fake_bench import Bench
from wrong_outputs import DIGITS, with_flipped_weight

from hil import access
from hil.cli import main
from hil.device import session
from hil.errors import LinkError
from hil.jobs.bench import BenchJob
from hil.verify import comparison, evaluation

BOARD = "mps2-an386"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(with_flipped_weight("cortex-m4").save(tmp_path_factory.mktemp("wrong") / "w.tar"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that a command has measured; the board fails in the second."""
    seen: list[str] = []

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def job(model: Any, *args: Any, **options: Any) -> Any:
            seen.append(model.name)
            if len(seen) == 2:
                raise LinkError("the link failed", "connect it")
            return real(model, *args, **options)

        return job

    def measuring(real: Callable[..., Any]) -> Callable[..., Any]:
        def job(self: BenchJob, model: Any, *args: Any) -> Any:
            return failing(partial(real, self))(model, *args)

        return job

    monkeypatch.setattr("hil.jobs.verify.compare", failing(comparison.compare))
    monkeypatch.setattr(BenchJob, "_measured", measuring(BenchJob._measured))
    return seen


def words(command: str, wrong: str, *more: str) -> list[str]:
    return [command, wrong, f"right={DIGITS}", "--board", BOARD, *more]


@cases("command", ["verify", "bench"], first=1)
@pytest.mark.parametrize("retries", ["0", "1"])
def test_a_difference_before_a_failure(
    command: str,
    retries: str,
    wrong: str,
    calls: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In every form of the result, with the exit code of a difference, and not run again."""
    junit, summary = tmp_path / "j.xml", tmp_path / "s.md"
    files = ["--junit", str(junit), "--summary", str(summary), "--retries", retries]
    assert main(words(command, wrong, *files)) == 1
    assert calls == ["digits", "right"]
    said = capsys.readouterr()
    assert "DIFFER" in said.out
    assert "the link failed" in said.err
    cases = list(ElementTree.parse(junit).iter("testcase"))
    kinds = {str(c.get("name")): [e.tag for e in c if e.tag in ("failure", "error")] for c in cases}
    assert kinds == {BOARD: ["error"], f"digits on {BOARD}": ["failure"]}
    assert f"| digits | {BOARD} |  | DIFFER |" in summary.read_text()
    assert f"| - | {BOARD} |  | error: link |" in summary.read_text()


def test_json(wrong: str, calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("verify", wrong, "--json")) == 1
    wrong_one, failed = answers.entries(capsys.readouterr().out)
    assert (wrong_one["model"], wrong_one["match"]) == ("digits", False)
    assert failed["error"]["message"] == "the link failed"


def test_a_matrix(
    wrong: str, calls: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other board has all its results."""
    more = ["--board", "mps3-an547", "--json", "--retries", "2"]
    assert main(words("verify", wrong, *more)) == 1
    assert calls == ["digits", "right", "digits", "right"]
    wrong_one, failed, *others = answers.entries(capsys.readouterr().out)
    assert wrong_one["match"] is False
    assert failed["error"]["class"] == "link"
    assert [model["match"] for model in others] == [False, True]


def test_good_reports_before_a_failure(
    calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are shown, and the failure is the result; another run replaces it."""
    models = [f"one={DIGITS}", f"two={DIGITS}"]
    assert main(["verify", *models, "--board", BOARD, "--samples", "1"]) == 4
    said = capsys.readouterr()
    assert "one on mps2-an386: match" in said.out
    assert "the link failed" in said.err
    calls.clear()
    assert main(["verify", *models, "--board", BOARD, "--samples", "1", "--retries", "1"]) == 0
    assert calls == ["one", "two", "one", "two"]
    assert capsys.readouterr().out.count("one on mps2-an386: match") == 1


@cases("jobs", ["1", "2"], first=1)
def test_a_dead_board_is_tried_once(
    rig: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    jobs: str,
) -> None:
    """By the first of its combinations; the others are failures too, without a wait.

    With ``--jobs`` its probe is not even connected, as processes of their own do not see the bench.
    """
    dead = rig.add()
    dead.die()
    starts: list[str | None] = []
    start = access.start

    def counted(board: Any, firmware: Any, runner: Any, choice: Any) -> Any:
        starts.append(choice.probe)
        return start(board, firmware, runner, choice)

    monkeypatch.setattr(session, "start", counted)
    junit = tmp_path / "j.xml"
    goals = [word for goal in ("speed", "ram", "balanced") for word in ("--optimize", goal)]
    command = ["verify", str(DIGITS), "--board", BOARD, "--probe", dead.serial, *goals]
    with rig.installed():
        assert main([*command, "--junit", str(junit), "--jobs", jobs, "--json"]) == 4
    errors = [one["error"]["message"] for one in answers.entries(capsys.readouterr().out)]
    aside = [" was set aside, since it failed before: " in error for error in errors]
    assert aside == [False, True, True]
    assert len(list(ElementTree.parse(junit).iter("error"))) == 3
    # Its start, and programming it again.
    assert starts == [dead.serial] * (2 if jobs == "1" else 0)


@pytest.mark.parametrize("command", ["verify", "evaluate"])
def test_a_difference_in_an_earlier_sample(
    command: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a model that the board fails in: the difference is the result."""
    module = {"verify": comparison, "evaluate": evaluation}[command]
    real, calls = module._computed, list[Any]()

    def failing(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise LinkError("the link failed", "connect it")
        return real(*args)

    monkeypatch.setattr(module, "_computed", failing)
    data = tmp_path / "data.npz"
    inputs = np.random.default_rng(0).integers(-128, 128, (5, 8, 8, 1)).astype(np.int8)
    np.savez(data, x=inputs, labels=np.arange(5))
    more = {"verify": ["--retries", "1", "--samples", "5"], "evaluate": ["--data", str(data)]}
    assert main([command, wrong, "--board", BOARD, *more[command]]) == 1
    assert len(calls) == 3
    assert "then the board failed: the link failed" in capsys.readouterr().err
