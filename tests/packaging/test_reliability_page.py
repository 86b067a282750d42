"""The frame of the campaigns: what it runs, keeps, writes and returns."""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torture.campaign import Budget, Call, Counts, Figures, Finding, Run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Return the program of the campaigns with a page and campaigns of this test."""
    module = importlib.import_module("torture.__main__")
    monkeypatch.setattr(module, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    monkeypatch.delenv("TORTURE", raising=False)
    # The program ends with its main, and need not restore it.
    before = signal.getsignal(signal.SIGTERM)
    yield module
    signal.signal(signal.SIGTERM, before)


def _campaigns(
    script: Any, monkeypatch: pytest.MonkeyPatch, **runs: Callable[[Budget], Figures | Counts]
) -> None:
    known = {
        name: SimpleNamespace(TITLE=f"The {name}", ABOUT=f"About {name}.", run=run, figures=_shown)
        for name, run in runs.items()
    }
    monkeypatch.setattr(script, "names", lambda: tuple(sorted(known)))
    monkeypatch.setattr(script, "campaign", known.__getitem__)


def _clean(budget: Budget) -> Figures:
    return Figures(
        ["seed", "times"], [[str(budget.seed), str(budget.count(3, 900))]], notes=["Ok."]
    )


def _found(budget: Budget) -> Figures:
    (budget.folder / "crash").write_bytes(b"x")
    return Figures(["kind"], [["a"]], [Finding("one got through", "this file")])


def _broken(budget: Budget) -> Figures:
    raise RuntimeError("the campaign broke")


def _counted(budget: Budget) -> Counts:
    findings = [Finding("one got through", "seed 2")] if budget.seed == 2 else []
    return Counts(
        [{"what": "line", "inputs": budget.count(5, 50), "most_s": budget.seed}], findings
    )


def _stopped(budget: Budget) -> Counts:
    done = 0
    with budget.until_stopped():
        for done in range(100):
            if done == 7:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(60)
    return Counts([{"what": "line", "inputs": done, "most_s": 1}])


def _unstoppable(budget: Budget) -> Figures:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
    raise AssertionError("no signal came")


def _shown(counts: Counts) -> Figures:
    rows = [[row["what"], f"{row['inputs']:,}", str(row["most_s"])] for row in counts.rows]
    return Figures(["what", "inputs", "most, s"], rows, counts.findings)


def test_the_page_is_what_the_kept_runs_give() -> None:
    module = importlib.import_module("torture.__main__")
    assert module.PAGE.read_text(encoding="utf-8") == module.page(module.kept()), (
        "run python tools/measure.py torture --page"
    )
    files = {file.stem for file in module.KEPT.iterdir()}
    assert files <= set(module.names()), "a campaign was renamed or removed: remove its file"


def test_a_run_is_kept_and_the_page_written(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _campaigns(script, monkeypatch, left=_clean, right=_found)
    monkeypatch.setenv("TORTURE", "hours")
    assert script.main(["left", "--seed", "7", "--write"]) == 0
    text = script.PAGE.read_text(encoding="utf-8")
    assert "## The left\n\nAbout left.\n\n| seed | times |\n| --- | --- |\n| 7 | 900 |\n" in text
    assert "Ok.\n\n`TORTURE=hours python tools/measure.py torture left --seed 7`: 0 s" in text
    assert "kept in" not in capsys.readouterr().err  # nothing got through

    monkeypatch.setenv("TORTURE", "minutes")
    assert script.main(["right", "--write"]) == 1
    text = script.PAGE.read_text(encoding="utf-8")
    assert "| 7 | 900 |" in text
    assert "**Open**: one got through (this file)" in text
    kept = capsys.readouterr().err.rpartition("kept in ")[2].strip()
    assert (Path(kept) / "right" / "crash").read_bytes() == b"x"
    (Path(kept) / "right" / "crash").unlink()

    script.PAGE.unlink()
    assert script.main(["--page"]) == 0
    assert script.PAGE.read_text(encoding="utf-8") == text


def test_runs_add_up(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _campaigns(script, monkeypatch, line=_counted)
    assert script.main(["line", "--add"]) == 0  # the first: there is none to add it to
    assert script.main(["line", "--add"]) == 1
    assert script.main(["line", "--add"]) == 0
    text = script.PAGE.read_text(encoding="utf-8")
    assert "| line | 15 | 3 |" in text
    assert "**Open**: one got through (seed 2)" in text
    assert (
        "`python tools/measure.py torture line --seed 1`, also with the seeds 2, 3: 0 s on" in text
    )

    monkeypatch.setenv("TORTURE", "hours")
    assert script.main(["line", "--add", "--seed", "9"]) == 0
    text = script.PAGE.read_text(encoding="utf-8")
    assert "| line | 65 | 9 |" in text
    assert "\n\n`TORTURE=hours python tools/measure.py torture line --seed 9`: 0 s on" in text
    assert script.main(["line", "--add"]) == 0
    assert [call.seed for call in script.kept()["line"].calls] == [1, 2, 3, 9, 10]

    capsys.readouterr()
    assert script.main(["line", "--add", "--seed", "2"]) == 3
    assert "the seed 2 is kept already" in capsys.readouterr().err
    assert script.main(["line", "--write", "--seed", "4"]) == 0
    assert [call.seed for call in script.kept()["line"].calls] == [4]


def test_figures_of_one_run_do_not_add_up(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _campaigns(script, monkeypatch, left=_clean)
    assert script.main(["left", "--write"]) == 0
    kept = script.kept()
    assert script.main(["left", "--add"]) == 3
    assert "the figures of left are of one run; use --write" in capsys.readouterr().err
    assert script.kept() == kept


def test_a_signal_keeps_what_was_counted(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _campaigns(script, monkeypatch, a=_stopped, b=_clean, c=_unstoppable)
    assert script.main(["--add"]) == 0
    text = script.PAGE.read_text(encoding="utf-8")
    assert "| line | 7 | 1 |" in text
    assert "`python tools/measure.py torture a --seed 1`, stopped before its end: 0 s" in text
    assert list(script.kept()) == ["a"]  # the others are not begun
    assert script.main(["c", "a", "--write", "--keep", str(tmp_path / "found")]) == 3
    assert "STOPPED c, of which nothing is kept" in capsys.readouterr().err
    assert list(script.kept()) == ["a"]


def test_counts_of_the_same_thing_add_up() -> None:
    one = Counts([{"of": "a", "n": 1, "most_s": 2.5}, {"of": "b", "n": 4}], [Finding("x", "y")])
    other = Counts([{"of": "c", "n": 7}, {"of": "a", "n": 2, "most_s": 1.5, "new": 3}])
    assert one + other == Counts(
        [
            {"of": "a", "n": 3, "most_s": 2.5, "new": 3},
            {"of": "b", "n": 4},
            {"of": "c", "n": 7},
        ],
        [Finding("x", "y")],
    )


def test_a_campaign_that_breaks_off_hides_no_other(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _campaigns(script, monkeypatch, a=_broken, b=_found, c=_clean)
    assert script.main(["--write", "--keep", str(tmp_path / "found")]) == 3
    captured = capsys.readouterr()
    assert "RuntimeError: the campaign broke" in captured.err
    assert "FOUND one got through: this file" in captured.out
    assert sorted(script.kept()) == ["b", "c"]
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["b"]


@pytest.mark.parametrize(
    ("argv", "length", "said"),
    [
        (["other"], "minutes", "no campaign other; there are a"),
        ([], "days", "TORTURE is 'days'; use minutes or hours"),
        (["--page", "a"], "minutes", "--page runs no campaign"),
        (["--page", "--add"], "minutes", "--page runs no campaign"),
        (["--write", "--add"], "minutes", "--write replaces what is kept, --add adds to it"),
    ],
)
def test_usage(
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    length: str,
    said: str,
) -> None:
    _campaigns(script, monkeypatch, a=_clean)
    monkeypatch.setenv("TORTURE", length)
    with pytest.raises(SystemExit) as ended:
        script.main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_every_campaign_says_what_it_attacks(script: Any) -> None:
    """Of the modules' text: an import would need what the campaign needs."""
    folder = ROOT / "tests" / "campaigns" / "torture"
    for name in script.names():
        module = folder / f"{name}.py"
        file = module if module.is_file() else folder / name / "__init__.py"
        text = file.read_text(encoding="utf-8")
        assert all(part in text for part in ("\nTITLE = ", "\nABOUT = ", "\ndef run(")), name


@pytest.mark.parametrize(
    "result",
    [
        Figures(["a"], [["1"]], [Finding("x", "y")], ["note"]),
        Counts([{"of": "a", "most_s": 0.5}], [Finding("x", "y")]),
    ],
)
def test_a_run_is_the_same_when_it_was_kept(result: Figures | Counts) -> None:
    one = Run(result, [Call(3, True, 1.5), Call(4, False, 2.5, is_whole=False)])
    assert Run.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize("row", [["1", "2"], ["a|b"], ["a\nb"]])
def test_a_table_that_would_be_broken_is_refused(row: list[str]) -> None:
    with pytest.raises(ValueError, match="cell"):
        Figures(["one"], [row])
