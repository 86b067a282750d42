"""``hil boards``: list the boards, or describe one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("name", nargs="?", metavar="BOARD", help=BOARD), boards)
    parser.add_argument(
        "--connected",
        action="store_true",
        help="list what is plugged in, the boards that it may be, and how to address it",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """List the boards of the project and the user, or describe one board."""
    # Not at the top: it loads the compiler.
    from hil.board import board_names, load_board, own_board_names
    from hil.board.config import boards_folder
    from hil.cli.console import screen_width, table, table_width
    from hil.cli.render import board_entry, board_text, memory_bytes, shown_by, size_text
    from hil.errors import HilError

    if args.connected:
        from hil.cli.actions.connected import connected_command

        return connected_command(args, console)
    if args.name is not None:
        board = load_board(args.name)
        console.result(board_entry(board), board_text(board))
        return 0
    boards = [load_board(name) for name in board_names()]
    for name in own_board_names():
        try:
            boards.append(load_board(boards_folder() / f"{name}.toml"))
        except HilError as error:
            console.warn(error.fact)
    rows = [
        [
            board.name,
            board.cpu.name,
            size_text(memory_bytes(board, "flash")),
            size_text(memory_bytes(board, "ram")),
            ", ".join(_WORDS.get(how, how) for how in shown_by(board)),
            " ".join(board.runners),
            board.description,
        ]
        for board in boards
    ]
    header = ["board", "core", "flash", "RAM", "shown by", "runners", "description"]
    shown = len(header)
    # The last columns are left out where the terminal is too narrow for them.
    while (
        table_width(text := table([row[:shown] for row in rows], header[:shown])) > (screen_width())
        and shown > _FEWEST
    ):
        shown -= 1
    legend = [f"{word}: {how}" for how, word in _WORDS.items()]
    if shown < len(header):
        legend.append(f"hil boards BOARD also shows {' and '.join(header[shown:])}")
    console.result([board_entry(board) for board in boards], "\n".join([text, "", *legend]))
    return 0


#: Words of the column `shown by`, which fits 80 columns.
_WORDS = {
    "emulated by QEMU": "QEMU",
    "simulated registers": "registers",
    "image read back by esptool": "esptool",
    "image read back by a UF2 reader": "UF2",
}
#: Columns that are always shown.
_FEWEST = 5

COMMAND = Command("List the boards, or describe one.", add_options, run)
