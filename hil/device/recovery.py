"""Recovery of a board after a failure: by reset, by programming, by its power switch.

An error states the mildest remedy that may help (:class:`hil.errors.Remedy`); from there recovery
escalates, one step per failure, until the job succeeds. It gives up if no step can help, if the
same fault returns, after the last step, and when its time is used up. It logs each step with its
reason to ``hil.recovery``. Wrong results are not failures of the board: they are never computed
again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from hil.errors import Attempt, DeviceError, Remedy

T = TypeVar("T")

#: Time limit of the steps of one incident before a step begins; each has deadlines of its own.
LIMIT_S = 60.0
_LOG = logging.getLogger("hil.recovery")
#: Every step that this process has taken, of all boards, also of those that could not be opened.
ATTEMPTS: list[Attempt] = []


@dataclass(frozen=True)
class Step:
    """A step of recovery."""

    remedy: Remedy
    #: Text after "trying ...".
    name: str
    #: Raise :class:`DeviceError` if the board is not back.
    do: Callable[[], None]


class Recovery:
    """Recovery of one board; ``steps`` returns the possible steps after an error, in order."""

    def __init__(
        self,
        board: str,
        steps: Callable[[DeviceError], Sequence[Step]],
        limit_s: float = LIMIT_S,
        unit: str = "",
    ) -> None:
        """Create it; ``unit`` says which of the boards of that name it is."""
        self._board = board
        self._unit = unit
        self._steps = steps
        self._limit_s = limit_s
        #: All steps that were taken.
        self.attempts: list[Attempt] = []
        self._reported = 0
        self.mark_recovered()

    def unreported(self) -> tuple[Attempt, ...]:
        """Return the steps since the last call, for the result that they belong to."""
        found = tuple(self.attempts[self._reported :])
        self._reported += len(found)
        return found

    def mark_recovered(self) -> None:
        """Record that the board works: the next failure begins a new incident."""
        self._least = Remedy.RESET.value
        self._last: DeviceError | None = None
        self._spent_s = 0.0
        self._tried: list[Attempt] = []

    def repeated(self, job: Callable[[], T]) -> T:
        """Return the result of ``job()``, which is repeated after each recovery of the board."""
        while True:
            try:
                result = job()
            except DeviceError as error:
                self.recover(error)
            else:
                self.mark_recovered()
                return result

    def recover(self, error: DeviceError) -> None:
        """Return when the board is back after ``error``; otherwise raise it, with the steps that
        were taken.
        """
        if error.remedy is None:
            self._give_up(error)
        if self._last is not None and error.is_like(self._last):
            self._give_up(error, "it comes back after a restart")
        self._last = error
        least = max(self._least, error.remedy)
        for step in self._steps(error):
            if step.remedy < least:
                continue
            if self._spent_s >= self._limit_s:
                self._give_up(error, f"{self._limit_s:g} s are used up")
            self._least = step.remedy + 1
            if self._take(step, error):
                return
        self._give_up(error)

    def _take(self, step: Step, error: DeviceError) -> bool:
        _LOG.warning("%s: %s; trying %s", self._board, _first_line(error), step.name)
        start = time.monotonic()
        failure: DeviceError | None = None
        try:
            step.do()
        except DeviceError as caught:
            failure = caught
        seconds = time.monotonic() - start
        self._spent_s += seconds
        attempt = Attempt(
            self._board,
            step.name,
            _first_line(error),
            seconds,
            _first_line(failure) if failure else "",
            self._unit,
        )
        for attempts in (ATTEMPTS, self.attempts, self._tried):
            attempts.append(attempt)
        if failure is None:
            _LOG.warning("%s: back after %s, which took %.1f s", self._board, step.name, seconds)
            return True
        if failure.remedy is None:
            # Stronger steps cannot remove the cause (no cable, a board in use).
            failure.recoveries = tuple(self._tried)
            raise failure from error
        _LOG.warning("%s: %s did not help: %s", self._board, step.name, attempt.failure)
        return False

    def _give_up(self, error: DeviceError, why: str = "") -> NoReturn:
        tried = [
            f"{attempt.step} ({attempt.failure or 'the board was back, the failure as well'})"
            for attempt in self._tried
        ]
        parts = [error.hint, *([f"tried: {', '.join(tried)}"] if tried else []), why]
        error.hint = "; ".join(text for text in parts if text)
        error.recoveries = tuple(self._tried)
        if self._tried and self._tried[-1].failure:
            error.is_lost = True
        raise error


def _first_line(error: DeviceError) -> str:
    return error.fact.partition("\n")[0]
