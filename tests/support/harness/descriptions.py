"""Descriptions of shipped boards as one text, for tests that change a fact of board or chip."""

from __future__ import annotations

from hil.board import load_board
from hil.board.description import read_description, to_toml


def description_text(name: str) -> str:
    """The description of the board ``name`` with all that its chip says."""
    return to_toml(read_description(load_board(name).path).values)
