"""Cheapest partition of the layers into segments, found exactly by dynamic programming.

A memory limit holds for each segment by itself, so larger segments are left out and the rest is a
shortest path over the layers. A flash limit holds for their sum, so the path is found for every
sum, in fractions of the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import numpy.typing as npt

from hilc.lowering.choice import Group, KernelSelection
from hilc.memory.allocate import align
from hilc.memory.plan import Planner
from hilc.schedule.estimate import UNLIMITED, Estimator, Segment
from hilc.schedule.groups import FusedGroups, GroupsOfLayers, Objective, Rest
from hilc.schedule.offsets import Offsets, covers
from hilc.schedule.policy import SearchPolicy
from hilc.schedule.tuning import Tuning

_IntArray = npt.NDArray[np.intp]
_Option = Segment | Rest


@dataclass(frozen=True, eq=False)
class Partition:
    """Division of all layers into segments, with the estimates of the whole."""

    segments: tuple[Segment, ...]
    #: Cost estimate in instructions.
    cost: int
    memory_bound: int
    flash: int
    #: Whether the cost was measured, of the whole program.
    measured: bool = False

    @property
    def choice(self) -> KernelSelection:
        """Kernels and fused groups of the partition."""
        kernels = {s.names[0]: s.kernel for s in self.segments if s.group is None}
        return KernelSelection(
            kernels, tuple(s.group for s in self.segments if s.group is not None)
        )


@dataclass(frozen=True)
class _LeastPriced:
    """The least cost of the partitions within a limit of memory, with a price of flash."""

    limit: int | None
    #: Price of a byte of flash in instructions.
    worth: float
    priced: float

    def holds(self, limit: int | None) -> bool:
        """Return whether it is a lower bound of the partitions within ``limit`` bytes."""
        return self.limit is None or (limit is not None and limit <= self.limit)


class Partitioner:
    """Partitioner of the layers of a graph that have to be computed."""

    def __init__(
        self, planner: Planner, tuning: Tuning | None, optimize: str, policy: SearchPolicy
    ) -> None:
        self.graph = planner.lowering.graph
        self._policy = policy
        self.estimator = Estimator(planner, tuning, optimize, policy)
        steps = range(len(self.estimator.nodes))
        #: For each layer, its single-layer segments.
        self.singles = _decoded_in_little(
            [self.estimator.singles(step) for step in steps], policy.decoding_bytes
        )
        self._groups = FusedGroups(planner, self.estimator, self.singles, policy)
        #: Groups by limit of memory, price of flash, and whether expansions are sliced.
        self._groups_within: dict[tuple[int, float, bool], Sequence[GroupsOfLayers]] = {}
        #: The largest limit of memory in bytes that nothing is known to keep, by the price of
        #: flash, on which the groups that are tried depend.
        self._impossible: dict[float, int] = {}
        #: The least cost with a price of flash, of all partitions within a limit of memory.
        self._least_priced: list[_LeastPriced] = []
        tuned = [] if tuning is None else list(tuning.shared_as(optimize))
        known = [(program, self._segments_of(program.choice)) for program in tuned]
        #: Costs of programs that were measured as a whole, by their segments.
        self._whole = {_key(found): p.count for p, found in known if found is not None}
        sums = [(p.count, _cost(found)) for p, found in known if found is not None]
        #: Ratio of a whole program's cost to that of its segments, measured alone.
        self._beyond = median(count / max(1, cost) for count, cost in sums) if sums else 1.0
        #: The programs that were measured as a whole.
        self.measured = [self._partition(found) for _, found in known if found is not None]

    def cheapest(
        self, limit: int | None, objective: Objective, *, in_place: bool = False
    ) -> Partition | None:
        """Return the cheapest partition whose segments keep ``limit`` bytes, each by itself; None
        if there is none.

        With ``in_place`` kernels whose outputs cannot have an input's buffer are excluded, for
        layers that have others. Expansions are computed by slices of channels only where no
        partition keeps the limit otherwise.
        """
        worth = objective.flash_worth
        if limit is not None and limit <= self._impossible.get(worth, -1):
            return None
        segments = self._cheapest(*self._options(limit, objective, in_place=in_place), objective)
        if segments is None and self._groups.has_expansions:
            options = self._options(limit, objective, in_place=in_place, sliced=True)
            segments = self._cheapest(*options, objective)
        if segments is None and limit is not None and objective.flash_limit is None:
            self._impossible[worth] = limit
        found = None if segments is None else self._partition(segments)
        if found is not None and worth and not in_place and objective.flash_limit is None:
            self._least_priced.append(_LeastPriced(limit, worth, found.cost + worth * found.flash))
        return found

    def flash_bound(self, limit: int | None, most: float) -> float:
        """Return a lower bound of the flash in bytes of the partitions with at most ``most``
        instructions whose segments keep ``limit`` bytes, by the partitions found so far.

        A partition costs at least as much as the cheapest within a larger limit at each price of
        flash: what its instructions do not pay, its flash does. It is 0 where expansions can be
        computed by slices of channels, which are tried only where nothing else keeps a limit.
        """
        if self._groups.has_expansions:
            return 0.0
        bounds = [(one.priced - most) / one.worth for one in self._least_priced if one.holds(limit)]
        return max(bounds, default=0.0)

    def least_flash(
        self, limit: int | None, objective: Objective, most: float
    ) -> Sequence[Partition] | None:
        """Return the partitions with at most ``most`` instructions whose segments keep ``limit``
        bytes, each by itself: the cheapest one for the objective, and that with the least flash of
        the groups that were laid out to find it; none where the cheapest exceeds ``most``, None
        where nothing keeps the limit.

        Slices of expansions may be faster than what takes little memory without them, so without a
        price of flash less memory is tried too, until only they keep it.
        """
        found = self.cheapest(limit, objective)
        if found is None:
            return None
        if not objective.flash_worth and self._groups.has_expansions:
            smaller: Partition | None = found
            while smaller is not None and smaller.cost > most and not _is_sliced(smaller):
                below = int(self._policy.frontier_step * smaller.memory_bound) - 1
                smaller = self.cheapest(below, objective)
            if smaller is not None and smaller.cost <= most:
                found, limit = smaller, smaller.memory_bound
        if found.cost > most:
            return ()
        own = self._least_of_known(limit, objective, most, sliced=_is_sliced(found))
        return (found,) if own is None or own.flash >= found.flash else (found, own)

    def least_known_flash(
        self, limit: int | None, objective: Objective, most: float
    ) -> Partition | None:
        """Return the partition with the least flash, of the groups that were laid out to find the
        cheapest, whose segments keep ``limit`` bytes and that has at most ``most`` instructions,
        also where the cheapest has more; None if there is none.
        """
        found = self.cheapest(limit, objective)
        if found is None:
            return None
        return self._least_of_known(limit, objective, most, sliced=_is_sliced(found))

    def _least_of_known(
        self, limit: int | None, objective: Objective, most: float, *, sliced: bool
    ) -> Partition | None:
        options = _known(*self._options(limit, objective, sliced=sliced))
        # Costs add up: a sum beyond the limit is one of rounded costs.
        policy = replace(
            self._policy,
            sum_parts_beyond=min(self._policy.sum_parts_beyond, len(options) // 2 + 2),
        )
        for segments in _least_of_each_sum(options, _flash_of, _cost_of, most, policy):
            if _cost(segments) <= most:
                return self._partition(segments)
        return None

    def cheapest_together(self, partition: Partition, objective: Objective) -> Partition | None:
        """Return the cheapest partition whose segments keep the memory lower bound of ``partition``
        one after the other, as far as offsets are known; None if that is ``partition``, exceeds the
        limit of flash, or if there is none.
        """
        limit = align(partition.memory_bound)
        if _fit_together(partition.segments, limit):
            return None
        singles, groups = self._options(limit, objective, sliced=_is_sliced(partition))

        def cheapest(options: Sequence[Sequence[_Option]]) -> Sequence[_Option] | None:
            return _cheapest_together(options, objective.flash_worth, limit)

        segments = _laid_out(singles, groups, cheapest)
        flash = objective.flash_limit
        if segments is None or (flash is not None and self.estimator.flash_bytes(segments) > flash):
            return None
        return self._partition(segments)

    def _options(
        self,
        limit: int | None,
        objective: Objective,
        *,
        in_place: bool = False,
        sliced: bool = False,
    ) -> tuple[list[list[Segment]], Sequence[GroupsOfLayers]]:
        """Return the segments that keep a limit: single layers, and groups."""
        if limit is None:
            # Layers that only a group computes, such as those of fed rows, take more.
            limit = UNLIMITED - 1
        key = limit, objective.flash_worth, sliced
        if key not in self._groups_within:
            self._groups_within[key] = self._groups.within(limit, objective, sliced=sliced)
        groups = self._groups_within[key]
        alone: list[list[Segment]] = []
        for found in self.singles:
            within = [s for s in found if s.memory_bound <= limit]
            if in_place and any(s.in_place for s in within):
                within = [s for s in within if s.in_place]
            alone.append(within)
        return alone, groups

    def _cheapest(
        self,
        singles: Sequence[Sequence[Segment]],
        groups: Sequence[GroupsOfLayers],
        objective: Objective,
    ) -> list[Segment] | None:
        segments = _laid_out(
            singles, groups, lambda options: _cheapest(options, objective.flash_worth)
        )
        limit, flash_bytes = objective.flash_limit, self.estimator.flash_bytes
        if segments is None or limit is None or flash_bytes(segments) <= limit:
            return segments
        for own in groups:
            own.lay_out_all()
        options = _known(singles, groups)
        for found in _least_of_each_sum(options, _cost_of, _flash_of, limit, self._policy):
            if flash_bytes(found) <= limit:
                return found
        # Sizes are rounded, that of the last one too.
        worth = self._policy.flash_worths[0]
        least = _laid_out(options, (), lambda options: _cheapest(options, worth))
        return least if least and flash_bytes(least) <= limit else None

    def _partition(self, segments: Sequence[Segment]) -> Partition:
        measured = self._whole.get(_key(segments))
        return Partition(
            tuple(segments),
            round(self._beyond * _cost(segments)) if measured is None else measured,
            max((segment.memory_bound for segment in segments), default=0),
            self.estimator.flash_bytes(segments),
            measured is not None,
        )

    def _segments_of(self, choice: KernelSelection) -> list[Segment] | None:
        """Return the segments of a choice; None if a layer has no such kernel, or a better one in
        every respect.
        """
        groups = {group.nodes[0]: group for group in choice.groups}
        found: list[Segment] = []
        step = 0
        while step < len(self.singles):
            name = self.estimator.nodes[step].name
            segment: Segment | None
            if name in groups:
                segment = self._groups.segment(groups[name])
            else:
                # The variant that is expected to be the fastest is first, and never dominated.
                kernel = choice.kernels.get(name, self.singles[step][0].kernel)
                segment = next((s for s in self.singles[step] if s.kernel == kernel), None)
            if segment is None:
                return None
            found.append(segment)
            step = segment.last + 1
        return found


def _is_sliced(partition: Partition) -> bool:
    """Return whether some of its expansions are computed by slices of channels."""
    return any(s.group is not None and s.group.sliced for s in partition.segments)


def _key(segments: Sequence[Segment]) -> tuple[tuple[int, str, Group | None], ...]:
    """Return the key of a graph's program."""
    return tuple((segment.first, segment.kernel, segment.group) for segment in segments)


def _cost(segments: Sequence[Segment]) -> int:
    return sum(segment.cost for segment in segments)


def _decoded_in_little(singles: Sequence[Sequence[Segment]], room: int) -> list[list[Segment]]:
    """Return the segments without those that decode their weights in more memory than another layer
    needs anyway, or ``room`` bytes: weights go to flash for want of memory.
    """
    peak = max((min(s.memory_bound for s in own if not s.decodes) for own in singles), default=0)
    most = max(peak, room)
    return [[s for s in own if not s.decodes or s.memory_bound <= most] for own in singles]


def _laid_out(
    singles: Sequence[Sequence[Segment]],
    groups: Sequence[GroupsOfLayers],
    cheapest: Callable[[Sequence[Sequence[_Option]]], Sequence[_Option] | None],
) -> list[Segment] | None:
    """Return the ``cheapest`` path through ``singles`` and ``groups``, of which those are laid out
    that may be in it.

    Where it has none that are not laid out, whose lower bounds it takes, it is the cheapest of all;
    of equals the first, as it would be if all were laid out.
    """
    while True:
        options: list[list[_Option]] = [[*found] for found in singles]
        for own in groups:
            options[own.last] += own.options
        path = cheapest(options)
        if path is None:
            return None
        rest = [one.groups for one in path if isinstance(one, Rest)]
        if not rest:
            return [one for one in path if isinstance(one, Segment)]
        for own in rest:
            own.lay_out()


def _cheapest(options: Sequence[Sequence[_Option]], flash_worth: float) -> list[_Option] | None:
    """Return the cheapest path from end to end through ``options``, which are indexed by their last
    layer.

    A byte of flash costs ``flash_worth`` instructions.
    """
    best: list[tuple[float, int, _Option | None] | None] = [(0.0, 0, None)]
    for segments in options:
        found: tuple[float, int, _Option | None] | None = None
        for segment in segments:
            before = best[segment.first]
            if before is None:
                continue
            cost = before[0] + segment.cost_at(flash_worth)
            bound = max(before[1], segment.memory_bound)
            if found is None or (cost, bound) < found[:2]:
                found = cost, bound, segment
        best.append(found)
    path: list[_Option] = []
    position = len(options)
    while position and (reached := best[position]) is not None and reached[2] is not None:
        path.append(reached[2])
        position = reached[2].first
    return None if best[-1] is None else path[::-1]


def _fit_together(segments: Sequence[Segment], limit: int) -> bool:
    """Return whether consecutive segments have offsets for the tensors between them in ``limit``
    bytes, as far as these are known.
    """
    offsets: Offsets | None = None
    value: int | None = None
    for segment in segments:
        offsets, value = segment.after(value, offsets, limit), segment.output
        if offsets == ():
            return False
    return True


@dataclass(frozen=True, eq=False)
class _Path:
    """Segments from the first layer on, and the offsets at which the output of the last can be."""

    cost: float
    memory_bound: int
    offsets: Offsets | None
    value: int | None
    #: The last segment, and the path before it; None where it starts.
    last: tuple[_Option, _Path] | None

    @property
    def segments(self) -> list[_Option]:
        found: list[_Option] = []
        link = self.last
        while link is not None:
            found.append(link[0])
            link = link[1].last
        return found[::-1]


def _cheapest_together(
    options: Sequence[Sequence[_Option]], flash_worth: float, limit: int, most: int = 12
) -> list[_Option] | None:
    """Return the cheapest of the paths whose segments fit together; groups that are not laid out
    are assumed to fit.

    Of paths to a layer the ``most`` cheapest are kept that no cheaper one is better than in offsets
    too, so a path may be missed.
    """
    best = [[_Path(0.0, 0, None, None, None)]]
    for segments in options:
        found: dict[tuple[Offsets | None, int | None], _Path] = {}
        for segment in segments:
            extra = segment.cost_at(flash_worth)
            for path in best[segment.first]:
                offsets: Offsets | None = None
                output: int | None = None
                if isinstance(segment, Segment):
                    offsets = segment.after(path.value, path.offsets, limit)
                    output = segment.output
                if offsets == ():
                    continue
                key = offsets, output
                cost, bound = path.cost + extra, max(path.memory_bound, segment.memory_bound)
                known = found.get(key)
                if known is None or (cost, bound) < (known.cost, known.memory_bound):
                    found[key] = _Path(cost, bound, *key, (segment, path))
        kept: list[_Path] = []
        for path in sorted(found.values(), key=lambda path: (path.cost, path.memory_bound)):
            better = any(p.value == path.value and covers(p.offsets, path.offsets) for p in kept)
            if not better and len(kept) < most:
                kept.append(path)
        best.append(kept)
    return best[-1][0].segments if best[-1] else None


def _cost_of(segment: Segment) -> float:
    return segment.cost


def _flash_of(segment: Segment) -> float:
    return segment.flash


def _known(
    singles: Sequence[Sequence[Segment]], groups: Sequence[GroupsOfLayers]
) -> list[list[Segment]]:
    """Return single layers and the groups that are laid out, by their last layer."""
    options = [list(found) for found in singles]
    for own in groups:
        options[own.last] += own.found
    return options


def _least_of_each_sum(
    options: Sequence[Sequence[Segment]],
    figure: Callable[[Segment], float],
    limited: Callable[[Segment], float],
    limit: float,
    policy: SearchPolicy,
) -> Iterator[list[Segment]]:
    """Yield the path with the least sum of ``figure`` for each rounded sum of ``limited``, from the
    largest on.

    Sums somewhat beyond ``limit`` are included; each path has a larger figure than the one before.
    """
    # What a build found to be too much is taken off the limit, which may leave nothing.
    limit = max(0, int(limit))
    part = max(1, limit // policy.sum_parts)
    parts = limit // part + policy.sum_parts_beyond
    #: Least figure of the layers so far for each sum, and the last segment of that path.
    costs = [np.zeros(parts)]
    ends: list[_IntArray] = []
    for segments in options:
        least = np.full(parts, np.inf)
        chosen = np.full(parts, -1)
        for index, segment in enumerate(segments):
            size = round(limited(segment) / part)
            total = costs[segment.first][: max(0, parts - size)] + figure(segment)
            better = np.flatnonzero(total < least[size:]) + size
            least[better] = total[better - size]
            chosen[better] = index
        costs.append(least)
        ends.append(chosen)
    least = costs[-1]
    cheaper = least < np.append(np.inf, least[:-1])
    for size in reversed(np.flatnonzero(cheaper).tolist()):
        found: list[Segment] = []
        end = len(options)
        while end:
            segment = options[end - 1][ends[end - 1][size]]
            found.append(segment)
            size -= round(limited(segment) / part)
            end = segment.first
        yield found[::-1]
