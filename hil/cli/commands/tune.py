"""``hil tune``: measure kernels and whole programs on a board, as a log for the compiler."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_check, add_device_options, add_force, add_models, add_seed
from hil.cli.parser import Parser, natural_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "-o", "--output", metavar="F.json", help="the log (default: MODEL.tuning.json)"
    )
    parser.add_argument(
        "--programs",
        type=natural_int,
        default=4,
        metavar="N",
        help="whole programs to measure for each goal, or the one of --optimize, at most "
        "(default: 4; 0: single layers only)",
    )
    add_check(parser)
    add_force(parser)
    add_seed(parser)
    add_device_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.tune import tune_command

    return tune_command(args, console)


COMMAND = Command(
    "Measure all kernels of a model's layers, then whole programs; write a log for --tuning.",
    add_options,
    run,
)
