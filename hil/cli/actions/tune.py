"""``hil tune``: measure kernels and whole programs on a board, as a log for the compiler."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import hilc
from hil.board import Board
from hil.cli.arguments import (
    allowed_fallback,
    checked_board,
    compile_options,
    opened,
)
from hil.cli.console import Console
from hil.cli.render import recovery_lines, tuning_text
from hil.device import Device
from hil.errors import Attempt
from hil.firmware.sources import parse_sources
from hil.results.compile import KernelCount, TunedLayer, TunedProgram, TuneEntry
from hil.verify.bench import check_countable
from hil.verify.comparison import compare
from hil.verify.oracle import reference_of
from hil.verify.samples import random_sample
from hil.verify.tune import tune
from hilc.artifact.library import ModelLibrary
from hilc.compiler import Programs
from hilc.compiler import prepared as prepared_model
from hilc.errors import InputError
from hilc.lowering.choice import KernelSelection
from hilc.schedule.called import with_control_flow
from hilc.schedule.tuning import load_tuning
from hilc.source import PreparedModel
from hilc.support.outputs import check_file, write_file
from hilc.target import get_cpu

#: Goals for which programs are measured, unless one is named.
GOALS = ("balanced", "speed", "ram", "size")


def tune_command(args: argparse.Namespace, console: Console) -> int:
    """Measure all kernels of all layers of a model, then whole programs for each goal.

    Raise :class:`InputError` for options that fix what is measured, or more than one model file.
    """
    start = time.monotonic()
    board = checked_board(args)
    check_countable(board)
    sources = parse_sources(args.models, args.name)
    if len(sources) != 1 or sources[0].is_archive:
        what = (
            f"{len(sources)} models" if len(sources) > 1 else f"{sources[0].path}, compiled already"
        )
        raise InputError(f"a log is for one model file, not for {what}", "give one model file")
    for option in ("ram", "flash", "tuning"):
        if getattr(args, option) is not None:
            raise InputError(
                f"--{option} restricts kernels, but hil tune measures all of them",
                f"drop --{option}",
            )
    if args.feed == "rows":
        raise InputError(
            "hil tune measures layers one at a time, and --feed rows needs a group of them",
            "drop --feed; the log serves hil compile --feed rows as well",
        )
    (model,) = sources
    options = compile_options(args, board, for_firmware=True).compiler(model.name)
    cpu = get_cpu(options.cpu)
    source = prepared = prepared_model(model.path, options)
    planned = with_control_flow(source.graph, cpu, goal=options.optimize, api=options.api)
    source = replace(source, graph=planned)

    output = Path(args.output or f"{source.graph.name}.tuning.json")
    check_file(
        output,
        ".json",
        kind=f"a log of {source.graph.name!r} for {cpu.name}",
        is_own=partial(_is_log, source=source, cpu=cpu.name),
        force=args.force,
    )

    # Hours of a board are not replaced by an emulator's minutes unasked.
    counter = load_tuning(output).counter if output.exists() and not args.force else None

    def compiled(choice: KernelSelection, goal: str | None) -> ModelLibrary:
        own = replace(options, choice=choice, optimize=goal or options.optimize)
        return hilc.compile(model.path, options=own)

    recoveries: list[Attempt] = []

    @contextmanager
    def open_(library: ModelLibrary) -> Iterator[Device]:
        with opened(args, board, [library], console) as device:
            yield device
            recoveries.extend(device.recovery.unreported() if device.recovery else ())

    # Measurements outlive a signal; the log of an earlier run stays until the new is whole.
    unfinished = output.with_name(f"{output.stem}.partial.json")
    log = tune(
        source,
        cpu,
        board,
        compiled,
        open_,
        lambda goal: Programs(prepared, replace(options, optimize=goal)),
        goals=(args.optimize,) if args.optimize else GOALS,
        programs=args.programs,
        seed=args.seed,
        counter=counter,
        started=console.log,
        check=partial(_check, args, board) if not args.no_check else lambda device, library: None,
        measured=lambda log: write_file(unfinished, log.to_json()),
    )
    write_file(output, log.to_json())
    unfinished.unlink(missing_ok=True)
    entry = TuneEntry(
        output=str(output),
        checked=not args.no_check,
        model=log.model,
        board=log.board,
        cpu=log.cpu,
        counter=log.counter,
        layers=tuple(
            TunedLayer(
                layer.name,
                layer.op,
                tuple(KernelCount(kernel.variant, kernel.count) for kernel in layer.kernels),
            )
            for layer in log.layers
            if layer.kernels
        ),
        programs=tuple(
            TunedProgram(
                program.sharing, len(program.groups), program.workspace_bytes, program.count
            )
            for program in log.programs
        ),
        recoveries=tuple(recoveries),
        seconds=round(time.monotonic() - start, 3),
    )
    lines = [tuning_text(log), *recovery_lines(recoveries), f"{output}: {entry.seconds} s"]
    console.result(entry, "\n".join(lines))
    return 0


def _check(args: argparse.Namespace, board: Board, device: Device, library: ModelLibrary) -> None:
    """Raise NumericError if an image computes something else than the reference."""
    (module,) = library.modules
    oracle = reference_of(library, module, allow_fallback=allowed_fallback(args))
    sample = random_sample(module.inputs, args.seed, 0)
    compare(
        device[module.name], [sample], oracle, board=board.name, repeated=device.repeated
    ).check()


def _is_log(path: Path, source: PreparedModel, cpu: str) -> bool:
    """Return whether the file is a log of the same model and core."""
    try:
        log = load_tuning(path)
    except InputError:
        return False
    return (log.digest, log.cpu) == (source.digest, cpu)
