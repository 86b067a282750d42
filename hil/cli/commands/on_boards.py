"""Run a command on the combinations of its boards, goals and models: one result, the largest exit
code (:mod:`hil.cli.commands.matrix`).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hil.cli.commands.each_board import handled
from hil.cli.commands.matrix import (
    Combination,
    Processes,
    combinations,
    failed_run,
    is_to_be_repeated,
)
from hil.cli.console import Console, PartConsole
from hil.cli.outcome_files import check_files, outcome_table, write_files
from hil.cli.reports import Outcome
from hil.cli.status import Status
from hil.errors import Attempt, HilError, InputError
from hil.firmware.fit import FitError
from hil.plugins import fault_in


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

    def ended(outcome: Outcome) -> int:
        outcome = replace(outcome, reruns=reruns)
        write_files(args, [only.named(outcome, time.monotonic() - start)])
        return outcome.exit_code

    while True:
        one = only.arguments(args)
        one.output, one.words = getattr(args, "output", None), args.words
        one.failed_places, one.reruns = tuple(failed), tuple(reruns)
        began = time.monotonic()
        try:
            code = handled(one, console)
        except Exception as raised:
            error = raised if isinstance(raised, HilError) else fault_in(raised)
            if error is None:
                raise
            failed.append(_place(one))
            outcome = Outcome(_command(args), only.name, exit_code=error.exit_code, error=error)
            outcome = replace(outcome, place=failed[-1], seconds=time.monotonic() - began)
            if is_to_be_repeated(outcome, args, len(failed)):
                console.warn(f"{only.label} failed and runs again: {error.fact}")
                reruns += failed_run(outcome)
                continue
            if not (isinstance(error, FitError) and getattr(args, "skip_too_large", False)):
                ended(outcome)
                raise
            told = {"board": only.name, "exit_code": 0, "skipped": error.fact}
            outcome = replace(outcome, exit_code=0, error=None, skipped=error.fact, data=told)
            _skip(console, only.named(outcome, 0))
            return ended(outcome)
        return ended(replace(console.found or Outcome(_command(args), only.name), exit_code=code))


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
        code = handled(args, console)
        outcome = replace(console.found or outcome, exit_code=code)
    except Exception as raised:
        error = raised if isinstance(raised, HilError) else fault_in(raised)
        if error is None:
            raise
        if console.found is not None and outcome.command == "report":
            # A page shows what was found before the error.
            outcome = console.found
        if isinstance(error, FitError) and getattr(args, "skip_too_large", False):
            outcome = replace(outcome, skipped=error.fact)
        else:
            outcome = replace(outcome, exit_code=error.exit_code, error=error)
    outcome = replace(outcome, place=_place(args))
    return combination.named(outcome, time.monotonic() - start)


def _command(args: argparse.Namespace) -> Any:
    return args.parser.prog.split()[-1]


def _on_each(args: argparse.Namespace, console: Console, plan: Sequence[Combination]) -> int:
    """Run each combination, also after one of them failed; raise usage errors before the first."""
    _check(args, plan)
    assert console.format is not None, "commands on several boards have formats"
    is_parallel = getattr(args, "jobs", 1) > 1
    outcomes: dict[int, Outcome] = {}
    written = 0
    with Status(console, [c.label for c in plan], may_be_live=is_parallel) as status:
        run = Processes(args, status.update).run if is_parallel else one_by_one(args, console)
        for index, outcome in run(plan):
            outcomes[index] = outcome
            tell(console, outcome)
            # In the order of the plan, each as soon as those before it are written.
            while console.format.one_by_one and not status.is_live and written in outcomes:
                _write(console, outcomes[written])
                written += 1
    found = [outcomes[index] for index in range(len(plan))]
    if console.format.one_by_one:
        for outcome in found[written:]:
            _write(console, outcome)
        if any(outcome.goal or outcome.model for outcome in found):
            console.line(f"\n{outcome_table(found)}")
    else:
        console.result_text(console.format.text(found))
    write_files(args, found)
    return max(outcome.exit_code for outcome in found)


def one_by_one(
    args: argparse.Namespace, console: Console
) -> Callable[[Sequence[Combination]], Iterator[tuple[int, Outcome]]]:
    """Return the function that runs combinations in this process."""

    def run(plan: Sequence[Combination]) -> Iterator[tuple[int, Outcome]]:
        for index, combination in enumerate(plan):
            failed: list[str] = []
            reruns: list[Attempt] = []
            while True:
                part = PartConsole(console.quiet)
                own = combination.arguments(args)
                own.failed_places = tuple(failed)
                outcome = outcome_of(own, combination, part)
                failed.append(outcome.place)
                if not is_to_be_repeated(outcome, args, len(failed)):
                    break
                reruns += failed_run(outcome)
            yield index, replace(outcome, reruns=reruns)

    return run


def tell(console: Console, outcome: Outcome) -> None:
    """Print what does not belong to the result: log, error, and why it was skipped."""
    for line in outcome.log.splitlines():
        console.log(f"{outcome.label}: {line}")
    if outcome.error is not None:
        console.error(outcome.error, outcome.label)
    if outcome.skipped:
        console.log(f"{outcome.label}: skipped: {outcome.skipped}")


def _write(console: Console, outcome: Outcome) -> None:
    """Write an outcome as text, apart from those before it; an error is on stderr."""
    if outcome.error is not None or outcome.skipped:
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
