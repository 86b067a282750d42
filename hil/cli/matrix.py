"""The matrix of a command: boards, goals, and with ``--separate`` models; each is a combination.

Combinations run one after the other, or ``--jobs`` at a time, each in a process of its own. Boards
that are started for a run (emulators, processes) allow any number at a time, boards of a lab as
many as there are, others one.
"""

from __future__ import annotations

import argparse
import os
import pickle
import queue
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hil.board import board_names, load_board
from hil.board.bench import is_of_bench
from hil.board.bench_selector import selected_boards
from hil.cli.reports import Outcome
from hil.errors import Attempt, DeviceError, HilError, InputError, NotRunError
from hil.lab.selector import parse_selector
from hil.results.v0 import DEFAULT_GOAL
from hil.support.process import python_module
from hilc.support.process import start

#: Stands for every board that QEMU emulates on this machine.
EMULATED = "emulated"
_MODEL_SUFFIXES = (".tflite", ".onnx", ".pt2")
#: Arguments that say what the whole matrix is, how it runs and where all of it is written.
_MATRIX_OPTIONS = (
    *("on_boards", "report_boards", "goals", "separate", "jobs", "retries", "skip_too_large"),
    *("junit", "summary", "stored"),
)
#: Module of the processes that run combinations.
WORKER = "hil.cli.worker"


@dataclass(frozen=True)
class Combination:
    """One build and run of a matrix."""

    #: The board as it was given, and its name.
    board: str
    name: str
    #: The goal; None if the matrix has no goals.
    goal: str | None = None
    #: The only model; None for all models in one image.
    model: str | None = None
    #: Names of the models, and the goal that they are compiled for.
    models: tuple[str, ...] = ()
    optimize: str | None = None

    def arguments(self, args: argparse.Namespace) -> argparse.Namespace:
        """Return the arguments of the command for this combination alone."""
        own = argparse.Namespace(**{**vars(args), "board": self.board})
        own.words = self.words(args)
        if goals := getattr(args, "goals", None):
            own.optimize = self.goal or goals[0]
        if self.model is not None:
            own.models = [self.model]
        if getattr(args, "output", None):
            own.output = os.path.join(args.output, self.name)
        return own

    def words(self, args: argparse.Namespace) -> tuple[str, ...]:
        """Return the words of a command line that runs this combination alone."""
        kept: list[str] = []
        options = args.parser._option_string_actions
        words = iter(getattr(args, "words", ()))
        for word in words:
            flag, equals, _ = word.partition("=")
            action = options.get(word) or options.get(flag)
            if action is None or not word.startswith("-"):
                is_own = self.model is None or word not in args.models
                kept += [word] if is_own else []
                continue
            value = [] if equals or action.nargs == 0 else [next(words, "")]
            kept += [] if action.dest in _MATRIX_OPTIONS else [word, *value]
        own = [] if self.model is None else [self.model]
        own += ["--board", self.board] + (["--optimize", self.goal] if self.goal else [])
        return (*kept, *own) if kept else ()

    @property
    def label(self) -> str:
        """Name of the combination, for messages."""
        return self.named(Outcome("verify", ""), 0).label

    def named(self, outcome: Outcome, seconds: float) -> Outcome:
        """Return an outcome with the combination's name and duration."""
        return replace(
            outcome,
            board=self.name,
            goal=self.goal,
            model=self.model,
            models=self.models,
            optimize=self.optimize,
            seconds=seconds,
        )


def combinations(args: argparse.Namespace) -> list[Combination]:
    """Return the combinations of the arguments, boards first; raise for a repeated value."""
    boards = list(_boards(args.on_boards))
    names = [_name(board) for board in boards]
    goals = list(getattr(args, "goals", None) or [None])
    for what, words in (("--board", names), ("--optimize", goals)):
        twice = next((word for word, count in Counter(words).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"{what} names {twice!r} twice", "name each once")
    models: list[str | None] = [None]
    if getattr(args, "separate", False):
        models = list(_models(args.models))
    several_goals = len(goals) > 1
    return [
        Combination(
            board,
            name,
            goal if several_goals else None,
            model,
            models=_names(args, [model] if model is not None else args.models),
            optimize=goal or getattr(args, "optimize", None) or DEFAULT_GOAL,
        )
        for model in models
        for board, name in zip(boards, names, strict=True)
        for goal in goals
    ]


def _names(args: argparse.Namespace, words: Sequence[str]) -> tuple[str, ...]:
    """Return the names of models as the command line gives them; else the stems of their files."""
    if getattr(args, "name", None) and len(words) == 1:
        return (args.name,)
    pairs = [word.partition("=") for word in words]
    return tuple(name if equals else Path(name).stem for name, equals, _ in pairs)


def _boards(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word != EMULATED:
            yield word
            continue
        # Not at the top: it looks for programs.
        from hil.cli.doctor import missing_for_runner

        known = [load_board(name) for name in board_names()]
        found = [b.name for b in known if b.qemu and missing_for_runner(b, "qemu") is None]
        if not found:
            raise InputError("no board can be emulated here", "`hil doctor` says what is missing")
        yield from found


def _name(board: str) -> str:
    """Return the name of the board description, or the text of the lab selector."""
    if is_of_bench(board):
        return board
    return str(wanted) if (wanted := parse_selector(board)) else load_board(board).name


def _models(words: Sequence[str]) -> Iterator[str]:
    """Return the models; for a folder that is not a library, the model files in it."""
    for word in words:
        folder = Path(word)
        if not folder.is_dir() or (folder / "metadata.json").exists():
            yield word
            continue
        found = sorted(p for p in folder.rglob("*") if p.suffix in _MODEL_SUFFIXES)
        if not found:
            raise InputError(
                f"the folder {word!r} has no model file",
                f"the suffixes are {', '.join(_MODEL_SUFFIXES)}",
            )
        yield from map(str, found)


# -- in parallel -------------------------------------------------------------------------------


#: Called when a combination starts, and when it has ended.
Report = Callable[[int, Outcome | None], None]
#: Status with which a process of a combination ends after SIGTERM.
_TERMINATED = 128 + signal.SIGTERM
#: Time for a process to end its emulator.
_STOP_S = 10.0
#: Time to wait for the results of processes that are just ending.
_LAST_S = 2.0


class Processes:
    """Runs combinations in processes, up to ``--jobs`` at a time."""

    def __init__(self, args: argparse.Namespace, report: Report) -> None:
        self._args = args
        self._report = report
        self._ended: queue.Queue[int] = queue.Queue()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        #: Outcome of each combination that has ended, from threads, which no signal interrupts.
        self.finished: dict[int, Outcome] = {}
        #: Whether processes that have no result were asked to end.
        self._is_ending = False

    def run(self, plan: Sequence[Combination]) -> Iterator[int]:
        """Yield the position of each combination that has ended; call :meth:`stop` afterwards."""
        limits = {c.board: _at_once(c.board, self._args) for c in plan}
        waiting = list(range(len(plan)))
        failed: dict[int, list[str]] = {}
        reruns: dict[int, list[Attempt]] = {}
        aside = SetAside(self._args)
        while waiting or self._running:
            for index in tuple(waiting):
                if (known := aside.outcome_of(plan[index])) is not None:
                    waiting.remove(index)
                    self.finished[index] = replace(known, reruns=reruns.get(index, ()))
                    self._report(index, self.finished[index])
                    yield index
                    continue
                used = sum(plan[i].board == plan[index].board for i in self._running)
                limit = limits[plan[index].board]
                if len(self._running) >= self._args.jobs:
                    break
                if limit is None or used < limit:
                    waiting.remove(index)
                    self._start(index, plan[index], failed.get(index, ()))
            if not self._running:
                continue
            index = self._ended.get()
            del self._running[index]
            outcome = self.finished[index]
            aside.look_at(plan[index], outcome)
            places = failed.setdefault(index, [])
            if should_retry(outcome, self._args, len(places) + 1):
                places.append(outcome.place)
                reruns.setdefault(index, []).extend(failed_run(outcome))
                waiting.append(index)
                continue
            outcome = self.finished[index] = replace(outcome, reruns=reruns.get(index, ()))
            self._report(index, outcome)
            yield index

    def _start(self, index: int, combination: Combination, failed: Sequence[str]) -> None:
        self._report(index, None)
        one = combination.arguments(self._args)
        one.failed_places = tuple(failed)
        prog, one.parser = one.parser.prog, None
        process = start(
            python_module(WORKER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._running[index] = process
        data = pickle.dumps((one, prog, combination))
        thread = threading.Thread(
            target=self._wait, args=(index, combination, process, data, prog), daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _wait(
        self,
        index: int,
        combination: Combination,
        process: subprocess.Popen[bytes],
        data: bytes,
        prog: str,
    ) -> None:
        log = ""
        try:
            output, errors = process.communicate(data)
            log = errors.decode("utf-8", "replace")
            # It is what this program itself has written.
            outcome = replace(pickle.loads(output), log=log)
        except Exception:  # the process ended before it had written all of it
            process.kill()
            status = process.wait()
            if self._is_ending:
                return
            error = _death(status)
            command: Any = prog.split()[-1]
            outcome = Outcome(command, "", exit_code=error.exit_code, error=error, log=log)
            outcome = combination.named(outcome, 0.0)
        self.finished[index] = outcome
        self._ended.put(index)

    def end(self) -> None:
        """Ask the processes that run to end, and wait a moment for results on their way."""
        self._is_ending = True
        for process in tuple(self._running.values()):
            with suppress(OSError):
                process.terminate()
        deadline = time.monotonic() + _LAST_S
        for thread in tuple(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """End the processes that run; they close what they opened."""
        for process in self._running.values():
            with suppress(OSError):
                process.terminate()
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_STOP_S)
            if process.poll() is None:
                process.kill()


def _death(status: int) -> HilError:
    """Return the error for a process that ended without an outcome."""
    if status in (_TERMINATED, -signal.SIGTERM):
        return NotRunError("its process was terminated", _TERMINATED)
    how = f"exit status {status}" if status >= 0 else f"signal {-status}"
    with suppress(ValueError):
        how += f" ({signal.Signals(-status).name})"
    return InputError(
        f"the process that ran it ended with {how}, and without a result",
        "a lack of memory may be the cause: give fewer --jobs, or raise the limits of `ulimit -a`",
    )


def should_retry(outcome: Outcome, args: argparse.Namespace, attempts: int) -> bool:
    """Return whether a combination runs again since its board, probe or link failed; not where it
    found a difference before.
    """
    if not isinstance(outcome.error, DeviceError) or outcome.differs:
        return False
    # There is another place in a lab, but not another board here.
    may_help = bool(outcome.place) or not outcome.error.is_lost
    return may_help and attempts <= getattr(args, "retries", 0)


class SetAside:
    """Boards of this machine that failed for good: no further combination of the matrix waits for
    them. Of the boards of a lab another one may be free.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._reasons: dict[str, str] = {}

    def look_at(self, combination: Combination, outcome: Outcome) -> None:
        """Set the board aside if the outcome of a combination says that it cannot be reached."""
        error, board = outcome.error, combination.board
        if not isinstance(error, DeviceError) or not error.is_lost or outcome.place:
            return
        # A machine that is started for each combination can work for the next one.
        if parse_selector(board) is None and _at_once(board, self._args) == 1:
            self._reasons.setdefault(board, error.fact.partition("\n")[0].rstrip(":"))

    def outcome_of(self, combination: Combination) -> Outcome | None:
        """Return the outcome of a combination whose board was set aside; None for another board."""
        reason = self._reasons.get(combination.board)
        if reason is None:
            return None
        error = DeviceError(
            f"the board {combination.name} was set aside, since it failed before: {reason}",
            "repair the board, and run the command again",
            is_lost=True,
        )
        command: Any = self._args.parser.prog.split()[-1]
        return combination.named(Outcome(command, combination.name).failed(error), 0.0)


def failed_run(outcome: Outcome) -> list[Attempt]:
    """Return the attempts of a failed run that is repeated: its recovery steps, and the run."""
    error = outcome.error
    assert isinstance(error, DeviceError), "see should_retry"
    where = outcome.place or outcome.board
    again = Attempt(where, "another run", error.fact.partition("\n")[0], outcome.seconds)
    return [*outcome.recoveries, again]


def _at_once(board: str, args: argparse.Namespace) -> int | None:
    """Return how many combinations a board can run at the same time; None for any number."""
    from hil.access import Connection, is_machine, runner_name, runner_named

    if is_of_bench(board):
        return len(selected_boards(board))
    wanted = parse_selector(board)
    if wanted is not None:
        from hil.lab.pool import LabPool

        pool = LabPool(wanted)
        try:
            return max(1, pool.size)
        finally:
            pool.close()
    if args.port is not None:
        return 1
    described, connection = load_board(board), Connection(args.probe, None)
    runner = runner_named(runner_name(described, args.runner, connection))
    return 1 if runner.exists_once or not is_machine(described, args.runner, connection) else None
