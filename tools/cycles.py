#!/usr/bin/env python3
"""Counts cycles of the MLPerf Tiny models on simulated cores; writes docs/reference/figures.md.

Each model is compiled for two goals, compared with the reference on one sample, and counted; one
model also with wait states of flash. Results are kept in ``build/cycles.json`` until ``--fresh``.
Exit code 1 where a result is missing or differs from the reference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from marked import replaced, table
from steps import ROOT, Result, Results, Step, compiled, models, run_steps

import hil
from hil.bench import bench
from hil.board import load_board
from hil.oracle import reference_of
from hil.samples import RandomSamples
from hilc.support.suggest import counted

BOARDS = ("rtl-ibex", "rtl-cv32e40p", "rtl-vexriscv", "rtl-picorv32")
GOALS = ("balanced", "speed")
#: What is counted with other memory: its words for the runner.
WAITING, WAITING_GOAL = "ad", "speed"
MEMORIES = ("flash_wait=2", "flash_wait=2,prefetch=true")
PAGE = ROOT / "docs" / "reference" / "figures.md"
RESULTS = ROOT / "build" / "cycles.json"


def counted_on(board: str, model: str, goal: str, memory: str) -> Result:
    """Return cycles, instructions and the memory model of a verified model on a board."""
    library = compiled(model, load_board(board).cpu.name, optimize=goal)
    (module,) = library.modules
    runner = f"verilator:{memory}" if memory else None
    with hil.open(board, library, runner=runner) as device:
        # The first inference is the warm-up of the caches, too.
        samples = RandomSamples(module.inputs, seed=0, count=1)
        oracle = reference_of(library, module)
        verdict = hil.verify(device[module.name], samples, oracle, board=board)
        report = bench(device, module, runs=1, warmup=0)
    (count,) = report.simulated
    return {
        "ok": verdict.match and count.instructions is not None,
        "cycles": count.cycles,
        "instructions": count.instructions,
        "memory_model": count.memory_model,
        "layers": [[layer.op, layer.count, layer.instructions] for layer in report.layers],
    }


def step(board: str, model: str, goal: str, memory: str = "") -> Step:
    """Return the step of a combination."""
    name = " ".join(filter(None, (board, model, goal, memory)))
    return Step(name, partial(counted_on, board, model, goal, memory))


def steps(names: Sequence[str]) -> Iterator[Step]:
    """Yield the steps of the models, and those of other memory."""
    for model in names:
        yield from (step(board, model, goal) for board in BOARDS for goal in GOALS)
    for board in BOARDS:
        yield from (step(board, WAITING, WAITING_GOAL, memory) for memory in ("", *MEMORIES))


def section(results: dict[str, Result], names: Sequence[str]) -> str:
    """Return the tables: models by core and goal, and one model with other memory."""

    def cell(*words: str) -> str:
        found = results[step(*words).name]
        return f"{found['cycles']:,} ({found['cycles'] / found['instructions']:.2f})"

    by_model = [
        [f"`{board}`", goal, *(cell(board, model, goal) for model in names)]
        for board in BOARDS
        for goal in GOALS
    ]
    by_memory = [
        [f"`{board}`", *(cell(board, WAITING, WAITING_GOAL, memory) for memory in ("", *MEMORIES))]
        for board in BOARDS
    ]
    return "\n\n".join(
        [
            "Flash and RAM without wait states; equal to the reference on one sample.",
            table(["board", "goal", *names], by_model, "---:"),
            f"`{WAITING}` for `{WAITING_GOAL}`, with two wait states of flash:",
            table(["board", "0 wait states", "2", "2 and prefetch"], by_memory, "---:"),
        ]
    )


def main() -> int:
    """Measure what is not known, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    parser.add_argument("--jobs", type=int, default=2, help="simulators at a time (default: 2)")
    parser.add_argument(
        "--models", nargs="+", default=models.INT8_MODELS, choices=models.INT8_MODELS
    )
    args = parser.parse_args()
    results = Results(RESULTS, args.fresh)
    wanted = list({each.name: each for each in steps(args.models)}.values())
    known = {name for name, result in results.steps.items() if result["ok"]}
    run_steps([s for s in wanted if s.name not in known], results, args.jobs, "model")
    wrong = [s.name for s in wanted if not results.steps[s.name]["ok"]]
    if wrong:
        print(f"{counted(len(wrong), 'result')} wrong or missing: {', '.join(wrong)}")
        return 1
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text, "cycles", section(results.steps, args.models)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
