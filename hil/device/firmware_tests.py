"""Results of tests that run in a firmware, from what it prints: Unity and Zephyr's ztest.

A run is complete only with its summary, and every result has to agree with it: output that ends
early, or begins again after a reset, is an error.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

from hil.errors import ConsoleError, DeviceError, InputError, LinkError
from hilc.support.suggest import nearest

Outcome = Literal["passed", "failed", "skipped"]
#: Deadline of a whole run whose caller states none.
TIMEOUT_S: Final = 60.0
#: How long a further run is awaited after a summary, from the last text on.
QUIET_S: Final = 0.5
#: Characters of a line that may be part of a run: the search for a result in a longer one would
#: take too long.
MOST_LINE: Final = 4096
#: Results of all runs, and suites of a run.
_MOST_RESULTS: Final = 100_000


class Lines(Protocol):
    """What prints lines: the console of a firmware."""

    def lines(self, timeout_s: float) -> Iterator[str]:
        """Yield the lines; raise :class:`~hil.errors.ConsoleError` ``timeout_s`` seconds after the
        start, or when the firmware ends.
        """
        ...


class Runs(Lines, Protocol):
    """What prints runs of tests: the console of a firmware."""

    def foresee(self, wanted: Callable[[str], bool], quiet_s: float, timeout_s: float) -> bool:
        """Return whether a line that is ``wanted`` follows, and leave it for :meth:`lines`; raise
        :class:`~hil.errors.DeviceError` where the firmware ends with an error.
        """
        ...


@dataclass(frozen=True)
class FirmwareTest:
    """The result of one test."""

    #: Its name; of ztest ``SUITE.NAME``.
    name: str
    outcome: Outcome
    #: Why it failed or was skipped, as far as it was printed.
    message: str = ""
    #: Source file and line, of Unity.
    file: str = ""
    line: int = 0


class Format(ABC):
    """The printed form of a run of tests, read line by line."""

    #: What a complete run ends with, in words.
    summary: str
    #: The lines that only a run has.
    _lines: tuple[re.Pattern[str], ...]

    def __init__(self) -> None:
        self.tests: list[FirmwareTest] = []
        self.is_complete = False

    def feed(self, line: str) -> FirmwareTest | None:
        """Read a line; return the test that it ends. A line that is too long is none of a run."""
        return self._feed(line) if len(line) <= MOST_LINE else None

    @abstractmethod
    def _feed(self, line: str) -> FirmwareTest | None:
        """Read a line; return the test that it ends."""

    @classmethod
    def is_of_run(cls, line: str) -> bool:
        """Return whether a line is part of a run."""
        return len(line) <= MOST_LINE and any(form.fullmatch(line) for form in cls._lines)

    @abstractmethod
    def problems(self) -> list[str]:
        """Return what does not agree in a complete run."""

    def _ended(self, test: FirmwareTest) -> FirmwareTest:
        self.tests.append(test)
        return test


class Unity(Format):
    """Unity's output: ``FILE:LINE:NAME:PASS|FAIL|IGNORE[: MESSAGE]`` and a summary."""

    summary = "'N Tests N Failures N Ignored', then OK or FAIL"
    _TEST = re.compile(
        r"(?P<file>.+?):(?P<line>\d+):(?P<name>.+?):(?P<outcome>PASS|FAIL|IGNORE)"
        r"(?: \(\d+ \w+\))?(?:: ?(?P<message>.*))?\s*"
    )
    _COUNTS = re.compile(r"\s*(\d+) Tests (\d+) Failures (\d+) Ignored\s*")
    _END = re.compile(r"(OK|FAIL|FAILED)\s*")
    _lines = _TEST, _COUNTS
    _OUTCOMES: Final[dict[str, Outcome]] = {
        "PASS": "passed",
        "FAIL": "failed",
        "IGNORE": "skipped",
    }

    def __init__(self) -> None:
        super().__init__()
        self._counts: tuple[int, int, int] | None = None
        self._end = ""

    def _feed(self, line: str) -> FirmwareTest | None:
        """Read a line; return the test that it ends."""
        if match := self._COUNTS.fullmatch(line):
            self._counts = int(match[1]), int(match[2]), int(match[3])
        elif self._counts is not None and (match := self._END.fullmatch(line)):
            self._end, self.is_complete = match[1], True
        elif match := self._TEST.fullmatch(line):
            return self._ended(
                FirmwareTest(
                    match["name"],
                    self._OUTCOMES[match["outcome"]],
                    match["message"] or "",
                    match["file"],
                    int(match["line"]),
                )
            )
        return None

    def problems(self) -> list[str]:
        """Return what does not agree in a complete run."""
        assert self._counts is not None, "a complete run has a summary"
        found = Counter(test.outcome for test in self.tests)
        printed = len(self.tests), found["failed"], found["skipped"]
        problems = [
            f"the summary counts {count} {what}, and {seen} were printed"
            for what, count, seen in zip(
                ("tests", "failures", "ignored tests"), self._counts, printed, strict=True
            )
            if count != seen
        ]
        if (self._counts[1] == 0) != (self._end == "OK"):
            problems.append(f"the summary counts {self._counts[1]} failures and says {self._end}")
        return problems


@dataclass
class _Suite:
    """What a suite of ztest printed."""

    #: The outcomes of each test by name: a test may run several times.
    tests: dict[str, list[Outcome]] = field(default_factory=dict)
    #: Passed, failed, skipped and all tests of its summary.
    counts: tuple[int, int, int, int] | None = None
    result: str = ""
    #: Whether a run of it ended with ``TESTSUITE ... failed.``, also by its setup or teardown.
    has_failed: bool = False


class Ztest(Format):
    """The output of Zephyr's ztest, with the summary of ``CONFIG_ZTEST_SUMMARY``."""

    summary = "'SUITE PASS|FAIL|SKIP - ...' of each suite, then 'PROJECT EXECUTION ...'"
    _SUITE = re.compile(r"\s*Running TESTSUITE (\S+)\s*")
    _START = re.compile(r"\s*START - (\S+)\s*")
    _RESULT = re.compile(r"\s*(PASS|FAIL|SKIP) - (\S+) in [\d.]+ seconds\s*")
    _ENDED = re.compile(r"\s*TESTSUITE (\S+) (failed\.|succeeded)\s*")
    _COUNTS = re.compile(
        r"\s*SUITE (PASS|FAIL|SKIP) - +[\d.]+% \[(.+)\]: pass = (\d+), fail = (\d+), "
        r"skip = (\d+), total = (\d+) duration.*"
    )
    _END = re.compile(r"\s*PROJECT EXECUTION (SUCCESSFUL|FAILED)\s*")
    _lines = _SUITE, _START, _RESULT, _ENDED, _COUNTS, _END
    _OUTCOMES: Final[dict[str, Outcome]] = {
        "PASS": "passed",
        "FAIL": "failed",
        "SKIP": "skipped",
    }
    _MOST_MESSAGE = 4096
    #: Lines of a message, and what is wrong with a run.
    _MOST_LINES = 100

    def __init__(self) -> None:
        super().__init__()
        self._suites: dict[str, _Suite] = {}
        self._suite = ""
        self._started = ""
        self._message: deque[str] = deque(maxlen=self._MOST_LINES)
        self._problems: list[str] = []
        self._end = ""

    def _feed(self, line: str) -> FirmwareTest | None:
        """Read a line; return the test that it ends."""
        if match := self._SUITE.fullmatch(line):
            self._leave_test("the next suite began")
            self._suite = match[1]
            self._suite_named(match[1])
        elif match := self._START.fullmatch(line):
            self._leave_test("the next test began")
            self._started = match[1]
            self._message.clear()
        elif match := self._RESULT.fullmatch(line):
            return self._result(match[1], match[2])
        elif match := self._ENDED.fullmatch(line):
            suite = self._suite_named(match[1])
            suite.has_failed |= match[2] == "failed."
        elif match := self._COUNTS.fullmatch(line):
            suite = self._suite_named(match[2])
            suite.result = match[1]
            suite.counts = int(match[3]), int(match[4]), int(match[5]), int(match[6])
        elif match := self._END.fullmatch(line):
            self._leave_test("the run ended")
            self._end, self.is_complete = match[1], True
        elif self._started and line.strip(" =\t"):
            self._message.append(line.strip())
        return None

    def _result(self, word: str, name: str) -> FirmwareTest:
        if name != self._started:
            began = f"{self._started} had begun" if self._started else "no test had begun"
            self._add_problem(f"{name} ended, and {began}")
        outcome = self._OUTCOMES[word]
        message = "\n".join(self._message)[-self._MOST_MESSAGE :] if outcome != "passed" else ""
        self._started = ""
        self._message.clear()
        self._suite_named(self._suite).tests.setdefault(name, []).append(outcome)
        full_name = f"{self._suite}.{name}" if self._suite else name
        return self._ended(FirmwareTest(full_name, outcome, message))

    def _leave_test(self, why: str) -> None:
        if self._started:
            self._add_problem(f"{self._started} printed no result before {why}")
            self._started = ""

    def _add_problem(self, problem: str) -> None:
        if len(self._problems) < self._MOST_LINES:
            self._problems.append(problem)

    def _suite_named(self, name: str) -> _Suite:
        if name not in self._suites and len(self._suites) >= _MOST_RESULTS:
            raise ConsoleError(f"the ztest tests printed more than {_MOST_RESULTS} suites")
        return self._suites.setdefault(name, _Suite())

    def problems(self) -> list[str]:
        """Return what does not agree in a complete run."""
        problems = list(self._problems)
        for name, suite in self._suites.items():
            problems += _suite_problems(name, suite)
        failed = any(test.outcome == "failed" for test in self.tests)
        failed |= any(suite.has_failed or suite.result == "FAIL" for suite in self._suites.values())
        if failed and self._end == "SUCCESSFUL":
            problems.append("a test or a suite failed, and PROJECT EXECUTION is SUCCESSFUL")
        if self._end == "FAILED" and not failed:
            problems.append("no test and no suite failed, and PROJECT EXECUTION is FAILED")
        return problems


def _suite_problems(name: str, suite: _Suite) -> list[str]:
    """Return what the summary of a suite and its printed results do not agree in."""
    if suite.counts is None:
        return [f"the suite {name} has no line in the summary (CONFIG_ZTEST_SUMMARY=y prints it)"]
    passed, failed, skipped, total = suite.counts
    # As ztest does it.
    expected = "SKIP" if skipped == total else "FAIL" if failed else "PASS"
    problems = []
    if suite.result != expected:
        problems.append(
            f"the summary says SUITE {suite.result} of {name} and counts pass = {passed}, "
            f"fail = {failed}, skip = {skipped}, total = {total}"
        )
    if passed + failed + skipped != total:
        problems.append(f"the counts in the summary of {name} do not add up to total = {total}")
    if suite.has_failed and suite.result != "FAIL":
        problems.append(f"TESTSUITE {name} failed, and the summary says SUITE {suite.result}")
    if suite.result == "SKIP" and not suite.tests:
        return problems  # its predicate said that it does not apply
    # ztest counts a test as passed, or as skipped, if all of its runs were.
    ends: Counter[Outcome] = Counter()
    for runs in suite.tests.values():
        ends[runs[0] if set(runs) in ({"passed"}, {"skipped"}) else "failed"] += 1
    printed = ends["passed"], ends["failed"], ends["skipped"], len(suite.tests)
    return problems + [
        f"the summary of {name} counts {count} {what}, and {seen} were printed"
        for what, count, seen in zip(
            ("passed", "failed", "skipped", "tests"), suite.counts, printed, strict=True
        )
        if count != seen
    ]


FormatName = Literal["unity", "ztest"]
_FORMATS: Final[dict[FormatName, type[Format]]] = {"unity": Unity, "ztest": Ztest}
FORMAT_NAMES: Final = get_args(FormatName)


def format_named(name: str) -> Format:
    """Return a reader of a format; raise :class:`~hil.errors.InputError` for an unknown one."""
    for known, kind in _FORMATS.items():
        if known == name:
            return kind()
    raise InputError(
        f"unknown format of tests {name!r}{nearest(name, FORMAT_NAMES)}",
        f"choose one of {', '.join(FORMAT_NAMES)}",
    )


def read_tests(
    console: Runs, form: FormatName, timeout_s: float = TIMEOUT_S, quiet_s: float = QUIET_S
) -> Iterator[FirmwareTest]:
    """Yield each test of the runs that the firmware prints. The last run is the one after which the
    firmware ends, or prints nothing for ``quiet_s`` seconds.

    Raise :class:`~hil.errors.ConsoleError` for a run that is not complete ``timeout_s`` seconds
    after the start, whose firmware ends before, or whose results do not agree with its summary,
    and for a program that ends with an error after tests that all passed; and
    :class:`~hil.errors.DeviceError` if the board or the link fails. A failed test raises nothing:
    its outcome says so.
    """
    end = time.monotonic() + timeout_s
    lines = console.lines(timeout_s)
    failed = count = 0
    while True:
        reader = format_named(form)
        for test in _one_run(lines, reader, form):
            count += 1
            if count > _MOST_RESULTS:
                raise ConsoleError(
                    f"the {form} tests printed more than {_MOST_RESULTS} results",
                    "does the firmware repeat its tests forever?",
                )
            yield test
        failed += sum(test.outcome == "failed" for test in reader.tests)
        try:
            follows = console.foresee(reader.is_of_run, quiet_s, end - time.monotonic())
        except LinkError:
            raise
        except DeviceError as error:
            # A program often ends with the number of its failures, and an emulator by its firmware.
            if failed or error.is_good_end:
                return
            raise ConsoleError(
                f"all {form} tests passed, and then the firmware failed: {error.fact}",
                "return 0 from main if all tests passed",
            ) from None
        if not follows:
            return


def _one_run(lines: Iterator[str], reader: Format, form: FormatName) -> Iterator[FirmwareTest]:
    """Yield each test of a run, up to its summary."""
    try:
        for line in lines:
            if (test := reader.feed(line)) is not None:
                yield test
            if reader.is_complete:
                break
    except ConsoleError as error:
        failed = ", ".join(test.name for test in reader.tests if test.outcome == "failed")
        raise ConsoleError(
            f"the {form} tests ended after {len(reader.tests)} results"
            f"{failed and f', of which {failed} failed'}, without their summary "
            f"({reader.summary}): {error.fact}",
            "did the firmware crash or hang in the next test? a longer run needs a larger "
            "timeout_s",
        ) from None
    problems = reader.problems()
    if not reader.tests:
        problems.append("no test ran")
    if problems:
        raise ConsoleError(
            f"the output of the {form} tests does not agree with its summary: "
            + "; ".join(problems),
            "was the firmware reset during the tests, or did the line lose text?",
        )


def require_passed(tests: list[FirmwareTest]) -> None:
    """Raise :class:`~hil.errors.ConsoleError` with the tests that failed, if any did."""
    failed = [test for test in tests if test.outcome == "failed"]
    if not failed:
        return
    lines = "".join(f"\n    {failure_text(test)}" for test in failed)
    raise ConsoleError(f"{len(failed)} of {len(tests)} tests of the firmware failed:{lines}")


def failure_text(test: FirmwareTest) -> str:
    """Return a failed test with its place and message."""
    place = f"{test.file}:{test.line}: " if test.file else ""
    message = test.message.replace("\n", "\n    ")
    return f"{place}{test.name}{': ' if message else ''}{message}"
