"""Inferences over a line that damages bytes."""

from __future__ import annotations

import functools
import multiprocessing
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass

from lossy_proxy import Weather
from noise_campaign import Tally, case, over_noise

from torture import campaign
from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "The line"
ABOUT = """A proxy damages each byte in both directions with the given probability: it flips a bit,
drops, repeats or inserts a byte, truncates the frame, or swaps the frame with the next one. It also
delays frames by up to a millisecond. An inference sets the input, runs, and reads the output over
this line; `hil` recovers a board that does not answer. Findings: a result that differs from the
reference's, an inference of more than two minutes, an end by more than one error, and a request
that the board runs twice or not at all. The runs are counted by the board's own reports at its end
of the line, before they are damaged."""

RATES = (1e-4, 1e-3, 1e-2)
#: Flips, losses, doubles, insertions, truncated and reordered frames.
_MISHAPS = tuple(range(6))
_LONGEST_S = 120.0
#: At a time: they wait for the line mostly.
_PROCESSES = 3
#: Inferences in one session.
_PIECE = 500


@dataclass(frozen=True)
class Job:
    """Some inferences of a row of the table."""

    model: str
    board: str
    weather: Weather
    inferences: int

    def run(self) -> Counts:
        """Run the inferences; the first error that recovery does not correct ends them."""
        tally = over_noise(
            _case(self.model, self.board), self.weather, self.inferences, recover=True
        )
        row = {
            "model": self.model,
            "board": self.board,
            "rate": f"{self.weather.per_byte:g}",
            **{name: getattr(tally, name) for name in _ADDED},
            "most_s": tally.longest_s,
            "errors": int(tally.error is not None),
        }
        return Counts([row], list(self._findings(tally)))

    def _findings(self, tally: Tally) -> Iterator[Finding]:
        how, done = f"over_noise: {self}", tally.right + tally.wrong
        if tally.wrong:
            yield Finding(f"{tally.wrong} wrong results", how)
        if tally.longest_s > _LONGEST_S:
            yield Finding(f"an inference took {tally.longest_s:.0f} s", how)
        # An attempt that failed may have run, once, or not.
        if not done <= tally.runs <= tally.asked:
            yield Finding(f"{tally.runs} runs for {done} results of {tally.asked} requests", how)
        if tally.error is None and done != self.inferences:
            yield Finding(f"{done} of {self.inferences} inferences without an error", how)


#: What a tally counts.
_ADDED = ("right", "wrong", "runs", "requests", "repeated", "recovered", "seconds")
_case = functools.lru_cache(case)


def _jobs(budget: Budget) -> list[Job]:
    rows = [
        (model, board, rate, budget.count(*counts))
        for rate in RATES
        for model, board, counts in (
            ("kws", "native", (300, 10_000)),
            ("digits", "native", (300, 10_000)),
            ("digits", "mps2-an386", (60, 1_000)),
        )
    ]
    dice = random.Random(budget.seed)
    jobs = [
        Job(
            model,
            board,
            Weather(per_byte=rate, mishaps=_MISHAPS, delay_s=0.001, seed=dice.randrange(1 << 30)),
            min(_PIECE, count - first),
        )
        for model, board, rate, count in rows
        for first in range(0, count, _PIECE)
    ]
    # Where a run is stopped, all rows have had some.
    dice.shuffle(jobs)
    return jobs


def run(budget: Budget) -> Counts:
    """Run both models over lines of each rate."""
    counts = Counts([])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_PROCESSES, context, campaign.unstoppable) as pool:
        work = {pool.submit(job.run): job for job in _jobs(budget)}
        with budget.until_stopped():
            wait(work)
        # Those that have begun come to their end.
        pool.shutdown(cancel_futures=True)
    for done, job in work.items():
        if done.cancelled():
            continue
        # A job that breaks off must not take the others with it.
        if error := done.exception():
            counts += Counts([], [Finding(f"it broke off: {error!r}", str(job))])
        else:
            counts += done.result()
    return counts


def figures(counts: Counts) -> Figures:
    """Return what became of the inferences, by model, board and rate."""
    rows = []
    for row in sorted(counts.rows, key=lambda row: (row["model"], row["board"], row["rate"])):
        done = row["right"] + row["wrong"]
        rows.append(
            [
                row["model"],
                row["board"],
                row["rate"],
                f"{row['right']:,}",
                f"{row['wrong']:,}",
                f"{row['runs']:,}",
                f"{row['requests'] / max(1, done):.1f}",
                f"{row['repeated'] / max(1, row['requests']):.0%}",
                f"{done / row['seconds']:.0f}",
                f"{row['most_s']:.1f}",
                f"{row['recovered']:,}",
                f"{row['errors']:,}",
            ]
        )
    return Figures(
        [
            *("model", "board", "byte error rate", "right", "wrong", "runs on the board"),
            *(
                "requests each",
                "repeated",
                "a second",
                "longest, s",
                "recovered",
                "ended by an error",
            ),
        ],
        rows,
        counts.findings,
        [f"A session has {_PIECE} inferences; an error that recovery does not correct ends it."],
    )
