"""``hil reset``: restart a board through its flasher, or by the outputs of its serial port."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_flasher, add_port, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.board import Board
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_flasher(parser)
    add_probe(parser)
    add_port(parser, "the board's port, for a flasher that uses no probe or a reset by DTR and RTS")
    parser.add_argument(
        "--boot-loader",
        action="store_true",
        help="start the chip's boot loader by DTR and RTS of the port",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Reset a board through its flasher, or by the outputs of its port; report its state."""
    # Not at the top: it loads the compiler.
    from hil.access import Connection, chosen_flasher
    from hil.board import load_board
    from hil.cli.images import flasher_session
    from hil.results.boards import ResetEntry

    described = load_board(args.board)
    by_port = args.port is not None and args.probe is None and args.flasher is None
    if args.boot_loader or (by_port and described.line.reset):
        return _over_line(args, described, console)
    board, flasher = chosen_flasher(described, args.flasher)
    connection = Connection(args.probe, args.port, appear_s=args.wait or 0.0)
    with flasher_session(flasher, board, connection, attach=True) as (uid, session):
        state = session.reset()
    console.result(
        ResetEntry(board.name, uid, state),
        f"{board.name}: reset, {state}",
    )
    return 0


def _over_line(args: argparse.Namespace, board: Board, console: Console) -> int:
    """Drive DTR and RTS of the port by the board's sequence."""
    from hil.access.board_lock import board_lock
    from hil.access.probes import lock_names
    from hil.errors import InputError
    from hil.link.line import await_port, drive_line
    from hil.results.boards import ResetEntry

    key = "boot" if args.boot_loader else "reset"
    sequence = board.line.boot if args.boot_loader else board.line.reset
    if not sequence:
        raise InputError(
            f"the description of {board.name} has no sequence that starts its boot loader",
            f'add it: [line] {key} = "esp", "arduino" or steps such as "D0|R1|W0.1|R0"',
        )
    if args.port is None:
        raise InputError("--boot-loader drives DTR and RTS of a port, and none is given", "--port")
    wait_s = args.wait or 0.0
    await_port(args.port, wait_s)
    names = lock_names(None, args.port)
    with board_lock(f"the board at {args.port}", *names, wait_s=wait_s):
        drive_line(args.port, board.line, sequence)
    state = "boot loader" if args.boot_loader else "running"
    console.result(
        ResetEntry(board.name, args.port, state), f"{board.name}: reset by DTR and RTS, {state}"
    )
    return 0


COMMAND = Command("Restart a board through its flasher or its serial port.", add_options, run)
