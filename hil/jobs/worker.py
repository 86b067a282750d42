"""A process that runs one job of a matrix: ``python -m hil.jobs.worker``.

The process that started it writes the job to its standard input and reads the outcome from its
standard output; both are of this program alone, so they are pickles.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from types import FrameType

from hil.errors import InputError
from hil.jobs.matrix import JobOutcome, outcome_of
from hil.jobs.run import Run
from hil.plugins import load_plugins
from hil.support.scope import adopt, decisions, one_command


def main() -> None:
    """Run the job that standard input contains.

    Raise :class:`SystemExit` with 128 + N after signal N.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    # Every `with` block closes what it opened.
    signal.signal(signal.SIGTERM, end)
    job, run, skip_too_large, decided = pickle.load(sys.stdin.buffer)
    # What is printed by mistake must not end up in the outcome.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as result:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with run.listening(), one_command():
            adopt(decided)
            load_plugins()
            outcome = _outcome(job, run, skip_too_large)
            answer = pickle.dumps((outcome, decisions()))
        # What is finished arrives, also if the matrix is being ended.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        result.write(answer)


def _outcome(data: bytes, run: Run, skip_too_large: bool) -> JobOutcome:
    try:
        job = pickle.loads(data)
    except Exception as error:  # what an object's own code raises
        return JobOutcome(
            error=InputError(
                f"the job cannot be read in another process: {error}",
                "define its functions and classes in a module, or give workers=1",
            )
        )
    return outcome_of(job, run, skip_too_large)


if __name__ == "__main__":
    main()
