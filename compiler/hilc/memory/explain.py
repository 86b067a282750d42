"""Explanation of a program's memory: what is live when and where, and the layer at the peak.

Everything is read from the program (:mod:`hilc.memory.program`); nothing is planned again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from hilc.external import ExternalCall
from hilc.fusion.call import FusedCall
from hilc.ir import Graph, Node
from hilc.memory.explanation import (
    BEFORE,
    ArenaSlot,
    Explanation,
    IoTensor,
    PlannedLayer,
    Saving,
    StepMemory,
)
from hilc.memory.liveness import Liveness
from hilc.memory.program import BufferRef, Program, Step
from hilc.transforms.io_types import io_saving


def explain(program: Program, saving: Saving | None = None) -> Explanation:
    """Return the memory use of a program, step by step; ``saving`` describes the next smaller
    program.
    """
    slots = sorted(_arena_slots(program), key=lambda t: (t.first, t.pool, t.offset))
    steps = tuple(
        _step_memory(program, index, [t for t in slots if t.lives_at(index)])
        for index in range(len(program.steps))
    )
    # Of the steps that reach the end of a pool, the one with the most bytes in use.
    peak = max(
        range(len(steps)), key=lambda i: (sum(steps[i].ends), steps[i].used_bytes, -i), default=0
    )
    return Explanation(
        model=program.graph.name,
        cpu=program.cpu.name,
        io_in_pool=program.io_in_pool,
        pools=tuple((pool.name, pool.nbytes) for pool in program.pools),
        workspace_bytes=program.workspace_bytes,
        state_bytes=program.state_bytes,
        io_bytes=_io_bytes(program),
        slots=tuple(slots),
        steps=steps,
        peak=peak,
        saving=saving,
        io=tuple(_io_tensors(program.graph)),
        io_saving=io_saving(program.graph),
    )


def _io_bytes(program: Program) -> int:
    """Return the bytes of inputs and outputs, without an input that is fed by rows."""
    graph = program.graph
    names = (*(() if program.feed else graph.inputs), *graph.outputs)
    return sum(graph.tensors[name].nbytes for name in names)


def _io_tensors(graph: Graph) -> Iterator[IoTensor]:
    roles: tuple[tuple[Literal["input", "output"], tuple[str, ...]], ...] = (
        ("input", graph.inputs),
        ("output", graph.outputs),
    )
    for role, names in roles:
        for name in names:
            tensor = graph.tensors[name]
            quant = tensor.quant if tensor.quant is not None and tensor.quant.per_tensor else None
            numbers = (None, None) if quant is None else (quant.scale[0], quant.zero_point[0])
            yield IoTensor(name, role, tensor.dtype, tensor.shape, *numbers)


def _arena_slots(program: Program) -> Iterator[ArenaSlot]:
    graph = program.graph
    inner = {node.name for step in program.steps for node in step.nodes[:-1]}
    liveness = Liveness(graph, program.io_in_pool, inner)
    liveness.set_reads([step.inputs for step in program.steps], program.keep_inputs)
    outputs = {id(liveness.by_name[name]) for name in graph.outputs}
    states = {id(liveness.by_name[name]) for s in graph.states for name in (s.name, s.after)}
    for state in graph.states:
        ref, size = program.buffers[state.name], graph.tensors[state.name].nbytes
        end = len(program.steps)
        yield ArenaSlot(state.name, "state", size, ref.pool, ref.value, BEFORE, end)
    for value in liveness.distinct:
        if id(value) in states:
            continue
        name = value.tensor.name
        ref = program.buffers[name]
        if ref.kind != "pool":
            continue
        what: Literal["input", "tensor", "output"] = (
            "input" if name in graph.inputs else "output" if id(value) in outputs else "tensor"
        )
        size = value.tensor.nbytes
        yield ArenaSlot(name, what, size, ref.pool, ref.value, value.first, value.last)
    if (kept := program.feed) is not None:
        size, end = program.fed_call.feed_bytes, len(program.steps)
        yield ArenaSlot(
            "progress of the input's rows", "tensor", size, kept.pool, kept.value, BEFORE, end
        )
    for index, step in enumerate(program.steps):
        if (place_of := step.scratch) is not None:
            size = step.call.scratch_bytes
            name = f"scratch of {step.node.name}"
            yield ArenaSlot(name, "scratch", size, place_of.pool, place_of.value, index, index)


def _step_memory(program: Program, index: int, living: Sequence[ArenaSlot]) -> StepMemory:
    step = program.steps[index]
    pools = range(len(program.pools))
    in_pools = [[t for t in living if t.pool == pool] for pool in pools]
    return StepMemory(
        nodes=tuple(
            PlannedLayer(node.name, node.op, variant)
            for node, variant in zip(nodes_of(step), _variants_of(step), strict=True)
        ),
        macs=0 if isinstance(step.call, ExternalCall) else step.call.macs,
        used_bytes=sum(
            _covered(slots)
            for slots, pool in zip(in_pools, program.pools, strict=True)
            if not pool.persistent
        ),
        ends=tuple(max((t.end for t in slots), default=0) for slots in in_pools),
        overlaps=tuple(_overlaps(program, step)),
        kept=tuple(_kept(step.call)) if isinstance(step.call, FusedCall) else (),
    )


def nodes_of(step: Step) -> tuple[Node, ...]:
    """Return the layers that a step computes."""
    return step.call.nodes if isinstance(step.call, FusedCall) else (step.node,)


def _variants_of(step: Step) -> tuple[str, ...]:
    """Return the kernel variant of each layer that a step computes."""
    call = step.call
    if isinstance(call, ExternalCall):
        return ("",)
    if isinstance(call, FusedCall):
        # Slices of a layer have one variant.
        by_layer = {stage.layer: stage.call.variant for stage in reversed(call.stages)}
        return tuple(by_layer.get(layer, "") for layer in range(len(call.nodes)))
    return (call.variant,)


def _kept(call: FusedCall) -> Iterator[tuple[str, int, int]]:
    """Yield the name, first and end offset of the rows of each inner tensor in the group's
    scratch.
    """
    spans: dict[str, tuple[int, int]] = {}
    for entry in call.entries:
        if entry.write.kind == "scratch":
            name = call.nodes[call.stages[entry.stage].layer].name
            start, end = entry.write.offset, entry.write.offset + entry.output.nbytes
            low, high = spans.get(name, (start, end))
            spans[name] = min(low, start), max(high, end)
    for name, (start, end) in spans.items():
        yield name, start, end


def _covered(slots: Sequence[ArenaSlot]) -> int:
    """Return the number of bytes that at least one of the ranges covers."""
    total = end = 0
    for slot in sorted(slots, key=lambda t: t.offset):
        total += max(0, slot.end - max(slot.offset, end))
        end = max(end, slot.end)
    return total


def _overlaps(program: Program, step: Step) -> Iterator[tuple[str, str, int]]:
    tensors = program.graph.tensors
    for output in step.outputs:
        for name in dict.fromkeys(step.inputs):
            mine, other = program.buffers[output], program.buffers[name]
            if _meet(mine, tensors[output].nbytes, other, tensors[name].nbytes):
                yield output, name, mine.value - other.value


def _meet(a: BufferRef, a_bytes: int, b: BufferRef, b_bytes: int) -> bool:
    together = a.kind == b.kind == "pool" and a.pool == b.pool
    return together and a.value < b.value + b_bytes and b.value < a.value + a_bytes
