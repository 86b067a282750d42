"""A memory plan as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hilc.errors import InputError
from hilc.memory.explain import ArenaSlot, Explanation, PlannedLayer, Saving, StepMemory
from hilc.memory.liveness import BEFORE
from hilc.support.jsondata import decode

#: Limits of a plan that is read, far above those of any model.
_MOST_LAYERS, _MOST_SLOTS = 20_000, 200_000


def plan_json(plan: Explanation) -> dict[str, Any]:
    """Return the plan as a JSON object."""
    return {
        "model": plan.model,
        "cpu": plan.cpu,
        "workspace_bytes": plan.workspace_bytes,
        "state_bytes": plan.state_bytes,
        "io_in_pool": plan.io_in_pool,
        "pools": [{"name": name, "bytes": nbytes} for name, nbytes in plan.pools],
        "peak_layer": plan.peak,
        "layers": [
            {
                "ops": [node.op for node in step.nodes],
                "names": [node.name for node in step.nodes],
                "macs": step.macs,
                "used_bytes": step.used_bytes,
                "kept": [
                    {"name": name, "first": first, "end": end} for name, first, end in step.kept
                ],
                "overlaps": [
                    {"output": output, "input": name, "difference": difference}
                    for output, name, difference in step.overlaps
                ],
            }
            for step in plan.steps
        ],
        "tenants": [asdict(slot) for slot in plan.slots],
        "next_saving": None if plan.saving is None else asdict(plan.saving),
    }


@dataclass(frozen=True)
class _Pool:
    name: str
    bytes: int


@dataclass(frozen=True)
class _Kept:
    name: str
    first: int
    end: int


@dataclass(frozen=True)
class _Overlap:
    output: str
    input: str
    difference: int


@dataclass(frozen=True)
class _Layer:
    ops: tuple[str, ...]
    names: tuple[str, ...]
    macs: int
    used_bytes: int
    kept: tuple[_Kept, ...]
    overlaps: tuple[_Overlap, ...]


@dataclass(frozen=True)
class _Plan:
    model: str
    cpu: str
    workspace_bytes: int
    state_bytes: int
    io_in_pool: bool
    pools: tuple[_Pool, ...]
    peak_layer: int
    layers: tuple[_Layer, ...]
    slots: tuple[ArenaSlot, ...]
    next_saving: Saving | None


def plan_from_json(data: Any, label: str) -> Explanation:
    """Return the plan that :func:`plan_json` wrote; ``label`` names it in messages.

    Raise :class:`~hilc.errors.InputError` for one that describes no plan.
    """
    given = {**data, "slots": data.get("tenants")} if isinstance(data, Mapping) else data
    read = decode(_Plan, given, label, exact=False)
    _check(read, label)
    return Explanation(
        model=read.model,
        cpu=read.cpu,
        io_in_pool=read.io_in_pool,
        pools=tuple((pool.name, pool.bytes) for pool in read.pools),
        workspace_bytes=read.workspace_bytes,
        state_bytes=read.state_bytes,
        slots=read.slots,
        steps=tuple(_step(layer, index, read) for index, layer in enumerate(read.layers)),
        peak=read.peak_layer,
        saving=read.next_saving,
    )


def _step(layer: _Layer, index: int, plan: _Plan) -> StepMemory:
    living = [slot for slot in plan.slots if slot.lives_at(index)]
    return StepMemory(
        nodes=tuple(map(PlannedLayer, layer.names, layer.ops)),
        macs=layer.macs,
        used_bytes=layer.used_bytes,
        ends=tuple(
            max((slot.end for slot in living if slot.pool == pool), default=0)
            for pool in range(len(plan.pools))
        ),
        overlaps=tuple((o.output, o.input, o.difference) for o in layer.overlaps),
        kept=tuple((k.name, k.first, k.end) for k in layer.kept),
    )


def _check(plan: _Plan, label: str) -> None:
    """Raise for numbers that a picture of the plan could not follow."""
    steps = len(plan.layers)
    wrong = (
        steps > _MOST_LAYERS
        or len(plan.slots) > _MOST_SLOTS
        or not 0 <= plan.peak_layer < max(steps, 1)
        or min(plan.workspace_bytes, plan.state_bytes) < 0
        or any(pool.bytes < 0 for pool in plan.pools)
        or any(min(layer.macs, layer.used_bytes) < 0 for layer in plan.layers)
        or (plan.next_saving is not None and min(plan.next_saving.nbytes, plan.next_saving.of) < 0)
        or any(len(layer.ops) != len(layer.names) or not layer.ops for layer in plan.layers)
        or any({kept.name for kept in layer.kept} - {*layer.names} for layer in plan.layers)
        or any(
            not BEFORE <= slot.first <= slot.last <= steps
            or not 0 <= slot.pool < len(plan.pools)
            or not 0 <= slot.offset <= slot.offset + slot.nbytes <= plan.pools[slot.pool].bytes
            or (slot.what == "scratch" and not 0 <= slot.first < steps)
            for slot in plan.slots
        )
    )
    if wrong:
        raise InputError(
            f"{label} is no memory plan: its layers, buffers and pools contradict one another",
            "write it again with hil explain --json",
        )
