"""The call of a streaming group: its stages, and their calls in the order of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hilc.ir import Array, Graph, Node, Tensor
from hilc.lowering.access import NEVER, Access, Steps, access_of
from hilc.lowering.choice import Group
from hilc.lowering.cost import instructions
from hilc.lowering.kernels import KernelCall
from hilc.target import Cpu

#: Bytes that move together, if rows consist of them.
WORD = 4
# Instructions that moving rows takes: a byte, by vectors, by words and single, and a call.
_VECTOR_MOVE_COST, _WORD_MOVE_COST, _SINGLE_MOVE_COST, _MOVE_CALL_COST = 0.4, 0.75, 4.0, 24.0
# And those of the loop around a stage's call.
_CALL_COST = 40.0


@dataclass(frozen=True)
class Stage:
    """A node of a group."""

    node: Node
    #: The call for the first band; those for other bands differ in :attr:`varying` only.
    call: KernelCall
    #: The numbers that differ between bands: ``field``, or ``field[i]`` of a short array.
    varying: tuple[str, ...]
    #: Small arrays that differ between bands, by their field.
    tables: Mapping[str, tuple[Array, ...]]
    #: Bytes of scratch that its kernel needs, and where they lie in the step's.
    scratch_bytes: int
    scratch: int
    #: Whether the kernel adds up in its scratch, from one band to the next.
    accumulates: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the kernel takes, constants included, in its order."""
        return tuple(self.node.inputs[i] for i in self.call.inputs)


@dataclass(frozen=True)
class Where:
    """Bytes from ``offset`` on: in the group's input ``index``, its output, or its scratch.

    ``constant`` are those of a constant operand, all of it.
    """

    kind: str  # "input", "output", "scratch", "constant"
    offset: int = 0
    index: int = 0


@dataclass(frozen=True)
class Move:
    """Rows that move to make room: ``nbytes`` from ``source`` to ``target``, which may overlap."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class Entry:
    """One call of a stage in the schedule."""

    stage: int
    #: Rows of the stage's output, or of its input where it accumulates.
    first: int
    count: int
    call: KernelCall
    #: For each of the kernel's tensor arguments the band that it reads, and the one it writes.
    inputs: tuple[Tensor, ...]
    #: The first row of each in its whole tensor.
    in_first: int
    reads: tuple[Where, ...]
    output: Tensor
    write: Where
    #: Whether it writes at all: one that adds up does so in the end.
    writes: bool
    #: What happens before the call, in order.
    moves: tuple[Move, ...]

    def further(self, rows: int, in_rows: int) -> Entry:
        """The same so many rows of the stage's output and input further."""
        write = self.write
        if self.writes and write.kind == "output":
            step = rows * (self.output.nbytes // self.output.shape[1])
            write = replace(write, offset=write.offset + step)
        reads = [
            replace(where, offset=where.offset + in_rows * (tensor.nbytes // tensor.shape[1]))
            if where.kind in ("input", "output")
            else where
            for where, tensor in zip(self.reads, self.inputs, strict=True)
        ]
        first, in_first = self.first + rows, self.in_first + in_rows
        return replace(self, first=first, in_first=in_first, reads=tuple(reads), write=write)


@dataclass(frozen=True, eq=False)
class Piece:
    """Entries in their order, made when somebody asks: few of the groups that are looked at run."""

    #: By entry.
    calls: Sequence[KernelCall]
    moves: Sequence[Sequence[Move]]
    #: What the moves' places count from.
    offset: int
    #: The entries that read the group's inputs or write its output.
    borders: Sequence[int]
    make: Callable[[int], Entry] = field(repr=False)

    @staticmethod
    def of(entries: Sequence[Entry]) -> Piece:
        """Those that are there already."""
        calls, moves = [e.call for e in entries], [e.moves for e in entries]
        return Piece(calls, moves, 0, range(len(entries)), entries.__getitem__)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All of them."""
        return tuple([self.make(position) for position in range(len(self.calls))])


@dataclass(frozen=True)
class Part:
    """A piece of a schedule that runs ``copies`` times, one after the other, each time further."""

    piece: Piece
    copies: int = 1
    #: How often it has gone further before the first time.
    skipped: int = 0
    #: By stage, how many rows of its output and of its input it goes further.
    shift: tuple[tuple[int, int], ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Every entry of every copy, in order."""
        for turn in range(self.skipped, self.skipped + self.copies):
            for entry in self.piece.entries:
                if turn == 0:
                    yield entry
                else:
                    rows, in_rows = self.shift[entry.stage]
                    yield entry.further(turn * rows, turn * in_rows)


#: Bytes that are read of the group's input of this number: how much further they lie in the next
#: copy, in which step each is read last, and through which C type.
_Read = tuple[int, slice, int, "int | Steps", str]
#: The same of its output.
_Write = tuple[slice, int, "int | Steps", str]


@dataclass(frozen=True, eq=False)
class _Borders:
    """What an entry does with what is the group's own, and how many steps it takes, after those
    of the entries before it that do nothing with that."""

    before: int
    steps: int
    reads: tuple[_Read, ...]
    write: _Write | None


@dataclass(frozen=True, eq=False)
class StreamCall:
    """The call of a group: one step of a program.

    It reads the tensors ``inputs``, writes ``outputs``, and has ``scratch_bytes`` of its own.
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
        """The calls of the stages, in order."""
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
        """How many :attr:`entries` there are."""
        return sum(len(piece.calls) * times for piece, times in self._pieces)

    @cached_property
    def macs(self) -> int:
        """The nominal multiply-accumulates of all entries."""
        return sum(call.macs * times for piece, times in self._pieces for call in piece.calls)

    @cached_property
    def move_bytes(self) -> int:
        """Bytes of rows that move, in all."""
        return sum(
            move.nbytes * times
            for piece, times in self._pieces
            for moves in piece.moves
            for move in moves
        )

    @cached_property
    def moves_words(self) -> bool:
        """Whether all that moves are whole words, from and to multiples of four bytes."""
        return all(
            (piece.offset + move.target) % WORD == 0
            and (piece.offset + move.source) % WORD == 0
            and move.nbytes % WORD == 0
            for piece, _ in self._pieces
            for moves in piece.moves
            for move in moves
        )

    def cost(self, cpu: Cpu) -> int:
        """The instructions that the group is expected to take on ``cpu``."""
        calls: dict[int, int] = {}
        total = 0.0
        for piece, times in self._pieces:
            for call in piece.calls:
                if id(call) not in calls:
                    calls[id(call)] = instructions(call, cpu)
                total += times * (calls[id(call)] + _CALL_COST)
            total += times * sum(map(len, piece.moves)) * _MOVE_CALL_COST
        together = _VECTOR_MOVE_COST if "mve" in cpu.features else _WORD_MOVE_COST
        total += self.move_bytes * (together if self.moves_words else _SINGLE_MOVE_COST)
        return round(total)

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """When the group reads its inputs and writes its output (:mod:`hilc.lowering.access`)."""
        return self._access

    @cached_property
    def _access(self) -> Access:
        reads = [np.full(self._nbytes[name], NEVER, np.int32) for name in self.inputs]
        (output,) = self.outputs
        write = np.full(self._nbytes[output], np.iinfo(np.int32).max, np.int32)
        types = [""] * len(self.inputs)
        out_type = ""
        now = 0
        known: dict[int, list[_Borders]] = {}
        for part in self.parts:
            piece, key = part.piece, id(part.piece)
            if key not in known:
                known[key] = self._borders_of(part)
            rest = len(piece.calls) - (piece.borders[-1] + 1 if piece.borders else 0)
            for turn in range(part.skipped, part.skipped + part.copies):
                for border in known[key]:
                    now += border.before
                    for index, span, step, last, c_type in border.reads:
                        read = reads[index][span.start + turn * step : span.stop + turn * step]
                        if isinstance(last, int):
                            # Later than all that was read before.
                            read[:] = now + last
                        else:
                            np.maximum(read, np.where(last == NEVER, NEVER, now + last), out=read)
                        types[index] = c_type
                    if border.write is not None:
                        span, step, first, out_type = border.write
                        written = write[span.start + turn * step : span.stop + turn * step]
                        np.minimum(written, now + first, out=written)
                    now += border.steps
                now += rest
        return Access(now, tuple(reads), (write,), tuple(types), (out_type,))

    def _borders_of(self, part: Part) -> list[_Borders]:
        """What the entries of a part do with what is the group's; all others take one step."""
        found: list[_Borders] = []
        done = 0
        for position in part.piece.borders:
            entry = part.piece.make(position)
            found.append(self._borders(entry, part, position - done))
            done = position + 1
        return found

    def _borders(self, entry: Entry, part: Part, before: int) -> _Borders:
        kinds = [where.kind for where in entry.reads]
        own: Access | None = None
        steps: int = 1
        # The sums of one that adds up are finished after all was read; and where a call does one of
        # both only, one step is as good as many.
        several = "input" in kinds and entry.write.kind == "output"
        if several and not self.stages[entry.stage].accumulates:
            own = access_of(entry.call, entry.inputs, (entry.output,))
            # Of a kernel that promises nothing the writes may all come before the reads.
            steps = 2 if own is None else own.steps
        kernel = entry.call.kernel
        further = entry.further(*part.shift[entry.stage]) if part.shift else entry
        reads: list[_Read] = []
        for position, (where, tensor) in enumerate(zip(entry.reads, entry.inputs, strict=True)):
            if where.kind != "input":
                continue
            last = steps - 1 if own is None else own.last_read[position]
            span = slice(where.offset, where.offset + tensor.nbytes)
            step = further.reads[position].offset - where.offset
            reads.append((where.index, span, step, last, kernel.inputs[position]))
        written: _Write | None = None
        if entry.write.kind == "output" and entry.writes:
            offset = entry.write.offset
            first = 0 if own is None else own.first_write[0]
            span = slice(offset, offset + entry.output.nbytes)
            written = span, further.write.offset - offset, first, kernel.outputs[0]
        return _Borders(before, steps, tuple(reads), written)


def numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among a call's fields by their C names, those in short arrays one by one."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            found |= {f"{name}[{i}]": element for i, element in enumerate(value)}
        elif not isinstance(value, np.ndarray):
            found[name] = value
    return found


def constant_arrays(call: StreamCall, graph: Graph) -> Iterator[tuple[str, Array]]:
    """The constant arrays that the stages read, with a name for each."""
    for index, stage in enumerate(call.stages):
        for position, name in enumerate(stage.inputs):
            if (data := graph.tensors[name].data) is not None:
                yield f"{index}_operand_{position}", data
        for name, value in stage.call.fields.items():
            if isinstance(value, np.ndarray):
                for number, array in enumerate(stage.tables.get(name, (value,))):
                    yield f"{index}_{name}{number or ''}", array
