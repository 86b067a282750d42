"""Pareto frontier of a model on a core: programs with ever less memory and ever more instructions.

For a memory limit the cheapest partition whose segments all keep it is found exactly; its plan
gives the actual memory. Lowering the limit, each time below the memory lower bound of the last
partition, gives the frontier. It depends on the model and the core only, so every goal and limit
selects among the same programs, and a tighter limit never gives a faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.lowering.choice import CostEstimate, KernelSelection
from hilc.memory.plan import Planner
from hilc.memory.program import Program
from hilc.schedule.groups import Objective
from hilc.schedule.partition import Partition, Partitioner
from hilc.schedule.policy import POLICY, Goal, SearchPolicy
from hilc.schedule.tuning import Tuning

#: Objective of the frontier itself: instructions alone.
FASTEST = Objective()


@dataclass(frozen=True)
class PlannedProgram:
    """Program of the frontier; instructions and flash are estimates."""

    partition: Partition
    choice: KernelSelection
    program: Program
    instructions: int
    flash_bytes: int
    #: Whether the instructions were measured, of the whole program.
    measured: bool

    @property
    def workspace_bytes(self) -> int:
        """Workspace of the program, in bytes."""
        return self.program.workspace_bytes

    @property
    def cost(self) -> CostEstimate:
        """Workspace in bytes, estimated instructions, and estimated flash in bytes."""
        return CostEstimate(self.workspace_bytes, self.instructions, self.flash_bytes)


class ParetoFrontier:
    """Partitions of a model from the fastest to the smallest, and their programs.

    ``planner`` creates the programs, which are not verified: the search verifies the one that it
    returns. ``tuning`` has measured counts that replace estimates. ``optimize`` is the goal of code
    generation, which determines the code that layers share.
    ``progress`` is called for every program that is planned.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        tuning: Tuning | None = None,
        optimize: str = "balanced",
        policy: SearchPolicy = POLICY,
        progress: Callable[[], None] | None = None,
    ) -> None:
        self.policy = policy
        self.partitioner = Partitioner(planner, tuning, optimize, policy)
        self._planner = planner
        #: Whether the workspace includes inputs and outputs.
        self.io_in_pool = planner.io_in_pool
        self._progress = progress
        #: Whether costs are measured where possible.
        self.tuned = tuning is not None
        #: Unit of the costs.
        self.counter = "instructions" if tuning is None else tuning.counter
        #: Known partitions, and iterators over the next ones.
        self._partitions: dict[Objective, list[Partition]] = {}
        self._walks: dict[Objective, Iterator[Partition]] = {}
        self._planned: dict[Partition, PlannedProgram | InputError] = {}
        #: By partition, the objective for which it was found to be the cheapest.
        self._objectives: dict[Partition, Objective] = {}
        #: By partition, the price of flash for which it was found.
        self._worths: dict[Partition, float] = {}

    def partitions(self, objective: Objective = FASTEST) -> Iterator[Partition]:
        """Yield partitions from the fastest on, each with a smaller memory lower bound."""
        for index in range(self.policy.frontier_programs):
            if (partition := self._partition(objective, index)) is None:
                return
            yield partition

    def measured(self, objective: Objective = FASTEST) -> list[Partition]:
        """Return the partitions that were measured as a whole, the fastest first."""
        limit = objective.flash_limit
        within = (p for p in self.partitioner.measured if limit is None or p.flash <= limit)
        return sorted(within, key=lambda partition: partition.cost)

    def programs(self) -> Iterator[PlannedProgram]:
        """Yield programs from the fastest on: each that can be planned and takes less memory than
        those before.
        """
        least: int | None = None
        for partition in self.partitions():
            found = self.planned(partition)
            if isinstance(found, PlannedProgram) and (
                least is None or found.workspace_bytes < least
            ):
                least = found.workspace_bytes
                yield found

    def planned(self, partition: Partition) -> PlannedProgram | InputError:
        """Return the program of a partition, or the planner's error if it does not fit."""
        if partition not in self._planned:
            choice = partition.choice
            if self._progress is not None:
                self._progress()
            found: PlannedProgram | InputError
            try:
                program = self._planner.plan_unchecked(choice)
                found = PlannedProgram(
                    partition, choice, program, partition.cost, partition.flash, partition.measured
                )
            except InputError as error:
                found = error
            self._planned[partition] = found
        return self._planned[partition]

    def planned_within(self, partition: Partition, ram: int | None = None) -> PlannedProgram | None:
        """Return the program of a partition; None if it cannot be planned in a workspace of ``ram``
        bytes.
        """
        if ram is not None and partition.memory_bound > ram:
            return None
        found = self.planned(partition)
        return found if isinstance(found, PlannedProgram) and found.cost.keeps(ram, None) else None

    def fastest(self) -> PlannedProgram:
        """Return the fastest program that can be planned, by measured counts where available; raise
        the planner's last error if there is none.
        """
        refusal: InputError | None = None
        for partition in self.partitions():
            found = self.planned(partition)
            if isinstance(found, PlannedProgram):
                break
            refusal = found
        else:
            assert refusal is not None, "without a limit there is a program"
            raise refusal
        for partition in self.measured():
            if partition.cost >= found.instructions:
                break
            if (measured := self.planned_within(partition)) is not None:
                return measured
        return found

    def affordable(
        self, goal: Goal, most: float, ram: int | None = None, *, every: bool = False
    ) -> Iterator[Partition]:
        """Yield partitions with at most ``most`` instructions and ever less memory than ``ram``
        bytes, each with the least flash that was found for it: at the highest price of flash that
        keeps ``most``, which falls as memory does, since less memory takes more instructions.
        Limits within which flash alone makes every sum larger than the least of the goal are left
        out, unless ``every`` one is asked for.

        Steps are as large as sums of the goal that count as equal, or a part of these where nothing
        is that much smaller: a sum that is less by the smallest part may be missed.
        """
        limits: Sequence[int | None] = (ram,)
        least, cost = float("inf"), most

        def is_hopeless(limit: int | None) -> bool:
            """Return whether flash alone makes the sums within a limit no less than the least, and
            those of faster programs too large to count as equal.
            """
            if every:
                return False
            flash, faster = (self.partitioner.flash_bound(limit, own) for own in (most, cost))
            equal = (1 + self.policy.equal_sums) * least
            return goal.sum(0, flash) >= least and goal.sum(0, faster) >= equal

        for worth in self.policy.flash_worths:
            objective = Objective(worth)
            while found := self._least_flash(limits, objective, most, is_hopeless):
                self._objectives.setdefault(found[0], objective)
                self._worths.update(dict.fromkeys(found, worth))
                yield from found
                bound = min(p.memory_bound for p in found)
                own_sum = goal.sum(bound, found[-1].flash)
                if own_sum < least:
                    least, cost = own_sum, max(p.cost for p in found)
                # Less memory takes no less flash.
                limits = self._smaller_sums(goal, least, bound, found[-1].flash)
            if not limits or is_hopeless(limits[0]):
                continue
            # Between two prices the cheapest may take too many instructions, or too much flash.
            own = self.partitioner.least_known_flash(limits[0], objective, most)
            if own is not None:
                self._objectives.setdefault(own, objective)
                self._worths[own] = worth
                yield own
        yield from (p for p in self.measured() if p.cost <= most)

    def _smaller_sums(self, goal: Goal, least: float, bound: int, flash: int) -> Sequence[int]:
        """Return limits of memory below ``bound`` bytes with which the sum of a goal with this much
        flash is less by as much as counts as equal: less than the ``least`` of all, then less than
        the own sum, by that much and by parts of it.
        """
        equal = self.policy.equal_sums
        own = goal.sum(bound, flash)
        sums = [(1 - equal) * least, *((1 - part * equal) * own for part in self.policy.sum_steps)]
        most = bound - self.policy.small_step_bytes
        limits = [min(most, int((one - goal.sum(0, flash)) / goal.workspace)) for one in sums]
        return [limit for limit in dict.fromkeys(limits) if limit > 0]

    def others(self, partition: Partition) -> Iterator[Partition]:
        """Yield other partitions in as much memory as one that :meth:`affordable` found, which may
        keep its bound where that one does not.
        """
        if (objective := self._objectives.get(partition)) is not None:
            yield from self._variants(partition, objective)

    def faster(self, program: PlannedProgram, flash: float) -> Iterator[Partition]:
        """Yield the fastest partition that is found in the workspace of a program with at most
        ``flash`` bytes of flash, and others with the same price of flash.

        Lower prices of flash give faster partitions with more flash: they are tried from the price
        for which the program's own was found.
        """
        worths = self.policy.flash_worths
        start = worths.index(self._worths.get(program.partition, worths[0]))
        fastest: tuple[Partition, Objective] | None = None
        for place in range(start, len(worths)):
            found = self._cheapest_within(program.workspace_bytes, worths[place], flash)
            if found is None:
                break
            fastest = found, Objective(worths[place])
        for worth in reversed(worths[:start]):
            if fastest is not None:
                break
            found = self._cheapest_within(program.workspace_bytes, worth, flash)
            fastest = None if found is None else (found, Objective(worth))
        if fastest is not None:
            yield fastest[0]
            yield from self._variants(*fastest)

    def _cheapest_within(self, limit: int, flash_worth: float, flash: float) -> Partition | None:
        """Return the cheapest partition at a price of flash, if it has at most ``flash`` bytes."""
        found = self.partitioner.cheapest(limit, Objective(flash_worth))
        return None if found is None or found.flash > flash else found

    def _least_flash(
        self,
        limits: Sequence[int | None],
        objective: Objective,
        most: float,
        is_hopeless: Callable[[int | None], bool],
    ) -> Sequence[Partition]:
        """Return the partitions of :meth:`Partitioner.least_flash` for the first of these limits
        that has some and is not hopeless; none where there is no such limit.
        """
        for limit in limits:
            if is_hopeless(limit):
                continue
            if own := self.partitioner.least_flash(limit, objective, most):
                return own
        return ()

    def _partition(self, objective: Objective, index: int) -> Partition | None:
        known = self._partitions.setdefault(objective, [])
        if objective not in self._walks:
            self._walks[objective] = self._walk(objective)
        while len(known) <= index:
            partition = next(self._walks[objective], None)
            if partition is None:
                return None
            known.append(partition)
        return known[index]

    def _walk(self, objective: Objective) -> Iterator[Partition]:
        """Find the partitions from the fastest on."""
        bound: int | None = None
        while (partition := self._next(bound, objective)) is not None:
            yield partition
            bound = partition.memory_bound
            for variant in self._variants(partition, objective):
                yield variant
                bound = variant.memory_bound

    def _variants(self, partition: Partition, objective: Objective) -> Iterator[Partition]:
        """Yield other partitions in as much memory, which may keep it where that one does not."""
        found = [partition]
        # Outputs that cannot share an input's buffer may leave no bytes for scratch; other kernels
        # may permit it.
        other = self.partitioner.cheapest(partition.memory_bound, objective, in_place=True)
        if other is not None and other.segments != partition.segments:
            found.append(other)
            self._worths[other] = objective.flash_worth
            yield other
        # Where its segments do not keep the bound together, others may.
        together = self.partitioner.cheapest_together(partition, objective)
        while together is not None:
            if all(together.segments != before.segments for before in found[-2:]):
                found.append(together)
                self._worths[together] = objective.flash_worth
                yield together
            together = self.partitioner.cheapest_together(together, objective)

    def _next(self, bound: int | None, objective: Objective) -> Partition | None:
        """Return the cheapest partition with clearly less than ``bound`` bytes, or at least a
        little less.
        """
        cheapest = self.partitioner.cheapest
        if bound is None:
            return cheapest(None, objective)
        if bound == 0:
            return None
        for limit in self._limits_below(bound):
            if (partition := cheapest(limit, objective)) is not None:
                return partition
        return None

    def _limits_below(self, bound: int) -> tuple[int, int]:
        """Return a limit clearly below ``bound`` bytes, and one a little below it."""
        policy = self.policy
        limits = int(policy.frontier_step * bound) - 1, bound - policy.small_step_bytes
        return max(0, limits[0]), max(0, limits[1])
