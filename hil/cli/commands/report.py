"""``hil report``: measure models on boards, or take stored results; write one HTML page."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    SAMPLES,
    add_device_options,
    add_force,
    add_measuring_options,
    add_models,
    add_recording,
)
from hil.cli.parser import Parser, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser, least=0, several="each of several models is built into its own image")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.html", help="the page")
    add_force(parser)
    parser.add_argument(
        "--from",
        dest="stored",
        action="append",
        default=[],
        metavar="F.json",
        help="also show these results: JSON that report, verify, bench, build, evaluate or "
        "explain wrote with --json; may be repeated",
    )
    parser.add_argument("--results", metavar="F.json", help="store the measurements, for --from")
    parser.add_argument("--title", metavar="TEXT", help="the page's title")
    parser.add_argument(
        "--samples", type=positive_int, metavar="N", help=f"number of samples (default: {SAMPLES})"
    )
    parser.add_argument("--reference", metavar="NAME", help="as for verify")
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="show the error of each tensor against the reference: RMSE, MAE, cosine, SNR and "
        "others",
    )
    parser.add_argument(
        "--float-model",
        metavar="F",
        help="also show the error against the float model that the only model was quantized from",
    )
    add_recording(parser)
    add_measuring_options(parser, "samples; the first is measured: one array per input, by name")
    add_device_options(
        parser, several=True, required=False, compares=True, boards_are="report_boards"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.report import report_command

    return report_command(args, console)


COMMAND = Command(
    "Verify and measure models on boards, or take stored results; write one HTML page.",
    add_options,
    run,
)
