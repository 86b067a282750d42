"""Inferences over a line that damages bytes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from lossy_proxy import Weather
from noise_campaign import Tally, case, over_noise

from torture.campaign import Budget, Figures, Finding

TITLE = "The line"
ABOUT = """Every byte in both directions is hit with the rate's probability: a bit of it flips, it
is lost, comes twice, another one comes before it, the rest of its frame is lost, or its frame comes
behind the next one; frames are held back as well, for a millisecond at most. An inference sets the
input, runs, and reads the output, all over this line; a board that does not answer is recovered as
`hil` does it. Findings are a result that is not the reference's, an inference that takes longer
than two minutes, an end by anything but one error, and a run that the board made twice or not at
all for one request: the board's own reports of runs that it begins are counted at its end of the
line, before they are damaged."""

RATES = (1e-4, 1e-3, 1e-2)
#: Flips, losses, doubles, insertions, truncated and reordered frames.
_MISHAPS = tuple(range(6))
_LONGEST_S = 120.0
#: At a time: they wait for the line mostly.
_PROCESSES = 3


@dataclass(frozen=True)
class Job:
    """One row of the table."""

    model: str
    board: str
    weather: Weather
    inferences: int

    def run(self) -> Tally:
        """Run the inferences; the first error that recovery does not mend ends them."""
        tally = over_noise(
            case(self.model, self.board), self.weather, self.inferences, recover=True
        )
        # An error may hold what another process cannot be handed.
        error = type(tally.error)(str(tally.error)) if tally.error else None
        return replace(tally, error=error)


def _jobs(budget: Budget) -> Iterator[Job]:
    # The slowest first.
    for rate in reversed(RATES):
        weather = Weather(per_byte=rate, mishaps=_MISHAPS, delay_s=0.001, seed=budget.seed)
        for model in ("kws", "digits"):
            yield Job(model, "native", weather, budget.count(minutes=300, hours=10_000))
        yield Job("digits", "mps2-an386", weather, budget.count(minutes=60, hours=1_000))


def run(budget: Budget) -> Figures:
    """Run both models over lines of each rate."""
    jobs = list(_jobs(budget))
    context = multiprocessing.get_context("spawn")
    tallies: dict[Job, Tally] = {}
    findings: list[Finding] = []
    with ProcessPoolExecutor(_PROCESSES, context) as pool:
        work = {pool.submit(job.run): job for job in jobs}
        for done in as_completed(work):
            # A row that breaks off must not take the others with it.
            if error := done.exception():
                how = f"python ci/torture.py link --seed {budget.seed}"
                findings.append(Finding(f"{work[done]} broke off: {error!r}", how))
            else:
                tallies[work[done]] = done.result()
    rows = []
    for job in sorted(tallies, key=lambda job: (job.model, job.board, job.weather.per_byte)):
        tally = tallies[job]
        done_count = tally.right + tally.wrong
        rows.append(
            [
                job.model,
                job.board,
                f"{job.weather.per_byte:g}",
                f"{tally.right:,}",
                str(tally.wrong),
                f"{tally.runs:,}",
                f"{tally.requests / max(1, done_count):.1f}",
                f"{tally.repeated / max(1, tally.requests):.0%}",
                f"{done_count / tally.seconds:.0f}",
                f"{tally.longest_s:.1f}",
                str(tally.recovered),
                type(tally.error).__name__ if tally.error else "-",
            ]
        )
        findings += _findings(job, tally, f"python ci/torture.py link --seed {budget.seed}")
    return Figures(
        [
            *("model", "board", "byte error rate", "right", "wrong", "runs on the board"),
            *("requests each", "repeated", "a second", "longest, s", "recovered", "ended by"),
        ],
        rows,
        findings,
    )


def _findings(job: Job, tally: Tally, how: str) -> Iterator[Finding]:
    where = f"{job.model} on {job.board} at {job.weather.per_byte:g}"
    if tally.wrong:
        yield Finding(f"{tally.wrong} wrong results, {where}", how)
    if tally.longest_s > _LONGEST_S:
        yield Finding(f"an inference took {tally.longest_s:.0f} s, {where}", how)
    done = tally.right + tally.wrong
    # An attempt that failed may have run, once, or not.
    if not done <= tally.runs <= tally.asked:
        yield Finding(
            f"{tally.runs} runs for {done} results of {tally.asked} requests, {where}", how
        )
    if tally.error is None and done != job.inferences:
        yield Finding(f"{done} of {job.inferences} inferences without an error, {where}", how)
