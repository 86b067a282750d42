"""A file with everything that a console received and sent."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from hil.support.escape import escaped
from hilc.support.outputs import cannot_write

#: Characters that a log takes, of a firmware that never stops printing too.
MOST_CHARACTERS: Final = 1 << 26
_MARKS = {"received": "<", "sent": ">"}


class ConsoleLog:
    """A log of a console: a line of text each, with the time and its direction."""

    def __init__(self, path: Path) -> None:
        """Begin the file; raise :class:`~hil.errors.InputError` if it cannot be written."""
        self._path = path
        self._is_broken = False
        self._size = 0
        #: The line that has not ended: its direction, when it began, and its bytes.
        self._begun: tuple[Literal["received", "sent"], str, bytes] | None = None
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
        now = _now()
        if self._begun is not None and self._begun[0] != direction:
            self._end_line()
        since, rest = self._begun[1:] if self._begun is not None else (now, b"")
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            self._write(since, direction, line)
            since = now
        self._begun = (direction, since, rest) if rest else None
        if len(rest) >= _MOST_LINE:
            self._end_line()

    def note(self, text: str) -> None:
        """Add a line of the harness's own, such as a reset."""
        self._end_line()
        self._put(f"{_now()} # {text}\n")

    def close(self) -> None:
        """Write the line that has not ended, and close the file."""
        try:
            self._end_line()
        finally:
            self._closed()

    def _end_line(self) -> None:
        if self._begun is not None:
            direction, since, rest = self._begun
            self._begun = None
            self._write(since, direction, rest)

    def _closed(self) -> None:
        try:
            self._file.close()  # writes what an earlier error left
        except OSError as error:
            if not self._is_broken:
                raise cannot_write(self._path, error) from None

    def _write(self, since: str, direction: str, line: bytes) -> None:
        text = escaped(line.rstrip(b"\r").decode("utf-8", "backslashreplace"), colours=False)
        self._put(f"{since} {_MARKS[direction]} {text}\n")

    def _put(self, line: str) -> None:
        if self._is_broken or self._size > MOST_CHARACTERS:
            return  # the test has failed by it, or the log says that it is full
        self._size += len(line)
        if self._size > MOST_CHARACTERS:
            line = f"{_now()} # the log ends here: it has {MOST_CHARACTERS} characters\n"
        try:
            self._file.write(line)
            self._file.flush()  # the reader may be another program
        except OSError as error:
            self._is_broken = True
            raise cannot_write(self._path, error) from None


#: Bytes of a line that are kept until it ends: a firmware may print none.
_MOST_LINE = 1 << 16


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
