"""Schedule of a fused group: the order in which stages compute rows, and its effect on the buffers.

Away from the first and the last rows of the image the entries repeat, shifted by a few rows each
time. They are computed once: see :class:`Repeat`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from operator import add

from hilc.fusion.bands import Band, Geometry, RowNode, Variant


@dataclass(eq=False)
class _Buffer:
    """Live rows of a tensor, from ``first`` to ``end``."""

    number: int
    row_bytes: int
    #: Stage that computes it, and stages that read it.
    producer: int
    readers: Sequence[tuple[int, RowNode]]
    first: int = 0
    end: int = 0
    #: Whether its rows are computed again for each band that reads them.
    again: bool = False
    #: First row that its last read needed.
    need: int = 0

    def needed(self, done: Sequence[int]) -> int:
        """Return the first row that is still needed when the stages have computed the rows
        ``done``.
        """
        if self.again:
            return self.end
        return min([node.first_needed(done[stage]) for stage, node in self.readers])

    def drop(self, needed: int) -> int:
        """Drop the rows before ``needed``; return their size in bytes."""
        needed = min(max(needed, self.first), self.end)
        dropped = (needed - self.first) * self.row_bytes
        self.first = needed
        return dropped


@dataclass(eq=False, slots=True)
class Effect:
    """Effect of a schedule entry on the buffers, independent of their offsets; sizes are bytes.

    Buffers are numbered in the order in which their tensors are computed.
    """

    #: Buffers whose first rows are dropped, and the sizes of these rows.
    dropped: tuple[tuple[int, int], ...]
    #: Buffers with live rows, and their sizes.
    full: tuple[int, ...]
    sizes: tuple[int, ...]
    #: Buffer that is written (None for none), its size before, and the bytes added.
    grown: int | None
    held: int
    added: int
    #: By buffer that is read, the offset of the read and the offset from which on it is needed
    #: afterwards.
    reads: Mapping[int, tuple[int, int]]
    #: By buffer of :attr:`full`, the offset from which on it is needed until rows are written.
    kept: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        reads = {} if self.grown is None else self.reads
        self.kept = tuple([reads[b][1] if b in reads else 0 for b in self.full])


@dataclass(frozen=True)
class Repeat:
    """Entries ``start`` to ``stop`` of a schedule, which run ``copies`` times, shifted by some rows
    per stage each time.
    """

    start: int
    stop: int
    copies: int
    #: By stage, the shift in rows of its output and of its input.
    shift: tuple[tuple[int, int], ...]


class Schedule:
    """Calls of a group's stages in order, and the effect of each on the buffers."""

    def __init__(self, geometry: Geometry, variant: Variant) -> None:
        self.geometry = geometry
        self.variant = variant
        #: Tensor whose rows share the output's buffer.
        self.alias = _alias(geometry, variant)
        walk = _Walk(geometry, variant, self.alias)
        #: Tensors between the nodes, those with fewer layers before them first, and the sizes of
        #: their rows in bytes.
        self.buffers = {name: buffer.row_bytes for name, buffer in walk.buffers.items()}
        walk.run()
        self._first: Schedule | None = None
        #: Whether the first call of a stage might compute more rows than usual: where none might,
        #: the schedule is the same with :attr:`Variant.long_start` and without.
        self.has_starts: bool = walk.has_starts
        #: By entry, the stage and band that it computes.
        self.bands: Sequence[tuple[int, Band]] = walk.bands
        #: By entry, a lower bound of the arena in bytes: rows needed afterwards never share any.
        self.least: Sequence[int] = walk.least
        #: By entry, the bytes of the group's inputs that it or a later one reads, and those of the
        #: output that are written before it; of repeating entries for the first time.
        self.outside: Sequence[int] = walk.outside
        #: Lower and upper bound of the arena in bytes.
        self.arena_bounds = walk.arena_bounds
        #: Repeating entries, if any.
        self.repeat = walk.repeat

    def of(self, geometry: Geometry) -> Schedule:
        """Return the schedule of another group of the same shape (:attr:`Geometry.key`)."""
        found = copy(self)
        found._first = self
        found.geometry = geometry
        found.alias = _alias(geometry, self.variant)
        names = [geometry.nodes[self.geometry.producer[name]].out.name for name in self.buffers]
        found.buffers = dict(zip(names, self.buffers.values(), strict=True))
        return found

    @property
    def first(self) -> Schedule:
        """The schedule of the first group of the same shape."""
        return self if self._first is None else self._first

    @property
    def effects(self) -> Sequence[Effect]:
        """By entry, its effect on the buffers. Only layouts need them, and few schedules are laid
        out.
        """
        return self.first._effects

    @cached_property
    def _effects(self) -> Sequence[Effect]:
        effects: list[Effect] = []
        _Walk(self.geometry, self.variant, self.alias, effects).run()
        return effects

    @cached_property
    def memory_bounds(self) -> tuple[int, int]:
        """Lower bounds of the rows in bytes, and of these with the inputs and the output."""
        return max(self.least), max(map(add, self.least, self.outside))

    @property
    def key(self) -> object:
        """Equal for equivalent schedules of a group."""
        bands = tuple([(index, band.first, band.count) for index, band in self.bands])
        return self.alias, bands, self.repeat

    def times(self) -> list[int]:
        """Return the repetitions of each entry."""
        found = [1] * len(self.bands)
        if (repeat := self.repeat) is not None:
            found[repeat.start : repeat.stop] = [repeat.copies] * (repeat.stop - repeat.start)
        return found


def _alias(geometry: Geometry, variant: Variant) -> str | None:
    return None if variant.alias is None else geometry.nodes[-1].node.inputs[variant.alias]


class _Walk:
    """Simulation of a group: the rows demanded of each stage, and the content of the buffers."""

    def __init__(
        self,
        geometry: Geometry,
        variant: Variant,
        alias: str | None,
        effects: list[Effect] | None = None,
    ) -> None:
        self._nodes = nodes = geometry.nodes
        self._long_start = variant.long_start
        self._backward = geometry.group.direction == "backward"
        self.bands: list[tuple[int, Band]] = []
        #: Receives the effects of the entries; None where only sizes are needed.
        self._effects = effects
        #: Size of all rows.
        self._taken = 0
        self.least = array("q")
        self.outside = array("q")
        self.arena_bounds = (0, 0)
        self.repeat: Repeat | None = None
        self.has_starts = False
        #: By stage, the rows demanded so far, and the rows computed so far.
        self._done = [0] * len(nodes)
        self._then = [0] * len(nodes)
        #: By stage, the stages whose rows it reads, in the order of demand.
        self._producers = [
            [
                geometry.producer[name]
                for p in node.operands[:: -1 if variant.backwards else 1]
                if (name := node.node.inputs[p]) in geometry.producer
            ]
            for node in nodes
        ]
        last = len(nodes) - 1
        #: Stages whose next rows are being computed.
        self._computing: set[int] = set()
        #: By stage, the number of rows that it computes at a time.
        self._limits = [
            geometry.group.rows
            if (inner or index == last) and not geometry.stages[index].again
            else nodes[index].height
            for index, inner in enumerate(self._producers)
        ]
        #: All tensors between the nodes, by the stage that computes them.
        self._inner = [
            _Buffer(
                -1,
                node.out.nbytes // node.out.shape[1],
                index,
                geometry.needing(geometry.readers[node.out.name]),
                again=geometry.stages[index].again,
            )
            for index, node in enumerate(nodes[:-1])
        ]
        own = [b for b, n in zip(self._inner, nodes, strict=False) if n.out.name != alias]
        # Rows of a skip connection's own layer lie beside those that it reads: over these they may
        # grow.
        depths: list[int] = []
        for producers in self._producers:
            depths.append(1 + max([depths[p] for p in producers], default=0))
        own.sort(key=lambda buffer: (depths[buffer.producer], -buffer.producer))
        for number, buffer in enumerate(own):
            buffer.number = number
        self.buffers = {nodes[buffer.producer].out.name: buffer for buffer in own}
        self._touched: dict[int, _Buffer] = {}
        #: By stage, the buffers that it reads.
        self._read = [
            list(
                {
                    name: self.buffers[name]
                    for p in node.operands
                    if (name := node.node.inputs[p]) in self.buffers
                }.values()
            )
            for node in nodes
        ]
        #: By stage, the buffers whose rows it needs through a stage that computes rows again.
        self._behind = [
            [buffer for p in producers if geometry.stages[p].again for buffer in self._read[p]]
            for producers in self._producers
        ]
        self._written = [self.buffers.get(node.out.name) for node in nodes]
        #: By stage, those that may compute rows before these are demanded, once it has some:
        #: they read a tensor of several readers that it reads or writes, as a skip connection does.
        #: More rows at a time are for few calls.
        self._early = [
            sorted(
                {
                    stage
                    for buffer in (*self._read[index], self._written[index])
                    if geometry.group.rows == 1 and buffer is not None
                    if not buffer.again and len(buffer.readers) > 1
                    for stage, _ in buffer.readers
                    if stage != last
                }
            )
            for index in range(len(nodes))
        ]
        #: Bytes of a row of each of the group's inputs, with the stages that read it; all of those
        #: stages; and the bytes of the inputs that they still need.
        tensors = [geometry.graph.tensors[name] for name in geometry.inputs]
        self._given_bytes = sum(tensor.nbytes for tensor in tensors)
        self._given = [
            (tensor.nbytes // tensor.shape[1], geometry.needing(readers))
            for tensor, readers in zip(tensors, geometry.input_readers.values(), strict=True)
        ]
        self._first_stages = {stage for _, readers in self._given for stage, _ in readers}
        self._unread = self._bytes_unread()
        out = nodes[-1].out
        self._out_row = 0 if nodes[-1].accumulates else out.nbytes // out.shape[1]

    def run(self) -> None:
        last = len(self._nodes) - 1
        height = self._nodes[last].height
        for buffer in self.buffers.values():
            buffer.need = buffer.needed(self._then)
        if self._backward:
            self._demand(last, height)
            self.bands.reverse()
            for index, band in self.bands:
                self._record(index, band)
            return
        state: list[int] | None = None
        touched: object = None
        while self._done[last] < height:
            start = len(self.bands)
            before = list(self._done)
            self._advance(last, height)
            for index, band in self.bands[start:]:
                self._record(index, band)
            if self.repeat is None:
                then, state = state, self._state()
                if then is not None and touched == self._touched.keys():
                    self._leap(start, before, then, state)
                touched = set(self._touched)

    def _demand(self, index: int, end: int) -> None:
        """Compute the rows of a stage up to ``end``."""
        while self._done[index] < end:
            self._advance(index, end)

    def _advance(self, index: int, end: int) -> None:
        """Compute some of the rows of a stage up to ``end``."""
        done, node, limit = self._done, self._nodes[index], self._limits[index]
        if index < len(self._inner) and not self._inner[index].again:
            # Skip rows between windows, which no stage reads.
            done[index] = max(done[index], self._inner[index].needed(done))
        count = end - done[index]
        if count > limit:
            is_start = done[index] == 0 and count < 2 * limit
            self.has_starts |= is_start
            if not (is_start and self._long_start):
                count = limit
        band = node.band(done[index], count)
        self._computing.add(index)
        for producer in self._producers[index]:
            if self._inner[producer].again:
                done[producer] = band.in_first
            self._demand(producer, band.in_first + band.in_count)
        self._computing.remove(index)
        self.bands.append((index, band))
        done[index] += band.count
        for early in self._early[index]:
            while self._saves(early):
                self._advance(early, self._nodes[early].height)

    def _saves(self, index: int) -> bool:
        """Return whether the next rows of a stage can be computed from rows that exist, and free
        more bytes than they take.
        """
        done, node, written = self._done, self._nodes[index], self._written[index]
        if index in self._computing or written is None or written.again:
            return False
        first = max(done[index], written.needed(done))
        count = self._limits[index]
        if first + count > node.height:
            return False
        band = node.band(first, count)
        end = band.in_first + band.in_count
        if any(done[p] < end or self._inner[p].again for p in self._producers[index]):
            return False
        needed = [buffer.needed(done) for buffer in self._read[index]]
        before, done[index] = done[index], first + count
        freed = sum(
            (buffer.needed(done) - row) * buffer.row_bytes
            for buffer, row in zip(self._read[index], needed, strict=True)
        )
        done[index] = before
        return freed > count * written.row_bytes

    def _record(self, index: int, band: Band) -> None:
        """Record the effect of an entry on the buffers."""
        self.outside.append(self._unread + self._out_row * self._then[-1])
        dropped = {b.number: b.drop(b.need) for b in self._touched.values()}
        written = self._written[index]
        if written is not None and written.again:
            # Those of the band before are dropped.
            self._taken -= (written.end - written.first) * written.row_bytes
            written.first = written.end = written.need = band.first
        elif written is not None and written.end < band.first:
            # Rows that are not yet computed are never dropped, nor are any before them.
            rest = written.drop(written.end)
            dropped[written.number] = dropped.get(written.number, 0) + rest
            written.first = written.end = band.first
        self._taken -= sum(dropped.values())
        self._then[index] = band.first + band.count
        if index in self._first_stages:
            self._unread = self._bytes_unread()
        reads = {}
        for buffer in self._read[index]:
            buffer.need = buffer.needed(self._then)
            kept = max(0, min(buffer.need, buffer.end) - buffer.first)
            reads[buffer.number] = (
                (band.in_first - buffer.first) * buffer.row_bytes,
                kept * buffer.row_bytes,
            )
        for buffer in self._behind[index]:
            buffer.need = buffer.needed(self._then)
        held = added = 0
        if written is not None:
            held = (written.end - written.first) * written.row_bytes
            added = band.count * written.row_bytes
        self._record_sizes(held, added, reads if written is not None else {})
        if self._effects is not None:
            full = [b for b in self.buffers.values() if b.end > b.first]
            self._effects.append(
                Effect(
                    tuple([(b, nbytes) for b, nbytes in dropped.items() if nbytes]),
                    tuple([b.number for b in full]),
                    tuple([(b.end - b.first) * b.row_bytes for b in full]),
                    None if written is None else written.number,
                    held,
                    added,
                    reads,
                )
            )
        self._touched = {b.number: b for b in (*self._read[index], *self._behind[index])}
        if written is not None:
            written.end += band.count
            self._touched[written.number] = written
            self._taken += added

    def _record_sizes(self, held: int, added: int, reads: Mapping[int, tuple[int, int]]) -> None:
        """Record the sizes of an entry that adds rows to a buffer with ``held`` bytes."""
        taken = self._taken
        most = max(taken, held + added)
        after = taken + added - sum([kept for _, kept in reads.values()])
        self.least.append(max(most, after))
        low, high = self.arena_bounds
        self.arena_bounds = max(low, most), max(high, taken + added)

    def _bytes_unread(self) -> int:
        """Return the bytes of the group's inputs that its stages still need."""
        read = sum(
            row_bytes * min(node.first_needed(self._then[stage]) for stage, node in readers)
            for row_bytes, readers in self._given
        )
        return self._given_bytes - read

    # -- repeating entries
    # --------------------------------------------------------------------------

    def _state(self) -> list[int]:
        """Return all state that the rest depends on, apart from :attr:`_touched`: rows of the
        stages, in order.
        """
        return [row for _, row in self._rows()]

    def _rows(self) -> Iterator[tuple[int, int]]:
        """Yield rows, each with the stage that computes them."""
        yield from enumerate(self._done)
        for buffer in self.buffers.values():
            yield buffer.producer, buffer.first
            yield buffer.producer, buffer.end
            yield buffer.producer, buffer.need

    def _leap(
        self, start: int, before: Sequence[int], then: Sequence[int], state: Sequence[int]
    ) -> None:
        """If the entries from ``start`` on repeat with a shift, let them stand for all their
        repetitions.

        They advanced the stages from the rows ``before``, and the whole state from ``then``, to the
        present ones. The next entries depend on row differences alone unless they reach the first
        or the last rows of an image; so they are the same if all rows of the state were shifted
        with those of their stage.
        """
        rows = [now - was for now, was in zip(self._done, before, strict=True)]
        for (stage, _), now, was in zip(self._rows(), state, then, strict=True):
            if now - was != rows[stage]:
                return
        left: list[int] = []
        shift: list[tuple[int, int]] = []
        for index, node in enumerate(self._nodes):
            step = node.input_step(rows[index])
            if before[index] <= 0 or rows[index] <= 0 or step is None:
                return
            if any(rows[producer] != step for producer in self._producers[index]):
                return
            left.append(node.repetitions(before[index], self._done[index], rows[index]))
            shift.append((rows[index], step))
        if (more := min(left)) > 0:
            self.repeat = Repeat(start, len(self.bands), 1 + more, tuple(shift))
            self._done = [d + more * n for d, n in zip(self._done, rows, strict=True)]
            self._then = [d + more * n for d, n in zip(self._then, rows, strict=True)]
            self._unread = self._bytes_unread()
            for buffer in self.buffers.values():
                further = more * rows[buffer.producer]
                buffer.first += further
                buffer.end += further
                buffer.need += further
