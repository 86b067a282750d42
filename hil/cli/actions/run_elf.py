"""What ``hil run --elf`` does: start firmware that hil did not build, and show its console."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hil.board import Board
from hil.cli.arguments import board_of, connection_of
from hil.cli.console import Console
from hil.cli.monitor import Line, listen
from hil.cli.render import flashed_text
from hil.cli.transcript import Transcript
from hil.device.elf import check_elf, started
from hil.device.gcov import CoverageReader
from hil.errors import InputError
from hil.results.run import ElfRunEntry

#: Options of inferences.
_NOT_HERE = ("input", "output", "quantize_inputs", "transport", "bulk", "include_dir", "source")


def run_elf_command(args: argparse.Namespace, console: Console) -> int:
    """Start the firmware, and print its output until --timeout, its end, or all that --expect and
    --coverage await.

    Return 1 if no line contained the expression of --expect, or the counters of --coverage did not
    arrive.
    """
    elf, pattern = _checked(args)
    board = board_of(args)
    matched = False
    coverage = None if args.coverage is None else CoverageReader(elf=elf)
    files: list[Path] = []

    def result(code: int) -> None:
        entry = ElfRunEntry(
            board=board.name,
            elf=str(elf),
            lines=tuple(transcript.lines),
            expect=args.expect,
            matched=matched if pattern is not None else None,
            coverage=None if coverage is None else tuple(map(str, files)),
        )
        console.result(entry, "", exit_code=code)

    with Transcript(args, console) as transcript, _listening(args, board, elf, console) as heard:
        try:
            for seconds, line in heard:
                transcript.add(seconds, line)
                matched = matched or (pattern is not None and bool(pattern.search(line.text)))
                if coverage is not None:
                    coverage.feed(line.text)
                if _has_all(None if pattern is None else matched, coverage):
                    break
        except KeyboardInterrupt:
            # The lines heard so far are the result.
            if console.as_json:
                result(0)
            raise
    lacks_text = pattern is not None and not matched
    lacks_counters = coverage is not None and not coverage.is_complete
    if coverage is not None and coverage.is_complete:
        files = coverage.save(args.coverage)
    code = 1 if lacks_text or lacks_counters else 0
    if console.as_json:
        result(code)
    if lacks_text:
        console.warn(f"no line contained {args.expect!r}")
    if lacks_counters:
        console.warn("the counters of --coverage did not arrive: call hil_gcov_dump (hil_gcov.h)")
    return code


def _has_all(matched: bool | None, coverage: CoverageReader | None) -> bool:
    """Return whether all that options await has arrived; False where none awaits anything."""
    awaited = [matched, None if coverage is None else coverage.is_complete]
    return any(awaited) and False not in awaited


def _checked(args: argparse.Namespace) -> tuple[Path, re.Pattern[str] | None]:
    """Return the ELF file and the expression; raise InputError for options that contradict them."""
    if args.models:
        raise InputError("--elf is given with a model", f"drop --elf or {args.models[0]}")
    for name in _NOT_HERE:
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} does not apply to --elf", f"drop {option}")
    elf = check_elf(args.elf)
    try:
        pattern = None if args.expect is None else re.compile(args.expect)
    except re.error as error:
        raise InputError(
            f"--expect {args.expect!r} is no regular expression: {error}",
            "write it as Python's re has it; \\ before a character takes it as it is",
        ) from None
    return elf, pattern


@contextmanager
def _listening(
    args: argparse.Namespace, board: Board, elf: Path, console: Console
) -> Iterator[Iterator[tuple[float, Line]]]:
    """Start the firmware; yield what it says."""
    with console.progress_fraction(f"programming {board.name}") as progress:
        connection = replace(
            connection_of(args, board),
            progress=progress,
            flashed=lambda done: console.log(f"{board.name}: {flashed_text(done)}"),
        )
        with started(board, elf, args.runner, connection) as device:
            console.log(f"{board.name} runs {elf}; Ctrl-C ends it")
            reconnects = device.is_real
            yield listen(device.line, args.timeout, device.alive, elf, reconnects=reconnects)
