"""The fastest program within limits of workspace and flash."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hilc.errors import LimitError
from hilc.schedule.groups import Objective
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram

#: Shares of a program's limit that its segments may use.
_SHARES = (1.0, 0.95, 0.9, 0.8)
#: Prices of a byte of flash, in instructions, that the search for kernels below a limit tries.
_WORTHS = (20.0, 50.0, 200.0, 1e6)


def fastest_within(
    frontier: ParetoFrontier, ram: int | None, flash: int | None
) -> PlannedProgram | None:
    """Return the fastest program in ``ram`` bytes of workspace and ``flash`` bytes of flash; None
    if there is none.
    """
    best: PlannedProgram | None = None
    objective = replace(FASTEST, flash_limit=flash)
    for partition in frontier.partitions(objective):
        if ram is not None and partition.memory_bound > ram:
            continue
        if best is None or partition.cost < best.instructions:
            best = frontier.planned_within(partition, ram) or best
        if best is not None and (
            ram is None or partition.cost > frontier.policy.uneven_cost * best.instructions
        ):
            break
    for partition in frontier.measured(objective):
        if best is not None and partition.cost >= best.instructions:
            break
        best = frontier.planned_within(partition, ram) or best
    if flash is not None and (ram is not None or best is None):
        # Kernels that are not the fastest in their memory may take less flash.
        kept = [p for own in _priced(flash) for p in _keeping(frontier, own, ram)]
        found = [*kept, *([] if best is None else [best])]
        best = min(found, key=lambda p: p.instructions, default=None)
    return best


def _priced(flash: int | None) -> list[Objective]:
    """Return the objectives that give flash a price, for programs within a limit of it."""
    return [Objective(worth, flash_limit=flash) for worth in _WORTHS]


def _keeping(
    frontier: ParetoFrontier, objective: Objective, ram: int | None
) -> Iterator[PlannedProgram]:
    """Yield the fastest programs for an objective in a workspace of ``ram`` bytes: of those in ever
    less memory, and of the cheapest in as much or a little less.
    """
    known = [p for p in frontier.partitions(objective) if ram is None or p.memory_bound <= ram]
    limits = [] if ram is None else [int(share * ram) for share in _SHARES]
    tried = (frontier.partitioner.cheapest(limit, objective) for limit in limits)
    for partitions in (sorted(known, key=lambda p: p.cost), tried):
        for partition in partitions:
            found = None if partition is None else frontier.planned_within(partition, ram)
            if found is not None:
                yield found
                break


def smallest_within(frontier: ParetoFrontier, flash: int | None) -> PlannedProgram | None:
    """Return the program with the least workspace of those for a limit of flash; None if none can
    be planned.
    """
    objectives = [replace(FASTEST, flash_limit=flash), *_priced(flash)]
    partitions = [p for one in objectives for p in frontier.partitions(one)]
    least: PlannedProgram | None = None
    for partition in sorted(partitions, key=lambda p: p.memory_bound):
        if least is not None and partition.memory_bound >= least.workspace_bytes:
            break
        found = frontier.planned_within(partition)
        if found is not None and (least is None or found.workspace_bytes < least.workspace_bytes):
            least = found
    return least


def least_flash(frontier: ParetoFrontier, ram: int | None) -> int | None:
    """Return the least flash in bytes, in a workspace of ``ram`` bytes, of the cheapest programs
    for each price of flash: :func:`fastest_within` finds it for a limit of as much. None if there
    are none.
    """
    limits = [None] if ram is None else [int(share * ram) for share in _SHARES]
    found = []
    for objective in _priced(None):
        for limit in limits:
            partition = frontier.partitioner.cheapest(limit, objective)
            planned = None if partition is None else frontier.planned_within(partition, ram)
            if planned is not None:
                found.append(planned.flash_bytes)
                break
    return min(found, default=None)


def refusal(
    frontier: ParetoFrontier,
    ram: int | None,
    flash: int | None,
    smallest: int | None,
    least_flash: int,
) -> LimitError:
    """Return an error that says, for each limit in bytes, the smallest value possible while the
    other is kept: ``smallest`` of the workspace, ``least_flash`` of flash.
    """
    parts = []
    if ram is not None:
        parts.append(f"a workspace of {ram} B (the smallest is {smallest} B)")
    if flash is not None:
        parts.append(f"{flash} B of flash (the least is about {least_flash} B)")
    remedy = "raise the limit" if len(parts) == 1 else "raise one of the limits, or both"
    if ram is not None:
        place = "included in" if frontier.io_in_pool else "beside"
        remedy += f"; inputs and outputs are {place} this workspace"
    return LimitError(
        f"no program of {frontier.partitioner.graph.name!r} fits {' and '.join(parts)}",
        remedy,
        least_flash,
        smallest,
    )
