"""``hil run``: run one inference of each model of an image."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import add_device_options, add_force, add_models, add_quantize_inputs, add_seed
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=F.npy",
        help="the values of an input; other inputs are random, from --seed",
    )
    add_quantize_inputs(parser)
    parser.add_argument("-o", "--output", metavar="OUT.npz", help="write the outputs here")
    add_force(parser)
    add_seed(parser)
    add_device_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.run import run_command

    return run_command(args, console)


COMMAND = Command(
    "Run one inference.",
    add_options,
    run,
)
