#!/usr/bin/env python3
"""Counts what the MLPerf Tiny models cost on six cores, beside what others need.

``vww_folded`` is vww as it is compiled by default, without the channels that are the same for every
input; the figures of vww are those of the whole model, as others compute it.

Beside that it shows how far the compiler's estimates of what kernels cost are off what is counted,
kernel by kernel (``tools/costs.py``).

The results go to ``build/bench.json`` as they come; what was measured
already with the same firmware is not measured again (``--fresh`` forgets it).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import costs
from figures import baselines, bench_section, board_named, limits_section
from steps import ROOT, Result, Results, Step, compiled, models, one_line, run_steps

import hil
from hil.bench import bench
from hil.build import build
from hil.firmware.fit import FitError
from hilc.frontends import load_model
from hilc.lowering.kernels import shipped_headers

#: One of each core, and the smallest board, which holds what has room in 16 KB of RAM; another with
#: its core, which no machine of QEMU has with more, holds all.
BOARDS = (
    "mps2-an385",
    "mps2-an386",
    "mps2-an500",
    "mps2-an505",
    "mps3-an547",
    "microbit",
    "large-m0",
)
#: The model that has channels which are the same for every input; others compute them, so beside
#: them the figure counts that has them computed.
FOLDED = "vww_folded"
MODELS = (*models.INT8_MODELS, FOLDED)
FOLDED_BOARDS = ("mps2-an385", "mps2-an386", "mps3-an547")
#: The operators that have weights.
LINEAR = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
#: The compiler's goals: those of speed on every board, those of memory on two.
GOALS: Mapping[str, Sequence[str]] = {
    "balanced": BOARDS,
    "speed": BOARDS,
    "size": ("mps2-an386", "mps3-an547"),
    "ram": ("mps2-an386", "mps3-an547"),
}


def measured(model: str, goal: str, board_name: str, results: Results) -> Result:
    """Return the report of ``hil bench``, of two runs that count the same; or why there is no
    room.
    """
    board = board_named(board_name)
    folds = model == FOLDED
    name = model.removesuffix("_folded")
    start = time.thread_time()
    library = compiled(name, board.cpu.name, optimize=goal, fold_constant_channels=folds)
    compiling = f", compiled in {time.thread_time() - start:.1f} s of CPU time"
    try:
        firmware = build([library], board)
    except FitError as error:
        return {"ok": True, "shown": one_line(error), "report": None}
    key = f"{firmware.build_id} {model} {goal}"
    if (known := results.known(key)) is not None:
        return known
    with hil.open(board, library) as device:
        report = bench(device, library.modules[0], runs=2).check()
    return {
        "ok": len(set(report.counts)) == 1,
        "key": key,
        "shown": " and ".join(f"{count:,}" for count in report.counts)
        + f" {report.counter}{compiling}",
        "report": {
            **report.json(),
            # The file's weights are not those of a program without some channels.
            "flash_beyond_weights_bytes": None
            if folds
            else report.model_flash_bytes - weights_bytes(name),
        },
    }


def kernel_counts(board_name: str, results: Results) -> Result:
    """Return the counts of each kernel that can compute a layer of the models, alone."""
    digest = hashlib.sha256("".join(shipped_headers().values()).encode()).hexdigest()
    key = f"{digest} {board_name}"
    if (known := results.known(key)) is not None:
        return known
    counts = costs.measure(board_name, ("int8",))
    shown = f"{len(counts)} layers"
    return {"ok": True, "key": key, "shown": shown, "counts": [vars(count) for count in counts]}


def weights_bytes(model: str) -> int:
    """Return the model's weights and biases, as its file holds them."""
    graph = load_model(models.model_path(model), model)
    read = {name for node in graph.nodes if node.op in LINEAR for name in node.inputs if name}
    return sum(tensor.data.nbytes for n in read if (tensor := graph.tensors[n]).data is not None)


def all_steps(
    results: Results, boards: Sequence[str], names: Sequence[str], goals: Sequence[str]
) -> list[Step]:
    """Return the whole table, cut down to ``boards``, models of ``names`` and ``goals``."""
    return [
        Step(f"{goal}: {model} on {board}", partial(measured, model, goal, board, results))
        for goal in goals
        for board in GOALS[goal]
        for model in names
        if board in boards and (model != FOLDED or board in FOLDED_BOARDS)
    ]


def main() -> int:
    """Measures; 1 when anything could not be, or counted differently the second time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", action="append", choices=BOARDS, help="only this board")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model")
    parser.add_argument("--optimize", action="append", choices=tuple(GOALS), help="only this goal")
    parser.add_argument("--no-estimates", action="store_true", help="do not compare estimates")
    parser.add_argument("--jobs", type=int, default=2, help="boards side by side (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "bench.json")
    args = parser.parse_args()
    if not models.models_dir().is_dir():
        parser.error(f"no models in {models.models_dir()}: {models.HOW_TO_GET}")

    results = Results(args.output, args.fresh)
    steps = all_steps(
        results, args.board or BOARDS, args.model or MODELS, args.optimize or tuple(GOALS)
    )
    start = time.monotonic()
    done = run_steps(steps, results, args.jobs, "model")
    print(f"{bench_section(done, baselines())}\n\n{limits_section(done)}")
    estimates = [
        Step(f"kernels on {board}", partial(kernel_counts, board, results))
        for board in args.board or costs.BOARDS
        if board in costs.BOARDS
    ]
    if not args.no_estimates and estimates:
        counted = run_steps(estimates, results, args.jobs, "board")
        found = [costs.Count(**c) for r in counted.values() for c in r.get("counts", ())]
        print(f"\n**By how much estimates are off:**\n\n{costs.errors_table(found)}")
        done |= counted
    failed = {name: result for name, result in done.items() if not result["ok"]}
    for name, result in failed.items():
        print(f"FAILED {name}: {result['shown']}", file=sys.stderr)
    print(
        f"\n{len(done) - len(failed)} of {len(done)} measured in {time.monotonic() - start:.0f} s; "
        f"{args.output} has every figure"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
