"""What ``hil bench`` does, and the measurements of ``compare`` and ``gate``."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace

from hil.access import Connection, is_machine
from hil.access.verilator import memory_models
from hil.board import Board
from hil.cli.arguments import allowed_fallback, checked_board, compiled_for, opened
from hil.cli.console import Console
from hil.cli.outcomes import keeping, outcome_with, split_sources
from hil.cli.recording import history_of, provenance_of, recorded
from hil.energy import check_spec, opened_meter
from hil.errors import InputError
from hil.verify import Oracle
from hil.verify.bench import BenchReport, check_countable, simulated_count
from hil.verify.cycles import check_estimable, estimate_cycles
from hil.verify.jobs import bench
from hil.verify.oracle import reference_of
from hil.verify.samples import Sample, first_sample, random_sample
from hilc.artifact.library import ModelLibrary, Module


def bench_command(args: argparse.Namespace, console: Console) -> int:
    """Measure the inference of each model."""
    history = history_of(args)
    board, reports = measured(args, console)
    code = 0 if all(report.is_correct for report in reports) else 1
    outcome = replace(outcome_with(args, "bench", board, reports), exit_code=code)
    with recorded(history, "bench", [report.entry() for report in reports], console):
        console.outcome(outcome)
    return code


def measured(
    args: argparse.Namespace, console: Console, *, is_gate: bool = False
) -> tuple[Board, list[BenchReport]]:
    """Return the board that the arguments name and the measurements of their models on it."""
    model = split_sources(args)
    board = checked_board(args)
    check_countable(board)
    if args.cycles:
        check_estimable(board)
    runners = () if args.memory_models is None else _memory_models(args, board)
    if args.energy:
        check_spec(args.energy, is_emulated=_is_emulated(args, board))
    libraries = compiled_for(args, board, console)
    images = [(library, module) for library in libraries for module in library.modules]
    if args.inputs and len(images) > 1:
        raise InputError(
            f"--inputs is for one model, and the image has {len(images)}", "measure them one by one"
        )
    if args.energy and len(images) > 1:
        raise InputError(
            f"--energy is for one model, and the image has {len(images)}", "measure them one by one"
        )
    samples = [
        first_sample(args.inputs or None, module.inputs, quantize=args.quantize_inputs)
        or random_sample(module.inputs, args.seed, 0)
        for _, module in images
    ]
    if model and len(images) > 1:
        raise InputError(
            f"--source names the model of one library, and the image has {len(images)} models",
            "measure them one by one",
        )
    if model and args.no_check:
        raise InputError(
            "--source names a model, and --no-check compares nothing", "drop one of them"
        )
    oracles = [_check_oracle(args, *image, model, is_gate=is_gate) for image in images]
    reports: list[BenchReport] = []
    with ExitStack() as stack:
        stack.enter_context(keeping(args, console, "bench", board, reports))
        # A meter that supplies the board is there before the board is.
        recorder = stack.enter_context(opened_meter(args.energy)) if args.energy else None
        device = stack.enter_context(opened(args, board, libraries, console))
        for (library, module), sample, oracle in zip(images, samples, oracles, strict=True):
            report = bench(
                device[module.name],
                runs=args.runs,
                warmup=args.warmup,
                sample=sample,
                energy=recorder,
                check=oracle or False,
            )
            made_from = provenance_of(args, board, device, library, module, [sample])
            reports.append(replace(report, provenance=made_from))
    for runner in runners:
        reports = _counted_also(args, board, libraries, reports, samples, runner, console)
    if args.cycles:
        estimates = [
            estimate_cycles(
                board, libraries, module, seed=args.seed, workspace=args.workspace, sample=sample
            )
            for (_, module), sample in zip(images, samples, strict=True)
        ]
        reports = [replace(r, estimate=e) for r, e in zip(reports, estimates, strict=True)]
    return board, reports


def _memory_models(args: argparse.Namespace, board: Board) -> tuple[str, ...]:
    """Return the words of ``--runner`` for the memory models that are compared."""
    if args.lab is not None or args.port is not None:
        raise InputError("--memory-models is for a simulated core", "drop --port or the lab")
    return memory_models(board, args.runner, args.memory_models)


def _counted_also(
    args: argparse.Namespace,
    board: Board,
    libraries: list[ModelLibrary],
    reports: list[BenchReport],
    samples: list[Sample],
    runner: str,
    console: Console,
) -> list[BenchReport]:
    """Return the reports with the counts of another memory model."""
    own = argparse.Namespace(**{**vars(args), "runner": runner})
    modules = [module for library in libraries for module in library.modules]
    with opened(own, board, libraries, console) as device:
        assert device.simulated is not None, "the runner simulates the core"
        model = device.simulated.memory_model
        return [
            report
            if model in (count.memory_model for count in report.simulated)
            else replace(
                report, simulated=(*report.simulated, simulated_count(device, module, sample))
            )
            for report, module, sample in zip(reports, modules, samples, strict=True)
        ]


def _check_oracle(
    args: argparse.Namespace,
    library: ModelLibrary,
    module: Module,
    model: str | None,
    *,
    is_gate: bool,
) -> Oracle | None:
    """Return the reference for the measured outputs; None with ``--no-check``."""
    if args.no_check:
        return None
    allowed = args.allow_fallback if is_gate else allowed_fallback(args)
    try:
        return reference_of(library, module, source=model, allow_fallback=allowed)
    except InputError as error:
        error.hint = f"{error.hint}; or measure without a comparison: --no-check"
        raise


def _is_emulated(args: argparse.Namespace, board: Board) -> bool:
    """Return whether this command starts an emulator in place of the board."""
    is_attached = args.port is not None and args.runner is None and args.probe is None
    if args.lab is not None or is_attached:
        return False
    return is_machine(board, args.runner, Connection(args.probe, args.port, board.is_over_rtt))
