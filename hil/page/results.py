"""Results of models on boards, from the entries of several commands, as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from hil.board import board_names, load_board
from hil.errors import Attempt
from hil.page.plan_json import plan_entry, plan_of
from hil.results.answer import Answer, ErrorInfo, FailedEntry, SkippedEntry
from hil.results.bench import BenchEntry, CheckedOutputs
from hil.results.build import BuildEntry
from hil.results.codec import decode
from hil.results.evaluate import EvaluateEntry
from hil.results.history import HistoryEntry
from hil.results.parts import Provenance
from hil.results.plan import PlanEntry
from hil.results.read import read_answers
from hil.results.report import About, RecordedRun, ReportEntry
from hil.results.v0 import DEFAULT_GOAL, upgraded_entry
from hil.results.verify import VerifyEntry
from hilc.errors import InputError
from hilc.memory.explanation import Explanation
from hilc.support.inputs import check_regular
from hilc.support.jsondata import parse_json

_REMEDY = "give the JSON that hil report, verify, bench, build, evaluate or explain wrote (--json)"
#: Limit of the size of a file of results.
_MAX_BYTES = 1 << 28

#: ``missed``: a metric of an evaluation exceeds its limit; ``skipped``: too large for the board.
Status = Literal["match", "differ", "missed", "failed", "measured", "skipped"]


@dataclass(frozen=True)
class Result:
    """What is known of a model on a board; a part that nobody measured is None."""

    model: str
    board: str
    verified: VerifyEntry | None = None
    benched: BenchEntry | None = None
    built: BuildEntry | None = None
    evaluated: EvaluateEntry | None = None
    plan: Explanation | None = None
    about: About | None = None
    #: Measurements of the same model on the same board, the oldest first.
    history: tuple[RecordedRun, ...] | None = None
    log: tuple[str, ...] | None = None
    command: str | None = None
    failure: ErrorInfo | None = None
    #: Why it was skipped; empty if it ran.
    skipped: str = ""
    #: Goal of the compiler, the default one too; empty where it is not known.
    recorded_goal: str = ""
    #: Steps that brought the board back.
    recoveries: tuple[Attempt, ...] = ()

    @property
    def goal(self) -> str:
        """The goal where it tells results apart; empty for the default goal, and an unknown one."""
        return _shown_goal(self.recorded_goal)

    @property
    def provenance(self) -> Provenance | None:
        """Provenance of the comparison; of the measurement where nothing was compared."""
        parts = (self.verified, self.benched, self.evaluated)
        return next((part.provenance for part in parts if part and part.provenance), None)

    @property
    def status(self) -> Status:
        """The verdict on the model on this board."""
        if self.failure is not None:
            return "failed"
        if self.skipped:
            return "skipped"
        if self.verified is not None and not self.verified.match:
            return "differ"
        if self.benched is not None and not self.benched.is_good:
            return "differ"
        if self.evaluated is not None and not self.evaluated.met:
            return "missed"
        if self.evaluated is not None and self.evaluated.mismatches:
            return "differ"
        return "match" if self.comparisons else "measured"

    @property
    def comparisons(self) -> tuple[VerifyEntry | CheckedOutputs | EvaluateEntry, ...]:
        """The comparisons with a reference."""
        checked = self.benched.checked if self.benched is not None else None
        found = (self.verified, checked, self.evaluated)
        return tuple(part for part in found if part is not None)

    @property
    def is_independent(self) -> bool:
        """Whether other people's code computed a reference that it was compared with."""
        return any(part.independent for part in self.comparisons)


def read_results(path: str | Path) -> list[Result]:
    """Return the results of a JSON file; :class:`~hilc.errors.InputError` for one that has none."""
    path = Path(path)
    check_regular(path, _REMEDY, most_bytes=_MAX_BYTES)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", _REMEDY) from None
    return results_in(parse_json(text, str(path), _REMEDY), str(path))


def results_in(data: Any, label: str) -> list[Result]:
    """Return the results in a JSON value; ``label`` names it in messages.

    Raise :class:`~hilc.errors.InputError` for JSON that no command wrote, and for an answer without
    a result of a model on a board.
    """
    results = list(results_of(read_answers(data, label, _REMEDY), label))
    if not results:
        raise InputError(f"{label} holds no result of a model on a board", _REMEDY)
    return results


def results_of(answers: Iterable[Answer], label: str) -> Iterator[Result]:
    """Yield the results of answers: one per entry, those of a history by model, board and goal."""
    recorded: list[HistoryEntry] = []
    for answer in answers:
        for entry in answer.results:
            if isinstance(entry, HistoryEntry):
                recorded.append(entry)
            else:
                yield from _results(entry)
    yield from _recorded(recorded, label)


def _results(entry: Any) -> Iterator[Result]:
    """Yield the results of one entry: one for each model of a built image, else one."""
    match entry:
        case PlanEntry():
            yield Result(entry.model, "", plan=plan_of(entry))
            return
        case BuildEntry():
            goal = entry.goal or ""
            names = [model.model for model in entry.models]
            yield from (
                Result(name, entry.board, built=entry, recorded_goal=goal) for name in names
            )
            return
    whole = Result(entry.model, entry.board, recorded_goal=entry.goal or "")
    match entry:
        case VerifyEntry():
            yield replace(whole, verified=entry, recoveries=entry.recoveries)
        case BenchEntry():
            yield replace(whole, benched=entry, recoveries=entry.recoveries)
        case EvaluateEntry():
            yield replace(whole, evaluated=entry, recoveries=entry.recoveries)
        case FailedEntry():
            yield replace(whole, failure=entry.error, recoveries=entry.recoveries)
        case SkippedEntry():
            yield replace(whole, skipped=entry.skipped)
        case ReportEntry():
            yield replace(
                whole,
                verified=entry.verify,
                benched=entry.bench,
                built=entry.build,
                evaluated=entry.evaluate,
                plan=None if entry.plan is None else plan_of(entry.plan),
                about=entry.about,
                history=entry.history,
                log=entry.log,
                command=entry.command,
                failure=entry.error,
                skipped=entry.skipped,
                recoveries=entry.all_recoveries,
            )


def entry_of_result(result: Result, page: str) -> ReportEntry:
    """Return the entry of ``hil report`` for a result that ``page`` shows."""
    return ReportEntry(
        model=result.model,
        board=result.board,
        goal=result.recorded_goal or None,
        verify=result.verified,
        bench=result.benched,
        build=result.built,
        evaluate=result.evaluated,
        plan=None if result.plan is None else plan_entry(result.plan),
        about=result.about,
        history=result.history,
        log=result.log,
        command=result.command,
        error=result.failure,
        skipped=result.skipped,
        recoveries=result.recoveries,
        status=result.status,
        page=page,
    )


def _shown_goal(goal: str | None) -> str:
    return "" if goal in (None, DEFAULT_GOAL) else goal


def merged(results: Iterable[Result]) -> list[Result]:
    """Return one result for each model, board and goal, in the order of their first mention.

    Of a part that several have, the last counts, but a comparison, a measurement or an evaluation
    that is good does not replace one that is not. A plan, which names no board, is for every board
    of its model whose core is its own.
    """
    found: dict[tuple[str, str, str], Result] = {}
    for_all = []
    for result in results:
        if not result.board:
            for_all.append(result)
            continue
        key = (result.model, result.board, result.goal)
        found[key] = _joined(found[key], result) if key in found else result
    for of_model in for_all:
        for key, result in found.items():
            if of_model.plan and key[0] == of_model.model and of_model.plan.cpu == _core(result):
                found[key] = replace(result, plan=of_model.plan)
    if not found:
        raise InputError("the results name no board, as a plan alone does not", _REMEDY)
    return list(found.values())


def _joined(known: Result, newer: Result) -> Result:
    given = {f.name: value for f in fields(newer) if (value := getattr(newer, f.name))}
    for part in ("verified", "benched", "evaluated"):
        before = getattr(known, part)
        if before is not None and not before.is_good and part in given and given[part].is_good:
            del given[part]
    given["recoveries"] = known.recoveries + newer.recoveries
    return replace(known, **given)


def _core(result: Result) -> str:
    """Return the core of a result's board; empty for a board that is not known here."""
    if result.about is not None:
        return result.about.cpu
    return load_board(result.board).cpu.name if result.board in board_names() else ""


def runs_of(entries: Sequence[HistoryEntry], label: str) -> tuple[RecordedRun, ...]:
    """Return the measurements among the entries of a history; raise for figures of none."""
    return tuple(
        decode(
            RecordedRun,
            {**entry.result, "time": entry.time, "commit": entry.commit},
            f"{label}, entry {entry.id}" if entry.id else label,
            _REMEDY,
        )
        for entry in entries
        if entry.kind == "bench" and isinstance(entry.result, Mapping)
    )


def _recorded(entries: Sequence[HistoryEntry], label: str) -> Iterator[Result]:
    """Yield the measurements of ``hil history``, those of a model, board and goal together."""
    found: dict[tuple[str, str, str], list[HistoryEntry]] = {}
    for entry in entries:
        result = entry.result if isinstance(entry.result, Mapping) else {}
        goal = _shown_goal(upgraded_entry(entry.kind, result)["goal"])
        found.setdefault((entry.model, entry.board, goal), []).append(entry)
    for (model, board, goal), own in found.items():
        if runs := runs_of(own, label):
            yield Result(model, board, history=runs, recorded_goal=goal)
