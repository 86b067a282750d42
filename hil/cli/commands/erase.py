"""``hil erase``: erase all flash of a board."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_erase_to_unlock, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_probe(parser)
    add_erase_to_unlock(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Erase the whole flash of a board."""
    # Not at the top: it loads the compiler.
    from hil.board import load_board
    from hil.cli.images import require_probe
    from hil.probe import flash
    from hil.runners import Choice
    from hil.runners.pyocd import reached

    board = require_probe(load_board(args.board))
    start = time.monotonic()
    with (
        reached(board, Choice(args.probe)) as chosen,
        flash.connected(board, chosen.uid, erase_to_unlock=args.erase_to_unlock) as session,
    ):
        regions = flash.erase(session)
    seconds = time.monotonic() - start
    nbytes = sum(size for _, size in regions)
    places = ", ".join(f"{start:#010x} to {start + size - 1:#010x}" for start, size in regions)
    console.result(
        {
            "board": board.name,
            "probe": chosen.uid,
            "bytes": nbytes,
            "regions": [{"origin": start, "size": size} for start, size in regions],
            "seconds": round(seconds, 3),
        },
        f"{board.name}: erased {nbytes:,} bytes of flash in {seconds:.1f} s: {places}",
    )
    return 0


COMMAND = Command(
    "Erase all flash of a board, with its configuration registers.",
    add_options,
    run,
)
