"""Output of commands: data on stdout, logs and progress on stderr.

Colours are for terminals only, and are off with ``NO_COLOR`` (no-color.org).
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from hil.support.numbers import json_number

if TYPE_CHECKING:
    from hil.cli.reports import Outcome, ReportFormat
    from hilc.errors import HilError
    from hilc.ir import Array

T = TypeVar("T")

#: What a text says of what it tells, as a colour.
Mood = Literal["good", "bad", "odd"]
_SGR: Mapping[Mood, str] = {"good": "32", "bad": "1;31", "odd": "33"}
#: A name that is longer is shown by its end.
_NAME_WIDTH = 60

#: Colours, which are ours and harmless in any case; what else a terminal obeys or hides: control
#: characters but the line feed and the tab, and marks that turn the direction of text around.
_OBEYED = re.compile(
    r"(\x1b\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    """``text`` with what would steer a terminal written out: boards and files are not trusted."""
    return _OBEYED.sub(
        lambda match: match[1] or match[0].encode("unicode_escape").decode("ascii"), text
    )


class Console:
    """One command's output; with ``as_json`` stdout carries exactly one JSON object.

    ``quiet`` leaves of stderr what went wrong, or may have.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        #: How outcomes are written (:mod:`hil.cli.reports`); chosen with the command line.
        self.format: ReportFormat | None = None
        #: Whether the one JSON object is on stdout.
        self.has_result = False

    @contextmanager
    def listening(self, verbosity: int) -> Iterator[None]:
        """Show what the harness logs, and its warnings, while the context lasts.

        With a ``verbosity`` also what is going on: what is started, and how long it takes.
        """
        from hil.errors import HilWarning

        level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
        logger = logging.getLogger("hil")
        handler = _LogHandler(self)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(level)

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HilWarning):
                self.warn(str(message))
            else:
                shown_before(message, category, filename, lineno, file, line)

        with warnings.catch_warnings():
            warnings.simplefilter("always", HilWarning)
            shown_before = warnings.showwarning
            warnings.showwarning = show
            try:
                yield
            finally:
                logger.removeHandler(handler)
                logger.setLevel(before)

    def result(self, data: Mapping[str, Any], text: str) -> None:
        """Print the command's result in the requested format. Called once."""
        if self.as_json:
            text = json.dumps(data, indent=2, allow_nan=False)
        self.has_result = True
        self.line(text.removesuffix("\n"))

    def outcome(self, outcome: Outcome) -> None:
        """Write what the command found in the format that was chosen; called once."""
        assert self.format is not None, "commands with outcomes have formats"
        self.has_result = True
        self.line(self.format.write([outcome]).removesuffix("\n"))

    def line(self, text: str) -> None:
        """Print a line of incremental output on stdout."""
        # A file's name may have what the encoding of stdout has not.
        encoding = sys.stdout.encoding or "utf-8"
        text = visible(text).encode(encoding, "backslashreplace").decode(encoding)
        with printing():
            print(text, flush=True)

    def log(self, text: str) -> None:
        """Print a remark on what is being done."""
        if not self.quiet:
            self._say(text)

    def warn(self, text: str) -> None:
        """Print a warning: nothing failed, and the user should know it."""
        self._say(f"{coloured('warning:', 'odd', sys.stderr)} {text}")

    def error(self, error: HilError, where: str = "") -> None:
        """Print a failure on stderr; ``where`` names its source if there are several."""
        at = f"{where}: " if where else ""
        self._say(f"{coloured('error:', 'bad', sys.stderr)} {at}{error}")

    def _say(self, text: str) -> None:
        # A failure to print the error must not end the work.
        with suppress(OSError):
            print(visible(text), file=sys.stderr, flush=True)

    def progress(self, items: Sequence[T], what: str) -> Iterable[T]:
        """Return the items, with a progress bar when stderr is a terminal."""
        if not self._shows_progress():
            return items
        from tqdm import tqdm

        bar: Iterable[T] = tqdm(items, desc=what, file=sys.stderr, leave=False)
        return bar

    @contextmanager
    def part_done(self, what: str) -> Iterator[Callable[[float], None] | None]:
        """Return a function that shows progress, given the fraction done, 0 to 1; None without a
        terminal.
        """
        layout = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}"
        with self._bar(total=1.0, desc=what, bar_format=layout) as bar:

            def show(done: float) -> None:
                bar().update(done - bar().n)
                if done >= 1:
                    bar().close()

            yield show if self._shows_progress() else None

    @contextmanager
    def counting(self, what: str, unit: str) -> Iterator[Callable[[], None] | None]:
        """Return a function that counts one item of an unknown number; None without a terminal."""
        layout = "{desc}: {n_fmt} {unit}, {elapsed}"
        with self._bar(desc=what, unit=unit, bar_format=layout) as bar:
            yield (lambda: bar().update()) if self._shows_progress() else None

    @contextmanager
    def _bar(self, **options: Any) -> Iterator[Callable[[], Any]]:
        """Return a function that makes a progress bar when it is first called: no work, no bar."""

        @functools.cache
        def bar() -> Any:
            from tqdm import tqdm

            made = tqdm(file=sys.stderr, leave=False, **options)
            stack.callback(made.close)
            return made

        with ExitStack() as stack:
            yield bar

    def _shows_progress(self) -> bool:
        return not self.quiet and sys.stderr.isatty()


class _LogHandler(logging.Handler):
    """Handler that prints log records on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        show = self._console.warn if record.levelno >= logging.WARNING else self._console.log
        show(record.getMessage())


class PartConsole(Console):
    """The output of a command on one of several boards, whose outcomes are written together."""

    def __init__(self, whole: Console, after: PartConsole | None = None) -> None:
        super().__init__(whole.as_json, whole.quiet)
        self.format = whole.format
        #: What the command found.
        self.found: Outcome | None = None
        self._after = after

    def outcome(self, outcome: Outcome) -> None:
        """Keep it, and write it at once where the format can: the next board may take long."""
        self.found = outcome
        assert self.format is not None, "commands with outcomes have formats"
        if self.format.one_by_one:
            if self._after is not None and self._after.has_result:
                self.line("")
            super().outcome(outcome)


def coloured(text: str, mood: Mood, stream: TextIO) -> str:
    """``text`` with the colour of ``mood`` where ``stream`` shows colours."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not stream.isatty():
        return text
    return f"\x1b[{_SGR[mood]}m{text}\x1b[0m"


@contextmanager
def printing() -> Iterator[None]:
    """Turn a failure of standard output into an error for the user, once.

    A reader that went away stays a BrokenPipeError, which is no failure of anybody's.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        raise
    except OSError as error:
        _silence_stdout()
        from hilc.support.outputs import cannot_write

        raise cannot_write("standard output", error, "send it to another file") from None


def _silence_stdout() -> None:
    """Python flushes what is left once more at its end: give that somewhere to go."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def open_closed_streams() -> None:
    """Replace closed streams: Python sets them to None, which would cause one more traceback."""
    if sys.stdout is None:
        # Writing to it fails as it does for every other program: a bad file descriptor.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """Columns as wide as needed; a column of numbers is right-aligned."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float | None) for row in rows)
        for i in range(len(header))
    ]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def shown_name(name: str) -> str:
    """Return the name of a layer or its tensor in a text: the same one in all commands.

    A converter joins the names of all that it fused with ``;``: the first is that of the result.
    """
    first = name.partition(";")[0]
    return first if len(first) <= _NAME_WIDTH else f"...{first[-_NAME_WIDTH:]}"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def arrays_json(arrays: Mapping[str, Array]) -> list[Mapping[str, Any]]:
    """Arrays by name, as the objects of a result's ``outputs``."""
    return [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            "values": [json_number(value) for value in array.ravel().tolist()],
        }
        for name, array in arrays.items()
    ]


def error_json(error: HilError) -> dict[str, Any]:
    """Return an error as a result has it."""
    return {
        "message": error.fact,
        "hint": error.hint,
        "class": error.kind,
        "exit_code": error.exit_code,
    }


def several(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One JSON object for the results of an image's models: of one model, its result."""
    return results[0] if len(results) == 1 else {"models": list(results)}
