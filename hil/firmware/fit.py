"""Fit of a firmware on its board: by an estimate before the build, by the linker after it."""

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
# Maximum static data of a firmware beyond its lower bound, which tests verify: alignment, and 112
# bytes of the C library where functions of floats report errors.
UNKNOWN_BYTES = 256
# sizeof the structs of hil_model.h on a 32-bit core.
_MODEL_BYTES, _TENSOR_BYTES, _LAYER_BYTES = 28, 20, 16


class FitError(BuildError):
    """The firmware does not fit the board; the message has the needed and the available bytes."""

    def __init__(self, fact: str, hint: str, demands: Sequence[Demand]) -> None:
        super().__init__(fact, hint)
        self.demands = tuple(demands)


@dataclass(frozen=True)
class Demand:
    """Needed and available bytes of one resource."""

    resource: str
    needed: int
    had: int
    #: The part that needs the bytes, or the region that has them.
    note: str = ""
    #: Whether ``needed`` is a lower bound.
    at_least: bool = False

    @property
    def fits(self) -> bool:
        """Whether the available bytes suffice."""
        return self.needed <= self.had


def description_bytes(module: Module) -> int:
    """Return the flash of the firmware's description of a model: structs of hil_model.h, texts.

    A lower bound: a text that is the end of another may share its bytes.
    """
    outputs = [tensor for layer in module.called_layers for tensor in layer.outputs]
    tensors = [*module.inputs, *module.outputs, *module.states, *outputs]
    borders = (tensor.name for tensor in (*module.inputs, *module.outputs, *module.states))
    inner = [tensor.name for tensor in outputs] + [layer.name for layer in module.called_layers]
    texts = {name.encode() for name in (module.name, *borders, *map(own_name, inner))}
    texts = {a for a in texts if not any(a != b and b.endswith(a) for b in texts)}
    structs = _MODEL_BYTES + _TENSOR_BYTES * len(tensors) + _LAYER_BYTES * len(module.called_layers)
    shapes = sum(4 * len(shape) for shape in {tensor.shape for tensor in tensors})
    return structs + shapes + sum(len(text) + 1 for text in texts)


def estimate(
    modules: Sequence[Module], board: Board, workspace: Workspace = "own"
) -> tuple[Demand, ...]:
    """Return lower bounds of flash, RAM and stack.

    RAM is that of the region with most free bytes, then of each region that a pool names.
    """
    code = board.regions("flash")[0]
    flash = board.base.flash_bytes
    elsewhere = _constants_elsewhere(modules, board)
    for module in modules:
        flash += description_bytes(module)
        flash += 0 if model_key(module) in elsewhere else module.constants_bytes
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
    """Raise :class:`FitError` if the lower bounds exceed the board."""
    demands = estimate(modules, board, workspace)
    if not all(demand.fits for demand in demands):
        raise fit_error(modules, board, demands, workspace)


def workspace_regions(
    modules: Sequence[Module], board: Board, workspace: Workspace = "own"
) -> list[MemoryRegion]:
    """Return the regions that can hold pools without a region, by the estimate; the preferred
    first.
    """
    placed = static_bytes(modules, workspace)
    free = placed.get(None, 0)
    return [region for region in board.regions("ram") if _left(board, region, placed) >= free]


@dataclass(frozen=True)
class Layout:
    """Regions of an image for sections that have none."""

    #: Region of the pools without one; None on the host.
    workspace: MemoryRegion | None
    #: Region for the model's constants, by model key: RAM, to which they are copied, or flash other
    #: than the first; other models' stay in that.
    constants: Mapping[str, MemoryRegion]


def layouts(modules: Sequence[Module], board: Board, workspace: Workspace = "own") -> list[Layout]:
    """Return the layouts that the estimate permits, the preferred first; empty if no pool fits.

    A firmware never fails because of copied constants: each layout with copies is followed by the
    same without. Where the first flash region has no room for everything, constants lie in others.
    """
    if board.is_host:
        return [Layout(None, {})]
    found = []
    elsewhere = _constants_elsewhere(modules, board)
    for region in workspace_regions(modules, board, workspace):
        copied = _copied_constants(modules, board, workspace, region)
        found += [Layout(region, copied)] if copied else []
        found.append(Layout(region, {}))
        found += [Layout(region, elsewhere)] if elsewhere else []
    return found


def _constants_elsewhere(modules: Sequence[Module], board: Board) -> dict[str, MemoryRegion]:
    """Return the models whose constants fit into flash regions behind the first, the largest
    first; none has its own there.
    """
    _, *others = board.regions("flash")
    rooms = {region.name: region.size for region in others}
    inside = [m for m in modules if m.constants != "external" and m.constants_bytes]
    found: dict[str, MemoryRegion] = {}
    for module in sorted(inside, key=lambda module: module.constants_bytes, reverse=True):
        size = aligned(module.constants_bytes)
        for region in others:
            if size <= rooms[region.name]:
                rooms[region.name] -= size
                found[model_key(module)] = region
                break
    return found


def _copied_constants(
    modules: Sequence[Module], board: Board, workspace: Workspace, pools: MemoryRegion
) -> dict[str, MemoryRegion]:
    """Return the models whose constants fit into a region that is faster than flash.

    They use the bytes that remain, with ``pools`` the region of pools without one. Models that read
    each byte most often come first, judged by their multiplications.
    """
    flash_cycles = board.regions("flash")[0].read_cycles
    faster = [r for r in board.regions("ram") if 0 < r.read_cycles < flash_cycles]
    placed = static_bytes(modules, workspace)
    # Alignment and firmware data beyond the estimate must not cost a second link.
    rooms = {region.name: _left(board, region, placed) - UNKNOWN_BYTES for region in faster}
    if pools.name in rooms:
        rooms[pools.name] -= placed.get(None, 0) + 2 * GUARD_BYTES
    inside = [m for m in modules if m.constants != "external" and m.constants_bytes]
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
    """Return the estimated free bytes of each RAM region for pools that are still to be planned.

    ``fixed`` are already placed, and ``reserved`` bytes in any region with space.
    """
    placed = static_bytes(fixed, "own")
    guards = 2 * GUARD_BYTES
    rooms = {
        region.name: _left(board, region, placed) - (0 if placed.get(region.name) else guards)
        for region in board.regions("ram")
    }
    # A pool that fills all free bytes leaves none for the error of the estimate.
    rooms[board.regions("ram")[0].name] -= UNKNOWN_BYTES
    unnamed = placed.get(None, 0) + reserved
    # The last possible region, to keep the first, often the fastest, for the pools.
    holder = next((name for name in reversed(rooms) if rooms[name] >= unnamed), None)
    if holder is not None:
        rooms[holder] -= unnamed
    return {name: max(0, room // ALIGNMENT * ALIGNMENT) for name, room in rooms.items()}


def linker_demands(log: str, board: Board) -> tuple[Demand, ...]:
    """Return exact figures from the linker's errors; empty for other errors."""
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
    """Return the error for these demands, of which at least one is not met.

    Other resources are shown with their estimate.
    """
    known = {demand.resource for demand in demands}
    estimated = estimate(modules, board, workspace)
    demands = [*demands, *(d for d in estimated if d.resource not in known)]
    names = ", ".join(repr(module.name) for module in modules) or "the firmware"
    verb = "does" if len(modules) <= 1 else "do"
    lines = [f"{names} {verb} not fit {board.name}:"]
    for demand in demands:
        excess = "" if demand.fits else f", {demand.needed - demand.had:,} too few"
        note = f" ({demand.note})" if demand.note else ""
        bound = "at least " if demand.at_least else ""
        lines.append(
            f"  {demand.resource}: {bound}{demand.needed:,} bytes needed, {demand.had:,} available"
            f"{excess}{note}"
        )
    short = {demand.resource for demand in demands if not demand.fits}
    if short == {"stack"}:
        hint = f"raise stack_bytes in {board.path}"
    else:
        # A lower bound counts constants, not code, so smaller code cannot help.
        is_code = any(d.resource == "flash" and not d.fits and not d.at_least for d in demands)
        smaller = "compile with --optimize size, " if is_code else ""
        hint = (
            f"{smaller}take a smaller model, or a board with more memory; `hil fit` says which "
            "goal or board holds it"
        )
    return FitError("\n".join(lines), hint, demands)


def room(board: Board, region: MemoryRegion) -> int:
    """Return the free bytes of a region beside the firmware; its data and stacks are in the
    first.
    """
    if region is not board.regions("ram")[0]:
        return region.size
    link = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    return region.size - link - board.stack_bytes - board.handler_stack_bytes


def _left(board: Board, region: MemoryRegion, placed: Mapping[str | None, int]) -> int:
    """Return the free bytes for pools without a region, beside those that name this one."""
    return room(board, region) - placed.get(region.name, 0)
