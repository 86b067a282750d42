"""``hil mcp``: offer the commands as tools of the Model Context Protocol."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.parser import Parser, positive_float

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="B",
        help="a real board that tools may program, erase and reset, as --board names it, `native`, "
        "or a description in the working folder; may be repeated (default: emulated boards that "
        "ship or are in the user's folder)",
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="take archives too: their C code is compiled on this machine, where it can include "
        "any file that you can read (default: model files alone)",
    )
    parser.add_argument(
        "--timeout",
        type=positive_float,
        default=600.0,
        metavar="S",
        help="time limit of a tool in seconds (default: 600)",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.mcp import mcp_command

    return mcp_command(args, console)


COMMAND = Command(
    "Serve the commands to an agent (Model Context Protocol).",
    add_options,
    run,
    answers=False,
)
