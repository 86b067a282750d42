"""The tables of docs/reference/networks.md: of networks that exist, with figures that hold."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import keras_files
import models
import pytest
from tflm import needs_tflm
from whole_networks import NETWORKS

ROOT = Path(__file__).resolve().parents[2]
arenas: Any = importlib.import_module("arenas")
marked: Any = importlib.import_module("marked")

ROWS = arenas.written()
SMALL = {"digits", "gestures", "keywords", "denoiser"}


def test_every_row_is_of_a_network_that_exists() -> None:
    keras = {file.name for file in keras_files.files()}
    others = {*models.INT8_MODELS, *models.FLOAT_MODELS, "digits", *NETWORKS}
    names = [row.name for row in ROWS]
    assert len(names) == len({*names})
    assert {*names} <= keras | others
    assert {*names} >= SMALL
    assert {*NETWORKS} <= {*names}


def test_the_table_explains_more_than_half() -> None:
    text = marked.section(arenas.PAGE.read_text(encoding="utf-8"), "arenas")
    assert text.strip() == arenas.section_text(ROWS)
    over = [row.name for row in ROWS if row.share > arenas.BAR]
    unexplained = [name for name in over if not name.startswith(tuple(arenas.WHY))]
    assert not unexplained


@needs_tflm
@pytest.mark.parametrize("name", sorted(SMALL))
def test_no_share_has_grown_over_half(name: str) -> None:
    (data,) = (data for found, data in arenas.files() if found == name)
    (row,) = (row for row in ROWS if row.name == name)
    today = arenas.measured(name, data)
    assert (today.arena, today.planned) == (row.arena, row.planned)
    assert today.share <= max(row.share, arenas.BAR)


def test_each_network_is_equal_on_each_of_its_boards() -> None:
    text = marked.section(arenas.PAGE.read_text(encoding="utf-8"), "networks")
    rows = re.findall(
        r"^\| (\w+) \| [^|]* \| `([\w-]+)` \| ([\d,]+) (steps|inputs)[ |]", text, re.M
    )
    assert [(name, board) for name, board, _, _ in rows] == [
        (network.name, board) for network in NETWORKS.values() for board in network.boards
    ]
    for name, _, runs, _ in rows:
        assert int(runs.replace(",", "")) == NETWORKS[name].runs
