"""The call of a streaming group: its stages, and their calls in the order of the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hilc.cpu import Cpu
from hilc.ir import Array, Graph, Node, Tensor
from hilc.lowering.access import NEVER, Access, access_of
from hilc.lowering.choice import Group
from hilc.lowering.cost import instructions
from hilc.lowering.kernels import KernelCall

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
    entries: tuple[Entry, ...]
    scratch_bytes: int
    macs: int
    #: Sizes of the tensors, by name.
    _nbytes: Mapping[str, int] = field(repr=False)

    @property
    def move_bytes(self) -> int:
        """Bytes of rows that move, in all."""
        return sum(move.nbytes for entry in self.entries for move in entry.moves)

    @property
    def moves_words(self) -> bool:
        """Whether all that moves are whole words, from and to multiples of four bytes."""
        moves = [move for entry in self.entries for move in entry.moves]
        numbers = {n for move in moves for n in (move.target, move.source, move.nbytes)}
        return all(number % WORD == 0 for number in numbers)

    def cost(self, cpu: Cpu) -> int:
        """The instructions that the group is expected to take on ``cpu``."""
        calls: dict[int, int] = {}
        total = 0.0
        for entry in self.entries:
            if id(entry.call) not in calls:
                calls[id(entry.call)] = instructions(entry.call, cpu)
            total += calls[id(entry.call)] + _CALL_COST
            total += len(entry.moves) * _MOVE_CALL_COST
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
        for entry in self.entries:
            own = self._entry_access(entry)
            kernel = entry.call.kernel
            for position, (where, tensor) in enumerate(zip(entry.reads, entry.inputs, strict=True)):
                if where.kind != "input":
                    continue
                span = slice(where.offset, where.offset + tensor.nbytes)
                # Of a kernel that promises nothing the writes may all come before the reads.
                last = np.int32(1) if own is None else own.last_read[position]
                read = np.where(last == NEVER, NEVER, now + last)
                reads[where.index][span] = np.maximum(reads[where.index][span], read)
                types[where.index] = kernel.inputs[position]
            if entry.write.kind == "output" and entry.writes:
                span = slice(entry.write.offset, entry.write.offset + entry.output.nbytes)
                first = np.int32(0) if own is None else own.first_write[0]
                write[span] = np.minimum(write[span], now + first)
                out_type = kernel.outputs[0]
            now += 2 if own is None else own.steps
        return Access(now, tuple(reads), (write,), tuple(types), (out_type,))

    def _entry_access(self, entry: Entry) -> Access | None:
        """How a call of a stage accesses what is the group's, its own steps counted from 0."""
        kinds = [where.kind for where in entry.reads]
        types = entry.call.kernel.inputs, entry.call.kernel.outputs
        if self.stages[entry.stage].accumulates or not (
            "input" in kinds and entry.write.kind == "output"
        ):
            # The sums are finished after all was read; and where a call does one of both only, one
            # step is as good as many.
            return Access(
                1,
                tuple(np.zeros(t.nbytes, np.int32) for t in entry.inputs),
                (np.zeros(entry.output.nbytes, np.int32),),
                *types,
            )
        return access_of(entry.call, entry.inputs, (entry.output,))


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
