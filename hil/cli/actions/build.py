"""What ``hil build`` does for each board."""

from __future__ import annotations

import argparse
from functools import partial

from hil.cli.mlperf_arguments import mlperf_of
from hil.cli.on_boards import BoardCommand
from hil.cli.reports import Outcome
from hil.cli.running import job_options
from hil.errors import InputError
from hil.jobs.build import BuildJob
from hil.jobs.matrix import JobOutcome
from hil.lab.selector import parse_selector


def build_job(args: argparse.Namespace) -> BuildJob:
    """Return the job that the arguments state; raise for a board of a lab, which a build does not
    need.
    """
    if isinstance(args.board, str) and parse_selector(args.board) is not None:
        raise InputError(
            "hil build does not take a lab selector",
            "name the board's description, or use hil run, verify or bench",
        )
    return BuildJob(
        args.models,
        board=args.board,
        output=args.output or None,
        force=args.force,
        mlperf=partial(mlperf_of, args),
        name=args.name,
        options=job_options(args),
    )


def _outcome(args: argparse.Namespace, board: str, found: JobOutcome) -> Outcome:
    entries = [firmware.entry(seconds=round(found.seconds, 3)) for firmware in found.results]
    return Outcome("build", board, found.results, entries, in_detail=args.sizes)


BUILD = BoardCommand("build", build_job, _outcome)
