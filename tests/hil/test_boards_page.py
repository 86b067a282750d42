"""The page of boards has an outcome for every model on every board."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import sampled

from hil.board import MemoryRegion, load_board

ROOT = Path(__file__).resolve().parents[2]
boards: Any = importlib.import_module("boards")  # the script that writes the page

PAGE = boards.PAGE.read_text(encoding="utf-8")
CELL = re.compile(
    r"builds: \d+ \+ \d+|does not fit: ((flash|RAM|stack) (>= )?\d+ of \d+ KB(, )?)+",
)


def test_every_model_has_an_outcome_on_every_board() -> None:
    cells = boards.cells(boards.section(PAGE, "models"))
    names = [board.name for board in boards.real_boards()]
    wanted = [(name, model) for name in names for model in boards.models.INT8_MODELS]
    assert list(cells) == wanted, "run python tools/measure.py boards"
    for where, cell in cells.items():
        assert CELL.fullmatch(cell), (where, cell)


#: Where little is left or missing, so that what compiler or firmware take more shows first; one
#: board for each instruction set of the kernels. `tools/boards.py --check` builds all.
AT_THE_BORDER = [
    ("microbit", "ad"),
    ("microbit", "kws"),
    ("lm3s6965evb", "vww"),
    ("nucleo-l432kc", "vww"),
    ("stm32vldiscovery", "kws"),
    ("mps3-an547", "kws"),
]


@pytest.mark.parametrize(
    ("board", "model"),
    sampled(AT_THE_BORDER, keep=[("microbit", "ad"), ("mps3-an547", "kws")]),
)
def test_a_figure_is_todays(board: str, model: str) -> None:
    written = boards.cells(boards.section(PAGE, "models"))[board, model]
    assert boards.outcome(load_board(board), model) == written, "run python tools/measure.py boards"


@pytest.mark.full
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
