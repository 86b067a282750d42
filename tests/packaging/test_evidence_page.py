"""docs/reference/evidence.md says what ran: its cells come from counts of calls that passed."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_checks import Check
from operator_evidence import (
    ALL_KINDS,
    CASES,
    FAMILIES,
    LINEAR,
    PLACES,
    Drawn,
    Kind,
    draw,
    in_tflm,
    on_place,
)
from tflm import needs_tflm

ROOT = Path(__file__).resolve().parents[2]
evidence: Any = importlib.import_module("evidence")
marked: Any = importlib.import_module("marked")
COUNTS = evidence.known()
CLAIMED = [(op, dtype) for op, types in COUNTS.items() for dtype in types]
#: Kinds of every family, for ``make test``.
SOME = [("ADD", "int8"), ("CONV_2D", "int16"), ("FULLY_CONNECTED", "int8"), ("SOFTMAX", "int8")]


def families(kind: Kind, place: str) -> set[str]:
    """The families that the page claims."""
    return set(COUNTS[kind[0]][kind[1]][place])


def test_the_page_is_made_of_the_counts() -> None:
    text = evidence.PAGE.read_text(encoding="utf-8")
    assert marked.section(text, "evidence").strip() == evidence.page(COUNTS)


def test_every_claim_names_what_exists() -> None:
    assert {*CLAIMED} <= {*ALL_KINDS}
    for kind in CLAIMED:
        cell = COUNTS[kind[0]][kind[1]]
        assert {*cell} == {"tflm", *PLACES}
        for place in PLACES:
            assert "generic" in families(kind, place) <= {*FAMILIES}, (kind, place)
            assert all(0 < count <= CASES for count in cell[place].values())
            assert cell[place]["generic"] == CASES


@pytest.mark.full
def test_the_page_has_every_operator() -> None:
    missing = {*ALL_KINDS} - {*CLAIMED}
    assert not missing, f"python tools/measure.py evidence --missing, for {sorted(missing)}"


def check_claims(kinds: Sequence[Kind], place: str) -> None:
    """Few cases of each pass, in every family that serves them today."""
    cells = on_place([draw(kind, place, 3) for kind in kinds], place)
    for kind in kinds:
        assert not any(cell.failed for cell in cells[kind].values()), cells[kind]
        assert all(cell.passed for cell in cells[kind].values())
        if kind[0] in LINEAR:
            assert "generic" in cells[kind]


@pytest.mark.full
def test_claims_hold_for_some() -> None:
    check_claims(SOME, "mps2-an386")


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
def test_claims_hold(place: str) -> None:
    check_claims(CLAIMED, place)


@needs_tflm
def test_tflite_micro_computes_the_same() -> None:
    for kind in SOME:
        cell = in_tflm(kind, 5)
        assert (cell.passed, cell.failed, cell.refused) == (5, 0, 0), cell.first


# What is counted --------------------------------------------------------------------------------


def some() -> Drawn:
    return draw(("RELU", "int8"), "host", 4)


def right(checks: Sequence[Check], board: object) -> list[Sequence[np.ndarray]]:
    return [one.expected for one in checks]


def test_a_wrong_result_is_a_failure_and_no_claim() -> None:
    def run(checks: Sequence[Check], board: object) -> list[Sequence[np.ndarray]]:
        first, *others = right(checks, board)
        return [[first[0] ^ 1], *others]

    cell = on_place([some()], "host", run)["RELU", "int8"]["generic"]
    assert (cell.passed, cell.failed) == (3, 1)
    assert "differs" in cell.first


def test_what_did_not_run_is_not_counted() -> None:
    def run(checks: Sequence[Check], board: object) -> list[Sequence[np.ndarray]]:
        return right(checks, board)[:-1]

    with pytest.raises(ValueError, match="zip"):
        on_place([some()], "host", run)


def test_what_failed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page, counts = tmp_path / "evidence.md", tmp_path / "evidence.json"
    page.write_text("<!-- evidence:begin -->\n<!-- evidence:end -->")
    cell = {"tflm": {"passed": 1, "refused": 0}, **{place: {"generic": 1} for place in PLACES}}
    failed = ({"RELU": {"int8": cell, "float32": cell}}, {("RELU", "int8"): "RELU differs"})
    monkeypatch.setattr(evidence, "PAGE", page)
    monkeypatch.setattr(evidence, "COUNTS", counts)
    monkeypatch.setattr(evidence, "measured", lambda kinds, count: failed)
    monkeypatch.setattr(sys, "argv", ["evidence.py", "RELU"])
    assert evidence.main() == 1
    assert [*json.loads(counts.read_text())["RELU"]] == ["float32"]
    assert "int8" not in page.read_text()
