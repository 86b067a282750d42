"""Several jobs: one after the other, or several at a time, each in a process of its own.

Boards that are started for a run (emulators, processes) allow any number at a time, boards of a lab
as many as there are, others one.
"""

from __future__ import annotations

import pickle
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hil.access import Connection, is_machine, runner_name, runner_named
from hil.board import Board, load_board
from hil.board.bench import is_of_bench
from hil.board.bench_selector import selected_boards
from hil.errors import Attempt, DeviceError, HilError, InputError, InternalError, NotRunError
from hil.firmware.fit import FitError
from hil.jobs.job import Job
from hil.jobs.run import Run
from hil.lab.selector import parse_selector
from hil.support.failures import known_error
from hil.support.process import python_module
from hil.support.scope import adopt, decisions, one_command
from hilc.support.arguments import check, typed
from hilc.support.process import start

#: Module of the processes that run jobs.
WORKER = "hil.jobs.worker"
#: Status with which a process of a job ends after SIGTERM.
_TERMINATED = 128 + signal.SIGTERM
#: Time for a process to end its emulator.
_STOP_S = 10.0
#: Time to wait for the outcomes of processes that are just ending.
_LAST_S = 2.0


#: Each is a process that loads the compiler, and may start an emulator.
_MOST_WORKERS = 256


def check_workers(stated: str, count: int) -> None:
    """Raise :class:`InputError` if so many processes are not available; ``stated`` is the text by
    which the user asked for them.
    """
    if not 1 <= count <= _MOST_WORKERS:
        size = "small" if count < 1 else "large"
        raise InputError(f"{stated} is too {size}", f"give 1 to {_MOST_WORKERS}")


@dataclass(frozen=True)
class JobOutcome:
    """What a job of a matrix found, or the error that ended it."""

    #: A result for each model; those before the error if there is one.
    results: tuple[Any, ...] = ()
    error: HilError | None = None
    #: Whether a result is wrong or misses a limit.
    is_wrong: bool = False
    #: Why the job was skipped; empty if it ran.
    skipped: str = ""
    #: Time of the last run, build included.
    seconds: float = 0.0
    #: The place of a lab that it ran on; empty elsewhere.
    place: str = ""
    #: Its earlier runs, which failed as the board, probe or link did.
    reruns: tuple[Attempt, ...] = ()
    #: The standard error of a process of its own.
    log: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code that a command of this outcome has: an error does not hide a difference."""
        if self.is_wrong:
            return 1
        return self.error.exit_code if self.error is not None else 0

    def check(self) -> tuple[Any, ...]:
        """Return the results; raise the error that ended the job, and
        :class:`~hil.errors.NumericError` for a result that is wrong.
        """
        for result in self.results:
            result.check()
        if self.error is not None:
            raise self.error
        return self.results


@typed
def matrix(
    jobs: Sequence[Job[Any]],
    *,
    workers: int = 1,
    retries: int = 0,
    skip_too_large: bool = False,
) -> list[JobOutcome]:
    """Run jobs, such as the combinations of several models and boards; return their outcomes, in
    their order. The error of a job that fails is in its place, and the others run.

    With ``workers`` above 1 up to so many jobs run at the same time, where their boards allow it,
    each in a process of its own. These processes load plug-ins as the command line does; a job must
    be picklable for them, and its own functions and classes importable. A job whose board, probe or
    link failed runs again, up to ``retries`` times; of the boards of a lab another one is taken, if
    one becomes free. A board here that cannot be reached is set aside: no further job waits for it.
    With ``skip_too_large`` a job whose image does not fit its board is skipped.

    Ctrl-C ends the processes, and then raises KeyboardInterrupt as anywhere in Python. Raise
    :class:`~hil.errors.InputError` for arguments that are none of a matrix.
    """
    check_workers(f"workers={workers}", workers)
    for job in jobs:
        check("jobs", job, Job)
    if retries < 0:
        raise InputError(f"retries={retries} is too small", "give at least 0")
    wanted = Matrix(
        jobs, workers=workers, retries=retries, skip_too_large=skip_too_large, run=Run()
    )
    with one_command():
        try:
            for _ in wanted.run():
                pass
        finally:
            wanted.stop()
    return [wanted.finished[index] for index in range(len(jobs))]


class Matrix:
    """Jobs that are run, with their outcomes so far.

    A job may be the error that prevented it from being made: this is its outcome. ``again`` is
    called with the outcome of a run that is repeated.
    """

    def __init__(
        self,
        jobs: Sequence[Job[Any] | HilError],
        *,
        workers: int = 1,
        retries: int = 0,
        skip_too_large: bool = False,
        run: Run,
        started: Callable[[int], None] = lambda index: None,
        again: Callable[[int, JobOutcome], None] = lambda index, outcome: None,
    ) -> None:
        self._jobs = jobs
        self._workers = workers
        self._retries = retries
        self._skip_too_large = skip_too_large
        self._run = run
        self._started = started
        self._again = again
        self._ended: queue.Queue[tuple[int, dict[Any, Any]]] = queue.Queue()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        #: Outcome of each job that has ended, from threads, which no signal interrupts.
        self.finished: dict[int, JobOutcome] = {}
        #: Whether processes that have no outcome were asked to end.
        self._is_ending = False

    def run(self) -> Iterator[int]:
        """Yield the position of each job that has ended; call :meth:`stop` afterwards."""
        waiting = list(range(len(self._jobs)))
        earlier: dict[int, list[JobOutcome]] = {}
        aside = _SetAside()
        limits: dict[int, int | None] = {}
        while waiting or self._running:
            for index in tuple(waiting):
                job = self._jobs[index]
                known = JobOutcome(error=job) if isinstance(job, HilError) else aside.outcome(job)
                if known is not None:
                    waiting.remove(index)
                    self.finished[index] = _with_reruns(known, earlier.get(index, ()), job)
                    yield index
                    continue
                assert isinstance(job, Job)
                if len(self._running) >= self._workers:
                    break
                if self._workers > 1 and not self._is_free(index, job, limits):
                    continue
                waiting.remove(index)
                self._start(index, job, earlier.get(index, ()))
                if self._workers == 1:
                    break
            if not self._running and self._ended.empty():
                continue
            index, decided = self._ended.get()
            self._running.pop(index, None)
            adopt(decided)
            outcome, job = self.finished[index], self._jobs[index]
            assert isinstance(job, Job)
            aside.look_at(job, outcome)
            before = earlier.setdefault(index, [])
            if should_retry(outcome, self._retries, len(before) + 1):
                before.append(outcome)
                self._again(index, outcome)
                # In this process at once: nothing else runs meanwhile.
                waiting.insert(0 if self._workers == 1 else len(waiting), index)
                continue
            self.finished[index] = _with_reruns(outcome, before, job)
            yield index

    def _is_free(self, index: int, job: Job[Any], limits: dict[int, int | None]) -> bool:
        """Return whether the job's board allows one more job now."""
        if index not in limits:
            limits[index] = _limit(job)
        limit = limits[index]
        used = sum(_same_board(self._jobs[other], job) for other in self._running)
        return limit is None or used < limit

    def _start(self, index: int, job: Job[Any], earlier: Sequence[JobOutcome]) -> None:
        self._started(index)
        run = self._run.anew(tuple(outcome.place for outcome in earlier if outcome.place))
        if self._workers == 1:
            self.finished[index] = outcome_of(job, run, self._skip_too_large)
            self._ended.put((index, {}))
            return
        try:
            data = pickle.dumps((pickle.dumps(job), run, self._skip_too_large, decisions()))
        except Exception as error:  # what an object's own code raises
            self.finished[index] = JobOutcome(error=_unsendable(error))
            self._ended.put((index, {}))
            return
        process = start(
            python_module(WORKER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._running[index] = process
        thread = threading.Thread(target=self._wait, args=(index, process, data), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _wait(self, index: int, process: subprocess.Popen[bytes], data: bytes) -> None:
        log = ""
        decided: dict[Any, Any] = {}
        try:
            output, errors = process.communicate(data)
            log = errors.decode("utf-8", "replace")
            # It is what this program itself has written.
            outcome, decided = pickle.loads(output)
        except Exception:  # the process ended before it had written all of it
            process.kill()
            status = process.wait()
            if self._is_ending:
                return
            outcome = JobOutcome(error=_death(status))
        self.finished[index] = replace(outcome, log=log)
        self._ended.put((index, decided))

    def end(self) -> None:
        """Ask the processes that run to end, and wait a moment for outcomes on their way."""
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


def outcome_of(job: Job[Any], run: Run, skip_too_large: bool = False) -> JobOutcome:
    """Run a job; return its outcome, also of an error."""
    began = time.monotonic()
    results: list[Any] = []
    error: HilError | None = None
    skipped = ""
    try:
        for result in job.results(run):
            results.append(result)
    except Exception as raised:
        if run.is_interrupted:
            # The signal ended a child, too, or a library made an error of it.
            raise KeyboardInterrupt from raised
        found = known_error(raised) or _bug(raised, run)
        if isinstance(found, FitError) and skip_too_large:
            skipped = found.fact
        else:
            error = found
    return JobOutcome(
        tuple(results),
        error,
        not all(map(job.is_good, results)),
        skipped,
        time.monotonic() - began,
        run.place,
    )


def _bug(raised: Exception, run: Run) -> InternalError:
    """Return the error for a bug in one job, which does not take the results of the others."""
    run.bug(raised)
    error = InternalError(raised)
    error.__cause__ = raised
    return error


def _unsendable(error: Exception) -> InputError:
    return InputError(
        f"the job cannot be sent to another process: {error}",
        "give files, names and arrays, or workers=1",
    )


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


def should_retry(outcome: JobOutcome, retries: int, attempts: int) -> bool:
    """Return whether a job runs again since its board, probe or link failed; not where it found a
    difference before.
    """
    if not isinstance(outcome.error, DeviceError) or outcome.is_wrong:
        return False
    # There is another place in a lab, but not another board here.
    may_help = bool(outcome.place) or not outcome.error.is_lost
    return may_help and attempts <= retries


def _with_reruns(
    outcome: JobOutcome, earlier: Sequence[JobOutcome], job: Job[Any] | HilError
) -> JobOutcome:
    """Return an outcome with the attempts of the failed runs before it."""
    found: list[Attempt] = []
    for one in earlier:
        assert isinstance(one.error, DeviceError), "see should_retry"
        for result in one.results:
            found += getattr(result, "recoveries", ())
        found += one.error.recoveries
        reason = one.error.fact.partition("\n")[0]
        assert isinstance(job, Job)
        where = one.place or board_name(job)
        found.append(Attempt(where, "another run", reason, one.seconds))
    return replace(outcome, reruns=tuple(found))


class _SetAside:
    """Boards of this machine that failed for good: no further job of the matrix waits for them. Of
    the boards of a lab another one may be free.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def look_at(self, job: Job[Any], outcome: JobOutcome) -> None:
        """Set the board aside if the outcome of a job says that it cannot be reached."""
        error = outcome.error
        if not isinstance(error, DeviceError) or not error.is_lost or outcome.place:
            return
        # A machine that is started for each job can work for the next one.
        if _selector(job) is None and _limit(job) == 1:
            self._reasons.setdefault(_key(job), error.fact.partition("\n")[0].rstrip(":"))

    def outcome(self, job: Job[Any]) -> JobOutcome | None:
        """Return the outcome of a job whose board was set aside; None for another board."""
        reason = self._reasons.get(_key(job))
        if reason is None:
            return None
        error = DeviceError(
            f"the board {board_name(job)} was set aside, since it failed before: {reason}",
            "repair the board, and run the command again",
            is_lost=True,
        )
        return JobOutcome(error=error)


def _same_board(one: Job[Any] | HilError, other: Job[Any]) -> bool:
    return isinstance(one, Job) and _key(one) == _key(other)


def _key(job: Job[Any]) -> str:
    """Return the text that is equal for jobs of the same board."""
    if isinstance(job.board, Board):
        return str(job.board.path if job.board.unit is None else job.board.unit.spec)
    return str(job.board)


def board_name(job: Job[Any]) -> str:
    """Return the name of a job's board, or the selector of a lab."""
    if isinstance(job.board, Board) and job.board.unit is not None:
        return job.board.unit.spec
    is_of_a_bench = isinstance(job.board, str) and is_of_bench(job.board)
    if not is_of_a_bench and isinstance(job.board, str | Path | Board) and _selector(job) is None:
        return _described(job).name
    return str(job.board)


def _selector(job: Job[Any]) -> Any:
    return parse_selector(job.board) if isinstance(job.board, str) else None


def _described(job: Job[Any]) -> Board:
    if isinstance(job.board, Board):
        return job.board
    assert isinstance(job.board, str | Path), "an open device cannot be sent to a process"
    return load_board(job.board)


def _limit(job: Job[Any]) -> int | None:
    """Return how many jobs a board can run at the same time; None for any number, and for a board
    that is not known, since the job itself says so.
    """
    try:
        return _at_once(job)
    except HilError:
        return None


def _at_once(job: Job[Any]) -> int | None:
    if isinstance(job.board, str) and is_of_bench(job.board):
        return len(selected_boards(job.board))
    if isinstance(job.board, Board) and job.board.unit is not None:
        return 1
    wanted = _selector(job)
    if wanted is not None:
        # Not at the top: most sessions use no lab.
        from hil.lab.pool import LabPool

        pool = LabPool(wanted)
        try:
            return max(1, pool.size)
        finally:
            pool.close()
    if job.options.get("port") is not None or not isinstance(job.board, str | Path | Board):
        return 1
    described, connection = _described(job), Connection(job.options.get("probe"), None)
    runner = job.options.get("runner")
    chosen = runner_named(runner_name(described, runner, connection))
    return 1 if chosen.exists_once or not is_machine(described, chosen, connection) else None
