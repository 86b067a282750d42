"""What ``hil run --elf`` does: start firmware that hil did not build, and show its console."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from hil.access import start
from hil.access.connection import Connection
from hil.board import Board, load_board
from hil.cli.arguments import checked_board, connection_of
from hil.cli.console import Console
from hil.cli.images import is_elf
from hil.cli.monitor import Line, Port, listen
from hil.cli.render import flashed_text
from hil.cli.transcript import Transcript
from hil.device.deploy import ElfImage
from hil.errors import InputError
from hil.firmware.image import check_image
from hil.results.run import ElfRunEntry

#: How long a port that comes with the firmware is awaited.
_APPEAR_S = 10.0
#: Options of inferences.
_NOT_HERE = ("input", "output", "quantize_inputs", "transport", "bulk", "include_dir", "source")


def run_elf_command(args: argparse.Namespace, console: Console) -> int:
    """Start the firmware, and print its output until --timeout, a match of --expect, or its end.

    Return 1 if no line contained the expression of --expect.
    """
    elf, pattern = _checked(args)
    described = load_board(args.board)
    if args.port is not None and args.probe is None and args.runner is None and described.flashers:
        args.runner = described.flashers[0]  # a port alone would mean firmware that runs already
    board = checked_board(args)
    if not board.is_host:
        check_image(board, elf)
    matched = False

    def result(code: int) -> None:
        entry = ElfRunEntry(
            board=board.name,
            elf=str(elf),
            lines=tuple(transcript.lines),
            expect=args.expect,
            matched=matched if pattern is not None else None,
        )
        console.result(entry, "", exit_code=code)

    with Transcript(args, console) as transcript, _listening(args, board, elf, console) as heard:
        try:
            for seconds, line in heard:
                transcript.add(seconds, line)
                if pattern is not None and pattern.search(line.text):
                    matched = True
                    break
        except KeyboardInterrupt:
            # The lines heard so far are the result.
            if console.as_json:
                result(0)
            raise
    code = 1 if pattern is not None and not matched else 0
    if console.as_json:
        result(code)
    if code:
        console.warn(f"no line contained {args.expect!r}")
    return code


def _checked(args: argparse.Namespace) -> tuple[Path, re.Pattern[str] | None]:
    """Return the ELF file and the expression; raise InputError for options that contradict them."""
    if args.models:
        raise InputError("--elf is given with a model", f"drop --elf or {args.models[0]}")
    for name in _NOT_HERE:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} does not apply to --elf", f"drop {option}")
    if not Path(args.elf).exists():
        raise InputError(f"{args.elf} does not exist", "give the firmware that your linker wrote")
    if not is_elf(Path(args.elf)):
        raise InputError(f"{args.elf} is no ELF file", "give the firmware that your linker wrote")
    try:
        pattern = None if args.expect is None else re.compile(args.expect)
    except re.error as error:
        raise InputError(
            f"--expect {args.expect!r} is no regular expression: {error}",
            "write it as Python's re has it; \\ before a character takes it as it is",
        ) from None
    return Path(args.elf), pattern


@contextmanager
def _listening(
    args: argparse.Namespace, board: Board, elf: Path, console: Console
) -> Iterator[Iterator[tuple[float, Line]]]:
    """Start the firmware; yield what it says."""
    with console.progress_fraction(f"programming {board.name}") as progress:
        connection: Connection = replace(
            connection_of(args, board),
            is_foreign=True,
            progress=progress,
            flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
        )
        with start(board, ElfImage(elf), args.runner, connection) as running:
            console.log(f"{board.name} runs {elf}; Ctrl-C ends it")
            if running.line is not None:
                yield listen(running.line, args.timeout, running.alive, elf)
                return
            # The port of a board that is its own USB device comes with the firmware, and again
            # after each reset.
            wait_s = 0.0 if running.is_emulated else _APPEAR_S
            with closing(Port(running.url, board.line, wait_s)) as port:
                is_real = not (running.is_emulated or board.is_host)
                yield listen(port, args.timeout, running.alive, elf, reconnects=is_real)
