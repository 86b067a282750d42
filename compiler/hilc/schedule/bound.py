"""Lower bound of the workspace of every plan of a model: of any division of its layers, in their
order, into single layers and fused groups, with any kernels.

A segment of layers takes at least what is live at its fullest moment: the tensors around it, the
rows of its inputs that are still to be read, the rows between its layers, the rows of its output
that are written, and the least scratch that a kernel has there. That holds wherever these lie. A
plan is as large as its largest segment, so the bound is the least that the largest segment of a
division can be, over all divisions: a shortest path, with the maximum in place of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from hilc.fusion.bands import NotFusible
from hilc.lowering.choice import Group
from hilc.memory.plan import Planner
from hilc.schedule.estimate import Estimator
from hilc.schedule.policy import POLICY, SearchPolicy


def least_workspace(planner: Planner, known: int, policy: SearchPolicy = POLICY) -> int:
    """Return a lower bound of the workspace in bytes of any plan of ``planner``'s graph.

    ``known`` is the workspace of a plan: segments that take as much are not looked at.
    """
    estimator = Estimator(planner, None, "balanced", policy)
    count = len(estimator.nodes)
    least = [0] + [known] * count
    for last in range(count):
        for first in range(last, -1, -1):
            at_least = max(least[first], estimator.least_memory_bound(first, last))
            if at_least >= least[last + 1]:
                continue
            for bound in _bounds(planner, estimator, policy, first, last):
                least[last + 1] = min(least[last + 1], max(at_least, bound))
    return least[-1]


def _bounds(
    planner: Planner, estimator: Estimator, policy: SearchPolicy, first: int, last: int
) -> Iterator[int]:
    """Yield lower bounds of the layers ``first`` to ``last`` in each way to run them at once."""
    if first == last:
        yield from (segment.memory_bound for segment in estimator.singles(first))
    names = tuple(node.name for node in estimator.nodes[first : last + 1])
    for rows in policy.fused_rows:
        groups = [Group(names, rows), Group(names, rows, "backward")]
        sliced = Group(names, rows, sliced=policy.slice_channels)
        groups += [sliced] if planner.lowering.has_expansions(sliced) else []
        for group in groups:
            try:
                outlines = planner.lowering.least_outlines(group)
            except NotFusible:
                continue
            yield estimator.group_memory_bound(first, last, outlines)
