"""``hil mlperf``: MLPerf Tiny's performance and accuracy of a model on a board."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    add_check,
    add_data_options,
    add_device_options,
    add_force,
    add_mlperf_options,
    add_models,
)
from hil.cli.parser import Parser, natural_int, positive_float, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="a data set: a folder with y_labels.csv, or as for hil evaluate (default: random "
        "inputs, and no accuracy)",
    )
    parser.add_argument(
        "--mode",
        action="append",
        choices=("performance", "accuracy"),
        help="run only this; may be repeated (default: all that the data permits)",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="write results/ and systems/ of a submission here"
    )
    add_force(parser)
    parser.add_argument(
        "--windows", type=positive_int, default=5, metavar="N", help="windows (default: 5)"
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=10.0,
        metavar="S",
        help="length of a window by the device's clock (default: 10)",
    )
    parser.add_argument(
        "--iterations",
        type=positive_int,
        metavar="N",
        help="inferences per window, instead of a length",
    )
    parser.add_argument(
        "--warmups",
        type=natural_int,
        default=1,
        metavar="N",
        help="inferences before each window (default: 1)",
    )
    add_check(parser)
    add_mlperf_options(parser, "--benchmark", "auto")
    add_data_options(parser)
    add_device_options(parser, source=LIBRARY_MODEL)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.mlperf import mlperf_command

    return mlperf_command(args, console)


COMMAND = Command(
    "Run MLPerf Tiny's performance and accuracy; write a submission's files.",
    add_options,
    run,
)
