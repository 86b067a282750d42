"""``hil run``, ``hil verify``, ``hil bench``: run inferences on a device."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from hil.board import Board
from hil.cli.commands.options import allowed_fallback, compiled_for, opened, reachable_board
from hil.cli.commands.recording import history_of, provenance_of, recorded
from hil.cli.commands.tapping import against_command
from hil.cli.console import Console, tensor_values
from hil.cli.render import run_text
from hil.cli.reports import Outcome
from hil.device import Model, RunResult
from hil.energy import check_spec, opened_meter
from hil.errors import InputError, UsageError
from hil.firmware.project import modules_of
from hil.results.run import RunEntry
from hil.runners import Choice, is_machine
from hil.verify import Oracle, Report
from hil.verify.bench import BenchReport, check_countable
from hil.verify.cycles import check_estimable, estimate_cycles
from hil.verify.fidelity import float_meter
from hil.verify.jobs import bench, verify
from hil.verify.oracle import expected_outputs, reference_of
from hil.verify.samples import (
    RandomSamples,
    Sample,
    StandardSamples,
    TimeBoxed,
    first_sample,
    is_saved,
    load_input,
    load_samples,
    random_sample,
    save_arrays,
)
from hilc.artifact.extra import CODE_SUFFIXES
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.ir import Array
from hilc.support.outputs import check_file


def run_command(args: argparse.Namespace, console: Console) -> int:
    """Run one inference of each model of the image."""
    if args.output:
        check_file(args.output, ".npz", kind="a file of outputs", is_own=is_saved, force=args.force)
    board = reachable_board(args)
    libraries = compiled_for(args, board, console)
    images = modules_of(libraries)
    given = _given_inputs(
        args.input,
        {_word(images, module, t): t for module in images for t in module.inputs},
        args.quantize_inputs,
    )
    inputs: dict[str, Sample] = {}
    for module in images:
        random = random_sample(module.inputs, args.seed, 0)
        words = {tensor.name: _word(images, module, tensor) for tensor in module.inputs}
        for word in words.values():
            if word not in given:
                console.log(f"input {word!r} is random (seed {args.seed})")
        inputs[module.name] = {name: given.get(w, random[name]) for name, w in words.items()}
    outputs: dict[str, Array] = {}
    counts: dict[str, int] = {}
    with opened(args, board, libraries, console) as device:
        for module in images:
            result = device.repeated(partial(_inference, device[module.name], inputs[module.name]))
            counts[module.name] = result.count
            for tensor in module.outputs:
                outputs[_word(images, module, tensor)] = result.outputs[tensor.name]
        counter = device.counter
        recoveries = device.recovery.unreported() if device.recovery else ()
    if args.output:
        save_arrays(args.output, outputs)
    entry = RunEntry(board.name, counter, counts, tuple(recoveries), tensor_values(outputs))
    console.result(entry, run_text(outputs, counts, counter, recoveries))
    return 0


def _inference(model: Model, inputs: Sample) -> RunResult:
    """Return the result of one run, whose outputs have been read."""
    for name, array in inputs.items():
        model.set_input(name, array)
    result = model.run()
    dict(result.outputs)
    return result


def _word(images: Sequence[Module], module: Module, tensor: TensorInfo) -> str:
    """Return a tensor's name on the command line, with its model's name if there are several."""
    return tensor.name if len(images) == 1 else f"{module.name}/{tensor.name}"


def _given_inputs(
    words: Sequence[str], tensors: Mapping[str, TensorInfo], quantize: bool
) -> dict[str, Array]:
    given: dict[str, Array] = {}
    for word in words:
        # Tensor names and paths may contain "=": match the longest tensor name first.
        name = max((name for name in tensors if word.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            raise InputError(
                f"--input {word!r} does not begin with the name of an input and '='",
                f"the inputs are {', '.join(tensors)}",
            )
        if name in given:
            raise InputError(f"the input {name!r} is given twice", "give it once")
        path = word[len(name) + 1 :]
        if not path:
            raise InputError(f"--input {word!r} has no file name", f"write {name}=FILE.npy")
        given[name] = load_input(path, tensors[name], quantize=quantize)
    return given


def verify_command(args: argparse.Namespace, console: Console) -> int:
    """Compare each model of the image, or firmware that taps its layers, with the reference."""
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
    """Compare each model of the image with its reference."""
    if args.expect and not args.inputs:
        raise InputError("--expect is given without --inputs", "add --inputs F.npz")
    model = take_model(args)
    if args.expect and (args.reference or model or args.per_layer):
        given = {"--reference": args.reference, "--source": model}
        option = next((name for name, value in given.items() if value), "--per-layer")
        raise InputError(f"{option} and --expect are both given", f"drop {option} or --expect")
    history = history_of(args)
    board = reachable_board(args)
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
        _kept(args, console, "verify", board, reports),
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
    outcome = replace(_outcome(args, "verify", board, reports), exit_code=code)
    with recorded(history, "verify", [report.entry() for report in reports], console):
        console.outcome(outcome)
    return code


def _outcome(
    args: argparse.Namespace,
    command: Literal["verify", "bench"],
    board: Board,
    reports: Sequence[Report | BenchReport],
) -> Outcome:
    return Outcome(
        command,
        board.name,
        tuple(reports),
        in_detail=args.per_layer,
        limit=getattr(args, "limit", False),
        reruns=getattr(args, "reruns", ()),
    )


@contextmanager
def _kept(
    args: argparse.Namespace,
    console: Console,
    command: Literal["verify", "bench"],
    board: Board,
    reports: Sequence[Report | BenchReport],
) -> Iterator[None]:
    """Keep the reports that there are where an error ends the context: it is not all of the
    outcome.
    """
    try:
        yield
    except Exception:
        if reports:
            console.found = _outcome(args, command, board, reports)
        raise


def take_model(args: argparse.Namespace) -> str | None:
    """Return the model file in ``--source``, and leave the code files in the argument."""
    if "model_source" in args:
        taken: str | None = args.model_source  # a command before took it from these arguments
        return taken
    words: list[str] = args.source
    code = [w for w in words if Path(w).suffix in CODE_SUFFIXES or Path(w).is_dir()]
    models = [word for word in words if word not in code]
    if len(models) > 1:
        raise InputError(
            f"--source names {len(models)} models: {', '.join(models)}",
            "name the library's model only",
        )
    model = models[0] if models else None
    args.source, args.model_source = code, model
    return model


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


def bench_command(args: argparse.Namespace, console: Console) -> int:
    """Measure the inference of each model."""
    history = history_of(args)
    board, reports = measured(args, console)
    code = 0 if all(report.is_correct for report in reports) else 1
    outcome = replace(_outcome(args, "bench", board, reports), exit_code=code)
    with recorded(history, "bench", [report.entry() for report in reports], console):
        console.outcome(outcome)
    return code


def measured(
    args: argparse.Namespace, console: Console, *, is_gate: bool = False
) -> tuple[Board, list[BenchReport]]:
    """Return the board that the arguments name and the measurements of their models on it."""
    model = take_model(args)
    board = reachable_board(args)
    check_countable(board)
    if args.cycles:
        check_estimable(board)
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
        stack.enter_context(_kept(args, console, "bench", board, reports))
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
    if args.cycles:
        estimates = [
            estimate_cycles(
                board, libraries, module, seed=args.seed, workspace=args.workspace, sample=sample
            )
            for (_, module), sample in zip(images, samples, strict=True)
        ]
        reports = [replace(r, estimate=e) for r, e in zip(reports, estimates, strict=True)]
    return board, reports


def _check_oracle(
    args: argparse.Namespace,
    library: ModelLibrary,
    module: Module,
    model: str | None,
    *,
    is_gate: bool,
) -> Oracle | None:
    """Return the reference of the outputs of what is measured; None with ``--no-check``."""
    if args.no_check:
        return None
    allowed = args.allow_fallback if is_gate else allowed_fallback(args)
    try:
        return reference_of(library, module, source=model, allow_fallback=allowed)
    except InputError as error:
        error.hint = f"{error.hint}; or measure without a comparison: --no-check"
        raise


def _is_emulated(args: argparse.Namespace, board: Board) -> bool:
    """Return whether an emulator that this command starts stands for the board."""
    is_attached = args.port is not None and args.runner is None and args.probe is None
    if args.lab is not None or is_attached:
        return False
    return is_machine(board, args.runner, Choice(args.probe, args.port, board.is_over_rtt))
