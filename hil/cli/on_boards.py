"""Run a command on the combinations of its boards, goals and models: one result, the largest exit
code (:mod:`hil.cli.matrix`).
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from hil.cli.console import ENDED, EXIT_BROKEN_PIPE, Console, PartConsole
from hil.cli.each_board import run_command
from hil.cli.failures import known_error
from hil.cli.matrix import (
    Combination,
    Processes,
    SetAside,
    combinations,
    failed_run,
    should_retry,
)
from hil.cli.outcome_files import OutcomeFiles, check_files, outcome_table
from hil.cli.reports import Outcome
from hil.cli.status import Status
from hil.errors import Attempt, HilError, InputError, InternalError, NotRunError
from hil.firmware.fit import FitError


def run_on_boards(args: argparse.Namespace, console: Console) -> int:
    """Run the command on each combination that the arguments name."""
    plan = combinations(args)
    check_files(args)
    if len(plan) > 1:
        return _on_each(args, console, plan)
    return _on_only(args, console, plan[0])


def _on_only(args: argparse.Namespace, console: Console, only: Combination) -> int:
    """Run the only combination; its error ends the command as any error does."""
    start = time.monotonic()
    failed: list[str] = []
    reruns: list[Attempt] = []
    files = OutcomeFiles(args, [not_run(args, only)])
    files.begin()

    def ended(outcome: Outcome) -> int:
        outcome = replace(outcome, reruns=reruns)
        files.finish([only.named(outcome, time.monotonic() - start)])
        return outcome.exit_code

    while True:
        one = only.arguments(args)
        one.output, one.words = getattr(args, "output", None), args.words
        one.failed_places, one.reruns = tuple(failed), tuple(reruns)
        began = time.monotonic()
        try:
            code = run_command(one, console)
        except BaseException as raised:
            error = _ending(raised, console)
            failed.append(_place(one))
            found, console.found = console.found, None
            outcome = (found or Outcome(_command(args), only.name)).failed(error)
            outcome = replace(outcome, place=failed[-1], seconds=time.monotonic() - began)
            if should_retry(outcome, args, len(failed)):
                console.warn(f"{only.label} failed and runs again: {error.fact}")
                reruns += failed_run(outcome)
                continue
            if not (isinstance(error, FitError) and getattr(args, "skip_too_large", False)):
                code = ended(outcome)
                outcome = replace(only.named(outcome, 0), reruns=reruns)
                return _failed(raised, outcome, code, console)
            outcome = replace(outcome, exit_code=0, error=None, skipped=error.fact)
            _skip(console, only.named(outcome, 0))
            return ended(outcome)
        return ended(replace(console.found or Outcome(_command(args), only.name), exit_code=code))


def _failed(raised: BaseException, outcome: Outcome, code: int, console: Console) -> int:
    """Write the reports of the models before the error, in JSON with the error; return the exit
    code, or raise what ended the command where that is no failure of the combination.
    """
    error = outcome.error
    has_result = bool(outcome.reports) or console.as_json
    if isinstance(error, NotRunError | InternalError) or not has_result:
        raise raised
    assert error is not None, "see _on_only"
    assert console.format is not None, "commands on several boards have formats"
    if not console.has_result:
        console.result_text(console.format.text([replace(outcome, exit_code=code)]))
    console.error(error)
    return code


def not_run(args: argparse.Namespace, combination: Combination) -> Outcome:
    """Return the outcome of a combination as long as it has none: also after SIGKILL."""
    error = NotRunError("the command ended before it had a result", 128 + signal.SIGKILL)
    outcome = Outcome(_command(args), combination.name, exit_code=error.exit_code, error=error)
    return combination.named(outcome, 0.0)


def _ending(raised: BaseException, console: Console) -> HilError:
    """Return the error for what ended a combination, or the command."""
    number = console.ended_by
    if number is None and isinstance(raised, KeyboardInterrupt):
        number = signal.SIGINT
    if number is not None:
        return NotRunError(ENDED[signal.Signals(number)], 128 + number)
    if isinstance(raised, BrokenPipeError):
        return NotRunError("standard output is closed", EXIT_BROKEN_PIPE)
    return known_error(raised) or InternalError(raised)


def _skip(console: Console, outcome: Outcome) -> None:
    """Write that the only combination was skipped."""
    assert console.format is not None, "commands on several boards have formats"
    if console.format.one_by_one:
        console.line(f"{outcome.label}: skipped: {outcome.skipped}")
    else:
        console.outcome(outcome)


def _place(args: argparse.Namespace) -> str:
    """Return the place of a lab that a command ran on; empty elsewhere."""
    lab = getattr(args, "lab", None)
    return "" if lab is None else str(lab.place)


def outcome_of(args: argparse.Namespace, combination: Combination, console: Console) -> Outcome:
    """Run one combination, whose arguments are ``args``; return its outcome, also of an error."""
    outcome = Outcome(_command(args), combination.name)
    start = time.monotonic()
    try:
        code = run_command(args, console)
        outcome = replace(console.found or outcome, exit_code=code)
    except Exception as raised:
        error = known_error(raised)
        if error is None:
            # A bug in one combination does not take the results of the others.
            traceback.print_exception(raised)
            error = InternalError(raised)
        # What was found before the error stays.
        outcome = console.found or outcome
        if isinstance(error, FitError) and getattr(args, "skip_too_large", False):
            outcome = replace(outcome, skipped=error.fact)
        else:
            outcome = outcome.failed(error)
    outcome = replace(outcome, place=_place(args))
    return combination.named(outcome, time.monotonic() - start)


def _command(args: argparse.Namespace) -> Any:
    return args.parser.prog.split()[-1]


class Runs(Protocol):
    """A way to run the combinations of a matrix."""

    #: Outcome of each combination that has ended, by its position.
    finished: dict[int, Outcome]

    def run(self, plan: Sequence[Combination]) -> Iterator[int]:
        """Yield the position of each combination that has ended; call :meth:`stop` afterwards."""
        ...

    def end(self) -> None:
        """Ask what runs to end, and wait a moment for results on their way."""
        ...

    def stop(self) -> None:
        """End what runs."""
        ...


def run_each(
    args: argparse.Namespace,
    console: Console,
    plan: Sequence[Combination],
    ended: Callable[[int, Outcome, Status], None],
    save: Callable[[Sequence[Outcome]], None],
) -> list[Outcome]:
    """Run each combination, also after one of them failed; return their outcomes.

    ``ended`` is called for each as it ends, ``save`` with all outcomes at the end. Where a signal
    or an error ends the command, those that have not ended are marked as not run, ``save`` is
    called, perhaps again, and the exception passes.
    """
    jobs = getattr(args, "jobs", 1)
    status = Status(console, [c.label for c in plan], may_be_live=jobs > 1)
    runs: Runs = Processes(args, status.update) if jobs > 1 else InTurn(args, console)
    try:
        with status:
            for index in runs.run(plan):
                outcome = runs.finished[index]
                tell(console, outcome)
                ended(index, outcome, status)
        found = [runs.finished[index] for index in range(len(plan))]
        save(found)
        return found
    except BaseException as raised:
        runs.end()
        with suppress(HilError, BrokenPipeError):
            save(_ended_early(args, plan, runs.finished, _ending(raised, console), console))
        raise
    finally:
        runs.stop()


def _ended_early(
    args: argparse.Namespace,
    plan: Sequence[Combination],
    finished: Mapping[int, Outcome],
    error: HilError,
    console: Console,
) -> list[Outcome]:
    """Return the outcomes of a matrix that ``error`` ended; say how many were not run."""
    why = error.fact.removeprefix("not run: ")
    left = NotRunError(why, error.exit_code)
    found = [
        finished.get(index)
        or replace(not_run(args, combination), error=left, exit_code=left.exit_code)
        for index, combination in enumerate(plan)
    ]
    if count := sum(outcome.error is left for outcome in found):
        console.warn(f"{count} of {len(found)} combinations were not run: {why}")
    return found


def _on_each(args: argparse.Namespace, console: Console, plan: Sequence[Combination]) -> int:
    """Run each combination; raise usage errors before the first."""
    _check(args, plan)
    form = console.format
    assert form is not None, "commands on several boards have formats"
    files = OutcomeFiles(args, [not_run(args, combination) for combination in plan])
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
        _write(console, outcome)

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

    found = run_each(args, console, plan, ended, save)
    return max(outcome.exit_code for outcome in found)


class InTurn:
    """Runs combinations in this process, one after the other."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self._args, self._console = args, console
        self.finished: dict[int, Outcome] = {}

    def run(self, plan: Sequence[Combination]) -> Iterator[int]:
        """Yield the position of each combination that has ended.

        Raise :class:`KeyboardInterrupt` if the command is interrupted.
        """
        aside = SetAside(self._args)
        for index, combination in enumerate(plan):
            if (known := aside.outcome_of(combination)) is not None:
                self.finished[index] = known
                yield index
                continue
            failed: list[str] = []
            reruns: list[Attempt] = []
            while True:
                part = PartConsole(self._console.quiet)
                own = combination.arguments(self._args)
                own.failed_places = tuple(failed)
                outcome = outcome_of(own, combination, part)
                if outcome.error is not None and self._console.ended_by is not None:
                    # The signal ended a child, too, or a library made an error of it.
                    raise KeyboardInterrupt
                self.finished[index] = outcome
                failed.append(outcome.place)
                if not should_retry(outcome, self._args, len(failed)):
                    break
                reruns += failed_run(outcome)
            aside.look_at(combination, outcome)
            self.finished[index] = replace(outcome, reruns=reruns)
            yield index

    def end(self) -> None:
        """Nothing runs beside this process."""

    def stop(self) -> None:
        """Nothing runs beside this process."""


def tell(console: Console, outcome: Outcome) -> None:
    """Print what does not belong to the result: log, error, and why it was skipped."""
    for line in outcome.log.splitlines():
        console.log(f"{outcome.label}: {line}")
    if outcome.error is not None:
        console.error(outcome.error, outcome.label)
    if outcome.skipped:
        console.log(f"{outcome.label}: skipped: {outcome.skipped}")


def _write(console: Console, outcome: Outcome) -> None:
    """Write the reports of an outcome, apart from those before it; an error is on stderr."""
    if outcome.skipped or (outcome.error is not None and not outcome.reports):
        return
    assert console.format is not None, "see on_each"
    if console.has_result:
        console.line("")
    console.result_text(console.format.text([outcome]))


def _check(args: argparse.Namespace, plan: Sequence[Combination]) -> None:
    names = list(dict.fromkeys(combination.name for combination in plan))
    if output := getattr(args, "output", None):
        # Not at the top: most commands need no compiler.
        from hil.firmware.build import check_project, check_project_name

        check_project_name(output)
        for name in names:
            check_project(os.path.join(output, name), force=args.force)
    for option in ("port", "probe"):
        if getattr(args, option, None) and len(names) > 1:
            raise InputError(
                f"--{option} belongs to one board, and {len(names)} are given",
                "give --board once, or leave the option out",
            )
