#!/usr/bin/env python3
"""Draws the Pareto frontiers of the models on each core, and what ``balanced`` takes of them.

Writes the table and the picture of docs/explanation/memory.md. Instructions and flash are the
estimates that the search decides by; nothing is built or run, so it takes a minute or two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from figures import figures_table
from marked import replaced
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from steps import ROOT, models

from hil.page.plan_picture import STYLE, save
from hilc.memory.plan import Planner
from hilc.schedule.goals import Goals
from hilc.schedule.groups import Objective
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram
from hilc.source import prepare
from hilc.target import get_cpu

MODELS = ("ad", "kws", "ic", "vww")
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")
PAGE = ROOT / "docs" / "explanation" / "memory.md"
PICTURE = ROOT / "docs" / "images" / "frontiers.svg"
#: Programs up to this many times the instructions of the fastest are drawn.
MOST_DRAWN = 1.6
#: The tighter promise that the table compares with.
NEAR = 1.15


@dataclass(frozen=True)
class Found:
    """Programs of a model on a core."""

    model: str
    core: str
    fastest: PlannedProgram
    balanced: PlannedProgram
    #: From the fastest on: with any kernel, and without those that unfold weights in flash.
    every: Sequence[PlannedProgram]
    lean: Sequence[PlannedProgram]

    @property
    def near(self) -> PlannedProgram:
        """Smallest program with at most 15 % more instructions than the fastest."""
        limit = NEAR * self.fastest.instructions
        found = [p for p in (*self.lean, *self.every) if p.instructions <= limit]
        return min(found, key=lambda p: (p.workspace_bytes, p.flash_bytes))


def found(model: str, core: str) -> Found:
    cpu = get_cpu(core)
    graph = prepare(models.model_path(model), model, cpu).graph
    frontier = ParetoFrontier(Planner(graph, cpu, io_in_pool=True))
    goals = Goals(frontier)

    def smaller(objective: Objective) -> Iterator[PlannedProgram]:
        least: int | None = None
        most = MOST_DRAWN * goals.fastest.instructions
        for partition in frontier.affordable(objective, most):
            program = frontier.planned(partition)
            if isinstance(program, PlannedProgram) and (
                least is None or program.workspace_bytes < least
            ):
                least = program.workspace_bytes
                yield program

    every, lean = list(smaller(FASTEST)), list(smaller(Objective()))
    return Found(model, core, goals.fastest, goals.balanced, every, lean)


def _draw(axes: Axes, shown: Found) -> None:
    fastest = shown.fastest

    def points(programs: Sequence[PlannedProgram]) -> tuple[list[float], list[float]]:
        return (
            [p.workspace_bytes / 1000 for p in programs],
            [p.instructions / fastest.instructions for p in programs],
        )

    for programs, color, label in (
        (shown.every, "#5b8db8", "any kernel"),
        (shown.lean, "#7fb069", "no kernel that unfolds weights"),
    ):
        axes.step(*points(programs), where="post", color=color, linewidth=1, label=label)
        axes.plot(*points(programs), "o", color=color, markersize=2.5)
    axes.plot(*points([shown.balanced]), "D", color="#d98e4a", markersize=6, label="balanced")
    for ratio in (NEAR, 1.3):
        axes.axhline(ratio, color="#c4c4c4", linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xlim(left=0)
    axes.set_ylim(0.97, MOST_DRAWN)
    axes.set_title(f"{shown.model} on {shown.core}", loc="left", fontsize=9)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def frontiers_figure(rows: Sequence[Found]) -> Figure:
    """Instructions relative to the fastest program over kilobytes of workspace."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 9))
        grid = figure.subplots(len(MODELS), len(CORES), squeeze=False)
        for axes, shown in zip(grid.flat, rows, strict=True):
            _draw(axes, shown)
        figure.supxlabel("workspace, kB", fontsize=9)
        figure.supylabel("instructions relative to the fastest program", fontsize=9)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=3, fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.97))
    return figure


def section(rows: Sequence[Found]) -> str:
    def cells(program: PlannedProgram, fastest: PlannedProgram) -> list[str]:
        ratio = program.instructions / fastest.instructions
        return [f"{ratio:.3f}", f"{program.workspace_bytes:,}", f"{program.flash_bytes:,}"]

    header = ["model", "core", "fastest: instructions", "workspace", "flash"]
    for name in ("balanced", "within 15 %"):
        header += [f"{name}: ratio", "workspace", "flash"]
    table = figures_table(
        header,
        [
            [f.model, f.core, f"{f.fastest.instructions:,}", *cells(f.fastest, f.fastest)[1:]]
            + cells(f.balanced, f.fastest)
            + cells(f.near, f.fastest)
            for f in rows
        ],
    )
    return "\n\n".join(
        (table, f"![frontiers of four models on four cores](../images/{PICTURE.name})")
    )


def main() -> int:
    rows = [found(model, core) for model in MODELS for core in CORES]
    save(frontiers_figure(rows), PICTURE)
    new = section(rows)
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "frontiers", new), encoding="utf-8")
    print(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
