"""From a graph to a program: which kernel computes each layer, and where every tensor lies.

All activations share one pool, or a few where a board has memories of several kinds. A tensor holds
its bytes from the step that writes it to the last that reads it; operators that only rename bytes
(reshape and its kind) share their input's storage, and an element-wise kernel may write over an
operand that nobody needs any more. What a kernel may overlap is read from its own description
(:mod:`hilc.kernels`), nothing is repeated here.

:func:`check_plan` trusts none of this: it replays the program on a map of who owns each byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from hilc.allocate import ALIGNMENT, Block, align, allocate_pools, live_blocks, lower_bound
from hilc.choice import FIRST, Choice
from hilc.cpu import Cpu
from hilc.errors import InputError
from hilc.external import ExternalCall
from hilc.ir import Graph, Node, Tensor
from hilc.kernels import KernelCall
from hilc.library import Pool
from hilc.ops import OPS

#: The step at which the caller writes the inputs, before the first kernel runs.
_START = -1


@dataclass(frozen=True)
class Place:
    """Where bytes lie at run time.

    ``value`` is the byte offset in the pool, the index of the model's input or output, or the index
    in :attr:`Program.constants`.
    """

    kind: Literal["pool", "input", "output", "constant"]
    value: int
    #: The index in :attr:`Program.pools`; 0 where the bytes lie elsewhere.
    pool: int = 0


@dataclass(frozen=True)
class PoolSpec:
    """Memory that a plan may use: at most ``limit_bytes``, in the board's region ``region``."""

    name: str = "global_workspace"
    #: None: as much as the model needs.
    limit_bytes: int | None = None
    #: None: wherever the build puts it.
    region: str | None = None


@dataclass(frozen=True)
class Step:
    """One call of a kernel or of an external function.

    ``inputs`` are the tensors that it reads, in its own order.
    """

    node: Node
    call: KernelCall | ExternalCall
    inputs: tuple[str, ...]
    #: None where it has none, or has to allocate its own.
    scratch: Place | None

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.node.outputs


@dataclass(frozen=True)
class Program:
    """The steps of an inference and the plan of its memory.

    ``graph`` is the one that was planned, with copies added where a model's output cannot be
    computed in place; ``output_names`` are the model's own names of the outputs.
    """

    graph: Graph
    cpu: Cpu
    steps: tuple[Step, ...]
    #: Every tensor that exists at run time; views have the place of what they view.
    places: Mapping[str, Place]
    #: Constants that kernels read as tensors (not through their parameters).
    constants: tuple[str, ...]
    output_names: tuple[str, ...]
    io_in_pool: bool
    pools: tuple[Pool, ...]
    #: All pools, and the largest scratch where it is not part of them: what an allocator must be
    #: able to hand out that aligns each block as the pools are.
    workspace_bytes: int
    #: No placement of these tensors, one beside the other, takes less.
    workspace_bound_bytes: int


class PlanError(RuntimeError):
    """The planner made a program that would corrupt memory: a fault of the compiler."""


def plan(
    graph: Graph,
    cpu: Cpu,
    *,
    io_in_pool: bool = False,
    memory: Sequence[PoolSpec] = (PoolSpec(),),
    scratch_in_pool: bool = True,
    choice: Choice = FIRST,
) -> Program:
    """The program that computes ``graph`` on ``cpu``.

    With ``io_in_pool`` the model's inputs and outputs are part of the pools: the caller writes the
    inputs there, and a run may destroy them. Otherwise they are the caller's buffers, and an input
    is never written to.

    ``memory`` are the pools, the preferred first; :class:`~hilc.errors.InputError` where the model
    does not fit into them. Without ``scratch_in_pool`` the layers' scratch is left to a run-time
    allocator, which serves the one pool too. ``choice`` says which kernels compute the layers.
    """
    memory = tuple(memory) or (PoolSpec(),)
    _check_memory(memory, scratch_in_pool)
    output_names = graph.outputs
    graph = _with_copies(graph, io_in_pool)
    values = _Values(graph, io_in_pool)
    nodes = values.computed
    calls = [_chosen_call(graph, node, cpu, choice) for node in nodes]
    reads = [
        tuple(node.inputs[i] for i in call.inputs) for node, call in zip(nodes, calls, strict=True)
    ]
    values.set_lifetimes(reads)
    storages = _share_storage(values, calls, reads)
    pooled = [storage for storage in storages if storage.place is None]
    scratch_sizes = [call.scratch_bytes for call in calls]
    scratch_steps = [s for s, nbytes in enumerate(scratch_sizes) if nbytes and scratch_in_pool]
    traffic = _traffic(values, calls, reads)
    blocks = [storage.block for storage in pooled]
    accesses = [sum(traffic[id(value)] for value in storage.values) for storage in pooled]
    blocks += [Block(scratch_sizes[step], step, step) for step in scratch_steps]
    accesses += [max(calls[step].macs, scratch_sizes[step]) for step in scratch_steps]
    places = _place(blocks, accesses, memory, nodes)
    for storage, place in zip(pooled, places, strict=False):
        storage.place = place
    scratch = dict(zip(scratch_steps, places[len(pooled) :], strict=True))
    pools = tuple(
        Pool(spec.name, align(_end(blocks, places, index)), spec.region)
        for index, spec in enumerate(memory)
    )
    place_of = {id(value): s.place for s in storages for value in s.values if s.place is not None}
    named = {name: place_of[id(value)] for name, value in values.by_name.items()}
    constants = tuple(dict.fromkeys(n for names in reads for n in names if n not in named))
    named.update((name, Place("constant", index)) for index, name in enumerate(constants))
    separate = 0 if scratch_in_pool else max(map(align, scratch_sizes), default=0)
    program = Program(
        graph=graph,
        cpu=cpu,
        steps=tuple(
            Step(node, call, names, scratch.get(step))
            for step, (node, call, names) in enumerate(zip(nodes, calls, reads, strict=True))
        ),
        places=MappingProxyType(named),
        constants=constants,
        output_names=output_names,
        io_in_pool=io_in_pool,
        pools=pools,
        workspace_bytes=sum(pool.nbytes for pool in pools) + separate,
        workspace_bound_bytes=align(lower_bound(blocks)) + separate,
    )
    check_plan(program)
    return program


def _chosen_call(graph: Graph, node: Node, cpu: Cpu, choice: Choice) -> KernelCall | ExternalCall:
    candidates = OPS[node.op].emit(node, graph.ins(node), graph.outs(node), cpu)
    position = choice.kernels.get(node.name, 0)
    if not 0 <= position < len(candidates):
        raise InputError(
            f"kernel {position} is chosen for {node.name!r}, which has {len(candidates)}"
        )
    return candidates[position]


def _check_memory(memory: Sequence[PoolSpec], scratch_in_pool: bool) -> None:
    for spec in memory:
        if spec.limit_bytes is not None and spec.limit_bytes < 0:
            raise InputError(
                f"the memory pool {spec.name!r} is limited to {spec.limit_bytes} bytes",
                "state a limit of 0 or more, or none",
            )
    if len(memory) > 1 and not scratch_in_pool:
        raise InputError(
            f"{len(memory)} memory pools with pools=calls, whose one allocator serves everything",
            "use pools=internal or pools=external, or one memory pool",
        )


def _traffic(
    values: _Values, calls: Sequence[KernelCall | ExternalCall], reads: Sequence[Sequence[str]]
) -> dict[int, int]:
    """Bytes that are moved to and from each value, by its id; an estimate.

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


def _place(
    blocks: Sequence[Block],
    accesses: Sequence[int],
    memory: Sequence[PoolSpec],
    nodes: Sequence[Node],
) -> list[Place]:
    """A place in the pools for each block."""
    limits = [spec.limit_bytes for spec in memory]
    if (found := allocate_pools(blocks, accesses, limits)) is not None:
        return [Place("pool", offset, pool) for pool, offset in found]
    # Only pools that all have limits can be too small.
    had = ", ".join(f"{spec.name} {spec.limit_bytes} B" for spec in memory)
    fullest = max(
        range(-1, len(nodes)), key=lambda step: sum(map(_nbytes, live_blocks(blocks, step)))
    )
    sizes = sorted(map(_nbytes, live_blocks(blocks, fullest)), reverse=True)
    where = f"{nodes[fullest].op} {nodes[fullest].name!r}" if fullest >= 0 else "the first layer"
    raise InputError(
        f"the model does not fit into its memory pools ({had}): it needs "
        f"{align(lower_bound(blocks))} B at least, at {where} in blocks of "
        f"{', '.join(map(str, sizes))} B",
        "raise a limit, or leave out that of the last pool",
    )


def _nbytes(block: Block) -> int:
    return block.nbytes


def _end(blocks: Sequence[Block], places: Sequence[Place], pool: int) -> int:
    return max(
        (p.value + b.nbytes for b, p in zip(blocks, places, strict=True) if p.pool == pool),
        default=0,
    )


def _with_copies(graph: Graph, io_in_pool: bool) -> Graph:
    """The graph with a copy appended for each output that has no place of its own.

    That is a constant, and, where the outputs are the caller's buffers, an input or an output that
    was named before.
    """
    tensors, nodes, outputs = dict(graph.tensors), list(graph.nodes), list[str]()
    for name in graph.outputs:
        source = tensors[name]
        given = not io_in_pool and (name in graph.inputs or name in outputs)
        if source.is_constant or given:
            copy = f"{name}:copy"
            while copy in tensors:
                copy += "_"
            tensors[copy] = replace(source, name=copy, data=None)
            attrs = {"new_shape": source.shape}
            nodes.append(Node("RESHAPE", (name,), (copy,), attrs, index=len(graph.nodes)))
            name = copy
        outputs.append(name)
    return graph.with_(tensors=tensors, nodes=tuple(nodes), outputs=tuple(outputs))


@dataclass
class _Value:
    """Bytes written once, by the caller or by a kernel; views give them further names."""

    tensor: Tensor
    first: int
    last: int
    #: The caller's buffer that holds them; None for the pool.
    place: Place | None


class _Values:
    """The values of a graph, and the nodes that are left to compute once views cost nothing."""

    def __init__(self, graph: Graph, io_in_pool: bool) -> None:
        self._graph = graph
        self.computed: list[Node] = []
        self.by_name: dict[str, _Value] = {}
        fixed = {} if io_in_pool else {n: Place("output", i) for i, n in enumerate(graph.outputs)}
        for index, name in enumerate(graph.inputs):
            place = None if io_in_pool else Place("input", index)
            self.by_name[name] = _Value(graph.tensors[name], _START, _START, place)
        for node in graph.nodes:
            viewed = self.by_name.get(node.inputs[0]) if OPS[node.op].view else None
            place = fixed.get(node.name)
            # A value has one place: a view between two of the caller's buffers has to copy.
            if viewed is not None and (viewed.place is None or place is None):
                viewed.place = viewed.place or place
                self.by_name[node.name] = viewed
                continue
            step = len(self.computed)
            self.computed.append(node)
            for name in node.outputs:
                self.by_name[name] = _Value(graph.tensors[name], step, step, fixed.get(name))

    def set_lifetimes(self, reads: Sequence[Sequence[str]]) -> None:
        """Let every value live until the last step that reads it; ``reads`` are those of each."""
        for step, names in enumerate(reads):
            for name in names:
                if name in self.by_name:
                    self.by_name[name].last = step
        for name in self._graph.outputs:
            self.by_name[name].last = len(reads)


@dataclass
class _Storage:
    """Memory that several values hold, one after the other."""

    values: list[_Value]
    place: Place | None

    @property
    def block(self) -> Block:
        return Block(self.values[0].tensor.nbytes, self.values[0].first, self.values[-1].last)


def _share_storage(
    values: _Values, calls: Sequence[KernelCall | ExternalCall], reads: Sequence[Sequence[str]]
) -> list[_Storage]:
    """A storage for every value, one for two values where a kernel works in place."""
    holder: dict[int, _Storage] = {}
    storages: list[_Storage] = []
    inputs = [v for v in values.by_name.values() if v.first == _START]
    for value in {id(v): v for v in inputs}.values():
        storages.append(_Storage([value], value.place))
        holder[id(value)] = storages[-1]
    for step, (node, call, names) in enumerate(zip(values.computed, calls, reads, strict=True)):
        outputs = [values.by_name[name] for name in node.outputs]
        operands = [values.by_name[name] for name in names if name in values.by_name]
        for output in outputs:
            dying = (
                holder[id(operand)]
                for operand in operands
                if operand.last == step
                and holder[id(operand)].place is None
                and may_work_in_place(call, operand.tensor, output.tensor)
            )
            storage = next(dying, None)
            if storage is None:
                storage = _Storage([], None)
                storages.append(storage)
            storage.values.append(output)
            storage.place = output.place
            holder[id(output)] = storage
    return storages


def may_work_in_place(call: KernelCall | ExternalCall, operand: Tensor, output: Tensor) -> bool:
    """Whether the kernel may write ``output`` over ``operand``, both at the same address.

    The planner and its checker ask this one function what a kernel's order allows. Nothing is
    known of an external function.
    """
    if isinstance(call, ExternalCall):
        return False
    one_access_type = operand.dtype == output.dtype or operand.nbytes == operand.size
    return (
        call.kernel.order == "elementwise"
        and len(call.kernel.outputs) == 1
        and not call.kernel.outputs[0].endswith("[]")
        and (operand.size, operand.nbytes) == (output.size, output.nbytes)
        # C lets only byte-sized types look at memory that was written as another type.
        and one_access_type
    )


def check_plan(program: Program) -> None:
    """Raise :class:`PlanError` unless every kernel finds its operands as they were written.

    The program is replayed on a map of memory that says which value owns each byte. Only the
    program and the kernels' descriptions are used, none of the planner's reasoning.
    """
    _Replay(program).run()


class _Replay:
    _NOBODY = -1

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = program.graph
        self._pools = [np.full(pool.nbytes, self._NOBODY, np.int32) for pool in program.pools]
        #: Owners of the caller's buffers, made when they are first met.
        self._buffers: dict[Place, npt.NDArray[np.int32]] = {}
        #: The value that each name stands for, and what to call it.
        self._value_of: dict[str, int] = {}
        self._first_name: list[str] = []

    def run(self) -> None:
        graph, places = self._graph, self._program.places
        self._require_size()
        for index, name in enumerate(graph.inputs):
            self._require_border(name, Place("input", index))
            self._claim(name)
        for name in graph.inputs:
            self._require_intact(name, "the first step")
        steps = {step.node.name: step for step in self._program.steps}
        for node in graph.nodes:
            if (step := steps.pop(node.name, None)) is not None:
                self._execute(step)
            elif places[node.name] == places[node.inputs[0]] and OPS[node.op].view:
                self._value_of[node.name] = self._value_of[node.inputs[0]]
            else:
                raise PlanError(f"nothing computes {node.name!r}")
        if steps:
            raise PlanError(f"no node of the graph stands behind the steps {sorted(steps)}")
        for index, name in enumerate(graph.outputs):
            self._require_border(name, Place("output", index))
            self._require_intact(name, "the caller")

    def _require_size(self) -> None:
        """Steps without a place for their scratch allocate it, one at a time."""
        own = [align(s.call.scratch_bytes) for s in self._program.steps if s.scratch is None]
        needed = sum(pool.size for pool in self._pools) + max(own, default=0)
        if needed != self._program.workspace_bytes:
            raise PlanError(f"{needed} bytes are needed, not {self._program.workspace_bytes}")

    def _require_border(self, name: str, buffer: Place) -> None:
        place = self._program.places[name]
        if place.kind != "pool" if self._program.io_in_pool else place != buffer:
            raise PlanError(f"the model's {buffer.kind} {name!r} lies in {place}")

    def _execute(self, step: Step) -> None:
        tensors = self._graph.tensors
        for name in step.inputs:
            if not tensors[name].is_constant:
                self._require_intact(name, repr(step.node.name))
        reads = [(n, self._span(n)) for n in step.inputs if not tensors[n].is_constant]
        writes = [(n, self._span(n)) for n in step.outputs]
        if step.scratch is not None:
            span = self._cut(step.scratch, step.call.scratch_bytes, "scratch")
            writes.append(("scratch", span))
        for index, (name, span) in enumerate(writes):
            for other, taken in writes[:index]:
                if np.shares_memory(span, taken):
                    raise PlanError(f"{step.node.name!r} writes {name!r} over {other!r}")
            for operand, taken in reads:
                if np.shares_memory(span, taken) and not (
                    name in step.outputs
                    and self._program.places[name] == self._program.places[operand]
                    and may_work_in_place(step.call, tensors[operand], tensors[name])
                ):
                    raise PlanError(
                        f"{step.node.name!r} writes {name!r} over its input {operand!r}"
                    )
        for _name, span in writes:
            span[:] = self._NOBODY
        for name in step.outputs:
            if self._program.places[name].kind not in ("pool", "output"):
                raise PlanError(f"{step.node.name!r} writes to {self._program.places[name]}")
            self._claim(name)

    def _claim(self, name: str) -> None:
        self._value_of[name] = len(self._first_name)
        self._first_name.append(name)
        self._span(name)[:] = self._value_of[name]

    def _require_intact(self, name: str, reader: str) -> None:
        if name not in self._value_of:
            raise PlanError(f"{reader} reads {name!r} before it is written")
        owners = self._span(name)
        wrong = owners[owners != self._value_of[name]]
        if wrong.size:
            culprit = "scratch" if wrong[0] == self._NOBODY else repr(self._first_name[wrong[0]])
            raise PlanError(f"{reader} reads {name!r}, over which {culprit} was written")

    def _span(self, name: str) -> npt.NDArray[np.int32]:
        return self._cut(self._program.places[name], self._graph.tensors[name].nbytes, repr(name))

    def _cut(self, place: Place, nbytes: int, what: str) -> npt.NDArray[np.int32]:
        """The owners of the bytes at ``place``."""
        if place.kind != "pool":
            if place not in self._buffers:
                self._buffers[place] = np.full(nbytes, self._NOBODY, np.int32)
            return self._buffers[place][:nbytes]
        if not 0 <= place.pool < len(self._pools):
            raise PlanError(f"{what} lies in pool {place.pool} of {len(self._pools)}")
        pool = self._pools[place.pool]
        if place.value % ALIGNMENT or not 0 <= place.value <= pool.size - nbytes:
            raise PlanError(f"{what} ({nbytes} bytes) lies at {place.value} of {pool.size}")
        return pool[place.value : place.value + nbytes]
