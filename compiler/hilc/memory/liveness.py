"""Liveness analysis: the live range of each tensor, from the step that writes it to its last
reader.

The planner, the search and the explanation of a plan use it. Only the checker
(:mod:`hilc.memory.checker`) has its own, to find errors made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from hilc.errors import InputError
from hilc.fusion.call import FusedCall
from hilc.fusion.candidates import Call, Lowering
from hilc.ir import Graph, Node, State, Tensor
from hilc.lowering.access import ForbiddenInterval
from hilc.memory.allocate import align
from hilc.memory.explanation import BEFORE
from hilc.memory.pools import Pin
from hilc.memory.program import BufferRef
from hilc.ops import OPS
from hilc.transforms.feed import fed_node


@dataclass(eq=False)
class Value:
    """A buffer that is written once, by the caller or by a kernel, and its live range.

    Views are further names of it.
    """

    tensor: Tensor
    first: int
    last: int
    #: The caller's buffer that holds it, or the offset that the allocator chose; None before.
    buffer: BufferRef | None
    #: Required offset and pool.
    pin: tuple[int | None, int | None] = (None, None)


class Neighbours(NamedTuple):
    """Values in the pools that are live during consecutive steps."""

    #: Live before and after the steps.
    around: Sequence[Value]
    #: Live before and last read by one of the steps.
    ending: Sequence[Value]
    #: Written by the last step.
    starting: Sequence[Value]


class Liveness:
    """Live ranges of a graph's values, and the nodes that compute them.

    Views compute nothing. ``inner`` names the nodes that a fused group computes before its last
    one; their tensors exist in the group only. Ranges end with the writing step until
    :meth:`set_reads` is called.

    States are in the pool ``state_pool``; the values of a state before and after a run share one
    buffer, which no other value uses.
    """

    def __init__(
        self,
        graph: Graph,
        io_in_pool: bool,
        inner: Collection[str] = (),
        *,
        state_pool: int = 1,
    ) -> None:
        self.graph = graph
        self.computed: list[Node] = []
        self.by_name: dict[str, Value] = {}
        fixed = (
            {} if io_in_pool else {n: BufferRef("output", i) for i, n in enumerate(graph.outputs)}
        )
        for index, name in enumerate(graph.inputs):
            # Rows that are fed are never in a pool as a whole.
            is_pooled = io_in_pool and fed_node(graph) is None
            ref = None if is_pooled else BufferRef("input", index)
            self.by_name[name] = Value(graph.tensors[name], BEFORE, BEFORE, ref)
        for state, ref in state_buffers(graph, state_pool).items():
            self.by_name[state.name] = Value(graph.tensors[state.name], BEFORE, BEFORE, ref)
            if state.after != state.name:
                fixed[state.after] = ref
        for node in graph.nodes:
            if node.name in inner:
                continue
            viewed = self.by_name.get(node.inputs[0]) if OPS[node.op].view else None
            ref = fixed.get(node.name)
            # A value has one buffer: a view from one caller's buffer to another has to copy.
            if viewed is not None and (viewed.buffer is None or ref is None):
                viewed.buffer = viewed.buffer or ref
                self.by_name[node.name] = viewed
                continue
            step = len(self.computed)
            self.computed.append(node)
            for name in node.outputs:
                self.by_name[name] = Value(graph.tensors[name], step, step, fixed.get(name))

    @cached_property
    def distinct(self) -> list[Value]:
        """Every value once."""
        return list({id(value): value for value in self.by_name.values()}.values())

    @cached_property
    def _by_step(self) -> tuple[dict[int, list[Value]], dict[int, list[Value]]]:
        """The values in the pools that are live before each step and after it began, and those
        that each step writes; to be asked when all reads are set.
        """
        before: dict[int, list[Value]] = {}
        written: dict[int, list[Value]] = {}
        for value in self.pooled:
            written.setdefault(value.first, []).append(value)
            for step in range(value.first + 1, value.last + 1):
                before.setdefault(step, []).append(value)
        return before, written

    @property
    def pooled(self) -> list[Value]:
        """Every value to be allocated in a pool, once."""
        return [value for value in self.distinct if value.buffer is None]

    def set_reads(self, reads: Sequence[Sequence[str]], keep_inputs: bool = False) -> None:
        """Extend every live range to the last step that reads the value; ``reads`` are the names
        per step.

        Outputs and new values of states live to the end, and so do inputs with ``keep_inputs``.
        """
        for step, names in enumerate(reads):
            for name in names:
                if name in self.by_name:
                    self.by_name[name].last = step
        for name in (*self.graph.results, *(self.graph.inputs if keep_inputs else ())):
            self.by_name[name].last = len(reads)

    def set_pins(self, pins: Mapping[str, Pin]) -> None:
        """Set the offsets that the caller requires.

        Raise :class:`~hilc.errors.InputError` if tensors that share a buffer have different
        offsets.
        """
        for name, pin in pins.items():
            value = self.by_name[name]
            ref = pin.offset, pin.pool
            if value.pin not in ((None, None), ref):
                raise InputError(
                    f"{name!r} and {value.tensor.name!r} share one buffer but are pinned at "
                    f"{pin.offset} and {value.pin[0]}",
                    "pin both to the same offset and pool",
                )
            value.pin = ref

    def dying(self, step: int, names: Iterable[str]) -> dict[str, Value]:
        """Return those of ``names`` whose live range ends at ``step``, by name."""
        values = ((name, self.by_name.get(name)) for name in names)
        return {name: v for name, v in values if v is not None and v.last == step}

    def neighbours(self, first: int, last: int) -> Neighbours:
        """Return the values in the pools that are live during the steps ``first`` to ``last``."""
        before, written = self._by_step
        live = before.get(first, ())
        return Neighbours(
            [v for v in live if v.last > last],
            [v for v in live if v.last <= last],
            written.get(last, ()),
        )


def state_buffers(graph: Graph, pool: int) -> dict[State, BufferRef]:
    """Return the buffer of each state in the pool of states, which has the index ``pool``."""
    refs: dict[State, BufferRef] = {}
    offset = 0
    for state in graph.states:
        refs[state] = BufferRef("pool", offset, pool)
        offset += align(graph.tensors[state.name].nbytes)
    return refs


def state_bytes(graph: Graph) -> int:
    """Return the size of that pool."""
    return sum(align(graph.tensors[state.name].nbytes) for state in graph.states)


def reads_of(node: Node, call: Call) -> tuple[str, ...]:
    """Return the tensors that a call for ``node`` reads, in the call's order."""
    if isinstance(call, FusedCall):
        return call.inputs
    return tuple(node.inputs[i] for i in call.inputs)


class CallerBuffers:
    """The buffers outside of the pools that values lie in, by the steps during which they do: a
    value that is overwritten in place there may lie in the same one.
    """

    def __init__(self, values: Liveness) -> None:
        self._held = Counter[tuple[BufferRef, int]]()
        for value in values.distinct:
            if value.buffer is not None:
                self.hold(value.buffer, value)

    def hold(self, buffer: BufferRef, value: Value) -> None:
        """Note that ``buffer`` holds ``value``."""
        self._held.update((buffer, step) for step in range(value.first, value.last + 1))

    def have_room(self, buffer: BufferRef, operand: Value, output: Value) -> bool:
        """Return whether ``operand`` may lie in the buffer of an ``output`` that overwrites it."""
        return operand.tensor.nbytes == output.tensor.nbytes and all(
            self._held[buffer, step] <= (output.first <= step <= output.last)
            for step in range(operand.first, operand.last + 1)
        )


def may_overlap(
    lowering: Lowering,
    call: Call,
    reads: Sequence[str],
    writes: Sequence[str],
    dying: Mapping[str, Value],
    written: Mapping[str, Value],
) -> list[tuple[Value, Value, ForbiddenInterval]]:
    """Return the pairs of operand and output that may share bytes, with the forbidden offset
    interval.

    ``dying`` are the operands that the call reads last, ``written`` the outputs in question.
    """
    pairs: list[tuple[Value, Value, ForbiddenInterval]] = []
    if not dying:
        return pairs
    for index, name in enumerate(writes):
        if (output := written.get(name)) is None:
            continue
        found: dict[int, ForbiddenInterval] = {}
        values: dict[int, Value] = {}
        for position, operand in enumerate(reads):
            if (value := dying.get(operand)) is None:
                continue
            forbidden = lowering.differences(call, reads, writes, position, index)
            if forbidden is None:
                continue
            known = found.get(id(value))
            found[id(value)] = forbidden if known is None else forbidden.union(known)
            values[id(value)] = value
        pairs += [(values[key], output, forbidden) for key, forbidden in found.items()]
    return pairs


def under_scratch(
    lowering: Lowering,
    call: Call,
    reads: Sequence[str],
    dying: Mapping[str, Value],
    outputs: Iterable[Value],
) -> list[tuple[Value, ForbiddenInterval]]:
    """Return the operands and outputs that may share bytes with the scratch of ``call``, with the
    forbidden interval of ``offset(scratch) - offset(value)``.

    ``dying`` are the operands that the call reads last.
    """
    found: dict[int, tuple[Value, ForbiddenInterval]] = {}
    for position, operand in enumerate(reads):
        if (value := dying.get(operand)) is None:
            continue
        if (forbidden := lowering.scratch_differences(call, position)) is None:
            continue
        if id(value) in found:
            forbidden = forbidden.union(found[id(value)][1])
        found[id(value)] = value, forbidden
    over = lowering.output_differences(call)
    return [*found.values(), *((output, over) for output in outputs if over is not None)]
