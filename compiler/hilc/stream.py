"""Layers that run together, a few rows at a time: streaming groups.

A group is a chain of consecutive nodes (with skip connections inside, if any) that becomes one step
of a program. Of the tensors between its nodes only a few rows exist at a time, in buffers that are
part of the step's scratch; nothing is computed twice. No kernel knows of this: a *stage* is a node
whose kernel is called for bands of the image, as the layer that it would be if the image were that
high and padded where the band meets the image's border. Such calls differ in a few numbers only.

What is worked out here, at compile time:

* the *schedule*: which stage computes which rows when. It is driven by demand: a stage computes
  rows when a later one needs them, at most ``rows`` at a time if it reads rows of a buffer itself.
* the buffers: a stage appends its rows to those that are still needed, so that each kernel sees its
  rows together. All buffers share an arena: the room of rows that one has no more use for is the
  next one's. A kernel may write over rows that it is the last to read, as far as its order allows
  (:mod:`hilc.access`). Where there is room, but elsewhere, rows move;
* the scratch: buffers and the stages' own scratch, placed by when which of their bytes are in use.

The group's inputs are read in their own place, its output is written to its own. A group of one
node is that node's kernel run on bands of its image, from the first to the last or from the last to
the first: backward, an output may lie above its input, over what is dead already.

An average over the whole height ends a group: it adds the rows up as they come.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, product
from typing import Any

import numpy as np

from hilc.access import NEVER, Access, Differences, access_of, apart, safe_differences
from hilc.choice import Group
from hilc.cost import instructions
from hilc.cpu import Cpu
from hilc.ir import Array, Graph, Node, Tensor
from hilc.kernels import KernelCall
from hilc.ops import OPS, geometry, mean, pooling

#: Buffers and scratch start at a multiple of this many bytes.
_ALIGNMENT = 4

_WINDOWS = ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D")
_UNARY = (
    "RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "QUANTIZE", "DEQUANTIZE",
)  # fmt: skip
_BINARY = ("ADD", "SUB", "MUL")
_DTYPES = ("int8", "float32")

# A kernel's array may differ between bands if it takes no more than this.
_TABLE_BYTES = 512
# Orders in which buffers are placed before the best is taken.
_PLACINGS = 60
# Sizes of arenas between the least and the most that are tried.
_ARENAS = 16
#: Bytes that move together, if rows consist of them.
_WORD = 4
# Instructions that moving rows takes: a byte, by vectors, by words and single, and a call.
_VECTOR_MOVE_COST, _WORD_MOVE_COST, _SINGLE_MOVE_COST, _MOVE_CALL_COST = 0.4, 0.75, 4.0, 24.0
# And those of the loop around a stage's call.
_CALL_COST = 40.0


class NotStreamable(ValueError):
    """These nodes cannot run as one group, or not like that; the message says why."""


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
        return all(number % _WORD == 0 for number in numbers)

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
        """When the group reads its inputs and writes its output (:mod:`hilc.access`)."""
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


def stream(graph: Graph, group: Group, cpu: Cpu) -> StreamCall:
    """The call that computes the nodes of ``group``; :class:`NotStreamable` where none can."""
    return Streams(graph, cpu).call(group)


class Streams:
    """Makes the groups of one graph; remembers what the kernels of its nodes' bands are."""

    def __init__(self, graph: Graph, cpu: Cpu) -> None:
        self.graph = graph
        self.cpu = cpu
        self._nodes = {node.name: i for i, node in enumerate(graph.nodes)}
        self._readers = graph.consumers()
        self._candidates: dict[tuple[str, tuple[int, ...]], list[KernelCall]] = {}
        self._kernels: dict[tuple[object, ...], _StageCalls | None] = {}
        self._cuts: dict[tuple[str, bool, tuple[int, ...]], _Cut] = {}
        self._overlaps: dict[tuple[int, int], tuple[KernelCall, _Overlap]] = {}
        self._rooms: dict[_Room, _Room] = {}

    def call(self, group: Group) -> StreamCall:
        """As :func:`stream`."""
        plans = _Geometry(self, group)
        layouts: dict[object, _Layout] = {}
        for variant in plans.variants():
            layout = _Layout(self, plans, variant)
            # Variants may come to the same.
            layouts.setdefault(layout.key, layout)
        best: tuple[tuple[int, int, int], StreamCall] | None = None
        for layout in sorted(layouts.values(), key=_Layout.least_memory):
            call = layout.call(None if best is None else best[0][0])
            if call is None:
                continue
            rank = _rank(call)
            if best is None or rank < best[0]:
                best = rank, call
        assert best is not None, "without an alias there is always a way"
        return best[1]

    def cut(self, node: _Node, band: _Band) -> _Cut:
        """``node`` and its tensors, cut to ``band``."""
        key = (node.node.name, node.accumulates, band.key)
        if key not in self._cuts:
            self._cuts[key] = node.cut(band)
        return self._cuts[key]

    def candidates(self, node: Node, band: _Band, cut: _Cut) -> list[KernelCall]:
        """The kernels that compute a band of ``node``, the fastest first."""
        key = (node.name, band.key)
        if key not in self._candidates:
            calls = OPS[node.op].emit(cut.node, cut.ins, cut.outs, self.cpu)
            self._candidates[key] = [call for call in calls if isinstance(call, KernelCall)]
        return self._candidates[key]

    def kernels(
        self, node: _Node, bands: Mapping[tuple[int, ...], _Band], wanted: int | None
    ) -> _StageCalls:
        """What computes ``bands`` of ``node``: calls of one kernel, the ``wanted`` one or the first
        that can, which differ in numbers only."""
        key = (node.node.name, node.accumulates, wanted, *bands)
        if key not in self._kernels:
            self._kernels[key] = self._find_kernels(node, bands, wanted)
        if (found := self._kernels[key]) is None:
            which = "no kernel that computes" if wanted is None else f"no kernel {wanted} for"
            raise NotStreamable(f"{node.node.name!r} has {which} all of its bands")
        return found

    def _find_kernels(
        self, node: _Node, bands: Mapping[tuple[int, ...], _Band], wanted: int | None
    ) -> _StageCalls | None:
        cuts = {key: self.cut(node, band) for key, band in bands.items()}
        if node.accumulates:
            make = pooling.add_rows if node.node.op == "AVERAGE_POOL_2D" else mean.add_rows
            return _StageCalls.of(
                {
                    key: make(node.node, node.ins, (node.out,), b.count, b.above == 1, b.below == 1)
                    for key, b in bands.items()
                },
                cuts,
            )
        candidates = {
            key: self.candidates(node.node, band, cuts[key]) for key, band in bands.items()
        }
        count = min(map(len, candidates.values()))
        for position in range(count) if wanted is None else [wanted]:
            if position < count:
                calls = {key: found[position] for key, found in candidates.items()}
                if _one_kernel(list(calls.values())):
                    return _StageCalls.of(calls, cuts)
        return None

    def overlap(self, call: KernelCall, cut: _Cut, position: int) -> _Overlap:
        """How the output of a call may lie to what it reads as its node's input ``position``."""
        key = id(call), position
        if key not in self._overlaps:
            inputs = [t for t in (cut.ins[p] for p in call.inputs) if t is not None]
            access = access_of(call, inputs, cut.outs)
            argument = call.inputs.index(position)
            overlap = _Overlap(access, argument, inputs, cut.outs[0].nbytes)
            # With the call, whose identity is the key.
            self._overlaps[key] = call, overlap
        return self._overlaps[key][1]

    def room(self, room: _Room) -> _Room:
        """The same, with what was found for it before."""
        return self._rooms.setdefault(room, room)

    def nodes(self, group: Group) -> tuple[Node, ...]:
        """The nodes that ``group`` names."""
        for name in group.nodes:
            if name not in self._nodes:
                raise NotStreamable(f"the graph computes no {name!r}")
        positions = [self._nodes[name] for name in group.nodes]
        if not positions or positions != list(range(positions[0], positions[0] + len(positions))):
            raise NotStreamable(f"{', '.join(map(repr, group.nodes))} are no consecutive nodes")
        return tuple(self.graph.nodes[position] for position in positions)

    def outside_readers(self, name: str, group: Group) -> bool:
        """Whether ``name`` is needed after the group."""
        readers = self._readers.get(name, ())
        inside = set(group.nodes)
        return name in self.graph.outputs or any(node.name not in inside for node in readers)


def _rank(call: StreamCall) -> tuple[int, int, int]:
    """The less, the better: memory, then calls, then bytes that move.

    The memory is the group's scratch, inputs and output, the output over the first input.
    """
    access = call.access((), ())
    assert access is not None
    sizes = [steps.size for steps in access.last_read]
    output = access.first_write[0].size
    differences: Differences = safe_differences(access, 0, 0)
    allowed = [differences.low, differences.high, *([0] if differences.allow(0) else [])]
    overlapped = min(max(sizes[0], d + output) - min(0, d) for d in allowed)
    memory = call.scratch_bytes + overlapped + sum(sizes[1:])
    return memory, len(call.entries), call.move_bytes


# Rows -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Band:
    """What a call of a stage covers: output rows, input rows, and rows outside of the image."""

    first: int
    count: int
    in_first: int
    in_count: int
    above: int
    below: int

    @property
    def key(self) -> tuple[int, ...]:
        """Equal for bands of one shape."""
        return self.count, self.in_count, self.above, self.below


@dataclass(frozen=True)
class _Cut:
    """A node and its tensors, cut to a band."""

    node: Node
    ins: tuple[Tensor | None, ...]
    outs: tuple[Tensor, ...]


@dataclass(frozen=True)
class _Node:
    """A node of a group, seen along the height of its image."""

    node: Node
    ins: tuple[Tensor | None, ...]
    out: Tensor
    #: The positions of the inputs that are cut into rows.
    operands: tuple[int, ...]
    in_h: int
    #: Steps in which it is computed: rows of its output, or of its input where it accumulates.
    height: int
    stride: int = 1
    span: int = 1
    above: int = 0
    sides: tuple[int, int] = (0, 0)
    accumulates: bool = False

    def band(self, first: int, count: int) -> _Band:
        if self.accumulates:
            # What lies beyond is not padding, but it is the first or the last band all the same.
            end = first + count
            return _Band(first, count, first, count, int(first == 0), int(end == self.height))
        start = first * self.stride - self.above
        end = start + (count - 1) * self.stride + self.span
        in_first, in_end = max(0, start), min(self.in_h, end)
        if in_first >= in_end:
            raise NotStreamable(f"{self.node.name!r} has windows with padding only")
        return _Band(
            first, count, in_first, in_end - in_first, max(0, -start), max(0, end - self.in_h)
        )

    def first_needed(self, first: int) -> int:
        """The first row of the input that rows of the output from ``first`` on need."""
        if first >= self.height:
            return self.in_h
        return min(self.in_h, max(0, first * self.stride - self.above))

    def cut(self, band: _Band) -> _Cut:
        ins = list(self.ins)
        for position in self.operands:
            tensor = ins[position]
            assert tensor is not None
            ins[position] = _rows(tensor, band.in_count)
        node = self.node
        if node.op in _WINDOWS and not self.accumulates:
            padding = (band.above, band.below, *self.sides)
            node = replace(node, attrs={**node.attrs, "padding": padding})
        out = self.out if self.accumulates else _rows(self.out, band.count)
        return _Cut(node, tuple(ins), (out,))


def _rows(tensor: Tensor, count: int) -> Tensor:
    return replace(tensor, shape=(1, count, *tensor.shape[2:]))


def _is_image(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.dtype in _DTYPES


@dataclass(frozen=True)
class _Variant:
    """A way to run a group."""

    #: Operands are demanded from the last to the first.
    backwards: bool
    #: The first call of a stage may compute more rows than the others, rather than be two calls:
    #: what comes later needs rows below those that it computes.
    long_start: bool
    #: Which operand of the last node lies where the output is written, if one does.
    alias: int | None


class _Geometry:
    """The nodes of a group and what flows between them; what holds for every schedule of it."""

    def __init__(self, streams: Streams, group: Group) -> None:
        if group.rows < 1:
            raise NotStreamable(f"a group of {group.rows} rows at a time")
        self.group = group
        nodes = streams.nodes(group)
        graph = streams.graph
        if group.direction == "backward" and len(nodes) > 1:
            raise NotStreamable("a group of several nodes runs forward")
        self.nodes = [
            _node(graph, node, accumulates=node is nodes[-1] and len(nodes) > 1) for node in nodes
        ]
        #: The stage that computes a tensor.
        self.producer = {n.out.name: i for i, n in enumerate(self.nodes)}
        for name in group.nodes[:-1]:
            if streams.outside_readers(name, group):
                raise NotStreamable(f"{name!r} is needed after the group")
        #: The stages that read a tensor of the group.
        self.readers: dict[str, list[int]] = {name: [] for name in group.nodes}
        inputs: list[str] = []
        for index, n in enumerate(self.nodes):
            for position in n.operands:
                name = n.node.inputs[position]
                if name not in self.producer:
                    inputs.append(name)
                elif index not in self.readers[name]:
                    self.readers[name].append(index)
        self.inputs = tuple(dict.fromkeys(inputs))
        for name in group.nodes[:-1]:
            if not self.readers[name]:
                raise NotStreamable(f"nothing in the group reads {name!r}")
        if group.kernels and len(group.kernels) != len(nodes):
            raise NotStreamable(f"{len(group.kernels)} kernels for {len(nodes)} nodes")

    def variants(self) -> Iterator[_Variant]:
        """The ways to run the group."""
        last = self.nodes[-1]
        binary = any(len(n.operands) > 1 for n in self.nodes)
        aliases: list[int | None] = [None]
        if last.node.op in (*_UNARY, *_BINARY):
            aliases += [p for p in last.operands if self._may_lie_in_output(p)]
        several = len(self.nodes) > 1 and self.group.rows > 1
        for choice in product(
            (False, True) if binary else (False,), (True, False) if several else (False,), aliases
        ):
            yield _Variant(*choice)

    def _may_lie_in_output(self, position: int) -> bool:
        last = self.nodes[-1]
        name, tensor = last.node.inputs[position], last.ins[position]
        assert tensor is not None
        return (
            name in self.producer
            and self.readers[name] == [len(self.nodes) - 1]
            and last.node.inputs.count(name) == 1
            and (tensor.shape, tensor.dtype) == (last.out.shape, last.out.dtype)
        )


def _node(graph: Graph, node: Node, *, accumulates: bool) -> _Node:
    """``node`` along the height; :class:`NotStreamable` unless it works row by row."""
    ins, outs = graph.ins(node), graph.outs(node)
    if len(outs) != 1:
        raise NotStreamable(f"{node.op} {node.name!r} has {len(outs)} outputs")
    (out,) = outs
    if node.op in _BINARY and _is_image(out):
        return _Node(node, ins, out, _binary_operands(node, ins, out), out.shape[1], out.shape[1])
    x = ins[0]
    if x is None or x.is_constant or not _is_image(x):
        raise NotStreamable(f"{node.op} {node.name!r} does not work on one image")
    if accumulates and (height := _whole_height(node, ins)) is not None:
        return _Node(node, ins, out, (0,), height, height, accumulates=True)
    if not _is_image(out):
        raise NotStreamable(f"{node.op} {node.name!r} does not make one image")
    if node.op in _UNARY:
        return _Node(node, ins, out, (0,), x.shape[1], out.shape[1])
    if node.op in _WINDOWS:
        filter_h, filter_w = _filter(node, ins)
        window = geometry.window(node, x.shape, filter_h, filter_w)
        h, w = window.h, window.w
        return _Node(
            node, ins, out, (0,), h.in_size, h.out_size, h.stride, h.span, h.pad_before,
            (w.pad_before, w.pad_after),
        )  # fmt: skip
    raise NotStreamable(f"{node.op} {node.name!r} does not work row by row")


def _filter(node: Node, ins: Sequence[Tensor | None]) -> tuple[int, int]:
    if "filter_h" in node.attrs:
        return node.attrs["filter_h"], node.attrs["filter_w"]
    weights = ins[1]
    assert weights is not None
    return weights.shape[1], weights.shape[2]


def _binary_operands(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> tuple[int, ...]:
    """The operands that have the output's rows; the others are constants of one row."""
    positions = []
    for position, tensor in enumerate(ins):
        assert tensor is not None
        rows = tensor.shape[-3] if len(tensor.shape) >= 3 else 1
        if not tensor.is_constant:
            if not _is_image(tensor) or rows != out.shape[1]:
                raise NotStreamable(f"{node.op} {node.name!r} repeats the rows of an operand")
            positions.append(position)
        elif rows != 1:
            raise NotStreamable(f"{node.op} {node.name!r} has a constant for each row")
    return tuple(positions)


def _whole_height(node: Node, ins: Sequence[Tensor | None]) -> int | None:
    """The height of the image where ``node`` averages all of it; None where it does not."""
    if node.op == "AVERAGE_POOL_2D":
        return pooling.whole_height(node, ins)
    if node.op == "MEAN":
        return mean.whole_height(node, ins)
    return None


# The schedule -----------------------------------------------------------------------------------


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
class _Turn:
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


#: Ranges of bytes, each from the first to the one behind the last.
_Ranges = tuple[tuple[int, int], ...]


@dataclass
class _Item:
    """Bytes of the step's scratch; ``live`` says by entry which of them hold something."""

    nbytes: int
    live: dict[int, _Ranges]
    offset: int = 0


@dataclass
class _Arena:
    """Where the rows of all buffers are."""

    item: _Item
    #: By entry and tensor, the byte at which the entry reads or writes.
    places: list[dict[str, int]]
    #: By entry, what moves before it.
    moves: dict[int, Sequence[Move]]


@dataclass(frozen=True)
class _StageCalls:
    """What computes a node's bands, by the bands' shapes: calls that differ in numbers only."""

    calls: Mapping[tuple[int, ...], KernelCall]
    cuts: Mapping[tuple[int, ...], _Cut]
    #: As :class:`Stage` has them.
    varying: tuple[str, ...]
    tables: Mapping[str, tuple[Array, ...]]
    scratch_bytes: int

    @property
    def first(self) -> KernelCall:
        """The call for the first band."""
        return next(iter(self.calls.values()))

    @staticmethod
    def of(
        calls: Mapping[tuple[int, ...], KernelCall], cuts: Mapping[tuple[int, ...], _Cut]
    ) -> _StageCalls:
        listed = list(calls.values())
        values = [numbers(call.fields) for call in listed]
        varying = [n for n, value in values[0].items() if any(v[n] != value for v in values[1:])]
        tables: dict[str, tuple[Array, ...]] = {}
        for name, field_value in listed[0].fields.items():
            if isinstance(field_value, np.ndarray):
                found = (call.fields[name] for call in listed)
                arrays = {a.tobytes(): a for a in found if isinstance(a, np.ndarray)}
                if len(arrays) > 1:
                    tables[name] = tuple(arrays.values())
        scratch = max(call.scratch_bytes for call in listed)
        return _StageCalls(calls, cuts, tuple(varying), tables, scratch)


class _Layout:
    """One schedule of a group, its buffers and their places."""

    def __init__(self, streams: Streams, plan: _Geometry, variant: _Variant) -> None:
        self._streams = streams
        self._plan = plan
        self._nodes = plan.nodes
        self._variant = variant
        last = plan.nodes[-1].node
        #: The tensor whose rows lie where the output's rows will.
        self._alias = None if variant.alias is None else last.inputs[variant.alias]
        self._bands = self._schedule()

    def least_memory(self) -> int:
        """No less than this is what :func:`_rank` counts first, whatever the layout."""
        return self._memory(self._bounds[0])

    def _memory(self, scratch_bytes: int) -> int:
        """The same for a call of so much scratch."""
        graph = self._streams.graph
        sizes = [graph.tensors[name].nbytes for name in self._plan.inputs]
        output = self._nodes[-1].out.nbytes
        return scratch_bytes + max(sizes[0], output) + sum(sizes[1:])

    def _scratch_spans(self, stages: Sequence[_StageCalls]) -> list[Sequence[int]]:
        """For each stage, the entries during which its scratch holds something."""
        own: list[list[int]] = [[] for _ in stages]
        for e, (index, _) in enumerate(self._bands):
            own[index].append(e)
        return [
            range(entries[0], entries[-1] + 1) if node.accumulates else entries
            for node, entries in zip(self._nodes, own, strict=True)
        ]

    def _least_scratch(self, stages: Sequence[_StageCalls], spans: Sequence[Sequence[int]]) -> int:
        """No scratch does with less: what rows take while a stage has its own."""
        used = [turn.least for turn in self._turns]
        for stage, span in zip(stages, spans, strict=True):
            for e in span:
                used[e] += stage.scratch_bytes
        return max(used)

    @property
    def key(self) -> object:
        """Equal for layouts that come to the same."""
        return self._alias, tuple(self._bands)

    def call(self, most: int | None) -> StreamCall | None:
        """The group's call; None where the kernel does not allow what the variant wants, or where
        it takes more memory than ``most``."""
        plan = self._plan
        if most is not None and self.least_memory() > most:
            return None
        stages = [self._calls(index) for index in range(len(self._nodes))]
        if self._alias is not None and not self._alias_allowed(stages[-1]):
            return None
        spans = self._scratch_spans(stages)
        if most is not None and self._memory(self._least_scratch(stages, spans)) > most:
            return None
        rows = self._lay_out(stages)
        items = [rows.item] if rows.item.nbytes else []
        scratch: list[_Item | None] = []
        for stage, span in zip(stages, spans, strict=True):
            item = None
            if nbytes := stage.scratch_bytes:
                item = _Item(nbytes, dict.fromkeys(span, ((0, nbytes),)))
                items.append(item)
            scratch.append(item)
        total = _place(items)
        if most is not None and self._memory(total) > most:
            return None
        entries = []
        for e, (index, band) in enumerate(self._bands):
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
                elif name in plan.producer and name != self._alias:
                    wheres.append(Where("scratch", rows.item.offset + rows.places[e][name]))
                else:
                    row_bytes = tensor.nbytes // band.in_count
                    kind = "output" if name == self._alias else "input"
                    at = 0 if name == self._alias else plan.inputs.index(name)
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
        graph = self._streams.graph
        outputs = (self._nodes[-1].out.name,)
        return StreamCall(
            plan.group,
            tuple(n.node for n in self._nodes),
            plan.inputs,
            outputs,
            made,
            tuple(entries),
            total,
            sum(entry.call.macs for entry in entries),
            {name: graph.tensors[name].nbytes for name in (*plan.inputs, *outputs)},
        )

    def _schedule(self) -> list[tuple[int, _Band]]:
        """The stages' calls in order."""
        plan, nodes = self._plan, self._nodes
        done = [0] * len(nodes)
        entries: list[tuple[int, _Band]] = []
        last = len(nodes) - 1

        def limit(index: int) -> int:
            inner = any(nodes[index].node.inputs[p] in plan.producer for p in nodes[index].operands)
            return plan.group.rows if inner or index == last else nodes[index].height

        def compute(index: int, end: int) -> None:
            node = nodes[index]
            while done[index] < end:
                if index != last:
                    # Rows between windows, which nothing reads, are not computed.
                    done[index] = max(done[index], self._needed(done, node.out.name))
                count = end - done[index]
                if not (self._variant.long_start and done[index] == 0 and count < 2 * limit(index)):
                    count = min(count, limit(index))
                band = node.band(done[index], count)
                for position in node.operands[:: -1 if self._variant.backwards else 1]:
                    producer = plan.producer.get(node.node.inputs[position])
                    if producer is not None:
                        compute(producer, band.in_first + band.in_count)
                entries.append((index, band))
                done[index] += band.count

        compute(last, nodes[last].height)
        if plan.group.direction == "backward":
            entries.reverse()
        return entries

    def _calls(self, index: int) -> _StageCalls:
        """A stage's call for each of its bands."""
        bands = {band.key: band for stage, band in self._bands if stage == index}
        kernels = self._plan.group.kernels
        return self._streams.kernels(self._nodes[index], bands, kernels[index] if kernels else None)

    def _alias_allowed(self, last: _StageCalls) -> bool:
        """Whether the last node's kernel may write over the operand, element by element."""
        assert self._variant.alias is not None
        return all(
            self._streams.overlap(call, last.cuts[key], self._variant.alias).differences.allow(0)
            for key, call in last.calls.items()
        )

    def _needed(self, done: Sequence[int], name: str) -> int:
        """The first row of a tensor of the group that is needed still."""
        return min(self._nodes[r].first_needed(done[r]) for r in self._plan.readers[name])

    @cached_property
    def _turns(self) -> tuple[_Turn, ...]:
        """What each entry does to the buffers."""
        buffers = {name: _Buffer(nbytes) for name, nbytes in self._buffers.items()}
        number = {name: index for index, name in enumerate(buffers)}
        done = [0] * len(self._nodes)
        #: The first row of each buffer that is needed.
        needs = {name: self._needed(done, name) for name in buffers}
        touched: set[str] = set()
        turns = []
        for index, band in self._bands:
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
                _Turn(
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

    def _lay_out(self, stages: Sequence[_StageCalls]) -> _Arena:
        """The smallest arena that was found to do."""
        least, most = self._bounds
        step = max(_ALIGNMENT, _aligned(-(-(most - least) // _ARENAS)))
        rooms = self._rooms(stages)
        surely = max((turn.least for turn in self._turns), default=0)
        for nbytes in (*range(least, most, step), most):
            if nbytes >= surely and (arena := self._simulate(rooms, nbytes)) is not None:
                return arena
        raise AssertionError("a schedule needs more than all its rows take")

    def _rooms(self, stages: Sequence[_StageCalls]) -> list[_Room | None]:
        """What each entry asks of the place of the rows that it writes to a buffer."""
        number = {name: index for index, name in enumerate(self._buffers)}
        words = [nbytes % _WORD == 0 for nbytes in self._buffers.values()]
        staying = {turn.grown for turn in self._turns if turn.held}
        rooms: list[_Room | None] = []
        for (index, band), turn in zip(self._bands, self._turns, strict=True):
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
                    overlap = self._streams.overlap(call, cut, position)
                    low, high = overlap.differences.low, overlap.differences.high
                    if whole:
                        # All rows lie at words, which move together.
                        low, high = low // _WORD * _WORD, -(-high // _WORD) * _WORD
                    begin, _ = turn.reads[buffer]
                    operands.append(_Operand(place[buffer], begin, low, high, overlap))
            stays = turn.grown in staying
            # What is computed earlier lies behind.
            behind = [place[b] for b in turn.full if stays and b in staying and b < turn.grown]
            room = _Room(
                turn.sizes,
                turn.kept,
                place.get(turn.grown),
                turn.added,
                tuple(operands),
                stays,
                tuple(behind),
            )
            rooms.append(self._streams.room(room))
        return rooms

    def _simulate(self, rooms: Sequence[_Room | None], nbytes: int) -> _Arena | None:
        """Goes through the schedule: where rows are in an arena of ``nbytes``, what has to move;
        None where it is too small."""
        now = [0] * len(self._buffers)
        #: By entry, where the buffers lie during it, what moves before it and where it writes.
        lying: list[list[int]] = []
        made: list[tuple[Sequence[Move], int]] = []
        for turn, room in zip(self._turns, rooms, strict=True):
            for buffer, dropped in turn.dropped:
                now[buffer] += dropped
            moves, place = _NO_MOVES, 0
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
        names = list(self._buffers)
        arena = _Arena(_Item(0, {}), [], {})
        for e, (turn, first, (moves, place)) in enumerate(
            zip(self._turns, lying, made, strict=True)
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
    def _buffers(self) -> dict[str, int]:
        """The tensors between the nodes, in the order in which they are computed, and the bytes of
        their rows."""
        outs = [n.out for n in self._nodes[:-1] if n.out.name != self._alias]
        return {out.name: out.nbytes // out.shape[1] for out in outs}

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Bytes that no arena can do without, and with which one is sure to do."""
        turns = self._turns
        least = max((max(turn.taken, turn.held + turn.added) for turn in turns), default=0)
        return least, max((turn.taken + turn.added for turn in turns), default=0)


class _Overlap:
    """How the output of a call may lie to one of its inputs, both in a group's arena."""

    def __init__(
        self, access: Access | None, position: int, inputs: Sequence[Tensor], out_bytes: int
    ) -> None:
        self._access = access
        self._position = position
        nbytes = inputs[position].nbytes
        self.differences = (
            apart(nbytes, out_bytes) if access is None else safe_differences(access, position, 0)
        )
        self._known: dict[int, bool] = {}

    def allows(self, difference: int) -> bool:
        """Whether ``offset(output) - offset(input)`` may be that: exact, gaps included."""
        if difference in self._known:
            return self._known[difference]
        allowed = self.differences.allow(difference)
        if not allowed and self._access is not None:
            last = self._access.last_read[self._position][max(0, difference) :]
            first = self._access.first_write[0][max(0, -difference) :]
            both = min(last.size, first.size)
            # Where C types forbid an overlap the differences do, whatever the order.
            allowed = self._access.input_types[self._position] == self._access.output_types[
                0
            ] and bool((first[:both] >= last[:both]).all())
        self._known[difference] = allowed
        return allowed


@dataclass(frozen=True)
class _Operand:
    """Rows of a buffer that a call reads, from byte ``begin`` of the buffer on.

    Its output may lie from ``high`` on or up to ``low`` from there; :attr:`overlap` knows exactly.
    """

    buffer: int
    begin: int
    low: int
    high: int
    overlap: _Overlap


_NO_MOVES: Sequence[Move] = ()

#: What moves, where buffers lie then, and where the new rows go.
_Made = tuple[Sequence[Move], tuple[int, ...], int]
#: Buffers in the order in which they lie.
_Lying = Sequence[int]


@dataclass(frozen=True)
class _Room:
    """Room for rows that an entry adds to a buffer, in an arena of any size.

    Buffers are known by their positions in ``sizes``, which are those that have rows, and what lies
    where is a list of their first bytes. What is the same is asked for again and again, from one
    entry to the next and in one group after the other, so that what was found is kept.
    """

    sizes: tuple[int, ...]
    #: By buffer, from which of its bytes on it is needed afterwards.
    kept: tuple[int, ...]
    #: The buffer that grows; None for one that has no rows yet.
    grown: int | None
    added: int
    operands: tuple[_Operand, ...]
    #: Buffers that stay are to lie in an order, so that the room which the first rows of a buffer
    #: leave is behind the one that is written next: whether this one does, and those behind it.
    stays: bool
    behind: tuple[int, ...]
    _known: dict[tuple[int, tuple[int, ...]], _Made | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def make(self, starts: tuple[int, ...], limit: int) -> _Made | None:
        """A place for the new rows below ``limit``; None if there is none."""
        key = limit, starts
        if key not in self._known:
            made = self._make(starts, limit, in_order=True)
            # Out of their order only where there is no other way: it takes moves ever after.
            if made is None and self.stays and self.grown is None:
                made = self._make(starts, limit, in_order=False)
            self._known[key] = made
        return self._known[key]

    def _make(self, starts: tuple[int, ...], limit: int, in_order: bool) -> _Made | None:
        place = self._place(starts, limit, in_order)
        if place is not None:
            return _NO_MOVES, starts, place
        order = sorted(range(len(starts)), key=starts.__getitem__)
        best: tuple[int, tuple[int, ...], int] | None = None
        for targets in self._arrangements(order, starts, limit):
            moved = 0
            tried = list(starts)
            for buffer, target in zip(order, targets, strict=True):
                tried[buffer] = target
                if target != starts[buffer]:
                    moved += self.sizes[buffer]
            inside = all(t + n <= limit for t, n in zip(tried, self.sizes, strict=True))
            if inside and (best is None or moved < best[0]):
                place = self._place(tried, limit, in_order)
                if place is not None:
                    best = moved, tuple(tried), place
        if best is None:
            return None
        return self._moves(order, starts, best[1]), best[1], best[2]

    def _arrangements(
        self, order: _Lying, starts: Sequence[int], limit: int
    ) -> Iterator[list[int]]:
        """Other places of the buffers, which keep their order."""
        now = [starts[buffer] for buffer in order]
        sizes = [self.sizes[buffer] for buffer in order]
        packed = [0, *accumulate(sizes)]
        positions = range(len(order) + 1)
        if self.grown is not None:
            own = order.index(self.grown)
            for operand in self.operands:
                # Just before what is read, to be able to grow over it.
                for touch in {0, min(0, operand.low)}:
                    targets = list(now)
                    targets[own] = starts[operand.buffer] + operand.begin + touch - sizes[own]
                    if _in_order(sizes, targets, limit):
                        yield targets
            positions = range(own + 1, own + 2)
        for split in positions:
            # What lies behind goes to the end, or no farther than it has to.
            yield packed[:split] + [limit - packed[-1] + start for start in packed[split:-1]]
            end = packed[split] + self.added
            up = list[int]()
            for start, nbytes in zip(now[split:], sizes[split:], strict=True):
                up.append(max(start, end))
                end = up[-1] + nbytes
            yield packed[:split] + up

    def _place(self, starts: Sequence[int], limit: int, in_order: bool) -> int | None:
        """Where the new rows have room as things lie."""
        needed = [
            (start + kept, start + nbytes)
            for start, kept, nbytes in zip(starts, self.kept, self.sizes, strict=True)
            if kept < nbytes
        ]
        if self.grown is None:
            places = self._places(starts, limit, in_order, needed)
        else:
            places = iter([starts[self.grown] + self.sizes[self.grown]])
        for place in places:
            end = place + self.added
            if (
                place >= 0
                and end <= limit
                and not any(place < stop and begin < end for begin, stop in needed)
                and all(o.overlap.allows(place - starts[o.buffer] - o.begin) for o in self.operands)
            ):
                return place
        return None

    def _places(
        self,
        starts: Sequence[int],
        limit: int,
        in_order: bool,
        needed: Sequence[tuple[int, int]],
    ) -> Iterator[int]:
        """Where rows may go of a buffer that has none, the better places first."""
        behind = [starts[b] + self.kept[b] for b in self.behind if self.kept[b] < self.sizes[b]]
        end = min(behind, default=limit)
        # Over what is read, if they may.
        over = list[int]()
        for operand in self.operands:
            start = starts[operand.buffer] + operand.begin
            over += start, start + operand.low, start + operand.high
        yield from (place for place in over if place + self.added <= end)
        if self.stays:
            # As far behind as they can, to leave room for those that come before them.
            yield end - self.added
            if in_order:
                return
        yield from over
        taken = sorted(needed)
        ends = [0, *(end for _, end in taken)]
        begins = [*(begin for begin, _ in taken), limit]
        # Where they fit most closely.
        gaps = sorted((begin - end, end) for end, begin in zip(ends, begins, strict=True))
        yield from (end for _, end in gaps)

    def _moves(self, order: _Lying, starts: Sequence[int], targets: Sequence[int]) -> list[Move]:
        """What takes buffers that lie in ``order`` to where they shall, in the same order."""
        moves = [
            Move(targets[b], starts[b], self.sizes[b]) for b in order if targets[b] != starts[b]
        ]
        # What moves towards the start from the first on, and then what moves towards the end.
        down = [move for move in moves if move.target < move.source]
        up = [move for move in reversed(moves) if move.target > move.source]
        return _joined(down) + _joined(up)


def _in_order(sizes: Sequence[int], starts: Sequence[int], limit: int) -> bool:
    ends = [0, *(start + nbytes for start, nbytes in zip(starts, sizes, strict=True))]
    return all(end <= start for end, start in zip(ends, [*starts, limit], strict=True))


def _joined(moves: Sequence[Move]) -> list[Move]:
    """Moves of what lies next to each other, as one."""
    joined: list[Move] = []
    for move in moves:
        last = joined[-1] if joined else None
        if last is not None and last.target - last.source == move.target - move.source:
            low, high = sorted((last, move), key=lambda m: m.target)
            if low.target + low.nbytes == high.target:
                joined[-1] = Move(low.target, low.source, low.nbytes + high.nbytes)
                continue
        joined.append(move)
    return joined


def _one_kernel(calls: Sequence[KernelCall]) -> bool:
    """Whether calls differ in nothing but numbers."""
    first = calls[0]
    return all(
        call.kernel is first.kernel
        and call.inputs == first.inputs
        and call.fields.keys() == first.fields.keys()
        and all(_alike(call.fields[name], value) for name, value in first.fields.items())
        for call in calls[1:]
    )


def _alike(a: Any, b: Any) -> bool:
    """Whether fields are of one kind; arrays have to be equal unless they are small."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and (max(a.nbytes, b.nbytes) <= _TABLE_BYTES or np.array_equal(a, b))
        )
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
    if isinstance(a, float) or isinstance(b, float):
        return repr(a) == repr(b)
    return True


def numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among a call's fields by their C names, those in short arrays one by one."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            found |= {f"{name}[{i}]": element for i, element in enumerate(value)}
        elif not isinstance(value, np.ndarray):
            found[name] = value
    return found


# Places -----------------------------------------------------------------------------------------


def _place(items: Sequence[_Item]) -> int:
    """Gives each item its offset; the bytes that all need together.

    Two items may share bytes that hold nothing of either whenever the other's do.
    """
    apart = _forbidden(items)
    bound = _most_at_once(items)
    orders = [
        sorted(range(len(items)), key=lambda i: (-items[i].nbytes, i)),
        sorted(range(len(items)), key=lambda i: (-len(items[i].live), -items[i].nbytes, i)),
        sorted(range(len(items)), key=lambda i: (-len(items[i].live) * items[i].nbytes, i)),
    ]
    # Fixed seed: the result is part of the output, which must not change from run to run.
    chance = random.Random(0)
    best: tuple[int, list[int]] | None = None
    known: set[tuple[int, ...]] = set()
    for turn in range(_PLACINGS):
        if turn < len(orders):
            order = orders[turn]
        else:
            order = list(orders[turn % len(orders)])
            for _ in range(1 + turn % 3):
                a, b = chance.randrange(len(order)), chance.randrange(len(order))
                order[a], order[b] = order[b], order[a]
        if tuple(order) in known:
            # Few items have few orders.
            continue
        known.add(tuple(order))
        offsets = _first_fit(items, order, apart)
        end = max((o + i.nbytes for o, i in zip(offsets, items, strict=True)), default=0)
        if best is None or end < best[0]:
            best = end, offsets
        if end <= bound or len(items) < 2:
            break
    assert best is not None
    for item, offset in zip(items, best[1], strict=True):
        item.offset = offset
    return _aligned(best[0])


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _most_at_once(items: Sequence[_Item]) -> int:
    used: dict[int, int] = {}
    for item in items:
        for entry, ranges in item.live.items():
            # Within an item they may overlap.
            size = sum(end - begin for begin, end in _union(ranges))
            used[entry] = used.get(entry, 0) + size
    return max([*used.values(), *(item.nbytes for item in items)], default=0)


def _forbidden(items: Sequence[_Item]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """For items ``a`` and ``b`` the open intervals in which offset(b) - offset(a) must not lie."""
    found = {}
    for a, first in enumerate(items):
        for b in range(a + 1, len(items)):
            second = items[b]
            met = {(first.live[e], second.live[e]) for e in first.live.keys() & second.live.keys()}
            ranges = {(*one, *other) for pair in met for one in pair[0] for other in pair[1]}
            intervals = _union(
                (begin - other_end, end - other_begin)
                for begin, end, other_begin, other_end in ranges
            )
            found[a, b] = intervals
            found[b, a] = [(-high, -low) for low, high in intervals]
    return found


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Open intervals that overlap, as one."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if merged and low < merged[-1][1]:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _first_fit(
    items: Sequence[_Item],
    order: Sequence[int],
    apart: Mapping[tuple[int, int], Sequence[tuple[int, int]]],
) -> list[int]:
    offsets = [-1] * len(items)
    placed: list[int] = []
    for index in order:
        taken = sorted(
            (offsets[other] + low, offsets[other] + high)
            for other in placed
            for low, high in apart[other, index]
        )
        offset = 0
        for low, high in taken:
            if low < offset < high:
                offset = _aligned(high)
        offsets[index] = offset
        placed.append(index)
    return offsets


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


__all__ = [
    "Entry",
    "Move",
    "NotStreamable",
    "Stage",
    "StreamCall",
    "Streams",
    "Where",
    "constant_arrays",
    "numbers",
    "stream",
]
