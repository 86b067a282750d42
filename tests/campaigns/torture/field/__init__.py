"""Power, disks, signals, clocks and neighbours, as they are in the field."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torture.campaign import Budget, Counts, Figures
from torture.field.disk import full, read_only
from torture.field.forked import Forked
from torture.field.killed import jumping, killed
from torture.field.power import lost
from torture.field.resets import resets
from torture.field.shared import shared
from torture.field.tally import Tally
from torture.field.world import JOBS, world

TITLE = "In the field"
ABOUT = """Faults of laboratories and desks. Power: a board loses power during a transfer of its
debug probe while pyOCD programs it, or restarts at a frame of a session. Disk: from the n-th write
of a command on, or for one write in any of its processes, the disk is full; or the cache is
read-only. Processes: SIGKILL ends the harness at a random time, or two harnesses open one serial
port or one probe. Clock: it jumps by hours, weeks and decades, twenty times a second. After each
attack the same job runs undisturbed and must be correct. Findings: a wrong or partial result that
counts as correct, a message without the reason, a traceback, a command that hangs, and a process, a
held lock or probe, or a temporary or partially written file that remains. Only the board loses
power, not the machine: files are replaced by renaming without a sync to disk, and a digest protects
the cache's content."""

#: How an attack ends, as a tally has it.
_ENDS = ("went on", "told", "findings")


def run(budget: Budget) -> Counts:
    """Attack in all these ways."""
    counts = Counts([])
    start = time.monotonic()
    with _quiet(), budget.until_stopped():
        for tally in _all(budget):
            counts += Counts([tally.row()], tally.findings)
            for finding in tally.findings:
                print(f"{finding.what}: {finding.how}", file=sys.stderr, flush=True)
            print(f"{time.monotonic() - start:6.0f} s  {tally.row()}", flush=True)
    return counts


def figures(counts: Counts) -> Figures:
    """Return how the attacks of each kind ended."""
    heads = ("attack", "on", "attacks", "continued", "error reported", "findings")
    rows = []
    for row in counts.rows:
        numbers = [row[end] for end in _ENDS]
        rows.append([row["attack"], row["on"], f"{sum(numbers):,}", *(f"{n:,}" for n in numbers)])
    return Figures(heads, rows, counts.findings)


def _all(budget: Budget) -> Iterator[Tally]:
    yield from lost(budget)
    yield from resets(budget)
    with world() as made, Forked(made.environment) as one, Forked(made.environment) as other:
        made.prepare(one, JOBS)
        yield from full(made, one, budget)
        yield from read_only(made, one)
        yield from killed(made, one, budget)
        yield from jumping(made, one, budget)
        yield from shared(made, (one, other), budget)


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: recovery tells each of its steps."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
