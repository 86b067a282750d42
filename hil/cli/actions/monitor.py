"""What ``hil monitor`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from hil.access import start
from hil.access.port import Port
from hil.board import load_board
from hil.board.bench import is_of_bench
from hil.board.line import DEFAULT_LINE
from hil.cli.arguments import checked_board, compiled_for, connection_of
from hil.cli.console import Console
from hil.cli.monitor import listen
from hil.cli.transcript import Transcript
from hil.errors import InputError
from hil.firmware.build import build
from hil.link.line import Line
from hil.results.run import MonitorEntry


@contextmanager
def _line(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[str, Line, Callable[[], None], Path | None]]:
    """Open the serial line of a running board, or of a firmware started for this.

    Also yield a function that raises when the firmware has ended, and the firmware's ELF file if
    known.
    """
    # The file of a bench has the port of a board that runs already, beside what programs it.
    of_bench = args.board is not None and is_of_bench(args.board) and not args.models
    if args.port is not None and (of_bench or (args.probe is None and args.runner is None)):
        if args.models:
            raise InputError(
                "--port listens to a firmware that runs already, so it takes no MODEL",
                "drop --port or the models",
            )
        settings = load_board(args.board).line if args.board is not None else DEFAULT_LINE
        if args.baud is not None:
            settings = replace(settings, baud=args.baud)
        with closing(Port(args.port, settings, args.wait or 0.0)) as port:
            yield args.port, port, lambda: None, None
        return
    given = [flag for flag in ("baud", "reconnect") if getattr(args, flag)]
    if given:
        raise InputError(
            f"--{given[0]} is for a port whose firmware runs already",
            "give --port without --probe and --runner",
        )
    if args.board is None:
        raise InputError("monitor has no line to listen to", "give --port URL, or --board B")
    board = checked_board(args)
    libraries = compiled_for(args, board, console)
    firmware = build(libraries, board, workspace=args.workspace)
    with console.progress_fraction(f"programming {board.name}") as progress:
        connection = replace(connection_of(args, board), progress=progress)
        with start(board, firmware, args.runner, connection) as running:
            if running.line is not None:
                yield running.url, running.line, running.alive, firmware.elf
                return
            with closing(Port(running.url, board.line)) as port:
                yield running.url, port, running.alive, firmware.elf


def monitor_command(args: argparse.Namespace, console: Console) -> int:
    """Print the board's output until Ctrl-C or the end of --seconds."""
    with (
        Transcript(args, console) as transcript,
        _line(args, console) as (url, port, alive, elf),
    ):
        console.log(f"listening to {url}; Ctrl-C ends it")
        try:
            transcript.follow(listen(port, args.seconds, alive, elf, reconnects=args.reconnect))
        except KeyboardInterrupt:
            # The lines heard so far are the result.
            if console.as_json:
                console.result(MonitorEntry(args.board, tuple(transcript.lines)), "")
            raise
    if console.as_json:
        console.result(MonitorEntry(args.board, tuple(transcript.lines)), "")
    return 0
