"""The registry of report formats, which write the outcome of a command on boards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hil.errors import Attempt, DeviceError, HilError, NumericError
from hil.firmware.build import Firmware
from hil.plugins import plugin_error, registered
from hil.results.answer import ErrorInfo, FailedEntry, SkippedEntry
from hilc.support.registering import check_registered

if TYPE_CHECKING:
    from hil.verify import Report
    from hil.verify.bench import BenchReport


@dataclass(frozen=True)
class Outcome:
    """The result of a command on one board, or its error."""

    command: Literal["build", "verify", "bench", "report"]
    board: str
    #: One per model of the image; for ``build`` one firmware.
    reports: Sequence[Report | BenchReport | Firmware] = ()
    #: The entries of its JSON answer where they are not those of ``reports``.
    entries: Sequence[Any] = ()
    exit_code: int = 0
    #: The error that ended it; ``reports`` are then those of the models before.
    error: HilError | None = None
    #: Whether the user asked for layers (``verify``, ``bench``) or sections (``build``).
    in_detail: bool = False
    #: Whether they asked for the layers' limits (``bench``).
    limit: bool = False
    #: In a matrix of several goals, or with ``--separate``: the goal, and the model's file.
    goal: str | None = None
    model: str | None = None
    #: The models and the goal of the combination, as entries without figures name them.
    models: Sequence[str] = ()
    optimize: str | None = None
    #: Why the combination was skipped; empty if it ran.
    skipped: str = ""
    #: Time of the whole combination, build included.
    seconds: float = 0.0
    #: The place of a lab that it ran on; empty elsewhere.
    place: str = ""
    #: Its earlier runs, which failed as the board, probe or link did.
    reruns: Sequence[Attempt] = ()
    #: The standard error of a combination that ran in a process of its own.
    log: str = ""

    @property
    def recoveries(self) -> list[Attempt]:
        """Earlier runs, and the steps of recovery of all reports or before the error."""
        found = list(self.reruns)
        for report in self.reports:
            found += [] if isinstance(report, Firmware) else report.recoveries
        return found + list(self.error.recoveries if isinstance(self.error, DeviceError) else ())

    @property
    def results(self) -> list[Any]:
        """The entries of the JSON answer: of each model its result, its error or why it was
        skipped.
        """
        found = list(self.entries) or [report.entry() for report in self.reports]
        if self.reruns:
            earlier = tuple(self.reruns)
            found = [
                replace(entry, recoveries=earlier + entry.recoveries)
                if hasattr(entry, "recoveries")
                else entry
                for entry in found
            ]
        if self.error is None and not self.skipped:
            return found
        # An image's models are measured in their order; the error ended the first without a result.
        left = list(self.models[len(self.reports) :]) or list(self.models[-1:]) or [""]
        what: dict[str, Any] = {"board": self.board, "goal": self.optimize}
        if self.error is None:
            return found + [SkippedEntry(name, **what, skipped=self.skipped) for name in left]
        error, own = ErrorInfo.of(self.error), getattr(self.error, "recoveries", ())
        recoveries = (*self.reruns, *own)
        return found + [
            FailedEntry(name, **what, error=error, recoveries=recoveries) for name in left
        ]

    @property
    def compared(self) -> list[Report]:
        """The comparisons with references."""
        measured = [report for report in self.reports if not isinstance(report, Firmware)]
        if not measured:
            return []
        # Not at the top: a build compares nothing.
        from hil.verify import Report
        from hil.verify.bench import BenchReport

        checks = [r.checked if isinstance(r, BenchReport) else r for r in measured]
        return [check for check in checks if isinstance(check, Report)]

    @property
    def differs(self) -> bool:
        """Whether a model computed something else than its reference."""
        return any(not report.match for report in self.compared)

    def failed(self, error: HilError) -> Outcome:
        """Return the outcome with what ended it: an error does not hide a difference."""
        code = NumericError.exit_code if self.differs else error.exit_code
        return replace(self, exit_code=code, error=error)

    @property
    def label(self) -> str:
        """Name of the combination, for messages."""
        what = f"{Path(self.model).stem} on " if self.model is not None else ""
        return f"{what}{self.board}" + (f" ({self.goal})" if self.goal else "")


@dataclass(frozen=True)
class ReportFormat:
    """A way to write outcomes on stdout."""

    #: The value of ``--format``.
    name: str
    #: Returns the text for the outcomes of all boards, in the order of the command line.
    write: Callable[[Sequence[Outcome]], str]
    #: Whether each outcome is written when it is known; errors are then left to stderr.
    one_by_one: bool = False
    #: Raise InputError where the format cannot be written, before a command does anything.
    check: Callable[[], None] = lambda: None

    def text(self, outcomes: Sequence[Outcome]) -> str:
        """Return the text for the outcomes; raise InputError if ``write`` returns something
        else.
        """
        text = self.write(outcomes)
        if not isinstance(text, str):
            raise plugin_error(
                self.write,
                f"the report format {self.name!r} returned {text!r}, of type "
                f"{type(text).__name__}, not a text",
            )
        return text


_FORMATS: dict[str, ReportFormat] = {}


def register_report(report: ReportFormat) -> None:
    """Add a report format (``--format NAME``).

    Raise :class:`~hilc.errors.InputError` if another format has its name, or the name or
    ``write`` is invalid.
    """
    known = {name: other.write for name, other in _FORMATS.items()}
    check_registered("report format", report.name, {"write": report.write}, known)
    _FORMATS[report.name] = report


def format_named(name: str) -> ReportFormat:
    """Return the format; raise :class:`~hilc.errors.InputError` if there is none of this name."""
    return registered("report format", name, _FORMATS)
