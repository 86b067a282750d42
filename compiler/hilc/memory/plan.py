"""Planner: select kernels for a graph's layers and allocate every tensor.

All activations share one pool, or several on a board with several kinds of memory. States have a
pool of their own, which survives runs. A tensor occupies its bytes from the step that writes it to
its last reader; views (such as reshape) share their input's buffer. A step may write its output
over an operand that it reads last, and a fused group its scratch, as far as each byte is read
before it is overwritten; that follows from the access order that calls declare
(:mod:`hilc.lowering.access`).

:func:`~hilc.memory.checker.check_plan` verifies each plan independently, by replay on a map of the
owner of each byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hilc.errors import InputError
from hilc.external import ExternalCall
from hilc.fusion.bands import NotFusible
from hilc.fusion.call import FusedCall
from hilc.fusion.candidates import Call, Lowering
from hilc.ir import Graph, Node
from hilc.lowering.access import ForbiddenInterval
from hilc.lowering.choice import DEFAULT_CHOICE, KernelSelection
from hilc.lowering.kernels import KernelCall
from hilc.memory.allocate import (
    ALIGNMENT,
    Block,
    Overlaps,
    align,
    allocate_pools,
    forbidden_between,
    live_blocks,
    lower_bound,
    step_bound,
)
from hilc.memory.checker import check_plan
from hilc.memory.copies import with_copies, with_state_copies
from hilc.memory.explanation import BEFORE
from hilc.memory.liveness import (
    CallerBuffers,
    Liveness,
    Value,
    may_overlap,
    reads_of,
    state_bytes,
    under_scratch,
)
from hilc.memory.pools import STATE_POOL, Pin, Pool, PoolSpec
from hilc.memory.program import BufferRef, PlanError, Program, Step
from hilc.target import Cpu
from hilc.transforms.feed import fed_node

__all__ = [
    "Pin",
    "BufferRef",
    "PlanError",
    "Planner",
    "PoolSpec",
    "Program",
    "Step",
    "check_plan",
    "plan",
]

NO_PINS: Mapping[str, Pin] = MappingProxyType({})


class Planner:
    """Planner of one graph on one core; lowers each layer once for all programs.

    With ``io_in_pool`` the model's inputs and outputs are part of the pools: the caller writes the
    inputs there, and an inference may overwrite them, unless ``keep_inputs`` is set; ``pins`` sets
    the offsets of some of them. Otherwise they are the caller's buffers, and an input is never
    written to.

    ``memory`` lists the pools, the preferred first. Without ``scratch_in_pool`` scratch is
    allocated at run time, by an allocator that serves the only pool too.
    """

    def __init__(
        self,
        graph: Graph,
        cpu: Cpu,
        *,
        io_in_pool: bool = False,
        keep_inputs: bool = False,
        pins: Mapping[str, Pin] = NO_PINS,
        memory: Sequence[PoolSpec] = (PoolSpec(),),
        scratch_in_pool: bool = True,
    ) -> None:
        self.io_in_pool = io_in_pool
        self.keep_inputs = keep_inputs
        self._scratch_in_pool = scratch_in_pool
        #: Pools; one without a limit by default.
        self._memory = tuple(memory) or (PoolSpec(),)
        #: Whether one pool has all tensors and scratch.
        self.one_pool = scratch_in_pool and len(self._memory) == 1
        _check_memory(self._memory, scratch_in_pool)
        _check_pins(graph, io_in_pool, keep_inputs, pins, self._memory)
        self._given = graph
        graph = with_copies(graph, io_in_pool)
        if graph.states:
            graph = with_state_copies(graph, cpu)
        #: Pins by the names of inputs and outputs in the planned graph.
        self.pins = _renamed_pins(pins, self._given, graph)
        self.lowering = Lowering(graph, cpu)

    def plan(self, choice: KernelSelection = DEFAULT_CHOICE) -> Program:
        """Return the program for a choice of kernels and fused groups.

        Raise :class:`~hilc.errors.InputError` if it does not fit into the pools.
        """
        program = self.plan_unchecked(choice)
        check_plan(program)
        return program

    def plan_unchecked(self, choice: KernelSelection) -> Program:
        """Return the program of :meth:`plan` without the replay that verifies it, for a search: of
        the programs that it compares, only the one that it returns has to be verified.
        """
        graph = self.lowering.graph
        groups = self._groups(choice)
        inner = {n.name for group in groups.values() for n in group.nodes[:-1]}
        values = Liveness(graph, self.io_in_pool, inner, state_pool=len(self._memory))
        nodes = values.computed
        calls = [groups.get(n.name) or self._chosen_call(n, choice) for n in nodes]
        reads = [reads_of(node, call) for node, call in zip(nodes, calls, strict=True)]
        values.set_reads(reads, self.keep_inputs)
        values.set_pins(self.pins)
        differences = _differences(values, self.lowering, calls, reads)
        _extend_buffers(values, differences)
        pooled = values.pooled
        scratch_in_pool = self._scratch_in_pool
        scratch_sizes = [call.scratch_bytes for call in calls]
        scratch_steps = [s for s, nbytes in enumerate(scratch_sizes) if nbytes and scratch_in_pool]
        traffic = _traffic(values, calls, reads)
        blocks = [
            Block(value.tensor.nbytes, value.first, value.last, *value.pin) for value in pooled
        ]
        accesses = [traffic[id(value)] for value in pooled]
        blocks += [Block(scratch_sizes[step], step, step) for step in scratch_steps]
        accesses += [max(calls[step].macs, scratch_sizes[step]) for step in scratch_steps]
        fed = self._fed(calls)
        if fed is not None:
            blocks.append(Block(fed.feed_bytes, BEFORE, len(nodes)))
            accesses.append(fed.count * fed.feed_bytes)
        position = {id(value): index for index, value in enumerate(pooled)}
        overlaps = {
            (position[id(operand)], position[id(output)]): forbidden
            for operand, output, forbidden in differences
            if id(operand) in position and id(output) in position
        }
        overlaps |= {
            (position[id(value)], len(pooled) + index): forbidden
            for index, step in enumerate(scratch_steps)
            for value, forbidden in under_scratch(
                self.lowering,
                calls[step],
                reads[step],
                values.dying(step, reads[step]),
                [values.by_name[nodes[step].name]],
            )
            if id(value) in position
        }
        _check_apart(pooled, blocks, overlaps)
        refs = _allocate(blocks, accesses, overlaps, self._memory, nodes)
        for value, ref in zip(pooled, refs, strict=False):
            value.buffer = ref
        scratch = dict(zip(scratch_steps, refs[len(pooled) :], strict=False))
        pools = tuple(
            Pool(spec.name, align(_end(blocks, refs, index)), spec.region)
            for index, spec in enumerate(self._memory)
        )
        if graph.states:
            pools += (Pool(STATE_POOL, state_bytes(graph), None, persistent=True),)
        named = {name: v.buffer for name, v in values.by_name.items() if v.buffer is not None}
        constants = tuple(dict.fromkeys(n for names in reads for n in names if n not in named))
        named.update((name, BufferRef("constant", index)) for index, name in enumerate(constants))
        separate = 0 if scratch_in_pool else max(map(align, scratch_sizes), default=0)
        return Program(
            graph=graph,
            cpu=self.lowering.cpu,
            steps=tuple(
                Step(node, call, names, scratch.get(step))
                for step, (node, call, names) in enumerate(zip(nodes, calls, reads, strict=True))
            ),
            buffers=MappingProxyType(named),
            constants=constants,
            output_names=self._given.outputs,
            io_in_pool=self.io_in_pool,
            keep_inputs=self.keep_inputs,
            pools=pools,
            workspace_bytes=sum(p.nbytes for p in pools if not p.persistent) + separate,
            workspace_bound_bytes=align(lower_bound(blocks, overlaps)) + separate,
            feed=None if fed is None else refs[-1],
        )

    def _fed(self, calls: Sequence[Call]) -> FusedCall | None:
        """Return the group to which rows are fed; None where inputs are whole."""
        node = fed_node(self.lowering.graph)
        if node is None:
            return None
        first = calls[0]
        if not isinstance(first, FusedCall) or first.fed is None:
            raise InputError(
                f"the choice has no fused group, before all other layers, that takes in the rows "
                f"of {node.inputs[0]!r}",
                "give the input as a whole: feed=whole",
            )
        return first

    def _groups(self, choice: KernelSelection) -> dict[str, FusedCall]:
        """Return the calls of the fused groups, by the name of their last node."""
        calls: dict[str, FusedCall] = {}
        taken: set[str] = set()
        for group in choice.groups:
            try:
                call = self.lowering.group(group)
            except NotFusible as error:
                raise InputError(
                    f"the choice has a group of layers that cannot be fused: {error}"
                ) from error
            if twice := taken.intersection(group.nodes):
                raise InputError(f"the choice has {min(twice)!r} in two fused groups")
            taken.update(group.nodes)
            calls[group.nodes[-1]] = call
        return calls

    def _chosen_call(self, node: Node, choice: KernelSelection) -> KernelCall | ExternalCall:
        candidates = self.lowering.calls(node)
        wanted = choice.kernels.get(node.name, candidates[0].variant)
        for call in candidates:
            if call.variant == wanted:
                return call
        raise InputError(
            f"{node.name!r} has no kernel variant {wanted!r}",
            f"choose one of: {', '.join(call.variant for call in candidates)}",
        )


def plan(
    graph: Graph,
    cpu: Cpu,
    *,
    io_in_pool: bool = False,
    keep_inputs: bool = False,
    pins: Mapping[str, Pin] = NO_PINS,
    memory: Sequence[PoolSpec] = (PoolSpec(),),
    scratch_in_pool: bool = True,
    choice: KernelSelection = DEFAULT_CHOICE,
) -> Program:
    """Return the program that computes ``graph`` on ``cpu``; the arguments are those of
    :class:`Planner`.

    ``choice`` selects the kernel of each layer and the fused groups.
    """
    planner = Planner(
        graph,
        cpu,
        io_in_pool=io_in_pool,
        keep_inputs=keep_inputs,
        pins=pins,
        memory=memory,
        scratch_in_pool=scratch_in_pool,
    )
    return planner.plan(choice)


def _check_memory(memory: Sequence[PoolSpec], scratch_in_pool: bool) -> None:
    for spec in memory:
        if spec.limit_bytes is not None and spec.limit_bytes < 0:
            raise InputError(
                f"the memory pool {spec.name!r} has an invalid limit of {spec.limit_bytes} bytes",
                "give a limit of 0 or more, or none",
            )
    if len(memory) > 1 and not scratch_in_pool:
        raise InputError(
            f"{len(memory)} memory pools with pools=calls, which has one allocator for all",
            "use pools=internal or pools=external, or one memory pool",
        )


def _check_pins(
    graph: Graph,
    io_in_pool: bool,
    keep_inputs: bool,
    pins: Mapping[str, Pin],
    memory: Sequence[PoolSpec],
) -> None:
    if (pins or keep_inputs) and not io_in_pool:
        raise InputError(
            "pins and keep_inputs need inputs and outputs in the workspace, not in the caller's "
            "buffers",
            "leave out pins and keep_inputs, or place inputs and outputs in the workspace",
        )
    border = (*graph.inputs, *graph.outputs)
    for name, pin in pins.items():
        if name not in border:
            raise InputError(
                f"pinned tensor {name!r} is not an input or output of {graph.name!r}",
                f"inputs and outputs: {', '.join(border)}",
            )
        if not 0 <= pin.pool < len(memory):
            raise InputError(
                f"{name!r} is pinned in pool {pin.pool}, but there are {len(memory)} pools",
            )
        if pin.offset < 0 or pin.offset % ALIGNMENT:
            raise InputError(
                f"{name!r} is pinned at the misaligned offset {pin.offset}",
                f"give a multiple of {ALIGNMENT}, the alignment of tensors",
            )


def _renamed_pins(pins: Mapping[str, Pin], graph: Graph, planned: Graph) -> dict[str, Pin]:
    """Return the pins of ``graph``'s inputs and outputs by their names in the planned graph."""
    border = zip((*graph.inputs, *graph.outputs), (*planned.inputs, *planned.outputs), strict=True)
    return {own: pins[name] for name, own in border if name in pins}


def _check_apart(values: Sequence[Value], blocks: Sequence[Block], overlaps: Overlaps) -> None:
    """Raise for pins of two tensors that are live at once and would share bytes."""
    pinned = [i for i, block in enumerate(blocks) if block.offset is not None]
    for a, b in itertools.combinations(pinned, 2):
        first, second = blocks[a], blocks[b]
        if not first.meets(second) or first.pool != second.pool:
            continue
        assert first.offset is not None
        assert second.offset is not None
        if not forbidden_between(blocks, overlaps, a, b).allow(second.offset - first.offset):
            raise InputError(
                f"{values[a].tensor.name!r} ({first.nbytes} bytes at {first.offset}) and "
                f"{values[b].tensor.name!r} ({second.nbytes} bytes at {second.offset}) are pinned "
                "to overlapping bytes, but both are live at once",
                "pin them to disjoint bytes",
            )


def _traffic(
    values: Liveness, calls: Sequence[Call], reads: Sequence[Sequence[str]]
) -> dict[int, int]:
    """Return an estimate of the bytes read and written of each value, by its id.

    A value is written once. A kernel reads an operand as often as it multiplies, unless it gathers
    what it multiplies in its scratch first.
    """
    traffic = {id(value): value.tensor.nbytes for value in values.by_name.values()}
    for call, names in zip(calls, reads, strict=True):
        for name in names:
            if value := values.by_name.get(name):
                repeated = 0 if call.scratch_bytes else call.macs
                traffic[id(value)] += max(value.tensor.nbytes, repeated)
    return traffic


def _allocate(
    blocks: Sequence[Block],
    accesses: Sequence[int],
    overlaps: Overlaps,
    memory: Sequence[PoolSpec],
    nodes: Sequence[Node],
) -> list[BufferRef]:
    """Return an offset in a pool for each block."""
    limits = [spec.limit_bytes for spec in memory]
    if (found := allocate_pools(blocks, accesses, limits, overlaps)) is not None:
        return [BufferRef("pool", offset, pool) for pool, offset in found]
    # Allocation only fails if all pools have limits.
    had = ", ".join(f"{spec.name} {spec.limit_bytes} B" for spec in memory)
    fullest = max(range(BEFORE, len(nodes)), key=lambda step: step_bound(blocks, step, overlaps))
    sizes = sorted(map(_nbytes, live_blocks(blocks, fullest)), reverse=True)
    at_input = fullest == BEFORE
    where = "the first layer" if at_input else f"{nodes[fullest].op} {nodes[fullest].name!r}"
    raise InputError(
        f"the model does not fit into its memory pools ({had}): it needs "
        f"{align(lower_bound(blocks, overlaps))} B at least, at {where} in blocks of "
        f"{', '.join(map(str, sizes))} B",
        "raise a limit, or leave out that of the last pool",
    )


def _nbytes(block: Block) -> int:
    return block.nbytes


def _end(blocks: Sequence[Block], refs: Sequence[BufferRef], pool: int) -> int:
    return max(
        (p.value + b.nbytes for b, p in zip(blocks, refs, strict=True) if p.pool == pool),
        default=0,
    )


#: An operand and the output of its last reader, with the forbidden offset interval.
_Pair = tuple[Value, Value, ForbiddenInterval]


def _differences(
    values: Liveness, lowering: Lowering, calls: Sequence[Call], reads: Sequence[Sequence[str]]
) -> list[_Pair]:
    """Return the pairs that may overlap because a step writes one while it reads the other."""
    pairs: list[_Pair] = []
    for step, (node, call, names) in enumerate(zip(values.computed, calls, reads, strict=True)):
        written = {name: values.by_name[name] for name in node.outputs}
        dying = values.dying(step, names)
        pairs += may_overlap(lowering, call, names, node.outputs, dying, written)
    return pairs


def _extend_buffers(values: Liveness, differences: Sequence[_Pair]) -> None:
    """Assign the caller's output buffer to an operand that the step may overwrite in place."""
    buffers = CallerBuffers(values)
    for operand, output, forbidden in reversed(differences):
        if operand.buffer is not None or output.buffer is None or not forbidden.allow(0):
            continue
        if buffers.have_room(output.buffer, operand, output):
            operand.buffer = output.buffer
            buffers.hold(output.buffer, operand)
