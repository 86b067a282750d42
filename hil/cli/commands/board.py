"""``hil board``: descriptions of boards."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hil.cli.command import Command, CommandGroup
from hil.cli.completing import boards, completed_by
from hil.cli.options import (
    BOARD,
    add_bench_file,
    add_cpu,
    add_device_options,
    add_force,
    add_port,
)
from hil.cli.parser import Parser, explain_flags_of

if TYPE_CHECKING:
    from hil.cli.console import Console


def add_new_options(parser: Parser) -> None:
    """Add the options of ``hil board new``."""
    parser.add_argument("name", metavar="NAME", help="the name of the board and of its file")
    parser.add_argument("-o", "--output", metavar="FILE.toml", help="default: ./NAME.toml")
    parser.add_argument("--force", action="store_true", help="replace the file")
    parser.renamed["--from"] = "--base"
    parser.add_argument("--base", metavar="BOARD", help="copy from this description")
    parser.add_argument(
        "--flasher",
        metavar="NAME[:KEY=VALUE]",
        help="the flasher, with settings that select a chip that it describes",
    )
    parser.add_argument("--description", metavar="TEXT", help="maker, board and core in one line")
    add_cpu(parser, "the core")
    parser.add_argument("--clock-hz", metavar="HZ", help="the core's clock after reset")
    for kind in ("flash", "ram"):
        parser.add_argument(
            f"--{kind}",
            action="append",
            metavar="[NAME=]ORIGIN:SIZE",
            help=f"a {kind} region such as 0x20000000:64K; may be repeated, in order of preference",
        )
    for role in ("soc", "timer", "uart"):
        parser.add_argument(
            f"--{role}", metavar="PORT[,KEY=N]...", help=f"the {role}'s port and its settings"
        )
    parser.add_argument("--qemu", metavar="MACHINE", help="QEMU's machine that emulates the board")


def _former_option(flag: str) -> Exception | None:
    """Return the error of ``--NAME-KEY``, the form of a flasher's setting before 0.2."""
    from hil.access import flashers
    from hil.cli.parser import usage_error

    name, _, key = flag.removeprefix("--").partition("-")
    flasher = flashers().get(name)
    if flasher is None or key not in flasher.settings:
        return None
    return usage_error(
        f"{flag} is the form of a release before 0.2", f"write --flasher {name}:{key}=VALUE"
    )


explain_flags_of("board new", _former_option)


def new(args: argparse.Namespace, console: Console) -> int:
    """Write a board description; return the exit code."""
    from hil.cli.actions.board_new import new_command

    return new_command(args, console)


def add_identify_options(parser: Parser) -> None:
    """Add the options of ``hil board identify``."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="the name of one board on the bench (default: add all that are recognized)",
    )
    completed_by(parser.add_argument("--board", metavar="B", help=BOARD), boards)
    parser.add_argument("--probe", metavar="UID", help="the unique id of its probe")
    add_port(parser, "its serial port")
    add_bench_file(parser)


def identify(args: argparse.Namespace, console: Console) -> int:
    """Add connected boards to the bench file; return the exit code."""
    from hil.cli.actions.connected import identify_command

    return identify_command(args, console)


def add_prove_options(parser: Parser) -> None:
    """Add the options of ``hil board prove``."""
    completed_by(parser.add_argument("name", nargs="?", metavar="B", help=BOARD), boards)
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        dest="models",
        metavar="MODEL",
        help="a further model that is compared, as for build; may be repeated",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", help="the file of the result (default: B.json)"
    )
    add_force(parser)
    parser.add_argument(
        "--energy",
        metavar="METER[:ARGUMENT]",
        help="record the energy of an inference, as for hil bench",
    )
    add_device_options(parser, required=False)


def prove(args: argparse.Namespace, console: Console) -> int:
    """Check a board; return the exit code."""
    from hil.cli.actions.board_prove import prove_command
    from hil.cli.each_board import board_of_bench

    if args.name is not None and args.board is None:
        args.board, args.name = args.name, None
    with board_of_bench(args, console):
        return prove_command(args, console)


COMMAND = CommandGroup(
    "Descriptions of boards, the boards of a bench, and what is proven of boards.",
    {
        "new": Command("Write a board description from options or answers.", add_new_options, new),
        "identify": Command(
            "Add connected boards to the bench file.", add_identify_options, identify
        ),
        "prove": Command(
            "Check a board: identity, link, exact results, timer, faults.", add_prove_options, prove
        ),
    },
)
