"""Whether a firmware fits its board: by an estimate before the build, by the linker after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hil.board import Board, MemoryRegion
from hil.errors import BuildError
from hil.firmware.glue import model_key, own_name
from hil.firmware.placement import ALIGNMENT, GUARD_BYTES, Workspace, aligned, static_bytes
from hilc.artifact.library import Module

_OVERFLOW = re.compile(r"region [`'](\w+)' overflowed by (\d+) bytes?")
# Static data that a firmware has beyond its lower bound, at most: its tests say so.
_UNKNOWN_BYTES = 128
# sizeof the structs of hil_model.h on a 32-bit core.
_MODEL_BYTES, _TENSOR_BYTES, _LAYER_BYTES = 28, 20, 16


class FitError(BuildError):
    """The firmware does not fit the board; the message has what is needed and what there is."""

    def __init__(self, fact: str, hint: str, demands: Sequence[Demand]) -> None:
        super().__init__(fact, hint)
        self.demands = tuple(demands)


@dataclass(frozen=True)
class Demand:
    """Bytes of one resource that are needed and had."""

    resource: str
    needed: int
    had: int
    #: What the needed bytes are for, or which region has the bytes.
    note: str = ""
    #: ``needed`` is a lower bound.
    at_least: bool = False

    @property
    def fits(self) -> bool:
        return self.needed <= self.had


def description_bytes(module: Module) -> int:
    """Flash that the firmware's description of a model takes: hil_model.h's structs, their texts.

    A lower bound: a text that ends another may be kept within that one.
    """
    outputs = [tensor for layer in module.layers for tensor in layer.outputs]
    tensors = [*module.inputs, *module.outputs, *module.states, *outputs]
    borders = (tensor.name for tensor in (*module.inputs, *module.outputs, *module.states))
    inner = [tensor.name for tensor in outputs] + [layer.name for layer in module.layers]
    texts = {name.encode() for name in (module.name, *borders, *map(own_name, inner))}
    texts = {a for a in texts if not any(a != b and b.endswith(a) for b in texts)}
    structs = _MODEL_BYTES + _TENSOR_BYTES * len(tensors) + _LAYER_BYTES * len(module.layers)
    shapes = sum(4 * len(shape) for shape in {tensor.shape for tensor in tensors})
    return structs + shapes + sum(len(text) + 1 for text in texts)


def estimate(
    modules: Sequence[Module], board: Board, workspace: Workspace = "own"
) -> tuple[Demand, ...]:
    """Lower bounds of flash, RAM and stack.

    RAM is that of the region that has most room, then of each region that a pool names.
    """
    code = board.regions("flash")[0]
    flash = board.base.flash_bytes
    flash += sum(module.constants_bytes + description_bytes(module) for module in modules)
    placed = static_bytes(modules, workspace)
    region = max(board.regions("ram"), key=lambda region: _left(board, region, placed))
    named = [r for r in board.regions("ram") if placed.get(r.name) and r is not region]
    return (
        Demand("flash", flash, code.size, f"region {code.name!r}", at_least=True),
        _ram_demand(board, region, placed.get(region.name, 0) + placed.get(None, 0)),
        *(_ram_demand(board, other, placed[other.name]) for other in named),
        Demand("stack", board.base.stack_bytes, board.stack_bytes, at_least=True),
    )


def _ram_demand(board: Board, region: MemoryRegion, models: int) -> Demand:
    fixed = region.size - room(board, region)
    parts = [f"{models} for the models"]
    if fixed:
        parts.append(f"{fixed} for the firmware and its stacks")
    note = f"region {region.name!r}; {' and '.join(parts)}"
    return Demand("RAM", fixed + models, region.size, note, at_least=True)


def check_estimate(modules: Sequence[Module], board: Board, workspace: Workspace = "own") -> None:
    """Raise :class:`FitError` where the lower bounds alone are too much."""
    demands = estimate(modules, board, workspace)
    if not all(demand.fits for demand in demands):
        raise fit_error(modules, board, demands, workspace)


def workspace_regions(
    modules: Sequence[Module], board: Board, workspace: Workspace = "own"
) -> list[MemoryRegion]:
    """Regions that can hold the pools that name none, by the estimate; the preferred first."""
    placed = static_bytes(modules, workspace)
    free = placed.get(None, 0)
    return [region for region in board.regions("ram") if _left(board, region, placed) >= free]


@dataclass(frozen=True)
class Layout:
    """Where an image's link puts what is for no region in particular."""

    #: The pools that name no region; None on the host, which places them itself.
    workspace: MemoryRegion | None
    #: By model key the RAM region that the start-up copies the model's constants to; all others'
    #: stay in flash.
    constants: Mapping[str, MemoryRegion]


def layouts(modules: Sequence[Module], board: Board, workspace: Workspace = "own") -> list[Layout]:
    """Return the layouts that the estimate allows, the preferred first; none where no pool fits.

    Copies of constants make no firmware fail: each layout that has some is followed by the same
    without.
    """
    if board.is_host:
        return [Layout(None, {})]
    found = []
    for region in workspace_regions(modules, board, workspace):
        copied = _copied_constants(modules, board, workspace, region)
        found += [Layout(region, copied)] if copied else []
        found.append(Layout(region, {}))
    return found


def _copied_constants(
    modules: Sequence[Module], board: Board, workspace: Workspace, pools: MemoryRegion
) -> dict[str, MemoryRegion]:
    """Return the models whose constants have room where they are read faster than in flash.

    The room is what all else leaves, with ``pools`` the region of the pools that name none. Those
    come first that read each byte most often, as their multiplications say.
    """
    flash_cycles = board.regions("flash")[0].read_cycles
    faster = [r for r in board.regions("ram") if 0 < r.read_cycles < flash_cycles]
    placed = static_bytes(modules, workspace)
    # What alignment and the firmware take beyond the estimate must not cost a second link.
    rooms = {region.name: _left(board, region, placed) - _UNKNOWN_BYTES for region in faster}
    if pools.name in rooms:
        rooms[pools.name] -= placed.get(None, 0) + 2 * GUARD_BYTES
    inside = [m for m in modules if m.constants == "internal" and m.constants_bytes]
    copied: dict[str, MemoryRegion] = {}
    for module in sorted(inside, key=_reads_per_byte, reverse=True):
        size = aligned(module.constants_bytes)
        for region in sorted(faster, key=lambda region: region.read_cycles):
            if size <= rooms[region.name]:
                rooms[region.name] -= size
                copied[model_key(module)] = region
                break
    return copied


def _reads_per_byte(module: Module) -> float:
    return sum(layer.macs for layer in module.layers) / module.constants_bytes


def region_rooms(fixed: Sequence[Module], board: Board, reserved: int = 0) -> dict[str, int]:
    """Return what the estimate leaves of each RAM region for pools that are still to be planned.

    Already there are those of ``fixed``, and ``reserved`` bytes in whatever region has room.
    """
    placed = static_bytes(fixed, "own")
    guards = 2 * GUARD_BYTES
    rooms = {
        region.name: _left(board, region, placed) - (0 if placed.get(region.name) else guards)
        for region in board.regions("ram")
    }
    # A pool that fills the estimate's room to the byte leaves none for what the estimate lacks.
    rooms[board.regions("ram")[0].name] -= _UNKNOWN_BYTES
    unnamed = placed.get(None, 0) + reserved
    # The last region that can take it, so that the first, often the fastest, is for the pools.
    holder = next((name for name in reversed(rooms) if rooms[name] >= unnamed), None)
    if holder is not None:
        rooms[holder] -= unnamed
    return {name: max(0, room // ALIGNMENT * ALIGNMENT) for name, room in rooms.items()}


def linker_demands(log: str, board: Board) -> tuple[Demand, ...]:
    """Exact figures from the linker's complaints; empty when it complained of something else."""
    regions = {region.name: region for region in board.memory}
    demands: dict[str, Demand] = {}
    for name, excess in _OVERFLOW.findall(log):
        region = regions[name]
        resource = "flash" if region.kind == "flash" else "RAM"
        demands[name] = Demand(resource, region.size + int(excess), region.size, f"region {name!r}")
    return tuple(demands.values())


def fit_error(
    modules: Sequence[Module],
    board: Board,
    demands: Sequence[Demand],
    workspace: Workspace = "own",
) -> FitError:
    """Return the error for these demands, of which one at least is not met.

    Resources that they leave out are shown with their estimate.
    """
    known = {demand.resource for demand in demands}
    estimated = estimate(modules, board, workspace)
    demands = [*demands, *(d for d in estimated if d.resource not in known)]
    names = ", ".join(repr(module.name) for module in modules) or "the firmware"
    verb = "does" if len(modules) <= 1 else "do"
    lines = [f"{names} {verb} not fit {board.name}:"]
    for demand in demands:
        excess = "" if demand.fits else f", {demand.needed - demand.had} too few"
        note = f" ({demand.note})" if demand.note else ""
        bound = "at least " if demand.at_least else ""
        lines.append(
            f"  {demand.resource}: {bound}{demand.needed} bytes needed, {demand.had} had"
            f"{excess}{note}"
        )
    short = {demand.resource for demand in demands if not demand.fits}
    if short == {"stack"}:
        hint = f"raise stack_bytes in {board.path}"
    else:
        # A lower bound counts constants, not code, so smaller code cannot mend it.
        is_code = any(d.resource == "flash" and not d.fits and not d.at_least for d in demands)
        smaller = "compile with --optimize size, " if is_code else ""
        hint = f"{smaller}take a smaller model, or a board with more memory (see hil boards)"
    return FitError("\n".join(lines), hint, demands)


def room(board: Board, region: MemoryRegion) -> int:
    """Return the RAM that the firmware leaves of a region; its data and stacks are in the first."""
    if region is not board.regions("ram")[0]:
        return region.size
    link = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    return region.size - link - board.stack_bytes - board.handler_stack_bytes


def _left(board: Board, region: MemoryRegion, placed: Mapping[str | None, int]) -> int:
    """Room for pools that name no region, beside those that name this one."""
    return room(board, region) - placed.get(region.name, 0)
