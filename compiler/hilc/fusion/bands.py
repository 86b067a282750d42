"""Nodes of a fused group divided into row bands, and the input rows that each band needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from hilc.fusion.slices import StageNode
from hilc.ir import Graph, Node, Tensor
from hilc.lowering.choice import Group
from hilc.ops import OPS
from hilc.ops.attributes import WindowAttributes
from hilc.ops.operands import ARITHMETIC
from hilc.ops.traits import BroadcastRows, RowRange, SameRows, SampledRows, WindowRows


class NotFusible(ValueError):
    """The nodes cannot be fused, or not in this variant; the message says why."""


@dataclass(frozen=True)
class Band:
    """Rows of one call of a stage: output rows, input rows, and padding rows."""

    first: int
    count: int
    in_first: int
    in_count: int
    above: int
    below: int
    #: For resampled rows: position of the first output row relative to its input rows.
    place: int = 0

    @cached_property
    def key(self) -> tuple[int, ...]:
        """Equal for bands of one shape."""
        return self.count, self.in_count, self.above, self.below, self.place


@dataclass(frozen=True)
class BandNode:
    """A node with its tensors, reduced to a band."""

    node: Node
    ins: tuple[Tensor | None, ...]
    outs: tuple[Tensor, ...]


@dataclass(frozen=True)
class RowNode:
    """A node of a group, described along the height of its image."""

    node: Node
    ins: tuple[Tensor | None, ...]
    out: Tensor
    #: Positions of the inputs that are divided into rows.
    operands: tuple[int, ...]
    in_h: int
    #: Number of rows to compute: rows of the output, or of the input if the node accumulates.
    height: int
    stride: int = 1
    span: int = 1
    above: int = 0
    sides: tuple[int, int] = (0, 0)
    accumulates: bool = False
    #: The first and the last input row of each output row, where they follow no window.
    places: tuple[tuple[int, int], ...] = ()
    #: Period of the positions: output rows, and input rows; zeros without a period.
    period: tuple[int, int] = (0, 0)
    _bands: dict[tuple[int, int], Band] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def key(self) -> object:
        """Equal for nodes that are divided into the same bands, with rows of as many bytes."""
        window = self.stride, self.span, self.above, self.sides
        rows = self.in_h, self.height, window, self.accumulates, self.places, self.period
        return self.operands, rows, self.out.nbytes, self.out.shape, OPS[self.node.op].fed

    def band(self, first: int, count: int) -> Band:
        """Return the band of ``count`` output rows from ``first``, computed once."""
        if (first, count) not in self._bands:
            self._bands[first, count] = self._band(first, count)
        return self._bands[first, count]

    def _band(self, first: int, count: int) -> Band:
        if self.accumulates:
            # There is no padding beyond, but it is the first or the last band all the same.
            end = first + count
            return Band(first, count, first, count, int(first == 0), int(end == self.height))
        if self.places:
            before, last = self.places[first][0], self.places[first + count - 1][1]
            every, step = self.period
            place = first * step - before * every if every else first
            return Band(first, count, before, last + 1 - before, 0, 0, place)
        start = first * self.stride - self.above
        end = start + (count - 1) * self.stride + self.span
        in_first, in_end = max(0, start), min(self.in_h, end)
        if in_first >= in_end:
            raise NotFusible(f"{self.node.name!r} has windows that read padding only")
        return Band(
            first, count, in_first, in_end - in_first, max(0, -start), max(0, end - self.in_h)
        )

    def rows_read(self, rows: Collection[int]) -> set[int]:
        """Return the input rows that these output rows are made of."""
        bands = (self.band(row, 1) for row in rows)
        return {row for b in bands for row in range(b.in_first, b.in_first + b.in_count)}

    def first_needed(self, first: int) -> int:
        """Return the first input row that output rows from ``first`` on need."""
        if self.places:
            return self.places[first][0] if first < self.height else self.in_h
        # Called for every entry of a schedule, so function calls are avoided.
        row = first * self.stride - self.above
        if first >= self.height or row > self.in_h:
            return self.in_h
        return row if row > 0 else 0

    def input_step(self, count: int) -> int | None:
        """Return the input rows that the band advances for ``count`` output rows; None if that
        depends on their position.
        """
        if not self.places:
            return count * self.stride
        every, step = self.period
        return None if every == 0 or count % every else count // every * step

    def repetitions(self, first: int, end: int, count: int) -> int:
        """Return the number of following bands of ``count`` rows whose input rows have the same
        relative position as those of ``first`` to ``end``; 0 or less at the image's border.
        """
        if self.places:
            begin, behind = self._regular
            return (behind - 1 - end) // count if first >= begin else 0
        if first * self.stride < self.above:
            return 0
        # Until the rows end, or their windows reach the end of the image.
        reach = end * self.stride - self.above + max(0, self.span - self.stride)
        rows, in_rows = self.height - 1 - end, self.in_h - reach
        return min(rows // count, in_rows // (count * self.stride))

    @cached_property
    def _regular(self) -> tuple[int, int]:
        """The longest run of rows with periodic positions: its first row, and the row after its
        last.
        """
        every, step = self.period
        begin, best = 0, (0, 0)
        for row in range(self.height):
            if row >= every:
                before, own = self.places[row - every], self.places[row]
                if own != (before[0] + step, before[1] + step):
                    begin = row - every + 1
            best = max(best, (begin, row + 1), key=lambda run: run[1] - run[0])
        return best

    def reduced(self, band: Band) -> BandNode:
        """Return the node with its tensors and padding reduced to the rows of ``band``."""
        ins = list(self.ins)
        for position in self.operands:
            tensor = ins[position]
            assert tensor is not None
            ins[position] = _rows(tensor, band.in_count)
        node = self.node
        if isinstance(OPS[node.op].rows, WindowRows) and not self.accumulates:
            padding = (band.above, band.below, *self.sides)
            node = replace(node, attrs=replace(WindowAttributes.of(node), padding=padding))
        elif isinstance(rows := OPS[node.op].rows, SampledRows):
            node = rows.part(node, self.ins, RowRange(band.first, band.count, band.in_first))
        out = self.out if self.accumulates else _rows(self.out, band.count)
        return BandNode(node, tuple(ins), (out,))


def _rows(tensor: Tensor, count: int) -> Tensor:
    return replace(tensor, shape=(1, count, *tensor.shape[2:]))


def is_image(tensor: Tensor) -> bool:
    """Return whether a tensor is an image of batch 1, which a group computes by rows."""
    return len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.dtype in ARITHMETIC


@dataclass(frozen=True)
class Variant:
    """One way to run a group."""

    #: Demand operands from the last to the first.
    backwards: bool
    #: Let the first call of a stage compute more rows instead of making two calls: later stages
    #: need rows below them.
    long_start: bool
    #: Operand of the last node whose rows share the output's buffer; None for none.
    alias: int | None


class RowNodes:
    """Nodes of a graph, described along the height of their images; cached."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...], bool], RowNode | str] = {}

    def of(self, graph: Graph, node: Node, *, accumulates: bool) -> RowNode:
        """Return the description of ``node``; raise :class:`NotFusible` if there is none.

        The last of several nodes ``accumulates`` where it averages its whole image.
        """
        # A layer that puts slices together has the name of the one that it stands for.
        key = node.name, node.inputs, accumulates
        if key not in self._known:
            try:
                self._known[key] = _row_node(graph, node, accumulates=accumulates)
            except NotFusible as error:
                self._known[key] = str(error)
        found = self._known[key]
        if isinstance(found, str):
            raise NotFusible(found)
        return found


def row_shares(graph: Graph, row_nodes: RowNodes) -> Mapping[str, float]:
    """Return, by the name of its node, the part of an image's rows that the results depend on, for
    images of which that is not all: a stride or the end of a window's steps leaves rows out.
    """
    height = {name: t.shape[1] for name, t in graph.tensors.items() if is_image(t)}
    #: Rows that are read, by tensor.
    needed: dict[str, set[int]] = {n: set(range(height[n])) for n in graph.results if n in height}
    for node in reversed(graph.nodes):
        try:
            found = row_nodes.of(graph, node, accumulates=False)
            rows = needed.get(found.out.name, set())
            read = found.rows_read(rows)
            operands: tuple[int, ...] = found.operands
        except NotFusible:
            read, operands = set(), ()
        for position, name in enumerate(node.inputs):
            if name in height:
                own = read if position in operands else range(height[name])
                needed.setdefault(name, set()).update(own)
    shares = {
        n.name: len(needed.get(n.name, ())) / height[n.name]
        for n in graph.nodes
        if n.name in height
    }
    return {name: share for name, share in shares.items() if share < 1}


class Geometry:
    """Nodes of a group and their connections, independent of the schedule."""

    def __init__(
        self,
        graph: Graph,
        group: Group,
        layers: Sequence[Node],
        stages: Sequence[StageNode],
        consumers: Mapping[str, Sequence[Node]],
        row_nodes: RowNodes,
    ) -> None:
        if group.rows < 1:
            raise NotFusible(f"a fused group of {group.rows} rows at a time")
        if group.sliced < 0:
            raise NotFusible(f"slices of {group.sliced} channels")
        self.graph = graph
        self.group = group
        #: The group's layers, and the nodes that compute them.
        self.layers = tuple(layers)
        self.stages = stages
        nodes = [stage.node for stage in stages]
        if group.direction == "backward" and len(nodes) > 1:
            raise NotFusible("a fused group of several nodes cannot run backward")
        self.nodes = [
            row_nodes.of(graph, node, accumulates=node is nodes[-1] and len(nodes) > 1)
            for node in nodes
        ]
        #: Stage that computes a tensor, by name.
        self.producer = {n.out.name: i for i, n in enumerate(self.nodes)}
        inside = set(group.nodes)
        updates = {state.after: state.name for state in graph.states}
        for name in group.nodes:
            if name in updates:
                # It may be written over the old value, which no group has been asked about.
                raise NotFusible(f"{name!r} is the new value of the state {updates[name]!r}")
        for name in group.nodes[:-1]:
            if name in graph.results or any(n.name not in inside for n in consumers.get(name, ())):
                raise NotFusible(f"{name!r} is read outside of the fused group")
        #: Stages that read a tensor of the group.
        self.readers: dict[str, list[int]] = {node.name: [] for node in nodes}
        #: Stages that read an input of the group.
        self.input_readers: dict[str, list[int]] = {}
        for index, n in enumerate(self.nodes):
            for position in n.operands:
                name = n.node.inputs[position]
                if OPS[n.node.op].fed:
                    continue
                if name not in self.producer:
                    self.input_readers.setdefault(name, []).append(index)
                elif index not in self.readers[name]:
                    self.readers[name].append(index)
        self.inputs = tuple(self.input_readers)
        for node in nodes[:-1]:
            if not self.readers[node.name]:
                raise NotFusible(f"no node of the fused group reads {node.name!r}")

    @cached_property
    def key(self) -> object:
        """Equal for groups of the same shape, which have the same schedules."""
        sources = {name: -1 - index for index, name in enumerate(self.inputs)} | self.producer
        nodes = [
            (node.key, stage.again, tuple([sources.get(name) for name in node.node.inputs]))
            for node, stage in zip(self.nodes, self.stages, strict=True)
        ]
        tensors = [self.graph.tensors[name] for name in self.inputs]
        sizes = [(tensor.nbytes, tensor.shape[1]) for tensor in tensors]
        return self.group.rows, self.group.direction, tuple(nodes), tuple(sizes)

    def needing(self, stages: Sequence[int]) -> list[tuple[int, RowNode]]:
        """Return the stages whose progress says which rows are still needed of a tensor that these
        stages read: for one that computes rows again that which reads them, row by row.
        """
        needing = [
            self.readers[self.nodes[i].out.name][0] if self.stages[i].again else i for i in stages
        ]
        return [(stage, self.nodes[stage]) for stage in needing]

    def kernels(self, kernels: Sequence[str]) -> list[str | None]:
        """Return the kernel variants of the stages, by those of the layers; None for the cheapest
        by estimate.
        """
        return [
            None if stage.joins or not kernels else kernels[stage.layer] or None
            for stage in self.stages
        ]

    def variants(self) -> Iterator[Variant]:
        """Yield the variants in which the group can run."""
        last = self.nodes[-1]
        # Elsewhere there is one order of demand.
        binary = any(
            len({name for p in n.operands if (name := n.node.inputs[p]) in self.producer}) > 1
            for n in self.nodes
        )
        aliases: list[int | None] = [None]
        if isinstance(OPS[last.node.op].rows, SameRows | BroadcastRows):
            aliases += [p for p in last.operands if self._may_lie_in_output(p)]
        several = len(self.nodes) > 1 and self.group.rows > 1
        for choice in product(
            (False, True) if binary else (False,), (True, False) if several else (False,), aliases
        ):
            yield Variant(*choice)

    def _may_lie_in_output(self, position: int) -> bool:
        last = self.nodes[-1]
        name, tensor = last.node.inputs[position], last.ins[position]
        assert tensor is not None
        return (
            name in self.producer
            # The rows that are fed are put in the scratch.
            and not OPS[self.nodes[self.producer[name]].node.op].fed
            and self.readers[name] == [len(self.nodes) - 1]
            and last.node.inputs.count(name) == 1
            and (tensor.shape, tensor.dtype) == (last.out.shape, last.out.dtype)
        )


def _row_node(graph: Graph, node: Node, *, accumulates: bool) -> RowNode:
    """Return the row description of ``node``; raise :class:`NotFusible` unless it can be
    computed by rows.
    """
    ins, outs = graph.ins(node), graph.outs(node)
    if len(outs) != 1:
        raise NotFusible(f"{node.op} {node.name!r} has {len(outs)} outputs")
    (out,) = outs
    rows = OPS[node.op].rows
    if isinstance(rows, BroadcastRows) and is_image(out):
        return RowNode(node, ins, out, _binary_operands(node, ins, out), out.shape[1], out.shape[1])
    image = rows.image if isinstance(rows, SampledRows) else 0
    x = ins[image]
    if x is None or x.is_constant or not is_image(x):
        raise NotFusible(f"{node.op} {node.name!r} does not read images of batch 1")
    if accumulates and (height := _whole_height(node, ins)) is not None:
        return RowNode(node, ins, out, (0,), height, height, accumulates=True)
    if not is_image(out):
        raise NotFusible(f"{node.op} {node.name!r} does not write one image of batch 1")
    if isinstance(rows, SameRows):
        return RowNode(node, ins, out, (0,), x.shape[1], out.shape[1])
    if isinstance(rows, WindowRows):
        window = rows.window(node, ins)
        h, w = window.h, window.w
        return RowNode(
            node, ins, out, (0,), h.in_size, h.out_size, h.stride, h.span, h.pad_before,
            (w.pad_before, w.pad_after),
        )  # fmt: skip
    if isinstance(rows, SampledRows) and (places := tuple(rows.places(node, ins))):
        period = (0, 0) if rows.period is None else rows.period(node)
        height, in_h = out.shape[1], x.shape[1]
        return RowNode(node, ins, out, (image,), in_h, height, places=places, period=period)
    raise NotFusible(f"{node.op} {node.name!r} cannot be computed row by row")


def _binary_operands(node: Node, ins: Sequence[Tensor | None], out: Tensor) -> tuple[int, ...]:
    """Return the operands with the output's rows; the others are constants of one row."""
    positions = []
    for position, tensor in enumerate(ins):
        assert tensor is not None
        rows = tensor.shape[-3] if len(tensor.shape) >= 3 else 1
        if not tensor.is_constant:
            if not is_image(tensor) or rows != out.shape[1]:
                raise NotFusible(f"{node.op} {node.name!r} broadcasts the rows of an operand")
            positions.append(position)
        elif rows != 1:
            raise NotFusible(f"{node.op} {node.name!r} has a constant with several rows")
    return tuple(positions)


def _whole_height(node: Node, ins: Sequence[Tensor | None]) -> int | None:
    """Return the image height if ``node`` averages all of it; None otherwise."""
    whole_height = OPS[node.op].whole_height
    return None if whole_height is None else whole_height(node, ins)
