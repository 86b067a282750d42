"""Whether a firmware fits its board: by an estimate before the build, by the linker after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hil.board import Board, MemoryRegion
from hil.errors import BuildError
from hilc.library import Module

_OVERFLOW = re.compile(r"region [`'](\w+)' overflowed by (\d+) bytes?")
_POOL_ALIGNMENT = 16
# sizeof the structs of hil_model.h on a 32-bit core.
_MODEL_BYTES, _TENSOR_BYTES, _LAYER_BYTES = 28, 20, 16


class FitError(BuildError):
    """The firmware does not fit the board; the message has what is needed and what there is."""


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


def workspace_bytes(modules: Sequence[Module]) -> int:
    """Static RAM that the models' pools and buffers take."""
    total = 0
    for module in modules:
        sizes = [module.workspace_bytes]
        if not module.io_in_pool:
            sizes += [tensor.nbytes for tensor in (*module.inputs, *module.outputs)]
        total += sum(_aligned(size) for size in sizes)
    return total


def description_bytes(module: Module) -> int:
    """Flash that the firmware's description of a model takes: hil_model.h's structs, their texts.

    A lower bound: a text that ends another may be kept within that one.
    """
    outputs = [tensor for layer in module.layers for tensor in layer.outputs]
    tensors = [*module.inputs, *module.outputs, *outputs]
    names = [module.name, *(tensor.name for tensor in tensors)]
    texts = {name.encode() for name in (*names, *(layer.name for layer in module.layers))}
    texts = {a for a in texts if not any(a != b and b.endswith(a) for b in texts)}
    structs = _MODEL_BYTES + _TENSOR_BYTES * len(tensors) + _LAYER_BYTES * len(module.layers)
    shapes = sum(4 * len(shape) for shape in {tensor.shape for tensor in tensors})
    return structs + shapes + sum(len(text) + 1 for text in texts)


def estimate(modules: Sequence[Module], board: Board) -> tuple[Demand, Demand, Demand]:
    """Lower bounds of flash, RAM and stack; RAM is that of the region which has most room."""
    code = board.regions("flash")[0]
    flash = board.base.flash_bytes
    flash += sum(module.constants_bytes + description_bytes(module) for module in modules)
    workspace = workspace_bytes(modules)
    region = max(board.regions("ram"), key=lambda region: _room(board, region))
    fixed = region.size - _room(board, region)
    parts = [f"{workspace} for the models"]
    if fixed:
        parts.append(f"{fixed} for the firmware and its stacks")
    return (
        Demand("flash", flash, code.size, f"region {code.name!r}", at_least=True),
        Demand(
            "RAM",
            fixed + workspace,
            region.size,
            f"region {region.name!r}; {' and '.join(parts)}",
            at_least=True,
        ),
        Demand("stack", board.base.stack_bytes, board.stack_bytes, at_least=True),
    )


def check_estimate(modules: Sequence[Module], board: Board) -> None:
    """Raises :class:`FitError` where the lower bounds alone are too much."""
    demands = estimate(modules, board)
    if not all(demand.fits for demand in demands):
        raise fit_error(modules, board, demands)


def workspace_regions(modules: Sequence[Module], board: Board) -> list[MemoryRegion]:
    """Regions that can hold the models' pools by the estimate, in the order of preference."""
    workspace = workspace_bytes(modules)
    return [region for region in board.regions("ram") if _room(board, region) >= workspace]


def linker_demands(log: str, board: Board) -> tuple[Demand, ...]:
    """Exact figures from the linker's complaints; empty when it complained of something else."""
    regions = {region.name: region for region in board.memory}
    demands: dict[str, Demand] = {}
    for name, excess in _OVERFLOW.findall(log):
        region = regions[name]
        resource = "flash" if region.kind == "flash" else "RAM"
        demands[name] = Demand(resource, region.size + int(excess), region.size, f"region {name!r}")
    return tuple(demands.values())


def fit_error(modules: Sequence[Module], board: Board, demands: Sequence[Demand]) -> FitError:
    """The error for these demands, of which one at least is not met.

    Resources that they leave out are shown with their estimate.
    """
    known = {demand.resource for demand in demands}
    demands = [*demands, *(d for d in estimate(modules, board) if d.resource not in known)]
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
    return FitError("\n".join(lines), hint)


def _room(board: Board, region: MemoryRegion) -> int:
    """What the firmware itself leaves of a RAM region; its data and stacks are in the first."""
    if region is not board.regions("ram")[0]:
        return region.size
    link = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    return region.size - link - board.stack_bytes - board.handler_stack_bytes


def _aligned(size: int) -> int:
    return -(-max(size, 1) // _POOL_ALIGNMENT) * _POOL_ALIGNMENT
