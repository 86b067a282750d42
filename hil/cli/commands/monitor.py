"""``hil monitor``: show a board's logs, faults and console."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_device_options, add_transcript
from hil.cli.parser import Parser, positive_float, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument("models", nargs="*", metavar="MODEL", help="as for build")
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")
    parser.add_argument(
        "--baud",
        type=positive_int,
        metavar="N",
        help="baud rate of the --port (default: the board's, or 115200)",
    )
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="wait for a --port that is unplugged, and open it again, whatever its new name",
    )
    add_transcript(parser)
    add_device_options(parser, required=False, lab=False)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.monitor import monitor_command

    return monitor_command(args, console)


COMMAND = Command(
    "Show a board's logs, faults and console.",
    add_options,
    run,
)
