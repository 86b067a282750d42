"""``hil mlperf``: MLPerf Tiny's performance and accuracy of a model on a board."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hil.access import Connection, is_machine, runner_name
from hil.board import Board
from hil.cli.actions.evaluate import load_data_set
from hil.cli.arguments import allowed_fallback, checked_board, compiled_for, connection_of
from hil.cli.console import Console, table
from hil.cli.mlperf_arguments import mlperf_of
from hil.cli.outcomes import split_sources
from hil.cli.render import flashed_text
from hil.firmware.build import build
from hil.firmware.mlperf import Mlperf, wire_bytes
from hil.firmware.project import modules_of
from hil.mlperf import Accuracy, Item, Performance, accuracy, open_dut, performance
from hil.mlperf.check import check_results
from hil.mlperf.items import indexed_items, is_indexed, items_of, random_items
from hil.mlperf.submission import claimed_submission, write_submission
from hil.results.run import MlperfChecked, MlperfDevice, MlperfEntry
from hil.verify.comparison import NOT_INDEPENDENT, Oracle
from hil.verify.oracle import reference_of
from hilc.artifact.library import ModelLibrary, Module
from hilc.errors import InputError


def mlperf_command(args: argparse.Namespace, console: Console) -> int:
    """Build the firmware, drive it over the benchmark's commands, write the submission's files.

    Raise :class:`InputError` for accuracy without a labelled data set.
    """
    modes = args.mode or (["performance", "accuracy"] if args.data else ["performance"])
    if "accuracy" in modes and not args.data:
        raise InputError(
            "accuracy needs a labelled data set", "add --data, or drop --mode accuracy"
        )
    split_sources(args)
    board = checked_board(args)
    libraries = compiled_for(args, board, console)
    mlperf = mlperf_of(args, libraries)
    assert mlperf is not None, "--mlperf has a default here"
    if args.lab is not None:
        mlperf = _of_lab(mlperf, board)
    with ExitStack() as stack:
        if args.output:
            place = (args.output, board, mlperf.benchmark, modes)
            stack.enter_context(claimed_submission(*place, force=args.force))
        return _measured(args, console, board, libraries, mlperf, modes)


def _measured(
    args: argparse.Namespace,
    console: Console,
    board: Board,
    libraries: Sequence[ModelLibrary],
    mlperf: Mlperf,
    modes: Sequence[str],
) -> int:
    """Build the firmware, measure it, and write the files."""
    (library,), (module,) = libraries, modules_of(libraries)
    measured, labelled = _items(args, module, mlperf)
    oracle = None if args.no_check else _oracle(args, library, module)
    connection = replace(
        connection_of(args, board),
        flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
    )
    attaches = args.port is not None and args.runner is None and args.probe is None
    firmware = build(libraries, board, workspace=args.workspace, mlperf=mlperf)
    runs: list[Performance | Accuracy] = []
    with open_dut(
        None if attaches else firmware,
        runner=args.runner,
        connection=connection,
        port=args.port,
        settings=firmware.board.line,
    ) as dut:
        if dut.model != mlperf.benchmark.model:
            console.warn(f"the device says that it is {dut.model}, not {mlperf.benchmark.model}")
        checked = None
        # The states of a streaming model are those of its start, which is not known at a port.
        if oracle is not None and not (attaches and mlperf.benchmark.is_streaming):
            checked = check_results(dut, measured[0], module, mlperf.benchmark, oracle)
        if "performance" in modes:
            runs.append(
                performance(
                    dut,
                    measured,
                    windows=args.windows,
                    window_s=args.seconds,
                    iterations=args.iterations,
                    warmups=args.warmups,
                )
            )
        if "accuracy" in modes:
            with console.progress_count(f"{module.name} on {board.name}", " inputs") as progress:
                runs.append(accuracy(dut, _shown(labelled, progress)))
    emulator = None if attaches else _emulator(args, firmware.board, connection)
    if emulator:
        console.warn(f"{board.name} was emulated by {emulator}: its times are not hardware results")
    paths: list[Path] = []
    if args.output:
        paths = write_submission(args.output, board, mlperf.benchmark, dut, runs, emulator=emulator)
    entry = MlperfEntry(
        model=module.name,
        board=board.name,
        benchmark=mlperf.benchmark.model,
        device=MlperfDevice(dut.name, dut.profile, dut.model),
        emulator=emulator,
        checked=checked.entry() if checked else None,
        files=tuple(map(str, paths)),
        performance=next((run.entry() for run in runs if isinstance(run, Performance)), None),
        accuracy=next((run.entry() for run in runs if isinstance(run, Accuracy)), None),
    )
    console.result(entry, _text(entry, runs))
    return 0


def _oracle(args: argparse.Namespace, library: ModelLibrary, module: Module) -> Oracle:
    """Return the reference of the device's results."""
    try:
        return reference_of(
            library, module, source=args.model_source, allow_fallback=allowed_fallback(args)
        )
    except InputError as error:
        error.hint = f"{error.hint}; or measure without a comparison: --no-check"
        raise


def _of_lab(mlperf: Mlperf, board: Board) -> Mlperf:
    """Return the firmware with the baud rate at which a lab opens the board's line."""
    own = board.macros.get("HIL_UART_BAUD")
    if mlperf.baud is not None and mlperf.baud != own:
        raise InputError(
            f"a lab opens the serial line of {board.name} with {own} baud, not {mlperf.baud}",
            "drop --baud",
        )
    return replace(mlperf, baud=own)


def _items(
    args: argparse.Namespace, module: Module, mlperf: Mlperf
) -> tuple[Sequence[Item], Sequence[Item]]:
    """Return the inputs of performance, and those of accuracy."""
    benchmark = mlperf.benchmark
    nbytes = wire_bytes(module, benchmark)
    if not args.data:
        return random_items(module, benchmark, args.seed), []
    if is_indexed(Path(args.data)):
        indexed = indexed_items(Path(args.data), nbytes)
        return indexed[: args.windows], indexed
    data = load_data_set(args, module, False)
    items = list(items_of(data, module, benchmark))
    data.clipping.warn()
    return items[: args.windows], items


def _shown(items: Sequence[Item], progress: Any) -> Iterator[Item]:
    for index, item in enumerate(items):
        progress(index, len(items))
        yield item


def _emulator(args: argparse.Namespace, board: Board, connection: Connection) -> str | None:
    """Return the program that the board ran in; None for hardware."""
    if connection.lab is not None or not is_machine(board, args.runner, connection):
        return None
    return runner_name(board, args.runner, connection)


def _checked_text(checked: MlperfChecked | None) -> str:
    if checked is None:
        return "results not compared with a reference"
    who = checked.reference if checked.independent else NOT_INDEPENDENT
    return f"results of 1 input match {who}"


def _text(entry: MlperfEntry, runs: Iterable[Performance | Accuracy]) -> str:
    lines = [f"{entry.benchmark}: {entry.model} on {entry.board}", _checked_text(entry.checked)]
    for run in runs:
        if isinstance(run, Performance):
            valid = "" if run.is_valid else ", not valid for a submission"
            lines.append(f"median throughput {run.throughput:.3f} inferences/s{valid}")
            rows = [
                [number, inference.iterations, f"{inference.seconds:.3f}", inference.throughput]
                for number, (_, inference) in enumerate(run.windows, 1)
            ]
            lines.append(table(rows, ["window", "inferences", "seconds", "inferences/s"]))
        else:
            interval = f" ({100 * run.top1.low:.1f} to {100 * run.top1.high:.1f})"
            shown = interval if run.top1.method == "Wilson" else ""
            auc = f", AUC {run.auc.value:.3f}" if run.auc else ""
            lines.append(f"top 1 {100 * run.top1.value:.1f} %{shown} of {run.files} files{auc}")
            if run.nonfinite:
                lines.append(
                    f"{run.nonfinite} of {len(run.inferences)} inferences have NaN or infinite "
                    "results: they count as wrong"
                )
    files = ["\n".join(entry.files)] if entry.files else []
    return "\n\n".join([*lines, *files])
