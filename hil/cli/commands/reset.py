"""``hil reset``: restart a board through its flasher."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_flasher, add_port, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_flasher(parser)
    add_probe(parser)
    add_port(parser, "the board's port, for a flasher that uses no probe")


def run(args: argparse.Namespace, console: Console) -> int:
    """Reset a board through its flasher; report the state of the core afterwards."""
    # Not at the top: it loads the compiler.
    from hil.access import Connection, chosen_flasher
    from hil.board import load_board
    from hil.cli.images import flasher_session
    from hil.results.boards import ResetEntry

    board, flasher = chosen_flasher(load_board(args.board), args.flasher)
    connection = Connection(args.probe, args.port)
    with flasher_session(flasher, board, connection, attach=True) as (uid, session):
        state = session.reset()
    console.result(
        ResetEntry(board.name, uid, state),
        f"{board.name}: reset, {state}",
    )
    return 0


COMMAND = Command("Restart a board through its flasher.", add_options, run)
