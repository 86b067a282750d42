"""A submission's files, laid out as those of MLPerf Tiny's open runner and its results.

``results/<system>/<benchmark>/<mode>/`` has ``results.txt``, ``log.txt`` and ``results.json`` of
each mode, ``systems/<system>.json`` what is known of the board; the submitter completes it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hilc
from hil.board import Board
from hil.errors import InputError
from hil.firmware.mlperf import Benchmark
from hil.mlperf.dut import Dut, Inference
from hil.mlperf.runs import WINDOW_S, WINDOWS, Accuracy, Item, Performance
from hil.support.cache import locked
from hil.support.numbers import json_number
from hilc.support.outputs import cannot_write, check_place, write_file

_RESULTS = "results.txt"
#: The runner's names of the modes, and its letters.
_MODES = {"performance": "p", "accuracy": "a"}


@contextmanager
def claimed_submission(
    output: str | Path,
    board: Board,
    benchmark: Benchmark,
    modes: Sequence[str],
    *,
    force: bool = False,
) -> Iterator[None]:
    """Keep the place of these results for this process, from before they are measured until they
    are written.

    Raise for a folder that they could not be written to, that holds them already, or for which
    another process measures them.
    """
    check_place(Path(output), is_folder=True)
    place = _folder(Path(output), board, benchmark)
    try:
        with locked(Path(os.path.realpath(place)), wait=False):
            for mode in modes:
                path = place / mode / _RESULTS
                if path.exists() and not force:
                    raise InputError(
                        f"{path} exists", "give another folder, or replace the results with --force"
                    )
            yield
    except BlockingIOError:
        raise InputError(
            f"another process is measuring {benchmark.folder} on {board.name} for {output}",
            "wait until it has ended, or give another folder",
        ) from None


def _folder(output: Path, board: Board, benchmark: Benchmark) -> Path:
    return output / "results" / board.name / benchmark.folder


def write_submission(
    output: str | Path,
    board: Board,
    benchmark: Benchmark,
    dut: Dut,
    runs: Sequence[Performance | Accuracy],
    *,
    emulator: str | None = None,
) -> list[Path]:
    """Write the files of ``runs`` below ``output`` and return their paths.

    ``results.txt`` is removed first and written last: without it there is no result.
    A description of the system that exists is left as it is: the submitter completes it.
    ``emulator`` is the program that the board ran in: such results are none of hardware, and the
    files say so.
    """
    at = time.strftime("%m%d.%H%M%S")
    folder = Path(output)
    files: dict[Path, str] = {}
    for run in runs:
        mode = "performance" if isinstance(run, Performance) else "accuracy"
        place = _folder(folder, board, benchmark) / mode
        results = _performance_text(run, at) if isinstance(run, Performance) else _text(run, at)
        note = _note(emulator)
        files[place / "log.txt"] = note + _log(dut, run, at) + results
        files[place / "results.json"] = json.dumps(_entries(run, _MODES[mode])) + "\n"
        files[place / _RESULTS] = note + results
    system = folder / "systems" / f"{board.name}.json"
    if not system.exists():
        files[system] = _system(board, emulator)
    try:
        for path in files:
            if path.name == _RESULTS:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    for path, text in files.items():
        write_file(path, text)
    return list(files)


def _note(emulator: str | None) -> str:
    if emulator is None:
        return ""
    return (
        f"Emulated by {emulator}: times are those of its clock, not of hardware, and no result for "
        "a submission.\n"
    )


def _performance_text(run: Performance, at: str) -> str:
    lines = []
    for number, (_, inference) in enumerate(run.windows, 1):
        met = "have been met" if inference.seconds >= WINDOW_S else "have NOT been met"
        lines += [
            f"Performance results for window {number}",
            f"    # Inferences : {inference.iterations}",
            f"    Runtime: {inference.seconds} sec.",
            f"    Throughput: {inference.throughput} inf./sec.",
            f"    Runtime requirements {met}.",
        ]
    rule = f"{at} ulp-mlperf: {'-' * 57}"
    lines += [
        rule,
        f"{at} ulp-mlperf: Median throughput is {run.throughput:>10.3f} inf./sec.",
        rule,
    ]
    if not run.is_valid:
        lines.append(
            f"{at} ulp-mlperf: ERROR - not valid for submission: {WINDOWS} windows of at least "
            f"{WINDOW_S:g} seconds are required."
        )
    return "\n".join(lines) + "\n"


def _text(run: Accuracy, at: str) -> str:
    lines = [f"{at} ulp-mlperf: Top 1% = {100 * run.top1.value:2.1f}"]
    if run.auc is not None:
        lines.append(f"{at} ulp-mlperf: AUC = {run.auc.value:.3f}")
    return "\n".join(lines) + "\n"


def _log(dut: Dut, run: Performance | Accuracy, at: str) -> str:
    lines = [
        f"Device name retrieved: {dut.name}",
        f"Device profile retrieved: {dut.profile}",
        f"Device model retrieved: {dut.model}",
    ]
    for number, (item, inference) in enumerate(_inferences(run), 1):
        lines += [
            f"{at} ulp-mlperf: Loading file {item.file}",
            f"{at} ulp-mlperf: Load complete.",
            f"Running inference with {inference.warmups}/{inference.iterations} (warmup/measured) "
            "iterations ...",
            f"{at} ulp-mlperf: Performance results for window {number}:",
            f"{at} ulp-mlperf:   # Inferences : {inference.iterations:>13}",
            f"{at} ulp-mlperf:   Runtime      : {inference.seconds:>10.3f} sec.",
            f"{at} ulp-mlperf:   Throughput   : {inference.throughput:>10.3f} inf./sec.",
            f"{at} ulp-mlperf:   m-results    : {list(inference.results)}",
        ]
    return "\n".join([*lines, "-" * 20]) + "\n"


def _inferences(run: Performance | Accuracy) -> Sequence[tuple[Item, Inference]]:
    return run.windows if isinstance(run, Performance) else run.inferences


def _entries(run: Performance | Accuracy, mode: str) -> list[dict[str, Any]]:
    """Return the inferences as the runner's ``results.json`` has them; all values are finite."""
    return [
        {
            "file": item.file,
            "classes": str(item.classes),
            "class": str(item.label),
            "infer": {
                "start_time": inference.start_us,
                "end_time": inference.end_us,
                "results": [json_number(value) for value in inference.results],
                "elapsed_time": inference.end_us - inference.start_us,
                "total_inferences": 1,
                "iterations": inference.iterations,
                "warmups": inference.warmups,
            },
            "mode": mode,
        }
        for item, inference in _inferences(run)
    ]


def _system(board: Board, emulator: str | None) -> str:
    """Return the description of the system, completed from the board's description."""
    sizes = {
        kind: f"{sum(r.size for r in board.memory if r.kind == kind) >> 10} KB"
        for kind in ("ram", "flash")
    }
    facts = {
        "Submitter": "",
        "Division": "",
        "Status": "",
        "Board Name": board.description,
        "Processor(s) Name": board.cpu.name,
        "Processor(s) Frequencies": f"{board.clock_hz / 1e6:g} MHz",
        "Processor memory type and capacity": f"{sizes['ram']} RAM",
        "Processor storage type and capacity": f"{sizes['flash']} flash",
        "Hardware Notes": f"emulated by {emulator}, not hardware" if emulator else "",
        "Inference Framework": f"hil {hilc.__version__}",
        "Operating System": "bare metal" if not board.is_host else "",
        "ML Model Compiler(s)": f"hilc {hilc.__version__}",
        "General Compiler(s)": board.cpu.toolchain.gcc,
        "Software Notes": "",
    }
    return json.dumps(facts, indent=2) + "\n"
