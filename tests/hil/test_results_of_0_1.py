"""Files that version 0.1 wrote are read: results of each command, and a history.

They are recorded: of ``hil COMMAND --json``, of ``hil report --results`` without its logs, and of
``--history``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import answers
import pytest

from hil.cli import main
from hil.history import History
from hil.history.measurement import read_measurements
from hil.page.page import make_page
from hil.page.results import Result, merged, read_results
from hil.results.read import read_answers

FOLDER = Path(__file__).parents[1] / "recorded" / "v0_1"
BOARD = "mps2-an386"


def read(name: str) -> list[Result]:
    return read_results(FOLDER / f"{name}.json")


def about(results: list[Result]) -> list[tuple[str, str, str, str]]:
    return [(one.model, one.board, one.goal, one.status) for one in results]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("verify", [("digits", BOARD, "", "match")]),
        ("verify_models", [("a", BOARD, "", "match"), ("b", BOARD, "", "match")]),
        (
            "verify_boards",
            [
                ("digits", board, goal, "match")
                for board in (BOARD, "lm3s6965evb", "native")
                for goal in ("ram", "speed")
            ],
        ),
        ("failed_boards", [("", BOARD, "", "failed"), ("", "native", "", "failed")]),
        ("bench", [("digits", BOARD, "", "match")]),
        ("build", [("digits", BOARD, "", "measured")]),
        ("evaluate", [("digits", BOARD, "", "match")]),
        ("explain", [("digits", "", "", "measured")]),
        ("report", [("digits", BOARD, "", "match"), ("digits", "microbit", "", "match")]),
        ("history", [("digits", BOARD, "", "measured"), ("digits", BOARD, "ram", "measured")]),
    ],
)
def test_results(name: str, found: list[tuple[str, str, str, str]]) -> None:
    assert about(read(name)) == found


def test_parts_of_a_report() -> None:
    first, second = read("report")
    for one in (first, second):
        parts = (one.verified, one.benched, one.built, one.plan, one.about)
        assert all(part is not None for part in parts)
        assert one.verified is not None
        assert one.verified.layers
        assert one.benched is not None
        assert one.benched.checked is not None
        assert one.benched.checked.match
    made = [one.provenance for one in (first, second)]
    assert len({from_.model.sha256 for from_ in made if from_ is not None}) == 1
    assert make_page([first, second]).match


def _with_new_names(old: Any) -> Any:
    """Return a result of version 0.1 with the names of bytes that this version writes."""
    if isinstance(old, list):
        return [_with_new_names(one) for one in old]
    if not isinstance(old, dict):
        return old
    names = {"nbytes": "bytes", "io_in_pool": "io_in_workspace"}
    if "name" in old:  # a region or a section, not a number of elements
        names |= {"used": "used_bytes", "size": "bytes"}
    return {names.get(key, key): _with_new_names(item) for key, item in old.items()}


def test_every_key_of_an_entry_is_kept() -> None:
    """Written again, an entry has all that version 0.1 said, and its goal."""
    for name in ("verify", "bench", "build", "evaluate"):
        old: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
        (answer,) = read_answers(old, name, "")
        (new,) = answer.to_json()["results"]
        assert answer.command == name
        assert new == {**new, **_with_new_names(old)}, name
        assert new["goal"] == (None if name == "build" else "balanced")


def test_a_plan_is_renamed() -> None:
    old = json.loads((FOLDER / "explain.json").read_text())
    (answer,) = read_answers(old, "explain", "")
    (new,) = answer.to_json()["results"]
    old = _with_new_names(old)
    assert new["slots"] == old["tenants"]
    # What version 0.1 did not say has its default.
    saving = {"flash_bytes": 0, "flash_limit": None, **old["next_saving"]}
    assert {**old, "slots": new["slots"], "next_saving": saving} == {
        **new,
        "tenants": old["tenants"],
    }


def test_measurements() -> None:
    (one,) = read_measurements(json.loads((FOLDER / "bench.json").read_text()), "it")
    assert (one.model, one.board, one.goal, one.counter) == (
        *("digits", BOARD, "balanced", "instructions"),
    )
    assert one.run
    assert one.checked is not None
    assert one.checked.independent


def test_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.db"
    shutil.copy(FOLDER / "history.db", path)
    first, second, third = History(path).entries()
    assert [one.goal for one in (first, second, third)] == ["balanced", "ram", "balanced"]
    words = ["--history", str(path), "--json"]
    assert main(["history", *words]) == 0
    kinds = [one["kind"] for one in answers.entries(capsys.readouterr().out)]
    assert kinds == ["bench", "bench", "evaluate"]
    baseline = str(FOLDER / "bench.json")
    assert main(["compare", baseline, "1", *words]) == 0
    compared = answers.entry(capsys.readouterr().out)
    assert compared["per_inference"]["difference"] == 0
    # An entry of another goal is no baseline.
    assert main(["gate", baseline, "--max-slower", "0", "--baseline", "2", *words]) == 2
    assert "goal ram" in answers.error(capsys.readouterr().out)["message"]


def test_results_of_two_goals_stay_apart() -> None:
    data = json.loads((FOLDER / "history.json").read_text())["entries"]
    one, other = (entry["result"] for entry in data[:2])
    found = [result for each in (one, other) for result in _results(each)]
    assert [result.goal for result in merged(found)] == ["", "ram"]


def _results(data: dict[str, Any]) -> list[Result]:
    from hil.page.results import results_in

    return results_in(data, "it")
