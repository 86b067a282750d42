"""Which stage of a group computes which rows when, and what that does to the buffers.

Far from the first and the last rows of the image the same happens again and again, a few rows
further each time. That is worked out once: see :class:`Repeat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hilc.fusion.bands import Band, Geometry, RowNode, Variant


@dataclass(eq=False)
class _Buffer:
    """Rows of a tensor, from ``first`` to ``end``."""

    number: int
    row_bytes: int
    #: The stage that computes it, and those that read it.
    producer: int
    readers: Sequence[tuple[int, RowNode]]
    first: int = 0
    end: int = 0
    #: The first row that was needed when it was read last.
    need: int = 0

    def needed(self, done: Sequence[int]) -> int:
        """The first row that is needed, of the stages' rows that are ``done``."""
        return min([node.first_needed(done[stage]) for stage, node in self.readers])

    def drop(self, needed: int) -> int:
        """Forget the rows before ``needed``; their bytes."""
        needed = min(max(needed, self.first), self.end)
        dropped = (needed - self.first) * self.row_bytes
        self.first = needed
        return dropped


@dataclass(eq=False, slots=True)
class Turn:
    """What an entry of the schedule does to the buffers, wherever they lie; sizes are bytes.

    Buffers are numbered in the order in which their tensors are computed.
    """

    #: Buffers whose first rows are no longer needed, and the bytes of these.
    dropped: tuple[tuple[int, int], ...]
    #: The buffers that have rows then, and their bytes.
    full: tuple[int, ...]
    sizes: tuple[int, ...]
    #: The buffer that is written, if one is; what it has, and what is added.
    grown: int | None
    held: int
    added: int
    #: By buffer that is read, where that begins, and from where on it is still needed afterwards.
    reads: Mapping[int, tuple[int, int]]
    #: The bytes of all rows before the entry.
    taken: int = field(init=False)
    #: The byte of each of :attr:`full` from which on it is needed until rows are written.
    kept: tuple[int, ...] = field(init=False)
    #: Bytes without which no arena does: what is needed afterwards never shares any.
    least: int = field(init=False)

    def __post_init__(self) -> None:
        reads = {} if self.grown is None else self.reads
        self.kept = tuple([reads[b][1] if b in reads else 0 for b in self.full])
        self.taken = sum(self.sizes)
        after = self.taken - sum(self.kept) + self.added
        self.least = max(self.taken, self.held + self.added, after)


@dataclass(frozen=True)
class Repeat:
    """Entries of a schedule that stand for more: from ``start`` to ``stop``, ``copies`` times in
    all, each stage some rows further each time."""

    start: int
    stop: int
    copies: int
    #: By stage, the rows of its output and of its input.
    shift: tuple[tuple[int, int], ...]


class Schedule:
    """The calls of a group's stages in order, and what each does to the buffers."""

    def __init__(self, geometry: Geometry, variant: Variant) -> None:
        self.geometry = geometry
        self.variant = variant
        last = geometry.nodes[-1].node
        #: The tensor whose rows lie where the output's rows will.
        self.alias = None if variant.alias is None else last.inputs[variant.alias]
        walk = _Walk(geometry, variant, self.alias)
        #: The tensors between the nodes, in the order in which they are computed, and the bytes of
        #: their rows.
        self.buffers = {name: buffer.row_bytes for name, buffer in walk.buffers.items()}
        walk.run()
        #: By entry, the stage and the band that it computes, and what it does to the buffers.
        self.bands: Sequence[tuple[int, Band]] = walk.bands
        self.turns: Sequence[Turn] = walk.turns
        #: By entry, bytes without which no arena does.
        self.least = [turn.least for turn in walk.turns]
        #: The entries that stand for more than themselves, if some do.
        self.repeat = walk.repeat

    @property
    def key(self) -> object:
        """Equal for schedules that come to the same."""
        return self.alias, tuple(self.bands), self.repeat

    def times(self) -> list[int]:
        """By entry, for how many it stands."""
        found = [1] * len(self.bands)
        if (repeat := self.repeat) is not None:
            found[repeat.start : repeat.stop] = [repeat.copies] * (repeat.stop - repeat.start)
        return found


class _Walk:
    """Goes through a group as it runs: what is demanded of which stage, what buffers then hold."""

    def __init__(self, geometry: Geometry, variant: Variant, alias: str | None) -> None:
        self._nodes = nodes = geometry.nodes
        self._long_start = variant.long_start
        self._backward = geometry.group.direction == "backward"
        self.bands: list[tuple[int, Band]] = []
        self.turns: list[Turn] = []
        self.repeat: Repeat | None = None
        #: By stage, the rows that are computed: demanded so far, and in the turns so far.
        self._done = [0] * len(nodes)
        self._then = [0] * len(nodes)
        #: By stage, those whose rows it reads, in the order in which they are demanded.
        self._producers = [
            [
                geometry.producer[name]
                for p in node.operands[:: -1 if variant.backwards else 1]
                if (name := node.node.inputs[p]) in geometry.producer
            ]
            for node in nodes
        ]
        last = len(nodes) - 1
        #: By stage, the rows that it computes at a time.
        self._limits = [
            geometry.group.rows if inner or index == last else nodes[index].height
            for index, inner in enumerate(self._producers)
        ]
        #: All tensors between the nodes, by the stage that computes them.
        self._inner = [
            _Buffer(
                -1,
                node.out.nbytes // node.out.shape[1],
                index,
                [(reader, nodes[reader]) for reader in geometry.readers[node.out.name]],
            )
            for index, node in enumerate(nodes[:-1])
        ]
        own = [b for b, n in zip(self._inner, nodes, strict=False) if n.out.name != alias]
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
        self._written = [self.buffers.get(node.out.name) for node in nodes]

    def run(self) -> None:
        last = len(self._nodes) - 1
        height = self._nodes[last].height
        for buffer in self.buffers.values():
            buffer.need = buffer.needed(self._then)
        if self._backward:
            self._demand(last, height)
            self.bands.reverse()
            for index, band in self.bands:
                self._turn(index, band)
            return
        state: list[int] | None = None
        touched: object = None
        while self._done[last] < height:
            start = len(self.bands)
            before = list(self._done)
            self._advance(last, height)
            for index, band in self.bands[start:]:
                self._turn(index, band)
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
        if index < len(self._inner):
            # Rows between windows, which nothing reads, are not computed.
            done[index] = max(done[index], self._inner[index].needed(done))
        count = end - done[index]
        if not (self._long_start and done[index] == 0 and count < 2 * limit):
            count = min(count, limit)
        band = node.band(done[index], count)
        for producer in self._producers[index]:
            self._demand(producer, band.in_first + band.in_count)
        self.bands.append((index, band))
        done[index] += band.count

    def _turn(self, index: int, band: Band) -> None:
        """Note what an entry does to the buffers."""
        dropped = {b.number: b.drop(b.need) for b in self._touched.values()}
        written = self._written[index]
        if written is not None and written.end < band.first:
            # Rows that are not there are never needed, nor are any before them.
            rest = written.drop(written.end)
            dropped[written.number] = dropped.get(written.number, 0) + rest
            written.first = written.end = band.first
        self._then[index] = band.first + band.count
        reads = {}
        for buffer in self._read[index]:
            buffer.need = buffer.needed(self._then)
            kept = max(0, min(buffer.need, buffer.end) - buffer.first)
            reads[buffer.number] = (
                (band.in_first - buffer.first) * buffer.row_bytes,
                kept * buffer.row_bytes,
            )
        full = [b for b in self.buffers.values() if b.end > b.first]
        held = added = 0
        if written is not None:
            held = (written.end - written.first) * written.row_bytes
            added = band.count * written.row_bytes
        self.turns.append(
            Turn(
                tuple([(b, nbytes) for b, nbytes in dropped.items() if nbytes]),
                tuple([b.number for b in full]),
                tuple([(b.end - b.first) * b.row_bytes for b in full]),
                None if written is None else written.number,
                held,
                added,
                reads,
            )
        )
        self._touched = {b.number: b for b in self._read[index]}
        if written is not None:
            written.end += band.count
            self._touched[written.number] = written

    # -- what repeats -----------------------------------------------------------------------------

    def _state(self) -> list[int]:
        """All that the rest depends on, beside :attr:`_touched`: rows of the stages, in order."""
        return [row for _, row in self._rows()]

    def _rows(self) -> Iterator[tuple[int, int]]:
        """Rows, each with the stage that computes them."""
        yield from enumerate(self._done)
        for buffer in self.buffers.values():
            yield buffer.producer, buffer.first
            yield buffer.producer, buffer.end
            yield buffer.producer, buffer.need

    def _leap(
        self, start: int, before: Sequence[int], then: Sequence[int], state: Sequence[int]
    ) -> None:
        """Where the entries from ``start`` on are those that come next, too, only further, let them
        stand for all that are so.

        They took the stages from the rows ``before`` to those that are done, and all of the state
        from ``then`` to what it is. What is done next follows from differences of rows alone unless
        it meets the first or the last rows of an image; so it is the same if all rows of the state
        went on with those of their stage.
        """
        rows = [now - was for now, was in zip(self._done, before, strict=True)]
        for (stage, _), now, was in zip(self._rows(), state, then, strict=True):
            if now - was != rows[stage]:
                return
        left: list[int] = []
        for index, node in enumerate(self._nodes):
            if before[index] <= 0 or before[index] * node.stride < node.above or rows[index] <= 0:
                return
            step = rows[index] * node.stride
            if any(rows[producer] != step for producer in self._producers[index]):
                return
            # How often until it is at the end of its own rows, or its windows at that of the image.
            done = self._done[index]
            left.append((node.height - 1 - done) // rows[index])
            reach = done * node.stride - node.above + max(0, node.span - node.stride)
            left.append((node.in_h - reach) // step)
        if (more := min(left)) > 0:
            shift = tuple(
                (count, count * node.stride) for count, node in zip(rows, self._nodes, strict=True)
            )
            self.repeat = Repeat(start, len(self.bands), 1 + more, shift)
            self._done = [d + more * n for d, n in zip(self._done, rows, strict=True)]
            self._then = [d + more * n for d, n in zip(self._then, rows, strict=True)]
            for buffer in self.buffers.values():
                further = more * rows[buffer.producer]
                buffer.first += further
                buffer.end += further
                buffer.need += further
