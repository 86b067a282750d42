"""``hil fit``: say which boards hold a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by, cores
from hil.cli.options import BOARD, add_compile_options, add_force, add_models
from hil.cli.parser import Parser, byte_count

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser, several="each is looked at alone")
    parser.add_argument(
        "-o", "--output", metavar="OUT.html", help="write the answer as a page, too"
    )
    add_force(parser)
    group = parser.add_argument_group("boards")
    completed_by(
        group.add_argument(
            "--board",
            dest="boards",
            action="append",
            default=[],
            metavar="B",
            help=f"{BOARD}, with every goal; may be repeated (default: all, with the first goal "
            "that fits)",
        ),
        boards,
    )
    completed_by(
        group.add_argument("--cpu", metavar="CPU", help="core of a chip that is no board"), cores
    )
    group.add_argument("--ram", type=byte_count, metavar="BYTES", help="RAM of that chip")
    group.add_argument("--flash", type=byte_count, metavar="BYTES", help="flash of that chip")
    looked_for = ("optimize", "ram", "flash", "memory", "tuning", "pins", "cpu", "pools")
    add_compile_options(parser, without=(*looked_for, "reference"))


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.fit import fit_command

    return fit_command(args, console)


COMMAND = Command(
    "Say which boards hold a model, with which goal, and why others do not. Builds nothing.",
    add_options,
    run,
)
