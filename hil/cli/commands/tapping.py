"""``hil verify --against``: compare firmware of other people by its tap points."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace

from hil.cli.commands.options import compile_options, compiled
from hil.cli.console import Console, several
from hil.cli.reports import Outcome
from hil.errors import InputError
from hil.link.line import Link, check_port
from hil.verify.against import verify_tapped
from hil.verify.oracle import reference_of


def against_command(args: argparse.Namespace, console: Console) -> int:
    """Compare each layer that a firmware taps with the reference of the model's file."""
    _check(args)
    check_port(args.against)
    # Each layer by itself, whole: as other runtimes compute them.
    options = replace(
        compile_options(args, None, for_firmware=False),
        cpu="host",
        optimize="speed",
        fold_constant_channels=False,
    )
    libraries = compiled(args, options, console)
    modules = [(library, module) for library in libraries for module in library.modules]
    if len(modules) != 1:
        raise InputError(
            f"--against compares one model, and {len(modules)} are given", "compare them one by one"
        )
    ((library, module),) = modules
    oracle = reference_of(library, module, args.reference)
    with closing(Link(args.against, baudrate=args.baud)) as link:
        report = verify_tapped(link, module, oracle, args.samples or 1, checksums=args.checksums)
    code = 0 if report.match else 1
    data = several([report.to_json()])
    console.outcome(Outcome("verify", args.against, [report], data, code, in_detail=True))
    return code


def _check(args: argparse.Namespace) -> None:
    """Raise for options of boards: nothing is built, and the firmware has its own inputs."""
    given = {
        "--board": args.on_boards,
        "--inputs": args.inputs,
        "--expect": args.expect,
        "--keep-state": args.keep_state,
        "--runner": args.runner,
        "--port": args.port,
        "--probe": args.probe,
    }
    for option, value in given.items():
        if value:
            raise InputError(
                f"{option} does not apply to --against, where the firmware runs by itself with "
                "inputs of its own",
                f"drop {option}",
            )
