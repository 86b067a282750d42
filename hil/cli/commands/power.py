"""``hil power``: switch a board's supply by its configured switch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import BOARD, add_port, add_probe
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "action",
        choices=("on", "off", "cycle"),
        metavar="on|off|cycle",
        help="cycle: off, and on after a pause",
    )
    completed_by(parser.add_argument("--board", required=True, metavar="B", help=BOARD), boards)
    add_probe(parser)
    add_port(parser, "the board's port, which is locked while its supply is switched")


def run(args: argparse.Namespace, console: Console) -> int:
    """Switch the board's supply; report its state."""
    # Not at the top: it loads the compiler.
    from hil.access.board_lock import board_lock
    from hil.access.probes import lock_names
    from hil.board import load_board
    from hil.board.config import configured
    from hil.device.power import power_of_board
    from hil.errors import InputError
    from hil.results.boards import PowerEntry

    board = load_board(args.board)
    power = power_of_board(board)
    if power is None:
        raise InputError(
            f"no power switch is stated for {args.board}",
            "state it in hil-bench.toml or config.toml; see docs/how-to/bench.md",
        )
    name = power.switch.board
    chosen = {} if board.unit is not None else configured(board.name)
    names = lock_names(args.probe or chosen.get("probe"), args.port or chosen.get("port"))
    with board_lock(f"the board {name}", *names, wait_s=args.wait or 0.0):
        if args.action == "cycle":
            power.cycle()
        else:
            power.turn(args.action == "on")
    is_on = args.action != "off"
    console.result(
        PowerEntry(name, is_on, args.action == "cycle"),
        f"{name}: " + ("off and on again" if args.action == "cycle" else args.action),
    )
    return 0


COMMAND = Command("Switch a board's supply on or off.", add_options, run)
