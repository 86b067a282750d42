"""Nodes from the names of their operators, for tests that draw operators by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilc.ir import Node
from hilc.ops import OPS


def make_node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], index: int = 0, **attributes: Any
) -> Node:
    """A node whose attributes are of its operator's class."""
    return Node(op, tuple(inputs), tuple(outputs), OPS[op].attributes(**attributes), index)
