"""Boards: descriptions, the firmware's ports, and the user's configuration.

A board is described by ``targets/<board>.toml`` and the chip that it names.
"""

from __future__ import annotations

from hil.board.board import (
    Board,
    MemoryRegion,
    Renode,
    board_file,
    board_names,
    default_board,
    load_board,
    own_board_names,
)

__all__ = [
    "Board",
    "MemoryRegion",
    "Renode",
    "board_file",
    "board_names",
    "default_board",
    "load_board",
    "own_board_names",
]
