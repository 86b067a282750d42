"""Transforms of the graphs that a node calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from hilc.ir import Graph, Node
from hilc.ops import OPS


def with_called(node: Node, transform: Callable[[Graph], Graph]) -> Node:
    """Return the node with ``transform`` applied to each graph that it calls (IF, WHILE)."""
    # Unknown operators are refused later.
    if node.op not in OPS or OPS[node.op].control is None:
        return node
    values = {f.name: getattr(node.attrs, f.name) for f in fields(node.attrs)}
    graphs = {name: transform(value) for name, value in values.items() if isinstance(value, Graph)}
    return replace(node, attrs=replace(node.attrs, **graphs))
