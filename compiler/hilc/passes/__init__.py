"""The passes, in the order in which they run; each takes and gives a valid graph.

A pass never changes what the graph computes, not by one bit: :mod:`hilc.interpreter` is the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilc.ir import Graph
from hilc.passes.drop_identities import drop_identities
from hilc.passes.fold_constants import fold_constants
from hilc.passes.fold_pad import fold_pad
from hilc.passes.fuse_activation import fuse_activation
from hilc.passes.remove_dead import remove_dead
from hilc.verify import verify

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_constants,
    drop_identities,
    # The next two ask who reads a tensor; a reader that nobody needs must not count.
    remove_dead,
    fold_pad,
    fuse_activation,
    remove_dead,
)


def run_passes(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """The graph after ``passes``, verified before the first and after each."""
    verify(graph)
    for transform in passes:
        before, graph = graph, transform(graph)
        verify(graph, before)
    return graph
