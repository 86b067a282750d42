"""RAM of the models of one image, and its regions on the board.

A model compiled with external pools gets them from the firmware: its own, or, in an image with a
shared workspace, the same bytes as all others. Models that allocate at run time always share one
arena, since only one of them runs at a time.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

from hil.board import Board
from hil.errors import InputError
from hilc.artifact.library import Module

#: Each model has its own workspace, or all work in the same bytes, one after the other.
Workspace = Literal["own", "shared"]

#: Every pool and buffer starts at a multiple of this.
ALIGNMENT = 16

#: Bytes below the pools of a region, and as many above, that notice who writes beside them.
GUARD_BYTES = 16


def aligned(size: int) -> int:
    """``size`` rounded up to what a block takes beside others."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def check_placement(modules: Sequence[Module], board: Board, workspace: str) -> Workspace:
    """``workspace`` as one of its words; raises InputError where the models do not go with it."""
    if workspace not in get_args(Workspace):
        raise InputError(
            f"workspace={workspace} is not available",
            f"choose {' or '.join(get_args(Workspace))}",
        )
    if workspace == "shared":
        for module in modules:
            _check_shareable(module)
    if not board.is_host:
        _check_regions(modules, board)
    return "shared" if workspace == "shared" else "own"


def arena_bytes(modules: Sequence[Module]) -> int:
    """Size of the block from which the models that allocate at run time take their memory."""
    return max((aligned(m.workspace_bytes) for m in modules if m.pools == "calls"), default=0)


def pools_bytes(modules: Sequence[Module], workspace: Workspace) -> dict[str | None, int]:
    """Bytes of the models' planned pools by region; None is the firmware's choice."""
    total: Counter[str | None] = Counter()
    largest: Counter[str | None] = Counter()
    states: Counter[str | None] = Counter()
    for module in modules:
        own = _module_pools(module)
        total += own
        largest |= own
        states += _state_pools(module)
    return dict((largest if workspace == "shared" else total) + states)


def shared_bytes(modules: Sequence[Module]) -> dict[str | None, int]:
    """Size of the block in each region that all models with external pools work in."""
    largest: Counter[str | None] = Counter()
    for module in modules:
        if module.pools == "external":
            largest |= _module_pools(module)
    return dict(largest)


#: Models and workspace of the last answer of :func:`static_bytes`, and the answer.
_LAST: tuple[tuple[Module, ...], Workspace, Mapping[str | None, int]] | None = None


def static_bytes(modules: Sequence[Module], workspace: Workspace) -> Mapping[str | None, int]:
    """All static RAM of the models by region: pools, guards, arena, buffers of inputs and outputs.

    Pools that name no region have their guards where the firmware's base is counted. The plan of an
    image, its estimate and its layouts ask for the same models: these are added up once.
    """
    global _LAST
    last = _LAST
    if last is not None and last[1] == workspace and _are_same(last[0], modules):
        return last[2]
    found = MappingProxyType(_summed(modules, workspace))
    _LAST = (tuple(modules), workspace, found)
    return found


def _are_same(some: Sequence[Module], others: Sequence[Module]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _summed(modules: Sequence[Module], workspace: Workspace) -> dict[str | None, int]:
    total: Counter[str | None] = Counter(pools_bytes(modules, workspace))
    for region, nbytes in total.items():
        if region is not None and nbytes:
            total[region] += 2 * GUARD_BYTES
    total[None] += arena_bytes(modules)
    for module in modules:
        total[None] += sum(buffer_bytes(module))
    return dict(total)


def buffer_bytes(module: Module) -> list[int]:
    """Return the size of each input's and output's buffer; none where the pools hold them."""
    # Rows that are fed have none.
    tensors = [*(() if module.fed_rows else module.inputs), *module.outputs]
    return [aligned(tensor.nbytes) for tensor in tensors if tensor.offset is None]


def _module_pools(module: Module) -> Counter[str | None]:
    """Bytes of the pools in which one model works, by region, each rounded up."""
    found: Counter[str | None] = Counter()
    if module.pools == "calls":
        return found
    if not module.workspace_pools:
        # They are somewhere inside the model's code.
        found[None] = aligned(module.workspace_bytes)
    for pool in module.workspace_pools:
        if not pool.persistent:
            found[pool.region] += aligned(pool.nbytes)
    return found


def _state_pools(module: Module) -> Counter[str | None]:
    """Bytes of one model's states by region; states are never shared between models."""
    pools = (pool for pool in module.workspace_pools if pool.persistent)
    return Counter({pool.region: aligned(pool.nbytes) for pool in pools})


def _check_shareable(module: Module) -> None:
    if module.pools == "internal":
        raise InputError(
            f"the workspace of {module.name!r} is part of its code, so no other model can use it",
            "compile it with pools=external, or give each model its own workspace",
        )
    if module.fed_rows:
        raise InputError(
            f"the rows of {module.name!r} are fed to its workspace before a run, where another "
            "model's run would destroy them",
            "compile it with --feed whole, or give each model its own workspace",
        )
    if module.io_in_pool:
        raise InputError(
            f"the inputs and outputs of {module.name!r} lie in its workspace, where another "
            "model's run would destroy them",
            "compile it without io_in_pool, or give each model its own workspace",
        )


def _check_regions(modules: Sequence[Module], board: Board) -> None:
    names = [region.name for region in board.regions("ram")]
    for module in modules:
        for pool in module.workspace_pools:
            if pool.region is not None and pool.region not in names:
                raise InputError(
                    f"the pool {pool.name!r} of {module.name!r} is for the memory region "
                    f"{pool.region!r}, which {board.name} does not have",
                    f"its RAM regions are {', '.join(names)}: compile the model for this board",
                )
