"""``hil evaluate``: take a model's accuracy over a labelled data set, on a board."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    add_allow_fallback,
    add_data_options,
    add_device_options,
    add_force,
    add_models,
    add_recording,
)
from hil.cli.parser import Parser, positive_int

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help="an NPZ, NPY or CSV file, or a folder with one subfolder of NPY files or pictures for "
        "each class",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="accuracy (default), topK such as top5, auc, f1, mae or rmse; may be repeated",
    )
    for option, what in (("--min", "less"), ("--max", "more")):
        parser.add_argument(
            option,
            dest=f"{option[2:]}_limits",
            action="append",
            default=[],
            metavar="[NAME=]VALUE",
            help=f"exit with 1 if the device has {what} than this in a metric (the first one, or "
            "NAME); may be repeated",
        )
    parser.add_argument(
        "--score",
        choices=("outputs", "reconstruction"),
        default="outputs",
        help="the evaluated values: an output of the model (default), or an "
        "autoencoder's mean squared error against its input",
    )
    parser.add_argument(
        "--output-tensor",
        metavar="NAME",
        help="the output that is evaluated (default: the first); one integer without a scale is "
        "the number of a class, as classifiers of scikit-learn give it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="F.json",
        help="write the result here; an interrupted evaluation continues from F.json.journal "
        "(default: in the cache)",
    )
    add_force(parser)
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start again instead of continuing an interrupted evaluation",
    )
    parser.add_argument(
        "--jobs",
        type=positive_int,
        default=1,
        metavar="N",
        help="share the samples between N emulators, or boards of the bench or of a lab that "
        "--board selects by properties (default: 1)",
    )
    parser.add_argument(
        "--reference",
        metavar="NAME",
        help="the reference to compare with, as for hil verify",
    )
    add_allow_fallback(parser)
    add_recording(parser)
    add_data_options(parser)
    add_device_options(
        parser,
        source=LIBRARY_MODEL,
        compares=True,
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.evaluate import evaluate_command

    return evaluate_command(args, console)


COMMAND = Command(
    "Measure the accuracy of a model on a board, and of its reference, over labelled data.",
    add_options,
    run,
)
