"""Brings a board back after a failure: by a reset, by programming it again, by its power switch.

A failure says itself what may mend it (:class:`hil.errors.Mend`); from there recovery climbs, one
step a failure, until the job succeeds. It gives up where nothing can help, where the same fault
comes back, at the end of the ladder, and when its time is used up. What it does it tells on the log
``hil.recovery``, each step with its reason. Results that differ are no failure of the board: they
are never computed again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from hil.errors import DeviceError, Mend

T = TypeVar("T")

#: No step begins when the steps of one incident took this long; each ends by its own deadlines.
LIMIT_S = 60.0
_LOG = logging.getLogger("hil.recovery")


@dataclass(frozen=True)
class Step:
    """A rung of the ladder."""

    mend: Mend
    #: As in "trying ...".
    name: str
    #: Raises :class:`DeviceError` where the board is not back.
    do: Callable[[], None]


@dataclass(frozen=True)
class Attempt:
    """A step that was taken."""

    name: str
    #: The fact of the error that it was taken for.
    reason: str
    seconds: float
    #: Why the board was not back; "" where it was.
    failure: str


class Recovery:
    """The ladder of one board; ``steps`` are those that can be taken after an error, in order."""

    def __init__(
        self,
        board: str,
        steps: Callable[[DeviceError], Sequence[Step]],
        limit_s: float = LIMIT_S,
    ) -> None:
        self._board = board
        self._steps = steps
        self._limit_s = limit_s
        #: Everything that was tried.
        self.attempts: list[Attempt] = []
        self.over()

    def over(self) -> None:
        """Record that the board works: the next failure begins a new incident."""
        self._least = Mend.RESET.value
        self._last: DeviceError | None = None
        self._spent_s = 0.0
        self._tried: list[Attempt] = []

    def repeated(self, job: Callable[[], T]) -> T:
        """``job()``, again each time that the board was brought back from a failure of it."""
        while True:
            try:
                result = job()
            except DeviceError as error:
                self.recover(error)
            else:
                self.over()
                return result

    def recover(self, error: DeviceError) -> None:
        """Return when the board is back after ``error``; else raises it, with what was tried."""
        if error.mend is None:
            self._give_up(error)
        if self._last is not None and error.is_like(self._last):
            self._give_up(error, "it comes back after a restart")
        self._last = error
        least = max(self._least, error.mend)
        for step in self._steps(error):
            if step.mend < least:
                continue
            if self._spent_s >= self._limit_s:
                self._give_up(error, f"{self._limit_s:g} s are used up")
            self._least = step.mend + 1
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
            step.name, _first_line(error), seconds, _first_line(failure) if failure else ""
        )
        self.attempts.append(attempt)
        self._tried.append(attempt)
        if failure is None:
            _LOG.warning("%s: back after %s, which took %.1f s", self._board, step.name, seconds)
            return True
        if failure.mend is None:
            # What stands in the way (no cable, somebody else) no stronger step removes.
            raise failure from error
        _LOG.warning("%s: %s did not help: %s", self._board, step.name, attempt.failure)
        return False

    def _give_up(self, error: DeviceError, why: str = "") -> NoReturn:
        tried = [
            f"{attempt.name} ({attempt.failure or 'the board was back, the failure as well'})"
            for attempt in self._tried
        ]
        told = [error.hint, *([f"tried: {', '.join(tried)}"] if tried else []), why]
        error.hint = "; ".join(text for text in told if text)
        raise error


def _first_line(error: DeviceError) -> str:
    return error.fact.partition("\n")[0]
