"""``hil build``: build a firmware."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hil.cli.commands.mlperf_options import mlperf_of
from hil.cli.commands.options import board_of, compiled_for
from hil.cli.console import Console
from hil.cli.reports import Outcome
from hil.firmware.build import build, check_project


def build_command(args: argparse.Namespace, console: Console) -> int:
    """Build a firmware project with its ELF."""
    start = time.monotonic()
    output = Path(args.output) if args.output else None
    if output is not None:
        check_project(args.output, force=args.force)
    board = board_of(args)
    libraries = compiled_for(args, board, console)
    firmware = build(
        libraries,
        board,
        output,
        workspace=args.workspace,
        force=args.force,
        mlperf=mlperf_of(args, libraries),
    )
    entry = firmware.entry(seconds=round(time.monotonic() - start, 3))
    console.outcome(Outcome("build", board.name, [firmware], [entry], in_detail=args.sizes))
    return 0
