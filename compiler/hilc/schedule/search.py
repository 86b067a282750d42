"""Finds the program for a goal and limits: the kernels of the layers, and which run as one.

The layers in their order are divided into *segments*: a single layer with one of its kernels, or a
fused group. :mod:`~hilc.schedule.estimate` says what a segment takes, and
:mod:`~hilc.schedule.groups` which groups are tried; :mod:`~hilc.schedule.partition` finds the
cheapest partition for a limit, :mod:`~hilc.schedule.pareto` the frontier of ever tighter ones, and
:mod:`~hilc.schedule.goals` what of it a goal takes. :mod:`~hilc.schedule.policy` has all constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.lowering.choice import ChoiceReport
from hilc.memory.explain import Saving
from hilc.memory.plan import Planner
from hilc.memory.program import Program
from hilc.schedule.goals import Goals, LimitError
from hilc.schedule.pareto import ParetoFrontier
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.tuning import Tuning

__all__ = ["Found", "LimitError", "choose", "search"]


@dataclass(frozen=True)
class Found:
    """A program that a search found."""

    program: Program
    report: ChoiceReport
    #: The goal by whose rules layers share code.
    sharing: str
    _goals: Goals

    def next_saving(self) -> Saving | None:
        """The fastest program that takes less memory, where there is one."""
        here = self.report.chosen
        try:
            smaller = self._goals.within(self.program.workspace_bytes - 1, None)
        except InputError:
            return None
        return Saving(
            here.workspace_bytes - smaller.workspace_bytes,
            smaller.instructions - here.instructions,
            here.instructions,
        )


def search(
    planner: Planner,
    *,
    optimize: str = "balanced",
    ram: int | None = None,
    flash: int | None = None,
    tuning: Tuning | None = None,
    policy: SearchPolicy = POLICY,
    progress: Callable[[], None] | None = None,
) -> Found:
    """The program for a goal and limits, as :func:`choose` takes it of the frontier.

    A limit of flash may want layers to share more code than the goal does; then the fastest of all
    ways to share is taken. ``progress`` is called for every program that is planned.
    """
    best: Found | None = None
    refusal: InputError | None = None
    for sharing in _sharings(optimize, flash, policy):
        frontier = ParetoFrontier(
            planner, tuning=tuning, optimize=sharing, policy=policy, progress=progress
        )
        goals = Goals(frontier)
        try:
            program, report = choose(goals, optimize=optimize, ram=ram, flash=flash)
        except InputError as error:
            refusal = error
            continue
        found = Found(program, report, sharing, goals)
        if best is None or _instructions(found, policy) < _instructions(best, policy):
            best = found
        if report.chosen == report.fastest:
            # More room would not make it faster.
            break
    if best is None:
        assert refusal is not None, "code is shared in one way at least"
        raise refusal
    return best


def choose(
    goals: Goals, *, optimize: str = "balanced", ram: int | None = None, flash: int | None = None
) -> tuple[Program, ChoiceReport]:
    """The program for a goal, of those that a model can be, and what it takes.

    With limits (bytes of workspace, and of flash) it is the fastest program that keeps them, unless
    the goal is ``size`` or ``ram``: then it is the one of the goal, if that keeps them, too.
    :class:`~hilc.schedule.goals.LimitError` says the smallest where there is none.
    """
    limited = ram is not None or flash is not None
    programs = {
        "size": lambda: goals.least_flash(ram),
        "ram": lambda: goals.least_memory,
    }
    if not limited:
        programs |= {"speed": lambda: goals.fastest, "balanced": lambda: goals.balanced}
    chosen = programs[optimize]() if optimize in programs else None
    goal = optimize
    if chosen is None or not chosen.cost.keeps(ram, flash):
        chosen, goal = goals.within(ram, flash), "limits"
    groups = chosen.choice.groups
    report = ChoiceReport(goal, chosen.cost, goals.fastest.cost, groups, goals.tuned)
    return chosen.program, report


def _sharings(optimize: str, flash: int | None, policy: SearchPolicy) -> Sequence[str]:
    """By whose rules layers may share code: the goal's, or, where flash is limited, more so."""
    if flash is None:
        return (optimize,)
    ways = tuple(policy.shared_code)
    return ways[ways.index("balanced" if optimize == "ram" else optimize) :]


def _instructions(found: Found, policy: SearchPolicy) -> float:
    """The instructions that a program is expected to take with the code that its layers share."""
    return found.report.chosen.instructions * policy.shared_code[found.sharing]
