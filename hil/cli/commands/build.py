"""``hil build``: build a firmware project with its ELF."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    add_board,
    add_code_options,
    add_compile_options,
    add_force,
    add_mlperf_options,
    add_models,
)
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="the project's folder; with several boards, the parent of one folder per board",
    )
    add_force(parser)
    parser.has_reports = True
    parser.add_argument("--sizes", action="store_true", help="show each section and its owner")
    add_mlperf_options(parser, "--mlperf", None)
    add_board(parser, several=True)
    add_code_options(parser)
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Build a firmware project with its ELF."""
    # Not at the top: it loads the compiler.
    from hil.cli.actions.build import BUILD
    from hil.cli.on_boards import run_on_boards

    return run_on_boards(args, console, BUILD)


COMMAND = Command("Build a firmware project and its ELF; report the sizes.", add_options, run)
