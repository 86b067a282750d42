"""A memory plan as the entry of ``hil explain``, and back."""

from __future__ import annotations

from typing import Any

from hil.results.codec import encode
from hil.results.plan import KeptRows, Overlap, PlanEntry, PlanLayer, PlanPool
from hilc.memory.explanation import Explanation, PlannedLayer, StepMemory


def plan_entry(plan: Explanation) -> PlanEntry:
    """Return the plan as the entry of ``hil explain``."""
    return PlanEntry(
        model=plan.model,
        cpu=plan.cpu,
        workspace_bytes=plan.workspace_bytes,
        state_bytes=plan.state_bytes,
        io_in_workspace=plan.io_in_pool,
        pools=tuple(PlanPool(name, nbytes) for name, nbytes in plan.pools),
        peak_layer=plan.peak,
        layers=tuple(
            PlanLayer(
                ops=tuple(node.op for node in step.nodes),
                names=tuple(node.name for node in step.nodes),
                macs=step.macs,
                used_bytes=step.used_bytes,
                kept=tuple(KeptRows(*kept) for kept in step.kept),
                overlaps=tuple(Overlap(*overlap) for overlap in step.overlaps),
                variants=tuple(node.variant for node in step.nodes),
            )
            for step in plan.steps
        ),
        slots=plan.slots,
        next_saving=plan.saving,
        io=plan.io,
        io_saving=plan.io_saving,
        dynamic_forms=plan.dynamic_forms,
        io_bytes=plan.io_bytes,
        model_ram_bytes=plan.ram_bytes,
    )


def plan_json(plan: Explanation) -> dict[str, Any]:
    """Return the plan as the JSON of its entry."""
    data: dict[str, Any] = encode(plan_entry(plan))
    return data


def plan_of(read: PlanEntry) -> Explanation:
    """Return the plan of an entry."""
    return Explanation(
        model=read.model,
        cpu=read.cpu,
        io_in_pool=read.io_in_workspace,
        pools=tuple((pool.name, pool.bytes) for pool in read.pools),
        workspace_bytes=read.workspace_bytes,
        state_bytes=read.state_bytes,
        io_bytes=read.io_bytes,
        slots=read.slots,
        steps=tuple(_step(layer, index, read) for index, layer in enumerate(read.layers)),
        peak=read.peak_layer,
        saving=read.next_saving,
        io=read.io,
        io_saving=read.io_saving,
        dynamic_forms=read.dynamic_forms,
    )


def _variants(layer: PlanLayer) -> tuple[str, ...]:
    # Plans of version 0.1 name none.
    return layer.variants or ("",) * len(layer.names)


def _step(layer: PlanLayer, index: int, plan: PlanEntry) -> StepMemory:
    living = [slot for slot in plan.slots if slot.lives_at(index)]
    return StepMemory(
        nodes=tuple(map(PlannedLayer, layer.names, layer.ops, _variants(layer))),
        macs=layer.macs,
        used_bytes=layer.used_bytes,
        ends=tuple(
            max((slot.end for slot in living if slot.pool == pool), default=0)
            for pool in range(len(plan.pools))
        ),
        overlaps=tuple((o.output, o.input, o.difference) for o in layer.overlaps),
        kept=tuple((k.name, k.first, k.end) for k in layer.kept),
    )
