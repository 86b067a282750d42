"""What every campaign takes and returns."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import hilc


@dataclass(frozen=True)
class Budget:
    """How long a campaign may take, and what its random numbers begin with.

    Args:
        is_long: whether it runs for hours, with the counts that docs/reliability.md promises;
            else for minutes, with a sample of them.
        seed: of all random numbers; the same seed makes the same attacks.
        folder: an empty folder of its own, for what it keeps (crashing inputs, logs).
    """

    is_long: bool
    seed: int
    folder: Path
    _stop: threading.Event = field(default_factory=threading.Event)

    def count(self, minutes: int, hours: int) -> int:
        """Return how often to attack: ``minutes`` times, or ``hours`` times in a long run."""
        return hours if self.is_long else minutes

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """Let SIGINT or SIGTERM end what is in this context, and keep what was counted by then."""
        try:
            yield
        except KeyboardInterrupt:
            self._stop.set()

    @property
    def is_stopped(self) -> bool:
        """Whether the campaign was told to end before its count."""
        return self._stop.is_set()


@dataclass(frozen=True)
class Finding:
    """One attack that got through: a wrong answer, a hang, a crash, or something left behind."""

    what: str
    #: How to make it again: the seed, the file or the command.
    how: str


@dataclass(frozen=True)
class Figures:
    """What a campaign counted, as a table, and what got through."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    findings: Sequence[Finding] = ()
    #: Sentences below the table: what was counted, what was not attacked.
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"the row {row} has {len(row)} cells, the table {len(self.heads)}")
            if bad := [cell for cell in row if "|" in cell or "\n" in cell]:
                raise ValueError(f"the cell {bad[0]!r} would break the table")


#: What something came to, in texts, which say what it is of, and numbers.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Counts:
    """What a campaign counted, in numbers that add up over its runs, and what got through.

    Rows of the same texts are of the same thing. Their numbers add up, except those whose names
    begin with ``most_``: the greatest counts.
    """

    rows: Sequence[Row]
    findings: Sequence[Finding] = ()

    def __add__(self, other: Counts) -> Counts:
        rows: dict[tuple[str, ...], Row] = {}
        for row in (*self.rows, *other.rows):
            what = tuple(value for value in row.values() if isinstance(value, str))
            rows[what] = _sum(rows[what], row) if what in rows else row
        return Counts(list(rows.values()), [*self.findings, *other.findings])


def _sum(one: Row, other: Row) -> Row:
    total = dict(one)
    for name, value in other.items():
        if not isinstance(value, str):
            known = total.get(name, 0)
            total[name] = max(known, value) if name.startswith("most_") else known + value
    return total


class Campaign(Protocol):
    """A module of this package: ``TITLE``, ``ABOUT`` and ``run``."""

    #: The heading of its section.
    TITLE: str
    #: One paragraph: what is attacked, by what, and what counts as a finding.
    ABOUT: str

    def run(self, budget: Budget) -> Figures | Counts:
        """Attack and count; the counts of several runs add up."""
        ...


class Counting(Campaign, Protocol):
    """A campaign that returns counts; ``figures`` is what a reader sees of them."""

    def figures(self, counts: Counts) -> Figures:
        """Return the table."""
        ...


@dataclass(frozen=True)
class Call:
    """One call of ``python tools/measure.py torture``."""

    seed: int
    is_long: bool
    seconds: float
    #: Whether it ended by itself; else by a signal.
    is_whole: bool = True
    python: str = field(default_factory=platform.python_version)
    version: str = hilc.__version__
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)


@dataclass(frozen=True)
class Run:
    """What one or several calls of a campaign came to, as docs/reliability keeps it."""

    result: Figures | Counts
    calls: Sequence[Call]

    def __add__(self, other: Run) -> Run:
        if not (isinstance(self.result, Counts) and isinstance(other.result, Counts)):
            raise TypeError("figures of one run do not add up")
        return Run(self.result + other.result, [*self.calls, *other.calls])

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` takes."""
        kind = "counts" if isinstance(self.result, Counts) else "figures"
        return {kind: asdict(self.result), "calls": [asdict(call) for call in self.calls]}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Run:
        """Return the run that ``to_json`` wrote."""
        kind = Counts if "counts" in kept else Figures
        values = kept["counts" if kind is Counts else "figures"]
        findings = [Finding(**one) for one in values["findings"]]
        result = kind(**{**values, "findings": findings})
        return cls(result, [Call(**call) for call in kept["calls"]])


def unstoppable() -> None:
    """Leave SIGINT to the campaign of which this process is one: Ctrl-C tells all of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run(campaign: Campaign, budget: Budget) -> Run:
    """Run one campaign and take its time."""
    start = time.monotonic()
    result = campaign.run(budget)
    seconds = round(time.monotonic() - start, 1)
    print(f"{campaign.TITLE}: {len(result.findings)} findings, {seconds:g} s", file=sys.stderr)
    return Run(result, [Call(budget.seed, budget.is_long, seconds, not budget.is_stopped)])
