"""Pools: the blocks of memory that a program works in."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.support.arguments import check_fields


@dataclass(frozen=True)
class PoolSpec:
    """Memory available to a plan: at most ``limit_bytes``, in the board's memory region
    ``region``.
    """

    name: str = "global_workspace"
    #: None: as much as the model needs.
    limit_bytes: int | None = None
    #: None: the build chooses.
    region: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Pin:
    """Required location of a model input or output: an offset in bytes from the start of a pool."""

    offset: int
    #: Index of the pool among those available to the plan.
    pool: int = 0

    def __post_init__(self) -> None:
        check_fields(self)


#: The pool that holds the states of a model, the last of its pools.
STATE_POOL = "global_state"


@dataclass(frozen=True)
class Pool:
    """One block of memory of a module, laid out at compile time."""

    #: C identifier: the field of ``struct <symbol>_workspace_pools`` and the stem of its macro.
    name: str
    nbytes: int
    #: Memory region of the board that it has to be in; None for any.
    region: str | None
    #: Whether its content survives from one run to the next: no other model may use it.
    persistent: bool = False

    def is_static(self, pools: str) -> bool:
        """Return whether it is a static array of a library whose option ``pools`` is this word.

        An allocation for a run cannot hold what survives it.
        """
        return pools == "internal" or (pools == "calls" and self.persistent)
