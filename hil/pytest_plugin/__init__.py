"""Models on boards as pytest fixtures.

::

    @pytest.mark.hil(model="kws.tflite")
    def test_keyword(hil_device):
        model = hil_device["kws"]
        ...

A test can also be one line: ``hil_verify(samples=20)`` compares the model with its reference,
``hil_bench()`` counts, and the marker ``hil_limits(max_instructions=...)`` fails a test whose model
takes more.

``pytest --hil-board mps2-an386 --hil-board mps3-an547`` runs the test on both boards. Without the
option it runs on the boards of its marker, or on the emulated default board; a board whose emulator
is not installed is skipped.

A test of several boards has the marker ``hil_boards("a@bench", "b@bench")`` and the fixture
``hil_boards``. ``hil_elf("app.elf")`` starts firmware of the user, whose console a test awaits.

Boards that exist once (of a lab: ``--hil-board cpu=cortex-m4``; behind probes or ports of this
machine) are shared by the workers of ``pytest -n``, each by one worker at a time. If a board, probe
or link fails, the test runs again on another board; but not if it found a wrong result before, or
failed for another reason as well. A failed board is no expected failure (``xfail``).
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _pytest._code
import pytest
from _pytest.runner import runtestprotocol

from hil.pytest_plugin.limits import MARKER as _LIMITS_MARKER
from hil.pytest_plugin.limits import Limits, limits_of
from hil.pytest_plugin.outcomes import (
    INFRASTRUCTURE,
    OUTCOMES,
    RECOVERY,
    RESULTS,
    SET_ASIDE,
    Collector,
    add_recoveries,
    begin_recoveries,
    require_none,
)
from hil.pytest_plugin.own_firmware import add_consoles, check_log_folder, logged, run_subtests
from hil.pytest_plugin.together import (
    BOARDS,
    HeldBoard,
    board_facts,
    chosen_boards,
    facts_of,
    opened_elf,
    problem_of,
)
from hil.pytest_plugin.together import MARKER as _BOARDS_MARKER

# Every pytest run of the environment imports this module, so it imports the harness only in tests
# that use it.
if TYPE_CHECKING:
    from hil.board import Board
    from hil.device import Device, Model
    from hil.device.elf import ElfDevice
    from hil.device.firmware_tests import FirmwareTest, FormatName
    from hil.jobs import JobOutcome
    from hil.lab.pool import Pool, Unit
    from hil.verify import Report
    from hil.verify.bench import BenchReport
    from hil.verify.evaluation import Evaluation
    from hilc.artifact.library import ModelLibrary

_MARKER = (
    "hil(model=PATH, boards=[NAME, ...], optimize=..., ...): the model of the test, its boards, "
    "and options of the compiler, each as hilc.CompileOptions has it"
)
_KEYWORDS = ("model", "boards")
#: Name of a property of a report, also in JUnit files.
_BOARD = "hil_board"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ``--hil-*`` options and settings."""
    group = parser.getgroup("hil", "models on boards")
    group.addoption(
        "--hil-board",
        action="append",
        default=[],
        metavar="BOARD",
        help="run hil tests on this board (repeatable; default: an emulated one)",
    )
    group.addoption(
        "--hil-port",
        action="append",
        default=[],
        metavar="URL",
        help="use the firmware that runs at this serial port; with a probe, or a runner that uses "
        "one, the board's port (repeatable: workers share the boards)",
    )
    group.addoption(
        "--hil-probe",
        action="append",
        default=[],
        metavar="UID",
        help="the debug probe of the board (repeatable: workers share the boards)",
    )
    group.addoption(
        "--hil-retries",
        type=int,
        default=2,
        metavar="N",
        help="repeat a test up to N times on other boards if board or link failed (default: 2)",
    )
    group.addoption(
        "--hil-runner",
        metavar="NAME",
        help="start boards with this emulator or flasher, NAME[:KEY=VALUE] (default: the board's "
        "first)",
    )
    group.addoption(
        "--hil-timeout",
        type=_seconds,
        metavar="S",
        help="a run without a sign of life for S seconds counts as hanging (default: 60)",
    )
    group.addoption(
        "--hil-wait",
        type=_seconds,
        metavar="S",
        help="wait up to S seconds for a board that another process uses, and for a probe or port "
        "that is not connected (default: 0; for a place of a lab: 600)",
    )

    group.addoption(
        "--hil-allow-fallback",
        action="store_true",
        help="let hil_verify, hil_bench and hil_evaluate compare with this compiler's own "
        "interpreter if the default reference cannot run; they fail otherwise",
    )
    group.addoption(
        "--hil-strict",
        action="store_true",
        help="fail a test whose board had to be recovered, or that ran again on another board",
    )
    group.addoption(
        "--hil-report",
        metavar="F.html",
        help="write one page of the tests, and of what hil_verify, hil_bench and hil_evaluate "
        "found",
    )
    group.addoption(
        "--hil-log",
        metavar="DIR",
        help="write a file for each test with what its boards' consoles received and sent",
    )


def _seconds(text: str) -> float:
    """Return a number of seconds above 0; what argparse and pytest expect of a type."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    """Check the options and create the session's boards.

    Raise :class:`pytest.UsageError` for options that contradict each other.
    """
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _LIMITS_MARKER)
    config.addinivalue_line("markers", _BOARDS_MARKER)
    check_log_folder(config)
    boards = config.getoption("--hil-board")
    if config.getoption("--hil-report"):
        _check_report(config.getoption("--hil-report"))
    for option in ("--hil-port", "--hil-probe"):
        if config.getoption(option) and len(boards) != 1:
            raise pytest.UsageError(f"{option} belongs to one board: give --hil-board once")
    options = {
        "runner": config.getoption("--hil-runner"),
        "run_timeout_s": config.getoption("--hil-timeout"),
        "wait_s": config.getoption("--hil-wait"),
    }
    # xdist's workers of one run share which boards were set aside.
    run = getattr(config, "workerinput", {}).get("testrunuid")
    config.stash[_SESSION] = _Session(
        tuple(config.getoption("--hil-port")),
        tuple(config.getoption("--hil-probe")),
        {name: value for name, value in options.items() if value is not None},
        run,
        bool(boards),
    )
    begin_recoveries(config)
    if not hasattr(config, "workerinput"):
        # The controller reports what xdist's workers send.
        config.pluginmanager.register(Collector(config), "hil-outcomes")
    if boards:
        from hil.errors import HilError
        from hil.plugins import load_plugins

        for board in boards:
            try:
                load_plugins()
                _check_connection(board, config)
                # The controller of xdist has asked the lab already, so its workers need not.
                _check_board(board, ask_lab=not hasattr(config, "workerinput"))
            except HilError as error:
                raise pytest.UsageError(f"--hil-board: {error}") from None


def _check_board(spec: str, ask_lab: bool) -> None:
    from hil.board import load_board
    from hil.board.bench import is_of_bench
    from hil.board.bench_selector import selected_boards
    from hil.lab import parse_selector

    wanted = parse_selector(spec)
    if is_of_bench(spec):
        selected_boards(spec)
    elif wanted is None:
        load_board(spec)
    elif ask_lab:
        from hil.lab.place import check_known

        check_known(wanted)


def _check_report(path: str) -> None:
    """Raise before the tests if the page cannot be made or written."""
    from hil.errors import HilError
    from hil.page.page import check_installed
    from hilc.support.outputs import check_place

    try:
        check_installed()
        check_place(Path(path), is_folder=False)
    except HilError as error:
        raise pytest.UsageError(f"--hil-report: {error}") from None


def _check_connection(spec: str, config: pytest.Config) -> None:
    """Raise InputError if the runner, the probes and the ports do not suit the board."""
    from hil.access.bench_boards import refuse_options
    from hil.board import load_board
    from hil.board.bench import is_of_bench
    from hil.errors import InputError
    from hil.lab import parse_selector
    from hil.lab.pool import check_pair, paired

    given = {name: config.getoption(f"--hil-{name}") for name in ("runner", "probe", "port")}
    if is_of_bench(spec):
        refuse_options(spec, **{f"--hil-{name}": value for name, value in given.items()})
        return
    if parse_selector(spec) is not None:
        for name, value in given.items():
            if value:
                option = f"--hil-{name}"
                raise InputError(f"{option} does not apply to a board of a lab", f"drop {option}")
        return
    for probe, port in paired(given["probe"], given["port"]) or [(None, None)]:
        check_pair(load_board(spec), given["runner"], probe, port)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report that a fallback replaces the default reference."""
    if not config.getoption("--hil-board"):
        return None  # do not load the harness for runs that may not need it
    from hil.verify.oracle import installed_reference

    _, fallback = installed_reference()
    if fallback is None:
        return None
    is_allowed = fallback.used != "hilc" or config.getoption("--hil-allow-fallback")
    return f"hil: {fallback}" if is_allowed else f"hil: {fallback}; --hil-allow-fallback accepts it"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a work-stealing scheduler: a worker may wait for a board while others are idle."""
    if config.getoption("dist") != "load" or not config.getoption("--hil-board"):
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the test with its boards."""
    if "hil_boards" in metafunc.fixturenames:
        _parametrize_together(metafunc)
        return
    # The board of `hil_open` lasts for a session, so that the tests of one board follow each other;
    # `hil_board` is the same one then.
    name = next((n for n in ("hil_open", "hil_board") if n in metafunc.fixturenames), None)
    if name is None:
        return
    marker = metafunc.definition.get_closest_marker("hil")
    if problem := _marker_problem(marker):
        # The test fails: an error here would end the whole session.
        wrong = _WrongMarker(f"{metafunc.definition.nodeid}: {problem}")
        metafunc.parametrize(name, [wrong], ids=["marker"], indirect=True)
        return
    boards, reason = _boards(metafunc.config, marker)
    params: list[Any] = list(boards)
    if not boards and (problem := _unknown_board(_marker_boards(marker))):
        wrong = _WrongMarker(f"{metafunc.definition.nodeid}: {problem}")
        metafunc.parametrize(name, [wrong], ids=["marker"], indirect=True)
        return
    if not boards:
        params = [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-board")]
    metafunc.parametrize(name, params, indirect=True)


def _parametrize_together(metafunc: pytest.Metafunc) -> None:
    """Give a test of several boards its one set of them."""
    marker = metafunc.definition.get_closest_marker("hil_boards")
    others = [name for name in ("hil_board", "hil_open") if name in metafunc.fixturenames]
    problem = problem_of(marker)
    if not problem and others:
        problem = f"a test with hil_boards has its boards there: drop {others[0]}"
    if problem:
        wrong = _WrongMarker(f"{metafunc.definition.nodeid}: {problem}")
        metafunc.parametrize("hil_boards", [wrong], ids=["marker"], indirect=True)
        return
    assert marker is not None, "it has no problem"
    selected = list(dict.fromkeys(metafunc.config.getoption("--hil-board")))
    boards, reason = chosen_boards(marker, selected, _default_board, _covers)
    param: Any = pytest.param(boards, id="+".join(boards))
    if not boards and (problem := _unknown_board(marker.args)):
        wrong = _WrongMarker(f"{metafunc.definition.nodeid}: {problem}")
        param = pytest.param(wrong, id="marker")
    elif not boards:
        param = pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no-board")
    metafunc.parametrize("hil_boards", [param], indirect=True)


def _unknown_board(names: Sequence[str]) -> str:
    """Return the error of the first name that no board has; empty if all are known, or of a lab."""
    from hil.board import load_board
    from hil.board.bench import is_of_bench
    from hil.errors import HilError
    from hil.lab.selector import parse_selector

    for name in names:
        if is_of_bench(name) or parse_selector(name) is not None:
            continue
        try:
            load_board(name)
        except HilError as error:
            return error.fact
    return ""


def _boards(config: pytest.Config, marker: pytest.Mark | None) -> tuple[Sequence[str], str]:
    """Return the boards that a test runs on, and the reason if there is none."""
    selected = list(dict.fromkeys(config.getoption("--hil-board")))
    wanted = _marker_boards(marker)
    boards = _narrowed(selected, wanted) if selected and wanted else (selected or wanted)
    if boards or not selected:
        return boards or [_default_board()], ""
    return (), f"the test is for {', '.join(wanted)}; selected: {', '.join(selected)}"


def _narrowed(selected: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the selected boards that the marker names, or whose lab tag ``board`` it names."""
    from hil.board.bench import is_of_bench
    from hil.board.bench_selector import selected_boards
    from hil.lab import Selector, parse_selector

    boards: list[str] = []
    for spec in selected:
        lab = parse_selector(spec)
        if lab is None:
            names = {spec}
            if is_of_bench(spec):
                names |= {board.name for board in selected_boards(spec)}
            boards += [spec] if names & set(wanted) else []
            continue
        tags = dict(lab.tags)
        for name in wanted:
            if tags.get("board", name) == name:
                boards.append(str(Selector(tuple(sorted({**tags, "board": name}.items())))))
    return boards


def _covers(selected: Sequence[str], wanted: str) -> bool:
    """Return whether all boards that ``wanted`` may be are among the selected ones."""
    from hil.board.bench import is_of_bench
    from hil.board.bench_selector import selected_boards
    from hil.errors import HilError

    if wanted in selected or _narrowed(selected, [wanted]):
        return True
    if not is_of_bench(wanted):
        return False

    def units(spec: str) -> set[str]:
        return {board.unit.spec for board in selected_boards(spec) if board.unit is not None}

    try:
        offered = set().union(*(units(spec) for spec in selected if is_of_bench(spec)))
        return units(wanted) <= offered
    except HilError:
        return False  # the bench has no such board


@pytest.fixture
def hil_board(request: pytest.FixtureRequest, _hil_session: _Session) -> Board:
    """Return the board that the test runs on."""
    spec = getattr(request, "param", None) or _spec(request.node)
    return _hil_session.board_or_skip(spec or _only_board(request.node, _hil_session))


def _only_board(item: pytest.Item, session: _Session) -> str | _WrongMarker:
    """Return the board of a test that pytest could not parametrize: a method of unittest, or one
    that asks for its fixtures while it runs.
    """
    marker = item.get_closest_marker("hil")
    if problem := _marker_problem(marker):
        return _WrongMarker(f"{item.nodeid}: {problem}")
    boards, reason = _boards(item.config, marker)
    if not boards:
        pytest.skip(reason)
    if len(boards) > 1 or session.is_shared(boards[0]):
        pytest.fail(
            f"the test cannot be repeated for {', '.join(boards)}: it is a method of unittest, or "
            "asks for hil fixtures while it runs; write a function with a hil fixture as argument",
            pytrace=False,
        )
    return boards[0]


@pytest.fixture
def hil_library(
    request: pytest.FixtureRequest, hil_board: Board, _hil_session: _Session
) -> ModelLibrary:
    """Return the model of the test's marker, compiled for the board."""
    marker = request.node.get_closest_marker("hil")
    model = marker.kwargs.get("model") if marker else None
    if model is None:
        pytest.fail(
            "hil_library needs @pytest.mark.hil(model=PATH), or a hil_library fixture of your own",
            pytrace=False,
        )
    options = {name: value for name, value in marker.kwargs.items() if name not in _KEYWORDS}
    # A path in a test file is relative to that file.
    folder = request.path.parent
    if isinstance(options.get("tuning"), str | os.PathLike):
        options["tuning"] = folder / os.fspath(options["tuning"])
    return _hil_session.library(folder / os.fspath(model), hil_board, options)


@pytest.fixture
def hil_device(
    request: pytest.FixtureRequest,
    hil_board: Board,
    hil_library: ModelLibrary,
    _hil_session: _Session,
) -> Iterator[Device]:
    """Yield a device that runs the library; tests with the same board and library share it.

    Values of earlier tests are cleared: inputs are zeros until the test sets them.
    """
    device = _hil_session.device(hil_library)
    device.forget()
    item = request.node
    use = item.stash[_USE] = _Use(device)
    silent = device.log
    with logged(item, use.log) as device.log:
        yield device
    device.log = silent
    for name, value in use.properties().items():
        _set_property(item, name, value)
    item.stash[_FOUND] = use.results()
    _hil_session.close_if_broken()


@pytest.fixture
def hil_verify(request: pytest.FixtureRequest, hil_device: Device) -> Callable[..., Report]:
    """Return a function that compares the test's model with its reference.

    It takes what ``hil.verify`` takes after the model (``hil_verify(20, per_layer=True)``), and
    ``model=NAME`` if the library has several. It returns the report; a difference fails the test.
    """
    import hil

    use = request.node.stash[_USE]

    def verify(samples: Any = None, *args: Any, model: str | None = None, **options: Any) -> Report:
        options = {**_fallback(request.config), **options}
        report: Report = hil.verify(use.model(model), samples, *args, **options)
        use.reports.append(report)
        use.verified.setdefault(report.model, []).append(report)
        return report.check()

    return verify


@pytest.fixture
def hil_bench(request: pytest.FixtureRequest, hil_device: Device) -> Callable[..., BenchReport]:
    """Return a function that counts what an inference of the test's model costs.

    It takes what ``hil.bench`` takes after the model, and ``model=NAME`` if the library has
    several. It returns the report; the test's limits apply to the last one. Outputs that differ
    from the reference fail the test, unless ``check=False`` is given.
    """
    import hil

    use = request.node.stash[_USE]

    def bench(*, model: str | None = None, **options: Any) -> BenchReport:
        options = {**_fallback(request.config), **options}
        report: BenchReport = hil.bench(use.model(model), **options)
        use.reports.append(report)
        use.measured[report.model] = report
        return report.check()

    return bench


@pytest.fixture
def hil_evaluate(request: pytest.FixtureRequest, hil_device: Device) -> Callable[..., Evaluation]:
    """Return a function that takes the accuracy of the test's model over a labelled data set.

    It takes what ``hil.evaluate`` takes after the model (``hil_evaluate("test.npz", "labels")``),
    and ``model=NAME`` if the library has several. It returns the evaluation; a missed limit
    (``at_least=0.9``, or ``min_accuracy`` of the marker) and a sample that differs from the
    reference fail the test.
    """
    import hil

    use = request.node.stash[_USE]

    def evaluate(*args: Any, model: str | None = None, **options: Any) -> Evaluation:
        options = {**_fallback(request.config), **options}
        report: Evaluation = hil.evaluate(use.model(model), *args, **options)
        use.reports.append(report)
        use.evaluated[report.model] = report
        return report.check()

    return evaluate


@pytest.fixture
def hil_matrix(request: pytest.FixtureRequest) -> Iterator[Callable[..., list[JobOutcome]]]:
    """Return a function that runs jobs (``hil.VerifyJob`` and others), also in processes.

    It takes what ``hil.matrix`` takes: ``hil_matrix([hil.VerifyJob("kws.tflite", 20)],
    workers=2)``. A job without a board runs on each of ``--hil-board``, or on the emulated default
    board. It returns the outcomes; a job that failed, or found a difference, fails the test.
    """
    import hil

    session = request.config.stash[_SESSION]
    boards = request.config.getoption("--hil-board") or [_default_board()]
    allowed = _fallback(request.config)
    found: list[dict[str, Any]] = []

    def on_boards(job: Any) -> Iterator[Any]:
        if getattr(job, "allow_fallback", True) is None:
            job = replace(job, **allowed)
        if job.board is not None:
            yield job
            return
        for spec in dict.fromkeys(boards):
            if session.is_shared(spec):
                pytest.fail(
                    f"hil_matrix: workers share the boards of {spec!r}, one test after the other; "
                    "use hil_verify",
                    pytrace=False,
                )
            own = {**session.options, **session.own_options(spec), **job.options}
            yield replace(job, board=spec, options=own)

    def matrix(jobs: Sequence[Any], **options: Any) -> list[JobOutcome]:
        from hil.results.answer import Answer

        outcomes: list[JobOutcome] = hil.matrix(
            [each for job in jobs for each in on_boards(job)], **options
        )
        results = [result for outcome in outcomes for result in outcome.results]
        found.extend(Answer.of(result.entry()).to_json() for result in results)
        for outcome in outcomes:
            outcome.check()
        return outcomes

    yield matrix
    request.node.stash[_FOUND] = [*_found(request.node), *found]


def _fallback(config: pytest.Config) -> dict[str, Any]:
    """Return the argument of comparisons that ``--hil-allow-fallback`` sets."""
    return {"allow_fallback": bool(config.getoption("--hil-allow-fallback"))}


@pytest.fixture(scope="session")
def hil_open(
    request: pytest.FixtureRequest, _hil_session: _Session
) -> Iterator[Callable[..., Device]]:
    """Return a function that opens models on the test's board until the tests on it end.

    For fixtures with a wider scope: ``hil_open("kws.tflite")``, with the options of ``hil.open``.
    A test runs once for each of ``--hil-board``, or on the emulated default board; tests of one
    board follow each other. ``board=NAME`` is another board, which this machine emulates.
    """
    import hil

    spec = request.param if hasattr(request, "param") else _board_of_session(request.config)
    # Before the board is there: without one, another attempt begins this fixture anew.
    _hil_session.opened(spec, request)
    _hil_session.board_or_skip(spec)
    with ExitStack() as stack:

        def opened(*models: Any, board: str | None = None, **options: Any) -> Device:
            described: Board | str
            chosen: dict[str, Any]
            if board is None or board == spec:
                described, chosen = _hil_session.reach(spec)
            elif not _hil_session.is_shared(board):
                described, chosen = board, dict(_hil_session.options)
            else:
                pytest.fail(
                    f"hil_open: {board!r} is a board that workers share, besides {spec!r}; name "
                    "the boards that a test uses at the same time in @pytest.mark.hil_boards",
                    pytrace=False,
                )
            return stack.enter_context(hil.open(described, *models, **{**chosen, **options}))

        yield opened


def _board_of_session(config: pytest.Config) -> str:
    """Return the board of a fixture that pytest could not parametrize."""
    selected = config.getoption("--hil-board") or [_default_board()]
    if len(selected) > 1:
        pytest.fail(
            f"hil_open is asked for while a test runs, which cannot be repeated for "
            f"{', '.join(selected)}; take it as an argument",
            pytrace=False,
        )
    return str(selected[0])


@pytest.fixture
def hil_boards(
    request: pytest.FixtureRequest, _hil_session: _Session
) -> Iterator[tuple[HeldBoard, ...]]:
    """Return the boards of ``@pytest.mark.hil_boards``, all different, for the time of the test.

    ``sender, receiver = hil_boards``; each has a ``name``, its description ``board``, and
    ``open(*models)`` and ``open_elf(elf)``, which take what ``hil.open`` and ``hil.open_elf`` take
    after the board.
    """
    specs = request.param
    if isinstance(specs, _WrongMarker):
        pytest.fail(specs.problem, pytrace=False)
    item = request.node
    with _hil_session.together(item, specs) as boards:
        item.stash[BOARDS] = boards
        for name, value in facts_of(boards).items():
            _set_property(item, name, value)
        yield boards
        attempt = item.stash.get(_ATTEMPT, None)
        if attempt is not None and attempt.failure:
            for board in boards:
                board.look()


@pytest.fixture
def hil_elf(
    request: pytest.FixtureRequest, hil_board: Board, _hil_session: _Session
) -> Iterator[Callable[..., ElfDevice]]:
    """Return a function that starts firmware of yours on the test's board until the test ends.

    ``device = hil_elf("app.elf")`` takes what ``hil.open_elf`` takes after the board;
    ``device.console.expect("ready", 10)`` awaits what the firmware prints.
    """
    item = request.node
    board, options = _hil_session.reach_alone(item)
    with ExitStack() as stack:

        def started(elf: str | Path, **given: Any) -> ElfDevice:
            return stack.enter_context(opened_elf(item, board, elf, options, given))

        yield started


@pytest.fixture
def hil_subtests(request: pytest.FixtureRequest) -> Callable[..., list[FirmwareTest]]:
    """Return a function that reports the tests that a firmware runs as subtests.

    ``hil_subtests(hil_elf("unity.elf"), "unity")`` reads the output of Unity, ``"ztest"`` that of
    Zephyr's ztest, for up to ``timeout_s`` seconds (60). It returns the results. A failed test, a
    run without its summary and one that does not agree with it fail the test.
    """

    def run(device: ElfDevice, form: FormatName, timeout_s: float = 60.0) -> list[FirmwareTest]:
        return run_subtests(request, device, form, timeout_s)

    return run


@dataclass
class _Use:
    """What one test did with its device."""

    device: Device
    log: list[str] = field(default_factory=list)
    #: All that it verified, counted and evaluated, in order; then the same by model.
    reports: list[Report | BenchReport | Evaluation] = field(default_factory=list)
    verified: dict[str, list[Report]] = field(default_factory=dict)
    measured: dict[str, BenchReport] = field(default_factory=dict)
    evaluated: dict[str, Evaluation] = field(default_factory=dict)

    def results(self) -> list[dict[str, Any]]:
        """Return the JSON answers with what the test found."""
        from hil.results.answer import Answer

        return [Answer.of(report.entry()).to_json() for report in self.reports]

    def model(self, name: str | None) -> Model:
        models = self.device.models
        if name is None and len(models) != 1:
            pytest.fail(f"the device has {len(models)} models: name one of {', '.join(models)}")
        return self.device[next(iter(models)) if name is None else name]

    def check(self, limits: Limits, options: dict[str, Any]) -> list[str]:
        """Return the limits that the models break; measure those that the test did not."""
        import hil

        broken: list[str] = []
        for name, model in self.device.models.items():
            broken += limits.missed(name, self.evaluated.get(name))
            if not limits.are_costs:
                continue
            if name not in self.measured:
                report = hil.bench(model, **options)
                self.reports.append(report)
                # Costs of wrong results keep no limit.
                self.measured[name] = report.check()
            broken += limits.broken(self.measured[name])
        return broken

    def wrong(self, limits: Limits) -> list[str]:
        """Return the wrong results of the test so far."""
        from hil.errors import NumericError

        found: list[str] = []
        for report in self.reports:
            try:
                report.check()
            except NumericError as error:
                found.append(error.fact)
        for name, evaluation in self.evaluated.items():
            found += limits.missed(name, evaluation)
        for measurement in self.measured.values():
            found += limits.broken(measurement)
        return found

    def properties(self) -> dict[str, str]:
        """Return the costs of the models, by property name."""
        found: dict[str, str] = {}
        models = self.device.models
        firmware = self.device.firmware
        if firmware is not None:
            found["hil_ram_bytes"] = str(firmware.sizes.ram_bytes)
        for name, model in models.items():
            own: dict[str, Any] = {}
            if name in self.measured:
                own[self.measured[name].counter] = self.measured[name].per_inference
            elif model.last_run is not None:
                own[model.last_run.counter] = model.last_run.count
            own["workspace_bytes"] = model.module.workspace_bytes
            if firmware is not None:
                own["flash_bytes"] = firmware.sizes.models[name].flash_bytes
            if name in self.verified:
                reports = self.verified[name]
                own["reference"] = reports[-1].reference
                own["independent"] = str(all(report.independent for report in reports)).lower()
                own["samples"] = reports[-1].samples
                own["match"] = str(all(report.match for report in reports)).lower()
                if reports[-1].remarks:
                    own["remarks"] = "; ".join(reports[-1].remarks)
            if name in self.evaluated:
                own |= {m.name: m.device.value for m in self.evaluated[name].metrics}
            # A model is named where there are several.
            of = f"[{name}]" if len(models) > 1 else ""
            found |= {f"hil_{what}{of}": str(value) for what, value in own.items()}
        return found


def _set_property(item: pytest.Item, name: str, value: str) -> None:
    """Set a property of the test's report; a repeated test keeps the last value."""
    item.user_properties[:] = [pair for pair in item.user_properties if pair[0] != name]
    item.user_properties.append((name, value))


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Check the limits of a test that passed."""
    limits = _limits(item)
    if not limits:
        return
    if _USE not in item.stash:
        pytest.fail(
            "@pytest.mark.hil_limits needs a model on a board: use hil_device, hil_verify or "
            "hil_bench",
            pytrace=False,
        )
    if broken := item.stash[_USE].check(limits, _fallback(item.config)):
        pytest.fail("\n".join(broken), pytrace=False)


def _limits(item: pytest.Item) -> Limits:
    try:
        return limits_of(item.iter_markers("hil_limits"))
    except ValueError as error:
        wrong = str(error)
    # Not where the error is handled: pytest would show both.
    pytest.fail(f"@pytest.mark.hil_limits: {wrong}", pytrace=False)


@pytest.fixture(scope="session")
def _hil_session(request: pytest.FixtureRequest) -> _Session:
    return request.config.stash[_SESSION]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of a shared board; repeat it on another board if the board failed."""
    session = item.config.stash[_SESSION]
    specs = _specs(item)
    if not any(map(session.is_shared, specs)):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    results: list[dict[str, Any]] = []
    for left in range(max(0, item.config.getoption("--hil-retries")), -1, -1):
        attempt = _begin_attempt(item)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        results += _found(item)
        if attempt.failure:
            item.user_properties.append((INFRASTRUCTURE, attempt.failure))
        for name in session.set_aside(item, attempt.lost):
            item.user_properties.append((SET_ASIDE, f"{name}: {attempt.lost}"))
        is_repeated = attempt.failure and not attempt.has_verdict and not _wrong_results(item)
        has_board = all(map(session.has_board, specs))
        if not (is_repeated and left and has_board) or item.session.shouldstop:
            break
        session.switch_board(specs[0])
        # Clear the fixtures' values, as pytest does before it runs an item.
        item._initrequest()  # type: ignore[attr-defined]
    _mark(reports, item)
    # The last report of a test has the results of all its attempts.
    setattr(reports[-1], RESULTS, results)
    for report in reports:
        _require_run(report, _properties(item, INFRASTRUCTURE))
        if report.when == "call":
            require_none(item.config, report, _properties(item, INFRASTRUCTURE))
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    session.release_board(keep=nextitem is not None and _specs(nextitem) == specs)
    return True


def _begin_attempt(item: pytest.Item) -> _Attempt:
    """Forget what an earlier attempt did; return what this one will show."""
    if _USE in item.stash:
        del item.stash[_USE]
    item.stash[_FOUND] = []
    attempt = item.stash[_ATTEMPT] = _Attempt()
    return attempt


def _found(item: pytest.Item) -> list[dict[str, Any]]:
    return item.stash.get(_FOUND, [])


def _wrong_results(item: pytest.Item) -> list[str]:
    """Return the wrong results of the current attempt."""
    use = item.stash.get(_USE, None)
    if use is None:
        return []
    limits = Limits()
    with suppress(ValueError):  # wrong arguments of the marker, which fail the test
        limits = limits_of(item.iter_markers("hil_limits"))
    return use.wrong(limits)


def _require_run(report: pytest.TestReport, failures: list[str]) -> None:
    """Let a skipped test fail if its board failed before: nothing shows that another one works."""
    if not failures or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    report.outcome = "failed"
    report.longrepr = "\n".join(
        [f"the board failed, and then the test skipped: {reason}", *failures]
    )


def _properties(item: pytest.Item, wanted: str) -> list[str]:
    return [str(text) for name, text in item.user_properties if name == wanted]


def _mark(reports: Sequence[pytest.TestReport], item: pytest.Item) -> None:
    """Add the failures of boards to the test's reports."""
    failures = _properties(item, INFRASTRUCTURE)
    for report in reports:
        # Include the last failure, which was recorded after the reports were made.
        report.user_properties = [(name, str(value)) for name, value in item.user_properties]
        if failures and report.when == "call":
            report.sections.append(("hil infrastructure", "\n".join(failures)))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Record what happened to the board and what was found, also where the test is expected to
    fail, and shorten the report of the harness's errors.
    """
    report: pytest.TestReport = (yield).get_result()
    _add_facts(item, report)
    if call.excinfo is not None:
        _refuse_xfail(call.excinfo.value, report)
        _note(item, call.excinfo.value, report)
    _shorten(item, call, report)
    add_recoveries(item, report)
    if report.when == "teardown":
        setattr(report, RESULTS, _found(item))


def _add_facts(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the board of a test, and how it is reached, to its properties."""
    spec = _spec(item)
    if spec is None:
        return
    for name, value in item.config.stash[_SESSION].facts(spec).items():
        _set_property(item, name, value)
    report.user_properties = [(name, str(value)) for name, value in item.user_properties]


def _refuse_xfail(error: BaseException, report: pytest.TestReport) -> None:
    """Let a test fail whose board failed, also where it is expected to fail: it shows nothing."""
    if hasattr(report, "wasxfail") and any(map(_is_board_failure, _with_causes(error))):
        report.outcome = "failed"
        del report.wasxfail


def _note(item: pytest.Item, error: BaseException, report: pytest.TestReport) -> None:
    """Record in the current attempt what a phase of a test raised."""
    attempt = item.stash.get(_ATTEMPT, None)
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    if attempt is None or is_skip:
        return
    ends = list(_ends(error))
    if not all(map(_is_board_failure, ends)) or any(map(_is_verdict, _with_causes(error))):
        attempt.has_verdict = True
    failed = next(filter(_is_board_failure, ends), None)
    if failed is None:
        return
    name = item.config.stash[_SESSION].unit_name(item)
    attempt.failure = attempt.failure or f"{name}: {type(failed).__name__}: {failed}"
    if getattr(failed, "is_lost", False):
        attempt.lost = _line(str(failed)).rstrip(":")


def _ends(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a phase ended with: several where several finalizers failed."""
    inner = getattr(error, "exceptions", ())
    if not inner:
        yield error
    for one in inner:
        yield from _ends(one)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, those of its group, and all that were raised before them."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _is_board_failure(error: BaseException) -> bool:
    # If the harness raised the error, its module is loaded.
    errors = sys.modules.get("hil.errors")
    return errors is not None and isinstance(error, errors.DeviceError)


def _is_verdict(error: BaseException) -> bool:
    """Return whether an error says that a result is wrong."""
    errors = sys.modules.get("hil.errors")
    kinds = (AssertionError, pytest.fail.Exception)
    return isinstance(error, kinds) or (
        errors is not None and isinstance(error, errors.NumericError)
    )


def _shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    use = item.stash.get(_USE, None)
    if report.failed and use is not None and use.log:
        report.sections.append((f"log of board {use.device.board}", "\n".join(use.log)))
    if report.failed:
        add_consoles(item, report)
    # If the harness raised the error, its module is loaded.
    errors = sys.modules.get("hil.errors")
    if not report.failed or call.excinfo is None or errors is None:
        return
    if any(map(_is_board_failure, _ends(call.excinfo.value))) and (wrong := _wrong_results(item)):
        report.sections.append(("wrong results before the board failed", "\n".join(wrong)))
    if call.excinfo.errisinstance(errors.HilError) and not item.config.getoption("fulltrace"):
        report.longrepr = _short_report(item, call.excinfo)


def _short_report(item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return the report of a harness error: its message below the lines of the user's code."""
    own = []
    for entry in failure.traceback:
        package = str(entry.frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in ("hil", "hilc"):
            break
        if package not in ("_pytest", "pluggy", "contextlib"):
            own.append(entry)
    if not own:
        return str(failure.value)
    # pytest prints the traceback that is stored here.
    failure.traceback = _pytest._code.Traceback(own)
    style = item.config.getoption("tbstyle")
    return failure.getrepr(
        showlocals=item.config.getoption("showlocals"),
        style="long" if style == "auto" else style,
        tbfilter=False,
        chain=False,
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the boards that failed, also if their tests passed at last."""
    config = terminalreporter.config
    outcomes = config.stash[OUTCOMES]
    if outcomes.page_problem:
        terminalreporter.write_line(f"ERROR: --hil-report: {outcomes.page_problem}", red=True)
    if aside := outcomes.texts(SET_ASIDE):
        terminalreporter.section("hil: boards set aside")
        for test, text in aside:
            terminalreporter.write_line(f"{_line(text)} (from {test} on)")
    if failed := outcomes.texts(INFRASTRUCTURE):
        terminalreporter.section("hil: boards that failed")
        plural = "failure" if len(failed) == 1 else "failures"
        terminalreporter.write_line(f"{len(failed)} infrastructure {plural}")
        for test, group in itertools.groupby(failed, key=lambda found: found[0]):
            for _, text in group:
                terminalreporter.write_line(f"{test}: {_line(text)}")
            outcome = outcomes.ended.get(test)
            end = "passed on another board" if outcome == "passed" else f"{outcome} at last"
            terminalreporter.write_line(f"    {end}")
    if recovered := outcomes.texts(RECOVERY):
        terminalreporter.section("hil: recovery of boards")
        count = len(recovered)
        terminalreporter.write_line(f"{count} step{'s' * (count > 1)} of recovery")
        for test, text in recovered:
            terminalreporter.write_line(f"{test}: {_line(text)}")


def _line(text: str) -> str:
    return text.partition("\n")[0]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the devices and release the boards."""
    session.config.stash[_SESSION].close()


def _spec(item: pytest.Item) -> str | None:
    """Return the name or lab selector of the test's board; None if it needs none, or several."""
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    spec = params.get("hil_open", params.get("hil_board"))
    return spec if isinstance(spec, str) else None


def _specs(item: pytest.Item) -> tuple[str, ...]:
    """Return the boards that a test uses at the same time."""
    callspec = getattr(item, "callspec", None)
    together = callspec.params.get("hil_boards") if callspec else None
    if isinstance(together, tuple):
        return together
    spec = _spec(item)
    return () if spec is None else (spec,)


class _Session:
    """The compiled libraries, the held boards and their open devices, one per board."""

    def __init__(
        self,
        ports: tuple[str, ...],
        probes: tuple[str, ...],
        options: dict[str, Any],
        run: str | None = None,
        is_selected: bool = False,
    ) -> None:
        #: Options of ``hil.open`` that the user chose.
        self.options = options
        self._is_selected = is_selected
        self._ports = ports
        self._probes = probes
        self._run = run
        self._libraries: dict[tuple[Path, str, Any], ModelLibrary] = {}
        self._pools: dict[str, Pool | None] = {}
        self._boards: dict[str, Board] = {}
        #: The held shared board, with its selection. At most one, since two workers that each
        #: hold one and wait for the other would block.
        self._unit: tuple[str, Unit] | None = None
        self._since = 0.0  # monotonic clock
        self._current = ""
        #: The board of ``hil_open``, and what ends that fixture.
        self._opener: tuple[str, Callable[[], None]] | None = None
        self._devices: dict[str, tuple[ModelLibrary, Device, ExitStack]] = {}

    def library(self, path: Path, board: Board, options: Mapping[str, Any]) -> ModelLibrary:
        """Return a model compiled for a board with ``options`` of the compiler; each once."""
        from hil.firmware.sources import ModelOptions, ModelSource, load_library

        key = (path.resolve(), board.name, _identity(options))
        if key not in self._libraries:
            given = dict(options)
            name, cpu = given.pop("name", None), given.pop("cpu", board.cpu.name)
            chosen = ModelOptions(cpu, given, is_cpu_chosen="cpu" in options, board=board)
            self._libraries[key] = load_library(ModelSource(path, name), chosen)
        return self._libraries[key]

    def is_shared(self, spec: str) -> bool:
        """Return whether workers share the boards of ``spec``."""
        from hil.errors import HilError

        try:
            return self._pool(spec) is not None
        except HilError:
            return False  # the fixture raises the error in the test

    def _pool(self, spec: str) -> Pool | None:
        from hil.lab.pool import open_pool

        if spec not in self._pools:
            self._pools[spec] = open_pool(
                spec, self._ports, self._probes, self.options.get("runner"), self._run
            )
        return self._pools[spec]

    def own_options(self, spec: str) -> dict[str, Any]:
        """Return the arguments of ``hil.open`` for a board that no worker shares."""
        return {"probe": self._probes[0]} if self._probes and not self.is_shared(spec) else {}

    def board_or_skip(self, spec: str | _WrongMarker) -> Board:
        """Return the board for a test and hold it; skip the test if the lab or this machine has no
        such board. Fail for a marker with wrong arguments.
        """
        from hil.errors import ProbeError
        from hil.lab.errors import NoPlaceError

        if isinstance(spec, _WrongMarker):
            pytest.fail(spec.problem, pytrace=False)
        try:
            return self.board(spec)
        except NoPlaceError as error:
            pytest.skip(str(error))
        except ProbeError as error:
            # A board that only the marker names may be absent; a selected one has to be there.
            if self._is_selected:
                raise
            pytest.skip(str(error))

    def board(self, spec: str) -> Board:
        """Return the board for a test and hold it; skip if its emulator is not installed."""
        from hil.plugins import load_plugins

        load_plugins()
        self._current = spec
        pool = self._pool(spec)
        if pool is not None:
            if self._unit is None or self._unit[0] != spec:
                self.release_board(keep=False)
                self._unit = (spec, pool.acquire())
                self._since = time.monotonic()
            return self._unit[1].board
        if spec not in self._boards:
            self._boards[spec] = self._emulated(spec)
        return self._boards[spec]

    def _emulated(self, spec: str) -> Board:
        """Return a board that is started here; skip if its emulator is not installed."""
        from hil.board import load_board
        from hil.cli.doctor import missing_for_runner

        board = load_board(spec)
        missing = missing_for_runner(board, self.options.get("runner"))
        if missing is not None:
            pytest.skip(f"{board.name} needs {missing.name}: {missing.remedy}")
        return board

    def reach(self, spec: str) -> tuple[Board, dict[str, Any]]:
        """Return the board of a test, which :meth:`board` returned, and arguments of ``hil.open``
        for it.
        """
        if self._unit is not None and self._unit[0] == spec:
            board, options = self._unit[1].board, self._unit[1].options
        else:
            board, options = self._boards[spec], self.own_options(spec)
        return board, {**self.options, **options}

    def reach_alone(self, item: pytest.Item) -> tuple[Board, dict[str, Any]]:
        """Return what :meth:`reach` does, for firmware that takes the place of a test's models."""
        spec = self._current
        if self.is_shared(spec) or self.own_options(spec):
            if _USE in item.stash or self._opener is not None:
                pytest.fail(
                    "hil_elf and a model are on the same board: use them in tests of their own",
                    pytrace=False,
                )
            self._close(spec)
        return self.reach(spec)

    def opened(self, spec: str, request: Any) -> None:
        """Take note of ``hil_open`` on a board: it ends when the board is released."""
        # As pytest ends a fixture whose parameter changes: also those that use it.
        self._opener = (spec, lambda: request._fixturedef.finish(request))

    @contextmanager
    def together(self, item: pytest.Item, specs: Sequence[str]) -> Iterator[tuple[HeldBoard, ...]]:
        """Hold several boards for a test; skip if an emulator is not installed."""
        from hil.lab.pool import acquire_all
        from hil.plugins import load_plugins

        load_plugins()
        # While boards are awaited, none is held.
        self.release_board(keep=False)
        pools = [self._pool(spec) for spec in specs]
        shared = [pool for pool in pools if pool is not None]
        emulated = {
            spec: self._emulated(spec)
            for spec, pool in zip(specs, pools, strict=True)
            if pool is None
        }
        with ExitStack() as stack:
            units = iter(acquire_all(shared))
            boards = []
            for number, spec in enumerate(specs):
                unit = None if spec in emulated else next(units)
                if unit is None:
                    board, options = emulated[spec], self.own_options(spec)
                else:
                    stack.callback(unit.release)
                    board, options = unit.board, unit.options
                reach = {**self.options, **options}
                boards.append(HeldBoard(item, stack, number, board, reach, unit))
            yield tuple(boards)

    def unit_name(self, item: pytest.Item) -> str:
        """Return the name of the board that a test uses, among those of its kind."""
        if (together := item.stash.get(BOARDS, None)) is not None:
            return ", ".join(board.name for board in together)
        spec = _spec(item)
        return self._unit[1].name if self._unit and self._unit[0] == spec else str(spec)

    def facts(self, spec: str) -> dict[str, str]:
        """Return the properties of the board that tests of ``spec`` use now; none before it is
        chosen.
        """
        if self._unit is not None and self._unit[0] == spec:
            name, board, own = self._unit[1].name, self._unit[1].board, self._unit[1].options
        elif spec in self._boards:
            name, board, own = spec, self._boards[spec], self.own_options(spec)
        else:
            return {_BOARD: spec} if self._pools.get(spec) is not None else {}
        found = board_facts(name, board, {**self.options, **own})
        if spec in self._devices and (port := self._devices[spec][1].port):
            found["hil_port"] = port
        return found

    def set_aside(self, item: pytest.Item, reason: str) -> list[str]:
        """Give the boards that failed for good to no further test; return their names.

        Without a reason, or where no board was held, nothing is set aside.
        """
        if not reason:
            return []
        if (together := item.stash.get(BOARDS, None)) is not None:
            pairs = zip(_specs(item), together, strict=True)
            lost = [(spec, held.unit) for spec, held in pairs if held.lost and held.unit]
        elif self._unit is not None:
            lost = [self._unit]
        else:
            lost = []
        for spec, unit in lost:
            pool = self._pool(spec)
            assert pool is not None, "a unit is of a pool"
            pool.set_aside(unit, reason)
        return [unit.name for _, unit in lost]

    def has_board(self, spec: str) -> bool:
        """Return whether a board of the pool is left."""
        from hil.errors import HilError

        try:
            pool = self._pool(spec)
            return pool is None or pool.size > 0
        except HilError:
            return False  # the lab's coordinator does not answer

    def switch_board(self, spec: str) -> None:
        """Replace the board that failed by another one of the same pool."""
        from hil.errors import HilError
        from hil.lab.pool import another

        self._close(spec)
        pool = self._pool(spec)
        if self._unit is not None and pool is not None:
            failed, self._unit = self._unit[1], None
            # If there is none, the next attempt tries to acquire one and reports the error.
            with suppress(HilError):
                self._unit = (spec, another(pool, failed))
                self._since = time.monotonic()

    def release_board(self, keep: bool) -> None:
        """Release the shared board after a test, or keep it for the next test.

        It is kept if the next test needs it and no other worker waits, or was acquired just now,
        but not if it was set aside.
        """
        from hil.lab.pool import SLICE_S

        if self._unit is None:
            return
        keep = keep and not self._is_aside()
        # What `hil_open` returned is used until the tests of the board end.
        is_pinned = self._opener is not None and self._opener[0] == self._unit[0]
        is_ours = is_pinned or time.monotonic() - self._since < SLICE_S
        if keep and (is_ours or not self._unit[1].is_contended()):
            return
        spec, unit = self._unit
        self._unit = None
        try:
            self._close(spec)
        finally:
            unit.release()

    def _is_aside(self) -> bool:
        if self._unit is None:
            return False
        spec, unit = self._unit
        pool = self._pool(spec)
        return pool is not None and pool.is_aside(unit)

    def device(self, library: ModelLibrary) -> Device:
        """Return the device of the test's board running this library."""
        import hil

        spec = self._current
        if spec in self._devices:
            current, device, _ = self._devices[spec]
            if current == library:
                return device
            self._close(spec)
        board, options = self.reach(spec)
        stack = ExitStack()
        device = stack.enter_context(hil.open(board, library, **options))
        self._devices[spec] = (library, device, stack)
        return device

    def close_if_broken(self) -> None:
        """Close a device that does not answer, so that the next test restarts the firmware."""
        from hil.errors import DeviceError

        try:
            self._devices[self._current][1].echo(b"hil")
        except DeviceError:
            self._close(self._current)

    def close(self) -> None:
        # Close every device, even if closing one raises.
        with ExitStack() as everything:
            for pool in self._pools.values():
                if pool is not None:
                    everything.callback(pool.close)
            if self._unit is not None:
                everything.callback(self._unit[1].release)
            for _, _, stack in self._devices.values():
                everything.push(stack)
        self._devices.clear()
        self._pools.clear()
        self._unit = None

    def _close(self, spec: str) -> None:
        """Close what is open on a board."""
        with ExitStack() as stack:
            if spec in self._devices:
                stack.push(self._devices.pop(spec)[2])
            if self._opener is not None and self._opener[0] == spec:
                finish, self._opener = self._opener[1], None
                stack.callback(finish)


_SESSION = pytest.StashKey[_Session]()
#: The use of a device by a test.
_USE = pytest.StashKey[_Use]()
#: JSON objects of what a test verified, counted and evaluated.
_FOUND = pytest.StashKey[list[dict[str, Any]]]()
_ATTEMPT = pytest.StashKey["_Attempt"]()


@dataclass
class _Attempt:
    """What one run of a test of a shared board shows of its board."""

    #: The first failure of the board; empty if it did not fail.
    failure: str = ""
    #: Why the board cannot be reached any more; empty if it can.
    lost: str = ""
    #: Whether the test failed for another reason than its board, which another board cannot change.
    has_verdict: bool = False


@dataclass(frozen=True)
class _WrongMarker:
    """Replaces the board of a test whose marker has wrong arguments."""

    problem: str


def _marker_problem(marker: pytest.Mark | None) -> str:
    """Return the error in the marker's arguments; empty if there is none."""
    if marker is None:
        return ""
    from hilc.support.suggest import nearest

    known = [*_KEYWORDS, *_compile_options()]
    unknown = [name for name in marker.kwargs if name not in known]
    model, boards = (marker.kwargs.get(name) for name in _KEYWORDS)
    names = [boards] if boards is None or isinstance(boards, str) else boards
    if marker.args:
        fact = f"positional argument {marker.args[0]!r}"
    elif unknown:
        fact = f"unknown argument {unknown[0]!r}{nearest(unknown[0], known)}"
    elif model is not None and not isinstance(model, str | os.PathLike):
        fact = f"model={model!r} is not a path"
    elif not isinstance(names, Sequence) or not all(
        name is None or isinstance(name, str) for name in names
    ):
        fact = f"boards={boards!r} is not a list of names"
    else:
        return ""
    return f"@pytest.mark.hil: {fact}; the marker is {_MARKER}"


def _compile_options() -> list[str]:
    """Return the options of the compiler that a user of a board may choose."""
    from hilc.options import CompileOptions
    from hilc.support.option import options_of

    stated = options_of(CompileOptions).items()
    return [name for name, each in stated if each.form is not None or name == "cpu"]


def _identity(value: Any) -> Any:
    """Return a hashable value that is equal for equal options."""
    if isinstance(value, Mapping):
        return tuple((name, _identity(each)) for name, each in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_identity, value))
    if hasattr(value, "tobytes"):  # an array
        return value.shape, str(value.dtype), value.tobytes()
    return value if isinstance(value, Hashable) else id(value)


def _marker_boards(marker: pytest.Mark | None) -> Sequence[str]:
    boards = (marker.kwargs.get("boards") if marker else None) or ()
    return (boards,) if isinstance(boards, str) else tuple(boards)


def _default_board() -> str:
    from hil.board import default_board

    return default_board().name
