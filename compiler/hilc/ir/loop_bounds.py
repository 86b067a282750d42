"""Bounds of loops, and the statuses by which a model's function reports that one is exceeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.errors import LoopBoundError

#: What a model's function returns where the first of its loops with a bound would exceed it; the
#: second returns one less, and so on. Any other failure is -1.
FIRST_STATUS = -2


@dataclass(frozen=True)
class LoopBound:
    """The bound of a loop."""

    #: Name of the loop: the one by which the bound was stated.
    name: str
    #: The most turns.
    turns: int

    def __str__(self) -> str:
        return f"the loop of {self.name!r} exceeds {self.turns:,} turns"


def exceeded(bounds: Sequence[LoopBound], status: int) -> LoopBoundError | None:
    """Return the error of a model's function that returns ``status``, where one of the model's
    loops has exceeded its bound; else None.
    """
    index = FIRST_STATUS - status
    if not 0 <= index < len(bounds):
        return None
    return LoopBoundError.of(bounds[index].name, bounds[index].turns)


def exceeded_unnamed(status: int) -> LoopBoundError | None:
    """Return the error for a status like :func:`exceeded`, of a model whose loops are not known
    here: only their number is.
    """
    number = FIRST_STATUS - status + 1
    if number < 1:
        return None
    return LoopBoundError(
        f"the model returned {status}: loop {number} of its loops with a bound exceeds that bound",
        "give inputs for which it makes fewer turns, or build the firmware with a higher bound; "
        "with the model or its library, the error names the loop",
    )
