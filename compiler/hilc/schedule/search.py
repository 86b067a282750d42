"""Search for the program for a goal and limits: its kernels and fused groups.

The layers in their order are divided into *segments*: a single layer with one of its kernels, or a
fused group. :mod:`~hilc.schedule.estimate` estimates segments, and :mod:`~hilc.schedule.groups`
selects the groups to try; :mod:`~hilc.schedule.partition` finds the cheapest partition for a limit,
:mod:`~hilc.schedule.pareto` the frontier of ever tighter limits, and :mod:`~hilc.schedule.goals`
selects from it for a goal. :mod:`~hilc.schedule.policy` has all constants.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

from hilc.errors import InputError, LimitError
from hilc.lowering.bodies import shares_general_code
from hilc.lowering.choice import ChoiceReport, KernelSelection
from hilc.memory.explanation import Saving
from hilc.memory.plan import Planner, check_plan
from hilc.memory.program import Program
from hilc.schedule.goals import LIMITED_GOALS, Goals
from hilc.schedule.pareto import ParetoFrontier, PlannedProgram
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.tuning import Tuning, sharing_of

__all__ = ["SearchResult", "LimitError", "choose", "search"]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search."""

    program: Program
    choice: KernelSelection
    report: ChoiceReport
    #: Goal that determines the code that layers share.
    sharing: str
    _goals: Goals
    #: Requested goal and limit of flash.
    _optimize: str
    _flash: int | None

    @property
    def workspaces(self) -> Sequence[int]:
        """Workspaces in bytes of the programs of the Pareto frontier, from the fastest on."""
        return self._goals.workspaces()

    def next_saving(self) -> Saving | None:
        """Return the program for the same goal and limit of flash with less memory; None if there
        is none.
        """
        here = self.report.chosen
        ram = self.program.workspace_bytes - 1
        try:
            _, report = choose(self._goals, optimize=self._optimize, ram=ram, flash=self._flash)
        except InputError:
            return None
        smaller = report.chosen
        return Saving(
            here.workspace_bytes - smaller.workspace_bytes,
            smaller.instructions - here.instructions,
            here.instructions,
            smaller.flash_bytes - here.flash_bytes,
            self._flash,
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
    known: MutableMapping[str, Goals] | None = None,
    room: int | None = None,
) -> SearchResult:
    """Return the program for a goal and limits; see :func:`choose`.

    ``known`` has the programs that earlier searches with the same arguments found, by the sharing
    of code, for other goals and limits; those of this search are added to it. A flash limit may
    need layers to share more code than the goal permits, and the goal's bound of instructions less
    code; then the fastest of all degrees of sharing is selected. ``progress`` is called for every
    program that is planned.

    Raise :class:`~hilc.errors.InputError` if no program keeps the limits.
    """
    known = {} if known is None else known
    best: SearchResult | None = None
    refusal: InputError | None = None

    def programs(sharing: str) -> Goals:
        if sharing not in known:
            frontier = ParetoFrontier(
                planner, tuning=tuning, optimize=sharing, policy=policy, progress=progress
            )
            slower = shares_general_code(sharing)
            known[sharing] = Goals(frontier, programs(policy.sharings[0]) if slower else None)
        return known[sharing]

    for sharing in _sharings(optimize, flash, policy):
        goals = programs(sharing)
        try:
            planned, report = choose(goals, optimize=optimize, ram=ram, flash=flash, room=room)
        except LimitError as error:
            # The least of all degrees of sharing.
            if not isinstance(refusal, LimitError) or error.least_flash < refusal.least_flash:
                refusal = error
            continue
        except InputError as error:
            refusal = refusal or error
            continue
        found = SearchResult(
            planned.program, planned.choice, report, sharing, goals, optimize, flash
        )
        if best is None or report.chosen.instructions < best.report.chosen.instructions:
            best = found
        if report.chosen == report.fastest:
            # A higher limit would not make it faster.
            break
        if flash is None and (report.goal != optimize or goals.keeps_bound(optimize, planned)):
            break
    if best is None:
        assert refusal is not None, "code is shared in one way at least"
        raise refusal
    check_plan(best.program)
    return best


def choose(
    goals: Goals,
    *,
    optimize: str = "balanced",
    ram: int | None = None,
    flash: int | None = None,
    room: int | None = None,
) -> tuple[PlannedProgram, ChoiceReport]:
    """Return the program for a goal, selected from the Pareto frontier, and its report.

    With limits (bytes of workspace, and of flash) it is the fastest program within them, unless the
    goal is ``size`` or ``ram``: then it is the goal's program, if that is within them too. Raise
    :class:`~hilc.schedule.goals.LimitError`, with the smallest possible values, if there is none.

    ``room`` are the bytes of a memory for the workspace: the goal's program has to be within them,
    and where none is, they are a limit like ``ram``.
    """
    limited = ram is not None or flash is not None
    ram = min((limit for limit in (ram, room) if limit is not None), default=None)
    chosen, goal = None, optimize
    if not limited or optimize in LIMITED_GOALS:
        chosen = goals.program(optimize, ram)
    if chosen is None or not chosen.cost.keeps(ram, flash):
        chosen, goal = goals.within(ram, flash), "limits"
    groups = chosen.choice.groups
    report = ChoiceReport(
        goal,
        chosen.cost,
        goals.fastest.cost,
        groups,
        tuned=goals.tuned,
        measured=chosen.measured,
        counter=goals.counter,
    )
    return chosen, report


def _sharings(optimize: str, flash: int | None, policy: SearchPolicy) -> Sequence[str]:
    """Return the goals that may determine code sharing, in the order in which they are tried: the
    goal itself, and those that share more, with a flash limit, or less, where shared code is too
    slow for the goal.
    """
    ways = policy.sharings
    place = ways.index(sharing_of(optimize))
    if flash is not None:
        return ways[place:]
    return (optimize, ways[place - 1]) if shares_general_code(optimize) else (optimize,)
