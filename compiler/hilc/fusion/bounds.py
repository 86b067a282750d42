"""What the layouts of a schedule share, whichever kernels compute its stages: the bands of each
stage, and how much scratch a kernel may take there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from hilc.fusion.bands import Band, NotFusible
from hilc.fusion.call import CALL_COST
from hilc.fusion.schedule import Schedule
from hilc.fusion.stages import Kernel, StageCalls, Stages
from hilc.lowering.kernels import KernelCall


@dataclass(frozen=True)
class Estimate:
    """Properties of a group's call that are known before its layout."""

    #: For each stage the call of its first band; None where no kernel computes all of its bands.
    calls: tuple[KernelCall, ...] | None
    #: Lower bound of its scratch.
    scratch_bytes: int
    #: Lower bound of its scratch, inputs and output, in bytes, where scratch may lie over rows of
    #: inputs that have been read.
    live_bytes: int
    #: Size of its inputs and output.
    outside_bytes: int


@dataclass(frozen=True)
class LeastCost:
    """Lower bounds of a group's call in instructions: of its entries, without moves of rows."""

    instructions: float
    #: Instructions plus the price of its flash.
    priced: float


def least_of(costs: Sequence[LeastCost]) -> LeastCost:
    """Return lower bounds of all of these."""
    return LeastCost(min([c.instructions for c in costs]), min([c.priced for c in costs]))


@dataclass(frozen=True)
class Prices:
    """Lower bounds of the prices of flash, in instructions."""

    #: Lower bound of the flash in bytes of a stage that computes this node, by the call of its
    #: first band.
    stage_bytes: Callable[[str, KernelCall], int]
    #: Price of such a byte.
    worth: float
    #: Price of an entry of the schedule.
    entry: float


@dataclass(frozen=True)
class KernelOption:
    """A kernel variant that computes a stage, and its instructions for all bands."""

    variant: str
    scratch_bytes: int
    cost: float
    #: Its call for the first band.
    first: KernelCall
    #: Lower bound of its flash in bytes (:attr:`Prices.stage_bytes`).
    flash_bytes: int


@dataclass(frozen=True)
class _Least:
    """The least cost of some kernels, by the most scratch that they take."""

    scratch_bytes: Sequence[int]
    costs: Sequence[float]
    #: With the price of flash.
    priced: Sequence[float]

    @staticmethod
    def of(ways: Sequence[KernelOption], worth: float) -> _Least:
        priced = [way.cost + worth * way.flash_bytes for way in ways]
        ordered = sorted(range(len(ways)), key=lambda i: ways[i].scratch_bytes)
        return _Least(
            [ways[i].scratch_bytes for i in ordered],
            list(accumulate([ways[i].cost for i in ordered], min)),
            list(accumulate([priced[i] for i in ordered], min)),
        )


class StageWays:
    """The ways to compute a stage so often, the fastest first, and what follows for a price."""

    def __init__(self, options: Sequence[KernelOption]) -> None:
        self._options = options
        self._cheapest: dict[float, Sequence[KernelOption]] = {}
        self._least: dict[float, _Least] = {}

    def cheapest(self, worth: float) -> Sequence[KernelOption]:
        """Return them, those first that are cheapest with this price of a byte of flash."""
        if worth not in self._cheapest:
            self._cheapest[worth] = sorted(
                self._options, key=lambda way: way.cost + worth * way.flash_bytes
            )
        return self._cheapest[worth]

    def least(self, worth: float) -> _Least:
        """Return the least cost with this price of a byte of flash."""
        if worth not in self._least:
            self._least[worth] = _Least.of(self._options, worth)
        return self._least[worth]


#: Ways by what they depend on; the first is the identity of a list of kernels, which stages keep.
KnownWays = dict[
    tuple[int, tuple[tuple[tuple[int, ...], int], ...], Callable[[str, KernelCall], int]], StageWays
]


class Bounds:
    """A schedule with the kernels that may compute its stages."""

    def __init__(self, stages: Stages, schedule: Schedule, known: KnownWays) -> None:
        self.stages = stages
        self.schedule = schedule
        self._nodes = schedule.geometry.nodes
        #: Ways that groups of the same layers share.
        self._shared = known
        #: By the price of a byte of flash.
        self._least: dict[float, list[_Least]] = {}
        self._ordered: dict[float, list[Sequence[KernelOption]]] = {}
        self._known_ways: list[StageWays] | None = None

    @cached_property
    def bands(self) -> list[dict[tuple[int, ...], Band]]:
        """Bands of each stage, one of each shape."""
        bands: list[dict[tuple[int, ...], Band]] = [{} for _ in self._nodes]
        for index, band in self.schedule.bands:
            bands[index][band.key] = band
        return bands

    @cached_property
    def spans(self) -> list[Sequence[int]]:
        """For each stage, the entries during which its scratch is live."""
        own: list[list[int]] = [[] for _ in self._nodes]
        for e, (index, _) in enumerate(self.schedule.bands):
            own[index].append(e)
        return [
            range(entries[0], entries[-1] + 1) if node.accumulates else entries
            for node, entries in zip(self._nodes, own, strict=True)
        ]

    @cached_property
    def _times(self) -> list[dict[tuple[int, ...], int]]:
        """Number of bands of each shape that each stage computes."""
        found: list[dict[tuple[int, ...], int]] = [{} for _ in self._nodes]
        for (index, band), times in zip(self.schedule.bands, self.schedule.times(), strict=True):
            found[index][band.key] = found[index].get(band.key, 0) + times
        return found

    @cached_property
    def count(self) -> int:
        """Number of calls of all stages."""
        return sum(sum(times.values()) for times in self._times)

    @cached_property
    def outside(self) -> int:
        """Size of the group's inputs and output."""
        tensors = self.schedule.geometry.graph.tensors
        inputs = sum(tensors[name].nbytes for name in self.schedule.geometry.inputs)
        return inputs + self._nodes[-1].out.nbytes

    @cached_property
    def _kernels(self) -> list[Sequence[Kernel]]:
        """The kernels that compute each stage."""
        pairs = zip(self._nodes, self.bands, strict=True)
        return [self.stages.kernels(node, bands) for node, bands in pairs]

    @cached_property
    def _accumulating(self) -> list[int]:
        """The stages that accumulate."""
        return [stage for stage, node in enumerate(self._nodes) if node.accumulates]

    @cached_property
    def _peaks(self) -> list[tuple[int, int]]:
        """For each stage, the most bytes that are used while its scratch is live, apart from that
        scratch: of the group's scratch, and of that with the inputs and the output.
        """
        # A stage that accumulates has one kernel, whose scratch is live all the time.
        fixed = [
            kernels[0].calls if node.accumulates else None
            for kernels, node in zip(self._kernels, self._nodes, strict=True)
        ]
        used = self.least_used(fixed)
        live = [a + b for a, b in zip(used, self.schedule.outside, strict=True)]
        return [(max(used[e] for e in span), max(live[e] for e in span)) for span in self.spans]

    def least_used(self, stages: Sequence[StageCalls | None]) -> list[int]:
        """Return, for each entry, a lower bound of the scratch: the rows that are live together
        with the own scratch of a stage, of those that are given.
        """
        used = list(self.schedule.least)
        for stage, span in zip(stages, self.spans, strict=True):
            if stage is None or not stage.scratch_bytes:
                continue
            for e in span:
                used[e] += stage.scratch_bytes
        return used

    def outline(self, stages: Sequence[StageCalls] | None) -> Estimate:
        """Return the outline of a call with these kernels; None where a stage has none."""
        used = self.schedule.least if stages is None else self.least_used(stages)
        # Rows alone take no less than the most of their buffers.
        scratch = self.schedule.arena_bounds[0] if stages is None else max(used)
        live = max(a + b for a, b in zip(used, self.schedule.outside, strict=True))
        calls = None if stages is None else tuple([stage.first for stage in stages])
        return Estimate(calls, scratch, live, self.outside)

    def least_outline(self) -> Estimate:
        """Return the outline with, for each stage, the kernel of the least scratch."""
        if not all(self._kernels):
            return self.outline(None)
        return self.outline([min((k.calls for k in own), key=_scratch) for own in self._kernels])

    def _ways(self, prices: Prices) -> list[StageWays] | None:
        """For each stage, the ways to compute it; None if a stage has no kernel."""
        if self._known_ways is None and all(self._kernels):
            self._known_ways = [self._of_stage(i, prices) for i in range(len(self._nodes))]
        return self._known_ways

    def _of_stage(self, stage: int, prices: Prices) -> StageWays:
        """Return the ways to compute a stage."""
        kernels, times = self._kernels[stage], self._times[stage]
        key = id(kernels), tuple(times.items()), prices.stage_bytes
        if key not in self._shared:
            accumulates = self._nodes[stage].accumulates
            self._shared[key] = StageWays(
                [
                    # A stage that accumulates has one kernel, which is counted in all peaks.
                    self._way(
                        stage, kernel, 0 if accumulates else kernel.calls.scratch_bytes, prices
                    )
                    for kernel in kernels
                ]
            )
        return self._shared[key]

    @cached_property
    def _stages_by_layer(self) -> list[int] | None:
        """The stages in the order of their layers; None where they are not one of each layer."""
        layers = [stage.layer for stage in self.schedule.geometry.stages if not stage.joins]
        if len(set(layers)) < len(self.schedule.geometry.stages):
            return None
        return sorted(range(len(layers)), key=layers.__getitem__)

    def _way(self, stage: int, kernel: Kernel, scratch_bytes: int, prices: Prices) -> KernelOption:
        times, each, first = self._times[stage], kernel.instructions, kernel.calls.first
        cost = sum([n * (each[band] + CALL_COST) for band, n in times.items()])
        flash_bytes = prices.stage_bytes(self._nodes[stage].node.name, first)
        return KernelOption(kernel.variant, scratch_bytes, cost, first, flash_bytes)

    def _rooms(self, scratch_bytes: int, live_bytes: int) -> list[int]:
        """Return, for each stage, the most scratch of a kernel with which an :class:`Estimate` has
        at most these figures, ``live_bytes`` without :attr:`Estimate.outside_bytes`.
        """
        live_bytes += self.outside
        # Called for every group at every limit, so function calls are avoided.
        rooms = [
            scratch_bytes - used if scratch_bytes - used < live_bytes - live else live_bytes - live
            for used, live in self._peaks
        ]
        for stage in self._accumulating:
            # Its scratch is counted in all peaks.
            rooms[stage] = max(rooms[stage], 0)
        return rooms

    def _cheapest_ways(self, prices: Prices) -> list[Sequence[KernelOption]] | None:
        """For each stage, the ways to compute it, those first that are cheapest with the price of
        their flash; None if a stage has no kernel.
        """
        if (known := self._ways(prices)) is None:
            return None
        worth = prices.worth
        if worth not in self._ordered:
            self._ordered[worth] = [ways.cheapest(worth) for ways in known]
        return self._ordered[worth]

    def kernels_within(
        self, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> tuple[str, ...] | None:
        """Return, for each layer, the kernel that is cheapest with the price of its flash among
        those with which an :class:`Estimate` has at most these figures, ``live_bytes`` without
        :attr:`Estimate.outside_bytes`; None if a stage has none.
        """
        if (cheapest_ways := self._cheapest_ways(prices)) is None:
            return None
        rooms = self._rooms(scratch_bytes, live_bytes)
        stages = self.schedule.geometry.stages
        if (by_layer := self._stages_by_layer) is not None:
            cheapest = []
            for stage_index in by_layer:
                room = rooms[stage_index]
                for way in cheapest_ways[stage_index]:
                    if way.scratch_bytes <= room:
                        cheapest.append(way.variant)
                        break
                else:
                    return None
            return tuple(cheapest)
        found: dict[int, list[str]] = {}
        for stage, room, ways in zip(stages, rooms, cheapest_ways, strict=True):
            fitting = [way.variant for way in ways if way.scratch_bytes <= room]
            if not stage.joins and stage.layer in found:
                # One kernel computes all slices of a layer.
                fitting = [variant for variant in found[stage.layer] if variant in fitting]
            if not fitting:
                return None
            if not stage.joins:
                found[stage.layer] = fitting
        return tuple([fitting[0] for _, fitting in sorted(found.items())])

    def least_cost_within(
        self, scratch_bytes: int, live_bytes: int, prices: Prices
    ) -> LeastCost | None:
        """Return lower bounds for a call with any of these kernels, of each stage; None if a stage
        has none.
        """
        if (known := self._ways(prices)) is None:
            return None
        if prices.worth not in self._least:
            self._least[prices.worth] = [ways.least(prices.worth) for ways in known]
        total, priced = 0.0, prices.entry * self.count
        rooms = self._rooms(scratch_bytes, live_bytes)
        for room, least in zip(rooms, self._least[prices.worth], strict=True):
            count = bisect_right(least.scratch_bytes, room)
            if not count:
                return None
            total += least.costs[count - 1]
            priced += least.priced[count - 1]
        return LeastCost(total, priced)

    def cost(self, kernels: Sequence[str], prices: Prices) -> LeastCost | None:
        """Return lower bounds for a call with these kernels; None if a stage has no such kernel."""
        wanted = self.schedule.geometry.kernels(kernels)
        total, priced = 0.0, prices.entry * self.count
        for stage, (node, bands) in enumerate(zip(self._nodes, self.bands, strict=True)):
            try:
                kernel = self.stages.kernel(node, bands, wanted[stage])
            except NotFusible:
                return None
            way = self._way(stage, kernel, 0, prices)
            total += way.cost
            priced += way.cost + prices.worth * way.flash_bytes
        return LeastCost(total, priced)


def _scratch(stage: StageCalls) -> int:
    return stage.scratch_bytes
