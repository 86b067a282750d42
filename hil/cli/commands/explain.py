"""``hil explain``: print a model's memory plan, or draw it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_board, add_compile_options, add_force, add_models
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a picture (.svg, .png or .pdf)"
    )
    parser.add_argument(
        "--frontier",
        action="store_true",
        help="list the programs to choose from instead, each with its goal (--optimize) or limit "
        "(--ram, --flash); with --output draw them",
    )
    add_force(parser)
    add_board(parser)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.explain import explain_command

    return explain_command(args, console)


COMMAND = Command(
    "Print a model's memory plan, or draw it.",
    add_options,
    run,
)
