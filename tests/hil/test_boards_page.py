"""BOARDS.md says what the descriptions say, and has a figure for every model on every board."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hil.board import MemoryRegion, load_board

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))
boards: Any = importlib.import_module("boards")  # the script that writes the page

PAGE = boards.PAGE.read_text(encoding="utf-8")
CELL = re.compile(
    r"builds: \d+ \+ \d+|does not fit: ((flash|RAM|stack) (>= )?\d+ of \d+ KB(, )?)+",
)


def test_the_facts_are_up_to_date() -> None:
    assert boards.section(PAGE, "boards") == boards.facts(), "run ci/boards.py"


def test_every_model_has_an_outcome_on_every_board() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in boards.section(PAGE, "models").splitlines()
    ]
    names = [f"`{board.name}`" for board in boards.real_boards()]
    assert [row[0] for row in rows[2:]] == names, "run ci/boards.py --build"
    for row in rows[2:]:
        assert all(CELL.fullmatch(cell) for cell in row[1:]), row


def test_a_refusal_has_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("stm32vldiscovery")
    path = ROOT / "examples" / "digits" / "digits.tflite"
    monkeypatch.setattr(boards.models, "model_path", lambda name: path)
    boards._compiled.cache_clear()
    try:
        assert re.fullmatch(r"builds: \d\d \+ \d", boards.outcome(board, "digits"))
        small = load_board("microbit")
        regions = tuple(
            MemoryRegion(r.name, r.origin, min(r.size, 16 << 10), r.kind) for r in small.memory
        )
        outcome = boards.outcome(replace(small, memory=regions), "digits")
        assert re.fullmatch(r"does not fit: flash (>= )?\d\d of 16 KB", outcome)
    finally:
        boards._compiled.cache_clear()


def test_marks_that_are_missing_are_told() -> None:
    with pytest.raises(ValueError, match="the text lacks"):
        boards.replaced("<!-- models:begin -->", "models", "x")
