"""A file with everything that a console received and sent."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal

from hil.support.escape import escaped
from hilc.support.outputs import cannot_write

_MARKS = {"received": "<", "sent": ">"}


class ConsoleLog:
    """A log of a console: a line of text each, with the time and its direction."""

    def __init__(self, path: Path) -> None:
        """Begin the file; raise :class:`~hil.errors.InputError` if it cannot be written."""
        self._path = path
        #: The line of each direction that has not ended, and when it began.
        self._open: dict[str, tuple[str, bytes]] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise cannot_write(path, error) from None

    def __enter__(self) -> ConsoleLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, direction: Literal["received", "sent"], data: bytes) -> None:
        """Add bytes of a direction; raise :class:`~hil.errors.InputError` if the disk is full."""
        now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        since, rest = self._open.pop(direction, (now, b""))
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            self._write(since, direction, line)
            since = now
        if len(rest) >= _MOST_LINE:
            self._write(since, direction, rest)
        elif rest:
            self._open[direction] = since, rest

    def note(self, text: str) -> None:
        """Add a line of the harness's own, such as a reset."""
        now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._put(f"{now} # {text}\n")

    def close(self) -> None:
        """Write the lines that have not ended, and close the file."""
        try:
            for direction, (since, rest) in self._open.items():
                self._write(since, direction, rest)
        finally:
            self._open.clear()
            self._closed()

    def _closed(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise cannot_write(self._path, error) from None

    def _write(self, since: str, direction: str, line: bytes) -> None:
        text = escaped(line.rstrip(b"\r").decode("utf-8", "backslashreplace"), colours=False)
        self._put(f"{since} {_MARKS[direction]} {text}\n")

    def _put(self, line: str) -> None:
        try:
            self._file.write(line)
            self._file.flush()  # the reader may be another program
        except OSError as error:
            raise cannot_write(self._path, error) from None


#: Bytes of a line that are kept until it ends: a firmware may print none.
_MOST_LINE = 1 << 16
