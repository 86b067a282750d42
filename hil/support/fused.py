"""Operators of layers that are computed together, as commands show them."""

from __future__ import annotations

from collections.abc import Sequence

#: Operators of a group that are all named; of a longer one the first and the last.
_MOST_NAMED = 3


def group_text(op: str, ops: Sequence[str]) -> str:
    """Return the operators ``ops`` of a fused group as ``CONV_2D + MAX_POOL_2D``, or ``op``."""
    if not ops:
        return op
    if len(ops) <= _MOST_NAMED:
        return " + ".join(ops)
    return f"{ops[0]} + {len(ops) - 2} more + {ops[-1]}"
