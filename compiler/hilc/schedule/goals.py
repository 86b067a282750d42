"""Selection of a program from the Pareto frontier, by the row of a goal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

from hilc.errors import LimitError
from hilc.schedule.limits import fastest_within, least_flash, refusal, smallest_within
from hilc.schedule.pareto import ParetoFrontier, PlannedProgram
from hilc.schedule.partition import Partition
from hilc.schedule.policy import Goal

__all__ = ["Goals", "LimitError"]

#: Goals whose programs are kept where they are within limits.
LIMITED_GOALS = ("ram", "size")


class Goals:
    """Programs of a frontier by goal and by limits.

    Goals bound instructions by those of the fastest program. Where ``frontier`` is of code that
    layers share and that is slower for it, ``unshared`` has the programs without such code.
    """

    def __init__(self, frontier: ParetoFrontier, unshared: Goals | None = None) -> None:
        self._frontier = frontier
        self._unshared = unshared
        self._policy = frontier.policy
        #: Whether costs are measured where possible.
        self.tuned = frontier.tuned
        #: Unit of the costs.
        self.counter = frontier.counter
        #: Programs with the least workspace, by the limit of flash.
        self._smallest: dict[int | None, PlannedProgram | None] = {}
        self._affordable: dict[tuple[str, int | None], list[Partition]] = {}

    @property
    def fastest(self) -> PlannedProgram:
        """The fastest program of all that can be planned, by measured counts where available: that
        of the goal ``speed``.

        Raises the planner's last :class:`~hilc.errors.InputError` if there is none.
        """
        return self._own_fastest if self._unshared is None else self._unshared.fastest

    @cached_property
    def _own_fastest(self) -> PlannedProgram:
        """The fastest program of the frontier."""
        return self._frontier.fastest()

    def keeps_bound(self, name: str, program: PlannedProgram) -> bool:
        """Return whether a program takes as few instructions as a goal permits."""
        return program.instructions <= self._most(name)

    def _most(self, name: str) -> float:
        """Return the most instructions of a goal's programs, as estimated."""
        most = self._policy.goals[name].most
        return max(1.0, most / self._policy.error) * self.fastest.instructions

    def program(self, name: str, ram: int | None = None) -> PlannedProgram | None:
        """Return the program of a goal in a workspace of ``ram`` bytes; None if there is none.

        It has the least weighted sum of workspace and flash among those with at most as many
        instructions as the goal permits; it is the fastest of those whose sums count as equal.
        """
        goal = self._policy.goals[name]
        if goal.most == 1:
            return self._own_fastest if self._own_fastest.cost.keeps(ram, None) else None
        affordable, least = self._affordable_programs(name, self._most(name), ram)
        if least is None or least is self._own_fastest:
            return least
        # As fast as the sum permits, in as much memory: others of them have less flash.
        equal = (1 + self._policy.equal_sums) * _sum(goal, least)
        flash = (equal - goal.sum(least.workspace_bytes, 0)) / goal.flash
        faster = self._frontier.faster(least, flash)
        for partition in sorted([*affordable, *faster], key=lambda p: p.cost):
            if partition.cost >= least.instructions:
                break
            if goal.sum(partition.memory_bound, partition.flash) <= equal:
                found = self._frontier.planned_within(partition, ram)
                if found is not None and _sum(goal, found) <= equal:
                    return found
        return least

    def _affordable_programs(
        self, name: str, most: float, ram: int | None
    ) -> tuple[list[Partition], PlannedProgram | None]:
        """Return the partitions that the goal permits, and the program with the least sum.

        Where plans take clearly more than the bounds of their partitions, these include the
        partitions that by the bounds could not have had the least sum. Where the flash of code
        depends on the layers that share it, the search starts again in the memory of what it found.
        """
        goal = self._policy.goals[name]
        if (name, ram) not in self._affordable:
            self._affordable[name, ram] = list(self._frontier.affordable(goal, most, ram))
        affordable = self._affordable[name, ram]
        bound = min([_rank(goal, partition)[0] for partition in affordable], default=float("inf"))
        least = self._least(goal, affordable, most, ram)
        equal = (1 + self._policy.equal_sums) * bound
        if affordable and (least is None or _sum(goal, least) > equal):
            known = {tuple(map(id, partition.segments)) for partition in affordable}
            affordable += [
                partition
                for partition in self._frontier.affordable(goal, most, ram, every=True)
                if tuple(map(id, partition.segments)) not in known
            ]
            least = self._least(goal, affordable, most, ram)
        within = ram
        while self._unshared is not None and least is not None and least.workspace_bytes != within:
            within = least.workspace_bytes
            affordable += self._frontier.affordable(goal, most, within)
            least = self._least(goal, affordable, most, ram)
        return affordable, least

    def _least(
        self, goal: Goal, partitions: list[Partition], most: float, ram: int | None
    ) -> PlannedProgram | None:
        """Return the program with the least sum; None if none can be planned in ``ram`` bytes.

        Where a plan's sum is larger than what counts as equal to the bound of its partition, others
        with at most ``most`` instructions, which may keep it, are added to ``partitions``.
        """
        least = self._own_fastest if self._own_fastest.cost.keeps(ram, None) else None
        # No program takes less memory than the bound of its partition.
        waiting = [(*_rank(goal, p), i) for i, p in enumerate(partitions)]
        heapify(waiting)
        while waiting:
            bound, _, index = heappop(waiting)
            if least is not None and bound >= _sum(goal, least):
                break
            partition = partitions[index]
            found = self._frontier.planned_within(partition, ram)
            if found is not None and (least is None or _sum(goal, found) < _sum(goal, least)):
                least = found
            if found is None or _sum(goal, found) > (1 + self._policy.equal_sums) * bound:
                for other in self._frontier.others(partition):
                    if other.cost <= most:
                        heappush(waiting, (*_rank(goal, other), len(partitions)))
                        partitions.append(other)
        return least

    def workspaces(self) -> Sequence[int]:
        """Return the workspaces in bytes of the programs of the frontier, from the fastest on, and
        at last the smallest that there is.
        """
        found = [program.workspace_bytes for program in self._frontier.programs()]
        smallest = self.smallest()
        return found if smallest is None else [*dict.fromkeys((*found, smallest.workspace_bytes))]

    def within(self, ram: int | None, flash: int | None) -> PlannedProgram:
        """Return the fastest program within the limits, in bytes of workspace and of flash; raise
        :class:`LimitError`, with the least possible values, if there is none, or the planner's last
        error if nothing can be planned.
        """
        found = self._within(ram, flash)
        if found is None:
            raise self._refusal(ram, flash)
        return found

    def _within(self, ram: int | None, flash: int | None) -> PlannedProgram | None:
        """Return the fastest program within the limits; None if there is none."""
        tried = [fastest_within(self._frontier, ram, flash)]
        if ram is not None and flash is not None:
            # Goals give flash other prices.
            tried += [self.program(name, ram) for name in self._policy.goals]
        found = [p for p in tried if p is not None and p.cost.keeps(ram, flash)]
        if not found and ram is not None:
            # Where nothing can be planned at all, the search for the fastest says why.
            least = self.smallest(flash) or self.smallest() or self._own_fastest
            found = [least] if least.cost.keeps(ram, flash) else []
        return min(found, key=lambda program: program.instructions, default=None)

    def _refusal(self, ram: int | None, flash: int | None) -> LimitError:
        """Return an error that says, for each limit, the smallest value possible while the other is
        kept, if it can be kept: with as much a program is found, and none with less.
        """
        smallest = None
        if ram is not None:
            program = self.smallest(flash) or self.smallest() or self._own_fastest
            smallest = program.workspace_bytes
        found = self._within(ram, None)
        kept = None if found is None else ram
        least = least_flash(self._frontier, kept)
        if least is None:
            least = (found or self._own_fastest).flash_bytes
        while (less := self._within(kept, least - 1)) is not None:
            least = less.flash_bytes
        return refusal(self._frontier, ram, flash, smallest, least)

    def smallest(self, flash: int | None = None) -> PlannedProgram | None:
        """Return the program with the least workspace for a limit of flash: nothing is found with
        less. None if there is none.
        """
        if flash not in self._smallest:
            least = smallest_within(self._frontier, flash)
            smaller = least
            while smaller is not None:
                least = smaller
                smaller = self._smaller(least.workspace_bytes - 1, flash)
            self._smallest[flash] = least
        return self._smallest[flash]

    def _smaller(self, ram: int, flash: int | None) -> PlannedProgram | None:
        """Return the program with the least workspace, of those that the searches for goals and
        limits find in ``ram`` bytes; None if they find none.
        """
        tried = [
            fastest_within(self._frontier, ram, flash),
            *(self.program(name, ram) for name in LIMITED_GOALS),
        ]
        found = [p for p in tried if p is not None and p.cost.keeps(ram, flash)]
        return min(found, key=lambda p: p.workspace_bytes, default=None)


def _rank(goal: Goal, partition: Partition) -> tuple[float, int]:
    """Return a lower bound of the sum of a partition's program, and its cost."""
    return goal.sum(partition.memory_bound, partition.flash), partition.cost


def _sum(goal: Goal, program: PlannedProgram) -> float:
    return goal.sum(program.workspace_bytes, program.flash_bytes)
