"""Selection of a program from the Pareto frontier, by goal and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from hilc.errors import InputError
from hilc.schedule.groups import Objective
from hilc.schedule.pareto import FASTEST, ParetoFrontier, PlannedProgram
from hilc.schedule.partition import Partition


class LimitError(InputError):
    """No program keeps the limits; ``least_flash`` is the estimated flash of the smallest."""

    def __init__(self, fact: str, hint: str, least_flash: int) -> None:
        super().__init__(fact, hint)
        self.least_flash = least_flash


#: What the segments of a program may take of a limit that it has to keep as a whole.
_SHARES = (1.0, 0.95, 0.9, 0.8)


class Goals:
    """Programs of a frontier by goal and by limits."""

    def __init__(self, frontier: ParetoFrontier) -> None:
        self._frontier = frontier
        self._policy = policy = frontier.policy
        #: Whether costs are measured where possible.
        self.tuned = frontier.tuned
        #: Unit of the costs.
        self.counter = frontier.counter
        partitioner = frontier.partitioner
        # Who feeds rows has little memory.
        self._balanced = Objective(policy.balanced_flash_worth, slices=partitioner.is_fed)
        #: That of the least memory.
        self._least_memory = replace(
            self._balanced, slices=partitioner.is_fed or partitioner.has_expansions
        )
        self._least_flash = Objective(policy.least_flash_worth)

    @cached_property
    def fastest(self) -> PlannedProgram:
        """Fastest program that can be planned."""
        return self._fastest(FASTEST)

    @cached_property
    def usual(self) -> PlannedProgram:
        """Fastest program without kernels for speed alone; :attr:`balanced` is relative to it."""
        if not self._frontier.partitioner.speeds:
            return self.fastest
        return self._fastest(Objective(flash_heavy=True))

    @cached_property
    def balanced(self) -> PlannedProgram:
        """Program with the least sum of instructions and 4.25 times workspace, each relative to
        :attr:`usual`, among those with at most 30 % more instructions than it and not much more
        flash than those need.
        """
        most, worths = self._policy.balanced_instructions, self._policy.flash_worths
        for objective in (self._balanced, *(Objective(w, flash_heavy=True) for w in worths)):
            if (found := self._saving(objective, self.usual, most)) is not None:
                return found
        # If the limits of the memory pools exclude these, the fastest program within them.
        return self.usual

    @cached_property
    def lean(self) -> PlannedProgram:
        """The same as :attr:`balanced` of the programs that unfold no weights, relative to the
        fastest of them.
        """
        fastest = self._fastest(Objective(unfolds=False))
        balanced = replace(self._balanced, unfolds=False)
        return self._saving(balanced, fastest, self._policy.lean_instructions) or fastest

    @cached_property
    def least_memory(self) -> PlannedProgram:
        """Program with the least memory without flash-heavy kernels, with at most 1.5 times the
        instructions of the fastest program that unfolds no weights; :attr:`balanced` where that
        takes less. Flash has the price that it has for :attr:`balanced`; a lower one where that
        finds a smaller program, which is worth its flash.
        """
        ceiling = self._policy.ram_instructions * self.lean.instructions
        partitions = self._affordable(self._least_memory, ceiling)
        least = min(map(_memory_bound, partitions), default=0)
        partitions += self._frontier.between(self._least_memory, ceiling, least)
        found = self._smallest(partitions) or self.lean
        found = self._smaller(found, ceiling) or found
        return min(found, self.balanced, key=lambda program: program.workspace_bytes)

    def least_flash(self, ram: int | None = None) -> PlannedProgram:
        """Return the program with the least flash that can be planned, in a workspace of ``ram``
        bytes if possible.
        """
        frontier = self._frontier
        if ram is not None:
            # The frontier for flash adds up the sizes of layers, without the code that they share.
            partitions = [
                partition
                for objective in (self._least_flash, FASTEST)
                for partition in frontier.partitions(objective)
                if partition.memory_bound <= ram
            ]
            for partition in sorted(partitions, key=_flash):
                found = frontier.planned(partition)
                if isinstance(found, PlannedProgram) and found.cost.keeps(ram, None):
                    return found
        return self._first(frontier.partitions(self._least_flash))

    def within(self, ram: int | None, flash: int | None) -> PlannedProgram:
        """Return the fastest program within the limits; raise :class:`LimitError` if there is
        none.
        """
        best: PlannedProgram | None = None
        objective = replace(FASTEST, flash_limit=flash)
        for partition in self._frontier.partitions(objective):
            if ram is not None and partition.memory_bound > ram:
                continue
            if best is None or partition.cost < best.instructions:
                found = self._frontier.planned(partition)
                if isinstance(found, PlannedProgram) and found.cost.keeps(ram, None):
                    best = found
            if best is not None and (
                ram is None or partition.cost > self._policy.uneven_cost * best.instructions
            ):
                break
        for partition in self._frontier.measured(objective):
            if best is not None and partition.cost >= best.instructions:
                break
            found = self._frontier.planned(partition)
            if isinstance(found, PlannedProgram) and found.cost.keeps(ram, None):
                best = found
        if flash is not None and (ram is not None or best is None):
            # Kernels that are not the fastest in their memory may take less flash.
            kept = [p for own in self._frugal(flash) for p in self._keeping(own, ram)]
            best = min([*kept, *([] if best is None else [best])], key=_instructions, default=None)
        if best is None:
            raise self._refusal(ram, flash)
        return best

    def _frugal(self, flash: int | None) -> list[Objective]:
        """Return the objectives that give flash a price, for programs within a limit of it."""
        priced = (self._balanced, self._least_memory, self._least_flash)
        return [replace(objective, flash_limit=flash) for objective in priced]

    def _keeping(self, objective: Objective, ram: int | None) -> Iterator[PlannedProgram]:
        """Yield the fastest programs for an objective in a workspace of ``ram`` bytes: of those in
        ever less memory, and of the cheapest in as much or a little less.
        """
        frontier = self._frontier
        known = [p for p in frontier.partitions(objective) if ram is None or p.memory_bound <= ram]
        limits = [] if ram is None else [int(share * ram) for share in _SHARES]
        tried = (frontier.partitioner.cheapest(limit, objective) for limit in limits)
        for partitions in (sorted(known, key=_cost), tried):
            for partition in partitions:
                found = None if partition is None else frontier.planned(partition)
                if isinstance(found, PlannedProgram) and found.cost.keeps(ram, None):
                    yield found
                    break

    def _saving(
        self, objective: Objective, fastest: PlannedProgram, most: float
    ) -> PlannedProgram | None:
        """Return the program with the least sum of instructions and workspace, both relative to
        ``fastest`` and workspace weighted, among those with at most ``most`` times its instructions
        and not much more flash than the fastest of them; None if none can be planned, or none is
        worth its instructions: with all that it may take it should not need more workspace.
        """
        per_byte = self._policy.workspace_worth / max(fastest.workspace_bytes, 1)

        def worth(cost: int, nbytes: int) -> float:
            return cost / max(fastest.instructions, 1) + per_byte * nbytes

        def priced(partition: Partition) -> float:
            return partition.cost + objective.flash_worth * partition.flash

        ceiling = most * fastest.instructions
        # What all of them cost in as much workspace as the fastest takes.
        worst = most + self._policy.workspace_worth
        best: tuple[float, Partition, PlannedProgram] | None = None
        affordable = self._affordable(objective, ceiling)
        # Not compressed: programs in less memory run layers together, which decode nothing.
        most_flash = self._policy.balanced_flash * affordable[0].plain_flash if affordable else 0
        ranked = [(worth(p.cost, p.memory_bound), p) for p in affordable if p.flash <= most_flash]
        for least, partition in sorted(ranked, key=lambda pair: pair[0]):
            if least >= (worst if best is None else best[0]):
                break
            found = self._frontier.planned(partition)
            if isinstance(found, PlannedProgram):
                own = worth(partition.cost, found.workspace_bytes)
                if own < (worst if best is None else best[0]):
                    best = own, partition, found
        if best is None:
            return None
        # Of programs in as much memory the sum takes the fastest; flash has its price here too.
        _, chosen, program = best
        slowest = max(chosen.cost, self._policy.priced_instructions * fastest.instructions)
        for partition in sorted(affordable, key=priced):
            if priced(partition) >= priced(chosen):
                break
            if partition.memory_bound <= program.workspace_bytes and partition.cost <= slowest:
                found = self._frontier.planned(partition)
                if (
                    isinstance(found, PlannedProgram)
                    and found.workspace_bytes <= program.workspace_bytes
                ):
                    return found
        return program

    def _fastest(self, objective: Objective) -> PlannedProgram:
        """Return the fastest program that can be planned, by what was measured where it was."""
        found = self._first(self._frontier.partitions(objective))
        for partition in self._frontier.measured(objective):
            if partition.cost >= found.instructions:
                break
            planned = self._frontier.planned(partition)
            if isinstance(planned, PlannedProgram):
                return planned
        return found

    def _affordable(self, objective: Objective, ceiling: float) -> list[Partition]:
        """Return the partitions of at most ``ceiling`` instructions, the measured ones last."""
        known = [p for p in self._frontier.measured(objective) if p.cost <= ceiling]
        return [*self._frontier.affordable(objective, ceiling), *known]

    def _smaller(self, program: PlannedProgram, ceiling: float) -> PlannedProgram | None:
        """Return the program with the least memory of those that save some of that of ``program``
        and are worth the flash they take for it; None if none is.

        At the price of flash, slow programs of little flash stand before faster ones: a frontier
        exceeds ``ceiling`` before those with the least memory.
        """

        def is_worth(flash: int, workspace: int) -> bool:
            saved = program.workspace_bytes - workspace
            return saved > 0 and flash - program.flash_bytes <= most * saved

        most = self._policy.least_memory_flash
        smaller = self._frontier.below(self._least_memory, ceiling, program.workspace_bytes)
        worth = [p for p in smaller if is_worth(p.flash, p.memory_bound)]
        for partition in sorted(worth, key=_memory_bound):
            found = self._frontier.planned(partition)
            if isinstance(found, PlannedProgram) and is_worth(
                found.flash_bytes, found.workspace_bytes
            ):
                return found
        return None

    def _first(self, partitions: Iterable[Partition]) -> PlannedProgram:
        """Return the first program that can be planned; raise the planner's last error if there is
        none.
        """
        refusal: InputError | None = None
        for partition in partitions:
            found = self._frontier.planned(partition)
            if isinstance(found, PlannedProgram):
                return found
            refusal = found
        assert refusal is not None, "without a limit there is a program"
        raise refusal

    def _smallest(self, partitions: Iterable[Partition]) -> PlannedProgram | None:
        """Return the program with the smallest workspace that can be planned, the fastest of
        these.
        """
        best: PlannedProgram | None = None
        for partition in sorted(partitions, key=_memory_bound):
            if best is not None and partition.memory_bound >= best.workspace_bytes:
                if partition.memory_bound > best.workspace_bytes:
                    break
                if partition.cost >= best.instructions:
                    continue
            found = self._frontier.planned(partition)
            if isinstance(found, PlannedProgram) and (
                best is None or _size_and_cost(found) < _size_and_cost(best)
            ):
                best = found
        return best

    def _refusal(self, ram: int | None, flash: int | None) -> LimitError:
        """Return an error that says, for each limit, the smallest value possible while the other is
        kept.
        """
        parts = []
        partitioner = self._frontier.partitioner
        tried = [partitioner.cheapest(ram, objective) for objective in self._frugal(None)]
        if not any(tried):
            tried = [partitioner.cheapest(None, self._least_flash)]
        least = min((p for p in tried if p is not None), key=_flash)
        if ram is not None:
            fast = replace(FASTEST, flash_limit=flash)
            objectives = [fast, *(self._frugal(flash) if flash is not None else [])]
            both = [p for one in objectives for p in self._frontier.partitions(one)]
            found = self._smallest(both) or self._smallest(self._frontier.partitions())
            smallest = None if found is None else found.workspace_bytes
            parts.append(f"a workspace of {ram} B (the smallest is {smallest} B)")
        if flash is not None:
            parts.append(f"{flash} B of flash (the least is about {least.flash} B)")
        return LimitError(
            f"no program of {partitioner.graph.name!r} fits {' and '.join(parts)}",
            "raise the limit" if len(parts) == 1 else "raise one of the limits, or both",
            least.flash,
        )


def _flash(partition: Partition) -> int:
    return partition.flash


def _cost(partition: Partition) -> int:
    return partition.cost


def _instructions(program: PlannedProgram) -> int:
    return program.instructions


def _memory_bound(partition: Partition) -> int:
    return partition.memory_bound


def _size_and_cost(program: PlannedProgram) -> tuple[int, int]:
    return program.workspace_bytes, program.instructions
