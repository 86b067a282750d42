"""Run a command on the combinations of its boards, goals and models: one result, the largest exit
code (:mod:`hil.cli.matrix`, :mod:`hil.jobs.matrix`).
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from hil.cli.console import ENDED, EXIT_BROKEN_PIPE, Console
from hil.cli.matrix import Combination, combinations
from hil.cli.outcome_files import OutcomeFiles, check_files, outcome_table
from hil.cli.recording import history_of, record
from hil.cli.reports import Outcome
from hil.cli.running import ConsoleRun
from hil.cli.status import Status
from hil.errors import HilError, InputError, InternalError, NotRunError
from hil.history import History
from hil.history.store import Kind
from hil.jobs.job import Job
from hil.jobs.matrix import JobOutcome, Matrix, check_workers
from hil.support.failures import known_error


@dataclass(frozen=True)
class BoardCommand:
    """A command that runs on several boards, with several goals and models."""

    name: Literal["build", "verify", "bench", "report"]
    #: Returns the job of one combination from its arguments.
    job: Callable[[argparse.Namespace], Job[Any]]
    #: Returns the outcome on a board from that of a job, with the options of output.
    outcome: Callable[[argparse.Namespace, str, JobOutcome], Outcome]
    #: The results' kind in the history; None if they are not recorded.
    kind: Kind | None = None

    def not_run(self, combination: Combination) -> Outcome:
        """Return the outcome of a combination as long as it has none: also after SIGKILL."""
        error = NotRunError("the command ended before it had a result", 128 + 9)
        outcome = Outcome(self.name, combination.name, exit_code=error.exit_code, error=error)
        return combination.named(outcome, 0.0)

    def jobs_of(self, arguments: Sequence[argparse.Namespace]) -> list[Job[Any] | HilError]:
        """Return the job of each combination from its arguments, or the error in them."""
        return list(map(self._job_of, arguments))

    def _job_of(self, args: argparse.Namespace) -> Job[Any] | HilError:
        try:
            return self.job(args)
        except HilError as error:
            return error

    def outcome_of(
        self, args: argparse.Namespace, combination: Combination, found: JobOutcome
    ) -> Outcome:
        """Return the outcome of a combination for the formats of reports."""
        outcome = replace(
            self.outcome(args, combination.name, found),
            exit_code=found.exit_code,
            error=found.error,
            skipped=found.skipped,
            place=found.place,
            reruns=found.reruns,
            log=found.log,
        )
        return combination.named(outcome, found.seconds)


def run_on_boards(args: argparse.Namespace, console: Console, command: BoardCommand) -> int:
    """Run the command on each combination that the arguments name."""
    plan = combinations(args)
    check_files(args)
    _check(args, plan)
    is_only = len(plan) == 1
    arguments = [combination.arguments(args) for combination in plan]
    if is_only:
        arguments[0].output, arguments[0].words = getattr(args, "output", None), args.words
    jobs = command.jobs_of(arguments)
    history = history_of(args) if command.kind is not None else None
    form = console.format
    assert form is not None, "commands on several boards have formats"
    files = OutcomeFiles(args, [command.not_run(combination) for combination in plan])
    files.begin()
    written: list[Outcome] = []
    outcomes: dict[int, Outcome] = {}

    def ended(index: int, outcome: Outcome, status: Status) -> None:
        outcomes[index] = outcome
        files.add(index, outcome)
        # In the order of the plan, each as soon as those before it are written.
        while form.one_by_one and not status.is_live and len(written) in outcomes:
            write(outcomes[len(written)])

    def write(outcome: Outcome) -> None:
        written.append(outcome)
        _write(console, outcome, is_only=is_only)

    def save(found: Sequence[Outcome]) -> None:
        try:
            files.finish(found)
        finally:
            show(found)

    def show(found: Sequence[Outcome]) -> None:
        if not form.one_by_one:
            if not console.has_result:
                console.result_text(form.text(found))
            return
        for outcome in found[len(written) :]:
            write(outcome)
        if any(outcome.goal or outcome.model for outcome in found):
            console.line(f"\n{outcome_table(found)}")

    found = run_each(args, console, plan, jobs, command, ended, save, history)
    return max(outcome.exit_code for outcome in found)


def run_each(
    args: argparse.Namespace,
    console: Console,
    plan: Sequence[Combination],
    jobs: Sequence[Job[Any] | HilError],
    command: BoardCommand,
    ended: Callable[[int, Outcome, Status], None],
    save: Callable[[Sequence[Outcome]], None],
    history: History | None = None,
) -> list[Outcome]:
    """Run the job of each combination, also after one failed; return their outcomes.

    ``ended`` is called for each as it ends, ``save`` with all outcomes at the end. Where a signal
    or an error ends the command, those that have not ended are marked as not run, ``save`` is
    called, perhaps again, and the exception passes.
    """
    is_only = len(plan) == 1
    workers = getattr(args, "jobs", 1)
    if is_only and workers > 1:
        console.warn(f"--jobs {workers} has no effect: there is one combination to run")
        workers = 1
    check_workers(f"--jobs {workers}", workers)
    status = Status(console, [c.label for c in plan], may_be_live=workers > 1)
    outcomes: dict[int, Outcome] = {}

    def again(index: int, found: JobOutcome) -> None:
        assert found.error is not None, "a run without an error is not repeated"
        if is_only:
            console.warn(f"{plan[index].label} failed and runs again: {found.error.fact}")

    def take(index: int) -> Outcome:
        """Return the outcome of a combination that has ended; record it the first time."""
        if index in outcomes:
            return outcomes[index]
        found = runs.finished[index]
        outcome = command.outcome_of(args, plan[index], found)
        status.update(index, outcome)
        # A signal in between would leave it out of the history, or record it twice.
        with console.uninterrupted():
            if command.kind is not None:
                label = "" if is_only else outcome.label
                try:
                    entries = [result.entry() for result in found.results]
                    record(history, command.kind, entries, console, label)
                except HilError as error:
                    outcome = outcome.failed(error)
            outcomes[index] = outcome
        return outcome

    runs = Matrix(
        jobs,
        workers=workers,
        retries=getattr(args, "retries", 0),
        skip_too_large=getattr(args, "skip_too_large", False),
        run=ConsoleRun(console, args.verbose),
        started=lambda index: status.update(index, None),
        again=again,
    )
    try:
        with status:
            for index in runs.run():
                outcome = take(index)
                tell(console, outcome, is_only=is_only)
                ended(index, outcome, status)
        found = [outcomes[index] for index in range(len(plan))]
        save(found)
        return found
    except BaseException as raised:
        runs.end()
        with suppress(HilError, BrokenPipeError):
            for index in tuple(runs.finished):
                take(index)
            error = _ending(raised, console)
            save(_ended_early(plan, command, outcomes, error, console))
        raise
    finally:
        runs.stop()


def _ending(raised: BaseException, console: Console) -> HilError:
    """Return the error for what ended the command."""
    number = console.ended_by
    if number is None and isinstance(raised, KeyboardInterrupt):
        number = signal.SIGINT
    if number is not None:
        return NotRunError(ENDED[signal.Signals(number)], 128 + number)
    if isinstance(raised, BrokenPipeError):
        return NotRunError("standard output is closed", EXIT_BROKEN_PIPE)
    return known_error(raised) or InternalError(raised)


def _ended_early(
    plan: Sequence[Combination],
    command: BoardCommand,
    outcomes: Mapping[int, Outcome],
    error: HilError,
    console: Console,
) -> list[Outcome]:
    """Return the outcomes of a matrix that ``error`` ended; say how many were not run."""
    why = error.fact.removeprefix("not run: ")
    left = NotRunError(why, error.exit_code)
    found = [
        outcomes.get(index)
        or replace(command.not_run(combination), error=left, exit_code=left.exit_code)
        for index, combination in enumerate(plan)
    ]
    count = sum(outcome.error is left for outcome in found)
    if count and len(found) > 1:
        console.warn(f"{count} of {len(found)} combinations were not run: {why}")
    return found


def tell(console: Console, outcome: Outcome, *, is_only: bool) -> None:
    """Print what does not belong to the result: log, error, and why it was skipped."""
    for line in outcome.log.splitlines():
        console.log(f"{outcome.label}: {line}")
    if outcome.error is not None:
        console.error(outcome.error, "" if is_only else outcome.label)
    if outcome.skipped and not is_only:
        console.log(f"{outcome.label}: skipped: {outcome.skipped}")


def _write(console: Console, outcome: Outcome, *, is_only: bool) -> None:
    """Write the reports of an outcome, apart from those before it; an error is on stderr."""
    if outcome.skipped and is_only:
        console.line(f"{outcome.label}: skipped: {outcome.skipped}")
    if outcome.skipped or (outcome.error is not None and not outcome.reports):
        return
    assert console.format is not None, "see run_on_boards"
    if console.has_result:
        console.line("")
    console.result_text(console.format.text([outcome]))


def _check(args: argparse.Namespace, plan: Sequence[Combination]) -> None:
    """Raise usage errors before the first combination."""
    names = list(dict.fromkeys(combination.name for combination in plan))
    if len(names) == 1:
        return
    if output := getattr(args, "output", None):
        # Not at the top: most commands need no compiler.
        from hil.firmware.build import check_project, check_project_name

        check_project_name(output)
        for name in names:
            check_project(os.path.join(output, name), force=args.force)
    for option in ("port", "probe"):
        if getattr(args, option, None):
            raise InputError(
                f"--{option} belongs to one board, and {len(names)} are given",
                "give --board once, or leave the option out",
            )
