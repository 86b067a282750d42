"""Call of a fused group: its stages, and the calls of the stages in the order of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hilc.ir import Array, Node, Tensor
from hilc.lowering.access import (
    NEVER,
    Access,
    ForbiddenInterval,
    Steps,
    access_of,
    all_forbidden,
    argument_types,
)
from hilc.lowering.choice import Group
from hilc.lowering.kernels import KernelCall
from hilc.ops import OPS
from hilc.target import Cpu

#: Bytes per word of a move, if all rows consist of whole words.
WORD = 4
#: Words of ``struct hil_feed``.
FEED_WORDS = 5
# Instructions to move rows: per byte with vectors, with words and with single bytes, and per call.
_VECTOR_MOVE_COST, _WORD_MOVE_COST, _SINGLE_MOVE_COST, _MOVE_CALL_COST = 0.4, 0.75, 4.0, 24.0
#: Instructions of the loop around a stage's call.
CALL_COST = 40.0


@dataclass(frozen=True)
class Stage:
    """A node of a fused group."""

    node: Node
    #: Position among the group's nodes of the layer that it computes, or a slice of.
    layer: int
    #: Call for the first band; those for other bands differ in :attr:`varying` only.
    call: KernelCall
    #: Fields whose numbers differ between bands: ``field``, or ``field[i]`` of a short array.
    varying: tuple[str, ...]
    #: Small arrays that differ between bands, by their field.
    tables: Mapping[str, tuple[Array, ...]]
    #: Size of the kernel's scratch, and its offset in the scratch of the step.
    scratch_bytes: int
    scratch: int
    #: Whether the kernel accumulates in its scratch over all bands.
    accumulates: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that the kernel takes, constants included, in its order."""
        return tuple(self.node.inputs[i] for i in self.call.inputs)


@dataclass(frozen=True)
class Location:
    """Location of bytes: an offset in the group's input ``index``, its output, or its scratch.

    ``constant`` means all bytes of a constant operand, ``feed`` bytes that the caller brings.
    """

    kind: str  # "input", "output", "scratch", "constant", "feed"
    offset: int = 0
    index: int = 0


@dataclass(frozen=True)
class Move:
    """Move of ``nbytes`` of rows from ``source`` to ``target``; the ranges may overlap."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class Entry:
    """One call of a stage in the schedule."""

    stage: int
    #: Rows of the stage's output, or of its input if it accumulates.
    first: int
    count: int
    call: KernelCall
    #: Location of the band for each tensor argument of the kernel, and of the band that it writes.
    inputs: tuple[Tensor, ...]
    #: First row of each band in its tensor.
    in_first: int
    reads: tuple[Location, ...]
    output: Tensor
    write: Location
    #: Whether the call writes output rows: a stage that accumulates writes in its last call only.
    writes: bool
    #: Moves before the call, in order.
    moves: tuple[Move, ...]

    def further(self, rows: int, in_rows: int) -> Entry:
        """Return the entry shifted by these rows of the stage's output and input."""
        write = self.write
        if self.writes and write.kind == "output":
            step = rows * (self.output.nbytes // self.output.shape[1])
            write = replace(write, offset=write.offset + step)
        reads = [
            replace(location, offset=location.offset + in_rows * (tensor.nbytes // tensor.shape[1]))
            if location.kind in ("input", "output", "feed")
            else location
            for location, tensor in zip(self.reads, self.inputs, strict=True)
        ]
        first, in_first = self.first + rows, self.in_first + in_rows
        return replace(self, first=first, in_first=in_first, reads=tuple(reads), write=write)


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive entries, created on first access: most groups that are estimated never run."""

    calls: Sequence[KernelCall]
    #: By entry, its stage, and the offset and the size of the rows that it writes to the scratch;
    #: None where it writes none there.
    stages: Sequence[int]
    writes: Sequence[tuple[int, int] | None]
    #: By entry, the offsets and sizes of rows in the scratch: all that it reads, and possibly rows
    #: that only later entries read.
    held: Sequence[Sequence[tuple[int, int]]]
    moves: Sequence[Sequence[Move]]
    #: Offset of the arena, to which the offsets of moves are relative.
    offset: int
    #: Positions of entries that read the group's inputs or write its output.
    borders: Sequence[int]
    #: Creates the entry at a position.
    make: Callable[[int], Entry] = field(repr=False)

    @staticmethod
    def of(entries: Sequence[Entry]) -> Piece:
        """Return a piece of existing entries."""
        return Piece(
            [e.call for e in entries],
            [e.stage for e in entries],
            [
                (e.write.offset, e.output.nbytes) if e.write.kind == "scratch" else None
                for e in entries
            ],
            [
                [
                    (location.offset, tensor.nbytes)
                    for location, tensor in zip(e.reads, e.inputs, strict=True)
                    if location.kind == "scratch"
                ]
                for e in entries
            ],
            [e.moves for e in entries],
            0,
            range(len(entries)),
            entries.__getitem__,
        )

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All entries."""
        return tuple([self.make(position) for position in range(len(self.calls))])


@dataclass(frozen=True)
class Part:
    """A piece of a schedule that runs ``copies`` times, shifted by some rows each time."""

    piece: Piece
    copies: int = 1
    #: Number of shifts before the first copy.
    skipped: int = 0
    #: By stage, rows of its output and of its input per shift.
    shift: tuple[tuple[int, int], ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield every entry of every copy, in order."""
        for copy in range(self.skipped, self.skipped + self.copies):
            for entry in self.piece.entries:
                if copy == 0:
                    yield entry
                else:
                    rows, in_rows = self.shift[entry.stage]
                    yield entry.further(copy * rows, copy * in_rows)


#: Bytes read of the group's input with this index: their shift per copy, the step of each byte's
#: last read, and the C type.
_Read = tuple[int, slice, int, "int | Steps", str]
#: Bytes written to the group's output, described as in :data:`_Read`.
_Write = tuple[slice, int, "int | Steps", str]


@dataclass(frozen=True, eq=False)
class _Borders:
    """Accesses of an entry to the group's inputs and output, and its number of time steps, counted
    after the preceding entries without such accesses.
    """

    before: int
    steps: int
    reads: tuple[_Read, ...]
    write: _Write | None


@dataclass(frozen=True, eq=False)
class FusedCall:
    """Call of a fused group: one step of a program.

    It reads the tensors ``inputs``, writes ``outputs``, and has ``scratch_bytes`` of scratch.
    """

    group: Group
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    #: The schedule.
    parts: tuple[Part, ...]
    scratch_bytes: int
    #: Sizes of the tensors, by name.
    _nbytes: Mapping[str, int] = field(repr=False)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Calls of the stages, in order."""
        return tuple(entry for part in self.parts for entry in part.entries())

    @cached_property
    def _pieces(self) -> list[tuple[Piece, int]]:
        """Every piece once, and how often it runs."""
        pieces = {id(part.piece): part.piece for part in self.parts}
        times = dict.fromkeys(pieces, 0)
        for part in self.parts:
            times[id(part.piece)] += part.copies
        return [(piece, times[key]) for key, piece in pieces.items()]

    @cached_property
    def count(self) -> int:
        """Number of :attr:`entries`."""
        return sum(len(piece.calls) * times for piece, times in self._pieces)

    @cached_property
    def macs(self) -> int:
        """Nominal multiply-accumulates of all entries."""
        return sum(call.macs * times for piece, times in self._pieces for call in piece.calls)

    @property
    def output_bytes(self) -> int:
        """Bytes of the output, whichever rows of it the entries write."""
        return self._nbytes[self.outputs[0]]

    @cached_property
    def fed(self) -> int | None:
        """Stage whose input the caller feeds row by row; None if there is none."""
        stages = (i for i, stage in enumerate(self.stages) if OPS[stage.node.op].fed)
        return next(stages, None)

    @cached_property
    def fed_bytes(self) -> int:
        """Bytes of the input that the caller feeds, unread rows included."""
        return 0 if self.fed is None else self._nbytes[self.stages[self.fed].node.name]

    @cached_property
    def feed_bytes(self) -> int:
        """Bytes that a fed group needs between two calls of it: ``struct hil_feed``, and a word for
        each place outside of the group that its calls advance.
        """
        places = {
            (entry.stage, position)
            for entry in self.entries
            for position, place in enumerate((*entry.reads, entry.write))
            if place.kind in ("input", "output")
        }
        return 0 if self.fed is None else WORD * (FEED_WORDS + len(places))

    @cached_property
    def constants(self) -> Mapping[str, Array]:
        """Constant operands of the stages, by name."""
        firsts = {entry.stage: entry for entry in reversed(self.entries)}
        tensors = (tensor for entry in firsts.values() for tensor in entry.inputs)
        return {tensor.name: tensor.data for tensor in tensors if tensor.data is not None}

    @cached_property
    def move_bytes(self) -> int:
        """Total bytes of row moves."""
        return sum(
            move.nbytes * times
            for piece, times in self._pieces
            for moves in piece.moves
            for move in moves
        )

    @cached_property
    def moves_words(self) -> bool:
        """Whether all moves are of whole words between offsets that are multiples of four bytes."""
        return all(
            (piece.offset + move.target) % WORD == 0
            and (piece.offset + move.source) % WORD == 0
            and move.nbytes % WORD == 0
            for piece, _ in self._pieces
            for moves in piece.moves
            for move in moves
        )

    def cost(self, cpu: Cpu) -> int:
        """Return the cost estimate of the group on ``cpu``, in instructions."""
        calls: dict[int, int] = {}
        total = 0.0
        for piece, times in self._pieces:
            for call in piece.calls:
                if id(call) not in calls:
                    calls[id(call)] = call.instructions(cpu)
                total += times * (calls[id(call)] + CALL_COST)
            total += times * sum(map(len, piece.moves)) * _MOVE_CALL_COST
        together = _VECTOR_MOVE_COST if "mve" in cpu.features else _WORD_MOVE_COST
        total += self.move_bytes * (together if self.moves_words else _SINGLE_MOVE_COST)
        return round(total)

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """Access order of the group's inputs and output (:mod:`hilc.lowering.access`)."""
        return self._access

    @cached_property
    def _access(self) -> Access:
        reads = [np.full(self._nbytes[name], NEVER, np.int32) for name in self.inputs]
        (output,) = self.outputs
        write = np.full(self.output_bytes, np.iinfo(np.int32).max, np.int32)
        types = [""] * len(self.inputs)
        out_type = ""
        now = 0
        known: dict[int, list[_Borders]] = {}
        for part in self.parts:
            piece, key = part.piece, id(part.piece)
            if key not in known:
                known[key] = self._borders_of(part)
            rest = len(piece.calls) - (piece.borders[-1] + 1 if piece.borders else 0)
            for copy in range(part.skipped, part.skipped + part.copies):
                for border in known[key]:
                    now += border.before
                    for index, span, step, last, c_type in border.reads:
                        read = reads[index][span.start + copy * step : span.stop + copy * step]
                        if isinstance(last, int):
                            # Later than all earlier reads.
                            read[:] = now + last
                        else:
                            np.maximum(read, np.where(last == NEVER, NEVER, now + last), out=read)
                        types[index] = c_type
                    if border.write is not None:
                        span, step, first, out_type = border.write
                        written = write[span.start + copy * step : span.stop + copy * step]
                        np.minimum(written, now + first, out=written)
                    now += border.steps
                now += rest
        return Access(now, tuple(reads), (write,), tuple(types), (out_type,))

    def scratch_differences(self, position: int) -> ForbiddenInterval:
        """Return the forbidden interval of ``offset(scratch) - offset(input)`` for an input that is
        not needed afterwards: the scratch may lie over rows that all have been read.
        """
        return all_forbidden(self._reading_entries[position], self._writing_entries)

    def output_differences(self) -> ForbiddenInterval:
        """Return the forbidden interval of ``offset(scratch) - offset(output)``: the output may lie
        over scratch that no later call uses.
        """
        return all_forbidden(self._using_entries, self._output_entries).reversed()

    @cached_property
    def _using_entries(self) -> Steps:
        """By byte of the scratch, the number behind that of the entry that uses it last."""
        last = np.full(self.scratch_bytes, NEVER, np.int32)
        # What a piece uses there does not depend on how often it has run: its last copy counts.
        copies: dict[int, tuple[Piece, int]] = {}
        for part, number in self._numbered():
            copies.pop(id(part.piece), None)
            number += len(part.piece.calls) * (part.copies - 1)
            copies[id(part.piece)] = part.piece, number
        for piece, number in copies.values():
            for position, offset, nbytes in self._scratch_uses(piece, is_reading=True):
                last[offset : offset + nbytes] = number + position + 1
        return last

    @cached_property
    def _writing_entries(self) -> Steps:
        """By byte of the scratch, the number of the entry that writes it first."""
        first = np.full(self.scratch_bytes, np.iinfo(np.int32).max, np.int32)
        known: set[int] = set()
        for part, number in self._numbered():
            # What a piece writes there does not depend on how often it has run.
            if id(part.piece) not in known:
                known.add(id(part.piece))
                for position, offset, nbytes in self._scratch_uses(part.piece, is_reading=False):
                    written = first[offset : offset + nbytes]
                    np.minimum(written, number + position, out=written)
        return first

    @cached_property
    def _output_entries(self) -> Steps:
        """By byte of the output, the number of the entry that writes it first."""
        first = np.full(self.output_bytes, np.iinfo(np.int32).max, np.int32)
        for entry, further, copies in self._bordering():
            if entry.write.kind != "output" or not entry.writes:
                continue
            step = further.write.offset - entry.write.offset
            for shifts, number in copies:
                offset = entry.write.offset + shifts * step
                written = first[offset : offset + entry.output.nbytes]
                np.minimum(written, number, out=written)
        return first

    @cached_property
    def _reading_entries(self) -> tuple[Steps, ...]:
        """By byte of each input, the number behind that of the entry that reads it last."""
        last = tuple([np.full(self._nbytes[name], NEVER, np.int32) for name in self.inputs])
        for entry, further, copies in self._bordering():
            for location, then, tensor in zip(
                entry.reads, further.reads, entry.inputs, strict=True
            ):
                if location.kind != "input":
                    continue
                step = then.offset - location.offset
                for shifts, number in copies:
                    offset = location.offset + shifts * step
                    read = last[location.index][offset : offset + tensor.nbytes]
                    np.maximum(read, number + 1, out=read)
        return last

    def _numbered(self) -> Iterator[tuple[Part, int]]:
        """Yield every part, with the number of its first entry among all."""
        number = 0
        for part in self.parts:
            yield part, number
            number += len(part.piece.calls) * part.copies

    def _scratch_uses(self, piece: Piece, *, is_reading: bool) -> Iterator[tuple[int, int, int]]:
        """Yield the position of an entry, and offset and size of its writes to the scratch; with
        ``is_reading`` also of its reads.
        """
        entries = zip(piece.stages, piece.writes, piece.held, piece.moves, strict=True)
        for position, (index, write, held, moves) in enumerate(entries):
            stage = self.stages[index]
            yield position, stage.scratch, stage.scratch_bytes
            if write is not None:
                yield position, *write
            for move in moves:
                yield position, piece.offset + move.target, move.nbytes
            if is_reading:
                for move in moves:
                    yield position, piece.offset + move.source, move.nbytes
                for offset, nbytes in held:
                    yield position, offset, nbytes

    def _bordering(self) -> Iterator[tuple[Entry, Entry, Sequence[tuple[int, int]]]]:
        """Yield the entries that read the group's inputs or write its output: each with itself one
        shift further, and of each of its copies how many shifts further that is, and its number.
        """
        for part, number in self._numbered():
            count = len(part.piece.calls)
            for position in part.piece.borders:
                entry = part.piece.make(position)
                further = entry.further(*part.shift[entry.stage]) if part.shift else entry
                first = number + position
                copies = [(part.skipped + i, first + i * count) for i in range(part.copies)]
                yield entry, further, copies

    def _borders_of(self, part: Part) -> list[_Borders]:
        """Return the accesses of a part's entries to the group's tensors; all other entries take
        one step.
        """
        found: list[_Borders] = []
        done = 0
        for position in part.piece.borders:
            entry = part.piece.make(position)
            found.append(self._borders(entry, part, position - done))
            done = position + 1
        return found

    def _borders(self, entry: Entry, part: Part, before: int) -> _Borders:
        kinds = [location.kind for location in entry.reads]
        own: Access | None = None
        steps: int = 1
        # A stage that accumulates finishes its sums after all reads. Where a call only reads or
        # only writes the group's tensors, one step is as good as many.
        several = "input" in kinds and entry.write.kind == "output"
        if several and not self.stages[entry.stage].accumulates:
            own = access_of(entry.call, entry.inputs, (entry.output,))
            # Without a declared access order all writes may come before the reads.
            steps = 2 if own is None else own.steps
        kernel = entry.call.kernel
        types = argument_types(kernel.inputs, len(entry.inputs))
        further = entry.further(*part.shift[entry.stage]) if part.shift else entry
        reads: list[_Read] = []
        for position, (location, tensor) in enumerate(zip(entry.reads, entry.inputs, strict=True)):
            if location.kind != "input":
                continue
            last = steps - 1 if own is None else own.last_read[position]
            span = slice(location.offset, location.offset + tensor.nbytes)
            step = further.reads[position].offset - location.offset
            reads.append((location.index, span, step, last, types[position]))
        written: _Write | None = None
        if entry.write.kind == "output" and entry.writes:
            offset = entry.write.offset
            first = 0 if own is None else own.first_write[0]
            span = slice(offset, offset + entry.output.nbytes)
            written = span, further.write.offset - offset, first, kernel.outputs[0]
        return _Borders(before, steps, tuple(reads), written)


def numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numeric fields of a call by their C names, short arrays element by element."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            found |= {f"{name}[{i}]": element for i, element in enumerate(value)}
        elif not isinstance(value, np.ndarray):
            found[name] = value
    return found


def constant_arrays(call: FusedCall) -> Iterator[tuple[str, Array]]:
    """Yield the constant arrays that the stages read, with a name for each."""
    for index, stage in enumerate(call.stages):
        for position, name in enumerate(stage.inputs):
            if (data := call.constants.get(name)) is not None:
                yield f"{index}_operand_{position}", data
        for name, value in stage.call.fields.items():
            if isinstance(value, np.ndarray):
                for number, array in enumerate(stage.tables.get(name, (value,))):
                    yield f"{index}_{name}{number or ''}", array
