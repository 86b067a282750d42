"""Searches a program: kernels for the layers, groups that stream, what memory and time they take.

The layers in their order are cut into *segments*: a single layer with one of its kernels, or a
streaming group. A segment has a cost, in estimated instructions (:mod:`hilc.lowering.cost`), and a
need: the bytes without which no plan can run it, of what it reads, writes and works in and of what
else is alive meanwhile. For a limit the cheapest segments whose needs all keep it are found
exactly, by dynamic programming; planning them then says what the memory really is. Lowering the
limit, each time below the largest need of the last solution, gives programs that take less and less
memory and more and more instructions: the *trade*. It depends on model and core only, so every goal
and limit is a choice among the same programs, and a tighter limit never gives a faster one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hilc.errors import InputError
from hilc.external import ExternalCall
from hilc.fusion.bands import NotStreamable
from hilc.fusion.call import StreamCall
from hilc.ir import Node
from hilc.lowering import cost
from hilc.lowering.access import Differences
from hilc.lowering.bodies import body_key
from hilc.lowering.choice import Choice, ChoiceReport, Group, Price
from hilc.lowering.kernels import KernelCall
from hilc.memory.allocate import ALIGNMENT, Block, align, lower_bound
from hilc.memory.plan import Planner, Values
from hilc.memory.program import Program
from hilc.schedule.tuning import Tuning
from hilc.target import Cpu

#: A balanced program takes at most 30 % more instructions than the fastest. That is a promise which
#: has to hold when measured, so there is a margin for what estimates are off.
_BALANCED = 1.28
#: What a program without kernels that are lavish with flash may take of the fastest such; and what
#: one that is to save memory may take of that.
_THRIFTY, _RAM = 1.3, 1.14
#: To a balanced program a per cent of memory is worth so many per cent of instructions.
_MEMORY_WORTH = 2.0
#: What it may take of the flash of the fastest that does not waste any.
_BALANCED_FLASH = 1.1
#: Rows that groups compute at a time.
_ROWS = (1, 2, 4, 8)
_LONGEST_GROUP = 20
#: What groups may cost more than the kernels alone that no longer ones are looked for.
_CHEAP = 1.03
#: Kernels of a group that are exchanged for ones of less scratch.
_KERNEL_CHANGES = 6
#: A program of a trade that takes so much more than one before it is followed by no faster one.
_UNEVEN = 1.1
#: Programs of a trade, and by how much each needs less than the one before.
_MOST_PROGRAMS, _STEP = 60, 0.985
#: Where no program needs so much less: steps of so many bytes.
_SMALL_STEP = 16
#: Instructions that a byte of flash is worth to a balanced program: weights that lie there at twice
#: their size are not for a few per cent. And to the one of least flash.
_BALANCED_FLASH_WORTH, _LEAST_FLASH_WORTH = 10.0, 1e6
#: The same for kernels that are lavish with flash: they come in only where nothing else keeps the
#: promise, and then those first that save most for a byte.
_LAVISH_WORTHS = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.0)
#: Bytes of flash that a model takes beside constants and kernels: its entry points; and for each
#: layer its function, the call of it and what the firmware knows of it.
_MODEL_BYTES, _LAYER_BYTES = 150, 120
#: Code for bands, whose heights differ, is so much larger than for a whole layer.
_BAND_CODE = 1.5
#: A limit of flash is kept in so many parts, and looked for up to so many beyond it, since what
#: layers share makes a program smaller than their sum.
_FLASH_PARTS, _FLASH_PARTS_BEYOND = 4096, 1024

IntArray = npt.NDArray[np.intp]


class LimitError(InputError):
    """No program keeps the limits; ``least_flash`` is what one takes at least, by estimate."""

    def __init__(self, fact: str, hint: str, least_flash: int) -> None:
        super().__init__(fact, hint)
        self.least_flash = least_flash


@dataclass(frozen=True)
class Estimate:
    """A program with what it takes; the instructions and the flash are estimates."""

    choice: Choice
    program: Program
    instructions: int
    flash_bytes: int

    @property
    def workspace_bytes(self) -> int:
        return self.program.workspace_bytes

    @property
    def price(self) -> Price:
        return Price(self.workspace_bytes, self.instructions, self.flash_bytes)


def search(
    trade: Trade, *, optimize: str = "balanced", ram: int | None = None, flash: int | None = None
) -> tuple[Program, ChoiceReport]:
    """The program for a goal, of those that a model can be, and what it takes.

    With limits (bytes of workspace, and of flash) it is the fastest program that keeps them, unless
    the goal is ``size`` or ``ram``: then it is the one of the goal, if that keeps them, too.
    :class:`LimitError` says the smallest where there is none.
    """
    limited = ram is not None or flash is not None
    goals = {
        "size": lambda: trade.least_flash(ram),
        "ram": lambda: trade.least_memory,
    }
    if not limited:
        goals |= {"speed": lambda: trade.fastest, "balanced": lambda: trade.balanced}
    chosen = goals[optimize]() if optimize in goals else None
    goal = optimize
    if chosen is None or not chosen.price.keeps(ram, flash):
        chosen, goal = trade.within(ram, flash), "limits"
    groups = chosen.choice.groups
    prices = chosen.price, trade.fastest.price
    return chosen.program, ChoiceReport(goal, *prices, groups, trade.tuned)


class Trade:
    """The programs of a model from the fastest to the smallest.

    ``planner`` makes them; ``tuning`` has measured counts to use in place of estimates.
    ``optimize`` is the goal that the code is generated for, which says what code layers share.
    ``progress`` is called for every program that is planned.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        tuning: Tuning | None = None,
        optimize: str = "balanced",
        progress: Callable[[], None] | None = None,
    ) -> None:
        self._layers = _Layers(planner, tuning, optimize)
        self._planner = planner
        self._progress = progress
        #: Whether costs are measured ones where they can be.
        self.tuned = tuning is not None
        self._cuts: dict[_Terms, list[_Cut]] = {}
        self._estimates: dict[int, Estimate | InputError] = {}
        #: Kept, as their identity is what estimates are known by.
        self._finer: list[_Cut] = []

    @cached_property
    def fastest(self) -> Estimate:
        """The fastest program that can be planned."""
        return self._first(self._cuts_of(_FASTEST))

    def least_flash(self, ram: int | None = None) -> Estimate:
        """The program of least flash that can be planned, in a workspace of ``ram`` bytes if one
        does."""
        if ram is not None:
            # The trade for flash adds up layers' sizes, and does not see what they share.
            cuts = [c for t in (_LEAST_FLASH, _FASTEST) for c in self._cuts_of(t) if c.need <= ram]
            for cut in sorted(cuts, key=_cut_flash):
                found = self._estimate(cut)
                if isinstance(found, Estimate) and found.price.keeps(ram, None):
                    return found
        return self._first(self._cuts_of(_LEAST_FLASH))

    def programs(self) -> Iterator[Estimate]:
        """From the fastest on, each that can be planned and takes less memory than those before."""
        least: int | None = None
        for cut in self._cuts_of(_FASTEST):
            found = self._estimate(cut)
            if isinstance(found, Estimate) and (least is None or found.workspace_bytes < least):
                least = found.workspace_bytes
                yield found

    @cached_property
    def balanced(self) -> Estimate:
        """The program that saves most memory for what it costs, at most 30 % more instructions than
        the fastest and not much more flash than so fast a program needs."""
        ceiling = _BALANCED * self.fastest.instructions
        for terms in (_BALANCED_TERMS, *(_Terms(worth, lavish=True) for worth in _LAVISH_WORTHS)):
            if (found := self._saving(terms, ceiling)) is not None:
                return found
        # Where the memory's own limits are too tight for these, the fastest that keeps them.
        return self.fastest

    @cached_property
    def thrifty(self) -> Estimate:
        """As :attr:`balanced`, beside the fastest without kernels that are lavish with flash."""
        fastest = self._first(self._cuts_of(_Terms()))
        return self._saving(_BALANCED_TERMS, _THRIFTY * fastest.instructions) or fastest

    def _saving(self, terms: _Terms, ceiling: float) -> Estimate | None:
        """Of those that take at most ``ceiling`` instructions and not much more flash than the
        fastest of them, the one that saves most memory for what it costs."""

        def price(cost: int, nbytes: int) -> float:
            return float(cost * max(nbytes, 1) ** _MEMORY_WORTH)

        best: tuple[float, Estimate] | None = None
        affordable = list(self._affordable(terms, ceiling))
        lean = [cut for cut in affordable if cut.flash <= _BALANCED_FLASH * affordable[0].flash]
        for cut in sorted(lean, key=lambda cut: price(cut.cost, cut.need)):
            if best is not None and price(cut.cost, cut.need) >= best[0]:
                break
            found = self._estimate(cut)
            if isinstance(found, Estimate):
                own = price(cut.cost, found.workspace_bytes)
                if best is None or own < best[0]:
                    best = own, found
        return best and best[1]

    @cached_property
    def least_memory(self) -> Estimate:
        """The program of least memory without kernels that are lavish with flash, of those that
        take at most half as many instructions again as the fastest such."""
        return self._least_memory(_RAM * self.thrifty.instructions) or self.thrifty

    def _least_memory(self, ceiling: float) -> Estimate | None:
        """The same, of those that take at most ``ceiling`` instructions."""
        best: Estimate | None = None
        cuts = list(self._affordable(_BALANCED_TERMS, ceiling))
        cuts += self._between(_BALANCED_TERMS, ceiling, min(map(_cut_need, cuts), default=0))
        for cut in sorted(cuts, key=_cut_need):
            if best is not None and cut.need >= best.workspace_bytes:
                break
            found = self._estimate(cut)
            if isinstance(found, Estimate) and (
                best is None or found.workspace_bytes < best.workspace_bytes
            ):
                best = found
        return best

    def _between(self, terms: _Terms, ceiling: float, need: int) -> list[_Cut]:
        """Those that take at most ``ceiling`` instructions and need less than ``need``, down to the
        first of the trade that does not: the trade's steps are larger than a limit's."""
        found: list[_Cut] = []
        low = max((c.need for c in self._cuts_of(terms) if c.need < need), default=need)
        while need - low > _SMALL_STEP:
            limit = (low + need) // 2
            segments = self._layers.cheapest(limit, terms)
            if segments is None or (cut := self._cut_of(segments)).cost > ceiling:
                low = limit
            else:
                need = cut.need
                found.append(cut)
        self._finer += found
        return found

    def _affordable(self, terms: _Terms, ceiling: float) -> Iterator[_Cut]:
        """Those before two in a row that take more than ``ceiling`` instructions."""
        over = 0
        for cut in self._cuts_of(terms):
            over = over + 1 if cut.cost > ceiling else 0
            if over > 1:
                return
            if not over:
                yield cut

    def within(self, ram: int | None, flash: int | None) -> Estimate:
        """The fastest program that keeps the limits."""
        terms = replace(_FASTEST, flash=flash)
        best: Estimate | None = None
        for cut in self._cuts_of(terms):
            if ram is not None and cut.need > ram:
                continue
            if best is None or cut.cost < best.instructions:
                found = self._estimate(cut)
                if isinstance(found, Estimate) and found.price.keeps(ram, None):
                    best = found
            # Groups are not looked for at every limit, so one of less need may cost a little less.
            if best is not None and (ram is None or cut.cost > _UNEVEN * best.instructions):
                break
        if best is None:
            raise self._refusal(ram, flash)
        return best

    def _refusal(self, ram: int | None, flash: int | None) -> LimitError:
        """Says of each limit what it had to be, as far as the other one can be kept."""
        parts = []
        least = self._layers.cheapest(ram, _LEAST_FLASH) or self._layers.cheapest(
            None, _LEAST_FLASH
        )
        assert least is not None, "without a limit there is a program"
        least_flash = self._layers.flash_bytes(least)
        if ram is not None:
            smallest = self._smallest(replace(_FASTEST, flash=flash)) or self._smallest(_FASTEST)
            parts.append(f"a workspace of {ram} B (the smallest is {smallest} B)")
        if flash is not None:
            parts.append(f"{flash} B of flash (the least is about {least_flash} B)")
        return LimitError(
            f"no program of {self._layers.graph.name!r} fits {' and '.join(parts)}",
            "raise the limit" if len(parts) == 1 else "raise one of the limits, or both",
            least_flash,
        )

    def _smallest(self, terms: _Terms) -> int | None:
        """The smallest workspace, where there is a program."""
        smallest: int | None = None
        for cut in sorted(self._cuts_of(terms), key=_cut_need):
            if smallest is not None and cut.need >= smallest:
                break
            found = self._estimate(cut)
            if isinstance(found, Estimate):
                nbytes = found.workspace_bytes
                smallest = nbytes if smallest is None else min(smallest, nbytes)
        return smallest

    def _cuts_of(self, terms: _Terms) -> Iterator[_Cut]:
        """From the fastest on, ever less need."""
        for index in range(_MOST_PROGRAMS):
            if (cut := self._cut(terms, index)) is None:
                return
            yield cut

    def _cut(self, terms: _Terms, index: int) -> _Cut | None:
        known = self._cuts.setdefault(terms, [])
        while len(known) <= index:
            segments = self._next(known[-1].need if known else None, terms)
            if segments is None:
                return None
            known.append(cut := self._cut_of(segments))
            # Where outputs that cannot lie just where an input was leave no room for scratch, there
            # may be kernels whose outputs can.
            steady = self._layers.cheapest(cut.need, terms, steady=True)
            if steady is not None and steady != segments:
                known.append(self._cut_of(steady))
        return known[index]

    def _next(self, need: int | None, terms: _Terms) -> list[Segment] | None:
        """What costs least of all that needs clearly less than ``need``, or at least a little."""
        if need is None:
            return self._layers.cheapest(None, terms)
        for limit in (int(_STEP * need) - 1, need - _SMALL_STEP):
            segments = self._layers.cheapest(limit, terms)
            if segments is not None:
                return segments
        return None

    def _cut_of(self, segments: Sequence[Segment]) -> _Cut:
        return _Cut(
            tuple(segments),
            sum(segment.cost for segment in segments),
            max((segment.need for segment in segments), default=0),
            self._layers.flash_bytes(segments),
        )

    def _first(self, cuts: Iterator[_Cut]) -> Estimate:
        """The first that can be planned; the planner's refusal of the last where none can."""
        refusal: InputError | None = None
        for cut in cuts:
            found = self._estimate(cut)
            if isinstance(found, Estimate):
                return found
            refusal = found
        assert refusal is not None, "without a limit there is a program"
        raise refusal

    def _estimate(self, cut: _Cut) -> Estimate | InputError:
        """The program of a cut, or why the planner has no room for it."""
        if id(cut) not in self._estimates:
            choice = _choice_of(cut.segments)
            if self._progress is not None:
                self._progress()
            try:
                program = self._planner.plan(choice)
            except InputError as error:
                self._estimates[id(cut)] = error
            else:
                self._estimates[id(cut)] = Estimate(choice, program, cut.cost, cut.flash)
        return self._estimates[id(cut)]


@dataclass(frozen=True)
class _Terms:
    """What segments are chosen by, beside what they need."""

    #: Instructions that a byte of flash counts as.
    worth: float = 0.0
    #: Whether kernels that are lavish with flash take part.
    lavish: bool = False
    #: Bytes that the whole program may take of flash.
    flash: int | None = None


_FASTEST = _Terms(lavish=True)
_BALANCED_TERMS = _Terms(_BALANCED_FLASH_WORTH)
_LEAST_FLASH = _Terms(_LEAST_FLASH_WORTH)


@dataclass(frozen=True, eq=False)
class _Cut:
    """All layers, cut into segments."""

    segments: tuple[Segment, ...]
    cost: int
    need: int
    flash: int


def _cut_flash(cut: _Cut) -> int:
    return cut.flash


def _cut_need(cut: _Cut) -> int:
    return cut.need


@dataclass(frozen=True)
class _Sketch:
    """What is known of a segment before its rows have places."""

    #: Bytes that no plan can do without while it runs.
    need: int
    #: Those of a group's first bands; none where they depend on the layout.
    calls: tuple[KernelCall, ...]
    #: The most scratch of any of its calls.
    most_scratch: int

    @property
    def lavish(self) -> bool:
        """Whether one of its kernels is lavish with flash."""
        return any(call.kernel.lavish for call in self.calls)


@dataclass(frozen=True)
class Segment(_Sketch):
    """Layers ``first`` to ``last`` computed by one call; a kernel's position, or a group."""

    first: int
    last: int
    cost: int
    #: What it has in flash, with its bytes (:meth:`_Layers.flash_bytes`); and their sum, of code
    #: that other layers may share only its part if all of them do.
    parts: Mapping[object, int]
    flash: float
    kernel: int
    group: Group | None
    names: tuple[str, ...]
    #: Whether what it writes may lie just where the first of what it reads was, if that dies.
    steady: bool


def _choice_of(segments: Sequence[Segment]) -> Choice:
    kernels = {
        segment.names[0]: segment.kernel
        for segment in segments
        if segment.group is None and segment.kernel
    }
    return Choice(kernels, tuple(s.group for s in segments if s.group is not None))


class _Layers:
    """The layers of a graph that have to be computed, and the segments they can be cut into."""

    def __init__(self, planner: Planner, tuning: Tuning | None, optimize: str) -> None:
        self._lowering = planner.lowering
        self.graph = planner.lowering.graph
        self._optimize = optimize
        self._costs = _Costs(planner.lowering.cpu, tuning)
        values = Values(self.graph, planner.io_in_pool, ())
        self._nodes = values.computed
        self._calls = [self._lowering.calls(node) for node in self._nodes]
        reads = [
            tuple(node.inputs[i] for i in calls[0].inputs)
            for node, calls in zip(self._nodes, self._calls, strict=True)
        ]
        values.set_lifetimes(reads, planner.keep_inputs)
        values.set_pins(planner.pins)
        self._values = values
        self._pooled = [value for value in values.distinct if value.place is None]
        #: How many layers may have each body.
        self._sharers = Counter[object](
            key
            for calls in self._calls
            for call in calls
            if isinstance(call, KernelCall) and (key := body_key(call, optimize)) is not None
        )
        self._singles = [self._single_segments(step) for step in range(len(self._nodes))]
        self._groups: dict[Group, Segment | None] = {}
        #: By its name, a layer's place among all nodes, and among those that are computed.
        self._positions = {node.name: i for i, node in enumerate(self.graph.nodes)}
        self._steps = {node.name: i for i, node in enumerate(self._nodes)}

    # -- the cheapest segments ------------------------------------------------------------------

    def cheapest(
        self, limit: int | None, terms: _Terms, *, steady: bool = False
    ) -> list[Segment] | None:
        """The segments that cost least and need at most ``limit``; None where there are none.

        With ``steady`` a layer has none of the kernels whose outputs cannot lie where an input was
        if it has another one.
        """
        singles = [[s for s in found if terms.lavish or not s.lavish] for found in self._singles]
        groups = self._groups_within(limit, terms, singles)
        options: list[list[Segment]] = []
        for last, found in enumerate(singles):
            within = [s for s in found if limit is None or s.need <= limit]
            if steady and any(s.steady for s in within):
                within = [s for s in within if s.steady]
            options.append(within + [group for group in groups if group.last == last])
        segments = _cheapest(options, terms.worth)
        if segments is None or terms.flash is None or self.flash_bytes(segments) <= terms.flash:
            return segments
        for found in _cheapest_of_each_size(options, terms.flash):
            if self.flash_bytes(found) <= terms.flash:
                return found
        # The sizes there are rounded, the last one's too.
        least = _cheapest(options, _LEAST_FLASH_WORTH)
        return least if least and self.flash_bytes(least) <= terms.flash else None

    def _groups_within(
        self, limit: int | None, terms: _Terms, singles: Sequence[Sequence[Segment]]
    ) -> list[Segment]:
        """Groups that need at most ``limit``, for layers whose best kernel needs more.

        ``singles`` are the layers by themselves, with each kernel that may be taken.

        The shortest that will do: layers that shorter segments bring through at about the cost of
        the best kernels are not tried as one.
        """
        if limit is None:
            return []
        count = len(self._nodes)
        best = [min(s, key=_segment_cost) for s in singles]
        blocked = [segment.need > limit for segment in best]
        fastest = [segment.cost for segment in best]
        found: list[Segment] = []
        #: For each layer, where segments end that start with it.
        ends: list[list[int]] = [[] if blocked[i] else [i] for i in range(count)]
        for length in range(1, _LONGEST_GROUP + 1):
            for first in range(count - length + 1):
                last = first + length - 1
                if (
                    any(blocked[first : last + 1])
                    and self._least_need(first, last) <= limit
                    and not _is_covered(ends, first, last)
                    and self._may_stream(first, last)
                    and (groups := list(self._group_segments(first, last, limit, terms)))
                ):
                    found += groups
                    if min(map(_segment_cost, groups)) <= _CHEAP * sum(fastest[first : last + 1]):
                        ends[first].append(last)
        return found

    def _group_segments(
        self, first: int, last: int, limit: int, terms: _Terms
    ) -> Iterator[Segment]:
        """The groups of these layers that need at most ``limit``, of ever more rows at a time."""
        lavish = self._lavish_kernels(first, last, terms.worth) if terms.lavish else ()
        names = tuple(node.name for node in self._nodes[first : last + 1])
        # That of the last may be one, of an average over all.
        shapes = [self.graph.tensors[name].shape for name in names]
        height = max((shape[1] for shape in shapes if len(shape) == 4), default=1)
        for rows in _ROWS:
            groups = [Group(names, rows)]
            if len(names) == 1:
                groups.append(Group(names, rows, "backward"))
            tried = [self._tried(group, limit) for group in groups]
            within = [s for s in tried if isinstance(s, Segment) and s.need <= limit]
            if not within:
                within = list(self._smaller(groups[0], limit))
            yield from within
            if lavish:
                fast = self._tried(Group(names, rows, kernels=lavish), limit)
                if isinstance(fast, Segment) and fast.need <= limit:
                    yield fast
            if rows >= height or not within:
                return

    def _lavish_kernels(self, first: int, last: int, worth: float) -> tuple[int, ...]:
        """The kernels of a group with those that are lavish with flash where that is worth it; none
        where it nowhere is."""
        kernels: list[int] = []
        for segments in self._singles[first : last + 1]:
            usual = min((s for s in segments if not s.lavish), key=_segment_cost)
            better = [
                s for s in segments if s.lavish and _cost_at(s, worth) < _cost_at(usual, worth)
            ]
            kernels.append(min(better, key=_segment_cost).kernel if better else 0)
        return tuple(kernels) if any(kernels) else ()

    def _smaller(self, group: Group, limit: int) -> Iterator[Segment]:
        """The group with other kernels in place of those that take most scratch."""
        kernels = [0] * len(group.nodes)
        tried = self._with_calls(group, limit)
        if tried is None or tried.need - limit > tried.most_scratch:
            return
        for _ in range(_KERNEL_CHANGES):
            scratches = [call.scratch_bytes for call in tried.calls]
            widest = max(range(len(scratches)), key=scratches.__getitem__)
            if scratches[widest] == 0:
                return
            before = tried.calls[widest]
            kernels[widest] += 1
            tried = self._with_calls(replace(group, kernels=tuple(kernels)), limit)
            if tried is None or tried.calls[widest] is before or tried.lavish:
                return
            if isinstance(tried, Segment) and tried.need <= limit:
                yield tried
                return

    def _with_calls(self, group: Group, limit: int) -> Segment | _Sketch | None:
        """As :meth:`_tried`, with calls that do not depend on the layout."""
        tried = self._tried(group, limit)
        return self._group_segment(group) if tried is not None and not tried.calls else tried

    def _tried(self, group: Group, limit: int) -> Segment | _Sketch | None:
        """The segment of a group, or a sketch of one that is sure to need more than ``limit``; None
        where there is none."""
        if group not in self._groups:
            try:
                outlines = self._lowering.outlines(group)
            except NotStreamable:
                return None
            first, last = self._steps[group.nodes[0]], self._steps[group.nodes[-1]]
            # Of what lies on top of each other, the last need not end where another could start.
            scratch = min(outline.scratch_bytes for outline in outlines) - ALIGNMENT + 1
            need = self._least_need(first, last) + scratch
            calls = [outline.calls for outline in outlines if outline.calls is not None]
            if need > limit and len(calls) == len(outlines):
                most = max(call.scratch_bytes for found in calls for call in found)
                one = all(a is b for found in calls for a, b in zip(calls[0], found, strict=True))
                return _Sketch(need, calls[0] if one else (), most)
        return self._group_segment(group)

    def _group_segment(self, group: Group) -> Segment | None:
        """The segment of a group; None where there is none."""
        if group not in self._groups:
            try:
                call = self._lowering.group(group)
            except NotStreamable:
                self._groups[group] = None
            else:
                first, last = self._steps[group.nodes[0]], self._steps[group.nodes[-1]]
                self._groups[group] = self._streamed(group, call, first, last)
        return self._groups[group]

    def _may_stream(self, first: int, last: int) -> bool:
        """Whether the layers may stream together, as far as each of them tells by itself."""
        names = [node.name for node in self._nodes[first : last + 1]]
        positions = [self._positions[name] for name in names]
        together = positions == list(range(positions[0], positions[0] + len(names)))
        # The last may be an average over the whole height, which streams in a group only.
        return together and all(map(self._streams_alone, names[: max(1, len(names) - 1)]))

    def _streams_alone(self, name: str) -> bool:
        try:
            return all(o.calls is not None for o in self._lowering.outlines(Group((name,))))
        except NotStreamable:
            return False

    # -- segments -------------------------------------------------------------------------------

    def _single_segments(self, step: int) -> list[Segment]:
        node, calls = self._nodes[step], self._calls[step]
        costs = [self._costs.of(node, position, call) for position, call in enumerate(calls)]
        for position in reversed(range(len(calls) - 1)):
            # Of a kernel that does not say what it costs, its place tells: the fastest comes first.
            call = calls[position]
            if isinstance(call, KernelCall) and call.kernel.cost is None:
                costs[position] = min(costs[position], round(0.98 * costs[position + 1]))
        reads = tuple(node.inputs[i] for i in calls[0].inputs)
        segments: list[Segment] = []
        for position, call in enumerate(calls):
            used = (call,) if isinstance(call, KernelCall) else ()
            need, steady = self._need(step, step, call, reads, node.outputs, call.scratch_bytes)
            parts = self._parts(used)
            segment = Segment(
                need=need,
                calls=used,
                most_scratch=call.scratch_bytes,
                first=step,
                last=step,
                cost=costs[position],
                parts=parts,
                flash=sum(size / self._sharers.get(key, 1) for key, size in parts.items()),
                kernel=position,
                group=None,
                names=(node.name,),
                steady=steady,
            )
            # One that is neither cheaper, nor needs less, nor is smaller is of no use.
            if not any(
                s.cost <= segment.cost
                and s.need <= segment.need
                and s.flash <= segment.flash
                and s.steady >= segment.steady
                for s in segments
            ):
                segments.append(segment)
        return segments

    def _streamed(self, group: Group, call: StreamCall, first: int, last: int) -> Segment:
        stages = tuple(stage.call for stage in call.stages)
        parts = self._parts(stages, bands=True)
        parts[group] = 8 * call.count
        need, steady = self._need(first, last, call, call.inputs, call.outputs, call.scratch_bytes)
        return Segment(
            need=need,
            calls=stages,
            most_scratch=max(call.scratch_bytes for call in stages),
            first=first,
            last=last,
            cost=self._costs.of_group(call),
            parts=parts,
            flash=sum(parts.values()),
            kernel=0,
            group=group,
            names=group.nodes,
            steady=steady,
        )

    def _least_need(self, first: int, last: int) -> int:
        """What any group of these layers needs at least."""
        around = [v for v in self._pooled if v.first < first and v.last > last]
        ending = [v for v in self._pooled if v.first < first and first <= v.last <= last]
        starting = [v for v in self._pooled if v.first == last]
        ends = [sum(v.tensor.nbytes for v in values) for values in (ending, starting)]
        return sum(align(v.tensor.nbytes) for v in around) + max(ends)

    def _need(
        self,
        first: int,
        last: int,
        call: KernelCall | ExternalCall | StreamCall,
        reads: Sequence[str],
        writes: Sequence[str],
        scratch: int,
    ) -> tuple[int, bool]:
        """The bytes that a segment needs, and whether it is :attr:`Segment.steady`."""
        around = [v for v in self._pooled if v.first < first and v.last > last]
        ending = [v for v in self._pooled if v.first < first and first <= v.last <= last]
        starting = [v for v in self._pooled if v.first == last]
        # As in a plan of this one step: what came before it, what comes after it.
        blocks = [Block(v.tensor.nbytes, 0, 2, *v.pin) for v in around]
        blocks += [Block(v.tensor.nbytes, 0, 1, *v.pin) for v in ending]
        blocks += [Block(v.tensor.nbytes, 1, 2, *v.pin) for v in starting]
        blocks += [Block(scratch, 1, 1)] if scratch else []
        overlaps: dict[tuple[int, int], Differences] = {}
        for position, name in enumerate(reads):
            value = self._values.by_name.get(name)
            if value is None or not any(value is v for v in ending):
                continue
            at = len(around) + next(i for i, v in enumerate(ending) if v is value)
            for index, output in enumerate(writes):
                written = self._values.by_name[output]
                if not any(written is v for v in starting):
                    continue
                to = len(around) + len(ending)
                to += next(i for i, v in enumerate(starting) if v is written)
                found = self._lowering.differences(call, reads, writes, position, index)
                if found is not None:
                    known = overlaps.get((at, to))
                    overlaps[at, to] = found if known is None else known.union(found)
        steady = not ending or any(forbidden.allow(0) for forbidden in overlaps.values())
        return lower_bound(blocks, overlaps), steady

    # -- flash ----------------------------------------------------------------------------------

    def _parts(self, calls: Sequence[KernelCall], *, bands: bool = False) -> dict[object, int]:
        """The arrays and the code of ``calls``, with their bytes; equal keys are there once in a
        program. Code for ``bands`` is shared by none."""
        parts: dict[object, int] = {}
        for call in calls:
            for array in cost.constant_arrays(call):
                parts[hashlib.blake2b(array.tobytes()).digest()] = align(array.nbytes)
            key = None if bands else body_key(call, self._optimize)
            code = cost.code_bytes(call.kernel)
            parts[id(call) if key is None else key] = round(_BAND_CODE * code) if bands else code
        return parts

    def flash_bytes(self, segments: Sequence[Segment]) -> int:
        """All flash of a program."""
        parts: dict[object, int] = {}
        for segment in segments:
            parts.update(segment.parts)
        layers = sum(segment.last - segment.first + 1 for segment in segments)
        return _MODEL_BYTES + _LAYER_BYTES * layers + sum(parts.values())


def _cheapest(options: Sequence[Sequence[Segment]], worth: float) -> list[Segment] | None:
    """The cheapest of ``options``, which are by the layer that they end with, from end to end.

    A byte of flash costs ``worth`` instructions.
    """
    best: list[tuple[float, int, list[Segment]] | None] = [(0.0, 0, [])]
    for segments in options:
        found: tuple[float, int, list[Segment]] | None = None
        for segment in segments:
            before = best[segment.first]
            if before is None:
                continue
            price = before[0] + _cost_at(segment, worth)
            need = max(before[1], segment.need)
            if found is None or (price, need) < found[:2]:
                found = price, need, [*before[2], segment]
        best.append(found)
    return None if best[-1] is None else best[-1][2]


def _cheapest_of_each_size(
    options: Sequence[Sequence[Segment]], flash: int
) -> Iterator[list[Segment]]:
    """The cheapest of about each size, as the sum of what segments take, from the largest on.

    It goes on from beyond ``flash``; each is more expensive than the one before.
    """
    part = max(1, flash // _FLASH_PARTS)
    parts = flash // part + _FLASH_PARTS_BEYOND
    #: The least cost of the layers so far for each size, and the segment that ends them.
    costs = [np.zeros(parts)]
    ends: list[IntArray] = []
    for segments in options:
        least = np.full(parts, np.inf)
        chosen = np.full(parts, -1)
        for index, segment in enumerate(segments):
            size = round(segment.flash / part)
            total = costs[segment.first][: max(0, parts - size)] + segment.cost
            better = np.flatnonzero(total < least[size:]) + size
            least[better] = total[better - size]
            chosen[better] = index
        costs.append(least)
        ends.append(chosen)
    least = costs[-1]
    cheaper = least < np.append(np.inf, least[:-1])
    for size in reversed(np.flatnonzero(cheaper).tolist()):
        found: list[Segment] = []
        while not found or found[-1].first:
            last = found[-1].first - 1 if found else len(options) - 1
            segment = options[last][ends[last][size]]
            found.append(segment)
            size -= round(segment.flash / part)
        yield found[::-1]


class _Costs:
    """Instructions of layers: measured ones where there are, estimates elsewhere."""

    def __init__(self, cpu: Cpu, tuning: Tuning | None) -> None:
        self._cpu = cpu
        self._measured = tuning.counts if tuning is not None else {}

    def of(self, node: Node, position: int, call: KernelCall | ExternalCall) -> int:
        if not isinstance(call, KernelCall):
            return 0  # nothing is known of it, and nothing can be chosen
        measured = self._measured.get(node.name, ())
        if position < len(measured) and measured[position].kernel == call.kernel.name:
            return measured[position].count
        return cost.instructions(call, self._cpu)

    def of_group(self, call: StreamCall) -> int:
        return call.cost(self._cpu)


def _segment_cost(segment: Segment) -> int:
    return segment.cost


def _cost_at(segment: Segment, worth: float) -> float:
    """Instructions, a byte of flash counting as so many."""
    return segment.cost + worth * segment.flash


def _is_covered(ends: Sequence[Sequence[int]], first: int, last: int) -> bool:
    """Whether segments that end where ``ends`` says lead from ``first`` to ``last``."""
    reached = {first}
    for step in range(first, last + 1):
        if step in reached:
            reached.update(end + 1 for end in ends[step] if end <= last)
    return last + 1 in reached
