"""The entry of ``hil report``, and of the files of its ``--results``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from hil.errors import Attempt
from hil.results.answer import ErrorInfo, entry_of
from hil.results.bench import BenchEntry
from hil.results.build import BuildEntry
from hil.results.codec import omitted
from hil.results.evaluate import EvaluateEntry
from hil.results.plan import PlanEntry
from hil.results.verify import VerifyEntry
from hilc.support.jsondata import Renamed


@dataclass(frozen=True)
class About:
    """Descriptions of the model and the board."""

    #: File name and size of the model.
    file: str = ""
    bytes: Annotated[int | None, Renamed("nbytes")] = None
    #: Which reference's arithmetic the code computes, and how it rounds.
    arithmetic: str = ""
    rounding: str = ""
    inputs: str = ""
    options: str = ""
    board: str = ""
    cpu: str = ""
    clock_hz: int | None = None


@dataclass(frozen=True)
class RecordedRun:
    """A measurement of the history."""

    #: Date and time, and the commit if there was one.
    time: str
    counter: str
    per_inference: int
    workspace_bytes: int | None = None
    model_flash_bytes: int | None = None
    #: All static RAM of the firmware, without its stacks.
    ram_bytes: int | None = None
    commit: str | None = None


@entry_of("report")
@dataclass(frozen=True)
class ReportEntry:
    """Everything that a page shows of a model on a board; parts without a result are absent."""

    model: str
    board: str
    #: Goal of the compiler (``--optimize``); None for a library that does not record its goal.
    goal: str | None = None
    verify: VerifyEntry | None = omitted()
    bench: BenchEntry | None = omitted()
    build: BuildEntry | None = omitted()
    evaluate: EvaluateEntry | None = omitted()
    plan: PlanEntry | None = omitted()
    about: About | None = omitted()
    #: Measurements of the same model, board and goal, the oldest first.
    history: tuple[RecordedRun, ...] | None = omitted()
    #: Lines that the commands logged.
    log: tuple[str, ...] | None = omitted()
    #: The command line that gives the result again.
    command: str | None = omitted()
    #: The error that ended the combination.
    error: ErrorInfo | None = omitted()
    #: Why the combination was skipped.
    skipped: str = omitted("")
    #: Steps that brought the board back, and earlier runs of the combination.
    recoveries: tuple[Attempt, ...] = ()
    #: ``match``, ``differ``, ``missed``, ``failed``, ``measured`` or ``skipped``; absent in files
    #: of ``--results``.
    status: str = omitted("")
    #: The page that shows it; absent in files of ``--results``.
    page: str = omitted("")

    @property
    def all_recoveries(self) -> tuple[Attempt, ...]:
        """Recoveries of the combination, and those of its parts that it does not list itself."""
        parts = (self.verify, self.bench, self.evaluate)
        found = [attempt for part in parts if part is not None for attempt in part.recoveries]
        own = list(self.recoveries)
        return tuple(own + [attempt for attempt in found if attempt not in own])

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if self.skipped and (self.verify or self.bench or self.evaluate or self.error):
            yield "it was skipped, and has a result"
