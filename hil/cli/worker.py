"""A process that runs one combination of a matrix: ``python -m hil.cli.worker``.

The process that started it writes the arguments to its standard input and reads the outcome from
its standard output; both are of this program alone, so they are pickles.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from types import FrameType, SimpleNamespace

from hil.cli.console import PartConsole
from hil.cli.on_boards import outcome_of
from hil.plugins import load_plugins


def main() -> None:
    """Run the combination that stands on standard input.

    Raise :class:`SystemExit` with 128 + N after signal N.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    # Every `with` block closes what it opened.
    signal.signal(signal.SIGTERM, end)
    args, prog, combination = pickle.load(sys.stdin.buffer)
    args.parser = SimpleNamespace(prog=prog)
    # What is printed by mistake must not end up in the outcome.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as result:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        load_plugins()
        console = PartConsole(args.quiet)
        with console.listening(args.verbose):
            outcome = outcome_of(args, combination, console)
        # What is finished arrives, also if the matrix is being ended.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        result.write(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
