"""Which stage of a group computes which rows when, and what that does to the buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hilc.fusion.bands import Band, Geometry, Variant


@dataclass(eq=False)
class _Buffer:
    """Rows of a tensor, from ``first`` to ``end``."""

    row_bytes: int
    first: int = 0
    end: int = 0

    @property
    def nbytes(self) -> int:
        return (self.end - self.first) * self.row_bytes

    def drop(self, needed: int) -> int:
        """Forget the rows before ``needed``; their bytes."""
        needed = min(max(needed, self.first), self.end)
        dropped = (needed - self.first) * self.row_bytes
        self.first = needed
        return dropped


@dataclass(frozen=True)
class Turn:
    """What an entry of the schedule does to the buffers, wherever they lie; sizes are bytes.

    Buffers are numbered in the order in which their tensors are computed.
    """

    #: Buffers whose first rows are no longer needed, and the bytes of these.
    dropped: Sequence[tuple[int, int]]
    #: The buffers that have rows then, and their bytes.
    full: Sequence[int]
    sizes: tuple[int, ...]
    #: The buffer that is written, if one is; what it has, and what is added.
    grown: int | None
    held: int
    added: int
    #: By buffer that is read, where that begins, and from where on it is still needed afterwards.
    reads: Mapping[int, tuple[int, int]]

    @cached_property
    def taken(self) -> int:
        """The bytes of all rows before the entry."""
        return sum(self.sizes)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The byte of each of :attr:`full` from which on it is needed until rows are written."""
        if self.grown is None:
            return (0,) * len(self.full)
        return tuple(self.reads[b][1] if b in self.reads else 0 for b in self.full)

    @cached_property
    def least(self) -> int:
        """Bytes without which no arena does: what is needed afterwards never shares any."""
        after = self.taken - sum(self.kept) + self.added
        return max(self.taken, self.held + self.added, after)


class Schedule:
    """The calls of a group's stages in order, and what each does to the buffers."""

    def __init__(self, geometry: Geometry, variant: Variant) -> None:
        self.geometry = geometry
        self.variant = variant
        self._nodes = geometry.nodes
        last = geometry.nodes[-1].node
        #: The tensor whose rows lie where the output's rows will.
        self.alias = None if variant.alias is None else last.inputs[variant.alias]
        #: By entry, the stage and the band that it computes.
        self.bands = self._in_order()

    @property
    def key(self) -> object:
        """Equal for schedules that come to the same."""
        return self.alias, tuple(self.bands)

    @cached_property
    def buffers(self) -> dict[str, int]:
        """The tensors between the nodes, in the order in which they are computed, and the bytes of
        their rows."""
        outs = [n.out for n in self._nodes[:-1] if n.out.name != self.alias]
        return {out.name: out.nbytes // out.shape[1] for out in outs}

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """What each entry does to the buffers."""
        buffers = {name: _Buffer(nbytes) for name, nbytes in self.buffers.items()}
        number = {name: index for index, name in enumerate(buffers)}
        done = [0] * len(self._nodes)
        #: The first row of each buffer that is needed.
        needs = {name: self._needed(done, name) for name in buffers}
        touched: set[str] = set()
        turns = []
        for index, band in self.bands:
            node = self._nodes[index]
            dropped = {number[name]: buffers[name].drop(needs[name]) for name in touched}
            out = node.out.name
            written = buffers.get(out)
            if written is not None and written.end < band.first:
                # Rows that are not there are never needed, nor are any before them.
                rest = written.drop(written.end)
                dropped[number[out]] = dropped.get(number[out], 0) + rest
                written.first = written.end = band.first
            done[index] = band.first + band.count
            read = [name for p in node.operands if (name := node.node.inputs[p]) in buffers]
            reads = {}
            for name in read:
                needs[name] = self._needed(done, name)
                buffer = buffers[name]
                kept = max(0, min(needs[name], buffer.end) - buffer.first)
                reads[number[name]] = (
                    (band.in_first - buffer.first) * buffer.row_bytes,
                    kept * buffer.row_bytes,
                )
            full = {number[name]: b.nbytes for name, b in buffers.items() if b.end > b.first}
            turns.append(
                Turn(
                    [(b, nbytes) for b, nbytes in dropped.items() if nbytes],
                    list(full),
                    tuple(full.values()),
                    None if written is None else number[out],
                    0 if written is None else written.nbytes,
                    0 if written is None else band.count * written.row_bytes,
                    reads,
                )
            )
            touched = set(read)
            if written is not None:
                written.end += band.count
                touched.add(out)
        return tuple(turns)

    def _in_order(self) -> list[tuple[int, Band]]:
        """The stages' calls in order."""
        geometry, nodes = self.geometry, self._nodes
        done = [0] * len(nodes)
        entries: list[tuple[int, Band]] = []
        last = len(nodes) - 1

        #: By stage, the stages whose rows it reads, in the order in which they are demanded.
        producers = [
            [
                geometry.producer[name]
                for p in node.operands[:: -1 if self.variant.backwards else 1]
                if (name := node.node.inputs[p]) in geometry.producer
            ]
            for node in nodes
        ]
        #: By stage, the rows that it computes at a time.
        limits = [
            geometry.group.rows if inner or index == last else nodes[index].height
            for index, inner in enumerate(producers)
        ]

        def compute(index: int, end: int) -> None:
            node, limit = nodes[index], limits[index]
            while done[index] < end:
                if index != last:
                    # Rows between windows, which nothing reads, are not computed.
                    done[index] = max(done[index], self._needed(done, node.out.name))
                count = end - done[index]
                if not (self.variant.long_start and done[index] == 0 and count < 2 * limit):
                    count = min(count, limit)
                band = node.band(done[index], count)
                for producer in producers[index]:
                    compute(producer, band.in_first + band.in_count)
                entries.append((index, band))
                done[index] += band.count

        compute(last, nodes[last].height)
        if geometry.group.direction == "backward":
            entries.reverse()
        return entries

    def _needed(self, done: Sequence[int], name: str) -> int:
        """The first row of a tensor of the group that is needed still."""
        return min([self._nodes[r].first_needed(done[r]) for r in self.geometry.readers[name]])
