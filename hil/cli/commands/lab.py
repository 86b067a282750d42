"""``hil lab``: boards on other machines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command, CommandGroup
from hil.cli.options import add_history
from hil.cli.parser import Parser, positive_float

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_list_options(parser: Parser) -> None:
    """Add the options of ``hil lab list``."""
    parser.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only matching places")


def run_list(args: argparse.Namespace, console: Console) -> int:
    """Run ``hil lab list``; return its exit code."""
    from hil.cli.actions.lab import list_command

    return list_command(args, console)


def add_watch_options(parser: Parser) -> None:
    """Add the options of ``hil lab watch``."""
    parser.add_argument("filter", nargs="?", metavar="TAG=VALUE,...", help="only matching places")
    parser.add_argument(
        "--once",
        action="store_true",
        help="print the list once and exit (default if stdout is not a terminal)",
    )
    parser.add_argument(
        "--interval",
        type=positive_float,
        default=2.0,
        metavar="S",
        help="seconds between updates (default: 2)",
    )
    add_history(parser)


def run_watch(args: argparse.Namespace, console: Console) -> int:
    """Run ``hil lab watch``; return its exit code."""
    from hil.cli.actions.lab_watch import watch_command

    return watch_command(args, console)


def add_serve_options(parser: Parser) -> None:
    """Add the options of ``hil lab serve``."""
    parser.add_argument(
        "boards",
        nargs="+",
        metavar="[PLACE=]BOARD[@PROBE]",
        help="a board of `hil boards` or a file; @PROBE gives the probe's uid",
    )
    parser.add_argument(
        "--coordinator", metavar="HOST:PORT", help="the lab's coordinator (default: start one)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="NAME", help="this machine's address for clients"
    )
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="stop after S seconds")


def run_serve(args: argparse.Namespace, console: Console) -> int:
    """Run ``hil lab serve``; return its exit code."""
    from hil.cli.actions.lab import serve_command

    return serve_command(args, console)


def add_reap_options(parser: Parser) -> None:
    """Add the options of ``hil lab reap``."""
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="watch for S seconds")


def run_reap(args: argparse.Namespace, console: Console) -> int:
    """Run ``hil lab reap``; return its exit code."""
    from hil.cli.actions.lab import reap_command

    return reap_command(args, console)


COMMAND = CommandGroup(
    "Boards on other machines, through labgrid's coordinator (LG_COORDINATOR).",
    {
        "list": Command(
            "List the places, their boards and who uses them.", add_list_options, run_list
        ),
        "watch": Command(
            "Show the places, their users and last results until Ctrl-C.",
            add_watch_options,
            run_watch,
        ),
        "serve": Command(
            "Offer boards of this machine to a lab until interrupted.", add_serve_options, run_serve
        ),
        "reap": Command("Release places whose users are gone.", add_reap_options, run_reap),
    },
)
