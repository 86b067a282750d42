"""Boards, from their descriptions: ``targets/<board>.toml`` and the chip that it names.

The room of what a board is: also the firmware's ports, and what a user configured.
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
