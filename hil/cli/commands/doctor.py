"""``hil doctor``: check tools, probes and ports."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    completed_by(
        parser.add_argument("--board", metavar="B", help="also check what this board needs"), boards
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.doctor import doctor_command

    return doctor_command(args, console)


COMMAND = Command(
    "Check tools, probes and ports; print remedies for what is missing.",
    add_options,
    run,
    uses_plugins=False,
)
