#!/usr/bin/env python3
"""Shows where kernels with the fewest instructions are not those with the fewest cycles.

Every kernel of every layer runs on simulated cores, with and without wait states of flash, and is
counted in instructions and in cycles; then the search chooses for each goal by either count. Writes
docs/explanation/cycles.md; results are kept in ``build/tuned.json`` until ``--fresh``. Exit code 1
where a result is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from marked import replaced, table
from steps import ROOT, Result, Results, Step, compiled, models, run_steps

import hil
import hilc
from hil.bench import bench
from hil.board import load_board
from hil.verify.tune import variant_names
from hilc.compiler import Programs
from hilc.lowering.choice import KernelSelection
from hilc.ops import OPS
from hilc.options import CompileOptions
from hilc.schedule.tuning import FORMAT, Measured, TunedLayer, Tuning
from hilc.source import PreparedModel, prepare
from hilc.support.counters import Counter
from hilc.support.suggest import counted

BOARDS = ("rtl-ibex", "rtl-cv32e40p", "rtl-vexriscv")
#: Memory of the simulated chip: its words for the runner.
MEMORIES = ("", "flash_wait=2")
GOALS = ("speed", "balanced", "size", "ram")
UNITS: tuple[Counter, ...] = ("instructions", "cycles")
PAGE = ROOT / "docs" / "explanation" / "cycles.md"
RESULTS = ROOT / "build" / "tuned.json"


def counted_layers(board: str, model: str, memory: str) -> Result:
    """Return instructions and cycles of every kernel of every layer on a board."""
    cpu = load_board(board).cpu
    source = prepare(models.model_path(model), model, cpu)
    variants = {n.name: variant_names(source, n.name, cpu) for n in source.graph.nodes}
    ops = {node.name: node.op for node in source.graph.nodes}
    found: dict[str, dict[str, tuple[int, int | None]]] = {name: {} for name in variants}
    for image in range(max(map(len, variants.values()))):
        chosen = {name: own[min(image, len(own) - 1)] for name, own in variants.items() if own}
        library = compiled(model, cpu.name, optimize="speed", choice=KernelSelection(chosen))
        (module,) = library.modules
        runner = f"verilator:{memory}" if memory else None
        with hil.open(board, library, runner=runner) as device:
            report = bench(device, module, runs=1, warmup=0)
        for described, layer in zip(module.layers, report.layers, strict=True):
            if described.name in chosen:
                found[described.name].setdefault(
                    chosen[described.name], (layer.count, layer.instructions)
                )
    layers = [
        {
            "op": ops[name],
            "kernels": {v: {"cycles": c, "instructions": i} for v, (c, i) in own.items()},
        }
        for name, own in found.items()
        if own
    ]
    return {"ok": True, "layers": layers}


def step(board: str, model: str, memory: str) -> Step:
    """Return the step of a combination."""
    name = " ".join(filter(None, (board, model, memory)))
    return Step(name, partial(counted_layers, board, model, memory))


def steps(boards: Sequence[str], names: Sequence[str]) -> Iterator[Step]:
    """Yield the steps of all combinations."""
    for board in boards:
        for memory in MEMORIES:
            yield from (step(board, model, memory) for model in names)


def least(kernels: Mapping[str, Mapping[str, int]], unit: str) -> str:
    """Return the kernel with the least count."""
    return min(kernels, key=lambda name: kernels[name][unit])


def rows(results: Mapping[str, Result], each: Step) -> Iterator[list[str]]:
    """Yield a row for each layer whose kernel of fewest instructions is not that of fewest cycles,
    and one of the sums.
    """
    by_instructions = by_cycles = 0
    layers = results[each.name]["layers"]
    for number, layer in enumerate(layers):
        kernels = layer["kernels"]
        few, fast = least(kernels, "instructions"), least(kernels, "cycles")
        at, best = kernels[few]["cycles"], kernels[fast]["cycles"]
        by_instructions, by_cycles = by_instructions + at, by_cycles + best
        if at > best:
            yield [
                f"`{each.name}`", f"{number} {layer['op']}", f"`{few}`", f"`{fast}`",
                f"{at:,}", f"{best:,}", f"{1 - best / at:.1%}",
            ]  # fmt: skip
    saved = 1 - by_cycles / by_instructions
    yield [
        f"`{each.name}`", "all", "", "", f"{by_instructions:,}", f"{by_cycles:,}", f"{saved:.2%}",
    ]  # fmt: skip


def log_of(source: PreparedModel, cpu: str, layers: Sequence[Any], unit: Counter) -> Tuning:
    """Return the counts of a model's layers as `hil tune` writes them."""
    nodes = [node for node in source.graph.nodes if not OPS[node.op].view]
    tuned = tuple(
        TunedLayer(
            node.name,
            node.op,
            tuple(Measured(name, counts[unit]) for name, counts in layer["kernels"].items()),
        )
        for node, layer in zip(nodes, layers, strict=True)
    )
    return Tuning(
        format=FORMAT, model=source.graph.name, digest=source.digest, cpu=cpu,
        compiler=hilc.__version__, board="", counter=unit, layers=tuned, programs=(),
    )  # fmt: skip


def goal_rows(results: Mapping[str, Result], name: str) -> Iterator[list[str]]:
    """Yield a row for each goal: what the search chooses by instructions and by cycles."""
    board, model = name.split()[:2]
    cpu = load_board(board).cpu
    source = prepare(models.model_path(model), model, cpu)
    layers = results[name]["layers"]
    for goal in GOALS:
        programs = Programs(source, CompileOptions(cpu=cpu.name, name=model, optimize=goal))
        logs = [log_of(source, cpu.name, layers, unit) for unit in UNITS]
        (one, few), (other, fast) = (programs.chosen(log) for log in logs)
        both = {*one.kernels, *other.kernels}
        differ = sum(one.kernels.get(each) != other.kernels.get(each) for each in both)
        groups = "the same" if one.groups == other.groups else "others"
        yield [f"`{name}`", goal, f"{differ} of {len(layers)}", groups, f"{few:,}", f"{fast:,}"]


def main() -> int:
    """Measure what is not known, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    parser.add_argument("--jobs", type=int, default=2, help="simulators at a time (default: 2)")
    parser.add_argument("--boards", nargs="+", default=BOARDS, choices=BOARDS)
    parser.add_argument("--models", nargs="+", default=["ad", "kws"], choices=models.INT8_MODELS)
    args = parser.parse_args()
    results = Results(RESULTS, args.fresh)
    wanted = list(steps(args.boards, args.models))
    known = {name for name, result in results.steps.items() if result["ok"]}
    run_steps([s for s in wanted if s.name not in known], results, args.jobs, "model")
    wrong = [s.name for s in wanted if not results.steps[s.name]["ok"]]
    if wrong:
        print(f"{counted(len(wrong), 'result')} missing: {', '.join(wrong)}")
        return 1
    header = ["board, model, memory", "layer", "fewest instructions", "fewest cycles"]
    header += ["cycles by instructions", "cycles by cycles", "saved"]
    lines = [row for each in wanted for row in rows(results.steps, each)]
    goals = [row for each in wanted for row in goal_rows(results.steps, each.name)]
    goals_header = ["board, model, memory", "goal", "other kernels", "fused groups"]
    goals_header += ["workspace by instructions", "workspace by cycles"]
    text = PAGE.read_text(encoding="utf-8")
    text = replaced(text, "tuned", table(header, lines))
    PAGE.write_text(replaced(text, "goals", table(goals_header, goals)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
