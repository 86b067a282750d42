"""What a test run showed: pytest's totals, the tests that did not simply pass, and the failures of
boards on the way. The process that reports collects it, also from xdist's workers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hil.page.suite import SuiteResult

#: Names of properties of a report, also in JUnit files: a step of recovery, a failure after which
#: the test ran again, and a board that no further test uses.
RECOVERY, INFRASTRUCTURE, SET_ASIDE = "hil_recovery", "hil_infrastructure", "hil_set_aside"
_INCIDENTS = (INFRASTRUCTURE, RECOVERY, SET_ASIDE)
#: Attribute of a report: JSON answers with what the test verified, counted and evaluated.
RESULTS = "hil_results"
OUTCOMES = pytest.StashKey["Outcomes"]()
#: Characters of the report of a failure on the page.
_MOST_DETAILS = 20_000
#: Phase that xdist gives to the report of a test whose worker crashed.
_CRASHED = "???"


@dataclass(frozen=True)
class Case:
    """A report of a test that did not simply pass."""

    name: str
    outcome: str
    phase: str
    message: str
    details: str


@dataclass
class Outcomes:
    """The outcomes of all tests."""

    counts: Counter[str] = field(default_factory=Counter)
    cases: list[Case] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    #: The last outcome of each test, and what happened to its board: names and texts of properties.
    ended: dict[str, str] = field(default_factory=dict)
    incidents: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    finished: int = 0
    #: Why the run stopped before its end; empty if it did not.
    stopped: str = ""
    #: Why the page could not be written; empty if it was.
    page_problem: str = ""

    def add(self, config: pytest.Config, report: pytest.TestReport) -> None:
        """Add a report of a phase of a test."""
        status = config.hook.pytest_report_teststatus(report=report, config=config)
        # Without pytest's terminal nobody may answer.
        outcome = str(status[0]) if status else report.outcome * (not _is_passed_phase(report))
        self.results += getattr(report, RESULTS, ())
        found = [(n, str(text)) for n, text in report.user_properties if n in _INCIDENTS]
        # Each report of a test repeats those of the phases before.
        if len(found) > len(self.incidents.get(report.nodeid, ())):
            self.incidents[report.nodeid] = found
        self.finished += report.when == _CRASHED
        if not outcome:
            return
        self.counts[outcome] += 1
        self.ended[report.nodeid] = outcome
        if outcome != "passed":
            phase = "" if report.when == _CRASHED else str(report.when)
            self.cases.append(_case(report, outcome, phase))

    def add_collection(self, report: pytest.CollectReport) -> None:
        """Add what could not be collected."""
        outcome = {"failed": "error", "skipped": "skipped"}.get(report.outcome)
        if outcome is not None:
            self.counts[outcome] += 1
            self.cases.append(_case(report, outcome, "collection"))

    def suite(self, session: pytest.Session | None, exit_code: int | None) -> SuiteResult:
        """Return the run for the page; without ``exit_code`` it has not ended."""
        from hil.page.suite import CaseResult, SuiteResult

        texts = {name: tuple(map(_incident, found)) for name, found in self.incidents.items()}
        cases = []
        for case in self.cases:
            shown = case.name, case.outcome, case.phase, case.message, case.details
            cases.append(CaseResult(*shown, texts.pop(case.name, ())))
        cases += [
            CaseResult(name, self.ended.get(name, "passed"), incidents=incidents)
            for name, incidents in texts.items()
        ]
        reason = session and (session.shouldfail or session.shouldstop)
        return SuiteResult(
            exit_code,
            dict(self.counts),
            cases,
            self.stopped or str(reason or ""),
            max(0, session.testscollected - self.finished) if session else 0,
        )

    def texts(self, name: str) -> list[tuple[str, str]]:
        """Return the tests and texts of an incident's kind."""
        return [
            (test, text)
            for test, found in self.incidents.items()
            for kind, text in found
            if kind == name
        ]


def _is_passed_phase(report: pytest.TestReport) -> bool:
    """Return whether it is a setup or teardown without anything to report."""
    return report.passed and report.when != "call"


def _incident(found: tuple[str, str]) -> str:
    name, text = found
    what = {INFRASTRUCTURE: "ran again after", RECOVERY: "recovery", SET_ASIDE: "set aside"}[name]
    return f"{what}: {text}"


def _case(report: pytest.TestReport | pytest.CollectReport, outcome: str, phase: str) -> Case:
    details = report.longreprtext if report.failed else ""
    if len(details) > _MOST_DETAILS:
        half = _MOST_DETAILS // 2
        details = f"{details[:half]}\n...\n{details[-half:]}"
    return Case(report.nodeid, outcome, phase, _message(report), details)


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the error, or the reason of a skip or an expected failure."""
    if reason := getattr(report, "wasxfail", ""):
        return str(reason)
    found = report.longrepr
    if isinstance(found, tuple):
        return str(found[2])
    crash = getattr(found, "reprcrash", None)
    if crash is not None:
        return str(crash.message)
    # What follows is a hint, or the reports of earlier errors.
    text, _, _ = report.longreprtext.partition("\n\nhint: ")
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(errors) or text


class Collector:
    """The hooks that collect the outcomes of a run, and write the page of ``--hil-report``.

    The page is written before the first test as well: where the run is killed, no page of an
    earlier one is left in its place.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes = config.stash[OUTCOMES] = Outcomes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the report of a phase of a test."""
        self._outcomes.add(self._config, report)

    def pytest_runtest_logfinish(self) -> None:
        """Count a finished test."""
        self._outcomes.finished += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record an error of the collection."""
        self._outcomes.add_collection(report)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record that the run was interrupted."""
        self._outcomes.stopped = excinfo.exconly()

    def pytest_internalerror(self, excrepr: object) -> None:
        """Record an internal error of pytest."""
        self._outcomes.stopped = str(excrepr).strip().rpartition("\n")[2]

    def pytest_sessionstart(self) -> None:
        """Write the page once before the tests, so that an unwritable path fails at once.

        Raise :class:`pytest.UsageError` for such a path.
        """
        # To a pipe or a device it is written once.
        if (path := self._page) is None or (path.exists() and not path.is_file()):
            return
        if problem := self._write(path, self._outcomes.suite(None, None)):
            raise pytest.UsageError(f"--hil-report: {problem}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page; exit with INTERNAL_ERROR if that fails after tests that passed."""
        if self._page is None:
            return
        suite = self._outcomes.suite(session, int(session.exitstatus))
        self._outcomes.page_problem = self._write(self._page, suite)
        if self._outcomes.page_problem and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    @property
    def _page(self) -> Path | None:
        """The page to write; None if there is none, or no test runs."""
        path = self._config.getoption("--hil-report")
        return Path(path) if path and not self._config.option.collectonly else None

    def _write(self, path: Path, suite: SuiteResult) -> str:
        """Write the page; return why it cannot be written, or nothing."""
        from hil.errors import HilError
        from hil.page.page import make_page, now
        from hil.page.results import results_in
        from hil.verify.provenance import command_text

        words = map(str, self._config.invocation_params.args)
        command = command_text(["pytest", *words])
        try:
            results = [
                result
                for answer in self._outcomes.results
                for result in results_in(answer, "the tests' results")
            ]
            make_page(results, command=command, made=now(), suite=suite).save(path)
        except HilError as error:
            return str(error)
        return ""


# -- recoveries --------------------------------------------------------------------------------


#: How many of this process' recoveries belong to reports.
_COUNTED = pytest.StashKey[int]()
#: Recoveries of a test that its report has not failed for yet.
_PENDING = pytest.StashKey[list[str]]()


def _attempts() -> Sequence[object]:
    """Return the steps of recovery that this process has taken."""
    # If a board was recovered, the module is loaded.
    module = sys.modules.get("hil.device.recovery")
    return module.ATTEMPTS if module else ()


def begin_recoveries(config: pytest.Config) -> None:
    """Leave out what was recovered before this run, which may be one of several in a process."""
    config.stash[_COUNTED] = len(_attempts())


def add_recoveries(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the steps of recovery of a phase to its report; with ``--hil-strict`` it fails.

    Those of the setup fail the call: a test runs on a board that is back.
    """
    attempts = _attempts()
    new = [str(attempt) for attempt in attempts[item.config.stash[_COUNTED] :]]
    item.config.stash[_COUNTED] = len(attempts)
    item.user_properties += [(RECOVERY, text) for text in new]
    report.user_properties += [(RECOVERY, text) for text in new]
    pending = item.stash.setdefault(_PENDING, [])
    pending += new
    if pending and not (report.when == "setup" and report.passed):
        require_none(item.config, report, pending)
        pending.clear()


def require_none(config: pytest.Config, report: pytest.TestReport, texts: list[str]) -> None:
    """Let the report of a test fail with ``--hil-strict`` if there are failures of boards."""
    if not texts or report.failed or not config.getoption("--hil-strict"):
        return
    report.outcome = "failed"
    report.longrepr = "\n".join(["the board failed on the way (--hil-strict):", *texts])
    # Not even an expected failure may be that of a board.
    if hasattr(report, "wasxfail"):
        del report.wasxfail
