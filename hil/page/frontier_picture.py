"""Picture of the programs of a model that a user may choose from."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from hil.page.plan_picture import STYLE
from hilc.schedule.frontier import Frontier, FrontierProgram

_GOAL, _LIMIT, _EDGE = "#d98e4a", "#5b8db8", "#333333"


def frontier_figure(frontier: Frontier) -> Figure:
    """Return a figure of a frontier: instructions over workspace, and over flash, each relative to
    the fastest program; goals are named.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(10, 4.5))
        axes = figure.subplots(1, 2, sharey=True)
        fastest = max(1, min(p.cost.instructions for p in frontier.programs))
        goals = [p for p in frontier.programs if p.optimize is not None]
        limits = [p for p in frontier.programs if p.optimize is None]
        for own, of, label in zip(axes, (_workspace, _flash), ("workspace", "flash"), strict=True):
            for programs, marker, color in ((limits, "o", _LIMIT), (goals, "D", _GOAL)):
                own.plot(
                    [of(p) for p in programs],
                    [p.cost.instructions / fastest for p in programs],
                    marker,
                    color=color,
                    markeredgecolor=_EDGE,
                    markeredgewidth=0.5,
                    markersize=6 if programs is goals else 4,
                )
            for program in goals:
                own.annotate(
                    program.optimize or "",
                    (of(program), program.cost.instructions / fastest),
                    # The program of `balanced` may be near the fastest.
                    xytext=(5, -11 if program.optimize == "speed" else 4),
                    textcoords="offset points",
                    fontsize=8,
                )
            own.set_xlim(left=0)
            # Decoding weights takes many times the instructions.
            own.set_yscale("log")
            own.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            own.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
            own.set_xlabel(f"{label}, kB", fontsize=9)
            own.tick_params(which="both", labelsize=8)
            own.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel(f"{frontier.counter} relative to the fastest program", fontsize=9)
        figure.suptitle(f"{frontier.model} for {frontier.cpu}", fontsize=10)
        figure.tight_layout()
    return figure


def _workspace(program: FrontierProgram) -> float:
    return program.cost.workspace_bytes / 1000


def _flash(program: FrontierProgram) -> float:
    return program.cost.flash_bytes / 1000
