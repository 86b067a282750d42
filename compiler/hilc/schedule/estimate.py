"""Estimates of a segment: its cost, its memory lower bound, its flash.

A *segment* is a single layer with one of its kernels, or a fused group. The estimates need no plan,
so they are known for every segment before any program is created.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import median

from hilc.external import ExternalCall
from hilc.fusion.bounds import Estimate, Prices
from hilc.fusion.call import FusedCall
from hilc.ir import Array, Node
from hilc.lowering.bodies import BodySharing
from hilc.lowering.choice import CostEstimate, Group
from hilc.lowering.compressed import DECODER_BYTES, LAYER_BYTES, CompressedCall
from hilc.lowering.compressed import HEADER as DECODER
from hilc.lowering.kernels import Kernel, KernelCall
from hilc.memory.allocate import ALIGNMENT, Block, align, lower_bound
from hilc.memory.liveness import (
    CallerBuffers,
    Liveness,
    Value,
    may_overlap,
    reads_of,
    under_scratch,
)
from hilc.memory.plan import Planner, Program
from hilc.memory.program import BufferRef
from hilc.ops import OPS
from hilc.schedule.offsets import Offsets, Passage
from hilc.schedule.policy import POLICY, SearchPolicy
from hilc.schedule.tuning import Tuning
from hilc.target import Cpu

_Call = KernelCall | ExternalCall

_NO_PIN = (None, None)

#: More bytes than any program takes.
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Sketch:
    """Estimates of a segment before the layout of its rows."""

    #: Memory lower bound in bytes while it runs.
    memory_bound: int


@dataclass(frozen=True)
class Segment(Sketch):
    """Layers ``first`` to ``last`` computed by one call: of a kernel variant, or of a group."""

    #: Call of its kernel, or of each stage of the group; empty for external code.
    calls: tuple[KernelCall, ...]
    first: int
    last: int
    #: Cost estimate, in instructions.
    cost: int
    #: Parts in flash with their sizes (:meth:`Estimator.flash_bytes`), and the total size; code
    #: that other layers may share counts only in part.
    parts: Mapping[object, int]
    flash: float
    #: Name of the kernel variant of a single layer; empty for a group.
    kernel: str
    group: Group | None
    names: tuple[str, ...]
    #: Whether its output can have the same buffer as its first input, if that is not read later.
    in_place: bool
    #: By the id of a value that is not read later what its offset permits that of the output, and
    #: the id of that; empty where nothing is known.
    passages: Mapping[int, Passage] = field(default_factory=dict)
    output: int | None = None

    @property
    def decodes(self) -> bool:
        """Whether it decodes constants that are stored compressed."""
        return any(isinstance(call, CompressedCall) for call in self.calls)

    def after(self, value: int | None, offsets: Offsets | None, limit: int) -> Offsets | None:
        """Return the offsets of the output in ``limit`` bytes, none where there is no room, given
        those of ``value``; None for any.
        """
        if (passage := self.passages.get(value or 0)) is not None:
            return passage.after(offsets, limit)
        first = next(iter(self.passages.values()), None)
        return None if first is None else first.after(None, limit)

    def cost_at(self, flash_worth: float) -> float:
        """Return the cost in instructions, with a price of ``flash_worth`` instructions per byte of
        flash.
        """
        return self.cost + flash_worth * self.flash


@dataclass(frozen=True)
class _Memory:
    """Bounds of a segment's memory; see :class:`Segment`."""

    bound: int
    in_place: bool
    passages: Mapping[int, Passage]
    output: int | None


class Estimator:
    """Estimator of the segments of a graph's layers, which are numbered in their order.

    ``optimize`` is the goal of code generation, which determines the code that layers share;
    ``tuning`` has measured counts that replace estimates.
    """

    def __init__(
        self, planner: Planner, tuning: Tuning | None, optimize: str, policy: SearchPolicy
    ) -> None:
        self._lowering = planner.lowering
        #: Whether tensors and scratch are in one pool, where their offsets depend on each other.
        self._one_pool = planner.one_pool
        self._policy = policy
        self._optimize = optimize
        self._costs = _Costs(planner.lowering.cpu, tuning)
        self._liveness = liveness = Liveness(planner.lowering.graph, planner.io_in_pool)
        self.nodes: Sequence[Node] = liveness.computed
        self._calls = [self._lowering.calls(node) for node in self.nodes]
        self._costs.calibrate(self.nodes, self._calls)
        pairs = zip(self.nodes, self._calls, strict=True)
        liveness.set_reads([reads_of(node, calls[0]) for node, calls in pairs], planner.keep_inputs)
        liveness.set_pins(planner.pins)
        #: The buffers of the caller in which a plan may place each value of a pool, by its id.
        self._elsewhere = self._caller_buffers()
        held = [(v.tensor.nbytes, self._elsewhere.get(id(v), ())) for v in liveness.pooled]
        #: The number of these buffers by their size, which is that of each value in them.
        self._buffers = Counter(
            size for size, _ in {(size, b) for size, refs in held for b in refs}
        )
        self._known_sizes: dict[tuple[int, int], tuple[int, int, int]] = {}
        #: By the identity of a call, which is stored too to keep it alive.
        self._known_arrays: dict[int, tuple[KernelCall, dict[object, int]]] = {}
        #: Hashes of arrays, by their identity.
        self._digests: dict[int, tuple[Array, bytes]] = {}
        #: The node that was the first to have an array.
        self._owners: dict[object, str] = {}
        self._prices: dict[float, Prices] = {}
        #: Bytes of a call's arrays, by its identity; the arrays keep it alive.
        self._known_bytes: dict[int, int] = {}
        kernel_calls = [c for own in self._calls for c in own if isinstance(c, KernelCall)]
        self._bodies = BodySharing(
            (call for call in kernel_calls if not isinstance(call, CompressedCall)),
            optimize,
            planner.lowering.cpu,
        )
        #: Number of layers that may share each body, and each kernel's functions.
        self._sharers = Counter[object](self._bodies.sharers)
        self._sharers.update(name for calls in self._calls for name in _shared_functions(calls))

    def singles(self, step: int) -> list[Segment]:
        """Return the segments of one layer, one for each kernel that is not dominated."""
        node, calls = self.nodes[step], self._calls[step]
        reads = reads_of(node, calls[0])
        segments: list[Segment] = []
        for call in calls:
            used = (call,) if isinstance(call, KernelCall) else ()
            memory = self._memory(step, step, call, reads, node.outputs)
            memory_bound = memory.bound
            if OPS[node.op].fed:
                # Only a group takes in rows that are fed.
                memory_bound = UNLIMITED
            body, shared = None, False
            if isinstance(call, KernelCall):
                body, shared = self._bodies.key(call), self._bodies.reads_numbers(call)
            parts = self._parts(call, body)
            segment = Segment(
                memory_bound=memory_bound,
                calls=used,
                first=step,
                last=step,
                cost=self._costs.of(node, call, shared=shared),
                parts=parts,
                flash=sum(size / self._sharers.get(key, 1) for key, size in parts.items()),
                kernel=call.variant,
                group=None,
                names=(node.name,),
                in_place=memory.in_place,
                passages=memory.passages,
                output=memory.output,
            )
            # Dominated: neither cheaper, nor with less memory, nor smaller.
            if not any(
                s.cost <= segment.cost
                and s.memory_bound <= segment.memory_bound
                and s.flash <= segment.flash
                and s.in_place >= segment.in_place
                for s in segments
            ):
                segments.append(segment)
        return segments

    def fused(self, group: Group, call: FusedCall, first: int, last: int) -> Segment:
        """Return the segment of a fused group that ``call`` computes."""
        stages = tuple(stage.call for stage in call.stages)
        parts = {key: size for stage in stages for key, size in self._arrays(stage).items()}
        parts.update((id(stage), self._band_bytes(stage.kernel)) for stage in stages)
        parts[group] = self._policy.group_entry_bytes * call.count
        memory = self._memory(first, last, call, call.inputs, call.outputs)
        return Segment(
            memory_bound=memory.bound,
            calls=stages,
            first=first,
            last=last,
            cost=self._costs.of_group(call),
            parts=parts,
            flash=sum(parts.values()),
            kernel="",
            group=group,
            names=group.nodes,
            in_place=memory.in_place,
            passages=memory.passages,
            output=memory.output,
        )

    @property
    def bounds_groups(self) -> bool:
        """Whether no group costs less than its entries as estimated."""
        return self._costs.estimates_groups

    def prices(self, flash_worth: float) -> Prices:
        """Return the prices of a group's flash, in instructions per byte."""
        if flash_worth not in self._prices:
            self._prices[flash_worth] = Prices(
                self._own_bytes, flash_worth, flash_worth * self._policy.group_entry_bytes
            )
        return self._prices[flash_worth]

    def _own_bytes(self, name: str, call: KernelCall) -> int:
        """Return the flash of a stage that computes this node, without arrays of other nodes."""
        if id(call) not in self._known_bytes:
            arrays = self._arrays(call).items()
            own = sum([size for key, size in arrays if self._owners.setdefault(key, name) == name])
            self._known_bytes[id(call)] = own + self._band_bytes(call.kernel)
        return self._known_bytes[id(call)]

    def _arrays(self, call: KernelCall) -> dict[object, int]:
        """Return the arrays of a stage's call with their sizes in bytes."""
        if id(call) not in self._known_arrays:
            # Only the chosen calls need their compressed stream.
            found: dict[object, int] = {}
            if isinstance(call, CompressedCall):
                found[call.stream_digest] = align(call.compressed_bytes[1])
            found |= {self._digest(a): align(a.nbytes) for a in call.arrays.values()}
            self._known_arrays[id(call)] = call, found | _shared_functions((call,))
        return self._known_arrays[id(call)][1]

    def _digest(self, array: Array) -> bytes:
        """Return a hash of an array, which calls for bands of a layer share."""
        if id(array) not in self._digests:
            # Stored with the array to keep its identity, the key, valid.
            self._digests[id(array)] = array, hashlib.blake2b(array.tobytes()).digest()
        return self._digests[id(array)][1]

    def _parts(
        self, call: KernelCall | ExternalCall, body: tuple[str, ...] | None
    ) -> dict[object, int]:
        """Return the arrays and the code of ``call`` with their sizes in bytes; equal keys are
        stored once per program. ``body`` is the key of a body that layers share.
        """
        if isinstance(call, ExternalCall):
            return {call.module.symbol: call.module.flash_bytes}
        own = call.kernel.code - call.kernel.shared_code
        parts = {**self._arrays(call), id(call) if body is None else body: own}
        if isinstance(call, CompressedCall):
            parts |= {DECODER: DECODER_BYTES, (DECODER, id(call)): LAYER_BYTES}
        return parts

    # -- memory ---------------------------------------------------------------------------------

    def _caller_buffers(self) -> Mapping[int, Set[BufferRef]]:
        """Return, by its id, the buffers outside of the pools in which a plan may place a value of
        a pool: those of outputs that some call writes in its place.

        A group is taken to do that where its layers run by rows, so what it needs is not known.
        """
        buffers = CallerBuffers(self._liveness)
        ending: dict[int, list[Value]] = {}
        for value in self._liveness.pooled:
            if value.first < value.last:
                ending.setdefault(value.last, []).append(value)
        found: dict[int, Set[BufferRef]] = {}
        #: By the buffer, an output in it of a later layer that one group may compute from here.
        later: dict[BufferRef, Value] = {}
        for step in reversed(range(len(self.nodes))):
            written = {
                ref: output
                for output in (self._liveness.by_name[n] for n in self.nodes[step].outputs)
                for ref in (found.get(id(output), ()) if output.buffer is None else [output.buffer])
            }
            for value in ending.get(step, ()):
                held = {
                    ref
                    for ref, output in written.items()
                    if buffers.have_room(ref, value, output)
                    and self._may_overwrite(step, output, value)
                }
                if self._runs_by_rows(step):
                    held |= {
                        ref for ref, out in later.items() if buffers.have_room(ref, value, out)
                    }
                if held:
                    found[id(value)] = held
            later = {**later, **written} if self._runs_by_rows(step) else written
        return found

    def _in_pools(self, values: Sequence[Value], beside: Sequence[Value] = ()) -> list[Value]:
        """Return those of ``values``, which are live at once, that have to be in pools: the others
        and ``beside`` may lie in buffers of the caller, one in each.
        """
        if not self._elsewhere:
            return [*values]
        left = self._buffers - Counter(v.tensor.nbytes for v in beside)
        found: list[Value] = []
        for value in values:
            if id(value) in self._elsewhere and left[value.tensor.nbytes] > 0:
                left[value.tensor.nbytes] -= 1
            else:
                found.append(value)
        return found

    def _may_overwrite(self, step: int, output: Value, value: Value) -> bool:
        """Return whether a kernel of the layer ``step``, or a group that ends with it, may write
        ``output`` in place of ``value``, which this layer reads last.
        """
        # The last of several layers need not run by rows.
        return (
            self._runs_by_rows(step)
            or (value.first < step - 1 and self._runs_by_rows(step - 1))
            or self._in_place(step, output, value)
        )

    def _runs_by_rows(self, step: int) -> bool:
        return self._lowering.runs_by_rows(self.nodes[step].name)

    def _in_place(self, step: int, output: Value, value: Value) -> bool:
        """Return whether a kernel of a layer can write ``output`` in place of ``value``, which the
        layer reads last.
        """
        writes = self.nodes[step].outputs
        for call in self._calls[step]:
            reads = reads_of(self.nodes[step], call)
            dying = {name: v for name, v in self._liveness.dying(step, reads).items() if v is value}
            written = {n: output for n in writes if self._liveness.by_name[n] is output}
            pairs = may_overlap(self._lowering, call, reads, writes, dying, written)
            if any(forbidden.allow(0) for _, _, forbidden in pairs):
                return True
        return False

    def least_memory_bound(self, first: int, last: int) -> int:
        """Return a lower bound of the memory, in bytes, of any group of these layers."""
        around, ending, starting = self._sizes(first, last)
        return around + max(ending, starting)

    def bytes_after(self, step: int) -> int:
        """Return the size of the tensors that are live after a layer, in bytes."""
        around, _, starting = self._sizes(step, step)
        return around + starting

    def group_memory_bound(self, first: int, last: int, outlines: Sequence[Estimate]) -> int:
        """Return the lower bound of memory for a group with one of these outlines, in bytes."""
        around, ending, starting = self._sizes(first, last)
        # The padding after the last of several blocks is not counted.
        scratch = min(outline.scratch_bytes for outline in outlines) - ALIGNMENT + 1
        # Inputs that are needed afterwards are around it, and others may not be in a pool.
        live = min(o.live_bytes - (o.outside_bytes - ending - starting) for o in outlines)
        return around + max(ending, starting, scratch, live)

    def group_rooms(self, first: int, last: int, limit: int) -> tuple[int, int]:
        """Return the most scratch, and the most live bytes without those outside, of an outline
        with which a group of these layers keeps the limit of memory.
        """
        around, ending, starting = self._sizes(first, last)
        room = limit - around
        return room + ALIGNMENT - 1, room - starting - ending

    def _sizes(self, first: int, last: int) -> tuple[int, int, int]:
        """Return the sizes of :class:`Neighbours`, as far as they have to be in pools."""
        if (first, last) not in self._known_sizes:
            alive = self._liveness.neighbours(first, last)
            around = self._in_pools(alive.around)
            beside = [v for v in alive.around if v not in around]
            ending, starting = (
                sum(v.tensor.nbytes for v in self._in_pools(values, beside))
                for values in (alive.ending, alive.starting)
            )
            sizes = sum(align(v.tensor.nbytes) for v in around), ending, starting
            self._known_sizes[first, last] = sizes
        return self._known_sizes[first, last]

    def _memory(
        self,
        first: int,
        last: int,
        call: KernelCall | ExternalCall | FusedCall,
        reads: Sequence[str],
        writes: Sequence[str],
    ) -> _Memory:
        """Return the bounds of a segment's memory without a plan."""
        alive = self._liveness.neighbours(first, last)
        by_name, elsewhere = self._liveness.by_name, self._elsewhere
        ids = set(map(id, alive.ending))
        dying = {n: by_name[n] for n in reads if n in by_name and id(by_name[n]) in ids}
        pairs = may_overlap(
            self._lowering, call, reads, writes, dying, {n: by_name[n] for n in writes}
        )
        # What this call writes over in a buffer of the caller takes no bytes of a pool.
        over = {
            id(operand)
            for operand, output, forbidden in pairs
            if id(operand) in elsewhere
            and (output.buffer is not None or id(output) in elsewhere)
            and forbidden.allow(0)
        }
        around = self._in_pools(alive.around)
        beside = [v for v in alive.around if v not in around]
        overwritten = self._in_pools([v for v in alive.ending if id(v) in over], beside)
        ending = [v for v in alive.ending if id(v) not in over or v in overwritten]
        starting = self._in_pools(alive.starting, beside)
        # As in a plan of this step, with the steps before and after it.
        blocks = [Block(v.tensor.nbytes, 0, 2, *v.pin) for v in around]
        blocks += [Block(v.tensor.nbytes, 0, 1, *v.pin) for v in ending]
        blocks += [Block(v.tensor.nbytes, 1, 2, *v.pin) for v in starting]
        blocks += [Block(call.scratch_bytes, 1, 1)] if call.scratch_bytes else []
        values = (*around, *ending, *starting)
        index = {id(value): position for position, value in enumerate(values)}
        overlaps = {
            (index[id(operand)], index[id(output)]): forbidden
            for operand, output, forbidden in pairs
            if id(operand) in index and id(output) in index
        }
        in_place = (
            len(ending) < len(alive.ending)
            or not ending
            or any(forbidden.allow(0) for forbidden in overlaps.values())
        )
        if call.scratch_bytes:
            overlaps |= {
                (index[id(value)], len(values)): forbidden
                for value, forbidden in under_scratch(self._lowering, call, reads, dying, starting)
                if id(value) in index
            }
        passages: dict[int, Passage] = {}
        output = id(starting[0]) if len(starting) == 1 else None
        if output is not None and self._one_pool and not any(v.pin != _NO_PIN for v in values):
            output_bytes, place = starting[0].tensor.nbytes, index[output]
            for value in ending:
                own = index[id(value)]
                passages[id(value)] = Passage(
                    value.tensor.nbytes,
                    output_bytes,
                    call.scratch_bytes,
                    overlaps.get((own, place)),
                    overlaps.get((own, len(values))),
                    overlaps.get((place, len(values))),
                )
        return _Memory(lower_bound(blocks, overlaps), in_place, passages, output)

    # -- flash ----------------------------------------------------------------------------------

    def _band_bytes(self, kernel: Kernel) -> int:
        """Return the code of a kernel for bands of several heights."""
        if kernel.band_code is not None:
            return kernel.band_code - kernel.shared_code
        return round(self._policy.band_code * (kernel.code - kernel.shared_code))

    def flash_bytes(self, segments: Sequence[Segment]) -> int:
        """Return the flash of a program of these segments, in bytes."""
        parts: dict[object, int] = {}
        for segment in segments:
            parts.update(segment.parts)
        layers = sum(segment.last - segment.first + 1 for segment in segments)
        return self._policy.model_bytes + self._policy.layer_bytes * layers + sum(parts.values())


def as_called(cost: CostEstimate, program: Program, policy: SearchPolicy = POLICY) -> CostEstimate:
    """Return the cost estimate of a program that a layer of another one calls, given that of the
    program on its own: the firmware does not describe its layers.
    """
    layers = sum(
        len(step.call.nodes) if isinstance(step.call, FusedCall) else 1 for step in program.steps
    )
    saved = (policy.layer_bytes - policy.called_layer_bytes) * layers
    return replace(cost, flash_bytes=cost.flash_bytes - saved)


def _shared_functions(calls: Sequence[KernelCall | ExternalCall]) -> dict[str, int]:
    """Return the bytes of the functions that layers share, by their name."""
    return {
        name: size
        for call in calls
        if isinstance(call, KernelCall)
        for name, size in call.kernel.shared.items()
        if size
    }


def _instructions(call: KernelCall | ExternalCall, cpu: Cpu, *, shared: bool = False) -> int:
    """Return the cost estimate of a layer in instructions, in code that layers of other numbers
    share or in code of its own.
    """
    if isinstance(call, ExternalCall):
        return call.module.instructions
    return call.instructions(cpu, shared=shared)


class _Costs:
    """Cost of layers in instructions: measured counts where available, estimates elsewhere.

    Where a log counts cycles, estimates are scaled to them.
    """

    def __init__(self, cpu: Cpu, tuning: Tuning | None) -> None:
        self._cpu = cpu
        self._measured = tuning.counts if tuning is not None else {}
        self._groups = tuning.groups if tuning is not None else {}
        self._is_scaled = tuning is not None and tuning.counter == "cycles"
        self._scale = 1.0

    def calibrate(self, nodes: Sequence[Node], calls: Sequence[Sequence[_Call]]) -> None:
        """Find out how many of the log's units an estimated instruction is."""
        if not self._is_scaled:
            return
        ratios = [
            count / max(1, _instructions(call, self._cpu))
            for node, own in zip(nodes, calls, strict=True)
            for call in own
            if (count := self._count(node, call)) is not None
        ]
        self._scale = median(ratios) if ratios else 1.0

    @property
    def estimates_groups(self) -> bool:
        """Whether the cost of every group is the estimate, in instructions."""
        return not self._groups and not self._is_scaled

    def of(self, node: Node, call: _Call, *, shared: bool = False) -> int:
        """Return the cost of a layer in code that layers of other numbers share, or of its own."""
        measured = self._count(node, call)
        if measured is not None:
            return measured
        return self._scaled(_instructions(call, self._cpu, shared=shared))

    def of_group(self, call: FusedCall) -> int:
        measured = self._groups.get(call.group)
        return self._scaled(call.cost(self._cpu)) if measured is None else measured

    def _count(self, node: Node, call: _Call) -> int | None:
        """Return the count of a layer's variant in the log; None if it was not measured."""
        return self._measured.get(node.name, {}).get(call.variant)

    def _scaled(self, instructions: int) -> int:
        return round(self._scale * instructions)


def segment_cost(segment: Segment) -> int:
    """Return the cost estimate, as a sort key."""
    return segment.cost
