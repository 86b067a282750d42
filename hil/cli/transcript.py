"""Output of a board as lines on the terminal, in a file and in JSON."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from hil.errors import InputError
from hil.results.run import HeardLine
from hilc.support.outputs import cannot_write

if TYPE_CHECKING:
    import argparse

    from hil.cli.console import Console
    from hil.cli.monitor import Line


class Transcript:
    """Prints each line that a board said, appends it to ``--log``, and keeps it for JSON."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        """Open the log; raise :class:`~hil.errors.InputError` if it cannot be written."""
        self._console = console
        self._has_timestamps = args.timestamps
        self._held = ExitStack()
        self._log: TextIO | None = None
        self.lines: list[HeardLine] = []
        if args.log is not None:
            try:
                file = open(args.log, "a", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
            except OSError as error:
                raise InputError(cannot_write(args.log, error).fact, "give another --log") from None
            self._log = self._held.enter_context(file)

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._held.close()

    def add(self, seconds: float, line: Line) -> None:
        """Add a line that was heard so long after the start."""
        time = None
        if self._has_timestamps:
            time = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.lines.append(HeardLine(round(seconds, 3), line.kind, line.text, time))
        text = f"{time or f'{seconds:9.3f}'} {line.kind:5} {line.text}"
        if self._log is not None:
            self._log.write(f"{text}\n")
            self._log.flush()  # the reader may be another program
        if not self._console.as_json:
            self._console.line(text)

    def follow(self, heard: Iterable[tuple[float, Line]]) -> None:
        """Add all lines that are heard."""
        for seconds, line in heard:
            self.add(seconds, line)
