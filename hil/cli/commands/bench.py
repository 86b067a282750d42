"""``hil bench``: count what an inference costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    add_device_options,
    add_measuring_options,
    add_models,
    add_recording,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.has_reports = True
    add_recording(parser)
    parser.add_argument("--per-layer", action="store_true", help="show each layer")
    parser.add_argument(
        "--limit",
        action="store_true",
        help="show each layer with the instructions that the core cannot go below, and the ratio",
    )
    add_measuring_options(parser)
    add_device_options(parser, several=True, source=LIBRARY_MODEL)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.bench import BENCH
    from hil.cli.on_boards import run_on_boards

    return run_on_boards(args, console, BENCH)


COMMAND = Command(
    "Count instructions or cycles; report sizes and memory.",
    add_options,
    run,
)
