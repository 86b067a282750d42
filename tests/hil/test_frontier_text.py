"""The text of ``hil explain --frontier``: its rows, and its notes on workspace and ``speed``."""

from __future__ import annotations

import re

from hil.cli.frontier_report import frontier_text
from hilc.lowering.choice import CostEstimate
from hilc.schedule.frontier import Frontier, FrontierProgram


def text(*programs: tuple[str | None, int, int], io_in_workspace: bool = True) -> str:
    found = [
        FrontierProgram(goal, None if goal else 64, None, CostEstimate(64, instructions, flash))
        for goal, instructions, flash in programs
    ]
    return frontier_text(Frontier("net", "cortex-m4", "instructions", io_in_workspace, found))


def test_speed_has_code_of_its_own_for_each_layer() -> None:
    note = "gives each layer code of its own"
    assert note in text((None, 1000, 500), ("speed", 1000, 700), ("ram", 2000, 400))
    assert note not in text(("speed", 1000, 700), (None, 1001, 500), ("ram", 2000, 400))
    assert note not in text(("speed", 1000, 700), (None, 1000, 700), ("ram", 2000, 400))


def test_equal_figures_are_one_row() -> None:
    shown = text(("speed", 1000, 500), ("balanced", 1000, 500), ("ram", 2000, 400))
    assert "2 programs" in shown
    assert "--optimize speed, --optimize balanced " in shown
    assert "1 program;" in text(("speed", 1000, 500), ("size", 1000, 500))


def test_columns_have_names_of_their_own() -> None:
    """The workspace says whether inputs and outputs are in it; the bars are no further figure."""
    heads = [text(("speed", 1000, 500), io_in_workspace=io).splitlines()[1] for io in (True, False)]
    columns = [[word for word in re.split(r"\s{2,}", head) if word] for head in heads]
    assert columns[0] != columns[1]
    for own in columns:
        assert len(own) == len(set(own)) == 6


def test_where_inputs_and_outputs_are() -> None:
    row = ("speed", 1000, 500)
    assert "the workspace includes inputs and outputs" in text(row)
    assert "inputs and outputs are beside the workspace" in text(row, io_in_workspace=False)
