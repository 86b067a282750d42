"""Pareto frontier of a model on a core: programs with ever less memory and ever more instructions.

For a memory limit the cheapest partition whose segments all keep it is found exactly; its plan
gives the actual memory. Lowering the limit, each time below the memory lower bound of the last
partition, gives the frontier. It depends on the model and the core only, so every goal and limit
selects among the same programs, and a tighter limit never gives a faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hilc.errors import InputError
from hilc.lowering.choice import Choice, CostEstimate
from hilc.memory.plan import Planner
from hilc.memory.program import Program
from hilc.schedule.groups import Objective
from hilc.schedule.partition import Partition, Partitioner
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.tuning import Tuning

#: Objective of the frontier itself: instructions alone, with any kernel.
FASTEST = Objective(flash_heavy=True, speed_only=True, slices=True)


@dataclass(frozen=True)
class PlannedProgram:
    """Program of the frontier; instructions and flash are estimates."""

    choice: Choice
    program: Program
    instructions: int
    flash_bytes: int
    #: Whether the instructions were measured, of the whole program.
    measured: bool

    @property
    def workspace_bytes(self) -> int:
        return self.program.workspace_bytes

    @property
    def cost(self) -> CostEstimate:
        return CostEstimate(self.workspace_bytes, self.instructions, self.flash_bytes)


class ParetoFrontier:
    """Partitions of a model from the fastest to the smallest, and their programs.

    ``planner`` creates the programs; ``tuning`` has measured counts that replace estimates.
    ``optimize`` is the goal of code generation, which determines the code that layers share.
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
        self._progress = progress
        #: Whether costs are measured where possible.
        self.tuned = tuning is not None
        #: Unit of the costs.
        self.counter = "instructions" if tuning is None else tuning.counter
        #: Those that are known, and what finds the next ones.
        self._partitions: dict[Objective, list[Partition]] = {}
        self._walks: dict[Objective, Iterator[Partition]] = {}
        self._planned: dict[Partition, PlannedProgram | InputError] = {}

    def partitions(self, objective: Objective = FASTEST) -> Iterator[Partition]:
        """Yield partitions from the fastest on, each with a smaller memory lower bound."""
        for index in range(self.policy.frontier_programs):
            if (partition := self._partition(objective, index)) is None:
                return
            yield partition

    def measured(self, objective: Objective = FASTEST) -> list[Partition]:
        """Return the partitions that were measured as a whole, the fastest first."""
        limit = objective.flash_limit
        permitted = (
            partition
            for partition in self.partitioner.measured
            if all(map(objective.permits, partition.segments))
            and (limit is None or partition.flash <= limit)
        )
        return sorted(permitted, key=lambda partition: partition.cost)

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
                program = self._planner.plan(choice)
                found = PlannedProgram(
                    choice, program, partition.cost, partition.flash, partition.measured
                )
            except InputError as error:
                found = error
            self._planned[partition] = found
        return self._planned[partition]

    def affordable(self, objective: Objective, ceiling: float) -> Iterator[Partition]:
        """Yield partitions until those of two memory bounds in a row exceed ``ceiling``
        instructions.
        """
        over: set[int] = set()
        for partition in self.partitions(objective):
            if partition.cost <= ceiling:
                over.clear()
                yield partition
                continue
            over.add(partition.memory_bound)
            if len(over) > 1:
                return

    def between(self, objective: Objective, ceiling: float, bound: int) -> list[Partition]:
        """Return partitions with at most ``ceiling`` instructions and less than ``bound`` bytes,
        down to the first on the frontier: its steps are larger than those of a limit.
        """
        found: list[Partition] = []
        smaller = (p.memory_bound for p in self.partitions(objective) if p.memory_bound < bound)
        low = max(smaller, default=bound)
        while bound - low > self.policy.small_step_bytes:
            limit = (low + bound) // 2
            partition = self.partitioner.cheapest(limit, objective)
            if partition is None or partition.cost > ceiling:
                low = limit
            else:
                bound = partition.memory_bound
                found.append(partition)
        return found

    def below(self, objective: Objective, ceiling: float, bound: int) -> Iterator[Partition]:
        """Yield partitions with at most ``ceiling`` instructions and ever less than ``bound``
        bytes: each is the cheapest in as much memory, at the highest price of flash at which that
        is fast enough.
        """
        worths = [w for w in self.policy.flash_worths if w <= objective.flash_worth]
        # Without a price it is the fastest: where that is too slow, all are.
        *priced, fastest = [replace(objective, flash_worth=worth) for worth in worths]
        cheapest = self.partitioner.cheapest
        while True:
            for limit in self._limits_below(bound):
                found = cheapest(limit, fastest)
                if found is not None and found.cost <= ceiling:
                    break
            else:
                return
            tried = (cheapest(limit, one) for one in priced)
            found = next((p for p in tried if p is not None and p.cost <= ceiling), found)
            yield found
            bound = found.memory_bound

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
            found = [partition]
            # Outputs that cannot share an input's buffer may leave no bytes for scratch; other
            # kernels may permit it.
            other = self.partitioner.cheapest(partition.memory_bound, objective, in_place=True)
            if other is not None and other.segments != partition.segments:
                found.append(other)
                yield other
            # Where its segments do not keep the bound together, others may.
            together = self.partitioner.cheapest_together(partition, objective)
            while together is not None:
                if all(together.segments != before.segments for before in found[-2:]):
                    found.append(together)
                    yield together
                together = self.partitioner.cheapest_together(together, objective)
            bound = found[-1].memory_bound

    def _next(self, bound: int | None, objective: Objective) -> Partition | None:
        """Return the cheapest partition with clearly less than ``bound`` bytes, or at least a
        little less.
        """
        cheapest = self.partitioner.cheapest
        if bound is None:
            return cheapest(None, objective)
        for limit in self._limits_below(bound):
            if (partition := cheapest(limit, objective)) is not None:
                return partition
        return None

    def _limits_below(self, bound: int) -> tuple[int, int]:
        """Return a limit clearly below ``bound`` bytes, and one a little below it."""
        policy = self.policy
        return int(policy.frontier_step * bound) - 1, bound - policy.small_step_bytes
