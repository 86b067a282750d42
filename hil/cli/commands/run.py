"""``hil run``: run one inference of each model of an image, or start other firmware."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    add_device_options,
    add_force,
    add_models,
    add_quantize_inputs,
    add_seed,
    add_transcript,
)
from hil.cli.parser import Parser, positive_float, usage_error

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser, least=0)
    console = parser.add_argument_group(
        "own firmware", "Start firmware that hil did not build, and show what it prints."
    )
    console.add_argument("--elf", metavar="F.elf", help="the ELF file of the firmware")
    console.add_argument(
        "--timeout", type=positive_float, metavar="S", help="stop after S seconds (default: Ctrl-C)"
    )
    console.add_argument(
        "--expect",
        metavar="REGEX",
        help="stop at a line that contains this regular expression; exit code 1 without one",
    )
    console.add_argument(
        "--coverage",
        metavar="DIR",
        help="write the counters of gcov that the firmware prints with hil_gcov.h below DIR, and "
        "stop; exit code 1 if they do not arrive whole",
    )
    add_transcript(console)
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
    if args.elf is not None:
        from hil.cli.actions.run_elf import run_elf_command

        return run_elf_command(args, console)
    if not args.models:
        raise usage_error(
            "the following arguments are required: MODEL", "give a model, or --elf F.elf"
        )
    for option in ("timeout", "expect", "coverage", "timestamps", "log"):
        if getattr(args, option):
            raise usage_error(f"--{option} is for --elf", "drop it, or give --elf F.elf")
    from hil.cli.actions.run import run_command

    return run_command(args, console)


COMMAND = Command(
    "Run one inference, or firmware of your own.",
    add_options,
    run,
)
