"""What ``hil bench`` does, and the measurements of ``compare`` and ``gate``."""

from __future__ import annotations

import argparse
from dataclasses import replace

from hil.cli.arguments import allowed_fallback
from hil.cli.console import Console
from hil.cli.on_boards import BoardCommand
from hil.cli.outcomes import outcome_with, split_sources
from hil.cli.reports import Outcome
from hil.cli.running import ConsoleRun, job_options
from hil.jobs.bench import BenchJob
from hil.jobs.matrix import JobOutcome
from hil.verify.bench import BenchReport
from hil.verify.provenance import command_text


def measured(
    args: argparse.Namespace, console: Console, *, is_gate: bool = False
) -> list[BenchReport]:
    """Return the measurements of the models that ``compare`` or ``gate`` names.

    A gate compares with this compiler's own interpreter only where it is allowed to.
    """
    job = bench_job(args)
    if is_gate:
        job = replace(job, allow_fallback=args.allow_fallback)
    return job.run(ConsoleRun(console))


def bench_job(args: argparse.Namespace) -> BenchJob:
    """Return the job that the arguments state."""
    model = split_sources(args)
    return BenchJob(
        args.models,
        board=args.board,
        runs=args.runs,
        warmup=args.warmup,
        seed=args.seed,
        sample=args.inputs or None,
        quantize=args.quantize_inputs,
        energy=args.energy or None,
        cycles=args.cycles,
        memory_models=args.memory_models,
        check=not args.no_check,
        source=model,
        allow_fallback=allowed_fallback(args),
        name=args.name,
        options=job_options(args),
        command=command_text(["hil", *args.words]),
    )


def _outcome(args: argparse.Namespace, board: str, found: JobOutcome) -> Outcome:
    return outcome_with(args, "bench", board, found.results)


BENCH = BoardCommand("bench", bench_job, _outcome, "bench")
