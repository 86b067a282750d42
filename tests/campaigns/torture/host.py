"""The host against boards that lie, in scripted sessions."""

from __future__ import annotations

import collections
import contextlib
import multiprocessing
import os
import resource
import signal
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from types import FrameType

import hostile_sessions
from hostile_sessions import Outcome

from torture import campaign
from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "The host against a hostile board"
ABOUT = """The host's client and device, connected to a hostile board in memory that knows the
protocol. The board sends wrong values, lengths and statuses, the largest possible sizes, answers of
other sessions and sequence numbers, damaged frames, lost, repeated and reordered answers,
unrequested events, endless streams, single bytes with pauses, silence, restarts, progress of
endless runs, and noise. The clock is simulated, so that a wait of a minute takes a millisecond.
Each session must be answered or end with one error of the board (`DeviceError`, exit code 4), in
bounded time and memory. Under an attack that changes no valid frame, returned values must be
correct. The memory of one session in 500 is traced."""

#: Sessions of a piece of work.
_PIECE = 500
_PROCESSES = 2
#: Real time of a session that takes milliseconds.
_HANG_S = 120
#: By how much a process may grow over all of its sessions.
_GROWTH_BYTES = 64 << 20
#: Findings that are described; all are counted.
_FINDINGS = 50


@dataclass
class Tally:
    """What came of the sessions of one attack."""

    sessions: int = 0
    errors: int = 0
    findings: int = 0
    waited_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0

    def add(self, other: Tally) -> None:
        """Count ``other`` as well."""
        self.sessions += other.sessions
        self.errors += other.errors
        self.findings += other.findings
        self.waited_s = max(self.waited_s, other.waited_s)
        self.cpu_s = max(self.cpu_s, other.cpu_s)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)


@dataclass
class Piece:
    """What came of consecutive sessions."""

    tallies: dict[str, Tally] = field(default_factory=lambda: collections.defaultdict(Tally))
    findings: list[tuple[int, Outcome]] = field(default_factory=list)
    process: int = 0
    #: Greatest memory of the process so far.
    rss_bytes: int = 0


def _hangs(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"it hangs: {_HANG_S} s of real time")


def _piece(seed: int, first: int) -> Piece:
    piece = Piece(process=os.getpid())
    signal.signal(signal.SIGALRM, _hangs)
    with hostile_sessions.arena() as arena:
        for number in range(first, first + _PIECE):
            # Another attack is traced each time.
            is_traced = number == first + first // _PIECE % len(hostile_sessions.ATTACKS)
            signal.alarm(_HANG_S)  # until that of the next one
            one = arena.one(seed, number, trace=is_traced)
            tally = Tally(
                1, bool(one.error), bool(one.finding), one.waited_s, one.cpu_s, one.peak_bytes
            )
            piece.tallies[one.attack].add(tally)
            if one.finding:
                piece.findings.append((number, one))
    signal.alarm(0)
    piece.rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return piece


def _pieces(budget: Budget, sessions: int) -> Generator[Piece, None, None]:
    """Yield what came of all pieces."""
    context = multiprocessing.get_context("spawn")
    # Unlike multiprocessing's pool, it notices the end of a process.
    with ProcessPoolExecutor(_PROCESSES, context, campaign.unstoppable) as pool:
        work = [pool.submit(_piece, budget.seed, first) for first in range(0, sessions, _PIECE)]
        try:
            for done in as_completed(work):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run(budget: Budget) -> Counts:
    """Hold 100,000 sessions, or a million."""
    total: dict[str, Tally] = collections.defaultdict(Tally)
    findings: list[Finding] = []
    #: By process: its memory after its first piece, and the most of it.
    memory: dict[int, tuple[int, int]] = {}
    pieces = _pieces(budget, budget.count(minutes=100_000, hours=1_000_000))
    with budget.until_stopped(), contextlib.closing(pieces):
        for piece in pieces:
            for attack, tally in piece.tallies.items():
                total[attack].add(tally)
            first, most = memory.get(piece.process, (piece.rss_bytes, 0))
            memory[piece.process] = first, max(most, piece.rss_bytes)
            for number, one in piece.findings[: _FINDINGS - len(findings)]:
                what = f"session {number} ({one.attack}): {one.finding}"[:300]
                how = f"arena.one(seed={budget.seed}, number={number})"
                findings.append(Finding(what, how))
    growth = max((most - first for first, most in memory.values()), default=0)
    if growth > _GROWTH_BYTES:
        findings.append(
            Finding(f"a process grew by {growth} bytes", "python tools/measure.py torture host")
        )
    rows = [
        {
            "attack": attack,
            "sessions": tally.sessions,
            "errors": tally.errors,
            "findings": tally.findings,
            "most_waited_s": round(tally.waited_s, 1),
            "most_cpu_s": round(tally.cpu_s, 3),
            "most_bytes": tally.peak_bytes,
        }
        for attack, tally in sorted(total.items())
    ]
    return Counts([*rows, {"most_growth_bytes": growth}], findings)


def figures(counts: Counts) -> Figures:
    """Return what became of the sessions of each attack."""
    attacks = [row for row in counts.rows if "attack" in row]
    rows = [
        [
            row["attack"],
            f"{row['sessions']:,}",
            f"{row['sessions'] - row['errors']:,}",
            f"{row['errors']:,}",
            f"{row['most_waited_s']:.0f}",
            f"{row['most_cpu_s']:.2f}",
            f"{row['most_bytes'] / 1024:.0f}",
        ]
        for row in attacks
    ]
    sessions, found = (sum(row[name] for row in attacks) for name in ("sessions", "findings"))
    growth = max(row.get("most_growth_bytes", 0) for row in counts.rows)
    return Figures(
        ["attack", "sessions", "answered", "one error", "longest wait, s", "most work, s", "KiB"],
        rows,
        counts.findings,
        [
            f"{sessions:,} sessions, {found:,} findings. Waits are of made-up time, work is "
            f"processor time of one session, KiB the most that one took. A process that held "
            f"sessions grew by {growth / (1 << 20):.0f} MiB at most in all of them."
        ],
    )
