"""``hil help``: describe the program, or one of its commands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument("help_of", nargs="*", metavar="COMMAND", help="such as: verify, lab serve")
    parser.add_argument("--help-all", action="store_true", help="show all options of the command")


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the text of ``hil COMMAND --help`` or ``--help-all``, also as JSON."""
    from hil.cli import show_help

    return show_help(args.help_of, console, "--help-all" if args.help_all else "--help")


COMMAND = Command(
    "Describe this program, or one of its commands.",
    add_options,
    run,
    uses_plugins=False,
)
