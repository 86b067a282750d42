"""The programs of a model that a user may choose from, each with the options that give it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hilc.errors import LimitError
from hilc.lowering.choice import CostEstimate
from hilc.schedule.policy import GOALS
from hilc.schedule.search import SearchResult

#: Limits of memory and of flash that are tried, at most.
_RAM_LIMITS = 16
_FLASH_LIMITS = 8
#: The goal whose limits are listed: the compiler's default.
_DEFAULT = "balanced"


@dataclass(frozen=True)
class FrontierProgram:
    """A program, and the options with which the compiler creates it: a goal or a limit."""

    optimize: str | None
    #: Limits in bytes, of the workspace and of flash.
    ram: int | None
    flash: int | None
    #: Instructions and flash as estimated; a tuning log may count cycles.
    cost: CostEstimate

    @property
    def options(self) -> Sequence[str]:
        """Options of the command line, as words."""
        values = {"--optimize": self.optimize, "--ram": self.ram, "--flash": self.flash}
        return [
            word
            for name, value in values.items()
            if value is not None
            for word in (name, str(value))
        ]


@dataclass(frozen=True)
class Frontier:
    """The programs of a model on a core, the fastest first."""

    model: str
    cpu: str
    #: Unit of the costs: instructions, or cycles of a tuning log.
    counter: str
    #: Whether workspaces and their limits include inputs and outputs.
    io_in_workspace: bool
    programs: Sequence[FrontierProgram]


def find_frontier(
    model: str,
    cpu: str,
    search: Callable[[str, int | None, int | None], SearchResult],
    *,
    io_in_workspace: bool,
) -> Frontier:
    """Return the Pareto-optimal programs of each goal and of limits between these, by instructions,
    workspace and flash.

    ``search`` returns the program for a goal and limits in bytes of workspace and of flash; it
    raises :class:`LimitError` where there is none.
    """
    goals = {name: search(name, None, None) for name in GOALS}
    programs = [FrontierProgram(name, None, None, f.report.chosen) for name, f in goals.items()]
    workspaces = goals[_DEFAULT].workspaces
    for ram in _evenly(sorted(set(workspaces)), _RAM_LIMITS):
        cost = search(_DEFAULT, ram, None).report.chosen
        programs.append(FrontierProgram(None, ram, None, cost))
    for flash in _flash_limits([p.cost.flash_bytes for p in programs]):
        try:
            cost = search(_DEFAULT, None, flash).report.chosen
        except LimitError:
            continue
        programs.append(FrontierProgram(None, None, flash, cost))
    programs.sort(key=lambda p: _figures(p.cost))
    counter = goals["speed"].report.counter
    return Frontier(model, cpu, counter, io_in_workspace, list(_without_worse(programs)))


def _evenly(values: Sequence[int], most: int) -> Sequence[int]:
    """Return at most ``most`` of the values, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _flash_limits(known: Sequence[int]) -> Iterator[int]:
    """Yield limits of flash from half of the least known to the most, each the same ratio apart."""
    least, most = max(1, min(known) // 2), max(known)
    for step in range(_FLASH_LIMITS):
        yield round(least * (most / least) ** (step / _FLASH_LIMITS))


def _figures(cost: CostEstimate) -> tuple[int, int, int]:
    return cost.instructions, cost.workspace_bytes, cost.flash_bytes


def _without_worse(programs: Sequence[FrontierProgram]) -> Iterator[FrontierProgram]:
    """Yield the programs of goals, and those others to which none is equal or better in every
    figure.
    """
    goals = [p for p in programs if p.optimize is not None]
    kept: list[FrontierProgram] = []
    for program in programs:
        own = _figures(program.cost)
        others = [*goals, *kept] if program.optimize is None else []
        if all(any(a > b for a, b in zip(_figures(o.cost), own, strict=True)) for o in others):
            kept.append(program)
            yield program
