"""``hil report``: measure models on boards, or take stored results; write one HTML page."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hil.board import Board
from hil.cli.actions.bench import bench_job
from hil.cli.actions.verify import verify_job
from hil.cli.command_line import build_parser
from hil.cli.console import Console, shown_name, table
from hil.cli.matrix import Combination, combinations
from hil.cli.on_boards import BoardCommand, run_each
from hil.cli.recording import history_of, record
from hil.cli.reports import Outcome
from hil.cli.running import ConsoleRun
from hil.cli.status import Status
from hil.device.route import Route
from hil.errors import InputError
from hil.firmware.build import build
from hil.firmware.sources import explain_models, parse_sources
from hil.history import History
from hil.history.store import Kind
from hil.jobs.bench import BenchJob
from hil.jobs.image import Image
from hil.jobs.job import Job
from hil.jobs.matrix import JobOutcome, board_name
from hil.jobs.run import Run
from hil.jobs.verify import VerifyJob
from hil.page.page import Page, check_installed, is_unchanged, make_page, now
from hil.page.plan_json import plan_entry
from hil.page.results import (
    Result,
    entry_of_result,
    merged,
    read_results,
    results_in,
    runs_of,
)
from hil.results.answer import Answer, ErrorInfo
from hil.results.report import About, ReportEntry
from hil.verify.provenance import command_text
from hilc.artifact.library import Module
from hilc.frontends import load_model
from hilc.ir import Rounding
from hilc.support.jsondata import shown_in
from hilc.support.outputs import OutputError, check_file, write_file

_SUFFIXES = (".html", ".htm")
#: Measurements of the history that a page shows.
_RUNS = 50
#: Share of the time that pages before the last may take.
_PAGE_SHARE = 0.1
#: How each policy rounds the sums of a layer to its output's scale.
_ROUNDINGS = {
    Rounding.DOUBLE: "twice, to 32 bits and by the shift (gemmlowp)",
    Rounding.SINGLE: "once, half up",
    Rounding.NEAREST_EVEN: "once, ties to even",
}


def report_command(args: argparse.Namespace, console: Console) -> int:
    """Write a page of the models on the boards, and of the stored results."""
    check_installed()
    _check(args)
    pages = _Pages(args, console)
    if not args.report_boards:
        return pages.finish()
    return max(_measure(args, console, pages), pages.code)


class _Pages:
    """The page and the file of ``--results``, both up to date after every measurement."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self._args, self._console = args, console
        self._stored = [result for path in args.stored for result in read_results(path)]
        self._command = command_text(["hil", *args.words])
        self._began, self._spent_s = time.monotonic(), 0.0
        self._measured: Sequence[ReportEntry] = ()
        #: Exit code that the results of the last page mean.
        self.code = 0

    def save(self, measured: Sequence[ReportEntry], *, is_last: bool) -> None:
        """Write the results; the page, which is slow to write, for a share of the time only."""
        self._measured = measured
        if self._args.results:
            answer = Answer("report", _exit_code(_shown(measured)), measured)
            text = json.dumps(shown_in(answer.to_json()), indent=2, allow_nan=False) + "\n"
            write_file(self._args.results, text)
        start = time.monotonic()
        if is_last:
            self.finish()
        elif self._spent_s <= _PAGE_SHARE * (start - self._began):
            self._page()
            self._spent_s += time.monotonic() - start

    def _page(self) -> tuple[Page, list[Result]]:
        results = merged([*self._stored, *_shown(self._measured)])
        page = make_page(results, title=self._args.title, command=self._command, made=now())
        page.save(self._args.output)
        return page, results

    def finish(self) -> int:
        """Write the page, print the result of the command once, and return its exit code."""
        page, results = self._page()
        self.code = _exit_code(results)
        output = str(self._args.output)
        if not self._console.has_result:
            entries = [entry_of_result(result, output) for result in results]
            code = max(self.code, *(entry.error.exit_code for entry in entries if entry.error), 0)
            self._console.result(entries, _text(page, results, output), code)
        return self.code


def _shown(measured: Sequence[ReportEntry]) -> list[Result]:
    """Return entries as the page shows them: bytes that are not UTF-8 are escaped."""
    answer = Answer("report", 0, measured)
    data = shown_in(answer.to_json())
    return results_in(data, "the results") if measured else []


def _exit_code(results: Sequence[Result]) -> int:
    """Return 1 if a result is bad, else 0."""
    return int(any(result.status in ("differ", "missed", "failed") for result in results))


def _check(args: argparse.Namespace) -> None:
    """Raise for arguments that name nothing to show, and for outputs that cannot be written."""
    if args.models and not args.report_boards:
        raise InputError("models are given without --board", "add --board BOARD")
    if args.report_boards and not args.models:
        raise InputError("--board is given without a model", "name the model's file")
    if not args.models and not args.stored:
        raise InputError(
            "there is nothing to report", "give models and --board, or results with --from F.json"
        )
    if args.name and len(args.models) > 1:
        raise InputError("--name names one model, and there are several", "write NAME=path")
    check_file(
        args.output, *_SUFFIXES, kind="a page of results", is_own=is_unchanged, force=args.force
    )
    if args.results:
        if not args.models:
            raise InputError("--results is given without a model", "it stores what is measured")
        check_file(
            args.results, ".json", kind="a file of results", is_own=_is_own, force=args.force
        )


def _is_own(path: Path) -> bool:
    """Return whether the file has results of this command."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    is_old = isinstance(data, dict) and data.get("report") == 1
    return is_old or (isinstance(data, dict) and data.get("command") == "report")


def _text(page: Page, results: Sequence[Result], output: str) -> str:
    rows = [
        [
            shown_name(result.model),
            result.board,
            result.status,
            result.benched.per_inference if result.benched else None,
            result.benched.counter if result.benched else "",
        ]
        for result in results
    ]
    found = table(rows, ["model", "board", "result", "per inference", ""])
    return f"{found}\n\n{page.verdict}: {output}"


# -- one model on one board --------------------------------------------------------------------


class _Capture(Console):
    """Console that keeps the log of jobs."""

    def __init__(self, whole: Console) -> None:
        super().__init__(whole.as_json, whole.quiet)
        self.log_lines: list[str] = []

    def log(self, text: str) -> None:
        self.log_lines.append(text)
        super().log(text)

    def warn(self, text: str) -> None:
        self.log_lines.append(f"warning: {text}")
        super().warn(text)

    @contextmanager
    def keeping_records(self) -> Iterator[None]:
        """Keep the records of the harness, also those that the terminal does not show."""
        logger, handler = logging.getLogger("hil"), _Keeper(self.log_lines)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(min(before or logging.INFO, logging.INFO))
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)


class _Keeper(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        # A page is passed on: it does not name the user's folders.
        self._lines.append(record.getMessage().replace(str(Path.home()), "~"))


def _measure(args: Namespace, console: Console, pages: _Pages) -> int:
    """Measure each model on each board with each goal; return the exit code."""
    whole = Namespace(
        **{
            **_defaults(),
            **vars(args),
            "on_boards": args.report_boards,
            "separate": True,
            "output": None,
            "per_layer": True,
        }
    )
    plan = combinations(whole)
    if args.float_model and len({combination.model for combination in plan}) > 1:
        raise InputError(
            "--float-model is for one model, and there are several", "report them one by one"
        )
    jobs = PAGE.jobs_of([combination.arguments(whole) for combination in plan])
    outcomes = [PAGE.not_run(combination) for combination in plan]

    def save(found: Sequence[Outcome], *, is_last: bool = True) -> None:
        pairs = zip(plan, found, strict=True)
        pages.save([_result(whole, one, outcome) for one, outcome in pairs], is_last=is_last)

    def ended(index: int, outcome: Outcome, status: Status) -> None:
        outcomes[index] = outcome
        # A full disk does not end the measurements; the last attempt counts.
        with suppress(OutputError):
            save(outcomes, is_last=False)

    found = run_each(whole, console, plan, jobs, PAGE, ended, save)
    return max(outcome.exit_code for outcome in found)


def _result(args: Namespace, combination: Combination, outcome: Outcome) -> ReportEntry:
    """Return the entry of a combination; of a failure, its error."""
    assert combination.model is not None, "each model is a combination of its own"
    (found,) = outcome.entries or [
        ReportEntry(_name(combination.model, args.name), combination.name, combination.optimize)
    ]
    entry: ReportEntry = found
    return replace(
        entry,
        goal=entry.goal or combination.optimize,
        error=None if outcome.error is None else ErrorInfo.of(outcome.error),
        skipped=outcome.skipped,
        recoveries=tuple(outcome.recoveries),
        log=entry.log if entry.log is not None else tuple(outcome.log.splitlines()),
        command=shlex.join(["hil", *combination.words(args)]),
    )


@functools.cache
def _defaults() -> dict[str, Any]:
    """Return the values of those options of the commands that ``hil report`` does not have."""
    values: dict[str, Any] = {}
    for command in ("bench", "verify"):
        words = [command, "MODEL", "--board", "BOARD"]
        values |= vars(build_parser(words).parse_known_args(words)[0])
    return values


def _name(word: str, name: str | None) -> str:
    source = parse_sources([word], name)[0]
    return source.name or source.path.stem


@dataclass(frozen=True, eq=False)
class PageJob(Job[ReportEntry]):
    """Verify, measure and build one model on one board, and record the results.

    What was found before an error is in the entry.
    """

    verify: VerifyJob = field(kw_only=True)
    bench: BenchJob = field(kw_only=True)
    history: Path | None = field(default=None, kw_only=True)

    def results(self, run: Run) -> Iterator[ReportEntry]:
        """Yield the entry; where an error ended the job, with what was found before it."""
        assert isinstance(run, ConsoleRun), "a page is a command's"
        capture = _Capture(run.console)
        own = run.on(capture)
        parts: dict[str, Any] = {"model": _name(self.model, self.name), "board": board_name(self)}
        try:
            with capture.keeping_records(), self._image(own) as image:
                self._measure(image, own, parts)
        except Exception:
            run.place = own.place
            yield ReportEntry(**parts, log=tuple(capture.log_lines))
            raise
        run.place = own.place
        yield ReportEntry(**parts, log=tuple(capture.log_lines))

    def is_good(self, result: ReportEntry) -> bool:
        """Return whether no output differs from the reference."""
        checked = None if result.bench is None else result.bench.checked
        found = [result.verify, checked]
        return all(one is None or one.match for one in found)

    def on(self, image: Image, run: Run) -> Iterator[ReportEntry]:
        """Yield the entry of an image."""
        parts: dict[str, Any] = {}
        self._measure(image, run, parts)
        yield ReportEntry(**parts)

    def _compared_with(self) -> str | None:
        return self.verify._compared_with()

    def _check(self, run: Run) -> None:
        self.verify._check(run)

    def _check_route(self, route: Route, run: Run) -> None:
        if not route.board.is_host:
            self.bench._check_route(route, run)

    def _measure(self, image: Image, run: Run, parts: dict[str, Any]) -> None:
        """Add the results of an image to the ``parts`` of the entry."""
        known = image.only(_several)
        module = known.module
        assert image.route is not None
        assert image.compiled_with is not None
        assert module is not None, "a file has a module"
        board = image.route.board
        parts |= {"model": module.name, "board": board.name, "goal": module.goal}
        parts["about"] = self._about(module, board)
        for report in self.verify.on(image, run):
            parts["verify"] = report.entry()
            self._record("verify", parts["verify"], run)
        for measurement in () if board.is_host else self.bench.on(image, run):
            parts["bench"] = measurement.entry()
            self._record("bench", parts["bench"], run)
        built = build(image.libraries, board, workspace=image.compiled_with.workspace).entry()
        # The folders of this machine mean nothing elsewhere.
        parts["build"] = replace(built, folder=None, elf=None)
        if self.history is not None:
            history = History(self.history)
            entries = history.entries(kind="bench", model=module.name, board=board.name)
            own = [entry.entry() for entry in entries if entry.goal in (module.goal, None)]
            parts["history"] = runs_of(own[-_RUNS:], str(history.path))
        if not parse_sources([self.model], self.name)[0].is_archive:
            plans = explain_models([self.model], image.compiled_with, self.name)
            parts["plan"] = plan_entry(plans[0])

    def _record(self, kind: Kind, entry: Any, run: Run) -> None:
        assert isinstance(run, ConsoleRun), "a page is a command's"
        history = None if self.history is None else History(self.history)
        record(history, kind, [entry], run.console)

    def _about(self, module: Module, board: Board) -> About:
        (source,) = parse_sources([self.model], self.name)
        is_model = not source.is_archive
        given, seed = self.verify.samples, self.verify.seed
        return About(
            file=source.path.name,
            bytes=source.path.stat().st_size if source.path.is_file() else None,
            arithmetic=module.reference or "",
            rounding="; ".join(_roundings(source.path, module)) if is_model else "",
            inputs=Path(given).name if isinstance(given, str) else f"random, seed {seed}",
            board=board.description,
            cpu=board.cpu.name,
            clock_hz=board.clock_hz,
        )


def page_job(args: Namespace) -> PageJob:
    """Return the job of one model on one board."""
    (model,) = args.models
    verify = verify_job(args)
    history = history_of(args)
    return PageJob(
        model,
        board=args.board,
        verify=verify,
        bench=bench_job(args),
        history=None if history is None else history.path,
        name=args.name,
        options=verify.options,
    )


def _page_outcome(args: Namespace, board: str, found: JobOutcome) -> Outcome:
    return Outcome("report", board, entries=found.results)


PAGE = BoardCommand("report", page_job, _page_outcome)


def _several(names: Sequence[str]) -> InputError:
    listed = ", ".join(names)
    return InputError(f"a page shows libraries of one model, not of {listed}", "split the library")


def _roundings(path: Path, module: Module) -> list[str]:
    """Return the rounding of the layers with sums, with their number."""
    with_sums = {layer.name for layer in module.layers if layer.macs}
    with_sums |= {name for layer in module.layers for name in layer.group}
    found: dict[Rounding, int] = {}
    for node in load_model(path.read_bytes(), module.name).nodes:
        if node.name in with_sums:
            found[node.rounding] = found.get(node.rounding, 0) + 1
    return [f"{_ROUNDINGS[policy]}, in {count} layers" for policy, count in found.items()]
