"""What ``hil monitor`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hil.access import Connection, start
from hil.cli.arguments import checked_board, compiled_for
from hil.cli.console import Console
from hil.cli.monitor import listen, open_line
from hil.errors import InputError
from hil.firmware.build import build
from hil.link.line import Line
from hil.results.run import HeardLine, MonitorEntry


@contextmanager
def _line(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[str, Line, Callable[[], None], Path | None]]:
    """Open the serial line of a running board, or of a firmware started for this.

    Also yield a function that raises when the firmware has ended, and the firmware's ELF file if
    known.
    """
    if args.port is not None and args.probe is None and args.runner is None:
        if args.models:
            raise InputError(
                "--port listens to a firmware that runs already, so it takes no MODEL",
                "drop --port or the models",
            )
        with open_line(args.port) as port:
            yield args.port, port, lambda: None, None
        return
    if args.board is None:
        raise InputError("monitor has no line to listen to", "give --port URL, or --board B")
    board = checked_board(args)
    libraries = compiled_for(args, board, console)
    firmware = build(libraries, board, workspace=args.workspace)
    with console.progress_fraction(f"programming {board.name}") as progress:
        connection = Connection(args.probe, args.port, board.is_over_rtt, progress)
        with start(board, firmware, args.runner, connection) as running:
            if running.line is not None:
                yield running.url, running.line, running.alive, firmware.elf
                return
            with open_line(running.url) as port:
                yield running.url, port, running.alive, firmware.elf


def monitor_command(args: argparse.Namespace, console: Console) -> int:
    """Print the board's output until Ctrl-C or the end of --seconds."""
    heard: list[HeardLine] = []
    with _line(args, console) as (url, port, alive, elf):
        console.log(f"listening to {url}; Ctrl-C ends it")
        try:
            for seconds, line in listen(port, args.seconds, alive, elf):
                heard.append(HeardLine(round(seconds, 3), line.kind, line.text))
                if not console.as_json:
                    console.line(f"{seconds:9.3f} {line.kind:5} {line.text}")
        except KeyboardInterrupt:
            # The lines printed so far are the result.
            if console.as_json:
                console.result(MonitorEntry(args.board, tuple(heard)), "")
            raise
    if console.as_json:
        console.result(MonitorEntry(args.board, tuple(heard)), "")
    return 0
