"""A memory plan as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hil.cli.console import shown_name, table
from hil.cli.render import ram_line
from hilc.ir import DynamicForm, IoSaving
from hilc.memory.explanation import BEFORE, ArenaSlot, Explanation, IoTensor

_BAR = 40


def plan_text(plan: Explanation) -> str:
    """Return a plan as text: the peak, memory use of the layers, live ranges and addresses."""
    beside = "in the workspace" if plan.io_in_pool else "outside of the workspace"
    lines = [
        f"{plan.model} for {plan.cpu}: {plan.workspace_bytes:,} bytes of workspace, "
        f"inputs and outputs {beside}"
    ]
    if plan.state_bytes:
        lines[0] += f"; {plan.state_bytes:,} bytes of state"
    if plan.ram_bytes is not None:
        io = None if plan.io_in_pool else plan.io_bytes
        ram = ram_line(plan.ram_bytes, plan.workspace_bytes, io, plan.state_bytes)
        lines[0] += f"\n{ram}"
    if not plan.steps:
        return lines[0]
    peak = plan.steps[plan.peak]
    lines.append(f"the peak is layer {plan.peak}, {peak.ops}: {peak.used_bytes:,} bytes in use")
    rows = [_slot_row(plan, slot) for slot in plan.at(plan.peak)]
    lines.append(table(rows, ["there", "bytes", "from", "to"]))
    lines += [f"  {text}" for text in _overlap_lines(plan)]
    if peak.kept:
        kept = [[shown_name(name), f"{start:,}", f"{end:,}"] for name, start, end in peak.kept]
        lines += ["", table(kept, ["rows kept in the scratch", "from", "to"])]
    most = max(max(step.used_bytes for step in plan.steps), 1)
    steps = [
        [str(i), step.ops, f"{step.used_bytes:,}", "#" * -(-step.used_bytes * _BAR // most)]
        for i, step in enumerate(plan.steps)
    ]
    lines += ["", table(steps, ["layer", "operators", "bytes in use", ""])]
    kernels = [
        [str(i), node.op, node.variant or "external"]
        for i, step in enumerate(plan.steps)
        for node in step.nodes
    ]
    lines += ["", table(kernels, ["layer", "operator", "kernel variant"])]
    lives = [
        [*_slot_row(plan, slot), _life(plan, slot)] for slot in plan.slots if slot.what != "scratch"
    ]
    lines += ["", table(lives, ["tensor", "bytes", "from", "to", "layers"]), ""]
    lines += [_io_line(tensor) for tensor in plan.io if tensor.scale is not None]
    lines += [io_saving_line(plan.io_saving)] if plan.io_saving else []
    lines += dynamic_lines(plan.dynamic_forms)
    lines.append(_next(plan))
    return "\n".join(lines)


def _io_line(tensor: IoTensor) -> str:
    shape = ",".join(map(str, tensor.shape))
    zero_point = tensor.zero_point or 0
    sign = "-" if zero_point >= 0 else "+"
    return (
        f"{tensor.role} {shown_name(tensor.name)}: {tensor.dtype}[{shape}], "
        f"real = {tensor.scale!r} * (value {sign} {abs(zero_point)})"
    )


def io_saving_line(saving: IoSaving) -> str:
    """Return the hint about a smaller type of inputs and outputs."""
    return (
        f"inputs and outputs as {saving.io} take {saving.bytes:,} B less, with the same results: "
        f"--io {saving.io}"
    )


def dynamic_lines(forms: Sequence[DynamicForm]) -> list[str]:
    """Return what each way to compute dynamically quantized layers costs, the chosen one first."""
    lines = []
    for form, word in zip(forms, ("chosen", "instead"), strict=False):
        if form.flash_bytes is not None and form.instructions is not None:
            lines.append(
                f"dynamically quantized layers, {word} --dynamic {form.dynamic}: "
                f"{form.workspace_bytes:,} B of workspace, about {form.flash_bytes:,} B of flash, "
                f"{form.instructions:,} instructions by estimate"
                + ", of one turn of each loop and the longest branch of each choice"
                * form.calls_graphs
            )
    return lines


def _next(plan: Explanation) -> str:
    if plan.saving is None:
        return "no program with less memory was found"
    saving = plan.saving
    share = 100 * saving.instructions / max(saving.of, 1)
    options = f"--ram {plan.workspace_bytes - saving.bytes}"
    if saving.flash_limit is not None:
        options += f" --flash {saving.flash_limit}"
    return (
        f"{saving.bytes:,} bytes less are possible with {options}, by estimate with "
        f"{_difference(saving.instructions)} instructions ({share:+.1f} %) and "
        f"{_difference(saving.flash_bytes)} bytes of flash"
    )


def _difference(count: int) -> str:
    return f"{abs(count):,} {'fewer' if count < 0 else 'more'}"


def _slot_row(plan: Explanation, slot: ArenaSlot) -> list[str]:
    pool = f"{plan.pools[slot.pool][0]} " if len(plan.pools) > 1 else ""
    name = slot.name if slot.what != "scratch" else "scratch"
    where = f"{pool}{slot.offset:,}"
    return [shown_name(name), f"{slot.bytes:,}", where, f"{slot.end:,}"]


def _life(plan: Explanation, slot: ArenaSlot) -> str:
    first = "caller" if slot.first == BEFORE else str(slot.first)
    last = "caller" if slot.last == len(plan.steps) else str(slot.last)
    return first if first == last else f"{first} - {last}"


def _overlap_lines(plan: Explanation) -> Iterator[str]:
    for output, name, difference in plan.steps[plan.peak].overlaps:
        shown, other = shown_name(output), shown_name(name)
        how = f"{abs(difference):,} bytes {'above' if difference > 0 else 'below'}"
        yield f"{shown} overwrites {other}, {how if difference else 'at the same address'}"
