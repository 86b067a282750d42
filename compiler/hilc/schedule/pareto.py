"""The Pareto frontier of a model on a core: programs of ever less memory, ever more instructions.

For a limit the cheapest partition whose segments all keep it is found exactly; planning it then
says what the memory really is. Lowering the limit, each time below the memory lower bound of the
last partition, gives the frontier. It depends on model and core only, so every goal and limit is a
choice among the same programs, and a tighter limit never gives a faster one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.lowering.choice import Choice, CostEstimate
from hilc.memory.plan import Planner
from hilc.memory.program import Program
from hilc.schedule.groups import Objective
from hilc.schedule.partition import Partition, Partitioner
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.tuning import Tuning

#: The objective of the frontier itself: instructions alone, by any kernel.
FASTEST = Objective(flash_heavy=True)


@dataclass(frozen=True)
class PlannedProgram:
    """A program of the frontier; the instructions and the flash are estimates."""

    choice: Choice
    program: Program
    instructions: int
    flash_bytes: int

    @property
    def workspace_bytes(self) -> int:
        return self.program.workspace_bytes

    @property
    def cost(self) -> CostEstimate:
        return CostEstimate(self.workspace_bytes, self.instructions, self.flash_bytes)


class ParetoFrontier:
    """The partitions of a model from the fastest to the smallest, and the programs they become.

    ``planner`` makes the programs; ``tuning`` has measured counts to use in place of estimates.
    ``optimize`` is the goal that the code is generated for, which says what code layers share.
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
        #: Whether costs are measured ones where they can be.
        self.tuned = tuning is not None
        self._partitions: dict[Objective, list[Partition]] = {}
        self._planned: dict[Partition, PlannedProgram | InputError] = {}

    def partitions(self, objective: Objective = FASTEST) -> Iterator[Partition]:
        """From the fastest on, each with a smaller memory lower bound."""
        for index in range(self.policy.frontier_programs):
            if (partition := self._partition(objective, index)) is None:
                return
            yield partition

    def programs(self) -> Iterator[PlannedProgram]:
        """From the fastest on, each that can be planned and takes less memory than those before."""
        least: int | None = None
        for partition in self.partitions():
            found = self.planned(partition)
            if isinstance(found, PlannedProgram) and (
                least is None or found.workspace_bytes < least
            ):
                least = found.workspace_bytes
                yield found

    def planned(self, partition: Partition) -> PlannedProgram | InputError:
        """The program of a partition, or why the planner has no room for it."""
        if partition not in self._planned:
            choice = partition.choice
            if self._progress is not None:
                self._progress()
            found: PlannedProgram | InputError
            try:
                program = self._planner.plan(choice)
                found = PlannedProgram(choice, program, partition.cost, partition.flash)
            except InputError as error:
                found = error
            self._planned[partition] = found
        return self._planned[partition]

    def affordable(self, objective: Objective, ceiling: float) -> Iterator[Partition]:
        """Those before two in a row that take more than ``ceiling`` instructions."""
        over = 0
        for partition in self.partitions(objective):
            over = over + 1 if partition.cost > ceiling else 0
            if over > 1:
                return
            if not over:
                yield partition

    def between(self, objective: Objective, ceiling: float, bound: int) -> list[Partition]:
        """Those that take at most ``ceiling`` instructions and need less than ``bound`` bytes, down
        to the first of the frontier that does not: its steps are larger than a limit's."""
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

    def _partition(self, objective: Objective, index: int) -> Partition | None:
        known = self._partitions.setdefault(objective, [])
        while len(known) <= index:
            partition = self._next(known[-1].memory_bound if known else None, objective)
            if partition is None:
                return None
            known.append(partition)
            # Where outputs that cannot lie just where an input was leave no room for scratch, there
            # may be kernels whose outputs can.
            other = self.partitioner.cheapest(partition.memory_bound, objective, in_place=True)
            if other is not None and other.segments != partition.segments:
                known.append(other)
        return known[index]

    def _next(self, bound: int | None, objective: Objective) -> Partition | None:
        """What costs least of all that needs clearly less than ``bound``, or at least a little."""
        cheapest = self.partitioner.cheapest
        if bound is None:
            return cheapest(None, objective)
        policy = self.policy
        for limit in (int(policy.frontier_step * bound) - 1, bound - policy.small_step_bytes):
            if (partition := cheapest(limit, objective)) is not None:
                return partition
        return None
