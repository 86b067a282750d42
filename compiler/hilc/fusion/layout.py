"""Layout of a group's rows at each entry of its schedule, and the resulting call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add
from typing import TypeVar

from hilc.fusion.bands import NotFusible
from hilc.fusion.bounds import Bounds, Estimate, KnownWays
from hilc.fusion.call import WORD, Entry, FusedCall, Location, Move, Part, Piece, Stage
from hilc.fusion.row_allocation import Operand, RowAllocation
from hilc.fusion.schedule import Schedule
from hilc.fusion.scratch import ALIGNMENT, Item, Moment, Ranges, aligned, place_items
from hilc.fusion.stages import StageCalls, Stages
from hilc.lowering.choice import Group
from hilc.ops import OPS

# Number of arena sizes that are tried between the bounds.
_ARENAS = 16
#: Difference in bytes of the sizes of scratch that are tried.
_STEP = 16
#: Part of the scratch that is worth more moves of rows.
_WORTH_MOVES = 32


_T = TypeVar("_T")

#: Sort key of a call: memory, then calls, then moved bytes; less is better.
Rank = tuple[int, int, int]

#: By entry: offsets of the buffers, moves before the entry, and offset of the new rows.
_Lying = tuple[tuple[int, ...], Sequence[Move], int]


@dataclass(eq=False)
class _Piece:
    """Entries of the schedule from ``start`` on, in an arena."""

    start: int
    lying: Sequence[_Lying]
    #: Offsets of the buffers at its end.
    then: tuple[int, ...]


@dataclass
class _Run:
    """A piece and its number of consecutive runs; see :class:`Part`."""

    piece: _Piece
    skipped: int
    copies: int


@dataclass
class _Arena:
    """Offsets of the rows of all buffers."""

    item: Item
    #: Pieces in order.
    runs: Sequence[_Run]
    #: By entry of the schedule, the moments that it represents.
    moments: Sequence[Sequence[Moment]]


#: The smallest arena that is found, by the identities of a schedule and of the allocation problems
#: of its entries, which are kept.
KnownArenas = dict[tuple[int, ...], _Arena]


class Frame(Bounds):
    """A schedule with what its layouts share, whichever kernels compute its stages."""

    def __init__(
        self, stages: Stages, schedule: Schedule, known: KnownWays, arenas: KnownArenas
    ) -> None:
        super().__init__(stages, schedule, known)
        #: By stage and the identity of its calls, the allocation problems of its entries.
        self.allocations: dict[tuple[int, int], tuple[StageCalls, list[RowAllocation]]] = {}
        #: Arenas that groups of the same shape share.
        self.arenas = arenas


@dataclass
class _Scratch:
    """The scratch of a group: rows, and the scratch of the stages."""

    nbytes: int
    #: Pieces in order, and the offset of their rows.
    runs: Sequence[_Run]
    rows: int
    #: By stage.
    stages: Sequence[int]

    @property
    def move_bytes(self) -> int:
        """Total bytes of row moves."""
        return sum(
            run.copies * move.nbytes
            for run in self.runs
            for _, moves, _ in run.piece.lying
            for move in moves
        )


class Layout:
    """Layout of a schedule's rows, for the kernels of ``group``."""

    def __init__(self, frame: Frame, group: Group) -> None:
        self._group = group
        self._frame = frame
        self._stages = frame.stages
        self._schedule = frame.schedule
        self._geometry = frame.schedule.geometry
        self._nodes = frame.schedule.geometry.nodes

    def least_memory(self) -> int:
        """Lower bound of the memory that ranks calls, for any layout."""
        return self._memory(self._schedule.arena_bounds[0])

    def _memory(self, scratch_bytes: int) -> int:
        """Return the memory that ranks a call with this much scratch."""
        graph = self._geometry.graph
        sizes = [graph.tensors[name].nbytes for name in self._geometry.inputs]
        output = self._nodes[-1].out.nbytes
        return scratch_bytes + max([*sizes[:1], output]) + sum(sizes[1:])

    def outline(self) -> Estimate:
        """Return the outline of the call that :meth:`call` returns."""
        try:
            return self._frame.outline(self._stage_calls)
        except NotFusible:
            return self._frame.outline(None)

    def _is_below(self, best: Rank | None, scratch_bytes: int, move_bytes: int = 0) -> bool:
        """Return whether a call with at least this much scratch and moved bytes may rank before
        ``best``.
        """
        rank = self._memory(scratch_bytes), self._frame.count, move_bytes
        return best is None or rank < best

    def call(self, best: Rank | None) -> FusedCall | None:
        """Return the group's call; None where the kernel does not support the variant, or where the
        call certainly does not rank before ``best``.
        """
        geometry = self._geometry
        if not self._is_below(best, self._schedule.arena_bounds[0]):
            return None
        stages = self._stage_calls
        if self._schedule.alias is not None and not self._may_alias(stages[-1]):
            return None
        if not self._is_below(best, max(self._frame.least_used(stages))):
            return None
        most = None if best is None else best[0] - self._memory(0)
        scratch = self._lay_out(stages, most)
        if scratch is None or not self._is_below(best, scratch.nbytes, scratch.move_bytes):
            return None
        pieces = {
            id(run.piece): self._made(stages, run.piece, scratch.rows) for run in scratch.runs
        }
        shift = () if self._schedule.repeat is None else self._schedule.repeat.shift
        parts = [Part(pieces[id(r.piece)], r.copies, r.skipped, shift) for r in scratch.runs]
        made = tuple(
            Stage(
                node.node,
                own.layer,
                stage.first,
                stage.varying,
                stage.tables,
                stage.scratch_bytes,
                at,
                node.accumulates,
            )
            for node, stage, at, own in zip(
                self._nodes, stages, scratch.stages, geometry.stages, strict=True
            )
        )
        graph = self._geometry.graph
        outputs = (self._nodes[-1].out.name,)
        fed = [n.out.name for n in self._nodes if OPS[n.node.op].fed]
        return FusedCall(
            self._group,
            geometry.layers,
            geometry.inputs,
            outputs,
            made,
            tuple(parts),
            scratch.nbytes,
            {name: graph.tensors[name].nbytes for name in (*geometry.inputs, *outputs, *fed)},
        )

    def _made(self, stages: Sequence[StageCalls], piece: _Piece, offset: int) -> Piece:
        """Return the entries of a piece of the schedule; the arena is at ``offset`` in the
        scratch.
        """
        end = piece.start + len(piece.lying)
        bands = self._schedule.bands[piece.start : end]
        calls = [stages[index].calls[band.key] for index, band in bands]
        own = self._schedule.buffers
        # A stage that computes rows of the alias writes into the output, as the last stage does.
        touching = [
            node.out.name not in own or any(node.node.inputs[p] not in own for p in node.operands)
            for node in self._nodes
        ]
        borders = [e for e, (index, _) in enumerate(bands) if touching[index]]
        moves = [moved for _, moved, _ in piece.lying]
        effects = self._schedule.effects[piece.start : end]
        writes = [
            None if effect.grown is None else (offset + place, effect.added)
            for effect, (_, _, place) in zip(effects, piece.lying, strict=True)
        ]

        held = [
            [(offset + first[b], n) for b, n in zip(effect.full, effect.sizes, strict=True)]
            for effect, (first, _, _) in zip(effects, piece.lying, strict=True)
        ]

        def make(position: int) -> Entry:
            return self._entry(stages, piece.start + position, piece.lying[position], offset)

        return Piece(calls, [i for i, _ in bands], writes, held, moves, offset, borders, make)

    def _entry(self, stages: Sequence[StageCalls], e: int, lying: _Lying, offset: int) -> Entry:
        """Return the entry at position ``e`` of the schedule."""
        geometry, schedule = self._geometry, self._schedule
        first, moves, place = lying
        index, band = schedule.bands[e]
        node = self._nodes[index]
        call, band_node = stages[index].calls[band.key], stages[index].band_nodes[band.key]
        arguments, locations = [], []
        for position in call.inputs:
            tensor = band_node.ins[position]
            assert tensor is not None
            arguments.append(tensor)
            name = node.node.inputs[position]
            if position not in node.operands:
                locations.append(Location("constant"))
            elif name in self._numbers:
                buffer = self._numbers[name]
                begin, _ = schedule.effects[e].reads[buffer]
                locations.append(Location("scratch", offset + first[buffer] + begin))
            else:
                row_bytes = tensor.nbytes // band.in_count
                kind, at = "output", 0
                if OPS[node.node.op].fed:
                    kind = "feed"
                elif name != schedule.alias:
                    kind, at = "input", geometry.inputs.index(name)
                locations.append(Location(kind, band.in_first * row_bytes, at))
        (out,) = band_node.outs
        if schedule.effects[e].grown is not None:
            write = Location("scratch", offset + place)
        else:
            row_bytes = 0 if node.accumulates else out.nbytes // out.shape[1]
            write = Location("output", band.first * row_bytes)
        return Entry(
            index,
            band.first,
            band.count,
            call,
            tuple(arguments),
            band.in_first,
            tuple(locations),
            out,
            write,
            not node.accumulates or band.below == 1,
            tuple([Move(offset + m.target, offset + m.source, m.nbytes) for m in moves]),
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of the buffers, by tensor."""
        return {name: index for index, name in enumerate(self._schedule.buffers)}

    @cached_property
    def _stage_calls(self) -> list[StageCalls]:
        """Calls of each stage for its bands."""
        kernels = self._geometry.kernels(self._group.kernels)
        return [
            self._stages.kernel(node, own, kernel).calls
            for node, own, kernel in zip(self._nodes, self._frame.bands, kernels, strict=True)
        ]

    def _may_alias(self, last: StageCalls) -> bool:
        """Return whether the last node's kernel may overwrite the operand element by element."""
        position = self._schedule.variant.alias
        assert position is not None
        return all(
            self._stages.overlap(call, last.band_nodes[key], position).differences.allow(0)
            for key, call in last.calls.items()
        )

    def _lay_out(self, stages: Sequence[StageCalls], most: int | None) -> _Scratch | None:
        """Return the smallest scratch found, of those that are hardly larger the one with the
        fewest moves; None where it certainly takes more than ``most`` bytes.
        """
        allocations = self._allocations(stages)
        rows = self._rows(allocations)
        # Rows that make room for each stage's scratch are moved more often: for the least memory.
        # In a chain without skip connections free bytes are hardly in pieces.
        skips = any(len(readers) > 1 for readers in self._geometry.readers.values())
        if not skips or self._group.rows > 1:
            return self._placed(stages, rows, most)
        found = self._placed(stages, rows, None)
        assert found is not None, "without a limit there is always a place"
        least = max(self._frame.least_used(stages))
        below = found.nbytes - least // _WORTH_MOVES
        if least < below:
            return self._below_rows(stages, allocations, below) or found
        return found

    def _rows(self, allocations: Sequence[RowAllocation]) -> _Arena:
        """Return the smallest arena of the rows that is found; kernels with the same allocation
        problems share it, whatever their scratch.
        """
        key = id(self._schedule.first), *map(id, allocations)
        if key not in self._frame.arenas:
            self._frame.arenas[key] = self._smallest_arena(allocations)
        return self._frame.arenas[key]

    def _smallest_arena(self, allocations: Sequence[RowAllocation]) -> _Arena:
        least, most = self._schedule.arena_bounds
        step = max(ALIGNMENT, aligned(-(-(most - least) // _ARENAS)))
        surely = max(self._schedule.least, default=0)
        sizes = [n for n in (*range(least, most, step), most) if n >= surely]

        def simulated(nbytes: int) -> list[_Run] | None:
            return self._simulate(allocations, [(0, nbytes)] * len(allocations), adapts=False)

        # An arena holds all rows of the schedule at least where each has bytes of its own.
        smaller = _smallest(simulated, sizes, fits=True)
        found = simulated(sizes[-1]) if smaller is None else smaller
        assert found is not None, "an arena holds all rows of the schedule"
        return self._arena(found)

    def _placed(
        self, stages: Sequence[StageCalls], rows: _Arena, most: int | None
    ) -> _Scratch | None:
        """Return the scratch with these rows, and that of the stages beside them and where rows are
        not live; None where it certainly takes more than ``most`` bytes.
        """
        arena = replace(rows.item)
        items = [arena] if arena.nbytes else []
        own: list[Item | None] = []
        times = self._schedule.times()
        for stage, span in zip(stages, self._frame.spans, strict=True):
            item = None
            if nbytes := stage.scratch_bytes:
                moments = [moment for e in span for moment in rows.moments[e]]
                live: dict[Moment, Ranges] = dict.fromkeys(moments, ((0, nbytes),))
                item = Item(nbytes, live, sum(times[e] for e in span))
                items.append(item)
            own.append(item)
        total = place_items(items, most)
        if total is None:
            return None
        offsets = [0 if item is None else item.offset for item in own]
        return _Scratch(total, rows.runs, arena.offset, offsets)

    def _below_rows(
        self, stages: Sequence[StageCalls], allocations: Sequence[RowAllocation], most: int
    ) -> _Scratch | None:
        """Return the smallest scratch found with the rows of an entry between the scratch of its
        stage and what is left of the inputs, which may lie over the end of the group's scratch;
        None where it is above ``most``.

        The scratch of a stage that accumulates is at the beginning or at the end.
        """
        schedule, frame = self._schedule, self._frame
        least = frame.least_used(stages)
        total, live = max(least), aligned(max(map(add, least, schedule.outside)))
        sizes = [aligned(stage.scratch_bytes) for stage in stages]
        kept = [n if node.accumulates else 0 for n, node in zip(sizes, self._nodes, strict=True)]
        base = sum(kept)
        own = [0 if kept[index] else sizes[index] for index, _ in schedule.bands]
        span = set[int]().union(*[s for s, n in zip(frame.spans, kept, strict=True) if n])

        def laid_out(more: int) -> _Scratch | None:
            """Return one that ends ``more`` bytes above the lower bound; None if there is none."""
            ends = [
                (min(total, live - outside) + more) // ALIGNMENT * ALIGNMENT
                for outside in schedule.outside
            ]
            behind = min([ends[e] for e in span], default=total) - base
            tried = [(0, base, [base + n for n in own], ends)]
            if span:
                highs = [min(end, behind) if e in span else end for e, end in enumerate(ends)]
                tried.append((behind, 0, own, highs))
            for first, others, lows, highs in tried:
                runs = self._simulate(allocations, list(zip(lows, highs, strict=True)), adapts=True)
                if runs is not None:
                    starts = [first if n else others for n in kept]
                    end = max(self._end(runs), *map(add, starts, sizes))
                    return _Scratch(aligned(end), runs, 0, starts)
            return None

        return _smallest(laid_out, range(0, most - total + 1, _STEP))

    def _end(self, runs: Sequence[_Run]) -> int:
        """Return the end of the rows, in bytes."""
        end = 0
        for piece in {id(run.piece): run.piece for run in runs}.values():
            for e, (first, _, place) in enumerate(piece.lying, piece.start):
                effect = self._schedule.effects[e]
                ends = [first[b] + n for b, n in zip(effect.full, effect.sizes, strict=True)]
                end = max(end, *ends, 0 if effect.grown is None else place + effect.added)
        return end

    def _allocations(self, stages: Sequence[StageCalls]) -> list[RowAllocation]:
        """Return the allocation problem of each entry, which depends on the kernel of its stage
        only: layouts with other kernels for other stages share it.
        """
        known = self._frame.allocations
        for index, stage in enumerate(stages):
            if (index, id(stage)) not in known:
                # Stored with the calls to keep their identity, the key, valid.
                known[index, id(stage)] = stage, self._allocations_of(index, stage)
        own = [iter(known[index, id(stage)][1]) for index, stage in enumerate(stages)]
        return [next(own[index]) for index, _ in self._schedule.bands]

    def _allocations_of(self, own: int, stage: StageCalls) -> list[RowAllocation]:
        """Return the allocation problem of each entry of one stage."""
        number = self._numbers
        words = [nbytes % WORD == 0 for nbytes in self._schedule.buffers.values()]
        staying = {effect.grown for effect in self._schedule.effects if effect.held}
        allocations: list[RowAllocation] = []
        node = self._nodes[own]
        for (index, band), effect in zip(self._schedule.bands, self._schedule.effects, strict=True):
            if index != own:
                continue
            if effect.grown is None:
                allocation = RowAllocation(effect.sizes, effect.kept, None, 0, (), False, ())
                allocations.append(self._stages.allocation(allocation))
                continue
            call, band_node = stage.calls[band.key], stage.band_nodes[band.key]
            place = {buffer: position for position, buffer in enumerate(effect.full)}
            whole = words[effect.grown] and all(words[buffer] for buffer in effect.full)
            operands = []
            for position in call.inputs:
                buffer = number.get(node.node.inputs[position])
                if position in node.operands and buffer is not None:
                    overlap = self._stages.overlap(call, band_node, position)
                    low, high = overlap.differences.low, overlap.differences.high
                    if whole:
                        # All rows are at multiples of words, so that moves copy words.
                        low, high = low // WORD * WORD, -(-high // WORD) * WORD
                    begin, _ = effect.reads[buffer]
                    operands.append(Operand(place[buffer], begin, low, high, overlap))
            stays = effect.grown in staying
            # Rows that are computed earlier lie at higher offsets.
            behind = [place[b] for b in effect.full if stays and b in staying and b < effect.grown]
            allocation = RowAllocation(
                effect.sizes,
                effect.kept,
                place.get(effect.grown),
                effect.added,
                tuple(operands),
                stays,
                tuple(behind),
            )
            allocations.append(self._stages.allocation(allocation))
        return allocations

    def _simulate(
        self,
        allocations: Sequence[RowAllocation],
        spaces: Sequence[tuple[int, int]],
        *,
        adapts: bool,
    ) -> list[_Run] | None:
        """Simulate the schedule with the rows of each entry in its space; return the pieces in
        order, None if a space is too small.
        """
        schedule = self._schedule
        count, repeat = len(schedule.effects), schedule.repeat
        start, stop = (count, count) if repeat is None else (repeat.start, repeat.stop)
        now = (0,) * len(schedule.buffers)
        runs: list[_Run] = []
        #: Repeating pieces, by the offsets of the buffers before them.
        known: dict[tuple[int, ...], _Piece] = {}
        copies = 0 if repeat is None else repeat.copies
        spans = [(0, start, 0), *((start, stop, copy) for copy in range(copies)), (stop, count, 0)]
        for first, end, copy in spans:
            piece = known.get(now) if copy else None
            if piece is None:
                piece = self._piece(allocations, spaces, first, end, now, adapts=adapts)
                if piece is None:
                    return None
            if first == start:
                known[now] = piece
            if runs and runs[-1].piece is piece:
                runs[-1].copies += 1
            elif piece.lying:
                runs.append(_Run(piece, copy, 1))
            now = piece.then
        return runs

    def _piece(
        self,
        allocations: Sequence[RowAllocation],
        spaces: Sequence[tuple[int, int]],
        start: int,
        stop: int,
        then: tuple[int, ...],
        *,
        adapts: bool,
    ) -> _Piece | None:
        """Simulate a part of the schedule from buffer offsets ``then``; None if a space is too
        small.
        """
        now = list(then)
        lying: list[_Lying] = []
        effects = self._schedule.effects
        for e in range(start, stop):
            effect, (low, high) = effects[e], spaces[e]
            for buffer, dropped in effect.dropped:
                now[buffer] += dropped
            starts = tuple([now[buffer] - low for buffer in effect.full])
            found = allocations[e].make(starts, high - low, adapts)
            if found is None:
                return None
            moves, after, place = found
            if after is not starts:
                for buffer, at in zip(effect.full, after, strict=True):
                    now[buffer] = at + low
            if effect.grown is not None and not effect.held:
                now[effect.grown] = place + low
            if low and moves:
                moves = [Move(m.target + low, m.source + low, m.nbytes) for m in moves]
            lying.append((tuple(now), moves, place + low))
        return _Piece(start, lying, tuple(now))

    def _arena(self, runs: Sequence[_Run]) -> _Arena:
        """Return the live bytes by entry, and the resulting size."""
        effects = self._schedule.effects
        pieces = {id(run.piece): run.piece for run in runs}
        copies = Counter[int]()
        for run in runs:
            copies[id(run.piece)] += run.copies
        moments: list[list[Moment]] = [[] for _ in effects]
        live: dict[Moment, Ranges] = {}
        duration = nbytes = 0
        for number, (key, piece) in enumerate(pieces.items()):
            for e, (first, _, _) in enumerate(piece.lying, piece.start):
                effect, moment = effects[e], (number, e)
                moments[e].append(moment)
                sizes = dict(zip(effect.full, effect.sizes, strict=True))
                if effect.grown is not None:
                    sizes[effect.grown] = effect.held + effect.added
                ranges = [(first[b], first[b] + n) for b, n in sizes.items()]
                if ranges:
                    live[moment] = tuple(ranges)
                    duration += copies[key]
                    nbytes = max(nbytes, *(end for _, end in ranges))
        # Part of the arena may have remained unused.
        return _Arena(Item(nbytes, live, duration), runs, moments)


def _smallest(
    make: Callable[[int], _T | None], sizes: Sequence[int], *, fits: bool = False
) -> _T | None:
    """Return the result of ``make`` for the smallest of these sizes that gives one, by binary
    search; None if the largest gives none.

    The largest is not made where it surely ``fits``: then None means that no smaller one does.
    """
    if (found := make(sizes[0])) is not None:
        return found
    low, high = 0, len(sizes) - 1
    found = make(sizes[high]) if high and not fits else None
    while (fits or found is not None) and high - low > 1:
        middle = (low + high) // 2
        if (smaller := make(sizes[middle])) is None:
            low = middle
        else:
            found, high = smaller, middle
    return found
