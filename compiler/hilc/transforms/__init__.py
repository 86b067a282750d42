"""The transforms in the order of execution; each takes and returns a valid graph.

A transform does not change any result of the graph, as :mod:`hilc.interpreter` computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hilc.ir import Graph
from hilc.ops.verify import verify
from hilc.transforms.drop_identities import drop_identities
from hilc.transforms.fold_constants import fold_constants
from hilc.transforms.fold_pad import fold_pad
from hilc.transforms.fuse_activation import fuse_activation
from hilc.transforms.loop_invariants import loop_invariants
from hilc.transforms.remove_dead import remove_dead
from hilc.transforms.sink_transposes import sink_transposes

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_constants,
    drop_identities,
    loop_invariants,
    # The padding of a convolution, before transposes come between them, and what sinks to one. It
    # and fuse_activation depend on the readers of a tensor; dead readers must not count.
    remove_dead,
    fold_pad,
    sink_transposes,
    remove_dead,
    fold_pad,
    fuse_activation,
    remove_dead,
)


def run_passes(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """Return the graph after ``passes``, verified before the first and after each."""
    verify(graph)
    for transform in passes:
        before, graph = graph, transform(graph)
        verify(graph, before)
    return graph
