"""``hil erase``: erase all flash of a board."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_erase_to_unlock, add_flasher, add_port, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_flasher(parser)
    add_probe(parser)
    add_port(parser, "the board's port, for a flasher that uses no probe")
    add_erase_to_unlock(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Erase the whole flash of a board."""
    # Not at the top: it loads the compiler.
    from hil.access import Connection, chosen_flasher, flashers, flashers_for, require
    from hil.board import load_board
    from hil.cli.images import flasher_session
    from hil.results.boards import ErasedRegion, EraseEntry

    board, flasher = chosen_flasher(load_board(args.board), args.flasher)
    require(flasher, "erase", {name: flashers()[name] for name in flashers_for(board)})
    connection = Connection(
        args.probe,
        args.port,
        appear_s=args.wait or 0.0,
        erase_to_unlock=args.erase_to_unlock,
    )
    start = time.monotonic()
    with flasher_session(flasher, board, connection) as (uid, session):
        regions = session.erase()
    seconds = time.monotonic() - start
    nbytes = sum(size for _, size in regions)
    places = ", ".join(f"{start:#010x} to {start + size - 1:#010x}" for start, size in regions)
    console.result(
        EraseEntry(
            board=board.name,
            probe=uid,
            bytes=nbytes,
            regions=tuple(ErasedRegion(start, size) for start, size in regions),
            seconds=round(seconds, 3),
        ),
        f"{board.name}: erased {nbytes:,} bytes of flash in {seconds:.1f} s: {places}",
    )
    return 0


COMMAND = Command(
    "Erase all flash of a board, with its configuration registers.",
    add_options,
    run,
)
