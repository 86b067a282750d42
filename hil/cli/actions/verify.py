"""What ``hil verify`` does on a board."""

from __future__ import annotations

import argparse

from hil.cli.actions.against import against_command
from hil.cli.arguments import allowed_fallback
from hil.cli.console import Console
from hil.cli.on_boards import BoardCommand, run_on_boards
from hil.cli.outcomes import outcome_with, split_sources
from hil.cli.reports import Outcome
from hil.cli.running import job_options
from hil.errors import InputError, UsageError
from hil.jobs.matrix import JobOutcome
from hil.jobs.verify import VerifyJob
from hil.verify.provenance import command_text


def verify_command(args: argparse.Namespace, console: Console) -> int:
    """Compare each model of the image, or firmware that taps its layers, with the reference.

    Raise :class:`UsageError` without ``--board`` or ``--against``.
    """
    if args.against:
        return against_command(args, console)
    for option, value in (("--baud", args.baud), ("--checksums", args.checksums)):
        if value:
            raise UsageError(f"{option} is given without --against", f"drop {option}")
    if not args.on_boards:
        raise UsageError(
            "neither --board nor --against is given",
            "name a board (hil boards lists them), or the port of firmware that taps its layers",
        )
    return run_on_boards(args, console, VERIFY)


def verify_job(args: argparse.Namespace) -> VerifyJob:
    """Return the job that the arguments state."""
    if args.expect and not args.inputs:
        raise InputError("--expect is given without --inputs", "add --inputs F.npz")
    model = split_sources(args)
    return VerifyJob(
        args.models,
        args.inputs or args.samples,
        board=args.board,
        reference=args.reference or None,
        expect=args.expect or None,
        seed=args.seed,
        quantize=args.quantize_inputs,
        per_layer=args.per_layer,
        keep_state=args.keep_state,
        source=model,
        metrics=args.metrics,
        float_model=args.float_model or None,
        allow_fallback=allowed_fallback(args),
        first=args.samples if args.inputs else None,
        name=args.name,
        options=job_options(args),
        command=command_text(["hil", *args.words]),
    )


def _outcome(args: argparse.Namespace, board: str, found: JobOutcome) -> Outcome:
    return outcome_with(args, "verify", board, found.results)


VERIFY = BoardCommand("verify", verify_job, _outcome, "verify")
