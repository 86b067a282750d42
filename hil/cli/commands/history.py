"""``hil history``: list recorded results."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_history
from hil.cli.parser import Parser, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_history(parser)
    parser.add_argument(
        "--kind", choices=("verify", "bench", "evaluate"), help="only of this command"
    )
    parser.add_argument("--model", dest="of_model", metavar="NAME", help="only of this model")
    parser.add_argument("--board", dest="of_board", metavar="NAME", help="only on this board")
    parser.add_argument(
        "--commit", metavar="C", help="only of this commit: its beginning, or a name that git knows"
    )
    parser.add_argument("--last", type=positive_int, metavar="N", help="only so many of the newest")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.history import history_command

    return history_command(args, console)


COMMAND = Command(
    "List recorded results, the newest last.",
    add_options,
    run,
)
