"""Where the rows of a group lie at each entry of its schedule, and the call that this makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hilc.fusion.bands import Band, NotStreamable
from hilc.fusion.call import WORD, Entry, Move, Stage, StreamCall, Where
from hilc.fusion.room import NO_MOVES, Operand, Room
from hilc.fusion.schedule import Schedule
from hilc.fusion.scratch import ALIGNMENT, Item, aligned, place_items
from hilc.fusion.stages import StageCalls, Stages
from hilc.lowering.kernels import KernelCall

# Sizes of arenas between the least and the most that are tried.
_ARENAS = 16


@dataclass
class _Arena:
    """Where the rows of all buffers are."""

    item: Item
    #: By entry and tensor, the byte at which the entry reads or writes.
    places: list[dict[str, int]]
    #: By entry, what moves before it.
    moves: dict[int, Sequence[Move]]


@dataclass(frozen=True)
class Outline:
    """What is known of a group's call before anything has a place."""

    #: For each stage the call of its first band; None where no kernel computes all of its bands.
    calls: tuple[KernelCall, ...] | None
    #: It has no less scratch than this.
    scratch_bytes: int


class Layout:
    """A schedule of a group with places for its rows."""

    def __init__(self, stages: Stages, schedule: Schedule) -> None:
        self._stages = stages
        self._schedule = schedule
        self._geometry = schedule.geometry
        self._nodes = schedule.geometry.nodes

    def least_memory(self) -> int:
        """No less than this is what calls are ranked by first, whatever the layout."""
        return self._memory(self._bounds[0])

    def _memory(self, scratch_bytes: int) -> int:
        """The same for a call of so much scratch."""
        graph = self._geometry.graph
        sizes = [graph.tensors[name].nbytes for name in self._geometry.inputs]
        output = self._nodes[-1].out.nbytes
        return scratch_bytes + max(sizes[0], output) + sum(sizes[1:])

    def _scratch_spans(self, stages: Sequence[StageCalls]) -> list[Sequence[int]]:
        """For each stage, the entries during which its scratch holds something."""
        own: list[list[int]] = [[] for _ in stages]
        for e, (index, _) in enumerate(self._schedule.bands):
            own[index].append(e)
        return [
            range(entries[0], entries[-1] + 1) if node.accumulates else entries
            for node, entries in zip(self._nodes, own, strict=True)
        ]

    def _least_scratch(self, stages: Sequence[StageCalls], spans: Sequence[Sequence[int]]) -> int:
        """No scratch does with less: what rows take while a stage has its own."""
        used = [turn.least for turn in self._schedule.turns]
        for stage, span in zip(stages, spans, strict=True):
            for e in span:
                used[e] += stage.scratch_bytes
        return max(used)

    def outline(self) -> Outline:
        """What is known of the call that :meth:`call` makes."""
        try:
            stages = self._stage_calls
        except NotStreamable:
            return Outline(None, self._bounds[0])
        least = self._least_scratch(stages, self._scratch_spans(stages))
        return Outline(tuple(stage.first for stage in stages), least)

    def call(self, most: int | None) -> StreamCall | None:
        """The group's call; None where the kernel does not allow what the variant wants, or where
        it takes more memory than ``most``."""
        geometry = self._geometry
        if most is not None and self.least_memory() > most:
            return None
        stages = self._stage_calls
        if self._schedule.alias is not None and not self._may_alias(stages[-1]):
            return None
        spans = self._scratch_spans(stages)
        if most is not None and self._memory(self._least_scratch(stages, spans)) > most:
            return None
        rows = self._lay_out(stages)
        items = [rows.item] if rows.item.nbytes else []
        scratch: list[Item | None] = []
        for stage, span in zip(stages, spans, strict=True):
            item = None
            if nbytes := stage.scratch_bytes:
                item = Item(nbytes, dict.fromkeys(span, ((0, nbytes),)))
                items.append(item)
            scratch.append(item)
        total = place_items(items)
        if most is not None and self._memory(total) > most:
            return None
        entries = []
        for e, (index, band) in enumerate(self._schedule.bands):
            node, call = self._nodes[index], stages[index].calls[band.key]
            cut = stages[index].cuts[band.key]
            arguments, wheres = [], []
            for position in call.inputs:
                tensor = cut.ins[position]
                assert tensor is not None
                arguments.append(tensor)
                name = node.node.inputs[position]
                if position not in node.operands:
                    wheres.append(Where("constant"))
                elif name in geometry.producer and name != self._schedule.alias:
                    wheres.append(Where("scratch", rows.item.offset + rows.places[e][name]))
                else:
                    row_bytes = tensor.nbytes // band.in_count
                    kind = "output" if name == self._schedule.alias else "input"
                    at = 0 if name == self._schedule.alias else geometry.inputs.index(name)
                    wheres.append(Where(kind, band.in_first * row_bytes, at))
            (out,) = cut.outs
            name = node.out.name
            if name in rows.places[e]:
                write = Where("scratch", rows.item.offset + rows.places[e][name])
            else:
                row_bytes = 0 if node.accumulates else out.nbytes // out.shape[1]
                write = Where("output", band.first * row_bytes)
            moves = [
                Move(rows.item.offset + m.target, rows.item.offset + m.source, m.nbytes)
                for m in rows.moves.get(e, [])
            ]
            entries.append(
                Entry(
                    index,
                    band.first,
                    band.count,
                    call,
                    tuple(arguments),
                    band.in_first,
                    tuple(wheres),
                    out,
                    write,
                    not node.accumulates or band.below == 1,
                    tuple(moves),
                )  # fmt: skip
            )
        made = tuple(
            Stage(
                node.node,
                stage.first,
                stage.varying,
                stage.tables,
                stage.scratch_bytes,
                item.offset if item else 0,
                node.accumulates,
            )
            for node, stage, item in zip(self._nodes, stages, scratch, strict=True)
        )
        graph = self._geometry.graph
        outputs = (self._nodes[-1].out.name,)
        return StreamCall(
            geometry.group,
            tuple(n.node for n in self._nodes),
            geometry.inputs,
            outputs,
            made,
            tuple(entries),
            total,
            sum(entry.call.macs for entry in entries),
            {name: graph.tensors[name].nbytes for name in (*geometry.inputs, *outputs)},
        )

    @cached_property
    def _stage_calls(self) -> list[StageCalls]:
        """Each stage's calls for its bands."""
        bands: list[dict[tuple[int, ...], Band]] = [{} for _ in self._nodes]
        for index, band in self._schedule.bands:
            bands[index][band.key] = band
        kernels = self._geometry.group.kernels or (None,) * len(self._nodes)
        return [
            self._stages.calls(node, own, kernel)
            for node, own, kernel in zip(self._nodes, bands, kernels, strict=True)
        ]

    def _may_alias(self, last: StageCalls) -> bool:
        """Whether the last node's kernel may write over the operand, element by element."""
        position = self._schedule.variant.alias
        assert position is not None
        return all(
            self._stages.overlap(call, last.cuts[key], position).differences.allow(0)
            for key, call in last.calls.items()
        )

    def _lay_out(self, stages: Sequence[StageCalls]) -> _Arena:
        """The smallest arena that was found to do."""
        least, most = self._bounds
        step = max(ALIGNMENT, aligned(-(-(most - least) // _ARENAS)))
        rooms = self._rooms(stages)
        surely = max((turn.least for turn in self._schedule.turns), default=0)
        for nbytes in (*range(least, most, step), most):
            if nbytes >= surely and (arena := self._simulate(rooms, nbytes)) is not None:
                return arena
        raise AssertionError("a schedule needs more than all its rows take")

    def _rooms(self, stages: Sequence[StageCalls]) -> list[Room | None]:
        """What each entry asks of the place of the rows that it writes to a buffer."""
        number = {name: index for index, name in enumerate(self._schedule.buffers)}
        words = [nbytes % WORD == 0 for nbytes in self._schedule.buffers.values()]
        staying = {turn.grown for turn in self._schedule.turns if turn.held}
        rooms: list[Room | None] = []
        for (index, band), turn in zip(self._schedule.bands, self._schedule.turns, strict=True):
            if turn.grown is None:
                rooms.append(None)
                continue
            node, stage = self._nodes[index], stages[index]
            call, cut = stage.calls[band.key], stage.cuts[band.key]
            place = {buffer: position for position, buffer in enumerate(turn.full)}
            whole = words[turn.grown] and all(words[buffer] for buffer in turn.full)
            operands = []
            for position in call.inputs:
                buffer = number.get(node.node.inputs[position])
                if position in node.operands and buffer is not None:
                    overlap = self._stages.overlap(call, cut, position)
                    low, high = overlap.differences.low, overlap.differences.high
                    if whole:
                        # All rows lie at words, which move together.
                        low, high = low // WORD * WORD, -(-high // WORD) * WORD
                    begin, _ = turn.reads[buffer]
                    operands.append(Operand(place[buffer], begin, low, high, overlap))
            stays = turn.grown in staying
            # What is computed earlier lies behind.
            behind = [place[b] for b in turn.full if stays and b in staying and b < turn.grown]
            room = Room(
                turn.sizes,
                turn.kept,
                place.get(turn.grown),
                turn.added,
                tuple(operands),
                stays,
                tuple(behind),
            )
            rooms.append(self._stages.room(room))
        return rooms

    def _simulate(self, rooms: Sequence[Room | None], nbytes: int) -> _Arena | None:
        """Goes through the schedule: where rows are in an arena of ``nbytes``, what has to move;
        None where it is too small."""
        now = [0] * len(self._schedule.buffers)
        #: By entry, where the buffers lie during it, what moves before it and where it writes.
        lying: list[list[int]] = []
        made: list[tuple[Sequence[Move], int]] = []
        for turn, room in zip(self._schedule.turns, rooms, strict=True):
            for buffer, dropped in turn.dropped:
                now[buffer] += dropped
            moves, place = NO_MOVES, 0
            if room is not None and turn.grown is not None:
                found = room.make(tuple([now[buffer] for buffer in turn.full]), nbytes)
                if found is None:
                    return None
                moves, starts, place = found
                for buffer, start in zip(turn.full, starts, strict=True):
                    now[buffer] = start
                if not turn.held:
                    now[turn.grown] = place
            lying.append(list(now))
            made.append((moves, place))
        names = list(self._schedule.buffers)
        arena = _Arena(Item(0, {}), [], {})
        for e, (turn, first, (moves, place)) in enumerate(
            zip(self._schedule.turns, lying, made, strict=True)
        ):
            at = {names[buffer]: first[buffer] + begin for buffer, (begin, _) in turn.reads.items()}
            sizes = dict(zip(turn.full, turn.sizes, strict=True))
            if turn.grown is not None:
                at[names[turn.grown]] = place
                sizes[turn.grown] = turn.held + turn.added
            if sizes:
                arena.item.live[e] = tuple((first[b], first[b] + n) for b, n in sizes.items())
            if moves:
                arena.moves[e] = moves
            arena.places.append(at)
        # Some of it may have turned out not to be needed.
        arena.item.nbytes = max((end for r in arena.item.live.values() for _, end in r), default=0)
        return arena

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Bytes that no arena can do without, and with which one is sure to do."""
        turns = self._schedule.turns
        least = max((max(turn.taken, turn.held + turn.added) for turn in turns), default=0)
        return least, max((turn.taken + turn.added for turn in turns), default=0)
