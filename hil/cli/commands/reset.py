"""``hil reset``: restart a board through its debug probe."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


#: A core without a valid image locks up within this time after a reset.
_RESET_LOOK_S = 0.1


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_probe(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Reset a board through its probe; report the state of the core afterwards."""
    # Not at the top: it loads the compiler.
    from hil.board import load_board
    from hil.cli.images import require_probe
    from hil.errors import DeviceError
    from hil.probe import flash
    from hil.runners import Choice
    from hil.runners.pyocd import reached

    board = require_probe(load_board(args.board))
    with (
        reached(board, Choice(args.probe)) as chosen,
        flash.connected(board, chosen.uid, connect_mode="attach") as session,
    ):
        session.target.reset()
        time.sleep(_RESET_LOOK_S)
        state = session.target.get_state()
        if state is session.target.State.LOCKUP:
            raise DeviceError(
                f"{board.name} locked up after the reset: it has no valid image",
                f"program one: hil flash MODEL --board {board.name}",
            )
    name = state.name.lower()
    console.result(
        {"board": board.name, "probe": chosen.uid, "state": name},
        f"{board.name}: reset, {name}",
    )
    return 0


COMMAND = Command("Restart a board through its debug probe.", add_options, run)
