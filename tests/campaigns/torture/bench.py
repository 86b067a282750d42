"""A bench of ten fake boards, used by several workers while boards and users fail."""

from __future__ import annotations

import sys
import time

from bench_rounds import ALLOWED, KINDS, rounds

from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "A bench of ten boards"
ABOUT = """Ten emulated boards of six kinds, programmed by three flashers: pyOCD, a user's program
(`command`) and a drive (`uf2`). QEMU emulates the machines; the probes are virtual. The user's
program, the boot loader behind the drive and the lock of a chip are stand-ins. In each round,
`pytest -n 4` and three commands use all boards with the digits model. During a round, boards are
unplugged, return under another name, appear late (`--wait`), are dead or locked, keep another
firmware, or have wrong constants in memory; SIGKILL ends a worker; and SIGTERM, SIGINT or SIGKILL
cancels commands or the suite at random times. The expected result follows from the fault: a sound
or late board matches, a board with wrong constants differs, a dead or locked board or one with
another firmware fails with that cause, and an unplugged board may do either. Findings: any other
result, two processes on one port, a command that hangs, a test without a name, a board that does
not match after the round, and locks, processes, temporary files or cache growth that remain."""

WORKERS = 4


def run(budget: Budget) -> Counts:
    """Do rounds for so many minutes."""
    seconds = 60 * budget.count(5, 60)
    counts = Counts([])
    with rounds(budget.seed, KINDS, workers=WORKERS) as bench:
        begin, number = time.monotonic(), 0
        with budget.until_stopped():
            while time.monotonic() - begin < seconds:
                bench.round(number)
                number += 1
                spent = time.monotonic() - begin
                uses = sum(bench.uses.values())
                print(f"{number} rounds, {uses} uses, {spent:.0f} s", file=sys.stderr, flush=True)
        for (what, outcome), count in sorted(bench.uses.items()):
            counts += Counts([{"board": what, "outcome": outcome, "uses": count}])
        for event, count in sorted(bench.events.items()):
            counts += Counts([{"event": event, "count": count}])
        how = f"bench_rounds.rounds: {budget.seed}"
        return counts + Counts([], [Finding(what, f"{how}; {at}") for what, at in bench.findings])


def figures(counts: Counts) -> Figures:
    """Return what boards answered, by what was done to them, and how often things were done."""
    outcomes = ("match", "differ", "failed", "cancelled", "crashed")
    uses = {(r["board"], r["outcome"]): r["uses"] for r in counts.rows if "outcome" in r}
    events = {r["event"]: r["count"] for r in counts.rows if "event" in r}
    rows = [
        [
            what,
            f"{events[what]:,}" if what in events else "",
            *(f"{uses.get((what, outcome), 0):,}" for outcome in outcomes),
        ]
        for what in (*ALLOWED, "no board")
    ]
    done = ", ".join(f"{e} {n:,}" for e, n in events.items() if e not in ALLOWED and e != "rounds")
    notes = [
        f"{events.get('rounds', 0):,} rounds. Signals: {done}.",
        "Uses are tests, attempts of tests that ran again on another board, and commands. Those of "
        "no board are tests of a worker that was killed, and suites that were cancelled.",
    ]
    heads = ["board", "times", "match", "differ", "failed", "cancelled", "worker killed"]
    return Figures(heads, rows, counts.findings, notes)
