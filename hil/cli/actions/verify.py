"""What ``hil verify`` does on a board."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from hil.cli.actions.against import against_command
from hil.cli.arguments import allowed_fallback, checked_board, compiled_for, opened
from hil.cli.console import Console
from hil.cli.outcomes import keeping, outcome_with, split_sources
from hil.cli.recording import history_of, provenance_of, recorded
from hil.errors import InputError, UsageError
from hil.firmware.project import modules_of
from hil.verify import Oracle, Report
from hil.verify.fidelity import float_meter
from hil.verify.jobs import verify
from hil.verify.oracle import expected_outputs, reference_of
from hil.verify.samples import (
    RandomSamples,
    Sample,
    StandardSamples,
    TimeBoxed,
    load_samples,
)
from hilc.artifact.library import ModelLibrary, Module


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
    return verify_on_board(args, console)


def verify_on_board(args: argparse.Namespace, console: Console) -> int:
    """Compare each model of the image with its reference.

    Raise :class:`InputError` for options that do not apply to the number or kind of models.
    """
    if args.expect and not args.inputs:
        raise InputError("--expect is given without --inputs", "add --inputs F.npz")
    model = split_sources(args)
    if args.expect and (args.reference or model or args.per_layer):
        given = {"--reference": args.reference, "--source": model}
        option = next((name for name, value in given.items() if value), "--per-layer")
        raise InputError(f"{option} and --expect are both given", f"drop {option} or --expect")
    history = history_of(args)
    board = checked_board(args)
    libraries = compiled_for(args, board, console)
    images = modules_of(libraries)
    if args.inputs and len(images) > 1:
        raise InputError(
            f"--inputs is for one model, and the image has {len(images)}", "verify them one by one"
        )
    if model and len(images) > 1:
        raise InputError(
            f"--source is for one model, and the image has {len(images)}", "verify them one by one"
        )
    if args.keep_state and not any(module.states for module in images):
        names = " and ".join(repr(module.name) for module in images)
        raise InputError(f"--keep-state is given, and {names} keeps no state", "drop --keep-state")
    # Check all arguments before the build.
    for module in images if args.float_model else ():
        float_meter(args.float_model, module.inputs, module.outputs)
    checks = [
        (library, module, samples, _oracle(args, library, module, model, len(samples)))
        for library in libraries
        for module in library.modules
        for samples in [_samples(args, module)]
    ]
    reports: list[Report] = []
    with (
        keeping(args, console, "verify", board, reports),
        opened(args, board, libraries, console) as device,
    ):
        for library, module, samples, oracle in checks:
            chosen = TimeBoxed(samples) if isinstance(samples, StandardSamples) else samples
            bar = console.progress(chosen, f"{module.name} on {board.name}")
            report = verify(
                device[module.name],
                bar,
                oracle,
                board=board.name,
                per_layer=args.per_layer,
                keep_state=args.keep_state,
                metrics=args.metrics,
                float_model=args.float_model,
            )
            used = samples[: report.samples]
            made_from = provenance_of(args, board, device, library, module, used)
            reports.append(replace(report, provenance=made_from))
    code = 0 if all(report.match for report in reports) else 1
    outcome = replace(outcome_with(args, "verify", board, reports), exit_code=code)
    with recorded(history, "verify", [report.entry() for report in reports], console):
        console.outcome(outcome)
    return code


def _samples(args: argparse.Namespace, module: Module) -> Sequence[Sample]:
    if not args.inputs:
        if args.samples is None:
            return StandardSamples(module.inputs, args.seed)
        return RandomSamples(module.inputs, args.seed, args.samples)
    samples = load_samples(args.inputs, module.inputs, "input", quantize=args.quantize_inputs)
    if args.samples and args.samples > len(samples):
        raise InputError(
            f"{args.inputs} holds {len(samples)} samples, not {args.samples}", "lower --samples"
        )
    return samples[: args.samples]


def _oracle(
    args: argparse.Namespace,
    library: ModelLibrary,
    module: Module,
    model: str | None,
    samples: int,
) -> Oracle:
    if args.expect:
        return expected_outputs(args.expect, module, samples)
    return reference_of(
        library, module, args.reference, source=model, allow_fallback=allowed_fallback(args)
    )
