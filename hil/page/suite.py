"""A run of tests, as the page shows it: what pytest's summary says, and every test that did not
simply pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hil.page.results import Status
from hilc.support.suggest import counted

#: What pytest's exit codes say.
_ENDS: Mapping[int | None, str] = {
    None: "The test run did not end",
    0: "The test run passed",
    1: "The test run failed",
    2: "The test run was interrupted",
    3: "The test run ended with an internal error",
    4: "The test run ended with a usage error",
    5: "No test ran",
}


@dataclass(frozen=True)
class CaseResult:
    """A test that did not simply pass, or whose board failed on the way."""

    name: str
    #: pytest's category: ``failed``, ``error``, ``skipped``, ``xfailed``, ``xpassed``, ``passed``.
    outcome: str
    #: Where it happened: ``setup``, ``call``, ``teardown``, ``collection``; empty for a crash.
    phase: str = ""
    #: The error in a line, or the reason.
    message: str = ""
    #: The whole report of a failure.
    details: str = ""
    #: Steps of recovery, runs on other boards, and boards that were set aside.
    incidents: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """The status whose colours show it."""
        if self.outcome in ("failed", "error"):
            return "failed"
        return "match" if self.outcome == "passed" else "measured"


@dataclass
class SuiteResult:
    """A run of tests; ``exit_code`` is None until it has ended."""

    exit_code: int | None = None
    #: Tests by pytest's category.
    counts: dict[str, int] = field(default_factory=dict)
    cases: list[CaseResult] = field(default_factory=list)
    #: Why it stopped before its end; empty if it did not.
    stopped: str = ""
    #: Tests that were collected and did not run.
    not_run: int = 0

    @property
    def status(self) -> Status:
        """Status of the run: ``failed`` if it failed or stopped, ``skipped`` if no test passed."""
        if self.exit_code != 0 or self.stopped:
            return "failed"
        return "match" if self.counts.get("passed") else "skipped"

    @property
    def verdict(self) -> str:
        """How it ended, with pytest's totals."""
        parts = [
            counted(count, "error") if outcome == "error" else f"{count:,} {outcome}"
            for outcome, count in sorted(self.counts.items(), key=lambda item: _rank(item[0]))
        ]
        parts += [f"{self.not_run:,} not run"] if self.not_run else []
        end = _ENDS.get(self.exit_code, f"The test run ended with exit code {self.exit_code}")
        if self.exit_code == 0 and self.stopped:
            end = "The test run stopped"
        return f"{end}: {', '.join(parts)}" if parts else end


_ORDER = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")


def _rank(outcome: str) -> int:
    return _ORDER.index(outcome) if outcome in _ORDER else len(_ORDER)
