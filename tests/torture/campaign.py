"""What every campaign takes and returns."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
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

    def count(self, minutes: int, hours: int) -> int:
        """Return how often to attack: ``minutes`` times, or ``hours`` times in a long run."""
        return hours if self.is_long else minutes


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


class Campaign(Protocol):
    """A module of this package: ``TITLE``, ``ABOUT`` and ``run``."""

    #: The heading of its section.
    TITLE: str
    #: One paragraph: what is attacked, by what, and what counts as a finding.
    ABOUT: str

    def run(self, budget: Budget) -> Figures:
        """Attack and count."""
        ...


@dataclass(frozen=True)
class Run:
    """One run of a campaign, as docs/reliability keeps it."""

    figures: Figures
    seed: int
    is_long: bool
    seconds: float
    python: str = field(default_factory=platform.python_version)
    version: str = hilc.__version__
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Run:
        """Return the run that ``to_json`` wrote."""
        figures = kept["figures"]
        findings = [Finding(**one) for one in figures["findings"]]
        return cls(**{**kept, "figures": Figures(**{**figures, "findings": findings})})


def run(campaign: Campaign, budget: Budget) -> Run:
    """Run one campaign and take its time."""
    start = time.monotonic()
    figures = campaign.run(budget)
    seconds = round(time.monotonic() - start, 1)
    print(f"{campaign.TITLE}: {len(figures.findings)} findings, {seconds:g} s", file=sys.stderr)
    return Run(figures, budget.seed, budget.is_long, seconds)
