"""``hil compare``: show two measurements side by side."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    MEASUREMENTS,
    add_device_options,
    add_measuring_options,
    add_recording,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument("a", metavar="A", help=MEASUREMENTS)
    parser.add_argument("b", metavar="B", help="the same")
    add_recording(parser)
    add_measuring_options(parser)
    add_device_options(parser, required=False, source=LIBRARY_MODEL)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.compare import compare_command

    return compare_command(args, console)


COMMAND = Command(
    "Show two measurements side by side, layer by layer.",
    add_options,
    run,
)
