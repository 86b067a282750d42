"""``hil gate``: fail where a measurement exceeds the limits beside its baseline."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.options import (
    LIBRARY_MODEL,
    MEASUREMENTS,
    add_device_options,
    add_measuring_options,
    add_recording,
)
from hil.cli.parser import Parser, limit

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "current",
        nargs="?",
        metavar="CURRENT",
        help=f"{MEASUREMENTS} (default: the newest of the baseline's model and board in the "
        "history)",
    )
    parser.add_argument(
        "--baseline",
        required=True,
        metavar="BASELINE",
        help="a .json file of `hil bench --json`, an id of `hil history`, or a commit in it",
    )
    limits = parser.add_argument_group("limits")
    for name, what in (
        ("slower", "instructions or cycles"),
        ("ram", "static RAM of the firmware"),
        ("flash", "flash of the firmware"),
        ("workspace", "workspace of the model"),
        ("stack", "the stack's peak"),
        ("energy", "energy of an inference in uJ"),
    ):
        limits.add_argument(
            f"--max-{name}",
            type=limit,
            metavar="LIMIT",
            help=f"{what}: at most so much more than the baseline, as 2%% of it or as a number",
        )
    parser.add_argument(
        "--allow-other-model",
        action="store_true",
        help="accept a baseline of another model file or of other inputs",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="accept that CURRENT, a file or a commit, lacks some models, boards or goals of the "
        "baseline",
    )
    add_recording(parser)
    add_measuring_options(parser)
    add_device_options(parser, required=False, source=LIBRARY_MODEL)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; return its exit code."""
    from hil.cli.actions.gate import gate_command

    return gate_command(args, console)


COMMAND = Command(
    "Fail (exit code 1) where a measurement exceeds its baseline by more than the limits.",
    add_options,
    run,
)
