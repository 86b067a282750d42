#!/usr/bin/env python3
"""Draw the Pareto frontiers of the models on each core, and the programs of the goals.

Writes the table and the picture of docs/explanation/memory.md. Instructions and flash are the
estimates that the search decides by; nothing is built or run, so it takes a minute or two.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
from hilc.schedule.pareto import ParetoFrontier, PlannedProgram
from hilc.schedule.policy import GOALS
from hilc.source import prepare
from hilc.target import get_cpu

MODELS = ("ad", "kws", "ic", "vww")
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")
PAGE = ROOT / "docs" / "explanation" / "memory.md"
PICTURE = ROOT / "docs" / "images" / "frontiers.svg"
#: Programs up to this many times the instructions of the fastest are drawn.
MOST_DRAWN = 2.1
#: Marker and colour of each goal's program.
MARKS = {
    "speed": ("^", "#c46d7c"),
    "balanced": ("D", "#d98e4a"),
    "ram": ("s", "#7fb069"),
    "size": ("v", "#9d7fc1"),
}


@dataclass(frozen=True)
class Found:
    """Programs of a model on a core: those of the goals, and the frontier from the fastest on."""

    model: str
    core: str
    goals: Mapping[str, PlannedProgram]
    frontier: Sequence[PlannedProgram]


def found(model: str, core: str) -> Found:
    """Return the programs of a model on a core."""
    cpu = get_cpu(core)
    graph = prepare(models.model_path(model), model, cpu).graph
    frontier = ParetoFrontier(Planner(graph, cpu, io_in_pool=True))
    goals = Goals(frontier)
    programs = {name: goals.program(name) for name in GOALS}
    known = {name: program for name, program in programs.items() if program is not None}
    return Found(model, core, known, list(frontier.programs()))


def _draw(axes: Axes, shown: Found) -> None:
    fastest = shown.goals["speed"]

    def points(programs: Sequence[PlannedProgram]) -> tuple[list[float], list[float]]:
        return (
            [p.workspace_bytes / 1000 for p in programs],
            [p.instructions / fastest.instructions for p in programs],
        )

    axes.step(*points(shown.frontier), where="post", color="#5b8db8", linewidth=1)
    axes.plot(*points(shown.frontier), "o", color="#5b8db8", markersize=2.5, label="--ram LIMIT")
    for name, program in shown.goals.items():
        axes.plot(
            *points([program]), MARKS[name][0], color=MARKS[name][1], markersize=6, label=name
        )
        if (most := GOALS[name].most) > 1:
            axes.axhline(most, color="#c4c4c4", linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xlim(left=0)
    axes.set_ylim(0.95, MOST_DRAWN)
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
        figure.legend(handles, labels, loc="upper center", ncols=5, fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0, 1, 0.97))
    return figure


def section(rows: Sequence[Found]) -> str:
    """Return the table of the goals' programs, and the picture."""
    header = ["model", "core", "goal", "instructions", "ratio", "workspace", "flash"]
    cells = [
        [
            found.model,
            found.core,
            name,
            f"{program.instructions:,}",
            f"{program.instructions / found.goals['speed'].instructions:.2f}",
            f"{program.workspace_bytes:,}",
            f"{program.flash_bytes:,}",
        ]
        for found in rows
        for name, program in found.goals.items()
    ]
    picture = f"![frontiers of four models on four cores](../images/{PICTURE.name})"
    return f"{figures_table(header, cells)}\n\n{picture}"


def main() -> int:
    rows = [found(model, core) for model in MODELS for core in CORES]
    save(frontiers_figure(rows), PICTURE)
    new = section(rows)
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "frontiers", new), encoding="utf-8")
    print(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
